//! An encoded entry in the arena: what every representation orders.
//!
//! ```text
//! entry = varint32 length of the internal key ‖ user key ‖ fixed64 footer ‖ varint32 length of the value ‖ value
//! ```
//!
//! In an arena that keeps long values apart ([`SharedArena::is_far`]) the address of the value stands in its place.
//!
//! # Invariants
//! - **E1** [`EntryParts::write`] alone makes entries; one that others can see is whole and never changes.
//! - **E2** An [`Entry`] holds the arena that its bytes lie in.
//! - **E3** A [`Position`] is where a whole entry begins. It stays inside of the representation whose arena that is.
#![expect(
    unsafe_code,
    reason = "entries are read in place; the lengths in front of their parts are ours to trust"
)]

use std::ptr::NonNull;
use std::slice;

use koeldb_base::coding::{to_u32, varint_len};
use koeldb_base::key::{FOOTER_BYTES, MAX_SEQNO, footer_of, pack};
use koeldb_base::{PinnedSlice, Result, SeqNo, ValueType};

use crate::arena::{LINE_BYTES, Lease, SharedArena, prefetch};

/// An entry to be inserted.
#[derive(Clone, Copy)]
pub(crate) struct EntryParts<'a> {
    pub(crate) user_key: &'a [u8],
    pub(crate) seqno: SeqNo,
    pub(crate) value_type: ValueType,
    pub(crate) value: &'a [u8],
    internal_len: u32,
    value_len: u32,
}

impl<'a> EntryParts<'a> {
    /// An entry of nothing, for arrays to begin with.
    pub(crate) const EMPTY: EntryParts<'static> = EntryParts {
        user_key: &[],
        seqno: 0,
        value_type: ValueType::Value,
        value: &[],
        internal_len: 0,
        value_len: 0,
    };

    /// Checks that the lengths can be encoded.
    #[inline]
    pub(crate) fn new(
        seqno: SeqNo,
        value_type: ValueType,
        user_key: &'a [u8],
        value: &'a [u8],
    ) -> Result<Self> {
        debug_assert!(seqno <= MAX_SEQNO);
        Ok(EntryParts {
            user_key,
            seqno,
            value_type,
            value,
            internal_len: to_u32(user_key.len() + FOOTER_BYTES, "key")?,
            value_len: to_u32(value.len(), "value")?,
        })
    }

    /// The footer of the internal key.
    #[inline]
    pub(crate) fn footer(&self) -> u64 {
        pack(self.seqno, self.value_type)
    }

    /// The bytes [`write`](Self::write) fills.
    #[inline]
    pub(crate) fn encoded_len(&self) -> usize {
        varint_len(u64::from(self.internal_len))
            + self.internal_len as usize
            + varint_len(u64::from(self.value_len))
            + self.value_len as usize
    }

    /// Memory for a value that lies apart, if this one does.
    #[inline]
    pub(crate) fn allocate_far(
        &self,
        lease: &mut Lease<'_>,
        arena: &SharedArena,
    ) -> Option<NonNull<u8>> {
        arena
            .is_far(self.value.len())
            .then(|| lease.allocate_far(self.value.len()))
    }

    /// The bytes beside a value that lies apart.
    #[inline]
    pub(crate) fn near_len(&self, far: Option<NonNull<u8>>) -> usize {
        match far {
            Some(_) => self.encoded_len() - self.value.len() + size_of::<NonNull<u8>>(),
            None => self.encoded_len(),
        }
    }

    /// Encodes the entry at `start`, with its value at `far`.
    ///
    /// # Safety
    /// `near_len` bytes at `start` must be the caller's to write, and as many at `far` as the value has. `far` must be
    /// given exactly if the arena they lie in keeps values of this length apart.
    #[inline]
    pub(crate) unsafe fn write_apart(&self, start: NonNull<u8>, far: Option<NonNull<u8>>) {
        let Some(far) = far else {
            // SAFETY: without a value that lies apart the two lengths are the same.
            return unsafe { self.write(start) };
        };
        // SAFETY: by the contract.
        unsafe { write_bytes(far, self.value) };
        // SAFETY: the parts written add up to `near_len`, so each lies in the caller's bytes.
        let at = unsafe { self.write_key(start) };
        // SAFETY: as above; the address may stand anywhere.
        unsafe { at.cast::<NonNull<u8>>().write_unaligned(far) };
    }

    /// Encodes all but the value at `start`, and returns the position behind.
    ///
    /// # Safety
    /// As many bytes at `start` must be the caller's to write.
    #[inline]
    unsafe fn write_key(&self, start: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: by the contract; each part lies in the caller's bytes.
        let at = unsafe { write_varint(start, self.internal_len) };
        // SAFETY: as above.
        let at = unsafe { write_bytes(at, self.user_key) };
        // SAFETY: as above.
        let at = unsafe { write_bytes(at, &self.footer().to_le_bytes()) };
        // SAFETY: as above.
        unsafe { write_varint(at, self.value_len) }
    }

    /// Encodes the entry at `start`, in an arena that keeps no values apart.
    ///
    /// # Safety
    /// `encoded_len` bytes at `start` must be the caller's to write.
    #[inline]
    pub(crate) unsafe fn write(&self, start: NonNull<u8>) {
        // SAFETY: the parts written add up to `encoded_len`, so each lies in the caller's bytes.
        let at = unsafe { self.write_key(start) };
        // SAFETY: as above.
        unsafe { write_bytes(at, self.value) };
    }
}

/// Copies `bytes` to `at` and returns the position behind.
///
/// # Safety
/// As many bytes at `at` must be the caller's to write.
#[inline]
unsafe fn write_bytes(at: NonNull<u8>, bytes: &[u8]) -> NonNull<u8> {
    let from = NonNull::from(bytes).cast::<u8>();
    // SAFETY: by the contract; memory that nobody else has yet does not overlap `bytes`.
    unsafe { at.copy_from_nonoverlapping(from, bytes.len()) };
    // SAFETY: by the contract the end is in or just behind the same memory.
    unsafe { at.add(bytes.len()) }
}

/// Encodes `value` at `at` and returns the position behind.
///
/// # Safety
/// `varint_len(value)` bytes at `at` must be the caller's to write.
#[inline]
unsafe fn write_varint(mut at: NonNull<u8>, mut value: u32) -> NonNull<u8> {
    while value >= 0x80 {
        // SAFETY: by the contract; this is one of the first bytes of the varint.
        at = unsafe { write_bytes(at, &[(value & 0x7f) as u8 | 0x80]) };
        value >>= 7;
    }
    // SAFETY: by the contract; this is the last byte of the varint.
    unsafe { write_bytes(at, &[(value & 0x7f) as u8]) }
}

/// Reads the varint at `at`: its value and the position behind.
///
/// # Safety
/// A varint that [`write_varint`] wrote must stand at `at`.
#[inline]
unsafe fn read_varint(at: NonNull<u8>) -> (u32, NonNull<u8>) {
    // SAFETY: a varint has at least one byte.
    let byte = unsafe { at.read() };
    if byte < 0x80 {
        // SAFETY: behind the varint lies what it counts.
        return (u32::from(byte), unsafe { at.add(1) });
    }
    // SAFETY: by the contract.
    unsafe { read_long_varint(at) }
}

/// The same for one of several bytes.
///
/// # Safety
/// As for [`read_varint`].
#[inline(never)]
unsafe fn read_long_varint(mut at: NonNull<u8>) -> (u32, NonNull<u8>) {
    let mut value = 0;
    let mut shift = 0;
    loop {
        // SAFETY: a varint has at least one byte, and another where the last one said so.
        let byte = unsafe { at.read() };
        // SAFETY: behind each of its bytes lies another, or what the varint counts.
        at = unsafe { at.add(1) };
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (value, at);
        }
        shift += 7;
    }
}

/// Where an entry begins, for those that keep many: half the size of what carries its own proof.
#[derive(Clone, Copy)]
pub(crate) struct Position(NonNull<u8>);

// SAFETY: entries that others can see never change (E1), so any thread may read them.
unsafe impl Send for Position {}
// SAFETY: as above.
unsafe impl Sync for Position {}

impl Position {
    /// Encodes an entry in memory of the lease's arena.
    #[inline]
    pub(crate) fn allocate(lease: &mut Lease<'_>, parts: &EntryParts<'_>) -> Self {
        let start = lease.allocate(parts.encoded_len());
        // SAFETY: the memory is this call's alone.
        unsafe { parts.write(start) };
        Position(start)
    }

    /// The entry, in the arena it was made in (E3).
    #[inline]
    pub(crate) fn entry(self, arena: &SharedArena) -> Entry<'_> {
        // SAFETY: a position leads to a whole entry, and stays with its arena (E3).
        unsafe { Entry::new(self.0, arena) }
    }
}

/// An entry in the arena, on loan from its representation.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    start: NonNull<u8>,
    arena: &'a SharedArena,
}

impl<'a> Entry<'a> {
    /// The entry at `start`.
    ///
    /// # Safety
    /// [`EntryParts::write`] must have made it in memory of `arena`, before the caller got to know `start`.
    #[inline]
    pub(crate) unsafe fn new(start: NonNull<u8>, arena: &'a SharedArena) -> Self {
        Entry { start, arena }
    }

    /// Where it begins.
    pub(crate) fn position(self) -> Position {
        Position(self.start)
    }

    /// The internal key.
    #[inline]
    pub(crate) fn key(self) -> &'a [u8] {
        // SAFETY: an entry begins with the length of its key (E1).
        let (len, at) = unsafe { read_varint(self.start) };
        // SAFETY: the key follows, and the arena is borrowed for 'a (E1, E2).
        unsafe { slice::from_raw_parts(at.as_ptr(), len as usize) }
    }

    /// The value.
    #[inline]
    pub(crate) fn value(self) -> &'a [u8] {
        // SAFETY: an entry begins with the length of its key (E1).
        let (key_len, at) = unsafe { read_varint(self.start) };
        // SAFETY: the key follows, and the length of the value behind it (E1).
        let at = unsafe { at.add(key_len as usize) };
        // SAFETY: as above.
        let (len, at) = unsafe { read_varint(at) };
        let len = len as usize;
        let start = if self.arena.is_far(len) {
            // SAFETY: the address of a value that lies apart stands in its place (E1).
            unsafe { at.cast::<NonNull<u8>>().read_unaligned() }
        } else {
            at
        };
        // SAFETY: the value is there, and the arena is borrowed for 'a (E1, E2).
        unsafe { slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// Asks for the first bytes of the value, so many at most.
    #[inline]
    pub(crate) fn prefetch_value(self, bytes: usize) {
        let value = self.value();
        for line in value[..value.len().min(bytes)].chunks(LINE_BYTES) {
            prefetch(line.as_ptr().cast());
        }
    }

    /// The user key and the footer.
    #[inline]
    pub(crate) fn user_key_and_footer(self) -> (&'a [u8], u64) {
        footer_of(self.key())
    }

    /// The value, kept alive by its arena.
    #[inline]
    pub(crate) fn pinned_value(self) -> PinnedSlice {
        // SAFETY: the value lies in the arena and no longer changes (E1, E2).
        unsafe { self.arena.pin(self.value()) }
    }
}
