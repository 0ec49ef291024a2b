//! Visits of the entries of a batch by functions of C.
//!
//! As in RocksDB, a visit ends at the first entry that it has no function for, without an error.

#![expect(unsafe_code, reason = "callbacks of the caller")]

use std::ffi::{c_char, c_void};

use koeldb::{BatchEntry, WriteBatch};

use crate::handle::{self, Handle};
use crate::memory::pointer;

pub(crate) type Put =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>;
pub(crate) type Delete = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;
type PutCf =
    Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize)>;
type DeleteCf = Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize)>;

/// The functions of a visit that knows the default column family only.
struct OfDefault {
    state: *mut c_void,
    put: Put,
    delete: Delete,
    log_data: Delete,
}

impl OfDefault {
    /// Calls the function for an entry; returns whether the visit goes on.
    ///
    /// # Safety
    /// The functions are those of C.
    unsafe fn visit(&self, entry: &BatchEntry<'_>) -> bool {
        match *entry {
            BatchEntry::Put { cf: 0, key, value } => {
                if let Some(put) = self.put {
                    let (k, v) = (pointer(key), pointer(value));
                    // SAFETY: promised by the caller.
                    unsafe { put(self.state, k, key.len(), v, value.len()) };
                }
            }
            BatchEntry::Delete { cf: 0, key } => {
                if let Some(delete) = self.delete {
                    // SAFETY: promised by the caller.
                    unsafe { delete(self.state, pointer(key), key.len()) };
                }
            }
            BatchEntry::LogData(data) => {
                if let Some(log_data) = self.log_data {
                    // SAFETY: promised by the caller.
                    unsafe { log_data(self.state, pointer(data), data.len()) };
                }
            }
            BatchEntry::Merge { cf: 0, .. } | BatchEntry::SingleDelete { cf: 0, .. } => {}
            _ => return false,
        }
        true
    }
}

/// The functions of a visit of all column families.
struct OfFamilies {
    state: *mut c_void,
    put: PutCf,
    delete: DeleteCf,
    merge: PutCf,
    log_data: Delete,
}

impl OfFamilies {
    /// Calls the function for an entry; returns whether the visit goes on.
    ///
    /// # Safety
    /// The functions are those of C.
    unsafe fn visit(&self, entry: &BatchEntry<'_>) -> bool {
        let (function, cf, key, value) = match *entry {
            BatchEntry::Put { cf, key, value } => (self.put, cf, key, value),
            BatchEntry::Merge { cf, key, operand } => (self.merge, cf, key, operand),
            BatchEntry::Delete { cf, key } => {
                if let Some(delete) = self.delete {
                    // SAFETY: promised by the caller.
                    unsafe { delete(self.state, cf, pointer(key), key.len()) };
                }
                return true;
            }
            BatchEntry::LogData(data) => {
                if let Some(log_data) = self.log_data {
                    // SAFETY: promised by the caller.
                    unsafe { log_data(self.state, pointer(data), data.len()) };
                }
                return true;
            }
            BatchEntry::SingleDelete { cf: 0, .. } => return true,
            _ => return false,
        };
        if let Some(function) = function {
            let (k, v) = (pointer(key), pointer(value));
            // SAFETY: promised by the caller.
            unsafe { function(self.state, cf, k, key.len(), v, value.len()) };
        }
        true
    }
}

/// Visits the entries of a batch as long as `visit` returns true.
fn each(batch: Option<&WriteBatch>, visit: impl Fn(&BatchEntry<'_>) -> bool) {
    let entries = batch.into_iter().flat_map(WriteBatch::iter);
    for entry in entries {
        if !entry.is_ok_and(|entry| visit(&entry)) {
            break;
        }
    }
}

/// Visits the puts and deletions of the default column family, and log data.
///
/// # Safety
/// The functions are those of C.
pub(crate) unsafe fn visit_default(
    batch: Option<&WriteBatch>,
    state: *mut c_void,
    put: Put,
    delete: Delete,
    log_data: Delete,
) {
    let functions = OfDefault {
        state,
        put,
        delete,
        log_data,
    };
    // SAFETY: promised by the caller.
    each(batch, |entry| unsafe { functions.visit(entry) });
}

/// Visits the puts and deletions of the default column family.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn iterate(
    batch: *mut Handle<WriteBatch>,
    state: *mut c_void,
    put: Put,
    delete: Delete,
) {
    // SAFETY: promised by the caller.
    unsafe { iterate_ld(batch, state, put, delete, None) };
}

/// Visits the puts and deletions of the default column family, and log data.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn iterate_ld(
    batch: *mut Handle<WriteBatch>,
    state: *mut c_void,
    put: Put,
    delete: Delete,
    log_data: Delete,
) {
    // SAFETY: promised by the caller.
    let batch = unsafe { handle::optional(batch) };
    // SAFETY: promised by the caller.
    unsafe { visit_default(batch, state, put, delete, log_data) };
}

/// Visits the puts, deletions and merge operands of all column families.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn iterate_cf(
    batch: *mut Handle<WriteBatch>,
    state: *mut c_void,
    put: PutCf,
    delete: DeleteCf,
    merge: PutCf,
) {
    // SAFETY: promised by the caller.
    unsafe { iterate_cf_ld(batch, state, put, delete, merge, None) };
}

/// Visits the puts, deletions and merge operands of all column families, and log data.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn iterate_cf_ld(
    batch: *mut Handle<WriteBatch>,
    state: *mut c_void,
    put: PutCf,
    delete: DeleteCf,
    merge: PutCf,
    log_data: Delete,
) {
    let functions = OfFamilies {
        state,
        put,
        delete,
        merge,
        log_data,
    };
    // SAFETY: promised by the caller.
    let batch = unsafe { handle::optional(batch) };
    // SAFETY: promised by the caller.
    each(batch, |entry| unsafe { functions.visit(entry) });
}
