//! The locks of a write outside of transactions.

use std::sync::Arc;
use std::time::Duration;

use koeldb_base::error::WriteOutcome;
use koeldb_base::{Error, Result};

use super::KeyLocks;
use super::table::{LockId, LockMode, LockTable, Owner};
use super::waits::{Acquired, Patience, Wanted};
use crate::batch::{BatchEntry, WriteBatch};

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

impl KeyLocks {
    /// Whether transactions are pessimistic.
    #[inline]
    pub(crate) fn are_in_use(&self) -> bool {
        self.table.is_some()
    }

    /// Locks the keys of a write outside of transactions, if transactions are pessimistic.
    pub(crate) fn lock_keys_of(&self, batch: &WriteBatch) -> Result<Option<WriteLocks<'_>>> {
        let (Some(locks), Some(options)) = (&self.table, &self.options) else {
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
                         TransactionDbOptions if no transaction uses the range",
                    )
                    .with_outcome(WriteOutcome::NotApplied));
                }
                BatchEntry::LogData(_) => continue,
            };
            keys.push((self.id_of(cf, key), cf, key));
        }
        // All writes lock in one order, so that they cannot wait for each other in a cycle.
        keys.sort_unstable();
        let mut held = WriteLocks {
            locks,
            owner: Owner::new(self.new_id(), None),
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
