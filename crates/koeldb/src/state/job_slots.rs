//! Counts of the running jobs and foreground calls of a database, and waits for them.
//!
//! Threads that wait for background work block on one condition variable, which every ended job,
//! failure and close notifies. With a simulated pool, or without threads, a waiter runs a job itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result};

use crate::env::Pool;

/// The counts of running flushes, compactions and user calls.
#[derive(Debug, Default)]
pub(crate) struct RunningJobs {
    pub(crate) flushes: u32,
    pub(crate) compactions: u32,
    /// The number of running user calls that change the directory.
    foreground: u32,
    /// The number of calls of `Db::pause_background_work` that were not reverted.
    pub(crate) pauses: u32,
    pub(crate) shut_down: bool,
}

impl RunningJobs {
    /// Whether background jobs may start.
    pub(crate) fn permits_jobs(&self) -> bool {
        !self.shut_down && self.pauses == 0
    }
}

/// The kinds of counted work: flushes, compactions, and user calls that change the directory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SlotKind {
    Flush,
    Compaction,
    Foreground,
}

/// A guard that counts a flush, compaction or user call as running until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot<'s> {
    slots: &'s JobSlots,
    kind: SlotKind,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut running = lock(&self.slots.running);
        match self.kind {
            SlotKind::Flush => running.flushes -= 1,
            SlotKind::Compaction => running.compactions -= 1,
            SlotKind::Foreground => running.foreground -= 1,
        }
        drop(running);
        self.slots.changed.notify_all();
    }
}

/// The counts of running background jobs and user calls, and waits for their changes.
#[derive(Debug)]
pub(crate) struct JobSlots {
    running: Mutex<RunningJobs>,
    changed: Condvar,
    /// Whether running compactions must end early.
    pub(crate) cancelled: AtomicBool,
    pool: Pool,
}

impl JobSlots {
    pub(crate) fn new(pool: Pool) -> Self {
        JobSlots {
            running: Mutex::default(),
            changed: Condvar::new(),
            cancelled: AtomicBool::new(false),
            pool,
        }
    }

    /// Locks the counts of running jobs; a waiter checks its condition under this lock.
    pub(crate) fn running(&self) -> MutexGuard<'_, RunningJobs> {
        lock(&self.running)
    }

    /// Returns the guard of a job that was already counted when it was submitted.
    pub(crate) fn of_job(&self, kind: SlotKind) -> Slot<'_> {
        Slot { slots: self, kind }
    }

    /// Registers a running user call that changes the directory, for which a close waits.
    pub(crate) fn enter(&self) -> Result<Slot<'_>> {
        let mut running = lock(&self.running);
        if running.shut_down {
            return Err(Error::with_kind(
                ErrorKind::ShutdownInProgress,
                "the database is closed",
            ));
        }
        running.foreground += 1;
        Ok(self.of_job(SlotKind::Foreground))
    }

    /// Wakes all threads that wait for background jobs.
    pub(crate) fn notify(&self) {
        drop(lock(&self.running));
        self.changed.notify_all();
    }

    /// Waits until a job or call ends or [`JobSlots::notify`] is called, at most `limit`.
    pub(crate) fn wait<'a>(
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
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until background work is not paused, or the database is being closed.
    pub(crate) fn wait_for_continue(&self) -> MutexGuard<'_, RunningJobs> {
        let mut running = self.running();
        while running.pauses > 0 && !running.shut_down {
            running = self.wait(running, Duration::from_millis(50));
        }
        running
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

    /// The numbers of running flushes and compactions.
    pub(crate) fn counts(&self) -> (u32, u32) {
        let running = lock(&self.running);
        (running.flushes, running.compactions)
    }
}
