//! Automatic resume after an error whose cause may disappear.
//!
//! Such errors are a full disk, and a log or a MANIFEST that could not be written
//! (`docs/reliability.md`, B3). A single job retries with increasing pauses, according to the
//! options `max_bgerror_resume_count` and `bgerror_resume_retry_interval`. While the disk is full
//! it polls the free space instead. Closing the database ends it immediately.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb_base::error::{ErrorDetail, Severity};
use koeldb_base::stats::Ticker;
use koeldb_base::{Error, ErrorKind, Result};

use crate::background::BACKOFF_MAX;
use crate::background::Background;
use crate::commit::prepared::PreparedTransactions;
use crate::commit::protocol::CommitPipeline;
use crate::env::sst_file_manager::SstFileManager;
use crate::report::listener::Event;
use crate::state::context::Context;
use crate::state::health::Health;
use crate::state::table_files::FLUSH_PATH;

/// The initial interval for polling a full disk; it doubles up to [`SPACE_POLL_MAX`].
const SPACE_POLL_MIN: Duration = Duration::from_millis(250);
/// The final interval for polling a full disk.
const SPACE_POLL_MAX: Duration = Duration::from_secs(5);

/// The free space that a resume needs in addition to that for the memtables.
const SPACE_RESERVE: u64 = 64 << 10;

/// Recovers from background errors, on request and automatically (RocksDB: `DB::Resume`).
pub(crate) struct Resume {
    context: Arc<Context>,
    health: Arc<Health>,
    background: Arc<Background>,
    commit: Arc<CommitPipeline>,
    prepared: Arc<PreparedTransactions>,
    /// Whether a job is trying to resume writes.
    is_automatic: AtomicBool,
    /// The lock held by the running resume.
    turn: Mutex<()>,
}

impl Resume {
    pub(crate) fn new(commit: &Arc<CommitPipeline>, prepared: &Arc<PreparedTransactions>) -> Self {
        Resume {
            context: Arc::clone(&commit.context),
            health: Arc::clone(&commit.health),
            background: Arc::clone(&commit.background),
            commit: Arc::clone(commit),
            prepared: Arc::clone(prepared),
            is_automatic: AtomicBool::new(false),
            turn: Mutex::new(()),
        }
    }

    /// Recovers from a hard error: abandons the failed log and flushes all column families.
    ///
    /// Writes are accepted again after that.
    pub(crate) fn run(&self) -> Result<()> {
        let _foreground = self.commit.slots.enter()?;
        let _only_one = self.turn.try_lock().map_err(|_| {
            Error::with_kind(
                ErrorKind::Busy,
                "another thread is already resuming the database",
            )
        })?;
        if self.health.failure().is_none() {
            return Ok(());
        }
        // Other flushes rely on logs that are abandoned here.
        let hold = self.background.hold_flushes();
        let count = self.health.failure_count();
        let Some(failure) = self.health.failure() else {
            return Ok(());
        };
        if failure.severity() > Severity::Hard {
            return Err(failure.context("the database must be reopened after this error"));
        }
        if self.is_space_limited(&failure) {
            return Err(failure);
        }
        {
            let mut leadership = self.commit.queue.lead();
            // Groups before the failure may still be inserted, and publish their numbers.
            self.commit.queue.pipeline.drain()?;
            self.health.set_gave_up_logs(true);
            self.commit.abandon_wal(&mut leadership.commit)?;
            self.prepared
                .apply_standing_decisions(&self.commit, &mut leadership.commit)?;
            self.commit.seal_memtables(&mut leadership.commit)?;
        }
        self.background.flush_all_as_one()?;
        self.health.set_gave_up_logs(false);
        self.prepared.forget_decided();
        drop(hold);
        self.health.clear_failure(count)?;
        self.background.schedule();
        Ok(())
    }

    /// Submits a background job for automatic recovery, if the error allows it and none is running.
    pub(crate) fn begin(self: &Arc<Self>) {
        if self.health.is_beyond_resuming()
            || self.health.is_closing()
            || self.context.db_options.max_bgerror_resume_count <= 0
        {
            return;
        }
        if self.is_automatic.swap(true, Ordering::AcqRel) {
            // The job may still be queued because the system refused a thread: tries to start one
            // again.
            self.context.env.pool.ensure_threads();
            return;
        }
        // A waiting job must not keep a dropped database alive.
        let resume = Arc::downgrade(self);
        self.context.env.pool.submit_waiting(move || {
            if let Some(resume) = resume.upgrade() {
                resume.run_automatic();
            }
        });
    }

    /// Runs the automatic recovery job, and notifies event listeners of its begin and end.
    fn run_automatic(self: &Arc<Self>) {
        // A close waits for this job.
        let slot = self.commit.slots.enter();
        let failure = self.health.failure();
        if let Some(failure) = &failure {
            self.context.notify(&Event::ErrorRecoveryBegin(failure));
        }
        let has_given_up = slot.is_err() || !self.resume_until_writable();
        if let Some(old) = &failure {
            let left = self.health.failure();
            let new = left.as_ref();
            self.context.notify(&Event::ErrorRecoveryEnd { old, new });
        }
        self.is_automatic.store(false, Ordering::Release);
        drop(slot);
        if !has_given_up {
            // Handles a failure that arrived while this job still seemed to be running.
            self.begin();
        }
    }

    /// Retries the recovery from an error until writes are accepted; `false` if it gave up.
    ///
    /// If there is only one thread, it tries once and returns, since other jobs in that thread may
    /// free space.
    fn resume_until_writable(&self) -> bool {
        self.context.count(Ticker::ErrorHandlerAutoresumeCount, 1);
        let attempts_max =
            u32::try_from(self.context.db_options.max_bgerror_resume_count).unwrap_or(u32::MAX);
        let interval = Duration::from_micros(self.context.db_options.bgerror_resume_retry_interval);
        let mut attempts = 0;
        let mut space_poll = SPACE_POLL_MIN;
        let mut pause = interval;
        while self.background.pause(pause) {
            if self.health.is_beyond_resuming() {
                return self.health.failure().is_none();
            }
            if !self.has_space() {
                if self.context.env.pool.is_stepped() {
                    return true;
                }
                pause = space_poll;
                space_poll = (space_poll * 2).min(SPACE_POLL_MAX);
                continue;
            }
            attempts += 1;
            self.context
                .count(Ticker::ErrorHandlerAutoresumeRetryTotalCount, 1);
            match self.run() {
                Ok(()) => {
                    self.context
                        .count(Ticker::ErrorHandlerAutoresumeSuccessCount, 1);
                    return true;
                }
                Err(error) => self.resume_failed(attempts, &error),
            }
            if attempts >= attempts_max {
                self.context.info_log.warn(format_args!(
                    "automatic resume gave up after {attempts} attempts"
                ));
                return false;
            }
            if self.context.env.pool.is_stepped() {
                return true;
            }
            pause = interval.saturating_mul(attempts.min(BACKOFF_MAX));
        }
        false
    }

    /// Reports a failed recovery attempt to LOG and to listeners.
    fn resume_failed(&self, attempts: u32, error: &Error) {
        if matches!(
            error.kind(),
            ErrorKind::Busy | ErrorKind::ShutdownInProgress
        ) {
            return;
        }
        self.context
            .info_log
            .warn(format_args!("attempt {attempts} to resume: {error}"));
        self.context.notify(&Event::ResumeFailed(error));
    }

    /// Whether `failure` is the limit of an [`SstFileManager`] on space, which is still reached.
    fn is_space_limited(&self, failure: &Error) -> bool {
        let manager = self.context.plugins.sst_file_manager.as_ref();
        failure.detail() == Some(ErrorDetail::SpaceLimit)
            && manager.is_some_and(SstFileManager::is_max_allowed_space_reached)
    }

    /// Whether there is enough free space for a recovery; `true` if the failure had another cause.
    fn has_space(&self) -> bool {
        let Some(failure) = self.health.failure() else {
            return true;
        };
        if failure.detail() != Some(ErrorDetail::NoSpace) {
            return !self.is_space_limited(&failure);
        }
        let unflushed: u64 = self
            .commit
            .families
            .all()
            .iter()
            .map(|family| {
                family.read(|state| {
                    let memtables = state.sealed.iter().chain(std::iter::once(&state.active));
                    let bytes = memtables.map(|logged| logged.memtable.data_bytes());
                    bytes.sum::<u64>()
                })
            })
            .sum();
        let families = self.commit.families.all();
        // Flushes write to the first directory of a family.
        let tables = families
            .iter()
            .map(|family| family.tables.paths().directory(FLUSH_PATH));
        [&*self.context.path, &*self.context.wal_dir]
            .into_iter()
            .chain(tables)
            .all(|directory| {
                // If the free space is unknown, the attempt will show.
                let free: Result<u64> = self.context.fs.free_space(directory);
                free.map_or(true, |free| free >= unflushed + SPACE_RESERVE)
            })
    }
}
