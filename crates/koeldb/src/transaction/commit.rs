//! Commits of optimistic transactions, and the locks of writes outside of transactions.

use std::sync::Arc;
use std::time::Duration;

use koeldb_base::error::WriteOutcome;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};

use super::errors;
use super::locks::{LockId, LockMode, LockTable, Owner};
use super::options::ValidationTier;
use super::tracker::Tracker;
use super::validation::Seen;
use super::waits::{Acquired, Patience, Wanted};
use crate::column_family_data::ColumnFamilyData;
use crate::inner::DbInner;
use crate::options::WriteOptions;
use crate::write::batch::{BatchEntry, WriteBatch};

/// The locks of a write outside of transactions, held until it is dropped.
pub(crate) struct WriteLocks<'d> {
    locks: &'d LockTable,
    owner: Arc<Owner>,
    ids: Vec<LockId>,
}

impl Drop for WriteLocks<'_> {
    fn drop(&mut self) {
        for &id in &self.ids {
            self.locks.release(&self.owner, id);
        }
    }
}

impl DbInner {
    fn live_family(&self, cf: u32) -> Result<Arc<ColumnFamilyData>> {
        let families = self.families.by_id();
        families.get(&cf).cloned().ok_or_else(|| {
            let message = format!("column family {cf} of the transaction was dropped");
            Error::with_kind(ErrorKind::ColumnFamilyDropped, message)
                .with_outcome(WriteOutcome::NotApplied)
        })
    }

    /// Writes a batch if no tracked key has changed, as of its place in the order of commits.
    ///
    /// Keys are checked before the queue, against memtables and tables, up to the visible sequence
    /// number. The leader then checks only what was written since, in memtables.
    pub(super) fn commit_validated(
        self: &Arc<Self>,
        batch: &WriteBatch,
        options: &WriteOptions,
        tracker: &Tracker,
        tier: ValidationTier,
    ) -> Result<SeqNo> {
        if tracker.is_empty() {
            // Log data are records, too, although they do not count.
            if !batch.records().is_empty() {
                self.commit.write(batch, options)?;
            }
            return Ok(self.visibility.seqno());
        }
        let mode = self.commit.check_write(batch, options)?;
        // Read before the memtables, which then have every entry up to it.
        let checked = self.visibility.seqno();
        let mut keys = Vec::new();
        for tracked in tracker.iter() {
            let family = self.live_family(tracked.cf)?;
            let since = tracked.since.unwrap_or(checked);
            if since < checked {
                self.check_unchanged(&family, &tracked.key, since, tier)?;
            }
            keys.push((family, tracked));
        }
        let check_rest = |last_seqno: SeqNo| {
            if last_seqno == checked {
                return Ok(());
            }
            for (family, tracked) in &keys {
                match self.changed_in_memtables(family, &tracked.key, checked)? {
                    Seen::Unchanged => {}
                    Seen::Changed => return Err(errors::conflict(&tracked.key)),
                    Seen::NeedsTables => {
                        self.check_unchanged(family, &tracked.key, checked, tier)?;
                    }
                }
            }
            Ok(())
        };
        let written = self.commit.queue.write_checked(
            &self.commit,
            batch.records(),
            batch.count(),
            mode,
            check_rest,
        );
        if written.is_err() {
            self.health.report_failures();
        }
        written
    }

    /// Locks the keys of a write outside of transactions, if transactions are pessimistic.
    pub(crate) fn lock_keys_of(&self, batch: &WriteBatch) -> Result<Option<WriteLocks<'_>>> {
        let (Some(locks), Some(options)) = (&self.transactions.locks, &self.transactions.options)
        else {
            return Ok(None);
        };
        if options.skip_concurrency_control {
            return Ok(None);
        }
        let mut keys = Vec::with_capacity(batch.len());
        for entry in batch {
            let (cf, key) = match entry? {
                BatchEntry::Put { cf, key, .. }
                | BatchEntry::PutEntity { cf, key, .. }
                | BatchEntry::Delete { cf, key }
                | BatchEntry::SingleDelete { cf, key }
                | BatchEntry::Merge { cf, key, .. } => (cf, key),
                BatchEntry::DeleteRange { .. } => {
                    return Err(Error::not_supported(
                        "a range deletion cannot lock its keys; set skip_concurrency_control in \
                         TransactionDbOptions if no transaction meets it",
                    )
                    .with_outcome(WriteOutcome::NotApplied));
                }
                BatchEntry::LogData(_) => continue,
            };
            keys.push((self.transactions.id_of(cf, key), cf, key));
        }
        // All writes lock in one order, so that they cannot wait for each other in a cycle.
        keys.sort_unstable();
        let mut held = WriteLocks {
            locks,
            owner: Owner::new(self.transactions.new_id(), None),
            ids: Vec::with_capacity(keys.len()),
        };
        let timeout = u64::try_from(options.default_lock_timeout).ok();
        let patience = Patience {
            timeout: timeout.map(Duration::from_millis),
            detect_after: None,
        };
        for (id, cf, key) in keys {
            let wanted = Wanted {
                owner: &held.owner,
                cf,
                key,
                id,
                mode: LockMode::Exclusive,
            };
            if self.take_lock(locks, wanted, patience)? != Acquired::Held {
                held.ids.push(id);
            }
        }
        Ok(Some(held))
    }
}
