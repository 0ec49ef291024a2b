//! Setters that carry one value into an option of the registry.

use super::values::OptionText;
use super::{
    CompactionPri, DBCompactionStyle, DBCompressionType, DBRecoveryMode, LogLevel, MemtableFactory,
    Options,
};

macro_rules! setters {
    ($($(#[doc = $doc:literal])+ $setter:ident($type:ty) = $name:literal;)*) => {
        impl Options {$(
            $(#[doc = $doc])+
            pub fn $setter(&mut self, value: $type) {
                self.set($name, &OptionText::text(&value));
            }
        )*}
    };
}

setters! {
    /// Creates the database if it does not exist.
    create_if_missing(bool) = "create_if_missing";
    /// Creates named column families that do not exist.
    create_missing_column_families(bool) = "create_missing_column_families";
    /// Fails if the database exists.
    set_error_if_exists(bool) = "error_if_exists";
    /// Whether an open fails on damage that it could skip.
    set_paranoid_checks(bool) = "paranoid_checks";
    /// The codec of tables.
    set_compression_type(DBCompressionType) = "compression";
    /// The codec of the last level.
    set_bottommost_compression_type(DBCompressionType) = "bottommost_compression";
    /// Threads that compress the blocks of a table. No effect.
    set_compression_options_parallel_threads(i32) = "compression_opts.parallel_threads";
    /// Bytes of samples from which dictionaries are trained.
    set_zstd_max_train_bytes(i32) = "compression_opts.zstd_max_train_bytes";
    /// The readahead of compactions in bytes.
    set_compaction_readahead_size(usize) = "compaction_readahead_size";
    /// Whether the sizes of levels follow from the last one.
    set_level_compaction_dynamic_level_bytes(bool) = "level_compaction_dynamic_level_bytes";
    /// Seconds after which tables are compacted.
    set_periodic_compaction_seconds(u64) = "periodic_compaction_seconds";
    /// Seconds after which tables are compacted, or dropped by FIFO compaction.
    set_ttl(u64) = "ttl";
    /// Leaves filters out on the last level.
    set_optimize_filters_for_hits(bool) = "optimize_filters_for_hits";
    /// Microseconds between scans for obsolete files. No effect.
    set_delete_obsolete_files_period_micros(u64) = "delete_obsolete_files_period_micros";
    /// The number of open tables; -1 for no limit.
    set_max_open_files(i32) = "max_open_files";
    /// Threads that open tables at open.
    set_max_file_opening_threads(i32) = "max_file_opening_threads";
    /// The least severe level of lines in LOG.
    set_log_level(LogLevel) = "info_log_level";
    /// Bytes of a table after which they are passed to the device.
    set_bytes_per_sync(u64) = "bytes_per_sync";
    /// Bytes of the log after which they are passed to the device.
    set_wal_bytes_per_sync(u64) = "wal_bytes_per_sync";
    /// The largest buffer of a file being written, in bytes.
    set_writable_file_max_buffer_size(u64) = "writable_file_max_buffer_size";
    /// Whether the writers of a group insert into memtables concurrently.
    set_allow_concurrent_memtable_write(bool) = "allow_concurrent_memtable_write";
    /// Whether waiting writers spin first. No effect.
    set_enable_write_thread_adaptive_yield(bool) = "enable_write_thread_adaptive_yield";
    /// Entries that a scan skips before it seeks.
    set_max_sequential_skip_in_iterations(u64) = "max_sequential_skip_in_iterations";
    /// Reads without the cache of the operating system.
    set_use_direct_reads(bool) = "use_direct_reads";
    /// Writes tables without the cache of the operating system.
    set_use_direct_io_for_flush_and_compaction(bool) = "use_direct_io_for_flush_and_compaction";
    /// Whether child processes lose the files. No effect: they always do.
    set_is_fd_close_on_exec(bool) = "is_fd_close_on_exec";
    /// Shards of the cache of open tables. No effect.
    set_table_cache_num_shard_bits(i32) = "table_cache_numshardbits";
    /// The factor between table sizes of adjacent levels.
    set_target_file_size_multiplier(i32) = "target_file_size_multiplier";
    /// The number of memtables that a flush merges.
    set_min_write_buffer_number(i32) = "min_write_buffer_number_to_merge";
    /// The maximum number of memtables.
    set_max_write_buffer_number(i32) = "max_write_buffer_number";
    /// The size of a memtable in bytes.
    set_write_buffer_size(usize) = "write_buffer_size";
    /// The size of all memtables of the database in bytes; 0 for no limit.
    set_db_write_buffer_size(usize) = "db_write_buffer_size";
    /// The size of the first level below 0, in bytes.
    set_max_bytes_for_level_base(u64) = "max_bytes_for_level_base";
    /// The factor between the sizes of adjacent levels.
    set_max_bytes_for_level_multiplier(f64) = "max_bytes_for_level_multiplier";
    /// The size of the MANIFEST at which another begins, in bytes.
    set_max_manifest_file_size(usize) = "max_manifest_file_size";
    /// The size of tables in bytes.
    set_target_file_size_base(u64) = "target_file_size_base";
    /// The number of memtables that a flush merges.
    set_min_write_buffer_number_to_merge(i32) = "min_write_buffer_number_to_merge";
    /// The tables on level 0 at which a compaction begins.
    set_level_zero_file_num_compaction_trigger(i32) = "level0_file_num_compaction_trigger";
    /// The order in which leveled compaction takes tables.
    set_compaction_pri(CompactionPri) = "compaction_pri";
    /// The tables on level 0 at which writes slow down.
    set_level_zero_slowdown_writes_trigger(i32) = "level0_slowdown_writes_trigger";
    /// The tables on level 0 at which writes wait.
    set_level_zero_stop_writes_trigger(i32) = "level0_stop_writes_trigger";
    /// The shape of the tree.
    set_compaction_style(DBCompactionStyle) = "compaction_style";
    /// Publishes writes before they are in memtables: reads may see parts of batches.
    set_unordered_write(bool) = "unordered_write";
    /// Threads that share a compaction.
    set_max_subcompactions(u32) = "max_subcompactions";
    /// The number of flushes and compactions at one time.
    set_max_background_jobs(i32) = "max_background_jobs";
    /// The number of compactions at one time; -1: as `max_background_jobs` says.
    set_max_background_compactions(i32) = "max_background_compactions";
    /// The number of flushes at one time; -1: as `max_background_jobs` says.
    set_max_background_flushes(i32) = "max_background_flushes";
    /// Whether compactions run only on request.
    set_disable_auto_compactions(bool) = "disable_auto_compactions";
    /// The size of huge pages for memtables. No effect: the system's choice is used.
    set_memtable_huge_page_size(usize) = "memtable_huge_page_size";
    /// Operands of a key in the memtable after which it is merged. No effect.
    set_max_successive_merges(usize) = "max_successive_merges";
    /// The locality of plain tables' filters.
    set_bloom_locality(u32) = "bloom_locality";
    /// Overwrites values in memtables; the open fails with `true`.
    set_inplace_update_support(bool) = "inplace_update_support";
    /// Locks for overwriting. No effect.
    set_inplace_update_locks(usize) = "inplace_update_num_locks";
    /// Bytes of flushed memtables that are kept for transactions. No effect.
    set_max_write_buffer_size_to_maintain(i64) = "max_write_buffer_size_to_maintain";
    /// Overlaps log writes with inserts of the group before.
    set_enable_pipelined_write(bool) = "enable_pipelined_write";
    /// The structure of memtables.
    set_memtable_factory(MemtableFactory) = "memtable_factory";
    /// Measures the I/O of background jobs. No effect.
    set_report_bg_io_stats(bool) = "report_bg_io_stats";
    /// The bytes of logs at which the oldest memtables are flushed; 0: derived.
    set_max_total_wal_size(u64) = "max_total_wal_size";
    /// How a damaged log is read at open.
    set_wal_recovery_mode(DBRecoveryMode) = "wal_recovery_mode";
    /// Seconds between counters in LOG.
    set_stats_dump_period_sec(u32) = "stats_dump_period_sec";
    /// Seconds between records of counters.
    set_stats_persist_period_sec(u32) = "stats_persist_period_sec";
    /// Tells the operating system that tables are read at random.
    set_advise_random_on_open(bool) = "advise_random_on_open";
    /// The kind of mutexes. No effect.
    set_use_adaptive_mutex(bool) = "use_adaptive_mutex";
    /// The number of levels.
    set_num_levels(i32) = "num_levels";
    /// The filters of memtables as a part of their size.
    set_memtable_prefix_bloom_ratio(f64) = "memtable_prefix_bloom_size_ratio";
    /// The bytes of a compaction's inputs beyond which it takes no further tables.
    set_max_compaction_bytes(u64) = "max_compaction_bytes";
    /// Seconds that obsolete logs are kept.
    set_wal_ttl_seconds(u64) = "WAL_ttl_seconds";
    /// MiB of obsolete logs that are kept.
    set_wal_size_limit_mb(u64) = "WAL_size_limit_MB";
    /// Bytes allocated for the MANIFEST ahead.
    set_manifest_preallocation_size(usize) = "manifest_preallocation_size";
    /// Reads no statistics of tables at open. No effect.
    set_skip_stats_update_on_db_open(bool) = "skip_stats_update_on_db_open";
    /// The number of LOG files that are kept.
    set_keep_log_file_num(usize) = "keep_log_file_num";
    /// Writes through mapped memory; the open fails with `true`.
    set_allow_mmap_writes(bool) = "allow_mmap_writes";
    /// Reads through mapped memory.
    set_allow_mmap_reads(bool) = "allow_mmap_reads";
    /// Passes the log to the operating system only on request.
    set_manual_wal_flush(bool) = "manual_wal_flush";
    /// Flushes all column families together; an open for writing fails with `true`.
    set_atomic_flush(bool) = "atomic_flush";
    /// The size of LOG at which another begins, in bytes; 0 for no limit.
    set_max_log_file_size(usize) = "max_log_file_size";
    /// The age of LOG at which another begins, in seconds; 0 for no limit.
    set_log_file_time_to_roll(usize) = "log_file_time_to_roll";
    /// The number of log files that are reused. No effect.
    set_recycle_log_file_num(usize) = "recycle_log_file_num";
    /// The bytes due for compaction at which writes slow down.
    set_soft_pending_compaction_bytes_limit(usize) = "soft_pending_compaction_bytes_limit";
    /// The bytes due for compaction at which writes wait.
    set_hard_pending_compaction_bytes_limit(usize) = "hard_pending_compaction_bytes_limit";
    /// The size of blocks of memtables' memory, in bytes.
    set_arena_block_size(usize) = "arena_block_size";
    /// Writes the allocator's statistics to LOG. No effect.
    set_dump_malloc_stats(bool) = "dump_malloc_stats";
    /// The part of a memtable's data below which it is merged in memory. No effect.
    set_experimental_mempurge_threshold(f64) = "experimental_mempurge_threshold";
    /// Whether filters of memtables know whole keys.
    set_memtable_whole_key_filtering(bool) = "memtable_whole_key_filtering";
    /// Stores large values in blob files. No effect: they stay in tables.
    set_enable_blob_files(bool) = "enable_blob_files";
    /// The size of values in blob files. No effect.
    set_min_blob_size(u64) = "min_blob_size";
    /// The size of blob files. No effect.
    set_blob_file_size(u64) = "blob_file_size";
    /// The codec of blob files. No effect.
    set_blob_compression_type(DBCompressionType) = "blob_compression_type";
    /// Whether compactions move values of old blob files. No effect.
    set_enable_blob_gc(bool) = "enable_blob_garbage_collection";
    /// The part of blob files that are old. No effect.
    set_blob_gc_age_cutoff(f64) = "blob_garbage_collection_age_cutoff";
    /// The garbage at which blob files are compacted. No effect.
    set_blob_gc_force_threshold(f64) = "blob_garbage_collection_force_threshold";
    /// The readahead of compactions in blob files. No effect.
    set_blob_compaction_readahead_size(u64) = "blob_compaction_readahead_size";
    /// Keeps the last level free for ingestions behind the data. No effect.
    set_allow_ingest_behind(bool) = "allow_ingest_behind";
    /// Closes files in the background. No effect.
    set_avoid_unnecessary_blocking_io(bool) = "avoid_unnecessary_blocking_io";
    /// Records logs in the MANIFEST. No effect.
    set_track_and_verify_wals_in_manifest(bool) = "track_and_verify_wals_in_manifest";
    /// Whether the MANIFEST has the identity of the database.
    set_write_dbid_to_manifest(bool) = "write_dbid_to_manifest";
}
