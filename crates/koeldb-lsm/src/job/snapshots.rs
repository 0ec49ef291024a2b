//! The live snapshots, which limit the entries that a job may drop.

use koeldb_base::SeqNo;
use koeldb_base::key::MAX_SEQNO;

/// The live snapshots that a job must preserve, as of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveSnapshots {
    /// The sequence numbers, ascending.
    pub all: Vec<SeqNo>,
    /// The oldest snapshot from which a transaction checks for write conflicts; `None` if there is
    /// none.
    ///
    /// A job keeps a trace of every write above it: for each key that was written, an entry with
    /// the number of the newest write. (RocksDB: `earliest_write_conflict_snapshot`.)
    pub oldest_conflict: Option<SeqNo>,
}

impl LiveSnapshots {
    /// Creates a list of snapshots of which each may belong to a transaction that checks conflicts.
    #[must_use]
    pub fn of_any_owner(all: Vec<SeqNo>) -> Self {
        LiveSnapshots {
            oldest_conflict: all.first().copied(),
            all,
        }
    }

    /// The oldest snapshot; `None` if there are none.
    #[must_use]
    pub fn oldest(&self) -> Option<SeqNo> {
        self.all.first().copied()
    }

    /// Whether a transaction's write-conflict check may need to find a write at `seqno`.
    pub(super) fn may_conflict(&self, seqno: SeqNo) -> bool {
        self.oldest_conflict.is_some_and(|oldest| seqno > oldest)
    }
}

/// The snapshot stripe of `seqno`: the oldest of the ascending `snapshots` that sees it.
///
/// The largest sequence number represents the latest state.
pub(super) fn stripe_of(snapshots: &[SeqNo], seqno: SeqNo) -> SeqNo {
    let index = snapshots.partition_point(|&snapshot| snapshot < seqno);
    snapshots.get(index).copied().unwrap_or(MAX_SEQNO)
}
