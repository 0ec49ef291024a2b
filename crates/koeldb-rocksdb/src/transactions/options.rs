//! Options of transactions and of databases with them.

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

    /// Whether a commit is permitted without `prepare`; true by default.
    pub fn set_skip_prepare(&mut self, skip_prepare: bool) {
        self.inner.set_skip_prepare(skip_prepare);
    }

    /// Takes a snapshot as the transaction begins.
    pub fn set_snapshot(&mut self, snapshot: bool) {
        self.inner.set_snapshot(snapshot);
    }

    /// Fails with `Busy` where transactions wait for one another.
    pub fn set_deadlock_detect(&mut self, deadlock_detect: bool) {
        self.inner.set_deadlock_detect(deadlock_detect);
    }

    /// Milliseconds to wait for a lock; negative: the option of the database.
    pub fn set_lock_timeout(&mut self, lock_timeout: i64) {
        self.inner.set_lock_timeout(lock_timeout);
    }

    /// Milliseconds until the locks of the transaction may be taken by others; negative: never.
    pub fn set_expiration(&mut self, expiration: i64) {
        self.inner.set_expiration(expiration);
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
