//! Changes of write batches whose keys and values come in parts.
//!
//! The parts of a key or value follow each other in memory of the batch.

#![expect(unsafe_code, reason = "arrays of the caller")]

use std::ffi::c_char;

use koeldb::{ColumnFamily, WriteBatch};

use crate::boundary::Failure;
use crate::data::lists;
use crate::handle::{self, Handle};
use crate::memory;

/// Joins the parts of a key or a value.
///
/// # Safety
/// Both arrays have `count` elements.
unsafe fn join(
    parts: *const *const c_char,
    lengths: *const usize,
    count: i32,
    name: &str,
) -> Result<Vec<u8>, Failure> {
    // SAFETY: promised by the caller.
    let parts = unsafe { memory::list(parts, lengths, lists::count(count), name)? };
    Ok(parts.concat())
}

/// Ends the process if a change cannot be added: there is no error to return.
fn finish(result: Result<(), Failure>) {
    if let Err(failure) = result {
        panic!("{}", failure.text());
    }
}

/// Changes with the parts of a key.
macro_rules! of_key {
    ($($(#[$doc:meta])* $name:ident, $name_cf:ident = $method:ident, $method_cf:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The rules of C.
        pub(crate) unsafe fn $name(
            batch: *mut Handle<WriteBatch>,
            count: i32,
            keys: *const *const c_char,
            lengths: *const usize,
        ) {
            let add = || {
                // SAFETY: promised by the caller.
                let batch = unsafe { handle::exclusive(batch, "b")? };
                // SAFETY: promised by the caller.
                let key = unsafe { join(keys, lengths, count, "keys_list")? };
                batch.$method(&key);
                Ok(())
            };
            finish(add());
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// The rules of C.
        pub(crate) unsafe fn $name_cf(
            batch: *mut Handle<WriteBatch>,
            family: *mut Handle<ColumnFamily>,
            count: i32,
            keys: *const *const c_char,
            lengths: *const usize,
        ) {
            let add = || {
                // SAFETY: promised by the caller.
                let batch = unsafe { handle::exclusive(batch, "b")? };
                // SAFETY: promised by the caller.
                let family = unsafe { handle::shared(family, "column_family")? };
                // SAFETY: promised by the caller.
                let key = unsafe { join(keys, lengths, count, "keys_list")? };
                batch.$method_cf(family, &key);
                Ok(())
            };
            finish(add());
        }
    )*};
}

/// Changes with the parts of a key and of a value.
macro_rules! of_pair {
    ($($(#[$doc:meta])* $name:ident, $name_cf:ident = $method:ident, $method_cf:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The rules of C.
        pub(crate) unsafe fn $name(
            batch: *mut Handle<WriteBatch>,
            key_count: i32,
            keys: *const *const c_char,
            key_lengths: *const usize,
            value_count: i32,
            values: *const *const c_char,
            value_lengths: *const usize,
        ) {
            let add = || {
                // SAFETY: promised by the caller.
                let batch = unsafe { handle::exclusive(batch, "b")? };
                // SAFETY: promised by the caller.
                let key = unsafe { join(keys, key_lengths, key_count, "keys_list")? };
                // SAFETY: promised by the caller.
                let value = unsafe { join(values, value_lengths, value_count, "values_list")? };
                batch.$method(&key, &value);
                Ok(())
            };
            finish(add());
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// The rules of C.
        #[expect(clippy::too_many_arguments, reason = "those of C")]
        pub(crate) unsafe fn $name_cf(
            batch: *mut Handle<WriteBatch>,
            family: *mut Handle<ColumnFamily>,
            key_count: i32,
            keys: *const *const c_char,
            key_lengths: *const usize,
            value_count: i32,
            values: *const *const c_char,
            value_lengths: *const usize,
        ) {
            let add = || {
                // SAFETY: promised by the caller.
                let batch = unsafe { handle::exclusive(batch, "b")? };
                // SAFETY: promised by the caller.
                let family = unsafe { handle::shared(family, "column_family")? };
                // SAFETY: promised by the caller.
                let key = unsafe { join(keys, key_lengths, key_count, "keys_list")? };
                // SAFETY: promised by the caller.
                let value = unsafe { join(values, value_lengths, value_count, "values_list")? };
                batch.$method_cf(family, &key, &value);
                Ok(())
            };
            finish(add());
        }
    )*};
}

of_key! {
    /// Adds a deletion.
    deletev, deletev_cf = delete, delete_cf;
}

of_pair! {
    /// Adds a put.
    putv, putv_cf = put, put_cf;
    /// Adds a merge operand.
    mergev, mergev_cf = merge, merge_cf;
}

/// Adds the deletion of a range.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn delete_rangev(
    batch: *mut Handle<WriteBatch>,
    count: i32,
    starts: *const *const c_char,
    start_lengths: *const usize,
    ends: *const *const c_char,
    end_lengths: *const usize,
) {
    // SAFETY: promised by the caller.
    unsafe { range_of_parts(batch, None, count, starts, start_lengths, ends, end_lengths) };
}

/// Adds the deletion of a range of a column family.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn delete_rangev_cf(
    batch: *mut Handle<WriteBatch>,
    family: *mut Handle<ColumnFamily>,
    count: i32,
    starts: *const *const c_char,
    start_lengths: *const usize,
    ends: *const *const c_char,
    end_lengths: *const usize,
) {
    let family = Some(family.cast_const());
    // SAFETY: promised by the caller.
    unsafe {
        range_of_parts(
            batch,
            family,
            count,
            starts,
            start_lengths,
            ends,
            end_lengths,
        )
    };
}

/// Adds the deletion of a range, whose start and end have as many parts.
///
/// # Safety
/// The rules of C.
unsafe fn range_of_parts(
    batch: *mut Handle<WriteBatch>,
    family: Option<*const Handle<ColumnFamily>>,
    count: i32,
    starts: *const *const c_char,
    start_lengths: *const usize,
    ends: *const *const c_char,
    end_lengths: *const usize,
) {
    let add = || {
        // SAFETY: promised by the caller.
        let batch = unsafe { handle::exclusive(batch, "b")? };
        // SAFETY: promised by the caller.
        let from = unsafe { join(starts, start_lengths, count, "start_keys_list")? };
        // SAFETY: promised by the caller.
        let to = unsafe { join(ends, end_lengths, count, "end_keys_list")? };
        match family {
            None => batch.delete_range(&from, &to),
            Some(family) => {
                // SAFETY: promised by the caller.
                let family = unsafe { handle::shared(family, "column_family")? };
                batch.delete_range_cf(family, &from, &to)
            }
        };
        Ok(())
    };
    finish(add());
}
