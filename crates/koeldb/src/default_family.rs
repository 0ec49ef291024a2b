//! Calls of the default column family on [`Db`].

use std::collections::BTreeMap;

use koeldb_base::{PinnedSlice, Result};

use crate::db::Db;
use crate::key_bounds::IterateBounds;
use crate::options::{CompactRangeOptions, WriteOptions};
use crate::read::{DbCursor, DbIterator, IteratorMode, MultiGetStream, PinnedSlices, ReadOptions};

/// Methods on the default column family, like those of the same names on
/// [`ColumnFamily`](crate::ColumnFamily).
impl Db {
    /// Sets the value of `key` in the default column family.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.default_cf().put(key, value)
    }

    /// Like [`Db::put`], with `options`.
    ///
    /// # Errors
    /// See [`Db::put`].
    pub fn put_opt(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.default_cf().put_opt(key, value, options)
    }

    /// Adds a merge operand to `key` in the default column family.
    ///
    /// # Errors
    /// See [`Db::write_opt`]; `NotSupported` without a merge operator.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.default_cf().merge(key, operand)
    }

    /// Like [`Db::merge`], with `options`.
    ///
    /// # Errors
    /// See [`Db::merge`].
    pub fn merge_opt(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.default_cf().merge_opt(key, operand, options)
    }

    /// Deletes `key` in the default column family; it need not exist.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default_cf().delete(key)
    }

    /// Like [`Db::delete`], with `options`.
    ///
    /// # Errors
    /// See [`Db::delete`].
    pub fn delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.default_cf().delete_opt(key, options)
    }

    /// Deletes `key`, which must have been put exactly once since its last single deletion.
    ///
    /// See [`ColumnFamily::single_delete`](crate::ColumnFamily::single_delete).
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default_cf().single_delete(key)
    }

    /// Like [`Db::single_delete`], with `options`.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    pub fn single_delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.default_cf().single_delete_opt(key, options)
    }

    /// Deletes the keys in the range `from..to` in the default column family.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    pub fn delete_range(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.default_cf().delete_range(from, to)
    }

    /// Like [`Db::delete_range`], with `options`.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    pub fn delete_range_opt(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.default_cf().delete_range_opt(from, to, options)
    }

    /// Returns the value of `key` in the default column family, or `None` if it has none.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`](crate::ColumnFamily::get).
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.default_cf().get(key)
    }

    /// Like [`Db::get`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`](crate::ColumnFamily::get_opt).
    #[inline]
    pub fn get_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        self.default_cf().get_opt(key, options)
    }

    /// See [`ColumnFamily::get_merge_operands`](crate::ColumnFamily::get_merge_operands).
    ///
    /// # Errors
    /// See [`ColumnFamily::get_merge_operands`](crate::ColumnFamily::get_merge_operands).
    pub fn get_merge_operands(&self, key: impl AsRef<[u8]>) -> Result<Vec<PinnedSlice>> {
        self.default_cf().get_merge_operands(key)
    }

    /// See [`ColumnFamily::get_merge_operands_opt`](crate::ColumnFamily::get_merge_operands_opt).
    ///
    /// # Errors
    /// See [`ColumnFamily::get_merge_operands_opt`](crate::ColumnFamily::get_merge_operands_opt).
    pub fn get_merge_operands_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Vec<PinnedSlice>> {
        self.default_cf().get_merge_operands_opt(key, options)
    }

    /// Calls `read` with the value of `key` in the default column family and returns its result.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`](crate::ColumnFamily::get_opt).
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.default_cf().get_with(key, options, read)
    }

    /// Replaces the content of `value` by the value of `key` in the default column family.
    ///
    /// Returns `false` if there is none.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`](crate::ColumnFamily::get_opt).
    pub fn get_into(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.default_cf().get_into(key, options, value)
    }

    /// Whether `key` has a value in the default column family.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`](crate::ColumnFamily::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.default_cf().contains_key(key)
    }

    /// Like [`Db::contains_key`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`](crate::ColumnFamily::get).
    pub fn contains_key_opt(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<bool> {
        self.default_cf().contains_key_opt(key, options)
    }

    /// Whether `key` may have a value, determined without reading files; `false` is definite.
    #[must_use]
    pub fn key_may_exist(&self, key: impl AsRef<[u8]>) -> bool {
        self.default_cf().key_may_exist(key)
    }

    /// Returns the values of `keys` in the default column family, each with its own result.
    ///
    /// The results are in the order of the keys.
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> PinnedSlices {
        self.default_cf().multi_get(keys)
    }

    /// Like [`Db::multi_get`], with `options`.
    #[must_use]
    pub fn multi_get_opt<K: AsRef<[u8]>>(&self, keys: &[K], options: &ReadOptions) -> PinnedSlices {
        self.default_cf().multi_get_opt(keys, options)
    }

    /// Like [`Db::multi_get`], into `values`, whose memory is reused.
    pub fn multi_get_into<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
        values: &mut PinnedSlices,
    ) {
        self.default_cf().multi_get_into(keys, options, values);
    }

    /// Returns the value of `key` in the default column family, as a future.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_async`](crate::ColumnFamily::get_async).
    pub fn get_async<K: AsRef<[u8]> + Send>(
        &self,
        key: K,
    ) -> impl Future<Output = Result<Option<PinnedSlice>>> + Send {
        self.default_cf().get_async(key)
    }

    /// Like [`Db::get_async`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_async_opt`](crate::ColumnFamily::get_async_opt).
    pub fn get_async_opt<K: AsRef<[u8]> + Send>(
        &self,
        key: K,
        options: &ReadOptions,
    ) -> impl Future<Output = Result<Option<PinnedSlice>>> + Send {
        self.default_cf().get_async_opt(key, options)
    }

    /// Returns the values of `keys` in the default column family, as a future.
    ///
    /// See [`ColumnFamily::multi_get_async`](crate::ColumnFamily::multi_get_async).
    pub fn multi_get_async<K: AsRef<[u8]> + Sync>(
        &self,
        keys: &[K],
    ) -> impl Future<Output = PinnedSlices> + Send {
        self.default_cf().multi_get_async(keys)
    }

    /// Like [`Db::multi_get_async`], with `options`.
    pub fn multi_get_async_opt<K: AsRef<[u8]> + Sync>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> impl Future<Output = PinnedSlices> + Send {
        self.default_cf().multi_get_async_opt(keys, options)
    }

    /// Returns a stream of the values of `keys` in the default column family.
    ///
    /// The order is that of completion; see [`ColumnFamily::multi_get_stream`](crate::ColumnFamily::multi_get_stream).
    #[must_use]
    pub fn multi_get_stream<K: AsRef<[u8]>>(&self, keys: &[K]) -> MultiGetStream {
        self.default_cf().multi_get_stream(keys)
    }

    /// Like [`Db::multi_get_stream`], with `options`.
    #[must_use]
    pub fn multi_get_stream_opt<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> MultiGetStream {
        self.default_cf().multi_get_stream_opt(keys, options)
    }

    /// Returns the entries of `range` in the default column family.
    #[must_use]
    pub fn range(&self, range: impl IterateBounds) -> DbIterator {
        self.default_cf().range(range)
    }

    /// Like [`Db::range`], with `options`, whose bounds narrow the range.
    #[must_use]
    pub fn range_opt(&self, range: impl IterateBounds, options: &ReadOptions) -> DbIterator {
        self.default_cf().range_opt(range, options)
    }

    /// Returns the entries of the default column family whose keys begin with `prefix`.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> DbIterator {
        self.default_cf().prefix(prefix)
    }

    /// Like [`Db::prefix`], with `options`, whose bounds narrow the range.
    #[must_use]
    pub fn prefix_opt(&self, prefix: impl AsRef<[u8]>, options: &ReadOptions) -> DbIterator {
        self.default_cf().prefix_opt(prefix, options)
    }

    /// Returns all entries of the default column family from a start in a direction.
    #[must_use]
    pub fn iterator(&self, mode: IteratorMode<'_>) -> DbIterator {
        self.default_cf().iterator(mode)
    }

    /// Like [`Db::iterator`], with `options` and their bounds.
    #[must_use]
    pub fn iterator_opt(&self, mode: IteratorMode<'_>, options: &ReadOptions) -> DbIterator {
        self.default_cf().iterator_opt(mode, options)
    }

    /// Creates a cursor over the default column family, without position.
    #[must_use]
    pub fn cursor(&self) -> DbCursor {
        self.default_cf().cursor()
    }

    /// Like [`Db::cursor`], with `options` and their bounds.
    #[must_use]
    pub fn cursor_opt(&self, options: &ReadOptions) -> DbCursor {
        self.default_cf().cursor_opt(options)
    }

    /// Returns a property of the default column family by RocksDB's name; `None` for unknown names.
    ///
    /// # Errors
    /// If a table must be opened for it and that fails.
    pub fn property_value(&self, name: &str) -> Result<Option<String>> {
        self.default_cf().property_value(name)
    }

    /// Returns a property of the default column family that is a map of names and texts.
    ///
    /// # Errors
    /// See [`ColumnFamily::property_map`](crate::ColumnFamily::property_map).
    pub fn property_map(&self, name: &str) -> Result<Option<BTreeMap<String, String>>> {
        self.default_cf().property_map(name)
    }

    /// Returns a numeric property of the default column family by RocksDB's name.
    ///
    /// # Errors
    /// See [`Db::property_value`].
    pub fn property_int_value(&self, name: &str) -> Result<Option<u64>> {
        self.default_cf().property_int_value(name)
    }

    /// Compacts a range of the default column family.
    ///
    /// # Errors
    /// See [`ColumnFamily::compact_range`](crate::ColumnFamily::compact_range).
    pub fn compact_range(&self, range: impl IterateBounds) -> Result<()> {
        self.default_cf().compact_range(range)
    }

    /// Like [`Db::compact_range`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::compact_range_opt`](crate::ColumnFamily::compact_range_opt).
    pub fn compact_range_opt(
        &self,
        range: impl IterateBounds,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.default_cf().compact_range_opt(range, options)
    }

    /// Changes mutable options of the default column family atomically.
    ///
    /// # Errors
    /// See [`ColumnFamily::set_options`](crate::ColumnFamily::set_options).
    pub fn set_options<K: AsRef<str>, V: AsRef<str>>(
        &self,
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        self.default_cf().set_options(options)
    }

    /// Estimates the bytes of files that each range of the default column family occupies.
    ///
    /// # Errors
    /// See [`ColumnFamily::approximate_sizes`](crate::ColumnFamily::approximate_sizes).
    pub fn approximate_sizes<R: IterateBounds + Clone>(&self, ranges: &[R]) -> Result<Vec<u64>> {
        self.default_cf().approximate_sizes(ranges)
    }
}
