//! Options of databases and column families.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb::ConfigOptions;
use koeldb::statistics::Statistics;

use super::compaction::Members;
use super::values::OptionText;
use super::{
    BlockBasedOptions, Cache, CuckooTableOptions, DBCompressionType, FifoCompactOptions,
    InfoLogger, PlainTableFactoryOptions, UniversalCompactOptions, WriteBufferManager,
};
use crate::c_str::text;
use crate::compaction_filter::{CompactionFilterFn, FunctionFactory};
use crate::compaction_filter_factory::{CompactionFilterFactory, Factory};
use crate::comparator::{
    CompareFn, CompareTsFn, CompareWithoutTsFn, FunctionComparator, TimestampFunctions,
};
use crate::merge_operator::{FunctionOperator, MergeFn};
use crate::statistics::{Histogram, HistogramData, StatsLevel, Ticker};
use crate::{CStrLike, Env, Error, LogLevel, SliceTransform};

/// The options of a database and of its column families.
#[derive(Clone)]
pub struct Options {
    pub(crate) inner: koeldb::Options,
    /// The first value that the engine rejects, which fails the open.
    failure: Option<Error>,
    logger: Option<InfoLogger>,
}

impl Default for Options {
    fn default() -> Self {
        let mut inner = koeldb::Options::new();
        inner.set_block_based_table_factory(&BlockBasedOptions::default().inner);
        Options {
            inner,
            failure: None,
            logger: None,
        }
    }
}

/// A directory for tables, with a target size (`DbPath`).
pub struct DBPath {
    inner: koeldb::DbPath,
}

impl DBPath {
    /// Creates a directory for tables with a target size in bytes.
    pub fn new<P: AsRef<Path>>(path: P, target_size: u64) -> Result<Self, Error> {
        Ok(DBPath {
            inner: koeldb::DbPath::new(path.as_ref(), target_size),
        })
    }
}

impl Options {
    /// Returns the engine's options, or the first error of a setter.
    pub(crate) fn checked(&self) -> Result<&koeldb::Options, Error> {
        match &self.failure {
            None => Ok(&self.inner),
            Some(error) => Err(error.clone()),
        }
    }

    /// Keeps the error of a setter, which a later open returns, if it is the first.
    fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// Sets an engine option by its name, from text; keeps an error for the open.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        let set = self.inner.apply_map([(name, value)], &ConfigOptions::new());
        if let Err(error) = set.map(|_| ()) {
            self.fail(error.into());
        }
    }

    /// Sets each member of a nested option struct by name, as `name.member`, from text.
    fn set_members(&mut self, name: &str, members: &Members) {
        for (member, value) in members {
            self.set(&format!("{name}.{member}"), value);
        }
    }

    /// Wraps the engine's options.
    pub(crate) fn of_engine(inner: koeldb::Options) -> Self {
        Options {
            inner,
            ..Options::default()
        }
    }

    /// Makes `cache` the block cache, if the table format is block-based.
    pub(crate) fn use_cache(&mut self, cache: &Cache) {
        if let Some(tables) = self.inner.get_table_format().block_based() {
            let mut tables = tables.clone();
            tables.set_block_cache(&cache.inner);
            self.inner.set_block_based_table_factory(&tables);
        }
    }

    /// Applies an option string, `write_buffer_size=64M;max_open_files=500`, to a copy of these.
    pub fn get_options_from_string<S: AsRef<str>>(
        &mut self,
        opts_str: S,
    ) -> Result<Options, Error> {
        let text = opts_str.as_ref();
        if text.contains('\0') {
            return Err(Error::new(
                "options string must not contain NUL (0x00) bytes",
            ));
        }
        let mut options = self.clone();
        options.inner.apply_str(text, &ConfigOptions::new())?;
        Ok(options)
    }

    /// Sets the number of concurrent flushes and compactions (`IncreaseParallelism`).
    pub fn increase_parallelism(&mut self, parallelism: i32) {
        let threads = u32::try_from(parallelism).unwrap_or(0);
        self.inner.increase_parallelism(threads);
    }

    /// Sets several options for leveled compaction with this memtable budget in bytes.
    pub fn optimize_level_style_compaction(&mut self, memtable_memory_budget: usize) {
        let bytes = memtable_memory_budget as u64;
        self.inner.optimize_level_style_compaction(bytes);
    }

    /// Sets several options for universal compaction with this memtable budget in bytes.
    pub fn optimize_universal_style_compaction(&mut self, memtable_memory_budget: usize) {
        let bytes = memtable_memory_budget as u64;
        self.inner.optimize_universal_style_compaction(bytes);
    }

    same! {
        /// Sets several options for point lookups, with a block cache of this many MiB.
        optimize_for_point_lookup(u64);
        /// Whether files are synced with all their metadata.
        set_use_fsync(bool);
    }

    /// Sets several options for a bulk load that is compacted afterwards.
    pub fn prepare_for_bulk_load(&mut self) {
        self.inner.prepare_for_bulk_load();
    }

    /// Sets the directories of the tables of families without `cf_paths` (`db_paths`); at most four.
    pub fn set_db_paths(&mut self, paths: &[DBPath]) {
        let paths = paths.iter().map(|path| path.inner.clone());
        self.inner.set_db_paths(paths);
    }

    /// Sets the directories of the tables of a column family (`cf_paths`); at most four.
    pub fn set_cf_paths(&mut self, paths: &[DBPath]) {
        let paths = paths.iter().map(|path| path.inner.clone());
        self.inner.set_cf_paths(paths);
    }

    /// Sets the environment, whose files and threads the database uses.
    pub fn set_env(&mut self, env: &Env) {
        self.inner.set_env(&env.inner);
    }

    /// Sets the compression of the WAL (`wal_compression`): none or Zstandard.
    ///
    /// # Panics
    ///
    /// For other codecs.
    pub fn set_wal_compression_type(&mut self, t: DBCompressionType) {
        match t {
            DBCompressionType::None | DBCompressionType::Zstd => {
                self.set("wal_compression", &t.text());
            }
            other => unimplemented!("{other:?} is not supported for WAL compression"),
        }
    }

    /// Sets `compression_per_level`; further levels use the last type of the list.
    pub fn set_compression_per_level(&mut self, level_types: &[DBCompressionType]) {
        let texts: Vec<String> = level_types.iter().map(OptionText::text).collect();
        self.set("compression_per_level", &texts.join(":"));
    }

    /// Turns compression off for the levels above `lvl`; does nothing if it is negative.
    pub fn set_min_level_to_compress(&mut self, lvl: i32) {
        let Ok(first) = usize::try_from(lvl) else {
            return;
        };
        let count = self.inner.get_num_levels() as usize;
        let codec = self.inner.get_compression_type();
        let mut codecs = vec![koeldb::Compression::None; first.min(count)];
        codecs.resize(count, codec);
        self.inner.set_compression_per_level(&codecs);
    }

    /// Sets the parameters of the compression codec (`compression_opts`).
    ///
    /// -14 for `window_bits` and 32767 for `level` are the codec's defaults.
    pub fn set_compression_options(
        &mut self,
        window_bits: i32,
        level: i32,
        strategy: i32,
        max_dict_bytes: i32,
    ) {
        self.set_codec(
            "compression_opts",
            [window_bits, level, strategy, max_dict_bytes],
        );
    }

    /// Sets the codec parameters of the last level (`bottommost_compression_opts`), if `enabled`.
    pub fn set_bottommost_compression_options(
        &mut self,
        window_bits: i32,
        level: i32,
        strategy: i32,
        max_dict_bytes: i32,
        enabled: bool,
    ) {
        let name = "bottommost_compression_opts";
        self.set_codec(name, [window_bits, level, strategy, max_dict_bytes]);
        self.set(&format!("{name}.enabled"), &enabled.text());
    }

    /// Sets the four integer members of the compression options struct `name`.
    fn set_codec(&mut self, name: &str, values: [i32; 4]) {
        let members = ["window_bits", "level", "strategy", "max_dict_bytes"];
        for (member, value) in members.iter().zip(values) {
            self.set(&format!("{name}.{member}"), &value.text());
        }
    }

    /// Sets the bytes of samples for dictionary training on the last level, if `enabled`.
    pub fn set_bottommost_zstd_max_train_bytes(&mut self, value: i32, enabled: bool) {
        let name = "bottommost_compression_opts";
        self.set(&format!("{name}.zstd_max_train_bytes"), &value.text());
        self.set(&format!("{name}.enabled"), &enabled.text());
    }

    /// Sets a merge operator with one function, for full merges and partial merges.
    pub fn set_merge_operator_associative<F: MergeFn + Clone>(
        &mut self,
        name: impl CStrLike,
        full_merge_fn: F,
    ) {
        self.set_merge_operator(name, full_merge_fn.clone(), full_merge_fn);
    }

    /// Sets a merge operator with a function for full merges and one for partial merges.
    pub fn set_merge_operator<F: MergeFn, PF: MergeFn>(
        &mut self,
        name: impl CStrLike,
        full_merge_fn: F,
        partial_merge_fn: PF,
    ) {
        self.inner.set_merge_operator(FunctionOperator {
            name: text(name),
            full: full_merge_fn,
            partial: partial_merge_fn,
        });
    }

    /// An older name of `set_merge_operator_associative`.
    #[deprecated(
        since = "0.5.0",
        note = "add_merge_operator has been renamed to set_merge_operator"
    )]
    pub fn add_merge_operator<F: MergeFn + Clone>(&mut self, name: &str, merge_fn: F) {
        self.set_merge_operator_associative(name, merge_fn);
    }

    /// Sets a compaction filter: a closure that compactions call for entries, under a lock.
    pub fn set_compaction_filter<F>(&mut self, name: impl CStrLike, filter_fn: F)
    where
        F: CompactionFilterFn + Send + 'static,
    {
        self.inner.set_compaction_filter_factory(FunctionFactory {
            name: text(name),
            function: Arc::new(Mutex::new(filter_fn)),
        });
    }

    /// Sets a compaction filter factory, which creates a filter for each compaction.
    pub fn set_compaction_filter_factory<F>(&mut self, factory: F)
    where
        F: CompactionFilterFactory + 'static,
    {
        self.inner
            .set_compaction_filter_factory(Factory::new(factory));
    }

    /// Sets a user comparator: a name and a closure that compares two keys.
    ///
    /// Every thread of the engine may call it, several concurrently: it must be as good as `Send`
    /// and `Sync`, although its type does not say so.
    #[cfg(not(before_0_21))]
    pub fn set_comparator(&mut self, name: impl CStrLike, compare_fn: Box<CompareFn>) {
        self.compare_by(name, compare_fn);
    }

    /// Sets the comparator of keys.
    pub(crate) fn compare_by(&mut self, name: impl CStrLike, compare_fn: Box<CompareFn>) {
        self.inner.set_comparator(FunctionComparator {
            name: text(name),
            compare: compare_fn,
            timestamps: None,
        });
    }

    /// Sets a user comparator of keys that end with timestamps, of 8 bytes.
    ///
    /// `compare_fn` compares keys with their timestamps, newest first; `compare_without_ts_fn`
    /// compares them without, and is told of each whether it has one. See
    /// [`Options::set_comparator`] for what the functions must be.
    pub fn set_comparator_with_ts(
        &mut self,
        name: impl CStrLike,
        timestamp_size: usize,
        compare_fn: Box<CompareFn>,
        compare_ts_fn: Box<CompareTsFn>,
        compare_without_ts_fn: Box<CompareWithoutTsFn>,
    ) {
        self.inner.set_comparator(FunctionComparator {
            name: text(name),
            compare: compare_fn,
            timestamps: Some(TimestampFunctions {
                bytes: timestamp_size,
                compare: compare_ts_fn,
                compare_without: compare_without_ts_fn,
            }),
        });
    }

    /// Sets the prefix extractor, for prefix Bloom filters and prefix seeks.
    pub fn set_prefix_extractor(&mut self, prefix_extractor: SliceTransform) {
        prefix_extractor.set_in(&mut self.inner);
    }

    /// Sets the directory of the LOG file (`db_log_dir`); the file name has the database's path.
    pub fn set_db_log_dir<P: AsRef<Path>>(&mut self, path: P) {
        self.inner.set_db_log_dir(path);
    }

    /// Sets the directory of the WAL (`wal_dir`).
    pub fn set_wal_dir<P: AsRef<Path>>(&mut self, path: P) {
        self.inner.set_wal_dir(path);
    }

    /// Returns the option `use_fsync`.
    #[must_use]
    pub fn get_use_fsync(&self) -> bool {
        self.inner.get_use_fsync()
    }

    /// Whether files are cached by the operating system.
    #[deprecated(
        since = "0.7.0",
        note = "use set_use_direct_reads and set_use_direct_io_for_flush_and_compaction"
    )]
    pub fn set_allow_os_buffer(&mut self, is_allow: bool) {
        self.set_use_direct_reads(!is_allow);
        self.set_use_direct_io_for_flush_and_compaction(!is_allow);
    }

    /// Sets the options of universal compaction.
    pub fn set_universal_compaction_options(&mut self, uco: &UniversalCompactOptions) {
        self.set_members("compaction_options_universal", &uco.members);
    }

    /// Sets the options of FIFO compaction.
    pub fn set_fifo_compaction_options(&mut self, fco: &FifoCompactOptions) {
        self.set_members("compaction_options_fifo", &fco.members);
    }

    /// Sets the additional size factors of levels (`max_bytes_for_level_multiplier_additional`).
    pub fn set_max_bytes_for_level_multiplier_additional(&mut self, level_values: &[i32]) {
        self.inner
            .set_max_bytes_for_level_multiplier_additional(level_values);
    }

    /// Sets the table format to block-based tables with these options.
    pub fn set_block_based_table_factory(&mut self, factory: &BlockBasedOptions) {
        self.inner.set_block_based_table_factory(&factory.inner);
        self.set_members("table_factory", &factory.members);
    }

    /// Sets the table format to cuckoo tables with these options.
    pub fn set_cuckoo_table_factory(&mut self, factory: &CuckooTableOptions) {
        let tables = koeldb::CuckooTableOptions::new();
        self.inner.set_cuckoo_table_factory(&tables);
        self.set_members("table_factory", &factory.members);
    }

    /// Sets the table format to plain tables with these options.
    pub fn set_plain_table_factory(&mut self, options: &PlainTableFactoryOptions) {
        let tables = koeldb::PlainTableOptions::new();
        self.inner.set_plain_table_factory(&tables);
        self.set_members("table_factory", &options.members());
    }

    /// Enables statistics, which clones of the options and open databases share.
    pub fn enable_statistics(&mut self) {
        self.inner.set_statistics(Statistics::new());
    }

    /// Returns all statistics as text; `None` unless they are enabled.
    #[must_use]
    pub fn get_statistics(&self) -> Option<String> {
        self.inner.get_statistics().map(ToString::to_string)
    }

    /// Sets the level of detail of the statistics, if they are enabled.
    pub fn set_statistics_level(&self, level: StatsLevel) {
        if let Some(statistics) = self.inner.get_statistics() {
            statistics.set_level(level.engine());
        }
    }

    /// Returns the value of a ticker; 0 unless statistics are enabled.
    #[must_use]
    pub fn get_ticker_count(&self, ticker: Ticker) -> u64 {
        let known = koeldb::statistics::Ticker::from_name(ticker.name());
        match (self.inner.get_statistics(), known) {
            (Some(statistics), Some(ticker)) => statistics.ticker(ticker),
            _ => 0,
        }
    }

    /// Returns a histogram's data; empty unless statistics are enabled.
    #[must_use]
    pub fn get_histogram_data(&self, histogram: Histogram) -> HistogramData {
        let known = koeldb::statistics::HistogramKind::from_name(histogram.name());
        match (self.inner.get_statistics(), known) {
            (Some(statistics), Some(kind)) => statistics.histogram(kind).into(),
            _ => HistogramData::new(),
        }
    }

    /// Has no effect: there is no row cache.
    pub fn set_row_cache(&mut self, cache: &Cache) {
        let _ = cache;
    }

    /// Sets the cache of values in blob files.
    pub fn set_blob_cache(&mut self, cache: &Cache) {
        self.inner.set_blob_cache(&cache.inner);
    }

    /// Sets a rate limiter for the writes of flushes and compactions, in bytes per second.
    pub fn set_ratelimiter(
        &mut self,
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) {
        let limiter = rate_limiter(rate_bytes_per_sec, refill_period_us, fairness);
        self.inner.set_rate_limiter(&limiter.build());
    }

    /// Sets a rate limiter whose rate is adjusted to the load (`auto_tuned`).
    pub fn set_auto_tuned_ratelimiter(
        &mut self,
        rate_bytes_per_sec: i64,
        refill_period_us: i64,
        fairness: i32,
    ) {
        let limiter = rate_limiter(rate_bytes_per_sec, refill_period_us, fairness);
        self.inner
            .set_rate_limiter(&limiter.auto_tuned(true).build());
    }

    /// Sets a `CompactOnDeletionCollector`, which marks tables with many deletions for compaction.
    pub fn add_compact_on_deletion_collector_factory(
        &mut self,
        window_size: usize,
        num_dels_trigger: usize,
        deletion_ratio: f64,
    ) {
        let collector = format!(
            "{{{{id=CompactOnDeletionCollector;window_size={window_size};\
             deletion_trigger={num_dels_trigger};deletion_ratio={deletion_ratio};}}}}"
        );
        self.set("table_properties_collectors", &collector);
    }

    /// Sets the write buffer manager, which limits the memory of memtables of several databases.
    pub fn set_write_buffer_manager(&mut self, write_buffer_manager: &WriteBufferManager) {
        self.inner
            .set_write_buffer_manager(&write_buffer_manager.inner);
    }

    /// Sets an info logger, which receives the log lines instead of the LOG file.
    pub fn set_info_logger(&mut self, logger: InfoLogger) {
        self.set_log_level(logger.level);
        self.inner.set_logger(logger.clone());
        self.logger = Some(logger);
    }

    /// Returns the info logger; without one, a logger that discards its lines.
    #[must_use]
    pub fn get_info_logger(&self) -> InfoLogger {
        let none = || InfoLogger::new_callback_logger(LogLevel::Info, |_, _| ());
        self.logger.clone().unwrap_or_else(none)
    }

    /// Returns the option `track_and_verify_wals_in_manifest`.
    #[must_use]
    pub fn get_track_and_verify_wals_in_manifest(&self) -> bool {
        self.inner.get_track_and_verify_wals_in_manifest()
    }

    /// Returns the option `write_dbid_to_manifest`.
    #[must_use]
    pub fn get_write_dbid_to_manifest(&self) -> bool {
        self.inner.get_write_dbid_to_manifest()
    }
}

/// Returns a rate limiter builder with these settings; negative values become 0.
fn rate_limiter(bytes: i64, refill_period_us: i64, fairness: i32) -> koeldb::RateLimiterBuilder {
    let period = Duration::from_micros(u64::try_from(refill_period_us).unwrap_or(0));
    koeldb::RateLimiter::builder(u64::try_from(bytes).unwrap_or(0))
        .refill_period(period)
        .fairness(u32::try_from(fairness).unwrap_or(0))
}
