//! Reads that databases, transaction databases and transactions share.
//!
//! A type implements [`Source`]; the macros here and in `methods` add the methods with the
//! original's signatures.

use koeldb::PinnedSlice;

use crate::cursor::Cursor;
use crate::{AsColumnFamilyRef, DBPinnableSlice, Error, ReadOptions};

/// The result of a read.
pub(crate) type Value = Result<Option<Vec<u8>>, Error>;
/// The result of a read without a copy.
pub(crate) type Pinned<'a> = Result<Option<DBPinnableSlice<'a>>, Error>;
/// A column family; `None` is the default one.
pub(crate) type Family<'a> = Option<&'a koeldb::ColumnFamily>;

/// The read operations of a database or transaction from which the public methods are built.
///
/// The provided ones read from the database.
pub trait Source {
    /// Returns the engine's database that is read.
    fn database(&self) -> &koeldb::Db;

    /// Resolves an optional column family: `None` is the default column family.
    fn family<'f>(&'f self, family: Family<'f>) -> &'f koeldb::ColumnFamily {
        family.unwrap_or(self.database().default_cf())
    }

    /// Reads the value of one key, pinned in its block or memtable; `None` if it does not exist.
    fn read(
        &self,
        family: Family<'_>,
        key: &[u8],
        options: &koeldb::ReadOptions,
    ) -> koeldb::Result<Option<PinnedSlice>> {
        self.family(family).get_opt(key, options)
    }

    /// Reads the value of one key as an owned copy; `None` if it does not exist.
    fn read_copy(
        &self,
        family: Family<'_>,
        key: &[u8],
        options: &koeldb::ReadOptions,
    ) -> koeldb::Result<Option<Vec<u8>>> {
        self.family(family).get_with(key, options, <[u8]>::to_vec)
    }

    /// Reads keys of one column family (`MultiGet`); returns one result per key, in their order.
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

    /// Creates an unpositioned iterator over a column family.
    fn cursor(&self, family: Family<'_>, options: &koeldb::ReadOptions) -> Cursor {
        Cursor::Db(Box::new(self.family(family).cursor_opt(options)))
    }

    /// Takes the snapshot for a `SnapshotWithThreadMode`; `None` reads the latest state.
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

/// The reads with options of databases, transaction databases and transactions, for generic code.
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

/// Converts the result of a pinned read to an owned copy and this crate's error.
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

/// Reads keys of one column family in one `MultiGet` without copies, in the order of `keys`.
pub(crate) fn batched<'a, S, K>(
    source: &S,
    family: Family<'_>,
    keys: &[K],
    options: &ReadOptions,
) -> Vec<Pinned<'a>>
where
    S: Source,
    K: AsRef<[u8]>,
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
