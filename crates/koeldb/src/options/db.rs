//! The database options, and [`Options`], which adds the default options of column families.

use std::path::{Path, PathBuf};
use std::time::Duration;

use koeldb_base::codec::Compression;
use koeldb_base::stats::Statistics;
use koeldb_fs::read_driver::ReadEngine;
use koeldb_log::reader::RecoveryMode;

use super::column_family::ColumnFamilyOptions;
use super::compaction::Temperature;
use super::config::MendedOption;
use super::db_path::PathList;
use super::declare::option_section;
use super::object::{DefaultEnv, FileChecksumGenerator, NoObject};
use super::plugins::Plugins;

use super::value::{RateLimit, enum_texts, option_enum};

/// The options of a database, and the default options of its column families.
///
/// ```
/// use koeldb::Options;
///
/// let mut options = Options::new();
/// options.create_if_missing(true).set_write_buffer_size(128 << 20);
/// assert_eq!(options.get_write_buffer_size(), 128 << 20);
/// ```
///
/// Setters borrow the options and return the borrow, so that calls can be chained and passed on:
/// `Db::open(Options::new().create_if_missing(true), path)`. A chain cannot be bound to a name
/// (error E0716): bind `Options::new()`, as above.
///
/// The defaults are RocksDB's. Few programs need more than a preset and some of these groups:
///
/// | purpose | setters |
/// |---|---|
/// | presets | [`optimize_for_point_lookup`](Self::optimize_for_point_lookup), [`optimize_for_cuckoo_lookup`](Self::optimize_for_cuckoo_lookup), [`optimize_level_style_compaction`](Self::optimize_level_style_compaction), [`optimize_for_small_db`](Self::optimize_for_small_db), [`separate_values`](Self::separate_values), [`prepare_for_bulk_load`](Self::prepare_for_bulk_load) |
/// | opening | [`create_if_missing`](Self::create_if_missing), [`create_missing_column_families`](Self::create_missing_column_families), [`set_error_if_exists`](Self::set_error_if_exists) |
/// | memory | [`set_write_buffer_size`](Self::set_write_buffer_size), [`set_max_write_buffer_number`](Self::set_max_write_buffer_number), [`set_db_write_buffer_size`](Self::set_db_write_buffer_size), [`set_write_buffer_manager`](Self::set_write_buffer_manager), [`set_max_open_files`](Self::set_max_open_files); the block cache: [`BlockBasedOptions::set_block_cache`](crate::BlockBasedOptions::set_block_cache) |
/// | tables, filters, codecs | [`set_block_based_table_factory`](Self::set_block_based_table_factory), [`set_cuckoo_table_factory`](Self::set_cuckoo_table_factory), [`set_plain_table_factory`](Self::set_plain_table_factory), [`set_prefix_extractor`](Self::set_prefix_extractor), [`set_compression_type`](Self::set_compression_type), [`set_bottommost_compression_type`](Self::set_bottommost_compression_type) |
/// | compaction | [`increase_parallelism`](Self::increase_parallelism), [`set_max_background_jobs`](Self::set_max_background_jobs), [`set_compaction_style`](Self::set_compaction_style), [`set_target_file_size_base`](Self::set_target_file_size_base), [`set_max_bytes_for_level_base`](Self::set_max_bytes_for_level_base), [`set_ttl`](Self::set_ttl), [`set_rate_limiter`](Self::set_rate_limiter) |
/// | write-ahead log | [`set_wal_dir`](Self::set_wal_dir), [`set_max_total_wal_size`](Self::set_max_total_wal_size), [`set_manual_wal_flush`](Self::set_manual_wal_flush), [`set_wal_recovery_mode`](Self::set_wal_recovery_mode) |
/// | own code | [`set_comparator`](Self::set_comparator), [`set_merge_operator`](Self::set_merge_operator), [`set_compaction_filter`](Self::set_compaction_filter), [`add_event_listener`](Self::add_event_listener), [`set_logger`](Self::set_logger), [`set_env`](Self::set_env) |
/// | observation | [`set_statistics`](Self::set_statistics), [`set_stats_dump_period_sec`](Self::set_stats_dump_period_sec) |
/// | transactions | [`set_transactions`](Self::set_transactions) |
/// | texts and files | [`apply_str`](Self::apply_str), [`apply_map`](Self::apply_map), [`load_latest`](Self::load_latest) |
///
/// `docs/options.md` lists all options, with those that are accepted without effect; their setters
/// are not shown here.
///
#[doc = include_str!("subjects.md")]
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(crate) db: DbOptions,
    pub(crate) cf: ColumnFamilyOptions,
    pub(crate) plugins: Plugins,
    /// Values that were replaced when the options were loaded, to be logged.
    pub(crate) mended: Vec<MendedOption>,
}

enum_texts!(RecoveryMode {
    RecoveryMode::TolerateCorruptedTailRecords = "kTolerateCorruptedTailRecords",
    RecoveryMode::AbsoluteConsistency = "kAbsoluteConsistency",
    RecoveryMode::PointInTime = "kPointInTimeRecovery",
    RecoveryMode::SkipAnyCorruptedRecords = "kSkipAnyCorruptedRecords",
});

enum_texts!(ReadEngine {
    ReadEngine::Auto = "auto",
    ReadEngine::Uring = "uring",
    ReadEngine::Pool = "pool",
    ReadEngine::Off = "off",
});

option_enum! {
    /// The severity of a line of the LOG.
    pub enum LogLevel {
        /// Information. The default.
        Info = "INFO_LEVEL",
        /// For debugging the engine.
        Debug = "DEBUG_LEVEL",
        /// A warning.
        Warn = "WARN_LEVEL",
        /// An error.
        Error = "ERROR_LEVEL",
        /// The engine cannot continue.
        Fatal = "FATAL_LEVEL",
        /// The options and the version, at the start of each LOG.
        Header = "HEADER_LEVEL",
    }
}

option_enum! {
    /// The values of `lowest_used_cache_tier`, an option that is accepted without effect.
    pub enum CacheTier {
        /// All tiers.
        NonVolatileBlock = "kNonVolatileBlockTier",
        /// Memory, compressed blocks included.
        VolatileCompressed = "kVolatileCompressedTier",
        /// Memory, uncompressed blocks only.
        Volatile = "kVolatileTier",
    }
}

option_section! {
    /// Options of the whole database.
    #[expect(non_snake_case, reason = "fields are called as RocksDB writes the option")]
    pub(crate) struct DbOptions, "DBOptions";
    options {
        /// Total background work slots; a quarter (at least 1) goes to flushes, the rest to
        /// compactions.
        [honoured mutable "5.6"] max_background_jobs: i32 = 2, "Values up to 1 still give one flush and one compaction.",
            set_max_background_jobs(count: u32 as Count), get_max_background_jobs;
        /// Old option for the number of compaction slots.
        [honoured mutable "<=5.4"] max_background_compactions: i32 = -1, "-1 = derive from max_background_jobs; only both -1 uses the derivation.",
            set_max_background_compactions(value: i32), get_max_background_compactions;
        /// Threads that share one compaction by key range: of level 0 or universal style, or manual.
        ///
        /// Only block-based tables are divided, and no part is smaller than a table of the output.
        [honoured mutable "<=5.4"] max_subcompactions: u32 = 1, "0 and 1 = no splitting.",
            set_max_subcompactions(count: u32), get_max_subcompactions;
        /// Close without flushing memtables that the WAL (or nothing) covers.
        [honoured mutable "<=5.4"] avoid_flush_during_shutdown: bool = false, "",
            set_avoid_flush_during_shutdown(on: bool), get_avoid_flush_during_shutdown;
        /// Largest buffer for a table, WAL or MANIFEST file being written. A table that will not be
        /// mapped is nevertheless written in pieces of at most 256 KiB; one that will be mapped in
        /// multiples of 2 MiB.
        [honoured mutable "<=5.4"] writable_file_max_buffer_size: u64 = 1 << 20, "Bytes; must be >0 when direct writes are used.",
            set_writable_file_max_buffer_size(bytes: u64), get_writable_file_max_buffer_size;
        /// Upper bound of user writes while a slowdown condition holds.
        [honoured mutable "<=5.4"] delayed_write_rate: u64 = 0, "Bytes/s; 0 = the rate of the rate limiter, else 16 MiB.",
            set_delayed_write_rate(value: u64), get_delayed_write_rate;
        /// If live WALs exceed this, column families that pin the oldest WAL are flushed.
        [honoured mutable "<=5.4"] max_total_wal_size: u64 = 0, "Bytes; 0 = 4 × the sum over families of write_buffer_size × max_write_buffer_number; applies with more than one family.",
            set_max_total_wal_size(bytes: u64), get_max_total_wal_size;
        /// Interval of full scans of the directory for unreferenced files.
        [accepted mutable "<=5.4"] delete_obsolete_files_period_micros: u64 = 21_600_000_000, "Microseconds; 0 = scan after every flush and compaction.",
            set_delete_obsolete_files_period_micros(period: Duration as Micros), get_delete_obsolete_files_period_micros;
        /// Interval at which all statistics are written to LOG.
        [honoured mutable "<=5.4"] stats_dump_period_sec: u32 = 600, "Seconds; 0 = never.",
            set_stats_dump_period_sec(period: Duration as Seconds), get_stats_dump_period_sec;
        /// Interval at which counters are copied into the in-memory (or persistent) history.
        [honoured mutable "6.0"] stats_persist_period_sec: u32 = 600, "Seconds; 0 = never.",
            set_stats_persist_period_sec(period: Duration as Seconds), get_stats_persist_period_sec;
        /// Memory bound of the statistics history.
        [honoured mutable "6.0"] stats_history_buffer_size: u64 = 1 << 20, "Bytes.",
            set_stats_history_buffer_size(bytes: u64), get_stats_history_buffer_size;
        /// Maximum number of open files: ten for logs and the like, the others for tables. Tables
        /// are closed, and opened again by reads; only those in use may exceed the number. With -1
        /// all tables stay open, also after a change at run time. A read-only database loses closed
        /// tables that a writer removes. A secondary that keeps descriptors ignores the option.
        [honoured mutable "<=5.4"] max_open_files: i32 = -1, "-1 = every table; else at least 20 and at most what the process may open.";
        /// Request write-back from the OS after every this many bytes of a table file.
        [honoured mutable "<=5.4"] bytes_per_sync: u64 = 0, "Bytes; 0 = off, but 1 MiB with a rate limiter.",
            set_bytes_per_sync(value: u64), get_bytes_per_sync;
        /// Request write-back from the OS after every this many bytes of a WAL file.
        [honoured mutable "<=5.4"] wal_bytes_per_sync: u64 = 0, "Bytes; 0 = off.",
            set_wal_bytes_per_sync(value: u64), get_wal_bytes_per_sync;
        /// Wait for the previous write-back before starting the next (bounds dirty data). A failure
        /// of it fails the write.
        [honoured mutable "6.2"] strict_bytes_per_sync: bool = false, "",
            set_strict_bytes_per_sync(on: bool), get_strict_bytes_per_sync;
        /// Read size of compaction inputs.
        [honoured mutable "<=5.4"] compaction_readahead_size: u64 = 2 << 20, "Bytes; 0 = no own readahead; POSIX caps it at the largest request of the device for buffered reads.",
            set_compaction_readahead_size(bytes: u64), get_compaction_readahead_size;
        /// Old option for the number of flush slots.
        [honoured mutable "<=5.4"] max_background_flushes: i32 = -1, "-1 = derive from max_background_jobs.",
            set_max_background_flushes(value: i32), get_max_background_flushes;
        /// MANIFEST is rewritten when it grows beyond max(this, last compact size × (1 +
        /// max_manifest_space_amp_pct/100)).
        [honoured mutable "<=5.4"] max_manifest_file_size: u64 = 1 << 30, "Bytes; lower bound of the rotation threshold.",
            set_max_manifest_file_size(bytes: u64), get_max_manifest_file_size;
        /// Allowed growth of the MANIFEST over its compact size.
        [honoured mutable "10.8"] max_manifest_space_amp_pct: i32 = 500, "Percent ≥0.",
            set_max_manifest_space_amp_pct(value: i32), get_max_manifest_space_amp_pct;
        /// Steps in which the space of a MANIFEST is preallocated.
        [honoured mutable "<=5.4"] manifest_preallocation_size: u64 = 4 << 20, "Bytes; needs allow_fallocate.",
            set_manifest_preallocation_size(bytes: u64), get_manifest_preallocation_size;
        /// Re-read and check the MANIFEST at close; write a fresh one if it is damaged.
        [honoured mutable "11.1"] verify_manifest_content_on_close: bool = false, "",
            set_verify_manifest_content_on_close(on: bool), get_verify_manifest_content_on_close;
        /// Allow shortcuts in recovery after a clean shutdown.
        [accepted mutable "11.3"] optimize_manifest_for_recovery: bool = false, "Experimental.",
            set_optimize_manifest_for_recovery(on: bool), get_optimize_manifest_for_recovery;
        /// Daily window in which the leveled style rewrites files that would reach
        /// periodic_compaction_seconds before the next window.
        [honoured mutable "8.8"] daily_offpeak_time_utc: String = String::new(), "\"\" or HH:mm-HH:mm, start ≠ end; colons are escaped in files; not written when empty.";
        /// Longest pause between searches for compactions in an idle database; above 20 seconds it
        /// acts as 20.
        [honoured mutable "11.2"] max_compaction_trigger_wakeup_seconds: u64 = 43_200, "Seconds; <1 acts as 1.",
            set_max_compaction_trigger_wakeup_seconds(time: Duration as Seconds), get_max_compaction_trigger_wakeup_seconds;
        /// Store file-system hints about table files in the MANIFEST to open them faster.
        [accepted mutable "11.2"] fast_sst_open: bool = false, "Experimental.",
            set_fast_sst_open(on: bool), get_fast_sst_open;
        /// Declare random access when a table is opened for reads.
        [honoured fixed "<=5.4"] advise_random_on_open: bool = true, "POSIX fadvise.",
            set_advise_random_on_open(on: bool), get_advise_random_on_open;
        /// Read table files through mmap; RocksDB's cuckoo reader requires it.
        [honoured fixed "<=5.4"] allow_mmap_reads: bool = false, "Not together with use_direct_reads.",
            set_allow_mmap_reads(on: bool), get_allow_mmap_reads;
        /// Preallocate space for files being written: for logs in steps of 4 MiB, for MANIFESTs as
        /// manifest_preallocation_size says, for tables of compactions as many bytes as are
        /// expected. What is unused is released when the file is closed.
        [honoured fixed "<=5.4"] allow_fallocate: bool = true, "",
            set_allow_fallocate(on: bool), get_allow_fallocate;
        /// Write files through mmap.
        [accepted fixed "<=5.4"] allow_mmap_writes: bool = false, "",
            set_allow_mmap_writes(on: bool), get_allow_mmap_writes;
        /// O_DIRECT for reads of user requests and compactions.
        [honoured fixed "<=5.4"] use_direct_reads: bool = false, "",
            set_use_direct_reads(on: bool), get_use_direct_reads;
        /// O_DIRECT for compaction inputs only.
        [accepted fixed "11.5"] use_direct_io_for_compaction_reads: bool = false, "No effect when use_direct_reads is on.",
            set_use_direct_io_for_compaction_reads(on: bool), get_use_direct_io_for_compaction_reads;
        /// O_DIRECT for files written by flush and compaction. An open fails if the file system has
        /// no direct writes.
        [honoured fixed "<=5.4"] use_direct_io_for_flush_and_compaction: bool = false, "Needs writable_file_max_buffer_size > 0.",
            set_use_direct_io_for_flush_and_compaction(on: bool), get_use_direct_io_for_flush_and_compaction;
        /// Keep WALs needed by prepared, uncommitted transactions.
        [accepted fixed "<=5.4"] allow_2pc: bool = false, "Turns avoid_flush_during_recovery off.",
            set_allow_2pc(on: bool), get_allow_2pc;
        /// Create the database if it does not exist. Its directory must be empty, hidden files aside.
        [honoured fixed "<=5.4"] create_if_missing: bool = false, "",
            create_if_missing(on: bool), get_create_if_missing;
        /// Create families named at open that do not exist.
        [honoured fixed "<=5.4"] create_missing_column_families: bool = false, "",
            create_missing_column_families(on: bool), get_create_missing_column_families;
        /// List running flushes and compactions in `Env::thread_list`.
        [honoured fixed "<=5.4"] enable_thread_tracking: bool = false, "",
            set_enable_thread_tracking(on: bool), get_enable_thread_tracking;
        /// Fail if the database exists.
        [honoured fixed "<=5.4"] error_if_exists: bool = false, "",
            set_error_if_exists(on: bool), get_error_if_exists;
        /// Open files with close-on-exec.
        [accepted fixed "<=5.4"] is_fd_close_on_exec: bool = true, "",
            set_is_fd_close_on_exec(on: bool), get_is_fd_close_on_exec;
        /// Fail an open if a table cannot be opened, and stop writes if a compaction finds damage. If
        /// not, reads of damaged tables fail, and the compaction is retried after pauses. Damaged
        /// logs are the subject of wal_recovery_mode; a failed log always stops writes.
        [honoured fixed "<=5.4"] paranoid_checks: bool = true, "",
            set_paranoid_checks(on: bool), get_paranoid_checks;
        /// Open and check table files in the background after open returned.
        [accepted fixed "11.1"] open_files_async: bool = false, "Needs skip_stats_update_on_db_open; not with FIFO.",
            set_open_files_async(on: bool), get_open_files_async;
        /// Compare entries in the memtable with entries iterated by the flush, which fails if they
        /// differ.
        [honoured fixed "6.22"] flush_verify_memtable_count: bool = true, "",
            set_flush_verify_memtable_count(on: bool), get_flush_verify_memtable_count;
        /// Compare entries read by a compaction with the inputs' properties.
        [honoured fixed "8.6"] compaction_verify_record_count: bool = true, "",
            set_compaction_verify_record_count(on: bool), get_compaction_verify_record_count;
        /// Record WAL sync sizes in the MANIFEST and check them at recovery.
        [accepted fixed "6.15"] track_and_verify_wals_in_manifest: bool = false, "",
            set_track_and_verify_wals_in_manifest(on: bool), get_track_and_verify_wals_in_manifest;
        /// Each WAL names its predecessor, checked at recovery.
        [accepted fixed "9.11"] track_and_verify_wals: bool = false, "Experimental.",
            set_track_and_verify_wals(on: bool), get_track_and_verify_wals;
        /// Compare each table's unique id with the MANIFEST.
        [honoured fixed "7.3"] verify_sst_unique_id_in_manifest: bool = true, "Only files opened.",
            set_verify_sst_unique_id_in_manifest(on: bool), get_verify_sst_unique_id_in_manifest;
        /// Do not read table properties at open to refresh compaction estimates.
        [accepted fixed "<=5.4"] skip_stats_update_on_db_open: bool = false, "",
            set_skip_stats_update_on_db_open(on: bool), get_skip_stats_update_on_db_open;
        /// Spin before sleeping on the main mutex.
        [accepted fixed "<=5.4"] use_adaptive_mutex: bool = false, "",
            set_use_adaptive_mutex(on: bool), get_use_adaptive_mutex;
        /// fsync instead of fdatasync for logs, tables and MANIFESTs.
        [honoured fixed "<=5.4"] use_fsync: bool = false, "",
            set_use_fsync(on: bool), get_use_fsync;
        /// Threads that open tables at start when max_open_files=-1.
        [honoured fixed "<=5.4"] max_file_opening_threads: i32 = 16, "≥1 in practice.",
            set_max_file_opening_threads(count: u32 as Count), get_max_file_opening_threads;
        /// The engine for concurrent reads of blocks. RocksDB does not know the option, and rejects
        /// OPTIONS files that contain it: only values other than the default are written. The LOG
        /// and the property `koeldb.async-io-engine` have the actual engine and the reason.
        [honoured fixed "KoelDB 0.1"] async_io_engine: ReadEngine = ReadEngine::Auto, "auto, uring, pool, off. uring takes kernels older than 5.19, too; where there is no io_uring, threads read.",
            set_async_io_engine(engine: ReadEngine), get_async_io_engine;
        /// Size of the shared pool for asynchronous reads.
        [accepted fixed "11.8"] read_io_executor_threads: i32 = 1, "Must be >0.",
            set_read_io_executor_threads(count: u32 as Count), get_read_io_executor_threads;
        /// Shards of the table cache.
        [accepted fixed "<=5.4"] table_cache_numshardbits: i32 = 6, "1..19 in db_bench; log2 of shards.",
            set_table_cache_num_shard_bits(count: u32 as Count), get_table_cache_num_shard_bits;
        /// Limit of memtable memory over all column families.
        [honoured fixed "<=5.4"] db_write_buffer_size: u64 = 0, "Bytes; 0 = no limit; creates a write buffer manager.",
            set_db_write_buffer_size(bytes: u64), get_db_write_buffer_size;
        /// Number of old LOG files to keep.
        [honoured fixed "<=5.4"] keep_log_file_num: u64 = 1000, "Must be >0.",
            set_keep_log_file_num(value: u64), get_keep_log_file_num;
        /// Number of obsolete WAL files kept for new WALs, which are written over them: a sync then
        /// makes no new length and space durable. A close removes them. Takes no file that a
        /// checkpoint linked, or that had a failure.
        [honoured fixed "<=5.4"] recycle_log_file_num: u64 = 0, "Set to 0 with WAL archiving or with kTolerateCorruptedTailRecords / kAbsoluteConsistency.",
            set_recycle_log_file_num(value: u64), get_recycle_log_file_num;
        /// Create the next WAL file ahead of need.
        [accepted fixed "11.3"] async_wal_precreate: bool = false, "Experimental; off if recycle_log_file_num ≠ 0.",
            set_async_wal_precreate(on: bool), get_async_wal_precreate;
        /// Age at which LOG is rolled.
        [honoured fixed "<=5.4"] log_file_time_to_roll: u64 = 0, "Seconds; 0 = by size only.",
            set_log_file_time_to_roll(time: Duration as Seconds), get_log_file_time_to_roll;
        /// Size at which LOG is rolled.
        [honoured fixed "<=5.4"] max_log_file_size: u64 = 0, "Bytes; 0 = one file.",
            set_max_log_file_size(bytes: u64), get_max_log_file_size;
        /// Directory of LOG files, whose names then begin with the path of the database. It is not
        /// removed with the database.
        [honoured fixed "<=5.4"] db_log_dir: String = String::new(), "\"\" = database directory; not written when empty.";
        /// Directory of WAL files.
        [honoured fixed "<=5.4"] wal_dir: String = String::new(), "\"\" = database directory; trailing '/' removed; cleared if equal to the database path.";
        /// Size bound of archived WALs: obsolete ones are moved to `archive` and removed from there,
        /// oldest first.
        [honoured fixed "<=5.4"] WAL_size_limit_MB: u64 = 0, "MiB; 0 = off.",
            set_wal_size_limit_mb(bytes: u64), get_wal_size_limit_mb;
        /// Age bound of archived WALs: obsolete ones are moved to `archive`, and removed from there
        /// with a later one.
        [honoured fixed "<=5.4"] WAL_ttl_seconds: u64 = 0, "Seconds; 0 = off.",
            set_wal_ttl_seconds(time: Duration as Seconds), get_wal_ttl_seconds;
        /// Overlap one group's WAL write with the previous group's memtable insert even without spare
        /// processors; with them this is the default.
        [honoured fixed "5.5"] enable_pipelined_write: bool = false, "Not with unordered_write or atomic_flush.",
            set_enable_pipelined_write(on: bool), get_enable_pipelined_write;
        /// Publish writes before they are in the memtables: a snapshot may gain entries, a read may
        /// see a part of a batch.
        [honoured fixed "6.3"] unordered_write: bool = false, "Needs allow_concurrent_memtable_write, no pipelining, max_successive_merges=0.",
            set_unordered_write(on: bool), get_unordered_write;
        /// Members of a write group insert in parallel.
        [honoured fixed "<=5.4"] allow_concurrent_memtable_write: bool = true, "Needs memtables that support it: skip_list, vector, Speedb's.",
            set_allow_concurrent_memtable_write(on: bool), get_allow_concurrent_memtable_write;
        /// The WAL damage that recovery tolerates.
        [honoured fixed "<=5.4"] wal_recovery_mode: RecoveryMode = RecoveryMode::PointInTime, "",
            set_wal_recovery_mode(value: RecoveryMode), get_wal_recovery_mode;
        /// Waiting writers spin before they block, on all processors but one; before a sync, a leader waits
        /// until the writers of the last synced group have queued, at most 1 ms.
        [honoured fixed "<=5.4"] enable_write_thread_adaptive_yield: bool = true, "",
            set_enable_write_thread_adaptive_yield(on: bool), get_enable_write_thread_adaptive_yield;
        /// A yield longer than this counts as contention.
        [accepted fixed "<=5.4"] write_thread_slow_yield_usec: u64 = 3, "Microseconds.",
            set_write_thread_slow_yield_usec(time: Duration as Micros), get_write_thread_slow_yield_usec;
        /// Size bound of a write group.
        [honoured fixed "6.5"] max_write_batch_group_size_bytes: u64 = 1 << 20, "Bytes; a leader of at most 1/8 of this stops at its own size + 1/8.",
            set_max_write_batch_group_size_bytes(bytes: u64), get_max_write_batch_group_size_bytes;
        /// Longest spin of a waiting write before it blocks; KoelDB's is shorter than the default.
        [honoured fixed "<=5.4"] write_thread_max_yield_usec: u64 = 100, "Microseconds; 0 = none.",
            set_write_thread_max_yield_usec(time: Duration as Micros), get_write_thread_max_yield_usec;
        /// Least severe line written to LOG.
        [honoured fixed "<=5.4"] info_log_level: LogLevel = LogLevel::Info, "",
            set_log_level(value: LogLevel), get_log_level;
        /// Add figures of the memory allocator to the statistics in LOG, where it has any: that of glibc.
        [honoured fixed "<=5.4"] dump_malloc_stats: bool = false, "",
            set_dump_malloc_stats(on: bool), get_dump_malloc_stats;
        /// Keep recovered data in memtables at open, and its logs. Damaged logs, and more data than
        /// memtables hold, are nevertheless written to tables.
        [honoured fixed "<=5.4"] avoid_flush_during_recovery: bool = false, "Off with allow_2pc.",
            set_avoid_flush_during_recovery(on: bool), get_avoid_flush_during_recovery;
        /// Write recovered memtables to tables when they come near the limit of the write buffer
        /// manager or db_write_buffer_size.
        [honoured fixed "11.1"] enforce_write_buffer_manager_during_recovery: bool = true, "",
            set_enforce_write_buffer_manager_during_recovery(on: bool), get_enforce_write_buffer_manager_during_recovery;
        /// Reserve the last level for back-fill ingestion.
        [honoured fixed "5.5"] allow_ingest_behind: bool = false, "Deprecated: cf_allow_ingest_behind of all families.",
            set_allow_ingest_behind(on: bool), get_allow_ingest_behind;
        /// Second write queue for WAL-only writes (transactions).
        [accepted fixed "5.10"] two_write_queues: bool = false, "",
            set_two_write_queues(on: bool), get_two_write_queues;
        /// WAL data leaves the process buffer only on FlushWAL.
        [honoured fixed "5.7"] manual_wal_flush: bool = false, "",
            set_manual_wal_flush(on: bool), get_manual_wal_flush;
        /// Compression of new WAL files.
        [honoured fixed "7.0"] wal_compression: Compression = Compression::None, "Anything but kZSTD becomes kNoCompression at open.",
            set_wal_compression(value: Compression), get_wal_compression;
        /// Leave finished WALs open until a background job closes them.
        [accepted fixed "9.4"] background_close_inactive_wals: bool = false, "Deprecated by RocksDB.",
            set_background_close_inactive_wals(on: bool), get_background_close_inactive_wals;
        /// Flush all column families with data together, at one sequence number and by one change
        /// of the MANIFEST: without a WAL, none is ahead of another after a crash.
        ///
        /// A flush of named families flushes only these.
        [honoured fixed "5.18"] atomic_flush: bool = false, "Not with enable_pipelined_write.",
            set_atomic_flush(on: bool), get_atomic_flush;
        /// Move file deletions and memtable frees off user threads (KoelDB always does).
        [accepted fixed "6.1"] avoid_unnecessary_blocking_io: bool = false, "",
            set_avoid_unnecessary_blocking_io(on: bool), get_avoid_unnecessary_blocking_io;
        /// Iterators use prefix seek only if prefix_same_as_start or auto_prefix_mode asks.
        [honoured fixed "9.7"] prefix_seek_opt_in_only: bool = false, "",
            set_prefix_seek_opt_in_only(on: bool), get_prefix_seek_opt_in_only;
        /// Store the database id in the MANIFEST.
        [honoured fixed "6.5"] write_dbid_to_manifest: bool = true, "Not both this and write_identity_file false.",
            set_write_dbid_to_manifest(on: bool), get_write_dbid_to_manifest;
        /// Append to the existing MANIFEST after open instead of rewriting it.
        [accepted fixed "11.3"] reuse_manifest_on_open: bool = false, "Experimental.",
            set_reuse_manifest_on_open(on: bool), get_reuse_manifest_on_open;
        /// Write the IDENTITY file. If not, an open removes the file.
        [honoured fixed "9.7"] write_identity_file: bool = true, "Not both this and write_dbid_to_manifest false.",
            set_write_identity_file(on: bool), get_write_identity_file;
        /// Size of one read of logs and MANIFEST during open.
        [honoured fixed "6.4"] log_readahead_size: u64 = 0, "Bytes, rounded up to 32 KiB; 0 = 256 KiB.",
            set_log_readahead_size(bytes: u64), get_log_readahead_size;
        /// Open the newest state whose tables all exist, without CURRENT and without replaying logs.
        ///
        /// Of each column family, the newest tables of level 0 may also be missing, unless an atomic
        /// group was applied to it. Logs with data are kept in `archive`; tables of newer states are
        /// removed. `RecoveryReport::tables_missing` lists the missing tables.
        [honoured fixed "6.10"] best_efforts_recovery: bool = false, "",
            set_best_efforts_recovery(on: bool), get_best_efforts_recovery;
        /// Retries of automatic recovery after a retryable background error.
        [honoured fixed "6.12"] max_bgerror_resume_count: i32 = i32::MAX, "≥0; 0 = no automatic resume.",
            set_max_bgerror_resume_count(count: u32 as Count), get_max_bgerror_resume_count;
        /// Pause between retries of automatic recovery.
        [honoured fixed "6.12"] bgerror_resume_retry_interval: u64 = 1_000_000, "Microseconds.",
            set_bgerror_resume_retry_interval(time: Duration as Micros), get_bgerror_resume_retry_interval;
        /// Host name stored in table properties.
        [honoured fixed "6.15"] db_host_id: String = "__hostname__".to_owned(), "\"__hostname__\" is replaced by the host name; not written when empty (an empty value therefore reads back as the default).";
        /// String form of rate_limiter: each open creates a limiter of writes with this rate.
        [honoured fixed "6.10"] rate_limiter_bytes_per_sec: RateLimit = RateLimit(0), "Bytes/s; 0 = no limit; never written.";
        /// Error texts may show user keys: those of conflicts, lock timeouts and deadlocks.
        [honoured fixed "6.14"] allow_data_in_errors: bool = false, "",
            set_allow_data_in_errors(on: bool), get_allow_data_in_errors;
        /// Generator of whole-file checksums for the MANIFEST.
        [honoured fixed "6.26"] file_checksum_gen_factory: Option<FileChecksumGenerator> = None, "Nullptr or FileChecksumGenCrc32cFactory.";
        /// Statistics object.
        [honoured fixed "6.25"] statistics: Option<Statistics> = None, "BasicStatistics; never written.";
        /// Lowest cache tier used (secondary caches).
        [accepted fixed "6.26"] lowest_used_cache_tier: CacheTier = CacheTier::NonVolatileBlock, "",
            set_lowest_used_cache_tier(value: CacheTier), get_lowest_used_cache_tier;
        /// Fail a compaction that sees SingleDelete followed by Delete of the same key.
        [accepted fixed "7.3"] enforce_single_del_contracts: bool = true, "Deprecated by RocksDB.",
            set_enforce_single_del_contracts(on: bool), get_enforce_single_del_contracts;
        /// Follower mode: poll interval.
        [honoured fixed "9.2"] follower_refresh_catchup_period_ms: u64 = 10_000, "Milliseconds.",
            set_follower_refresh_catchup_period_ms(period: Duration as Millis), get_follower_refresh_catchup_period_ms;
        /// Follower mode: retries.
        [honoured fixed "9.2"] follower_catchup_retry_count: u64 = 10, "",
            set_follower_catchup_retry_count(value: u64), get_follower_catchup_retry_count;
        /// Follower mode: pause between retries.
        [honoured fixed "9.2"] follower_catchup_retry_wait_ms: u64 = 100, "Milliseconds.",
            set_follower_catchup_retry_wait_ms(time: Duration as Millis), get_follower_catchup_retry_wait_ms;
        /// Temperature hint to the file system for MANIFESTs; the built-in ones ignore it.
        [honoured fixed "9.6"] metadata_write_temperature: Temperature = Temperature::Unknown, "",
            set_metadata_write_temperature(value: Temperature), get_metadata_write_temperature;
        /// Temperature hint to the file system for WAL files; the built-in ones ignore it.
        [honoured fixed "9.6"] wal_write_temperature: Temperature = Temperature::Unknown, "",
            set_wal_write_temperature(value: Temperature), get_wal_write_temperature;
        /// Directories with target sizes for the tables of families without cf_paths.
        [honoured fixed "<=5.4"] db_paths: PathList = PathList::default(), "Set in code; never written.";
    }
    declined {
        /// Plug-in that sees and may drop WAL records during recovery.
        [fixed "6.26"] wal_filter: NoObject = NoObject;
        /// Keep the statistics history in a hidden column family.
        [fixed "6.3"] persist_stats_to_disk: bool = false;
        /// Files, clock and background threads.
        [fixed "6.10"] env: DefaultEnv = DefaultEnv, by set_env;
        /// Receivers of events.
        [fixed "6.24"] listeners: Vec<NoObject> = Vec::new(), by add_event_listener;
    }
    removed {
        [fixed] refresh_options_sec "Speedb's: interval for re-reading an options file.";
        [fixed] refresh_options_file "Speedb's: file to re-read mutable options from.";
        [fixed] use_dynamic_delay "Speedb's: delay writes in proportion to pressure.";
        [fixed] use_spdb_writes "Speedb's write path.";
        [fixed] use_clean_delete_during_flush "Speedb's: drop deletes early during flush.";
        [mutable] allow_os_buffer "Removed. Page cache use of data files; see use_direct_reads.";
        [mutable] base_background_compactions "Removed. Lower bound of compaction slots.";
        [fixed] use_direct_writes -> use_direct_io_for_flush_and_compaction "Removed. Renamed use_direct_io_for_flush_and_compaction.";
        [fixed] disableDataSync "Removed. Do not sync data files.";
        [fixed] disable_data_sync "Removed. Do not sync data files.";
        [fixed] experimental_allow_mempurge "Removed. Moved to the family option experimental_mempurge_threshold.";
        [fixed] experimental_mempurge_policy "Removed. Moved to the family option experimental_mempurge_threshold.";
        [fixed] experimental_mempurge_threshold "Removed. Moved to the family option of the same name.";
        [fixed] skip_log_error_on_recovery "Removed. See wal_recovery_mode.";
        [fixed] skip_checking_sst_file_sizes_on_db_open "Removed. Sizes were not checked at open.";
        [fixed] new_table_reader_for_compaction_inputs "Removed. Separate readers for compaction inputs.";
        [fixed] random_access_max_buffer_size "Removed. Read buffer on Windows.";
        [fixed] fail_if_options_file_error "Removed. Whether failing to write OPTIONS fails the call.";
        [fixed] access_hint_on_compaction_start "Removed. fadvise hint for compaction inputs (NONE, NORMAL, SEQUENTIAL, WILLNEED).";
        [fixed] preserve_deletes "Removed. Keep deletions for external readers.";
        [fixed] concurrent_prepare -> two_write_queues "Removed. Renamed two_write_queues.";
        [fixed] seq_per_batch "Removed. Internal to transactions.";
        [fixed] rate_limiter "Removed. Written by no release; see rate_limiter_bytes_per_sec.";
    }
    aliases {

    }
    accessors {
        Options {.db};
    }
}

impl DbOptions {
    /// Returns the directory of the WAL files of the database at `path`.
    pub(crate) fn wal_directory(&self, path: &Path) -> PathBuf {
        if self.wal_dir.is_empty() {
            path.to_owned()
        } else {
            PathBuf::from(&self.wal_dir)
        }
    }
}

impl Options {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the default options of column families, for those opened without own options.
    #[must_use]
    pub fn cf_options(&self) -> &ColumnFamilyOptions {
        &self.cf
    }

    /// Returns the default options of column families, for modification.
    pub fn cf_options_mut(&mut self) -> &mut ColumnFamilyOptions {
        &mut self.cf
    }

    /// Limits the number of open files; `None` for no limit.
    ///
    /// Default: none, `-1` as a text.
    pub fn set_max_open_files(&mut self, count: impl Into<Option<u32>>) -> &mut Self {
        self.db.max_open_files = count
            .into()
            .map_or(-1, |count| i32::try_from(count).unwrap_or(i32::MAX));
        self
    }

    /// The option `max_open_files`; `None` for all.
    #[must_use]
    pub fn get_max_open_files(&self) -> Option<u32> {
        u32::try_from(self.db.max_open_files).ok()
    }

    /// Limits writes of flushes and compactions to this many bytes per second; 0 for no limit.
    ///
    /// Each open creates its own limiter with default settings. To share or change a limiter, use
    /// [`Options::set_rate_limiter`], which this replaces.
    pub fn set_rate_limiter_bytes_per_sec(&mut self, bytes: u64) -> &mut Self {
        self.plugins.rate_limiter = None;
        self.db.rate_limiter_bytes_per_sec = RateLimit(bytes);
        self
    }

    /// The option `rate_limiter_bytes_per_sec`.
    #[must_use]
    pub fn get_rate_limiter_bytes_per_sec(&self) -> u64 {
        self.db.rate_limiter_bytes_per_sec.0
    }

    /// Sets the statistics, which all databases opened with it share.
    ///
    /// Default: none.
    pub fn set_statistics(&mut self, statistics: impl Into<Option<Statistics>>) -> &mut Self {
        self.db.statistics = statistics.into();
        self
    }

    /// The option `statistics`.
    #[must_use]
    pub fn get_statistics(&self) -> Option<&Statistics> {
        self.db.statistics.as_ref()
    }

    /// Sets the directory of LOG files; empty for that of the database.
    ///
    /// Default: empty.
    pub fn set_db_log_dir(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.db.db_log_dir = path_text(path.as_ref());
        self
    }

    /// The option `db_log_dir`.
    #[must_use]
    pub fn get_db_log_dir(&self) -> &Path {
        Path::new(&self.db.db_log_dir)
    }

    /// Sets the directory of WAL files; empty for that of the database.
    ///
    /// Default: empty.
    pub fn set_wal_dir(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.db.wal_dir = path_text(path.as_ref());
        self
    }

    /// The option `wal_dir`.
    #[must_use]
    pub fn get_wal_dir(&self) -> &Path {
        Path::new(&self.db.wal_dir)
    }

    /// Sets the daily off-peak window, `HH:mm-HH:mm` in UTC; empty for none.
    ///
    /// Default: empty.
    pub fn set_daily_offpeak_time_utc(&mut self, window: impl Into<String>) -> &mut Self {
        self.db.daily_offpeak_time_utc = window.into();
        self
    }

    /// The option `daily_offpeak_time_utc`.
    #[must_use]
    pub fn get_daily_offpeak_time_utc(&self) -> &str {
        &self.db.daily_offpeak_time_utc
    }

    /// Sets the host name stored in table properties; `__hostname__` stands for that of this
    /// machine.
    ///
    /// Default: `__hostname__`.
    pub fn set_db_host_id(&mut self, host: impl Into<String>) -> &mut Self {
        self.db.db_host_id = host.into();
        self
    }

    /// The option `db_host_id`.
    #[must_use]
    pub fn get_db_host_id(&self) -> &str {
        &self.db.db_host_id
    }

    /// Sets the generator of whole-file checksums; `None` for no checksums.
    ///
    /// Default: none.
    pub fn set_file_checksum_gen_factory(
        &mut self,
        generator: impl Into<Option<FileChecksumGenerator>>,
    ) -> &mut Self {
        self.db.file_checksum_gen_factory = generator.into();
        self
    }

    /// The option `file_checksum_gen_factory`.
    #[must_use]
    pub fn get_file_checksum_gen_factory(&self) -> Option<FileChecksumGenerator> {
        self.db.file_checksum_gen_factory
    }
}

/// Converts a path to the text of an option.
fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl From<&Options> for ColumnFamilyOptions {
    fn from(options: &Options) -> Self {
        options.cf.clone()
    }
}
