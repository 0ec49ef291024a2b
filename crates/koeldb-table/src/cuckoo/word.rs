//! The search of a table with keys of 8 bytes, which compares each key as a number.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::hint::select_unpredictable;

use super::format::CuckooLayout;
use super::hash::{HashFamily, WordHash};
use super::slots::Slots;
use super::windows::Found;

/// The search of a cuckoo table with 8-byte keys, which compares keys as integers.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordSearch {
    hash: WordHash,
    /// The key in empty slots.
    empty: u64,
    slot_bytes: usize,
    window_bytes: usize,
}

impl WordSearch {
    /// Creates the search; `None` unless keys have 8 bytes and the hash is `MurmurHash64A`.
    pub(super) fn new(layout: &CuckooLayout, family: HashFamily) -> Option<Self> {
        let empty = <[u8; 8]>::try_from(layout.empty_user_key.as_slice()).ok()?;
        let is_usual = family == HashFamily::Murmur64A && layout.slot_count > 0;
        is_usual.then(|| WordSearch {
            hash: WordHash::new(layout.identity_first, layout.table_size),
            empty: u64::from_le_bytes(empty),
            slot_bytes: layout.slot_bytes(),
            window_bytes: layout.window_bytes(),
        })
    }

    /// Converts a key to an integer; `None` if the table cannot contain the key.
    #[inline]
    pub(super) fn word(&self, key: &[u8]) -> Option<u64> {
        let word = u64::from_le_bytes(*key.first_chunk()?);
        (key.len() == size_of::<u64>() && self.admits(word)).then_some(word)
    }

    /// Whether the table can contain a key: false for the key that marks empty slots.
    #[inline]
    pub(super) fn admits(&self, word: u64) -> bool {
        word != self.empty
    }

    /// The key, as integer, that marks empty slots.
    #[inline]
    pub(super) fn empty(&self) -> u64 {
        self.empty
    }

    /// Returns the first slot of a key's cuckoo block by hash function number `function`.
    #[inline]
    pub(super) fn first_slot(&self, function: u32, word: u64) -> u64 {
        self.hash.slot(function, word)
    }

    /// Searches the window at offset `start` for a key; returns its slot and the slot's offset.
    #[inline]
    pub(super) fn look<'s>(
        &self,
        slots: &'s Slots,
        start: u64,
        word: u64,
    ) -> Found<(&'s [u8], u64)> {
        let window = slots.bytes(start, self.window_bytes);
        match self.tail_from(window, word) {
            Some(tail) => self.here(window, tail, start),
            None if self.tail_from(window, self.empty).is_some() => Found::Absent,
            None => Found::NotYet,
        }
    }

    /// Returns how many bytes of the window follow the slot of a key; `None` without such a slot.
    ///
    /// The outcome is unpredictable, so all slots are compared without branches.
    #[inline]
    fn tail_from(&self, window: &[u8], word: u64) -> Option<usize> {
        const NONE: usize = usize::MAX;
        let mut tail = NONE;
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

    /// Returns the found slot, which is followed by `tail` bytes of the window at offset `start`.
    #[inline]
    fn here<'s>(&self, window: &'s [u8], tail: usize, start: u64) -> Found<(&'s [u8], u64)> {
        let end = window.len().wrapping_sub(tail);
        let at = end.wrapping_sub(self.slot_bytes);
        match window.get(at..end) {
            Some(slot) => Found::Here((slot, start.wrapping_add(at as u64))),
            None => Found::NotYet,
        }
    }
}
