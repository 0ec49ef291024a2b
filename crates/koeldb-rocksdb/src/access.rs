//! Reads that databases, transaction databases and transactions share, and writes of databases.
//!
//! A type implements [`Source`], the macros add the methods with the original's signatures.

use koeldb::PinnedSlice;

use crate::iterator::Cursor;
use crate::{AsColumnFamilyRef, DBPinnableSlice, Error, ReadOptions};

/// The result of a read.
pub(crate) type Value = Result<Option<Vec<u8>>, Error>;
/// The result of a read without a copy.
pub(crate) type Pinned<'a> = Result<Option<DBPinnableSlice<'a>>, Error>;
/// A column family, or the default one.
pub(crate) type Family<'a> = Option<&'a koeldb::ColumnFamily>;

/// The operations from which the others are made.
pub trait Source {
    /// Reads one key.
    fn read(
        &self,
        family: Family<'_>,
        key: &[u8],
        options: &koeldb::ReadOptions,
    ) -> koeldb::Result<Option<PinnedSlice>>;

    /// Reads keys in their order, each with its own result.
    fn read_many<K: AsRef<[u8]>>(
        &self,
        family: Family<'_>,
        keys: &[K],
        options: &koeldb::ReadOptions,
    ) -> Vec<koeldb::Result<Option<PinnedSlice>>>;

    /// Reads one key into memory of its own.
    fn read_copy(
        &self,
        family: Family<'_>,
        key: &[u8],
        options: &koeldb::ReadOptions,
    ) -> koeldb::Result<Option<Vec<u8>>> {
        Ok(self.read(family, key, options)?.map(Vec::from))
    }

    /// Creates a cursor.
    fn cursor(&self, family: Family<'_>, options: &koeldb::ReadOptions) -> Cursor;

    /// The snapshot that a `Snapshot` of this object reads; `None` for the latest state.
    fn take_snapshot(&self) -> Option<koeldb::Snapshot>;

    /// The snapshot at which keys of several column families are read.
    fn latest_snapshot(&self) -> Option<koeldb::Snapshot> {
        self.take_snapshot()
    }
}

/// Implements [`Source`] by a database in the expression `$db`.
macro_rules! read_database {
    ($self:ident: $db:expr) => {
        fn read(
            &$self,
            family: $crate::access::Family<'_>,
            key: &[u8],
            options: &koeldb::ReadOptions,
        ) -> koeldb::Result<Option<koeldb::PinnedSlice>> {
            family.unwrap_or($db.default_cf()).get_opt(key, options)
        }

        fn read_copy(
            &$self,
            family: $crate::access::Family<'_>,
            key: &[u8],
            options: &koeldb::ReadOptions,
        ) -> koeldb::Result<Option<Vec<u8>>> {
            let family = family.unwrap_or($db.default_cf());
            family.get_with(key, options, <[u8]>::to_vec)
        }

        fn read_many<K: AsRef<[u8]>>(
            &$self,
            family: $crate::access::Family<'_>,
            keys: &[K],
            options: &koeldb::ReadOptions,
        ) -> Vec<koeldb::Result<Option<koeldb::PinnedSlice>>> {
            let values = family.unwrap_or($db.default_cf()).multi_get_opt(keys, options);
            (0..values.len()).map(|index| values.get_pinned(index)).collect()
        }

        fn cursor(
            &$self,
            family: $crate::access::Family<'_>,
            options: &koeldb::ReadOptions,
        ) -> $crate::iterator::Cursor {
            let cursor = family.unwrap_or($db.default_cf()).cursor_opt(options);
            $crate::iterator::Cursor::Db(Box::new(cursor))
        }

        fn take_snapshot(&$self) -> Option<koeldb::Snapshot> {
            Some($db.snapshot())
        }
    };
}
pub(crate) use read_database;

/// Reads of databases, transaction databases and transactions, for generic code.
///
/// The original's four unsafe methods return C++ objects and do not exist here.
pub trait DBAccess: Source + Sized {
    /// Returns the value of `key`.
    fn get_opt<K: AsRef<[u8]>>(&self, key: K, readopts: &ReadOptions) -> Value {
        get(self, None, key, readopts)
    }

    /// Returns the value of `key` in a column family.
    fn get_cf_opt<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        readopts: &ReadOptions,
    ) -> Value {
        get(self, Some(cf.family()), key, readopts)
    }

    /// Returns the value of `key` without a copy.
    fn get_pinned_opt<K: AsRef<[u8]>>(&self, key: K, readopts: &ReadOptions) -> Pinned<'_> {
        get_pinned(self, None, key, readopts)
    }

    /// Returns the value of `key` in a column family without a copy.
    fn get_pinned_cf_opt<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        readopts: &ReadOptions,
    ) -> Pinned<'_> {
        get_pinned(self, Some(cf.family()), key, readopts)
    }

    /// Returns the values of `keys`.
    fn multi_get_opt<K, I>(&self, keys: I, readopts: &ReadOptions) -> Vec<Value>
    where
        K: AsRef<[u8]>,
        I: IntoIterator<Item = K>,
    {
        multi_get(self, keys, readopts)
    }

    /// Returns the values of keys in column families.
    fn multi_get_cf_opt<'b, K, I, W>(&self, keys_cf: I, readopts: &ReadOptions) -> Vec<Value>
    where
        K: AsRef<[u8]>,
        I: IntoIterator<Item = (&'b W, K)>,
        W: AsColumnFamilyRef + 'b,
    {
        multi_get_cf(self, keys_cf, readopts)
    }
}

pub(crate) fn get<S: Source, K: AsRef<[u8]>>(
    source: &S,
    family: Family<'_>,
    key: K,
    options: &ReadOptions,
) -> Value {
    Ok(source.read_copy(family, key.as_ref(), options.checked()?)?)
}

pub(crate) fn get_pinned<'a, S: Source, K: AsRef<[u8]>>(
    source: &S,
    family: Family<'_>,
    key: K,
    options: &ReadOptions,
) -> Pinned<'a> {
    let value = source.read(family, key.as_ref(), options.checked()?)?;
    Ok(value.map(DBPinnableSlice::new))
}

fn converted(value: koeldb::Result<Option<PinnedSlice>>) -> Value {
    Ok(value?.map(Vec::from))
}

pub(crate) fn multi_get<S, K, I>(source: &S, keys: I, options: &ReadOptions) -> Vec<Value>
where
    S: Source,
    K: AsRef<[u8]>,
    I: IntoIterator<Item = K>,
{
    let keys: Vec<K> = keys.into_iter().collect();
    match options.checked() {
        Ok(options) => {
            let values = source.read_many(None, &keys, options);
            values.into_iter().map(converted).collect()
        }
        Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
    }
}

pub(crate) fn batched<'a, S, K>(
    source: &S,
    family: Family<'_>,
    keys: &[&K],
    options: &ReadOptions,
) -> Vec<Pinned<'a>>
where
    S: Source,
    K: AsRef<[u8]> + ?Sized,
{
    match options.checked() {
        Ok(options) => {
            let values = source.read_many(family, keys, options);
            let pin =
                |value: koeldb::Result<Option<PinnedSlice>>| Ok(value?.map(DBPinnableSlice::new));
            values.into_iter().map(pin).collect()
        }
        Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// Reads keys of several column families, each family in one call, all at one snapshot.
pub(crate) fn multi_get_cf<'b, S, K, I, W>(source: &S, keys: I, options: &ReadOptions) -> Vec<Value>
where
    S: Source,
    K: AsRef<[u8]>,
    I: IntoIterator<Item = (&'b W, K)>,
    W: AsColumnFamilyRef + 'b,
{
    let keys: Vec<(&W, K)> = keys.into_iter().collect();
    let mut options = match options.checked() {
        Ok(options) => options.clone(),
        Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
    };
    let mut order: Vec<usize> = (0..keys.len()).collect();
    let id = |index: &usize| keys[*index].0.family().id();
    order.sort_by_key(id);
    let groups: Vec<&[usize]> = order.chunk_by(|a, b| id(a) == id(b)).collect();
    if groups.len() > 1
        && options.get_snapshot().is_none()
        && let Some(snapshot) = source.latest_snapshot()
    {
        options.set_snapshot(&snapshot);
    }
    let mut values: Vec<Value> = keys.iter().map(|_| Ok(None)).collect();
    for group in groups {
        let family = keys[group[0]].0.family();
        let keys: Vec<&K> = group.iter().map(|&index| &keys[index].1).collect();
        let found = source.read_many(Some(family), &keys, &options);
        for (&index, value) in group.iter().zip(found) {
            values[index] = converted(value);
        }
    }
    values
}

/// Declares the four forms of a verb that reads one key: of the default column family or another,
/// without and with options.
macro_rules! key_forms {
    ($(#[doc = $doc:literal])+
        $plain:ident, $plain_opt:ident, $cf:ident, $cf_opt:ident(
            $self:ident, $family:ident, $key:ident $(, $extra:ident: $Extra:ty)*;
            $options:ident: $Options:ty = $default:expr
        ) -> $Value:ty { $run:expr }
    ) => {
        $(#[doc = $doc])+
        pub fn $plain<K: AsRef<[u8]>>(&$self, key: K $(, $extra: $Extra)*) -> $Value {
            $self.$plain_opt(key $(, $extra)*, $default)
        }

        #[doc = concat!("Like `", stringify!($plain), "`, with options.")]
        pub fn $plain_opt<K: AsRef<[u8]>>(
            &$self,
            key: K
            $(, $extra: $Extra)*,
            $options: $Options,
        ) -> $Value {
            let $family: $crate::access::Family<'_> = None;
            let $key = key.as_ref();
            $run
        }

        #[doc = concat!("Like `", stringify!($plain), "`, in a column family.")]
        pub fn $cf<K: AsRef<[u8]>>(
            &$self,
            cf: &impl $crate::AsColumnFamilyRef,
            key: K
            $(, $extra: $Extra)*
        ) -> $Value {
            $self.$cf_opt(cf, key $(, $extra)*, $default)
        }

        #[doc = concat!("Like `", stringify!($plain), "`, in a column family, with options.")]
        pub fn $cf_opt<K: AsRef<[u8]>>(
            &$self,
            cf: &impl $crate::AsColumnFamilyRef,
            key: K
            $(, $extra: $Extra)*,
            $options: $Options,
        ) -> $Value {
            let $family = Some(cf.family());
            let $key = key.as_ref();
            $run
        }
    };
}
pub(crate) use key_forms;

/// Declares the methods that read.
macro_rules! read_methods {
    () => {
        $crate::access::key_forms! {
            /// Returns the value of `key`.
            get, get_opt, get_cf, get_cf_opt(
                self, family, key; readopts: &$crate::ReadOptions = &$crate::ReadOptions::DEFAULT
            ) -> $crate::access::Value {
                $crate::access::get(self, family, key, readopts)
            }
        }

        $crate::access::key_forms! {
            /// Returns the value of `key` without a copy.
            get_pinned, get_pinned_opt, get_pinned_cf, get_pinned_cf_opt(
                self, family, key; readopts: &$crate::ReadOptions = &$crate::ReadOptions::DEFAULT
            ) -> $crate::access::Pinned<'_> {
                $crate::access::get_pinned(self, family, key, readopts)
            }
        }

        /// Returns the values of `keys`, in their order, each with its own result.
        pub fn multi_get<K, I>(&self, keys: I) -> Vec<$crate::access::Value>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = K>,
        {
            $crate::access::multi_get(self, keys, &$crate::ReadOptions::DEFAULT)
        }

        /// Returns the values of `keys`, in their order, each with its own result.
        pub fn multi_get_opt<K, I>(
            &self,
            keys: I,
            readopts: &$crate::ReadOptions,
        ) -> Vec<$crate::access::Value>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = K>,
        {
            $crate::access::multi_get(self, keys, readopts)
        }

        /// Returns the values of keys in column families, all of one moment.
        pub fn multi_get_cf<'a, 'b: 'a, K, I, W>(&'a self, keys: I) -> Vec<$crate::access::Value>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = (&'b W, K)>,
            W: 'b + $crate::AsColumnFamilyRef,
        {
            $crate::access::multi_get_cf(self, keys, &$crate::ReadOptions::DEFAULT)
        }

        /// Returns the values of keys in column families, all of one moment.
        pub fn multi_get_cf_opt<'a, 'b: 'a, K, I, W>(
            &'a self,
            keys: I,
            readopts: &$crate::ReadOptions,
        ) -> Vec<$crate::access::Value>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = (&'b W, K)>,
            W: 'b + $crate::AsColumnFamilyRef,
        {
            $crate::access::multi_get_cf(self, keys, readopts)
        }
    };
}
pub(crate) use read_methods;

/// Declares the methods that create iterators.
macro_rules! iterator_methods {
    () => {
        /// Returns the entries from a start in a direction.
        pub fn iterator<'a: 'b, 'b>(
            &'a self,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<'b, Self> {
            self.iterator_opt(mode, $crate::ReadOptions::default())
        }

        /// Like `iterator`, with options.
        pub fn iterator_opt<'a: 'b, 'b>(
            &'a self,
            mode: $crate::IteratorMode,
            readopts: $crate::ReadOptions,
        ) -> $crate::DBIteratorWithThreadMode<'b, Self> {
            $crate::DBIteratorWithThreadMode::new(self, None, &readopts, mode)
        }

        /// Like `iterator`, of a column family.
        pub fn iterator_cf<'a: 'b, 'b>(
            &'a self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<'b, Self> {
            self.iterator_cf_opt(cf_handle, $crate::ReadOptions::default(), mode)
        }

        /// Like `iterator`, of a column family, with options.
        pub fn iterator_cf_opt<'a: 'b, 'b>(
            &'a self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            readopts: $crate::ReadOptions,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<'b, Self> {
            let family = Some(cf_handle.family());
            $crate::DBIteratorWithThreadMode::new(self, family, &readopts, mode)
        }

        /// Like `iterator`, across prefixes although the column family has a prefix extractor.
        pub fn full_iterator<'a: 'b, 'b>(
            &'a self,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<'b, Self> {
            self.iterator_opt(mode, $crate::ReadOptions::total_order())
        }

        /// Like `full_iterator`, of a column family.
        pub fn full_iterator_cf<'a: 'b, 'b>(
            &'a self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<'b, Self> {
            self.iterator_cf_opt(cf_handle, $crate::ReadOptions::total_order(), mode)
        }

        /// Returns the entries from `prefix` on, up to the end of its extracted prefix.
        ///
        /// Without a prefix extractor, and for a `prefix` that differs in length from the extracted
        /// one, further keys follow: see
        /// [`ReadOptions::set_iterate_range`](crate::ReadOptions::set_iterate_range) for exact
        /// limits.
        pub fn prefix_iterator<'a: 'b, 'b, P: AsRef<[u8]>>(
            &'a self,
            prefix: P,
        ) -> $crate::DBIteratorWithThreadMode<'b, Self> {
            let mode = $crate::IteratorMode::From(prefix.as_ref(), $crate::Direction::Forward);
            self.iterator_opt(mode, $crate::ReadOptions::one_prefix())
        }

        /// Like `prefix_iterator`, of a column family.
        pub fn prefix_iterator_cf<'a, P: AsRef<[u8]>>(
            &'a self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            prefix: P,
        ) -> $crate::DBIteratorWithThreadMode<'a, Self> {
            let mode = $crate::IteratorMode::From(prefix.as_ref(), $crate::Direction::Forward);
            self.iterator_cf_opt(cf_handle, $crate::ReadOptions::one_prefix(), mode)
        }

        /// Creates an iterator without position.
        pub fn raw_iterator<'a: 'b, 'b>(&'a self) -> $crate::DBRawIteratorWithThreadMode<'b, Self> {
            self.raw_iterator_opt($crate::ReadOptions::default())
        }

        /// Like `raw_iterator`, of a column family.
        pub fn raw_iterator_cf<'a: 'b, 'b>(
            &'a self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
        ) -> $crate::DBRawIteratorWithThreadMode<'b, Self> {
            self.raw_iterator_cf_opt(cf_handle, $crate::ReadOptions::default())
        }

        /// Like `raw_iterator`, with options.
        pub fn raw_iterator_opt<'a: 'b, 'b>(
            &'a self,
            readopts: $crate::ReadOptions,
        ) -> $crate::DBRawIteratorWithThreadMode<'b, Self> {
            $crate::DBRawIteratorWithThreadMode::new(self, None, &readopts)
        }

        /// Like `raw_iterator`, of a column family, with options.
        pub fn raw_iterator_cf_opt<'a: 'b, 'b>(
            &'a self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            readopts: $crate::ReadOptions,
        ) -> $crate::DBRawIteratorWithThreadMode<'b, Self> {
            let family = Some(cf_handle.family());
            $crate::DBRawIteratorWithThreadMode::new(self, family, &readopts)
        }
    };
}
pub(crate) use iterator_methods;

/// Declares the four forms of a verb that writes.
macro_rules! write_forms {
    ($self:ident: $db:expr; $($(#[doc = $doc:literal])+
        $verb:ident($($argument:ident: $kind:ident),+),
        $plain:ident, $plain_opt:ident, $cf:ident, $cf_opt:ident;)*) => {$(
        $(#[doc = $doc])+
        pub fn $plain<$($kind: AsRef<[u8]>),+>(
            &$self,
            $($argument: $kind),+
        ) -> Result<(), $crate::Error> {
            Ok($db.default_cf().$verb($($argument,)+ &koeldb::WriteOptions::new())?)
        }

        #[doc = concat!("Like `", stringify!($plain), "`, with options.")]
        pub fn $plain_opt<$($kind: AsRef<[u8]>),+>(
            &$self,
            $($argument: $kind,)+
            writeopts: &$crate::WriteOptions,
        ) -> Result<(), $crate::Error> {
            Ok($db.default_cf().$verb($($argument,)+ &writeopts.inner)?)
        }

        #[doc = concat!("Like `", stringify!($plain), "`, in a column family.")]
        pub fn $cf<$($kind: AsRef<[u8]>),+>(
            &$self,
            cf: &impl $crate::AsColumnFamilyRef,
            $($argument: $kind),+
        ) -> Result<(), $crate::Error> {
            Ok(cf.family().$verb($($argument,)+ &koeldb::WriteOptions::new())?)
        }

        #[doc = concat!("Like `", stringify!($plain), "`, in a column family, with options.")]
        pub fn $cf_opt<$($kind: AsRef<[u8]>),+>(
            &$self,
            cf: &impl $crate::AsColumnFamilyRef,
            $($argument: $kind,)+
            writeopts: &$crate::WriteOptions,
        ) -> Result<(), $crate::Error> {
            Ok(cf.family().$verb($($argument,)+ &writeopts.inner)?)
        }
    )*};
}
pub(crate) use write_forms;

/// Declares a method of the default column family, and its form for another one.
macro_rules! family_forms {
    ($self:ident, $family:ident; $(
        $(#[doc = $doc:literal])+
        $plain:ident, $cf:ident $(<$($G:ident: $Bound:path),+>)?($($argument:ident: $type:ty),*)
            $(-> $Value:ty)? { $run:expr }
    )*) => {$(
        $(#[doc = $doc])+
        pub fn $plain$(<$($G: $Bound),+>)?(&$self, $($argument: $type),*) $(-> $Value)? {
            let $family = $self.db().default_cf();
            $run
        }

        #[doc = concat!("Like `", stringify!($plain), "`, in a column family.")]
        pub fn $cf$(<$($G: $Bound),+>)?(
            &$self,
            cf: &impl $crate::AsColumnFamilyRef,
            $($argument: $type),*
        ) $(-> $Value)? {
            let $family = cf.family();
            $run
        }
    )*};
}
pub(crate) use family_forms;

/// Declares the methods on directories and flushes.
macro_rules! flush_methods {
    () => {
        /// Returns the names of the column families of the database at `path`, which may be open.
        pub fn list_cf<P: AsRef<std::path::Path>>(
            opts: &$crate::Options,
            path: P,
        ) -> Result<Vec<String>, $crate::Error> {
            Ok(koeldb::Db::list_cf(opts.checked()?, path)?)
        }

        /// Removes the files of the database at `path`, which must not be open.
        pub fn destroy<P: AsRef<std::path::Path>>(
            opts: &$crate::Options,
            path: P,
        ) -> Result<(), $crate::Error> {
            Ok(koeldb::Db::destroy(opts.checked()?, path)?)
        }

        /// Rebuilds the MANIFEST of the database at `path` from its tables and logs.
        pub fn repair<P: AsRef<std::path::Path>>(
            opts: &$crate::Options,
            path: P,
        ) -> Result<(), $crate::Error> {
            koeldb::Db::repair(opts.checked()?, path)?;
            Ok(())
        }

        /// The directory of the database.
        pub fn path(&self) -> &std::path::Path {
            &self.path
        }

        /// Passes the log to the operating system, and to the device if `sync`.
        pub fn flush_wal(&self, sync: bool) -> Result<(), $crate::Error> {
            Ok(self.db().flush_wal(sync)?)
        }

        $crate::access::family_forms! { self, family;
            /// Flushes the **default** column family.
            flush, flush_cf() -> Result<(), $crate::Error> { Ok(family.flush()?) }

            /// Flushes the **default** column family, with options.
            flush_opt, flush_cf_opt(flushopts: &$crate::FlushOptions) -> Result<(), $crate::Error> {
                Ok(family.flush_opt(&flushopts.inner)?)
            }
        }

        /// Flushes several column families.
        pub fn flush_cfs_opt(
            &self,
            cfs: &[&impl $crate::AsColumnFamilyRef],
            opts: &$crate::FlushOptions,
        ) -> Result<(), $crate::Error> {
            let families = cfs.iter().map(|cf| cf.family());
            Ok(self.db().flush_cfs(families, &opts.inner)?)
        }

        /// Takes a snapshot.
        pub fn snapshot(&self) -> $crate::SnapshotWithThreadMode<'_, Self> {
            $crate::SnapshotWithThreadMode::new(self)
        }
    };
}
pub(crate) use flush_methods;

/// Declares the writes of batches.
macro_rules! batch_methods {
    ($Batch:ty) => {
        /// Applies a batch.
        pub fn write(&self, batch: $Batch) -> Result<(), $crate::Error> {
            self.write_opt(batch, &$crate::WriteOptions::default())
        }

        /// Like `write`, with options.
        pub fn write_opt(
            &self,
            batch: $Batch,
            writeopts: &$crate::WriteOptions,
        ) -> Result<(), $crate::Error> {
            Ok(self.db().write_opt(batch.checked()?, &writeopts.inner)?)
        }
    };
}
pub(crate) use batch_methods;

/// Declares the writes that locks of keys do not permit.
macro_rules! unlocked_methods {
    ($Batch:ty) => {
        /// Like `write`, without the log: the batch survives only if its memtables are flushed.
        pub fn write_without_wal(&self, batch: $Batch) -> Result<(), $crate::Error> {
            let mut options = $crate::WriteOptions::new();
            options.disable_wal(true);
            self.write_opt(batch, &options)
        }

        /// Deletes the keys in `from..to` in a column family. Optimistic transactions do not see it
        /// as a conflict.
        pub fn delete_range_cf<K: AsRef<[u8]>>(
            &self,
            cf: &impl $crate::AsColumnFamilyRef,
            from: K,
            to: K,
        ) -> Result<(), $crate::Error> {
            Ok(cf.family().delete_range(from, to)?)
        }

        /// Like `delete_range_cf`, with options.
        pub fn delete_range_cf_opt<K: AsRef<[u8]>>(
            &self,
            cf: &impl $crate::AsColumnFamilyRef,
            from: K,
            to: K,
            writeopts: &$crate::WriteOptions,
        ) -> Result<(), $crate::Error> {
            Ok(cf.family().delete_range_opt(from, to, &writeopts.inner)?)
        }
    };
}
pub(crate) use unlocked_methods;

/// Declares `put`, `merge` and `delete`.
macro_rules! write_methods {
    ($self:ident: $db:expr) => {
        $crate::access::write_forms! { $self: $db;
            /// Sets the value of `key`.
            put_opt(key: K, value: V), put, put_opt, put_cf, put_cf_opt;
            /// Adds a merge operand to `key`; fails without a merge operator.
            merge_opt(key: K, value: V), merge, merge_opt, merge_cf, merge_cf_opt;
            /// Deletes `key`, which need not exist.
            delete_opt(key: K), delete, delete_opt, delete_cf, delete_cf_opt;
        }
    };
}
pub(crate) use write_methods;
