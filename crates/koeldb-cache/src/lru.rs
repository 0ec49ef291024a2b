//! LRU eviction in three pools, with second chances.
//!
//! Entries of high priority, and entries that were hit, are in the *high* pool, which is limited to
//! its share of the capacity: the excess moves on to the head of the *low* pool, where other
//! entries start. Entries of bottom priority start in the *bottom* pool. Eviction empties the
//! bottom pool first, then the low one. Without a share for the high pool there is one list, and
//! one for the bottom (RocksDB `cache/lru_cache.cc`).
//!
//! A hit does not move an entry, since that would need the lock. An entry that was hit moves when
//! it reaches the tail of its pool, so the order among such entries is approximate (the second
//! chance of CLOCK: Corbató, "A paging experiment with the Multics system", 1968).

use crate::entry::Entries;
use crate::eviction::{PinnedSkips, Victim};
use crate::index::SlotIndex;
use crate::list::List;
use crate::options::Priority;

const HIGH: usize = 0;
const LOW: usize = 1;
const BOTTOM: usize = 2;

/// The LRU eviction policy of a shard: pools of high, low and bottom priority, each an LRU list.
pub(crate) struct Lru {
    pools: [List; 3],
    high_ratio: f64,
    high_bytes_max: u64,
}

impl Lru {
    pub(crate) fn new(capacity: u64, high_ratio: f64) -> Self {
        let mut lru = Lru {
            pools: [List::new(0), List::new(1), List::new(2)],
            high_ratio,
            high_bytes_max: 0,
        };
        lru.set_share(capacity);
        lru
    }

    /// Changes the capacity of the shard, and moves the excess of the high pool to the low pool.
    pub(crate) fn set_capacity<T>(&mut self, entries: &mut Entries<T>, capacity: u64) {
        self.set_share(capacity);
        self.overflow(entries);
    }

    /// Sets the limit of the high pool to its share of `capacity`.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the capacity, which saturates"
    )]
    fn set_share(&mut self, capacity: u64) {
        self.high_bytes_max = (capacity as f64 * self.high_ratio.clamp(0.0, 1.0)) as u64;
    }

    /// Adds a new entry to the pool of its priority.
    pub(crate) fn insert<T>(&mut self, entries: &mut Entries<T>, slot: SlotIndex) {
        let pool = match entries[slot].priority {
            Priority::High if self.high_bytes_max > 0 => HIGH,
            Priority::High | Priority::Low => LOW,
            Priority::Bottom => BOTTOM,
        };
        self.pools[pool].push(entries, slot);
        self.overflow(entries);
    }

    /// Removes an entry from its pool.
    pub(crate) fn unlink<T>(&mut self, entries: &mut Entries<T>, slot: SlotIndex) {
        let pool = usize::from(entries[slot].list);
        self.pools[pool].unlink(entries, slot);
    }

    /// Evicts the next unpinned entry in LRU order: removes it from its pool and from the table.
    ///
    /// `None` if all entries, or too many of them, are pinned.
    pub(crate) fn evict<T>(
        &mut self,
        entries: &mut Entries<T>,
        pinned_skips: &mut PinnedSkips,
    ) -> Option<Victim<T>> {
        // Later turns spare no entry that hits keep warm meanwhile.
        let mut warm_turns = entries.len();
        for pool in [BOTTOM, LOW, HIGH] {
            // An entry that was hit moves on, and may in turn move another one to this pool.
            let mut pinned = 0;
            while pinned < self.pools[pool].len() {
                let Some(slot) = self.pools[pool].tail() else {
                    break;
                };
                let is_pinned = entries.table.is_pinned(slot);
                if !is_pinned && warm_turns > 0 && entries.table.heat(slot) > 0 {
                    warm_turns -= 1;
                    self.renew(entries, slot);
                    pinned = 0;
                } else if let Some(value) = entries.table.take_unpinned(slot) {
                    self.pools[pool].unlink(entries, slot);
                    return Some(Victim { slot, value });
                } else {
                    // It is in use, so it counts as most recently used.
                    self.pools[pool].renew(entries, slot);
                    pinned += 1;
                    pinned_skips.skip()?;
                }
            }
        }
        None
    }

    /// Gives an entry that was hit a second chance: clears its heat and moves it to a list head.
    fn renew<T>(&mut self, entries: &mut Entries<T>, slot: SlotIndex) {
        entries.table.set_heat(slot, 0);
        let from = usize::from(entries[slot].list);
        let to = if self.high_bytes_max > 0 { HIGH } else { LOW };
        if from == to {
            self.pools[to].renew(entries, slot);
        } else {
            self.pools[from].unlink(entries, slot);
            self.pools[to].push(entries, slot);
            self.overflow(entries);
        }
    }

    /// Demotes entries to the low pool until the high-priority pool is within its byte limit.
    ///
    /// Entries that were not hit are demoted first.
    fn overflow<T>(&mut self, entries: &mut Entries<T>) {
        let mut warm_turns = self.pools[HIGH].len();
        while self.pools[HIGH].bytes() > self.high_bytes_max {
            let Some(slot) = self.pools[HIGH].tail() else {
                break;
            };
            if warm_turns > 0 && entries.table.heat(slot) > 0 {
                warm_turns -= 1;
                entries.table.set_heat(slot, 0);
                self.pools[HIGH].renew(entries, slot);
            } else {
                self.pools[HIGH].unlink(entries, slot);
                self.pools[LOW].push(entries, slot);
            }
        }
    }
}
