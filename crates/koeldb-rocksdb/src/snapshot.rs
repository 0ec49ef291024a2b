//! Snapshots: consistent reads at one sequence number.

use crate::methods::{iterator_methods, read_methods};
use crate::{DBAccess, ReadOptions};

/// A snapshot: a consistent state of a database that stays readable until it is dropped.
///
/// That of a transaction reads its writes too, and the latest state if it was begun without a
/// snapshot.
pub struct SnapshotWithThreadMode<'a, D: DBAccess> {
    source: &'a D,
    pub(crate) inner: Option<koeldb::Snapshot>,
}

impl<'a, D: DBAccess> SnapshotWithThreadMode<'a, D> {
    /// Takes a snapshot of a database, or wraps the snapshot of a transaction.
    pub fn new(db: &'a D) -> Self {
        SnapshotWithThreadMode {
            source: db,
            inner: db.take_snapshot(),
        }
    }

    /// Returns the read options with this snapshot set.
    fn narrow(&self, mut options: ReadOptions) -> ReadOptions {
        options.set_snapshot(self);
        options
    }

    /// Returns the snapshot's sequence number; 0 for a transaction without a snapshot.
    pub fn sequence_number(&self) -> u64 {
        let snapshot = self.inner.as_ref();
        snapshot.map_or(0, koeldb::Snapshot::sequence_number)
    }

    iterator_methods! { self, self.source, D, 'a; readopts, &self.narrow(readopts) }
    read_methods! { self, self.source;
        readopts: ReadOptions = ReadOptions::default(), &self.narrow(readopts)
    }
}

impl ReadOptions {
    /// Makes reads see a snapshot; the latest state if it is of a transaction without a snapshot.
    pub fn set_snapshot<D: DBAccess>(&mut self, snapshot: &SnapshotWithThreadMode<D>) {
        match &snapshot.inner {
            Some(snapshot) => self.inner.set_snapshot(snapshot),
            None => self.inner.clear_snapshot(),
        };
    }
}
