//! The live snapshots of a database.

use std::collections::BTreeMap;
use std::sync::Mutex;

use koeldb_base::SeqNo;
use koeldb_base::sync::lock_plain as lock;

/// The live snapshots of a database.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    counts: Mutex<BTreeMap<SeqNo, usize>>,
}

impl SnapshotList {
    /// Registers a snapshot at the number that `current` returns, while no compaction can read the
    /// list.
    pub(crate) fn acquire(&self, current: impl FnOnce() -> SeqNo) -> SeqNo {
        let mut counts = lock(&self.counts);
        let seqno = current();
        *counts.entry(seqno).or_insert(0) += 1;
        seqno
    }

    /// Ends a snapshot.
    pub(crate) fn release(&self, seqno: SeqNo) {
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.get_mut(&seqno) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&seqno);
            }
        }
    }

    /// Returns the sequence numbers of all live snapshots, ascending.
    pub(crate) fn all(&self) -> Vec<SeqNo> {
        lock(&self.counts).keys().copied().collect()
    }

    /// Returns the sequence number of the oldest live snapshot.
    pub(crate) fn oldest(&self) -> Option<SeqNo> {
        lock(&self.counts).keys().next().copied()
    }

    /// Blocks new snapshots while the guard lives.
    pub(crate) fn hold(&self) -> SnapshotsHeld<'_> {
        SnapshotsHeld {
            counts: lock(&self.counts),
        }
    }

    /// The number of live snapshots.
    pub(crate) fn count(&self) -> usize {
        lock(&self.counts).values().sum()
    }
}

/// A guard that blocks new snapshots, and shows the live ones.
pub(crate) struct SnapshotsHeld<'l> {
    counts: std::sync::MutexGuard<'l, BTreeMap<SeqNo, usize>>,
}

impl SnapshotsHeld<'_> {
    /// Whether there are live snapshots.
    pub(crate) fn is_any(&self) -> bool {
        !self.counts.is_empty()
    }
}
