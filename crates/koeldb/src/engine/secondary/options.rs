//! Options of secondary databases, and the report of a catch-up.

use std::time::Duration;

use koeldb_base::SeqNo;

/// How a secondary keeps tables readable that its primary deletes: by hard links or open files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepTables {
    /// By links where the file system permits them, else by open files.
    #[default]
    Auto,
    /// By hard links in the directory of the secondary.
    Links,
    /// By open files alone, as RocksDB does; needs `max_open_files` -1.
    ///
    /// A primary that truncates files before it removes them (RocksDB's `SstFileManager` with a
    /// delete rate) empties tables that are still being read.
    Descriptors,
}

/// Options of a secondary or follower database, beside the usual [`Options`](crate::Options).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondaryOptions {
    pub(crate) keep: KeepTables,
    pub(crate) logs: bool,
    pub(crate) refresh: Option<Duration>,
    pub(crate) retries: u64,
    pub(crate) retry_wait: Duration,
}

impl Default for SecondaryOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl SecondaryOptions {
    /// Creates the default options: hard links where possible, logs read, no refresh, 100 retries.
    #[must_use]
    pub const fn new() -> Self {
        SecondaryOptions {
            keep: KeepTables::Auto,
            logs: true,
            refresh: None,
            retries: 100,
            retry_wait: Duration::from_millis(1),
        }
    }

    /// Sets how the secondary keeps tables readable that its primary deletes.
    ///
    /// Default: `Auto`.
    pub fn set_keep(&mut self, keep: KeepTables) -> &mut Self {
        self.keep = keep;
        self
    }

    /// Sets whether the primary's WAL files are read (default); else only flushed data is visible.
    pub fn set_logs(&mut self, logs: bool) -> &mut Self {
        self.logs = logs;
        self
    }

    /// Sets the period of catch-ups in the background; `None`, the default, disables them.
    pub fn set_refresh(&mut self, period: impl Into<Option<Duration>>) -> &mut Self {
        self.refresh = period.into();
        self
    }

    /// Sets how often a catch-up is retried if the primary removed or changed a file meanwhile.
    ///
    /// With 0, a record that is read while it is written can look like damage.
    ///
    /// Default: 100.
    pub fn set_retries(&mut self, retries: u64) -> &mut Self {
        self.retries = retries;
        self
    }

    /// Sets the pause before each retry of a catch-up; 1 ms by default.
    pub fn set_retry_wait(&mut self, wait: Duration) -> &mut Self {
        self.retry_wait = wait;
        self
    }
}

/// The result of a catch-up: version edits and batches applied, and the sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CatchUpReport {
    /// The sequence number of the view after the catch-up.
    pub sequence_number: SeqNo,
    /// The number of edits read from the MANIFEST; all of them after the primary began a new one.
    pub edits: u64,
    /// The number of batches read from logs.
    pub batches: u64,
}
