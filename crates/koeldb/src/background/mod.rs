//! Flushes and compactions: their triggers, threads, and the installation of results.
//!
//! [`Background::schedule`] is called after every event that may make work due; it is cheap and may be
//! called from anywhere. The options limit the number of running jobs; a job that ends schedules
//! again. Jobs hold no lock while they read and write tables. Their edits are logged and installed
//! under the mutex of the version set, so column families see versions in the order of the
//! MANIFEST. Jobs may use all storeys below, `tree` and downwards; no job knows the write queue.

pub(crate) mod blob_garbage;
mod compaction;
mod flush;
mod job_info;
mod manual;
mod merge;
mod offers;
mod pause;
pub(crate) mod remote;
pub(crate) mod rest;
mod scrub;
mod space;
mod subcompactions;
pub(crate) mod transfer;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb_base::error::Severity;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_lsm::job::Fallback;
use koeldb_lsm::pick::aged::PickMoment;

use compaction::CompactionRequest;
use manual::ManualState;
use offers::Offers;
pub(crate) use remote::WorkerJob;

use crate::env::JobPriority;
use crate::report::listener::{Event, TableFallbackInfo};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::column_family_set::ColumnFamilySet;
use crate::state::context::Context;
use crate::state::health::{Health, is_transient};
use crate::state::job_slots::{JobSlots, RunningJobs, SlotKind};
use crate::state::visibility::Visibility;
use crate::state::work_queue::WorkKind;
use crate::tree::{Tree, TreeParts};
use crate::wal::WalSet;

/// The largest pause between retries, as a multiple of the first one.
pub(crate) const BACKOFF_MAX: u32 = 4;

/// The scheduler and runner of a database's background jobs: flushes and compactions.
pub(crate) struct Background {
    context: Arc<Context>,
    health: Arc<Health>,
    slots: Arc<JobSlots>,
    families: Arc<ColumnFamilySet>,
    visibility: Arc<Visibility>,
    wals: Arc<WalSet>,
    tree: Arc<Tree>,
    compaction_failures: Mutex<CompactionFailures>,
    /// The number of failed compactions since the last success.
    failed_compactions: AtomicU32,
    /// The number of calls of `Db::resume`.
    resume_calls: AtomicU64,
    /// Whether a compaction may have been refused for lack of space.
    waits_for_space: AtomicBool,
    /// Whether a resume runs, which alone flushes; read with the state of a family locked.
    holds_flushes: AtomicBool,
    manual: ManualState,
    /// The state of the compaction service.
    offers: Offers,
}

/// The record of compaction failures that are retried after a pause.
#[derive(Default)]
struct CompactionFailures {
    /// The failure of the pause that is running; no compaction starts until it ends.
    pausing: Option<Error>,
    /// The newest failure, and the number of failures.
    ///
    /// A thread that waits for background work may run the failing job itself, and sees it only
    /// after the pause.
    newest: Option<Error>,
    count: u64,
}

impl Background {
    /// Creates the background jobs of a database from its tree and the parts that both share.
    pub(crate) fn new(tree: &Arc<Tree>, parts: &TreeParts<'_>) -> Self {
        Background {
            context: Arc::clone(parts.context),
            health: Arc::clone(parts.health),
            slots: Arc::clone(parts.slots),
            families: Arc::clone(parts.families),
            visibility: Arc::clone(parts.visibility),
            wals: Arc::clone(parts.wals),
            tree: Arc::clone(tree),
            compaction_failures: Mutex::default(),
            failed_compactions: AtomicU32::new(0),
            resume_calls: AtomicU64::new(0),
            waits_for_space: AtomicBool::new(false),
            holds_flushes: AtomicBool::new(false),
            manual: ManualState::default(),
            offers: Offers::default(),
        }
    }

    /// Returns the failure whose retry pause runs, or the newest if there are more than `seen`.
    fn compaction_failure_since(&self, seen: u64) -> Option<Error> {
        let failures = lock(&self.compaction_failures);
        let new = failures.newest.as_ref().filter(|_| failures.count > seen);
        failures.pausing.as_ref().or(new).cloned()
    }

    /// Returns the maximum numbers of concurrent flushes and compactions.
    fn slots(&self) -> (u32, u32) {
        self.context.mutable_options().background_slots()
    }

    /// Starts due background work for which there are free slots.
    pub(crate) fn schedule(self: &Arc<Self>) {
        if !self.health.permits_jobs() {
            return;
        }
        let (flush_slots, compaction_slots) = self.slots();
        self.families.queue_expired();
        let mut running = self.slots.running();
        if !running.permits_jobs() {
            return;
        }
        self.start_flush(&mut running, flush_slots);
        let is_paused = lock(&self.compaction_failures).pausing.is_some();
        if running.compactions < compaction_slots
            && !is_paused
            && self.families.queue().has(WorkKind::Compaction)
        {
            running.compactions += 1;
            let jobs = Arc::clone(self);
            self.context
                .env
                .pool
                .submit(JobPriority::Low, move || jobs.run_compaction());
        }
    }

    /// Like [`Background::schedule`], but checks only flushes.
    ///
    /// Used by the leader of the write queue after sealing a memtable.
    pub(crate) fn schedule_flushes(self: &Arc<Self>) {
        if !self.health.permits_jobs() {
            return;
        }
        let (flush_slots, _) = self.slots();
        let mut running = self.slots.running();
        if running.permits_jobs() {
            self.start_flush(&mut running, flush_slots);
        }
    }

    /// Submits a flush job if a slot is free and a flush is due.
    fn start_flush(self: &Arc<Self>, running: &mut RunningJobs, slots: u32) {
        if running.flushes < slots && self.families.queue().has(WorkKind::Flush) {
            running.flushes += 1;
            let jobs = Arc::clone(self);
            self.context
                .env
                .pool
                .submit(JobPriority::High, move || jobs.run_flush());
        }
    }

    /// Logs and reports the tables of a job that fell back to the block-based format.
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
                    column_family: family.name.to_string(),
                    file: number,
                    reason,
                }));
        }
    }

    /// Returns the time, oldest snapshot and off-peak window by which compactions are picked.
    pub(crate) fn pick_moment(&self) -> PickMoment {
        PickMoment {
            unix_secs: self.context.table_files.unix_secs(),
            oldest_snapshot: self.visibility.oldest_snapshot(),
            offpeak: self.context.mutable_options().offpeak_window(),
        }
    }

    /// Schedules compactions that waited for a snapshot release; `oldest` is the oldest one left.
    pub(crate) fn snapshot_released(self: &Arc<Self>, oldest: SeqNo) {
        if self.families.queue_released(oldest) {
            self.schedule();
        }
    }

    /// Runs the background flush job: flushes sealed memtables while any are due.
    fn run_flush(self: &Arc<Self>) {
        let slot = self.slots.of_job(SlotKind::Flush);
        while !self.slots.cancelled.load(Ordering::Relaxed) && self.health.failure().is_none() {
            if self.slots.running().pauses > 0 {
                break;
            }
            let Some(family) = self.families.family_to_flush() else {
                break;
            };
            // Other families may be flushed in parallel.
            self.schedule_flushes();
            if let Err(error) = self.flush_sealed(&family) {
                self.health.job_failed("flush", error);
                break;
            }
        }
        self.families.announce_stall();
        // A listener may resume the database, which waits for running flushes; a close still waits
        // for the listener.
        let reporting = self.slots.enter();
        let closing = reporting.is_err().then_some(slot);
        self.health.report_failures();
        drop((reporting, closing));
        // A family may have been queued while this job held the last slot.
        self.schedule();
    }

    /// Runs the background compaction job: picks and runs one compaction.
    fn run_compaction(self: &Arc<Self>) {
        let slot = self.slots.of_job(SlotKind::Compaction);
        if !self.slots.cancelled.load(Ordering::Relaxed)
            && self.health.failure().is_none()
            && self.settle_blob_garbage().is_ok()
            && let Some((family, plan)) = self.families.pick_compaction(self.pick_moment())
        {
            // More compactions may be due in parallel.
            self.schedule();
            match self.compact(&family, plan, CompactionRequest::default()) {
                Ok(_) => self.failed_compactions.store(0, Ordering::Relaxed),
                Err(error) if space::is_short_of_space(&error) => {
                    self.context.info_log.warn(format_args!("{error}"));
                    self.postpone_compactions(&family);
                }
                Err(error) if is_transient(&error) || self.is_tolerated(&error) => {
                    self.retry_compaction_later(&error);
                }
                Err(error) => self.compaction_failed(error),
            }
        }
        self.health.report_failures();
        self.families.announce_stall();
        drop(slot);
        // A family may have been queued while this job held the last slot.
        self.schedule();
    }

    /// Stops writes after a failed compaction, unless it was cancelled, transient or tolerated.
    ///
    /// A cancelled compaction needs no action, and one that failed by an I/O error can be retried:
    /// only its caller is affected. Any other failure stops writes.
    fn compaction_failed(&self, error: Error) {
        if !is_given_up(&error) && !is_transient(&error) && !self.is_tolerated(&error) {
            self.health.job_failed("compaction", error);
        }
    }

    /// Whether an error is damage that must not stop writes, because `paranoid_checks` is off.
    fn is_tolerated(&self, error: &Error) -> bool {
        !self.context.db_options.paranoid_checks
            && error.kind() == ErrorKind::Corruption
            && error.severity() == Severity::None
    }

    /// Schedules a retry of a compaction after an I/O error.
    ///
    /// Its inputs are unchanged, and there is a pause before the retry.
    fn retry_compaction_later(self: &Arc<Self>, error: &Error) {
        let background = &**self;
        let calls = background.resume_calls.load(Ordering::Acquire);
        {
            let mut failures = lock(&background.compaction_failures);
            failures.pausing = Some(error.clone());
            failures.newest = Some(error.clone());
            failures.count += 1;
        }
        self.slots.notify();
        let failures = background
            .failed_compactions
            .fetch_add(1, Ordering::Relaxed)
            + 1;
        self.context
            .info_log
            .warn(format_args!("a compaction will be retried: {error}"));
        self.health.report_passing(error);
        let interval = Duration::from_micros(self.context.db_options.bgerror_resume_retry_interval);
        self.pause_before_retry(
            interval.saturating_mul(failures.min(BACKOFF_MAX)),
            Some(calls),
        );
        lock(&background.compaction_failures).pausing = None;
    }

    /// Waits while `condition` holds; fails if writes are stopped or the database closes.
    fn wait_while(self: &Arc<Self>, condition: impl Fn() -> Result<bool>) -> Result<()> {
        while condition()? {
            if let Some(failure) = self.health.failure() {
                return Err(failure);
            }
            self.health.check_open()?;
            self.schedule();
            let running = self.slots.running();
            if condition()? {
                drop(self.slots.wait(running, Duration::from_millis(50)));
            }
        }
        Ok(())
    }

    /// Whether no flush and no compaction is running or due.
    fn is_idle(&self, running: &RunningJobs) -> bool {
        let queue = self.families.queue();
        running.flushes + running.compactions == 0
            && !queue.has(WorkKind::Flush)
            && !queue.has(WorkKind::Compaction)
    }

    /// Waits until no background work is running or due.
    pub(crate) fn wait_for_compact(
        self: &Arc<Self>,
        timeout: Option<Duration>,
        aborts_on_pause: bool,
    ) -> Result<()> {
        let deadline = timeout.map(|timeout| self.context.clock.now() + timeout);
        let seen = lock(&self.compaction_failures).count;
        loop {
            self.health.check_open()?;
            let failure = self.health.failure();
            if let Some(failure) = failure.or_else(|| self.compaction_failure_since(seen)) {
                return Err(failure);
            }
            self.schedule();
            let running = self.slots.running();
            if aborts_on_pause && running.pauses > 0 {
                return Err(Error::with_kind(
                    ErrorKind::Aborted,
                    "background work is paused",
                ));
            }
            if self.is_idle(&running) {
                return Ok(());
            }
            if deadline.is_some_and(|deadline| self.context.clock.now() >= deadline) {
                return Err(Error::with_kind(
                    ErrorKind::TimedOut,
                    "background work is still running",
                ));
            }
            drop(self.slots.wait(running, Duration::from_millis(20)));
        }
    }
}

/// Whether a compaction was given up: cancelled, short of space, or of a dropped column family.
///
/// A panic is `Aborted` as well, but fatal.
fn is_given_up(error: &Error) -> bool {
    let is_cancelled = error.kind() == ErrorKind::Aborted && error.severity() == Severity::None;
    let is_dropped = error.kind() == ErrorKind::ColumnFamilyDropped;
    is_cancelled || is_dropped || space::is_short_of_space(error)
}
