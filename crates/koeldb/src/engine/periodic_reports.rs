//! Periodic reports of an open database: statistics in LOG, and the growth of their history.

use std::sync::{Arc, Weak};
use std::time::Duration;

use koeldb_base::coding::to_usize;
use koeldb_base::stats::Ticker;
use koeldb_base::sync::lock_plain as lock;

use crate::commit::protocol::CommitPipeline;
use crate::engine::alarm::{self, Watched};
use crate::engine::property::{database_stats, family_stats};
use crate::report::stats_history::{StatsHistoryEntry, until_due};
use crate::state::context::Context;

impl Context {
    /// Returns `stats_dump_period_sec`, and `stats_persist_period_sec` or 0 without statistics.
    fn report_periods(&self) -> (u32, u32) {
        let options = self.mutable_options();
        let persist_secs = match self.statistics {
            Some(_) => options.stats_persist_period_sec,
            None => 0,
        };
        (options.stats_dump_period_sec, persist_secs)
    }

    /// Returns the time until statistics must next be dumped to LOG or persisted to their history.
    ///
    /// `None` if both periods are 0.
    fn until_report(&self) -> Option<Duration> {
        let (dump_secs, persist_secs) = self.report_periods();
        let now = self.clock.now();
        let reports = lock(&self.periodic.0);
        let dump = until_due(now, reports.dumped, dump_secs);
        let persist = until_due(now, reports.persisted, persist_secs);
        dump.into_iter().chain(persist).min()
    }

    /// Returns the time until the next statistics report or search for due compactions.
    ///
    /// The search recurs at least every `max_compaction_trigger_wakeup_seconds`.
    fn until_next_check(&self) -> Option<Duration> {
        let secs = self.mutable_options().max_compaction_trigger_wakeup_seconds;
        let search = Duration::from_secs(secs.max(1));
        self.until_report().into_iter().chain([search]).min()
    }

    /// Reschedules the periodic work after `SetDBOptions` changed its periods.
    pub(crate) fn report_soon(&self) {
        alarm::look_within(self.until_next_check());
    }

    /// Appends the tickers that have increased to the statistics history, if that is due.
    ///
    /// (RocksDB: `DBImpl::PersistStats`, every `stats_persist_period_sec`.)
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
    /// Registers the database with the timer thread for statistics dumps and due compactions.
    pub(crate) fn watch(self: &Arc<Self>) {
        if self.context.env.pool.is_stepped() {
            return;
        }
        let database: Weak<dyn Watched> = Arc::<Self>::downgrade(self);
        alarm::watch(database, self.until_next_check());
    }

    /// Returns the time until the timer thread must visit this database again.
    fn until_next_check(&self) -> Option<Duration> {
        let looks = [
            self.context.until_next_check(),
            self.rest.until_next_check(),
        ];
        looks.into_iter().flatten().min()
    }

    /// Dumps all statistics to LOG, if that is due (RocksDB: `DBImpl::DumpStats`).
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
        if self.context.db_options.dump_malloc_stats
            && let Some(figures) = koeldb_fs::allocator_figures()
        {
            log.text(&format!("ALLOCATOR:\n{figures}"));
        }
    }
}

impl Watched for CommitPipeline {
    fn look(self: Arc<Self>) -> Option<Duration> {
        self.background.schedule();
        let now = self.context.clock.now();
        self.dump_statistics(now);
        self.context.persist_statistics(now);
        self.rest
            .look(&self.background, self.visibility.seqno(), now);
        self.until_next_check()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::Db;

    #[test]
    fn an_idle_database_is_looked_at_as_often_as_the_option_says() {
        let db = Db::temporary().unwrap();
        let pause = || db.inner().commit.context.until_next_check();
        assert!(pause() >= Some(Duration::from_secs(60)));
        for (secs, expected) in [("3", 3), ("0", 1)] {
            db.set_db_options([("max_compaction_trigger_wakeup_seconds", secs)])
                .unwrap();
            assert_eq!(pause(), Some(Duration::from_secs(expected)));
        }
    }
}
