//! Snapshots.

#![expect(unsafe_code, reason = "snapshots are released by a constant pointer")]

use koeldb::{Db, Snapshot};

use crate::handle::{self, Handle};

/// Creates a snapshot of the current state.
pub(crate) fn create(db: &Db) -> Snapshot {
    db.snapshot()
}

/// Releases a snapshot; read options and iterators that have it keep its state.
///
/// # Safety
/// The snapshot is null or from [`create`], and is not used again.
pub(crate) unsafe fn release(_: *mut Handle<Db>, snapshot: *const Handle<Snapshot>) {
    // SAFETY: promised by the caller.
    unsafe { handle::destroy(snapshot) };
}

/// Returns the sequence number of a snapshot.
pub(crate) fn sequence_number(snapshot: &Snapshot) -> u64 {
    snapshot.sequence_number()
}
