//! The wait of a leader for more members before it syncs the log.
//!
//! A sync takes as long for many writers as for one. The writers of a group come back soon after it
//! ends, but the next sync has begun by then: half of them share a sync, and each write takes two. So
//! a leader waits until as many writers have come back as the last synced group had, at most as long as
//! its sync took, and no longer than a quarter of that for the next one to come. If few come back, more
//! and more groups do not wait.

use std::time::Duration;

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_millis(1);
/// The most groups that do not wait after one that waited in vain.
const SKIPPED_MAX: u32 = 64;

/// The bounds of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitLimits {
    /// The number of writers that may come back.
    pub(super) writers: usize,
    pub(super) total: Duration,
    /// The bound of the time in which nobody comes.
    pub(super) gap: Duration,
}

/// What the leader of a synced group knows of the one before it.
#[derive(Debug, Default)]
pub(crate) struct GroupWait {
    /// The number of writers of the last synced group.
    writers: usize,
    /// The time that its log write and sync took.
    took: Duration,
    /// The number of groups that do not wait, and of those left of them.
    skipped: u32,
    skips_left: u32,
}

impl GroupWait {
    /// The bounds of the wait of a leader; `None` if it does not wait.
    pub(super) fn begin(&mut self) -> Option<WaitLimits> {
        if self.skips_left > 0 {
            self.skips_left -= 1;
            return None;
        }
        let total = self.took.min(WAIT_MAX);
        (self.writers > 0 && !total.is_zero()).then_some(WaitLimits {
            writers: self.writers,
            total,
            gap: total / 4,
        })
    }

    /// Notes how many of the expected writers came back.
    pub(super) fn end(&mut self, came: usize, expected: usize) {
        self.skipped = match came * 2 >= expected {
            true => 0,
            false => (self.skipped * 2).clamp(1, SKIPPED_MAX),
        };
        self.skips_left = self.skipped;
    }

    /// Notes a synced group.
    pub(super) fn note(&mut self, writers: usize, took: Duration) {
        (self.writers, self.took) = (writers, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_micros(300);

    #[test]
    fn a_leader_waits_as_long_as_the_last_sync_took() {
        let mut wait = GroupWait::default();
        assert_eq!(wait.begin(), None);
        wait.note(4, SYNC);
        let limits = wait.begin().unwrap();
        assert_eq!(
            (limits.writers, limits.total, limits.gap),
            (4, SYNC, SYNC / 4)
        );
        wait.note(4, Duration::from_secs(1));
        assert_eq!(wait.begin().unwrap().total, WAIT_MAX);
        // A sync that takes no time is not worth a wait.
        wait.note(4, Duration::ZERO);
        assert_eq!(wait.begin(), None);
    }

    #[test]
    fn waits_in_vain_become_rare() {
        let mut wait = GroupWait::default();
        wait.note(4, SYNC);
        let mut waits = 0;
        for _ in 0..1000 {
            if wait.begin().is_some() {
                waits += 1;
                wait.end(1, 4);
            }
        }
        // After 1, 2, 4, 8, 16, 32 groups, and then after every 64.
        assert_eq!(waits, 21);
        while wait.begin().is_none() {}
        wait.end(2, 4);
        assert!(wait.begin().is_some());
    }
}
