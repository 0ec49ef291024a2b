//! The handle through which one column family is read and written.

use std::fmt;
use std::sync::Arc;

use koeldb_base::error::ErrorKind;
use koeldb_base::{Error, PinnedSlice, Result};

use crate::db::{Db, Handle};
use crate::family::FamilyData;
use crate::inner::DbInner;
use crate::options::{
    ColumnFamilyOptions, CompactRangeOptions, FlushOptions, ReadOptions, WriteOptions,
};
use crate::read::{
    DbCursor, DbIterator, IterateBounds, IteratorMode, MultiGetStream, PinnedSlices, PrefixRange,
};
use crate::write::batch::WriteBatch;

/// How a read without options reads; making and dropping options takes as long as a short read.
static DEFAULT_READ: ReadOptions = ReadOptions::new();

/// One column family of an open database: owned, cheap to clone, shared by threads; keeps the database open.
#[derive(Clone)]
pub struct ColumnFamily {
    handle: Arc<Handle>,
    data: Arc<FamilyData>,
}

impl ColumnFamily {
    pub(crate) fn new(handle: Arc<Handle>, data: Arc<FamilyData>) -> Self {
        ColumnFamily { handle, data }
    }

    pub(crate) fn inner(&self) -> &Arc<DbInner> {
        self.handle.inner()
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    pub(crate) fn data(&self) -> &Arc<FamilyData> {
        &self.data
    }

    pub(crate) fn database_id(&self) -> u64 {
        self.inner().id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.data.name
    }

    /// Its number, never used again in this directory.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.data.id
    }

    /// The database it belongs to.
    #[must_use]
    pub fn db(&self) -> Db {
        Db::from_handle(&self.handle)
    }

    /// Its options as they are now.
    #[must_use]
    pub fn options(&self) -> ColumnFamilyOptions {
        (*self.data.options()).clone()
    }

    /// Whether it was dropped: still readable through this handle, no longer writable.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.data.is_dropped()
    }

    fn write_one(
        &self,
        options: &WriteOptions,
        fill: impl FnOnce(&mut WriteBatch, u32),
    ) -> Result<()> {
        if self.data.is_dropped() {
            return Err(Error::with_kind(
                ErrorKind::ColumnFamilyDropped,
                format!("column family {:?} was dropped", self.data.name),
            ));
        }
        ONE.with_borrow_mut(|batch| {
            batch.clear();
            fill(batch, self.data.id);
            let written = self.inner().write(batch, options);
            batch.shrink_to(ONE_BYTES_MAX);
            written
        })
    }

    /// Gives `key` a value.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_opt(key, value, &WriteOptions::new())
    }

    /// As [`ColumnFamily::put`], under `options`.
    ///
    /// # Errors
    /// As [`ColumnFamily::put`].
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

    /// Adds an operand for the merge operator to `key`.
    ///
    /// # Errors
    /// See [`Db::write_opt`]; `NotSupported` without a merge operator.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_opt(key, operand, &WriteOptions::new())
    }

    /// As [`ColumnFamily::merge`], under `options`.
    ///
    /// # Errors
    /// As [`ColumnFamily::merge`].
    pub fn merge_opt(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        if self.data.options().merge_operator.is_none() {
            return Err(Error::not_supported(format!(
                "column family {:?} has no merge_operator: set one before merging",
                self.data.name
            )));
        }
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.write_one(options, |batch, cf| {
            batch.merge_id(cf, key, operand);
        })
    }

    /// Deletes `key`; one that does not exist is fine.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_opt(key, &WriteOptions::new())
    }

    /// As [`ColumnFamily::delete`], under `options`.
    ///
    /// # Errors
    /// As [`ColumnFamily::delete`].
    pub fn delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        let key = key.as_ref();
        self.write_one(options, |batch, cf| {
            batch.delete_id(cf, key);
        })
    }

    /// Deletes `key`, which was put once since it was deleted last, and neither overwritten nor merged: the two
    /// then annihilate early.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_opt(key, &WriteOptions::new())
    }

    /// As [`ColumnFamily::single_delete`], under `options`.
    ///
    /// # Errors
    /// As [`ColumnFamily::single_delete`].
    pub fn single_delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        let key = key.as_ref();
        self.write_one(options, |batch, cf| {
            batch.single_delete_id(cf, key);
        })
    }

    /// Deletes the keys from `from` up to, but without, `to`.
    ///
    /// # Errors
    /// See [`Db::write_opt`]; `InvalidArgument` if `from` is behind `to`.
    pub fn delete_range(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_opt(from, to, &WriteOptions::new())
    }

    /// As [`ColumnFamily::delete_range`], under `options`.
    ///
    /// # Errors
    /// As [`ColumnFamily::delete_range`].
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

    /// The value of `key`; `None` if it has none. Up to 16 bytes lie in the answer, longer values are pinned.
    ///
    /// # Errors
    /// `Corruption` or `IoError` if a table cannot be read; what the merge operator failed with;
    /// `ShutdownInProgress` after a close.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.inner().get(&self.data, key.as_ref(), &DEFAULT_READ)
    }

    /// The value of `key` under `options`.
    ///
    /// # Errors
    /// As [`ColumnFamily::get`]; `Incomplete` if the read tier does not have the answer.
    #[inline]
    pub fn get_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        self.inner().get(&self.data, key.as_ref(), options)
    }

    /// Shows the value of `key` to `read`, and returns what that returns.
    ///
    /// # Errors
    /// As [`ColumnFamily::get_opt`].
    #[inline]
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.inner()
            .get_with(&self.data, key.as_ref(), options, read)
    }

    /// Replaces the content of `value` by the value of `key`; `false`, and nothing in it, if there is none.
    ///
    /// # Errors
    /// As [`ColumnFamily::get_opt`].
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
    /// As [`ColumnFamily::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_key_opt(key, &ReadOptions::new())
    }

    /// Whether `key` has a value under `options`.
    ///
    /// # Errors
    /// As [`ColumnFamily::get_opt`].
    pub fn contains_key_opt(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<bool> {
        Ok(self.get_opt(key, options)?.is_some())
    }

    /// Whether `key` may have a value, as far as can be told without reading a file; `false` is certain.
    #[must_use]
    pub fn key_may_exist(&self, key: impl AsRef<[u8]>) -> bool {
        let mut options = ReadOptions::new();
        options.set_read_tier(crate::options::ReadTier::BlockCache);
        !matches!(self.get_opt(key, &options), Ok(None))
    }

    /// The values of `keys`, in their order; each has its own result.
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> PinnedSlices {
        self.multi_get_opt(keys, &ReadOptions::new())
    }

    /// The values of `keys` under `options`.
    #[must_use]
    pub fn multi_get_opt<K: AsRef<[u8]>>(&self, keys: &[K], options: &ReadOptions) -> PinnedSlices {
        let mut values = PinnedSlices::new();
        self.multi_get_into(keys, options, &mut values);
        values
    }

    /// The values of `keys`, into `values`, whose memory is used again.
    pub fn multi_get_into<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
        values: &mut PinnedSlices,
    ) {
        self.inner().multi_get(&self.data, keys, options, values);
    }

    /// The value of `key`. What is cached is there at the first poll; otherwise the future waits for devices and no
    /// thread does. It may be dropped at any moment.
    ///
    /// # Errors
    /// As [`ColumnFamily::get`].
    pub fn get_async<K: AsRef<[u8]> + Send>(
        &self,
        key: K,
    ) -> impl Future<Output = Result<Option<PinnedSlice>>> + Send {
        self.get_async_opt(key, &DEFAULT_READ)
    }

    /// The value of `key` under `options`. A deadline is looked at when the future is polled, which arriving reads see
    /// to; to be told at the deadline itself, use a timer of the executor.
    ///
    /// # Errors
    /// As [`ColumnFamily::get_opt`].
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
            inner.get_async(&self.data, key.as_ref(), options).await
        }
    }

    /// The values of `keys`, those that are not cached read from devices at once. The future may be dropped at any
    /// moment.
    pub fn multi_get_async<K: AsRef<[u8]> + Sync>(
        &self,
        keys: &[K],
    ) -> impl Future<Output = PinnedSlices> + Send {
        self.multi_get_async_opt(keys, &DEFAULT_READ)
    }

    /// The values of `keys` under `options`; of deadlines, see [`ColumnFamily::get_async_opt`].
    pub fn multi_get_async_opt<K: AsRef<[u8]> + Sync>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> impl Future<Output = PinnedSlices> + Send {
        self.inner().multi_get_async(&self.data, keys, options)
    }

    /// The values of `keys`, each as soon as it is found, with the index of its key.
    #[must_use]
    pub fn multi_get_stream<K: AsRef<[u8]>>(&self, keys: &[K]) -> MultiGetStream {
        self.multi_get_stream_opt(keys, &DEFAULT_READ)
    }

    /// The values of `keys` under `options`, each as soon as it is found, with the index of its key.
    #[must_use]
    pub fn multi_get_stream_opt<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> MultiGetStream {
        let keys = keys.iter().map(|key| key.as_ref().to_vec()).collect();
        MultiGetStream::new(self, keys, options)
    }

    /// The entries of `range` in key order.
    #[must_use]
    pub fn range(&self, range: impl IterateBounds) -> DbIterator {
        self.range_opt(range, &ReadOptions::new())
    }

    /// The entries of `range` within the bounds of `options`.
    #[must_use]
    pub fn range_opt(&self, range: impl IterateBounds, options: &ReadOptions) -> DbIterator {
        let bounds = range.into_bounds(&self.data.order);
        DbIterator::new(DbCursor::new(self, options, bounds), IteratorMode::Start)
    }

    /// The entries whose keys begin with `prefix`, exactly, with any prefix extractor or none.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> DbIterator {
        self.prefix_opt(prefix, &ReadOptions::new())
    }

    /// The entries whose keys begin with `prefix`, within the bounds of `options`.
    #[must_use]
    pub fn prefix_opt(&self, prefix: impl AsRef<[u8]>, options: &ReadOptions) -> DbIterator {
        self.range_opt(PrefixRange(prefix), options)
    }

    /// All entries, from a start and in a direction.
    #[must_use]
    pub fn iterator(&self, mode: IteratorMode<'_>) -> DbIterator {
        self.iterator_opt(mode, &ReadOptions::new())
    }

    /// The entries within the bounds of `options`, from a start and in a direction.
    #[must_use]
    pub fn iterator_opt(&self, mode: IteratorMode<'_>, options: &ReadOptions) -> DbIterator {
        DbIterator::new(self.cursor_opt(options), mode)
    }

    /// A cursor, without position.
    #[must_use]
    pub fn cursor(&self) -> DbCursor {
        self.cursor_opt(&ReadOptions::new())
    }

    /// A cursor within the bounds of `options`, without position.
    #[must_use]
    pub fn cursor_opt(&self, options: &ReadOptions) -> DbCursor {
        DbCursor::new(self, options, Some(crate::read::KeyBounds::default()))
    }

    /// Writes the memtable to a table and waits until it is durable.
    ///
    /// # Errors
    /// What the flush failed with.
    pub fn flush(&self) -> Result<()> {
        self.flush_opt(&FlushOptions::new())
    }

    /// As [`ColumnFamily::flush`], under `options`.
    ///
    /// # Errors
    /// As [`ColumnFamily::flush`].
    pub fn flush_opt(&self, options: &FlushOptions) -> Result<()> {
        self.inner()
            .flush_families(&[Arc::clone(&self.data)], options)
    }

    /// Compacts everything in `range` to the last level in use.
    ///
    /// # Errors
    /// What the compaction failed with.
    pub fn compact_range(&self, range: impl IterateBounds) -> Result<()> {
        self.compact_range_opt(range, &CompactRangeOptions::new())
    }

    /// Compacts everything in `range` under `options`.
    ///
    /// # Errors
    /// What the compaction failed with.
    pub fn compact_range_opt(
        &self,
        range: impl IterateBounds,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let bounds = range.into_bounds(&self.data.order).ok_or_else(|| {
            Error::not_supported("keys of one prefix are no neighbours under this comparator")
        })?;
        self.inner().compact_range(&self.data, &bounds, options)
    }

    /// Compacts the tables at `files` into `output_level`, and returns the tables made. Files that lie between them
    /// on their levels take part too.
    ///
    /// # Errors
    /// `InvalidArgument` if a file is not part of the family; what the compaction failed with.
    pub fn compact_files(
        &self,
        files: &[std::path::PathBuf],
        output_level: u32,
    ) -> Result<Vec<std::path::PathBuf>> {
        self.inner()
            .compact_files(&self.data, files, output_level as usize)
    }

    /// Changes options of the family that may change while it is open: all of them or none. The OPTIONS file is
    /// rewritten.
    ///
    /// # Errors
    /// `InvalidArgument` that names what is unknown, immutable or out of range.
    pub fn set_options<K: AsRef<str>, V: AsRef<str>>(
        &self,
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        self.inner().set_options(&self.data, options)
    }

    /// The value of a property by RocksDB's name; `None` for names that do not exist.
    ///
    /// # Errors
    /// If a table has to be opened for it and cannot be.
    pub fn property_value(&self, name: &str) -> Result<Option<String>> {
        self.inner().property_value(&self.data, name)
    }

    /// The value of a numeric property by RocksDB's name.
    ///
    /// # Errors
    /// As [`ColumnFamily::property_value`].
    pub fn property_int_value(&self, name: &str) -> Result<Option<u64>> {
        Ok(self
            .property_value(name)?
            .and_then(|text| text.parse().ok()))
    }

    /// How many bytes of tables each range of user keys takes, about.
    ///
    /// # Errors
    /// If a table cannot be opened.
    pub fn approximate_sizes<R: IterateBounds + Clone>(&self, ranges: &[R]) -> Result<Vec<u64>> {
        ranges
            .iter()
            .map(|range| {
                let bounds = range
                    .clone()
                    .into_bounds(&self.data.order)
                    .unwrap_or_default();
                self.inner().approximate_size(&self.data, &bounds)
            })
            .collect()
    }
}

/// What a thread keeps of the memory of its largest single write.
const ONE_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// The batch of single-operation writes of this thread.
    static ONE: std::cell::RefCell<WriteBatch> = std::cell::RefCell::new(WriteBatch::new());
}

impl fmt::Debug for ColumnFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnFamily({:?})", self.data.name)
    }
}

/// A family to open or create: its name, and its options unless they are those of the database's `Options`.
#[derive(Clone, Debug)]
pub struct ColumnFamilyDescriptor {
    pub(crate) name: String,
    pub(crate) options: Option<ColumnFamilyOptions>,
}

impl ColumnFamilyDescriptor {
    /// A family with options of its own.
    #[must_use]
    pub fn new(name: impl Into<String>, options: ColumnFamilyOptions) -> Self {
        ColumnFamilyDescriptor {
            name: name.into(),
            options: Some(options),
        }
    }

    /// Its name.
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
