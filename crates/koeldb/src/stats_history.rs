//! Periodic reports of an open database: statistics in LOG, and a history of tickers in memory.

use std::collections::VecDeque;
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use koeldb_base::coding::to_usize;
use koeldb_base::stats::{StatisticsSnapshot, Ticker};
use koeldb_base::sync::lock_plain as lock;

use crate::alarm::{self, Watched};
use crate::context::Context;
use crate::stats_text::{database_stats, family_stats};
use crate::write::commit::CommitPipeline;

/// The tickers of one period of `stats_persist_period_sec`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatsHistoryEntry {
    /// The end of the period, in seconds since 1970.
    pub unix_secs: u64,
    /// The tickers that changed in the period, and by how much.
    pub changes: Vec<(Ticker, u64)>,
}

impl StatsHistoryEntry {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.changes.len() * size_of::<(Ticker, u64)>()
    }
}

/// The times of the last reports, and the history.
pub(crate) struct PeriodicReports(Mutex<Reports>);

struct Reports {
    dumped: Duration,
    persisted: Duration,
    totals: Option<StatisticsSnapshot>,
    history: VecDeque<StatsHistoryEntry>,
    /// The memory of the history.
    bytes: usize,
}

impl PeriodicReports {
    /// Creates an empty history; the first reports are due a period after `now`.
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
    fn append(&mut self, entry: StatsHistoryEntry, bytes_max: usize) {
        self.bytes += entry.bytes();
        self.history.push_back(entry);
        while self.bytes > bytes_max
            && let Some(oldest) = self.history.pop_front()
        {
            self.bytes -= oldest.bytes();
        }
    }
}

/// The time until `period_secs` after `last`; `None` if there is no period.
fn until_due(now: Duration, last: Duration, period_secs: u32) -> Option<Duration> {
    let period = Duration::from_secs(u64::from(period_secs));
    (period_secs > 0).then(|| (last + period).saturating_sub(now))
}

impl Context {
    /// The periods of reports, in seconds: to LOG, and to the history.
    fn report_periods(&self) -> (u32, u32) {
        let options = self.mutable_options();
        let persist_secs = match self.statistics {
            Some(_) => options.stats_persist_period_sec,
            None => 0,
        };
        (options.stats_dump_period_sec, persist_secs)
    }

    /// The time until the next report.
    fn until_report(&self) -> Option<Duration> {
        let (dump_secs, persist_secs) = self.report_periods();
        let now = self.clock.now();
        let reports = lock(&self.periodic.0);
        let dump = until_due(now, reports.dumped, dump_secs);
        let persist = until_due(now, reports.persisted, persist_secs);
        dump.into_iter().chain(persist).min()
    }

    /// Applies changed periods.
    pub(crate) fn report_soon(&self) {
        alarm::look_within(self.until_report());
    }

    /// Appends the tickers since the last entry to the history, if that is due.
    fn persist_statistics(&self, now: Duration) {
        let (_, persist_secs) = self.report_periods();
        let mut reports = lock(&self.periodic.0);
        if until_due(now, reports.persisted, persist_secs) != Some(Duration::ZERO) {
            return;
        }
        reports.persisted = now;
        let Some(statistics) = &self.statistics else {
            return;
        };
        let totals = statistics.snapshot();
        let changes = match &reports.totals {
            Some(earlier) => totals.since(earlier),
            None => totals.clone(),
        };
        reports.totals = Some(totals);
        let changes = Ticker::all().map(|ticker| (ticker, changes.ticker(ticker)));
        let entry = StatsHistoryEntry {
            unix_secs: self.clock.unix_micros() / 1_000_000,
            changes: changes.filter(|(_, change)| *change > 0).collect(),
        };
        let bytes_max = self.mutable_options().stats_history_buffer_size;
        reports.append(entry, to_usize(bytes_max));
    }
}

impl CommitPipeline {
    /// Reports, and looks for work of the background, from time to time while the database is open.
    pub(crate) fn watch(self: &Arc<Self>) {
        if self.context.env.pool.is_stepped() {
            return;
        }
        let database: Weak<dyn Watched> = Arc::<Self>::downgrade(self);
        alarm::watch(database, self.context.until_report());
    }

    /// Writes all statistics to LOG, if that is due.
    fn dump_statistics(&self, now: Duration) {
        let (dump_secs, _) = self.context.report_periods();
        {
            let mut reports = lock(&self.context.periodic.0);
            if until_due(now, reports.dumped, dump_secs) != Some(Duration::ZERO) {
                return;
            }
            reports.dumped = now;
        }
        let mut text = database_stats(self);
        for family in self.families.all() {
            text.push_str(&family_stats(&self.context, &family));
        }
        let log = &self.context.info_log;
        log.info(format_args!("------- DUMPING STATS -------"));
        log.text(&text);
        if let Some(statistics) = &self.context.statistics {
            log.text(&format!("STATISTICS:\n{statistics}"));
        }
    }
}

impl Watched for CommitPipeline {
    fn look(self: Arc<Self>) -> Option<Duration> {
        self.background.schedule();
        let now = self.context.clock.now();
        self.dump_statistics(now);
        self.context.persist_statistics(now);
        self.context.until_report()
    }
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
