//! Databases with optimistic transactions, which check for conflicts when they commit.

use super::Transaction;
use crate::db::database_kind;
use crate::methods::{batch_methods, unlocked_methods};
use crate::{
    DBCommon, OptimisticTransactionOptions, ThreadMode, WriteBatchWithTransaction, WriteOptions,
};

/// A database with optimistic transactions.
#[cfg(not(feature = "multi-threaded-cf"))]
pub type OptimisticTransactionDB<T = crate::SingleThreaded> =
    DBCommon<T, OptimisticTransactionDBInner>;

/// A database with optimistic transactions.
#[cfg(feature = "multi-threaded-cf")]
pub type OptimisticTransactionDB<T = crate::MultiThreaded> =
    DBCommon<T, OptimisticTransactionDBInner>;

database_kind! {
    /// The engine's database within an optimistic transaction database.
    OptimisticTransactionDBInner
}

impl<T: ThreadMode> OptimisticTransactionDB<T> {
    /// Begins an optimistic transaction with default options.
    pub fn transaction(&self) -> Transaction<'_, Self> {
        self.transaction_opt(
            &WriteOptions::default(),
            &OptimisticTransactionOptions::default(),
        )
    }

    /// Begins an optimistic transaction with options.
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
