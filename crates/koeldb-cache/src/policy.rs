//! The eviction policy of a shard: S3-FIFO or LRU.
//!
//! A hit takes no lock, so it moves no entry: it warms the slot, and the policy consumes the heat
//! of the entry when it considers evicting it. Hits go on meanwhile, so each policy limits how often
//! heat spares an entry.

use crate::entry::Entries;
use crate::eviction::{PinnedSkips, Victim};
use crate::index::SlotIndex;
use crate::lru::Lru;
use crate::options::{CacheOptions, CachePolicy};
use crate::s3_fifo::S3Fifo;

/// The eviction policy of a shard, with its lists of entries.
pub(crate) enum Policy {
    Lru(Lru),
    S3Fifo(S3Fifo),
}

impl Policy {
    pub(crate) fn new(capacity: u64, options: &CacheOptions) -> Self {
        match options.policy {
            CachePolicy::Lru => Policy::Lru(Lru::new(capacity, options.high_priority_ratio)),
            CachePolicy::S3Fifo => Policy::S3Fifo(S3Fifo::new(capacity)),
        }
    }

    /// Changes the capacity of the shard; evicts nothing.
    pub(crate) fn set_capacity<T>(&mut self, entries: &mut Entries<T>, capacity: u64) {
        match self {
            Policy::Lru(lru) => lru.set_capacity(entries, capacity),
            Policy::S3Fifo(s3_fifo) => s3_fifo.set_capacity(capacity),
        }
    }

    /// Resizes the ghost table of S3-FIFO after the index of the shard has grown.
    pub(crate) fn resize(&mut self, bucket_count: usize) {
        match self {
            Policy::Lru(_) => {}
            Policy::S3Fifo(s3_fifo) => s3_fifo.resize(bucket_count),
        }
    }

    /// Adds a new entry to the list or queue in which entries of its priority start.
    pub(crate) fn insert<T>(&mut self, entries: &mut Entries<T>, slot: SlotIndex) {
        match self {
            Policy::Lru(lru) => lru.insert(entries, slot),
            Policy::S3Fifo(s3_fifo) => s3_fifo.insert(entries, slot),
        }
    }

    /// Removes an entry from its list.
    pub(crate) fn unlink<T>(&mut self, entries: &mut Entries<T>, slot: SlotIndex) {
        match self {
            Policy::Lru(lru) => lru.unlink(entries, slot),
            Policy::S3Fifo(s3_fifo) => s3_fifo.unlink(entries, slot),
        }
    }

    /// Evicts the next unpinned entry of the policy: removes it from its list and from the table.
    ///
    /// `None` if all entries, or too many of them, are pinned.
    pub(crate) fn evict<T>(
        &mut self,
        entries: &mut Entries<T>,
        pinned_skips: &mut PinnedSkips,
    ) -> Option<Victim<T>> {
        match self {
            Policy::Lru(lru) => lru.evict(entries, pinned_skips),
            Policy::S3Fifo(s3_fifo) => s3_fifo.evict(entries, pinned_skips),
        }
    }
}
