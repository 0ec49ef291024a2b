//! Options of single calls: writes, flushes, compactions.
//!
//! Those of reads, which may name a snapshot, stand with the reads.

use std::time::Duration;

use koeldb_fs::rate_limit::IoPriority;

use super::accessors::accessors;
use super::value::option_enum;

option_enum! {
    /// The tiers of data that a read may use (RocksDB: `ReadTier`).
    ///
    /// A read that needs data elsewhere fails with `Incomplete`. Reads with `Persisted` and scans
    /// with `Memtable` do not see such data.
    pub enum ReadTier {
        /// All sources.
        All = "kReadAllTier",
        /// Memtables and the block cache.
        BlockCache = "kBlockCacheTier",
        /// Only data that survives a crash of the process. Not for scans.
        ///
        /// Memtables are excluded once a batch was written with the WAL disabled.
        Persisted = "kPersistedTier",
        /// Memtables only. For scans.
        Memtable = "kMemtableTier",
    }
}

/// A switch that is on, off, or left to the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Switch {
    /// The engine chooses.
    #[default]
    Auto,
    /// On.
    On,
    /// Off.
    Off,
}

impl From<bool> for Switch {
    fn from(on: bool) -> Self {
        if on { Switch::On } else { Switch::Off }
    }
}

/// Options of a write.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    pub(crate) sync: bool,
    pub(crate) disable_wal: bool,
    pub(crate) ignore_missing_column_families: bool,
    pub(crate) no_slowdown: bool,
    pub(crate) low_pri: bool,
    pub(crate) memtable_insert_hint_per_batch: bool,
    pub(crate) protection_bytes_per_key: u64,
    pub(crate) stall_timeout: Option<Duration>,
    pub(crate) rate_limiter_priority: Option<IoPriority>,
}

impl WriteOptions {
    /// Creates the defaults: logged, not synced.
    #[must_use]
    pub const fn new() -> Self {
        WriteOptions {
            sync: false,
            disable_wal: false,
            ignore_missing_column_families: false,
            no_slowdown: false,
            low_pri: false,
            memtable_insert_hint_per_batch: false,
            protection_bytes_per_key: 0,
            stall_timeout: None,
            rate_limiter_priority: None,
        }
    }

    /// Limits the time that a write waits in a stall; then it fails with `TimedOut`, not applied.
    ///
    /// Default: none.
    pub fn set_stall_timeout(&mut self, limit: impl Into<Option<Duration>>) -> &mut Self {
        self.stall_timeout = limit.into();
        self
    }

    /// The option `stall_timeout`.
    #[must_use]
    pub const fn get_stall_timeout(&self) -> Option<Duration> {
        self.stall_timeout
    }

    /// Charges the write's log record to the rate limiter; only `User` is allowed.
    ///
    /// The write waits before it joins other writes, which do not wait for it. Refused with
    /// `disable_wal` and with `manual_wal_flush`. Without a rate limiter for writes it has no
    /// effect. `None`, the default, charges nothing.
    pub fn set_rate_limiter_priority(
        &mut self,
        priority: impl Into<Option<IoPriority>>,
    ) -> &mut Self {
        self.rate_limiter_priority = priority.into();
        self
    }

    /// The option `rate_limiter_priority`.
    #[must_use]
    pub const fn get_rate_limiter_priority(&self) -> Option<IoPriority> {
        self.rate_limiter_priority
    }

    accessors! {
        /// Sets whether the log is synced before the write returns, so that the write survives a
        /// crash of the machine.
        ///
        /// Default: `false`.
        sync: bool, set_sync, get_sync;
        /// Sets whether the write skips the log: it then survives only if its memtable is flushed.
        ///
        /// Default: `false`.
        disable_wal: bool, disable_wal, get_disable_wal;
        /// Sets whether records of dropped column families are skipped; otherwise the write fails
        /// with `ColumnFamilyDropped`.
        ///
        /// Default: `false`.
        ignore_missing_column_families: bool, set_ignore_missing_column_families, get_ignore_missing_column_families;
        /// Sets whether the write fails with `Incomplete` instead of waiting in a write stall.
        ///
        /// Default: `false`.
        no_slowdown: bool, set_no_slowdown, get_no_slowdown;
        /// Sets whether the write yields to other writes while compactions lag: while writes are
        /// stalled, or level 0 or the bytes to compact are on the way there. Such writes are limited
        /// to 1 MiB per second. With `no_slowdown` they fail with `Incomplete` instead, and with
        /// `stall_timeout` with `TimedOut`.
        ///
        /// Default: `false`.
        low_pri: bool, set_low_pri, get_low_pri;
        /// Sets whether insert positions are kept within a batch. Accepted without effect.
        ///
        /// Default: `false`.
        memtable_insert_hint_per_batch: bool, set_memtable_insert_hint_per_batch, get_memtable_insert_hint_per_batch;
        /// Sets the bytes of checksum per operation up to the memtable: 0 or 8.
        ///
        /// With 8 the write computes the checksums when it begins, unless the batch keeps them
        /// already ([`WriteBatch::with_protection`](crate::WriteBatch::with_protection)). They are
        /// verified before the batch is logged, where a difference fails the writes of its group
        /// with `Corruption`, not applied. They are verified again before the batch enters the
        /// memtables, where a difference stops all writes. Records of prepared transactions are
        /// verified only when they are handed in.
        ///
        /// Default: `0`.
        protection_bytes_per_key: u64, set_protection_bytes_per_key, get_protection_bytes_per_key;
    }
}

/// Options of a flush.
#[derive(Clone, Copy, Debug)]
pub struct FlushOptions {
    pub(crate) wait: bool,
    pub(crate) allow_write_stall: bool,
}

impl Default for FlushOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl FlushOptions {
    /// Creates the defaults: wait, and do not stall writers.
    #[must_use]
    pub const fn new() -> Self {
        FlushOptions {
            wait: true,
            allow_write_stall: false,
        }
    }

    accessors! {
        /// Sets whether the call waits until the flush is done.
        ///
        /// Default: `true`.
        wait: bool, set_wait, get_wait;
        /// Sets whether the flush begins even if it stalls writers. If not, the call first waits for
        /// running jobs until one memtable more and one table more would not stall them.
        ///
        /// Default: `false`.
        allow_write_stall: bool, set_allow_write_stall, get_allow_write_stall;
    }
}

option_enum! {
    /// Whether a manual compaction rewrites the last level.
    pub enum BottommostLevelCompaction {
        /// Compacts the bottommost level if there is a compaction filter.
        IfHaveCompactionFilter = "kIfHaveCompactionFilter",
        /// Does not compact the bottommost level.
        Skip = "kSkip",
        /// Always compacts the bottommost level.
        Force = "kForce",
        /// Compacts the bottommost level, except files that this compaction has just written.
        ForceOptimized = "kForceOptimized",
    }
}

option_enum! {
    /// Whether a manual compaction moves values out of old blob files.
    pub enum BlobGarbageCollectionPolicy {
        /// As the option `enable_blob_garbage_collection` of the column family says.
        UseDefault = "kUseDefault",
        /// It does.
        Force = "kForce",
        /// It does not.
        Disable = "kDisable",
    }
}
