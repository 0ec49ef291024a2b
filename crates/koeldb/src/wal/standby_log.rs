//! The standby log: a file created before the leader needs a new log.
//!
//! A switch then takes microseconds even if the system takes long to create a file. A background
//! job creates the file, or reuses a spare, when a memtable is half full. It has no record of its
//! own, and its name is not durable, until the leader takes it; then it is like a newly created one.
//! It may survive a crash: recovery, also in RocksDB, finds no record in it and skips it, and it is
//! removed with the other obsolete logs. A close removes it.
//!
//! A later log has a larger number. So the leader, which alone starts logs, either takes the
//! standby, or creates a log with a larger number and marks the standby as late; a late one is
//! removed.

use std::sync::Arc;

use koeldb_base::Result;
use koeldb_base::error::ErrorDetail;
use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::sync::{Mutex, lock};
use koeldb_fs::WritableFile;
use koeldb_log::RecordWriter;

use super::{WalSet, new_wal_file, wal_writer};
use crate::env::JobPriority;
use crate::state::health::catch_panics;

/// A log file without records of its own that is not in use yet.
#[derive(Debug)]
pub(crate) struct EmptyLog {
    pub(super) number: FileNumber,
    pub(super) file: Box<dyn WritableFile>,
}

/// The state of the standby log, under its lock.
#[derive(Debug)]
enum StandbyState<L> {
    Nothing,
    /// A job is creating the log.
    Requested,
    /// A job is creating the log, but the leader has started another one in the meantime.
    TooLate,
    /// Creation failed; it is not retried before the leader starts a log.
    GivenUp,
    Ready(L),
}

/// The state of the standby log.
#[derive(Debug)]
pub(crate) struct StandbyLog<L = EmptyLog> {
    state: Mutex<StandbyState<L>>,
}

impl<L> Default for StandbyLog<L> {
    fn default() -> Self {
        StandbyLog {
            state: Mutex::new(StandbyState::Nothing),
        }
    }
}

impl<L> StandbyLog<L> {
    /// Marks the standby as requested; returns whether the caller, the leader, must create it.
    ///
    /// Its number must be allocated afterwards.
    fn request(&self) -> bool {
        let mut state = lock(&self.state);
        let is_nothing = matches!(*state, StandbyState::Nothing);
        if is_nothing {
            *state = StandbyState::Requested;
        }
        is_nothing
    }

    /// Stores a created log, or the failure; returns a log that is too late.
    fn made(&self, log: Option<L>) -> Option<L> {
        let mut state = lock(&self.state);
        if matches!(*state, StandbyState::TooLate) {
            *state = StandbyState::Nothing;
            return log;
        }
        *state = log.map_or(StandbyState::GivenUp, StandbyState::Ready);
        None
    }

    /// Takes the standby for the leader; on `None` the leader allocates a new number afterwards.
    fn take(&self) -> Option<L> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, StandbyState::Nothing) {
            StandbyState::Ready(log) => Some(log),
            StandbyState::Nothing | StandbyState::GivenUp => None,
            StandbyState::Requested | StandbyState::TooLate => {
                *state = StandbyState::TooLate;
                None
            }
        }
    }
}

impl WalSet {
    /// Requests the standby log in the background, unless there is one; called by the leader.
    pub(crate) fn request_standby(self: &Arc<Self>) {
        if !self.standby.request() {
            return;
        }
        let wals = Arc::clone(self);
        self.context.env.pool.submit(JobPriority::High, move || {
            if let Ok(_foreground) = wals.slots.enter() {
                wals.prepare_standby();
            }
        });
    }

    /// Creates the standby log, as a job; removes it if it is late, and reports a failure.
    fn prepare_standby(&self) {
        let made = catch_panics(|| self.new_log_file());
        let (log, failure) = match made {
            Ok(log) => (Some(log), None),
            Err(error) => (None, Some(error)),
        };
        if let Some(late) = self.standby.made(log) {
            self.remove_unused(late);
        }
        let Some(error) = failure else { return };
        if error.detail() == Some(ErrorDetail::PluginPanicked) {
            self.health.job_failed("creating the standby log", error);
            self.health.report_failures();
            return;
        }
        // The leader will create one itself, and report the error if it persists.
        self.context
            .info_log
            .warn(format_args!("creating the standby log: {error}"));
        self.health.report_passing(&error);
    }

    /// Returns an empty log in a file with a new number: a recycled spare, or a new file.
    fn new_log_file(&self) -> Result<EmptyLog> {
        match self.reuse_spare() {
            Some(log) => Ok(log),
            None => self.create_log(),
        }
    }

    /// Creates the file of a log.
    pub(super) fn create_log(&self) -> Result<EmptyLog> {
        let number = self.context.new_file_number();
        let file = new_wal_file(
            &*self.context.fs,
            &self.context.wal_dir,
            number,
            &self.context.mutable_options().wal_file(),
        )?;
        Ok(EmptyLog { number, file })
    }

    /// Returns a log and its number for the write leader: the standby log, or a new one.
    pub(super) fn begin(&self) -> Result<(FileNumber, RecordWriter)> {
        let EmptyLog { number, file } = match self.standby.take() {
            Some(log) => log,
            None => self.new_log_file()?,
        };
        Ok((number, wal_writer(file, number, &self.context.db_options)?))
    }

    /// Removes the standby log; one that is being created will be removed as too late.
    pub(super) fn forget_standby(&self) {
        if let Some(log) = self.standby.take() {
            self.remove_unused(log);
        }
    }

    /// Whether there is a standby log.
    #[cfg(test)]
    pub(crate) fn has_standby(&self) -> bool {
        matches!(*lock(&self.standby.state), StandbyState::Ready(_))
    }

    /// Closes and removes a log that was never used.
    fn remove_unused(&self, log: EmptyLog) {
        self.remove_empty(log.number, log.file.close());
    }

    /// Removes a closed log without records. If that fails, the next open removes it.
    pub(super) fn remove_empty(&self, number: FileNumber, closed: Result<()>) {
        let path = file_name::wal(&self.context.wal_dir, number);
        if let Err(error) = closed.and_then(|()| self.context.fs.remove_file(&path)) {
            self.context
                .info_log
                .warn(format_args!("removing {}: {error}", path.display()));
        }
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(test)]
mod tests;
