//! The eviction policy of a shard: S3-FIFO or LRU.

use crate::cache::{CacheOptions, CachePolicy};
use crate::clock::Clock;
use crate::entry::{Entries, Place};
use crate::lru::Lru;

/// The number of pinned entries that one insertion skips before it gives up.
///
/// They move to the head of their list on the way, so the next insertion continues after them.
const PATIENCE: u32 = 1024;

/// The remaining number of pinned entries that an eviction may skip.
pub(crate) struct Patience(u32);

impl Patience {
    pub(crate) fn new() -> Self {
        Patience(PATIENCE)
    }

    /// Counts a skipped pinned entry; `None` once the budget is exhausted.
    pub(crate) fn lose(&mut self) -> Option<()> {
        self.0 = self.0.checked_sub(1)?;
        Some(())
    }
}

pub(crate) enum Policy {
    Lru(Lru),
    Clock(Clock),
}

impl Policy {
    pub(crate) fn new(capacity: u64, options: &CacheOptions) -> Self {
        match options.policy {
            CachePolicy::Lru => Policy::Lru(Lru::new(capacity, options.high_priority_ratio)),
            CachePolicy::Clock => Policy::Clock(Clock::new(capacity)),
        }
    }

    pub(crate) fn set_capacity<T>(&mut self, entries: &mut Entries<T>, capacity: u64) {
        match self {
            Policy::Lru(lru) => lru.set_capacity(entries, capacity),
            Policy::Clock(clock) => clock.set_capacity(capacity),
        }
    }

    pub(crate) fn resize(&mut self, bucket_count: usize) {
        match self {
            Policy::Lru(_) => {}
            Policy::Clock(clock) => clock.resize(bucket_count),
        }
    }

    pub(crate) fn insert<T>(&mut self, entries: &mut Entries<T>, place: Place) {
        match self {
            Policy::Lru(lru) => lru.insert(entries, place),
            Policy::Clock(clock) => clock.insert(entries, place),
        }
    }

    #[inline]
    pub(crate) fn hit<T>(&mut self, entries: &mut Entries<T>, place: Place) {
        match self {
            Policy::Lru(lru) => lru.hit(entries, place),
            Policy::Clock(_) => Clock::hit(entries, place),
        }
    }

    pub(crate) fn unlink<T>(&mut self, entries: &mut Entries<T>, place: Place) {
        match self {
            Policy::Lru(lru) => lru.unlink(entries, place),
            Policy::Clock(clock) => clock.unlink(entries, place),
        }
    }

    pub(crate) fn evict<T>(
        &mut self,
        entries: &mut Entries<T>,
        patience: &mut Patience,
    ) -> Option<Place> {
        match self {
            Policy::Lru(lru) => lru.evict(entries, patience),
            Policy::Clock(clock) => clock.evict(entries, patience),
        }
    }
}
