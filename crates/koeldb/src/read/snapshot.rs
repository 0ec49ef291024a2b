//! Snapshots: the state of the database at one sequence number, readable while the snapshot lives.

use std::fmt;
use std::sync::Arc;

use koeldb_base::SeqNo;

use crate::engine::inner::DbInner;
use crate::engine::secondary::View;
use crate::state::super_version::SuperVersion;
use crate::state::visibility::SnapshotPurpose;

/// The state that the clones of a snapshot share; dropping it releases the snapshot.
struct Inner {
    db: Arc<DbInner>,
    seqno: SeqNo,
    purpose: SnapshotPurpose,
    /// The states of all column families, in a secondary database.
    view: Option<View>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let snapshots = &self.db.visibility.snapshots;
        let oldest = snapshots.release(self.seqno, self.purpose);
        self.db.background.snapshot_released(oldest);
    }
}

/// A consistent view of the database at one sequence number (RocksDB: `Snapshot`).
///
/// It is cheap to clone and keeps the database open.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
}

impl Snapshot {
    pub(crate) fn new(db: &Arc<DbInner>, purpose: SnapshotPurpose) -> Self {
        let (seqno, view) = match &db.secondary {
            None => (
                db.visibility
                    .take_snapshot(purpose, db.context.table_files.unix_secs()),
                None,
            ),
            Some(secondary) => {
                let view = secondary.pin_view(purpose, &db.families, &db.visibility);
                (view.seqno, Some(view))
            }
        };
        Snapshot {
            inner: Arc::new(Inner {
                db: Arc::clone(db),
                seqno,
                purpose,
                view,
            }),
        }
    }

    /// Returns the database of the snapshot.
    pub(crate) fn inner(&self) -> &Arc<DbInner> {
        &self.inner.db
    }

    /// Returns the super version that a snapshot of a secondary pins for a column family.
    #[inline]
    pub(crate) fn pinned(&self, family: u32) -> Option<&Arc<SuperVersion>> {
        self.inner.view.as_ref()?.families.get(&family)
    }

    /// Returns the sequence number of the snapshot.
    #[must_use]
    pub fn sequence_number(&self) -> SeqNo {
        self.inner.seqno
    }

    pub(crate) fn database_id(&self) -> u64 {
        self.inner.db.context.id
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({})", self.inner.seqno)
    }
}
