//! The log that stands by: its file is there before the leader begins it, so that switching costs microseconds also where the
//! system takes long to make a file.
//!
//! A job in the background makes the file when a memtable is half full. It is empty, and its name not durable, until the
//! leader takes it over; then it is like one that was made in that moment. A crash may leave it: recovery, RocksDB's
//! too, finds no record in it and passes over it, and it goes with the other obsolete logs. A close removes it.
//!
//! A younger log has a larger number. So the leader, who alone begins logs, either takes the one that stands by, or makes one
//! of a larger number and says so; what was being made meanwhile comes too late, and is removed.

use std::sync::Arc;

use koeldb_base::Result;
use koeldb_base::error::ErrorDetail;
use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::stats::Ticker;
use koeldb_base::sync::{Mutex, lock};
use koeldb_fs::WritableFile;
use koeldb_log::RecordWriter;

use crate::env::JobPriority;
use crate::inner::DbInner;
use crate::listener::Event;
use crate::open::{new_wal_file, wal_writer};

/// A log without records that nobody writes to yet.
#[derive(Debug)]
pub(crate) struct EmptyLog {
    number: FileNumber,
    file: Box<dyn WritableFile>,
}

#[derive(Debug)]
enum State<L> {
    Nothing,
    /// A job makes one.
    Requested,
    /// A job makes one, and the leader has begun a log meanwhile.
    TooLate,
    /// It could not be made; not tried again before the leader begins a log.
    GivenUp,
    Ready(L),
}

/// The log that stands by, if there is one.
#[derive(Debug)]
pub(crate) struct StandbyLog<L = EmptyLog> {
    state: Mutex<State<L>>,
}

impl<L> Default for StandbyLog<L> {
    fn default() -> Self {
        StandbyLog {
            state: Mutex::new(State::Nothing),
        }
    }
}

impl<L> StandbyLog<L> {
    /// Whether the caller, who leads, has to have one made: there is none, and none is being made. Its number must be
    /// taken after this.
    fn request(&self) -> bool {
        let mut state = lock(&self.state);
        let is_nothing = matches!(*state, State::Nothing);
        if is_nothing {
            *state = State::Requested;
        }
        is_nothing
    }

    /// The one that was requested is made, or could not be; gives back one that comes too late.
    fn made(&self, log: Option<L>) -> Option<L> {
        let mut state = lock(&self.state);
        if matches!(*state, State::TooLate) {
            *state = State::Nothing;
            return log;
        }
        *state = log.map_or(State::GivenUp, State::Ready);
        None
    }

    /// For the leader, who begins a log: this one, or one whose number is taken after this.
    fn take(&self) -> Option<L> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Nothing) {
            State::Ready(log) => Some(log),
            State::Nothing | State::GivenUp => None,
            State::Requested | State::TooLate => {
                *state = State::TooLate;
                None
            }
        }
    }

    /// Whether one stands by.
    #[cfg(test)]
    pub(crate) fn is_ready(&self) -> bool {
        matches!(*lock(&self.state), State::Ready(_))
    }
}

impl DbInner {
    /// Has the next log made in the background, unless there is one; called by the leader.
    pub(crate) fn request_log(self: &Arc<Self>) {
        if !self.standby_log.request() {
            return;
        }
        let inner = Arc::clone(self);
        self.env.pool.submit(JobPriority::High, move || {
            if let Ok(_foreground) = inner.background.enter() {
                inner.prepare_log();
            }
        });
    }

    fn prepare_log(self: &Arc<Self>) {
        let made = self.guarded(|| self.new_log_file());
        let (log, failure) = match made {
            Ok(log) => (Some(log), None),
            Err(error) => (None, Some(error)),
        };
        if let Some(late) = self.standby_log.made(log) {
            self.remove_unused(late);
        }
        let Some(error) = failure else { return };
        if error.detail() == Some(ErrorDetail::PluginPanicked) {
            self.background_error("making a log ahead", error);
            self.report_failures();
            return;
        }
        // Nothing is lost: the leader makes one itself, and meets the error if it lasts.
        self.info_log
            .warn(format_args!("making a log ahead: {error}"));
        self.notify(&Event::BackgroundError(&error));
        self.count(Ticker::ErrorHandlerBgErrorCount, 1);
    }

    fn new_log_file(&self) -> Result<EmptyLog> {
        let number = self.new_file_number();
        let file = new_wal_file(&*self.fs, &self.wal_dir, number, &self.db_options)?;
        Ok(EmptyLog { number, file })
    }

    /// A new log and its number, for the leader: the one that stands by, or one made now.
    pub(crate) fn begin_log(&self) -> Result<(FileNumber, RecordWriter)> {
        let EmptyLog { number, file } = match self.standby_log.take() {
            Some(log) => log,
            None => self.new_log_file()?,
        };
        Ok((number, wal_writer(file, &self.db_options)?))
    }

    /// Removes the log that stands by; one that is being made comes too late.
    pub(crate) fn forget_log(&self) {
        if let Some(log) = self.standby_log.take() {
            self.remove_unused(log);
        }
    }

    fn remove_unused(&self, log: EmptyLog) {
        self.remove_empty_log(log.number, log.file.close());
    }

    /// Removes a log that nothing was written to, and that was closed. If that cannot be done, it goes with the next open.
    pub(crate) fn remove_empty_log(&self, number: FileNumber, closed: Result<()>) {
        let path = file_name::wal(&self.wal_dir, number);
        if let Err(error) = closed.and_then(|()| self.fs.remove_file(&path)) {
            self.info_log
                .warn(format_args!("removing {}: {error}", path.display()));
        }
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(test)]
mod tests;
