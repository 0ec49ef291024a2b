//! Databases with pessimistic transactions, which lock their keys.

use std::path::{Path, PathBuf};

use super::Transaction;
use super::transaction::Shared;
use crate::access::Source;
use crate::db::{Access, family_methods, named, open, property, property_int};
use crate::methods::{batch_methods, flush_methods, iterator_methods, read_methods, write_methods};
use crate::{
    CStrLike, ColumnFamilyDescriptor, DBAccess, Error, MultiThreaded, Options, SingleThreaded,
    ThreadMode, TransactionDBOptions, TransactionOptions, WriteBatchWithTransaction, WriteOptions,
};

#[cfg(not(feature = "multi-threaded-cf"))]
type DefaultThreadMode = SingleThreaded;
#[cfg(feature = "multi-threaded-cf")]
type DefaultThreadMode = MultiThreaded;

/// A database with pessimistic transactions, in which every write locks its keys.
pub struct TransactionDB<T: ThreadMode = DefaultThreadMode> {
    families: T,
    db: koeldb::Db,
    path: PathBuf,
    shared: Shared,
}

impl<T: ThreadMode> Drop for TransactionDB<T> {
    fn drop(&mut self) {
        self.families.drop_all_cfs_internal();
        // LOG has the error of a failed close, for which there is no other way out here.
        let _ = self.db.close();
    }
}

impl<T: ThreadMode> Source for TransactionDB<T> {
    fn database(&self) -> &koeldb::Db {
        &self.db
    }
}

impl<T: ThreadMode> DBAccess for TransactionDB<T> {}

impl<T: ThreadMode> TransactionDB<T> {
    /// Opens or creates a database with default options.
    pub fn open_default<P: AsRef<Path>>(path: P) -> Result<Self, Error> {
        let mut options = Options::default();
        options.create_if_missing(true);
        Self::open(&options, &TransactionDBOptions::default(), path)
    }

    /// Opens a transaction database with only the default column family.
    pub fn open<P: AsRef<Path>>(
        opts: &Options,
        txn_db_opts: &TransactionDBOptions,
        path: P,
    ) -> Result<Self, Error> {
        Self::open_cf_descriptors(opts, txn_db_opts, path, [])
    }

    /// Opens a transaction database with the named column families, which get default options.
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

    /// Opens a transaction database with column families and their options.
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
            shared: Shared::new(opened.db.prepared_transactions()),
            db: opened.db,
            path: path.to_path_buf(),
        })
    }

    /// Returns the engine's database.
    pub(crate) fn db(&self) -> &koeldb::Db {
        &self.db
    }

    flush_methods!();

    /// Begins a pessimistic transaction with default options.
    pub fn transaction(&self) -> Transaction<'_, Self> {
        self.transaction_opt(&WriteOptions::default(), &TransactionOptions::default())
    }

    /// Begins a pessimistic transaction with options.
    pub fn transaction_opt<'a>(
        &'a self,
        write_opts: &WriteOptions,
        txn_opts: &TransactionOptions,
    ) -> Transaction<'a, Self> {
        Transaction::new(
            &self.db,
            Some(&self.shared),
            &write_opts.inner,
            &txn_opts.inner,
        )
    }

    /// Returns the prepared transactions found by recovery or whose handle was dropped, each once.
    pub fn prepared_transactions(&self) -> Vec<Transaction<'_, Self>> {
        let undecided = self.shared.take_undecided();
        let recovered = |prepared| Transaction::recovered(&self.db, &self.shared, prepared);
        undecided.iter().map(recovered).collect()
    }

    read_methods!();
    iterator_methods!();
    write_methods!(self: self.db);

    batch_methods!(WriteBatchWithTransaction<true>);
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

    /// Returns an integer property of the default column family; a text property is an error.
    pub fn property_int_value(&self, name: impl CStrLike) -> Result<Option<u64>, Error> {
        property_int(self.db.default_cf(), name)
    }
}
