//! Databases whose transactions lock their keys.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::Transaction;
use super::transaction::Undecided;
use crate::access::{Source, iterator_methods, read_database, read_methods, write_methods};
use crate::db::{Access, family_methods, named, open, property, property_int};
use crate::{
    AsColumnFamilyRef, CStrLike, ColumnFamilyDescriptor, DB, DBAccess, Error, FlushOptions,
    MultiThreaded, Options, SingleThreaded, SnapshotWithThreadMode, ThreadMode,
    TransactionDBOptions, TransactionOptions, WriteBatchWithTransaction, WriteOptions,
};

#[cfg(not(feature = "multi-threaded-cf"))]
type DefaultThreadMode = SingleThreaded;
#[cfg(feature = "multi-threaded-cf")]
type DefaultThreadMode = MultiThreaded;

/// A database with pessimistic transactions; every write locks its keys.
pub struct TransactionDB<T: ThreadMode = DefaultThreadMode> {
    families: T,
    db: koeldb::Db,
    path: PathBuf,
    /// Prepared transactions found at open, until they are asked for, and dropped ones.
    prepared: Undecided,
}

impl<T: ThreadMode> Drop for TransactionDB<T> {
    fn drop(&mut self) {
        self.families.drop_all_cfs_internal();
        // LOG has the error of a failed close, for which there is no other way out here.
        let _ = self.db.close();
    }
}

impl<T: ThreadMode> Source for TransactionDB<T> {
    read_database!(self: self.db);
}

impl<T: ThreadMode> DBAccess for TransactionDB<T> {}

impl<T: ThreadMode> TransactionDB<T> {
    /// Opens or creates a database with default options.
    pub fn open_default<P: AsRef<Path>>(path: P) -> Result<Self, Error> {
        let mut options = Options::default();
        options.create_if_missing(true);
        Self::open(&options, &TransactionDBOptions::default(), path)
    }

    /// Opens a database that has only the default column family.
    pub fn open<P: AsRef<Path>>(
        opts: &Options,
        txn_db_opts: &TransactionDBOptions,
        path: P,
    ) -> Result<Self, Error> {
        Self::open_cf_descriptors(opts, txn_db_opts, path, [])
    }

    /// Opens a database with these column families, which get default options.
    pub fn open_cf<P, I, N>(
        opts: &Options,
        txn_db_opts: &TransactionDBOptions,
        path: P,
        cfs: I,
    ) -> Result<Self, Error>
    where
        P: AsRef<Path>,
        I: IntoIterator<Item = N>,
        N: AsRef<str>,
    {
        Self::open_cf_descriptors(opts, txn_db_opts, path, named(cfs))
    }

    /// Opens a database with these column families.
    pub fn open_cf_descriptors<P, I>(
        opts: &Options,
        txn_db_opts: &TransactionDBOptions,
        path: P,
        cfs: I,
    ) -> Result<Self, Error>
    where
        P: AsRef<Path>,
        I: IntoIterator<Item = ColumnFamilyDescriptor>,
    {
        let mut options = opts.clone();
        options.inner.set_transactions(&txn_db_opts.inner);
        let path = path.as_ref();
        let opened = open(&options, path, cfs, Access::ReadWrite)?;
        Ok(TransactionDB {
            families: T::new_cf_map_internal(opened.families),
            prepared: Mutex::new(opened.db.prepared_transactions()),
            db: opened.db,
            path: path.to_path_buf(),
        })
    }

    pub(crate) fn db(&self) -> &koeldb::Db {
        &self.db
    }

    /// Returns the names of the column families of the database at `path`, which may be open.
    pub fn list_cf<P: AsRef<Path>>(opts: &Options, path: P) -> Result<Vec<String>, Error> {
        DB::list_cf(opts, path)
    }

    /// Removes the files of the database at `path`, which must not be open.
    pub fn destroy<P: AsRef<Path>>(opts: &Options, path: P) -> Result<(), Error> {
        DB::destroy(opts, path)
    }

    /// Rebuilds the MANIFEST of the database at `path` from its tables and logs.
    pub fn repair<P: AsRef<Path>>(opts: &Options, path: P) -> Result<(), Error> {
        DB::repair(opts, path)
    }

    /// The directory of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Passes the log to the operating system, and to the device if `sync`.
    pub fn flush_wal(&self, sync: bool) -> Result<(), Error> {
        Ok(self.db.flush_wal(sync)?)
    }

    /// Flushes the **default** column family.
    pub fn flush(&self) -> Result<(), Error> {
        self.flush_opt(&FlushOptions::default())
    }

    /// Like `flush`, with options.
    pub fn flush_opt(&self, flushopts: &FlushOptions) -> Result<(), Error> {
        Ok(self.db.default_cf().flush_opt(&flushopts.inner)?)
    }

    /// Flushes a column family.
    pub fn flush_cf(&self, cf: &impl AsColumnFamilyRef) -> Result<(), Error> {
        self.flush_cf_opt(cf, &FlushOptions::default())
    }

    /// Like `flush_cf`, with options.
    pub fn flush_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        flushopts: &FlushOptions,
    ) -> Result<(), Error> {
        Ok(cf.family().flush_opt(&flushopts.inner)?)
    }

    /// Flushes several column families.
    pub fn flush_cfs_opt(
        &self,
        cfs: &[&impl AsColumnFamilyRef],
        opts: &FlushOptions,
    ) -> Result<(), Error> {
        let families = cfs.iter().map(|cf| cf.family());
        Ok(self.db.flush_cfs(families, &opts.inner)?)
    }

    /// Begins a transaction with default options.
    pub fn transaction(&self) -> Transaction<'_, Self> {
        self.transaction_opt(&WriteOptions::default(), &TransactionOptions::default())
    }

    /// Begins a transaction.
    pub fn transaction_opt<'a>(
        &'a self,
        write_opts: &WriteOptions,
        txn_opts: &TransactionOptions,
    ) -> Transaction<'a, Self> {
        Transaction::new(
            &self.db,
            Some(&self.prepared),
            &write_opts.inner,
            &txn_opts.inner,
        )
    }

    /// Returns the undecided prepared transactions that the open found or that were dropped, once.
    pub fn prepared_transactions(&self) -> Vec<Transaction<'_, Self>> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let recovered = |prepared| Transaction::recovered(&self.db, &self.prepared, prepared);
        prepared.drain(..).map(recovered).collect()
    }

    read_methods!();
    iterator_methods!();
    write_methods!(self: self.db);

    /// Applies a batch, whose keys are locked meanwhile.
    pub fn write(&self, batch: WriteBatchWithTransaction<true>) -> Result<(), Error> {
        self.write_opt(batch, &WriteOptions::default())
    }

    /// Like `write`, with options.
    pub fn write_opt(
        &self,
        batch: WriteBatchWithTransaction<true>,
        writeopts: &WriteOptions,
    ) -> Result<(), Error> {
        Ok(self.db.write_opt(batch.checked()?, &writeopts.inner)?)
    }

    /// Takes a snapshot.
    pub fn snapshot(&self) -> SnapshotWithThreadMode<'_, Self> {
        SnapshotWithThreadMode::new(self)
    }
}

impl TransactionDB<SingleThreaded> {
    family_methods!(TransactionDB<SingleThreaded>, db);
}

/// COMPAT: the properties are only here, because programs infer the mode from that.
impl TransactionDB<MultiThreaded> {
    family_methods!(TransactionDB<MultiThreaded>, db);

    /// Returns a property of the default column family; `None` for unknown names.
    pub fn property_value(&self, name: impl CStrLike) -> Result<Option<String>, Error> {
        property(self.db.default_cf(), name)
    }

    /// Returns a numeric property of the default column family; a text is an error.
    pub fn property_int_value(&self, name: impl CStrLike) -> Result<Option<u64>, Error> {
        property_int(self.db.default_cf(), name)
    }
}
