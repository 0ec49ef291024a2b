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
/// A column family; `None` is the default one.
pub(crate) type Family<'a> = Option<&'a koeldb::ColumnFamily>;

/// The operations from which the others are made; those of the database, unless implemented.
pub trait Source {
    /// The database.
    fn database(&self) -> &koeldb::Db;

    /// A column family of the database.
    fn family<'f>(&'f self, family: Family<'f>) -> &'f koeldb::ColumnFamily {
        family.unwrap_or(self.database().default_cf())
    }

    /// Reads one key.
    fn read(
        &self,
        family: Family<'_>,
        key: &[u8],
        options: &koeldb::ReadOptions,
    ) -> koeldb::Result<Option<PinnedSlice>> {
        self.family(family).get_opt(key, options)
    }

    /// Reads one key into memory of its own.
    fn read_copy(
        &self,
        family: Family<'_>,
        key: &[u8],
        options: &koeldb::ReadOptions,
    ) -> koeldb::Result<Option<Vec<u8>>> {
        self.family(family).get_with(key, options, <[u8]>::to_vec)
    }

    /// Reads keys in their order, each with its own result.
    fn read_many<K: AsRef<[u8]>>(
        &self,
        family: Family<'_>,
        keys: &[K],
        options: &koeldb::ReadOptions,
    ) -> Vec<koeldb::Result<Option<PinnedSlice>>> {
        let values = self.family(family).multi_get_opt(keys, options);
        let pinned = (0..values.len()).map(|index| values.get_pinned(index));
        pinned.collect()
    }

    /// Creates a cursor.
    fn cursor(&self, family: Family<'_>, options: &koeldb::ReadOptions) -> Cursor {
        Cursor::Db(Box::new(self.family(family).cursor_opt(options)))
    }

    /// The snapshot that a `Snapshot` of this object reads; `None` for the latest state.
    fn take_snapshot(&self) -> Option<koeldb::Snapshot> {
        Some(self.database().snapshot())
    }
}

/// Declares the forms with options of a verb that reads one key: of the default column family and
/// of another.
macro_rules! key_opt_forms {
    ([$($pub:tt)?] $(#[doc = $doc:literal])+
        $plain_opt:ident, $cf_opt:ident(
            $self:ident, $family:ident, $key:ident $(, $extra:ident: $Extra:ty)*;
            $options:ident: $Options:ty
        ) -> $Value:ty { $run:expr }
    ) => {
        $(#[doc = $doc])+
        $($pub)? fn $plain_opt<K: AsRef<[u8]>>(
            &$self,
            key: K
            $(, $extra: $Extra)*,
            $options: $Options,
        ) -> $Value {
            let $family: $crate::access::Family<'_> = None;
            let $key = key.as_ref();
            $run
        }

        #[doc = concat!("Like `", stringify!($plain_opt), "`, in a column family.")]
        $($pub)? fn $cf_opt<K: AsRef<[u8]>>(
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
pub(crate) use key_opt_forms;

/// Declares the forms without options of verbs that read one key.
macro_rules! key_plain_forms {
    ($($(#[doc = $doc:literal])+
        $plain:ident, $plain_opt:ident, $cf:ident, $cf_opt:ident(
            $self:ident $(, $extra:ident: $Extra:ty)*; $default:expr
        ) -> $Value:ty;)+
    ) => {$(
        $(#[doc = $doc])+
        pub fn $plain<K: AsRef<[u8]>>(&$self, key: K $(, $extra: $Extra)*) -> $Value {
            $self.$plain_opt(key $(, $extra)*, $default)
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
    )+};
}
pub(crate) use key_plain_forms;

/// Declares the four forms of a verb that reads one key: of the default column family or another,
/// without and with options.
macro_rules! key_forms {
    ($(#[doc = $doc:literal])+
        $plain:ident, $plain_opt:ident, $cf:ident, $cf_opt:ident(
            $self:ident, $family:ident, $key:ident $(, $extra:ident: $Extra:ty)*;
            $options:ident: $Options:ty = $default:expr
        ) -> $Value:ty { $run:expr }
    ) => {
        $crate::access::key_plain_forms! {
            $(#[doc = $doc])+
            $plain, $plain_opt, $cf, $cf_opt($self $(, $extra: $Extra)*; $default) -> $Value;
        }

        $crate::access::key_opt_forms! { [pub]
            $(#[doc = $doc])+
            $plain_opt, $cf_opt($self, $family, $key $(, $extra: $Extra)*; $options: $Options)
                -> $Value { $run }
        }
    };
}
pub(crate) use key_forms;

/// Declares the reads of `$source` with options, which the caller passes as `$Options`.
macro_rules! read_opt_forms {
    ([$($pub:tt)?] $self:ident, $source:expr; $readopts:ident: $Options:ty, $options:expr) => {
        $crate::access::key_opt_forms! { [$($pub)?]
            /// Returns the value of `key`.
            get_opt, get_cf_opt($self, family, key; $readopts: $Options) -> $crate::access::Value {
                $crate::access::get($source, family, key, $options)
            }
        }

        $crate::access::key_opt_forms! { [$($pub)?]
            /// Returns the value of `key` without a copy.
            get_pinned_opt, get_pinned_cf_opt(
                $self, family, key; $readopts: $Options
            ) -> $crate::access::Pinned<'_> {
                $crate::access::get_pinned($source, family, key, $options)
            }
        }

        /// Returns the values of `keys`, in their order, each with its own result.
        $($pub)? fn multi_get_opt<K, I>(
            &$self,
            keys: I,
            $readopts: $Options,
        ) -> Vec<$crate::access::Value>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = K>,
        {
            $crate::access::multi_get($source, keys, $options)
        }

        /// Returns the values of keys of several column families, all as of one snapshot.
        $($pub)? fn multi_get_cf_opt<'b, K, I, W>(
            &$self,
            keys_cf: I,
            $readopts: $Options,
        ) -> Vec<$crate::access::Value>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = (&'b W, K)>,
            W: $crate::AsColumnFamilyRef + 'b,
        {
            $crate::access::multi_get_cf($source, keys_cf, $options)
        }
    };
}
pub(crate) use read_opt_forms;

/// Reads of databases, transaction databases and transactions, for generic code.
///
/// The original's four unsafe methods return C++ objects and do not exist here.
pub trait DBAccess: Source + Sized {
    read_opt_forms! { [] self, self; readopts: &ReadOptions, readopts }
}

/// Reads the value of a key as a copy; `None` if the key does not exist.
pub(crate) fn get<S: Source, K: AsRef<[u8]>>(
    source: &S,
    family: Family<'_>,
    key: K,
    options: &ReadOptions,
) -> Value {
    Ok(source.read_copy(family, key.as_ref(), options.checked()?)?)
}

/// Reads the value of a key without a copy, pinned in its block or memtable.
pub(crate) fn get_pinned<'a, S: Source, K: AsRef<[u8]>>(
    source: &S,
    family: Family<'_>,
    key: K,
    options: &ReadOptions,
) -> Pinned<'a> {
    let value = source.read(family, key.as_ref(), options.checked()?)?;
    Ok(value.map(DBPinnableSlice::new))
}

/// Copies a pinned value, and converts the error.
fn converted(value: koeldb::Result<Option<PinnedSlice>>) -> Value {
    Ok(value?.map(Vec::from))
}

/// Reads keys of the default column family in one call, as copies, in the order of `keys`.
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

/// Reads keys of one column family in one call without copies, in the order of `keys`.
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
    if groups.len() > 1 && options.get_snapshot().is_none() {
        options.set_snapshot(&source.database().snapshot());
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

/// Declares the methods that read `$source`, without and with options.
macro_rules! read_methods {
    () => {
        $crate::access::read_methods! { self, self;
            readopts: &$crate::ReadOptions = &$crate::ReadOptions::DEFAULT, readopts
        }
    };
    ($self:ident, $source:expr; $readopts:ident: $Options:ty = $default:expr, $options:expr) => {
        $crate::access::read_opt_forms! { [pub] $self, $source; $readopts: $Options, $options }

        $crate::access::key_plain_forms! {
            /// Returns the value of `key`.
            get, get_opt, get_cf, get_cf_opt($self; $default) -> $crate::access::Value;
            /// Returns the value of `key` without a copy.
            get_pinned, get_pinned_opt, get_pinned_cf, get_pinned_cf_opt($self; $default)
                -> $crate::access::Pinned<'_>;
        }

        /// Returns the values of `keys`, in their order, each with its own result.
        pub fn multi_get<K, I>(&$self, keys: I) -> Vec<$crate::access::Value>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = K>,
        {
            $self.multi_get_opt(keys, $default)
        }

        /// Returns the values of keys of several column families, all as of one snapshot.
        pub fn multi_get_cf<'b, K, I, W>(&$self, keys: I) -> Vec<$crate::access::Value>
        where
            K: AsRef<[u8]>,
            I: IntoIterator<Item = (&'b W, K)>,
            W: $crate::AsColumnFamilyRef + 'b,
        {
            $self.multi_get_cf_opt(keys, $default)
        }
    };
}
pub(crate) use read_methods;

/// Declares the methods that create iterators of `$source`, which yields entries of `$D`.
macro_rules! iterator_methods {
    ($self:ident, $source:expr, $D:ty, $life:lifetime; $readopts:ident, $options:expr) => {
        /// Returns the entries from a start in a direction.
        pub fn iterator(
            &$self,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<$life, $D> {
            $self.iterator_opt(mode, $crate::ReadOptions::default())
        }

        /// Like `iterator`, with options.
        pub fn iterator_opt(
            &$self,
            mode: $crate::IteratorMode,
            $readopts: $crate::ReadOptions,
        ) -> $crate::DBIteratorWithThreadMode<$life, $D> {
            $crate::DBIteratorWithThreadMode::new($source, None, $options, mode)
        }

        /// Like `iterator`, of a column family.
        pub fn iterator_cf(
            &$self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<$life, $D> {
            $self.iterator_cf_opt(cf_handle, $crate::ReadOptions::default(), mode)
        }

        /// Like `iterator`, of a column family, with options.
        pub fn iterator_cf_opt(
            &$self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            $readopts: $crate::ReadOptions,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<$life, $D> {
            let family = Some(cf_handle.family());
            $crate::DBIteratorWithThreadMode::new($source, family, $options, mode)
        }

        /// Creates an iterator without position.
        pub fn raw_iterator(&$self) -> $crate::DBRawIteratorWithThreadMode<$life, $D> {
            $self.raw_iterator_opt($crate::ReadOptions::default())
        }

        /// Like `raw_iterator`, of a column family.
        pub fn raw_iterator_cf(
            &$self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
        ) -> $crate::DBRawIteratorWithThreadMode<$life, $D> {
            $self.raw_iterator_cf_opt(cf_handle, $crate::ReadOptions::default())
        }

        /// Like `raw_iterator`, with options.
        pub fn raw_iterator_opt(
            &$self,
            $readopts: $crate::ReadOptions,
        ) -> $crate::DBRawIteratorWithThreadMode<$life, $D> {
            $crate::DBRawIteratorWithThreadMode::new($source, None, $options)
        }

        /// Like `raw_iterator`, of a column family, with options.
        pub fn raw_iterator_cf_opt(
            &$self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            $readopts: $crate::ReadOptions,
        ) -> $crate::DBRawIteratorWithThreadMode<$life, $D> {
            let family = Some(cf_handle.family());
            $crate::DBRawIteratorWithThreadMode::new($source, family, $options)
        }
    };
    () => {
        $crate::access::iterator_methods! { self, self, Self, '_; readopts, &readopts }

        /// Like `iterator`, across prefixes although the column family has a prefix extractor.
        pub fn full_iterator(
            &self,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<'_, Self> {
            self.iterator_opt(mode, $crate::ReadOptions::total_order())
        }

        /// Like `full_iterator`, of a column family.
        pub fn full_iterator_cf(
            &self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            mode: $crate::IteratorMode,
        ) -> $crate::DBIteratorWithThreadMode<'_, Self> {
            self.iterator_cf_opt(cf_handle, $crate::ReadOptions::total_order(), mode)
        }

        /// Returns the entries from `prefix` on, up to the end of its extracted prefix.
        ///
        /// Without a prefix extractor, and for a `prefix` that differs in length from the extracted
        /// one, further keys follow: see
        /// [`ReadOptions::set_iterate_range`](crate::ReadOptions::set_iterate_range) for exact
        /// limits.
        pub fn prefix_iterator<P: AsRef<[u8]>>(
            &self,
            prefix: P,
        ) -> $crate::DBIteratorWithThreadMode<'_, Self> {
            let mode = $crate::IteratorMode::From(prefix.as_ref(), $crate::Direction::Forward);
            self.iterator_opt(mode, $crate::ReadOptions::one_prefix())
        }

        /// Like `prefix_iterator`, of a column family.
        pub fn prefix_iterator_cf<P: AsRef<[u8]>>(
            &self,
            cf_handle: &impl $crate::AsColumnFamilyRef,
            prefix: P,
        ) -> $crate::DBIteratorWithThreadMode<'_, Self> {
            let mode = $crate::IteratorMode::From(prefix.as_ref(), $crate::Direction::Forward);
            self.iterator_cf_opt(cf_handle, $crate::ReadOptions::one_prefix(), mode)
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

        /// Rebuilds the MANIFEST of the database at `path` from its SST and WAL files (`RepairDB`).
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

        /// Writes the buffered WAL to the operating system, and syncs it if `sync`.
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
        /// Like `write`, without the WAL: the batch survives only if its memtables are flushed.
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
