//! The daily window in which files are rewritten for their age ahead of time.
//!
//! (RocksDB: `options/offpeak_time_info.cc`.) A file that would exceed its age limit before the next
//! window begins is rewritten in the current window.

const DAY_SECS: u64 = 24 * 60 * 60;
const MINUTE_SECS: u64 = 60;

/// The daily off-peak window in UTC (`daily_offpeak_time_utc`), which may span midnight.
///
/// It includes the minute in which it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffpeakWindow {
    /// The minute of the day at which the window begins.
    pub begin_minute: u32,
    /// The last minute of the window.
    pub end_minute: u32,
}

impl OffpeakWindow {
    /// Whether a Unix time, in UTC, is within the daily off-peak range, both ends included.
    fn contains(self, unix_secs: u64) -> bool {
        let minute = unix_secs % DAY_SECS / MINUTE_SECS;
        let (begin, end) = (u64::from(self.begin_minute), u64::from(self.end_minute));
        match begin <= end {
            true => (begin..=end).contains(&minute),
            false => begin <= minute || minute <= end,
        }
    }

    /// Returns the Unix time at which the next window begins after `unix_secs`.
    fn next_begin(self, unix_secs: u64) -> u64 {
        let midnight = unix_secs - unix_secs % DAY_SECS;
        let today = midnight.saturating_add(u64::from(self.begin_minute) * MINUTE_SECS);
        match unix_secs < today {
            true => today,
            false => today.saturating_add(DAY_SECS),
        }
    }

    /// Returns when a file due for periodic compaction at `expiry` is picked, given the window.
    ///
    /// A file that is due at `now` has a time of at most `now`. One that was written in the current
    /// window is not due ahead of time: with an age limit below a day it would be rewritten
    /// endlessly.
    pub(crate) fn due(self, expiry: u64, created: u64, now: u64) -> u64 {
        let next = self.next_begin(now);
        let is_older = created < next.saturating_sub(DAY_SECS);
        if self.contains(now) && is_older && expiry <= next {
            return expiry.min(now);
        }
        let windows = expiry.saturating_sub(next).saturating_sub(1) / DAY_SECS;
        expiry.min(next.saturating_add(windows.saturating_mul(DAY_SECS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDNIGHT: u64 = 20_000 * DAY_SECS;

    fn at(hours: u64, minutes: u64) -> u64 {
        MIDNIGHT + hours * 3600 + minutes * 60
    }

    const NIGHT: OffpeakWindow = OffpeakWindow {
        begin_minute: 22 * 60 + 30,
        end_minute: 3 * 60,
    };

    #[test]
    fn a_window_may_span_midnight_and_includes_its_last_minute() {
        let times = [(22, 29), (22, 30), (0, 0), (3, 0), (3, 1), (12, 0)];
        let inside = times.map(|(hours, minutes)| NIGHT.contains(at(hours, minutes) + 59));
        assert_eq!(inside, [false, true, true, true, false, false]);
        let day = OffpeakWindow {
            begin_minute: 60,
            end_minute: 120,
        };
        let inside = [(0, 59), (1, 0), (2, 0), (2, 1)].map(|(h, m)| day.contains(at(h, m)));
        assert_eq!(inside, [false, true, true, false]);
    }

    #[test]
    fn files_that_expire_before_the_next_window_are_due_in_this_one() {
        let (noon, night) = (at(12, 0), at(23, 0));
        let next = at(22, 30) + DAY_SECS;
        assert_eq!(NIGHT.due(next, 0, night), night);
        assert_eq!(NIGHT.due(next + 1, 0, night), next);
        assert_eq!(NIGHT.due(next + DAY_SECS, 0, night), next);
        assert_eq!(NIGHT.due(next + DAY_SECS + 1, 0, night), next + DAY_SECS);
        assert_eq!(NIGHT.due(at(13, 0), 0, noon), at(13, 0));
        assert_eq!(NIGHT.due(next, 0, noon), at(22, 30));
        assert_eq!(NIGHT.due(at(11, 0), 0, noon), at(11, 0));
    }

    #[test]
    fn a_file_of_this_window_is_due_at_its_age() {
        let (begin, now) = (at(22, 30), at(23, 0));
        assert_eq!(NIGHT.due(now + 60, begin - 1, now), now);
        assert_eq!(NIGHT.due(now + 60, begin, now), now + 60);
        assert_eq!(NIGHT.due(now - 60, begin, now), now - 60);
    }

    /// The rule of RocksDB, evaluated at each minute.
    #[test]
    fn a_file_is_due_when_the_rule_first_holds() {
        let is_due = |expiry: u64, now: u64| {
            let ahead = match NIGHT.contains(now) {
                true => NIGHT.next_begin(now) - now,
                false => 0,
            };
            expiry <= now + ahead
        };
        for expiry in (0..4 * DAY_SECS).step_by(1800).map(|secs| MIDNIGHT + secs) {
            let mut now = MIDNIGHT;
            let due = NIGHT.due(expiry, 0, now);
            while !is_due(expiry, now) {
                assert!(due > now, "{expiry} {now} {due}");
                now += MINUTE_SECS;
            }
            assert!(due <= now, "{expiry} {now} {due}");
        }
    }
}
