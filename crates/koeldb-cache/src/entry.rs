//! Cache entries and the slots that hold them.

use std::ops::{Index, IndexMut};

use crate::cache::{CacheKey, Priority};
use crate::sync::Arc;

/// The slot of an entry in its shard.
pub(crate) type SlotIndex = u32;

/// The slot index that stands for no slot.
pub(crate) const NOWHERE: SlotIndex = u32::MAX;

/// An entry with its policy state.
pub(crate) struct Entry<T> {
    pub(crate) key: CacheKey,
    /// The cached value; `None` in a free slot.
    pub(crate) value: Option<Arc<T>>,
    pub(crate) charge: u64,
    /// The part of the hash by which the index finds the entry.
    pub(crate) tag: u32,
    /// The neighbour towards the head of the list.
    pub(crate) newer: SlotIndex,
    /// The neighbour towards the tail of the list; in a free slot, the next free slot.
    pub(crate) older: SlotIndex,
    /// The list that contains the entry, as numbered by the policy.
    pub(crate) list: u8,
    /// S3-FIFO: the number of hits, up to 3. LRU: whether the entry was hit.
    pub(crate) heat: u8,
    pub(crate) priority: Priority,
}

impl<T> Entry<T> {
    /// Whether the value has references outside the cache. Under the shard's lock, false stays
    /// false.
    pub(crate) fn is_pinned(&self) -> bool {
        self.value
            .as_ref()
            .is_some_and(|value| Arc::strong_count(value) > 1)
    }
}

/// All entries of a shard.
pub(crate) struct Entries<T> {
    slots: Vec<Entry<T>>,
    free: SlotIndex,
    len: usize,
}

impl<T> Entries<T> {
    pub(crate) fn new() -> Self {
        Entries {
            slots: Vec::new(),
            free: NOWHERE,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.slots.iter().filter(|entry| entry.value.is_some())
    }

    /// Stores an entry in a free slot; `None` if there are too many.
    pub(crate) fn put(&mut self, entry: Entry<T>) -> Option<SlotIndex> {
        let slot = if self.free == NOWHERE {
            let slot = u32::try_from(self.slots.len()).ok()?;
            if slot == NOWHERE {
                return None;
            }
            self.slots.push(entry);
            slot
        } else {
            let slot = self.free;
            self.free = self[slot].older;
            self[slot] = entry;
            slot
        };
        self.len += 1;
        Some(slot)
    }

    /// Frees a slot; the caller drops the value outside the lock.
    pub(crate) fn take(&mut self, slot: SlotIndex) -> Option<Arc<T>> {
        let free = self.free;
        let entry = &mut self[slot];
        entry.older = free;
        let value = entry.value.take();
        self.free = slot;
        self.len -= 1;
        value
    }
}

impl<T> Index<SlotIndex> for Entries<T> {
    type Output = Entry<T>;

    #[inline]
    fn index(&self, slot: SlotIndex) -> &Entry<T> {
        &self.slots[slot as usize]
    }
}

impl<T> IndexMut<SlotIndex> for Entries<T> {
    #[inline]
    fn index_mut(&mut self, slot: SlotIndex) -> &mut Entry<T> {
        &mut self.slots[slot as usize]
    }
}
