//! Places in the rows of a table from which they can be read: one in every few rows, in the order of the keys.
//!
//! A row alone does not say where the one before it begins, nor what its key begins with. The marks of a table
//! say both of some rows; they are made once, by reading all rows, when the first cursor needs them, and shared.
//!
//! In bytewise order all keys begin with what the first and the last one have in common; the eight bytes behind that
//! stand beside each mark as a number, so that a search reads few rows.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;

use koeldb_base::comparator::first_bytes;
use koeldb_base::{KeyOrder, Result};

use super::format::{Base, Row, Rows};

/// The rows from one mark to the next: a mark takes 16 bytes.
const ROWS_PER_MARK: usize = 16;

/// A place that a row can be read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Where the row begins.
    pub(crate) at: u32,
    /// What is known there.
    pub(crate) base: Base,
}

impl Mark {
    /// The first row of a table.
    pub(crate) const FIRST: Mark = Mark {
        at: 0,
        base: Base::NONE,
    };
}

/// The marks of a table, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    marks: Vec<Mark>,
    row_count: usize,
    /// What all keys begin with.
    common: Vec<u8>,
    /// The bytes behind that, of the key of each mark; empty in other orders than the bytewise one.
    heads: Vec<u64>,
}

impl Marks {
    /// Notes the next row.
    pub(crate) fn add(&mut self, mark: Mark) {
        if self.row_count.is_multiple_of(ROWS_PER_MARK) {
            self.marks.push(mark);
        }
        self.row_count = self.row_count.saturating_add(1);
    }

    /// Notes how the keys begin, after the last row.
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

    /// The last mark at or before the internal key of `user_key` and `footer`, or the first one. `None` if there
    /// are no rows.
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

    /// The same, where `compare` tells how the row at a mark compares with the internal key.
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

    /// The last mark before the offset `at`; `None` if there is none.
    pub(crate) fn before_offset(&self, at: u32) -> Option<Mark> {
        let index = self.marks.partition_point(|mark| mark.at < at);
        self.marks.get(index.checked_sub(1)?).copied()
    }

    /// The heap memory they take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let marks = self.marks.capacity().saturating_mul(size_of::<Mark>());
        marks.saturating_add(self.heads.capacity().saturating_mul(size_of::<u64>()))
    }
}
