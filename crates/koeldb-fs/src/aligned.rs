//! Memory at the alignment that direct I/O requires.
//!
//! Invariants: `pointer` comes from `alloc_zeroed` with `layout` and is freed once, by the owner;
//! all `layout.size()` bytes are initialized from the start.
#![expect(
    unsafe_code,
    reason = "std offers no vector of a chosen alignment; direct reads need one"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use koeldb_base::{Error, Result};

/// The alignment that direct I/O uses throughout: a page, and a multiple of every sector size in
/// use.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// A fixed-size, zeroed allocation at a chosen alignment; `Deref`s to its bytes.
pub struct AlignedBuffer {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned exclusively, like a boxed slice's.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// Allocates `bytes` zeroed bytes, rounded up to a multiple of `alignment`; at least one.
    ///
    /// # Errors
    /// `InvalidArgument` if `alignment` is no power of two or the size exceeds the address space.
    pub fn new(bytes: usize, alignment: usize) -> Result<Self> {
        let layout = bytes
            .max(1)
            .checked_next_multiple_of(alignment.max(1))
            .and_then(|size| Layout::from_size_align(size, alignment).ok())
            .ok_or_else(|| {
                Error::invalid_argument(format!(
                    "cannot allocate {bytes} bytes at alignment {alignment}"
                ))
            })?;
        // SAFETY: the size of `layout` is not zero: it is a multiple of `alignment` and at least 1.
        let pointer = unsafe { alloc_zeroed(layout) };
        match NonNull::new(pointer) {
            Some(pointer) => Ok(AlignedBuffer { pointer, layout }),
            None => handle_alloc_error(layout),
        }
    }

    /// The alignment of the first byte.
    #[must_use]
    pub fn alignment(&self) -> usize {
        self.layout.align()
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `size` initialized bytes at `pointer` are owned by `self`.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.layout.size()) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, freed only here.
        unsafe { dealloc(self.pointer.as_ptr(), self.layout) };
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "AlignedBuffer({} bytes at {})",
            self.layout.size(),
            self.layout.align()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_rounded_up_and_aligned() {
        let mut buffer = AlignedBuffer::new(5000, DIRECT_ALIGNMENT).unwrap();
        assert_eq!(buffer.len(), 8192);
        assert_eq!(buffer.as_ptr().addr() % DIRECT_ALIGNMENT, 0);
        assert!(buffer.iter().all(|&byte| byte == 0));
        buffer[8191] = 7;
        assert_eq!(buffer[8191], 7);
        assert_eq!(AlignedBuffer::new(0, 512).unwrap().len(), 512);
        assert!(AlignedBuffer::new(1, 3).is_err());
        assert!(AlignedBuffer::new(usize::MAX, 4096).is_err());
    }
}
