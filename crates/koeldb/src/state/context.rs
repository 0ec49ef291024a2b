//! The surroundings of an open database: file system, clock, paths, options, log, listeners.
//!
//! All of it is fixed at open, except the mutable options, which synchronize themselves.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use koeldb_base::SeqNo;
use koeldb_base::file_name::FileNumber;
use koeldb_base::stats::{HistogramKind, Statistics, Ticker};
use koeldb_fs::{Clock, FileSystem, Origin};

use crate::env::Env;
use crate::env::thread_status::{ThreadOperation, Tracked};
use crate::options::DbOptions;
use crate::options::Plugins;
use crate::report::RecoveryReport;
use crate::report::listener::Event;
use crate::report::stats_history::PeriodicReports;
use crate::state::info_log::InfoLog;
use crate::state::listeners::Listeners;
use crate::state::table_files::TableFiles;
use crate::state::write_stall::StallContext;

/// The parts of an open database that are fixed at open, such as environment and options.
pub(crate) struct Context {
    /// The id of the open database, unique in this process.
    pub(crate) id: u64,
    pub(crate) env: Env,
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) path: PathBuf,
    pub(crate) wal_dir: PathBuf,
    pub(crate) identity: String,
    pub(crate) read_only: bool,
    /// The options at open; see [`Context::mutable_options`].
    pub(crate) db_options: DbOptions,
    pub(crate) statistics: Option<Statistics>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) plugins: Plugins,
    pub(crate) info_log: Arc<InfoLog>,
    pub(crate) table_files: TableFiles,
    /// The time of opening, on the clock of the database.
    pub(crate) opened: Duration,
    pub(crate) seqno_at_open: SeqNo,
    pub(crate) recovery_report: RecoveryReport,
    /// The process that opened the database.
    pub(crate) origin: Origin,
    pub(crate) periodic: PeriodicReports,
    /// The mutable options of the database.
    pub(crate) mutable: Arc<RwLock<DbOptions>>,
}

impl Context {
    pub(crate) fn new_file_number(&self) -> FileNumber {
        self.table_files.numbers.next()
    }

    /// Registers a job of this thread in the thread status list until the result is dropped.
    ///
    /// `None` if the option `enable_thread_tracking` is off.
    pub(crate) fn track(&self, operation: ThreadOperation, family: &str) -> Option<Tracked> {
        let is_enabled = self.db_options.enable_thread_tracking;
        is_enabled.then(|| {
            let begun = self.clock.now();
            self.env.threads.track(operation, &self.path, family, begun)
        })
    }

    /// Whether statistics are enabled, so that operations are timed and counted.
    #[inline]
    pub(crate) fn measures(&self) -> bool {
        self.statistics.is_some()
    }

    /// Adds `count` to a ticker, if there are statistics.
    #[inline]
    pub(crate) fn count(&self, ticker: Ticker, count: u64) {
        if let Some(statistics) = &self.statistics {
            statistics.add(ticker, count);
        }
    }

    /// Adds a value to a histogram, if there are statistics.
    pub(crate) fn record(&self, histogram: HistogramKind, value: u64) {
        if let Some(statistics) = &self.statistics {
            statistics.record(histogram, value);
        }
    }

    /// Adds the time since `begun`, in microseconds, to a histogram.
    pub(crate) fn record_elapsed(&self, histogram: HistogramKind, begun: Duration) {
        if let Some(statistics) = &self.statistics {
            let elapsed = self.clock.now().saturating_sub(begun);
            statistics.record_micros(histogram, elapsed);
        }
    }

    /// Reports an event to listeners; must be called without locks.
    pub(crate) fn notify(&self, event: &Event<'_>) {
        self.listeners.notify(event);
    }

    /// Formats a key for an error message; hides it unless `allow_data_in_errors` is set.
    pub(crate) fn shown_key(&self, key: &[u8]) -> String {
        if self.db_options.allow_data_in_errors {
            format!("key '{}'", key.escape_ascii())
        } else {
            "a key".to_owned()
        }
    }

    /// Returns the current database options, locked for reading; some may change while it is open.
    pub(crate) fn mutable_options(&self) -> RwLockReadGuard<'_, DbOptions> {
        self.mutable.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the rate of delayed writes in bytes a second; 16 MiB/s if the option is 0.
    pub(crate) fn delayed_write_rate(&self) -> u64 {
        match self.mutable_options().delayed_write_rate {
            0 => 16 << 20,
            rate => rate,
        }
    }

    /// Returns the database's inputs of stall conditions: the time and the delayed write rate.
    pub(crate) fn stall(&self) -> StallContext {
        StallContext {
            now: self.clock.now(),
            delayed_write_rate: self.delayed_write_rate(),
        }
    }

    /// Whether this process is a forked child, which has none of the threads of the database.
    pub(crate) fn is_forked(&self) -> bool {
        !self.origin.is_here()
    }
}
