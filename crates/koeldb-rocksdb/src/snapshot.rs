//! Snapshots: consistent reads at one sequence number.

use crate::access::{iterator_methods, read_methods};
use crate::{DB, DBAccess, ReadOptions};

/// A snapshot of a [`DB`].
pub type Snapshot<'a> = SnapshotWithThreadMode<'a, DB>;

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
