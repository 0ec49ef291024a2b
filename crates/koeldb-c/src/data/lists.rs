//! Arrays of texts and of objects that cross the boundary.

#![expect(unsafe_code, reason = "the pointers are the caller's")]

use std::ffi::{CStr, c_char};
use std::ptr;

use koeldb::ColumnFamily;

use crate::boundary::Failure;
use crate::handle::{self, Handle};
use crate::memory;

/// Returns the number of elements that an `int` of C names; negative numbers mean none.
pub(crate) fn count(count: i32) -> usize {
    usize::try_from(count).unwrap_or(0)
}

/// Returns the texts of an array.
///
/// # Safety
/// There are `count` texts, which end with a zero, outlive `'a` and do not change.
pub(crate) unsafe fn texts<'a>(
    pointer: *const *const c_char,
    count: usize,
    name: &str,
) -> Result<Vec<&'a CStr>, Failure> {
    // SAFETY: promised by the caller.
    let pointers = unsafe { memory::array(pointer, count, name)? };
    let texts = pointers.iter();
    // SAFETY: promised by the caller.
    texts
        .map(|text| unsafe { memory::text(*text, name) })
        .collect()
}

/// Returns the names of an array.
///
/// # Safety
/// As [`texts`].
pub(crate) unsafe fn names<'a>(
    pointer: *const *const c_char,
    count: usize,
    name: &str,
) -> Result<Vec<&'a str>, Failure> {
    // SAFETY: promised by the caller.
    let texts = unsafe { texts(pointer, count, name)? };
    texts.into_iter().map(memory::name).collect()
}

/// Joins the parts of a key or a value.
///
/// # Safety
/// Both arrays have `count` elements.
pub(crate) unsafe fn join(
    parts: *const *const c_char,
    lengths: *const usize,
    count: i32,
    name: &str,
) -> Result<Vec<u8>, Failure> {
    // SAFETY: promised by the caller.
    let parts = unsafe { memory::list(parts, lengths, self::count(count), name)? };
    Ok(parts.concat())
}

/// Returns the objects of an array of pointers.
///
/// # Safety
/// There are `count` pointers to objects, which outlive `'a` and do not change.
pub(crate) unsafe fn objects<'a, T>(
    pointer: *const *const Handle<T>,
    count: usize,
    name: &str,
) -> Result<Vec<&'a T>, Failure> {
    // SAFETY: promised by the caller.
    let pointers = unsafe { memory::array(pointer, count, name)? };
    let objects = pointers.iter();
    // SAFETY: promised by the caller.
    objects
        .map(|object| unsafe { handle::shared(*object, name) })
        .collect()
}

/// Copies an array to the C heap.
pub(crate) fn give_array<T: Copy>(items: &[T]) -> *mut T {
    // SAFETY: any size may be asked for; zero becomes one, so that null means failure.
    let array = unsafe { libc::malloc(size_of_val(items).max(1)) }.cast::<T>();
    if array.is_null() {
        std::alloc::handle_alloc_error(std::alloc::Layout::for_value(items));
    }
    // SAFETY: the new block has room for them and overlaps nothing.
    unsafe { ptr::copy_nonoverlapping(items.as_ptr(), array, items.len()) };
    array
}

/// Copies texts and an array of them to the C heap, for [`free_texts`].
pub(crate) fn give_texts(texts: impl IntoIterator<Item = impl AsRef<str>>) -> *mut *mut c_char {
    let copies: Vec<_> = texts.into_iter().map(memory::give_text).collect();
    give_array(&copies)
}

/// Frees an array of texts.
///
/// # Safety
/// The array is null or from [`give_texts`] with `count` texts, and is not used again.
pub(crate) unsafe fn free_texts(list: *mut *mut c_char, count: usize) {
    if list.is_null() {
        return;
    }
    // SAFETY: promised by the caller.
    let texts = unsafe { std::slice::from_raw_parts(list, count) };
    for text in texts {
        // SAFETY: promised by the caller.
        unsafe { libc::free(text.cast()) };
    }
    // SAFETY: promised by the caller.
    unsafe { libc::free(list.cast()) };
}

/// Writes an element of an array whose elements may be uninitialized; null is permitted.
///
/// # Safety
/// The array is null or has more than `index` elements.
pub(crate) unsafe fn put<T>(array: *mut T, index: usize, value: T) {
    if array.is_null() {
        return;
    }
    // SAFETY: promised by the caller.
    let place = unsafe { array.add(index) };
    // SAFETY: promised by the caller.
    unsafe { place.write(value) };
}

/// Gives handles of column families to C, in an array of the caller.
///
/// # Safety
/// The array has room for all of them.
pub(crate) unsafe fn put_families(
    array: *mut *mut Handle<ColumnFamily>,
    families: Vec<ColumnFamily>,
) {
    for (index, family) in families.into_iter().enumerate() {
        // SAFETY: promised by the caller.
        unsafe { put(array, index, handle::give(family)) };
    }
}
