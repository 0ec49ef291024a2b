//! Closed logs that are not durable yet: a synced write to a later log must sync them first (O6).
//!
//! The leader adds to them when it starts a new log; the leader and flushes sync them. A flush does
//! so without leadership, since the leader may be waiting for that flush. A thread that finds none
//! may proceed, so it waits for logs that are being synced.

use koeldb_base::Result;
use koeldb_base::sync::{Mutex, MutexGuard, lock};
use koeldb_log::RecordWriter;

/// A log that is no longer written.
pub(crate) trait ClosedLog {
    /// Syncs the log.
    fn sync(&mut self) -> Result<()>;
    /// Closes the file of the log.
    fn close(self) -> Result<()>;
}

impl ClosedLog for RecordWriter {
    fn sync(&mut self) -> Result<()> {
        self.sync()
    }

    fn close(self) -> Result<()> {
        self.close()
    }
}

/// The closed logs that are not durable yet, oldest first.
pub(crate) struct UnsyncedLogs<L> {
    /// The logs, oldest first. A thread locks them after it took write leadership, or without it.
    logs: Mutex<Vec<L>>,
    /// The lock held during a sync, so that no thread assumes its completion too early.
    syncing: Mutex<()>,
}

impl<L> Default for UnsyncedLogs<L> {
    fn default() -> Self {
        UnsyncedLogs {
            logs: Mutex::new(Vec::new()),
            syncing: Mutex::new(()),
        }
    }
}

impl<L: ClosedLog> UnsyncedLogs<L> {
    /// Adds the log that was closed last.
    pub(crate) fn add(&self, log: L) {
        lock(&self.logs).push(log);
    }

    /// Syncs all closed logs, and then their directory entries.
    pub(crate) fn sync(&self, sync_directory: impl FnOnce() -> Result<()>) -> Result<()> {
        let _only_one = lock(&self.syncing);
        let mut unsynced = std::mem::take(&mut *lock(&self.logs));
        if unsynced.is_empty() {
            return Ok(());
        }
        let synced = unsynced
            .iter_mut()
            .try_for_each(ClosedLog::sync)
            .and_then(|()| sync_directory());
        if let Err(error) = synced {
            // They are kept, before those that were closed in the meantime.
            lock(&self.logs).splice(..0, unsynced);
            return Err(error);
        }
        unsynced.into_iter().try_for_each(ClosedLog::close)
    }

    /// Blocks syncs while the guard is held.
    pub(crate) fn block_syncs(&self) -> UnsyncedLogsGuard<'_, L> {
        UnsyncedLogsGuard {
            unsynced: self,
            _nobody_syncs: lock(&self.syncing),
        }
    }
}

/// A guard that blocks syncs of closed logs.
pub(crate) struct UnsyncedLogsGuard<'l, L> {
    unsynced: &'l UnsyncedLogs<L>,
    _nobody_syncs: MutexGuard<'l, ()>,
}

impl<L> UnsyncedLogsGuard<'_, L> {
    /// Removes all closed logs: their entries will be in tables before anything relies on them.
    pub(crate) fn discard(self) {
        lock(&self.unsynced.logs).clear();
    }
}

#[cfg(all(test, loom))]
mod models;
