//! A limit on the memory of memtables, over the column families of one or several databases.
//!
//! Each memtable has a [`Charge`], which its super-versions keep: the memory counts until the last
//! reader has released it. The leader of the write queue updates the charge of an active memtable
//! whenever it has grown by a small share of the limit. Near the limit, the largest active memtable
//! is sealed, in whichever database it is.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Duration;

use koeldb_base::sync::{Padded, lock_plain as lock};
use koeldb_cache::{Cache, CacheKey, Priority};
use koeldb_table::source::CachedBlock;

/// The unit of reservations in a cache, as in RocksDB.
const RESERVATION_BYTES: u64 = 256 << 10;

/// A limiter of the total memory of memtables (RocksDB: `WriteBufferManager`).
///
/// Clones share one state; several databases can use it.
///
/// It is not a hard limit: memtables are flushed near it, and with `allow_stall` writes wait while
/// it is exceeded.
#[derive(Clone)]
pub struct WriteBufferManager {
    shared: Arc<Shared>,
}

/// A database whose memtables a [`WriteBufferManager`] counts.
pub(crate) trait ManagedDatabase: Send + Sync + 'static {
    /// Returns an id of the database that is unique in this process.
    fn id(&self) -> u64;

    /// Returns the most memory that a flush of one active memtable would free.
    ///
    /// `None` if the database accepts no writes.
    fn freeable_bytes_max(&self) -> Option<u64>;

    /// Requests a flush of all immutable memtables, however small; returns whether there are any.
    fn flush_all_sealed(&self) -> bool;

    /// Schedules a memtable switch of the largest memtable, since another database needs memory.
    fn seal_largest_later(self: Arc<Self>);
}

/// The state that the clones of a [`WriteBufferManager`] share.
struct Shared {
    limit: AtomicU64,
    allow_stall: AtomicBool,
    /// The bytes of all memtables, on cache lines apart from the limit, which leaders read.
    used: Padded<AtomicU64>,
    /// The part of `used` in active memtables, which could be flushed.
    active: Padded<AtomicU64>,
    reserved: Option<Reserved>,
    databases: Mutex<Vec<Weak<dyn ManagedDatabase>>>,
    frees: Mutex<u64>,
    freed: Condvar,
}

/// The dummy cache entries that charge memtable memory to a block cache.
///
/// (RocksDB: `CacheReservationManager`.)
struct Reserved {
    cache: Cache<CachedBlock>,
    file: u64,
    /// The dummy entries, pinned against eviction.
    entries: Mutex<Vec<Arc<CachedBlock>>>,
}

impl Reserved {
    /// Adds or removes dummy cache entries until they cover `used` bytes.
    fn follow(&self, used: &AtomicU64) {
        let mut entries = lock(&self.entries);
        // Loaded under the lock, so that the last of concurrent calls knows the last number.
        let used = used.load(Ordering::Relaxed);
        let wanted = koeldb_base::coding::to_usize(used.div_ceil(RESERVATION_BYTES));
        let key = |at: usize| CacheKey {
            file: self.file,
            offset: at as u64,
        };
        while entries.len() > wanted {
            entries.pop();
            self.cache.remove(&key(entries.len()));
        }
        while entries.len() < wanted {
            let entry = Arc::new(CachedBlock::reservation());
            let inserted = self.cache.insert(
                key(entries.len()),
                Arc::clone(&entry),
                RESERVATION_BYTES,
                Priority::Low,
            );
            if inserted.is_err() {
                // The cache is full of entries in use. Memtables grow nevertheless, and a later
                // call tries again.
                break;
            }
            entries.push(entry);
        }
    }
}

impl WriteBufferManager {
    /// Creates a manager with a limit in bytes; with 0 it counts memory without limiting it.
    ///
    /// With `allow_stall`, writes wait while more is in use.
    #[must_use]
    pub fn new(bytes: u64, allow_stall: bool) -> Self {
        Self::charged_to(bytes, allow_stall, None)
    }

    /// Creates a manager that also charges memtable memory to the block cache `cache`, if given.
    pub(crate) fn charged_to(
        bytes: u64,
        allow_stall: bool,
        cache: Option<&Cache<CachedBlock>>,
    ) -> Self {
        WriteBufferManager {
            shared: Arc::new(Shared {
                limit: AtomicU64::new(bytes),
                allow_stall: AtomicBool::new(allow_stall),
                used: Padded::default(),
                active: Padded::default(),
                reserved: cache.map(|cache| Reserved {
                    cache: cache.clone(),
                    file: cache.new_id(),
                    entries: Mutex::new(Vec::new()),
                }),
                databases: Mutex::new(Vec::new()),
                frees: Mutex::new(0),
                freed: Condvar::new(),
            }),
        }
    }

    /// Returns the memory limit in bytes; 0 for none.
    #[must_use]
    pub fn get_buffer_size(&self) -> u64 {
        self.shared.limit.load(Ordering::Relaxed)
    }

    /// Changes the memory limit in bytes; 0 for none.
    pub fn set_buffer_size(&self, bytes: u64) {
        self.shared.limit.store(bytes, Ordering::Relaxed);
        self.shared.notify_freed();
    }

    /// Sets whether writes stall while memory use is at the limit (RocksDB: `SetAllowStall`).
    pub fn set_allow_stall(&self, allow_stall: bool) {
        self.shared
            .allow_stall
            .store(allow_stall, Ordering::Relaxed);
        self.shared.notify_freed();
    }

    /// Returns the memory of all memtables in bytes: active, standby, immutable and still in use.
    #[must_use]
    pub fn get_usage(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// Returns the memory of all active memtables in bytes.
    #[must_use]
    pub fn get_mutable_usage(&self) -> u64 {
        self.shared.active.load(Ordering::Relaxed)
    }

    /// Returns the part of the block cache that the memory of memtables takes, in bytes; 0 without a
    /// cache (RocksDB: `dummy_entries_in_cache_usage`).
    #[must_use]
    pub fn get_reserved_in_cache(&self) -> u64 {
        let reserved = self.shared.reserved.as_ref();
        let count = reserved.map_or(0, |reserved| lock(&reserved.entries).len());
        (count as u64).saturating_mul(RESERVATION_BYTES)
    }

    /// Whether a memtable should be flushed to free memory (RocksDB: `ShouldFlush`).
    pub(crate) fn should_flush(&self) -> bool {
        let limit = self.get_buffer_size();
        let active = self.get_mutable_usage();
        limit > 0 && (active > limit / 8 * 7 || (self.get_usage() >= limit && active >= limit / 2))
    }

    /// Whether writes must stall for memory (RocksDB: `WriteBufferManager::ShouldStall`).
    #[inline]
    pub(crate) fn should_stall(&self) -> bool {
        let limit = self.get_buffer_size();
        self.shared.allow_stall.load(Ordering::Relaxed) && limit > 0 && self.get_usage() >= limit
    }

    /// Blocks a stalled write until memtable memory is freed, at most for `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let frees = lock(&self.shared.frees);
        if self.should_stall() {
            drop(self.shared.freed.wait_timeout(frees, limit));
        }
    }

    /// Registers an open database, and deregisters closed ones.
    pub(crate) fn register(&self, database: &Arc<impl ManagedDatabase>) {
        let mut databases = lock(&self.shared.databases);
        databases.retain(|database| database.strong_count() > 0);
        databases.push(Arc::downgrade(database) as Weak<dyn ManagedDatabase>);
    }

    /// Returns the registered databases that are still open.
    pub(crate) fn databases(&self) -> Vec<Arc<dyn ManagedDatabase>> {
        let databases = lock(&self.shared.databases);
        databases.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the growth in bytes after which the charge of an active memtable must be updated.
    pub(crate) fn step_bytes(&self) -> usize {
        let step = (self.get_buffer_size() / 128).clamp(4 << 10, 1 << 20);
        koeldb_base::coding::to_usize(step)
    }
}

impl Shared {
    /// Wakes the writers that are stalled for memtable memory.
    fn notify_freed(&self) {
        *lock(&self.frees) += 1;
        self.freed.notify_all();
    }

    /// Adjusts the memory charged to the block cache, if any, to the memory of all memtables.
    fn follow(&self) {
        if let Some(reserved) = &self.reserved {
            reserved.follow(&self.used);
        }
    }
}

impl fmt::Debug for WriteBufferManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBufferManager")
            .field("buffer_size", &self.get_buffer_size())
            .field("usage", &self.get_usage())
            .field("mutable_usage", &self.get_mutable_usage())
            .finish()
    }
}

/// The memory that one memtable has charged to a [`WriteBufferManager`]; dropping it releases it.
pub(crate) struct Charge {
    manager: WriteBufferManager,
    bytes: AtomicU64,
    is_active: AtomicBool,
}

impl Charge {
    /// Creates a charge of `bytes` for a memtable that is not active yet.
    pub(crate) fn new(manager: &WriteBufferManager, bytes: usize) -> Arc<Self> {
        let charge = Charge {
            manager: manager.clone(),
            bytes: AtomicU64::new(0),
            is_active: AtomicBool::new(false),
        };
        charge.set(bytes);
        Arc::new(charge)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Changes the charged memory to `bytes`.
    pub(crate) fn set(&self, bytes: usize) {
        let shared = &self.manager.shared;
        let bytes = bytes as u64;
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if bytes == before {
            return;
        }
        // Two's complement: adding the difference subtracts it if the charge has decreased.
        let growth = bytes.wrapping_sub(before);
        shared.used.fetch_add(growth, Ordering::Relaxed);
        if self.is_active.load(Ordering::Relaxed) {
            shared.active.fetch_add(growth, Ordering::Relaxed);
        }
        shared.follow();
    }

    /// Counts the memtable as active. Called by the write group leader, like [`Charge::seal`].
    pub(crate) fn activate(&self) {
        if !self.is_active.swap(true, Ordering::Relaxed) {
            let active = &self.manager.shared.active;
            active.fetch_add(self.bytes(), Ordering::Relaxed);
        }
    }

    /// Counts the memtable as immutable: its memory will be freed by a flush.
    pub(crate) fn seal(&self) {
        if self.is_active.swap(false, Ordering::Relaxed) {
            let active = &self.manager.shared.active;
            active.fetch_sub(self.bytes(), Ordering::Relaxed);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.seal();
        let shared = &self.manager.shared;
        shared.used.fetch_sub(self.bytes(), Ordering::Relaxed);
        shared.follow();
        shared.notify_freed();
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Charge({} bytes)", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_counted_until_dropped_and_reserved_in_a_cache() {
        let cache = crate::options::Cache::new_lru_cache(64 << 20);
        let manager = WriteBufferManager::with_cache(8 << 20, &cache, true);
        let active = Charge::new(&manager, 1 << 20);
        active.activate();
        assert_eq!(
            (manager.get_usage(), manager.get_mutable_usage()),
            (1 << 20, 1 << 20)
        );
        active.set(5 << 20);
        let standby = Charge::new(&manager, 1 << 20);
        assert_eq!(
            (manager.get_usage(), manager.get_mutable_usage()),
            (6 << 20, 5 << 20)
        );
        assert!(cache.get_usage() >= 6 << 20 && cache.get_pinned_usage() >= 6 << 20);
        assert!(!manager.should_flush());
        active.set((7 << 20) + 1);
        assert!(manager.should_flush() && manager.should_stall());
        active.seal();
        assert_eq!(manager.get_mutable_usage(), 0);
        assert!(!manager.should_flush());
        active.set(3 << 20);
        drop(standby);
        assert_eq!(manager.get_usage(), 3 << 20);
        drop(active);
        assert_eq!((manager.get_usage(), cache.get_usage()), (0, 0));
    }

    fn cache(bytes: u64, strict_capacity: bool) -> Cache<CachedBlock> {
        Cache::new(&koeldb_cache::CacheOptions {
            capacity_bytes: bytes,
            shard_bits: Some(0),
            strict_capacity,
            ..koeldb_cache::CacheOptions::default()
        })
    }

    #[test]
    fn a_reservation_follows_the_memory_in_use_when_it_is_made() {
        let cache = cache(64 << 20, false);
        let manager = WriteBufferManager::charged_to(0, false, Some(&cache));
        let reserved = manager.shared.reserved.as_ref().unwrap();
        for _ in 0..100 {
            let first = Charge::new(&manager, 1 << 20);
            let second = Charge::new(&manager, 2 << 20);
            std::thread::scope(|scope| {
                let entries = lock(&reserved.entries);
                scope.spawn(move || drop(first));
                while manager.get_usage() != 2 << 20 {
                    std::thread::yield_now();
                }
                // Now the thread waits for the lock, or will soon.
                for _ in 0..10 {
                    std::thread::yield_now();
                }
                // As a thread does that was granted the lock before it.
                manager.shared.used.fetch_sub(2 << 20, Ordering::Relaxed);
                drop(entries);
            });
            let reserved = cache.usage();
            manager.shared.used.fetch_add(2 << 20, Ordering::Relaxed);
            drop(second);
            assert_eq!(reserved, 0);
            assert_eq!((manager.get_usage(), cache.usage()), (0, 0));
        }
    }

    #[test]
    fn a_reservation_that_a_full_cache_refused_is_made_later() {
        let cache = cache(4 << 20, true);
        let manager = WriteBufferManager::charged_to(0, false, Some(&cache));
        let in_use = Arc::new(CachedBlock::reservation());
        let key = CacheKey {
            file: cache.new_id(),
            offset: 0,
        };
        let inserted = cache.insert(key, Arc::clone(&in_use), 3 << 20, Priority::Low);
        inserted.unwrap();
        let charge = Charge::new(&manager, 2 << 20);
        assert!(cache.usage() < 4 << 20, "not all of it fits");
        drop(in_use);
        charge.set((2 << 20) + 1);
        assert!(cache.usage() > 2 << 20);
        charge.set(1);
        cache.remove(&key);
        assert!((1..512 << 10).contains(&cache.usage()));
        drop(charge);
        assert_eq!((cache.len(), cache.usage()), (0, 0));
    }
}
