//! The boundary up to which the log may be purged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The shared index of the last log entry that is durable in the state or a snapshot.
///
/// A state machine raises it, and the log refuses to purge beyond it: the Raft log is the
/// write-ahead log of the state. A log that is opened is compared with the position that the state
/// machine found.
#[derive(Clone, Debug, Default)]
pub struct DurableIndex {
    /// The number of durable entries: one more than the index of the last one.
    count: Arc<AtomicU64>,
    /// The position of the state when it was opened: the index and the encoded id of the last entry.
    opened: Arc<OnceLock<(u64, Vec<u8>)>>,
}

impl DurableIndex {
    /// Marks the entries up to `index`, inclusive, as durable; never lowers the index.
    pub(crate) fn raise(&self, index: u64) {
        let count = index.saturating_add(1);
        self.count.fetch_max(count, Ordering::AcqRel);
    }

    /// Stores the applied position found when the state was opened: entry index and encoded log id.
    pub(crate) fn set_opened(&self, index: u64, id: Vec<u8>) {
        let _ = self.opened.set((index, id));
        self.raise(index);
    }

    /// Returns the position set by [`DurableIndex::set_opened`].
    pub(crate) fn opened(&self) -> Option<&(u64, Vec<u8>)> {
        self.opened.get()
    }

    /// Returns whether the entry at `index` is durable in the state or a snapshot.
    pub(crate) fn covers(&self, index: u64) -> bool {
        index < self.count.load(Ordering::Acquire)
    }
}
