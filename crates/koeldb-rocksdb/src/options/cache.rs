//! Block caches and write buffer managers, which databases share.

/// A block cache; clones are handles to the same one.
#[derive(Clone)]
pub struct Cache {
    pub(crate) inner: koeldb::Cache,
}

/// Converts a byte count to `usize`; saturates.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Cache {
    /// Creates an LRU cache of `capacity` bytes.
    #[cfg(not(before_0_21))]
    #[must_use]
    pub fn new_lru_cache(capacity: usize) -> Cache {
        Cache::lru(capacity)
    }

    /// Creates an LRU cache of `capacity` bytes.
    pub(crate) fn lru(capacity: usize) -> Cache {
        Cache {
            inner: koeldb::Cache::new_lru_cache(capacity as u64),
        }
    }

    /// Creates an LRU cache with options.
    #[must_use]
    pub fn new_lru_cache_opts(opts: &LruCacheOptions) -> Cache {
        Cache::lru(opts.capacity)
    }

    /// Creates an S3-FIFO cache of `capacity` bytes in place of a `HyperClockCache`.
    ///
    /// Long scans do not empty it.
    ///
    /// The estimated entry charge is not needed.
    #[must_use]
    pub fn new_hyper_clock_cache(capacity: usize, estimated_entry_charge: usize) -> Cache {
        let _ = estimated_entry_charge;
        Cache {
            inner: koeldb::Cache::new_clock_cache(capacity as u64),
        }
    }

    /// Returns the bytes in the cache.
    #[must_use]
    pub fn get_usage(&self) -> usize {
        size(self.inner.get_usage())
    }

    /// Returns the bytes of the pinned cache entries, such as blocks in use by readers.
    #[must_use]
    pub fn get_pinned_usage(&self) -> usize {
        size(self.inner.get_pinned_usage())
    }

    /// Changes the capacity in bytes.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.inner.set_capacity(capacity as u64);
    }
}

/// Options of an LRU cache.
pub struct LruCacheOptions {
    capacity: usize,
}

impl Default for LruCacheOptions {
    fn default() -> Self {
        LruCacheOptions { capacity: 32 << 20 }
    }
}

impl LruCacheOptions {
    /// Sets the capacity in bytes.
    pub fn set_capacity(&mut self, cap: usize) {
        self.capacity = cap;
    }

    /// Has no effect: the number of shards follows from the capacity.
    pub fn set_num_shard_bits(&mut self, val: i32) {
        let _ = val;
    }
}

/// A limit on the memory of the memtables of several databases; clones share it.
#[derive(Clone)]
pub struct WriteBufferManager {
    pub(crate) inner: koeldb::WriteBufferManager,
}

impl WriteBufferManager {
    /// Creates a limit of `buffer_size` bytes; 0 is no limit.
    #[must_use]
    pub fn new_write_buffer_manager(buffer_size: usize, allow_stall: bool) -> Self {
        WriteBufferManager {
            inner: koeldb::WriteBufferManager::new(buffer_size as u64, allow_stall),
        }
    }

    /// Creates a limit of `buffer_size` bytes whose memory is charged to a block cache.
    #[must_use]
    pub fn new_write_buffer_manager_with_cache(
        buffer_size: usize,
        allow_stall: bool,
        cache: Cache,
    ) -> Self {
        let bytes = buffer_size as u64;
        WriteBufferManager {
            inner: koeldb::WriteBufferManager::with_cache(bytes, &cache.inner, allow_stall),
        }
    }

    /// Returns the bytes of all memtables of its databases.
    #[must_use]
    pub fn get_usage(&self) -> usize {
        size(self.inner.get_usage())
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn get_buffer_size(&self) -> usize {
        size(self.inner.get_buffer_size())
    }

    /// Changes the limit in bytes.
    pub fn set_buffer_size(&self, new_size: usize) {
        self.inner.set_buffer_size(new_size as u64);
    }

    /// Returns whether there is a limit (a buffer size other than 0).
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.inner.get_buffer_size() > 0
    }

    /// Sets whether writes stall when the limit is reached (`allow_stall`).
    pub fn set_allow_stall(&self, allow_stall: bool) {
        self.inner.set_allow_stall(allow_stall);
    }
}
