//! Reads of many keys of one column family, whose values are pinned where the engine has them.

#![expect(unsafe_code, reason = "arrays of the caller")]

use std::ffi::{CString, c_char};

use koeldb::{ColumnFamily, Db, PinnedSlice};

use crate::boundary::Failure;
use crate::data::lists;
use crate::data::multi_get::{Answers, deliver, of_family};
use crate::handle::{self, Handle};
use crate::memory::{self, Slice};
use crate::settings::read::ReadOptions;

/// Reads keys of one column family; the values are pinned.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn batched_cf(
    _: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    family: *mut Handle<ColumnFamily>,
    count: usize,
    keys: *const *const c_char,
    key_lengths: *const usize,
    values: *mut *mut Handle<PinnedSlice>,
    errors: *mut *mut c_char,
    _sorted_input: bool,
) {
    // SAFETY: promised by the caller.
    let keys = unsafe { memory::list(keys, key_lengths, count, "keys_list") };
    // SAFETY: promised by the caller.
    let answers = unsafe { of_pointers(options, family, keys) };
    // SAFETY: promised by the caller.
    let give =
        |index, value| unsafe { lists::put(values, index, handle::give::<Option<_>>(value)) };
    // SAFETY: promised by the caller.
    unsafe { deliver(answers, count, errors, give) };
}

/// Reads keys of one column family, given as slices; the values are pinned.
///
/// # Safety
/// The rules of C.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) unsafe fn batched_cf_slice(
    _: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    family: *mut Handle<ColumnFamily>,
    count: usize,
    keys: *const Slice,
    values: *mut *mut Handle<PinnedSlice>,
    errors: *mut *mut c_char,
    _sorted_input: bool,
) {
    // SAFETY: promised by the caller.
    let keys = unsafe { slices(keys, count) };
    // SAFETY: promised by the caller.
    let answers = unsafe { of_pointers(options, family, keys) };
    // SAFETY: promised by the caller.
    let give =
        |index, value| unsafe { lists::put(values, index, handle::give::<Option<_>>(value)) };
    // SAFETY: promised by the caller.
    unsafe { deliver(answers, count, errors, give) };
}

/// Returns the bytes of an array of slices.
///
/// # Safety
/// There are `count` slices, whose bytes outlive `'a` and do not change.
unsafe fn slices<'a>(slices: *const Slice, count: usize) -> Result<Vec<&'a [u8]>, Failure> {
    // SAFETY: promised by the caller.
    let slices = unsafe { memory::array(slices, count, "keys")? };
    // SAFETY: promised by the caller.
    slices
        .iter()
        .map(|slice| unsafe { slice.bytes() })
        .collect()
}

/// Reads keys of one column family.
///
/// # Safety
/// The pointers are those of C.
unsafe fn of_pointers(
    options: *const Handle<ReadOptions>,
    family: *mut Handle<ColumnFamily>,
    keys: Result<Vec<&[u8]>, Failure>,
) -> Answers<PinnedSlice> {
    // SAFETY: promised by the caller.
    let options = unsafe { handle::shared(options, "options")? };
    // SAFETY: promised by the caller.
    let family = unsafe { handle::shared(family, "column_family")? };
    Ok(of_family(family, &options.inner, &keys?))
}

/// The answers of a multi-get, with pinned values (`rocksdb_pinnable_multi_get_t`).
pub(crate) struct PinnedAnswers(Vec<Result<Option<PinnedSlice>, CString>>);

/// Reads keys of one column family; the answers own the values.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn batched_pinned_cf(
    _: *mut Handle<Db>,
    options: *const Handle<ReadOptions>,
    family: *mut Handle<ColumnFamily>,
    count: usize,
    keys: *const Slice,
    _sorted_input: u8,
) -> *mut Handle<PinnedAnswers> {
    let text = |text: String| CString::new(text.replace('\0', " ")).unwrap_or_default();
    // SAFETY: promised by the caller.
    let keys = unsafe { slices(keys, count) };
    // SAFETY: promised by the caller.
    let answers = unsafe { of_pointers(options, family, keys) };
    let answers = match answers {
        Ok(answers) => answers
            .into_iter()
            .map(|answer| answer.map_err(|error| text(error.status_text())))
            .collect(),
        Err(failure) => vec![Err(text(failure.text())); count],
    };
    handle::give(PinnedAnswers(answers))
}

/// Returns the number of keys.
pub(crate) fn count(answers: &PinnedAnswers) -> usize {
    answers.0.len()
}

/// Lends the value or the error of a key; returns which one it is.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn result(
    answers: *const Handle<PinnedAnswers>,
    index: usize,
    value: *mut *const c_char,
    value_length: *mut usize,
    error: *mut *const c_char,
    error_length: *mut usize,
) -> i32 {
    const NOT_FOUND: i32 = 0;
    const FOUND: i32 = 1;
    const ERROR: i32 = 2;
    const OUT_OF_BOUNDS: i32 = 3;
    // SAFETY: promised by the caller.
    let answers = unsafe { handle::optional(answers) };
    let answer = answers.and_then(|answers| answers.0.get(index));
    let (found, failed) = match answer {
        Some(Ok(found)) => (found.as_deref(), None),
        Some(Err(text)) => (None, Some(text.to_bytes())),
        None => (None, None),
    };
    // SAFETY: promised by the caller.
    let pointer = unsafe { memory::lend_bytes(found, value_length) };
    // SAFETY: promised by the caller.
    unsafe { memory::set(value, pointer) };
    // SAFETY: promised by the caller.
    let pointer = unsafe { memory::lend_bytes(failed, error_length) };
    // SAFETY: promised by the caller.
    unsafe { memory::set(error, pointer) };
    match answer {
        None => OUT_OF_BOUNDS,
        Some(Err(_)) => ERROR,
        Some(Ok(None)) => NOT_FOUND,
        Some(Ok(Some(_))) => FOUND,
    }
}
