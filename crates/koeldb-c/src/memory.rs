//! Bytes and texts that cross the boundary.
//!
//! Memory that C owns afterwards is from the C heap, whatever allocator Rust has: `rocksdb_free` is
//! `free`.

#![expect(unsafe_code, reason = "the pointers are the caller's")]

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::ptr;

use crate::boundary::Failure;

/// Borrowed bytes (`rocksdb_slice_t`).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Slice {
    data: *const c_char,
    size: usize,
}

impl From<&[u8]> for Slice {
    fn from(bytes: &[u8]) -> Self {
        Slice {
            data: pointer(bytes),
            size: bytes.len(),
        }
    }
}

impl Slice {
    /// Returns the bytes.
    ///
    /// # Safety
    /// They outlive `'a`, and do not change.
    pub(crate) unsafe fn bytes<'a>(self) -> Result<&'a [u8], Failure> {
        // SAFETY: promised by the caller.
        unsafe { bytes(self.data, self.size, "a slice") }
    }
}

/// Creates the error of bytes that are null or too long.
#[cold]
#[inline(never)]
fn no_bytes(name: &str, length: usize) -> Failure {
    Failure::argument(format!("{name} is null, and {length} bytes long"))
}

/// Returns the bytes of a pointer and a length; a null pointer has none.
///
/// # Safety
/// There are `length` bytes, which outlive `'a` and do not change.
#[inline]
pub(crate) unsafe fn bytes<'a>(
    pointer: *const c_char,
    length: usize,
    name: &str,
) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || isize::try_from(length).is_err() {
        return Err(no_bytes(name, length));
    }
    // SAFETY: it is not null, and the caller promises the rest.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), length) })
}

/// Returns the bytes of a pointer and a length; `None` if the pointer is null.
///
/// # Safety
/// As [`bytes`].
#[inline]
pub(crate) unsafe fn optional_bytes<'a>(
    pointer: *const c_char,
    length: usize,
) -> Result<Option<&'a [u8]>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: promised by the caller.
    unsafe { bytes(pointer, length, "bytes") }.map(Some)
}

/// Returns the slices of an array of pointers and one of lengths.
///
/// # Safety
/// Both arrays have `count` elements; for each pair the rules of [`bytes`] hold.
pub(crate) unsafe fn list<'a>(
    pointers: *const *const c_char,
    lengths: *const usize,
    count: usize,
    name: &str,
) -> Result<Vec<&'a [u8]>, Failure> {
    // SAFETY: promised by the caller.
    let pointers = unsafe { array(pointers, count, name)? };
    // SAFETY: promised by the caller.
    let lengths = unsafe { array(lengths, count, name)? };
    let pairs = pointers.iter().zip(lengths);
    // SAFETY: promised by the caller.
    pairs
        .map(|(pointer, length)| unsafe { bytes(*pointer, *length, name) })
        .collect()
}

/// Returns the elements of an array; a null pointer has none.
///
/// # Safety
/// There are `count` elements, which outlive `'a` and do not change.
pub(crate) unsafe fn array<'a, T>(
    pointer: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::argument(format!(
            "{name} is null, and has {count} elements"
        )));
    }
    // SAFETY: it is not null, and the caller promises the rest.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Returns the text of a pointer.
///
/// # Safety
/// It ends with a zero, outlives `'a` and does not change.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a CStr, Failure> {
    // SAFETY: promised by the caller.
    let text = unsafe { optional_text(pointer) };
    text.ok_or_else(|| Failure::null(name))
}

/// Returns the text of a pointer; `None` if it is null.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional_text<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: it is not null, and the caller promises the rest.
    Some(unsafe { CStr::from_ptr(pointer) })
}

/// The target of an out-parameter, which C need not initialize; `None` for null.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// Returns the target of an out-parameter.
///
/// # Safety
/// It outlives `'a`, and nobody else uses it.
pub(crate) unsafe fn out<'a, T>(pointer: *mut T) -> Out<'a, T> {
    // SAFETY: promised by the caller; an uninitialized target is permitted.
    unsafe { pointer.cast::<MaybeUninit<T>>().as_mut() }
}

/// Returns a pointer to bytes.
///
/// Those of an empty slice may be at address 1, which the Go runtime takes for a damaged pointer.
#[inline]
pub(crate) fn pointer(bytes: &[u8]) -> *const c_char {
    match bytes.is_empty() {
        true => c"".as_ptr(),
        false => bytes.as_ptr().cast(),
    }
}

/// Copies bytes to the C heap, with a zero behind them that is not counted.
#[inline]
pub(crate) fn copy(bytes: &[u8]) -> *mut c_char {
    // SAFETY: any size may be asked for.
    let copy = unsafe { libc::malloc(bytes.len() + 1) }.cast::<u8>();
    if copy.is_null() {
        std::alloc::handle_alloc_error(std::alloc::Layout::for_value(bytes));
    }
    // SAFETY: the new block has room for them and overlaps nothing.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
    // SAFETY: the block is one byte longer.
    let end = unsafe { copy.add(bytes.len()) };
    // SAFETY: that byte is within the block.
    unsafe { end.write(0) };
    copy.cast()
}

/// A value whose bytes C receives as a copy.
pub(crate) trait GivenBytes {
    /// Copies the bytes to the C heap, and returns their number; null if there are none.
    fn give(&self) -> (*mut c_char, usize);
}

impl<T: AsRef<[u8]>> GivenBytes for Option<T> {
    fn give(&self) -> (*mut c_char, usize) {
        match self {
            Some(bytes) => (copy(bytes.as_ref()), bytes.as_ref().len()),
            None => (ptr::null_mut(), 0),
        }
    }
}

/// Gives C a copy of bytes, and their number.
///
/// # Safety
/// `length` is null or may be written.
#[expect(
    clippy::needless_pass_by_value,
    reason = "generated functions pass what the safe ones return"
)]
#[inline]
pub(crate) unsafe fn give_bytes(bytes: impl GivenBytes, length: *mut usize) -> *mut c_char {
    let (copy, count) = bytes.give();
    // SAFETY: promised by the caller.
    unsafe { set(length, count) };
    copy
}

/// Gives C a text.
pub(crate) fn give_text(text: impl AsRef<str>) -> *mut c_char {
    copy(text.as_ref().as_bytes())
}

/// Gives C a text, or null.
pub(crate) fn give_optional_text(text: Option<impl AsRef<str>>) -> *mut c_char {
    text.map_or(ptr::null_mut(), give_text)
}

/// Lends C bytes of an object, and their number.
///
/// # Safety
/// `length` is null or may be written.
#[inline]
pub(crate) unsafe fn lend_bytes<'a>(
    bytes: impl Into<Option<&'a [u8]>>,
    length: *mut usize,
) -> *const c_char {
    let bytes = bytes.into();
    // SAFETY: promised by the caller.
    unsafe { set(length, bytes.map_or(0, <[u8]>::len)) };
    bytes.map_or(ptr::null(), pointer)
}

/// Lends C a text of an object.
pub(crate) fn lend_text<'a>(text: impl Into<Option<&'a CStr>>) -> *const c_char {
    text.into().map_or(ptr::null(), CStr::as_ptr)
}

/// Writes an out-parameter, unless it is null.
///
/// # Safety
/// `place` is null or may be written.
#[inline]
pub(crate) unsafe fn set<T: Copy>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: it is not null, and the caller promises the rest.
        unsafe { place.write(value) };
    }
}

/// Returns the path in a C text.
pub(crate) fn path(text: &CStr) -> &std::path::Path {
    use std::os::unix::ffi::OsStrExt;
    std::path::Path::new(std::ffi::OsStr::from_bytes(text.to_bytes()))
}

/// Returns the name in a C text.
pub(crate) fn name(text: &CStr) -> Result<&str, Failure> {
    let name = text.to_str();
    name.map_err(|_| Failure::argument(format!("{text:?} is not UTF-8")))
}

/// Conversion of a number to the type that C declares.
pub(crate) trait ToC<C> {
    /// Returns the number, the nearest one if the type of C is narrower.
    fn to_c(self) -> C;
}

impl ToC<u8> for bool {
    fn to_c(self) -> u8 {
        u8::from(self)
    }
}

macro_rules! same {
    ($($type:ty),*) => {$(
        impl ToC<$type> for $type {
            fn to_c(self) -> $type {
                self
            }
        }
    )*};
}

same!(bool, u8, i32, u32, i64, u64, usize, f64, Slice);

macro_rules! nearest {
    ($($from:ty => $to:ty),*) => {$(
        impl ToC<$to> for $from {
            fn to_c(self) -> $to {
                <$to>::try_from(self).unwrap_or(<$to>::MAX)
            }
        }
    )*};
}

nearest!(usize => u64, u64 => usize, usize => i32, usize => u32, u64 => i64, u32 => i32, u64 => u32);

/// Frees what C owns (`rocksdb_free`).
///
/// # Safety
/// The pointer is null, or one that a function has given away.
#[inline]
pub(crate) unsafe fn free(pointer: *mut std::ffi::c_void) {
    // SAFETY: promised by the caller.
    unsafe { libc::free(pointer) };
}
