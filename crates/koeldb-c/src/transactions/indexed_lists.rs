//! Changes of indexed batches whose keys and values come in parts, and visits of the changes.

#![expect(unsafe_code, reason = "arrays and callbacks of the caller")]

use std::ffi::{c_char, c_void};

use koeldb::ColumnFamily;

use crate::boundary::{Failure, needed};
use crate::data::batch::{self, TimestampSize};
use crate::data::batch_lists::{of_key, of_pair};
use crate::data::batch_visit::{Delete, Put, visit_default};
use crate::data::lists::join;
use crate::data::timestamps;
use crate::handle::{self, Handle};
use crate::memory;
use crate::transactions::indexed_batch::IndexedBatch;

of_key! { IndexedBatch, |batch| batch.get_mut();
    /// Adds a deletion.
    deletev, deletev_cf = delete, delete_cf;
}

of_pair! { IndexedBatch, |batch| batch.get_mut();
    /// Adds a put.
    putv, putv_cf = put, put_cf;
    /// Adds a merge operand.
    mergev, mergev_cf = merge, merge_cf;
}

/// Visits the puts and deletions of the default column family.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn iterate(
    batch: *mut Handle<IndexedBatch>,
    state: *mut c_void,
    put: Put,
    deleted: Delete,
) {
    // SAFETY: promised by the caller.
    let batch = needed(unsafe { handle::exclusive(batch, "b") });
    // SAFETY: promised by the caller.
    unsafe { visit_default(Some(batch.get().batch()), state, put, deleted, None) };
}

/// Sets the timestamp of all keys in column families with timestamps.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn update_timestamps(
    batch: *mut Handle<IndexedBatch>,
    time: *const c_char,
    length: usize,
    state: *mut c_void,
    size_of: TimestampSize,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let changed = unsafe { handle::exclusive(batch, "wbwi")? };
    // SAFETY: promised by the caller.
    let time = unsafe { memory::bytes(time, length, "ts")? };
    for entry in changed.get().batch().iter() {
        let (family, keys) = batch::dated_keys(&entry?);
        if !keys.is_empty() {
            // SAFETY: promised by the caller.
            unsafe { batch::has_times(state, size_of, family, time.len())? };
        }
    }
    changed.get_mut().update_timestamps(timestamps::of(time)?)?;
    Ok(())
}
