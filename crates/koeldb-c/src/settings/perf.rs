//! Counts and times of the operations of the calling thread.

use std::cell::Cell;

use koeldb::perf::{self, PerfContext, PerfLevel};

/// The metrics of the calling thread (`rocksdb_perfcontext_t`).
pub(crate) struct ThreadMetrics;

thread_local! {
    /// Whether the program has set the level of the thread.
    static IS_CHOSEN: Cell<bool> = const { Cell::new(false) };
}

impl Default for ThreadMetrics {
    /// Enables counts, RocksDB's default, unless the program has set a level.
    fn default() -> Self {
        if !IS_CHOSEN.get() {
            perf::set_level(PerfLevel::EnableCount);
        }
        ThreadMetrics
    }
}

/// The names of the metrics by their numbers in C.
const METRICS: &[&str] = &[
    "user_key_comparison_count",
    "block_cache_hit_count",
    "block_read_count",
    "block_read_byte",
    "block_read_time",
    "block_checksum_time",
    "block_decompress_time",
    "get_read_bytes",
    "multiget_read_bytes",
    "iter_read_bytes",
    "internal_key_skipped_count",
    "internal_delete_skipped_count",
    "internal_recent_skipped_count",
    "internal_merge_count",
    "get_snapshot_time",
    "get_from_memtable_time",
    "get_from_memtable_count",
    "get_post_process_time",
    "get_from_output_files_time",
    "seek_on_memtable_time",
    "seek_on_memtable_count",
    "next_on_memtable_count",
    "prev_on_memtable_count",
    "seek_child_seek_time",
    "seek_child_seek_count",
    "seek_min_heap_time",
    "seek_max_heap_time",
    "seek_internal_seek_time",
    "find_next_user_entry_time",
    "write_wal_time",
    "write_memtable_time",
    "write_delay_time",
    "write_pre_and_post_process_time",
    "db_mutex_lock_nanos",
    "db_condition_wait_nanos",
    "merge_operator_time_nanos",
    "read_index_block_nanos",
    "read_filter_block_nanos",
    "new_table_block_iter_nanos",
    "new_table_iterator_nanos",
    "block_seek_nanos",
    "find_table_nanos",
    "bloom_memtable_hit_count",
    "bloom_memtable_miss_count",
    "bloom_sst_hit_count",
    "bloom_sst_miss_count",
    "key_lock_wait_time",
    "key_lock_wait_count",
    "env_new_sequential_file_nanos",
    "env_new_random_access_file_nanos",
    "env_new_writable_file_nanos",
    "env_reuse_writable_file_nanos",
    "env_new_random_rw_file_nanos",
    "env_new_directory_nanos",
    "env_file_exists_nanos",
    "env_get_children_nanos",
    "env_get_children_file_attributes_nanos",
    "env_delete_file_nanos",
    "env_create_dir_nanos",
    "env_create_dir_if_missing_nanos",
    "env_delete_dir_nanos",
    "env_get_file_size_nanos",
    "env_get_file_modification_time_nanos",
    "env_rename_file_nanos",
    "env_link_file_nanos",
    "env_lock_file_nanos",
    "env_unlock_file_nanos",
    "env_new_logger_nanos",
    "number_async_seek",
    "blob_cache_hit_count",
    "blob_read_count",
    "blob_read_byte",
    "blob_read_time",
    "blob_checksum_time",
    "blob_decompress_time",
    "internal_range_del_reseek_count",
    "block_read_cpu_time",
    "internal_merge_point_lookup_count",
    "data_block_read_byte",
    "index_block_read_byte",
    "filter_block_read_byte",
    "compression_dict_block_read_byte",
    "metadata_block_read_byte",
    "blob_cache_read_byte",
];

/// Sets the level of the calling thread, by its number in RocksDB.
pub(crate) fn set_level(level: i32) {
    IS_CHOSEN.set(true);
    perf::set_level(match level {
        ..=1 => PerfLevel::Disable,
        2 => PerfLevel::EnableCount,
        3 => PerfLevel::EnableWait,
        4 | 5 => PerfLevel::EnableTimeExceptForMutex,
        6.. => PerfLevel::EnableTime,
    });
}

/// Sets the metrics to zero.
pub(crate) fn reset(_: &mut ThreadMetrics) {
    perf::reset();
}

/// Returns the metric of a number; zero if the engine does not measure it.
pub(crate) fn metric(_: &mut ThreadMetrics, metric: i32) -> u64 {
    let name = usize::try_from(metric).ok().and_then(|at| METRICS.get(at));
    let Some(name) = name else { return 0 };
    let found = perf::context()
        .iter()
        .find(|(metric, _)| metric.name() == *name);
    found.map_or(0, |(_, value)| value)
}

/// Returns all metrics as a text.
pub(crate) fn report(_: &mut ThreadMetrics, exclude_zero: bool) -> String {
    let context: PerfContext = perf::context();
    let shown = context
        .iter()
        .filter(|(_, value)| !exclude_zero || *value != 0);
    let shown: Vec<String> = shown
        .map(|(metric, value)| format!("{} = {value}", metric.name()))
        .collect();
    shown.join(", ")
}
