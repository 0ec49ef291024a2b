//! Prepared transactions: prepared, decided, recovered, and carried from log to log.
//!
//! The section of an undecided transaction is in the log that is being written: whoever begins a log
//! repeats the sections of all undecided transactions in it, and syncs it. So the commit of a section
//! and the section itself are in one log, logs are retained and removed as without transactions, and
//! recovery finds what it needs in the logs of unflushed data.
//!
//! A decision whose record may have reached the log stands: if the log fails, the transaction stays
//! locked until writes resume, which then applies it.

use std::fmt;
use std::sync::{Arc, Mutex};

use koeldb_base::error::WriteOutcome;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};

use super::Transactions;
use super::errors;
use super::locks::{Answer, LockId, LockMode, Owner};
use super::marked_write::{DecisionStep, MarkedWrite};
use crate::db::Db;
use crate::inner::DbInner;
use crate::options::WriteOptions;
use crate::write::batch::{BatchIter, WriteBatch};
use crate::write::commit::{CarriedRecords, CommitState};
use crate::write::two_phase::{self, Section};

/// The maximum length of the name of a transaction, in bytes.
const NAME_BYTES_MAX: usize = 512;

/// The state of the decision on a prepared transaction.
#[derive(Clone, Debug)]
enum Decision {
    /// Its section is not in the log yet.
    Preparing,
    None,
    Committed(SeqNo),
    RolledBack,
    /// Its commit may be in a failed log; the operations with it come first.
    CommitStands(Vec<u8>, u32),
    /// Its rollback may be in a failed log.
    RollbackStands,
}

/// A prepared transaction of a database.
pub(super) struct Prepared {
    section: Section,
    owner: Arc<Owner>,
    locked: Mutex<Vec<LockId>>,
    decision: Mutex<Decision>,
    /// Held while a decision is made.
    deciding: Mutex<()>,
}

impl Prepared {
    fn decision(&self) -> Decision {
        lock(&self.decision).clone()
    }

    fn set(&self, decision: Decision) {
        *lock(&self.decision) = decision;
    }
}

impl Transactions {
    /// Reserves a name.
    fn reserve(
        &self,
        section: Section,
        owner: &Arc<Owner>,
        locked: Vec<LockId>,
    ) -> Result<Arc<Prepared>> {
        let mut prepared = lock(&self.prepared);
        if prepared.contains_key(&section.name) {
            return Err(Error::invalid_argument(format!(
                "there is a prepared transaction '{}'",
                section.name.escape_ascii()
            ))
            .with_outcome(WriteOutcome::NotApplied));
        }
        let entry = Arc::new(Prepared {
            owner: Arc::clone(owner),
            locked: Mutex::new(locked),
            decision: Mutex::new(Decision::Preparing),
            deciding: Mutex::new(()),
            section,
        });
        prepared.insert(entry.section.name.clone(), Arc::clone(&entry));
        Ok(entry)
    }

    /// Forgets a transaction and releases its locks.
    fn forget(&self, entry: &Prepared) {
        lock(&self.prepared).remove(&entry.section.name);
        if let Some(locks) = &self.locks {
            for id in lock(&entry.locked).drain(..) {
                locks.release(&entry.owner, id);
            }
        }
    }

    /// Takes over the transactions that recovery found undecided, and locks their keys.
    pub(crate) fn adopt(&self, sections: Vec<Section>) {
        for section in sections {
            let owner = Owner::new(self.new_id(), None);
            let mut locked = Vec::new();
            if let Some(locks) = &self.locks {
                for entry in BatchIter::new(&section.records).flatten() {
                    let (Some(cf), Some(key)) = (entry.family(), entry.key()) else {
                        continue;
                    };
                    let id = self.id_of(cf, key);
                    let now = &|| std::time::Duration::ZERO;
                    match locks.request(&owner, id, LockMode::Exclusive, now, None) {
                        Answer::Held => continue,
                        Answer::Granted => {}
                        // Two transactions that ignored locks own a key together.
                        _ => locks.share(&owner, id),
                    }
                    locked.push(id);
                }
            }
            if let Ok(entry) = self.reserve(section, &owner, locked) {
                entry.set(Decision::None);
            }
        }
    }

    fn entries(&self) -> Vec<Arc<Prepared>> {
        lock(&self.prepared).values().cloned().collect()
    }

    /// The sections that are logged and undecided.
    fn undecided(&self) -> Vec<Arc<Prepared>> {
        let mut entries = self.entries();
        entries.retain(|entry| matches!(entry.decision(), Decision::None));
        entries
    }
}

impl CarriedRecords for Transactions {
    fn carried(&self) -> Vec<(Vec<u8>, u32)> {
        let undecided = self.undecided();
        let again = |entry: &Arc<Prepared>| (entry.section.prepare_again(), entry.section.count);
        undecided.iter().map(again).collect()
    }
}

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

    /// The number of its operations.
    #[must_use]
    pub fn operation_count(&self) -> usize {
        self.entry.section.count as usize
    }

    /// Makes its writes take effect; returns a sequence number at which they are visible.
    ///
    /// # Errors
    /// `InvalidArgument` if it was rolled back; those of [`Db::write_opt`]. If
    /// [`Error::write_outcome`] is not `NotApplied`, the decision stands: the writes take effect when
    /// the database resumes.
    pub fn commit(&self) -> Result<SeqNo> {
        self.commit_with(&WriteBatch::new(), &WriteOptions::new())
    }

    /// Like [`PreparedTransaction::commit`], together with the operations of `batch`, before its own.
    ///
    /// The log is written whatever `disable_wal` says. As in RocksDB, the keys of `batch` are not
    /// locked: it replaces values that other transactions have locked and read, without a conflict.
    /// It is for keys that no other transaction writes, such as the position of a replica.
    ///
    /// # Errors
    /// See [`PreparedTransaction::commit`].
    pub fn commit_with(&self, batch: &WriteBatch, options: &WriteOptions) -> Result<SeqNo> {
        let _deciding = lock(&self.entry.deciding);
        let inner = self.db.inner();
        match self.entry.decision() {
            Decision::Committed(seqno) => return Ok(seqno),
            Decision::None => {}
            other => return Err(standing(&other)),
        }
        let section = &self.entry.section;
        let mut logged = batch.records().to_vec();
        two_phase::put_commit(&mut logged, &section.name);
        let mut applied = batch.records().to_vec();
        applied.extend_from_slice(&section.records);
        let write = MarkedWrite {
            batch,
            logged: &logged,
            applied: &applied,
            taken: section.count + batch.count(),
        };
        let done = inner.write_marked(options, &write, |step| {
            self.entry.set(match step {
                DecisionStep::Logging => {
                    Decision::CommitStands(batch.records().to_vec(), batch.count())
                }
                DecisionStep::Applied(seqno) => Decision::Committed(seqno),
            });
        });
        inner.health.report_failures();
        let seqno = done?;
        inner.transactions.forget(&self.entry);
        Ok(seqno)
    }

    /// Drops its writes.
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
            logged: &logged,
            applied: &[],
            taken: 0,
        };
        let done = inner.write_marked(&WriteOptions::new(), &write, |step| {
            self.entry.set(match step {
                DecisionStep::Logging => Decision::RollbackStands,
                DecisionStep::Applied(_) => Decision::RolledBack,
            });
        });
        inner.health.report_failures();
        done?;
        inner.transactions.forget(&self.entry);
        Ok(())
    }
}

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
    /// A read-only database lists them, too.
    #[must_use]
    pub fn prepared_transactions(&self) -> Vec<PreparedTransaction> {
        let entries = self.inner().transactions.entries().into_iter();
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

/// The parts of a transaction that [`prepare`] takes over.
pub(super) struct ToPrepare<'a> {
    pub(super) db: &'a Db,
    pub(super) name: &'a [u8],
    pub(super) batch: &'a WriteBatch,
    pub(super) write: &'a WriteOptions,
    pub(super) owner: &'a Arc<Owner>,
    pub(super) locked: Vec<LockId>,
}

/// Logs the section of a transaction; on failure its locks stay with the caller.
///
/// The entry has the locks from the beginning: as soon as it is logged, others may decide on it.
pub(super) fn prepare(what: &ToPrepare<'_>) -> Result<PreparedTransaction> {
    let inner = what.db.inner();
    if what.name.is_empty() || what.name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid_argument(format!(
            "the name of a transaction has 1 to {NAME_BYTES_MAX} bytes, this one {}",
            what.name.len()
        ))
        .with_outcome(WriteOutcome::NotApplied));
    }
    if !what.owner.decide(inner.context.clock.now()) {
        return Err(errors::expired());
    }
    let section = Section {
        name: what.name.into(),
        records: what.batch.records().to_vec(),
        count: what.batch.count(),
    };
    let logged = section.prepare();
    let entry = inner
        .transactions
        .reserve(section, what.owner, what.locked.clone())?;
    let done = inner.write_section(what.batch, what.write, &logged, || {
        entry.set(Decision::None);
    });
    inner.health.report_failures();
    if let Err(error) = done {
        lock(&entry.locked).clear();
        inner.transactions.forget(&entry);
        return Err(error);
    }
    Ok(PreparedTransaction {
        db: what.db.clone(),
        entry,
    })
}

impl DbInner {
    /// Applies decisions whose records may be in a log that is given up.
    pub(crate) fn apply_standing_decisions(&self, commit: &mut CommitState) -> Result<()> {
        for entry in self.transactions.entries() {
            match entry.decision() {
                Decision::CommitStands(mut records, count) => {
                    records.extend_from_slice(&entry.section.records);
                    let seqno =
                        self.apply_unlogged(commit, &records, count + entry.section.count)?;
                    entry.set(Decision::Committed(seqno));
                }
                Decision::RollbackStands => entry.set(Decision::RolledBack),
                _ => {}
            }
        }
        Ok(())
    }

    /// Forgets the transactions that were decided as writes resumed.
    pub(crate) fn forget_decided(&self) {
        for entry in self.transactions.entries() {
            if matches!(
                entry.decision(),
                Decision::Committed(_) | Decision::RolledBack
            ) {
                self.transactions.forget(&entry);
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
