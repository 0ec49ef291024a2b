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
    /// Whether an open fails on corruption that it could skip.
    set_paranoid_checks(bool) = "paranoid_checks";
    /// The compression type of SST files.
    set_compression_type(DBCompressionType) = "compression";
    /// The compression type of the bottommost level.
    set_bottommost_compression_type(DBCompressionType) = "bottommost_compression";
    /// Threads that compress the blocks of a table. No effect.
    set_compression_options_parallel_threads(i32) = "compression_opts.parallel_threads";
    /// Bytes of samples from which dictionaries are trained.
    set_zstd_max_train_bytes(i32) = "compression_opts.zstd_max_train_bytes";
    /// The readahead of compactions in bytes.
    set_compaction_readahead_size(usize) = "compaction_readahead_size";
    /// Whether the target sizes of levels are derived from the size of the last one.
    set_level_compaction_dynamic_level_bytes(bool) = "level_compaction_dynamic_level_bytes";
    /// The age in seconds at which SST files are compacted.
    set_periodic_compaction_seconds(u64) = "periodic_compaction_seconds";
    /// The age of data in seconds at which it is compacted, or dropped by FIFO compaction.
    set_ttl(u64) = "ttl";
    /// Whether SST files of the last level have no filters.
    set_optimize_filters_for_hits(bool) = "optimize_filters_for_hits";
    /// Microseconds between scans for obsolete files. No effect.
    set_delete_obsolete_files_period_micros(u64) = "delete_obsolete_files_period_micros";
    /// The maximum number of open SST files; -1 for no limit.
    set_max_open_files(i32) = "max_open_files";
    /// The number of threads that open SST files when the database is opened.
    set_max_file_opening_threads(i32) = "max_file_opening_threads";
    /// The minimum severity of lines in LOG.
    set_log_level(LogLevel) = "info_log_level";
    /// The bytes of an SST file after which its writeback to the device starts.
    set_bytes_per_sync(u64) = "bytes_per_sync";
    /// The bytes of the write-ahead log after which its writeback to the device starts.
    set_wal_bytes_per_sync(u64) = "wal_bytes_per_sync";
    /// The largest buffer of a file being written, in bytes.
    set_writable_file_max_buffer_size(u64) = "writable_file_max_buffer_size";
    /// Whether the writers of a group insert into memtables concurrently.
    set_allow_concurrent_memtable_write(bool) = "allow_concurrent_memtable_write";
    /// Whether waiting writers spin first. No effect.
    set_enable_write_thread_adaptive_yield(bool) = "enable_write_thread_adaptive_yield";
    /// The number of entries of one key that a scan skips before it seeks.
    set_max_sequential_skip_in_iterations(u64) = "max_sequential_skip_in_iterations";
    /// Whether reads use direct I/O.
    set_use_direct_reads(bool) = "use_direct_reads";
    /// Whether flushes and compactions use direct I/O.
    set_use_direct_io_for_flush_and_compaction(bool) = "use_direct_io_for_flush_and_compaction";
    /// Whether files are opened with close-on-exec. No effect: they always are.
    set_is_fd_close_on_exec(bool) = "is_fd_close_on_exec";
    /// Shards of the cache of open tables. No effect.
    set_table_cache_num_shard_bits(i32) = "table_cache_numshardbits";
    /// The factor between the target SST file sizes of adjacent levels.
    set_target_file_size_multiplier(i32) = "target_file_size_multiplier";
    /// The number of memtables that a flush merges.
    set_min_write_buffer_number(i32) = "min_write_buffer_number_to_merge";
    /// The maximum number of memtables.
    set_max_write_buffer_number(i32) = "max_write_buffer_number";
    /// The size of a memtable in bytes.
    set_write_buffer_size(usize) = "write_buffer_size";
    /// The size of all memtables of the database in bytes; 0 for no limit.
    set_db_write_buffer_size(usize) = "db_write_buffer_size";
    /// The target size of the base level, which level 0 is compacted into, in bytes.
    set_max_bytes_for_level_base(u64) = "max_bytes_for_level_base";
    /// The factor between the target sizes of adjacent levels.
    set_max_bytes_for_level_multiplier(f64) = "max_bytes_for_level_multiplier";
    /// The size at which a new MANIFEST is begun, in bytes.
    set_max_manifest_file_size(usize) = "max_manifest_file_size";
    /// The target size of SST files, in bytes.
    set_target_file_size_base(u64) = "target_file_size_base";
    /// The number of memtables that a flush merges.
    set_min_write_buffer_number_to_merge(i32) = "min_write_buffer_number_to_merge";
    /// The number of SST files on level 0 at which a compaction begins.
    set_level_zero_file_num_compaction_trigger(i32) = "level0_file_num_compaction_trigger";
    /// The order in which leveled compaction takes tables.
    set_compaction_pri(CompactionPri) = "compaction_pri";
    /// The number of SST files on level 0 at which writes are slowed down.
    set_level_zero_slowdown_writes_trigger(i32) = "level0_slowdown_writes_trigger";
    /// The number of SST files on level 0 at which writes are stopped.
    set_level_zero_stop_writes_trigger(i32) = "level0_stop_writes_trigger";
    /// The compaction style.
    set_compaction_style(DBCompactionStyle) = "compaction_style";
    /// Publishes writes before they are in memtables: reads may see parts of batches.
    set_unordered_write(bool) = "unordered_write";
    /// The maximum number of threads that share a compaction.
    set_max_subcompactions(u32) = "max_subcompactions";
    /// The maximum number of concurrent flushes and compactions.
    set_max_background_jobs(i32) = "max_background_jobs";
    /// The maximum number of concurrent compactions; -1: derived from `max_background_jobs`.
    set_max_background_compactions(i32) = "max_background_compactions";
    /// The maximum number of concurrent flushes; -1: derived from `max_background_jobs`.
    set_max_background_flushes(i32) = "max_background_flushes";
    /// Whether automatic compactions are disabled.
    set_disable_auto_compactions(bool) = "disable_auto_compactions";
    /// The size of huge pages for memtables. No effect: the system's choice is used.
    set_memtable_huge_page_size(usize) = "memtable_huge_page_size";
    /// Operands of a key in the memtable after which it is merged. No effect.
    set_max_successive_merges(usize) = "max_successive_merges";
    /// The locality of plain tables' filters.
    set_bloom_locality(u32) = "bloom_locality";
    /// Whether values are overwritten in memtables; the open fails with `true`.
    set_inplace_update_support(bool) = "inplace_update_support";
    /// Locks for overwriting. No effect.
    set_inplace_update_locks(usize) = "inplace_update_num_locks";
    /// Bytes of flushed memtables that are kept for transactions. No effect.
    set_max_write_buffer_size_to_maintain(i64) = "max_write_buffer_size_to_maintain";
    /// Whether WAL writes overlap the memtable inserts of the previous write group.
    set_enable_pipelined_write(bool) = "enable_pipelined_write";
    /// The memtable representation.
    set_memtable_factory(MemtableFactory) = "memtable_factory";
    /// Measures the I/O of background jobs. No effect.
    set_report_bg_io_stats(bool) = "report_bg_io_stats";
    /// The bytes of WAL files at which the oldest memtables are flushed; 0: derived.
    set_max_total_wal_size(u64) = "max_total_wal_size";
    /// How an open reads a damaged write-ahead log.
    set_wal_recovery_mode(DBRecoveryMode) = "wal_recovery_mode";
    /// The seconds between dumps of statistics in LOG.
    set_stats_dump_period_sec(u32) = "stats_dump_period_sec";
    /// The seconds between snapshots of statistics for the statistics history.
    set_stats_persist_period_sec(u32) = "stats_persist_period_sec";
    /// Tells the operating system that tables are read at random.
    set_advise_random_on_open(bool) = "advise_random_on_open";
    /// The kind of mutexes. No effect.
    set_use_adaptive_mutex(bool) = "use_adaptive_mutex";
    /// The number of levels.
    set_num_levels(i32) = "num_levels";
    /// The size of a memtable's Bloom filter, as a fraction of `write_buffer_size`.
    set_memtable_prefix_bloom_ratio(f64) = "memtable_prefix_bloom_size_ratio";
    /// The input bytes beyond which a compaction takes no further SST files.
    set_max_compaction_bytes(u64) = "max_compaction_bytes";
    /// The seconds for which obsolete WAL files are archived.
    set_wal_ttl_seconds(u64) = "WAL_ttl_seconds";
    /// The limit of archived WAL files, in MiB.
    set_wal_size_limit_mb(u64) = "WAL_size_limit_MB";
    /// The bytes preallocated for the MANIFEST.
    set_manifest_preallocation_size(usize) = "manifest_preallocation_size";
    /// Reads no statistics of tables at open. No effect.
    set_skip_stats_update_on_db_open(bool) = "skip_stats_update_on_db_open";
    /// The maximum number of info log (LOG) files that are kept.
    set_keep_log_file_num(usize) = "keep_log_file_num";
    /// Whether files are written through mmap; the open fails with `true`.
    set_allow_mmap_writes(bool) = "allow_mmap_writes";
    /// Whether SST files are read through mmap.
    set_allow_mmap_reads(bool) = "allow_mmap_reads";
    /// Whether the WAL is buffered until `flush_wal`.
    set_manual_wal_flush(bool) = "manual_wal_flush";
    /// Flushes all column families with data together, by one change of the MANIFEST.
    set_atomic_flush(bool) = "atomic_flush";
    /// The size at which a new LOG file is begun, in bytes; 0 for no limit.
    set_max_log_file_size(usize) = "max_log_file_size";
    /// The age at which a new LOG file is begun, in seconds; 0 for no limit.
    set_log_file_time_to_roll(usize) = "log_file_time_to_roll";
    /// The number of WAL files that are recycled. No effect.
    set_recycle_log_file_num(usize) = "recycle_log_file_num";
    /// The pending compaction bytes at which writes are slowed down.
    set_soft_pending_compaction_bytes_limit(usize) = "soft_pending_compaction_bytes_limit";
    /// The pending compaction bytes at which writes are stopped.
    set_hard_pending_compaction_bytes_limit(usize) = "hard_pending_compaction_bytes_limit";
    /// The size of arena blocks of memtables, in bytes.
    set_arena_block_size(usize) = "arena_block_size";
    /// Writes the allocator's statistics to LOG. No effect.
    set_dump_malloc_stats(bool) = "dump_malloc_stats";
    /// The fraction of useful data below which memtables are merged in memory. No effect.
    set_experimental_mempurge_threshold(f64) = "experimental_mempurge_threshold";
    /// Whether Bloom filters of memtables contain whole keys.
    set_memtable_whole_key_filtering(bool) = "memtable_whole_key_filtering";
    /// Stores large values in blob files.
    set_enable_blob_files(bool) = "enable_blob_files";
    /// The size from which values go to blob files.
    set_min_blob_size(u64) = "min_blob_size";
    /// The size at which a blob file ends.
    set_blob_file_size(u64) = "blob_file_size";
    /// The compression type of blob files.
    set_blob_compression_type(DBCompressionType) = "blob_compression_type";
    /// Whether compactions move values of old blob files.
    set_enable_blob_gc(bool) = "enable_blob_garbage_collection";
    /// The fraction of blob files that count as old.
    set_blob_gc_age_cutoff(f64) = "blob_garbage_collection_age_cutoff";
    /// The fraction of garbage in the oldest blob files from which on their tables are compacted.
    set_blob_gc_force_threshold(f64) = "blob_garbage_collection_force_threshold";
    /// The readahead of compactions in blob files.
    set_blob_compaction_readahead_size(u64) = "blob_compaction_readahead_size";
    /// Prepares for `ingest_behind`: compactions keep tombstones, universal ones the last level free.
    set_allow_ingest_behind(bool) = "allow_ingest_behind";
    /// Closes files in the background. No effect.
    set_avoid_unnecessary_blocking_io(bool) = "avoid_unnecessary_blocking_io";
    /// Records WAL files in the MANIFEST. No effect.
    set_track_and_verify_wals_in_manifest(bool) = "track_and_verify_wals_in_manifest";
    /// Whether the database id is written to the MANIFEST.
    set_write_dbid_to_manifest(bool) = "write_dbid_to_manifest";
}
