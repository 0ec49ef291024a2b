//! Marks: positions in key order from which rows can be decoded, one in every few rows.
//!
//! A row alone does not tell where the preceding one begins, nor the prefix of its key. The marks
//! of a table record both for some rows; they are built once, by reading all rows, when the first
//! cursor needs them, and shared.
//!
//! In bytewise order all keys share the common prefix of the first and the last one; the eight
//! bytes after it are stored with each mark as a number, so that a search reads few rows.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;

use koeldb_base::comparator::first_bytes;
use koeldb_base::{KeyOrder, Result};

use super::format::{Base, Row, Rows};

/// The number of rows from one mark to the next; a mark takes 16 bytes.
const ROWS_PER_MARK: usize = 16;

/// A row offset at which decoding can start, with the decoding state it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The start of the row.
    pub(crate) at: u32,
    /// The decoding state before the row.
    pub(crate) base: Base,
}

impl Mark {
    /// The mark of the first row of a table.
    pub(crate) const FIRST: Mark = Mark {
        at: 0,
        base: Base::NONE,
    };
}

/// Every 16th row of a table, as starting points for searches and backward moves.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    marks: Vec<Mark>,
    row_count: usize,
    /// The common prefix of all keys.
    common: Vec<u8>,
    /// The first bytes after the common prefix of each mark's key; empty in orders other than
    /// bytewise.
    heads: Vec<u64>,
}

impl Marks {
    /// Adds the next row of the table; one in [`ROWS_PER_MARK`] becomes a mark.
    pub(crate) fn add(&mut self, mark: Mark) {
        if self.row_count.is_multiple_of(ROWS_PER_MARK) {
            self.marks.push(mark);
        }
        self.row_count = self.row_count.saturating_add(1);
    }

    /// Prepares searches after the last row was added: finds the common prefix of all keys.
    pub(crate) fn finish(&mut self, rows: Rows<'_>, order: &KeyOrder) -> Result<()> {
        let (true, Some(&first), Some(&last)) =
            (order.is_bytewise(), self.marks.first(), self.marks.last())
        else {
            return Ok(());
        };
        let mut scratch = Vec::new();
        let mut end = last;
        while end.at < rows.end() {
            let row = rows.row(end.at, &mut end.base)?;
            row.user_key(&mut scratch).clone_into(&mut self.common);
            end.at = row.next;
        }
        let first = rows.row(first.at, &mut Base::NONE.clone())?;
        let shared = first
            .user_key(&mut scratch)
            .iter()
            .zip(&self.common)
            .take_while(|(a, b)| a == b)
            .count();
        self.common.truncate(shared);
        for mark in &self.marks {
            let row = rows.row(mark.at, &mut mark.base.clone())?;
            let key = row.user_key(&mut scratch);
            self.heads
                .push(first_bytes(key.get(shared..).unwrap_or_default()));
        }
        Ok(())
    }

    /// Returns the last mark at or before an internal key, or else the first; `None` without rows.
    ///
    /// `None` if there are no rows.
    pub(crate) fn before_key(
        &self,
        rows: Rows<'_>,
        order: &KeyOrder,
        user_key: &[u8],
        footer: u64,
    ) -> Result<Option<Mark>> {
        self.before_key_by(user_key, |mut mark| {
            let row: Row<'_> = rows.row(mark.at, &mut mark.base)?;
            Ok(row.compare(order, user_key, footer))
        })
    }

    /// Implements [`Marks::before_key`]; `compare` compares a mark's row with the internal key.
    #[inline]
    pub(crate) fn before_key_by<E>(
        &self,
        user_key: &[u8],
        mut compare: impl FnMut(Mark) -> Result<Ordering, E>,
    ) -> Result<Option<Mark>, E> {
        // All marks before `low` are before the key, all from `high` on are not.
        let (mut low, mut high) = match user_key.strip_prefix(self.common.as_slice()) {
            Some(rest) if !self.heads.is_empty() => {
                let wanted = first_bytes(rest);
                let low = self.heads.partition_point(|&head| head < wanted);
                let equal = self.heads.get(low..).unwrap_or_default();
                let equal = match equal.first() {
                    Some(&first) if first == wanted => {
                        equal.partition_point(|&head| head == wanted)
                    }
                    _ => 0,
                };
                (low, low.saturating_add(equal))
            }
            _ => (0, self.marks.len()),
        };
        while low < high {
            let mid = low.midpoint(high);
            let Some(mark) = self.marks.get(mid).copied() else {
                break;
            };
            if compare(mark)?.is_le() {
                low = mid.saturating_add(1);
            } else {
                high = mid;
            }
        }
        Ok(self.marks.get(low.saturating_sub(1)).copied())
    }

    /// Returns the last decoding start (one in 16 rows) before row offset `at`; `None` if none.
    pub(crate) fn before_offset(&self, at: u32) -> Option<Mark> {
        let index = self.marks.partition_point(|mark| mark.at < at);
        self.marks.get(index.checked_sub(1)?).copied()
    }

    /// The heap memory of the marks.
    pub(crate) fn memory_bytes(&self) -> usize {
        let marks = self.marks.capacity().saturating_mul(size_of::<Mark>());
        marks.saturating_add(self.heads.capacity().saturating_mul(size_of::<u64>()))
    }
}
