//! Values that outlive the read that found them, without a copy.
//!
//! A [`PinnedSlice`] is 24 bytes. Up to 16 bytes are stored inline; a longer value is a position
//! and a reference to the [`Buffer`] that contains it: a block, a memtable's arena, a mapped file,
//! or its own memory after a merge. Where the buffer is much larger than a value of up to
//! [`COPIED_BYTES_MAX`] bytes, as an arena is, the value is copied to memory of its own. Small
//! values never touch a shared reference count: cloning one that two threads share costs more than
//! a batched lookup. The inline bytes are two whole words: loads whose size differs from that of
//! the stores before them stall on store forwarding.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::coding::to_usize;

/// A region of unchanging memory for pinned values: an arena, a mapped file.
///
/// The memory stays in place while the region lives.
pub trait Region: Send + Sync + 'static {
    /// The `len` bytes at `start`, a position that the region itself returned.
    fn bytes(&self, start: u64, len: u32) -> &[u8];
}

/// The owner of pinned bytes: a heap allocation, or any memory region.
enum Storage {
    Heap(Box<[u8]>),
    Region(Box<dyn Region>),
}

/// Immutable shared bytes that pinned values refer to.
pub struct Buffer {
    storage: Storage,
}

impl Buffer {
    /// Creates a buffer that owns `bytes`.
    #[must_use]
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Buffer {
            storage: Storage::Heap(bytes.into_boxed_slice()),
        }
    }

    /// Creates a buffer over a memory region, which it owns.
    #[must_use]
    pub fn from_region(region: impl Region) -> Self {
        Buffer {
            storage: Storage::Region(Box::new(region)),
        }
    }

    /// All bytes of a heap buffer; empty for a region, which has no extent of its own.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.storage {
            Storage::Heap(bytes) => bytes,
            Storage::Region(_) => &[],
        }
    }

    /// The `len` bytes at `start`.
    ///
    /// # Panics
    /// If a heap buffer does not hold them.
    #[inline]
    #[must_use]
    pub fn slice(&self, start: u64, len: u32) -> &[u8] {
        match &self.storage {
            Storage::Heap(bytes) => {
                let start = to_usize(start);
                &bytes[start..start + len as usize]
            }
            Storage::Region(region) => region.bytes(start, len),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.storage {
            Storage::Heap(bytes) => write!(f, "Buffer({} bytes)", bytes.len()),
            Storage::Region(_) => f.write_str("Buffer(region)"),
        }
    }
}

const INLINE_BYTES: usize = 16;

/// The length up to which a copy costs about as much as a reference: two locked instructions, or an
/// allocation and its release (measured: 17 ns and 16 to 19 ns; 30 ns for 1000 bytes).
pub const COPIED_BYTES_MAX: usize = 256;

/// The bytes of an inline value, aligned to a word.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Words([u8; INLINE_BYTES]);

/// The storage of a pinned slice: inline, shared or owned bytes.
///
/// The discriminant and the length are halves of the first word.
#[derive(Clone)]
#[repr(u32)]
enum Repr {
    Inline {
        len: u32,
        bytes: Words,
    },
    Shared {
        len: u32,
        start: u64,
        owner: Arc<Buffer>,
    },
    Owned(Box<[u8]>),
}

/// Loads up to 16 bytes as a little-endian number, padded with zeros.
#[inline(never)]
fn copied(value: &[u8]) -> u128 {
    let mut bytes = [0; INLINE_BYTES];
    bytes[..value.len()].copy_from_slice(value);
    u128::from_le_bytes(bytes)
}

/// Loads 4 to 16 bytes as a little-endian number, by two overlapping loads; otherwise `None`.
#[inline]
fn number_of(value: &[u8]) -> Option<u128> {
    let behind = |bytes: usize| 8 * (value.len() - bytes);
    match value.len() {
        4..=8 => {
            let head = u64::from(u32::from_le_bytes(*value.first_chunk()?));
            let tail = u64::from(u32::from_le_bytes(*value.last_chunk()?));
            Some(u128::from(head | (tail << behind(4))))
        }
        9..=16 => {
            let head = u128::from(u64::from_le_bytes(*value.first_chunk()?));
            let tail = u128::from(u64::from_le_bytes(*value.last_chunk()?));
            Some(head | (tail << behind(8)))
        }
        _ => None,
    }
}

/// A value that outlives the read that found it, not copied if long (RocksDB: `PinnableSlice`).
///
/// It dereferences to its bytes, is cheap to clone, and does not depend on the database.
#[derive(Clone)]
pub struct PinnedSlice {
    repr: Repr,
}

const _: () = assert!(size_of::<PinnedSlice>() == 24);
const _: () = assert!(size_of::<Option<PinnedSlice>>() == 24);

impl PinnedSlice {
    /// Pins the `len` bytes at `start` of `owner`; short values are copied inline.
    #[inline]
    #[must_use]
    pub fn pin(owner: &Arc<Buffer>, start: u64, len: u32) -> Self {
        if len as usize <= INLINE_BYTES {
            Self::inline(owner.slice(start, len))
        } else {
            PinnedSlice {
                repr: Repr::Shared {
                    len,
                    start,
                    owner: Arc::clone(owner),
                },
            }
        }
    }

    /// Pins `bytes`, which lie at `start` of `owner`; copies a short value, leaving `owner` alone.
    ///
    /// # Panics
    /// If there are 4 GiB or more.
    #[inline]
    #[must_use]
    pub fn pin_bytes(owner: &Arc<Buffer>, start: u64, bytes: &[u8]) -> Self {
        if bytes.len() <= INLINE_BYTES {
            return Self::inline(bytes);
        }
        let len = u32::try_from(bytes.len()).expect("values are under 4 GiB");
        debug_assert_eq!(owner.slice(start, len), bytes);
        Self::pin(owner, start, len)
    }

    /// Creates a slice with a copy of `bytes`.
    ///
    /// # Panics
    /// If there are 4 GiB or more; the write path refuses such values.
    #[inline]
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        if bytes.len() <= INLINE_BYTES {
            Self::inline(bytes)
        } else if bytes.len() <= COPIED_BYTES_MAX {
            PinnedSlice {
                repr: Repr::Owned(bytes.into()),
            }
        } else {
            // Its clones share it.
            Self::from(bytes.to_vec())
        }
    }

    /// Copies a value of at most 16 bytes into the slice itself.
    #[inline]
    fn inline(value: &[u8]) -> Self {
        let number = number_of(value).unwrap_or_else(|| copied(value));
        let bytes = Words(number.to_le_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "at most 16")]
        let len = value.len() as u32;
        PinnedSlice {
            repr: Repr::Inline { len, bytes },
        }
    }

    /// The bytes of the value.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.repr {
            Repr::Inline { len, bytes } => &bytes.0[..*len as usize],
            Repr::Shared { len, start, owner } => owner.slice(*start, *len),
            Repr::Owned(bytes) => bytes,
        }
    }

    /// The buffer that the value pins, and where it begins there; `None` if it has its own bytes.
    #[must_use]
    pub fn pinned_in(&self) -> Option<(&Arc<Buffer>, u64)> {
        match &self.repr {
            Repr::Shared { start, owner, .. } => Some((owner, *start)),
            Repr::Inline { .. } | Repr::Owned(_) => None,
        }
    }

    /// The part of the value in `range`, pinned in the same memory or copied.
    ///
    /// # Panics
    /// If the range is not inside the value.
    #[must_use]
    pub fn subslice(&self, range: std::ops::Range<usize>) -> Self {
        match &self.repr {
            Repr::Inline { .. } => Self::inline(&self.as_slice()[range]),
            Repr::Owned(bytes) => Self::copy_of(&bytes[range]),
            Repr::Shared { len, start, owner } => {
                assert!(
                    range.start <= range.end && range.end <= *len as usize,
                    "range outside of the value"
                );
                #[expect(clippy::cast_possible_truncation, reason = "at most len, a u32")]
                let part = (range.end - range.start) as u32;
                Self::pin(owner, start + range.start as u64, part)
            }
        }
    }
}

impl Deref for PinnedSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for PinnedSlice {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Default for PinnedSlice {
    fn default() -> Self {
        Self::inline(&[])
    }
}

impl From<Vec<u8>> for PinnedSlice {
    fn from(bytes: Vec<u8>) -> Self {
        let len = u32::try_from(bytes.len()).expect("values are under 4 GiB");
        Self::pin(&Arc::new(Buffer::from_vec(bytes)), 0, len)
    }
}

impl From<PinnedSlice> for Vec<u8> {
    fn from(slice: PinnedSlice) -> Self {
        slice.as_slice().to_vec()
    }
}

impl From<PinnedSlice> for bytes::Bytes {
    fn from(slice: PinnedSlice) -> Self {
        match &slice.repr {
            Repr::Inline { .. } => bytes::Bytes::copy_from_slice(&slice),
            Repr::Shared { .. } | Repr::Owned(_) => bytes::Bytes::from_owner(slice),
        }
    }
}

impl fmt::Debug for PinnedSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.as_slice().escape_ascii())
    }
}

impl PartialEq for PinnedSlice {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for PinnedSlice {}

impl PartialOrd for PinnedSlice {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PinnedSlice {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for PinnedSlice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl PartialEq<[u8]> for PinnedSlice {
    fn eq(&self, other: &[u8]) -> bool {
        self.as_slice() == other
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<&T> for PinnedSlice {
    fn eq(&self, other: &&T) -> bool {
        self.as_slice() == other.as_ref()
    }
}

impl PartialEq<Vec<u8>> for PinnedSlice {
    fn eq(&self, other: &Vec<u8>) -> bool {
        self.as_slice() == other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_compare_with_bytes_and_text() {
        let value = PinnedSlice::from(b"koel".to_vec());
        assert!(value == "koel" && value == b"koel" && value == b"koel"[..]);
        assert!(value == b"koel".to_vec() && value != "cuckoo");
    }

    #[test]
    fn copied_values_of_every_length_are_equal_to_their_bytes() {
        for len in [0, 16, 17, 255, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 1] {
            let bytes = vec![7; len];
            let value = PinnedSlice::copy_of(&bytes);
            assert_eq!(value, bytes);
            assert_eq!(value.clone(), bytes);
            assert_eq!(value.subslice(len / 2..len), bytes[len / 2..]);
            assert_eq!(bytes::Bytes::from(value.clone()), bytes);
            assert_eq!(Vec::from(value), bytes);
        }
    }

    #[test]
    fn short_values_lie_inside_and_long_ones_share() {
        assert_eq!(size_of::<crate::error::Result<Option<PinnedSlice>>>(), 24);
        let owner = Arc::new(Buffer::from_vec((0..100).collect()));
        let short = PinnedSlice::pin(&owner, 10, 16);
        assert_eq!(Arc::strong_count(&owner), 1);
        assert_eq!(short[0], 10);
        let long = PinnedSlice::pin(&owner, 10, 17);
        assert_eq!(Arc::strong_count(&owner), 2);
        assert_eq!(&long.subslice(0..17)[..], &long[..]);
        for len in 0..=16_u8 {
            let bytes: Vec<u8> = (1..=len).collect();
            assert_eq!(PinnedSlice::copy_of(&bytes), bytes[..]);
        }
        drop(owner);
        assert_eq!(long.len(), 17);
        assert_eq!(bytes::Bytes::from(long.clone()), &long[..]);
    }
}
