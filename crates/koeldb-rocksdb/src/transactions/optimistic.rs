//! Databases whose transactions look for conflicts when they commit.

use std::path::Path;

use super::Transaction;
use crate::access::{batch_methods, unlocked_methods};
use crate::db::{Access, DBInner, named, open};
use crate::{
    ColumnFamilyDescriptor, DBCommon, Error, OptimisticTransactionOptions, Options, ThreadMode,
    WriteBatchWithTransaction, WriteOptions,
};

/// A database with optimistic transactions.
#[cfg(not(feature = "multi-threaded-cf"))]
pub type OptimisticTransactionDB<T = crate::SingleThreaded> =
    DBCommon<T, OptimisticTransactionDBInner>;

/// A database with optimistic transactions.
#[cfg(feature = "multi-threaded-cf")]
pub type OptimisticTransactionDB<T = crate::MultiThreaded> =
    DBCommon<T, OptimisticTransactionDBInner>;

/// The kind of databases with optimistic transactions.
pub struct OptimisticTransactionDBInner {
    db: koeldb::Db,
}

impl DBInner for OptimisticTransactionDBInner {
    fn db(&self) -> &koeldb::Db {
        &self.db
    }
}

impl<T: ThreadMode> OptimisticTransactionDB<T> {
    /// Opens or creates a database with default options.
    pub fn open_default<P: AsRef<Path>>(path: P) -> Result<Self, Error> {
        let mut options = Options::default();
        options.create_if_missing(true);
        Self::open(&options, path)
    }

    /// Opens a database that has only the default column family.
    pub fn open<P: AsRef<Path>>(opts: &Options, path: P) -> Result<Self, Error> {
        Self::open_cf_descriptors(opts, path, [])
    }

    /// Opens a database with these column families, which get default options.
    pub fn open_cf<P, I, N>(opts: &Options, path: P, cfs: I) -> Result<Self, Error>
    where
        P: AsRef<Path>,
        I: IntoIterator<Item = N>,
        N: AsRef<str>,
    {
        Self::open_cf_descriptors(opts, path, named(cfs))
    }

    /// Opens a database with these column families.
    pub fn open_cf_descriptors<P, I>(opts: &Options, path: P, cfs: I) -> Result<Self, Error>
    where
        P: AsRef<Path>,
        I: IntoIterator<Item = ColumnFamilyDescriptor>,
    {
        let path = path.as_ref();
        let opened = open(opts, path, cfs, Access::ReadWrite)?;
        Ok(Self::from_opened(opened, path, |db| {
            OptimisticTransactionDBInner { db }
        }))
    }

    /// Begins a transaction with default options.
    pub fn transaction(&self) -> Transaction<'_, Self> {
        self.transaction_opt(
            &WriteOptions::default(),
            &OptimisticTransactionOptions::default(),
        )
    }

    /// Begins a transaction.
    pub fn transaction_opt(
        &self,
        writeopts: &WriteOptions,
        otxn_opts: &OptimisticTransactionOptions,
    ) -> Transaction<'_, Self> {
        Transaction::new(self.db(), None, &writeopts.inner, &otxn_opts.inner)
    }

    batch_methods!(WriteBatchWithTransaction<true>);
    unlocked_methods!(WriteBatchWithTransaction<true>);
}
