//! Random options for RocksDB, as names and values of option strings.

use koeldb_testkit::Random;

use super::model::{Family, Format, Order};

/// A name and its possible values.
type Choice = (&'static str, &'static [&'static str]);

/// Options of a database, drawn at every open.
const DATABASE: &[Choice] = &[
    ("max_background_jobs", &["1", "2", "4"]),
    ("max_subcompactions", &["1", "3"]),
    ("max_total_wal_size", &["0", "65536", "400000"]),
    ("db_write_buffer_size", &["0", "200000"]),
    ("bytes_per_sync", &["0", "4096"]),
    ("wal_bytes_per_sync", &["0", "4096"]),
    ("max_manifest_file_size", &["1", "4096", "1073741824"]),
    ("avoid_flush_during_shutdown", &["false", "true"]),
    ("avoid_flush_during_recovery", &["false", "true"]),
    ("max_open_files", &["-1", "50"]),
    ("wal_compression", &["kNoCompression", "kZSTD"]),
    ("recycle_log_file_num", &["0", "1", "3"]),
    ("track_and_verify_wals_in_manifest", &["false"]),
    ("track_and_verify_wals", &["false", "true"]),
    ("WAL_ttl_seconds", &["0", "3600"]),
    ("write_dbid_to_manifest", &["false", "true"]),
    (
        "file_checksum_gen_factory",
        &["nullptr", "FileChecksumGenCrc32cFactory"],
    ),
    ("verify_manifest_content_on_close", &["false", "true"]),
    (
        "wal_recovery_mode",
        &["kPointInTimeRecovery", "kTolerateCorruptedTailRecords"],
    ),
];

/// Combinations of write options, some of which exclude each other.
const WRITING: &[&str] = &[
    "",
    "",
    "enable_pipelined_write=true;",
    "unordered_write=true;",
    "two_write_queues=true;",
    "manual_wal_flush=true;",
    "enable_pipelined_write=true;manual_wal_flush=true;",
];

/// Options of a column family, drawn at every open.
const FAMILY: &[Choice] = &[
    ("write_buffer_size", &["65536", "100000", "400000"]),
    ("max_write_buffer_number", &["2", "3", "6"]),
    ("min_write_buffer_number_to_merge", &["1", "2"]),
    ("max_write_buffer_size_to_maintain", &["0", "100000"]),
    ("memtable_whole_key_filtering", &["false", "true"]),
    ("memtable_prefix_bloom_size_ratio", &["0", "0.1"]),
    ("memtable_protection_bytes_per_key", &["0", "8"]),
    ("block_protection_bytes_per_key", &["0", "8"]),
    ("memtable_max_range_deletions", &["0", "3"]),
    ("level0_file_num_compaction_trigger", &["2", "4"]),
    ("target_file_size_base", &["2048", "8192", "40000"]),
    ("target_file_size_multiplier", &["1", "2"]),
    ("max_bytes_for_level_base", &["8192", "32768", "100000"]),
    ("max_bytes_for_level_multiplier", &["2", "3", "10"]),
    ("max_compaction_bytes", &["0", "20000"]),
    ("level_compaction_dynamic_level_bytes", &["false", "true"]),
    (
        "compaction_pri",
        &[
            "kByCompensatedSize",
            "kOldestLargestSeqFirst",
            "kOldestSmallestSeqFirst",
            "kMinOverlappingRatio",
            "kRoundRobin",
        ],
    ),
    (
        "compression",
        &[
            "kNoCompression",
            "kLZ4Compression",
            "kLZ4HCCompression",
            "kSnappyCompression",
            "kZlibCompression",
            "kZSTD",
        ],
    ),
    (
        "bottommost_compression",
        &["kDisableCompressionOption", "kZSTD"],
    ),
    (
        "compression_opts",
        &[
            "{max_dict_bytes=4096;zstd_max_train_bytes=40000;}",
            "{parallel_threads=3;}",
            "{level=1;}",
        ],
    ),
    ("optimize_filters_for_hits", &["false", "true"]),
    ("ttl", &["0", "1", "2592000"]),
    ("periodic_compaction_seconds", &["0", "1"]),
    ("preserve_internal_time_seconds", &["0", "100"]),
    ("paranoid_file_checks", &["false", "true"]),
    ("report_bg_io_stats", &["false", "true"]),
];

/// Prefix extractors, used only if neighbouring keys in the order share prefixes.
const PREFIXES: &[&str] = &[
    "nullptr",
    "nullptr",
    "rocksdb.FixedPrefix.4",
    "rocksdb.CappedPrefix.5",
    "rocksdb.Noop",
];

/// Options of block-based tables.
const BLOCK_BASED: &[Choice] = &[
    ("format_version", &["2", "3", "4", "5", "6", "7"]),
    ("block_size", &["256", "1024", "4096"]),
    ("block_size_deviation", &["0", "10"]),
    ("block_restart_interval", &["1", "3", "16"]),
    ("index_block_restart_interval", &["1", "4"]),
    (
        "index_type",
        &[
            "kBinarySearch",
            "kTwoLevelIndexSearch",
            "kBinarySearchWithFirstKey",
            "kHashSearch",
        ],
    ),
    (
        "index_shortening",
        &[
            "kNoShortening",
            "kShortenSeparators",
            "kShortenSeparatorsAndSuccessor",
        ],
    ),
    (
        "filter_policy",
        &[
            "nullptr",
            "bloomfilter:10:false",
            "ribbonfilter:8",
            "ribbonfilter:12:1",
        ],
    ),
    ("partition_filters", &["false", "true"]),
    ("decouple_partitioned_filters", &["false", "true"]),
    ("optimize_filters_for_memory", &["false", "true"]),
    ("whole_key_filtering", &["false", "true"]),
    (
        "data_block_index_type",
        &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"],
    ),
    ("checksum", &["kCRC32c", "kxxHash", "kxxHash64", "kXXH3"]),
    ("cache_index_and_filter_blocks", &["false", "true"]),
    ("metadata_block_size", &["512", "4096"]),
    ("enable_index_compression", &["false", "true"]),
    ("use_delta_encoding", &["false", "true"]),
    ("block_align", &["false", "false", "true"]),
];

/// Options of plain tables.
const PLAIN: &[Choice] = &[
    ("bloom_bits_per_key", &["0", "10"]),
    ("index_sparseness", &["1", "16"]),
    ("store_index_in_file", &["false", "true"]),
];

/// Options of cuckoo tables.
const CUCKOO: &[Choice] = &[
    ("hash_table_ratio", &["0.5", "0.9"]),
    ("max_search_depth", &["10", "100"]),
    ("cuckoo_block_size", &["1", "5"]),
    ("identity_as_first_hash", &["false", "true"]),
    ("use_module_hash", &["false", "true"]),
];

/// Compaction styles, which a column family keeps.
const STYLES: &[&str] = &[
    "compaction_style=kCompactionStyleLevel;num_levels=7;",
    "compaction_style=kCompactionStyleLevel;num_levels=7;",
    "compaction_style=kCompactionStyleLevel;num_levels=4;",
    "compaction_style=kCompactionStyleUniversal;num_levels=4;",
    "compaction_style=kCompactionStyleUniversal;num_levels=1;",
    "compaction_style=kCompactionStyleUniversal;num_levels=7;compaction_options_universal={allow_trivial_move=true;size_ratio=10;max_size_amplification_percent=50;incremental=true;};",
    "compaction_style=kCompactionStyleFIFO;num_levels=1;compaction_options_fifo={max_table_files_size=1000000000;allow_compaction=true;};",
];

/// The option of databases whose families have several table formats: RocksDB maps cuckoo tables.
pub(super) const FORMATS: &str = "allow_mmap_reads=true;";

/// Options of blob files, drawn at every open.
///
/// RocksDB refuses the names of those that it does not know. With the defaults of the two of age,
/// KoelDB collects by dead bytes.
const BLOBS: &[Choice] = &[
    ("enable_blob_files", &["true", "true", "true", "false"]),
    ("min_blob_size", &["0", "10", "30", "100"]),
    ("blob_file_size", &["1000", "10000", "1000000"]),
    (
        "blob_compression_type",
        &[
            "kNoCompression",
            "kSnappyCompression",
            "kLZ4Compression",
            "kZSTD",
        ],
    ),
    ("enable_blob_garbage_collection", &["false", "true"]),
    (
        "blob_garbage_collection_age_cutoff",
        &["0", "0.25", "0.25", "0.25", "0.8", "1"],
    ),
    (
        "blob_garbage_collection_force_threshold",
        &["1", "1", "1", "0.5", "0.2"],
    ),
    ("blob_file_starting_level", &["0", "0", "1", "2"]),
    ("blob_compaction_readahead_size", &["0", "4096"]),
];

fn pick<'c>(random: &mut Random, values: &[&'c str]) -> &'c str {
    values[usize::try_from(random.below(values.len() as u64)).unwrap()]
}

/// Returns about half of the options, each with one of its values.
fn some(random: &mut Random, choices: &[Choice]) -> String {
    let mut text = String::new();
    for (name, values) in choices {
        if random.chance(1, 2) {
            text.push_str(&format!("{name}={};", pick(random, values)));
        }
    }
    text
}

/// Returns options of the blob files of a column family.
pub(super) fn blobs(random: &mut Random) -> String {
    some(random, BLOBS)
}

/// Returns options of a database, followed by its constant ones.
pub(super) fn database(random: &mut Random, fixed: &str) -> String {
    let writing = pick(random, WRITING);
    // Not with pipelined writes.
    let is_atomic = !writing.contains("enable_pipelined_write=true") && random.chance(1, 3);
    let drawn = some(random, DATABASE);
    format!("{drawn}{writing}atomic_flush={is_atomic};{fixed}")
}

/// Returns options of a database that RocksDB opens for transactions.
pub(super) fn transactional(random: &mut Random, fixed: &str) -> String {
    // A kill must not lose what was prepared, and these writes are not in order.
    let none = "unordered_write=false;manual_wal_flush=false;";
    format!("{}{none}", database(random, fixed))
}

/// Returns the write queues of a database that is opened for transactions.
///
/// With pipelined writes RocksDB removes logs of prepared transactions too early.
pub(super) fn queues_of_policy(random: &mut Random) -> &'static str {
    match random.chance(1, 2) {
        true => "enable_pipelined_write=false;two_write_queues=true;",
        false => "enable_pipelined_write=false;two_write_queues=false;",
    }
}

/// Options of a database that replace those of its OPTIONS file.
pub(super) fn redrawn_database(random: &mut Random) -> String {
    let none = "enable_pipelined_write=false;unordered_write=false;two_write_queues=false;manual_wal_flush=false;";
    format!("{none}{}", database(random, ""))
}

/// Returns a compaction style and a number of levels.
///
/// FIFO compaction has one directory.
pub(super) fn style(random: &mut Random, has_paths: bool) -> String {
    match pick(random, STYLES) {
        style if has_paths && style.contains("FIFO") => STYLES[0].to_owned(),
        style => style.to_owned(),
    }
}

/// Returns options of a column family that may differ between opens.
pub(super) fn family(random: &mut Random, family: &Family) -> String {
    let mut text = some(random, FAMILY);
    if family.fixed.contains("FIFO") || family.format != Format::BlockBased {
        // FIFO compaction drops entries by age, and other tables do not have it.
        text.push_str("ttl=0;periodic_compaction_seconds=0;");
    }
    let prefix = match (family.format, family.order) {
        (Format::BlockBased, Order::Uint64 | Order::NoCase) => "nullptr",
        (Format::BlockBased, _) => pick(random, PREFIXES),
        _ => "nullptr",
    };
    text.push_str(&format!("prefix_extractor={prefix};"));
    if family.order == Order::NoCase {
        // RocksDB's filters know bytes only.
        text.push_str("memtable_whole_key_filtering=false;memtable_prefix_bloom_size_ratio=0;");
    }
    if family.format != Format::BlockBased {
        // RocksDB takes its own outputs in these formats for damaged.
        text.push_str("paranoid_file_checks=false;");
    }
    match family.format {
        Format::BlockBased => {}
        Format::Plain => {
            let table = some(random, PLAIN);
            text.push_str(&format!(
                "table_factory={{id=PlainTable;hash_table_ratio=0;{table}}};"
            ));
            return text;
        }
        Format::Cuckoo => {
            let table = some(random, CUCKOO);
            text.push_str(&format!("table_factory={{id=CuckooTable;{table}}};"));
            return text;
        }
    }
    let mut table = some(random, BLOCK_BASED);
    if family.order == Order::NoCase {
        table.push_str("filter_policy=nullptr;");
    }
    // RocksDB rejects these combinations, also when one of the two is in an OPTIONS file.
    // KoelDB has no hash index of keys with timestamps.
    if prefix == "nullptr" || family.order.is_dated() {
        table = table.replace("index_type=kHashSearch;", "");
    }
    if !format!(";{table}").contains(";index_type=") {
        table.push_str("index_type=kBinarySearch;");
    }
    if !table.contains("index_type=kTwoLevelIndexSearch") {
        table = table.replace("partition_filters=true;", "");
        table.push_str("partition_filters=false;");
    }
    if table.contains("block_align=true") {
        text.push_str(
            "compression=kNoCompression;bottommost_compression=kDisableCompressionOption;",
        );
    } else {
        table = table.replace("block_align=false;", "");
        table.push_str("block_align=false;");
    }
    text.push_str(&format!("block_based_table_factory={{{table}}};"));
    text
}

/// Mutable options of an open column family.
const MUTABLE: &[Choice] = &[
    ("write_buffer_size", &["65536", "200000"]),
    ("level0_file_num_compaction_trigger", &["2", "3", "6"]),
    ("target_file_size_base", &["2048", "16384"]),
    ("max_bytes_for_level_base", &["8192", "65536"]),
    ("disable_auto_compactions", &["false", "true"]),
    ("max_bytes_for_level_multiplier", &["2", "8"]),
    ("memtable_prefix_bloom_size_ratio", &["0", "0.2"]),
];

/// Returns a change of options for an open column family.
pub(super) fn mutable(random: &mut Random) -> String {
    let mut text = some(random, MUTABLE);
    if text.is_empty() {
        text.push_str("disable_auto_compactions=false;");
    }
    text
}
