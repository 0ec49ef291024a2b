//! Obsolete files that are deleted at a limited rate.
//!
//! A file in the trash is renamed to `<name>.trash`, so that no recovery takes it for a table. A
//! rename needs no sync: if it is lost, the next open finds an orphan. One job deletes the files in
//! turn, and waits after each piece as long as its bytes take at the rate. A file without other
//! links is shortened piece by piece, since deleting a large one can stall a device.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use koeldb_base::Result;
use koeldb_base::file_name::TRASH_EXTENSION;
use koeldb_base::stats::{Statistics, Ticker};
use koeldb_base::sync::lock_plain as lock;
use koeldb_fs::{Clock, FileSystem};

use super::Shared;
use crate::env::Env;

/// The maximum sleep after which the deletion job checks whether the manager still exists.
const SLICE: Duration = Duration::from_millis(100);

/// An obsolete file to delete, with its environment and statistics.
#[derive(Clone, Copy)]
pub(crate) struct ObsoleteFile<'f> {
    pub(crate) env: &'f Env,
    pub(crate) path: &'f Path,
    pub(crate) bytes: u64,
    /// Whether a reader may still have it mapped.
    pub(crate) may_be_mapped: bool,
    pub(crate) statistics: Option<&'f Statistics>,
}

/// Whether an obsolete file was deleted immediately or marked as trash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Deleted,
    MarkedTrash,
}

/// A `*.trash` file in the queue for rate-limited deletion.
struct TrashFile {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    path: PathBuf,
    bytes: u64,
    may_be_mapped: bool,
    statistics: Option<Statistics>,
}

/// The queue of trash files, and whether a job is deleting them; guarded by a mutex.
#[derive(Default)]
struct TrashState {
    files: VecDeque<TrashFile>,
    /// Whether a job deletes files.
    has_job: bool,
}

/// The queue of obsolete files that are deleted at a limited rate (RocksDB: `DeleteScheduler`).
pub(super) struct Trash {
    rate: AtomicU64,
    /// The ratio, as the bits of an `f64`.
    max_ratio: AtomicU64,
    chunk_bytes: u64,
    bytes: AtomicU64,
    state: Mutex<TrashState>,
}

impl Trash {
    pub(super) fn new(rate: u64, max_ratio: f64, chunk_bytes: u64) -> Self {
        Trash {
            rate: AtomicU64::new(rate),
            max_ratio: AtomicU64::new(max_ratio.to_bits()),
            chunk_bytes,
            bytes: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// Returns the deletion rate in bytes a second; 0 for no limit.
    pub(super) fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    pub(super) fn set_rate(&self, bytes: u64) {
        self.rate.store(bytes, Ordering::Relaxed);
    }

    /// Returns the maximum ratio of trash to total size; above it, files are deleted immediately.
    pub(super) fn max_ratio(&self) -> f64 {
        f64::from_bits(self.max_ratio.load(Ordering::Relaxed))
    }

    pub(super) fn set_max_ratio(&self, ratio: f64) {
        self.max_ratio.store(ratio.to_bits(), Ordering::Relaxed);
    }

    /// Returns the size of the trash in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns how long the deletion of `bytes` has to take at the deletion rate.
    fn time_of(&self, bytes: u64) -> Duration {
        match self.rate() {
            0 => Duration::ZERO,
            rate => {
                let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }
}

/// Deletes `file` immediately, or renames it to `*.trash` and queues it if a deletion rate is set.
///
/// Files are deleted immediately while the trash exceeds `max_trash_db_ratio`.
pub(super) fn remove(shared: &Arc<Shared>, file: ObsoleteFile<'_>) -> Result<Removal> {
    let trash = &shared.trash;
    let is_crowded = || {
        #[expect(clippy::cast_precision_loss, reason = "a ratio needs no exact sizes")]
        let (bytes, total) = (trash.bytes() as f64, shared.total_bytes() as f64);
        bytes > total * trash.max_ratio()
    };
    if trash.rate() > 0 && !is_crowded() {
        let mut name = file.path.as_os_str().to_owned();
        name.push(TRASH_EXTENSION);
        let path = PathBuf::from(name);
        if file.env.fs.rename(file.path, &path).is_ok() {
            count(file.statistics, Ticker::FilesMarkedTrash);
            let marked = ObsoleteFile {
                path: &path,
                ..file
            };
            adopt(shared, marked);
            return Ok(Removal::MarkedTrash);
        }
    }
    file.env.fs.remove_file(file.path)?;
    count(file.statistics, Ticker::FilesDeletedImmediately);
    Ok(Removal::Deleted)
}

/// Queues a file that is already named `*.trash` for deletion at the limited rate.
pub(super) fn adopt(shared: &Arc<Shared>, file: ObsoleteFile<'_>) {
    let trash = &shared.trash;
    trash.bytes.fetch_add(file.bytes, Ordering::Relaxed);
    let mut state = lock(&trash.state);
    state.files.push_back(TrashFile {
        fs: Arc::clone(&file.env.fs),
        clock: Arc::clone(&file.env.clock),
        path: file.path.to_owned(),
        bytes: file.bytes,
        may_be_mapped: file.may_be_mapped,
        statistics: file.statistics.cloned(),
    });
    if std::mem::replace(&mut state.has_job, true) {
        return;
    }
    drop(state);
    // The files of a manager that is dropped are deleted by the next open.
    let turn = JobTurn {
        shared: Arc::downgrade(shared),
        has_ended: false,
    };
    file.env.pool.submit_waiting(move || turn.delete_all());
}

/// A background job that deletes trash files; at most one exists for each manager.
///
/// Its drop permits another job: at the end of this one, or if the environment never runs it.
struct JobTurn {
    shared: Weak<Shared>,
    has_ended: bool,
}

impl JobTurn {
    /// Deletes trash files at the limited rate until the queue is empty or the manager is dropped.
    fn delete_all(mut self) {
        while let Some(file) = self.next() {
            if delete(&self.shared, &file).is_none() {
                return;
            }
        }
    }

    /// Dequeues the next trash file; if there is none, ends the job and returns `None`.
    fn next(&mut self) -> Option<TrashFile> {
        let shared = self.shared.upgrade()?;
        let mut state = lock(&shared.trash.state);
        let file = state.files.pop_front();
        if file.is_none() {
            state.has_job = false;
            self.has_ended = true;
        }
        file
    }
}

impl Drop for JobTurn {
    fn drop(&mut self) {
        if !self.has_ended
            && let Some(shared) = self.shared.upgrade()
        {
            lock(&shared.trash.state).has_job = false;
        }
    }
}

/// Deletes a trash file in chunks at the limited rate; `None` if the manager was dropped meanwhile.
fn delete(shared: &Weak<Shared>, file: &TrashFile) -> Option<()> {
    let mut left = file.bytes;
    loop {
        let manager = shared.upgrade()?;
        let chunk = manager.trash.chunk_bytes;
        let freed = match chunk {
            1.. if left > chunk && file.shorten(left - chunk) => chunk,
            _ => {
                // The next open deletes a file that cannot be deleted now.
                let _ = file.fs.remove_file(&file.path);
                count(file.statistics.as_ref(), Ticker::FilesDeletedFromTrashQueue);
                left
            }
        };
        left -= freed;
        manager.trash.bytes.fetch_sub(freed, Ordering::Relaxed);
        if manager.max_space().is_some() {
            manager.space_changed();
        }
        let wait = manager.trash.time_of(freed);
        drop(manager);
        file.sleep(shared, wait)?;
        if left == 0 {
            return Some(());
        }
    }
}

impl TrashFile {
    /// Truncates the file to `len` bytes, unless a reader or another hard link may use its content.
    ///
    /// Returns whether it was truncated.
    fn shorten(&self, len: u64) -> bool {
        let is_alone = || {
            self.fs
                .metadata(&self.path)
                .is_ok_and(|file| file.links == 1)
        };
        !self.may_be_mapped && is_alone() && self.fs.truncate(&self.path, len).is_ok()
    }

    /// Sleeps for `left` to keep the deletion rate; `None` if the manager was dropped meanwhile.
    fn sleep(&self, shared: &Weak<Shared>, mut left: Duration) -> Option<()> {
        while !left.is_zero() {
            // The rate was switched off in the meantime.
            if shared.upgrade()?.trash.rate() == 0 {
                break;
            }
            let slice = left.min(SLICE);
            self.clock.sleep(slice);
            left -= slice;
        }
        Some(())
    }
}

/// Increments `ticker`, if there are statistics.
fn count(statistics: Option<&Statistics>, ticker: Ticker) {
    if let Some(statistics) = statistics {
        statistics.add(ticker, 1);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::SstFileManager;

    #[test]
    fn a_file_added_at_the_end_of_a_job_gets_another_job() {
        let manager = SstFileManager::builder().build();
        let has_job = || lock(&manager.shared.trash.state).has_job;
        lock(&manager.shared.trash.state).has_job = true;
        let mut turn = JobTurn {
            shared: Arc::downgrade(&manager.shared),
            has_ended: false,
        };
        assert!(turn.next().is_none());
        assert!(!has_job());
        // Another job begins before this one is dropped.
        lock(&manager.shared.trash.state).has_job = true;
        drop(turn);
        assert!(has_job());
        // A job that the environment drops without running it.
        drop(JobTurn {
            shared: Arc::downgrade(&manager.shared),
            has_ended: false,
        });
        assert!(!has_job());
    }
}
