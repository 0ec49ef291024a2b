//! Wakes futures that wait for locks, at their time limits.
//!
//! A thread exists while there is something to wake. If the system refuses one, a future notices
//! its time limit when it is polled for another reason.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;
use koeldb_fs::Clock;

use super::table::Wait;

/// The time after which an idle timer thread ends.
const IDLE: Duration = Duration::from_secs(1);

/// An entry of the timer: a time, and the lock request to wake then; ordered by time.
struct Alarm(Duration, Weak<Wait>);

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Alarm {}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

/// The pending alarms of the timer, and whether its thread runs.
#[derive(Default)]
struct State {
    alarms: BinaryHeap<Reverse<Alarm>>,
    has_thread: bool,
}

/// The state that the timer and its thread share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// A timer, with a thread of its own, that wakes lock requests at given times.
#[derive(Default)]
pub(super) struct LockTimer {
    shared: Arc<Shared>,
}

impl LockTimer {
    /// Schedules a wake of the task that waits by `wait`, for time `at` of `clock`.
    pub(super) fn wake_at(&self, at: Duration, wait: &Arc<Wait>, clock: &Arc<dyn Clock>) {
        let mut state = lock(&self.shared.state);
        state.alarms.push(Reverse(Alarm(at, Arc::downgrade(wait))));
        if !state.has_thread {
            let (shared, clock) = (Arc::clone(&self.shared), Arc::clone(clock));
            let thread = std::thread::Builder::new().name("koeldb-locks".into());
            state.has_thread = thread.spawn(move || shared.run(&*clock)).is_ok();
        }
        drop(state);
        self.shared.changed.notify_one();
    }
}

impl Shared {
    /// Runs the timer thread, which wakes the lock requests that are due.
    fn run(&self, clock: &dyn Clock) {
        let mut state = lock(&self.state);
        loop {
            let now = clock.now();
            let mut due = Vec::new();
            while let Some(Reverse(Alarm(at, _))) = state.alarms.peek()
                && *at <= now
            {
                due.extend(
                    state
                        .alarms
                        .pop()
                        .and_then(|Reverse(alarm)| alarm.1.upgrade()),
                );
            }
            if !due.is_empty() {
                drop(state);
                for wait in due {
                    wait.wake();
                }
                state = lock(&self.state);
                continue;
            }
            let next = state.alarms.peek().map(|Reverse(alarm)| alarm.0);
            let limit = next.map_or(IDLE, |at| at.saturating_sub(now));
            let (guard, timeout) = self
                .changed
                .wait_timeout(state, limit)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if timeout.timed_out() && state.alarms.is_empty() {
                state.has_thread = false;
                return;
            }
        }
    }
}
