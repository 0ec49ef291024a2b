//! Lock requests of transactions and direct writes: immediate, blocking, and as futures.
//!
//! A blocking waiter spins briefly, parks, and looks for a deadlock after a pause. A future looks
//! for one immediately, since nobody polls it again before its lock is granted, and the timer wakes
//! it at its time limit or when a holder expires.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::sync::park_timeout;
use koeldb_base::{Error, Result};

use super::errors;
use super::table::{Answer, LockId, LockKey, LockMode, LockTable, Owner, Wait, spin};
use super::{DeadlockPath, KeyLocks};

/// Spin iterations before a blocking waiter parks: a lock may be held for one short commit.
const SPINS: u32 = 2_000;

/// The longest park of a waiter, which bounds the effect of an unlikely missed wake.
const PARK_MAX: Duration = Duration::from_millis(100);

/// A lock request: its owner, key and mode.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) owner: &'a Arc<Owner>,
    pub(crate) cf: u32,
    pub(crate) key: &'a [u8],
    pub(crate) id: LockId,
    pub(crate) mode: LockMode,
}

/// The time limits of a wait for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockTimeouts {
    /// The time after which the wait fails; `None` for no limit.
    pub(crate) timeout: Option<Duration>,
    /// The pause before a search for deadlocks; `None` for no search.
    pub(crate) detect_after: Option<Duration>,
}

/// How a lock was acquired: newly, by an upgrade from shared, or held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    New,
    Upgraded,
    Held,
}

/// A queued lock request, which leaves the queue when dropped.
struct Queued<'t> {
    locks: &'t LockTable,
    wait: Arc<Wait>,
    is_upgrade: bool,
    /// Whether a granted lock was passed to the caller.
    is_settled: bool,
}

impl Queued<'_> {
    /// Marks the granted lock as passed to the caller, so that a drop does not give it up.
    fn granted(&mut self) -> Acquired {
        self.is_settled = true;
        match self.is_upgrade {
            true => Acquired::Upgraded,
            false => Acquired::New,
        }
    }

    /// Leaves the queue and returns `error`; success if the lock was granted in the meantime.
    fn give_up(&mut self, error: Error) -> Result<Acquired> {
        match self.locks.give_up(&self.wait) {
            true => Ok(self.granted()),
            false => {
                self.is_settled = true;
                Err(error)
            }
        }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        if !self.is_settled && self.locks.give_up(&self.wait) {
            match self.is_upgrade {
                true => self.locks.downgrade(&self.wait.owner, self.wait.id),
                false => self.locks.release(&self.wait.owner, self.wait.id),
            }
        }
    }
}

/// The immediate answer to a lock request, or the queued request.
enum Asked<'t> {
    Done(Result<Acquired>),
    Queued(Queued<'t>),
}

impl KeyLocks {
    /// Requests a lock; on a conflict the request is queued, or fails if the timeout is zero.
    fn ask<'t>(
        &self,
        locks: &'t LockTable,
        wanted: Wanted<'_>,
        patience: LockTimeouts,
    ) -> Asked<'t> {
        let key = || LockKey {
            cf: wanted.cf,
            key: wanted.key.into(),
        };
        let name: Option<&dyn Fn() -> LockKey> = match patience.timeout {
            Some(Duration::ZERO) => None,
            _ => Some(&key),
        };
        let now = || self.context.clock.now();
        let answer = locks.request(wanted.owner, wanted.id, wanted.mode, &now, name);
        Asked::Done(match answer {
            Answer::Granted => Ok(Acquired::New),
            Answer::Upgraded => Ok(Acquired::Upgraded),
            Answer::Held => Ok(Acquired::Held),
            Answer::Taken => Err(errors::lock_timeout(wanted.key, &self.context)),
            Answer::Full => Err(errors::lock_limit()),
            Answer::Queued(wait) => {
                return Asked::Queued(Queued {
                    is_upgrade: wait.is_upgrade(),
                    locks,
                    wait,
                    is_settled: false,
                });
            }
        })
    }

    /// Fails, and ends the wait, if the wait closes a cycle in the waits-for graph.
    fn look_for_deadlock(&self, locks: &LockTable, wait: &Arc<Wait>) -> Result<()> {
        let Some(cycle) = locks.detect(wait) else {
            return Ok(());
        };
        let path = DeadlockPath::new(&cycle, self.context.clock.unix_micros());
        let error = errors::deadlock(&path, &self.context);
        self.remember(path);
        Err(error)
    }

    /// Acquires a lock, blocking the thread while others hold it.
    pub(crate) fn take_lock(
        &self,
        locks: &LockTable,
        wanted: Wanted<'_>,
        patience: LockTimeouts,
    ) -> Result<Acquired> {
        let mut queued = match self.ask(locks, wanted, patience) {
            Asked::Done(done) => return done,
            Asked::Queued(queued) => queued,
        };
        perf::count(PerfMetric::KeyLockWaitCount, 1);
        let _timer = perf::timer(PerfMetric::KeyLockWaitTime);
        let clock = &self.context.clock;
        let begun = clock.now();
        let mut detect_at = patience
            .detect_after
            .map(|pause| begun.saturating_add(pause));
        loop {
            if spin(&queued.wait, SPINS) {
                return Ok(queued.granted());
            }
            if self.health.check_open().is_err() {
                let closed = self.health.check_open().err();
                return queued.give_up(closed.unwrap_or_else(errors::expired));
            }
            let now = clock.now();
            let waited = now.saturating_sub(begun);
            let mut left = match patience.timeout {
                Some(limit) if waited >= limit => {
                    return queued.give_up(errors::lock_timeout(wanted.key, &self.context));
                }
                Some(limit) => (limit - waited).min(PARK_MAX),
                None => PARK_MAX,
            };
            if let Some(at) = detect_at {
                if now >= at {
                    detect_at = None;
                    if let Err(error) = self.look_for_deadlock(locks, &queued.wait) {
                        return queued.give_up(error);
                    }
                } else {
                    left = left.min(at - now);
                }
            }
            if let Some(expires) = locks.steal_expired_for(&queued.wait, now) {
                left = left.min(expires.saturating_sub(now).max(Duration::from_millis(1)));
            }
            if queued.wait.sleep_as_thread() && !self.context.env.pool.wait(left) {
                park_timeout(left);
            }
        }
    }

    /// Acquires a lock as a future, which blocks no thread and may be dropped at any moment.
    pub(crate) async fn take_lock_async(
        &self,
        locks: &LockTable,
        wanted: Wanted<'_>,
        patience: LockTimeouts,
    ) -> Result<Acquired> {
        let mut queued = match self.ask(locks, wanted, patience) {
            Asked::Done(done) => return done,
            Asked::Queued(queued) => queued,
        };
        let clock = &self.context.clock;
        let begun = clock.now();
        if patience.detect_after.is_some()
            && let Err(error) = self.look_for_deadlock(locks, &queued.wait)
        {
            return queued.give_up(error);
        }
        poll_fn(|context| {
            if queued.wait.is_granted() {
                return Poll::Ready(Ok(queued.granted()));
            }
            let now = clock.now();
            let until = patience.timeout.map(|limit| begun.saturating_add(limit));
            if until.is_some_and(|until| until <= now) {
                return Poll::Ready(
                    queued.give_up(errors::lock_timeout(wanted.key, &self.context)),
                );
            }
            if let Err(closed) = self.health.check_open() {
                return Poll::Ready(queued.give_up(closed));
            }
            let robbed = locks.steal_expired_for(&queued.wait, now);
            if !queued.wait.sleep_as_task(context.waker()) {
                return Poll::Ready(Ok(queued.granted()));
            }
            let expires = robbed.map(|at| at.max(now + Duration::from_millis(1)));
            if let Some(at) = until.into_iter().chain(expires).min() {
                self.timer.wake_at(at, &queued.wait, clock);
            }
            Poll::Pending
        })
        .await
    }
}
