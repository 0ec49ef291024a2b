//! Pauses of background jobs, by calls and before retries.
//!
//! `Db::pause_background_work` lets no job start until the call is reverted. A close ends all pauses,
//! a call of `Db::resume` those before retries.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, Result};

use super::Background;

impl Background {
    /// Keeps flushes and compactions from starting, and waits for those that run.
    ///
    /// Each call is reverted by one of [`Background::continue_work`].
    pub(crate) fn pause_work(&self) {
        let mut running = self.slots.running();
        running.pauses += 1;
        let is_busy = |jobs: u32| jobs > 0 || self.is_manual_running();
        while is_busy(running.flushes + running.compactions) && !self.health.is_closing() {
            running = self.slots.wait(running, Duration::from_millis(50));
        }
    }

    /// Reverts one call of [`Background::pause_work`]; jobs start again after the last.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none.
    pub(crate) fn continue_work(self: &Arc<Self>) -> Result<()> {
        {
            let mut running = self.slots.running();
            let left = running.pauses.checked_sub(1);
            running.pauses =
                left.ok_or_else(|| Error::invalid_argument("Background work already unpaused"))?;
        }
        self.slots.notify();
        self.schedule();
        Ok(())
    }

    /// Ends the pause after a failed compaction, because the user called `Db::resume`.
    pub(crate) fn retry_immediately(&self) {
        lock(&self.compaction_failures).pausing = None;
        self.resume_calls.fetch_add(1, Ordering::AcqRel);
        self.slots.notify();
    }

    /// Sleeps for `time`; ends early and returns `false` if the database closes.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        self.pause_before_retry(time, None)
    }

    /// Sleeps for `time`, or until `Db::resume` has been called again since `calls` was read.
    ///
    /// Returns `false` if the database closes.
    pub(super) fn pause_before_retry(&self, time: Duration, calls: Option<u64>) -> bool {
        let clock = &self.context.clock;
        let until = clock.now().saturating_add(time);
        let resume_calls = || self.resume_calls.load(Ordering::Acquire);
        let mut running = self.slots.running();
        loop {
            if running.shut_down || self.health.is_closing() {
                return false;
            }
            let left = until.saturating_sub(clock.now());
            let is_hastened = calls.is_some_and(|calls| resume_calls() != calls);
            if left.is_zero() || is_hastened {
                return true;
            }
            running = self
                .slots
                .wait(running, left.min(Duration::from_millis(50)));
        }
    }
}
