//! Draws random values for the options that change how a database works but not its results.
//!
//! [`ROWS`] lists the possible values of each option of the registry, [`COMPOSED`] the options
//! whose value consists of other rows, and [`LEFT_OUT`] the options that a suite does not draw,
//! with the reason. A test of `koeldb` compares the three with `Options::registry()`, so that a new
//! option is drawn or left out with a reason.
//!
//! A [`Drawer`] holds the properties that a column family keeps for its life ([`Style`]): the
//! compaction style, the number of levels and the table format. [`Drawer::draw`] draws the options
//! of one open, separately for each column family. The result consists of option strings that an
//! open accepts: conflicts between options are resolved here.

mod draw;

pub use draw::{Drawer, Drawn, Format, Style};

/// A suite that draws options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// One thread, checked against a model of the contents: `koeldb/tests/it/metamorphic.rs`.
    Metamorphic,
    /// Crash images and injected faults: `koeldb/tests/crash`.
    Crash,
    /// Several threads in a process that is killed: `db_stress`.
    Stress,
}

impl Suite {
    /// All suites.
    pub const ALL: [Suite; 3] = [Suite::Metamorphic, Suite::Crash, Suite::Stress];
}

/// An option and its possible values.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The section of the registry.
    pub section: &'static str,
    /// The name within the section.
    pub name: &'static str,
    /// The possible values.
    pub values: &'static [&'static str],
}

/// An option that some suites do not draw.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut {
    /// The section of the registry.
    pub section: &'static str,
    /// The name within the section.
    pub name: &'static str,
    /// The suites that do not draw it.
    pub suites: &'static [Suite],
    /// The reason.
    pub why: &'static str,
}

const DATABASE: &str = "DBOptions";
const FAMILY: &str = "CFOptions";
const COMPRESSION: &str = "CFOptions/compression_opts";
const UNIVERSAL: &str = "CFOptions/compaction_options_universal";
const FIFO: &str = "CFOptions/compaction_options_fifo";
const TEMPERATURE_AGE: &str = "CFOptions/compaction_options_fifo/file_temperature_age_thresholds";
const BLOCK_BASED: &str = "TableOptions/BlockBasedTable";
const PINNING: &str = "TableOptions/BlockBasedTable/metadata_cache_options";
const PLAIN: &str = "TableOptions/PlainTable";
const CUCKOO: &str = "TableOptions/CuckooTable";
const CACHE: &str = "cache string (block_cache, blob_cache)";
const SKIP_LIST: &str = "memtable factory skip_list | SkipListFactory";
const PARTITIONER: &str = "SST partitioner SstPartitionerFixedPrefixFactory";
const COLLECTOR: &str = "collector CompactOnDeletionCollector";
const VECTOR: &str = "memtable factory vector | VectorRepFactory";
const HASH_SKIP_LIST: &str = "memtable factory prefix_hash | HashSkipListRepFactory";
const HASH_LINK_LIST: &str = "memtable factory hash_linkedlist | HashLinkListRepFactory";
const SORTED_HASH: &str = "memtable factory hash_spdb | HashSpdbRepFactory";

const BOOL: &[&str] = &["false", "true"];
const CODECS: &[&str] = &[
    "kNoCompression",
    "kSnappyCompression",
    "kZlibCompression",
    "kLZ4Compression",
    "kLZ4HCCompression",
    "kZSTD",
];
const TEMPERATURES: &[&str] = &["kUnknown", "kHot", "kCold"];
const PINNING_TIERS: &[&str] = &["kFallback", "kNone", "kFlushedAndSimilar", "kAll"];

const fn row(section: &'static str, name: &'static str, values: &'static [&'static str]) -> Row {
    Row {
        section,
        name,
        values,
    }
}

/// The options that are drawn.
pub const ROWS: &[Row] = &[
    row(DATABASE, "max_background_jobs", &["1", "2", "4"]),
    row(DATABASE, "max_subcompactions", &["1", "2", "3", "7"]),
    row(DATABASE, "max_background_compactions", &["-1", "1", "2"]),
    row(DATABASE, "max_background_flushes", &["-1", "1", "2"]),
    row(DATABASE, "max_open_files", &["-1", "20"]),
    row(DATABASE, "avoid_flush_during_shutdown", BOOL),
    row(
        DATABASE,
        "writable_file_max_buffer_size",
        &["0", "4096", "1048576"],
    ),
    row(DATABASE, "delayed_write_rate", &["0", "50000000"]),
    row(DATABASE, "rate_limiter_bytes_per_sec", &["0", "30000000"]),
    row(DATABASE, "max_log_file_size", &["0", "20000"]),
    row(DATABASE, "log_file_time_to_roll", &["0", "1"]),
    row(DATABASE, "max_total_wal_size", &["0", "65536", "400000"]),
    row(DATABASE, "bytes_per_sync", &["0", "4096"]),
    row(DATABASE, "wal_bytes_per_sync", &["0", "4096"]),
    row(DATABASE, "strict_bytes_per_sync", BOOL),
    row(DATABASE, "avoid_flush_during_recovery", BOOL),
    row(DATABASE, "paranoid_checks", BOOL),
    row(DATABASE, "flush_verify_memtable_count", BOOL),
    row(DATABASE, "verify_sst_unique_id_in_manifest", BOOL),
    row(DATABASE, "allow_data_in_errors", BOOL),
    row(DATABASE, "use_direct_io_for_flush_and_compaction", BOOL),
    row(DATABASE, "db_host_id", &["__hostname__", "host"]),
    row(DATABASE, "WAL_ttl_seconds", &["0", "1", "3600"]),
    row(DATABASE, "WAL_size_limit_MB", &["0", "1"]),
    row(DATABASE, "recycle_log_file_num", &["0", "1", "3"]),
    row(DATABASE, "use_fsync", BOOL),
    row(DATABASE, "allow_fallocate", BOOL),
    row(DATABASE, "manifest_preallocation_size", &["0", "4096"]),
    row(
        DATABASE,
        "max_write_batch_group_size_bytes",
        &["0", "100", "10000", "1048576"],
    ),
    row(DATABASE, "write_identity_file", BOOL),
    row(
        DATABASE,
        "compaction_readahead_size",
        &["0", "4096", "2097152"],
    ),
    row(
        DATABASE,
        "max_manifest_file_size",
        &["1", "4096", "1073741824"],
    ),
    row(DATABASE, "max_manifest_space_amp_pct", &["0", "500"]),
    row(
        DATABASE,
        "daily_offpeak_time_utc",
        &["", "00:00-23:59", "23:00-01:00"],
    ),
    row(
        DATABASE,
        "max_compaction_trigger_wakeup_seconds",
        &["0", "43200"],
    ),
    row(DATABASE, "advise_random_on_open", BOOL),
    row(DATABASE, "allow_mmap_reads", BOOL),
    row(DATABASE, "use_direct_reads", BOOL),
    row(DATABASE, "compaction_verify_record_count", BOOL),
    row(DATABASE, "max_file_opening_threads", &["1", "16"]),
    row(DATABASE, "async_io_engine", &["auto", "pool", "off"]),
    row(DATABASE, "db_write_buffer_size", &["0", "300000"]),
    row(DATABASE, "keep_log_file_num", &["1", "1000"]),
    row(DATABASE, "enable_pipelined_write", BOOL),
    row(DATABASE, "atomic_flush", BOOL),
    row(DATABASE, "enable_write_thread_adaptive_yield", BOOL),
    row(DATABASE, "unordered_write", BOOL),
    row(DATABASE, "allow_concurrent_memtable_write", BOOL),
    row(
        DATABASE,
        "wal_recovery_mode",
        &[
            "kPointInTimeRecovery",
            "kTolerateCorruptedTailRecords",
            "kAbsoluteConsistency",
            "kSkipAnyCorruptedRecords",
        ],
    ),
    row(
        DATABASE,
        "info_log_level",
        &["INFO_LEVEL", "DEBUG_LEVEL", "ERROR_LEVEL"],
    ),
    row(DATABASE, "prefix_seek_opt_in_only", BOOL),
    row(DATABASE, "manual_wal_flush", BOOL),
    row(DATABASE, "wal_compression", &["kNoCompression", "kZSTD"]),
    row(DATABASE, "write_dbid_to_manifest", BOOL),
    row(DATABASE, "max_bgerror_resume_count", &["0", "2147483647"]),
    row(
        DATABASE,
        "bgerror_resume_retry_interval",
        &["1000", "1000000"],
    ),
    row(
        DATABASE,
        "file_checksum_gen_factory",
        &["nullptr", "FileChecksumGenCrc32cFactory"],
    ),
    row(DATABASE, "statistics", &["nullptr", "BasicStatistics"]),
    row(DATABASE, "stats_dump_period_sec", &["0", "600"]),
    row(DATABASE, "stats_persist_period_sec", &["0", "600"]),
    row(DATABASE, "stats_history_buffer_size", &["0", "1048576"]),
    row(
        DATABASE,
        "log_readahead_size",
        &["0", "1", "40000", "4194304"],
    ),
    row(DATABASE, "verify_manifest_content_on_close", BOOL),
    row(DATABASE, "metadata_write_temperature", TEMPERATURES),
    row(DATABASE, "wal_write_temperature", TEMPERATURES),
    row(DATABASE, "write_thread_max_yield_usec", &["0", "10", "100"]),
    row(
        DATABASE,
        "enforce_write_buffer_manager_during_recovery",
        BOOL,
    ),
    row(DATABASE, "enable_thread_tracking", BOOL),
    row(DATABASE, "dump_malloc_stats", BOOL),
    row(
        FAMILY,
        "cf_allow_ingest_behind",
        &["false", "false", "true"],
    ),
    row(FAMILY, "default_temperature", TEMPERATURES),
    row(FAMILY, "default_write_temperature", TEMPERATURES),
    row(FAMILY, "last_level_temperature", TEMPERATURES),
    row(FAMILY, "sample_for_compression", &["0", "1", "3"]),
    row(FAMILY, "target_file_size_is_upper_bound", BOOL),
    row(FAMILY, "disable_auto_compactions", BOOL),
    row(FAMILY, "paranoid_file_checks", BOOL),
    row(FAMILY, "uncache_aggressiveness", &["0", "1", "1000"]),
    row(FAMILY, "paranoid_memory_checks", BOOL),
    row(FAMILY, "verify_output_flags", &["0", "1025", "4294967295"]),
    row(FAMILY, "memtable_max_range_deletions", &["0", "1", "5"]),
    row(FAMILY, "max_successive_merges", &["0", "1", "3"]),
    row(FAMILY, "strict_max_successive_merges", BOOL),
    row(
        FAMILY,
        "memtable_protection_bytes_per_key",
        &["0", "1", "8"],
    ),
    row(
        FAMILY,
        "soft_pending_compaction_bytes_limit",
        &["100000", "68719476736"],
    ),
    row(
        FAMILY,
        "hard_pending_compaction_bytes_limit",
        &["0", "10000000", "274877906944"],
    ),
    row(FAMILY, "max_compaction_bytes", &["0", "100000"]),
    row(FAMILY, "enable_blob_files", BOOL),
    row(FAMILY, "min_blob_size", &["0", "20", "500"]),
    row(FAMILY, "blob_file_size", &["1000", "20000", "1000000"]),
    row(FAMILY, "blob_compression_type", CODECS),
    row(FAMILY, "enable_blob_garbage_collection", BOOL),
    row(
        FAMILY,
        "blob_garbage_collection_age_cutoff",
        &["0", "0.25", "1"],
    ),
    row(
        FAMILY,
        "blob_garbage_collection_force_threshold",
        &["0", "0.5", "1"],
    ),
    row(
        FAMILY,
        "blob_collection",
        &["kDefault", "kDeadBytes", "kAge"],
    ),
    row(FAMILY, "blob_collection_target", &["1.05", "1.3", "4"]),
    row(FAMILY, "blob_collection_share", &["0", "0.5", "1"]),
    row(FAMILY, "blob_file_starting_level", &["0", "1", "2"]),
    row(FAMILY, "blob_compaction_readahead_size", &["0", "4096"]),
    row(FAMILY, "blob_cache", &["null", "30000", "1000000"]),
    row(
        FAMILY,
        "prepopulate_blob_cache",
        &["kDisable", "kFlushOnly"],
    ),
    row(FAMILY, "level0_file_num_compaction_trigger", &["2", "4"]),
    row(FAMILY, "level0_slowdown_writes_trigger", &["4", "20"]),
    row(FAMILY, "level0_stop_writes_trigger", &["8", "36"]),
    row(FAMILY, "max_write_buffer_number", &["2", "3", "6"]),
    row(FAMILY, "min_write_buffer_number_to_merge", &["1", "2"]),
    row(
        FAMILY,
        "target_file_size_base",
        &["2000", "8192", "40000", "1000000"],
    ),
    row(FAMILY, "target_file_size_multiplier", &["1", "2"]),
    row(FAMILY, "arena_block_size", &["0", "4096", "100000"]),
    row(FAMILY, "write_buffer_size", &["65536", "100000", "400000"]),
    row(
        FAMILY,
        "max_sequential_skip_in_iterations",
        &["0", "1", "8"],
    ),
    row(FAMILY, "memtable_prefix_bloom_size_ratio", &["0", "0.1"]),
    row(FAMILY, "memtable_whole_key_filtering", BOOL),
    row(FAMILY, "max_bytes_for_level_base", &["16384", "100000"]),
    row(FAMILY, "max_bytes_for_level_multiplier", &["3", "10"]),
    row(
        FAMILY,
        "max_bytes_for_level_multiplier_additional",
        &["1:1:1:1:1:1:1", "2:1:3", "0:2"],
    ),
    row(FAMILY, "compression", CODECS),
    row(FAMILY, "bottommost_compression", CODECS),
    row(
        FAMILY,
        "compression_per_level",
        &["kNoCompression:kNoCompression:kLZ4Compression", "kZSTD"],
    ),
    row(
        FAMILY,
        "prefix_extractor",
        &[
            "nullptr",
            "rocksdb.FixedPrefix.4",
            "rocksdb.CappedPrefix.3",
            "rocksdb.Noop",
        ],
    ),
    row(FAMILY, "ttl", &["0", "1", "3600", "2592000"]),
    row(FAMILY, "periodic_compaction_seconds", &["0", "1", "3600"]),
    row(FAMILY, "bottommost_file_compaction_delay", &["0", "1"]),
    row(FAMILY, "level_compaction_dynamic_level_bytes", BOOL),
    row(FAMILY, "optimize_filters_for_hits", BOOL),
    row(FAMILY, "num_levels", &["4", "7"]),
    row(FAMILY, "bloom_locality", &["0", "1"]),
    row(
        FAMILY,
        "compaction_style",
        &[
            "kCompactionStyleLevel",
            "kCompactionStyleUniversal",
            "kCompactionStyleFIFO",
            "kCompactionStyleNone",
        ],
    ),
    row(COMPRESSION, "window_bits", &["-14", "-12"]),
    row(COMPRESSION, "level", &["32767", "1", "6"]),
    row(COMPRESSION, "strategy", &["0", "1"]),
    row(
        COMPRESSION,
        "max_compressed_bytes_per_kb",
        &["100", "896", "1024"],
    ),
    row(COMPRESSION, "enabled", BOOL),
    row(COMPRESSION, "checksum", BOOL),
    row(COMPRESSION, "max_dict_bytes", &["0", "400", "16384"]),
    row(COMPRESSION, "zstd_max_train_bytes", &["0", "4000"]),
    row(COMPRESSION, "max_dict_buffer_bytes", &["0", "20000"]),
    row(COMPRESSION, "use_zstd_dict_trainer", BOOL),
    row(UNIVERSAL, "size_ratio", &["1", "50"]),
    row(UNIVERSAL, "min_merge_width", &["2", "4"]),
    row(UNIVERSAL, "max_merge_width", &["4", "4294967295"]),
    row(UNIVERSAL, "max_size_amplification_percent", &["20", "200"]),
    row(UNIVERSAL, "compression_size_percent", &["-1", "0", "50"]),
    row(UNIVERSAL, "max_read_amp", &["-1", "0", "8", "20"]),
    row(
        FAMILY,
        "compaction_pri",
        &[
            "kMinOverlappingRatio",
            "kByCompensatedSize",
            "kOldestLargestSeqFirst",
            "kOldestSmallestSeqFirst",
            "kRoundRobin",
        ],
    ),
    row(
        UNIVERSAL,
        "stop_style",
        &[
            "kCompactionStopStyleTotalSize",
            "kCompactionStopStyleSimilarSize",
        ],
    ),
    row(UNIVERSAL, "allow_trivial_move", BOOL),
    row(
        FIFO,
        "max_table_files_size",
        &["1073741824", "100000000000"],
    ),
    row(FIFO, "allow_compaction", BOOL),
    row(FIFO, "age_for_warm", &["0", "1"]),
    row(BLOCK_BASED, "cache_index_and_filter_blocks", BOOL),
    row(
        BLOCK_BASED,
        "cache_index_and_filter_blocks_with_high_priority",
        BOOL,
    ),
    row(BLOCK_BASED, "pin_l0_filter_and_index_blocks_in_cache", BOOL),
    row(BLOCK_BASED, "pin_top_level_index_and_filter", BOOL),
    row(
        BLOCK_BASED,
        "index_type",
        &[
            "kBinarySearch",
            "kHashSearch",
            "kTwoLevelIndexSearch",
            "kBinarySearchWithFirstKey",
        ],
    ),
    row(
        BLOCK_BASED,
        "index_block_search_type",
        &["kBinary", "kInterpolation", "kAuto"],
    ),
    row(
        BLOCK_BASED,
        "index_decoding",
        &["kNever", "kPinned", "kAlways"],
    ),
    row(
        BLOCK_BASED,
        "data_block_index_type",
        &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"],
    ),
    row(
        BLOCK_BASED,
        "data_block_hash_table_util_ratio",
        &["0.1", "0.75", "1"],
    ),
    row(
        BLOCK_BASED,
        "index_shortening",
        &[
            "kNoShortening",
            "kShortenSeparators",
            "kShortenSeparatorsAndSuccessor",
        ],
    ),
    row(
        BLOCK_BASED,
        "checksum",
        &["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"],
    ),
    row(BLOCK_BASED, "no_block_cache", BOOL),
    row(BLOCK_BASED, "block_size", &["256", "1000", "1024", "4096"]),
    row(BLOCK_BASED, "block_size_deviation", &["0", "10", "50"]),
    row(BLOCK_BASED, "block_restart_interval", &["1", "3", "16"]),
    row(BLOCK_BASED, "index_block_restart_interval", &["1", "4"]),
    row(BLOCK_BASED, "metadata_block_size", &["512", "4096"]),
    row(BLOCK_BASED, "partition_filters", BOOL),
    row(BLOCK_BASED, "use_delta_encoding", BOOL),
    row(BLOCK_BASED, "verify_compression", BOOL),
    row(BLOCK_BASED, "detect_filter_construct_corruption", BOOL),
    row(
        BLOCK_BASED,
        "prepopulate_block_cache",
        &["kDisable", "kFlushOnly", "kFlushAndCompaction"],
    ),
    row(
        BLOCK_BASED,
        "flush_block_policy_factory",
        &[
            "FlushBlockBySizePolicyFactory",
            "FlushBlockEveryKeyPolicyFactory",
        ],
    ),
    row(
        BLOCK_BASED,
        "filter_policy",
        &[
            "nullptr",
            "bloomfilter:10:false",
            "ribbonfilter:8",
            "ribbonfilter:10:2",
        ],
    ),
    row(BLOCK_BASED, "whole_key_filtering", BOOL),
    row(
        BLOCK_BASED,
        "format_version",
        &["2", "3", "4", "5", "6", "7"],
    ),
    row(BLOCK_BASED, "separate_key_value_in_data_block", BOOL),
    row(BLOCK_BASED, "uniform_cv_threshold", &["-1", "0.2", "100"]),
    row(BLOCK_BASED, "enable_index_compression", BOOL),
    row(BLOCK_BASED, "block_align", BOOL),
    row(
        BLOCK_BASED,
        "super_block_alignment_size",
        &["0", "4096", "16384"],
    ),
    row(
        BLOCK_BASED,
        "super_block_alignment_space_overhead_ratio",
        &["0", "4", "128"],
    ),
    row(BLOCK_BASED, "decouple_partitioned_filters", BOOL),
    row(
        BLOCK_BASED,
        "max_auto_readahead_size",
        &["0", "4096", "262144"],
    ),
    row(
        BLOCK_BASED,
        "initial_auto_readahead_size",
        &["0", "1024", "8192"],
    ),
    row(
        BLOCK_BASED,
        "num_file_reads_for_auto_readahead",
        &["0", "2"],
    ),
    row(PINNING, "top_level_index_pinning", PINNING_TIERS),
    row(PINNING, "unpartitioned_pinning", PINNING_TIERS),
    row(PINNING, "partition_pinning", PINNING_TIERS),
    row(CACHE, "capacity", &["0", "30000", "8000000"]),
    row(CACHE, "num_shard_bits", &["-1", "0", "3"]),
    row(CACHE, "high_pri_pool_ratio", &["0", "0.5"]),
    row(PLAIN, "bloom_bits_per_key", &["0", "10"]),
    row(PLAIN, "hash_table_ratio", &["0", "0.75"]),
    row(PLAIN, "index_sparseness", &["1", "16"]),
    row(PLAIN, "encoding_type", &["kPlain", "kPrefix"]),
    row(PLAIN, "store_index_in_file", BOOL),
    row(CUCKOO, "hash_table_ratio", &["0.5", "0.9"]),
    row(CUCKOO, "max_search_depth", &["1", "100"]),
    row(CUCKOO, "cuckoo_block_size", &["1", "5"]),
    row(CUCKOO, "identity_as_first_hash", BOOL),
    row(CUCKOO, "use_module_hash", BOOL),
    row(CUCKOO, "keep_versions", BOOL),
    row(
        CUCKOO,
        "residency",
        &["kAuto", "kMapped", "kMappedHuge", "kCopied", "kPaged"],
    ),
    row(SKIP_LIST, "lookahead", &["0", "4", "16"]),
    row(PARTITIONER, "length", &["0", "1", "2"]),
    row(COLLECTOR, "window_size", &["0", "128", "1000"]),
    row(COLLECTOR, "deletion_trigger", &["1", "10"]),
    row(COLLECTOR, "deletion_ratio", &["0", "0.3"]),
    row(COLLECTOR, "min_file_size", &["0", "1000"]),
    row(VECTOR, "count", &["0", "100"]),
    row(HASH_SKIP_LIST, "bucket_count", &["1", "50", "1000000"]),
    row(HASH_LINK_LIST, "bucket_count", &["1", "50", "50000"]),
    row(HASH_LINK_LIST, "threshold", &["2", "256"]),
    row(HASH_LINK_LIST, "logging_threshold", &["0", "5", "4096"]),
    row(HASH_LINK_LIST, "log_when_flash", BOOL),
    row(SORTED_HASH, "hash_bucket_count", &["0", "1", "1000000"]),
    row(SORTED_HASH, "sorted_vector_limit", &["1", "20", "10000"]),
];

/// Options whose value consists of other rows.
pub const COMPOSED: &[(&str, &str)] = &[
    (FAMILY, "table_factory"),
    (FAMILY, "memtable_factory"),
    (FAMILY, "compression_opts"),
    (FAMILY, "bottommost_compression_opts"),
    (FAMILY, "blob_compression_opts"),
    (FAMILY, "compaction_options_universal"),
    (FAMILY, "compaction_options_fifo"),
    (BLOCK_BASED, "metadata_cache_options"),
    (BLOCK_BASED, "block_cache"),
    (FAMILY, "sst_partitioner_factory"),
    (FAMILY, "table_properties_collectors"),
];

const fn left_out(
    section: &'static str,
    name: &'static str,
    suites: &'static [Suite],
    why: &'static str,
) -> LeftOut {
    LeftOut {
        section,
        name,
        suites,
        why,
    }
}

/// The options that a suite does not draw.
pub const LEFT_OUT: &[LeftOut] = &[
    left_out(
        DATABASE,
        "db_paths",
        &Suite::ALL,
        "has no text; tests/it/data_paths.rs, tests/it/history.rs and tests/crash/paths.rs have it",
    ),
    left_out(
        FAMILY,
        "cf_paths",
        &Suite::ALL,
        "has no text; tests/it/data_paths.rs and tests/crash/paths.rs have it",
    ),
    left_out(
        FAMILY,
        "disallow_memtable_writes",
        &Suite::ALL,
        "writes fail by design; tests/it/disallowed_writes.rs has it",
    ),
    left_out(
        DATABASE,
        "follower_refresh_catchup_period_ms",
        &Suite::ALL,
        "followers only, which no suite opens",
    ),
    left_out(
        DATABASE,
        "follower_catchup_retry_count",
        &Suite::ALL,
        "followers only, which no suite opens",
    ),
    left_out(
        DATABASE,
        "follower_catchup_retry_wait_ms",
        &Suite::ALL,
        "followers only, which no suite opens",
    ),
    left_out(
        DATABASE,
        "create_if_missing",
        &Suite::ALL,
        "belongs to the open: each suite opens new and existing databases",
    ),
    left_out(
        DATABASE,
        "create_missing_column_families",
        &Suite::ALL,
        "belongs to the open: each suite opens new and existing families",
    ),
    left_out(
        DATABASE,
        "error_if_exists",
        &Suite::ALL,
        "belongs to the open: nothing could be opened again",
    ),
    left_out(
        DATABASE,
        "allow_ingest_behind",
        &Suite::ALL,
        "means cf_allow_ingest_behind of all families, which is drawn instead",
    ),
    left_out(
        DATABASE,
        "best_efforts_recovery",
        &Suite::ALL,
        "leaves out the logs by design; tests/it/best_efforts.rs has it",
    ),
    left_out(
        DATABASE,
        "use_direct_io_for_flush_and_compaction",
        &[Suite::Stress],
        "the file system below may not have it; koeldb_fs::posix::direct_writer looks",
    ),
    left_out(
        DATABASE,
        "paranoid_checks",
        &[Suite::Crash],
        "damage is tolerated by design; tests/it/checks.rs has it",
    ),
    left_out(
        FIFO,
        "file_temperature_age_thresholds",
        &Suite::ALL,
        "needs num_levels=1, which no style has; age_for_warm is drawn instead",
    ),
    left_out(
        TEMPERATURE_AGE,
        "temperature",
        &Suite::ALL,
        "a member of file_temperature_age_thresholds",
    ),
    left_out(
        TEMPERATURE_AGE,
        "age",
        &Suite::ALL,
        "a member of file_temperature_age_thresholds",
    ),
    left_out(
        DATABASE,
        "env",
        &Suite::ALL,
        "set in code: each suite has file systems of its own",
    ),
    left_out(
        DATABASE,
        "listeners",
        &Suite::ALL,
        "set in code; tests/it/listener_events.rs has them",
    ),
    left_out(
        DATABASE,
        "db_log_dir",
        &Suite::ALL,
        "a path of lines for people; tests/it/file_options.rs has it",
    ),
    left_out(
        DATABASE,
        "wal_dir",
        &Suite::ALL,
        "a path, kept for life; scripts of the crash sweeps have one",
    ),
    left_out(
        DATABASE,
        "use_direct_reads",
        &[Suite::Stress],
        "the file system below may not have it; tests/it/device.rs looks",
    ),
    left_out(
        DATABASE,
        "wal_recovery_mode",
        &[Suite::Crash, Suite::Stress],
        "the other modes refuse a torn tail, or leave holes, by design; scripts of the crash sweeps have them",
    ),
    left_out(
        DATABASE,
        "manual_wal_flush",
        &[Suite::Crash, Suite::Stress],
        "a dying process may lose acknowledged writes by design; scripts of the crash sweeps have it",
    ),
    left_out(
        DATABASE,
        "max_file_opening_threads",
        &[Suite::Crash],
        "the simulation has one thread, or calls to its file system come in any order",
    ),
    left_out(
        DATABASE,
        "max_bgerror_resume_count",
        &[Suite::Crash],
        "the simulation chooses it",
    ),
    left_out(
        FAMILY,
        "comparator",
        &Suite::ALL,
        "kept for life: Drawer::with_timestamps and the metamorphic suite draw it",
    ),
    left_out(
        FAMILY,
        "persist_user_defined_timestamps",
        &Suite::ALL,
        "needs a comparator with timestamps: their histories draw it (tests/it/timestamps/model.rs)",
    ),
    left_out(
        FAMILY,
        "merge_operator",
        &Suite::ALL,
        "kept for life, and the models know what operands mean",
    ),
    left_out(
        BLOCK_BASED,
        "block_cache",
        &[Suite::Crash],
        "which blocks a small cache keeps depends on random identities, and a simulation repeats its reads",
    ),
    left_out(CACHE, "capacity", &[Suite::Crash], "as block_cache"),
    left_out(CACHE, "num_shard_bits", &[Suite::Crash], "as block_cache"),
    left_out(
        CACHE,
        "high_pri_pool_ratio",
        &[Suite::Crash],
        "as block_cache",
    ),
    left_out(
        FAMILY,
        "compaction_filter",
        &Suite::ALL,
        "drops values by design",
    ),
    left_out(
        FAMILY,
        "compaction_filter_factory",
        &Suite::ALL,
        "drops values by design, and has no text",
    ),
    left_out(
        CACHE,
        "strict_capacity_limit",
        &Suite::ALL,
        "reads that do not fit fail by design",
    ),
    left_out(
        PLAIN,
        "user_key_len",
        &Suite::ALL,
        "the models' keys have several lengths; tests/it/plain.rs has it",
    ),
    left_out(
        PLAIN,
        "full_scan_mode",
        &Suite::ALL,
        "point reads fail by design; tests/it/plain.rs has it",
    ),
];

/// Whether the suite draws the option.
#[must_use]
pub fn is_drawn(suite: Suite, section: &str, name: &str) -> bool {
    !LEFT_OUT
        .iter()
        .any(|out| out.section == section && out.name == name && out.suites.contains(&suite))
}
