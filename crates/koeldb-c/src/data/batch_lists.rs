//! Changes of write batches whose keys and values come in parts, which are joined.

#![expect(unsafe_code, reason = "arrays of the caller")]

use std::ffi::c_char;

use koeldb::{ColumnFamily, WriteBatch};

use crate::boundary::needed;
use crate::data::lists::join;
use crate::handle::{self, Handle};

/// Defines changes of the default and of another column family with the parts of a key.
macro_rules! of_key {
    ($Batch:ty, |$batch:ident| $changed:expr;
        $($(#[$doc:meta])* $name:ident, $name_cf:ident = $method:ident, $method_cf:ident;)*
    ) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The rules of C.
        pub(crate) unsafe fn $name(
            batch: *mut Handle<$Batch>,
            count: i32,
            keys: *const *const c_char,
            lengths: *const usize,
        ) {
            // SAFETY: promised by the caller.
            let $batch = needed(unsafe { handle::exclusive(batch, "b") });
            // SAFETY: promised by the caller.
            let key = needed(unsafe { join(keys, lengths, count, "keys_list") });
            $changed.$method(&key);
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// The rules of C.
        pub(crate) unsafe fn $name_cf(
            batch: *mut Handle<$Batch>,
            family: *mut Handle<ColumnFamily>,
            count: i32,
            keys: *const *const c_char,
            lengths: *const usize,
        ) {
            // SAFETY: promised by the caller.
            let $batch = needed(unsafe { handle::exclusive(batch, "b") });
            // SAFETY: promised by the caller.
            let family = needed(unsafe { handle::shared(family, "column_family") });
            // SAFETY: promised by the caller.
            let key = needed(unsafe { join(keys, lengths, count, "keys_list") });
            $changed.$method_cf(family, &key);
        }
    )*};
}

/// Defines changes of the default and of another column family with the parts of a key and a value.
macro_rules! of_pair {
    ($Batch:ty, |$batch:ident| $changed:expr;
        $($(#[$doc:meta])* $name:ident, $name_cf:ident = $method:ident, $method_cf:ident;)*
    ) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The rules of C.
        pub(crate) unsafe fn $name(
            batch: *mut Handle<$Batch>,
            key_count: i32,
            keys: *const *const c_char,
            key_lengths: *const usize,
            value_count: i32,
            values: *const *const c_char,
            value_lengths: *const usize,
        ) {
            // SAFETY: promised by the caller.
            let $batch = needed(unsafe { handle::exclusive(batch, "b") });
            // SAFETY: promised by the caller.
            let key = needed(unsafe { join(keys, key_lengths, key_count, "keys_list") });
            // SAFETY: promised by the caller.
            let value = needed(unsafe { join(values, value_lengths, value_count, "values_list") });
            $changed.$method(&key, &value);
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// The rules of C.
        #[expect(clippy::too_many_arguments, reason = "those of C")]
        pub(crate) unsafe fn $name_cf(
            batch: *mut Handle<$Batch>,
            family: *mut Handle<ColumnFamily>,
            key_count: i32,
            keys: *const *const c_char,
            key_lengths: *const usize,
            value_count: i32,
            values: *const *const c_char,
            value_lengths: *const usize,
        ) {
            // SAFETY: promised by the caller.
            let $batch = needed(unsafe { handle::exclusive(batch, "b") });
            // SAFETY: promised by the caller.
            let family = needed(unsafe { handle::shared(family, "column_family") });
            // SAFETY: promised by the caller.
            let key = needed(unsafe { join(keys, key_lengths, key_count, "keys_list") });
            // SAFETY: promised by the caller.
            let value = needed(unsafe { join(values, value_lengths, value_count, "values_list") });
            $changed.$method_cf(family, &key, &value);
        }
    )*};
}

pub(crate) use {of_key, of_pair};

of_key! { WriteBatch, |batch| batch;
    /// Adds a deletion.
    deletev, deletev_cf = delete, delete_cf;
}

of_pair! { WriteBatch, |batch| batch;
    /// Adds a put.
    putv, putv_cf = put, put_cf;
    /// Adds a merge operand.
    mergev, mergev_cf = merge, merge_cf;
}

/// Adds the deletion of a range, whose start and end have as many parts.
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
    let batch = needed(unsafe { handle::exclusive(batch, "b") });
    // SAFETY: promised by the caller.
    let from = needed(unsafe { join(starts, start_lengths, count, "start_keys_list") });
    // SAFETY: promised by the caller.
    let to = needed(unsafe { join(ends, end_lengths, count, "end_keys_list") });
    batch.delete_range(&from, &to);
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
    // SAFETY: promised by the caller.
    let batch = needed(unsafe { handle::exclusive(batch, "b") });
    // SAFETY: promised by the caller.
    let family = needed(unsafe { handle::shared(family, "column_family") });
    // SAFETY: promised by the caller.
    let from = needed(unsafe { join(starts, start_lengths, count, "start_keys_list") });
    // SAFETY: promised by the caller.
    let to = needed(unsafe { join(ends, end_lengths, count, "end_keys_list") });
    batch.delete_range_cf(family, &from, &to);
}
