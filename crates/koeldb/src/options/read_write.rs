//! Options of single calls: reads, writes, flushes, compactions.

use std::ops::Bound;
use std::time::{Duration, Instant};

use crate::read::KeyBounds;
use crate::snapshot::Snapshot;

use super::accessors::accessors;
use super::value::option_enum;

option_enum! {
    /// The sources that a read may use. Data elsewhere is an error of kind `Incomplete`.
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

/// A choice that can be left to the engine.
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

/// Options of a read.
///
/// ```
/// use koeldb::ReadOptions;
///
/// let mut read = ReadOptions::new();
/// read.fill_cache(false).set_readahead_size(2 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct ReadOptions {
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) io_timeout: Option<Duration>,
    pub(crate) read_tier: ReadTier,
    pub(crate) value_size_soft_limit: u64,
    pub(crate) verify_checksums: bool,
    pub(crate) fill_cache: bool,
    pub(crate) ignore_range_deletions: bool,
    pub(crate) async_io: Switch,
    pub(crate) optimize_multiget_for_io: bool,
    pub(crate) readahead_size: u64,
    pub(crate) max_skippable_internal_keys: u64,
    pub(crate) iterate_lower_bound: Option<Vec<u8>>,
    pub(crate) iterate_upper_bound: Option<Vec<u8>>,
    pub(crate) tailing: bool,
    pub(crate) total_order_seek: bool,
    pub(crate) auto_prefix_mode: bool,
    pub(crate) prefix_same_as_start: bool,
    pub(crate) pin_data: bool,
    pub(crate) adaptive_readahead: bool,
    pub(crate) auto_readahead_size: bool,
    pub(crate) keys_only: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadOptions {
    /// The defaults; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        ReadOptions {
            snapshot: None,
            deadline: None,
            io_timeout: None,
            read_tier: ReadTier::All,
            value_size_soft_limit: u64::MAX,
            verify_checksums: true,
            fill_cache: true,
            ignore_range_deletions: false,
            async_io: Switch::Auto,
            optimize_multiget_for_io: true,
            readahead_size: 0,
            max_skippable_internal_keys: 0,
            iterate_lower_bound: None,
            iterate_upper_bound: None,
            tailing: false,
            total_order_seek: false,
            auto_prefix_mode: false,
            prefix_same_as_start: false,
            pin_data: false,
            adaptive_readahead: false,
            auto_readahead_size: true,
            keys_only: false,
        }
    }

    /// Creates the defaults with `snapshot`.
    #[must_use]
    pub fn at(snapshot: &Snapshot) -> Self {
        let mut options = Self::new();
        options.set_snapshot(snapshot);
        options
    }

    /// Reads the state of `snapshot` instead of the latest one.
    pub fn set_snapshot(&mut self, snapshot: &Snapshot) -> &mut Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// The snapshot that is read.
    #[must_use]
    pub fn get_snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// Whether a multi-get of `count` keys overlaps its reads.
    ///
    /// `by_itself` is the choice of the engine without an explicit option. One key has nothing to
    /// overlap, but only a read that does not wait in place can be abandoned, whatever the option.
    pub(crate) fn overlaps(&self, count: usize, by_itself: bool) -> bool {
        let is_on = match self.async_io {
            Switch::On => true,
            Switch::Auto => by_itself,
            Switch::Off => false,
        };
        (is_on && count > 1 || self.is_bounded()) && self.read_tier != ReadTier::BlockCache
    }

    /// Whether the read, or each of its device reads, has a time limit.
    #[inline]
    pub(crate) const fn is_bounded(&self) -> bool {
        self.deadline.is_some() || self.io_timeout.is_some()
    }

    /// Limits scans: the lower bound is inclusive, the upper one exclusive.
    pub(crate) fn bounds(&self) -> KeyBounds {
        let lower = self.iterate_lower_bound.clone();
        let upper = self.iterate_upper_bound.clone();
        KeyBounds {
            lower: lower.map_or(Bound::Unbounded, Bound::Included),
            upper: upper.map_or(Bound::Unbounded, Bound::Excluded),
        }
    }

    /// Ends the read at this instant with an error of kind `TimedOut`, never with a partial result.
    ///
    /// A scan ends with this error in the call that waits, or has to wait, for a file; a later seek
    /// succeeds as far as it needs no file.
    ///
    /// Data in memory may be returned after the deadline too. If reads run in the calling thread
    /// (`async_io_engine` off), a read is not interrupted, but none starts after the deadline,
    /// except those that a multi-get requests together. Opening a table is not limited.
    pub fn set_deadline(&mut self, at: impl Into<Option<Instant>>) -> &mut Self {
        self.deadline = at.into();
        self
    }

    /// The option `deadline`.
    #[must_use]
    pub const fn get_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Limits the time of each read of a file; a slower one fails with an error of kind `TimedOut`.
    ///
    /// As with deadlines, a scan can be repositioned afterwards.
    pub fn set_io_timeout(&mut self, limit: impl Into<Option<Duration>>) -> &mut Self {
        self.io_timeout = limit.into();
        self
    }

    /// The option `io_timeout`.
    #[must_use]
    pub const fn get_io_timeout(&self) -> Option<Duration> {
        self.io_timeout
    }

    /// Overlaps the reads of one multi-get or scan.
    pub fn set_async_io(&mut self, on: impl Into<Switch>) -> &mut Self {
        self.async_io = on.into();
        self
    }

    /// The option `async_io`.
    #[must_use]
    pub const fn get_async_io(&self) -> Switch {
        self.async_io
    }

    /// Scans begin at this key.
    pub fn set_iterate_lower_bound(&mut self, key: impl Into<Option<Vec<u8>>>) -> &mut Self {
        self.iterate_lower_bound = key.into();
        self
    }

    /// The option `iterate_lower_bound`.
    #[must_use]
    pub fn get_iterate_lower_bound(&self) -> Option<&[u8]> {
        self.iterate_lower_bound.as_deref()
    }

    /// Scans end before this key.
    pub fn set_iterate_upper_bound(&mut self, key: impl Into<Option<Vec<u8>>>) -> &mut Self {
        self.iterate_upper_bound = key.into();
        self
    }

    /// The option `iterate_upper_bound`.
    #[must_use]
    pub fn get_iterate_upper_bound(&self) -> Option<&[u8]> {
        self.iterate_upper_bound.as_deref()
    }

    accessors! {
        /// The sources that a read may use.
        read_tier: ReadTier, set_read_tier, get_read_tier;
        /// Keys of a multi-get after this many bytes of values fail with `Aborted`; at least one is
        /// read.
        value_size_soft_limit: u64, set_value_size_soft_limit, get_value_size_soft_limit;
        /// Whether checksums of blocks read from files are verified.
        verify_checksums: bool, set_verify_checksums, get_verify_checksums;
        /// Whether blocks that were read enter the block cache. The readahead of a long scan does
        /// so while the cache has room; if it would evict others, a sixty-fourth of it does.
        fill_cache: bool, fill_cache, get_fill_cache;
        /// Skips range deletions: only for column families that never had one.
        ignore_range_deletions: bool, set_ignore_range_deletions, get_ignore_range_deletions;
        /// Whether a multi-get with `async_io` reads several levels concurrently.
        optimize_multiget_for_io: bool, set_optimize_multiget_for_io, get_optimize_multiget_for_io;
        /// Readahead of scans in bytes; 0: adaptive.
        readahead_size: u64, set_readahead_size, get_readahead_size;
        /// A movement of a scan fails with `Incomplete` if it skips more entries than this: deleted
        /// ones, hidden versions, and those newer than the snapshot. 0: never. The cursor can be
        /// positioned again.
        max_skippable_internal_keys: u64, set_max_skippable_internal_keys, get_max_skippable_internal_keys;
        /// Whether each seek and forward step of a cursor moves to the current state with all
        /// acknowledged writes.
        tailing: bool, set_tailing, get_tailing;
        /// Whether scans ignore prefix filters and hash indexes, unless another option asks for them.
        total_order_seek: bool, set_total_order_seek, get_total_order_seek;
        /// Scans use prefix filters where that changes no result: between bounds of one prefix. So
        /// they do by default, unless `total_order_seek` or `prefix_seek_opt_in_only` is set.
        ///
        /// RocksDB by default may leave out keys of other prefixes than that of the key sought.
        auto_prefix_mode: bool, set_auto_prefix_mode, get_auto_prefix_mode;
        /// Ends a scan after the last key with the prefix of the key it was positioned at.
        prefix_same_as_start: bool, set_prefix_same_as_start, get_prefix_same_as_start;
        /// Pins blocks as long as the cursor lives.
        pin_data: bool, set_pin_data, get_pin_data;
        /// Keeps the readahead size across files.
        adaptive_readahead: bool, set_adaptive_readahead, get_adaptive_readahead;
        /// Trims the readahead to the bounds and to uncached blocks.
        auto_readahead_size: bool, set_auto_readahead_size, get_auto_readahead_size;
        /// Values are not needed: scans may return empty ones.
        keys_only: bool, set_keys_only, get_keys_only;
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
}

impl WriteOptions {
    /// The defaults: logged, not synced.
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
        }
    }

    /// Limits the wait of a write in a stall; it then fails with `TimedOut`, not applied.
    pub fn set_stall_timeout(&mut self, limit: impl Into<Option<Duration>>) -> &mut Self {
        self.stall_timeout = limit.into();
        self
    }

    /// The option `stall_timeout`.
    #[must_use]
    pub const fn get_stall_timeout(&self) -> Option<Duration> {
        self.stall_timeout
    }

    accessors! {
        /// Syncs the log before the write returns, so that it survives a crash of the machine.
        sync: bool, set_sync, get_sync;
        /// Skips the log: the write survives only if its memtable is flushed.
        disable_wal: bool, disable_wal, get_disable_wal;
        /// Skips records of dropped column families, instead of failing.
        ignore_missing_column_families: bool, set_ignore_missing_column_families, get_ignore_missing_column_families;
        /// Fails with `Incomplete` instead of waiting in a write stall.
        no_slowdown: bool, set_no_slowdown, get_no_slowdown;
        /// Yields to other writes when compactions lag.
        low_pri: bool, set_low_pri, get_low_pri;
        /// Keeps insert positions within a batch. Accepted; the engine may always do so.
        memtable_insert_hint_per_batch: bool, set_memtable_insert_hint_per_batch, get_memtable_insert_hint_per_batch;
        /// Bytes of checksum per entry up to the memtable: 0 or 8. Accepted; without effect so far.
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
    /// The defaults: wait, and do not stall writers.
    #[must_use]
    pub const fn new() -> Self {
        FlushOptions {
            wait: true,
            allow_write_stall: false,
        }
    }

    accessors! {
        /// Waits until the flush is done.
        wait: bool, set_wait, get_wait;
        /// Flushes even if that stalls writers.
        allow_write_stall: bool, set_allow_write_stall, get_allow_write_stall;
    }
}

option_enum! {
    /// Whether a manual compaction rewrites the last level.
    pub enum BottommostLevelCompaction {
        /// If there is a compaction filter.
        IfHaveCompactionFilter = "kIfHaveCompactionFilter",
        /// Does not compact the bottommost level.
        Skip = "kSkip",
        /// Always compacts the bottommost level.
        Force = "kForce",
        /// Yes, except for files this compaction has just written.
        ForceOptimized = "kForceOptimized",
    }
}
