//! The handle for reading and writing a column family.

mod batch;
mod entity;
mod operands;
mod timestamps;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use koeldb_base::error::WriteOutcome;
use koeldb_base::{Error, PinnedSlice, Result};

use crate::batch::WriteBatch;
use crate::engine::inner::{DbInner, OpenColumnFamily};
use crate::engine::property;
use crate::options::{
    ColumnFamilyOptions, CompactRangeOptions, CompactionOptions, FlushOptions, WriteOptions,
};
use crate::read::ReadOptions;
use crate::read::{DbCursor, DbIterator, IteratorMode, MultiGetStream, PinnedSlices};
use crate::report::listener::CompactionJobInfo;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::key_bounds::{IterateBounds, KeyBounds, PrefixRange};
use crate::state::ttl;

/// The default read options; creating and dropping options takes as long as a short read.
static DEFAULT_READ: ReadOptions = ReadOptions::new();

/// A handle to a column family of an open database.
///
/// Handles are owned, cheap to clone and can be shared by threads; they keep the database open.
#[derive(Clone)]
pub struct ColumnFamily {
    open: OpenColumnFamily,
}

impl ColumnFamily {
    pub(crate) fn new(open: OpenColumnFamily) -> Self {
        ColumnFamily { open }
    }

    pub(crate) fn inner(&self) -> &Arc<DbInner> {
        self.open.inner()
    }

    /// Returns the counted reference to the column family, which keeps the database open.
    pub(crate) fn open(&self) -> &OpenColumnFamily {
        &self.open
    }

    pub(crate) fn data(&self) -> &Arc<ColumnFamilyData> {
        self.open.data()
    }

    pub(crate) fn database_id(&self) -> u64 {
        self.inner().context.id
    }

    /// Fails with `InvalidArgument` unless the column family belongs to the database with this id.
    #[inline]
    pub(crate) fn check_database(&self, id: u64) -> Result<()> {
        match self.database_id() == id {
            true => Ok(()),
            false => Err(Error::invalid_argument(
                "the column family belongs to another database",
            )),
        }
    }

    /// The name of the column family.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.data().name
    }

    /// The id of the column family, never reused in this directory.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.data().id
    }

    /// The current options of the column family.
    #[must_use]
    pub fn options(&self) -> ColumnFamilyOptions {
        (*self.data().options()).clone()
    }

    /// Whether the column family was dropped: this handle can still read, but not write.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.data().is_dropped()
    }

    /// Writes a single operation, which `fill` adds to a thread-local batch that is reused.
    fn write_one(
        &self,
        options: &WriteOptions,
        fill: impl FnOnce(&mut WriteBatch, u32),
    ) -> Result<()> {
        if self.data().is_dropped() {
            return Err(self.data().dropped_error());
        }
        // A new one is used if the thread's own is in use or already destroyed.
        let kept = ONE.try_with(Cell::take).ok().flatten();
        let mut batch = kept.unwrap_or_default();
        batch.clear();
        fill(&mut batch, self.data().id);
        let written = self.inner().write(&batch, options);
        batch.shrink_to(ONE_BYTES_MAX);
        let _ = ONE.try_with(|one| one.set(Some(batch)));
        written
    }

    /// Sets the value of `key`.
    ///
    /// # Errors
    /// See [`Db::write_opt`](crate::Db::write_opt).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_opt(key, value, &WriteOptions::new())
    }

    /// Like [`ColumnFamily::put`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::put`].
    pub fn put_opt(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.write_one(options, |batch, cf| {
            batch.put_id(cf, key, value);
        })
    }

    /// Adds a merge operand to `key`.
    ///
    /// # Errors
    /// See [`Db::write_opt`](crate::Db::write_opt); `NotSupported` without a merge operator.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_opt(key, operand, &WriteOptions::new())
    }

    /// Fails with `NotSupported` if the column family has no merge operator.
    fn check_merge_operator(&self) -> Result<()> {
        if self.data().options().merge_operator.is_none() {
            return Err(Error::not_supported(format!(
                "column family {:?} has no merge_operator: set one before merging",
                self.data().name
            )));
        }
        Ok(())
    }

    /// Like [`ColumnFamily::merge`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::merge`].
    pub fn merge_opt(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.check_merge_operator()?;
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.write_one(options, |batch, cf| {
            batch.merge_id(cf, key, operand);
        })
    }

    /// Deletes `key`; it need not exist.
    ///
    /// # Errors
    /// See [`Db::write_opt`](crate::Db::write_opt).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_opt(key, &WriteOptions::new())
    }

    /// Like [`ColumnFamily::delete`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::delete`].
    pub fn delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        let key = key.as_ref();
        self.write_one(options, |batch, cf| {
            batch.delete_id(cf, key);
        })
    }

    /// Deletes `key`, which must have been put exactly once since its last single deletion.
    ///
    /// The two entries cancel each other early. If the key was overwritten, merged, or deleted with
    /// `delete` or a range deletion, the result is undefined: older values may reappear, as in
    /// RocksDB.
    ///
    /// # Errors
    /// See [`Db::write_opt`](crate::Db::write_opt).
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_opt(key, &WriteOptions::new())
    }

    /// Like [`ColumnFamily::single_delete`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::single_delete`].
    pub fn single_delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        let key = key.as_ref();
        self.write_one(options, |batch, cf| {
            batch.single_delete_id(cf, key);
        })
    }

    /// Deletes the keys in the range `from..to`.
    ///
    /// # Errors
    /// See [`Db::write_opt`](crate::Db::write_opt); `InvalidArgument` if `from` is after `to`.
    pub fn delete_range(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_opt(from, to, &WriteOptions::new())
    }

    /// Like [`ColumnFamily::delete_range`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::delete_range`].
    pub fn delete_range_opt(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        self.write_one(options, |batch, cf| {
            batch.delete_range_id(cf, from, to);
        })
    }

    /// Returns the value of `key`, or `None` if it has none.
    ///
    /// Values of up to 16 bytes are stored inline, longer ones are pinned.
    ///
    /// # Errors
    /// `Corruption` or `IoError` if a table cannot be read; errors of the merge operator;
    /// `ShutdownInProgress` after a close.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.inner()
            .reads
            .get(self.data(), key.as_ref(), &DEFAULT_READ)
    }

    /// Like [`ColumnFamily::get`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`]; `Incomplete` if the read tier does not have the value.
    #[inline]
    pub fn get_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        self.inner().reads.get(self.data(), key.as_ref(), options)
    }

    /// Passes the value of `key` to `read` and returns the result; `None` if the key has no value.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`].
    #[inline]
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.inner()
            .reads
            .get_with(self.data(), key.as_ref(), options, read)
    }

    /// Copies the value of `key` into the buffer `value`; `false` if the key has no value.
    ///
    /// Returns `false` and leaves it empty if there is no value.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`].
    pub fn get_into(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        value.clear();
        let found = self.get_with(key, options, |found| value.extend_from_slice(found))?;
        Ok(found.is_some())
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_key_opt(key, &ReadOptions::new())
    }

    /// Like [`ColumnFamily::contains_key`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`].
    pub fn contains_key_opt(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<bool> {
        Ok(self.get_opt(key, options)?.is_some())
    }

    /// Whether `key` may have a value, determined without reading files; `false` is definite.
    #[must_use]
    pub fn key_may_exist(&self, key: impl AsRef<[u8]>) -> bool {
        let mut options = ReadOptions::new();
        options.set_read_tier(crate::options::ReadTier::BlockCache);
        !matches!(self.get_opt(key, &options), Ok(None))
    }

    /// Returns the values of `keys` in their order, each with its own result.
    ///
    /// # Errors
    /// Each result has the error of its key alone: see [`ColumnFamily::get`].
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> PinnedSlices {
        self.multi_get_opt(keys, &ReadOptions::new())
    }

    /// Like [`ColumnFamily::multi_get`], with `options`.
    ///
    /// # Errors
    /// Each result has the error of its key alone: see [`ColumnFamily::get_opt`].
    #[must_use]
    pub fn multi_get_opt<K: AsRef<[u8]>>(&self, keys: &[K], options: &ReadOptions) -> PinnedSlices {
        let mut values = PinnedSlices::new();
        self.multi_get_into(keys, options, &mut values);
        values
    }

    /// Like [`ColumnFamily::multi_get`], into `values`, whose memory is reused.
    pub fn multi_get_into<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
        values: &mut PinnedSlices,
    ) {
        self.inner()
            .reads
            .multi_get(self.data(), keys, options, values);
    }

    /// Returns the value of `key`, as a future.
    ///
    /// A cached value is ready at the first poll; otherwise no thread blocks while the future waits
    /// for devices. The future may be dropped at any time.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`].
    pub fn get_async<K: AsRef<[u8]> + Send>(
        &self,
        key: K,
    ) -> impl Future<Output = Result<Option<PinnedSlice>>> + Send {
        self.get_async_opt(key, &DEFAULT_READ)
    }

    /// Like [`ColumnFamily::get_async`], with `options`.
    ///
    /// A deadline is checked when the future is polled, which happens when reads complete; for an
    /// exact deadline, use a timer of the executor.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`].
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` does not promise to be `Send`"
    )]
    pub fn get_async_opt<K: AsRef<[u8]> + Send>(
        &self,
        key: K,
        options: &ReadOptions,
    ) -> impl Future<Output = Result<Option<PinnedSlice>>> + Send {
        async move {
            let inner = self.inner();
            inner
                .reads
                .get_async(self.data(), key.as_ref(), options)
                .await
        }
    }

    /// Returns the values of `keys`; uncached blocks are read from devices concurrently.
    ///
    /// The future may be dropped at any time.
    ///
    /// # Errors
    /// Each result has the error of its key alone: see [`ColumnFamily::get`].
    pub fn multi_get_async<K: AsRef<[u8]> + Sync>(
        &self,
        keys: &[K],
    ) -> impl Future<Output = PinnedSlices> + Send {
        self.multi_get_async_opt(keys, &DEFAULT_READ)
    }

    /// Like [`ColumnFamily::multi_get_async`], with `options`.
    ///
    /// For deadlines, see [`ColumnFamily::get_async_opt`].
    ///
    /// # Errors
    /// Each result has the error of its key alone: see [`ColumnFamily::get_opt`].
    pub fn multi_get_async_opt<K: AsRef<[u8]> + Sync>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> impl Future<Output = PinnedSlices> + Send {
        self.inner()
            .reads
            .multi_get_async(self.data(), keys, options)
    }

    /// Returns a stream of the values of `keys` with their indexes, in the order of completion.
    #[must_use]
    pub fn multi_get_stream<K: AsRef<[u8]>>(&self, keys: &[K]) -> MultiGetStream {
        self.multi_get_stream_opt(keys, &DEFAULT_READ)
    }

    /// Like [`ColumnFamily::multi_get_stream`], with `options`.
    #[must_use]
    pub fn multi_get_stream_opt<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> MultiGetStream {
        let keys = keys.iter().map(|key| key.as_ref().to_vec()).collect();
        MultiGetStream::new(&self.open, keys, options)
    }

    /// Returns the entries of `range` in key order.
    #[must_use]
    pub fn range(&self, range: impl IterateBounds) -> DbIterator {
        self.range_opt(range, &ReadOptions::new())
    }

    /// Like [`ColumnFamily::range`], with `options`, whose bounds narrow the range.
    #[must_use]
    pub fn range_opt(&self, range: impl IterateBounds, options: &ReadOptions) -> DbIterator {
        let bounds = range.into_bounds(&self.data().user_order);
        DbIterator::new(
            DbCursor::new(&self.open, options, bounds),
            IteratorMode::Start,
        )
    }

    /// Returns the entries whose keys begin with `prefix`, regardless of the prefix extractor.
    ///
    /// The iterator returns `NotSupported` under a comparator that does not keep such keys
    /// together.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> DbIterator {
        self.prefix_opt(prefix, &ReadOptions::new())
    }

    /// Like [`ColumnFamily::prefix`], with `options`, whose bounds narrow the range.
    #[must_use]
    pub fn prefix_opt(&self, prefix: impl AsRef<[u8]>, options: &ReadOptions) -> DbIterator {
        self.range_opt(PrefixRange(prefix), options)
    }

    /// Returns an iterator over all entries, whose start and direction `mode` gives.
    #[must_use]
    pub fn iterator(&self, mode: IteratorMode<'_>) -> DbIterator {
        self.iterator_opt(mode, &ReadOptions::new())
    }

    /// Like [`ColumnFamily::iterator`], with `options` and their bounds.
    #[must_use]
    pub fn iterator_opt(&self, mode: IteratorMode<'_>, options: &ReadOptions) -> DbIterator {
        DbIterator::new(self.cursor_opt(options), mode)
    }

    /// Creates a cursor, which has no position until its first seek.
    #[must_use]
    pub fn cursor(&self) -> DbCursor {
        self.cursor_opt(&ReadOptions::new())
    }

    /// Like [`ColumnFamily::cursor`], with `options` and their bounds.
    #[must_use]
    pub fn cursor_opt(&self, options: &ReadOptions) -> DbCursor {
        DbCursor::new(&self.open, options, Some(KeyBounds::default()))
    }

    /// Flushes the memtables of the column family, and waits until the new tables are durable.
    ///
    /// # Errors
    /// See [`Db::flush`](crate::Db::flush); `ColumnFamilyDropped`.
    pub fn flush(&self) -> Result<()> {
        self.flush_opt(&FlushOptions::new())
    }

    /// Like [`ColumnFamily::flush`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::flush`].
    pub fn flush_opt(&self, options: &FlushOptions) -> Result<()> {
        self.inner()
            .commit
            .flush_families(&[Arc::clone(self.data())], options)
    }

    /// Compacts all data in `range` to the last level in use (RocksDB's `CompactRange`).
    ///
    /// The work is cut into compactions of at most `max_compaction_bytes`, which run beside automatic
    /// ones. Other compactions wait only where they need the same tables.
    ///
    /// # Errors
    /// See [`ColumnFamily::compact_range_opt`].
    pub fn compact_range(&self, range: impl IterateBounds) -> Result<()> {
        self.compact_range_opt(range, &CompactRangeOptions::new())
    }

    /// Like [`ColumnFamily::compact_range`], with `options`.
    ///
    /// # Errors
    /// `IoError` or `Corruption` of a table that is read or written; `Incomplete` if it was cancelled or manual compactions are disabled;
    /// `InvalidArgument` if the target level cannot take the result; `ColumnFamilyDropped` if the
    /// column family is dropped meanwhile.
    pub fn compact_range_opt(
        &self,
        range: impl IterateBounds,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let bounds = self.bounds_of(range)?;
        if let Some(low) = options.full_history_ts_low {
            if bounds != KeyBounds::default() {
                return Err(Error::invalid_argument(
                    "a compaction with full_history_ts_low must be of all keys",
                ));
            }
            self.increase_full_history_ts_low(low)?;
        }
        self.inner()
            .commit
            .compact_range(self.data(), &bounds, options)
    }

    /// Compacts the tables at `files` into `output_level` and returns the new tables.
    ///
    /// Files between them on their levels are compacted as well.
    ///
    /// # Errors
    /// `InvalidArgument` if a file is not part of the column family; see
    /// [`ColumnFamily::compact_range_opt`].
    pub fn compact_files(
        &self,
        files: &[std::path::PathBuf],
        output_level: u32,
    ) -> Result<Vec<std::path::PathBuf>> {
        self.compact_files_opt(files, output_level, &CompactionOptions::new())
    }

    /// Like [`ColumnFamily::compact_files`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::compact_files`]; `Incomplete` if it was cancelled.
    pub fn compact_files_opt(
        &self,
        files: &[std::path::PathBuf],
        output_level: u32,
        options: &CompactionOptions,
    ) -> Result<Vec<std::path::PathBuf>> {
        self.inner().background.compact_files(
            self.data(),
            files,
            output_level as usize,
            options,
            None,
        )
    }

    /// Compacts the named tables, and returns the description of the compaction in `report`.
    ///
    /// See [`ColumnFamily::compact_files_opt`]. The description is that of the event at the end; it is
    /// `None` if the compaction did not begin.
    ///
    /// # Errors
    /// See [`ColumnFamily::compact_files_opt`].
    pub fn compact_files_reported(
        &self,
        files: &[std::path::PathBuf],
        output_level: u32,
        options: &CompactionOptions,
        report: &mut Option<CompactionJobInfo>,
    ) -> Result<Vec<std::path::PathBuf>> {
        let place = Mutex::new(None);
        let background = &self.inner().background;
        let level = output_level as usize;
        let made = background.compact_files(self.data(), files, level, options, Some(&place));
        *report = place.into_inner().unwrap_or_else(PoisonError::into_inner);
        made
    }

    /// Marks tables of `range` above the last level to be compacted (`SuggestCompactRange`).
    ///
    /// They are compacted when no level is over its target.
    ///
    /// Leveled style only; the suggestion is not recorded and ends with a close.
    ///
    /// # Errors
    /// If the database is closed or refuses writes.
    pub fn suggest_compact_range(&self, range: impl IterateBounds) -> Result<()> {
        let bounds = self.bounds_of(range)?;
        let background = &self.inner().background;
        background.suggest_compact_range(self.data(), &bounds)
    }

    /// Drops the tables below level 0 that lie in `range` (RocksDB's `DeleteFilesInRange`).
    ///
    /// Keys of the range that are on level 0, in memory, or in tables that also have other keys stay,
    /// and so do tables that are being compacted. Snapshots lose the data too. A key whose newer
    /// versions are dropped may show an older one that stays. [`ColumnFamily::delete_range`] deletes
    /// exactly.
    ///
    /// # Errors
    /// Errors of recording the change.
    pub fn delete_files_in_range(&self, range: impl IterateBounds) -> Result<()> {
        self.delete_files_in_ranges([range])
    }

    /// Like [`ColumnFamily::delete_files_in_range`], for several ranges in one change.
    ///
    /// # Errors
    /// See [`ColumnFamily::delete_files_in_range`].
    pub fn delete_files_in_ranges<R: IterateBounds>(
        &self,
        ranges: impl IntoIterator<Item = R>,
    ) -> Result<()> {
        let bounds = ranges.into_iter().map(|range| self.bounds_of(range));
        let bounds: Vec<_> = bounds.collect::<Result<_>>()?;
        let background = &self.inner().background;
        background.delete_files_in_ranges(self.data(), &bounds)
    }

    /// Converts `range` to lower and upper bounds in the key order of the column family.
    fn bounds_of(&self, range: impl IterateBounds) -> Result<KeyBounds> {
        let data = self.data();
        let bounds = range.into_bounds(&data.user_order).ok_or_else(|| {
            Error::not_supported("this comparator does not keep keys with one prefix together")
        })?;
        Ok(match data.has_timestamps {
            true => bounds.with_timestamps(),
            false => bounds,
        })
    }

    /// Changes mutable options of the column family atomically and rewrites the OPTIONS file.
    ///
    /// # Errors
    /// `InvalidArgument` with the name of an unknown, immutable or out-of-range option.
    pub fn set_options<K: AsRef<str>, V: AsRef<str>>(
        &self,
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        self.inner().commit.set_options(self.data(), options)
    }

    /// Returns the property of this RocksDB name as text; `None` if it is unknown or has no value.
    ///
    /// Of blob files KoelDB has further ones: `koeldb.blob.files`, a line for each with its records, its
    /// garbage and the references that tables list; `koeldb.blob.space.amplification`, the bytes of all
    /// records for each byte of those that are not garbage; `koeldb.blob.hidden.bytes`, an estimate of what
    /// newer entries hide, which counts as live.
    ///
    /// # Errors
    /// `NotSupported` for `rocksdb.cf-file-histogram`; if a table must be opened for it and that
    /// fails.
    pub fn property_value(&self, name: &str) -> Result<Option<String>> {
        property::property_value(&self.inner().commit, &self.inner().reads, self.data(), name)
    }

    /// Returns a map property (RocksDB's `GetMapProperty`); `None` if `name` is not that of one.
    ///
    /// These are `rocksdb.cfstats`, `rocksdb.dbstats`, `rocksdb.cf-write-stall-stats`,
    /// `rocksdb.db-write-stall-stats`, `rocksdb.block-cache-entry-stats`,
    /// `rocksdb.fast-block-cache-entry-stats`, `rocksdb.aggregated-table-properties` and
    /// `rocksdb.aggregated-table-properties-at-level<N>`.
    ///
    /// # Errors
    /// If a table must be opened for it and that fails.
    pub fn property_map(&self, name: &str) -> Result<Option<BTreeMap<String, String>>> {
        property::property_map(&self.inner().commit, self.data(), name)
    }

    /// Returns a numeric property by its RocksDB name; `None` if it is unknown or not a number.
    ///
    /// # Errors
    /// See [`ColumnFamily::property_value`].
    pub fn property_int_value(&self, name: &str) -> Result<Option<u64>> {
        Ok(self
            .property_value(name)?
            .and_then(|text| text.parse().ok()))
    }

    /// Estimates the bytes of table files in each of `ranges` (RocksDB's `GetApproximateSizes`).
    ///
    /// # Errors
    /// If a table cannot be opened.
    pub fn approximate_sizes<R: IterateBounds + Clone>(&self, ranges: &[R]) -> Result<Vec<u64>> {
        let data = self.data();
        let bounds_of = |range: &R| self.bounds_of(range.clone()).unwrap_or_default();
        let all: Vec<_> = ranges.iter().map(bounds_of).collect();
        data.super_version.with(|current| {
            let size = |bounds| property::approximate_size(data, &current.version, bounds);
            all.iter().map(size).collect()
        })
    }
}

/// The maximum memory that a thread keeps from its largest single write.
const ONE_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// The batch that this thread reuses for single-operation writes.
    static ONE: Cell<Option<Box<WriteBatch>>> = const { Cell::new(None) };
}

impl fmt::Debug for ColumnFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnFamily({:?})", self.data().name)
    }
}

impl DbInner {
    /// Writes a batch; with pessimistic transactions, holds the locks of its keys meanwhile.
    #[inline]
    pub(crate) fn write(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        if self.context.table_files.ttl.is_some() {
            return self.write_with_times(batch, options);
        }
        if self.key_locks.are_in_use() {
            return self.write_locked(batch, options);
        }
        self.commit.write(batch, options)
    }

    /// Writes a batch while holding the locks of its keys, as a pessimistic transaction would.
    #[inline(never)]
    fn write_locked(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        if self.commit.families.have_timestamps() {
            self.refuse_timestamps(batch)?;
        }
        let _locks = self.key_locks.lock_keys_of(batch)?;
        self.commit.write(batch, options)
    }

    /// Fails if an operation of a write outside of transactions is on a key with a timestamp: its
    /// timestamp would be older than its lock.
    #[cold]
    fn refuse_timestamps(&self, batch: &WriteBatch) -> Result<()> {
        let families = &self.commit.families;
        let mut operations = batch.iter();
        while let Some(operation) = operations.next_operation()? {
            if families.has_timestamps(operation.cf) {
                return Err(Error::not_supported(
                    "with Options::set_transactions, keys with user-defined timestamps are written \
                     by transactions only",
                )
                .with_outcome(WriteOutcome::NotApplied));
            }
        }
        Ok(())
    }

    /// Writes a batch to a TTL database, with the present time appended to each value.
    fn write_with_times(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        if !batch.belongs_to(self.context.id) {
            // The batch is refused with the error for that.
            return self.commit.write(batch, options);
        }
        batch.check_size()?;
        let stamped = ttl::stamp(batch, &*self.context.clock)?;
        self.commit.write(&stamped, options)
    }
}

/// A column family to open or create: its name and its options.
///
/// Without options, it gets those of the `Options` of the database.
#[derive(Clone, Debug)]
pub struct ColumnFamilyDescriptor {
    pub(crate) name: String,
    pub(crate) options: Option<ColumnFamilyOptions>,
}

impl ColumnFamilyDescriptor {
    /// Creates a descriptor with its own options.
    #[must_use]
    pub fn new(name: impl Into<String>, options: ColumnFamilyOptions) -> Self {
        ColumnFamilyDescriptor {
            name: name.into(),
            options: Some(options),
        }
    }

    /// The name of the column family.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl From<&str> for ColumnFamilyDescriptor {
    fn from(name: &str) -> Self {
        ColumnFamilyDescriptor {
            name: name.to_owned(),
            options: None,
        }
    }
}

impl From<String> for ColumnFamilyDescriptor {
    fn from(name: String) -> Self {
        ColumnFamilyDescriptor {
            name,
            options: None,
        }
    }
}

impl<N: Into<String>> From<(N, ColumnFamilyOptions)> for ColumnFamilyDescriptor {
    fn from((name, options): (N, ColumnFamilyOptions)) -> Self {
        ColumnFamilyDescriptor::new(name, options)
    }
}
