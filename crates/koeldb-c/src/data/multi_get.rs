//! Reads of many keys, whose values are copied to the heap of C.

#![expect(unsafe_code, reason = "arrays of the caller")]

use std::ffi::c_char;
use std::ptr;

use koeldb::{ColumnFamily, Db, PinnedSlice, Timestamp};

use crate::boundary::Failure;
use crate::data::{lists, read};
use crate::handle::{self, Handle};
use crate::memory;
use crate::settings::read::ReadOptions;

/// The answers for all keys, or the error of all.
pub(crate) type Answers<T> = Result<Vec<koeldb::Result<Option<T>>>, Failure>;

/// Writes the errors of a multi-get, and calls `give` with each value.
///
/// # Safety
/// The array has `count` elements.
pub(super) unsafe fn deliver<T>(
    answers: Answers<T>,
    count: usize,
    errors: *mut *mut c_char,
    mut give: impl FnMut(usize, Option<T>),
) {
    let answers = match answers {
        Ok(answers) => answers,
        Err(failure) => {
            for index in 0..count {
                give(index, None);
                let text = memory::give_text(failure.text());
                // SAFETY: promised by the caller.
                unsafe { lists::put(errors, index, text) };
            }
            return;
        }
    };
    for (index, answer) in answers.into_iter().enumerate() {
        let (value, error) = match answer {
            Ok(value) => (value, ptr::null_mut()),
            Err(error) => (None, memory::give_text(error.status_text())),
        };
        give(index, value);
        // SAFETY: promised by the caller.
        unsafe { lists::put(errors, index, error) };
    }
}

/// Writes the values of a multi-get to arrays of pointers and lengths.
///
/// # Safety
/// The arrays have `count` elements.
pub(crate) unsafe fn deliver_values(
    answers: Answers<PinnedSlice>,
    count: usize,
    values: *mut *mut c_char,
    lengths: *mut usize,
    errors: *mut *mut c_char,
) {
    let give = |index, value: Option<PinnedSlice>| {
        let copy = value.as_deref().map_or(ptr::null_mut(), memory::copy);
        // SAFETY: promised by the caller.
        unsafe { lists::put(values, index, copy) };
        // SAFETY: promised by the caller.
        unsafe { lists::put(lengths, index, value.map_or(0, |value| value.len())) };
    };
    // SAFETY: promised by the caller.
    unsafe { deliver(answers, count, errors, give) };
}

/// Writes values and timestamps to arrays of pointers and lengths.
///
/// # Safety
/// The arrays have `count` elements.
unsafe fn deliver_dated(
    answers: Answers<(PinnedSlice, Option<Timestamp>)>,
    count: usize,
    values: *mut *mut c_char,
    lengths: *mut usize,
    timestamps: *mut *mut c_char,
    timestamp_lengths: *mut usize,
    errors: *mut *mut c_char,
) {
    let give = |index, found: Option<(PinnedSlice, Option<Timestamp>)>| {
        let value = found.as_ref().map(|(value, _)| value.as_slice());
        let time = found
            .as_ref()
            .map(|(_, time)| time.as_ref().map_or(&[][..], |time| time));
        for (bytes, array, sizes) in [
            (value, values, lengths),
            (time, timestamps, timestamp_lengths),
        ] {
            let copy = bytes.map_or(ptr::null_mut(), memory::copy);
            // SAFETY: promised by the caller.
            unsafe { lists::put(array, index, copy) };
            // SAFETY: promised by the caller.
            unsafe { lists::put(sizes, index, bytes.map_or(0, <[u8]>::len)) };
        }
    };
    // SAFETY: promised by the caller.
    unsafe { deliver(answers, count, errors, give) };
}

/// Reads the keys of one column family.
pub(super) fn of_family(
    family: &ColumnFamily,
    options: &koeldb::ReadOptions,
    keys: &[&[u8]],
) -> Vec<koeldb::Result<Option<PinnedSlice>>> {
    family.multi_get_opt(keys, options).into_iter().collect()
}

/// Returns options that read one state of the database.
fn consistent(db: &Db, options: &ReadOptions) -> koeldb::ReadOptions {
    let mut options = options.inner.clone();
    if options.get_snapshot().is_none() {
        options.set_snapshot(&db.snapshot());
    }
    options
}

/// Reads keys of several column families, as of one point in time.
fn of_families(
    db: &Db,
    options: &ReadOptions,
    families: &[&ColumnFamily],
    keys: &[&[u8]],
) -> Vec<koeldb::Result<Option<PinnedSlice>>> {
    let Some(first) = families.first() else {
        return Vec::new();
    };
    if families.iter().all(|family| family.id() == first.id()) {
        return of_family(first, &options.inner, keys);
    }
    let options = consistent(db, options);
    let mut answers: Vec<_> = keys.iter().map(|_| Ok(None)).collect();
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by_key(|index| families[*index].id());
    for group in order.chunk_by(|a, b| families[*a].id() == families[*b].id()) {
        let of_group: Vec<_> = group.iter().map(|index| keys[*index]).collect();
        let found = of_family(families[group[0]], &options, &of_group);
        for (index, answer) in group.iter().zip(found) {
            answers[*index] = answer;
        }
    }
    answers
}

/// Reads keys with their timestamps, as of one point in time.
fn dated<'a>(
    db: &Db,
    options: &ReadOptions,
    keys: impl Iterator<Item = (&'a ColumnFamily, &'a [u8])>,
) -> Vec<koeldb::Result<Option<read::Dated>>> {
    let options = consistent(db, options);
    keys.map(|(family, key)| read::dated(family, &options, key))
        .collect()
}

/// Reads keys of the default column family.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn multi_get(
    db: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    count: usize,
    keys: *const *const c_char,
    key_lengths: *const usize,
    values: *mut *mut c_char,
    lengths: *mut usize,
    errors: *mut *mut c_char,
) {
    let answers = || {
        // SAFETY: promised by the caller.
        let db = unsafe { handle::shared(db, "db")? };
        // SAFETY: promised by the caller.
        let options = unsafe { handle::shared(options, "options")? };
        // SAFETY: promised by the caller.
        let keys = unsafe { memory::list(keys, key_lengths, count, "keys_list")? };
        Ok(of_family(db.default_cf(), &options.inner, &keys))
    };
    // SAFETY: promised by the caller.
    unsafe { deliver_values(answers(), count, values, lengths, errors) };
}

/// Reads keys, each of its own column family.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn multi_get_cf(
    db: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    families: *const *const Handle<ColumnFamily>,
    count: usize,
    keys: *const *const c_char,
    key_lengths: *const usize,
    values: *mut *mut c_char,
    lengths: *mut usize,
    errors: *mut *mut c_char,
) {
    let answers = || {
        // SAFETY: promised by the caller.
        let db = unsafe { handle::shared(db, "db")? };
        // SAFETY: promised by the caller.
        let options = unsafe { handle::shared(options, "options")? };
        // SAFETY: promised by the caller.
        let families = unsafe { lists::objects(families, count, "column_families")? };
        // SAFETY: promised by the caller.
        let keys = unsafe { memory::list(keys, key_lengths, count, "keys_list")? };
        Ok(of_families(db, options, &families, &keys))
    };
    // SAFETY: promised by the caller.
    unsafe { deliver_values(answers(), count, values, lengths, errors) };
}

/// Reads keys of the default column family with their timestamps.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn multi_get_with_ts(
    db: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    count: usize,
    keys: *const *const c_char,
    key_lengths: *const usize,
    values: *mut *mut c_char,
    lengths: *mut usize,
    timestamps: *mut *mut c_char,
    timestamp_lengths: *mut usize,
    errors: *mut *mut c_char,
) {
    let answers = || {
        // SAFETY: promised by the caller.
        let db = unsafe { handle::shared(db, "db")? };
        // SAFETY: promised by the caller.
        let options = unsafe { handle::shared(options, "options")? };
        // SAFETY: promised by the caller.
        let keys = unsafe { memory::list(keys, key_lengths, count, "keys_list")? };
        let keys = keys.into_iter().map(|key| (db.default_cf(), key));
        Ok(dated(db, options, keys))
    };
    let answers = answers();
    // SAFETY: promised by the caller.
    unsafe {
        deliver_dated(
            answers,
            count,
            values,
            lengths,
            timestamps,
            timestamp_lengths,
            errors,
        )
    };
}

/// Reads keys with their timestamps, each of its own column family.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn multi_get_cf_with_ts(
    db: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    families: *const *const Handle<ColumnFamily>,
    count: usize,
    keys: *const *const c_char,
    key_lengths: *const usize,
    values: *mut *mut c_char,
    lengths: *mut usize,
    timestamps: *mut *mut c_char,
    timestamp_lengths: *mut usize,
    errors: *mut *mut c_char,
) {
    let answers = || {
        // SAFETY: promised by the caller.
        let db = unsafe { handle::shared(db, "db")? };
        // SAFETY: promised by the caller.
        let options = unsafe { handle::shared(options, "options")? };
        // SAFETY: promised by the caller.
        let families = unsafe { lists::objects(families, count, "column_families")? };
        // SAFETY: promised by the caller.
        let keys = unsafe { memory::list(keys, key_lengths, count, "keys_list")? };
        Ok(dated(db, options, families.into_iter().zip(keys)))
    };
    let answers = answers();
    // SAFETY: promised by the caller.
    unsafe {
        deliver_dated(
            answers,
            count,
            values,
            lengths,
            timestamps,
            timestamp_lengths,
            errors,
        )
    };
}
