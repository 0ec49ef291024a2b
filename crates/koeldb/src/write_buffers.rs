//! A bound on the memory of memtables, over the families of one database or of several.
//!
//! Each memtable has a [`Charge`], which its super-versions keep: the memory counts until the last reader has let go of
//! it. The leader of the write queue brings the charge of an active memtable up to date whenever it has grown by a small
//! share of the limit. When the limit is near, the largest active memtable is sealed, whichever database it belongs to.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;
use koeldb_cache::{CacheKey, Priority};
use koeldb_table::source::CachedBlock;

use crate::inner::DbInner;
use crate::options::Cache;

/// What is reserved in a cache at once: as in RocksDB.
const RESERVATION_BYTES: u64 = 256 << 10;

/// A bound on the memory that memtables take together. Clones are handles to the same; give one to several databases to
/// have it hold for all of them.
///
/// It is no hard bound: memtables are flushed when it is near, and with `allow_stall` writes wait while it is exceeded.
#[derive(Clone)]
pub struct WriteBufferManager {
    shared: Arc<Shared>,
}

struct Shared {
    limit: AtomicU64,
    allow_stall: bool,
    used: AtomicU64,
    /// The part of `used` that takes writes and could be flushed.
    active: AtomicU64,
    reserved: Option<Reserved>,
    databases: Mutex<Vec<Weak<DbInner>>>,
    frees: Mutex<u64>,
    freed: Condvar,
}

/// Entries that stand for memtables in a block cache, so that blocks make room for them.
struct Reserved {
    cache: Cache,
    file: u64,
    /// Held, so that they are not evicted.
    entries: Mutex<Vec<Arc<CachedBlock>>>,
}

impl Reserved {
    /// Reserves what `used` bytes take.
    fn follow(&self, used: u64) {
        let wanted = koeldb_base::coding::to_usize(used.div_ceil(RESERVATION_BYTES));
        let mut entries = lock(&self.entries);
        let key = |at: usize| CacheKey {
            file: self.file,
            offset: at as u64,
        };
        while entries.len() > wanted {
            entries.pop();
            self.cache.blocks().remove(&key(entries.len()));
        }
        while entries.len() < wanted {
            let entry = Arc::new(CachedBlock::reservation());
            // A cache that has no room for it is full of what is in use: memtables grow all the same.
            let _ = self.cache.blocks().insert(
                key(entries.len()),
                Arc::clone(&entry),
                RESERVATION_BYTES,
                Priority::Low,
            );
            entries.push(entry);
        }
    }
}

impl WriteBufferManager {
    /// A bound of so many bytes; 0: memory is counted and not bounded. With `allow_stall`, writes wait while more is
    /// in use.
    #[must_use]
    pub fn new(bytes: u64, allow_stall: bool) -> Self {
        Self::make(bytes, allow_stall, None)
    }

    /// A bound whose memory is charged to `cache` as well: memtables and blocks share one budget.
    #[must_use]
    pub fn with_cache(bytes: u64, cache: &Cache, allow_stall: bool) -> Self {
        Self::make(bytes, allow_stall, Some(cache))
    }

    fn make(bytes: u64, allow_stall: bool, cache: Option<&Cache>) -> Self {
        WriteBufferManager {
            shared: Arc::new(Shared {
                limit: AtomicU64::new(bytes),
                allow_stall,
                used: AtomicU64::new(0),
                active: AtomicU64::new(0),
                reserved: cache.map(|cache| Reserved {
                    cache: cache.clone(),
                    file: cache.blocks().new_id(),
                    entries: Mutex::new(Vec::new()),
                }),
                databases: Mutex::new(Vec::new()),
                frees: Mutex::new(0),
                freed: Condvar::new(),
            }),
        }
    }

    /// The bound in bytes; 0: none.
    #[must_use]
    pub fn get_buffer_size(&self) -> u64 {
        self.shared.limit.load(Ordering::Relaxed)
    }

    /// Changes the bound.
    pub fn set_buffer_size(&self, bytes: u64) {
        self.shared.limit.store(bytes, Ordering::Relaxed);
        self.shared.tell_freed();
    }

    /// The memory of all memtables, in bytes: those written to, those made ready, those being flushed and those that
    /// somebody still reads.
    #[must_use]
    pub fn get_usage(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// The part of it that takes writes.
    #[must_use]
    pub fn get_mutable_usage(&self) -> u64 {
        self.shared.active.load(Ordering::Relaxed)
    }

    /// Whether a memtable should be sealed (RocksDB: `include/rocksdb/write_buffer_manager.h`, `ShouldFlush`).
    pub(crate) fn should_flush(&self) -> bool {
        let limit = self.get_buffer_size();
        let active = self.get_mutable_usage();
        limit > 0 && (active > limit / 8 * 7 || (self.get_usage() >= limit && active >= limit / 2))
    }

    /// Whether writes wait.
    #[inline]
    pub(crate) fn should_stall(&self) -> bool {
        let limit = self.get_buffer_size();
        self.shared.allow_stall && limit > 0 && self.get_usage() >= limit
    }

    /// Waits until memory is freed, at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let frees = lock(&self.shared.frees);
        if self.should_stall() {
            drop(self.shared.freed.wait_timeout(frees, limit));
        }
    }

    pub(crate) fn register(&self, database: &Arc<DbInner>) {
        let mut databases = lock(&self.shared.databases);
        databases.retain(|database| database.strong_count() > 0);
        databases.push(Arc::downgrade(database));
    }

    /// The databases whose memtables are counted.
    pub(crate) fn databases(&self) -> Vec<Arc<DbInner>> {
        let databases = lock(&self.shared.databases);
        databases.iter().filter_map(Weak::upgrade).collect()
    }

    /// The growth of a memtable after which its charge is brought up to date.
    pub(crate) fn step_bytes(&self) -> usize {
        let step = (self.get_buffer_size() / 128).clamp(4 << 10, 1 << 20);
        koeldb_base::coding::to_usize(step)
    }
}

impl Shared {
    fn tell_freed(&self) {
        *lock(&self.frees) += 1;
        self.freed.notify_all();
    }

    fn follow(&self) {
        if let Some(reserved) = &self.reserved {
            reserved.follow(self.used.load(Ordering::Relaxed));
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

/// What one memtable is charged, until it is dropped.
pub(crate) struct Charge {
    manager: WriteBufferManager,
    bytes: AtomicU64,
    is_active: AtomicBool,
}

impl Charge {
    /// The charge of a memtable that takes no writes yet.
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

    /// Brings the charge up to date.
    pub(crate) fn set(&self, bytes: usize) {
        let shared = &self.manager.shared;
        let bytes = bytes as u64;
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if bytes == before {
            return;
        }
        // Two's complement: adding the difference of a charge that fell takes it away.
        let growth = bytes.wrapping_sub(before);
        shared.used.fetch_add(growth, Ordering::Relaxed);
        if self.is_active.load(Ordering::Relaxed) {
            shared.active.fetch_add(growth, Ordering::Relaxed);
        }
        shared.follow();
    }

    /// The memtable takes writes from now on. Called by the leader, as [`Charge::seal`] is.
    pub(crate) fn activate(&self) {
        if !self.is_active.swap(true, Ordering::Relaxed) {
            let active = &self.manager.shared.active;
            active.fetch_add(self.bytes(), Ordering::Relaxed);
        }
    }

    /// The memtable takes no writes any more, and will be flushed.
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
        shared.tell_freed();
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
        let cache = Cache::new_lru_cache(64 << 20);
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
}
