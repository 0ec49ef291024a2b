//! Options that change how a database works and not what it answers, as names and values of option strings.
//!
//! | left out | why |
//! |---|---|
//! | FIFO compaction, TTL | drop data by design |
//! | `unordered_write` | what a snapshot shows may grow: see [`draw_writing`] |
//! | `manual_wal_flush` | what a dying process has acknowledged may be lost, by design |
//! | cuckoo and plain tables | have no snapshots, range deletions or merges in every build of them; their own suites |
//! | the style of compaction, the number of levels | belong to the database: see [`draw_style`] |

use crate::random::Random;

/// A name, and the values one of which it gets. Any two go together.
type Choice = (&'static str, &'static [&'static str]);

const CHOICES: &[Choice] = &[
    ("max_background_jobs", &["1", "2", "4"]),
    ("max_subcompactions", &["1", "3"]),
    ("max_total_wal_size", &["0", "65536", "400000"]),
    ("bytes_per_sync", &["0", "4096"]),
    ("wal_bytes_per_sync", &["0", "4096"]),
    ("max_manifest_file_size", &["1", "4096", "1073741824"]),
    ("enable_pipelined_write", &["false", "true"]),
    ("avoid_flush_during_shutdown", &["false", "true"]),
    ("max_open_files", &["-1", "50"]),
    ("write_buffer_size", &["65536", "100000", "400000"]),
    ("max_write_buffer_number", &["2", "3", "6"]),
    ("min_write_buffer_number_to_merge", &["1", "2"]),
    ("memtable_whole_key_filtering", &["false", "true"]),
    ("memtable_prefix_bloom_size_ratio", &["0", "0.1"]),
    ("memtable_factory", &["skip_list", "skip_list:4", "vector"]),
    ("level0_file_num_compaction_trigger", &["2", "4"]),
    ("target_file_size_base", &["8192", "40000", "1000000"]),
    ("max_bytes_for_level_base", &["16384", "100000"]),
    ("max_bytes_for_level_multiplier", &["3", "10"]),
    ("level_compaction_dynamic_level_bytes", &["false", "true"]),
    (
        "compression",
        &["kNoCompression", "kLZ4Compression", "kSnappyCompression"],
    ),
    ("optimize_filters_for_hits", &["false", "true"]),
    ("prefix_extractor", &["nullptr", "rocksdb.FixedPrefix.4"]),
];

/// Of block-based tables.
const TABLE_CHOICES: &[Choice] = &[
    ("format_version", &["2", "4", "5", "6", "7"]),
    ("block_size", &["256", "1024", "4096"]),
    ("block_restart_interval", &["1", "3", "16"]),
    ("index_block_restart_interval", &["1", "4"]),
    (
        "index_type",
        &[
            "kBinarySearch",
            "kTwoLevelIndexSearch",
            "kBinarySearchWithFirstKey",
        ],
    ),
    (
        "filter_policy",
        &["nullptr", "bloomfilter:10:false", "ribbonfilter:8"],
    ),
    ("partition_filters", &["false", "true"]),
    ("whole_key_filtering", &["false", "true"]),
    (
        "data_block_index_type",
        &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"],
    ),
    ("checksum", &["kCRC32c", "kxxHash64", "kXXH3"]),
    ("cache_index_and_filter_blocks", &["false", "true"]),
    ("metadata_block_size", &["512", "4096"]),
];

fn pick<'c>(random: &mut Random, values: &'c [&'c str]) -> &'c str {
    let index = usize::try_from(random.below(values.len() as u64)).unwrap_or(0);
    values.get(index).copied().unwrap_or_default()
}

/// An option string: about half of the options, each with a value that it may have.
#[must_use]
pub fn draw(random: &mut Random) -> String {
    let mut text = String::new();
    for (name, values) in CHOICES {
        if random.chance(1, 2) {
            text.push_str(&format!("{name}={};", pick(random, values)));
        }
    }
    let mut table = String::new();
    for (name, values) in TABLE_CHOICES {
        if random.chance(1, 2) {
            table.push_str(&format!("{name}={};", pick(random, values)));
        }
    }
    text.push_str(&format!("block_based_table_factory={{{table}}};"));
    text
}

/// Ways of writing; what a snapshot shows may grow in the second one.
const MODES: &[&str] = &[
    "enable_pipelined_write=false;",
    "enable_pipelined_write=false;unordered_write=true;",
    "enable_pipelined_write=true;",
];

/// Every memtable representation; some need prefixes.
const REPRESENTATIONS: &[&str] = &[
    "skip_list",
    "skip_list:16",
    "vector",
    "prefix_hash:50",
    "hash_linkedlist:50",
    "speedb.HashSpdRepFactory",
    "{id=hash_spdb;hash_bucket_count=0;sorted_vector_limit=20;}",
];

/// An option string to apply behind that of [`draw`]: a way of writing and a memtable representation.
#[must_use]
pub fn draw_writing(random: &mut Random) -> String {
    let mode = pick(random, MODES);
    let representation = pick(random, REPRESENTATIONS);
    format!("{mode}memtable_factory={representation};prefix_extractor=rocksdb.FixedPrefix.4;")
}

/// What a database keeps for its life.
#[must_use]
pub fn draw_style(random: &mut Random) -> String {
    let style = pick(
        random,
        &["kCompactionStyleLevel", "kCompactionStyleUniversal"],
    );
    let levels = pick(random, &["4", "7"]);
    format!("compaction_style={style};num_levels={levels};")
}
