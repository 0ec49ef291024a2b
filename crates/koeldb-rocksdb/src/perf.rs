//! Memory by its use, and measurements of single operations, which the engine does not make.

use std::marker::PhantomData;

use crate::db::DBInner;
use crate::{Cache, DB, DBCommon, Error, ThreadMode, TransactionDB};

/// The measurements in use. No effect: there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum PerfStatsLevel {
    /// Not set.
    Uninitialized = 0,
    /// None.
    Disable,
    /// Counts.
    EnableCount,
    /// Counts, and times except of locks.
    EnableTimeExceptForMutex,
    /// The times of processors too.
    EnableTimeAndCPUTimeExceptForMutex,
    /// All times.
    EnableTime,
    /// Not a level.
    OutOfBound,
}

macro_rules! metrics {
    ($($Metric:ident = $number:literal,)*) => {
        /// A measurement of the operations of a thread.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(i32)]
        pub enum PerfMetric {
            $(
                #[doc = concat!("RocksDB's metric ", stringify!($number), ".")]
                $Metric = $number,
            )*
            /// The number of metrics.
            TotalMetricCount = 68,
        }
    };
}

metrics! {
    UserKeyComparisonCount = 0,
    BlockCacheHitCount = 1,
    BlockReadCount = 2,
    BlockReadByte = 3,
    BlockReadTime = 4,
    BlockChecksumTime = 5,
    BlockDecompressTime = 6,
    GetReadBytes = 7,
    MultigetReadBytes = 8,
    IterReadBytes = 9,
    InternalKeySkippedCount = 10,
    InternalDeleteSkippedCount = 11,
    InternalRecentSkippedCount = 12,
    InternalMergeCount = 13,
    GetSnapshotTime = 14,
    GetFromMemtableTime = 15,
    GetFromMemtableCount = 16,
    GetPostProcessTime = 17,
    GetFromOutputFilesTime = 18,
    SeekOnMemtableTime = 19,
    SeekOnMemtableCount = 20,
    NextOnMemtableCount = 21,
    PrevOnMemtableCount = 22,
    SeekChildSeekTime = 23,
    SeekChildSeekCount = 24,
    SeekMinHeapTime = 25,
    SeekMaxHeapTime = 26,
    SeekInternalSeekTime = 27,
    FindNextUserEntryTime = 28,
    WriteWalTime = 29,
    WriteMemtableTime = 30,
    WriteDelayTime = 31,
    WritePreAndPostProcessTime = 32,
    DbMutexLockNanos = 33,
    DbConditionWaitNanos = 34,
    MergeOperatorTimeNanos = 35,
    ReadIndexBlockNanos = 36,
    ReadFilterBlockNanos = 37,
    NewTableBlockIterNanos = 38,
    NewTableIteratorNanos = 39,
    BlockSeekNanos = 40,
    FindTableNanos = 41,
    BloomMemtableHitCount = 42,
    BloomMemtableMissCount = 43,
    BloomSstHitCount = 44,
    BloomSstMissCount = 45,
    KeyLockWaitTime = 46,
    KeyLockWaitCount = 47,
    EnvNewSequentialFileNanos = 48,
    EnvNewRandomAccessFileNanos = 49,
    EnvNewWritableFileNanos = 50,
    EnvReuseWritableFileNanos = 51,
    EnvNewRandomRwFileNanos = 52,
    EnvNewDirectoryNanos = 53,
    EnvFileExistsNanos = 54,
    EnvGetChildrenNanos = 55,
    EnvGetChildrenFileAttributesNanos = 56,
    EnvDeleteFileNanos = 57,
    EnvCreateDirNanos = 58,
    EnvCreateDirIfMissingNanos = 59,
    EnvDeleteDirNanos = 60,
    EnvGetFileSizeNanos = 61,
    EnvGetFileModificationTimeNanos = 62,
    EnvRenameFileNanos = 63,
    EnvLinkFileNanos = 64,
    EnvLockFileNanos = 65,
    EnvUnlockFileNanos = 66,
    EnvNewLoggerNanos = 67,
}

/// No effect: the engine makes no measurements of single operations.
pub fn set_perf_stats(lvl: PerfStatsLevel) {
    let _ = lvl;
}

/// The measurements of a thread, all zero: the engine makes none.
///
/// [`Options::get_statistics`](crate::Options::get_statistics) has counters of the database.
#[derive(Default)]
pub struct PerfContext(());

impl PerfContext {
    /// Does nothing.
    pub fn reset(&mut self) {}

    /// Returns an empty text.
    #[must_use]
    pub fn report(&self, exclude_zero_counters: bool) -> String {
        let _ = exclude_zero_counters;
        String::new()
    }

    /// Returns 0.
    #[must_use]
    pub fn metric(&self, id: PerfMetric) -> u64 {
        let _ = id;
        0
    }
}

/// The memory of databases and caches, in bytes.
pub struct MemoryUsageStats {
    /// Memtables, with those that readers keep.
    pub mem_table_total: u64,
    /// Memtables that are not flushed.
    pub mem_table_unflushed: u64,
    /// Open tables: indexes and filters outside of caches.
    pub mem_table_readers_total: u64,
    /// Caches.
    pub cache_total: u64,
}

/// The memory of databases and caches, in bytes.
pub struct MemoryUsage {
    stats: MemoryUsageStats,
}

impl MemoryUsage {
    /// Memtables, with those that readers keep.
    #[must_use]
    pub fn approximate_mem_table_total(&self) -> u64 {
        self.stats.mem_table_total
    }

    /// Memtables that are not flushed.
    #[must_use]
    pub fn approximate_mem_table_unflushed(&self) -> u64 {
        self.stats.mem_table_unflushed
    }

    /// Open tables: indexes and filters outside of caches.
    #[must_use]
    pub fn approximate_mem_table_readers_total(&self) -> u64 {
        self.stats.mem_table_readers_total
    }

    /// Caches.
    #[must_use]
    pub fn approximate_cache_total(&self) -> u64 {
        self.stats.cache_total
    }
}

/// Collects databases and caches whose memory is to be measured.
pub struct MemoryUsageBuilder<'a> {
    databases: Vec<koeldb::Db>,
    caches: Vec<Cache>,
    label: PhantomData<&'a ()>,
}

impl<'a> MemoryUsageBuilder<'a> {
    /// Creates a builder without databases and caches.
    pub fn new() -> Result<Self, Error> {
        Ok(MemoryUsageBuilder {
            databases: Vec::new(),
            caches: Vec::new(),
            label: PhantomData,
        })
    }

    /// Adds a database with pessimistic transactions.
    pub fn add_tx_db<T: ThreadMode>(&mut self, db: &'a TransactionDB<T>) {
        self.databases.push(db.db().clone());
    }

    /// Adds a database.
    pub fn add_db<T: ThreadMode, D: DBInner>(&mut self, db: &'a DBCommon<T, D>) {
        self.databases.push(db.db().clone());
    }

    /// Adds a cache.
    pub fn add_cache(&mut self, cache: &'a Cache) {
        self.caches.push(cache.clone());
    }

    /// Measures the memory.
    pub fn build(&self) -> Result<MemoryUsage, Error> {
        let sum = |name: &str| {
            let families = self.databases.iter().flat_map(koeldb::Db::cf_handles);
            let values = families.map(|family| family.property_int_value(name));
            values
                .map(|value| Ok(value?.unwrap_or(0)))
                .sum::<Result<u64, Error>>()
        };
        Ok(MemoryUsage {
            stats: MemoryUsageStats {
                mem_table_total: sum("rocksdb.size-all-mem-tables")?,
                mem_table_unflushed: sum("rocksdb.cur-size-all-mem-tables")?,
                mem_table_readers_total: sum("rocksdb.estimate-table-readers-mem")?,
                cache_total: self
                    .caches
                    .iter()
                    .map(|cache| cache.inner.get_usage())
                    .sum(),
            },
        })
    }
}

/// Measures the memory of databases and caches.
pub fn get_memory_usage_stats(
    dbs: Option<&[&DB]>,
    caches: Option<&[&Cache]>,
) -> Result<MemoryUsageStats, Error> {
    let mut builder = MemoryUsageBuilder::new()?;
    for db in dbs.unwrap_or_default() {
        builder.add_db(db);
    }
    for cache in caches.unwrap_or_default() {
        builder.add_cache(cache);
    }
    Ok(builder.build()?.stats)
}
