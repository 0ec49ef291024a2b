//! Cache entries and the slots that hold them.

use std::ops::{Index, IndexMut};

use crate::index::{NOWHERE, SlotIndex, tag_of};
use crate::options::Priority;
use crate::table::{Contents, TableWriter};

/// The metadata of a cache entry that the shard lock guards: charge and eviction list links.
pub(crate) struct Entry {
    pub(crate) charge: u64,
    /// The part of the hash by which the index finds the entry.
    pub(crate) tag: u32,
    /// The neighbour towards the head of the list.
    pub(crate) newer: SlotIndex,
    /// The neighbour towards the tail of the list; in a free slot, the next free slot.
    pub(crate) older: SlotIndex,
    /// The list that contains the entry, as numbered by the policy.
    pub(crate) list: u8,
    pub(crate) priority: Priority,
}

/// The entries of a cache shard, in numbered slots with a free list.
pub(crate) struct Entries<T> {
    /// The keys, values and heat (recent hits), which lookups access without the lock.
    pub(crate) table: TableWriter<T>,
    /// The locked part of each slot, by slot number.
    rest: Vec<Entry>,
    free: SlotIndex,
    len: usize,
}

impl<T> Entries<T> {
    /// Creates the entries of an empty shard over its empty table.
    pub(crate) fn new(table: TableWriter<T>) -> Self {
        Entries {
            table,
            rest: Vec::new(),
            free: NOWHERE,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The range of all slot numbers in use or on the free list.
    pub(crate) fn slots(&self) -> std::ops::Range<SlotIndex> {
        0..SlotIndex::try_from(self.rest.len()).unwrap_or(NOWHERE)
    }

    /// Iterates over all entries with their slot numbers and contents.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlotIndex, &Entry, &Contents<T>)> {
        (0..).zip(&self.rest).filter_map(|(slot, entry)| {
            let contents = self.table.contents(slot)?;
            Some((slot, entry, contents))
        })
    }

    /// Stores an entry in a free slot; `None` if no slot number is left.
    ///
    /// Returns the slot, and whether the number of buckets grew.
    pub(crate) fn put(
        &mut self,
        hash: u64,
        contents: Contents<T>,
        charge: u64,
        priority: Priority,
    ) -> Option<(SlotIndex, bool)> {
        let entry = Entry {
            charge,
            tag: tag_of(hash),
            newer: NOWHERE,
            older: NOWHERE,
            list: 0,
            priority,
        };
        let slot = if self.free == NOWHERE {
            let slot = u32::try_from(self.rest.len()).ok()?;
            if slot == NOWHERE {
                return None;
            }
            self.rest.push(entry);
            slot
        } else {
            let slot = self.free;
            self.free = self[slot].older;
            self[slot] = entry;
            slot
        };
        let grew = self.table.put(slot, hash, contents, self.len);
        self.len += 1;
        Some((slot, grew))
    }

    /// Frees a slot whose contents were taken; returns the charge of the entry.
    pub(crate) fn release(&mut self, slot: SlotIndex) -> u64 {
        let free = self.free;
        let entry = &mut self[slot];
        entry.older = free;
        let charge = entry.charge;
        self.free = slot;
        self.len -= 1;
        charge
    }
}

impl<T> Index<SlotIndex> for Entries<T> {
    type Output = Entry;

    #[inline]
    fn index(&self, slot: SlotIndex) -> &Entry {
        &self.rest[slot as usize]
    }
}

impl<T> IndexMut<SlotIndex> for Entries<T> {
    #[inline]
    fn index_mut(&mut self, slot: SlotIndex) -> &mut Entry {
        &mut self.rest[slot as usize]
    }
}
