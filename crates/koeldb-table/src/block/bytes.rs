//! The bytes of a block, reachable with as few dependent loads as possible.
//!
//! Most of a cached point read is waiting for memory. The bytes are therefore reached by a pointer
//! stored here, not through their buffer, and data that will be needed soon is prefetched.
//!
//! Invariant of [`BlockBytes`]: `bytes` points to memory of `buffer`, which neither moves nor
//! changes while the buffer lives; `buffer` is held as long as the pointer.
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

/// The size of a cache line.
pub(super) const LINE_BYTES: usize = 64;

/// The kind of memory that contains a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryKind {
    /// Heap memory of the block alone.
    Heap,
    /// A mapped file.
    Mapped,
    /// The buffer of a larger read, which should not be kept for long.
    Lent,
}

/// The uncompressed bytes of a block, on the heap or in a mapped file.
#[derive(Clone)]
pub struct BlockBytes {
    bytes: NonNull<[u8]>,
    buffer: Arc<Buffer>,
    start: u64,
    home: MemoryKind,
}

// SAFETY: `bytes` is a shared view of memory that never changes, kept alive by `buffer`, which may
// be sent.
unsafe impl Send for BlockBytes {}

// SAFETY: as for `Send`; nothing can be written through `bytes`.
unsafe impl Sync for BlockBytes {}

impl BlockBytes {
    /// Creates a reference to the `len` bytes at `start` of `buffer`, which must contain them.
    #[must_use]
    pub fn new(buffer: Arc<Buffer>, start: u64, len: u32) -> Self {
        BlockBytes {
            bytes: NonNull::from(buffer.slice(start, len)),
            buffer,
            start,
            home: MemoryKind::Heap,
        }
    }

    /// Creates a reference to bytes of a mapped file, which take no heap memory.
    #[must_use]
    pub fn mapped(buffer: Arc<Buffer>, start: u64, len: u32) -> Self {
        BlockBytes {
            home: MemoryKind::Mapped,
            ..Self::new(buffer, start, len)
        }
    }

    /// Creates a reference to a part of a larger read buffer, for a block that does not own it.
    ///
    /// Pinned values are copied, so that they do not keep the whole buffer alive.
    #[must_use]
    pub fn lent(buffer: Arc<Buffer>, start: u64, len: u32) -> Self {
        BlockBytes {
            home: MemoryKind::Lent,
            ..Self::new(buffer, start, len)
        }
    }

    /// The heap memory charged to the block.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        const HEADER: usize = size_of::<Buffer>() + 2 * size_of::<usize>();
        match self.home {
            MemoryKind::Heap => self.buffer.as_slice().len().saturating_add(HEADER),
            MemoryKind::Mapped => 0,
            MemoryKind::Lent => self.len(),
        }
    }

    /// The bytes of the block.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: by the invariant the pointer is to bytes that live and stay the same as long as
        // `self.buffer`.
        unsafe { self.bytes.as_ref() }
    }

    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Pins a part of the bytes, so that it outlives the block.
    #[inline]
    #[must_use]
    pub fn pin(&self, range: ValueRange) -> PinnedSlice {
        if self.home == MemoryKind::Lent {
            return PinnedSlice::copy_of(range.of(self.as_slice()));
        }
        let start = self.start.saturating_add(u64::from(range.start));
        PinnedSlice::pin(&self.buffer, start, range.len)
    }

    /// Prefetches the cache line with the reference count that [`BlockBytes::pin`] increments.
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
    /// Takes over the first 4 GiB of `bytes`; no caller has more.
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

/// Prefetches a value of up to three cache lines.
#[inline]
pub(crate) fn prefetch_item<T>(item: &T) {
    let first: *const u8 = std::ptr::from_ref(item).cast();
    prefetch_line(first);
    if size_of::<T>() > LINE_BYTES {
        prefetch_line(first.wrapping_add(LINE_BYTES));
        prefetch_line(first.wrapping_add(size_of::<T>().saturating_sub(1)));
    }
}

/// Prefetches a block that will be read sequentially.
///
/// Of a long block it prefetches the beginning: the hardware prefetcher then detects the stream.
pub(crate) fn prefetch_block(bytes: &[u8]) {
    const AHEAD_BYTES: usize = 4 << 10;
    prefetch_all(bytes.get(..AHEAD_BYTES).unwrap_or(bytes));
}

/// Prefetches a slice, line by line from its start.
#[inline]
pub(super) fn prefetch_all(bytes: &[u8]) {
    let first = bytes.as_ptr();
    for line in 0..bytes.len().div_ceil(LINE_BYTES) {
        prefetch_line(first.wrapping_add(line.wrapping_mul(LINE_BYTES)));
    }
}

/// Prefetches the cache line at `at`, if the slice has it.
#[inline]
pub(crate) fn prefetch(bytes: &[u8], at: usize) {
    if let Some(byte) = bytes.get(at) {
        prefetch_line(byte);
    }
}

/// Prefetches the cache line at an address into all cache levels.
#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing and faults at no address; SSE is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

/// Does nothing: only the prefetch of x86-64 is used.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch_line(_at: *const u8) {}
