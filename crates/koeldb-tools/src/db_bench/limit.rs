//! The end of a thread's loop, and rate limiting.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use koeldb_fs::clock::{Clock, SystemClock};

/// The end condition of a thread's benchmark loop: a number of operations or a duration.
#[derive(Debug)]
pub(crate) struct WorkLimit<'a> {
    ops: u64,
    /// The maximum number of operations; `u64::MAX` if the time decides.
    most: u64,
    next_look: u64,
    look_every: u64,
    /// The running time; `None` if the number of operations decides.
    time: Option<Duration>,
    start: Duration,
    /// Set if another thread failed.
    failed: &'a AtomicBool,
}

impl<'a> WorkLimit<'a> {
    /// Creates an end condition: `seconds`, or `ops` operations if `seconds` is 0.
    ///
    /// The clock and the failure of other threads are checked every `look_every` operations.
    pub(crate) fn new(seconds: u64, ops: u64, look_every: u64, failed: &'a AtomicBool) -> Self {
        let look_every = look_every.max(1);
        WorkLimit {
            ops: 0,
            most: if seconds > 0 { u64::MAX } else { ops },
            next_look: look_every,
            look_every,
            time: (seconds > 0).then(|| Duration::from_secs(seconds)),
            start: SystemClock.now(),
            failed,
        }
    }

    /// Counts `increment` operations, and returns whether the loop is to end before them.
    #[inline]
    pub(crate) fn done(&mut self, increment: u64) -> bool {
        self.ops += increment.max(1);
        self.ops > self.most || (self.ops >= self.next_look && self.look())
    }

    /// Counts and returns the operations, at most `most`, up to the next time check; 0 to end.
    ///
    /// Each step is one operation.
    #[inline]
    pub(crate) fn steps(&mut self, most: u64) -> u64 {
        if self.done(1) {
            return 0;
        }
        let unwatched = self.next_look.saturating_sub(1).min(self.most);
        let more = unwatched
            .saturating_sub(self.ops)
            .min(most.saturating_sub(1));
        self.ops += more;
        1 + more
    }

    /// Checks the clock and whether another thread failed; returns whether the loop must end.
    #[cold]
    fn look(&mut self) -> bool {
        self.next_look = (self.ops / self.look_every + 1) * self.look_every;
        self.failed.load(Ordering::Relaxed)
            || self
                .time
                .is_some_and(|time| SystemClock.now().saturating_sub(self.start) >= time)
    }
}

/// A rate limiter of benchmark operations or bytes, shared by the threads.
#[derive(Debug)]
pub(crate) struct Pacer {
    per_second: AtomicU64,
    /// The time of the next grant.
    next: Mutex<Duration>,
}

/// The maximum delay that later requests catch up with, because sleeps end late.
const CATCH_UP: Duration = Duration::from_millis(100);

impl Pacer {
    /// Creates a rate limiter; `None` if `per_second` is 0, which is no limit.
    pub(crate) fn new(per_second: u64) -> Option<Self> {
        (per_second > 0).then(|| Pacer {
            per_second: AtomicU64::new(per_second),
            next: Mutex::new(SystemClock.now()),
        })
    }

    /// Sets the rate of later grants; at least 1 per second.
    pub(crate) fn set_rate(&self, per_second: u64) {
        self.per_second.store(per_second.max(1), Ordering::Relaxed);
    }

    /// Blocks until the rate limit permits `units` more operations or bytes.
    pub(crate) fn request(&self, units: u64) {
        let now = SystemClock.now();
        let turn = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = now.saturating_sub(CATCH_UP).max(*next);
            *next = turn + self.time_of(units);
            turn
        };
        if turn > now {
            SystemClock.sleep(turn - now);
        }
    }

    /// Returns the time that `units` operations or bytes take at the permitted rate.
    #[expect(clippy::cast_precision_loss, reason = "a rate is an approximation")]
    fn time_of(&self, units: u64) -> Duration {
        let per_second = self.per_second.load(Ordering::Relaxed);
        Duration::from_secs_f64(units as f64 / per_second as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(limit: &mut WorkLimit<'_>, increment: u64) -> u64 {
        (0..).find(|_| limit.done(increment)).unwrap_or(0)
    }

    #[test]
    fn whole_batches_that_fit_are_done() {
        let go = AtomicBool::new(false);
        assert_eq!(steps(&mut WorkLimit::new(0, 10, 1000, &go), 1), 10);
        assert_eq!(steps(&mut WorkLimit::new(0, 10, 1000, &go), 3), 3);
        assert_eq!(steps(&mut WorkLimit::new(0, 10, 1000, &go), 11), 0);
        assert_eq!(steps(&mut WorkLimit::new(0, 2, 1000, &go), 0), 2);
    }

    #[test]
    fn the_failure_of_another_thread_is_noticed_at_the_next_look() {
        let stop = AtomicBool::new(true);
        assert_eq!(steps(&mut WorkLimit::new(0, 5000, 1000, &stop), 1), 999);
        assert_eq!(steps(&mut WorkLimit::new(0, 5000, 1000, &stop), 7), 142);
    }

    #[test]
    fn time_overrides_the_count() {
        let go = AtomicBool::new(false);
        let mut limit = WorkLimit::new(1, 3, 10, &go);
        limit.time = Some(Duration::ZERO);
        assert_eq!(steps(&mut limit, 1), 9);
    }

    #[test]
    fn several_steps_at_once_are_as_many_as_single_ones() {
        let (go, stop) = (AtomicBool::new(false), AtomicBool::new(true));
        for (ops, failed) in [(0, &go), (1, &go), (10, &go), (2500, &go), (5000, &stop)] {
            for most in [1, 7, 256, u64::MAX] {
                let mut limit = WorkLimit::new(0, ops, 1000, failed);
                let mut done = 0;
                loop {
                    let steps = limit.steps(most);
                    assert!(steps <= most, "{steps} of {most}");
                    done += steps;
                    if steps == 0 {
                        break;
                    }
                }
                let single = super::tests::steps(&mut WorkLimit::new(0, ops, 1000, failed), 1);
                assert_eq!(done, single, "{ops} operations, {most} at once");
            }
        }
    }

    #[test]
    fn a_pacer_spaces_its_grants() {
        assert!(Pacer::new(0).is_none());
        let pacer = Pacer::new(1_000_000).expect("a rate");
        let start = SystemClock.now();
        (0..5).for_each(|_| pacer.request(5_000));
        assert!(SystemClock.now() - start >= Duration::from_millis(20));
    }
}
