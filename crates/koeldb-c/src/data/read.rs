//! Reads of single keys.
//!
//! A value that C owns is copied once, from where the engine has it to the heap of C.

#![expect(unsafe_code, reason = "buffers and out-parameters of the caller")]

use std::ffi::c_char;
use std::ptr;

use koeldb::{ColumnFamily, Db, ErrorKind, PinnedSlice, ReadTier, Timestamp};

use crate::boundary::Failure;
use crate::handle::{self, Handle};
use crate::memory::{self, GivenBytes};
use crate::settings::read::ReadOptions;

/// A value in the heap of C, or null.
pub(crate) struct Copied {
    pointer: *mut c_char,
    length: usize,
}

impl Copied {
    const NONE: Copied = Copied {
        pointer: ptr::null_mut(),
        length: 0,
    };

    fn of(value: &[u8]) -> Self {
        Copied {
            pointer: memory::copy(value),
            length: value.len(),
        }
    }
}

impl GivenBytes for Copied {
    fn give(&self) -> (*mut c_char, usize) {
        (self.pointer, self.length)
    }
}

/// Returns the value of a key.
#[inline]
pub(crate) fn get(db: &Db, options: &ReadOptions, key: &[u8]) -> koeldb::Result<Copied> {
    let found = db.get_with(key, &options.inner, Copied::of)?;
    Ok(found.unwrap_or(Copied::NONE))
}

/// Returns the value of a key of a column family.
#[inline]
pub(crate) fn get_cf(
    _: &Db,
    options: &ReadOptions,
    family: &ColumnFamily,
    key: &[u8],
) -> koeldb::Result<Copied> {
    let found = family.get_with(key, &options.inner, Copied::of)?;
    Ok(found.unwrap_or(Copied::NONE))
}

/// Returns the value of a key, pinned where the engine has it.
#[inline]
pub(crate) fn get_pinned(
    db: &Db,
    options: &ReadOptions,
    key: &[u8],
) -> koeldb::Result<Option<PinnedSlice>> {
    db.get_opt(key, &options.inner)
}

/// Returns the value of a key of a column family, pinned where the engine has it.
#[inline]
pub(crate) fn get_pinned_cf(
    _: &Db,
    options: &ReadOptions,
    family: &ColumnFamily,
    key: &[u8],
) -> koeldb::Result<Option<PinnedSlice>> {
    family.get_opt(key, &options.inner)
}

/// Returns the bytes of a pinned value; none of a null pointer.
pub(crate) fn bytes(value: Option<&PinnedSlice>) -> Option<&[u8]> {
    value.map(PinnedSlice::as_slice)
}

/// A value and its timestamp, which is empty if keys have none.
pub(crate) type Dated = (PinnedSlice, Option<Timestamp>);

/// Returns the value of a key and its timestamp.
///
/// A cursor without bounds finds it: reads of the engine do not return timestamps.
pub(crate) fn dated(
    family: &ColumnFamily,
    options: &koeldb::ReadOptions,
    key: &[u8],
) -> koeldb::Result<Option<Dated>> {
    if options.get_timestamp().is_none() {
        return Ok(family.get_opt(key, options)?.map(|value| (value, None)));
    }
    let mut options = options.clone();
    options
        .set_iterate_lower_bound(None)
        .set_iterate_upper_bound(None)
        .set_iter_start_ts(None)
        .set_total_order_seek(true)
        .set_prefix_same_as_start(false)
        .set_keys_only(false)
        .set_allow_unprepared_value(false)
        .set_tailing(false);
    let mut cursor = family.cursor_opt(&options);
    cursor.seek(key)?;
    if cursor.key() != Some(key) {
        return Ok(None);
    }
    let timestamp = cursor.timestamp();
    let entry = cursor.pinned_entry();
    Ok(entry.map(|(_, value)| (value, timestamp)))
}

/// Returns the value of a key and its timestamp.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn get_with_ts(
    db: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    key: *const c_char,
    key_length: usize,
    length: *mut usize,
    timestamp: *mut *mut c_char,
    timestamp_length: *mut usize,
) -> Result<*mut c_char, Failure> {
    // SAFETY: promised by the caller.
    let db = unsafe { handle::shared(db, "db")? };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "options")? };
    // SAFETY: promised by the caller.
    let key = unsafe { memory::bytes(key, key_length, "key")? };
    let found = dated(db.default_cf(), &options.inner, key);
    // SAFETY: promised by the caller.
    unsafe { give_dated(found, length, timestamp, timestamp_length) }
}

/// Returns the value of a key of a column family and its timestamp.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn get_cf_with_ts(
    _: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    family: *mut Handle<ColumnFamily>,
    key: *const c_char,
    key_length: usize,
    length: *mut usize,
    timestamp: *mut *mut c_char,
    timestamp_length: *mut usize,
) -> Result<*mut c_char, Failure> {
    // SAFETY: promised by the caller.
    let family = unsafe { handle::shared(family, "column_family")? };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "options")? };
    // SAFETY: promised by the caller.
    let key = unsafe { memory::bytes(key, key_length, "key")? };
    let found = dated(family, &options.inner, key);
    // SAFETY: promised by the caller.
    unsafe { give_dated(found, length, timestamp, timestamp_length) }
}

/// Gives copies of a value and its timestamp to C.
///
/// # Safety
/// The places are null or may be written.
unsafe fn give_dated(
    found: koeldb::Result<Option<Dated>>,
    length: *mut usize,
    timestamp: *mut *mut c_char,
    timestamp_length: *mut usize,
) -> Result<*mut c_char, Failure> {
    let dated = found.as_ref().ok().and_then(Option::as_ref);
    let value = dated.map(|(value, _)| value.as_slice());
    let time = dated.map(|(_, time)| time.as_ref().map_or(&[][..], |time| time));
    // SAFETY: promised by the caller.
    unsafe { memory::set(length, value.map_or(0, <[u8]>::len)) };
    // SAFETY: promised by the caller.
    unsafe { memory::set(timestamp_length, time.map_or(0, <[u8]>::len)) };
    if let Some(time) = time {
        // SAFETY: promised by the caller.
        unsafe { memory::set(timestamp, memory::copy(time)) };
    }
    let copy = value.map_or(ptr::null_mut(), memory::copy);
    found?;
    Ok(copy)
}

/// Copies the value of a key into a buffer, if it fits; returns whether it did.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn get_into_buffer(
    db: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    key: *const c_char,
    key_length: usize,
    buffer: *mut c_char,
    buffer_size: usize,
    length: *mut usize,
    found: *mut u8,
) -> Result<u8, Failure> {
    // SAFETY: promised by the caller.
    let db = unsafe { handle::shared(db, "db")? };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "options")? };
    // SAFETY: promised by the caller.
    let key = unsafe { memory::bytes(key, key_length, "key")? };
    // SAFETY: promised by the caller.
    unsafe {
        fill(
            db.default_cf(),
            options,
            key,
            buffer,
            buffer_size,
            length,
            found,
        )
    }
}

/// Copies the value of a key of a column family into a buffer, if it fits; returns whether it did.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn get_into_buffer_cf(
    _: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    family: *mut Handle<ColumnFamily>,
    key: *const c_char,
    key_length: usize,
    buffer: *mut c_char,
    buffer_size: usize,
    length: *mut usize,
    found: *mut u8,
) -> Result<u8, Failure> {
    // SAFETY: promised by the caller.
    let family = unsafe { handle::shared(family, "column_family")? };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "options")? };
    // SAFETY: promised by the caller.
    let key = unsafe { memory::bytes(key, key_length, "key")? };
    // SAFETY: promised by the caller.
    unsafe { fill(family, options, key, buffer, buffer_size, length, found) }
}

/// Copies a value into a buffer, if it fits.
///
/// # Safety
/// The buffer has `size` bytes; the places are null or may be written.
unsafe fn fill(
    family: &ColumnFamily,
    options: &ReadOptions,
    key: &[u8],
    buffer: *mut c_char,
    size: usize,
    length: *mut usize,
    found: *mut u8,
) -> Result<u8, Failure> {
    let copy = |value: &[u8]| {
        let fits = value.len() <= size;
        if fits && !value.is_empty() && !buffer.is_null() {
            // SAFETY: the buffer of the caller has room, and the engine does not read it.
            unsafe { ptr::copy_nonoverlapping(value.as_ptr(), buffer.cast(), value.len()) };
        }
        (value.len(), fits)
    };
    let answer = family.get_with(key, &options.inner, copy);
    let value = answer.as_ref().ok().copied().flatten();
    // SAFETY: promised by the caller.
    unsafe { memory::set(found, u8::from(value.is_some())) };
    // SAFETY: promised by the caller.
    unsafe { memory::set(length, value.map_or(0, |(length, _)| length)) };
    answer?;
    Ok(u8::from(value.is_some_and(|(_, fits)| fits)))
}

/// Returns whether a key may exist, and its value if no file is read for it.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn key_may_exist(
    db: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    key: *const c_char,
    key_length: usize,
    value: *mut *mut c_char,
    length: *mut usize,
    _timestamp: *const c_char,
    _timestamp_length: usize,
    value_found: *mut u8,
) -> u8 {
    // SAFETY: promised by the caller.
    let Ok(db) = (unsafe { handle::shared(db, "db") }) else {
        return 1;
    };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::optional(options) };
    // SAFETY: promised by the caller.
    let key = unsafe { memory::bytes(key, key_length, "key") }.ok();
    // SAFETY: promised by the caller.
    unsafe { may_exist(db.default_cf(), options, key, value, length, value_found) }
}

/// Returns whether a key of a column family may exist, and its value if no file is read for it.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn key_may_exist_cf(
    _: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    family: *mut Handle<ColumnFamily>,
    key: *const c_char,
    key_length: usize,
    value: *mut *mut c_char,
    length: *mut usize,
    _timestamp: *const c_char,
    _timestamp_length: usize,
    value_found: *mut u8,
) -> u8 {
    // SAFETY: promised by the caller.
    let Ok(family) = (unsafe { handle::shared(family, "column_family") }) else {
        return 1;
    };
    // SAFETY: promised by the caller.
    let options = unsafe { handle::optional(options) };
    // SAFETY: promised by the caller.
    let key = unsafe { memory::bytes(key, key_length, "key") }.ok();
    // SAFETY: promised by the caller.
    unsafe { may_exist(family, options, key, value, length, value_found) }
}

/// Looks for a key in memory; what cannot be known counts as existing.
///
/// As in RocksDB, the value of a key that does not exist counts as found: it is empty.
///
/// # Safety
/// The places are null or may be written.
unsafe fn may_exist(
    family: &ColumnFamily,
    options: Option<&ReadOptions>,
    key: Option<&[u8]>,
    value: *mut *mut c_char,
    length: *mut usize,
    value_found: *mut u8,
) -> u8 {
    let mut options = options
        .map(|options| options.inner.clone())
        .unwrap_or_default();
    options.set_read_tier(ReadTier::BlockCache);
    let Some(key) = key else {
        return 1;
    };
    let answer = family.get_opt(key, &options);
    let may_exist = match &answer {
        Ok(found) => found.is_some(),
        Err(error) => error.kind() != ErrorKind::NotFound,
    };
    let found = match answer {
        Ok(found) => Some(found.unwrap_or_default()),
        Err(_) => None,
    };
    // SAFETY: promised by the caller.
    unsafe { memory::set(value_found, u8::from(found.is_some())) };
    if let Some(found) = found.filter(|_| !value_found.is_null() && !value.is_null()) {
        // SAFETY: promised by the caller.
        unsafe { memory::set(length, found.len()) };
        // SAFETY: promised by the caller.
        unsafe { memory::set(value, memory::copy(&found)) };
    }
    u8::from(may_exist)
}
