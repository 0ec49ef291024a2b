//! The live snapshots of a database.

use std::collections::BTreeMap;
use std::sync::Mutex;

use koeldb_base::SeqNo;
use koeldb_base::sync::lock_plain as lock;
use koeldb_lsm::job::LiveSnapshots;

/// The live snapshots of a database.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    counts: Mutex<BTreeMap<SeqNo, AtNumber>>,
}

/// The use of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotPurpose {
    /// Reads alone.
    Reads,
    /// Reads of a transaction, and its checks for writes since.
    Conflicts,
}

/// The snapshots at one sequence number.
#[derive(Debug)]
struct AtNumber {
    count: usize,
    /// The number of those from which a transaction checks for write conflicts.
    conflict_count: usize,
    /// The time of the first one, in seconds since 1970.
    unix_secs: u64,
}

impl SnapshotList {
    /// Registers a snapshot at the number that `current` returns, while no compaction can read the
    /// list.
    pub(crate) fn acquire(
        &self,
        purpose: SnapshotPurpose,
        unix_secs: u64,
        current: impl FnOnce() -> SeqNo,
    ) -> SeqNo {
        let mut counts = lock(&self.counts);
        let seqno = current();
        let new = AtNumber {
            count: 0,
            conflict_count: 0,
            unix_secs,
        };
        let live = counts.entry(seqno).or_insert(new);
        live.count += 1;
        live.conflict_count += usize::from(purpose == SnapshotPurpose::Conflicts);
        seqno
    }

    /// Ends a snapshot.
    pub(crate) fn release(&self, seqno: SeqNo, purpose: SnapshotPurpose) {
        let mut counts = lock(&self.counts);
        if let Some(live) = counts.get_mut(&seqno) {
            live.conflict_count -= usize::from(purpose == SnapshotPurpose::Conflicts);
            live.count -= 1;
            if live.count == 0 {
                counts.remove(&seqno);
            }
        }
    }

    /// Returns all live snapshots.
    pub(crate) fn all(&self) -> LiveSnapshots {
        let counts = lock(&self.counts);
        let mut of_transactions = counts.iter().filter(|(_, live)| live.conflict_count > 0);
        LiveSnapshots {
            oldest_conflict: of_transactions.next().map(|(&seqno, _)| seqno),
            all: counts.keys().copied().collect(),
        }
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
    counts: std::sync::MutexGuard<'l, BTreeMap<SeqNo, AtNumber>>,
}

impl SnapshotsHeld<'_> {
    /// Whether there are live snapshots.
    pub(crate) fn is_any(&self) -> bool {
        !self.counts.is_empty()
    }
}
