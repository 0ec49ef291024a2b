//! The live snapshots of a database.

use std::collections::BTreeMap;
use std::sync::Mutex;

use koeldb_base::SeqNo;
use koeldb_base::sync::lock_plain as lock;

/// The live snapshots of a database.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    counts: Mutex<BTreeMap<SeqNo, LiveSnapshots>>,
}

/// The snapshots at one sequence number.
#[derive(Debug)]
struct LiveSnapshots {
    count: usize,
    /// The time of the first one, in seconds since 1970.
    unix_secs: u64,
}

impl SnapshotList {
    /// Registers a snapshot at the number that `current` returns, while no compaction can read the
    /// list.
    pub(crate) fn acquire(&self, unix_secs: u64, current: impl FnOnce() -> SeqNo) -> SeqNo {
        let mut counts = lock(&self.counts);
        let seqno = current();
        let new = LiveSnapshots {
            count: 0,
            unix_secs,
        };
        counts.entry(seqno).or_insert(new).count += 1;
        seqno
    }

    /// Ends a snapshot.
    pub(crate) fn release(&self, seqno: SeqNo) {
        let mut counts = lock(&self.counts);
        if let Some(live) = counts.get_mut(&seqno) {
            live.count -= 1;
            if live.count == 0 {
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
        let counts = lock(&self.counts);
        counts.values().map(|live| live.count).sum()
    }

    /// When the oldest live snapshot was taken, in seconds since 1970; 0 if there is none.
    pub(crate) fn oldest_unix_secs(&self) -> u64 {
        let counts = lock(&self.counts);
        let oldest = counts.first_key_value();
        oldest.map_or(0, |(_, live)| live.unix_secs)
    }
}

/// A guard that blocks new snapshots, and shows the live ones.
pub(crate) struct SnapshotsHeld<'l> {
    counts: std::sync::MutexGuard<'l, BTreeMap<SeqNo, LiveSnapshots>>,
}

impl SnapshotsHeld<'_> {
    /// Whether there are live snapshots.
    pub(crate) fn is_any(&self) -> bool {
        !self.counts.is_empty()
    }
}
