//! Transactions: optimistic ones, pessimistic ones, and two-phase commit.
//!
//! A [`Transaction`] collects its writes in an indexed batch and commits it as one write. Its keys
//! are *tracked* (`tracker`). An optimistic transaction checks as it commits, in the order of
//! commits, that no tracked key was written meanwhile (`validation`, `commit`). A pessimistic one
//! ([`Options::set_transactions`](crate::Options::set_transactions)) locks each key before it uses
//! it ([`crate::commit::key_locks`]), and keeps its locks until the commit is visible; every other write of
//! such a database locks its keys, too, except for the extra batch of
//! [`PreparedTransaction::commit_with`].
//!
//! Lock order: leadership of the write queue, the map of prepared transactions, shards of the lock
//! table, then the sleeper of a wait. The detector of deadlocks comes before the shards.

mod commit;
mod errors;
mod key_use;
mod prepared;
mod times;
mod tracker;
#[expect(
    clippy::module_inception,
    reason = "the module is named for what it is about, the file for its type"
)]
mod transaction;
mod validation;
mod writes;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use koeldb_base::{Error, Result};

pub use prepared::PreparedTransaction;
pub use transaction::Transaction;

use crate::api::db::Db;
use crate::commit::key_locks::{DeadlockPath, LockInfo};
use crate::options::{TransactionOptions, WriteOptions};
use crate::state::context::Context;

/// The number of times that [`Db::transact`] runs its body.
const ATTEMPTS: u32 = 10;
/// The maximum first pause of [`Db::transact`] between attempts; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_micros(200);

impl Db {
    /// Begins a transaction with default options.
    ///
    /// It is pessimistic if the database was opened with
    /// [`Options::set_transactions`](crate::Options::set_transactions), otherwise optimistic.
    ///
    /// ```
    /// # fn main() -> koeldb::Result<()> {
    /// let db = koeldb::Db::temporary()?;
    /// db.put("stock", "7")?;
    /// let mut transaction = db.transaction();
    /// let stock = transaction.get_for_update("stock")?;
    /// assert_eq!(stock.as_deref(), Some(&b"7"[..]));
    /// transaction.put("stock", "6")?;
    /// transaction.put("sold", "1")?;
    /// transaction.commit()?;
    /// assert_eq!(db.get("stock")?.as_deref(), Some(&b"6"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A conflict fails the commit, or with locks the call that meets it: [`Db::transact`] tries again.
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self, &WriteOptions::new(), &TransactionOptions::new())
    }

    /// Begins a transaction whose commit has the options `write`.
    ///
    /// # Errors
    /// `NotSupported` with `unordered_write`, under which a read may miss a part of a batch;
    /// `ShutdownInProgress` after a close.
    pub fn transaction_opt(
        &self,
        write: &WriteOptions,
        options: &TransactionOptions,
    ) -> Result<Transaction> {
        self.inner().health.check_open()?;
        check_supported(&self.inner().context)?;
        Ok(Transaction::new(self, write, options))
    }

    /// Runs `body` in a transaction and commits it; repeats both after a conflict.
    ///
    /// A conflict is an error of `body` or of the commit that is `Busy`, `TryAgain` or `Expired`,
    /// or `TimedOut` for a lock, with [`WriteOutcome::NotApplied`](crate::WriteOutcome). There are
    /// up to 10 attempts with random, growing pauses between them. The transaction of a failed
    /// attempt is rolled back, so `body` must have no other effects that it cannot repeat.
    ///
    /// ```
    /// # use koeldb::{Db, Env, Options, TransactionOptions};
    /// # fn main() -> koeldb::Result<()> {
    /// # let mut options = Options::new();
    /// # options.create_if_missing(true).set_env(&Env::mem_env());
    /// let db = Db::open(&options, "/transact")?;
    /// let count = db.transact(&TransactionOptions::new(), |transaction| {
    ///     let old = transaction.get_for_update("count")?;
    ///     let count = old.map_or(0, |value| value.len()) + 1;
    ///     transaction.put("count", vec![b'x'; count])?;
    ///     Ok(count)
    /// })?;
    /// assert_eq!(count, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the last attempt; any other error of `body` or of a commit immediately.
    pub fn transact<R>(
        &self,
        options: &TransactionOptions,
        mut body: impl FnMut(&mut Transaction) -> Result<R>,
    ) -> Result<R> {
        let mut attempt = 1;
        loop {
            let mut transaction = self.transaction_opt(&WriteOptions::new(), options)?;
            let done = body(&mut transaction).and_then(|result| {
                transaction.commit()?;
                Ok(result)
            });
            match done {
                Err(error) if errors::is_worth_repeating(&error) && attempt < ATTEMPTS => {
                    self.pause_before(attempt);
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    /// Pauses for a random time that grows with the number of attempts.
    fn pause_before(&self, attempt: u32) {
        let random = RandomState::new().build_hasher().finish() & 0xffff;
        let longest = FIRST_PAUSE * (1 << attempt.min(10));
        let pause = longest * u32::try_from(random).unwrap_or(0) / 0xffff;
        let context = &self.inner().context;
        if !context.env.pool.wait(pause) {
            context.clock.sleep(pause);
        }
    }

    /// Returns the locks that transactions and writes of the database hold at this moment.
    ///
    /// It is empty unless transactions are pessimistic.
    #[must_use]
    pub fn lock_status(&self) -> Vec<LockInfo> {
        let mut all = Vec::new();
        if let Some(locks) = &self.inner().key_locks.table {
            locks.for_each(|mode, holders, queue| {
                all.push(LockInfo {
                    mode,
                    holders,
                    key: queue
                        .first()
                        .map(|wait| (wait.key.cf, wait.key.key.to_vec())),
                    waiting: queue.iter().map(|wait| wait.owner.id).collect(),
                });
            });
        }
        all
    }

    /// The latest deadlocks, newest first; at most `max_num_deadlocks`.
    #[must_use]
    pub fn deadlocks(&self) -> Vec<DeadlockPath> {
        self.inner().key_locks.deadlocks()
    }
}

/// Rejects transactions where their guarantees do not hold.
fn check_supported(context: &Context) -> Result<()> {
    if context.db_options.unordered_write {
        return Err(Error::not_supported(
            "transactions need writes that are visible as a whole; set unordered_write=false",
        ));
    }
    Ok(())
}

/// Refuses a transaction in a TTL database: its batch has no times.
fn refuse_ttl(context: &Context) -> Result<()> {
    match context.table_files.ttl {
        Some(_) => Err(Error::not_supported("a TTL database has no transactions")),
        None => Ok(()),
    }
}
