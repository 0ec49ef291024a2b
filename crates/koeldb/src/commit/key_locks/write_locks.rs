//! The locks of a write outside of transactions.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use koeldb_base::error::WriteOutcome;
use koeldb_base::{Error, Result};

use super::KeyLocks;
use super::table::{LockId, LockMode, LockTable, Owner};
use super::waits::{Acquired, LockTimeouts, Wanted};
use crate::batch::{BatchEntry, WriteBatch};

/// The locks of a write outside of transactions, held until it is dropped.
pub(crate) struct WriteLocks<'d> {
    locks: &'d LockTable,
    parts: Parts,
}

/// The lock owner and the locks of a write, whose memory the thread reuses for its next write.
struct Parts {
    database: u64,
    owner: Arc<Owner>,
    ids: Vec<LockId>,
}

thread_local! {
    static KEPT: Cell<Option<Parts>> = const { Cell::new(None) };
}

/// The largest number of locks for which a thread keeps the memory.
const KEPT_MAX: usize = 1 << 10;

impl Drop for WriteLocks<'_> {
    fn drop(&mut self) {
        let Parts {
            database,
            owner,
            ids,
        } = &mut self.parts;
        for id in ids.drain(..) {
            self.locks.release(owner, id);
        }
        // Others may still look at the owner for which they waited.
        let is_alone = Arc::get_mut(owner).is_some();
        if is_alone && ids.capacity() <= KEPT_MAX {
            let parts = Parts {
                database: *database,
                owner: Arc::clone(owner),
                ids: std::mem::take(ids),
            };
            let _ = KEPT.try_with(|kept| kept.set(Some(parts)));
        }
    }
}

impl KeyLocks {
    /// Whether the database locks keys, because its transactions are pessimistic.
    #[inline]
    pub(crate) fn are_in_use(&self) -> bool {
        self.table.is_some()
    }

    /// Returns an owner without locks: that of the thread's last write, if it is of this database.
    fn parts(&self) -> Parts {
        let database = self.context.id;
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        kept.filter(|parts| parts.database == database)
            .unwrap_or_else(|| Parts {
                database,
                owner: Owner::new(self.new_id(), None),
                ids: Vec::new(),
            })
    }

    /// Locks the keys of a write outside of transactions, if transactions are pessimistic.
    pub(crate) fn lock_keys_of(&self, batch: &WriteBatch) -> Result<Option<WriteLocks<'_>>> {
        let (Some(locks), Some(options)) = (&self.table, &self.options) else {
            return Ok(None);
        };
        if options.skip_concurrency_control {
            return Ok(None);
        }
        let timeout = u64::try_from(options.default_lock_timeout).ok();
        let patience = LockTimeouts {
            timeout: timeout.map(Duration::from_millis),
            detect_after: None,
        };
        let mut held = WriteLocks {
            locks,
            parts: self.parts(),
        };
        if batch.len() <= 1 {
            for entry in batch {
                if let Some((cf, key)) = locked_key(&entry?)? {
                    self.add_lock(&mut held, (self.id_of(cf, key), cf, key), patience)?;
                }
            }
            return Ok(Some(held));
        }
        let mut keys = Vec::with_capacity(batch.len());
        for entry in batch {
            if let Some((cf, key)) = locked_key(&entry?)? {
                keys.push((self.id_of(cf, key), cf, key));
            }
        }
        // All writes lock in one order, so that they cannot wait for each other in a cycle.
        keys.sort_unstable();
        for key in keys {
            self.add_lock(&mut held, key, patience)?;
        }
        Ok(Some(held))
    }

    /// Locks a key for a write and adds it to `held`.
    fn add_lock(
        &self,
        held: &mut WriteLocks<'_>,
        (id, cf, key): (LockId, u32, &[u8]),
        patience: LockTimeouts,
    ) -> Result<()> {
        let Parts { owner, ids, .. } = &mut held.parts;
        let wanted = Wanted {
            owner,
            cf,
            key,
            id,
            mode: LockMode::Exclusive,
        };
        if self.take_lock(held.locks, wanted, patience)? != Acquired::Held {
            ids.push(id);
        }
        Ok(())
    }
}

/// The key that a write must lock for an operation, if any.
fn locked_key<'b>(entry: &BatchEntry<'b>) -> Result<Option<(u32, &'b [u8])>> {
    match *entry {
        BatchEntry::Put { cf, key, .. }
        | BatchEntry::PutEntity { cf, key, .. }
        | BatchEntry::Delete { cf, key }
        | BatchEntry::SingleDelete { cf, key }
        | BatchEntry::Merge { cf, key, .. } => Ok(Some((cf, key))),
        BatchEntry::DeleteRange { .. } => Err(Error::not_supported(
            "a range deletion cannot lock its keys; set skip_concurrency_control in \
             TransactionDbOptions if no transaction uses the range",
        )
        .with_outcome(WriteOutcome::NotApplied)),
        BatchEntry::LogData(_) => Ok(None),
    }
}
