//! The encoded form of an entry in the arena, which all representations order.
//!
//! ```text
//! entry = varint32 length of the internal key ‖ user key ‖ fixed64 footer
//!         ‖ varint32 length of the value ‖ value
//! ```
//!
//! In an arena that stores long values apart ([`SharedArena::is_far`]), the address of the value
//! replaces it. In a protected memtable the value ends with the checksum of the entry
//! ([`protection`]).
//!
//! # Invariants
//! - **E1** [`EntryParts::write`] alone creates entries; an entry visible to other threads is
//!   complete and never changes.
//! - **E2** An [`Entry`] holds the arena that contains its bytes.
//! - **E3** A [`Position`] is the start of a complete entry. It stays inside the representation
//!   that owns the arena.
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
use crate::protection;

/// The key, sequence number, type and value of an entry to be inserted.
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
    /// The parts of an empty entry, to initialize arrays.
    pub(crate) const EMPTY: EntryParts<'static> = EntryParts {
        user_key: &[],
        seqno: 0,
        value_type: ValueType::Value,
        value: &[],
        internal_len: 0,
        value_len: 0,
    };

    /// Creates the parts of an entry; `InvalidArgument` if key or value is too long to be encoded.
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

    /// The packed sequence number and type: the last eight bytes of the internal key.
    #[inline]
    pub(crate) fn footer(&self) -> u64 {
        pack(self.seqno, self.value_type)
    }

    /// The size of the encoded entry with its value.
    #[inline]
    pub(crate) fn encoded_len(&self) -> usize {
        varint_len(u64::from(self.internal_len))
            + self.internal_len as usize
            + varint_len(u64::from(self.value_len))
            + self.value_len as usize
    }

    /// Allocates memory for a value that is stored apart from its key; `None` for other values.
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

    /// The size of the encoded entry, with a pointer in place of a value that is stored apart.
    #[inline]
    pub(crate) fn near_len(&self, far: Option<NonNull<u8>>) -> usize {
        match far {
            Some(_) => self.encoded_len() - self.value.len() + size_of::<NonNull<u8>>(),
            None => self.encoded_len(),
        }
    }

    /// Writes the encoded entry to `start`, and a value that is stored apart to `far`.
    ///
    /// # Safety
    /// `near_len` bytes at `start` must be the caller's to write, and as many at `far` as the value
    /// has. `far` must be given exactly if their arena stores values of this length apart.
    #[inline]
    pub(crate) unsafe fn write_apart(&self, start: NonNull<u8>, far: Option<NonNull<u8>>) {
        let Some(far) = far else {
            // SAFETY: without a value stored apart the two lengths are equal.
            return unsafe { self.write(start) };
        };
        // SAFETY: by the contract.
        unsafe { write_bytes(far, self.value) };
        // SAFETY: the parts written add up to `near_len`, so each lies in the caller's bytes.
        let at = unsafe { self.write_key(start) };
        // SAFETY: as above; an address may be written unaligned.
        unsafe { at.cast::<NonNull<u8>>().write_unaligned(far) };
    }

    /// Writes the encoded key and the value length to `start`; returns the address after them.
    ///
    /// # Safety
    /// The caller must have exclusive write access to the written bytes, from `start`.
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

    /// Writes the encoded entry, including its value, to `start`.
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

/// Copies `bytes` to the address `at`; returns the address after them.
///
/// # Safety
/// The caller must have exclusive write access to `bytes.len()` bytes at `at`.
#[inline]
unsafe fn write_bytes(at: NonNull<u8>, bytes: &[u8]) -> NonNull<u8> {
    let from = NonNull::from(bytes).cast::<u8>();
    // SAFETY: by the contract; memory that nothing else refers to yet does not overlap `bytes`.
    unsafe { at.copy_from_nonoverlapping(from, bytes.len()) };
    // SAFETY: by the contract the end is inside or one past the same memory.
    unsafe { at.add(bytes.len()) }
}

/// Writes `value` as a varint to the address `at`; returns the address after it.
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

/// Reads the varint at the address `at`; returns its value and the address after it.
///
/// # Safety
/// There must be a varint written by [`write_varint`] at `at`.
#[inline]
unsafe fn read_varint(at: NonNull<u8>) -> (u32, NonNull<u8>) {
    // SAFETY: a varint has at least one byte.
    let byte = unsafe { at.read() };
    if byte < 0x80 {
        // SAFETY: a varint is followed by what it counts.
        return (u32::from(byte), unsafe { at.add(1) });
    }
    // SAFETY: by the contract.
    unsafe { read_long_varint(at) }
}

/// Reads a varint that may have several bytes: the slow path of [`read_varint`].
///
/// # Safety
/// See [`read_varint`].
#[inline(never)]
unsafe fn read_long_varint(mut at: NonNull<u8>) -> (u32, NonNull<u8>) {
    let mut value = 0;
    let mut shift = 0;
    loop {
        // SAFETY: a varint has at least one byte, and another where the last one said so.
        let byte = unsafe { at.read() };
        // SAFETY: each of its bytes is followed by another, or by what the varint counts.
        at = unsafe { at.add(1) };
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (value, at);
        }
        shift += 7;
    }
}

/// The address of an encoded entry in an arena: half the size of an [`Entry`].
#[derive(Clone, Copy)]
pub(crate) struct Position(NonNull<u8>);

// SAFETY: entries visible to other threads never change (E1), so any thread may read them.
unsafe impl Send for Position {}
// SAFETY: as above.
unsafe impl Sync for Position {}

impl Position {
    /// Allocates memory from the leased arena shard and writes an encoded entry to it.
    #[inline]
    pub(crate) fn allocate(lease: &mut Lease<'_>, parts: &EntryParts<'_>) -> Self {
        let start = lease.allocate(parts.encoded_len());
        // SAFETY: this call alone owns the memory.
        unsafe { parts.write(start) };
        Position(start)
    }

    /// Returns the entry at this address; `arena` must be the one it was created in (E3).
    #[inline]
    pub(crate) fn entry(self, arena: &SharedArena) -> Entry<'_> {
        // SAFETY: a position is that of a complete entry, and stays with its arena (E3).
        unsafe { Entry::new(self.0, arena) }
    }
}

/// A reference to an encoded entry in an arena.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    start: NonNull<u8>,
    arena: &'a SharedArena,
}

impl<'a> Entry<'a> {
    /// Creates a reference to the encoded entry at `start`.
    ///
    /// # Safety
    /// [`EntryParts::write`] must have created it in memory of `arena`, before the caller obtained
    /// `start`.
    #[inline]
    pub(crate) unsafe fn new(start: NonNull<u8>, arena: &'a SharedArena) -> Self {
        Entry { start, arena }
    }

    /// The address of the entry.
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

    /// The value of the entry.
    #[inline]
    pub(crate) fn value(self) -> &'a [u8] {
        let stored = self.stored_value();
        let bytes = stored.len().saturating_sub(self.arena.protection_bytes());
        stored.get(..bytes).unwrap_or_default()
    }

    /// Verifies the checksum of the entry, if the memtable stores checksums.
    ///
    /// # Errors
    /// `Corruption` if they differ.
    #[inline]
    pub(crate) fn verify(self) -> Result<()> {
        if self.arena.protection_bytes() == 0 {
            return Ok(());
        }
        let (user_key, footer) = self.user_key_and_footer();
        let value = self.value();
        let checksum = &self.stored_value()[value.len()..];
        protection::verify(user_key, footer, value, checksum)
    }

    /// The value as stored: followed by its checksum if the memtable stores checksums.
    #[inline]
    fn stored_value(self) -> &'a [u8] {
        // SAFETY: an entry begins with the length of its key (E1).
        let (key_len, at) = unsafe { read_varint(self.start) };
        // SAFETY: the key follows, and the length of the value behind it (E1).
        let at = unsafe { at.add(key_len as usize) };
        // SAFETY: as above.
        let (len, at) = unsafe { read_varint(at) };
        let len = len as usize;
        let start = if self.arena.is_far(len) {
            // SAFETY: the address of a value stored apart replaces the value (E1).
            unsafe { at.cast::<NonNull<u8>>().read_unaligned() }
        } else {
            at
        };
        // SAFETY: the value is at `start`, and the arena is borrowed for 'a (E1, E2).
        unsafe { slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// Prefetches the first `bytes` bytes of the value into the CPU caches.
    #[inline]
    pub(crate) fn prefetch_value(self, bytes: usize) {
        let value = self.value();
        for line in value[..value.len().min(bytes)].chunks(LINE_BYTES) {
            prefetch(line.as_ptr().cast());
        }
    }

    /// The user key, and the packed sequence number and type.
    #[inline]
    pub(crate) fn user_key_and_footer(self) -> (&'a [u8], u64) {
        footer_of(self.key())
    }

    /// The value as a pinned slice, which keeps the arena alive if it is long.
    #[inline]
    pub(crate) fn pinned_value(self) -> PinnedSlice {
        // SAFETY: the value is in the arena and no longer changes (E1, E2).
        unsafe { self.arena.pin(self.value()) }
    }
}
