//! Write batches: changes of single keys, save points, contents.
//!
//! A batch that the engine cannot represent is a null pointer, which writes report as an error.

#![expect(unsafe_code, reason = "the callback of the caller")]

use std::ffi::{c_char, c_void};

use koeldb::{BatchEntry, ColumnFamily, WriteBatch};

use crate::boundary::{Failure, needed};
use crate::data::timestamps;
use crate::handle::{self, Handle};
use crate::memory;

/// Creates a batch from its contents; `None` if they are damaged.
pub(crate) fn create_from(contents: &[u8]) -> Option<WriteBatch> {
    match contents.is_empty() {
        true => Some(WriteBatch::new()),
        false => WriteBatch::from_data(contents).ok(),
    }
}

/// Creates a batch with checksums of its entries if `protection_bytes_per_key` is not zero.
///
/// The write of a batch of more than `max_bytes` fails; 0 is no limit. Timestamps in the default
/// column family are not served: there is no batch.
pub(crate) fn create_with_params(
    reserved_bytes: usize,
    max_bytes: usize,
    protection_bytes_per_key: usize,
    default_cf_ts_sz: usize,
) -> Option<WriteBatch> {
    if default_cf_ts_sz > 0 {
        return None;
    }
    let mut batch = match protection_bytes_per_key {
        0 => WriteBatch::with_capacity_bytes(reserved_bytes),
        _ => WriteBatch::with_protection(),
    };
    if max_bytes > 0 {
        batch.set_max_bytes(max_bytes);
    }
    Some(batch)
}

/// Removes all entries and save points.
pub(crate) fn clear(batch: &mut WriteBatch) {
    batch.clear();
}

/// Returns the number of entries.
pub(crate) fn count(batch: &WriteBatch) -> i32 {
    i32::try_from(batch.len()).unwrap_or(i32::MAX)
}

/// Returns the contents.
pub(crate) fn data(batch: &WriteBatch) -> &[u8] {
    batch.data()
}

/// Changes of a key or a range in the default or another column family.
macro_rules! changes {
    ($($(#[$doc:meta])* $name:ident, $name_cf:ident ($($argument:ident),*);)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(batch: &mut WriteBatch, $($argument: &[u8]),*) {
            batch.$name($($argument),*);
        }

        $(#[$doc])*
        pub(crate) fn $name_cf(
            batch: &mut WriteBatch,
            family: &ColumnFamily,
            $($argument: &[u8]),*
        ) {
            batch.$name_cf(family, $($argument),*);
        }
    )*};
}

changes! {
    /// Adds a put.
    put, put_cf(key, value);
    /// Adds a merge operand.
    merge, merge_cf(key, operand);
    /// Adds a deletion.
    delete, delete_cf(key);
    /// Adds the deletion of a key that was put once.
    single_delete, single_delete_cf(key);
    /// Adds the deletion of a range without its end.
    delete_range, delete_range_cf(from, to);
}

/// Adds data that only the log has.
pub(crate) fn put_log_data(batch: &mut WriteBatch, data: &[u8]) {
    batch.put_log_data(data);
}

/// Returns the timestamp of a change; ends the process if its size is wrong, as there is no error.
fn timestamp(bytes: &[u8]) -> koeldb::Timestamp {
    needed(timestamps::of(bytes))
}

/// Adds a put at a timestamp.
pub(crate) fn put_cf_with_ts(
    batch: &mut WriteBatch,
    family: &ColumnFamily,
    key: &[u8],
    time: &[u8],
    value: &[u8],
) {
    batch.put_cf_with_ts(family, key, timestamp(time), value);
}

/// Adds a deletion at a timestamp.
pub(crate) fn delete_cf_with_ts(
    batch: &mut WriteBatch,
    family: &ColumnFamily,
    key: &[u8],
    time: &[u8],
) {
    batch.delete_cf_with_ts(family, key, timestamp(time));
}

/// Adds the deletion of a key that was put once, at a timestamp.
pub(crate) fn single_delete_cf_with_ts(
    batch: &mut WriteBatch,
    family: &ColumnFamily,
    key: &[u8],
    time: &[u8],
) {
    batch.single_delete_cf_with_ts(family, key, timestamp(time));
}

/// Sets a save point.
pub(crate) fn set_save_point(batch: &mut WriteBatch) {
    batch.set_save_point();
}

/// Removes the entries since the last save point, and it.
pub(crate) fn rollback_to_save_point(batch: &mut WriteBatch) -> koeldb::Result<()> {
    batch.rollback_to_save_point()
}

/// Removes the last save point, but no entry.
pub(crate) fn pop_save_point(batch: &mut WriteBatch) -> koeldb::Result<()> {
    batch.pop_save_point()
}

/// Verifies the structure of the batch. Its write verifies the checksums of its entries.
pub(crate) fn verify_checksum(batch: &WriteBatch) -> koeldb::Result<()> {
    batch.iter().try_for_each(|entry| entry.map(drop))
}

/// Returns the size of the timestamps of a column family, by its id.
pub(crate) type TimestampSize = Option<unsafe extern "C" fn(*mut c_void, u32) -> usize>;

/// Returns whether the keys of a column family have timestamps, which must have `length` bytes.
///
/// # Safety
/// The function takes the state.
pub(crate) unsafe fn has_times(
    state: *mut c_void,
    size_of: TimestampSize,
    family: u32,
    length: usize,
) -> Result<bool, Failure> {
    let size_of = size_of.ok_or_else(|| Failure::argument("get_ts_size is null"))?;
    // SAFETY: promised by the caller.
    match unsafe { size_of(state, family) } {
        0 => Ok(false),
        size if size == length => Ok(true),
        size => Err(Failure::argument(format!(
            "timestamps of column family {family} have {size} bytes, not {length}"
        ))),
    }
}

/// Sets the timestamp of all keys in column families with timestamps.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn update_timestamps(
    batch: *mut Handle<WriteBatch>,
    time: *const c_char,
    length: usize,
    state: *mut c_void,
    size_of: TimestampSize,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    let batch = unsafe { handle::exclusive(batch, "wb")? };
    // SAFETY: promised by the caller.
    let time = unsafe { memory::bytes(time, length, "ts")? };
    let length = time.len();
    let time = timestamps::of(time)?;
    let mut contents = batch.data().to_vec();
    let begin = batch.data().as_ptr().addr();
    for entry in batch.iter() {
        let (family, keys) = dated_keys(&entry?);
        // SAFETY: promised by the caller.
        if keys.is_empty() || !unsafe { has_times(state, size_of, family, length)? } {
            continue;
        }
        for key in keys {
            let end = key.as_ptr().addr() + key.len() - begin;
            let place = end.checked_sub(time.len().min(key.len()));
            let place = place.and_then(|from| contents.get_mut(from..end));
            match place.filter(|place| place.len() == time.len()) {
                Some(place) => place.copy_from_slice(&time),
                None => return Err(Failure::argument("a key is shorter than its timestamp")),
            }
        }
    }
    // The engine's own update keeps save points; it leaves timestamps that were given with the key.
    batch.update_timestamps(time)?;
    if batch.data() != contents {
        *batch = WriteBatch::from_data(contents)?;
    }
    Ok(())
}

/// Returns the column family of an entry, and its keys.
pub(crate) fn dated_keys<'a>(entry: &BatchEntry<'a>) -> (u32, Vec<&'a [u8]>) {
    match *entry {
        BatchEntry::Put { cf, key, .. }
        | BatchEntry::Delete { cf, key }
        | BatchEntry::SingleDelete { cf, key }
        | BatchEntry::Merge { cf, key, .. }
        | BatchEntry::PutEntity { cf, key, .. } => (cf, vec![key]),
        BatchEntry::DeleteRange { cf, from, to } => (cf, vec![from, to]),
        _ => (0, Vec::new()),
    }
}
