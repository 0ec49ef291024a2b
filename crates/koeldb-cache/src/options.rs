//! The settings of a cache, and the priorities of its entries.

/// The smallest shard size chosen by default.
const SHARD_BYTES_MIN: u64 = 512 << 10;
const SHARD_BITS_DEFAULT_MAX: u32 = 6;
const SHARD_BITS_MAX: u32 = 20;

/// The eviction priority of a cache entry (RocksDB: `Cache::Priority`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Evicted last: indexes and filters.
    High,
    /// Evicted before [`Priority::High`]: data blocks.
    #[default]
    Low,
    /// Evicted first: entries unlikely to be used again.
    Bottom,
}

/// The eviction policy of a cache: LRU or S3-FIFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CachePolicy {
    /// Least recently used first, low priorities before high ones; approximately, since hits do not
    /// reorder: an entry that was hit gets another round when its turn comes.
    Lru,
    /// S3-FIFO, which resists scans: a scan does not evict entries in repeated use. The default.
    #[default]
    S3Fifo,
}

/// The settings of a cache.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The total of charges, including [`Cache::ENTRY_OVERHEAD`] for each entry.
    ///
    /// [`Cache::ENTRY_OVERHEAD`]: crate::Cache::ENTRY_OVERHEAD
    pub capacity_bytes: u64,
    /// The base-2 logarithm of the number of shards, at most 20.
    ///
    /// `None` chooses as many shards as leave at least 512 KiB to each, up to 64.
    pub shard_bits: Option<u32>,
    /// Whether an insertion fails if nothing can be evicted for it; otherwise pinned entries may
    /// exceed the capacity.
    pub strict_capacity: bool,
    /// LRU: the share of the capacity reserved for entries of high priority and entries that were
    /// hit; 0 disables the distinction.
    pub high_priority_ratio: f64,
    /// The eviction policy.
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
    /// Returns the base-2 logarithm of the number of shards: as set, or the default.
    pub(crate) fn shard_bits(&self) -> u32 {
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
