//! The cache handle and its shards.

use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use koeldb_base::sync::Padded;
use koeldb_base::{Error, ErrorKind, Result};

use crate::key::CacheKey;
use crate::options::{CacheOptions, Priority};
use crate::passing::Stripes;
use crate::shard::{CacheCounts, Refused, Shard};
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard};
use crate::table::{Shared, Table, TableWriter};

/// A sharded in-memory cache of reference-counted values, with a charge in bytes for each entry.
///
/// Clones are handles to the same cache. It corresponds to RocksDB's block cache.
pub struct Cache<T> {
    inner: Arc<Inner<T>>,
}

/// The state that all handles to a cache share: its shards, capacity and file number counter.
struct Inner<T> {
    shards: Box<[SharedShard<T>]>,
    stripes: Stripes,
    /// The position of the hash bits that choose the shard.
    shard_shift: u32,
    strict_capacity: bool,
    capacity: AtomicU64,
    /// Held during a change of the capacity, so that all shards have a share of the same one.
    capacity_change: Mutex<()>,
    next_id: AtomicU64,
}

/// A cache shard: the hash table that lock-free lookups read, and the state behind its mutex.
struct SharedShard<T> {
    table: Shared<Table<T>>,
    locked: Padded<Mutex<Shard<T>>>,
}

impl<T> SharedShard<T> {
    /// Creates an empty shard of `capacity` bytes, whose lock-free lookups use `stripes`.
    fn new(stripes: &Stripes, capacity: u64, options: &CacheOptions) -> Self {
        let writer = TableWriter::new(stripes.clone());
        SharedShard {
            table: writer.table(),
            locked: Padded(Mutex::new(Shard::new(writer, capacity, options))),
        }
    }

    /// Locks the shard, even if a thread panicked while it held the lock.
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Shard<T>> {
        // No user code that may panic runs under the lock.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Cache {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<T> Cache<T> {
    /// The charge of each entry for the cache's own memory, in bytes.
    pub const ENTRY_OVERHEAD: u64 = 80;

    /// Creates an empty cache.
    #[must_use]
    pub fn new(options: &CacheOptions) -> Self {
        let bits = options.shard_bits();
        let count = 1_u64 << bits;
        let capacity = options.capacity_bytes.div_ceil(count);
        let stripes = Stripes::new();
        let shards = (0..count)
            .map(|_| SharedShard::new(&stripes, capacity, options))
            .collect();
        Cache {
            inner: Arc::new(Inner {
                shards,
                stripes,
                shard_shift: u64::BITS - bits,
                strict_capacity: options.strict_capacity,
                capacity: AtomicU64::new(options.capacity_bytes),
                capacity_change: Mutex::new(()),
                next_id: AtomicU64::new(1),
            }),
        }
    }

    /// Returns a new file number for cache keys, unique in this cache (RocksDB: `Cache::NewId`).
    #[must_use]
    pub fn new_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Finds the entry with `key`; the returned reference pins it.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &CacheKey) -> Option<Arc<T>> {
        let hash = key.hash();
        let shard = self.shard(hash);
        if let Some(found) = shard.table.get(key, hash) {
            return Some(found);
        }
        // A lookup in passing misses entries that are being considered for eviction.
        shard.lock().get(key, hash)
    }

    /// Inserts an entry, replacing an older one, and evicts others until all fit.
    ///
    /// `charge` is the memory of the value in bytes, to which [`Cache::ENTRY_OVERHEAD`] is added.
    ///
    /// An entry larger than a shard is not kept. Unless the capacity is strict, that is no error,
    /// and pinned entries may exceed the capacity.
    ///
    /// # Errors
    /// `MemoryLimit` if the capacity is strict and not enough can be evicted; the older entry is
    /// then gone.
    pub fn insert(
        &self,
        key: CacheKey,
        value: Arc<T>,
        charge: u64,
        priority: Priority,
    ) -> Result<()> {
        let hash = key.hash();
        let charge = charge.saturating_add(Self::ENTRY_OVERHEAD);
        let strict = self.inner.strict_capacity;
        let mut shard = self.shard(hash).lock();
        let (evicted, outcome) = shard.insert(key, hash, value, charge, priority, strict);
        drop(shard);
        drop(evicted);
        match outcome {
            Err(Refused) if strict => Err(Error::with_kind(
                ErrorKind::MemoryLimit,
                format!("the cache has no room for an entry of {charge} bytes"),
            )),
            _ => Ok(()),
        }
    }

    /// Whether to insert a block that a long scan read: always if the shard has room, else 1 in 64.
    ///
    /// `key` selects the shard. A scan over more than the cache holds thus costs little and leaves
    /// a part of itself, and repeated scans over a range that fits end up in the cache.
    #[must_use]
    pub fn admits_passing(&self, key: &CacheKey) -> bool {
        self.shard(key.hash()).lock().admits_passing()
    }

    /// Removes the entry with `key`; pinned references stay valid.
    pub fn remove(&self, key: &CacheKey) -> Option<Arc<T>> {
        let hash = key.hash();
        self.shard(hash).lock().remove(key, hash)
    }

    /// Changes the capacity and evicts entries that no longer fit.
    ///
    /// Pinned entries remain until a later insertion finds them released.
    pub fn set_capacity(&self, bytes: u64) {
        let change = (self.inner.capacity_change.lock()).unwrap_or_else(PoisonError::into_inner);
        self.inner.capacity.store(bytes, Ordering::Relaxed);
        let share = bytes.div_ceil(self.inner.shards.len() as u64);
        let shards = self.inner.shards.iter();
        let evicted: Vec<_> = shards
            .map(|shard| shard.lock().set_capacity(share))
            .collect();
        drop(change);
        drop(evicted);
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.inner.capacity.load(Ordering::Relaxed)
    }

    /// The total charge of all entries in bytes.
    #[must_use]
    pub fn usage(&self) -> u64 {
        self.sum(Shard::usage)
    }

    /// The total charge of pinned entries in bytes. Visits every entry.
    #[must_use]
    pub fn pinned_usage(&self) -> u64 {
        self.sum(Shard::pinned_usage)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.sum(|shard| shard.len() as u64)
    }

    /// The number of buckets in the hash tables of all shards.
    #[must_use]
    pub fn bucket_count(&self) -> u64 {
        self.sum(|shard| shard.bucket_count() as u64)
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of hits, misses, inserts and evictions since the cache was created.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        CacheCounts {
            hits: self
                .sum(|shard| shard.counts().hits)
                .wrapping_add(self.inner.stripes.hits()),
            misses: self.sum(|shard| shard.counts().misses),
            inserts: self.sum(|shard| shard.counts().inserts),
            evictions: self.sum(|shard| shard.counts().evictions),
        }
    }

    /// Calls `visit` with the value and the charge of every entry.
    ///
    /// Each shard is locked while its entries are visited.
    pub fn for_each(&self, mut visit: impl FnMut(&T, u64)) {
        for shard in &self.inner.shards {
            shard.lock().for_each(&mut visit);
        }
    }

    /// The address of the shared state, which identifies the cache: equal for all its handles.
    #[must_use]
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    /// Returns the sum of a statistic `of` over all shards, each of which is locked in turn.
    fn sum(&self, of: impl Fn(&Shard<T>) -> u64) -> u64 {
        self.inner
            .shards
            .iter()
            .map(|shard| of(&shard.lock()))
            .sum()
    }

    /// Returns the shard that the highest bits of a key hash select.
    #[inline]
    fn shard(&self, hash: u64) -> &SharedShard<T> {
        let chosen = hash.checked_shr(self.inner.shard_shift).unwrap_or(0);
        &self.inner.shards[koeldb_base::coding::to_usize(chosen)]
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cache({} of {} bytes)", self.usage(), self.capacity())
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
