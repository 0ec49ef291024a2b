//! The options of transactions, with RocksDB's names and defaults.

use super::accessors::accessors;
use super::db::Options;

/// Options of a database whose transactions lock keys: see [`Options::set_transactions`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransactionDbOptions {
    pub(crate) transaction_lock_timeout: i64,
    pub(crate) default_lock_timeout: i64,
    pub(crate) max_num_locks: i64,
    pub(crate) max_num_deadlocks: u32,
    pub(crate) num_stripes: usize,
    pub(crate) skip_concurrency_control: bool,
    pub(crate) enable_udt_validation: bool,
}

impl Default for TransactionDbOptions {
    fn default() -> Self {
        TransactionDbOptions {
            transaction_lock_timeout: 1000,
            default_lock_timeout: 1000,
            max_num_locks: -1,
            max_num_deadlocks: 5,
            num_stripes: 128,
            skip_concurrency_control: false,
            enable_udt_validation: true,
        }
    }
}

impl TransactionDbOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    accessors! {
        /// Sets how long a transaction waits for a lock, in milliseconds; 0: not at all, negative:
        /// without limit. Default: 1000.
        transaction_lock_timeout: i64, set_transaction_lock_timeout, get_transaction_lock_timeout;
        /// Sets how long a write outside of transactions waits for its locks, in milliseconds.
        /// Default: 1000.
        default_lock_timeout: i64, set_default_lock_timeout, get_default_lock_timeout;
        /// Sets the maximum number of locks held; negative: no limit. Default: -1.
        max_num_locks: i64, set_max_num_locks, get_max_num_locks;
        /// Sets the number of deadlocks that are remembered for
        /// [`Db::deadlocks`](crate::Db::deadlocks). Default: 5.
        max_num_deadlocks: u32, set_max_num_deadlocks, get_max_num_deadlocks;
        /// Sets the number of shards of the lock table, rounded up to a power of two. Default: 128.
        num_stripes: usize, set_num_stripes, get_num_stripes;
        /// Sets whether writes outside of transactions take no locks; they must then not conflict
        /// with transactions. Default: false.
        skip_concurrency_control: bool, set_skip_concurrency_control, get_skip_concurrency_control;
        /// Sets whether transactions validate keys with user-defined timestamps by their read
        /// timestamp
        /// ([`Transaction::set_read_timestamp_for_validation`](crate::Transaction::set_read_timestamp_for_validation)).
        /// Default: true.
        enable_udt_validation: bool, set_enable_udt_validation, get_enable_udt_validation;
    }
}

/// Where the commit of an optimistic transaction looks for conflicting writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValidationTier {
    /// In memtables and, if these do not reach back far enough, in tables. The default.
    #[default]
    All,
    /// In memtables alone: the commit fails with `TryAgain` if these do not reach back far enough.
    ///
    /// In either tier, a file that is ingested meanwhile without `snapshot_consistency` may get no
    /// sequence number; its keys then are no conflicts.
    Memtable,
}

/// Options of a transaction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransactionOptions {
    pub(crate) set_snapshot: bool,
    pub(crate) lock_timeout: i64,
    pub(crate) expiration: i64,
    pub(crate) deadlock_detect: bool,
    pub(crate) deadlock_timeout_us: u64,
    pub(crate) max_write_batch_size: usize,
    pub(crate) skip_concurrency_control: bool,
    pub(crate) skip_prepare: bool,
    pub(crate) validation_tier: ValidationTier,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        TransactionOptions {
            set_snapshot: false,
            lock_timeout: -1,
            expiration: -1,
            deadlock_detect: true,
            deadlock_timeout_us: 500,
            max_write_batch_size: 0,
            skip_concurrency_control: false,
            skip_prepare: true,
            validation_tier: ValidationTier::All,
        }
    }
}

impl TransactionOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    accessors! {
        /// Sets whether the transaction sets a snapshot as it begins. Default: false.
        set_snapshot: bool, set_snapshot, get_snapshot;
        /// Sets how long the transaction waits for a lock, in milliseconds; 0: not at all, negative:
        /// `transaction_lock_timeout`. Default: -1.
        lock_timeout: i64, set_lock_timeout, get_lock_timeout;
        /// Sets the milliseconds after which others may take the transaction's locks; it then fails
        /// with `Expired`. Negative: never. Default: -1.
        expiration: i64, set_expiration, get_expiration;
        /// Sets whether the transaction looks for deadlocks when it waits for a lock. Default: true.
        deadlock_detect: bool, set_deadlock_detect, get_deadlock_detect;
        /// Sets the microseconds that a thread waits before it looks for a deadlock; a future looks
        /// immediately. Default: 500.
        deadlock_timeout_us: u64, set_deadlock_timeout_us, get_deadlock_timeout_us;
        /// Sets the maximum size of the transaction's batch in bytes; 0: no limit of its own.
        /// Default: 0.
        max_write_batch_size: usize, set_max_write_batch_size, get_max_write_batch_size;
        /// Sets whether the transaction takes no locks and checks nothing: for writes that cannot
        /// conflict with others, as a replica applies. Default: false.
        skip_concurrency_control: bool, set_skip_concurrency_control, get_skip_concurrency_control;
        /// Sets whether a commit without `prepare` is permitted. Default: true.
        skip_prepare: bool, set_skip_prepare, get_skip_prepare;
        /// Sets where an optimistic commit looks for conflicts. Default: [`ValidationTier::All`].
        validation_tier: ValidationTier, set_validation_tier, get_validation_tier;
    }
}

impl Options {
    /// Makes the transactions of the database pessimistic: every write of every handle locks its
    /// keys.
    ///
    /// Locks are on the bytes of keys: a transaction fails with `NotSupported` where it uses a key of a
    /// column family whose comparator does not declare
    /// [`permits_hashes`](crate::Comparator::permits_hashes). The open fails with `unordered_write`.
    /// The batch of [`PreparedTransaction::commit_with`](crate::PreparedTransaction::commit_with)
    /// locks nothing.
    ///
    /// It permits two-phase commit, too. RocksDB calls such a database a `TransactionDB`, and one
    /// without this setting an `OptimisticTransactionDB`.
    ///
    /// Default: none, so that transactions are optimistic.
    pub fn set_transactions(&mut self, options: &TransactionDbOptions) -> &mut Self {
        self.plugins.transactions = Some(options.clone());
        self
    }

    /// The options of pessimistic transactions, if set.
    #[must_use]
    pub fn get_transactions(&self) -> Option<&TransactionDbOptions> {
        self.plugins.transactions.as_ref()
    }
}
