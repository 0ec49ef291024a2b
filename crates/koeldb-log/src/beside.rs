//! Syncs of a log that run concurrently with its writer, which continues to append.
//!
//! Writer and syncs share their failures: after a failed sync the writer refuses records, and after
//! a failed write nothing is synced. The caller runs one sync of a log at a time, whether by
//! [`LogSync`] or by the writer: the system reports a failed write-back once, so that a second sync
//! would seem to succeed.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::{Error, Result};
use koeldb_fs::FileSync;

/// A handle that syncs a log file concurrently with its writer, which continues to append.
pub struct LogSync {
    file: Box<dyn FileSync>,
    /// The length that the writer has passed to the operating system.
    flushed_bytes: AtomicU64,
    /// The length that is durable.
    synced_bytes: AtomicU64,
    failure: OnceLock<Error>,
}

impl fmt::Debug for LogSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSync")
            .field("file", &self.file)
            .field("synced_bytes", &self.synced_bytes)
            .finish_non_exhaustive()
    }
}

impl LogSync {
    pub(crate) fn new(file: Box<dyn FileSync>) -> Self {
        LogSync {
            file,
            flushed_bytes: AtomicU64::new(0),
            synced_bytes: AtomicU64::new(0),
            failure: OnceLock::new(),
        }
    }

    /// Syncs the flushed part of the log unless `bytes` are durable; returns whether it synced.
    ///
    /// A sync makes everything durable that was flushed before the call.
    ///
    /// # Errors
    /// If the file fails, or the writer or an earlier sync has failed.
    pub fn sync(&self, bytes: u64) -> Result<bool> {
        if self.synced_bytes() >= bytes {
            return Ok(false);
        }
        if let Some(error) = self.failure() {
            return Err(error.clone());
        }
        let flushed = self.flushed_bytes.load(Ordering::Acquire);
        if let Err(error) = self.file.sync_data(flushed) {
            self.fail(&error);
            return Err(error);
        }
        self.note_synced(flushed);
        Ok(true)
    }

    /// Records `error` as the permanent failure of the log: its writer and later syncs return it.
    ///
    /// A failure recorded before remains.
    pub fn fail(&self, error: &Error) {
        let _ = self.failure.set(error.clone());
    }

    /// The first write or sync error of the log, if any.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// The length of the log prefix that the writer has passed to the operating system.
    #[must_use]
    pub fn flushed_bytes(&self) -> u64 {
        self.flushed_bytes.load(Ordering::Acquire)
    }

    pub(crate) fn synced_bytes(&self) -> u64 {
        self.synced_bytes.load(Ordering::Acquire)
    }

    /// Records that the writer has flushed the first `bytes` of the log.
    pub(crate) fn note_flushed(&self, bytes: u64) {
        self.flushed_bytes.store(bytes, Ordering::Release);
    }

    /// Records that the first `bytes` of the log are durable.
    pub(crate) fn note_synced(&self, bytes: u64) {
        self.synced_bytes.fetch_max(bytes, Ordering::AcqRel);
    }
}
