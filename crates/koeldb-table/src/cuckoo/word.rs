//! Keys of 8 bytes: the search of a table with every key a number in a register.
//!
//! A look-up of a key that is in no cache waits for memory, and the processor meanwhile runs ahead into the next
//! look-up if it is near enough. So what a look-up takes in instructions decides how many of them overlap. This is the
//! same search as any other table's, with nothing left to decide that is known when the table is opened.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::hint::select_unpredictable;

use super::format::CuckooLayout;
use super::hash::{Family, WordHash};
use super::reader::Found;
use super::slots::Slots;

/// The slots of most tables with keys of 8 bytes, and of the published one: values of 4 bytes.
const COMMON_SLOT_BYTES: usize = 12;

/// Five of them, which is the default. All offsets in such a window are known, and no loop is left of its search.
const COMMON_WINDOW_BYTES: usize = 5 * COMMON_SLOT_BYTES;

/// What the search of a table with keys of 8 bytes needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordSearch {
    hash: WordHash,
    /// The key in empty slots.
    empty: u64,
    slot_bytes: usize,
    window_bytes: usize,
    function_count: u32,
}

impl WordSearch {
    /// The search of a table, if its keys have 8 bytes and its hash is the usual one.
    pub(super) fn new(layout: &CuckooLayout, family: Family) -> Option<Self> {
        let empty = <[u8; 8]>::try_from(layout.empty_user_key.as_slice()).ok()?;
        let is_usual = family == Family::Murmur64A && layout.slot_count > 0;
        is_usual.then(|| WordSearch {
            hash: WordHash::new(layout.identity_first, layout.table_size),
            empty: u64::from_le_bytes(empty),
            slot_bytes: layout.slot_bytes(),
            window_bytes: layout.window_bytes(),
            function_count: layout.function_count,
        })
    }

    /// A key as a number, if the table can have it.
    #[inline]
    pub(super) fn word(&self, key: &[u8]) -> Option<u64> {
        let word = u64::from_le_bytes(*key.first_chunk()?);
        (key.len() == size_of::<u64>() && word != self.empty).then_some(word)
    }

    /// Where window `function` of a key begins, in bytes.
    #[inline]
    pub(super) fn window_start(&self, function: u32, word: u64) -> u64 {
        let slot = self.hash.slot(function, word);
        slot.wrapping_mul(self.slot_bytes as u64)
    }

    /// Looks through the window that begins at `start`.
    #[inline]
    pub(super) fn look<'s>(&self, slots: &'s Slots, start: u64, word: u64) -> Found<'s> {
        let window = slots.bytes(start, self.window_bytes);
        match self.tail_from(window, word) {
            Some(tail) => self.here(window, tail, start),
            None if self.tail_from(window, self.empty).is_some() => Found::Absent,
            None => Found::NotYet,
        }
    }

    /// The bytes of a window behind the slot of a key; `None` if no slot has it.
    ///
    /// Which slot it is nobody can predict, so all are looked at and none is branched on: a branch that went wrong would
    /// be known only when the memory has come, and what was begun behind it would have been in vain.
    #[inline]
    fn tail_from(&self, window: &[u8], word: u64) -> Option<usize> {
        const NONE: usize = usize::MAX;
        let mut tail = NONE;
        if let (COMMON_SLOT_BYTES, Ok(window)) = (
            self.slot_bytes,
            <&[u8; COMMON_WINDOW_BYTES]>::try_from(window),
        ) {
            let mut behind = COMMON_WINDOW_BYTES;
            for slot in window.as_chunks::<COMMON_SLOT_BYTES>().0 {
                behind = behind.wrapping_sub(COMMON_SLOT_BYTES);
                let is_here = slot.first_chunk() == Some(&word.to_le_bytes());
                tail = select_unpredictable(is_here, behind, tail);
            }
            return (tail != NONE).then_some(tail);
        }
        let mut rest = window;
        while let Some((slot, behind)) = rest.split_at_checked(self.slot_bytes)
            && let Some(key) = slot.first_chunk()
        {
            let is_here = u64::from_le_bytes(*key) == word;
            tail = select_unpredictable(is_here, behind.len(), tail);
            rest = behind;
        }
        (tail != NONE).then_some(tail)
    }

    /// The slot of the window from `start` that has `tail` bytes behind it.
    #[inline]
    fn here<'s>(&self, window: &'s [u8], tail: usize, start: u64) -> Found<'s> {
        let end = window.len().wrapping_sub(tail);
        let at = end.wrapping_sub(self.slot_bytes);
        match window.get(at..end) {
            Some(slot) => Found::Here(slot, start.wrapping_add(at as u64)),
            None => Found::NotYet,
        }
    }

    /// The slot of a key, and where it begins.
    #[inline]
    pub(super) fn find<'s>(&self, slots: &'s Slots, word: u64) -> Option<(&'s [u8], u64)> {
        match self.look(slots, self.window_start(0, word), word) {
            Found::Here(slot, at) => Some((slot, at)),
            Found::Absent => None,
            Found::NotYet => self.find_further(slots, word),
        }
    }

    /// The same, of a key that is not in its first window.
    #[inline(never)]
    fn find_further<'s>(&self, slots: &'s Slots, word: u64) -> Option<(&'s [u8], u64)> {
        for function in 1..self.function_count {
            match self.look(slots, self.window_start(function, word), word) {
                Found::Here(slot, at) => return Some((slot, at)),
                Found::Absent => return None,
                Found::NotYet => {}
            }
        }
        None
    }
}
