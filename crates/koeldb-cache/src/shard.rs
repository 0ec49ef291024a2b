//! A cache shard: its entries, their index, their total charge, and the eviction policy.
//!
//! Everything here runs under the shard's lock; evicted values are returned to be dropped outside
//! it.

use crate::cache::{CacheCounts, CacheKey, CacheOptions, Priority};
use crate::entry::{Entries, Entry, NOWHERE, SlotIndex};
use crate::index::{Index, tag_of};
use crate::policy::{PinnedSkips, Policy};
use crate::sync::Arc;

/// The divisor of the capacity that gives the free space above which a shard has room.
///
/// A smaller remainder may be left by an entry that did not fit.
const FREE_SHARE: u64 = 16;

/// The number of scanned blocks of which a full shard admits one (bimodal insertion).
///
/// Source: Qureshi et al., "Adaptive insertion policies for high performance caching", ISCA 2007.
const PASSING_PER_ENTRY: u32 = 64;

/// The error of a refused insertion.
#[derive(Debug, PartialEq)]
pub(crate) struct Refused;

pub(crate) struct Shard<T> {
    index: Index,
    entries: Entries<T>,
    counts: CacheCounts,
    usage: u64,
    capacity: u64,
    policy: Policy,
    /// The number of scanned blocks that asked a full shard for admission.
    passing: u32,
}

/// The values that an insertion evicted. The first needs no allocation, and usually it is the only
/// one.
pub(crate) struct Evicted<T> {
    first: Option<Arc<T>>,
    others: Vec<Arc<T>>,
}

impl<T> Evicted<T> {
    fn new() -> Self {
        Evicted {
            first: None,
            others: Vec::new(),
        }
    }

    fn push(&mut self, value: Option<Arc<T>>) {
        if self.first.is_none() {
            self.first = value;
        } else {
            self.others.extend(value);
        }
    }
}

impl<T> Shard<T> {
    pub(crate) fn new(capacity: u64, options: &CacheOptions) -> Self {
        Shard {
            index: Index::new(),
            entries: Entries::new(),
            counts: CacheCounts::default(),
            usage: 0,
            capacity,
            policy: Policy::new(capacity, options),
            passing: 0,
        }
    }

    #[inline]
    pub(crate) fn get(&mut self, key: &CacheKey, hash: u64) -> Option<Arc<T>> {
        let Some(slot) = self.find(key, hash) else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        self.policy.hit(&mut self.entries, slot);
        self.entries[slot].value.clone()
    }

    /// Inserts an entry, evicting others; refuses it if strict capacity leaves no room.
    ///
    /// It is refused if it is larger than the shard, or if the capacity is strict and not enough
    /// can be evicted. An older entry with the key is removed in any case.
    pub(crate) fn insert(
        &mut self,
        key: CacheKey,
        hash: u64,
        value: Arc<T>,
        charge: u64,
        priority: Priority,
        strict: bool,
    ) -> (Evicted<T>, Result<(), Refused>) {
        let mut evicted = Evicted::new();
        evicted.push(self.remove(&key, hash));
        if charge > self.capacity {
            evicted.push(Some(value));
            return (evicted, Err(Refused));
        }
        self.make_room(charge, &mut evicted);
        if strict && self.usage.saturating_add(charge) > self.capacity {
            evicted.push(Some(value));
            return (evicted, Err(Refused));
        }
        let tag = tag_of(hash);
        let entry = Entry {
            key,
            value: Some(value),
            charge,
            tag,
            newer: NOWHERE,
            older: NOWHERE,
            list: 0,
            heat: 0,
            priority,
        };
        let Some(slot) = self.entries.put(entry) else {
            return (evicted, Err(Refused));
        };
        if self.index.insert(tag, slot) {
            self.policy.resize(self.index.bucket_count());
        }
        self.usage += charge;
        self.counts.inserts += 1;
        self.policy.insert(&mut self.entries, slot);
        (evicted, Ok(()))
    }

    /// Whether to insert a scanned block, unlikely to be used again: if there is room, else 1 in
    /// 64.
    pub(crate) fn admits_passing(&mut self) -> bool {
        if self.capacity.saturating_sub(self.usage) > self.capacity / FREE_SHARE {
            return true;
        }
        self.passing = self.passing.wrapping_add(1);
        self.passing.is_multiple_of(PASSING_PER_ENTRY)
    }

    pub(crate) fn remove(&mut self, key: &CacheKey, hash: u64) -> Option<Arc<T>> {
        let slot = self.find(key, hash)?;
        self.policy.unlink(&mut self.entries, slot);
        self.release(slot)
    }

    pub(crate) fn set_capacity(&mut self, capacity: u64) -> Evicted<T> {
        self.capacity = capacity;
        self.policy.set_capacity(&mut self.entries, capacity);
        let mut evicted = Evicted::new();
        self.make_room(0, &mut evicted);
        evicted
    }

    pub(crate) fn usage(&self) -> u64 {
        self.usage
    }

    pub(crate) fn pinned_usage(&self) -> u64 {
        let pinned = self.entries.iter().filter(|entry| entry.is_pinned());
        pinned.map(|entry| entry.charge).sum()
    }

    pub(crate) fn for_each(&self, visit: &mut impl FnMut(&T, u64, Priority)) {
        for entry in self.entries.iter() {
            if let Some(value) = &entry.value {
                visit(value, entry.charge, entry.priority);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn counts(&self) -> CacheCounts {
        self.counts
    }

    #[inline]
    fn find(&self, key: &CacheKey, hash: u64) -> Option<SlotIndex> {
        self.index
            .find(tag_of(hash), |slot| self.entries[slot].key == *key)
    }

    /// Evicts until `bytes` more fit, or nothing can be evicted.
    fn make_room(&mut self, bytes: u64, evicted: &mut Evicted<T>) {
        let mut pinned_skips = PinnedSkips::new();
        while self.usage.saturating_add(bytes) > self.capacity {
            let Some(slot) = self.policy.evict(&mut self.entries, &mut pinned_skips) else {
                break;
            };
            self.counts.evictions += 1;
            evicted.push(self.release(slot));
        }
    }

    /// Frees the slot of an entry that is in no list any more.
    fn release(&mut self, slot: SlotIndex) -> Option<Arc<T>> {
        let entry = &self.entries[slot];
        self.usage -= entry.charge;
        self.index.remove(entry.tag, slot);
        self.entries.take(slot)
    }
}
