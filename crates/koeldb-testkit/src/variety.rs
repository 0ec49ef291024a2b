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

use std::collections::{BTreeMap, BTreeSet};

use koeldb_base::codec::Compression;

use crate::random::Random;

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
    row(DATABASE, "advise_random_on_open", BOOL),
    row(DATABASE, "allow_mmap_reads", BOOL),
    row(DATABASE, "use_direct_reads", BOOL),
    row(DATABASE, "compaction_verify_record_count", BOOL),
    row(DATABASE, "max_file_opening_threads", &["1", "16"]),
    row(DATABASE, "async_io_engine", &["auto", "pool", "off"]),
    row(DATABASE, "db_write_buffer_size", &["0", "300000"]),
    row(DATABASE, "keep_log_file_num", &["1", "1000"]),
    row(DATABASE, "enable_pipelined_write", BOOL),
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
    row(FAMILY, "disable_auto_compactions", BOOL),
    row(FAMILY, "paranoid_file_checks", BOOL),
    row(FAMILY, "verify_output_flags", &["0", "1025", "4294967295"]),
    row(FAMILY, "memtable_max_range_deletions", &["0", "1", "5"]),
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
    row(SORTED_HASH, "hash_bucket_count", &["0", "1", "1000000"]),
    row(SORTED_HASH, "sorted_vector_limit", &["1", "20", "10000"]),
];

/// Options whose value consists of other rows.
pub const COMPOSED: &[(&str, &str)] = &[
    (FAMILY, "table_factory"),
    (FAMILY, "memtable_factory"),
    (FAMILY, "compression_opts"),
    (FAMILY, "bottommost_compression_opts"),
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
        "kept for life: the metamorphic suite draws it by itself, and the others' keys ascend by bytes",
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

fn pick<'c>(random: &mut Random, values: &'c [&'c str]) -> &'c str {
    let index = usize::try_from(random.below(values.len() as u64)).unwrap_or(0);
    values.get(index).copied().unwrap_or_default()
}

fn values_of(section: &str, name: &str) -> &'static [&'static str] {
    ROWS.iter()
        .find(|row| row.section == section && row.name == name)
        .map_or(&[], |row| row.values)
}

/// The table format of a column family, fixed for its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Block-based tables.
    BlockBased,
    /// Plain tables, with this prefix extractor.
    Plain(&'static str),
    /// Cuckoo tables.
    Cuckoo,
}

/// The properties that a column family keeps for its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The option `compaction_style`.
    pub compaction: &'static str,
    /// The option `num_levels`.
    pub levels: &'static str,
    /// The option `table_factory`.
    pub format: Format,
}

impl Style {
    /// Draws a style.
    #[must_use]
    pub fn draw(random: &mut Random) -> Self {
        let compaction = match random.below(8) {
            0..4 => "kCompactionStyleLevel",
            4..6 => "kCompactionStyleUniversal",
            6 => "kCompactionStyleFIFO",
            _ => "kCompactionStyleNone",
        };
        let format = match random.below(8) {
            0..6 => Format::BlockBased,
            6 => Format::Plain(pick(random, values_of(FAMILY, "prefix_extractor"))),
            _ => Format::Cuckoo,
        };
        Style {
            compaction,
            levels: pick(random, values_of(FAMILY, "num_levels")),
            format,
        }
    }
}

/// The optional codecs and their texts; a longer text precedes its prefix.
const OPTIONAL_CODECS: [(Compression, &str); 4] = [
    (Compression::Zstd, "kZSTD"),
    (Compression::Lz4, "kLZ4Compression"),
    (Compression::Snappy, "kSnappyCompression"),
    (Compression::Zlib, "kZlibCompression"),
];

/// The values of options by their names in option strings.
#[derive(Clone, Debug, Default)]
struct Values {
    by_name: BTreeMap<String, String>,
}

impl Values {
    /// Sets a value; codecs that this build lacks are replaced by no compression.
    fn set(&mut self, name: &str, value: &str) {
        let mut value = value.to_owned();
        for (codec, text) in OPTIONAL_CODECS {
            if !codec.is_available() {
                value = value.replace(text, "kNoCompression");
            }
        }
        self.by_name.insert(name.to_owned(), value);
    }

    fn leave_out(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.by_name.get(name).is_some_and(|found| found == value)
    }

    fn text(&self) -> String {
        let pairs = self.by_name.iter();
        pairs
            .map(|(name, value)| format!("{name}={value};"))
            .collect()
    }
}

/// The options of one open, as option strings.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    /// The options of the database.
    pub database: String,
    /// The options of each column family, in the order of the drawer's styles.
    pub families: Vec<String>,
    /// The sections and names of the options that got a value.
    pub rows: BTreeSet<(&'static str, &'static str)>,
}

impl std::fmt::Display for Drawn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.database)?;
        for family in &self.families {
            write!(f, "\n  {family}")?;
        }
        Ok(())
    }
}

/// Draws options for the databases of a suite.
#[derive(Clone, Debug)]
pub struct Drawer {
    suite: Suite,
    styles: Vec<Style>,
}

impl Drawer {
    /// Creates a drawer for a database with column families of these styles.
    #[must_use]
    pub fn new(suite: Suite, styles: Vec<Style>) -> Self {
        Drawer { suite, styles }
    }

    /// Creates a drawer for a database with `family_count` column families of random styles.
    #[must_use]
    pub fn of_families(suite: Suite, random: &mut Random, family_count: usize) -> Self {
        let styles = (0..family_count).map(|_| Style::draw(random)).collect();
        Self::new(suite, styles)
    }

    /// Draws the options of one open: about half of them get a value.
    #[must_use]
    pub fn draw(&self, random: &mut Random) -> Drawn {
        let mut drawing = Drawing {
            suite: self.suite,
            random,
            rows: BTreeSet::new(),
        };
        let mut database = Values::default();
        drawing.section(DATABASE, "", &mut database);
        settle_database(&mut database);
        let families = self
            .styles
            .iter()
            .map(|style| drawing.family(style, &database).text())
            .collect();
        Drawn {
            database: database.text(),
            families,
            rows: drawing.rows,
        }
    }
}

struct Drawing<'r> {
    suite: Suite,
    random: &'r mut Random,
    rows: BTreeSet<(&'static str, &'static str)>,
}

impl Drawing<'_> {
    /// Draws values for about half of the rows of a section; `path` is prepended to their names.
    fn section(&mut self, section: &str, path: &str, values: &mut Values) {
        let rows = ROWS.iter().filter(|row| row.section == section);
        for row in rows.filter(|row| is_drawn(self.suite, row.section, row.name)) {
            if self.random.chance(1, 2) {
                self.rows.insert((row.section, row.name));
                values.set(
                    &format!("{path}{}", row.name),
                    pick(self.random, row.values),
                );
            }
        }
    }

    /// Returns the value of an option that consists of the rows of a section.
    fn composed(&mut self, section: &str, first: &str) -> String {
        let mut members = Values::default();
        self.section(section, "", &mut members);
        format!("{{{first}{}}}", members.text())
    }

    fn family(&mut self, style: &Style, database: &Values) -> Values {
        let mut values = Values::default();
        self.section(FAMILY, "", &mut values);
        values.set("compaction_style", style.compaction);
        values.set("num_levels", style.levels);
        self.rows.extend(COMPOSED.iter().take(6).copied());
        self.section(COMPRESSION, "compression_opts.", &mut values);
        self.section(COMPRESSION, "bottommost_compression_opts.", &mut values);
        self.section(UNIVERSAL, "compaction_options_universal.", &mut values);
        self.section(FIFO, "compaction_options_fifo.", &mut values);
        let (factory, section) = match self.random.below(6) {
            0..2 => ("id=skip_list;", SKIP_LIST),
            2 => ("id=vector;", VECTOR),
            3 => ("id=prefix_hash;", HASH_SKIP_LIST),
            4 => ("id=hash_linkedlist;", HASH_LINK_LIST),
            _ => ("id=hash_spdb;", SORTED_HASH),
        };
        let memtable = self.composed(section, factory);
        values.set("memtable_factory", &memtable);
        for (name, section, id) in [
            (
                "sst_partitioner_factory",
                PARTITIONER,
                "id=SstPartitionerFixedPrefixFactory;",
            ),
            (
                "table_properties_collectors",
                COLLECTOR,
                "id=CompactOnDeletionCollector;",
            ),
        ] {
            if self.random.chance(1, 4) {
                self.rows.insert((FAMILY, name));
                let object = self.composed(section, id);
                let is_list = section == COLLECTOR;
                let text = if is_list {
                    format!("{{{object}}}")
                } else {
                    object
                };
                values.set(name, &text);
            }
        }
        let needs_prefixes = section == HASH_SKIP_LIST || section == HASH_LINK_LIST;
        match style.format {
            Format::BlockBased => {
                values.set("table_factory", "BlockBasedTable");
                self.section(BLOCK_BASED, "table_factory.", &mut values);
                self.section(
                    PINNING,
                    "table_factory.metadata_cache_options.",
                    &mut values,
                );
                self.rows.insert((BLOCK_BASED, "metadata_cache_options"));
                if is_drawn(self.suite, BLOCK_BASED, "block_cache") && self.random.chance(1, 2) {
                    self.rows.insert((BLOCK_BASED, "block_cache"));
                    let cache = self.composed(CACHE, "");
                    if cache != "{}" {
                        values.set("table_factory.block_cache", &cache);
                    }
                }
            }
            Format::Plain(prefixes) => {
                values.set("table_factory", "PlainTable");
                values.set("prefix_extractor", prefixes);
                self.section(PLAIN, "table_factory.", &mut values);
            }
            Format::Cuckoo => {
                values.set("table_factory", "CuckooTable");
                self.section(CUCKOO, "table_factory.", &mut values);
            }
        }
        settle_family(&mut values, style, database, needs_prefixes);
        values
    }
}

/// Removes database options that conflict with others.
fn settle_database(values: &mut Values) {
    if values.is("unordered_write", "true") {
        values.leave_out("enable_pipelined_write");
        values.leave_out("allow_concurrent_memtable_write");
    }
    if values.is("allow_mmap_reads", "true") {
        values.leave_out("use_direct_reads");
    }
    if values.is("writable_file_max_buffer_size", "0") {
        values.leave_out("use_direct_io_for_flush_and_compaction");
    }
    if values.is("write_dbid_to_manifest", "false") {
        values.leave_out("write_identity_file");
    }
}

/// Removes or replaces options of a column family that conflict.
///
/// They may conflict with each other, with the style of the column family or with the database
/// options.
fn settle_family(values: &mut Values, style: &Style, database: &Values, needs_prefixes: bool) {
    for path in ["compression_opts", "bottommost_compression_opts"] {
        let dictionary = format!("{path}.max_dict_bytes");
        let has_dictionary = values.by_name.get(&dictionary).is_some_and(|v| v != "0");
        if values.is(&format!("{path}.zstd_max_train_bytes"), "4000") && !has_dictionary {
            values.set(&dictionary, "400");
        }
    }
    let has_prefixes = values
        .by_name
        .get("prefix_extractor")
        .is_some_and(|value| value != "nullptr");
    let hashes_index = values.is("table_factory.index_type", "kHashSearch");
    if !has_prefixes && (needs_prefixes || hashes_index) {
        match style.format {
            Format::Plain(_) => values.set("memtable_factory", "skip_list"),
            _ => values.set("prefix_extractor", "rocksdb.FixedPrefix.4"),
        }
    }
    if matches!(style.format, Format::Plain("nullptr")) {
        values.set("table_factory.hash_table_ratio", "0");
    }
    if style.format != Format::BlockBased || style.compaction == "kCompactionStyleFIFO" {
        // FIFO compaction drops older data.
        values.set("ttl", "0");
        values.set("periodic_compaction_seconds", "0");
    }
    if style.compaction == "kCompactionStyleNone" {
        // No job moves files out of level 0.
        values.set("level0_slowdown_writes_trigger", "2147483647");
        values.set("level0_stop_writes_trigger", "2147483647");
    }
    if values.is("table_factory.no_block_cache", "true") {
        values.leave_out("table_factory.cache_index_and_filter_blocks");
        values.leave_out("table_factory.pin_l0_filter_and_index_blocks_in_cache");
    }
    if values.is("table_factory.block_align", "true") {
        values.set("compression", "kNoCompression");
        values.leave_out("bottommost_compression");
        values.leave_out("compression_per_level");
        if values.is("table_factory.block_size", "1000") {
            values.set("table_factory.block_size", "1024");
        }
    }
    let is_mapped = values.is("table_factory.residency", "kMapped")
        || values.is("table_factory.residency", "kMappedHuge");
    let is_paged = values.is("table_factory.residency", "kPaged");
    if is_mapped && !database.is("allow_mmap_reads", "true")
        || is_paged && values.is("table_factory.keep_versions", "true")
    {
        values.leave_out("table_factory.residency");
    }
}
