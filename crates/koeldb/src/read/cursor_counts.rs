//! The statistics of one cursor, which it counts itself (RocksDB: `DBIter::LocalStatistics`).
//!
//! A step counts in the cursor. A seek and the drop add the counts to the statistics.

use koeldb_base::stats::{Statistics, Ticker};
use koeldb_table::source::Direction;

use crate::state::context::Context;

/// The counts of a cursor that are not in the statistics yet.
pub(super) struct CursorCounts {
    statistics: Statistics,
    nexts: u64,
    nexts_found: u64,
    prevs: u64,
    prevs_found: u64,
    bytes: u64,
}

impl CursorCounts {
    /// Counts a new cursor; `None` without statistics.
    #[inline]
    pub(super) fn of(context: &Context) -> Option<Box<Self>> {
        context.statistics.as_ref().map(CursorCounts::begin)
    }

    #[cold]
    fn begin(statistics: &Statistics) -> Box<Self> {
        statistics.add(Ticker::NoIteratorCreated, 1);
        Box::new(CursorCounts {
            statistics: statistics.clone(),
            nexts: 0,
            nexts_found: 0,
            prevs: 0,
            prevs_found: 0,
            bytes: 0,
        })
    }

    /// Counts a step, and the bytes of the entry that it found.
    pub(super) fn step(&mut self, direction: Direction, entry_bytes: Option<u64>) {
        let (steps, found) = match direction {
            Direction::Forward => (&mut self.nexts, &mut self.nexts_found),
            Direction::Backward => (&mut self.prevs, &mut self.prevs_found),
        };
        *steps += 1;
        *found += u64::from(entry_bytes.is_some());
        self.bytes += entry_bytes.unwrap_or(0);
    }

    /// Counts the bytes of the entry that a seek found, and adds all counts to the statistics.
    pub(super) fn seek(&mut self, entry_bytes: Option<u64>) {
        self.bytes += entry_bytes.unwrap_or(0);
        self.add();
    }

    /// Adds the counts to the statistics, and begins again.
    fn add(&mut self) {
        let take = std::mem::take::<u64>;
        self.statistics.add_all(&[
            (Ticker::NumberDbNext, take(&mut self.nexts)),
            (Ticker::NumberDbNextFound, take(&mut self.nexts_found)),
            (Ticker::NumberDbPrev, take(&mut self.prevs)),
            (Ticker::NumberDbPrevFound, take(&mut self.prevs_found)),
            (Ticker::IterBytesRead, take(&mut self.bytes)),
        ]);
    }
}

impl Drop for CursorCounts {
    fn drop(&mut self) {
        self.add();
        self.statistics.add(Ticker::NoIteratorDeleted, 1);
    }
}
