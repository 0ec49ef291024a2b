//! The hash index that is built when a plain table without a stored index is opened.
//!
//! A stored index has a bucket for several prefixes, so a search compares rows to distinguish them,
//! each of which is a cache miss; a filter before it costs another. Here every slot stores the
//! whole hash with the row: a search reads one cache line of slots, and then the row of the key, or
//! nothing. A filter would add nothing.
//!
//! Slots are probed linearly from the home of the hash; at least one slot is empty. Rows with the
//! same hash, usually those of one prefix, are in a separate list.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::{Error, Result};

use super::index::{LIST, Listed, NO_ROW, PlainIndex, Record, WORD};
use crate::block::prefetch_item;

/// The largest load factor.
const LOAD_MAX: f64 = 0.75;

/// The index of a plain table: a stored hash index, one built at open, or none.
#[derive(Debug)]
pub(crate) enum RowIndex {
    /// An index stored in the file.
    Stored(PlainIndex),
    /// A hash index over prefixes, built when the table was opened.
    Made(HashSlots),
    /// No hash index: keys without prefixes are found through the marks, which are built at open.
    Marks,
}

impl RowIndex {
    /// Finds the rows listed for the prefix with this hash.
    #[inline]
    pub(crate) fn find(&self, hash: u32) -> Result<Listed<'_>> {
        match self {
            RowIndex::Stored(index) => index.find(hash),
            RowIndex::Made(slots) => slots.find(hash),
            RowIndex::Marks => Ok(Listed::None),
        }
    }

    /// Prefetches the first memory that [`RowIndex::find`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        match self {
            RowIndex::Stored(index) => index.prefetch(hash),
            RowIndex::Made(slots) => slots.prefetch(hash),
            RowIndex::Marks => {}
        }
    }

    /// The heap memory of the index.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            RowIndex::Stored(index) => index.memory_bytes(),
            RowIndex::Made(slots) => slots.memory_bytes(),
            RowIndex::Marks => 0,
        }
    }
}

/// A slot of the hash index: a prefix hash, and the row or list of rows with that hash.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
struct Slot {
    hash: u32,
    /// The row or list, encoded as in a bucket of a stored index.
    value: u32,
}

/// A hash index from prefixes to rows, which is built when a table without one is opened.
#[derive(Debug)]
pub(crate) struct HashSlots {
    slots: Box<[Slot]>,
    /// The lists of rows: a count, and as many offsets in ascending order.
    lists: Vec<[u8; WORD]>,
}

impl HashSlots {
    /// Builds the index of `records` in row order; `ratio` is its load factor, prefixes per slot.
    ///
    /// # Errors
    /// `NotSupported` if the lists have 2^31 words or more.
    pub(crate) fn build(records: &[Record], prefix_count: u32, ratio: f64) -> Result<Self> {
        // One more than are used at any ratio.
        let wanted = f64::from(prefix_count) / ratio.clamp(0.1, LOAD_MAX);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number, cut to 32 bits where it has more"
        )]
        let count = (wanted as u32).max(prefix_count).saturating_add(1);
        let empty = Slot {
            hash: 0,
            value: NO_ROW,
        };
        let mut made = HashSlots {
            slots: vec![empty; count as usize].into_boxed_slice(),
            lists: Vec::new(),
        };
        // Rows whose hash has a row already: its slot, and their offset.
        let mut more: Vec<(u32, u32)> = Vec::new();
        for record in records {
            let at = made.slot_of(record.hash);
            match made.slots.get_mut(at) {
                Some(slot) if slot.value == NO_ROW => {
                    *slot = Slot {
                        hash: record.hash,
                        value: record.offset,
                    };
                }
                _ => more.push((u32::try_from(at).unwrap_or(u32::MAX), record.offset)),
            }
        }
        more.sort_by_key(|&(at, _)| at);
        for rows in more.chunk_by(|a, b| a.0 == b.0) {
            made.list(rows)?;
        }
        made.lists.shrink_to_fit();
        Ok(made)
    }

    /// Replaces the row in a slot by a list of that row and `rows`, later rows of the same slot.
    fn list(&mut self, rows: &[(u32, u32)]) -> Result<()> {
        let slot = rows
            .first()
            .and_then(|&(at, _)| self.slots.get_mut(at as usize))
            .ok_or_else(too_large)?;
        let list_at = u32::try_from(self.lists.len())
            .ok()
            .filter(|at| at & LIST == 0)
            .ok_or_else(too_large)?;
        let count = u32::try_from(rows.len()).map_err(|_| too_large())?;
        self.lists.push(count.saturating_add(1).to_le_bytes());
        self.lists.push(slot.value.to_le_bytes());
        self.lists
            .extend(rows.iter().map(|&(_, offset)| offset.to_le_bytes()));
        slot.value = list_at | LIST;
        Ok(())
    }

    /// Returns the slot at which linear probing for a hash begins.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        // The hashes of similar prefixes differ mainly in the low bits.
        let spread = hash.wrapping_mul(0x9e37_79b1);
        let product = u64::from(spread).wrapping_mul(self.slots.len() as u64);
        koeldb_base::coding::to_usize(product >> 32)
    }

    /// Returns the slot of a hash, or the empty slot where it would be inserted.
    #[inline]
    fn slot_of(&self, hash: u32) -> usize {
        let mut at = self.home(hash);
        loop {
            match self.slots.get(at) {
                Some(slot) if slot.hash != hash && slot.value != NO_ROW => {
                    at = at.wrapping_add(1);
                }
                Some(_) => return at,
                None => at = 0,
            }
        }
    }

    /// Returns the rows listed for a prefix hash.
    #[inline]
    fn find(&self, hash: u32) -> Result<Listed<'_>> {
        let at = self.slot_of(hash);
        let value = self.slots.get(at).map_or(NO_ROW, |slot| slot.value);
        if value == NO_ROW {
            return Ok(Listed::None);
        }
        if value & LIST == 0 {
            return Ok(Listed::Row(value));
        }
        let list = self.lists.get((value & !LIST) as usize..);
        let rows = list.and_then(|list| {
            let (count, rows) = list.split_first()?;
            rows.get(..u32::from_le_bytes(*count) as usize)
        });
        rows.map(Listed::Rows).ok_or_else(too_large)
    }

    /// Prefetches the slot at which the search for a hash begins.
    #[inline]
    fn prefetch(&self, hash: u32) {
        if let Some(slot) = self.slots.get(self.home(hash)) {
            prefetch_item(slot);
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.slots).saturating_add(size_of_val(&*self.lists))
    }
}

/// Creates the `NotSupported` error of an index with too many listed rows.
#[cold]
fn too_large() -> Error {
    Error::not_supported("plain table index with 2^31 words of lists")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few hashes, so that they collide in slots and share lists.
        #[test]
        fn every_hash_is_found_with_its_rows_and_no_other(
            hashes in prop::collection::vec(0_u32..60, 0..90),
            scale in prop::sample::select(vec![1_u32, 0x0101_0101]),
            ratio in prop::sample::select(vec![-1.0, 0.0, 0.3, 0.75, 2.0]),
        ) {
            let mut expected: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            let mut records = Vec::new();
            for (offset, hash) in (0_u32..).zip(&hashes) {
                let hash = hash.wrapping_mul(scale);
                records.push(Record { hash, offset });
                expected.entry(hash).or_default().push(offset);
            }
            let prefixes = u32::try_from(expected.len()).unwrap();
            let slots = HashSlots::build(&records, prefixes, ratio).unwrap();
            for hash in (0..70).map(|hash: u32| hash.wrapping_mul(scale)) {
                let found: Vec<u32> = match slots.find(hash).unwrap() {
                    Listed::None => Vec::new(),
                    Listed::Row(offset) => vec![offset],
                    Listed::Rows(rows) => rows.iter().map(|row| u32::from_le_bytes(*row)).collect(),
                };
                prop_assert_eq!(found, expected.get(&hash).cloned().unwrap_or_default());
            }
        }
    }
}
