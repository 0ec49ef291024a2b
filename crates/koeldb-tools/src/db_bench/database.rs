//! The databases of a run: their options, opening them, and the choice of one for each operation.

use std::cmp::Reverse;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use koeldb::statistics::{Statistics, StatsLevel};
use koeldb::{
    BlockBasedOptions, Cache, ColumnFamily, CompactionFilter, CompactionFilterContext,
    CompactionFilterFactory, ConfigOptions, Db, Decision, LiveFile, LogLevel, Logger, Options,
    RateLimiter, RateLimiterMode, TransactionDbOptions, WriteBufferManager,
};

use super::compaction_workers;
use super::flags::{Flags, is_set_by_row};
use super::options::{self, OptionText};
use super::plan::{Failure, Outcome};
use super::work::time_series::{ExpiredFilter, Expiry};

/// An open database with its column families and its path.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) db: Db,
    /// The column families, the default one first; never empty.
    pub(crate) families: Vec<ColumnFamily>,
    pub(crate) path: PathBuf,
}

impl Database {
    /// Returns the column family that holds the key with this number: number modulo their count.
    #[inline]
    pub(crate) fn family(&self, number: u64) -> &ColumnFamily {
        match self.families.as_slice() {
            [only] => only,
            families => &families[remainder(number, families.len())],
        }
    }

    pub(crate) fn default_family(&self) -> &ColumnFamily {
        &self.families[0]
    }

    /// Returns the live table files of the default column family, by level.
    ///
    /// They are sorted from newest to oldest on level 0 and by key below it.
    pub(crate) fn tree(&self) -> Vec<Vec<LiveFile>> {
        let mut levels: Vec<Vec<LiveFile>> = Vec::new();
        for file in self.db.live_files() {
            if file.column_family == self.default_family().name() {
                let count = levels.len().max(file.level + 1);
                levels.resize_with(count, Vec::new);
                levels[file.level].push(file);
            }
        }
        if let Some(newest) = levels.first_mut() {
            newest.sort_by_key(|file| Reverse(file.largest_seqno));
        }
        levels
    }
}

/// The databases of a run: one, or several with `--num_multi_db`.
#[derive(Debug)]
pub(crate) struct Databases {
    all: Vec<Database>,
}

impl Databases {
    /// Returns the database at index `draw` modulo the number of databases.
    #[inline]
    pub(crate) fn select(&self, draw: u64) -> &Database {
        match self.all.as_slice() {
            [only] => only,
            all => &all[remainder(draw, all.len())],
        }
    }

    pub(crate) fn all(&self) -> &[Database] {
        &self.all
    }

    /// Returns whether there is more than one database (`--num_multi_db`).
    pub(crate) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// Closes all databases.
    pub(crate) fn close(self) -> Outcome {
        for database in self.all {
            let close = database.db.close();
            close.map_err(|error| Failure::of("close error", &error))?;
        }
        Ok(())
    }
}

/// Returns `number` modulo `count`, as an index.
#[inline]
fn remainder(number: u64, count: usize) -> usize {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    koeldb_base::coding::to_usize(number % count)
}

/// Returns the directory of each database, with its WAL directory if that is another one.
fn directories(flags: &Flags) -> Vec<(PathBuf, Option<PathBuf>)> {
    let path = PathBuf::from(&flags.db);
    let wal_dir = (!flags.wal_dir.is_empty()).then(|| PathBuf::from(&flags.wal_dir));
    if flags.num_multi_db <= 1 {
        return vec![(path, wal_dir)];
    }
    let numbers = 0..flags.num_multi_db;
    numbers
        .map(|number| {
            let name = number.to_string();
            let wal_dir = wal_dir.as_ref().map(|wal_dir| wal_dir.join(&name));
            (path.join(name), wal_dir)
        })
        .collect()
}

/// The settings of the write buffer manager: memory limit, and whether the cache is charged.
#[derive(Clone, Debug)]
struct WriteBuffers {
    bytes: u64,
    is_in_cache: bool,
}

impl WriteBuffers {
    fn new(flags: &Flags) -> Self {
        WriteBuffers {
            bytes: u64::try_from(flags.db_write_buffer_size).unwrap_or(0),
            is_in_cache: flags.cost_write_buffer_to_cache,
        }
    }

    /// Sets a write buffer manager in `options`, if the flags request one.
    fn install(&self, options: &mut Options) {
        let block_based = options.get_table_format().block_based();
        let cache = block_based.and_then(BlockBasedOptions::get_block_cache);
        let manager = match cache {
            Some(cache) if self.is_in_cache => {
                WriteBufferManager::with_cache(self.bytes, cache, false)
            }
            _ if self.bytes > 0 => WriteBufferManager::new(self.bytes, false),
            _ => return,
        };
        options.set_write_buffer_manager(&manager);
    }
}

/// The clock cache, write buffer settings and statistics, kept when databases are recreated.
#[derive(Clone, Debug)]
pub(crate) struct Components {
    /// A block cache that option strings cannot describe.
    cache: Option<Cache>,
    /// Whether the block cache is the blob cache, too.
    shares_cache: bool,
    write_buffers: WriteBuffers,
    pub(crate) statistics: Option<Statistics>,
}

impl Components {
    pub(crate) fn new(flags: &Flags) -> Outcome<Self> {
        let clock_bytes = options::clock_cache_bytes(flags).map_err(Failure::new)?;
        let level = u8::try_from(flags.stats_level).ok();
        let level = level.and_then(StatsLevel::from_number);
        let level = level.ok_or_else(|| Failure::new("--stats_level is from 0 to 5"))?;
        let statistics = flags.statistics.then(Statistics::new);
        if let Some(statistics) = &statistics {
            statistics.set_level(level);
        }
        Ok(Components {
            cache: clock_bytes.map(Cache::new_clock_cache),
            shares_cache: flags.use_blob_cache && flags.use_shared_block_and_blob_cache,
            write_buffers: WriteBuffers::new(flags),
            statistics,
        })
    }

    /// Sets the statistics, the block cache and the write buffer manager in `options`.
    fn install(&self, options: &mut Options) {
        options.set_statistics(self.statistics.clone());
        let block_based = options.get_table_format().block_based().cloned();
        if let (Some(cache), Some(mut block_based)) = (&self.cache, block_based) {
            block_based.set_block_cache(cache);
            options.set_block_based_table_factory(&block_based);
        }
        let block_based = options.get_table_format().block_based();
        let cache = block_based.and_then(|table| table.get_block_cache().cloned());
        if let Some(cache) = cache.filter(|_| self.shares_cache) {
            options.set_blob_cache(&cache);
        }
        self.write_buffers.install(options);
    }
}

/// A compaction filter that keeps every value, to measure the cost of filter calls.
#[derive(Debug)]
struct KeepFilter;

impl CompactionFilter for KeepFilter {
    fn filter(&mut self, _level: u32, _key: &[u8], _value: &[u8]) -> Decision {
        Decision::Keep
    }
}

impl CompactionFilterFactory for KeepFilter {
    fn name(&self) -> &str {
        "KeepFilter"
    }

    fn create(&self, _context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>> {
        Some(Box::new(KeepFilter))
    }
}

/// An info logger that writes to standard error.
#[derive(Debug)]
struct StderrLogger;

impl Logger for StderrLogger {
    fn log(&self, _level: LogLevel, message: fmt::Arguments<'_>) {
        eprintln!("{message}");
    }
}

/// Builds the options from the flags and opens all databases; prints RocksDB's messages about them.
pub(crate) fn open(flags: &Flags, components: &Components) -> Outcome<Databases> {
    let mut options = make_options(flags)?;
    components.install(&mut options);
    if Expiry::of(flags)? == Expiry::CompactionFilter {
        options.set_compaction_filter_factory(ExpiredFilter {
            time_range: flags.time_range,
        });
        println!("Compaction filter is used to remove expired data");
    } else if flags.use_keep_filter {
        options.set_compaction_filter_factory(KeepFilter);
        println!("A noop compaction filter is used");
    }
    if flags.use_stderr_info_logger {
        options.set_logger(StderrLogger);
    }
    if flags.transaction_db {
        let timeout = i64::try_from(flags.transaction_lock_timeout).unwrap_or(i64::MAX);
        let mut locks = TransactionDbOptions::new();
        locks.set_transaction_lock_timeout(timeout);
        options.set_transactions(&locks);
    }
    let mut all = Vec::new();
    for (path, wal_dir) in directories(flags) {
        let mut options = options.clone();
        if let Some(wal_dir) = wal_dir {
            options.set_wal_dir(wal_dir);
        }
        compaction_workers::install_service(flags, &mut options)?;
        let database = open_one(&options, &path, flags);
        all.push(database.map_err(|error| Failure::of("open error", &error))?);
    }
    Ok(Databases { all })
}

/// Opens the database at `--truth_db` read-only, with which the benchmark `verify` compares.
pub(crate) fn open_truth(flags: &Flags) -> Outcome<Db> {
    let options = make_options(flags)?;
    let opened = Db::builder(&options).read_only().open(&flags.truth_db);
    opened.map_err(|error| Failure::of("open error", &error))
}

/// Opens the database at `path` with the column families of `--num_column_families`.
fn open_one(options: &Options, path: &Path, flags: &Flags) -> koeldb::Result<Database> {
    let mut builder = Db::builder(options);
    let names = (0..flags.num_column_families.max(1)).map(family_name);
    let names: Vec<String> = names.collect();
    for name in &names[1..] {
        builder.column_family(name.as_str());
    }
    if flags.readonly {
        builder.read_only();
    }
    let db = builder.open(path)?;
    announce_settings_without_effect(&db, flags);
    let families = names.iter().filter_map(|name| db.cf_handle(name));
    Ok(Database {
        families: families.collect(),
        path: path.to_path_buf(),
        db,
    })
}

/// Prints the options without effect that an options file or several flags together set, once for a run
/// that opens several databases.
fn announce_settings_without_effect(db: &Db, flags: &Flags) {
    static ANNOUNCED: Once = Once::new();
    ANNOUNCED.call_once(|| {
        for setting in db.settings_without_effect() {
            if !flags.options_file.is_empty() || !is_set_by_row(&setting.name) {
                eprintln!("Note: {setting} has no effect");
            }
        }
    });
}

/// Returns the name of column family `number`, as RocksDB's program chooses it.
fn family_name(number: i32) -> String {
    match number {
        0 => "default".to_owned(),
        number => format!("column_family_name_{number:06}"),
    }
}

/// Destroys all databases that the flags name.
pub(crate) fn destroy(flags: &Flags) -> Outcome {
    for (path, wal_dir) in directories(flags) {
        let mut options = Options::new();
        if let Some(wal_dir) = wal_dir {
            options.set_wal_dir(wal_dir);
        }
        let destroyed = Db::destroy(&options, &path);
        destroyed.map_err(|error| Failure::of("cannot destroy the old database", &error))?;
    }
    Ok(())
}

/// Builds the options from `--options_file` or else from the flags, and prints their messages.
fn make_options(flags: &Flags) -> Outcome<Options> {
    let config = ConfigOptions::default();
    let mut options = Options::new();
    let text = if flags.options_file.is_empty() {
        println!("Options from the command-line flags");
        options::option_text(flags).map_err(Failure::new)?
    } else {
        let path = &flags.options_file;
        println!("Options from {path}");
        // Plug-ins that are not available here must not prevent the use of the rest of the file.
        let mut lenient = ConfigOptions::default();
        lenient.set_ignore_unsupported_options(true);
        let loaded = Options::load_file(path, &lenient).map_err(|error| {
            Failure::new(format!("Unable to load options file {path} --- {error}"))
        })?;
        for option in &loaded.ignored {
            eprintln!("Note: {option}");
        }
        options = loaded.options;
        OptionText {
            text: options::text_over_a_file(flags),
            ..OptionText::default()
        }
    };
    text.lines.iter().for_each(|line| println!("{line}"));
    text.warnings.iter().for_each(|line| eprintln!("{line}"));
    options
        .apply_str(&text.text, &config)
        .map_err(|error| Failure::of("invalid options", &error))?
        .create_if_missing(true)
        .create_missing_column_families(true);
    if flags.rate_limiter_bytes_per_sec > 0 {
        options.set_rate_limiter(&rate_limiter(flags));
    }
    Ok(options)
}

/// Creates the rate limiter that the flags describe, which all databases of a run share.
fn rate_limiter(flags: &Flags) -> RateLimiter {
    RateLimiter::builder(flags.rate_limiter_bytes_per_sec)
        .refill_period(Duration::from_micros(flags.rate_limiter_refill_period_us))
        .auto_tuned(flags.rate_limiter_auto_tuned)
        .single_burst_bytes(flags.rate_limiter_single_burst_bytes)
        .mode(match flags.rate_limit_bg_reads {
            true => RateLimiterMode::Reads,
            false => RateLimiterMode::Writes,
        })
        .build()
}
