//! Window search, specialized for tables of the usual shapes with constant sizes.
//!
//! A lookup that misses the CPU cache waits for memory, while out-of-order execution runs ahead
//! into the next lookup if it is near enough. The number of instructions of a lookup thus
//! determines how many overlap, and a mispredicted branch undoes all work begun after it.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::{Lookup, PinnedSlice, Result, SeqNo, ValueType};

use super::fences::Fences;
use super::format::CuckooLayout;
use super::reader::CuckooReader;
use super::word::WordSearch;
use crate::block::prefetch;

/// The result of searching one cuckoo block for a key.
pub(super) enum Found<S> {
    /// The key is in this slot.
    Here(S),
    /// The table does not contain the key.
    Absent,
    /// The key may be in its next cuckoo block.
    NotYet,
}

/// The specialized search that suits a cuckoo table's key and value sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowKind {
    /// Tables with keys of 8 bytes and values of 4 bytes: [`Numbers`].
    NumbersTo4,
    /// Tables with keys of 8 bytes and values of 8 bytes: [`Numbers`].
    NumbersTo8,
    /// All other tables: [`AnyWindows`].
    Any,
}

/// Runs code with the [`Windows`] implementation of a kind.
macro_rules! with_windows {
    ($kind:expr, $windows:ident => $run:expr) => {
        match $kind {
            $crate::cuckoo::windows::WindowKind::NumbersTo4 => {
                type $windows = $crate::cuckoo::windows::Numbers<12, 60>;
                $run
            }
            $crate::cuckoo::windows::WindowKind::NumbersTo8 => {
                type $windows = $crate::cuckoo::windows::Numbers<16, 80>;
                $run
            }
            $crate::cuckoo::windows::WindowKind::Any => {
                type $windows = $crate::cuckoo::windows::AnyWindows;
                $run
            }
        }
    };
}
pub(super) use with_windows;

impl WindowKind {
    /// Selects the specialized cuckoo block search for a layout.
    pub(super) fn of(layout: &CuckooLayout, words: Option<&WordSearch>) -> Self {
        let is_numbers = words.is_some()
            && layout.is_last_level
            && layout.heap_bytes.is_none()
            && layout.key_bytes == 8;
        match (layout.slot_bytes(), layout.window_bytes()) {
            (12, 60) if is_numbers => WindowKind::NumbersTo4,
            (16, 80) if is_numbers => WindowKind::NumbersTo8,
            _ => WindowKind::Any,
        }
    }
}

/// A search of cuckoo blocks, specialized for tables with certain key and value sizes.
pub(super) trait Windows {
    /// The form of a key in which its cuckoo blocks are searched.
    type Key<'k>: Copy;
    /// The location of a cuckoo block.
    type Window<'r>: Copy + Default;
    /// A slot that contains the key.
    type Slot<'r>: Copy;

    /// Converts a user key to the form used in searches; `None` if its length does not fit.
    fn key(key: &[u8]) -> Option<Self::Key<'_>>;

    /// Returns the index of the only table that may contain a key; out of range if none may.
    fn table(fences: &Fences, key: Self::Key<'_>) -> u32;

    /// Returns a key's window by hash function `function`; `None` if the table cannot have the key.
    fn window<'r>(
        reader: &'r CuckooReader,
        function: u32,
        key: Self::Key<'_>,
    ) -> Option<Self::Window<'r>>;

    /// Prefetches a cuckoo block.
    fn fetch<'r>(reader: &'r CuckooReader, window: Self::Window<'r>);

    /// Searches a cuckoo block for a key.
    fn look<'r>(
        reader: &'r CuckooReader,
        window: Self::Window<'r>,
        key: Self::Key<'_>,
    ) -> Found<Self::Slot<'r>>;

    /// Returns the value in a slot; `None` if it is a deletion or not visible at `snapshot`.
    fn value<'r>(
        reader: &'r CuckooReader,
        slot: Self::Slot<'r>,
        snapshot: SeqNo,
    ) -> Result<Option<&'r [u8]>>;

    /// Returns the value in a slot as a pinned slice, which outlives the table.
    fn pin<'r>(reader: &'r CuckooReader, slot: Self::Slot<'r>, value: &'r [u8]) -> PinnedSlice;

    /// Offers the visible entries in a slot to a lookup of its key.
    fn offer(reader: &CuckooReader, slot: Self::Slot<'_>, lookup: &mut Lookup) -> Result<()>;
}

/// Finds the slot of a key; `None` if the table does not contain it.
#[inline(always)]
pub(super) fn find<'r, W: Windows>(
    reader: &'r CuckooReader,
    key: W::Key<'_>,
) -> Option<W::Slot<'r>> {
    match W::look(reader, W::window(reader, 0, key)?, key) {
        Found::Here(slot) => Some(slot),
        Found::Absent => None,
        Found::NotYet => find_further::<W>(reader, key),
    }
}

/// Searches for a key in its second and later windows; `None` if the table does not contain it.
#[inline(never)]
fn find_further<'r, W: Windows>(reader: &'r CuckooReader, key: W::Key<'_>) -> Option<W::Slot<'r>> {
    for function in 1..reader.layout.function_count {
        match W::look(reader, W::window(reader, function, key)?, key) {
            Found::Here(slot) => return Some(slot),
            Found::Absent => return None,
            Found::NotYet => {}
        }
    }
    None
}

/// The window search of tables with keys of 8 bytes, slots of `SLOT` bytes and windows of `WINDOW`.
///
/// Only the value follows the key, and it has at most 16 bytes.
pub(super) struct Numbers<const SLOT: usize, const WINDOW: usize>;

impl<const SLOT: usize, const WINDOW: usize> Numbers<SLOT, WINDOW> {
    /// A compile-time check: each slot of a cuckoo block has a bit in a 32-bit number.
    const FITS: () = assert!(WINDOW.is_multiple_of(SLOT) && WINDOW / SLOT <= 32);
}

impl<const SLOT: usize, const WINDOW: usize> Windows for Numbers<SLOT, WINDOW> {
    /// A cuckoo block of the table; `None` only as the initial value of an array.
    type Window<'r> = Option<&'r [u8; WINDOW]>;
    type Slot<'r> = &'r [u8; SLOT];
    /// A key of 8 bytes as a little-endian number.
    type Key<'k> = u64;

    #[inline(always)]
    fn key(key: &[u8]) -> Option<u64> {
        key.try_into().map(u64::from_le_bytes).ok()
    }

    #[inline(always)]
    fn table(fences: &Fences, key: u64) -> u32 {
        fences.table_of_number(key)
    }

    #[inline(always)]
    fn window<'r>(reader: &'r CuckooReader, function: u32, key: u64) -> Option<Self::Window<'r>> {
        let () = Self::FITS;
        let words = reader.words.as_ref().filter(|words| words.admits(key))?;
        let slot = words.first_slot(function, key);
        let start = slot.wrapping_mul(SLOT as u64);
        Some(Some(reader.slots.window(start)?))
    }

    #[inline(always)]
    fn fetch<'r>(_reader: &'r CuckooReader, window: Self::Window<'r>) {
        if let Some(window) = window {
            prefetch(window, 0);
            prefetch(window, WINDOW.saturating_sub(1));
        }
    }

    #[inline(always)]
    fn look<'r>(
        reader: &'r CuckooReader,
        window: Self::Window<'r>,
        key: Self::Key<'_>,
    ) -> Found<Self::Slot<'r>> {
        let (Some(window), Some(words)) = (window, &reader.words) else {
            return Found::Absent;
        };
        let slots = window.as_chunks::<SLOT>().0;
        if let Some(slot) = slot_of(slots, key) {
            return Found::Here(slot);
        }
        if has_slot_of(slots, words.empty()) {
            Found::Absent
        } else {
            Found::NotYet
        }
    }

    #[inline(always)]
    fn value<'r>(
        _reader: &'r CuckooReader,
        slot: Self::Slot<'r>,
        _snapshot: SeqNo,
    ) -> Result<Option<&'r [u8]>> {
        Ok(slot.get(size_of::<u64>()..))
    }

    #[inline(always)]
    fn pin<'r>(_reader: &'r CuckooReader, _slot: Self::Slot<'r>, value: &'r [u8]) -> PinnedSlice {
        PinnedSlice::copy_of(value)
    }

    #[inline]
    fn offer(reader: &CuckooReader, slot: Self::Slot<'_>, lookup: &mut Lookup) -> Result<()> {
        if let Some(value) = Self::value(reader, slot, lookup.snapshot())? {
            lookup.offer(0, ValueType::Value, || PinnedSlice::copy_of(value))?;
        }
        Ok(())
    }
}

/// Finds the slot in a cuckoo block whose key is `word`, without branches; `None` if there is none.
///
/// The outcome is unpredictable, so all slots are compared without branches. Each slot is a bit of
/// a number, the last slot the lowest: the compiler turns a chain of selections into branches
/// again.
#[inline(always)]
fn slot_of<const SLOT: usize>(slots: &[[u8; SLOT]], word: u64) -> Option<&[u8; SLOT]> {
    let mut bits = 0_u32;
    for slot in slots {
        bits = (bits << 1) | u32::from(slot.first_chunk() == Some(&word.to_le_bytes()));
    }
    let behind = bits.trailing_zeros() as usize;
    slots.get(slots.len().wrapping_sub(1).wrapping_sub(behind))
}

/// Whether a cuckoo block has a slot whose key is `word`.
///
/// Separate from [`slot_of`], which would keep all slots in registers.
#[inline(never)]
fn has_slot_of<const SLOT: usize>(slots: &[[u8; SLOT]], word: u64) -> bool {
    slot_of(slots, word).is_some()
}

/// The general cuckoo block search, for tables with any key and value sizes.
pub(super) struct AnyWindows;

impl Windows for AnyWindows {
    type Window<'r> = u64;
    type Slot<'r> = (&'r [u8], u64);
    type Key<'k> = &'k [u8];

    #[inline]
    fn key(key: &[u8]) -> Option<&[u8]> {
        Some(key)
    }

    #[inline]
    fn table(fences: &Fences, key: &[u8]) -> u32 {
        fences.table_of(key)
    }

    #[inline]
    fn window(reader: &CuckooReader, function: u32, key: &[u8]) -> Option<u64> {
        reader.window_of(function, key)
    }

    #[inline]
    fn fetch(reader: &CuckooReader, window: u64) {
        reader.slots.prefetch(window, reader.window_bytes);
    }

    #[inline]
    fn look<'r>(reader: &'r CuckooReader, window: u64, key: &[u8]) -> Found<(&'r [u8], u64)> {
        reader.look(window, key)
    }

    #[inline]
    fn value<'r>(
        reader: &'r CuckooReader,
        (slot, _): (&'r [u8], u64),
        snapshot: SeqNo,
    ) -> Result<Option<&'r [u8]>> {
        reader.value_in(slot, snapshot)
    }

    #[inline]
    fn pin<'r>(reader: &'r CuckooReader, (_, at): (&'r [u8], u64), value: &'r [u8]) -> PinnedSlice {
        reader.pin(value, at)
    }

    #[inline]
    fn offer(reader: &CuckooReader, (slot, at): (&[u8], u64), lookup: &mut Lookup) -> Result<()> {
        reader.offer(lookup, slot, at)
    }
}
