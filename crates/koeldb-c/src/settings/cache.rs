//! Caches of blocks.

use koeldb::{BlockBasedOptions, Cache};

/// The options of an LRU cache (`rocksdb_lru_cache_options_t`).
pub(crate) struct LruOptions {
    capacity: usize,
    shard_bits: i32,
}

impl Default for LruOptions {
    fn default() -> Self {
        LruOptions {
            capacity: 32 << 20,
            shard_bits: -1,
        }
    }
}

impl LruOptions {
    pub(crate) fn set_capacity(&mut self, bytes: usize) {
        self.capacity = bytes;
    }

    pub(crate) fn set_shard_bits(&mut self, bits: i32) {
        self.shard_bits = bits;
    }
}

/// The options of a clock cache (`rocksdb_hyper_clock_cache_options_t`).
pub(crate) struct ClockOptions {
    capacity: usize,
}

impl ClockOptions {
    /// The engine measures entries, and needs no estimate of their size.
    pub(crate) fn new(capacity: usize, _: usize) -> Self {
        ClockOptions { capacity }
    }

    pub(crate) fn set_capacity(&mut self, bytes: usize) {
        self.capacity = bytes;
    }
}

/// Creates an LRU cache.
pub(crate) fn lru(bytes: usize) -> Cache {
    Cache::new_lru_cache(bytes as u64)
}

/// Creates an LRU cache that never exceeds its capacity.
pub(crate) fn strict_lru(bytes: usize) -> Option<Cache> {
    from_text(&format!("capacity={bytes};strict_capacity_limit=true"))
}

/// Creates an LRU cache; null if its options are out of range.
pub(crate) fn lru_with(options: &LruOptions) -> Option<Cache> {
    let LruOptions {
        capacity,
        shard_bits,
    } = options;
    from_text(&format!("capacity={capacity};num_shard_bits={shard_bits}"))
}

/// Creates the cache of a text.
fn from_text(text: &str) -> Option<Cache> {
    let mut tables = BlockBasedOptions::new();
    tables.set_by_name("block_cache", text).ok()?;
    tables.get_block_cache().cloned()
}

/// Creates a clock cache.
pub(crate) fn clock(bytes: usize, _: usize) -> Cache {
    Cache::new_clock_cache(bytes as u64)
}

/// Creates a clock cache.
pub(crate) fn clock_with(options: &ClockOptions) -> Cache {
    clock(options.capacity, 0)
}

/// Changes the capacity.
pub(crate) fn set_capacity(cache: &Cache, bytes: usize) {
    cache.set_capacity(bytes as u64);
}

/// Returns the capacity.
pub(crate) fn capacity(cache: &Cache) -> u64 {
    cache.get_capacity()
}

/// Returns the bytes in the cache.
pub(crate) fn usage(cache: &Cache) -> u64 {
    cache.get_usage()
}

/// Returns the bytes in use.
pub(crate) fn pinned_usage(cache: &Cache) -> u64 {
    cache.get_pinned_usage()
}

/// Returns the number of entries.
pub(crate) fn occupancy(cache: &Cache) -> u64 {
    cache.get_occupancy_count()
}

/// Returns the number of places in the table of entries.
pub(crate) fn table_addresses(cache: &Cache) -> u64 {
    cache.get_table_address_count()
}
