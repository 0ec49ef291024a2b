//! Options of a read.

use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use koeldb_base::merge_operator::{BlobCacheUse, FetchOptions};
use koeldb_base::{Error, Result, Timestamp};
use koeldb_fs::rate_limit::{IoKind, IoPriority};
use koeldb_table::block_based::readahead::scan_source::ReadaheadPolicy;
use koeldb_table::properties::TableProperties;
use koeldb_table::reader::TableReader;
use koeldb_table::source::BlockReadOptions;
use koeldb_table::source::flights::FlightLimits;
use koeldb_table::source::gather::GatherOptions;

use crate::options::{ColumnFamilyOptions, ReadTier, Switch, accessors};
use crate::read::snapshot::Snapshot;
use crate::report::SstFileProperties;
use crate::state::key_bounds::KeyBounds;
use crate::state::table_files::TableFiles;

/// The user's `table_filter`, which chooses the tables that a scan reads by their properties.
#[derive(Clone)]
pub(crate) struct TableFilter(Arc<dyn Fn(&SstFileProperties) -> bool + Send + Sync>);

impl TableFilter {
    /// Whether the filter accepts a table; it does if the table's properties are damaged.
    pub(crate) fn admits(&self, properties: &TableProperties) -> bool {
        SstFileProperties::of(properties).map_or(true, |properties| (self.0)(&properties))
    }
}

impl std::fmt::Debug for TableFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TableFilter(..)")
    }
}

/// Options of point reads and scans (RocksDB: `ReadOptions`).
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
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) iter_start_ts: Option<Timestamp>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) io_timeout: Option<Duration>,
    pub(crate) read_tier: ReadTier,
    /// No option: tables are read, and no timestamp is named. Kept by their setters, so that
    /// lookups have one check.
    takes_level: bool,
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
    pub(crate) allow_unprepared_value: bool,
    pub(crate) rate_limiter_priority: Option<IoPriority>,
    pub(crate) table_filter: Option<TableFilter>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadOptions {
    /// Creates the default read options; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        ReadOptions {
            snapshot: None,
            timestamp: None,
            iter_start_ts: None,
            deadline: None,
            io_timeout: None,
            read_tier: ReadTier::All,
            takes_level: true,
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
            allow_unprepared_value: false,
            rate_limiter_priority: None,
            table_filter: None,
        }
    }

    /// Creates the default read options with this snapshot.
    #[must_use]
    pub fn at(snapshot: &Snapshot) -> Self {
        let mut options = Self::new();
        options.set_snapshot(snapshot);
        options
    }

    /// Sets the snapshot that is read, instead of the latest state.
    ///
    /// Default: none.
    pub fn set_snapshot(&mut self, snapshot: &Snapshot) -> &mut Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// Clears the snapshot, so that the latest state is read.
    pub fn clear_snapshot(&mut self) -> &mut Self {
        self.snapshot = None;
        self
    }

    /// Returns the snapshot that is read; `None` for the latest state.
    #[must_use]
    pub fn get_snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// Reads the versions of keys up to this user-defined timestamp; `None` (the default) for none.
    ///
    /// A column family whose comparator has timestamps needs one, and others refuse it
    /// (`InvalidArgument`). The read returns the newest version up to the timestamp. An older
    /// timestamp than [`ColumnFamily::full_history_ts_low`](crate::ColumnFamily::full_history_ts_low)
    /// fails with `InvalidArgument`. The built-in orders compare little-endian numbers.
    pub fn set_timestamp(&mut self, timestamp: impl Into<Option<Timestamp>>) -> &mut Self {
        self.timestamp = timestamp.into();
        self.find_takes_level()
    }

    /// The newest user-defined timestamp that is read.
    #[must_use]
    pub const fn get_timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// Makes cursors return all versions from this timestamp to that of
    /// [`ReadOptions::set_timestamp`]; `None` (the default) for the newest version only.
    ///
    /// Each version is an entry of its own, newest first, and so is a deletion, with an empty value
    /// ([`DbCursor::is_deletion`](crate::DbCursor::is_deletion)). The keys of the cursor end with
    /// their timestamps; those of seeks and bounds do not. Entries that a range deletion hides at
    /// the newest timestamp are left out. Point reads ignore the option.
    pub fn set_iter_start_ts(&mut self, timestamp: impl Into<Option<Timestamp>>) -> &mut Self {
        self.iter_start_ts = timestamp.into();
        self.find_takes_level()
    }

    /// The oldest user-defined timestamp of the versions that cursors return.
    #[must_use]
    pub const fn get_iter_start_ts(&self) -> Option<Timestamp> {
        self.iter_start_ts
    }

    /// Sets the sources that a read may use.
    ///
    /// Default: `ReadTier::All`.
    pub fn set_read_tier(&mut self, tier: ReadTier) -> &mut Self {
        self.read_tier = tier;
        self.find_takes_level()
    }

    /// Returns the option `read_tier`.
    #[must_use]
    pub const fn get_read_tier(&self) -> ReadTier {
        self.read_tier
    }

    /// Whether a cuckoo level that holds everything may answer a lookup.
    #[inline]
    pub(crate) const fn takes_level(&self) -> bool {
        self.takes_level
    }

    fn find_takes_level(&mut self) -> &mut Self {
        self.takes_level = self.read_tier != ReadTier::Memtable && !self.names_timestamps();
        self
    }

    /// Whether a multi-get of `count` keys overlaps its device reads, by the option `async_io`.
    ///
    /// `by_itself`: it does so unasked. A read of one key has nothing to overlap. A read with a time
    /// limit overlaps in any case, because a blocking read cannot be abandoned.
    pub(crate) fn overlaps(&self, count: usize, by_itself: bool) -> bool {
        let is_on = by_itself || self.async_io == Switch::On;
        (is_on && count > 1 || self.is_bounded()) && self.read_tier != ReadTier::BlockCache
    }

    /// Whether the read has a time limit: a `deadline` or an `io_timeout`.
    #[inline]
    pub(crate) const fn is_bounded(&self) -> bool {
        self.deadline.is_some() || self.io_timeout.is_some()
    }

    /// Whether the options have a user-defined timestamp.
    #[inline]
    pub(crate) const fn names_timestamps(&self) -> bool {
        self.timestamp.is_some() || self.iter_start_ts.is_some()
    }

    /// Returns the key range of scans: `iterate_lower_bound` (inclusive) to `iterate_upper_bound`.
    pub(crate) fn bounds(&self) -> KeyBounds {
        let lower = self.iterate_lower_bound.clone();
        let upper = self.iterate_upper_bound.clone();
        KeyBounds {
            lower: lower.map_or(Bound::Unbounded, Bound::Included),
            upper: upper.map_or(Bound::Unbounded, Bound::Excluded),
        }
    }

    /// Sets the instant at which the read fails with an error of kind `TimedOut`.
    ///
    /// A scan ends with this error in the call that waits, or has to wait, for a file; a later seek
    /// succeeds as far as it needs no file.
    ///
    /// Data in memory may be returned after the deadline too. If reads run in the calling thread
    /// (`async_io_engine` off), a read is not interrupted, but none starts after the deadline,
    /// except those that a multi-get requests together. Opening a table is not limited.
    ///
    /// Default: none.
    pub fn set_deadline(&mut self, at: impl Into<Option<Instant>>) -> &mut Self {
        self.deadline = at.into();
        self
    }

    /// Returns the option `deadline`.
    #[must_use]
    pub const fn get_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Sets the time limit of each file read; a slower one fails with an error of kind `TimedOut`.
    ///
    /// As with deadlines, a scan can be repositioned afterwards.
    ///
    /// Default: none.
    pub fn set_io_timeout(&mut self, limit: impl Into<Option<Duration>>) -> &mut Self {
        self.io_timeout = limit.into();
        self
    }

    /// Returns the option `io_timeout`.
    #[must_use]
    pub const fn get_io_timeout(&self) -> Option<Duration> {
        self.io_timeout
    }

    /// Sets the priority at which block reads are charged to a rate limiter that limits reads.
    ///
    /// The blocks of open tables' indexes and filters, and cuckoo and plain tables, are not charged.
    /// Futures of point reads, which must not block, refuse it. `None`, the default, charges nothing.
    pub fn set_rate_limiter_priority(
        &mut self,
        priority: impl Into<Option<IoPriority>>,
    ) -> &mut Self {
        self.rate_limiter_priority = priority.into();
        self
    }

    /// Returns the option `rate_limiter_priority`.
    #[must_use]
    pub const fn get_rate_limiter_priority(&self) -> Option<IoPriority> {
        self.rate_limiter_priority
    }

    /// Sets whether the device reads of one scan or one multi-get overlap (`async_io`).
    ///
    /// A multi-get waits for all its blocks anyway, so it reads those that are not in memory together,
    /// whatever is set here, if io_uring reads or `use_direct_reads` is set; else threads do so if this
    /// is on.
    ///
    /// Default: [`Switch::Auto`].
    pub fn set_async_io(&mut self, on: impl Into<Switch>) -> &mut Self {
        self.async_io = on.into();
        self
    }

    /// Returns the option `async_io`.
    #[must_use]
    pub const fn get_async_io(&self) -> Switch {
        self.async_io
    }

    /// Sets the `table_filter`: scans read only tables whose properties it accepts.
    ///
    /// Memtables are always read, and range deletions of all tables apply.
    ///
    /// Default: none.
    pub fn set_table_filter(
        &mut self,
        admits: impl Fn(&SstFileProperties) -> bool + Send + Sync + 'static,
    ) -> &mut Self {
        self.table_filter = Some(TableFilter(Arc::new(admits)));
        self
    }

    /// Removes the `table_filter`.
    pub fn clear_table_filter(&mut self) -> &mut Self {
        self.table_filter = None;
        self
    }

    /// Whether there is a `table_filter`.
    #[must_use]
    pub const fn has_table_filter(&self) -> bool {
        self.table_filter.is_some()
    }

    /// Sets the key at which scans begin, inclusive; `None` for no bound.
    ///
    /// Default: none.
    pub fn set_iterate_lower_bound(&mut self, key: impl Into<Option<Vec<u8>>>) -> &mut Self {
        self.iterate_lower_bound = key.into();
        self
    }

    /// Returns the option `iterate_lower_bound`.
    #[must_use]
    pub fn get_iterate_lower_bound(&self) -> Option<&[u8]> {
        self.iterate_lower_bound.as_deref()
    }

    /// Sets the key before which scans end, exclusive; `None` for no bound.
    ///
    /// Default: none.
    pub fn set_iterate_upper_bound(&mut self, key: impl Into<Option<Vec<u8>>>) -> &mut Self {
        self.iterate_upper_bound = key.into();
        self
    }

    /// Returns the option `iterate_upper_bound`.
    #[must_use]
    pub fn get_iterate_upper_bound(&self) -> Option<&[u8]> {
        self.iterate_upper_bound.as_deref()
    }

    accessors! {
        /// Sets the bytes of values after which the other keys of a multi-get fail with `Aborted`; at
        /// least one key is read.
        ///
        /// Default: `u64::MAX`.
        value_size_soft_limit: u64, set_value_size_soft_limit, get_value_size_soft_limit;
        /// Sets whether checksums of blocks read from files are verified.
        ///
        /// Default: `true`.
        verify_checksums: bool, set_verify_checksums, get_verify_checksums;
        /// Sets whether blocks that were read enter the block cache. The blocks that a long scan
        /// reads ahead do so while the cache has room; if they would evict others, one in 64 does.
        ///
        /// Default: `true`.
        fill_cache: bool, fill_cache, get_fill_cache;
        /// Sets whether reads skip range deletions: only for column families that never had one.
        ///
        /// Default: `false`.
        ignore_range_deletions: bool, set_ignore_range_deletions, get_ignore_range_deletions;
        /// Sets whether a multi-get with `async_io` reads several levels concurrently.
        ///
        /// Default: `true`.
        optimize_multiget_for_io: bool, set_optimize_multiget_for_io, get_optimize_multiget_for_io;
        /// Sets the readahead of scans in bytes; 0: adaptive.
        ///
        /// Default: `0`.
        readahead_size: u64, set_readahead_size, get_readahead_size;
        /// Sets the number of entries (deleted, hidden, or newer than the snapshot) that a movement
        /// of a scan may skip; after more, the movement fails with `Incomplete`. 0: no limit. The
        /// cursor can be positioned again.
        ///
        /// Default: `0`.
        max_skippable_internal_keys: u64, set_max_skippable_internal_keys, get_max_skippable_internal_keys;
        /// Sets whether each seek and forward step of a cursor moves to the current state with all
        /// acknowledged writes.
        ///
        /// Default: `false`.
        tailing: bool, set_tailing, get_tailing;
        /// Sets whether scans ignore prefix filters and hash indexes, unless another option asks for
        /// them.
        ///
        /// Default: `false`.
        total_order_seek: bool, set_total_order_seek, get_total_order_seek;
        /// Sets whether scans use prefix filters where that changes no result: between bounds of one
        /// prefix. By default they do, unless `total_order_seek` or `prefix_seek_opt_in_only` is set.
        ///
        /// RocksDB by default may leave out keys of other prefixes than that of the key sought.
        auto_prefix_mode: bool, set_auto_prefix_mode, get_auto_prefix_mode;
        /// Sets whether a scan ends after the last key with the prefix of the key that it was
        /// positioned at.
        ///
        /// Default: `false`.
        prefix_same_as_start: bool, set_prefix_same_as_start, get_prefix_same_as_start;
        /// Sets whether blocks are pinned as long as the cursor lives. Accepted without effect:
        /// values that outlive a step of the cursor pin their blocks.
        ///
        /// Default: `false`.
        pin_data: bool, set_pin_data, get_pin_data;
        /// Sets whether a cursor keeps its readahead size across files.
        ///
        /// Default: `false`.
        adaptive_readahead: bool, set_adaptive_readahead, get_adaptive_readahead;
        /// Sets whether the readahead is trimmed to the bounds and to uncached blocks.
        ///
        /// Default: `true`.
        auto_readahead_size: bool, set_auto_readahead_size, get_auto_readahead_size;
        /// Sets whether scans return empty values, which are neither pinned nor copied, nor read from
        /// blob files. Operations
        /// of a transaction or an indexed batch keep theirs.
        ///
        /// Default: `false`.
        keys_only: bool, set_keys_only, get_keys_only;
        /// Sets whether a cursor leaves values in blob files until
        /// [`DbCursor::prepare_value`](crate::DbCursor::prepare_value) reads them. Iterators and
        /// streams read theirs; so do cursors of transactions, of indexed batches, and of several
        /// column families.
        ///
        /// Default: `false`.
        allow_unprepared_value: bool, set_allow_unprepared_value, get_allow_unprepared_value;
    }
}

impl ReadOptions {
    /// Returns the options for reading blocks: checksums, cache use, and rate limiter charge.
    #[inline]
    pub(crate) fn block_read_options(&self, tables: &TableFiles) -> BlockReadOptions {
        let charge = match self.rate_limiter_priority {
            Some(priority) => tables.user_charge(priority, IoKind::Read),
            None => None,
        };
        BlockReadOptions {
            charge,
            verify_checksums: self.verify_checksums,
            fill_cache: self.fill_cache,
            cache_only: matches!(self.read_tier, ReadTier::BlockCache | ReadTier::Memtable),
            readahead_bytes: 0,
        }
    }

    /// Returns the options of reads of values in blob files.
    #[inline]
    pub(crate) const fn fetch_options(&self) -> FetchOptions {
        FetchOptions {
            verifies: self.verify_checksums,
            cache: match self.read_tier {
                ReadTier::BlockCache | ReadTier::Memtable => BlobCacheUse::Only,
                _ if self.fill_cache => BlobCacheUse::Fill,
                _ => BlobCacheUse::Lookup,
            },
        }
    }

    /// Checks that asynchronous point reads support these options: they must not block.
    ///
    /// # Errors
    /// `NotSupported` with `rate_limiter_priority`.
    #[inline]
    pub(crate) fn check_async(&self) -> Result<()> {
        match self.rate_limiter_priority {
            Some(_) => Err(Error::not_supported(
                "rate_limiter_priority makes reads wait, and is refused for futures of point reads",
            )),
            None => Ok(()),
        }
    }

    /// Whether the `table_filter`, if any, accepts a table.
    pub(crate) fn reads_table(&self, table: &TableReader) -> bool {
        let filter = self.table_filter.as_ref();
        filter.is_none_or(|filter| filter.admits(table.properties()))
    }

    /// Returns the settings for concurrent reads of blocks, with the I/O timeout of these options.
    pub(crate) fn gather_options(&self) -> GatherOptions {
        GatherOptions {
            flights: self.flight_limits(),
            ..GatherOptions::default()
        }
    }

    /// Returns the limits of concurrent device reads, with the I/O timeout of these options.
    pub(crate) fn flight_limits(&self) -> FlightLimits {
        FlightLimits {
            io_timeout: self.io_timeout,
            ..FlightLimits::default()
        }
    }

    /// Returns the readahead policy of a scan with these options.
    pub(crate) fn readahead_policy(&self, family: &ColumnFamilyOptions) -> ReadaheadPolicy {
        let table = family.table_factory.block_based();
        let (initial_bytes, max_bytes, blocks_before) = table.map_or((0, 0, 0), |table| {
            (
                table.initial_auto_readahead_size,
                table.max_auto_readahead_size,
                table.num_file_reads_for_auto_readahead,
            )
        });
        ReadaheadPolicy {
            fixed_bytes: self.readahead_size,
            initial_bytes,
            max_bytes,
            blocks_before,
            adaptive: self.adaptive_readahead,
            trimmed: self.auto_readahead_size,
        }
    }
}
