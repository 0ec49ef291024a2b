//! Prepared transactions: prepared, decided, recovered, and carried from log to log.
//!
//! The section of an undecided transaction is in the log that is being written: the thread that
//! begins a log repeats the sections of all undecided transactions in it, and syncs it. So the
//! commit of a section and the section itself are in one log, logs are retained and removed as
//! without transactions, and recovery finds what it needs in the logs of unflushed data.
//!
//! A decision whose record may have reached the log stands: if the log fails, the transaction stays
//! locked until writes resume, which then applies it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use koeldb_base::error::WriteOutcome;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::timestamp::{Timestamp, split};
use koeldb_base::{Error, Result, SeqNo};

use crate::batch::BatchIter;
use crate::commit::key_locks::KeyLocks;
use crate::commit::key_locks::table::{Answer, LockId, LockMode, Owner};
use crate::commit::protocol::{CarriedRecords, CommitPipeline, CommitState};
use crate::commit::sections::Sections;
use crate::commit::two_phase::Section;
use crate::options::WriteOptions;
use crate::state::column_family_set::ColumnFamilySet;

/// The state of a prepared transaction: prepared, committed, rolled back, or in between.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// The prepared section is not in the log yet.
    Preparing,
    /// The transaction is prepared and undecided.
    None,
    /// The transaction is committed, and visible at this sequence number.
    Committed(SeqNo),
    RolledBack,
    /// The commit may be in a failed log.
    CommitStands(StandingCommit),
    /// The rollback may be in a failed log.
    RollbackStands,
}

/// A commit to repeat when writes resume.
#[derive(Clone, Debug)]
pub(crate) struct StandingCommit {
    /// The records that are applied before those of the prepared section.
    pub(crate) before: Vec<u8>,
    /// The records that are applied after those of the prepared section.
    pub(crate) after: Vec<u8>,
    /// The number of operations in `before` and `after`.
    pub(crate) count: u32,
    /// The timestamp of the commit, if it has one.
    pub(crate) timestamp: Option<Timestamp>,
}

/// A prepared transaction of a database.
pub(crate) struct Prepared {
    pub(crate) section: Section,
    /// The options of the transaction, which its commit or rollback also uses.
    pub(crate) write: WriteOptions,
    owner: Arc<Owner>,
    pub(crate) locked: Mutex<Vec<LockId>>,
    decision: Mutex<Decision>,
    /// The user-defined timestamp at which the transaction is to be committed.
    pub(crate) commit_time: Mutex<Option<Timestamp>>,
    /// The lock held while a commit or rollback is decided.
    pub(crate) deciding: Mutex<()>,
}

impl Prepared {
    fn new(
        section: Section,
        write: &WriteOptions,
        owner: &Arc<Owner>,
        locked: Vec<LockId>,
        decision: Decision,
    ) -> Arc<Self> {
        Arc::new(Prepared {
            section,
            write: *write,
            owner: Arc::clone(owner),
            locked: Mutex::new(locked),
            decision: Mutex::new(decision),
            commit_time: Mutex::default(),
            deciding: Mutex::new(()),
        })
    }

    /// The owner of the transaction's locks.
    pub(crate) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// Returns the decision on the transaction.
    pub(crate) fn decision(&self) -> Decision {
        lock(&self.decision).clone()
    }

    /// Sets the decision on the transaction.
    pub(crate) fn set(&self, decision: Decision) {
        *lock(&self.decision) = decision;
    }
}

/// The prepared transactions of a database, by name.
pub(crate) struct PreparedTransactions {
    key_locks: Arc<KeyLocks>,
    entries: Mutex<BTreeMap<Box<[u8]>, Arc<Prepared>>>,
}

impl PreparedTransactions {
    pub(crate) fn new(key_locks: &Arc<KeyLocks>) -> Self {
        PreparedTransactions {
            key_locks: Arc::clone(key_locks),
            entries: Mutex::default(),
        }
    }

    /// Registers a transaction that is about to be prepared under its name, which must be unused.
    ///
    /// The entry holds the locks of the transaction.
    pub(crate) fn reserve(
        &self,
        section: Section,
        write: &WriteOptions,
        owner: &Arc<Owner>,
        locked: Vec<LockId>,
    ) -> Result<Arc<Prepared>> {
        let mut prepared = lock(&self.entries);
        if prepared.contains_key(&section.name) {
            return Err(Error::invalid_argument(format!(
                "there is a prepared transaction '{}'",
                section.name.escape_ascii()
            ))
            .with_outcome(WriteOutcome::NotApplied));
        }
        let entry = Prepared::new(section, write, owner, locked, Decision::Preparing);
        prepared.insert(entry.section.name.clone(), Arc::clone(&entry));
        Ok(entry)
    }

    /// Removes a transaction from the registry and releases its locks.
    pub(crate) fn forget(&self, entry: &Prepared) {
        lock(&self.entries).remove(&entry.section.name);
        if let Some(locks) = &self.key_locks.table {
            for id in lock(&entry.locked).drain(..) {
                locks.release(&entry.owner, id);
            }
        }
    }

    /// Registers the undecided transactions that recovery found, and locks their keys.
    ///
    /// Their options are lost: decisions are synced, as in RocksDB.
    pub(crate) fn adopt(&self, sections: Vec<Section>, families: &ColumnFamilySet) {
        let mut write = WriteOptions::new();
        write.set_sync(true);
        for section in sections {
            let owner = Owner::new(self.key_locks.new_id(), None);
            let mut locked = Vec::new();
            if let Some(locks) = &self.key_locks.table {
                for entry in BatchIter::new(&section.records).flatten() {
                    let (Some(cf), Some(key)) = (entry.family(), entry.key()) else {
                        continue;
                    };
                    // Locks leave the timestamp out, which is not known yet.
                    let key = match families.has_timestamps(cf) {
                        true => split(key).0,
                        false => key,
                    };
                    let id = self.key_locks.id_of(cf, key);
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
            if let Ok(entry) = self.reserve(section, &write, &owner, locked) {
                entry.set(Decision::None);
            }
        }
    }

    /// Replaces a secondary's entries by the transactions undecided in its primary's logs.
    ///
    /// They lock nothing: a secondary has no writes.
    pub(crate) fn follow(&self, undecided: &Sections) {
        let mut entries = lock(&self.entries);
        entries.retain(|name, entry| undecided.section(name) == Some(&entry.section));
        for section in undecided.prepared() {
            entries.entry(section.name.clone()).or_insert_with(|| {
                let owner = Owner::new(self.key_locks.new_id(), None);
                let write = WriteOptions::new();
                Prepared::new(section.clone(), &write, &owner, Vec::new(), Decision::None)
            });
        }
    }

    /// All prepared transactions, by name.
    pub(crate) fn entries(&self) -> Vec<Arc<Prepared>> {
        lock(&self.entries).values().cloned().collect()
    }

    /// Returns the prepared transactions that are neither committed nor rolled back.
    fn undecided(&self) -> Vec<Arc<Prepared>> {
        let mut entries = self.entries();
        entries.retain(|entry| matches!(entry.decision(), Decision::None));
        entries
    }

    /// Applies commits and rollbacks that were decided, but whose log a resume abandons.
    pub(crate) fn apply_standing_decisions(
        &self,
        pipeline: &CommitPipeline,
        commit: &mut CommitState,
    ) -> Result<()> {
        for entry in self.entries() {
            match entry.decision() {
                Decision::CommitStands(standing) => {
                    let has_timestamps = |cf| pipeline.families.has_timestamps(cf);
                    let own = entry
                        .section
                        .records_at(standing.timestamp, has_timestamps)?;
                    let mut records = standing.before;
                    records.extend_from_slice(&own);
                    records.extend_from_slice(&standing.after);
                    let count = standing.count + entry.section.count;
                    let seqno = pipeline.apply_unlogged(commit, &records, count)?;
                    entry.set(Decision::Committed(seqno));
                }
                Decision::RollbackStands => entry.set(Decision::RolledBack),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the committed and rolled back transactions, after a resume has applied them.
    pub(crate) fn forget_decided(&self) {
        for entry in self.entries() {
            if matches!(
                entry.decision(),
                Decision::Committed(_) | Decision::RolledBack
            ) {
                self.forget(&entry);
            }
        }
    }
}

impl CarriedRecords for PreparedTransactions {
    fn carried(&self) -> Vec<(Vec<u8>, u32)> {
        let undecided = self.undecided();
        let again = |entry: &Arc<Prepared>| (entry.section.prepare_again(), entry.section.count);
        undecided.iter().map(again).collect()
    }
}
