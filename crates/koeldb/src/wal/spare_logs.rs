//! Spare logs: the files of obsolete logs over which later logs are written.
//!
//! With `recycle_log_file_num`, the file of an obsolete log is kept for a later one. Its space and
//! length are allocated, so that a sync of the later log makes no metadata durable. That log's
//! records carry its number, and those of the former log end it.
//!
//! A spare has the name of a file in the trash. So no reader takes it for a log, whose records may be
//! of keys that tables have lost since, and the next open of KoelDB or RocksDB removes it. A close
//! removes it too.
//!
//! # Invariants
//! - **R1** A spare was a log of this open, so its records have recyclable headers, and it was begun
//!   after the last failure of a log.
//! - **R2** No handle writes to a spare or truncates it, and it has no other name: a checkpoint
//!   links logs.
//! - **R3** The log was obsolete in the durable MANIFEST, and no update iterator needed it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::Result;
use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::sync::lock_plain as lock;

use super::WalSet;
use super::standby_log::EmptyLog;

/// The spare logs: obsolete log files kept for recycling (`recycle_log_file_num`), oldest first.
#[derive(Debug)]
pub(super) struct SpareLogs {
    paths: Mutex<Vec<PathBuf>>,
    /// The number of the oldest log that may become a spare.
    accepts_from: AtomicU64,
}

impl Default for SpareLogs {
    fn default() -> Self {
        SpareLogs {
            paths: Mutex::new(Vec::new()),
            accepts_from: AtomicU64::new(FileNumber::MAX),
        }
    }
}

impl SpareLogs {
    /// Sets the first log that may be recycled: older ones are of another open, or may have failed.
    pub(super) fn accept_from(&self, first: FileNumber) {
        self.accepts_from.store(first, Ordering::Relaxed);
    }

    /// Whether log `number` may be recycled, and there are fewer than `count_max` spare logs.
    fn accepts(&self, number: FileNumber, count_max: u64) -> bool {
        number >= self.accepts_from.load(Ordering::Relaxed)
            && (lock(&self.paths).len() as u64) < count_max
    }

    /// Adds the file of an obsolete log to the spare logs.
    fn add(&self, path: PathBuf) {
        lock(&self.paths).push(path);
    }

    /// Removes and returns the oldest spare log; `None` if there is none.
    fn take(&self) -> Option<PathBuf> {
        let mut paths = lock(&self.paths);
        (!paths.is_empty()).then(|| paths.remove(0))
    }
}

impl WalSet {
    /// Renames the file of an obsolete log to recycle it later; `false` if it must not be recycled.
    pub(super) fn keep_spare(&self, number: FileNumber, log: &Path) -> Result<bool> {
        let count_max = self.context.db_options.recycle_log_file_num;
        if !self.spares.accepts(number, count_max)
            || self.unsynced.has(number)
            || self.context.fs.metadata(log)?.links != 1
        {
            return Ok(false);
        }
        let spare = spare_path(log);
        self.context.fs.rename_new(log, &spare)?;
        self.spares.add(spare);
        Ok(true)
    }

    /// Recycles a spare log as the file of a new log; `None` if there is none or if that fails.
    pub(super) fn reuse_spare(&self) -> Option<EmptyLog> {
        let spare = self.spares.take()?;
        let number = self.context.new_file_number();
        let log = file_name::wal(&self.context.wal_dir, number);
        let options = self.context.mutable_options().wal_file();
        match self.context.fs.reuse(&spare, &log, &options) {
            Ok(file) => Some(EmptyLog { number, file }),
            Err(error) => {
                // A new file, with another number, serves as well. The next open removes what is
                // left of the spare.
                let info_log = &self.context.info_log;
                info_log.warn(format_args!("reusing {}: {error}", spare.display()));
                None
            }
        }
    }

    /// Removes the files of all spare logs.
    pub(super) fn remove_spares(&self) {
        while let Some(spare) = self.spares.take() {
            if let Err(error) = self.context.fs.remove_file(&spare) {
                let info_log = &self.context.info_log;
                info_log.warn(format_args!("removing {}: {error}", spare.display()));
            }
        }
    }
}

/// Returns the path of the spare log that log file `log` becomes.
fn spare_path(log: &Path) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(file_name::TRASH_EXTENSION);
    PathBuf::from(name)
}
