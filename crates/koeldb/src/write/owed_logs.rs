//! The logs that are no longer written and not durable yet: a synced write in a younger log owes them first (O6).
//!
//! The leader adds to them when it begins a new log; it and flushes make them durable, without leadership: a flush does so
//! while the leader may be waiting for that flush. Who finds none owed may go ahead, so logs that somebody is about to
//! make durable are waited for.

use koeldb_base::Result;
use koeldb_base::sync::{Mutex, MutexGuard, lock};
use koeldb_log::RecordWriter;

/// A log that nobody writes to any more.
pub(crate) trait ClosedLog {
    /// Makes it durable.
    fn sync(&mut self) -> Result<()>;
    /// Lets go of its file.
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

/// The logs that are owed, oldest first.
pub(crate) struct OwedLogs<L> {
    /// Taken after leadership, or without it.
    logs: Mutex<Vec<L>>,
    /// Held by whoever makes them durable, so that nobody believes it done before it is.
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
    /// One more is owed, the youngest.
    pub(crate) fn owe(&self, log: L) {
        lock(&self.logs).push(log);
    }

    /// Makes all of them durable, and then their directory entries.
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
            // They stay owed, before those that were closed meanwhile.
            lock(&self.logs).splice(..0, owed);
            return Err(error);
        }
        owed.into_iter().try_for_each(ClosedLog::close)
    }

    /// Nobody makes logs durable while the guard is held.
    pub(crate) fn hold(&self) -> OwedLogsHeld<'_, L> {
        OwedLogsHeld {
            owed: self,
            _nobody_syncs: lock(&self.syncing),
        }
    }
}

/// The logs that are owed, while nobody makes them durable.
pub(crate) struct OwedLogsHeld<'l, L> {
    owed: &'l OwedLogs<L>,
    _nobody_syncs: MutexGuard<'l, ()>,
}

impl<L> OwedLogsHeld<'_, L> {
    /// None are owed any more: what they hold will be in tables before anything else counts on it.
    pub(crate) fn give_up(self) {
        lock(&self.owed.logs).clear();
    }
}

#[cfg(all(test, loom))]
mod models;
