//! Back-pressure before stalls: writers slow down to the rate at which compactions drain level 0.
//!
//! Without it, writes go at their full rate until level 0 has its slowdown trigger of files, and
//! then at a small part of it until the next compaction ends: the tree is at its largest, and reads
//! and writes are at their slowest, most of the time. Source: none; measured with
//! `benchmarks/steady-state`.

use std::time::Duration;

use super::level0_lag;

/// What the pace of writers depends on: level 0 and its triggers, or the runs of universal
/// compaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level0 {
    pub(crate) runs: usize,
    /// The runs with which compactions begin.
    pub(crate) trigger: usize,
    /// The runs with which writes are delayed.
    pub(crate) slowdown: usize,
    /// The bytes of all memtables sealed so far.
    pub(crate) sealed_bytes: u64,
}

/// The measured rate at which compactions drain level 0 of a column family.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    runs: usize,
    /// The sealed bytes at the last growth.
    sealed_bytes: u64,
    /// The mean bytes of the memtables that became one run; 0 before the first.
    bytes_per_run: u64,
    /// Since when compactions have had runs to take; `None` while they have too few.
    busy_since: Option<Duration>,
    /// The bytes of memtables, in the runs that compactions take in a second; 0 before the first.
    taken_per_second: u64,
}

/// Follows a measured value, a quarter of the way at a time.
fn follow(value: &mut u64, measured: u64) {
    *value = match *value {
        0 => measured,
        before => before - before / 4 + measured / 4,
    };
}

impl Pacer {
    /// Measures after a change of level 0 or of the memtables, at which compactions may run.
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

    /// Forgets since when there have been runs to take, because compactions do not run.
    pub(crate) fn pause(&mut self) {
        self.busy_since = None;
    }

    /// Returns the permitted bytes a second; `None` without a limit.
    ///
    /// Where compactions begin to lag, the limit is the rate at which they take runs. It is half as
    /// much again at their trigger, falls as steadily behind that point, to half of that rate at the
    /// least, and not below `rate_min`. A slowdown trigger out of reach says that writers are not to be
    /// limited.
    pub(crate) fn pace(&self, level0: Level0, rate_min: u64) -> Option<u64> {
        const SLOWDOWN_MAX: usize = 1000;
        let Level0 {
            runs,
            trigger,
            slowdown,
            ..
        } = level0;
        let is_between = (trigger..slowdown).contains(&runs);
        if self.taken_per_second == 0 || !is_between || slowdown > SLOWDOWN_MAX {
            return None;
        }
        let lag = level0_lag(trigger, slowdown);
        let gap = (lag - trigger).max(1);
        // In halves of the gap: two at the lag.
        let share = (2 * gap + lag).saturating_sub(runs).max(gap) as u64;
        let pace = self.taken_per_second.saturating_mul(share) / (2 * gap as u64);
        Some(pace.max(rate_min))
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
        assert_eq!((pace(4), pace(8)), (taken * 3 / 2, taken));
        assert!((4..12).all(|runs| pace(runs) > pace(runs + 1)));
        assert_eq!((pace(12), pace(19)), (taken / 2, taken / 2));
        assert_eq!(pacer.pace(at(19), u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn nothing_is_paced_without_a_reason() {
        assert_eq!(steady().pace(at(3), 1), None);
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
