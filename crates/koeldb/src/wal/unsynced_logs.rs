//! Closed logs that are not durable yet: a synced write to a later log must sync them first (O6).
//!
//! The leader adds to them when it starts a new log; the leader, flushes and syncs beside writers
//! sync them. The latter two do so without leadership, since the leader may be waiting for that
//! flush. A thread that finds none may proceed, so it waits for logs that are being synced. A log
//! that became obsolete before its sync is never synced.
//!
//! # Invariants
//! - **S1** One thread syncs logs at a time, the one being written included: the system reports a
//!   failed write-back once, so that a sync beside a failing one would seem to succeed. That thread
//!   holds the [`SyncTurn`], and never takes leadership while it does.
//! - **S2** Logs are given up under leadership and with the turn. A sync whose log was given up after
//!   it was chosen acknowledges nothing.

use koeldb_base::Result;
use koeldb_base::file_name::FileNumber;
use koeldb_base::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use koeldb_log::RecordWriter;

/// The file of a closed log, which can still be synced.
pub(crate) trait ClosedLog {
    /// Truncates the file after the last record and syncs it.
    fn sync(&mut self) -> Result<()>;
    /// Closes the file of the log.
    fn close(self) -> Result<()>;
}

impl ClosedLog for RecordWriter {
    fn sync(&mut self) -> Result<()> {
        self.sync_at_end()
    }

    fn close(self) -> Result<()> {
        self.close()
    }
}

/// The closed logs that are not durable yet, and the lock that serializes log syncs.
pub(crate) struct UnsyncedLogs<L> {
    /// The logs, locked after write leadership was taken, or without it.
    logs: Mutex<Closed<L>>,
    /// The lock held during a sync, so that no thread assumes its completion too early.
    syncing: Mutex<()>,
    /// The number of times that logs were abandoned after a failure.
    given_up: AtomicU64,
}

/// The closed logs that wait for a sync, and the numbers of those being synced.
struct Closed<L> {
    waiting: Vec<(FileNumber, L)>,
    /// The logs that threads are syncing and closing, without the lock.
    in_hand: Vec<FileNumber>,
}

impl<L> Closed<L> {
    /// Takes the waiting logs before number `end`, oldest first, and records them as being synced.
    fn take(&mut self, end: FileNumber) -> Vec<(FileNumber, L)> {
        let count = self.waiting.partition_point(|(number, _)| *number < end);
        let taken: Vec<_> = self.waiting.drain(..count).collect();
        self.in_hand.extend(numbers_of(&taken));
        taken
    }

    /// Records that logs are not being synced any more, after their sync and close.
    fn put_down(&mut self, numbers: &[FileNumber]) {
        self.in_hand.retain(|number| !numbers.contains(number));
    }
}

/// Returns the file numbers of `logs`.
fn numbers_of<L>(logs: &[(FileNumber, L)]) -> Vec<FileNumber> {
    logs.iter().map(|(number, _)| *number).collect()
}

impl<L> Default for UnsyncedLogs<L> {
    fn default() -> Self {
        UnsyncedLogs {
            logs: Mutex::new(Closed {
                waiting: Vec::new(),
                in_hand: Vec::new(),
            }),
            syncing: Mutex::new(()),
            given_up: AtomicU64::new(0),
        }
    }
}

impl<L: ClosedLog> UnsyncedLogs<L> {
    /// Adds a log that was just closed and is not durable yet.
    pub(crate) fn add(&self, number: FileNumber, log: L) {
        lock(&self.logs).waiting.push((number, log));
    }

    /// Closes the obsolete logs, those before `min_needed`, without a sync.
    pub(crate) fn close_before(&self, min_needed: FileNumber) {
        let obsolete = lock(&self.logs).take(min_needed);
        let numbers = numbers_of(&obsolete);
        for (_, log) in obsolete {
            // A failure loses nothing.
            let _ = log.close();
        }
        lock(&self.logs).put_down(&numbers);
    }

    /// Whether the file of log `number` is still open, or being synced or closed.
    pub(crate) fn has(&self, number: FileNumber) -> bool {
        let logs = lock(&self.logs);
        logs.in_hand.contains(&number) || logs.waiting.iter().any(|(of, _)| *of == number)
    }

    /// Takes the turn, syncs and closes all closed logs, and syncs their directory entries.
    pub(crate) fn sync(&self, sync_directory: impl FnOnce() -> Result<()>) -> Result<()> {
        self.take_turn().sync(sync_directory)
    }

    /// Waits for the exclusive right to sync logs.
    pub(crate) fn take_turn(&self) -> SyncTurn<'_, L> {
        SyncTurn {
            unsynced: self,
            _only_one: lock(&self.syncing),
        }
    }

    /// Whether all closed logs are durable; `false` also while another thread is syncing logs.
    ///
    /// Called by the leader, so that no log is closed.
    pub(crate) fn are_durable(&self) -> bool {
        self.syncing.try_lock().is_ok() && lock(&self.logs).waiting.is_empty()
    }

    /// Returns how often logs were abandoned after a failure, to detect that during a sync.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Acquire)
    }
}

/// The exclusive right to sync logs, held by one thread at a time as a lock guard.
pub(crate) struct SyncTurn<'l, L> {
    unsynced: &'l UnsyncedLogs<L>,
    _only_one: MutexGuard<'l, ()>,
}

impl<L: ClosedLog> SyncTurn<'_, L> {
    /// Syncs and closes all closed logs, and then syncs their directory entries.
    pub(crate) fn sync(&self, sync_directory: impl FnOnce() -> Result<()>) -> Result<()> {
        let logs = &self.unsynced.logs;
        let mut unsynced = lock(logs).take(FileNumber::MAX);
        if unsynced.is_empty() {
            return Ok(());
        }
        let numbers = numbers_of(&unsynced);
        let synced = unsynced
            .iter_mut()
            .try_for_each(|(_, log)| log.sync())
            .and_then(|()| sync_directory());
        if let Err(error) = synced {
            // They are kept, before those that were closed in the meantime.
            let mut logs = lock(logs);
            logs.waiting.splice(..0, unsynced);
            logs.put_down(&numbers);
            return Err(error);
        }
        let closed = unsynced.into_iter().try_for_each(|(_, log)| log.close());
        lock(logs).put_down(&numbers);
        closed
    }

    /// Forgets all unsynced logs without syncing them, after a failed write or sync.
    ///
    /// Their entries will be in tables before anything relies on them.
    pub(crate) fn give_up(self) {
        self.unsynced.given_up.fetch_add(1, Ordering::AcqRel);
        lock(&self.unsynced.logs).waiting.clear();
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
