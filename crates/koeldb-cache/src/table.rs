//! The table of a shard: an index and slots with the values, which lookups use without the lock.
//!
//! A lookup announces the word of its hash (`passing`), finds a slot that has the word, clones the
//! value and leaves. The writer, which has the shard's lock, clears the word of a slot, searches
//! the announcements for it, and takes the value out if there is none. A lookup that does not find
//! its entry proves nothing, and is repeated with the lock.
//!
//! Invariants:
//!
//! - The contents of a slot change only through the [`TableWriter`], of which a table has one; and
//!   only while the word of the slot is 0, and the writer has since seen no lookup with the last
//!   word in passing.
//! - A lookup uses the contents of a slot only in a passage, after it loaded the word of that
//!   passage from the slot.
//! - The announcement and that load, and the clearing and the search, are sequentially consistent.
//!   So if a lookup still loads the word, the writer finds the lookup; or the lookup has left, and
//!   all that it did happens before the search.
//! - Generations live as long as the table.
//!
//! A reference count thus changes from one to two only in passing or with the lock: an entry that
//! is not pinned, and which no lookup in passing uses, remains so until the writer restores the
//! word.

use std::panic::RefUnwindSafe;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use koeldb_base::sync::lock_plain;

use crate::index::{Index, SlotIndex, tag_of};
use crate::key::CacheKey;
use crate::passing::{Passage, Stripes, fingerprint_of};
use crate::sync::{Arc, AtomicPtr, AtomicU8, AtomicU64, UnsafeCell, fence_in_models};

/// The number of buckets of an empty table; few in models.
const BUCKETS_MIN: usize = if cfg!(loom) { 4 } else { 16 };

/// The number of slots that are allocated together.
const SEGMENT: usize = BUCKETS_MIN;

/// The number of hits that a slot remembers.
pub(crate) const HEAT_MAX: u8 = 3;

/// A reference to a part of a table. Unlike values, tables need no counted references in models.
pub(crate) type Shared<P> = std::sync::Arc<P>;

/// The key and the value of a cache entry.
pub(crate) struct Contents<T> {
    pub(crate) key: CacheKey,
    pub(crate) value: Arc<T>,
}

/// A slot of the table: the contents of one entry, which lookups read without the lock.
struct Slot<T> {
    /// The fingerprint of the key's hash while lookups may use the entry, otherwise 0.
    word: AtomicU64,
    /// The number of hits that the eviction policy has not consumed, at most [`HEAT_MAX`].
    heat: AtomicU8,
    contents: UnsafeCell<Option<Contents<T>>>,
}

#[expect(unsafe_code, reason = "a slot is read without a lock")]
// SAFETY: threads read the contents concurrently, and clone the value, which `T: Send + Sync`
// allows; one that changes them excludes all others (the module's invariants).
unsafe impl<T: Send + Sync> Sync for Slot<T> {}

/// A panic leaves a slot with an entry or without.
impl<T> RefUnwindSafe for Slot<T> {}

impl<T> Slot<T> {
    fn new() -> Self {
        Slot {
            word: AtomicU64::new(0),
            heat: AtomicU8::new(0),
            contents: UnsafeCell::new(None),
        }
    }

    /// Returns the value if the slot holds the entry with `key`, and adds a hit to its heat.
    #[inline]
    #[expect(unsafe_code, reason = "a slot is read without a lock")]
    fn get(&self, key: &CacheKey, passage: &Passage<'_>) -> Option<Arc<T>> {
        if self.word.load(Ordering::SeqCst) != passage.word() {
            return None;
        }
        self.contents.with(|contents| {
            // SAFETY: the passage announces the word that the slot had, so the writer does not
            // change the contents before the passage ends; and the word was stored after them.
            let contents = unsafe { &*contents };
            let contents = contents.as_ref().filter(|contents| contents.key == *key)?;
            self.warm();
            Some(Arc::clone(&contents.value))
        })
    }

    /// Counts a hit of the slot for the eviction policy, up to [`HEAT_MAX`].
    ///
    /// A hot entry has its full heat, so a hit writes nothing. Two hits may count as one.
    #[inline]
    fn warm(&self) {
        let heat = self.heat.load(Ordering::Relaxed);
        if heat < HEAT_MAX {
            self.heat.store(heat + 1, Ordering::Relaxed);
        }
    }
}

type Segment<T> = [Slot<T>; SEGMENT];

/// The hash index and slots of one table size; growing creates a larger one with the same slots.
struct Generation<T> {
    index: Index,
    segments: Box<[OnceLock<Shared<Segment<T>>>]>,
}

impl<T> Generation<T> {
    /// Creates an empty index and slots for a table of `bucket_count` buckets, a power of two.
    fn new(bucket_count: usize) -> Self {
        Generation {
            index: Index::new(bucket_count),
            segments: (0..bucket_count / SEGMENT)
                .map(|_| OnceLock::new())
                .collect(),
        }
    }

    /// Returns a copy with twice the buckets, the same index content, and the same slots.
    fn twice_as_large(&self) -> Self {
        let larger = Generation::new(2 * self.index.bucket_count());
        larger.index.insert_all(&self.index);
        for (new, segment) in larger.segments.iter().zip(&self.segments) {
            if let Some(segment) = segment.get() {
                let _ = new.set(Shared::clone(segment));
            }
        }
        larger
    }

    /// Returns a slot; `None` if its segment is not allocated, as no entry was ever in it.
    #[inline]
    fn slot(&self, slot: SlotIndex) -> Option<&Slot<T>> {
        let segment = self.segments.get(slot as usize / SEGMENT)?.get()?;
        Some(&segment[slot as usize % SEGMENT])
    }
}

/// The hash table of a cache shard as lock-free lookups see it.
pub(crate) struct Table<T> {
    stripes: Stripes,
    newest: AtomicPtr<Generation<T>>,
    /// All generations: lookups may be using old ones. Together they are less than twice the
    /// newest.
    generations: std::sync::Mutex<Vec<Shared<Generation<T>>>>,
}

impl<T> Table<T> {
    /// Looks up an entry without the lock; `None` may also mean that the lookup must be repeated.
    ///
    /// The repetition takes the lock of the shard.
    #[inline]
    pub(crate) fn get(&self, key: &CacheKey, hash: u64) -> Option<Arc<T>> {
        let passage = self.stripes.enter(hash)?;
        let generation = self.newest();
        let found = generation.index.find(tag_of(hash), |slot| {
            generation.slot(slot)?.get(key, &passage)
        });
        if found.is_some() {
            passage.count_hit();
        }
        found
    }

    /// Returns the newest, largest index and slots; lookups may still use older, smaller ones.
    #[inline]
    #[expect(unsafe_code, reason = "a table is read without a lock")]
    fn newest(&self) -> &Generation<T> {
        let newest = self.newest.load(Ordering::Acquire);
        // SAFETY: only `add` stores the pointer, of a generation that the table keeps.
        unsafe { &*newest }
    }

    /// Publishes a larger `generation` of the table to lookups.
    fn add(&self, generation: Generation<T>) {
        let generation = Shared::new(generation);
        let newest = Shared::as_ptr(&generation).cast_mut();
        lock_plain(&self.generations).push(generation);
        self.newest.store(newest, Ordering::Release);
    }
}

/// The only writer of a shard's hash table, used by the holder of the shard lock.
pub(crate) struct TableWriter<T> {
    table: Shared<Table<T>>,
}

impl<T> TableWriter<T> {
    /// Creates an empty table, whose lookups are announced in `stripes`.
    pub(crate) fn new(stripes: Stripes) -> Self {
        let table = Table {
            stripes,
            newest: AtomicPtr::default(),
            generations: std::sync::Mutex::default(),
        };
        table.add(Generation::new(BUCKETS_MIN));
        TableWriter {
            table: Shared::new(table),
        }
    }

    /// Returns a reference to the hash table for lock-free lookups.
    pub(crate) fn table(&self) -> Shared<Table<T>> {
        Shared::clone(&self.table)
    }

    pub(crate) fn bucket_count(&self) -> usize {
        self.table.newest().index.bucket_count()
    }

    /// Finds the slot of the entry with `key`; `None` if absent. The lock must be held.
    pub(crate) fn find(&self, key: &CacheKey, hash: u64) -> Option<SlotIndex> {
        self.table.newest().index.find(tag_of(hash), |slot| {
            self.contents(slot)
                .is_some_and(|contents| contents.key == *key)
                .then_some(slot)
        })
    }

    /// The contents of a slot; `None` if it is free.
    #[inline]
    #[expect(unsafe_code, reason = "a slot is read while it is shared")]
    pub(crate) fn contents(&self, slot: SlotIndex) -> Option<&Contents<T>> {
        let slot = self.table.newest().slot(slot)?;
        slot.contents.with(|contents| {
            // SAFETY: only the writer changes contents, and while they are borrowed, so is it.
            unsafe { &*contents }.as_ref()
        })
    }

    /// Whether the value has references outside the cache.
    ///
    /// False may become true until the slot is out of reach of lookups.
    pub(crate) fn is_pinned(&self, slot: SlotIndex) -> bool {
        self.contents(slot)
            .is_some_and(|contents| Arc::strong_count(&contents.value) > 1)
    }

    /// Returns the heat of a slot, the number of hits that the policy has not consumed.
    pub(crate) fn heat(&self, slot: SlotIndex) -> u8 {
        self.slot(slot).heat.load(Ordering::Relaxed)
    }

    /// Sets the heat of a slot; a concurrent hit of a lock-free lookup may be lost.
    pub(crate) fn set_heat(&self, slot: SlotIndex, heat: u8) {
        self.slot(slot).heat.store(heat, Ordering::Relaxed);
    }

    /// Counts a hit of the slot for the eviction policy, up to [`HEAT_MAX`].
    pub(crate) fn warm(&self, slot: SlotIndex) {
        self.slot(slot).warm();
    }

    /// Stores an entry in a free slot and indexes it; `len` is the number of entries before.
    ///
    /// Returns true if the number of buckets grew.
    #[expect(unsafe_code, reason = "a slot is changed while it is shared")]
    pub(crate) fn put(
        &mut self,
        slot: SlotIndex,
        hash: u64,
        contents: Contents<T>,
        len: usize,
    ) -> bool {
        assert!(self.contents(slot).is_none(), "the slot is free");
        let grows = len >= self.table.newest().index.len_max();
        if grows {
            self.table.add(self.table.newest().twice_as_large());
        }
        let newest = self.table.newest();
        let place = &newest.segments[slot as usize / SEGMENT]
            .get_or_init(|| Shared::new(std::array::from_fn(|_| Slot::new())))
            [slot as usize % SEGMENT];
        place.heat.store(0, Ordering::Relaxed);
        place.contents.with_mut(|free| {
            // SAFETY: a free slot has no word, and a lookup that used the last contents has left.
            // The writer is borrowed exclusively.
            *unsafe { &mut *free } = Some(contents);
        });
        // Releases the contents to lookups.
        place.word.store(fingerprint_of(hash), Ordering::Release);
        newest.index.insert(tag_of(hash), slot);
        grows
    }

    /// Removes an entry from the table; `None` if it is pinned or in use by a lock-free lookup.
    pub(crate) fn take_unpinned(&mut self, slot: SlotIndex) -> Option<Arc<T>> {
        if self.is_pinned(slot) {
            return None;
        }
        let word = self.hide(slot);
        // The count is that of all lookups that are not in passing any more.
        if self.table.stripes.has(word) || self.is_pinned(slot) {
            self.slot(slot).word.store(word, Ordering::Release);
            return None;
        }
        self.empty(slot, word)
    }

    /// Removes an entry from the table, after waiting for lock-free lookups that use it.
    pub(crate) fn take(&mut self, slot: SlotIndex) -> Option<Arc<T>> {
        let word = self.hide(slot);
        self.table.stripes.wait_for(word);
        self.empty(slot, word)
    }

    /// Hides an entry from lock-free lookups that begin later; returns its fingerprint.
    fn hide(&mut self, slot: SlotIndex) -> u64 {
        let slot = self.slot(slot);
        // Only the writer changes words.
        let word = slot.word.load(Ordering::Relaxed);
        slot.word.store(0, Ordering::SeqCst);
        fence_in_models();
        word
    }

    /// Frees a hidden slot that no lock-free lookup uses, and returns the value it held.
    #[expect(unsafe_code, reason = "a slot is changed while it is shared")]
    fn empty(&mut self, slot: SlotIndex, word: u64) -> Option<Arc<T>> {
        let newest = self.table.newest();
        newest.index.remove(tag_of(word), slot);
        self.slot(slot).contents.with_mut(|contents| {
            // SAFETY: lookups do not use the contents: `hide` cleared the word, and the caller saw
            // no announcement of it since. The writer is borrowed exclusively.
            unsafe { &mut *contents }
                .take()
                .map(|contents| contents.value)
        })
    }

    /// Returns a slot that has had an entry; panics if its segment is not allocated.
    fn slot(&self, slot: SlotIndex) -> &Slot<T> {
        let slot = self.table.newest().slot(slot);
        slot.expect("the slot has an entry")
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const HASH: u64 = 7;

    fn contents(offset: u64) -> Contents<u64> {
        Contents {
            key: CacheKey { file: 1, offset },
            value: Arc::new(offset),
        }
    }

    fn get(table: &Table<u64>, offset: u64) -> Option<u64> {
        let found = table.get(&CacheKey { file: 1, offset }, HASH);
        found.map(|value| *value)
    }

    #[test]
    fn the_entry_of_a_lookup_in_passing_is_not_evicted() {
        let stripes = Stripes::new();
        let mut writer = TableWriter::new(stripes.clone());
        writer.put(0, HASH, contents(1), 0);
        for other in [HASH + 1, HASH | 1 << 40] {
            let passage = stripes.enter(other).unwrap();
            assert!(
                !stripes.has(fingerprint_of(HASH)),
                "a lookup of another hash"
            );
            drop(passage);
        }
        let passage = stripes.enter(HASH).unwrap();
        assert!(writer.take_unpinned(0).is_none());
        let slot = writer.table.newest().slot(0).unwrap();
        let found = slot.get(&CacheKey { file: 1, offset: 1 }, &passage);
        assert_eq!(found.as_deref(), Some(&1), "it is in reach as before");
        drop(passage);
        assert!(writer.take_unpinned(0).is_none(), "it is pinned");
        drop(found);
        assert_eq!(writer.take_unpinned(0).as_deref(), Some(&1));
    }

    #[test]
    fn slots_with_one_hash_are_told_apart_by_key_and_survive_growth() {
        const COUNT: u32 = if cfg!(miri) { 40 } else { 400 };
        let mut writer = TableWriter::new(Stripes::new());
        let table = writer.table();
        let mut grown = 0;
        for slot in 0..COUNT {
            let len = slot as usize;
            grown += u32::from(writer.put(slot, HASH, contents(u64::from(slot)), len));
            assert_eq!(get(&table, u64::from(slot)), Some(u64::from(slot)));
        }
        assert!(grown >= 2);
        for slot in (0..COUNT).step_by(2) {
            assert_eq!(writer.take(slot).as_deref(), Some(&u64::from(slot)));
        }
        for slot in 0..COUNT {
            let expected = (slot % 2 == 1).then_some(u64::from(slot));
            assert_eq!(get(&table, u64::from(slot)), expected);
        }
        assert_eq!(table.stripes.hits(), u64::from(COUNT + COUNT / 2));
    }
}
