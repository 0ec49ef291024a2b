//! Memory by its use, and measurements of the operations of a thread.

use std::marker::PhantomData;

use koeldb::perf::PerfLevel;

use crate::db::DBInner;
use crate::{Cache, DB, DBCommon, Error, ThreadMode, TransactionDB};

/// The perf level of a thread, which says what is measured (`PerfLevel`).
///
/// Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum PerfStatsLevel {
    /// As `Disable`.
    Uninitialized = 0,
    /// No measurements.
    Disable,
    /// Counts.
    EnableCount,
    /// Counts, and times except those of waits for locks.
    EnableTimeExceptForMutex,
    /// As `EnableTimeExceptForMutex`: processor times are not measured.
    EnableTimeAndCPUTimeExceptForMutex,
    /// All times.
    EnableTime,
    /// As `Disable`.
    OutOfBound,
}

impl PerfStatsLevel {
    /// Converts to the engine's perf level.
    fn engine(self) -> PerfLevel {
        match self {
            PerfStatsLevel::Uninitialized
            | PerfStatsLevel::Disable
            | PerfStatsLevel::OutOfBound => PerfLevel::Disable,
            PerfStatsLevel::EnableCount => PerfLevel::EnableCount,
            PerfStatsLevel::EnableTimeExceptForMutex
            | PerfStatsLevel::EnableTimeAndCPUTimeExceptForMutex => {
                PerfLevel::EnableTimeExceptForMutex
            }
            PerfStatsLevel::EnableTime => PerfLevel::EnableTime,
        }
    }
}

macro_rules! metrics {
    ($($Metric:ident $(= $engine:ident)?,)*) => {
        /// A metric of the perf context, in RocksDB's order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(i32)]
        pub enum PerfMetric {
            $(
                #[doc = concat!("RocksDB's metric `", stringify!($Metric), "`.")]
                $Metric,
            )*
            /// The number of metrics.
            TotalMetricCount,
        }

        impl PerfMetric {
            /// Converts to the engine's metric; `None` if the engine does not measure it.
            fn engine(self) -> Option<koeldb::perf::PerfMetric> {
                match self {
                    $($(PerfMetric::$Metric => Some(koeldb::perf::PerfMetric::$engine),)?)*
                    _ => None,
                }
            }
        }
    };
}

metrics! {
    UserKeyComparisonCount,
    BlockCacheHitCount = BlockCacheHitCount,
    BlockReadCount = BlockReadCount,
    BlockReadByte = BlockReadByte,
    BlockReadTime = BlockReadTime,
    BlockChecksumTime = BlockChecksumTime,
    BlockDecompressTime = BlockDecompressTime,
    GetReadBytes = GetReadBytes,
    MultigetReadBytes = MultigetReadBytes,
    IterReadBytes,
    InternalKeySkippedCount,
    InternalDeleteSkippedCount,
    InternalRecentSkippedCount,
    InternalMergeCount,
    GetSnapshotTime,
    GetFromMemtableTime = GetFromMemtableTime,
    GetFromMemtableCount = GetFromMemtableCount,
    GetPostProcessTime = GetPostProcessTime,
    GetFromOutputFilesTime = GetFromOutputFilesTime,
    SeekOnMemtableTime,
    SeekOnMemtableCount,
    NextOnMemtableCount,
    PrevOnMemtableCount,
    SeekChildSeekTime,
    SeekChildSeekCount,
    SeekMinHeapTime,
    SeekMaxHeapTime,
    SeekInternalSeekTime = SeekInternalSeekTime,
    FindNextUserEntryTime,
    WriteWalTime = WriteWalTime,
    WriteMemtableTime = WriteMemtableTime,
    WriteDelayTime = WriteDelayTime,
    WritePreAndPostProcessTime,
    DbMutexLockNanos,
    DbConditionWaitNanos,
    MergeOperatorTimeNanos,
    ReadIndexBlockNanos,
    ReadFilterBlockNanos,
    NewTableBlockIterNanos,
    NewTableIteratorNanos,
    BlockSeekNanos,
    FindTableNanos,
    BloomMemtableHitCount,
    BloomMemtableMissCount,
    BloomSstHitCount = BloomSstHitCount,
    BloomSstMissCount = BloomSstMissCount,
    KeyLockWaitTime = KeyLockWaitTime,
    KeyLockWaitCount = KeyLockWaitCount,
    EnvNewSequentialFileNanos,
    EnvNewRandomAccessFileNanos,
    EnvNewWritableFileNanos,
    EnvReuseWritableFileNanos,
    EnvNewRandomRwFileNanos,
    EnvNewDirectoryNanos,
    EnvFileExistsNanos,
    EnvGetChildrenNanos,
    EnvGetChildrenFileAttributesNanos,
    EnvDeleteFileNanos,
    EnvCreateDirNanos,
    EnvCreateDirIfMissingNanos,
    EnvDeleteDirNanos,
    EnvGetFileSizeNanos,
    EnvGetFileModificationTimeNanos,
    EnvRenameFileNanos,
    EnvLinkFileNanos,
    EnvLockFileNanos,
    EnvUnlockFileNanos,
    EnvNewLoggerNanos,
}

/// Sets the perf level of the calling thread (`SetPerfLevel`).
///
/// COMPAT: the original passes the numbers of its enumeration to a RocksDB that has numbered its
/// levels anew, and so gets the level below the named one. Here the name counts.
pub fn set_perf_stats(lvl: PerfStatsLevel) {
    koeldb::perf::set_level(lvl.engine());
}

/// The perf context: metrics of the calling thread since its start or [`PerfContext::reset`].
///
/// Work that other threads do for the thread is not included. Metrics that the engine does not
/// measure stay 0; [`PerfContext::report`] lists all that it measures.
#[derive(Default)]
pub struct PerfContext {
    /// COMPAT: not `Send`, like the original, whose context belongs to the thread that created it.
    label: PhantomData<*const ()>,
}

impl PerfContext {
    /// Sets all metrics of the calling thread to 0.
    pub fn reset(&mut self) {
        koeldb::perf::reset();
    }

    /// Returns the metrics that the engine measures, as `name = value` separated by commas.
    #[must_use]
    pub fn report(&self, exclude_zero_counters: bool) -> String {
        let context = koeldb::perf::context();
        let of_rocksdb = context.iter().filter(|(metric, _)| !metric.is_io());
        let listed = of_rocksdb.filter(|(_, value)| *value > 0 || !exclude_zero_counters);
        let texts = listed.map(|(metric, value)| format!("{} = {value}", metric.name()));
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Returns the value of a metric: a count, or a time in nanoseconds.
    #[must_use]
    pub fn metric(&self, id: PerfMetric) -> u64 {
        let context = koeldb::perf::context();
        id.engine().map_or(0, |metric| context.get(metric))
    }
}

/// The memory that memtables, table readers and block caches use, in bytes.
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

/// The measured memory of databases and caches, read through getters.
pub struct MemoryUsage {
    stats: MemoryUsageStats,
}

macro_rules! getters {
    ($($(#[doc = $doc:literal])+ $getter:ident = $field:ident;)*) => {
        impl MemoryUsage {$(
            $(#[doc = $doc])+
            #[must_use]
            pub fn $getter(&self) -> u64 {
                self.stats.$field
            }
        )*}
    };
}

getters! {
    /// Memtables, with those that readers keep.
    approximate_mem_table_total = mem_table_total;
    /// Memtables that are not flushed.
    approximate_mem_table_unflushed = mem_table_unflushed;
    /// Open tables: indexes and filters outside of caches.
    approximate_mem_table_readers_total = mem_table_readers_total;
    /// Caches.
    approximate_cache_total = cache_total;
}

/// A collection of databases and caches whose memory is to be measured.
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

    /// Adds a pessimistic transaction database.
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

    /// Measures the memory of the added databases and caches.
    pub fn build(&self) -> Result<MemoryUsage, Error> {
        let sum = |name: &str| {
            let families = self.databases.iter().flat_map(koeldb::Db::cf_handles);
            let values = families.map(|family| family.property_int_value(name));
            values
                .map(|value| Ok(value?.unwrap_or(0)))
                .sum::<Result<u64, Error>>()
        };
        let caches = self.caches.iter().map(|cache| cache.inner.get_usage());
        Ok(MemoryUsage {
            stats: MemoryUsageStats {
                mem_table_total: sum("rocksdb.size-all-mem-tables")?,
                mem_table_unflushed: sum("rocksdb.cur-size-all-mem-tables")?,
                mem_table_readers_total: sum("rocksdb.estimate-table-readers-mem")?,
                cache_total: caches.sum(),
            },
        })
    }
}

/// Measures the memory that databases and caches use.
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
