//! Databases, generic over how they keep the handles of column families.

mod maintenance;
mod open;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use koeldb::{DeletionGuard, ReadTier};

use crate::access::{Pinned, Source, batched, key_forms};
use crate::error::timestamp;
use crate::methods::{
    batch_methods, iterator_methods, read_methods, unlocked_methods, write_forms, write_methods,
};
use crate::{
    AsColumnFamilyRef, CSlice, DBAccess, DBIteratorWithThreadMode, DBRawIteratorWithThreadMode,
    DBWALIterator, Error, MultiThreaded, ReadOptions, SingleThreaded, SnapshotWithThreadMode,
    ThreadMode, WriteBatch, WriteOptions,
};

pub use maintenance::{ColumnFamilyMetaData, LiveFile};
pub(crate) use maintenance::{property, property_int};
pub(crate) use open::{Access, named, open};

/// A range of keys whose size is to be estimated (`GetApproximateSizes`).
pub struct Range<'a> {
    pub(crate) start_key: &'a [u8],
    pub(crate) end_key: &'a [u8],
}

impl<'a> Range<'a> {
    /// Creates the range `start_key..end_key`.
    #[must_use]
    pub fn new(start_key: &'a [u8], end_key: &'a [u8]) -> Range<'a> {
        Range { start_key, end_key }
    }
}

/// A snapshot of a [`DB`].
pub type Snapshot<'a> = SnapshotWithThreadMode<'a, DB>;

/// An iterator of a [`DB`].
pub type DBRawIterator<'a> = DBRawIteratorWithThreadMode<'a, DB>;

/// An iterator of a [`DB`].
pub type DBIterator<'a> = DBIteratorWithThreadMode<'a, DB>;

/// Declares the methods of databases that create, drop and look up column families.
macro_rules! family_methods {
    ($Type:ident<SingleThreaded $(, $D:ident)?>, $db:ident) => {
        /// Creates a column family, whose handle `cf_handle` then returns.
        pub fn create_cf<N: AsRef<str>>(
            &mut self,
            name: N,
            opts: &$crate::Options,
        ) -> Result<(), $crate::Error> {
            let db = self.$db().clone();
            self.families.create(&db, name.as_ref(), opts)
        }

        /// Drops a column family and its data.
        pub fn drop_cf(&mut self, name: &str) -> Result<(), $crate::Error> {
            let db = self.$db().clone();
            self.families.drop(&db, name)
        }

        /// Returns the handle of a column family that was named at open or created since.
        pub fn cf_handle(&self, name: &str) -> Option<&$crate::ColumnFamily> {
            self.families.families.get(name)
        }
    };
    ($Type:ident<MultiThreaded $(, $D:ident)?>, $db:ident) => {
        /// Creates a column family, whose handle `cf_handle` then returns.
        pub fn create_cf<N: AsRef<str>>(
            &self,
            name: N,
            opts: &$crate::Options,
        ) -> Result<(), $crate::Error> {
            self.families.create(self.$db(), name.as_ref(), opts)
        }

        /// Drops a column family; its data stays readable through existing handles.
        pub fn drop_cf(&self, name: &str) -> Result<(), $crate::Error> {
            self.families.drop(self.$db(), name)
        }

        /// Returns the handle of a column family that was named at open or created since.
        pub fn cf_handle(
            &self,
            name: &str,
        ) -> Option<std::sync::Arc<$crate::BoundColumnFamily<'_>>> {
            self.families.handle(name)
        }
    };
}
pub(crate) use family_methods;

/// The engine's database within a [`DBCommon`]: a plain or an optimistic transaction database.
pub trait DBInner {
    /// Wraps the engine's database.
    #[doc(hidden)]
    fn of(db: koeldb::Db) -> Self;

    /// Returns the engine's database.
    #[doc(hidden)]
    fn db(&self) -> &koeldb::Db;
}

/// Declares a wrapper of the engine's database that implements [`DBInner`].
macro_rules! database_kind {
    ($(#[doc = $doc:literal])+ $Kind:ident) => {
        $(#[doc = $doc])+
        pub struct $Kind {
            db: koeldb::Db,
        }

        impl $crate::db::DBInner for $Kind {
            fn of(db: koeldb::Db) -> Self {
                $Kind { db }
            }

            fn db(&self) -> &koeldb::Db {
                &self.db
            }
        }
    };
}
pub(crate) use database_kind;

/// An open database; it is closed when dropped, and values read from it stay valid.
pub struct DBCommon<T: ThreadMode, D: DBInner> {
    pub(crate) families: T,
    pub(crate) inner: D,
    path: PathBuf,
    /// One for each call that disabled the deletion of files.
    deletions_disabled: Mutex<Vec<DeletionGuard>>,
}

database_kind! {
    /// The engine's database within a database without transactions.
    DBWithThreadModeInner
}

/// A database without transactions.
pub type DBWithThreadMode<T> = DBCommon<T, DBWithThreadModeInner>;

/// A database without transactions, with handles of column families as the features say.
#[cfg(not(feature = "multi-threaded-cf"))]
pub type DB = DBWithThreadMode<SingleThreaded>;

/// A database without transactions, with handles of column families as the features say.
#[cfg(feature = "multi-threaded-cf")]
pub type DB = DBWithThreadMode<MultiThreaded>;

impl<T: ThreadMode, D: DBInner> Drop for DBCommon<T, D> {
    fn drop(&mut self) {
        self.families.drop_all_cfs_internal();
        let guards = self.deletions_disabled.get_mut();
        guards.unwrap_or_else(PoisonError::into_inner).clear();
        // LOG has the error of a failed close, for which there is no other way out here.
        let _ = self.inner.db().close();
    }
}

impl<T: ThreadMode, D: DBInner> fmt::Debug for DBCommon<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RocksDB {{ path: {} }}", self.path.display())
    }
}

impl<T: ThreadMode, D: DBInner> Source for DBCommon<T, D> {
    fn database(&self) -> &koeldb::Db {
        self.inner.db()
    }
}

impl<T: ThreadMode, D: DBInner> DBAccess for DBCommon<T, D> {}

impl<T: ThreadMode, D: DBInner> DBCommon<T, D> {
    pub(crate) fn db(&self) -> &koeldb::Db {
        self.inner.db()
    }

    read_methods!();
    iterator_methods!();
    write_methods!(self: self.inner.db());
    write_forms! { self: self.inner.db();
        /// Deletes `key`, which was put exactly once since its last single deletion.
        single_delete_opt(key: K), single_delete, single_delete_opt, single_delete_cf,
            single_delete_cf_opt;
    }

    /// Reads the values of `keys` in a column family without copies, in one `MultiGet`.
    ///
    /// `sorted_input` has no effect: keys are sorted by the engine.
    pub fn batched_multi_get_cf<K, I>(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: I,
        sorted_input: bool,
    ) -> Vec<Pinned<'_>>
    where
        K: AsRef<[u8]>,
        I: IntoIterator<Item = K>,
    {
        self.batched_multi_get_cf_opt(cf, keys, sorted_input, &ReadOptions::DEFAULT)
    }

    /// Reads the values of `keys` with read options, in one `MultiGet` without copies.
    pub fn batched_multi_get_cf_opt<K, I>(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: I,
        sorted_input: bool,
        readopts: &ReadOptions,
    ) -> Vec<Pinned<'_>>
    where
        K: AsRef<[u8]>,
        I: IntoIterator<Item = K>,
    {
        let _ = sorted_input;
        let keys: Vec<K> = keys.into_iter().collect();
        batched(self, Some(cf.family()), &keys, readopts)
    }

    /// Checks in memtables and block cache whether a key may exist (`KeyMayExist`).
    ///
    /// Returns any value found there too; `false` is certain.
    fn may_exist(
        &self,
        family: &koeldb::ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
    ) -> (bool, Option<CSlice>) {
        let mut options = match options.checked() {
            Ok(options) => options.clone(),
            Err(_) => return (true, None),
        };
        options.set_read_tier(ReadTier::BlockCache);
        match family.get_opt(key, &options) {
            Ok(None) => (false, None),
            Ok(Some(value)) => (true, Some(CSlice(value))),
            Err(_) => (true, None),
        }
    }

    key_forms! {
        /// Whether `key` may have a value, told without reading files; `false` is certain.
        key_may_exist, key_may_exist_opt, key_may_exist_cf, key_may_exist_cf_opt(
            self, family, key; readopts: &ReadOptions = &ReadOptions::DEFAULT
        ) -> bool {
            self.may_exist(self.family(family), key, readopts).0
        }
    }

    /// Checks whether a key may exist (`KeyMayExist`); also returns the value if it is in memory.
    pub fn key_may_exist_cf_opt_value<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        readopts: &ReadOptions,
    ) -> (bool, Option<CSlice>) {
        self.may_exist(cf.family(), key.as_ref(), readopts)
    }

    /// Returns the sequence number of the latest write.
    pub fn latest_sequence_number(&self) -> u64 {
        self.db().latest_sequence_number()
    }

    /// Returns an iterator over the WAL's write batches after `seq_number` (`GetUpdatesSince`).
    ///
    /// It begins with the oldest log that is left if that of the number was removed.
    pub fn get_updates_since(&self, seq_number: u64) -> Result<DBWALIterator, Error> {
        let mut options = koeldb::TailOptions::new();
        options.set_begins_later(true);
        let first = seq_number.saturating_add(1);
        let updates = self.db().get_updates_since_opt(first, &options)?;
        Ok(DBWALIterator::new(updates, seq_number))
    }
}

impl<T: ThreadMode, D: DBInner> DBCommon<T, D> {
    /// Sets the value of `key` at a timestamp, in the default column family.
    pub fn put_with_ts<K, V, S>(&self, key: K, ts: S, value: V) -> Result<(), Error>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
        S: AsRef<[u8]>,
    {
        self.put_with_ts_opt(key, ts, value, &WriteOptions::default())
    }

    /// Like `put_with_ts`, with options.
    pub fn put_with_ts_opt<K, V, S>(
        &self,
        key: K,
        ts: S,
        value: V,
        writeopts: &WriteOptions,
    ) -> Result<(), Error>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
        S: AsRef<[u8]>,
    {
        let family = self.db().default_cf();
        Ok(family.put_with_ts_opt(key, timestamp(ts)?, value, &writeopts.inner)?)
    }

    /// Sets the value of `key` at a timestamp, in a column family.
    pub fn put_cf_with_ts<K, V, S>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        ts: S,
        value: V,
    ) -> Result<(), Error>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
        S: AsRef<[u8]>,
    {
        self.put_cf_with_ts_opt(cf, key, ts, value, &WriteOptions::default())
    }

    /// Like `put_cf_with_ts`, with options.
    pub fn put_cf_with_ts_opt<K, V, S>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        ts: S,
        value: V,
        writeopts: &WriteOptions,
    ) -> Result<(), Error>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
        S: AsRef<[u8]>,
    {
        let family = cf.family();
        Ok(family.put_with_ts_opt(key, timestamp(ts)?, value, &writeopts.inner)?)
    }

    /// Deletes `key` at a timestamp, in the default column family.
    pub fn delete_with_ts<K: AsRef<[u8]>, S: AsRef<[u8]>>(
        &self,
        key: K,
        ts: S,
    ) -> Result<(), Error> {
        self.delete_with_ts_opt(key, ts, &WriteOptions::default())
    }

    /// Like `delete_with_ts`, with options.
    pub fn delete_with_ts_opt<K: AsRef<[u8]>, S: AsRef<[u8]>>(
        &self,
        key: K,
        ts: S,
        writeopts: &WriteOptions,
    ) -> Result<(), Error> {
        let family = self.db().default_cf();
        Ok(family.delete_with_ts_opt(key, timestamp(ts)?, &writeopts.inner)?)
    }

    /// Deletes `key` at a timestamp, in a column family.
    pub fn delete_cf_with_ts<K: AsRef<[u8]>, S: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        ts: S,
    ) -> Result<(), Error> {
        self.delete_cf_with_ts_opt(cf, key, ts, &WriteOptions::default())
    }

    /// Like `delete_cf_with_ts`, with options.
    pub fn delete_cf_with_ts_opt<K: AsRef<[u8]>, S: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        ts: S,
        writeopts: &WriteOptions,
    ) -> Result<(), Error> {
        let family = cf.family();
        Ok(family.delete_with_ts_opt(key, timestamp(ts)?, &writeopts.inner)?)
    }

    /// Raises the timestamp below which the history of a column family may be collapsed.
    pub fn increase_full_history_ts_low<S: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        ts: S,
    ) -> Result<(), Error> {
        Ok(cf.family().increase_full_history_ts_low(timestamp(ts)?)?)
    }

    /// Returns the timestamp below which history may be collapsed; empty if it never was set.
    pub fn get_full_history_ts_low(&self, cf: &impl AsColumnFamilyRef) -> Result<Vec<u8>, Error> {
        let low = cf.family().full_history_ts_low()?;
        Ok(low.map_or(Vec::new(), Vec::from))
    }
}

impl<T: ThreadMode> DBWithThreadMode<T> {
    batch_methods!(WriteBatch);
    unlocked_methods!(WriteBatch);

    /// Disables file deletions until each call is matched by one of `enable_file_deletions`.
    pub fn disable_file_deletions(&self) -> Result<(), Error> {
        let guard = self.db().disable_file_deletions()?;
        self.deletion_guards().push(guard);
        Ok(())
    }

    /// Undoes one call of `disable_file_deletions`; the last one enables deletions.
    pub fn enable_file_deletions(&self) -> Result<(), Error> {
        let guard = self.deletion_guards().pop();
        drop(guard);
        Ok(())
    }

    /// Locks the list of guards that disable file deletions, one for each call.
    fn deletion_guards(&self) -> MutexGuard<'_, Vec<DeletionGuard>> {
        let guards = self.deletions_disabled.lock();
        guards.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: DBInner> DBCommon<SingleThreaded, D> {
    family_methods!(DBCommon<SingleThreaded, D>, db);
}

impl<D: DBInner> DBCommon<MultiThreaded, D> {
    family_methods!(DBCommon<MultiThreaded, D>, db);
}
