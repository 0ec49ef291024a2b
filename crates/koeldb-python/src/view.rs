//! Memory that Python reads without a copy: pinned values, and columns of a scan; and buffers of
//! Python that are read and filled where they are.

#![expect(unsafe_code, reason = "buffers of Python are C structs")]

use std::ffi::{c_int, c_void};

use koeldb::PinnedSlice;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::failure::Outcome;

/// Bytes that `memoryview`, NumPy and Arrow read where they are.
///
/// A value of the database keeps its block in memory until this object and all its views are gone.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Memory(Owner);

/// The owner of the bytes.
enum Owner {
    Pinned(PinnedSlice),
    Column(Vec<u8>),
}

impl Memory {
    pub(crate) fn pinned(value: PinnedSlice) -> Self {
        Memory(Owner::Pinned(value))
    }

    pub(crate) fn column(bytes: Vec<u8>) -> Self {
        Memory(Owner::Column(bytes))
    }

    fn bytes(&self) -> &[u8] {
        match &self.0 {
            Owner::Pinned(value) => value,
            Owner::Column(bytes) => bytes,
        }
    }
}

#[pymethods]
impl Memory {
    fn __len__(&self) -> usize {
        self.bytes().len()
    }

    /// Fills a buffer of the interpreter, which keeps this object until it releases the buffer.
    ///
    /// # Safety
    /// The interpreter calls it with a buffer that may be written.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = slf.get().bytes();
        let length = isize::try_from(bytes.len()).unwrap_or(isize::MAX);
        let pointer = bytes.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: `view` may be written, by the contract of this function. The bytes stay where
        // they are and do not change while the object lives, to which the filled buffer has a
        // reference; it is read-only.
        let filled =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), pointer, length, 1, flags) };
        if filled == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}

/// The bytes of a contiguous buffer of Python, of any element type.
///
/// It is a guard of the GIL: while it is held, nothing else reads or writes the bytes.
pub(crate) struct Buffer<'py> {
    buffer: PyUntypedBuffer,
    /// Neither `Send` nor `Sync`: it stays with the thread that has the GIL.
    _py: Python<'py>,
}

impl<'py> Buffer<'py> {
    /// Returns the buffer of an object.
    pub(crate) fn new(object: &Bound<'py, PyAny>) -> Outcome<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyTypeError::new_err(
                "the buffer is not contiguous: pass a copy, such as bytes(buffer)",
            )
            .into());
        }
        let py = object.py();
        Ok(Buffer { buffer, _py: py })
    }

    /// Returns where the bytes are and how many. An empty buffer may have no address.
    fn place(&self) -> (*mut u8, usize) {
        let length = self.buffer.len_bytes();
        if length == 0 {
            return (std::ptr::dangling_mut(), 0);
        }
        (self.buffer.buf_ptr().cast(), length)
    }

    /// Returns the bytes. They must not be used where the GIL is released.
    pub(crate) fn bytes(&self) -> &[u8] {
        let (pointer, length) = self.place();
        // SAFETY: the buffer is contiguous, and its memory stays while `self` lives. The GIL is
        // held, and callers do not release it while they have the slice, so that nothing writes the
        // bytes.
        unsafe { std::slice::from_raw_parts(pointer, length) }
    }

    /// Returns the bytes of a writable buffer; `name` is the argument that errors name. `fill` must
    /// not call Python.
    pub(crate) fn fill<R>(
        &self,
        name: &str,
        fill: impl FnOnce(&mut [u8]) -> Outcome<R>,
    ) -> Outcome<R> {
        if self.buffer.readonly() {
            return Err(PyValueError::new_err(format!("{name} must be writable")).into());
        }
        let (pointer, length) = self.place();
        // SAFETY: the buffer is contiguous and writable, and its memory stays while `self` lives.
        // The GIL is held, and `fill` does not call Python, so that nothing else
        // reads or writes the bytes meanwhile.
        fill(unsafe { std::slice::from_raw_parts_mut(pointer, length) })
    }
}
