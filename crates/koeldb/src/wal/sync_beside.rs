//! Syncs of the log being written, concurrent with its writers, for `flush_wal(true)`.
//!
//! The leader only passes the records to the operating system. The device syncs without leadership,
//! so that writers continue, and so that one sync serves all calls that wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koeldb_base::error::Severity;
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::{Error, Result};
use koeldb_log::LogSync;

use super::{Wal, WalSet};

/// The sync state of the current log that its writer and concurrent syncs share.
pub(crate) struct SyncBeside {
    log: Arc<LogSync>,
    /// Whether the directory entry of the log is durable.
    is_entry_synced: AtomicBool,
}

/// A sync of the current log that was begun by the write group leader and is not performed yet.
#[must_use]
pub(crate) struct PendingSync {
    beside: Arc<SyncBeside>,
    /// The length of the log that must become durable.
    bytes: u64,
    /// The number of times that logs had been abandoned when the sync began.
    given_up: u64,
}

impl Wal {
    /// Updates the log's sync state by what concurrent syncs have made durable meanwhile.
    pub(super) fn take_over_syncs(&mut self) {
        if let Some(beside) = &self.beside {
            self.is_entry_synced |= beside.is_entry_synced.load(Ordering::Acquire);
            self.has_unsynced &= !self.writer.is_synced_concurrently();
        }
    }
}

impl WalSet {
    /// Syncs the closed logs before a sync of the log being written; a failure stops writes.
    pub(crate) fn sync_before_log(&self) -> Result<()> {
        let synced = self.sync_closed();
        synced.map_err(|error| self.sync_failed(error))
    }

    /// Begins a sync of the log being written, which [`WalSet::finish_sync`] performs concurrently.
    ///
    /// `None` if the file system cannot sync beside writers: everything is durable then.
    pub(crate) fn begin_sync(&self, wal: &mut Wal) -> Result<Option<PendingSync>> {
        let begun = self.begin_sync_of(wal);
        begun.map_err(|error| self.sync_failed(error))
    }

    /// Flushes the log's buffer and returns the sync to perform, without reporting a failure.
    fn begin_sync_of(&self, wal: &mut Wal) -> Result<Option<PendingSync>> {
        wal.take_over_syncs();
        // Otherwise a later sync records it.
        if (wal.has_unsynced || !wal.is_entry_synced) && self.unsynced.are_durable() {
            wal.confirm_previous()?;
        }
        let Some(log) = wal.writer.flush_for_sync()? else {
            self.sync_after_closed(wal)?;
            return Ok(None);
        };
        let is_entry_synced = wal.is_entry_synced;
        let beside = wal.beside.get_or_insert_with(|| {
            Arc::new(SyncBeside {
                log,
                is_entry_synced: AtomicBool::new(is_entry_synced),
            })
        });
        Ok(Some(PendingSync {
            bytes: match wal.has_unsynced || !is_entry_synced {
                true => beside.log.flushed_bytes(),
                false => 0,
            },
            beside: Arc::clone(beside),
            given_up: self.unsynced.given_up(),
        }))
    }

    /// Performs a sync begun before: syncs all closed logs, then the current one (O6).
    ///
    /// Returns `false` if the log was given up in the meantime: the caller begins again.
    pub(crate) fn finish_sync(&self, pending: &PendingSync) -> Result<bool> {
        let turn = self.unsynced.take_turn();
        if self.unsynced.given_up() != pending.given_up {
            return Ok(false);
        }
        let synced = (|| {
            turn.sync(|| self.context.fs.sync_dir(&self.context.wal_dir))?;
            self.sync_pending(pending)
        })();
        // Reported while the turn is held: a resume needs the turn, and so sees the failure.
        synced.map_err(|error| self.sync_failed(error))?;
        self.counters.log_synced();
        self.context.count(Ticker::WalFileSynced, 1);
        Ok(true)
    }

    /// Syncs the log up to the position of `pending` and, if needed, its directory entry.
    fn sync_pending(&self, pending: &PendingSync) -> Result<()> {
        let SyncBeside {
            log,
            is_entry_synced,
        } = &*pending.beside;
        let begun = self.context.measures().then(|| self.context.clock.now());
        if log.sync(pending.bytes)?
            && let Some(begun) = begun
        {
            self.context
                .record_elapsed(HistogramKind::WalFileSyncMicros, begun);
        }
        if !is_entry_synced.load(Ordering::Acquire) {
            let synced = self.context.fs.sync_dir(&self.context.wal_dir);
            // The leader must not sync again either: a second sync could seem to succeed.
            synced.inspect_err(|error| log.fail(error))?;
            is_entry_synced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Stops all writes with a hard error after a failed log sync; returns the error.
    pub(super) fn sync_failed(&self, error: Error) -> Error {
        let error = error.context("syncing the log");
        self.health.fail_writes(error.with_severity(Severity::Hard))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
