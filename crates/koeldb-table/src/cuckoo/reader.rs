//! The open cuckoo table: point reads, single and batched.
//!
//! A read costs one or two cache misses, so the number of misses in flight determines the
//! throughput. A single read leaves that to out-of-order execution. A batch first hashes its keys
//! and prefetches all their first windows, and then compares; keys that continue in their next
//! window prefetch it and wait for the next round.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use koeldb_base::key::{FOOTER_BYTES, ValueType};
use koeldb_base::{Error, KeyOrder, Lookup, PinnedSlice, Result, SeqNo};
use koeldb_fs::RandomAccessFile;

use super::format::CuckooLayout;
use super::hash::SlotHash;
use super::residency::Resident;
use super::slots::Slots;
use super::versions::{EntryLocation, Versions};
use super::windows::{Found, WindowKind, Windows, find, with_windows};
use super::word::WordSearch;
use crate::metaindex::Metaindex;
use crate::properties::TableProperties;
use crate::span_checksums::SpanChecksums;
use crate::whole_or_paged::{TableParts, WholeTable};

/// The number of lookups of a batch in progress concurrently.
pub(super) const RING: usize = 64;

/// An open cuckoo table in memory, mapped or copied.
pub struct CuckooReader {
    pub(super) order: KeyOrder,
    pub(super) layout: CuckooLayout,
    pub(super) slot_bytes: usize,
    pub(super) window_bytes: usize,
    pub(super) hash: SlotHash,
    /// The specialized search of this table, if its keys have 8 bytes.
    pub(super) words: Option<WordSearch>,
    pub(super) kind: WindowKind,
    pub(super) slots: Slots,
    /// The occupied slots in key order, once a scan has sorted them.
    pub(super) sorted: OnceLock<Box<[u32]>>,
    /// The lock held by the thread that sorts the slots.
    pub(super) sorting: Mutex<()>,
    pub(super) properties: TableProperties,
    pub(super) metaindex: Metaindex,
    pub(super) checksums: Option<SpanChecksums>,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn RandomAccessFile>,
}

/// A lookup of a batch whose key was not found so far, and the cuckoo block to search next.
struct PendingLookup<W> {
    index: usize,
    window: W,
}

/// The key length that stands for one that is not a compile-time constant.
const ANY: usize = 0;

/// Whether the bytes of a slot begin with this key of `LEN` bytes.
#[inline]
fn begins<const LEN: usize>(slot: &[u8], key: &[u8]) -> bool {
    match (slot.first_chunk::<LEN>(), key.first_chunk::<LEN>()) {
        (Some(slot), Some(key)) if LEN != ANY => slot == key,
        _ => slot.starts_with(key),
    }
}

impl CuckooReader {
    /// The layout of the table.
    #[must_use]
    pub fn layout(&self) -> &CuckooLayout {
        &self.layout
    }

    /// Prefetches the first cuckoo block that a search for a user key reads.
    pub(crate) fn prefetch(&self, user_key: &[u8]) {
        if let Some(start) = self.window_of(0, user_key) {
            self.slots.prefetch(start, self.window_bytes);
        }
    }

    /// Returns the offset of a key's cuckoo block; `None` if the table cannot hold it.
    #[inline]
    pub(super) fn window_of(&self, function: u32, key: &[u8]) -> Option<u64> {
        match (&self.words, self.layout.user_key_bytes) {
            (Some(words), _) => {
                let slot = words.first_slot(function, words.word(key)?);
                Some(slot.wrapping_mul(self.slot_bytes as u64))
            }
            (None, 16) => self.window_sized::<16>(function, key),
            (None, _) => self.window_sized::<ANY>(function, key),
        }
    }

    /// Implements [`CuckooReader::window_of`] for keys of `LEN` bytes, or any length for [`ANY`].
    #[inline]
    fn window_sized<const LEN: usize>(&self, function: u32, key: &[u8]) -> Option<u64> {
        let is_admitted = self.admits::<LEN>(key);
        is_admitted.then(|| self.window_start::<LEN>(function, key))
    }

    /// Whether the table can contain the key: it has the common length and is not the empty key.
    ///
    /// The empty key is the one that marks empty slots.
    #[inline]
    fn admits<const LEN: usize>(&self, key: &[u8]) -> bool {
        key.len() == self.layout.user_key_bytes as usize
            && self.layout.slot_count != 0
            && !begins::<LEN>(&self.layout.empty_user_key, key)
    }

    /// Returns the offset of a key's cuckoo block by hash function number `function`.
    #[inline]
    fn window_start<const LEN: usize>(&self, function: u32, key: &[u8]) -> u64 {
        let slot = match key.first_chunk::<LEN>() {
            Some(key) if LEN != ANY => self.hash.slot(function, key),
            _ => self.hash.slot(function, key),
        };
        slot.wrapping_mul(self.slot_bytes as u64)
    }

    /// Searches the window at offset `start` for a key; returns its slot and the slot's offset.
    #[inline]
    pub(super) fn look(&self, start: u64, key: &[u8]) -> Found<(&[u8], u64)> {
        match (&self.words, key.first_chunk()) {
            (Some(words), Some(word)) => words.look(&self.slots, start, u64::from_le_bytes(*word)),
            _ => self.look_bytes(start, key),
        }
    }

    /// Implements [`CuckooReader::look`] for tables without word search: compares keys as bytes.
    #[inline(never)]
    fn look_bytes(&self, start: u64, key: &[u8]) -> Found<(&[u8], u64)> {
        match self.layout.user_key_bytes {
            16 => self.look_sized::<16>(start, key),
            _ => self.look_sized::<ANY>(start, key),
        }
    }

    /// Searches the cuckoo block at offset `start` for a key of `LEN` bytes, up to an empty slot.
    #[inline]
    fn look_sized<const LEN: usize>(&self, start: u64, key: &[u8]) -> Found<(&[u8], u64)> {
        let empty = self.layout.empty_user_key.as_slice();
        let mut window = self.slots.bytes(start, self.window_bytes);
        let mut at = start;
        while let Some((slot, rest)) = window.split_at_checked(self.slot_bytes) {
            if begins::<LEN>(slot, key) {
                return Found::Here((slot, at));
            }
            if begins::<LEN>(slot, empty) {
                return Found::Absent;
            }
            window = rest;
            at = at.wrapping_add(self.slot_bytes as u64);
        }
        Found::NotYet
    }

    /// Implements [`CuckooReader::search_batch`], overlapping the memory accesses of `RING` keys.
    fn search_windows<W: Windows>(
        &self,
        lookups: &mut [&mut Lookup],
        mut outcome: impl FnMut(usize, Result<()>),
    ) {
        let mut waiting = Vec::with_capacity(lookups.len().min(RING));
        for from in (0..lookups.len()).step_by(RING) {
            let to = from.saturating_add(RING).min(lookups.len());
            for (index, lookup) in lookups.iter().enumerate().take(to).skip(from) {
                let key = W::key(lookup.user_key());
                match key.and_then(|key| W::window(self, 0, key)) {
                    Some(window) => {
                        W::fetch(self, window);
                        waiting.push(PendingLookup { index, window });
                    }
                    None => outcome(index, Ok(())),
                }
            }
            for next_function in 1..=self.layout.function_count {
                waiting.retain_mut(|waiter| {
                    let Some(lookup) = lookups.get_mut(waiter.index) else {
                        return false;
                    };
                    let Some(key) = W::key(lookup.user_key()) else {
                        return false;
                    };
                    let result = match W::look(self, waiter.window, key) {
                        Found::Here(slot) => W::offer(self, slot, lookup),
                        Found::NotYet if next_function < self.layout.function_count => {
                            if let Some(window) = W::window(self, next_function, key) {
                                W::fetch(self, window);
                                waiter.window = window;
                                return true;
                            }
                            Ok(())
                        }
                        Found::Absent | Found::NotYet => Ok(()),
                    };
                    outcome(waiter.index, result);
                    false
                });
                if waiting.is_empty() {
                    break;
                }
            }
        }
    }

    /// Offers the visible entries in a slot to a lookup of its key; `at` is the slot's offset.
    #[inline]
    pub(super) fn offer(&self, lookup: &mut Lookup, slot: &[u8], at: u64) -> Result<()> {
        if self.layout.heap_bytes.is_some() {
            return self.offer_versions(lookup, slot);
        }
        let (footer, value_type) = self.footer_of(slot)?;
        if footer >> 8 <= lookup.snapshot() {
            lookup.offer(footer >> 8, value_type, || self.pin_value(slot, at))?;
        }
        Ok(())
    }

    /// Offers the visible versions of a slot's key to the lookup, newest first, until it is done.
    fn offer_versions(&self, lookup: &mut Lookup, slot: &[u8]) -> Result<()> {
        let (offset, mut versions) = self.versions_in(slot)?;
        while let Some(version) = versions.next().map_err(|error| self.in_file(error))? {
            let seqno = version.footer >> 8;
            if seqno > lookup.snapshot() {
                continue;
            }
            let at = offset.saturating_add(version.value_at as u64);
            let pin = || self.slots.pin(at, version.value);
            if lookup.offer(seqno, version.value_type, pin)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns an iterator over the versions of a slot's key, and the offset of the first.
    pub(super) fn versions_in(&self, slot: &[u8]) -> Result<(u64, Versions<'_>)> {
        let behind_key = slot.get(self.layout.key_bytes as usize..);
        let place = behind_key
            .and_then(|bytes| bytes.first_chunk())
            .map(|bytes| EntryLocation::decode(*bytes));
        let end = |location: &EntryLocation| location.offset.saturating_add(location.len as u64);
        match place {
            Some(place)
                if place.len > 0
                    && place.offset >= self.layout.slots_bytes()
                    && end(&place) <= self.layout.data_bytes() =>
            {
                let bytes = self.slots.bytes(place.offset, place.len);
                Ok((place.offset, Versions::new(bytes)))
            }
            _ => Err(self.in_file(Error::corruption(
                "cuckoo table: entries of a key are not in the heap after the slots",
            ))),
        }
    }

    /// Adds the path of the table file to an error.
    #[cold]
    pub(super) fn in_file(&self, error: Error) -> Error {
        error.in_file(&self.path, None, "read")
    }

    /// Returns the value in a slot; `None` for a deletion, or an entry not visible at `snapshot`.
    #[inline]
    pub(super) fn value_in<'s>(&self, slot: &'s [u8], snapshot: SeqNo) -> Result<Option<&'s [u8]>> {
        if self.layout.is_last_level || self.is_visible_value(slot, snapshot)? {
            Ok(slot.get(self.layout.key_bytes as usize..))
        } else {
            Ok(None)
        }
    }

    /// Whether the entry in a slot is a put visible at `snapshot`.
    #[inline(never)]
    fn is_visible_value(&self, slot: &[u8], snapshot: SeqNo) -> Result<bool> {
        let (footer, value_type) = self.footer_of(slot)?;
        match value_type {
            _ if footer >> 8 > snapshot => Ok(false),
            ValueType::Value => Ok(true),
            ValueType::Deletion => Ok(false),
            other => Err(self.unknown_type(other as u8)),
        }
    }

    /// Returns the value in the slot at offset `at` as a pinned slice.
    #[inline]
    fn pin_value(&self, slot: &[u8], at: u64) -> PinnedSlice {
        let value = slot.get(self.layout.key_bytes as usize..);
        self.pin(value.unwrap_or_default(), at)
    }

    /// Returns `value`, the value in the slot at offset `at`, as a pinned slice.
    #[inline]
    pub(super) fn pin(&self, value: &[u8], at: u64) -> PinnedSlice {
        let key_bytes = u64::from(self.layout.key_bytes);
        self.slots.pin(at.saturating_add(key_bytes), value)
    }

    /// Returns the packed sequence number and type, and the type, of the entry in a slot.
    #[inline]
    pub(super) fn footer_of(&self, slot: &[u8]) -> Result<(u64, ValueType)> {
        if self.layout.is_last_level {
            return Ok((ValueType::Value as u64, ValueType::Value));
        }
        let footer = slot
            .get(self.layout.user_key_bytes as usize..)
            .and_then(|rest| rest.first_chunk::<FOOTER_BYTES>())
            .copied()
            .unwrap_or_default();
        let [type_byte, ..] = footer;
        match ValueType::from_byte(type_byte) {
            Some(value_type) => Ok((u64::from_le_bytes(footer), value_type)),
            None => Err(self.unknown_type(type_byte)),
        }
    }

    /// Creates the error of an entry whose type byte is unknown.
    #[cold]
    fn unknown_type(&self, type_byte: u8) -> Error {
        Error::corruption(format!(
            "corrupted key: entry of unknown type {type_byte:#04x}"
        ))
        .in_file(&self.path, None, "read")
    }

    /// The bytes of slot number `slot`.
    #[inline]
    pub(super) fn slot(&self, slot: u32) -> &[u8] {
        let start = u64::from(slot).saturating_mul(self.slot_bytes as u64);
        self.slots.bytes(start, self.slot_bytes)
    }

    /// The user key in a slot's bytes.
    #[inline]
    pub(super) fn user_key_in<'s>(&self, slot: &'s [u8]) -> &'s [u8] {
        slot.get(..self.layout.user_key_bytes as usize)
            .unwrap_or_default()
    }

    /// Whether slot number `slot` contains an entry.
    #[inline]
    pub(super) fn is_occupied(&self, slot: u32) -> bool {
        self.user_key_in(self.slot(slot)) != self.layout.empty_user_key
    }

    /// Returns the first hash function whose window for the slot's key contains slot number `slot`.
    pub(super) fn function_of(&self, slot: u32) -> Option<u32> {
        let key = self.user_key_in(self.slot(slot));
        (0..self.layout.function_count).find(|&function| {
            let behind = u64::from(slot).checked_sub(self.hash.slot(function, key));
            behind.is_some_and(|behind| behind < u64::from(self.layout.window_slots))
        })
    }

    /// Returns where the table is held: in the mapped file or in a copy, with address and size.
    pub(crate) fn resident(&self) -> Resident {
        self.slots.resident()
    }
}

impl TableParts for CuckooReader {
    fn properties(&self) -> &TableProperties {
        &self.properties
    }

    fn metaindex(&self) -> &Metaindex {
        &self.metaindex
    }

    fn memory_bytes(&self) -> u64 {
        let sorted = self.sorted.get().map_or(0, |sorted| size_of_val(&**sorted));
        self.slots.copied_bytes().saturating_add(sorted as u64)
    }
}

impl WholeTable for CuckooReader {
    #[inline(never)]
    fn search(&self, lookup: &mut Lookup) -> Result<()> {
        with_windows!(self.kind, W => {
            match W::key(lookup.user_key()).and_then(|key| find::<W>(self, key)) {
                Some(slot) => W::offer(self, slot, lookup),
                None => Ok(()),
            }
        })
    }

    fn search_batch(&self, lookups: &mut [&mut Lookup], outcome: impl FnMut(usize, Result<()>)) {
        with_windows!(self.kind, W => self.search_windows::<W>(lookups, outcome));
    }
}

impl fmt::Debug for CuckooReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CuckooReader")
            .field("path", &self.path)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}
