//! Cuts the tables of a job where those of the level below begin and end.
//!
//! A table is later compacted with all tables below that share keys with it. If it ends inside one of
//! them, that one is rewritten twice: with this table, and with the next. So a table that has at least
//! half of its target size ends at a boundary of the level below, and may grow to twice that size to
//! reach one. Source: RocksDB, `db/compaction/compaction_outputs.cc`, `ShouldStopBefore`; 11.9.

use std::sync::Arc;

use koeldb_base::KeyOrder;

use crate::version::FileMeta;

/// The grandparent tables of a compaction, on the level below the output, with a position.
///
/// The position is that of the last key written.
pub(super) struct Grandparents<'a> {
    files: &'a [Arc<FileMeta>],
    order: KeyOrder,
    /// The table that the last key is inside of, or the first one behind it.
    next: usize,
    is_inside: bool,
    /// The boundaries that the current output table has crossed.
    crossed: u64,
    /// The bytes of the tables that the current output table shares keys with.
    overlapped_bytes: u64,
}

/// The size limits, in bytes, by which an output table is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableSizes {
    /// The size at which a table is cut if nothing is below.
    pub(super) target: u64,
    /// The limit of a table and the tables below that it overlaps.
    pub(super) max_overlap: u64,
}

/// The grandparent boundaries that lie between a key and the one written before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crossing {
    boundaries: u64,
    /// The bytes of the tables that begin in between.
    bytes: u64,
}

impl<'a> Grandparents<'a> {
    /// Creates a position before all of the grandparent `files`, which are in key order.
    pub(super) fn new(files: &'a [Arc<FileMeta>], order: KeyOrder) -> Self {
        Grandparents {
            files,
            order,
            next: 0,
            is_inside: false,
            crossed: 0,
            overlapped_bytes: 0,
        }
    }

    /// Whether there are no grandparent tables.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Advances to the next output key; returns the grandparent boundaries crossed on the way.
    pub(super) fn pass(&mut self, user_key: &[u8]) -> Crossing {
        let mut crossing = Crossing::default();
        while let Some(file) = self.files.get(self.next) {
            let bound = match self.is_inside {
                true => file.largest_user_key(),
                false => file.smallest_user_key(),
            };
            let at = self.order.compare(user_key, bound);
            let is_last = self.is_inside && at.is_eq() && !file.largest_is_exclusive();
            if at.is_lt() || is_last {
                break;
            }
            if self.is_inside {
                self.next += 1;
            } else {
                crossing.bytes += file.bytes;
            }
            self.is_inside = !self.is_inside;
            crossing.boundaries += 1;
        }
        self.crossed += crossing.boundaries;
        self.overlapped_bytes = self.overlapped_bytes.saturating_add(crossing.bytes);
        crossing
    }

    /// Whether to cut the output table, of `table_bytes`, before the key with this crossing.
    ///
    /// (RocksDB: `ShouldStopBefore`.)
    pub(super) fn is_cut(&self, crossing: Crossing, table_bytes: u64, sizes: TableSizes) -> bool {
        // A gap between two tables, or a whole table, lies between the two keys.
        let skippable_boundaries = if self.is_inside { 3 } else { 2 };
        // The more boundaries there are in a table, the likelier is another one before its target.
        let percent = 50 + (self.crossed * 5).min(40);
        crossing.boundaries > 0
            && (self.overlapped_bytes.saturating_add(table_bytes) > sizes.max_overlap
                || crossing.boundaries >= skippable_boundaries && crossing.bytes > sizes.target / 8
                || table_bytes >= sizes.target.div_ceil(100) * percent)
    }

    /// Resets the overlap counters for an output table that begins at the last key.
    pub(super) fn begin_table(&mut self) {
        self.crossed = 0;
        self.overlapped_bytes = match self.files.get(self.next) {
            Some(file) if self.is_inside => file.bytes,
            _ => 0,
        };
    }
}
