//! Sorted copies of entry positions, and cursors over them, for representations without an order.

use std::cmp::Ordering;
use std::sync::Arc;

use koeldb_base::KeyOrder;

use super::entry::{Entry, Position};
use crate::arena::SharedArena;

/// A snapshot of the positions of entries, in order.
pub(super) type Sorted = Arc<[Position]>;

/// An unordered memtable representation, which provides sorted copies of its entries.
pub(crate) trait Sortable {
    /// The key order of the memtable.
    fn order(&self) -> &KeyOrder;

    /// The arena of the entries.
    fn arena(&self) -> &SharedArena;

    /// Returns the positions of all entries in key order, sorting them if needed.
    fn sorted(&self) -> Sorted;

    /// Compares the internal keys of two entries.
    fn compare(&self, a: Position, b: Position) -> Ordering {
        let key = |position: Position| position.entry(self.arena()).key();
        self.order().compare_internal(key(a), key(b))
    }

    /// Returns the index in `sorted` of the first entry at or after an internal key.
    fn lower_bound(&self, sorted: &[Position], internal_key: &[u8]) -> usize {
        sorted.partition_point(|position| {
            let key = position.entry(self.arena()).key();
            self.order().compare_internal(key, internal_key).is_lt()
        })
    }
}

/// A cursor over a sorted copy of the entries of a memtable representation.
pub(crate) struct SortedCursor<T> {
    table: Arc<T>,
    sorted: Sorted,
    /// The index of the current entry; the length if the cursor is not valid.
    index: usize,
}

impl<T: Sortable> SortedCursor<T> {
    /// Creates an unpositioned cursor over a sorted copy of the entries inserted so far.
    pub(super) fn new(table: Arc<T>) -> Self {
        let sorted = table.sorted();
        SortedCursor {
            index: sorted.len(),
            table,
            sorted,
        }
    }

    /// Takes a new sorted copy of all entries; the cursor is then unpositioned.
    pub(crate) fn refresh(&mut self) {
        self.sorted = self.table.sorted();
        self.index = self.sorted.len();
    }

    /// The current entry; `None` if the cursor is not valid.
    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        let position = self.sorted.get(self.index)?;
        Some(position.entry(self.table.arena()))
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.index = 0;
    }

    pub(crate) fn seek_to_last(&mut self) {
        self.index = self.sorted.len().saturating_sub(1);
    }

    pub(crate) fn seek(&mut self, internal_key: &[u8]) {
        self.index = self.table.lower_bound(&self.sorted, internal_key);
    }

    pub(crate) fn seek_for_prev(&mut self, internal_key: &[u8]) {
        let behind = self.sorted.partition_point(|position| {
            let key = position.entry(self.table.arena()).key();
            let order = self.table.order();
            order.compare_internal(key, internal_key).is_le()
        });
        self.index = behind.checked_sub(1).unwrap_or(self.sorted.len());
    }

    #[inline]
    pub(crate) fn next(&mut self) {
        self.index = self.sorted.len().min(self.index + 1);
    }

    pub(crate) fn prev(&mut self) {
        if self.index < self.sorted.len() {
            self.index = self.index.checked_sub(1).unwrap_or(self.sorted.len());
        }
    }
}
