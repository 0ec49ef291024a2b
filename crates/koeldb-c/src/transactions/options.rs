//! Options of transactions and of their databases.
//!
//! Those that the engine does not have are kept for their getters: they change how RocksDB stores
//! or locks, not what it answers.

/// Declares setters and getters of the engine's options (`engine`) or of own fields (`kept`).
macro_rules! options {
    ($type:ident: engine $($kind:ty, $set:ident, $get:ident;)*) => {
        impl $type {$(
            pub(crate) fn $set(&mut self, value: $kind) {
                self.inner.$set(value);
            }

            pub(crate) fn $get(&self) -> $kind {
                self.inner.$get()
            }
        )*}
    };
    ($type:ident: kept $($field:ident: $kind:ty, $set:ident;)*) => {
        impl $type {$(
            pub(crate) fn $set(&mut self, value: $kind) {
                self.$field = value;
            }

            pub(crate) fn $field(&self) -> $kind {
                self.$field
            }
        )*}
    };
}

/// The options of a database with pessimistic transactions (`rocksdb_transactiondb_options_t`).
#[derive(Clone)]
pub(crate) struct DbOptions {
    pub(crate) inner: koeldb::TransactionDbOptions,
    write_policy: i32,
    rollback_merge_operands: bool,
    per_key_locks: bool,
    flush_threshold: i64,
    bypass_threshold: u32,
}

impl Default for DbOptions {
    fn default() -> Self {
        let mut inner = koeldb::TransactionDbOptions::new();
        inner.set_num_stripes(16);
        DbOptions {
            inner,
            write_policy: 0,
            rollback_merge_operands: false,
            per_key_locks: false,
            flush_threshold: 0,
            bypass_threshold: u32::MAX,
        }
    }
}

options! { DbOptions: engine
    i64, set_transaction_lock_timeout, get_transaction_lock_timeout;
    i64, set_default_lock_timeout, get_default_lock_timeout;
    i64, set_max_num_locks, get_max_num_locks;
    u32, set_max_num_deadlocks, get_max_num_deadlocks;
    usize, set_num_stripes, get_num_stripes;
    bool, set_skip_concurrency_control, get_skip_concurrency_control;
    bool, set_enable_udt_validation, get_enable_udt_validation;
}

options! { DbOptions: kept
    write_policy: i32, set_write_policy;
    rollback_merge_operands: bool, set_rollback_merge_operands;
    per_key_locks: bool, set_per_key_locks;
    flush_threshold: i64, set_flush_threshold;
    bypass_threshold: u32, set_bypass_threshold;
}

/// The options of a pessimistic transaction (`rocksdb_transaction_options_t`).
#[derive(Clone)]
pub(crate) struct TransactionOptions {
    pub(crate) inner: koeldb::TransactionOptions,
    last_batch_for_recovery: bool,
    /// The engine follows waits to their end, however many there are.
    detect_depth: i64,
    flush_threshold: i64,
    track_timestamp_size: bool,
    bypass_memtable: bool,
    large_threshold: u32,
    large_byte_threshold: u64,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        let mut inner = koeldb::TransactionOptions::new();
        inner.set_deadlock_detect(false);
        TransactionOptions {
            inner,
            last_batch_for_recovery: false,
            detect_depth: 50,
            flush_threshold: -1,
            track_timestamp_size: false,
            bypass_memtable: false,
            large_threshold: 0,
            large_byte_threshold: 0,
        }
    }
}

options! { TransactionOptions: engine
    bool, set_snapshot, get_snapshot;
    i64, set_lock_timeout, get_lock_timeout;
    i64, set_expiration, get_expiration;
    bool, set_deadlock_detect, get_deadlock_detect;
    usize, set_max_write_batch_size, get_max_write_batch_size;
    bool, set_skip_concurrency_control, get_skip_concurrency_control;
    bool, set_skip_prepare, get_skip_prepare;
}

options! { TransactionOptions: kept
    last_batch_for_recovery: bool, set_last_batch_for_recovery;
    detect_depth: i64, set_detect_depth;
    flush_threshold: i64, set_flush_threshold;
    track_timestamp_size: bool, set_track_timestamp_size;
    bypass_memtable: bool, set_bypass_memtable;
    large_threshold: u32, set_large_threshold;
    large_byte_threshold: u64, set_large_byte_threshold;
}

impl TransactionOptions {
    /// Sets how long a thread waits before it looks for a deadlock; negative means not at all.
    pub(crate) fn set_deadlock_timeout_us(&mut self, micros: i64) {
        let micros = u64::try_from(micros).unwrap_or(0);
        self.inner.set_deadlock_timeout_us(micros);
    }

    /// Returns how long a thread waits before it looks for a deadlock.
    pub(crate) fn deadlock_timeout_us(&self) -> u64 {
        self.inner.get_deadlock_timeout_us()
    }
}

/// The options of an optimistic transaction (`rocksdb_optimistictransaction_options_t`).
#[derive(Clone, Default)]
pub(crate) struct OptimisticOptions {
    pub(crate) inner: koeldb::TransactionOptions,
}

options! { OptimisticOptions: engine
    bool, set_snapshot, get_snapshot;
}

/// The options of a database with optimistic transactions.
///
/// The engine has no locks of buckets: a commit checks its keys in the order of writes.
#[derive(Clone)]
pub(crate) struct OptimisticDbOptions {
    validate_policy: i32,
    lock_buckets: u32,
}

impl Default for OptimisticDbOptions {
    fn default() -> Self {
        OptimisticDbOptions {
            validate_policy: 1,
            lock_buckets: 1 << 20,
        }
    }
}

options! { OptimisticDbOptions: kept
    validate_policy: i32, set_validate_policy;
    lock_buckets: u32, set_lock_buckets;
}

/// Lock buckets to share among databases, of which the engine has none.
pub(crate) struct LockBuckets(());

impl LockBuckets {
    pub(crate) fn create(_: usize, _: bool) -> Self {
        LockBuckets(())
    }

    /// Returns the memory of the object, without buckets.
    pub(crate) fn memory_usage(&self) -> usize {
        size_of::<crate::handle::Handle<LockBuckets>>()
    }
}
