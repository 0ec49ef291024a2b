//! Automatic resume after an error whose cause may disappear.
//!
//! Such errors are a full disk, and a log or a MANIFEST that could not be written
//! (`docs/reliability.md`, B3). A single job retries with increasing pauses, according to the
//! options `max_bgerror_resume_count` and `bgerror_resume_retry_interval`. While the disk is full
//! it polls the free space instead. Closing the database ends it immediately.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koeldb_base::error::{ErrorDetail, Severity};
use koeldb_base::stats::Ticker;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result};

use super::Background;
use crate::inner::DbInner;
use crate::listener::Event;

/// The initial and the final interval for polling a full disk.
const SPACE_POLL_MIN: Duration = Duration::from_millis(250);
const SPACE_POLL_MAX: Duration = Duration::from_secs(5);

/// The free space that is needed in addition to that for the memtables.
const SPACE_RESERVE: u64 = 64 << 10;

/// The pause between attempts grows up to this multiple of the interval.
pub(super) const BACKOFF_MAX: u32 = 4;

impl Background {
    /// Ends the pause after a failed compaction, when the user calls `Db::resume`.
    pub(crate) fn retry_immediately(&self) {
        *lock(&self.compaction_failure) = None;
        self.resume_calls.fetch_add(1, Ordering::AcqRel);
        self.notify();
    }

    /// Waits; `false` if the database closes.
    pub(crate) fn pause(&self, inner: &DbInner, time: Duration) -> bool {
        self.pause_before_retry(inner, time, None)
    }

    /// Waits for a time, or until the number of `Db::resume` calls exceeds `calls`.
    ///
    /// Returns `false` if the database closes.
    pub(super) fn pause_before_retry(
        &self,
        inner: &DbInner,
        time: Duration,
        calls: Option<u64>,
    ) -> bool {
        let until = inner.context.clock.now().saturating_add(time);
        let mut running = lock(&self.running);
        loop {
            if running.shut_down || inner.is_closing() {
                return false;
            }
            let left = until.saturating_sub(inner.context.clock.now());
            let is_hastened =
                calls.is_some_and(|calls| self.resume_calls.load(Ordering::Acquire) != calls);
            if left.is_zero() || is_hastened {
                return true;
            }
            running = self.wait(running, left.min(Duration::from_millis(50)));
        }
    }
}

impl DbInner {
    /// Starts automatic resume, if there is a recoverable failure and none is running.
    pub(crate) fn begin_resuming(self: &Arc<Self>) {
        if self.is_beyond_resuming()
            || self.is_closing()
            || self.context.db_options.max_bgerror_resume_count <= 0
        {
            return;
        }
        if self.background.is_resuming.swap(true, Ordering::AcqRel) {
            // The job may still be queued because the system refused a thread: tries to start one
            // again.
            self.context.env.pool.ensure_threads();
            return;
        }
        // A waiting job must not keep a dropped database alive.
        let inner = Arc::downgrade(self);
        self.context.env.pool.submit_waiting(move || {
            if let Some(inner) = inner.upgrade() {
                inner.run_resuming();
            }
        });
    }

    /// Whether there is no failure, or one that requires a reopen.
    fn is_beyond_resuming(&self) -> bool {
        self.failure()
            .is_none_or(|failure| failure.severity() > Severity::Hard)
    }

    fn run_resuming(self: &Arc<Self>) {
        // A close waits for this job.
        let slot = self.background.enter();
        let has_given_up = slot.is_err() || !self.resume_until_writable();
        self.background.is_resuming.store(false, Ordering::Release);
        drop(slot);
        if !has_given_up {
            // Handles a failure that arrived while this job still seemed to be running.
            self.begin_resuming();
        }
    }

    /// Retries until writes are accepted; `false` if it gave up.
    ///
    /// If there is only one thread, it tries once and returns, since other jobs in that thread may
    /// free space.
    fn resume_until_writable(self: &Arc<Self>) -> bool {
        self.context.count(Ticker::ErrorHandlerAutoresumeCount, 1);
        let attempts_max =
            u32::try_from(self.context.db_options.max_bgerror_resume_count).unwrap_or(u32::MAX);
        let interval = Duration::from_micros(self.context.db_options.bgerror_resume_retry_interval);
        let mut attempts = 0;
        let mut space_poll = SPACE_POLL_MIN;
        let mut pause = interval;
        while self.background.pause(self, pause) {
            if self.is_beyond_resuming() {
                return self.failure().is_none();
            }
            if !self.has_space() {
                if self.background.pool.is_stepped() {
                    return true;
                }
                pause = space_poll;
                space_poll = (space_poll * 2).min(SPACE_POLL_MAX);
                continue;
            }
            attempts += 1;
            self.context
                .count(Ticker::ErrorHandlerAutoresumeRetryTotalCount, 1);
            match self.resume() {
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
            if self.background.pool.is_stepped() {
                return true;
            }
            pause = interval.saturating_mul(attempts.min(BACKOFF_MAX));
        }
        false
    }

    fn resume_failed(self: &Arc<Self>, attempts: u32, error: &Error) {
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

    /// Whether there is space for the writes of a resume, if the failure was a full disk.
    fn has_space(&self) -> bool {
        let is_full = self
            .failure()
            .is_some_and(|failure| failure.detail() == Some(ErrorDetail::NoSpace));
        if !is_full {
            return true;
        }
        let unflushed: u64 = self
            .all_families()
            .iter()
            .map(|family| {
                family.read(|state| {
                    let memtables = state.sealed.iter().chain(std::iter::once(&state.active));
                    let bytes = memtables.map(|logged| logged.memtable.data_bytes());
                    bytes.sum::<u64>()
                })
            })
            .sum();
        [&self.context.path, &self.context.wal_dir]
            .into_iter()
            .all(|directory| {
                // If the free space is unknown, the attempt will show.
                let free: Result<u64> = self.context.fs.free_space(directory);
                free.map_or(true, |free| free >= unflushed + SPACE_RESERVE)
            })
    }
}
