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

/// The number and file of a new log that is not in use yet and has no records.
#[derive(Debug)]
pub(crate) struct EmptyLog {
    pub(super) number: FileNumber,
    pub(super) file: Box<dyn WritableFile>,
}

/// The creation state of the standby log.
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

/// The slot for the standby log: a log file created in advance of the next log switch.
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
    /// Marks the standby log as requested; `false` if one exists, is requested or has failed.
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

    /// Stores the created standby log, or its failure; returns the log if it came too late.
    fn made(&self, log: Option<L>) -> Option<L> {
        let mut state = lock(&self.state);
        if matches!(*state, StandbyState::TooLate) {
            *state = StandbyState::Nothing;
            return log;
        }
        *state = log.map_or(StandbyState::GivenUp, StandbyState::Ready);
        None
    }

    /// Takes the standby log, if it is ready; marks one that is still being created as too late.
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
    /// Submits a background job that creates the standby log, unless there is one.
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

    /// Creates and stores the standby log; removes it if it came too late, and reports a failure.
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

    /// Returns an empty log with a new number, in a recycled file or a new one.
    fn new_log_file(&self) -> Result<EmptyLog> {
        match self.reuse_spare() {
            Some(log) => Ok(log),
            None => self.create_log(),
        }
    }

    /// Creates an empty log with a new number, in a new file.
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

    /// Returns the number and writer of the next log: the standby log, or a newly created one.
    pub(super) fn begin(&self) -> Result<(FileNumber, RecordWriter)> {
        let EmptyLog { number, file } = match self.standby.take() {
            Some(log) => log,
            None => self.new_log_file()?,
        };
        Ok((number, wal_writer(file, number, &self.context.db_options)?))
    }

    /// Removes the standby log, also one that is still being created.
    pub(super) fn forget_standby(&self) {
        if let Some(log) = self.standby.take() {
            self.remove_unused(log);
        }
    }

    /// Whether a standby log is ready.
    #[cfg(test)]
    pub(crate) fn has_standby(&self) -> bool {
        matches!(*lock(&self.standby.state), StandbyState::Ready(_))
    }

    /// Closes and removes a log that was never used.
    fn remove_unused(&self, log: EmptyLog) {
        self.remove_empty(log.number, log.file.close());
    }

    /// Removes the file of a log without records, unless its close failed; reports failures in LOG.
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
