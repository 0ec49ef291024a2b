//! Options of transactions and of databases with them.

use crate::options::same;

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
    /// The defaults.
    #[must_use]
    pub fn new() -> TransactionOptions {
        TransactionOptions::default()
    }

    same! {
        /// Whether a commit is permitted without `prepare`; true by default.
        set_skip_prepare(bool);
        /// Takes a snapshot as the transaction begins.
        set_snapshot(bool);
        /// Fails with `Busy` where transactions wait for one another.
        set_deadlock_detect(bool);
        /// Milliseconds to wait for a lock; negative: the option of the database.
        set_lock_timeout(i64);
        /// Milliseconds until the locks of the transaction may be taken by others; negative: never.
        set_expiration(i64);
    }

    /// No effect: the whole graph of waits is searched.
    pub fn set_deadlock_detect_depth(&mut self, depth: i64) {
        let _ = depth;
    }

    /// The maximum bytes of the transaction's writes; 0 for no limit.
    pub fn set_max_write_batch_size(&mut self, size: usize) {
        self.inner.set_max_write_batch_size(size);
    }
}

/// Options of a database with pessimistic transactions.
#[derive(Default)]
pub struct TransactionDBOptions {
    pub(crate) inner: koeldb::TransactionDbOptions,
}

impl TransactionDBOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> TransactionDBOptions {
        TransactionDBOptions::default()
    }

    /// Milliseconds that writes outside of transactions wait for a lock; negative: no limit.
    pub fn set_default_lock_timeout(&mut self, default_lock_timeout: i64) {
        self.inner.set_default_lock_timeout(default_lock_timeout);
    }

    /// Milliseconds that transactions wait for a lock; negative: no limit.
    pub fn set_txn_lock_timeout(&mut self, txn_lock_timeout: i64) {
        self.inner.set_transaction_lock_timeout(txn_lock_timeout);
    }

    /// The maximum number of locks; negative: no limit.
    pub fn set_max_num_locks(&mut self, max_num_locks: i64) {
        self.inner.set_max_num_locks(max_num_locks);
    }

    /// The number of shards of the lock table.
    pub fn set_num_stripes(&mut self, num_stripes: usize) {
        self.inner.set_num_stripes(num_stripes);
    }
}

/// Options of an optimistic transaction.
#[derive(Default)]
pub struct OptimisticTransactionOptions {
    pub(crate) inner: koeldb::TransactionOptions,
}

impl OptimisticTransactionOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> OptimisticTransactionOptions {
        OptimisticTransactionOptions::default()
    }

    /// Takes a snapshot as the transaction begins.
    pub fn set_snapshot(&mut self, snapshot: bool) {
        self.inner.set_snapshot(snapshot);
    }
}
