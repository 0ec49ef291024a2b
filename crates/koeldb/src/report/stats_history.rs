//! The history of tickers, and the times of the last periodic reports.

use std::collections::VecDeque;
use std::ops::RangeBounds;
use std::sync::Mutex;
use std::time::Duration;

use koeldb_base::stats::{StatisticsSnapshot, Ticker};
use koeldb_base::sync::lock_plain as lock;

/// An entry of the statistics history: the tickers of one `stats_persist_period_sec`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatsHistoryEntry {
    /// The end of the period, in seconds since 1970.
    pub unix_secs: u64,
    /// The tickers that changed in the period, and by how much.
    pub changes: Vec<(Ticker, u64)>,
}

impl StatsHistoryEntry {
    /// Returns the memory of the entry in bytes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.changes.len() * size_of::<(Ticker, u64)>()
    }
}

/// The state of the periodic statistics reports, and their history, guarded by a mutex.
pub(crate) struct PeriodicReports(pub(crate) Mutex<Reports>);

/// The times of the last periodic reports, and the history of statistics.
pub(crate) struct Reports {
    pub(crate) dumped: Duration,
    pub(crate) persisted: Duration,
    pub(crate) totals: Option<StatisticsSnapshot>,
    history: VecDeque<StatsHistoryEntry>,
    /// The memory of the history.
    bytes: usize,
}

impl PeriodicReports {
    /// Creates an empty statistics history; the first reports are due a period after `now`.
    pub(crate) fn beginning_at(now: Duration) -> Self {
        PeriodicReports(Mutex::new(Reports {
            dumped: now,
            persisted: now,
            totals: None,
            history: VecDeque::new(),
            bytes: 0,
        }))
    }

    /// The entries whose periods ended within `range`, oldest first.
    pub(crate) fn history(&self, range: &impl RangeBounds<u64>) -> Vec<StatsHistoryEntry> {
        let reports = lock(&self.0);
        let entries = reports.history.iter();
        entries
            .filter(|entry| range.contains(&entry.unix_secs))
            .cloned()
            .collect()
    }
}

impl Reports {
    /// Appends an entry; removes the oldest ones beyond `bytes_max`.
    pub(crate) fn append(&mut self, entry: StatsHistoryEntry, bytes_max: usize) {
        self.bytes += entry.bytes();
        self.history.push_back(entry);
        while self.bytes > bytes_max
            && let Some(oldest) = self.history.pop_front()
        {
            self.bytes -= oldest.bytes();
        }
    }
}

/// Returns the time left until `period_secs` after `last`; `None` if there is no period.
pub(crate) fn until_due(now: Duration, last: Duration, period_secs: u32) -> Option<Duration> {
    let period = Duration::from_secs(u64::from(period_secs));
    (period_secs > 0).then(|| (last + period).saturating_sub(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_leave_a_full_history() {
        let periodic = PeriodicReports::beginning_at(Duration::ZERO);
        let entry = |unix_secs| StatsHistoryEntry {
            unix_secs,
            changes: vec![(Ticker::BytesRead, 1)],
        };
        let three = 3 * entry(0).bytes();
        for unix_secs in 0..10 {
            lock(&periodic.0).append(entry(unix_secs), three);
        }
        assert_eq!(periodic.history(&..), [entry(7), entry(8), entry(9)]);
        assert_eq!(periodic.history(&..8), [entry(7)]);
    }

    #[test]
    fn reports_are_due_a_period_after_the_last() {
        let secs = Duration::from_secs;
        assert_eq!(until_due(secs(10), secs(4), 0), None);
        assert_eq!(until_due(secs(10), secs(4), 8), Some(secs(2)));
        assert_eq!(until_due(secs(20), secs(4), 8), Some(Duration::ZERO));
    }
}
