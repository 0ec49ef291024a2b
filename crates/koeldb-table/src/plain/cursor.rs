//! Scans of a plain table.
//!
//! Rows are contiguous, so a forward scan reads one after the other. A backward scan reads the rows
//! from a mark up to its position, records their positions, and goes back along these. A seek uses
//! the index if the index is sorted, or if the caller stays within a prefix; otherwise it uses the
//! marks.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use koeldb_base::key::footer_of;
use koeldb_base::{PinnedSlice, Result};

use super::bloom::hash;
use super::format::{Base, Row};
use super::marks::Mark;
use super::reader::{Found, PlainTableReader};
use crate::block::ValueRange;
use crate::read_context::TableCursorOptions;

/// The row at which a cursor is, with the state for decoding the next one.
#[derive(Clone, Copy, Debug)]
struct RowPosition {
    /// The start of the current row.
    at: u32,
    /// The start of the next row.
    next: u32,
    /// The decoding state after the row.
    base: Base,
    /// The position of the stored internal key; `None` if it is assembled in the cursor.
    key: Option<(u32, u32)>,
    value: ValueRange,
}

/// A cursor over the rows of a plain table in memory, which never suspends.
#[derive(Debug)]
pub struct PlainCursor {
    reader: Arc<PlainTableReader>,
    /// Whether only keys with the target's prefix matter.
    in_prefix: bool,
    position: Option<RowPosition>,
    key: Vec<u8>,
    /// The positions of the rows before the current one, back to a mark; may be empty.
    behind: Vec<Mark>,
}

impl PlainCursor {
    /// Creates an unpositioned cursor.
    pub(crate) fn new(reader: Arc<PlainTableReader>, options: &TableCursorOptions) -> Self {
        PlainCursor {
            in_prefix: options.filters_by(reader.prefix_extractor.as_ref()),
            reader,
            position: None,
            key: Vec::new(),
            behind: Vec::new(),
        }
    }

    /// Whether the cursor is positioned on a row.
    #[inline]
    #[must_use]
    pub(crate) fn valid(&self) -> bool {
        self.position.is_some()
    }

    /// Runs `step` to get the new position; invalidates the cursor if that fails.
    fn reposition(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<Option<RowPosition>>,
    ) -> Result<()> {
        match step(self) {
            Ok(position) => {
                self.position = position;
                Ok(())
            }
            Err(error) => {
                self.position = None;
                self.behind.clear();
                Err(self.reader.in_file(error))
            }
        }
    }

    /// Decodes the row at `mark`; `None` at the end of the rows.
    #[inline]
    fn read(&mut self, mark: Mark) -> Result<Option<RowPosition>> {
        let rows = self.reader.rows();
        if mark.at >= rows.end() {
            return Ok(None);
        }
        let mut base = mark.base;
        let row = rows.row(mark.at, &mut base)?;
        Ok(Some(place_of(&mut self.key, &row, base)))
    }

    /// Moves to the first row.
    ///
    /// # Errors
    /// `Corruption` if rows are damaged. This applies to all movements.
    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        self.behind.clear();
        self.reposition(|cursor| cursor.read(Mark::FIRST))
    }

    /// Moves to the next row. The cursor must be valid.
    ///
    /// # Errors
    /// See [`PlainCursor::seek_to_first`].
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        self.behind.clear();
        self.reposition(|cursor| match cursor.position {
            Some(position) => cursor.read(Mark {
                at: position.next,
                base: position.base,
            }),
            None => Ok(None),
        })
    }

    /// Moves to the last row.
    ///
    /// # Errors
    /// See [`PlainCursor::seek_to_first`].
    pub(crate) fn seek_to_last(&mut self) -> Result<()> {
        self.behind.clear();
        let end = self.reader.rows().end();
        self.reposition(|cursor| cursor.before(end))
    }

    /// Moves to the previous row. The cursor must be valid.
    ///
    /// # Errors
    /// See [`PlainCursor::seek_to_first`].
    pub(crate) fn prev(&mut self) -> Result<()> {
        self.reposition(|cursor| match cursor.position {
            Some(position) => cursor.before(position.at),
            None => Ok(None),
        })
    }

    /// Reads the row before the one at offset `at`; `None` if that is the first.
    fn before(&mut self, at: u32) -> Result<Option<RowPosition>> {
        if self.behind.is_empty() {
            self.gather(at)?;
        }
        match self.behind.pop() {
            Some(mark) => self.read(mark),
            None => Ok(None),
        }
    }

    /// Collects the rows from the last mark before offset `at` up to `at`, to move backward.
    fn gather(&mut self, at: u32) -> Result<()> {
        let rows = self.reader.rows();
        let Some(mut mark) = self.reader.marks()?.before_offset(at) else {
            return Ok(());
        };
        while mark.at < at {
            self.behind.push(mark);
            let row = rows.row(mark.at, &mut mark.base)?;
            mark.at = row.next;
        }
        Ok(())
    }

    /// Moves to the first row at or after the internal key `target`.
    ///
    /// # Errors
    /// See [`PlainCursor::seek_to_first`].
    pub(crate) fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.behind.clear();
        self.reposition(|cursor| cursor.find(target))
    }

    /// Finds the first row at or after the internal key `target`; `None` if there is none.
    fn find(&mut self, target: &[u8]) -> Result<Option<RowPosition>> {
        let reader = &*self.reader;
        let rows = reader.rows();
        let (user_key, footer) = footer_of(target);
        let Some((mut row, mut base)) = start(reader, self.in_prefix, target)? else {
            return Ok(None);
        };
        while row.compare(&reader.order, user_key, footer).is_lt() {
            if row.next >= rows.end() {
                return Ok(None);
            }
            row = rows.row(row.next, &mut base)?;
        }
        Ok(Some(place_of(&mut self.key, &row, base)))
    }

    /// Moves to the last row at or before the internal key `target`.
    ///
    /// # Errors
    /// See [`PlainCursor::seek_to_first`].
    pub(crate) fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        // The row before a prefix belongs to another prefix, so prefixes are of no use.
        let in_prefix = std::mem::take(&mut self.in_prefix);
        let sought = self.seek(target);
        self.in_prefix = in_prefix;
        sought?;
        match self.position {
            None => self.seek_to_last(),
            Some(_) => {
                let order = &self.reader.order;
                if order.compare_internal(self.key(), target).is_gt() {
                    self.prev()?;
                }
                Ok(())
            }
        }
    }

    /// The internal key. The cursor must be valid.
    #[inline]
    #[must_use]
    pub(crate) fn key(&self) -> &[u8] {
        match self.position.and_then(|position| position.key) {
            Some((start, len)) => self.stored(start, len),
            None => &self.key,
        }
    }

    /// The value. The cursor must be valid.
    #[inline]
    #[must_use]
    pub(crate) fn value(&self) -> &[u8] {
        match self.position {
            Some(RowPosition { value, .. }) => self.stored(value.start, value.len),
            None => &[],
        }
    }

    /// The value, pinned to outlive cursor and table. The cursor must be valid.
    #[must_use]
    pub(crate) fn pinned_value(&self) -> PinnedSlice {
        match self.position {
            Some(position) => self.reader.data.pin(position.value),
            None => PinnedSlice::default(),
        }
    }

    /// Returns a range of the table's rows; empty if it is out of range.
    #[inline]
    fn stored(&self, start: u32, len: u32) -> &[u8] {
        let start = start as usize;
        let end = start.saturating_add(len as usize);
        self.reader
            .data
            .as_slice()
            .get(start..end)
            .unwrap_or_default()
    }
}

/// Returns the cursor position on `row`; assembles the key in `key` if it is not stored whole.
#[inline]
fn place_of(key: &mut Vec<u8>, row: &Row<'_>, base: Base) -> RowPosition {
    let stored = row.stored_key();
    if stored.is_none() {
        row.key_into(key);
    }
    RowPosition {
        at: row.at,
        next: row.next,
        base,
        key: stored,
        value: row.value_range(),
    }
}

/// Finds a row from which a forward scan reaches `target`; `None` if no key can match.
fn start<'r>(
    reader: &'r PlainTableReader,
    in_prefix: bool,
    target: &[u8],
) -> Result<Option<Found<'r>>> {
    match (&reader.index, &reader.prefix_extractor) {
        (Some(index), None) => reader.row_before(index, target),
        (Some(index), Some(extractor)) if in_prefix => {
            let (user_key, _) = footer_of(target);
            let Some(prefix) = extractor.prefix(user_key) else {
                return reader.marked_row(target);
            };
            let hash = hash(prefix);
            if !reader.bloom_admits(|| hash) {
                return Ok(None);
            }
            reader.listed_row(index, hash, target, Some((&**extractor, prefix)))
        }
        _ => reader.marked_row(target),
    }
}
