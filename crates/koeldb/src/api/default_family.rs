//! Calls of the default column family on [`Db`].

use std::collections::BTreeMap;

use koeldb_base::entity::WideColumns;
use koeldb_base::{PinnedSlice, Result};

use crate::api::db::Db;
use crate::options::{CompactRangeOptions, WriteOptions};
use crate::read::{DbCursor, DbIterator, IteratorMode, MultiGetStream, PinnedSlices, ReadOptions};
use crate::state::key_bounds::IterateBounds;

/// Defines methods of [`Db`] that call the default column family's methods of the same names.
macro_rules! of_default_family {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident $([$($generics:tt)*])? ($($argument:ident: $type:ty),* $(,)?) $(-> $answer:ty)?;
    )*) => {
        /// Methods on the default column family, like those of the same names on
        /// [`ColumnFamily`](crate::ColumnFamily).
        impl Db {
            $(
                $(#[$attribute])*
                pub fn $name $(<$($generics)*>)? (&self, $($argument: $type),*) $(-> $answer)? {
                    self.default_cf().$name($($argument),*)
                }
            )*
        }
    };
}

of_default_family! {
    /// Sets the value of `key` in the default column family.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    fn put(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()>;

    /// Like [`Db::put`], with `options`.
    ///
    /// # Errors
    /// See [`Db::put`].
    fn put_opt(
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()>;

    /// Sets the value of `key` in the default column family to a wide-column entity.
    ///
    /// See [`ColumnFamily::put_entity`](crate::ColumnFamily::put_entity).
    ///
    /// # Errors
    /// See [`ColumnFamily::put_entity`](crate::ColumnFamily::put_entity).
    fn put_entity[N: AsRef<[u8]>, V: AsRef<[u8]>](
        key: impl AsRef<[u8]>,
        columns: &[(N, V)],
    ) -> Result<()>;

    /// Like [`Db::put_entity`], with `options`.
    ///
    /// # Errors
    /// See [`Db::put_entity`].
    fn put_entity_opt[N: AsRef<[u8]>, V: AsRef<[u8]>](
        key: impl AsRef<[u8]>,
        columns: &[(N, V)],
        options: &WriteOptions,
    ) -> Result<()>;

    /// Adds a merge operand to `key` in the default column family.
    ///
    /// ```
    /// use koeldb::{Db, Env, Options, StringAppend};
    ///
    /// # fn main() -> koeldb::Result<()> {
    /// let mut options = Options::new();
    /// options
    ///     .create_if_missing(true)
    ///     .set_env(&Env::mem_env())
    ///     .set_merge_operator(StringAppend::new(","));
    /// let db = Db::open(&options, "/db")?;
    /// db.merge("seen", "koel")?;
    /// db.merge("seen", "lark")?;
    /// assert_eq!(db.get("seen")?.as_deref(), Some(&b"koel,lark"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`Db::write_opt`]; `NotSupported` without a merge operator.
    fn merge(key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()>;

    /// Like [`Db::merge`], with `options`.
    ///
    /// # Errors
    /// See [`Db::merge`].
    fn merge_opt(
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()>;

    /// Deletes `key` in the default column family; it need not exist.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    fn delete(key: impl AsRef<[u8]>) -> Result<()>;

    /// Like [`Db::delete`], with `options`.
    ///
    /// # Errors
    /// See [`Db::delete`].
    fn delete_opt(key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()>;

    /// Deletes `key`, which must have been put exactly once since its last single deletion.
    ///
    /// See [`ColumnFamily::single_delete`](crate::ColumnFamily::single_delete).
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    fn single_delete(key: impl AsRef<[u8]>) -> Result<()>;

    /// Like [`Db::single_delete`], with `options`.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    fn single_delete_opt(key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()>;

    /// Deletes the keys in the range `from..to` in the default column family.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    fn delete_range(from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()>;

    /// Like [`Db::delete_range`], with `options`.
    ///
    /// # Errors
    /// See [`Db::write_opt`].
    fn delete_range_opt(
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()>;

    /// Returns the value of `key` in the default column family, or `None` if it has none.
    ///
    /// The value may refer to a cached block, which it keeps in memory: copy a value that is kept for
    /// long.
    ///
    /// ```
    /// # fn main() -> koeldb::Result<()> {
    /// let db = koeldb::Db::temporary()?;
    /// db.put("koel", "Eudynamys")?;
    /// if let Some(value) = db.get("koel")? {
    ///     assert_eq!(&*value, b"Eudynamys");
    ///     let owned: Vec<u8> = value.to_vec();
    ///     assert_eq!(owned.len(), 9);
    /// }
    /// assert!(db.get("moa")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`ColumnFamily::get`](crate::ColumnFamily::get).
    #[inline]
    fn get(key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>>;

    /// Like [`Db::get`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`](crate::ColumnFamily::get_opt).
    #[inline]
    fn get_opt(key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<PinnedSlice>>;

    /// Returns the columns of `key` in the default column family, or `None` if it has no value.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_entity`](crate::ColumnFamily::get_entity).
    fn get_entity(key: impl AsRef<[u8]>) -> Result<Option<WideColumns>>;

    /// Like [`Db::get_entity`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_entity_opt`](crate::ColumnFamily::get_entity_opt).
    fn get_entity_opt(
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<WideColumns>>;

    /// Returns the columns of `keys` in the default column family, each with its own result.
    ///
    /// # Errors
    /// See [`ColumnFamily::multi_get_entity`](crate::ColumnFamily::multi_get_entity).
    #[must_use]
    fn multi_get_entity[K: AsRef<[u8]>](keys: &[K]) -> Vec<Result<Option<WideColumns>>>;

    /// Like [`Db::multi_get_entity`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::multi_get_entity_opt`](crate::ColumnFamily::multi_get_entity_opt).
    #[must_use]
    fn multi_get_entity_opt[K: AsRef<[u8]>](
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<WideColumns>>>;

    /// See [`ColumnFamily::get_merge_operands`](crate::ColumnFamily::get_merge_operands).
    ///
    /// # Errors
    /// See [`ColumnFamily::get_merge_operands`](crate::ColumnFamily::get_merge_operands).
    fn get_merge_operands(key: impl AsRef<[u8]>) -> Result<Vec<PinnedSlice>>;

    /// See [`ColumnFamily::get_merge_operands_opt`](crate::ColumnFamily::get_merge_operands_opt).
    ///
    /// # Errors
    /// See [`ColumnFamily::get_merge_operands_opt`](crate::ColumnFamily::get_merge_operands_opt).
    fn get_merge_operands_opt(
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Vec<PinnedSlice>>;

    /// Calls `read` with the value of `key` in the default column family and returns its result.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`](crate::ColumnFamily::get_opt).
    fn get_with[R](
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        read: impl FnOnce(&[u8],
    ) -> R, ) -> Result<Option<R>>;

    /// Replaces the content of `value` by the value of `key` in the default column family.
    ///
    /// Returns `false` if there is none.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`](crate::ColumnFamily::get_opt).
    fn get_into(key: impl AsRef<[u8]>, options: &ReadOptions, value: &mut Vec<u8>) -> Result<bool>;

    /// Whether `key` has a value in the default column family.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`](crate::ColumnFamily::get).
    fn contains_key(key: impl AsRef<[u8]>) -> Result<bool>;

    /// Like [`Db::contains_key`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`](crate::ColumnFamily::get).
    fn contains_key_opt(key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<bool>;

    /// Whether `key` may have a value, determined without reading files; `false` is definite.
    #[must_use]
    fn key_may_exist(key: impl AsRef<[u8]>) -> bool;

    /// Returns the values of `keys` in the default column family, each with its own result.
    ///
    /// The results are in the order of the keys.
    ///
    /// ```
    /// # fn main() -> koeldb::Result<()> {
    /// let db = koeldb::Db::temporary()?;
    /// db.put("koel", "Eudynamys")?;
    /// db.put("lark", "Alauda")?;
    /// let values = db.multi_get(&["lark", "moa", "koel"]);
    /// let found: Vec<Option<&[u8]>> = values.iter().collect::<Result<_, _>>()?;
    /// assert_eq!(found, [Some(&b"Alauda"[..]), None, Some(b"Eudynamys")]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`ColumnFamily::multi_get`](crate::ColumnFamily::multi_get).
    #[must_use]
    fn multi_get[K: AsRef<[u8]>](keys: &[K]) -> PinnedSlices;

    /// Like [`Db::multi_get`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::multi_get_opt`](crate::ColumnFamily::multi_get_opt).
    #[must_use]
    fn multi_get_opt[K: AsRef<[u8]>](keys: &[K], options: &ReadOptions) -> PinnedSlices;

    /// Like [`Db::multi_get`], into `values`, whose memory is reused.
    fn multi_get_into[K: AsRef<[u8]>](keys: &[K], options: &ReadOptions, values: &mut PinnedSlices);

    /// Returns the value of `key` in the default column family, as a future.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_async`](crate::ColumnFamily::get_async).
    fn get_async[K: AsRef<[u8]> + Send](
        key: K,
    ) -> impl Future<Output = Result<Option<PinnedSlice>>> + Send;

    /// Like [`Db::get_async`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_async_opt`](crate::ColumnFamily::get_async_opt).
    fn get_async_opt[K: AsRef<[u8]> + Send](
        key: K,
        options: &ReadOptions,
    ) -> impl Future<Output = Result<Option<PinnedSlice>>> + Send;

    /// Returns the values of `keys` in the default column family, as a future.
    ///
    /// See [`ColumnFamily::multi_get_async`](crate::ColumnFamily::multi_get_async).
    ///
    /// # Errors
    /// See [`ColumnFamily::multi_get`](crate::ColumnFamily::multi_get).
    fn multi_get_async[K: AsRef<[u8]> + Sync](
        keys: &[K],
    ) -> impl Future<Output = PinnedSlices> + Send;

    /// Like [`Db::multi_get_async`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::multi_get_opt`](crate::ColumnFamily::multi_get_opt).
    fn multi_get_async_opt[K: AsRef<[u8]> + Sync](
        keys: &[K],
        options: &ReadOptions,
    ) -> impl Future<Output = PinnedSlices> + Send;

    /// Returns a stream of the values of `keys` in the default column family.
    ///
    /// The order is that of completion; see [`ColumnFamily::multi_get_stream`](crate::ColumnFamily::multi_get_stream).
    #[must_use]
    fn multi_get_stream[K: AsRef<[u8]>](keys: &[K]) -> MultiGetStream;

    /// Like [`Db::multi_get_stream`], with `options`.
    #[must_use]
    fn multi_get_stream_opt[K: AsRef<[u8]>](keys: &[K], options: &ReadOptions) -> MultiGetStream;

    /// Returns the entries of `range` in the default column family.
    ///
    /// ```
    /// # fn main() -> koeldb::Result<()> {
    /// let db = koeldb::Db::temporary()?;
    /// for key in ["a", "b", "c", "d"] {
    ///     db.put(key, "value")?;
    /// }
    /// let mut keys = Vec::new();
    /// for entry in db.range("b".."d") {
    ///     let (key, _value) = entry?;
    ///     keys.push(key.to_vec());
    /// }
    /// assert_eq!(keys, [b"b", b"c"]);
    /// // From the end of the range backwards.
    /// let (last, _) = db.range(.."d").next_back().unwrap()?;
    /// assert_eq!(&*last, b"c");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Each item has the error of its step; the iterator ends after the first.
    #[must_use]
    fn range(range: impl IterateBounds) -> DbIterator;

    /// Like [`Db::range`], with `options`, whose bounds narrow the range.
    #[must_use]
    fn range_opt(range: impl IterateBounds, options: &ReadOptions) -> DbIterator;

    /// Returns the entries of the default column family whose keys begin with `prefix`.
    #[must_use]
    fn prefix(prefix: impl AsRef<[u8]>) -> DbIterator;

    /// Like [`Db::prefix`], with `options`, whose bounds narrow the range.
    #[must_use]
    fn prefix_opt(prefix: impl AsRef<[u8]>, options: &ReadOptions) -> DbIterator;

    /// Returns an iterator over the default column family, whose start and direction `mode` gives.
    #[must_use]
    fn iterator(mode: IteratorMode<'_>) -> DbIterator;

    /// Like [`Db::iterator`], with `options` and their bounds.
    #[must_use]
    fn iterator_opt(mode: IteratorMode<'_>, options: &ReadOptions) -> DbIterator;

    /// Creates a cursor over the default column family, with no position until its first seek.
    ///
    /// ```
    /// # fn main() -> koeldb::Result<()> {
    /// let db = koeldb::Db::temporary()?;
    /// db.put("a", "1")?;
    /// db.put("c", "3")?;
    /// let mut cursor = db.cursor();
    /// let mut is_there = cursor.seek("b")?;
    /// while is_there {
    ///     println!("{:?} = {:?}", cursor.key(), cursor.value());
    ///     is_there = cursor.next()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    fn cursor() -> DbCursor;

    /// Like [`Db::cursor`], with `options` and their bounds.
    #[must_use]
    fn cursor_opt(options: &ReadOptions) -> DbCursor;

    /// Returns the default column family's property of this RocksDB name; `None` if it has none.
    ///
    /// # Errors
    /// If a table must be opened for it and that fails.
    fn property_value(name: &str) -> Result<Option<String>>;

    /// Returns a map property of the default column family (RocksDB's `GetMapProperty`).
    ///
    /// # Errors
    /// See [`ColumnFamily::property_map`](crate::ColumnFamily::property_map).
    fn property_map(name: &str) -> Result<Option<BTreeMap<String, String>>>;

    /// Returns a numeric property of the default column family by RocksDB's name.
    ///
    /// # Errors
    /// See [`Db::property_value`].
    fn property_int_value(name: &str) -> Result<Option<u64>>;

    /// Compacts a range of the default column family.
    ///
    /// # Errors
    /// See [`ColumnFamily::compact_range`](crate::ColumnFamily::compact_range).
    fn compact_range(range: impl IterateBounds) -> Result<()>;

    /// Like [`Db::compact_range`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::compact_range_opt`](crate::ColumnFamily::compact_range_opt).
    fn compact_range_opt(range: impl IterateBounds, options: &CompactRangeOptions) -> Result<()>;

    /// Changes mutable options of the default column family atomically.
    ///
    /// # Errors
    /// See [`ColumnFamily::set_options`](crate::ColumnFamily::set_options).
    fn set_options[K: AsRef<str>, V: AsRef<str>](
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()>;

    /// Estimates the bytes of table files in each range of keys of the default column family.
    ///
    /// # Errors
    /// See [`ColumnFamily::approximate_sizes`](crate::ColumnFamily::approximate_sizes).
    fn approximate_sizes[R: IterateBounds + Clone](ranges: &[R]) -> Result<Vec<u64>>;
}
