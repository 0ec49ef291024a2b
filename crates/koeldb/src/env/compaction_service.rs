//! The interface of compaction services, which carry jobs to workers.

use std::path::PathBuf;

use koeldb_lsm::pick::CompactionReason;

/// The status of a remote compaction job. (RocksDB's `CompactionServiceJobStatus`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionServiceJobStatus {
    /// The worker wrote a result.
    Success,
    /// The job failed. The primary runs the compaction itself.
    ///
    /// In RocksDB the compaction fails.
    Failure,
    /// The job was cancelled: the compaction ends, and is picked again later.
    Aborted,
    /// The job is not run remotely: the primary runs the compaction itself.
    UseLocal,
}

/// The response to [`CompactionService::schedule`]: the job's id, or why it was not scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactionServiceScheduleResponse {
    /// The job was scheduled.
    Scheduled {
        /// The name of the job, unique among all databases of the service.
        job_id: String,
    },
    /// The job was not scheduled, for this reason.
    Refused(CompactionServiceJobStatus),
}

/// The response to [`CompactionService::wait`]: the worker's result, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactionServiceWaitResponse {
    /// A worker returned a result.
    Completed {
        /// The message of [`crate::Db::open_and_compact`].
        result: Vec<u8>,
        /// The directory in which the worker wrote its tables.
        ///
        /// The primary takes tables from nowhere else: the `output_path` of the result has to be
        /// this path. It must not be in the directory of the database.
        output_directory: PathBuf,
    },
    /// There is no result, for this reason. `Success` means the same as `Failure` here.
    Ended(CompactionServiceJobStatus),
}

/// The description of a compaction job that [`CompactionService::schedule`] receives.
#[derive(Clone, Debug)]
pub struct CompactionServiceJobInfo {
    /// The directory of the database.
    pub db_path: PathBuf,
    /// The identity of the database.
    pub db_id: String,
    /// The id of this open of the database.
    pub db_session_id: String,
    /// The id of the column family.
    pub column_family_id: u32,
    /// The name of the column family.
    pub column_family: String,
    /// The number of the job, unique within this open of the database.
    pub job_id: u64,
    /// The reason for the compaction.
    pub reason: CompactionReason,
    /// Whether nothing lies below the output in its key range.
    pub is_bottommost: bool,
    /// Whether all tables of the column family are inputs.
    pub is_full_compaction: bool,
    /// The uppermost input level.
    pub base_input_level: usize,
    /// The output level.
    pub output_level: usize,
    /// The bytes of the input tables.
    pub input_bytes: u64,
}

/// A user-defined service that runs compactions remotely (RocksDB: `CompactionService`).
///
/// [`crate::Options::set_compaction_service`] installs it. Its calls come from background threads,
/// for several jobs concurrently.
pub trait CompactionService: Send + Sync + 'static {
    /// Schedules a compaction on a worker, which passes `input` to [`crate::Db::open_and_compact`].
    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse;

    /// Blocks until remote compaction `job_id` ends, and returns the worker's result.
    ///
    /// A service decides how long it waits, and returns
    /// [`CompactionServiceJobStatus::UseLocal`] when it gives up. From this call's return on, no
    /// worker may write to the output directory.
    ///
    /// After a job that was given up, compactions run locally for a multiple of the time that this
    /// call took: 2, and twice as much after each further job given up, up to 64. Then one job is
    /// offered. All jobs are offered again after any other answer.
    fn wait(&self, job_id: &str) -> CompactionServiceWaitResponse;

    /// Makes all current and later calls of `wait` return, because the database is being closed.
    fn cancel_awaiting_jobs(&self) {}

    /// Is called when the primary has installed or given up the result of a remote compaction.
    ///
    /// `Success`: its tables are in the database directory. `UseLocal`: the result was refused.
    /// `Aborted`: the compaction was cancelled. The output directory is no longer needed.
    fn on_installation(&self, job_id: &str, status: CompactionServiceJobStatus) {
        let _ = (job_id, status);
    }
}
