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
    /// Closes its file.
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

/// The logs, oldest first.
pub(crate) struct OwedLogs<L> {
    /// Taken after leadership, or without it.
    logs: Mutex<Vec<L>>,
    /// Held during a sync, so that no thread assumes its completion too early.
    syncing: Mutex<()>,
}

impl<L> Default for OwedLogs<L> {
    fn default() -> Self {
        OwedLogs {
            logs: Mutex::new(Vec::new()),
            syncing: Mutex::new(()),
        }
    }
}

impl<L: ClosedLog> OwedLogs<L> {
    /// Adds the latest log.
    pub(crate) fn owe(&self, log: L) {
        lock(&self.logs).push(log);
    }

    /// Syncs all of them, and then their directory entries.
    pub(crate) fn sync(&self, sync_directory: impl FnOnce() -> Result<()>) -> Result<()> {
        let _only_one = lock(&self.syncing);
        let mut owed = std::mem::take(&mut *lock(&self.logs));
        if owed.is_empty() {
            return Ok(());
        }
        let synced = owed
            .iter_mut()
            .try_for_each(ClosedLog::sync)
            .and_then(|()| sync_directory());
        if let Err(error) = synced {
            // They are kept, before those that were closed in the meantime.
            lock(&self.logs).splice(..0, owed);
            return Err(error);
        }
        owed.into_iter().try_for_each(ClosedLog::close)
    }

    /// Prevents syncs while the guard is held.
    pub(crate) fn hold(&self) -> OwedLogsHeld<'_, L> {
        OwedLogsHeld {
            owed: self,
            _nobody_syncs: lock(&self.syncing),
        }
    }
}

/// Closed logs, while syncs are prevented.
pub(crate) struct OwedLogsHeld<'l, L> {
    owed: &'l OwedLogs<L>,
    _nobody_syncs: MutexGuard<'l, ()>,
}

impl<L> OwedLogsHeld<'_, L> {
    /// Removes all of them: their entries will be in tables before anything relies on them.
    pub(crate) fn give_up(self) {
        lock(&self.owed.logs).clear();
    }
}

#[cfg(all(test, loom))]
mod models;
