//! Snapshots: the state of the database at one sequence number, readable while the snapshot lives.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{PinnedSlice, Result, SeqNo};

use crate::column_family::ColumnFamily;
use crate::db::Db;
use crate::options::ReadOptions;
use crate::read::bounds::IterateBounds;
use crate::read::{DbCursor, DbIterator, PinnedSlices};
use crate::secondary::View;
use crate::super_version::SuperVersion;

/// The live snapshots of a database.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    counts: Mutex<BTreeMap<SeqNo, usize>>,
}

impl SnapshotList {
    /// Registers a snapshot at the result of `current`, while no compaction can read the list.
    pub(crate) fn acquire(&self, current: impl FnOnce() -> SeqNo) -> SeqNo {
        let mut counts = lock(&self.counts);
        let seqno = current();
        *counts.entry(seqno).or_insert(0) += 1;
        seqno
    }

    fn release(&self, seqno: SeqNo) {
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

    /// Keeps new snapshots waiting while the guard lives.
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

/// The live snapshots, while no new one is taken.
pub(crate) struct SnapshotsHeld<'l> {
    counts: std::sync::MutexGuard<'l, BTreeMap<SeqNo, usize>>,
}

impl SnapshotsHeld<'_> {
    /// Whether there are snapshots.
    pub(crate) fn is_any(&self) -> bool {
        !self.counts.is_empty()
    }
}

struct Inner {
    db: Db,
    seqno: SeqNo,
    /// The states of all column families, in a secondary database: its primary does not know the
    /// snapshot, so that later states may lack entries of it.
    view: Option<View>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.db.inner().visibility.snapshots.release(self.seqno);
    }
}

/// A constant view of the database. It is cheap to clone and keeps the database open.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
}

impl Snapshot {
    pub(crate) fn new(db: &Db) -> Self {
        let inner = db.inner();
        let (seqno, view) = match &inner.secondary {
            None => (inner.visibility.take_snapshot(), None),
            Some(secondary) => {
                let view = secondary.pin_view(inner);
                (view.seqno, Some(view))
            }
        };
        Snapshot {
            inner: Arc::new(Inner {
                db: db.clone(),
                seqno,
                view,
            }),
        }
    }

    /// The state of a column family that the snapshot pins, in a secondary database.
    #[inline]
    pub(crate) fn pinned(&self, family: u32) -> Option<&Arc<SuperVersion>> {
        self.inner.view.as_ref()?.families.get(&family)
    }

    /// The sequence number of the snapshot.
    #[must_use]
    pub fn sequence_number(&self) -> SeqNo {
        self.inner.seqno
    }

    pub(crate) fn database_id(&self) -> u64 {
        self.inner.db.inner().context.id
    }

    fn options(&self) -> ReadOptions {
        ReadOptions::at(self)
    }

    /// Returns the value of `key` in the default column family, as of the snapshot.
    ///
    /// # Errors
    /// See [`Db::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.inner.db.get_opt(key, &self.options())
    }

    /// Returns the value of `key` in `family`, as of the snapshot.
    ///
    /// # Errors
    /// See [`Db::get`].
    pub fn get_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        family.get_opt(key, &self.options())
    }

    /// Returns the values of `keys` in the default column family, as of the snapshot.
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> PinnedSlices {
        self.inner.db.multi_get_opt(keys, &self.options())
    }

    /// Returns the values of `keys` in `family`, as of the snapshot.
    #[must_use]
    pub fn multi_get_cf<K: AsRef<[u8]>>(&self, family: &ColumnFamily, keys: &[K]) -> PinnedSlices {
        family.multi_get_opt(keys, &self.options())
    }

    /// Returns the entries of `range` in the default column family, as of the snapshot.
    #[must_use]
    pub fn range(&self, range: impl IterateBounds) -> DbIterator {
        self.inner.db.range_opt(range, &self.options())
    }

    /// Returns the entries of `range` in `family`, as of the snapshot.
    #[must_use]
    pub fn range_cf(&self, family: &ColumnFamily, range: impl IterateBounds) -> DbIterator {
        family.range_opt(range, &self.options())
    }

    /// Returns the default column family's entries with `prefix`, as of the snapshot.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> DbIterator {
        self.inner.db.prefix_opt(prefix, &self.options())
    }

    /// Returns the entries of `family` whose keys begin with `prefix`, as of the snapshot.
    #[must_use]
    pub fn prefix_cf(&self, family: &ColumnFamily, prefix: impl AsRef<[u8]>) -> DbIterator {
        family.prefix_opt(prefix, &self.options())
    }

    /// Creates a cursor over the default column family, as of the snapshot.
    #[must_use]
    pub fn cursor(&self) -> DbCursor {
        self.inner.db.cursor_opt(&self.options())
    }

    /// Creates a cursor over `family`, as of the snapshot.
    #[must_use]
    pub fn cursor_cf(&self, family: &ColumnFamily) -> DbCursor {
        family.cursor_opt(&self.options())
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({})", self.inner.seqno)
    }
}
