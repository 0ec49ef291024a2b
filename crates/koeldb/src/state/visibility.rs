//! Visibility of writes to readers: the last published sequence number, and the live snapshots.

mod snapshots;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use koeldb_base::SeqNo;
use koeldb_base::key::MAX_SEQNO;
use koeldb_base::sync::Padded;

pub(crate) use snapshots::SnapshotPurpose;

use snapshots::SnapshotList;

/// The last published sequence number and the live snapshots of a database.
#[derive(Debug)]
pub(crate) struct Visibility {
    visible: AtomicU64,
    /// Whether a batch was written with the WAL disabled; set before its entries are published.
    has_unlogged: AtomicBool,
    /// The live snapshots, on cache lines apart from `visible`, which each read loads.
    pub(crate) snapshots: Padded<SnapshotList>,
}

impl Visibility {
    pub(crate) fn new(last_seqno: SeqNo) -> Self {
        Visibility {
            visible: AtomicU64::new(last_seqno),
            has_unlogged: AtomicBool::new(false),
            snapshots: Padded::default(),
        }
    }

    /// The sequence number of the latest visible write.
    #[inline]
    pub(crate) fn seqno(&self) -> SeqNo {
        self.visible.load(Ordering::Acquire)
    }

    /// Makes all entries up to `seqno` visible.
    #[inline]
    pub(crate) fn publish(&self, seqno: SeqNo) {
        self.visible.store(seqno, Ordering::Release);
    }

    /// Registers a snapshot of the latest visible write.
    pub(crate) fn take_snapshot(&self, purpose: SnapshotPurpose, unix_secs: u64) -> SeqNo {
        self.snapshots.acquire(purpose, unix_secs, || self.seqno())
    }

    /// The oldest live snapshot; the largest sequence number if there is none.
    pub(crate) fn oldest_snapshot(&self) -> SeqNo {
        self.snapshots.oldest().unwrap_or(MAX_SEQNO)
    }

    /// Whether a batch was written with the WAL disabled.
    #[inline]
    pub(crate) fn has_unlogged(&self) -> bool {
        self.has_unlogged.load(Ordering::Relaxed)
    }

    /// Records a batch that no log contains; called by the leader before it publishes the batch.
    #[inline]
    pub(crate) fn record_unlogged(&self) {
        if !self.has_unlogged() {
            self.has_unlogged.store(true, Ordering::Relaxed);
        }
    }
}
