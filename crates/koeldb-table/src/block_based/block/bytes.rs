//! The bytes of a block, and the way to them in as few dependent loads as can be.
//!
//! Most of a cached point read is waiting for memory. So the bytes are reached by a pointer kept here, not
//! through the buffer they are in, and what is known to be needed soon is fetched ahead.
//!
//! Invariant of [`BlockBytes`]: `bytes` points to memory of `buffer`, which neither moves nor changes while the
//! buffer lives; `buffer` is held as long as the pointer.
#![expect(
    unsafe_code,
    reason = "one load less on the way to every block, and prefetching"
)]
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use koeldb_base::{Buffer, PinnedSlice};

use super::ValueRange;

/// The bytes that are fetched together.
pub(super) const LINE_BYTES: usize = 64;

/// Whose memory a block lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    /// Its own.
    Heap,
    /// That of a mapped file.
    Mapped,
    /// That of a larger read, which is not to be kept for long.
    Lent,
}

/// The uncompressed bytes of a block, on the heap or in a mapped file.
#[derive(Clone)]
pub struct BlockBytes {
    bytes: NonNull<[u8]>,
    buffer: Arc<Buffer>,
    start: u64,
    home: Home,
}

// SAFETY: `bytes` is a shared view of memory that never changes, kept alive by `buffer`, which may be sent.
unsafe impl Send for BlockBytes {}

// SAFETY: as for `Send`; nothing can be written through `bytes`.
unsafe impl Sync for BlockBytes {}

impl BlockBytes {
    /// The `len` bytes at `start` of `buffer`, which must hold them.
    #[must_use]
    pub fn new(buffer: Arc<Buffer>, start: u64, len: u32) -> Self {
        BlockBytes {
            bytes: NonNull::from(buffer.slice(start, len)),
            buffer,
            start,
            home: Home::Heap,
        }
    }

    /// The same, where `buffer` is a mapped file and no memory of ours.
    #[must_use]
    pub fn mapped(buffer: Arc<Buffer>, start: u64, len: u32) -> Self {
        BlockBytes {
            home: Home::Mapped,
            ..Self::new(buffer, start, len)
        }
    }

    /// The same, where `buffer` is that of a larger read: what is pinned is copied, so that it does not keep all of that.
    #[must_use]
    pub fn lent(buffer: Arc<Buffer>, start: u64, len: u32) -> Self {
        BlockBytes {
            home: Home::Lent,
            ..Self::new(buffer, start, len)
        }
    }

    /// The heap memory this takes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        const HEADER: usize = size_of::<Buffer>() + 2 * size_of::<usize>();
        match self.home {
            Home::Heap => self.buffer.as_slice().len().saturating_add(HEADER),
            Home::Mapped => 0,
            Home::Lent => self.len(),
        }
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: by the invariant the pointer is to bytes that live and stay the same as long as `self.buffer`.
        unsafe { self.bytes.as_ref() }
    }

    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A part of the bytes that outlives the block.
    #[inline]
    #[must_use]
    pub fn pin(&self, range: ValueRange) -> PinnedSlice {
        if self.home == Home::Lent {
            return PinnedSlice::copy_of(range.of(self.as_slice()));
        }
        let start = self.start.saturating_add(u64::from(range.start));
        PinnedSlice::pin(&self.buffer, start, range.len)
    }

    /// Begins to fetch what [`BlockBytes::pin`] will write to.
    #[inline]
    pub(super) fn prefetch_pin(&self) {
        prefetch_line(Arc::as_ptr(&self.buffer).cast());
    }
}

impl fmt::Debug for BlockBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes at {} of {:?}",
            self.len(),
            self.start,
            self.buffer
        )
    }
}

impl From<Vec<u8>> for BlockBytes {
    /// The first 4 GiB of `bytes`; no caller has more.
    fn from(bytes: Vec<u8>) -> Self {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        BlockBytes::new(Arc::new(Buffer::from_vec(bytes)), 0, len)
    }
}

impl AsRef<[u8]> for BlockBytes {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

/// Begins to fetch a value of up to three cache lines.
#[inline]
pub(crate) fn prefetch_item<T>(item: &T) {
    let first: *const u8 = std::ptr::from_ref(item).cast();
    prefetch_line(first);
    if size_of::<T>() > LINE_BYTES {
        prefetch_line(first.wrapping_add(LINE_BYTES));
        prefetch_line(first.wrapping_add(size_of::<T>().saturating_sub(1)));
    }
}

/// Begins to fetch a block that will be read from front to back; of a long one the beginning, for then processors see
/// the rest coming.
pub(crate) fn prefetch_block(bytes: &[u8]) {
    const AHEAD_BYTES: usize = 4 << 10;
    for line in (0..bytes.len().min(AHEAD_BYTES)).step_by(LINE_BYTES) {
        prefetch(bytes, line);
    }
}

/// Begins to fetch the cache line at `at`, if the slice has it.
#[inline]
pub(crate) fn prefetch(bytes: &[u8], at: usize) {
    if let Some(byte) = bytes.get(at) {
        prefetch_line(byte);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing and faults at no address; SSE is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch_line(_at: *const u8) {}
