//! Options of transactions and of databases with them.

use crate::options::{new_by_default, same};

/// Options of a pessimistic transaction.
pub struct TransactionOptions {
    pub(crate) inner: koeldb::TransactionOptions,
}

impl Default for TransactionOptions {
    /// COMPAT: RocksDB looks for deadlocks only if asked to.
    fn default() -> Self {
        let mut inner = koeldb::TransactionOptions::new();
        inner.set_deadlock_detect(false);
        TransactionOptions { inner }
    }
}

impl TransactionOptions {
    new_by_default! {
        /// The defaults.
    }

    same! {
        /// Whether a commit is permitted without `prepare`; true by default.
        set_skip_prepare(bool);
        /// Takes a snapshot as the transaction begins.
        set_snapshot(bool);
        /// Whether waits for locks that form a deadlock fail with `Busy`.
        set_deadlock_detect(bool);
        /// Milliseconds to wait for a lock; negative: the option of the database.
        set_lock_timeout(i64);
        /// The expiration: milliseconds after which others may take its locks; negative: never.
        set_expiration(i64);
        /// The maximum bytes of the transaction's writes; 0 for no limit.
        set_max_write_batch_size(usize);
    }

    /// Has no effect (`deadlock_detect_depth`): the whole wait-for graph is searched.
    pub fn set_deadlock_detect_depth(&mut self, depth: i64) {
        let _ = depth;
    }
}

/// Options of a database with pessimistic transactions.
#[derive(Default)]
pub struct TransactionDBOptions {
    pub(crate) inner: koeldb::TransactionDbOptions,
}

impl TransactionDBOptions {
    new_by_default! {
        /// The defaults.
    }

    same! {
        /// Milliseconds that writes outside of transactions wait for a lock; negative: no limit.
        set_default_lock_timeout(i64);
        /// The maximum number of locks; negative: no limit.
        set_max_num_locks(i64);
        /// The number of shards of the lock table.
        set_num_stripes(usize);
    }

    /// Sets the milliseconds that a transaction waits for a lock; negative is no limit.
    pub fn set_txn_lock_timeout(&mut self, txn_lock_timeout: i64) {
        self.inner.set_transaction_lock_timeout(txn_lock_timeout);
    }
}

/// Options of an optimistic transaction.
#[derive(Default)]
pub struct OptimisticTransactionOptions {
    pub(crate) inner: koeldb::TransactionOptions,
}

impl OptimisticTransactionOptions {
    new_by_default! {
        /// The defaults.
    }

    same! {
        /// Takes a snapshot as the transaction begins.
        set_snapshot(bool);
    }
}
