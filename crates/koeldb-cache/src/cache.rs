//! The handle and its shards.

use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use koeldb_base::{Error, ErrorKind, Result};

use crate::shard::{Refused, Shard};
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard};

/// A shard is not made smaller than this by default.
const SHARD_BYTES_MIN: u64 = 512 << 10;
const SHARD_BITS_DEFAULT_MAX: u32 = 6;
const SHARD_BITS_MAX: u32 = 20;

/// What an entry is found by: a file, under a number from [`Cache::new_id`], and an offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey {
    /// The file.
    pub file: u64,
    /// The offset.
    pub offset: u64,
}

impl CacheKey {
    /// A hash whose bits are all good: the halves of a product of both parts.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes the product apart")]
    pub(crate) fn hash(self) -> u64 {
        let file = self.file ^ 0x9e37_79b9_7f4a_7c15;
        let offset = self.offset.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0xa076_1d64_78bd_642f;
        let product = u128::from(file.wrapping_mul(0xe703_7ed1_a0b4_28db)) * u128::from(offset);
        product as u64 ^ (product >> 64) as u64
    }
}

/// How dearly an entry is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Longest: indexes and filters.
    High,
    /// As usual: data.
    #[default]
    Low,
    /// Shortest: what is unlikely to be asked for again.
    Bottom,
}

/// Which entry goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CachePolicy {
    /// The one used longest ago, low priorities before high ones.
    Lru,
    /// One that proved of little use; a scan does not push out what is asked for again and again. The default.
    #[default]
    Clock,
}

/// The settings of a cache.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// How many bytes of charges are kept, [`Cache::ENTRY_OVERHEAD`] for each entry included.
    pub capacity_bytes: u64,
    /// The logarithm of the number of shards, at most 20; `None` for as many as leave 512 KiB to each, at most
    /// 64 shards.
    pub shard_bits: Option<u32>,
    /// Whether an insertion is refused if nothing can be evicted for it; otherwise the capacity is exceeded
    /// while entries are pinned.
    pub strict_capacity: bool,
    /// LRU: the share of the capacity in which entries of high priority, and entries that were asked for, are
    /// kept before others; 0 for no difference.
    pub high_priority_ratio: f64,
    /// Which entry goes first.
    pub policy: CachePolicy,
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions {
            capacity_bytes: 32 << 20,
            shard_bits: None,
            strict_capacity: false,
            high_priority_ratio: 0.5,
            policy: CachePolicy::default(),
        }
    }
}

impl CacheOptions {
    fn shard_bits(&self) -> u32 {
        let default = || {
            (self.capacity_bytes / SHARD_BYTES_MIN)
                .checked_ilog2()
                .unwrap_or(0)
                .min(SHARD_BITS_DEFAULT_MAX)
        };
        self.shard_bits
            .map_or_else(default, |bits| bits.min(SHARD_BITS_MAX))
    }
}

/// How often a cache was asked, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Look-ups that found an entry.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Entries taken in.
    pub inserts: u64,
    /// Entries that made room for others.
    pub evictions: u64,
}

/// A cache. Clones are handles to the same.
pub struct Cache<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    shards: Box<[Padded<T>]>,
    /// Bits of the hash below those that choose the shard.
    shard_shift: u32,
    strict_capacity: bool,
    capacity: AtomicU64,
    next_id: AtomicU64,
}

/// A shard on cache lines of its own.
#[repr(align(128))]
struct Padded<T>(Mutex<Shard<T>>);

impl<T> Padded<T> {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Shard<T>> {
        // Nothing that may panic by a user's fault runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// What each entry is charged for its place in the cache, in bytes.
    pub const ENTRY_OVERHEAD: u64 = 80;

    /// An empty cache.
    #[must_use]
    pub fn new(options: &CacheOptions) -> Self {
        let bits = options.shard_bits();
        let count = 1_u64 << bits;
        let capacity = options.capacity_bytes.div_ceil(count);
        let shards = (0..count)
            .map(|_| Padded(Mutex::new(Shard::new(capacity, options))))
            .collect();
        Cache {
            inner: Arc::new(Inner {
                shards,
                shard_shift: u64::BITS - bits,
                strict_capacity: options.strict_capacity,
                capacity: AtomicU64::new(options.capacity_bytes),
                next_id: AtomicU64::new(1),
            }),
        }
    }

    /// A number that no other file in this cache has.
    #[must_use]
    pub fn new_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The entry under `key`, which is pinned as long as it is held.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &CacheKey) -> Option<Arc<T>> {
        let hash = key.hash();
        self.shard(hash).lock().get(key, hash)
    }

    /// Puts an entry under `key` in place of an older one, and evicts others until all fit. `charge` is what
    /// the value takes in bytes, to which [`Cache::ENTRY_OVERHEAD`] is added.
    ///
    /// An entry larger than a shard is not kept. Unless the capacity is strict, that is no error, and entries
    /// that are pinned may exceed the capacity.
    ///
    /// # Errors
    /// `MemoryLimit` if the capacity is strict and not enough can be evicted; the older entry is gone then.
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

    /// Whether it is worth the trouble to put in what a long scan passes by, for which `key` stands: always while there
    /// is room, and one time in 64 when that would push out something else. So a pass through more than the cache
    /// holds costs little and leaves a part of itself, and passes over what would fit end up in the cache.
    #[must_use]
    pub fn admits_passing(&self, key: &CacheKey) -> bool {
        self.shard(key.hash()).lock().admits_passing()
    }

    /// Takes the entry under `key` out; whoever holds it keeps it.
    pub fn remove(&self, key: &CacheKey) -> Option<Arc<T>> {
        let hash = key.hash();
        self.shard(hash).lock().remove(key, hash)
    }

    /// Changes the capacity, evicting what does not fit any more.
    pub fn set_capacity(&self, bytes: u64) {
        self.inner.capacity.store(bytes, Ordering::Relaxed);
        let share = bytes.div_ceil(self.inner.shards.len() as u64);
        for shard in &self.inner.shards {
            let evicted = shard.lock().set_capacity(share);
            drop(evicted);
        }
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.inner.capacity.load(Ordering::Relaxed)
    }

    /// The bytes that all entries are charged for.
    #[must_use]
    pub fn usage(&self) -> u64 {
        self.sum(Shard::usage)
    }

    /// The bytes that pinned entries are charged for. Looks at every entry.
    #[must_use]
    pub fn pinned_usage(&self) -> u64 {
        self.sum(Shard::pinned_usage)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.sum(|shard| shard.len() as u64)
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How often the cache was asked, and what came of it.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        CacheCounts {
            hits: self.sum(|shard| shard.counts().hits),
            misses: self.sum(|shard| shard.counts().misses),
            inserts: self.sum(|shard| shard.counts().inserts),
            evictions: self.sum(|shard| shard.counts().evictions),
        }
    }

    fn sum(&self, of: impl Fn(&Shard<T>) -> u64) -> u64 {
        self.inner
            .shards
            .iter()
            .map(|shard| of(&shard.lock()))
            .sum()
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Padded<T> {
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
