//! Flushes and compactions: their triggers, threads, and the installation of results.
//!
//! [`DbInner::schedule`] is called after every event that may make work due; it is cheap and may be
//! called from anywhere. The options limit the number of running jobs; a job that ends schedules
//! again. Jobs hold no lock while they read and write tables. Their edits are logged and installed
//! under the mutex of the version set, so column families see versions in the order of the
//! MANIFEST.

mod compaction;
mod flush;
mod manual;
mod resume;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use koeldb_base::error::{ErrorDetail, Severity};
use koeldb_base::sabotage::{Sabotage, is_on};
use koeldb_base::stats::Ticker;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_lsm::job::Fallback;

use crate::column_family_data::ColumnFamilyData;
use crate::env::{JobPriority, Pool};
use crate::inner::DbInner;
use crate::listener::{Event, TableFallbackInfo};

#[derive(Debug, Default)]
struct RunningJobs {
    flushes: u32,
    compactions: u32,
    /// Running user calls that change the directory.
    foreground: u32,
    shut_down: bool,
}

#[derive(Clone, Copy, Debug)]
enum SlotKind {
    Flush,
    Compaction,
    Foreground,
}

/// Counts a piece of work while it runs, however it ends.
#[derive(Debug)]
pub(crate) struct Slot<'b> {
    background: &'b Background,
    kind: SlotKind,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut running = lock(&self.background.running);
        match self.kind {
            SlotKind::Flush => running.flushes -= 1,
            SlotKind::Compaction => running.compactions -= 1,
            SlotKind::Foreground => running.foreground -= 1,
        }
        drop(running);
        self.background.changed.notify_all();
    }
}

/// State of the running background jobs.
#[derive(Debug, Default)]
pub(crate) struct Background {
    running: Mutex<RunningJobs>,
    changed: Condvar,
    pub(crate) cancelled: AtomicBool,
    /// A job is trying to resume writes.
    is_resuming: AtomicBool,
    /// The failure of a compaction, which will be retried after a pause; none starts until then.
    compaction_failure: Mutex<Option<Error>>,
    /// The number of failed compactions since the last success.
    failed_compactions: AtomicU32,
    /// The number of calls of `Db::resume`.
    resume_calls: AtomicU64,
    pool: Pool,
}

impl Background {
    pub(crate) fn new(pool: Pool) -> Self {
        Background {
            pool,
            ..Background::default()
        }
    }

    /// Wakes all threads that wait for background work.
    pub(crate) fn notify(&self) {
        drop(lock(&self.running));
        self.changed.notify_all();
    }

    fn wait<'a>(
        &'a self,
        mut running: MutexGuard<'a, RunningJobs>,
        limit: Duration,
    ) -> MutexGuard<'a, RunningJobs> {
        if self.pool.is_stepped() || !self.pool.ensure_threads() {
            drop(running);
            let has_waited = self.pool.wait(limit);
            running = lock(&self.running);
            if has_waited {
                return running;
            }
        }
        let waited = self.changed.wait_timeout(running, limit);
        waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
    }

    /// Prevents new jobs, cancels running compactions, and waits for running jobs.
    pub(crate) fn shut_down(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        let mut running = lock(&self.running);
        running.shut_down = true;
        self.changed.notify_all();
        while running.flushes + running.compactions + running.foreground > 0 {
            running = self.wait(running, Duration::from_millis(100));
        }
    }

    /// Registers a call that changes the directory; a close waits for it.
    pub(crate) fn enter(&self) -> Result<Slot<'_>> {
        let mut running = lock(&self.running);
        if running.shut_down {
            return Err(Error::with_kind(
                ErrorKind::ShutdownInProgress,
                "the database is closed",
            ));
        }
        running.foreground += 1;
        Ok(Slot {
            background: self,
            kind: SlotKind::Foreground,
        })
    }

    fn compaction_failure(&self) -> Option<Error> {
        lock(&self.compaction_failure).clone()
    }

    pub(crate) fn counts(&self) -> (u32, u32) {
        let running = lock(&self.running);
        (running.flushes, running.compactions)
    }
}

impl DbInner {
    fn slots(&self) -> (u32, u32) {
        self.context.mutable_options().background_slots()
    }

    /// Starts due background work for which there are free slots.
    pub(crate) fn schedule(self: &Arc<Self>) {
        if self.is_closing() || self.context.read_only || self.failure().is_some() {
            return;
        }
        let (flush_slots, compaction_slots) = self.slots();
        let mut running = lock(&self.background.running);
        if running.shut_down {
            return;
        }
        self.start_flush(&mut running, flush_slots);
        let is_paused = self.background.compaction_failure().is_some();
        if running.compactions < compaction_slots && !is_paused && self.compaction_may_be_due() {
            running.compactions += 1;
            let inner = Arc::clone(self);
            self.context
                .env
                .pool
                .submit(JobPriority::Low, move || inner.run_compaction());
        }
    }

    /// Like [`DbInner::schedule`], but checks only flushes.
    ///
    /// Used by the leader of the write queue after sealing a memtable.
    pub(crate) fn schedule_flushes(self: &Arc<Self>) {
        if self.is_closing() || self.context.read_only || self.failure().is_some() {
            return;
        }
        let (flush_slots, _) = self.slots();
        let mut running = lock(&self.background.running);
        if !running.shut_down {
            self.start_flush(&mut running, flush_slots);
        }
    }

    fn start_flush(self: &Arc<Self>, running: &mut RunningJobs, slots: u32) {
        if running.flushes < slots && self.family_to_flush().is_some() {
            running.flushes += 1;
            let inner = Arc::clone(self);
            self.context
                .env
                .pool
                .submit(JobPriority::High, move || inner.run_flush());
        }
    }

    /// Logs which tables of a job are not in the format of the column family.
    fn notify_fallbacks(
        &self,
        family: &ColumnFamilyData,
        fallbacks: impl IntoIterator<Item = Fallback>,
    ) {
        for Fallback { number, reason } in fallbacks {
            self.context.info_log.warn(format_args!(
                "[{}] table {number:06}.sst is block-based: {reason}",
                family.name
            ));
            self.context
                .notify(&Event::TableFellBack(&TableFallbackInfo {
                    column_family: family.name.clone(),
                    file: number,
                    reason,
                }));
        }
    }

    /// Whether a column family has something to compact; marks nothing.
    fn compaction_may_be_due(&self) -> bool {
        self.all_families()
            .iter()
            .any(|family| family.is_compaction_due(self.context.table_files.unix_secs()))
    }

    fn run_flush(self: &Arc<Self>) {
        let slot = Slot {
            background: &self.background,
            kind: SlotKind::Flush,
        };
        let mut progress = false;
        while !self.background.cancelled.load(Ordering::Relaxed) && self.failure().is_none() {
            let Some(family) = self.family_to_flush() else {
                break;
            };
            match self.flush_sealed(&family) {
                Ok(done) => progress |= done,
                Err(error) => {
                    self.background_error("flush", error);
                    break;
                }
            }
        }
        self.report_failures();
        self.announce_stall();
        drop(slot);
        if progress {
            self.schedule();
        }
    }

    fn run_compaction(self: &Arc<Self>) {
        let slot = Slot {
            background: &self.background,
            kind: SlotKind::Compaction,
        };
        let mut picked = false;
        if !self.background.cancelled.load(Ordering::Relaxed) && self.failure().is_none() {
            let now = self.context.table_files.unix_secs();
            for family in self.all_families() {
                let Some(plan) = family.pick_compaction(now) else {
                    continue;
                };
                picked = true;
                // More compactions may be due in parallel.
                self.schedule();
                match self.compact(&family, plan) {
                    Ok(_) => self
                        .background
                        .failed_compactions
                        .store(0, Ordering::Relaxed),
                    Err(error) if is_transient(&error) => self.retry_compaction_later(&error),
                    Err(error) => self.compaction_failed(error),
                }
                break;
            }
        }
        self.report_failures();
        self.announce_stall();
        drop(slot);
        if picked {
            self.schedule();
        }
    }

    /// Handles a failed compaction.
    ///
    /// A cancelled compaction needs no action, and one that failed by an I/O error can be retried:
    /// only its caller is affected. Any other failure stops writes.
    fn compaction_failed(&self, error: Error) {
        let is_given_up = error.kind() == ErrorKind::Aborted && error.severity() == Severity::None;
        if !is_given_up && !is_transient(&error) {
            self.background_error("compaction", error);
        }
    }

    /// Schedules a retry of a compaction after an I/O error.
    ///
    /// Its inputs are unchanged, and there is a pause before the retry.
    fn retry_compaction_later(self: &Arc<Self>, error: &Error) {
        let background = &self.background;
        let calls = background.resume_calls.load(Ordering::Acquire);
        *lock(&background.compaction_failure) = Some(error.clone());
        background.notify();
        let failures = background
            .failed_compactions
            .fetch_add(1, Ordering::Relaxed)
            + 1;
        self.context
            .info_log
            .warn(format_args!("a compaction will be retried: {error}"));
        self.context.notify(&Event::BackgroundError(error));
        self.context.count(Ticker::ErrorHandlerBgErrorCount, 1);
        let interval = Duration::from_micros(self.context.db_options.bgerror_resume_retry_interval);
        self.background.pause_before_retry(
            self,
            interval.saturating_mul(failures.min(resume::BACKOFF_MAX)),
            Some(calls),
        );
        *lock(&background.compaction_failure) = None;
    }

    /// Runs a job; a panic in it becomes a fatal error.
    pub(crate) fn catch_panics<R>(&self, job: impl FnOnce() -> Result<R>) -> Result<R> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).unwrap_or_else(|panic| {
            let what = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned());
            Err(Error::with_kind(
                ErrorKind::Aborted,
                format!("a background job panicked: {what}"),
            )
            .with_detail(ErrorDetail::PluginPanicked)
            .with_severity(Severity::Fatal))
        })
    }

    /// Handles the failure of a background job.
    ///
    /// `docs/reliability.md`, background-error states, has the consequences for writes.
    pub(crate) fn background_error(&self, what: &str, error: Error) {
        let has_panicked = error.detail() == Some(ErrorDetail::PluginPanicked);
        if error.severity() > Severity::None && !has_panicked {
            // The error was already stored where it occurred; storing it again could undo a resume.
            return;
        }
        if is_on(Sabotage::BackgroundErrorSwallowed) {
            return;
        }
        let severity = match error.kind() {
            ErrorKind::Corruption => Severity::Unrecoverable,
            // Memtables and logs are unchanged: a resume writes another table.
            _ if is_transient(&error) => Severity::Hard,
            _ => Severity::Fatal,
        };
        self.fail_writes(error.context(what).with_severity(severity));
    }

    /// Waits while `condition` holds, or until writes are stopped or the database closes.
    fn wait_while(self: &Arc<Self>, condition: impl Fn() -> Result<bool>) -> Result<()> {
        while condition()? {
            if let Some(failure) = self.failure() {
                return Err(failure);
            }
            self.check_open()?;
            self.schedule();
            let running = lock(&self.background.running);
            if condition()? {
                drop(self.background.wait(running, Duration::from_millis(50)));
            }
        }
        Ok(())
    }

    /// Waits until no background work is running or due.
    pub(crate) fn wait_for_compact(self: &Arc<Self>, timeout: Option<Duration>) -> Result<()> {
        let deadline = timeout.map(|timeout| self.context.clock.now() + timeout);
        loop {
            self.check_open()?;
            let failure = self.failure();
            if let Some(failure) = failure.or_else(|| self.background.compaction_failure()) {
                return Err(failure);
            }
            self.schedule();
            let running = lock(&self.background.running);
            if running.flushes + running.compactions == 0
                && self.family_to_flush().is_none()
                && !self.compaction_may_be_due()
            {
                return Ok(());
            }
            if deadline.is_some_and(|deadline| self.context.clock.now() >= deadline) {
                return Err(Error::with_kind(
                    ErrorKind::TimedOut,
                    "background work goes on",
                ));
            }
            drop(self.background.wait(running, Duration::from_millis(20)));
        }
    }
}

/// Whether a failed job may be retried: the error is an I/O error and has not stopped writes.
fn is_transient(error: &Error) -> bool {
    error.kind() == ErrorKind::IoError
        && error.severity() == Severity::None
        && error.detail() != Some(ErrorDetail::PluginPanicked)
}
