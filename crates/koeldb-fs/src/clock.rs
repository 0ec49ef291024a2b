//! Clocks, as a trait, so that tests control time.
//!
//! Timeouts, rates and back-off read the monotonic clock; the wall clock is for hints that are
//! stored in files.

use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time that threads share.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Returns the time since some fixed moment; never decreases.
    fn now(&self) -> Duration;

    /// Returns microseconds since 1970 by the machine's wall clock; may jump.
    fn unix_micros(&self) -> u64;

    /// Converts `instant` to a time of [`Clock::now`]; a past one becomes the current time.
    #[expect(
        clippy::disallowed_methods,
        reason = "an instant says nothing but how far it is"
    )]
    fn time_of(&self, instant: Instant) -> Duration {
        let ahead = instant.saturating_duration_since(Instant::now());
        self.now().saturating_add(ahead)
    }

    /// Blocks the calling thread until `duration` has passed on this clock.
    fn sleep(&self, duration: Duration);

    /// Returns the CPU time of the calling thread; zero where it is not known.
    fn thread_cpu(&self) -> Duration {
        Duration::ZERO
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn now(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        let start = *START.get_or_init(Instant::now);
        Instant::now().saturating_duration_since(start)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn unix_micros(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, saturating_micros)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    #[cfg(all(any(target_os = "linux", target_os = "macos"), not(miri)))]
    fn thread_cpu(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(time).unwrap_or(Duration::ZERO)
    }
}

/// Returns the duration in microseconds; `u64::MAX` if they are more.
fn saturating_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the duration in nanoseconds; `u64::MAX` if they are more.
fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A clock that moves only when it is advanced or set; clones are handles to the same clock.
///
/// A sleeper does not wait: it advances the clock to the time it sleeps until. Sleeps that began
/// together therefore end together.
#[derive(Clone, Debug)]
pub struct ManualClock {
    shared: Arc<ManualState>,
}

/// The time of a manual clock, and the Unix time at which it was zero.
#[derive(Debug)]
struct ManualState {
    nanos: AtomicU64,
    unix_micros_at_zero: AtomicU64,
}

impl ManualClock {
    /// Creates a clock at zero; its wall clock is at the beginning of 2020.
    #[must_use]
    pub fn new() -> Self {
        ManualClock {
            shared: Arc::new(ManualState {
                nanos: AtomicU64::new(0),
                unix_micros_at_zero: AtomicU64::new(1_577_836_800_000_000),
            }),
        }
    }

    /// Advances the monotonic clock and the wall clock by `duration`.
    pub fn advance(&self, duration: Duration) {
        self.shared
            .nanos
            .fetch_add(saturating_nanos(duration), Ordering::AcqRel);
    }

    /// Sets the wall clock, forwards or backwards, and leaves the monotonic clock unchanged.
    pub fn set_unix_micros(&self, micros: u64) {
        let elapsed = saturating_micros(self.now());
        self.shared
            .unix_micros_at_zero
            .store(micros.saturating_sub(elapsed), Ordering::Release);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.shared.nanos.load(Ordering::Acquire))
    }

    fn unix_micros(&self) -> u64 {
        self.shared
            .unix_micros_at_zero
            .load(Ordering::Acquire)
            .saturating_add(saturating_micros(self.now()))
    }

    fn sleep(&self, duration: Duration) {
        let until = self
            .shared
            .nanos
            .load(Ordering::Acquire)
            .saturating_add(saturating_nanos(duration));
        self.shared.nanos.fetch_max(until, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn the_cpu_time_of_a_thread_has_the_shortest_work_in_it() {
        let times = [(); 3].map(|()| SystemClock.thread_cpu());
        assert!(times[0] < times[1] && times[1] < times[2], "{times:?}");
    }

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new();
        let handle = clock.clone();
        let wall = clock.unix_micros();
        assert_eq!(clock.now(), Duration::ZERO);
        handle.advance(Duration::from_millis(3));
        clock.sleep(Duration::from_millis(2));
        assert_eq!(clock.now(), Duration::from_millis(5));
        assert_eq!(clock.unix_micros(), wall + 5_000);
        clock.set_unix_micros(7_000_000);
        assert_eq!(handle.unix_micros(), 7_000_000);
        assert_eq!(clock.now(), Duration::from_millis(5));
    }

    #[test]
    fn the_system_clock_never_goes_back() {
        let before = SystemClock.now();
        SystemClock.sleep(Duration::from_micros(50));
        assert!(SystemClock.now() >= before + Duration::from_micros(50));
        assert!(SystemClock.unix_micros() > 1_577_836_800_000_000);
    }
}
