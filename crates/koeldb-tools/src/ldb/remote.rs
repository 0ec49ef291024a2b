//! A compaction of one process run by another: the job and its result are files of a directory.
//!
//! The files are those of RocksDB's `ldb`, so either side may be RocksDB's program. A primary that
//! needs more than one job uses the crate `koeldb-worker`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use koeldb::{
    CompactRangeOptions, CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceScheduleResponse, CompactionServiceWaitResponse, Db, Options,
    compaction_failure_result,
};
use koeldb_fs::clock::{Clock, SystemClock};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::small_file::write_atomically;
use koeldb_fs::{FileSystem, Purpose};

use super::args::Global;
use super::database::{directory, open_to_write_with};
use super::output::Output;
use super::{Failure, Outcome};

/// The interval in which a file is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The number of looks before a file is given up: two minutes.
const POLLS_MAX: u32 = 1200;
/// The longest message that is read.
const MESSAGE_BYTES_MAX: u64 = 256 << 20;

/// The files of one compaction job.
#[derive(Clone, Debug)]
struct JobFiles(PathBuf);

impl JobFiles {
    /// Waits for a message that the other side writes, and reads it; `None` after two minutes, or
    /// when `is_cancelled` is set.
    fn wait_for(&self, name: &str, is_cancelled: &AtomicBool) -> Option<Vec<u8>> {
        let path = self.0.join(name);
        for _ in 0..POLLS_MAX {
            let read = PosixFileSystem::new().read_all(&path, MESSAGE_BYTES_MAX, Purpose::Other);
            match read {
                Ok(message) if !message.is_empty() => return Some(message),
                _ if is_cancelled.load(Ordering::Relaxed) => return None,
                _ => SystemClock.sleep(POLL_INTERVAL),
            }
        }
        None
    }

    /// Writes a message, which the other side sees whole or not at all.
    fn write(&self, name: &str, message: &[u8]) -> koeldb::Result<()> {
        let temporary = self.0.join(format!("{name}.tmp"));
        let path = self.0.join(name);
        write_atomically(
            &PosixFileSystem::new(),
            &temporary,
            &path,
            message,
            Purpose::Other,
        )
    }

    /// Returns the directory of the tables that the worker writes.
    fn output(&self) -> PathBuf {
        self.0.join("output")
    }
}

const INPUT: &str = "input.bin";
const RESULT: &str = "result.bin";

/// A service that gives its first compaction to a worker.
struct FirstJob {
    files: JobFiles,
    is_scheduled: AtomicBool,
    is_cancelled: AtomicBool,
    /// How the job ended, once it has.
    end: Mutex<Option<CompactionServiceJobStatus>>,
}

/// The service that the options own, shared with the command.
struct Shared(Arc<FirstJob>);

impl CompactionService for Shared {
    fn schedule(
        &self,
        _: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse {
        let job = &self.0;
        if job.is_scheduled.swap(true, Ordering::Relaxed) {
            let local = CompactionServiceJobStatus::UseLocal;
            return CompactionServiceScheduleResponse::Refused(local);
        }
        match job.files.write(INPUT, input) {
            Ok(()) => CompactionServiceScheduleResponse::Scheduled {
                job_id: "job_0001".to_owned(),
            },
            Err(error) => {
                eprintln!("{error}");
                let failure = CompactionServiceJobStatus::Failure;
                CompactionServiceScheduleResponse::Refused(failure)
            }
        }
    }

    fn wait(&self, _: &str) -> CompactionServiceWaitResponse {
        let files = &self.0.files;
        match files.wait_for(RESULT, &self.0.is_cancelled) {
            Some(result) => CompactionServiceWaitResponse::Completed {
                result,
                output_directory: files.output(),
            },
            None => CompactionServiceWaitResponse::Ended(CompactionServiceJobStatus::Failure),
        }
    }

    fn cancel_awaiting_jobs(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }

    fn on_installation(&self, _: &str, status: CompactionServiceJobStatus) {
        *self.0.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }
}

/// Runs `remote_compaction_primary`: compacts the column family, and has a worker run the first job.
pub(super) fn compact(global: &Global, job_dir: &Path, out: &mut Output) -> Outcome {
    if PosixFileSystem::new().exists(&job_dir.join(RESULT))? {
        let message = "--job_dir has the result of an earlier job: use an empty directory";
        return Err(Failure::Message(message.to_owned()));
    }
    let job = Arc::new(FirstJob {
        files: JobFiles(job_dir.to_owned()),
        is_scheduled: AtomicBool::new(false),
        is_cancelled: AtomicBool::new(false),
        end: Mutex::new(None),
    });
    let database = open_to_write_with(global, |options| {
        options
            .set_compaction_service(Shared(Arc::clone(&job)))
            .set_disable_auto_compactions(true);
    })?;
    let options = CompactRangeOptions::new();
    database.family.compact_range_opt(.., &options)?;
    database.close()?;
    let end = *job.end.lock().unwrap_or_else(PoisonError::into_inner);
    let is_remote = end == Some(CompactionServiceJobStatus::Success);
    if job.is_scheduled.load(Ordering::Relaxed) && !is_remote {
        let message = "CompactRange: no worker returned a valid result; the compaction ran locally";
        return Err(Failure::Message(message.to_owned()));
    }
    out.line("remote_compaction_primary: OK")
}

/// Runs `remote_compaction_worker`: waits for a job, runs it, and writes its result.
pub(super) fn work(global: &Global, job_dir: &Path, out: &mut Output) -> Outcome {
    let database = directory(global)?;
    let files = JobFiles(job_dir.to_owned());
    let Some(input) = files.wait_for(INPUT, &AtomicBool::new(false)) else {
        let path = job_dir.join(INPUT);
        let message = format!("Timed out (120s) waiting for {}", path.display());
        return Err(Failure::Message(message));
    };
    let result = Db::open_and_compact(&Options::new(), database, files.output(), &input);
    let message = match &result {
        Ok(result) => result.clone(),
        // The primary then does not wait in vain.
        Err(error) => compaction_failure_result(error),
    };
    files.write(RESULT, &message)?;
    if let Err(error) = result {
        return Err(Failure::Message(format!("OpenAndCompact: {error}")));
    }
    let bytes = message.len();
    out.line(&format!(
        "remote_compaction_worker: OK ({bytes} bytes result)"
    ))
}
