//! The wait of a leader for more members before it syncs the log.
//!
//! A sync takes as long for many writers as for one. The writers of a group come back soon after it
//! ends, but the next sync has begun by then: half of them share a sync, and each write takes two. So
//! a leader waits until as many writers have queued as there were at the end of the last sync: at
//! most as long as that sync took, at most 1 ms, and at most a quarter of that without a new writer.
//! After waits in vain, and groups that had no place for all, 1, 2, 4, … 64 groups do not wait.

use std::time::Duration;

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_millis(1);
/// The duration of a sync below which no leader waits.
const SYNC_MIN: Duration = Duration::from_micros(20);
/// The maximum number of groups that skip the wait after a fruitless one.
const SKIPS_MAX: u32 = 64;

/// The limits of a leader's wait for more writers to join its group before a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitLimits {
    /// The number of other writers for which the leader waits.
    pub(super) others: usize,
    pub(super) total: Duration,
    /// The bound of the time without a new writer.
    pub(super) gap: Duration,
}

/// The measurements by which a leader decides how long to wait for writers before a sync.
#[derive(Debug, Default)]
pub(crate) struct GroupWait {
    /// The number of writers at the end of the last sync: the members of its group, none of which was
    /// back yet, and those that waited.
    writers: usize,
    /// The time that the log write and sync took.
    took: Duration,
    /// The number of groups that skip the wait after the last fruitless one; it doubles each time.
    skips: u32,
    /// The number of coming groups that still skip the wait.
    skips_left: u32,
}

impl GroupWait {
    /// Returns the limits within which a leader waits for more writers to join its group.
    ///
    /// `None` if it does not wait.
    pub(super) fn begin(&mut self) -> Option<WaitLimits> {
        if self.writers < 2 || self.took < SYNC_MIN {
            return None;
        }
        if self.skips_left > 0 {
            self.skips_left -= 1;
            return None;
        }
        let total = self.took.min(WAIT_MAX);
        Some(WaitLimits {
            others: self.writers - 1,
            total,
            gap: total / 4,
        })
    }

    /// Records the result of a wait: `came` of `awaited` writers queued within the time `waited`.
    ///
    /// A wait beyond its bounds means that others need the processors.
    pub(super) fn end(
        &mut self,
        came: usize,
        awaited: usize,
        limits: WaitLimits,
        waited: Duration,
    ) {
        if came * 4 >= awaited * 3 && waited <= limits.total {
            self.skips = 0;
        } else {
            self.back_off();
        }
    }

    /// Makes the next groups skip the wait, twice as many each time, up to `SKIPS_MAX`.
    pub(super) fn back_off(&mut self) {
        self.skips = (self.skips * 2).clamp(1, SKIPS_MAX);
        self.skips_left = self.skips;
    }

    /// Records a sync: its duration, and the number of writers in its group and queued at its end.
    pub(super) fn record_sync(&mut self, writers: usize, took: Duration) {
        (self.writers, self.took) = (writers, took);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_micros(300);

    #[test]
    fn a_leader_waits_as_long_as_the_last_sync_took() {
        let mut wait = GroupWait::default();
        assert_eq!(wait.begin(), None);
        wait.record_sync(4, SYNC);
        let limits = WaitLimits {
            others: 3,
            total: SYNC,
            gap: SYNC / 4,
        };
        assert_eq!(wait.begin(), Some(limits));
        wait.record_sync(4, Duration::from_secs(1));
        assert_eq!(wait.begin().unwrap().total, WAIT_MAX);
        // A writer that is alone waits for nobody, and nobody for a sync that takes no time.
        wait.record_sync(1, SYNC);
        assert_eq!(wait.begin(), None);
        wait.record_sync(4, SYNC_MIN / 2);
        assert_eq!(wait.begin(), None);
    }

    #[test]
    fn waits_in_vain_become_rare() {
        let mut wait = GroupWait::default();
        wait.record_sync(5, SYNC);
        let mut waits = 0;
        for _ in 0..1000 {
            if let Some(limits) = wait.begin() {
                waits += 1;
                wait.end(2, 4, limits, SYNC);
            }
        }
        // After 1, 2, 4, 8, 16, 32 groups, and then after every 64.
        assert_eq!(waits, 21);
        let next = |wait: &mut GroupWait| loop {
            if let Some(limits) = wait.begin() {
                return limits;
            }
        };
        let limits = next(&mut wait);
        wait.end(3, 4, limits, SYNC);
        assert!(wait.begin().is_some());
        wait.end(4, 4, limits, SYNC * 2);
        assert_eq!(wait.begin(), None, "others need the processors");
        assert!(wait.begin().is_some());
        wait.back_off();
        assert_eq!(wait.begin(), None, "a group had no place for all");
    }
}
