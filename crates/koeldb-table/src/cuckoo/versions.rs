//! Tables with versions: entries that do not fit a slot, such as older versions, merge operands,
//! values of any length.
//!
//! ```text
//! slot [N + t - 1] | heap | properties block | ... | footer with a magic number of its own
//! slot:  user key | fixed64: the offset of its entries in the file * 2^24 + their bytes
//! heap:  the entries of a key, newest first:
//!        fixed64 footer of the internal key | varint32 bytes | value
//! ```
//!
//! A point read thus costs one more memory access, but snapshots, merges and other lengths do not
//! prevent a cuckoo table: only range tombstones and keys of different lengths still lead to a
//! block-based one. RocksDB, which does not know this extension, refuses the magic number.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;

use koeldb_base::coding;
use koeldb_base::key::{FOOTER_BYTES, InternalKey, ValueType, pack};
use koeldb_base::{Error, KeyOrder, Result};

use super::records::{ENTRIES_MAX, FallbackReason, Possible, SlotEntries, out_of_order};
use super::user_keys::UserKeys;

/// The size of the location of a key's entries, which replaces the value in a slot.
pub(super) const PLACE_BYTES: usize = 8;

/// The number of bits in a location that hold the size.
const LEN_BITS: u32 = 24;

/// The exclusive limit of the size of a key's entries.
pub(super) const ENTRIES_BYTES_MAX: usize = 1 << LEN_BITS;

/// The location of a key's versions in the area after the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryLocation {
    /// The offset of the entries in the file.
    pub(super) offset: u64,
    /// The size of the entries.
    pub(super) len: usize,
}

impl EntryLocation {
    /// Encodes a location as 64 bits: the offset above the size; `None` if it does not fit.
    fn encode(self) -> Option<[u8; PLACE_BYTES]> {
        let len = self.len as u64;
        let fits = len >> LEN_BITS == 0 && self.offset >> (u64::BITS - LEN_BITS) == 0;
        fits.then(|| ((self.offset << LEN_BITS) | len).to_le_bytes())
    }

    /// Decodes a location.
    pub(super) fn decode(bytes: [u8; PLACE_BYTES]) -> Self {
        let word = u64::from_le_bytes(bytes);
        EntryLocation {
            offset: word >> LEN_BITS,
            len: coding::to_usize(word & ((1 << LEN_BITS) - 1)),
        }
    }
}

/// One version of a key: its packed sequence number and type, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version<'h> {
    pub(super) footer: u64,
    pub(super) value_type: ValueType,
    pub(super) value: &'h [u8],
    /// The position of the value, relative to the first entry of the key.
    pub(super) value_at: usize,
}

/// An iterator over the versions of one key, newest first.
#[derive(Clone, Debug)]
pub(super) struct Versions<'h> {
    bytes: &'h [u8],
    at: usize,
    last_footer: Option<u64>,
}

impl<'h> Versions<'h> {
    /// Creates the iterator over the encoded versions of one key.
    pub(super) fn new(bytes: &'h [u8]) -> Self {
        Versions {
            bytes,
            at: 0,
            last_footer: None,
        }
    }

    /// Decodes the next older version; `None` after the oldest.
    ///
    /// # Errors
    /// `Corruption` if it is malformed or not older.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Version<'h>>> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let (footer, rest) = rest
            .split_first_chunk::<FOOTER_BYTES>()
            .ok_or_else(malformed)?;
        let footer = u64::from_le_bytes(*footer);
        let [type_byte, ..] = footer.to_le_bytes();
        let value_type = ValueType::from_byte(type_byte).ok_or_else(malformed)?;
        let (len, len_bytes) = coding::decode_varint32(rest).ok_or_else(malformed)?;
        let rest = rest.get(len_bytes..).unwrap_or_default();
        let value = rest.get(..len as usize).ok_or_else(malformed)?;
        if self.last_footer.is_some_and(|last| last <= footer) {
            return Err(malformed());
        }
        let value_at = (self.at)
            .saturating_add(FOOTER_BYTES)
            .saturating_add(len_bytes);
        self.last_footer = Some(footer);
        self.at = value_at.saturating_add(value.len());
        Ok(Some(Version {
            footer,
            value_type,
            value,
            value_at,
        }))
    }
}

/// Creates the `Corruption` error of malformed versions of a key.
#[cold]
fn malformed() -> Error {
    Error::corruption("cuckoo table: malformed entries of a key")
}

/// The buffered entries of a cuckoo table with versions: one slot per key, all versions after.
#[derive(Debug, Default)]
pub(super) struct VersionedRecords {
    user_keys: UserKeys,
    keys: Vec<u8>,
    /// The start of each key's entries in `heap`.
    starts: Vec<u64>,
    heap: Vec<u8>,
    last_footer: u64,
    totals: Totals,
}

/// The counts and sizes of entries that the table properties record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) entries: u64,
    pub(super) deletions: u64,
    pub(super) operands: u64,
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
}

impl VersionedRecords {
    /// Appends an entry; returns the reason for falling back if it does not fit.
    ///
    /// # Errors
    /// `Corruption` if the key is malformed or not after the last one.
    pub(super) fn add(
        &mut self,
        order: &KeyOrder,
        key: &[u8],
        value: &[u8],
    ) -> Result<Possible<()>> {
        let parsed = InternalKey::parse(key)?;
        let footer = pack(parsed.seqno, parsed.value_type);
        let user_key = parsed.user_key;
        let last = self.count().checked_sub(1).map(|last| self.user_key(last));
        let found = last.map_or(Ordering::Less, |last| order.compare(last, user_key));
        if found == Ordering::Greater || (found == Ordering::Equal && self.last_footer <= footer) {
            return Err(out_of_order(last.unwrap_or_default(), key));
        }
        if let Err(reason) = self.check(&parsed, value) {
            return Ok(Err(reason));
        }
        if found != Ordering::Equal {
            self.begin(user_key);
        }
        let start = self.starts.last().copied().unwrap_or(0);
        self.heap.extend_from_slice(&footer.to_le_bytes());
        // Checked earlier: values are shorter than 2^24 bytes.
        coding::put_varint32(&mut self.heap, u32::try_from(value.len()).unwrap_or(0));
        self.heap.extend_from_slice(value);
        if (self.heap.len() as u64).saturating_sub(start) >> LEN_BITS != 0 {
            return Ok(Err(FallbackReason::TooManyVersions));
        }
        self.last_footer = footer;
        let totals = &mut self.totals;
        totals.entries = totals.entries.saturating_add(1);
        totals.key_bytes = totals.key_bytes.saturating_add(key.len() as u64);
        totals.value_bytes = totals.value_bytes.saturating_add(value.len() as u64);
        if parsed.value_type.is_deletion() {
            totals.deletions = totals.deletions.saturating_add(1);
        }
        if parsed.value_type == ValueType::Merge {
            totals.operands = totals.operands.saturating_add(1);
        }
        Ok(Ok(()))
    }

    /// Checks that an entry fits: key length, type, value size, and number of keys.
    fn check(&self, key: &InternalKey<'_>, value: &[u8]) -> Possible<()> {
        self.user_keys.check(key.user_key)?;
        if key.value_type == ValueType::RangeDeletion {
            return Err(FallbackReason::Kind(key.value_type));
        }
        if value.len() >> LEN_BITS != 0 {
            return Err(FallbackReason::TooManyVersions);
        }
        if self.count() >= ENTRIES_MAX {
            return Err(FallbackReason::TooMany);
        }
        Ok(())
    }

    /// Starts the versions of the next user key.
    fn begin(&mut self, user_key: &[u8]) {
        self.user_keys.add(user_key);
        self.keys.extend_from_slice(user_key);
        self.starts.push(self.heap.len() as u64);
    }

    /// Returns the encoded versions of key number `index`, and their offset in the versions area.
    fn entries(&self, index: u32) -> (u64, &[u8]) {
        let index = index as usize;
        let start = self.starts.get(index).copied().unwrap_or(0);
        let next = self.starts.get(index.saturating_add(1)).copied();
        let end = next.unwrap_or(self.heap.len() as u64);
        let bytes = self
            .heap
            .get(coding::to_usize(start)..coding::to_usize(end));
        (start, bytes.unwrap_or_default())
    }

    /// Passes all entries to `take` in key order, as internal keys and values.
    pub(super) fn replay(&self, mut take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let mut key = Vec::new();
        for index in 0..self.count() {
            let mut versions = Versions::new(self.entries(index).1);
            while let Some(version) = versions.next()? {
                key.clear();
                key.extend_from_slice(self.user_key(index));
                key.extend_from_slice(&version.footer.to_le_bytes());
                take(&key, version.value)?;
            }
        }
        Ok(())
    }
}

impl SlotEntries for VersionedRecords {
    #[inline]
    fn count(&self) -> u32 {
        u32::try_from(self.starts.len()).unwrap_or(u32::MAX)
    }

    fn user_keys(&self) -> &UserKeys {
        &self.user_keys
    }

    fn value_bytes(&self) -> usize {
        PLACE_BYTES
    }

    fn is_last_level(&self) -> bool {
        true
    }

    #[inline]
    fn user_key(&self, index: u32) -> &[u8] {
        let start = (index as usize).saturating_mul(self.user_keys.bytes());
        let end = start.saturating_add(self.user_keys.bytes());
        self.keys.get(start..end).unwrap_or_default()
    }

    fn totals(&self) -> Totals {
        self.totals
    }

    fn heap(&self) -> Option<&[u8]> {
        Some(&self.heap)
    }

    fn prefetch(&self, index: u32) {
        let start = (index as usize).saturating_mul(self.user_keys.bytes());
        crate::block::prefetch(&self.keys, start);
    }

    fn append_slot(&self, index: u32, _with_footer: bool, heap_at: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.user_key(index));
        let (start, entries) = self.entries(index);
        let location = EntryLocation {
            offset: heap_at.saturating_add(start),
            len: entries.len(),
        };
        // Tables are below 4 GiB, and too many entries were refused when they were added.
        out.extend_from_slice(&location.encode().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_fit_or_are_refused() {
        for location in [
            EntryLocation { offset: 0, len: 0 },
            EntryLocation {
                offset: (1 << 40) - 1,
                len: (1 << 24) - 1,
            },
        ] {
            assert_eq!(location.encode().map(EntryLocation::decode), Some(location));
        }
        for location in [
            EntryLocation {
                offset: 1 << 40,
                len: 1,
            },
            EntryLocation {
                offset: 1,
                len: 1 << 24,
            },
        ] {
            assert_eq!(location.encode(), None);
        }
    }

    #[test]
    fn malformed_entries_are_errors() {
        let mut records = VersionedRecords::default();
        for (seqno, value) in [(9, &b"new"[..]), (4, b"older")] {
            let key = koeldb_base::key::encode(b"key", seqno, ValueType::Value);
            records
                .add(&KeyOrder::Bytewise, &key, value)
                .unwrap()
                .unwrap();
        }
        let all = |bytes: &[u8]| -> Result<usize> {
            let mut versions = Versions::new(bytes);
            let mut count = 0;
            while let Some(version) = versions.next()? {
                assert_eq!(
                    bytes[version.value_at..][..version.value.len()],
                    *version.value
                );
                count += 1;
            }
            Ok(count)
        };
        let heap = &records.heap;
        assert_eq!(all(heap).unwrap(), 2);
        let first = heap.len() - 14;
        for len in 1..heap.len() {
            assert_eq!(all(&heap[..len]).is_ok(), len == first, "{len}");
        }
        let swapped = [&heap[first..], &heap[..first]].concat();
        assert!(all(&swapped).is_err());
    }
}
