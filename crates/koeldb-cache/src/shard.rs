//! A cache shard: its entries, their total charge, and the eviction policy.
//!
//! Everything here runs under the shard's lock, beside lookups in passing, which use only the table
//! of the entries. Evicted values are returned to be dropped outside the lock.

use crate::entry::Entries;
use crate::eviction::{PinnedSkips, Victim};
use crate::index::SlotIndex;
use crate::key::CacheKey;
use crate::options::{CacheOptions, Priority};
use crate::policy::Policy;
use crate::sync::Arc;
use crate::table::{Contents, TableWriter};

/// The divisor of the capacity that gives the free space above which a shard has room.
///
/// A smaller remainder may be left by an entry that did not fit.
const FREE_SHARE: u64 = 16;

/// The number of scanned blocks of which a full shard admits one (bimodal insertion).
///
/// Source: Qureshi et al., "Adaptive insertion policies for high performance caching", ISCA 2007.
const PASSING_PER_ENTRY: u32 = 64;

/// The numbers of hits, misses, inserts and evictions of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Lookups that found an entry.
    pub hits: u64,
    /// Lookups that found no entry.
    pub misses: u64,
    /// Entries inserted.
    pub inserts: u64,
    /// Entries evicted.
    pub evictions: u64,
}

/// The error for an entry that was not inserted because the shard has no room for it.
#[derive(Debug, PartialEq)]
pub(crate) struct Refused;

/// The state of a cache shard that its mutex guards: entries, charges and eviction policy.
pub(crate) struct Shard<T> {
    entries: Entries<T>,
    /// The counts, without the hits of lock-free lookups.
    counts: CacheCounts,
    usage: u64,
    capacity: u64,
    policy: Policy,
    /// The number of scanned blocks that asked a full shard for admission.
    passing: u32,
}

/// The evicted values, which the caller drops after it has released the lock of the shard.
///
/// The first needs no allocation, and usually it is the only one.
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

    /// Adds an evicted value; does nothing for `None`.
    fn push(&mut self, value: Option<Arc<T>>) {
        if self.first.is_none() {
            self.first = value;
        } else {
            self.others.extend(value);
        }
    }
}

impl<T> Shard<T> {
    /// Creates an empty shard of `capacity` bytes over an empty table.
    pub(crate) fn new(table: TableWriter<T>, capacity: u64, options: &CacheOptions) -> Self {
        Shard {
            entries: Entries::new(table),
            counts: CacheCounts::default(),
            usage: 0,
            capacity,
            policy: Policy::new(capacity, options),
            passing: 0,
        }
    }

    /// Looks up an entry with the shard lock held, and counts the hit or miss.
    pub(crate) fn get(&mut self, key: &CacheKey, hash: u64) -> Option<Arc<T>> {
        let found = self.entries.table.find(key, hash);
        let Some((slot, contents)) =
            found.and_then(|slot| Some((slot, self.entries.table.contents(slot)?)))
        else {
            self.counts.misses += 1;
            return None;
        };
        self.counts.hits += 1;
        self.entries.table.warm(slot);
        Some(Arc::clone(&contents.value))
    }

    /// Inserts an entry, evicting others; `Refused` if the shard has no room for it.
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
        if strict {
            self.sweep(charge, &mut evicted);
            if self.usage.saturating_add(charge) > self.capacity {
                evicted.push(Some(value));
                return (evicted, Err(Refused));
            }
        }
        let contents = Contents { key, value };
        let Some((slot, grew)) = self.entries.put(hash, contents, charge, priority) else {
            return (evicted, Err(Refused));
        };
        if grew {
            self.policy.resize(self.entries.table.bucket_count());
        }
        self.usage += charge;
        self.counts.inserts += 1;
        self.policy.insert(&mut self.entries, slot);
        (evicted, Ok(()))
    }

    /// Whether to insert a block that a long scan read: always if there is room, else 1 in 64.
    pub(crate) fn admits_passing(&mut self) -> bool {
        if self.capacity.saturating_sub(self.usage) > self.capacity / FREE_SHARE {
            return true;
        }
        self.passing = self.passing.wrapping_add(1);
        self.passing.is_multiple_of(PASSING_PER_ENTRY)
    }

    /// Removes the entry with `key`, after waiting for lock-free lookups that use it.
    pub(crate) fn remove(&mut self, key: &CacheKey, hash: u64) -> Option<Arc<T>> {
        let slot = self.entries.table.find(key, hash)?;
        let value = self.entries.table.take(slot);
        self.policy.unlink(&mut self.entries, slot);
        self.release(slot);
        value
    }

    /// Changes the capacity, and evicts entries that no longer fit; pinned ones stay.
    pub(crate) fn set_capacity(&mut self, capacity: u64) -> Evicted<T> {
        self.capacity = capacity;
        self.policy.set_capacity(&mut self.entries, capacity);
        let mut evicted = Evicted::new();
        self.make_room(0, &mut evicted);
        self.sweep(0, &mut evicted);
        evicted
    }

    pub(crate) fn usage(&self) -> u64 {
        self.usage
    }

    /// The total charge of entries with references outside the cache. Visits every entry.
    pub(crate) fn pinned_usage(&self) -> u64 {
        let entries = self.entries.iter();
        entries
            .filter(|&(slot, ..)| self.entries.table.is_pinned(slot))
            .map(|(_, entry, _)| entry.charge)
            .sum()
    }

    /// Calls `visit` with the value and the charge of every entry.
    pub(crate) fn for_each(&self, visit: &mut impl FnMut(&T, u64)) {
        for (_, entry, contents) in self.entries.iter() {
            visit(&contents.value, entry.charge);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number of buckets in the hash index.
    pub(crate) fn bucket_count(&self) -> usize {
        self.entries.table.bucket_count()
    }

    /// The counts, without the hits of lock-free lookups.
    pub(crate) fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Evicts entries in policy order until `bytes` more fit or the policy finds no victim.
    fn make_room(&mut self, bytes: u64, evicted: &mut Evicted<T>) {
        let mut pinned_skips = PinnedSkips::new();
        while self.usage.saturating_add(bytes) > self.capacity {
            let Some(victim) = self.policy.evict(&mut self.entries, &mut pinned_skips) else {
                break;
            };
            self.evicted(victim, evicted);
        }
    }

    /// Evicts unpinned entries in slot order until `bytes` more fit or only pinned ones are left.
    ///
    /// The policy gives up after a number of pinned entries, since the next insertion continues.
    fn sweep(&mut self, bytes: u64, evicted: &mut Evicted<T>) {
        for slot in self.entries.slots() {
            if self.usage.saturating_add(bytes) <= self.capacity {
                break;
            }
            if self.entries.table.contents(slot).is_some()
                && let Some(value) = self.entries.table.take_unpinned(slot)
            {
                self.policy.unlink(&mut self.entries, slot);
                self.evicted(Victim { slot, value }, evicted);
            }
        }
    }

    /// Counts an eviction, frees the slot of the victim, and moves its value to `evicted`.
    fn evicted(&mut self, victim: Victim<T>, evicted: &mut Evicted<T>) {
        self.counts.evictions += 1;
        self.release(victim.slot);
        evicted.push(Some(victim.value));
    }

    /// Frees the slot of an entry already removed from its list and table; subtracts its charge.
    fn release(&mut self, slot: SlotIndex) {
        self.usage -= self.entries.release(slot);
    }
}
