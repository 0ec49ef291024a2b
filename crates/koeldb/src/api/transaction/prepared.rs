//! The handle of a prepared transaction, which commits it or rolls it back.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use koeldb_base::error::WriteOutcome;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result, SeqNo, Timestamp};

use super::transaction::Transaction;
use crate::api::db::Db;
use crate::batch::WriteBatch;
use crate::commit::key_locks::errors::expired;
use crate::commit::key_locks::table::{LockId, Owner};
use crate::commit::marked_write::{DecisionStep, MarkedWrite};
use crate::commit::prepared::{Decision, Prepared, StandingCommit};
use crate::commit::two_phase::{self, Section};
use crate::options::WriteOptions;

/// The maximum length of the name of a transaction, in bytes.
const NAME_BYTES_MAX: usize = 512;

/// A prepared transaction, to be committed or rolled back.
///
/// It is a handle to a transaction of the database: dropping it decides nothing, and an undecided one
/// survives a close or a crash ([`Db::prepared_transactions`]). Its keys stay locked until then. A
/// decision that was not applied can be made again; the same decision again does nothing.
#[derive(Clone)]
pub struct PreparedTransaction {
    db: Db,
    entry: Arc<Prepared>,
}

impl PreparedTransaction {
    /// The name given to [`Transaction::prepare`](crate::Transaction::prepare).
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.entry.section.name
    }

    /// The number of operations of the transaction.
    #[must_use]
    pub fn operation_count(&self) -> usize {
        self.entry.section.count as usize
    }

    /// Creates a transaction that reads the prepared writes, adds others and commits all of them.
    ///
    /// It is like the one that [`Transaction::prepare_in_place`](crate::Transaction::prepare_in_place)
    /// leaves, for a prepared transaction that recovery found.
    ///
    /// # Errors
    /// `ColumnFamilyDropped` if the transaction wrote to a column family that does not exist any
    /// more; `Corruption` if its operations are malformed.
    pub fn to_transaction(&self) -> Result<Transaction> {
        Transaction::of_prepared(self)
    }

    /// The id of the transaction's lock owner, its write options, and its database.
    pub(super) fn parts(&self) -> (&Arc<Owner>, &WriteOptions, &Db) {
        (self.entry.owner(), &self.entry.write, &self.db)
    }

    /// The locks that the decision on the transaction releases.
    pub(super) fn locked(&self) -> HashSet<LockId> {
        lock(&self.entry.locked).iter().copied().collect()
    }

    /// A copy of the operations of the transaction.
    #[must_use]
    pub fn batch(&self) -> WriteBatch {
        let section = &self.entry.section;
        WriteBatch::from_records(&section.records, section.count)
    }

    /// Sets the user-defined timestamp at which the transaction is committed.
    ///
    /// See [`Transaction::set_commit_timestamp`](crate::Transaction::set_commit_timestamp), which
    /// sets it before the transaction is prepared. It is not in the log before the commit: set it
    /// again for a transaction that a recovery found.
    ///
    /// # Errors
    /// `InvalidArgument` for the largest number.
    pub fn set_commit_timestamp(&self, timestamp: u64) -> Result<()> {
        let time = super::times::stored(timestamp)?;
        *lock(&self.entry.commit_time) = Some(time);
        Ok(())
    }

    /// Returns the timestamp of the commit, if the transaction needs one.
    fn commit_time(&self) -> Result<Option<Timestamp>> {
        let families = &self.db.inner().commit.families;
        if !self
            .entry
            .section
            .is_dated(|cf| families.has_timestamps(cf))?
        {
            return Ok(None);
        }
        let time = *lock(&self.entry.commit_time);
        time.map(Some).ok_or_else(super::times::no_commit_timestamp)
    }

    /// Commits the transaction; returns a sequence number at which its writes are visible.
    ///
    /// Syncs the log if the options of the transaction say so, or if recovery found it.
    ///
    /// # Errors
    /// `InvalidArgument` if it was rolled back, or if keys have user-defined timestamps and no
    /// [`PreparedTransaction::set_commit_timestamp`] was called; those of [`Db::write_opt`]. If
    /// [`Error::write_outcome`] is not `NotApplied`, the decision stands: the writes take effect when
    /// the database resumes.
    pub fn commit(&self) -> Result<SeqNo> {
        self.commit_with(&WriteBatch::new(), &self.entry.write)
    }

    /// Commits the transaction with `batch`, which is applied before the transaction's operations.
    ///
    /// The log is written regardless of `disable_wal`. As in RocksDB, the keys of `batch` are not
    /// locked: it replaces values that other transactions have locked and read, without a conflict.
    /// It is for keys that no other transaction writes, such as the position of a replica.
    ///
    /// # Errors
    /// See [`PreparedTransaction::commit`].
    pub fn commit_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<SeqNo> {
        self.commit_between(batch, &WriteBatch::new(), &[], options)
    }

    /// Commits the transaction with `later`, which is applied after the transaction's operations.
    ///
    /// The decision, once it stands, releases the `locks` of `later`, too.
    pub(super) fn commit_then(&self, later: &WriteBatch, locks: &[LockId]) -> Result<SeqNo> {
        self.commit_between(&WriteBatch::new(), later, locks, &self.entry.write)
    }

    /// Commits the transaction's operations between those of two batches.
    fn commit_between(
        &self,
        batch: &WriteBatch,
        later: &WriteBatch,
        locks: &[LockId],
        options: &WriteOptions,
    ) -> Result<SeqNo> {
        let _deciding = lock(&self.entry.deciding);
        let inner = self.db.inner();
        match self.entry.decision() {
            Decision::Committed(seqno) if later.is_empty() => return Ok(seqno),
            Decision::None => {}
            other => return Err(standing(&other)),
        }
        let section = &self.entry.section;
        let time = self.commit_time()?;
        let mut logged = batch.records().to_vec();
        match &time {
            Some(time) => two_phase::put_commit_at(&mut logged, &section.name, time),
            None => two_phase::put_commit(&mut logged, &section.name),
        }
        logged.extend_from_slice(later.records());
        let mut applied = batch.records().to_vec();
        let families = &inner.commit.families;
        let own = section.records_at(time, |cf| families.has_timestamps(cf))?;
        applied.extend_from_slice(&own);
        applied.extend_from_slice(later.records());
        let count = batch.count() + later.count();
        let write = MarkedWrite {
            batch,
            later,
            logged: &logged,
            applied: &applied,
            taken: section.count + count,
        };
        let held = {
            let mut locked = lock(&self.entry.locked);
            let held = locked.len();
            locked.extend_from_slice(locks);
            held
        };
        let done = inner.commit.write_marked(options, &write, |step| {
            self.entry.set(match step {
                DecisionStep::Logging => Decision::CommitStands(StandingCommit {
                    before: batch.records().to_vec(),
                    after: later.records().to_vec(),
                    count,
                    timestamp: time,
                }),
                DecisionStep::Applied(seqno) => Decision::Committed(seqno),
            });
        });
        if matches!(self.entry.decision(), Decision::None) {
            lock(&self.entry.locked).truncate(held);
        }
        inner.health.report_failures();
        let seqno = done?;
        inner.prepared.forget(&self.entry);
        Ok(seqno)
    }

    /// Rolls the transaction back: logs that decision, drops its writes and releases its locks.
    ///
    /// Syncs the log under the conditions of [`PreparedTransaction::commit`].
    ///
    /// # Errors
    /// `InvalidArgument` if it was committed; those of [`Db::write_opt`]. If
    /// [`Error::write_outcome`] is not `NotApplied`, the decision stands.
    pub fn rollback(&self) -> Result<()> {
        let _deciding = lock(&self.entry.deciding);
        let inner = self.db.inner();
        match self.entry.decision() {
            Decision::RolledBack => return Ok(()),
            Decision::None => {}
            other => return Err(standing(&other)),
        }
        let logged = two_phase::rollback(&self.entry.section.name);
        let write = MarkedWrite {
            batch: &WriteBatch::new(),
            later: &WriteBatch::new(),
            logged: &logged,
            applied: &[],
            taken: 0,
        };
        let done = inner
            .commit
            .write_marked(&self.entry.write, &write, |step| {
                self.entry.set(match step {
                    DecisionStep::Logging => Decision::RollbackStands,
                    DecisionStep::Applied(_) => Decision::RolledBack,
                });
            });
        inner.health.report_failures();
        done?;
        inner.prepared.forget(&self.entry);
        Ok(())
    }
}

/// Returns the error of a commit or rollback that contradicts the transaction's `decision`.
fn standing(decision: &Decision) -> Error {
    let (kind, what) = match decision {
        Decision::Committed(_) => (ErrorKind::InvalidArgument, "was committed"),
        Decision::RolledBack => (ErrorKind::InvalidArgument, "was rolled back"),
        Decision::CommitStands(..) => (ErrorKind::Busy, "is committed as soon as writes resume"),
        Decision::RollbackStands => (ErrorKind::Busy, "is rolled back as soon as writes resume"),
        Decision::Preparing | Decision::None => (ErrorKind::Busy, "is not prepared yet"),
    };
    Error::with_kind(kind, format!("the transaction {what}")).with_outcome(WriteOutcome::NotApplied)
}

impl fmt::Debug for PreparedTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PreparedTransaction({})", self.name().escape_ascii())
    }
}

impl Db {
    /// The prepared transactions that are neither committed nor rolled back, by name.
    ///
    /// A read-only database and a secondary list them, too.
    #[must_use]
    pub fn prepared_transactions(&self) -> Vec<PreparedTransaction> {
        let entries = self.inner().prepared.entries().into_iter();
        let is_logged = |entry: &Arc<Prepared>| !matches!(entry.decision(), Decision::Preparing);
        entries
            .filter(is_logged)
            .map(|entry| PreparedTransaction {
                db: self.clone(),
                entry,
            })
            .collect()
    }

    /// The undecided prepared transaction of this name.
    #[must_use]
    pub fn prepared_transaction(&self, name: impl AsRef<[u8]>) -> Option<PreparedTransaction> {
        let mut all = self.prepared_transactions().into_iter();
        all.find(|transaction| transaction.name() == name.as_ref())
    }
}

/// The parts of a transaction to prepare: the arguments of [`prepare`].
pub(super) struct ToPrepare<'a> {
    pub(super) db: &'a Db,
    pub(super) name: &'a [u8],
    pub(super) batch: &'a WriteBatch,
    pub(super) write: &'a WriteOptions,
    pub(super) owner: &'a Arc<Owner>,
    pub(super) locked: Vec<LockId>,
    pub(super) commit_time: Option<Timestamp>,
}

/// Prepares a transaction: registers it under its name and logs its prepared section.
///
/// On failure its locks stay with the caller.
///
/// The entry has the locks from the beginning: as soon as it is logged, others may decide on it.
pub(super) fn prepare(what: &ToPrepare<'_>) -> Result<PreparedTransaction> {
    let inner = what.db.inner();
    if what.name.is_empty() || what.name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid_argument(format!(
            "the name of a transaction must have 1 to {NAME_BYTES_MAX} bytes, this one has {}",
            what.name.len()
        ))
        .with_outcome(WriteOutcome::NotApplied));
    }
    if !what.owner.decide(inner.context.clock.now()) {
        return Err(expired());
    }
    let section = Section {
        name: what.name.into(),
        records: what.batch.records().to_vec(),
        count: what.batch.count(),
    };
    let logged = section.prepare();
    let entry = inner
        .prepared
        .reserve(section, what.write, what.owner, what.locked.clone())?;
    *lock(&entry.commit_time) = what.commit_time;
    let done = inner
        .commit
        .write_section(what.batch, what.write, &logged, || {
            entry.set(Decision::None);
        });
    inner.health.report_failures();
    if let Err(error) = done {
        lock(&entry.locked).clear();
        inner.prepared.forget(&entry);
        return Err(error);
    }
    Ok(PreparedTransaction {
        db: what.db.clone(),
        entry,
    })
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
