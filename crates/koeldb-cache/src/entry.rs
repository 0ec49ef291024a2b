//! Cache entries and the slots that hold them.

use std::ops::{Index, IndexMut};

use crate::cache::{CacheKey, Priority};
use crate::sync::Arc;

/// The slot of an entry in its shard.
pub(crate) type Place = u32;

/// No slot.
pub(crate) const NOWHERE: Place = u32::MAX;

/// An entry with its policy state.
pub(crate) struct Entry<T> {
    pub(crate) key: CacheKey,
    /// `None` in a free slot.
    pub(crate) value: Option<Arc<T>>,
    pub(crate) charge: u64,
    /// The part of the hash by which the index finds the entry.
    pub(crate) tag: u32,
    /// The neighbour towards the head of the list.
    pub(crate) newer: Place,
    /// The neighbour towards the tail of the list; in a free slot, the next free one.
    pub(crate) older: Place,
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
    places: Vec<Entry<T>>,
    free: Place,
    len: usize,
}

impl<T> Entries<T> {
    pub(crate) fn new() -> Self {
        Entries {
            places: Vec::new(),
            free: NOWHERE,
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.places.iter().filter(|entry| entry.value.is_some())
    }

    /// Stores an entry in a free slot; `None` if there are too many.
    pub(crate) fn put(&mut self, entry: Entry<T>) -> Option<Place> {
        let place = if self.free == NOWHERE {
            let place = u32::try_from(self.places.len()).ok()?;
            if place == NOWHERE {
                return None;
            }
            self.places.push(entry);
            place
        } else {
            let place = self.free;
            self.free = self[place].older;
            self[place] = entry;
            place
        };
        self.len += 1;
        Some(place)
    }

    /// Frees a slot; the caller drops the value outside the lock.
    pub(crate) fn take(&mut self, place: Place) -> Option<Arc<T>> {
        let free = self.free;
        let entry = &mut self[place];
        entry.older = free;
        let value = entry.value.take();
        self.free = place;
        self.len -= 1;
        value
    }
}

impl<T> Index<Place> for Entries<T> {
    type Output = Entry<T>;

    #[inline]
    fn index(&self, place: Place) -> &Entry<T> {
        &self.places[place as usize]
    }
}

impl<T> IndexMut<Place> for Entries<T> {
    #[inline]
    fn index_mut(&mut self, place: Place) -> &mut Entry<T> {
        &mut self.places[place as usize]
    }
}
