//! The list of running background jobs of an environment.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;

use crate::env::Env;

/// The operation that a background thread runs (RocksDB: `ThreadStatus::OperationType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThreadOperation {
    /// Writes memtables to a table.
    Flush,
    /// Merges, moves or drops tables.
    Compaction,
}

/// The status of a thread that runs a flush or compaction (RocksDB: `ThreadStatus`).
///
/// Only databases with `enable_thread_tracking` report theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadStatus {
    /// The thread.
    pub thread: ThreadId,
    /// The directory of the database.
    pub database: PathBuf,
    /// The name of the column family.
    pub column_family: String,
    /// The kind of the job.
    pub operation: ThreadOperation,
    /// The time since the job began.
    pub elapsed: Duration,
}

/// A running background job and its reported status.
#[derive(Debug)]
struct TrackedJob {
    number: u64,
    /// The status of the job; `elapsed` holds the clock's time at its beginning.
    status: ThreadStatus,
}

/// The running background jobs of an environment, guarded by a mutex.
#[derive(Debug, Default)]
struct Jobs {
    next: u64,
    running: Vec<TrackedJob>,
}

/// The shared list of running background jobs behind [`Env::thread_list`].
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadList(Arc<Mutex<Jobs>>);

/// A job's registration in a [`ThreadList`]; dropping it removes the job from the list.
pub(crate) struct Tracked {
    list: ThreadList,
    number: u64,
}

impl Drop for Tracked {
    fn drop(&mut self) {
        lock(&self.list.0)
            .running
            .retain(|job| job.number != self.number);
    }
}

impl Env {
    /// Returns the running flushes and compactions of databases of this environment, oldest first.
    ///
    /// Only databases with the option `enable_thread_tracking` are listed.
    #[must_use]
    pub fn thread_list(&self) -> Vec<ThreadStatus> {
        let now = self.clock.now();
        let jobs = lock(&self.threads.0);
        let statuses = jobs.running.iter().map(|job| ThreadStatus {
            elapsed: now.saturating_sub(job.status.elapsed),
            ..job.status.clone()
        });
        statuses.collect()
    }
}

impl ThreadList {
    /// Registers a job of the calling thread in the list, until the returned guard is dropped.
    pub(crate) fn track(
        &self,
        operation: ThreadOperation,
        database: &Path,
        family: &str,
        begun: Duration,
    ) -> Tracked {
        let mut jobs = lock(&self.0);
        let number = jobs.next;
        jobs.next += 1;
        jobs.running.push(TrackedJob {
            number,
            status: ThreadStatus {
                thread: std::thread::current().id(),
                database: database.to_owned(),
                column_family: family.to_owned(),
                operation,
                elapsed: begun,
            },
        });
        Tracked {
            list: self.clone(),
            number,
        }
    }
}
