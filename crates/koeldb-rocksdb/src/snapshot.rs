//! Snapshots: consistent reads at one sequence number.

use crate::methods::{iterator_methods, read_methods};
use crate::{DBAccess, ReadOptions};

/// A state of a database, kept until this value is dropped.
///
/// That of a transaction reads its writes too, and the latest state if it was begun without a
/// snapshot.
pub struct SnapshotWithThreadMode<'a, D: DBAccess> {
    source: &'a D,
    pub(crate) inner: Option<koeldb::Snapshot>,
}

impl<'a, D: DBAccess> SnapshotWithThreadMode<'a, D> {
    /// Takes a snapshot.
    pub fn new(db: &'a D) -> Self {
        SnapshotWithThreadMode {
            source: db,
            inner: db.take_snapshot(),
        }
    }

    /// Sets this snapshot in read options.
    fn narrow(&self, mut options: ReadOptions) -> ReadOptions {
        options.set_snapshot(self);
        options
    }

    /// The sequence number of the latest visible write; 0 for a transaction without a snapshot.
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
    /// Reads the state of a snapshot; the latest one, if it is of a transaction without a snapshot.
    pub fn set_snapshot<D: DBAccess>(&mut self, snapshot: &SnapshotWithThreadMode<D>) {
        match &snapshot.inner {
            Some(snapshot) => self.inner.set_snapshot(snapshot),
            None => self.inner.clear_snapshot(),
        };
    }
}
