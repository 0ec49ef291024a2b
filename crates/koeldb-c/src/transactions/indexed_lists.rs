//! Changes of indexed batches whose keys and values come in parts, and visits of the changes.

#![expect(unsafe_code, reason = "arrays and callbacks of the caller")]

use std::ffi::{c_char, c_void};

use koeldb::{BatchEntry, ColumnFamily};

use crate::boundary::Failure;
use crate::data::batch::{self, TimestampSize};
use crate::data::{lists, timestamps};
use crate::handle::{self, Handle};
use crate::memory;
use crate::transactions::indexed_batch::IndexedBatch;

/// Joins the parts of a key or a value.
///
/// # Safety
/// Both arrays have `count` elements.
unsafe fn join(
    parts: *const *const c_char,
    lengths: *const usize,
    count: i32,
) -> Result<Vec<u8>, Failure> {
    // SAFETY: promised by the caller.
    let parts = unsafe { memory::list(parts, lengths, lists::count(count), "a list")? };
    Ok(parts.concat())
}

/// Ends the process if an argument is wrong: there is no error to return.
fn given<T>(object: Result<T, Failure>) -> T {
    object.unwrap_or_else(|failure| panic!("{}", failure.text()))
}

/// Declares changes with the parts of a key and of a value.
macro_rules! of_pair {
    ($($(#[$doc:meta])* $name:ident, $name_cf:ident = $method:ident, $method_cf:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The rules of C.
        pub(crate) unsafe fn $name(
            batch: *mut Handle<IndexedBatch>,
            key_count: i32,
            keys: *const *const c_char,
            key_lengths: *const usize,
            value_count: i32,
            values: *const *const c_char,
            value_lengths: *const usize,
        ) {
            // SAFETY: promised by the caller.
            let batch = given(unsafe { handle::exclusive(batch, "b") });
            // SAFETY: promised by the caller.
            let key = given(unsafe { join(keys, key_lengths, key_count) });
            // SAFETY: promised by the caller.
            let value = given(unsafe { join(values, value_lengths, value_count) });
            batch.get_mut().$method(&key, &value);
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// The rules of C.
        #[expect(clippy::too_many_arguments, reason = "those of C")]
        pub(crate) unsafe fn $name_cf(
            batch: *mut Handle<IndexedBatch>,
            family: *mut Handle<ColumnFamily>,
            key_count: i32,
            keys: *const *const c_char,
            key_lengths: *const usize,
            value_count: i32,
            values: *const *const c_char,
            value_lengths: *const usize,
        ) {
            // SAFETY: promised by the caller.
            let batch = given(unsafe { handle::exclusive(batch, "b") });
            // SAFETY: promised by the caller.
            let family = given(unsafe { handle::shared(family, "column_family") });
            // SAFETY: promised by the caller.
            let key = given(unsafe { join(keys, key_lengths, key_count) });
            // SAFETY: promised by the caller.
            let value = given(unsafe { join(values, value_lengths, value_count) });
            batch.get_mut().$method_cf(family, &key, &value);
        }
    )*};
}

of_pair! {
    /// Adds a put.
    putv, putv_cf = put, put_cf;
    /// Adds a merge operand.
    mergev, mergev_cf = merge, merge_cf;
}

/// Adds a deletion.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn deletev(
    batch: *mut Handle<IndexedBatch>,
    count: i32,
    keys: *const *const c_char,
    lengths: *const usize,
) {
    // SAFETY: promised by the caller.
    let batch = given(unsafe { handle::exclusive(batch, "b") });
    // SAFETY: promised by the caller.
    let key = given(unsafe { join(keys, lengths, count) });
    batch.get_mut().delete(&key);
}

/// Adds a deletion of a key of a column family.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn deletev_cf(
    batch: *mut Handle<IndexedBatch>,
    family: *mut Handle<ColumnFamily>,
    count: i32,
    keys: *const *const c_char,
    lengths: *const usize,
) {
    // SAFETY: promised by the caller.
    let batch = given(unsafe { handle::exclusive(batch, "b") });
    // SAFETY: promised by the caller.
    let family = given(unsafe { handle::shared(family, "column_family") });
    // SAFETY: promised by the caller.
    let key = given(unsafe { join(keys, lengths, count) });
    batch.get_mut().delete_cf(family, &key);
}

/// Hands puts and deletions of the default column family to functions of C.
///
/// As in RocksDB, the visit ends at the first change that it has no function for.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn iterate(
    batch: *mut Handle<IndexedBatch>,
    state: *mut c_void,
    put: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>,
    deleted: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
) {
    // SAFETY: promised by the caller.
    let batch = given(unsafe { handle::exclusive(batch, "b") });
    for entry in batch.get().batch().iter() {
        match (entry, put, deleted) {
            (Ok(BatchEntry::Put { cf: 0, key, value }), Some(put), _) => {
                let (k, v) = (memory::pointer(key), memory::pointer(value));
                // SAFETY: promised by the caller.
                unsafe { put(state, k, key.len(), v, value.len()) };
            }
            (Ok(BatchEntry::Delete { cf: 0, key }), _, Some(deleted)) => {
                // SAFETY: promised by the caller.
                unsafe { deleted(state, memory::pointer(key), key.len()) };
            }
            (Ok(BatchEntry::Merge { cf: 0, .. } | BatchEntry::SingleDelete { cf: 0, .. }), ..)
            | (Ok(BatchEntry::LogData(_)), ..) => {}
            _ => return,
        }
    }
}

/// Sets the timestamp of the keys of all column families that have timestamps.
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
