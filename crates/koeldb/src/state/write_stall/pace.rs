//! Back-pressure before stalls: writers slow down to the rate at which compactions drain level 0.
//!
//! Without it, writes go at their full rate until level 0 has its slowdown trigger of files, and
//! then at a small part of it until the next compaction ends: the tree is at its largest, and reads
//! and writes are at their slowest, most of the time. Source: none; measured with
//! `benchmarks/steady-state`.

use std::time::Duration;

use super::level0_lag;

/// The inputs of the pace of writers: level-0 runs, their triggers and the sealed bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level0 {
    pub(crate) runs: usize,
    /// The number of runs at which compactions begin.
    pub(crate) trigger: usize,
    /// The number of runs at which writes are delayed.
    pub(crate) slowdown: usize,
    /// The bytes of all memtables sealed so far.
    pub(crate) sealed_bytes: u64,
}

/// The estimator of the rate at which compactions drain level 0, by which writers are paced.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    runs: usize,
    /// The bytes of all memtables sealed until level 0 last grew.
    sealed_bytes: u64,
    /// The mean bytes of the memtables that became one run; 0 before the first.
    bytes_per_run: u64,
    /// The time since which level 0 has had enough runs for a compaction; `None` if it has fewer.
    busy_since: Option<Duration>,
    /// The memtable bytes of the runs that compactions remove per second; 0 before the first.
    taken_per_second: u64,
}

/// Updates a moving average: moves it a quarter of the way to `measured`; 0 becomes `measured`.
fn follow(value: &mut u64, measured: u64) {
    *value = match *value {
        0 => measured,
        before => before - before / 4 + measured / 4,
    };
}

impl Pacer {
    /// Updates the rate estimates after a change of level 0 or of the memtables.
    pub(crate) fn observe(&mut self, now: Duration, level0: Level0) {
        let before = std::mem::replace(&mut self.runs, level0.runs);
        if let Some(added @ 1..) = level0.runs.checked_sub(before) {
            let bytes = level0.sealed_bytes.saturating_sub(self.sealed_bytes);
            self.sealed_bytes = level0.sealed_bytes;
            // Ingested tables took no writer's time.
            if bytes > 0 {
                follow(&mut self.bytes_per_run, bytes / added as u64);
            }
        }
        let taken = before.saturating_sub(level0.runs);
        if taken > 0
            && let Some(since) = self.busy_since.take()
        {
            let bytes = self.bytes_per_run.saturating_mul(taken as u64);
            let elapsed = now.saturating_sub(since).max(Duration::from_millis(1));
            let rate = u128::from(bytes) * 1_000_000 / elapsed.as_micros();
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            follow(&mut self.taken_per_second, rate);
        }
        self.busy_since = match level0.runs >= level0.trigger.max(1) {
            true => self.busy_since.or(Some(now)),
            false => None,
        };
    }

    /// Interrupts the rate measurement while automatic compactions do not run.
    pub(crate) fn pause(&mut self) {
        self.busy_since = None;
    }

    /// Returns the write rate limit in bytes per second; `None` for no limit.
    ///
    /// Where compactions begin to lag, the limit is half as much again as they take; it falls steadily
    /// to half of what they take at the slowdown trigger, but not below `rate_min`. Fewer runs would
    /// make reads faster, but compactions of them rewrite more of the base level. A slowdown trigger
    /// out of reach says that writers are not to be limited.
    pub(crate) fn pace(&self, level0: Level0, rate_min: u64) -> Option<u64> {
        const SLOWDOWN_MAX: usize = 1000;
        let from = level0_lag(level0.trigger, level0.slowdown);
        let is_between = (from..level0.slowdown).contains(&level0.runs);
        if self.taken_per_second == 0 || !is_between || level0.slowdown > SLOWDOWN_MAX {
            return None;
        }
        let span = (level0.slowdown - from) as u64;
        let left = (level0.slowdown - level0.runs) as u64;
        let taken = self.taken_per_second;
        Some((taken / 2 + (taken / span).saturating_mul(left)).max(rate_min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVEL0: Level0 = Level0 {
        runs: 0,
        trigger: 4,
        slowdown: 20,
        sealed_bytes: 0,
    };

    /// A run of 1,000,000 bytes comes each second; every five seconds a compaction takes five.
    fn steady() -> Pacer {
        let (mut pacer, mut level0) = (Pacer::default(), LEVEL0);
        for second in 1..100 {
            level0.sealed_bytes += 1_000_000;
            pacer.observe(Duration::from_secs(second), level0);
            level0.runs += 1;
            pacer.observe(Duration::from_secs(second), level0);
            if second % 5 == 0 {
                level0.runs = level0.runs.saturating_sub(5);
                pacer.observe(Duration::from_secs(second), level0);
            }
        }
        pacer
    }

    fn at(runs: usize) -> Level0 {
        Level0 { runs, ..LEVEL0 }
    }

    #[test]
    fn the_pace_is_that_of_compactions() {
        let pacer = steady();
        // Five runs in one second of work each: the level is full enough for the last of five.
        assert_eq!(pacer.bytes_per_run, 1_000_000);
        let pace = |runs| pacer.pace(at(runs), 1).unwrap();
        let taken = pacer.taken_per_second;
        assert!(pace(8) > taken * 7 / 5 && pace(8) <= taken * 3 / 2);
        assert!((8..19).all(|runs| pace(runs) > pace(runs + 1)));
        assert!(pace(19) >= taken / 2 && pace(19) < taken * 3 / 5);
        assert_eq!(pacer.pace(at(19), u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn nothing_is_paced_without_a_reason() {
        assert_eq!(steady().pace(at(7), 1), None);
        // A stall has its own rate.
        assert_eq!(steady().pace(at(20), 1), None);
        // Nothing has been measured.
        assert_eq!(Pacer::default().pace(at(12), 1), None);
        // Writers are never to be limited.
        let never = Level0 {
            slowdown: 1 << 30,
            ..at(100)
        };
        assert_eq!(steady().pace(never, 1), None);
        // No room between the triggers.
        let narrow = Level0 {
            runs: 4,
            slowdown: 4,
            ..LEVEL0
        };
        assert_eq!(steady().pace(narrow, 1), None);
    }

    #[test]
    fn idle_time_says_nothing_about_compactions() {
        let (mut often, mut rarely) = (steady(), steady());
        for (pacer, pause) in [(&mut often, 1), (&mut rarely, 1000)] {
            let begin = Duration::from_secs(100 + pause);
            pacer.observe(Duration::from_secs(100), at(0));
            pacer.observe(begin, at(4));
            pacer.observe(begin + Duration::from_secs(1), at(0));
        }
        assert_eq!(often.taken_per_second, rarely.taken_per_second);
    }
}
