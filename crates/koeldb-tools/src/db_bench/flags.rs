//! The flags of `db_bench`: a table of all flags.
//!
//! Names, types and defaults are those of RocksDB 11.9, so that a command line written for one
//! program works for the other. Each flag is declared once, in the only use of [`flag_table!`] at
//! the end of this module: it becomes a field of [`Flags`], a row of [`TABLE`] and a line of the
//! help. A row also holds the effect of the flag: it sets an option by name ([`Effect::Sets`]),
//! controls this program, or has no effect, with the reason.
//!
//! [`value`] has the types of values, [`command_line`] the parser.

mod command_line;
mod value;

use koeldb::Options;

#[cfg(test)]
use command_line::REMOVED;
pub(crate) use command_line::{Command, CommandLine, parse};
pub(crate) use value::FlagType;
use value::{FlagValue, Slot};

/// The benchmarks that run if `--benchmarks` is not given.
pub(crate) const DEFAULT_BENCHMARKS: &str = "fillseq,fillsync,fillrandom,overwrite,readrandom,\
     newiterator,newiteratorwhilewriting,seekrandom,seekrandomwhilewriting,readseq,readreverse,compact,\
     multireadrandom,multireadwhilewriting,readtocache,readmissing,readwhilewriting,\
     readrandomwriterandom,updaterandom,fill100K,verifychecksum,levelstats";

/// Flags of RocksDB's program that belong to features that do not exist here.
const UNPLANNED: &str = include_str!("unplanned_flags.txt");

/// Returns the names of RocksDB's flags whose features do not exist here.
#[cfg(test)]
pub(crate) fn unplanned() -> impl Iterator<Item = &'static str> {
    UNPLANNED.lines().filter(|line| !line.is_empty())
}

/// A section of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// The benchmarks, the place and the duration of the run, and the report.
    Run,
    /// Keys and values.
    Keys,
    /// The behaviour of single benchmarks.
    Work,
    /// Read and write options.
    Read,
    /// Block, row and blob caches.
    Cache,
    /// Memtables.
    Memtable,
    /// Table formats.
    Table,
    /// The LSM tree, compactions and compression.
    Compaction,
    /// Blob files.
    Blob,
    /// Files, threads and the log.
    Engine,
}

impl Group {
    /// All groups in the order of the help, with their headings.
    pub(crate) const ALL: [(Group, &'static str); 10] = [
        (Group::Run, "The run and its report"),
        (Group::Keys, "Keys and values"),
        (Group::Work, "What benchmarks do"),
        (Group::Read, "Each read and write"),
        (Group::Cache, "Caches"),
        (Group::Memtable, "Memtables"),
        (Group::Table, "Table files"),
        (Group::Compaction, "The tree, compactions, compression"),
        (Group::Blob, "Blob files"),
        (Group::Engine, "Files, threads, the log"),
    ];
}

/// The part of an option string that an option belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A database option.
    Db,
    /// A column family option.
    Family,
    /// An option of block-based tables.
    Table,
    /// A field of `compaction_options_universal`.
    Universal,
    /// A field of `compaction_options_fifo`.
    Fifo,
    /// A field of `compression_opts`.
    Compression,
}

impl Scope {
    /// Returns the section of the engine's options, and the prefix of their dotted names.
    fn section(self) -> (&'static str, &'static str) {
        match self {
            Scope::Db => ("DBOptions", ""),
            Scope::Family => ("CFOptions", ""),
            Scope::Table => ("TableOptions/BlockBasedTable", "table_factory."),
            Scope::Universal => (
                "CFOptions/compaction_options_universal",
                "compaction_options_universal.",
            ),
            Scope::Fifo => (
                "CFOptions/compaction_options_fifo",
                "compaction_options_fifo.",
            ),
            Scope::Compression => ("CFOptions/compression_opts", "compression_opts."),
        }
    }
}

/// The effect of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Read by the benchmarks.
    Bench,
    /// Sets the option of this name to the value of the flag.
    Sets(Scope, &'static str),
    /// Affects the options or their components through code of its own.
    Custom,
    /// Accepted without effect, for this reason.
    Ignored(&'static str),
    /// Any value other than the default is an error, for this reason.
    Refused(&'static str),
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlagInfo {
    pub(crate) name: &'static str,
    pub(crate) flag_type: FlagType,
    pub(crate) group: Group,
    pub(crate) effect: Effect,
    pub(crate) help: &'static str,
}

impl FlagInfo {
    /// Returns the effect in the engine of the option that the flag sets; `None` if it sets none.
    pub(crate) fn effect_of_option(&self) -> Option<koeldb::Effect> {
        let Effect::Sets(scope, option) = self.effect else {
            return None;
        };
        let (section, _) = scope.section();
        let mut options = Options::registry().iter();
        let info = options.find(|info| info.section == section && info.name == option)?;
        Some(info.effect)
    }

    /// Returns why the flag has no effect, whatever its value; `None` if it has one.
    pub(crate) fn without_effect(&self) -> Option<String> {
        match (self.effect, self.effect_of_option()) {
            (Effect::Ignored(why), _) => Some(why.to_owned()),
            (Effect::Sets(_, option), Some(koeldb::Effect::Accepted)) => {
                Some(format!("the option {option} has no effect"))
            }
            _ => None,
        }
    }
}

/// Whether a row of the table sets the engine's option with this dotted name.
///
/// Where that has no effect, the parser says so of a flag that is given. The other flags have the
/// defaults of RocksDB's program, which nobody chose.
pub(crate) fn is_set_by_row(option: &str) -> bool {
    TABLE.iter().any(|info| match info.effect {
        Effect::Sets(scope, set) => {
            let (_, prefix) = scope.section();
            option.strip_prefix(prefix) == Some(set)
        }
        _ => false,
    })
}

impl Flags {
    /// Returns the value of the flag `name` as text.
    pub(crate) fn show(&self, name: &str) -> String {
        // A slot borrows the flags mutably; a copy lets `self` be shared.
        self.clone()
            .slot(name)
            .map_or_else(String::new, |slot| slot.show())
    }

    /// Returns every flag with its value as text.
    pub(crate) fn values(&self) -> Vec<(&'static FlagInfo, String)> {
        let mut copy = self.clone();
        let values = TABLE.iter().map(|info| {
            let text = copy.slot(info.name).map(|slot| slot.show());
            (info, text.unwrap_or_default())
        });
        values.collect()
    }

    /// Returns the valid range of the flag `name` if its value is outside it.
    fn out_of_range(&self, name: &str) -> Option<&'static str> {
        match name {
            "cache_numshardbits" if self.cache_numshardbits >= 20 => Some("< 20"),
            "table_cache_numshardbits" if !(1..20).contains(&self.table_cache_numshardbits) => {
                Some("between 1 and 19")
            }
            "readwritepercent" if !(1..100).contains(&self.readwritepercent) => {
                Some("between 1 and 99")
            }
            "deletepercent" if !(1..100).contains(&self.deletepercent) => Some("between 1 and 99"),
            "prefix_size" if !(0..=2_000_000_000).contains(&self.prefix_size) => {
                Some("between 0 and 2000000000")
            }
            "subcompactions" if u32::try_from(self.subcompactions).is_err() => Some("< 2^32"),
            _ => None,
        }
    }
}

macro_rules! flag_table {
    ($($name:ident: $type:ty = $default:expr, $group:ident, $effect:expr, $help:literal;)*) => {
        /// The values of all flags.
        #[derive(Clone, Debug)]
        #[expect(non_snake_case, reason = "one of RocksDB's names has capitals")]
        pub(crate) struct Flags {
            $(#[doc = $help] pub(crate) $name: $type,)*
        }

        impl Default for Flags {
            fn default() -> Self {
                Flags { $($name: FlagValue::from_written($default),)* }
            }
        }

        impl Flags {
            fn slot(&mut self, name: &str) -> Option<Slot<'_>> {
                match name {
                    $(stringify!($name) => Some(self.$name.slot()),)*
                    _ => None,
                }
            }
        }

        /// All flags in alphabetical order.
        pub(crate) const TABLE: &[FlagInfo] = &[$(FlagInfo {
            name: stringify!($name),
            flag_type: <$type as FlagValue>::TYPE,
            group: Group::$group,
            effect: $effect,
            help: $help,
        },)*];
    };
}

use Effect::{Bench, Custom, Ignored, Refused, Sets};

flag_table! {
    adaptive_readahead: bool = false, Read, Bench, "Cursors keep their readahead size from file to file.";
    advise_random_on_open: bool = true, Engine, Sets(Scope::Db, "advise_random_on_open"), "Declare random access when a table is opened for reads.";
    allow_concurrent_memtable_write: bool = true, Memtable, Sets(Scope::Db, "allow_concurrent_memtable_write"), "Members of a write group insert in parallel.";
    allow_data_in_errors: bool = false, Engine, Sets(Scope::Db, "allow_data_in_errors"), "Error texts may show user keys.";
    arena_block_size: i64 = 0, Memtable, Sets(Scope::Family, "arena_block_size"), "Allocation unit of a memtable's arena.";
    async_io: bool = false, Read, Bench, "Cursors issue reads ahead; MultiGet reads concurrently also where it does not by itself (io_uring, direct reads).";
    async_wal_precreate: bool = false, Engine, Sets(Scope::Db, "async_wal_precreate"), "Create the next WAL file in the background.";
    auto_prefix_mode: bool = false, Read, Bench, "seekrandom: uses prefix filters when that cannot change the answer.";
    auto_readahead_size: bool = false, Read, Bench, "Cursors trim their readahead to their upper bound.";
    auto_refresh_iterator_with_snapshot: bool = false, Read, Ignored("cursors keep what they began with"), "Long-lived cursors replace the memtables and tables that they pin by current ones.";
    avoid_flush_during_recovery: bool = false, Engine, Sets(Scope::Db, "avoid_flush_during_recovery"), "Keep recovered data in memtables at open.";
    avoid_flush_during_shutdown: bool = false, Engine, Sets(Scope::Db, "avoid_flush_during_shutdown"), "Close without flushing memtables that the WAL (or nothing) covers.";
    backup_dir: String = "", Work, Bench, "backup, restore: the directory of the backups.";
    backup_rate_limit: u64 = 0, Work, Bench, "backup: bytes per second. 0: no limit.";
    batch_size: i64 = 1, Work, Bench, "Entries per write batch, keys per MultiGet. The histogram gets one sample per batch.";
    benchmark_read_rate_limit: u64 = 0, Work, Bench, "Reads per second. 0: no limit.";
    benchmark_write_rate_limit: u64 = 0, Work, Bench, "Bytes per second that fills, updaterandom and background writers may write. 0: no limit.";
    benchmarks: String = DEFAULT_BENCHMARKS, Run, Bench, "Benchmarks to run, in order, separated by commas. name[X3-W1] runs one three times after one warm-up.";
    bgwriter_num: i64 = 0, Keys, Bench, "Key space of the background writer. 0: num.";
    blob_cache_numshardbits: i32 = 6, Blob, Custom, "Logarithm of the shards of a blob cache of its own.";
    blob_cache_size: u64 = 8_388_608, Blob, Custom, "Bytes of a blob cache of its own.";
    blob_compaction_readahead_size: u64 = 0, Blob, Sets(Scope::Family, "blob_compaction_readahead_size"), "Readahead on blob files in compactions.";
    blob_compression_type: String = "none", Blob, Custom, "Codec of blobs, named as in compression_type.";
    blob_direct_write_partitions: u64 = 1, Blob, Sets(Scope::Family, "blob_direct_write_partitions"), "Blob files written in parallel with enable_blob_direct_write.";
    blob_file_size: u64 = 268_435_456, Blob, Sets(Scope::Family, "blob_file_size"), "Size at which a blob file is finished.";
    blob_file_starting_level: i32 = 0, Blob, Sets(Scope::Family, "blob_file_starting_level"), "First level whose output may create blob files.";
    blob_garbage_collection_age_cutoff: f64 = 0.25, Blob, Sets(Scope::Family, "blob_garbage_collection_age_cutoff"), "Share of the oldest blob files subject to relocation.";
    blob_garbage_collection_force_threshold: f64 = 1.0, Blob, Sets(Scope::Family, "blob_garbage_collection_force_threshold"), "Garbage share of the oldest blob files that forces compactions.";
    block_align: bool = false, Table, Sets(Scope::Table, "block_align"), "Pad data blocks so that none crosses a block_size boundary.";
    block_protection_bytes_per_key: u32 = 0, Engine, Sets(Scope::Family, "block_protection_bytes_per_key"), "Checksum bytes per entry of a loaded block.";
    block_restart_interval: i32 = 16, Table, Sets(Scope::Table, "block_restart_interval"), "Entries between restart points in data blocks.";
    block_size: i32 = 4096, Table, Sets(Scope::Table, "block_size"), "Bytes of a data block before compression.";
    bloom_bits: i32 = -1, Table, Custom, "Bits per key of the filters. 0 and -1: no filter.";
    bloom_locality: i32 = 0, Engine, Sets(Scope::Family, "bloom_locality"), "Layout of the memtable and plain-table blooms.";
    build_info: bool = false, Run, Bench, "Prints the version and build configuration, and exits.";
    bytes_per_sync: u64 = 0, Engine, Sets(Scope::Db, "bytes_per_sync"), "While a table file is written, ask the OS to write back every so many bytes.";
    cache_high_pri_pool_ratio: f64 = 0.0, Cache, Custom, "Share of an LRU cache for index and filter blocks. Above 0 these get high priority.";
    cache_index_and_filter_blocks: bool = false, Cache, Sets(Scope::Table, "cache_index_and_filter_blocks"), "Keep index and filter blocks in the block cache instead of the table reader.";
    cache_low_pri_pool_ratio: f64 = 0.0, Cache, Custom, "Share of an LRU cache for low-priority blocks.";
    cache_numshardbits: i32 = -1, Cache, Custom, "Logarithm of the number of cache shards, below 20. -1: automatic.";
    cache_size: i64 = 33_554_432, Cache, Custom, "Bytes of the block cache. 0 or less: no cache.";
    cache_type: String = "hyper_clock_cache", Cache, Custom, "Cache policy: lru_cache or hyper_clock_cache (also clock_cache, auto_hyper_clock_cache, fixed_hyper_clock_cache).";
    cache_uri: String = "", Cache, Refused("use --cache_type and --cache_size"), "Block cache created from a string.";
    checksum_type: i32 = 4, Table, Custom, "Checksum of blocks: 0 none, 1 CRC-32C, 2 XXH32, 3 XXH64, 4 XXH3.";
    compaction_pri: i32 = 3, Compaction, Custom, "Which file a leveled compaction takes first, 0 to 4: by compensated size, oldest largest sequence number, oldest smallest, least overlap, round robin.";
    compaction_readahead_size: u64 = 2_097_152, Compaction, Sets(Scope::Db, "compaction_readahead_size"), "Read size of compaction inputs.";
    compaction_store: String = "", Compaction, Bench, "Directory of jobs of remote compactions, for workers of other processes (koeldb-worker) too. Empty: DB-jobs-PROCESS with compaction_workers.";
    compaction_style: i32 = 0, Compaction, Custom, "Compaction style: 0 leveled, 1 universal, 2 FIFO, 3 none.";
    compaction_workers: i32 = 0, Compaction, Bench, "Threads of this process that run the compactions as remote workers. 0: none; without compaction_store the database compacts itself.";
    compare: String = "", Run, Bench, "Runs another build of this program, or RocksDB's db_bench, in turns with this one: same flags and seed, databases below DB/koeldb and DB/other; prints ratios of time.";
    compare_chart: String = "", Run, Bench, "Draws the ratios of compare into this SVG file.";
    compare_rounds: i32 = 3, Run, Bench, "Runs of each program for compare.";
    compression_level: i32 = 32767, Compaction, Sets(Scope::Compression, "level"), "Compression level; LZ4 reads a negative level as acceleration.";
    compression_manager: String = "none", Compaction, Refused("codecs are chosen by --compression_type"), "Chooses codecs block by block.";
    compression_max_dict_buffer_bytes: u64 = 0, Compaction, Sets(Scope::Compression, "max_dict_buffer_bytes"), "Data buffered before the dictionary is built.";
    compression_max_dict_bytes: i32 = 0, Compaction, Sets(Scope::Compression, "max_dict_bytes"), "Dictionary size per file.";
    compression_parallel_threads: i32 = 1, Compaction, Sets(Scope::Compression, "parallel_threads"), "Threads that compress blocks of one file.";
    compression_ratio: f64 = 0.5, Keys, Bench, "Compressibility of values: each piece of 100 bytes repeats this share of it. At most 1.";
    compression_type: String = "snappy", Compaction, Custom, "Codec of table files: none, snappy, zlib, bzip2, lz4, lz4hc or zstd.";
    compression_use_zstd_dict_trainer: bool = true, Compaction, Sets(Scope::Compression, "use_zstd_dict_trainer"), "Train the ZSTD dictionary on samples; false: use the samples themselves.";
    compression_zstd_max_train_bytes: i32 = 0, Compaction, Sets(Scope::Compression, "zstd_max_train_bytes"), "Sample bytes for training a ZSTD dictionary.";
    confidence_interval_only: bool = false, Run, Bench, "Prints the lines of repeated benchmarks as 95 % confidence intervals.";
    cost_write_buffer_to_cache: bool = false, Cache, Custom, "Charges memtables to the block cache.";
    cuckoo_hash_ratio: f64 = 0.9, Table, Custom, "Share of the buckets of a cuckoo table that are filled.";
    data_block_hash_table_util_ratio: f64 = 0.75, Table, Sets(Scope::Table, "data_block_hash_table_util_ratio"), "Keys per bucket of the data block hash index.";
    db: String = "", Run, Bench, "Directory of the database. Empty: $TEST_TMPDIR/dbbench, or /tmp/koeldb-UID/dbbench.";
    db_write_buffer_size: i64 = 0, Memtable, Custom, "Bytes of all memtables together. 0: no limit.";
    decouple_partitioned_filters: bool = true, Table, Sets(Scope::Table, "decouple_partitioned_filters"), "Cut filter partitions independently of index partitions.";
    delayed_write_rate: u64 = 8_388_608, Engine, Sets(Scope::Db, "delayed_write_rate"), "Upper bound of user writes while a slowdown condition holds.";
    delete_obsolete_files_period_micros: u64 = 0, Engine, Ignored("without effect in RocksDB 11.9 too"), "Parsed only.";
    deletepercent: i32 = 2, Work, Bench, "Deletes per 100 operations of randomwithverify.";
    deletes: i64 = -1, Run, Bench, "Operations of deleteseq and deleterandom, per thread. Negative: num.";
    disable_auto_compactions: bool = false, Compaction, Sets(Scope::Family, "disable_auto_compactions"), "No automatic compactions.";
    disable_seek_compaction: i32 = 0, Compaction, Ignored("without effect in RocksDB 11.9 too"), "Parsed only.";
    disable_wal: bool = false, Read, Bench, "Writes no log.";
    dump_malloc_stats: bool = true, Engine, Sets(Scope::Db, "dump_malloc_stats"), "Add jemalloc's report to the LOG statistics.";
    duration: i32 = 0, Run, Bench, "Seconds to run; 0 counts operations instead. Sequential and unique fills always count.";
    enable_blob_direct_write: bool = false, Blob, Sets(Scope::Family, "enable_blob_direct_write"), "Write large values to blob files before the WAL.";
    enable_blob_files: bool = false, Blob, Sets(Scope::Family, "enable_blob_files"), "Store large values in blob files.";
    enable_blob_garbage_collection: bool = false, Blob, Sets(Scope::Family, "enable_blob_garbage_collection"), "Relocate live blobs during compaction.";
    enable_index_compression: bool = true, Table, Sets(Scope::Table, "enable_index_compression"), "Compress index blocks too.";
    enable_pipelined_write: bool = true, Engine, Sets(Scope::Db, "enable_pipelined_write"), "The log and the memtables of consecutive write groups overlap.";
    enable_write_thread_adaptive_yield: bool = true, Engine, Sets(Scope::Db, "enable_write_thread_adaptive_yield"), "Waiting writers spin before they block.";
    env_uri: String = "", Run, Bench, "Default. Other environments, such as remote stores, are refused.";
    expand_range_tombstones: bool = false, Work, Bench, "Deletes the keys of a range one by one instead.";
    experimental_mempurge_threshold: f64 = 0.0, Engine, Sets(Scope::Family, "experimental_mempurge_threshold"), "Removed. Moved to the family option of the same name.";
    expire_style: String = "none", Work, Bench, "timeseries: none, compaction_filter or delete removes expired entries.";
    explicit_snapshot: bool = false, Work, Bench, "readseq, seekrandom: reads from a snapshot taken first.";
    fifo_age_for_warm: u64 = 0, Compaction, Sets(Scope::Fifo, "age_for_warm"), "Age at which a file becomes warm.";
    fifo_compaction_allow_compaction: bool = true, Compaction, Sets(Scope::Fifo, "allow_compaction"), "Merge small L0 files.";
    fifo_compaction_max_data_files_size_mb: u64 = 0, Compaction, Ignored("the option max_data_files_size has no effect"), "MiB of table and blob files above which FIFO drops the oldest.";
    fifo_compaction_max_table_files_size_mb: u64 = 0, Compaction, Custom, "MiB of table files above which FIFO drops the oldest.";
    fifo_compaction_ttl: u64 = 0, Compaction, Ignored("ttl_seconds comes later and overrides it, as in RocksDB"), "Overridden by ttl_seconds.";
    fifo_compaction_use_kv_ratio_compaction: bool = false, Compaction, Sets(Scope::Fifo, "use_kv_ratio_compaction"), "Choose L0 merge sizes from the ratio of table to blob bytes.";
    file_checksum: bool = false, Engine, Custom, "Keeps a CRC-32C of every table file in the MANIFEST.";
    file_opening_threads: i32 = 16, Engine, Sets(Scope::Db, "max_file_opening_threads"), "Threads that open tables at start when max_open_files=-1.";
    finish_after_writes: bool = false, Work, Bench, "The background writer stops after writes operations instead of when the readers end.";
    force_consistency_checks: bool = true, Engine, Sets(Scope::Family, "force_consistency_checks"), "Check the order of files at every version change, also in release builds.";
    format_version: i32 = 7, Table, Sets(Scope::Table, "format_version"), "Version of the block-based format; options files default to 6.";
    fs_uri: String = "", Run, Bench, "PosixFileSystem or posix://. Other file systems are refused.";
    hard_pending_compaction_bytes_limit: u64 = 137_438_953_472, Compaction, Sets(Scope::Family, "hard_pending_compaction_bytes_limit"), "Compaction debt at which writes stop.";
    hash_bucket_count: i64 = 1_048_576, Memtable, Custom, "Buckets of prefix_hash and hash_linkedlist.";
    histogram: bool = false, Run, Bench, "Prints a latency histogram per kind of operation, with percentiles to p99.99. Costs a clock reading per operation.";
    identity_as_first_hash: bool = false, Table, Custom, "The first hash of a cuckoo table is the key itself.";
    index_block_restart_interval: i32 = 1, Table, Sets(Scope::Table, "index_block_restart_interval"), "Entries between restart points in index blocks.";
    index_block_search_type: String = "binary_search", Table, Custom, "How index blocks are searched: binary_search, interpolation_search or auto_search.";
    index_decoding: String = "pinned", Table, Custom, "Which index blocks are decoded when they are loaded: never, pinned or always. RocksDB has no such flag.";
    index_shortening_mode: i64 = 2, Table, Custom, "Keys of the index: 0 as they are, 1 shortened between blocks, 2 the last one too.";
    index_with_first_key: bool = false, Table, Custom, "The index holds the first key of each block.";
    ingest_external_file_batch_size: i32 = 10, Work, Bench, "ingestexternalfile: files per call.";
    ingest_external_file_file_opening_threads: i32 = 1, Work, Bench, "ingestexternalfile: threads that copy or link files.";
    ingest_external_file_num_batches: i32 = 1, Work, Bench, "ingestexternalfile: calls.";
    initial_auto_readahead_size: u64 = 8192, Table, Sets(Scope::Table, "initial_auto_readahead_size"), "First implicit readahead.";
    inplace_update_num_locks: u64 = 10000, Memtable, Sets(Scope::Family, "inplace_update_num_locks"), "Lock stripes for in-place updates.";
    inplace_update_support: bool = false, Memtable, Sets(Scope::Family, "inplace_update_support"), "Overwrite values inside the memtable.";
    iter_k: f64 = 2.517, Work, Bench, "mixgraph: shape of the lengths of scans.";
    iter_sigma: f64 = 14.236, Work, Bench, "mixgraph: scale of the lengths of scans.";
    iter_theta: f64 = 0.0, Work, Bench, "mixgraph: smallest length of scans.";
    json: String = "", Run, Bench, "Writes the run and its results to this file, as JSON, with percentiles from nanoseconds if histogram is set.";
    key_dist_a: f64 = 0.0, Work, Bench, "mixgraph: popularity of keys a x^b. 0: uniform.";
    key_dist_b: f64 = 0.0, Work, Bench, "mixgraph: popularity of keys a x^b. 0: uniform.";
    key_id_range: i32 = 100_000, Work, Bench, "timeseries: the number of ids.";
    key_size: i32 = 16, Keys, Bench, "Bytes per key. Must be 8 with use_uint64_comparator.";
    keyrange_dist_a: f64 = 0.0, Work, Bench, "mixgraph: popularity of key ranges a exp(b x) + c exp(d x).";
    keyrange_dist_b: f64 = 0.0, Work, Bench, "See keyrange_dist_a.";
    keyrange_dist_c: f64 = 0.0, Work, Bench, "See keyrange_dist_a.";
    keyrange_dist_d: f64 = 0.0, Work, Bench, "See keyrange_dist_a.";
    keyrange_num: i64 = 1, Work, Bench, "mixgraph: the number of key ranges.";
    keys_per_prefix: i64 = 0, Keys, Bench, "Keys that share a prefix. 0: keys have no prefix part.";
    level0_file_num_compaction_trigger: i32 = 4, Compaction, Sets(Scope::Family, "level0_file_num_compaction_trigger"), "L0 files (universal, FIFO: sorted runs) that trigger a compaction.";
    level0_slowdown_writes_trigger: i32 = 20, Compaction, Sets(Scope::Family, "level0_slowdown_writes_trigger"), "L0 files at which writes are slowed.";
    level0_stop_writes_trigger: i32 = 36, Compaction, Sets(Scope::Family, "level0_stop_writes_trigger"), "L0 files at which writes stop.";
    level_compaction_dynamic_level_bytes: bool = false, Compaction, Sets(Scope::Family, "level_compaction_dynamic_level_bytes"), "Size levels backwards from the last one.";
    log_readahead_size: i32 = 0, Engine, Sets(Scope::Db, "log_readahead_size"), "Readahead for WAL and MANIFEST during open.";
    manual_wal_flush: bool = false, Engine, Sets(Scope::Db, "manual_wal_flush"), "WAL data leaves the process buffer only on FlushWAL.";
    max_auto_readahead_size: u64 = 262_144, Table, Sets(Scope::Table, "max_auto_readahead_size"), "Upper bound of the implicit readahead of iterators.";
    max_background_compactions: i32 = -1, Compaction, Sets(Scope::Db, "max_background_compactions"), "Old way to set the compaction slots.";
    max_background_flushes: i32 = -1, Engine, Sets(Scope::Db, "max_background_flushes"), "Old way to set the flush slots.";
    max_background_jobs: i32 = 2, Engine, Sets(Scope::Db, "max_background_jobs"), "Total background work slots; a quarter (at least 1) goes to flushes, the rest to compactions.";
    max_bytes_for_level_base: u64 = 268_435_456, Compaction, Sets(Scope::Family, "max_bytes_for_level_base"), "Target size of L1 (or the base level).";
    max_bytes_for_level_multiplier: f64 = 10.0, Compaction, Sets(Scope::Family, "max_bytes_for_level_multiplier"), "Factor from level to level; also between the phases of fillseqdeterministic.";
    max_bytes_for_level_multiplier_additional: String = "", Compaction, Custom, "Factors per level, separated by commas.";
    max_compaction_bytes: u64 = 0, Compaction, Sets(Scope::Family, "max_compaction_bytes"), "Bound on the input bytes of one compaction.";
    max_compaction_trigger_wakeup_seconds: u64 = 43200, Compaction, Sets(Scope::Db, "max_compaction_trigger_wakeup_seconds"), "Longest pause between re-evaluations of compaction scores on an idle database.";
    max_manifest_file_size: i64 = 1_073_741_824, Engine, Sets(Scope::Db, "max_manifest_file_size"), "MANIFEST is rewritten when it grows beyond max(this, last compact size × (1 + max_manifest_space_amp_pct/100)).";
    max_manifest_space_amp_pct: i32 = 500, Engine, Sets(Scope::Db, "max_manifest_space_amp_pct"), "Allowed growth of the MANIFEST over its compact size.";
    max_num_range_tombstones: i64 = 0, Work, Bench, "Maximum number of range deletions; enlarges the key space of fills by as much.";
    max_scan_distance: i64 = 0, Work, Bench, "seekrandom: keys between the seek and the bound of the cursor. 0: no bound.";
    max_successive_merges: i32 = 0, Engine, Sets(Scope::Family, "max_successive_merges"), "Merge operands of one key in a memtable before the write folds them.";
    max_total_wal_size: u64 = 0, Engine, Sets(Scope::Db, "max_total_wal_size"), "When live WALs exceed this, families that pin the oldest WAL are flushed.";
    max_write_buffer_number: i32 = 2, Memtable, Sets(Scope::Family, "max_write_buffer_number"), "Memtables (active + immutable) before writes stop.";
    max_write_buffer_size_to_maintain: i64 = 0, Memtable, Sets(Scope::Family, "max_write_buffer_size_to_maintain"), "Flushed memtables kept for transaction conflict checks.";
    memtable_batch_lookup_optimization: bool = false, Memtable, Sets(Scope::Family, "memtable_batch_lookup_optimization"), "Reuse the skip-list search path between sorted MultiGet keys.";
    memtable_bloom_size_ratio: f64 = 0.0, Memtable, Sets(Scope::Family, "memtable_prefix_bloom_size_ratio"), "Bloom filter of the memtable as a share of write_buffer_size.";
    memtable_insert_with_hint_prefix_size: i32 = 0, Memtable, Ignored("the option memtable_insert_with_hint_prefix_extractor has no effect"), "Prefix of the insertion hint of memtables: capped:N.";
    memtable_op_scan_flush_trigger: u32 = 0, Memtable, Sets(Scope::Family, "memtable_op_scan_flush_trigger"), "Invisible entries met in the memtable by one iterator call that trigger a flush.";
    memtable_protection_bytes_per_key: u32 = 0, Memtable, Sets(Scope::Family, "memtable_protection_bytes_per_key"), "Checksum bytes per memtable entry.";
    memtable_use_huge_page: bool = false, Memtable, Ignored("the option memtable_huge_page_size has no effect"), "Sets memtable_huge_page_size to 2048.";
    memtable_verify_per_key_checksum_on_seek: bool = false, Memtable, Sets(Scope::Family, "memtable_verify_per_key_checksum_on_seek"), "Check entry checksums while seeking in a skip list.";
    memtable_whole_key_filtering: bool = false, Memtable, Sets(Scope::Family, "memtable_whole_key_filtering"), "Add whole keys, not only prefixes, to the memtable's Bloom filter.";
    memtablerep: String = "skip_list", Memtable, Custom, "Memtable: skip_list, vector, prefix_hash, hash_linkedlist, speedb.HashSpdRepFactory, or any id with options.";
    merge_keys: i64 = -1, Keys, Bench, "Key space of mergerandom and readrandommergerandom. Negative: num.";
    merge_operator: String = "", Work, Custom, "Merge operator by its id: put, uint64add, stringappend, max, ...; needed by the merging benchmarks.";
    mergereadpercent: i32 = 70, Work, Bench, "readrandommergerandom: merges per 100 operations.";
    metadata_block_size: i64 = 4096, Table, Sets(Scope::Table, "metadata_block_size"), "Target size of index and filter partitions.";
    min_blob_size: u64 = 0, Blob, Sets(Scope::Family, "min_blob_size"), "Smallest value that goes to a blob file.";
    min_level_to_compress: i32 = -1, Compaction, Custom, "First level that is compressed. -1: all levels.";
    min_tombstones_for_range_conversion: u32 = 0, Engine, Sets(Scope::Family, "min_tombstones_for_range_conversion"), "Adjacent point tombstones that a scan turns into a range tombstone.";
    min_write_buffer_number_to_merge: i32 = 1, Memtable, Sets(Scope::Family, "min_write_buffer_number_to_merge"), "Immutable memtables merged into one flush.";
    mix_accesses: i64 = -1, Work, Ignored("nothing reads it in RocksDB either; use --reads"), "Queries of mixgraph.";
    mix_get_ratio: f64 = 1.0, Work, Bench, "mixgraph: share of reads.";
    mix_max_scan_len: i64 = 10_000, Work, Bench, "mixgraph: longest scan.";
    mix_max_value_size: i64 = 1024, Work, Bench, "mixgraph: largest value.";
    mix_put_ratio: f64 = 0.0, Work, Bench, "mixgraph: share of writes.";
    mix_seek_ratio: f64 = 0.0, Work, Bench, "mixgraph: share of seeks.";
    mmap_read: bool = false, Engine, Sets(Scope::Db, "allow_mmap_reads"), "Maps table files into memory.";
    mmap_write: bool = false, Engine, Sets(Scope::Db, "allow_mmap_writes"), "Maps files for writing.";
    multiread_batched: bool = false, Work, Ignored("both ways are one call here, with pinned answers"), "multireadrandom: the array call of RocksDB.";
    multiread_stride: i64 = 0, Work, Bench, "multireadrandom: the keys of a batch are start, start + stride, ... 0: independent random keys.";
    multiscan_size: i64 = 10, Work, Bench, "Ranges per multiscan.";
    multiscan_stride: i64 = 100, Work, Bench, "Keys between the ranges of a multiscan.";
    num: i64 = 1_000_000, Run, Bench, "Size of the key space; default of reads, writes and deletes.";
    num_bottom_pri_threads: i32 = 0, Engine, Ignored("background threads are started when there is work for them"), "Background threads for compactions into the last level.";
    num_column_families: i32 = 1, Run, Bench, "Column families per database. A key lives in the family (key number mod count).";
    num_deletion_threads: i32 = 1, Work, Bench, "timeseries: threads that delete, with expire_style=delete.";
    num_file_reads_for_auto_readahead: u64 = 2, Table, Sets(Scope::Table, "num_file_reads_for_auto_readahead"), "Sequential reads of a file before implicit readahead starts.";
    num_high_pri_threads: i32 = 0, Engine, Ignored("background threads are started when there is work for them"), "Background threads for flushes.";
    num_hot_column_families: i32 = 0, Run, Ignored("all families are in use"), "Families in use at a time.";
    num_levels: i32 = 7, Compaction, Sets(Scope::Family, "num_levels"), "Levels of the tree.";
    num_low_pri_threads: i32 = 0, Engine, Ignored("background threads are started when there is work for them"), "Background threads for compactions.";
    num_multi_db: i32 = 0, Run, Bench, "Databases to spread the work over, in subdirectories 0, 1, ... of db. 0: one database.";
    numdistinct: i64 = 1000, Keys, Bench, "Key space of randomwithverify; entries of randomreplacekeys.";
    open_files: i32 = -1, Engine, Custom, "Files held open. -1: all.";
    open_files_async: bool = false, Engine, Ignored("the option open_files_async has no effect"), "Opens table files in the background after the open.";
    ops_between_duration_checks: i32 = 1000, Run, Bench, "Operations of a thread between clock reads, when duration is set.";
    optimistic_transaction_db: bool = false, Work, Bench, "Opens a database with optimistic transactions.";
    optimize_filters_for_hits: bool = false, Engine, Sets(Scope::Family, "optimize_filters_for_hits"), "No filters in the last level.";
    optimize_filters_for_memory: bool = true, Table, Sets(Scope::Table, "optimize_filters_for_memory"), "Round filter sizes to what the allocator hands out.";
    optimize_multiget_for_io: bool = true, Read, Bench, "MultiGet with async_io reads from several levels concurrently.";
    options_file: String = "", Run, Bench, "Takes the options from an OPTIONS file instead of from flags.";
    overwrite_probability: f64 = 0.0, Keys, Bench, "filluniquerandom: the chance of writing a recent key again.";
    overwrite_window_size: u32 = 1, Keys, Bench, "filluniquerandom: how many recent keys count.";
    paranoid_checks: bool = true, Engine, Sets(Scope::Db, "paranoid_checks"), "Fail hard on inconsistencies at open and on background errors.";
    paranoid_memory_checks: bool = false, Engine, Sets(Scope::Family, "paranoid_memory_checks"), "Check the order of keys while cursors read a memtable.";
    partition_index: bool = false, Table, Custom, "Writes partitioned indexes.";
    partition_index_and_filters: bool = false, Table, Custom, "Writes partitioned indexes and filters.";
    perf_level: i32 = 1, Run, Bench, "Level of the per-thread performance counters, printed above 1.";
    periodic_compaction_seconds: u64 = 18_446_744_073_709_551_614, Compaction, Sets(Scope::Family, "periodic_compaction_seconds"), "Age since creation at which a file is rewritten.";
    persist_stats_to_disk: bool = false, Engine, Sets(Scope::Db, "persist_stats_to_disk"), "Keep the statistics history in a hidden column family.";
    pin_l0_filter_and_index_blocks_in_cache: bool = false, Table, Sets(Scope::Table, "pin_l0_filter_and_index_blocks_in_cache"), "Pin index and filter blocks of L0 files in the cache.";
    pin_top_level_index_and_filter: bool = false, Table, Sets(Scope::Table, "pin_top_level_index_and_filter"), "Pin the top level of partitioned index and filter.";
    preclude_last_level_data_seconds: i64 = 0, Compaction, Sets(Scope::Family, "preclude_last_level_data_seconds"), "Keep younger data out of the last level (tiering).";
    prefix_same_as_start: bool = false, Read, Bench, "Cursors end after the prefix of the key at which they began.";
    prefix_size: i32 = 0, Keys, Custom, "Bytes of the key that form its prefix; sets the prefix extractor fixed:N.";
    prepopulate_blob_cache: i32 = 0, Blob, Custom, "Puts new blobs into the cache: 0 never, 1 at a flush.";
    prepopulate_block_cache: i64 = 0, Table, Custom, "Puts new blocks into the cache: 0 never, 1 at a flush, 2 at compactions too.";
    preserve_internal_time_seconds: i64 = 0, Engine, Sets(Scope::Family, "preserve_internal_time_seconds"), "Keep the time of writes this long (tiering).";
    print_malloc_stats: bool = false, Run, Bench, "Prints figures of the memory allocator at the end.";
    progress_reports: bool = true, Run, Bench, "Shows progress while a benchmark runs, if standard error is a terminal.";
    range_tombstone_width: i64 = 100, Work, Bench, "Keys per range deletion.";
    rate_limit_auto_wal_flush: bool = false, Read, Bench, "Log writes take tokens of the rate limiter.";
    rate_limit_bg_reads: bool = false, Engine, Custom, "The rate limiter counts reads instead of writes.";
    rate_limit_user_ops: bool = false, Read, Bench, "Reads take tokens of the rate limiter.";
    rate_limiter_auto_tuned: bool = false, Engine, Custom, "The rate limiter follows the demand.";
    rate_limiter_bytes_per_sec: u64 = 0, Engine, Custom, "Bytes per second that flushes and compactions may write. 0: no limit.";
    rate_limiter_refill_period_us: u64 = 100_000, Engine, Custom, "The time whose tokens the rate limiter accumulates, in microseconds.";
    rate_limiter_single_burst_bytes: u64 = 0, Engine, Custom, "The largest request that the rate limiter does not divide. 0: the bytes of one period.";
    read_amp_bytes_per_bit: i32 = 0, Table, Sets(Scope::Table, "read_amp_bytes_per_bit"), "Granularity of the used-bytes estimate of blocks.";
    read_random_exp_range: f64 = 0.0, Keys, Bench, "Skew of random reads: keys are drawn as exp(-R * uniform). 0: uniform.";
    read_triggered_compaction_threshold: f64 = 0.0, Compaction, Sets(Scope::Family, "read_triggered_compaction_threshold"), "Compact files that useless reads hit often.";
    readahead_size: i32 = 0, Read, Bench, "Bytes that cursors read ahead. 0: automatic.";
    readonly: bool = false, Run, Bench, "Opens the database read-only. Implies use_existing_db.";
    reads: i64 = -1, Run, Bench, "Operations of a reading benchmark, per thread. Negative: num.";
    readwritepercent: i32 = 90, Work, Bench, "readrandomwriterandom: reads per 100 operations, 1 to 99.";
    report: String = "", Run, Bench, "Writes the run as one HTML page: results, throughput and latency over time, levels, machine. Turns histogram on.";
    report_bg_io_stats: bool = false, Engine, Sets(Scope::Family, "report_bg_io_stats"), "Measure time spent in I/O calls of background jobs.";
    report_file: String = "report.csv", Run, Bench, "File to which report_interval_seconds writes.";
    report_file_operations: bool = false, Run, Refused("file operations are not counted by db_bench"), "Counts file operations.";
    report_interval_seconds: i64 = 0, Run, Bench, "Writes a line \"seconds,operations\" to report_file at this interval. 0: off.";
    restore_dir: String = "", Work, Bench, "restore: the directory of the restored database.";
    restore_rate_limit: u64 = 0, Work, Bench, "restore: bytes per second. 0: no limit.";
    reverse_iterator: bool = false, Work, Bench, "seekrandom steps backwards.";
    row_cache_size: i64 = 0, Cache, Refused("there is no row cache"), "Bytes of the row cache. 0: none.";
    same_value_percentage: i32 = 0, Keys, Bench, "Share of values that are all the same.";
    sample_for_compression: i64 = 0, Compaction, Sets(Scope::Family, "sample_for_compression"), "Try codecs on sampled blocks and report their ratios.";
    secondary_path: String = "", Work, Bench, "openandcompact: the directory of its output.";
    seed: i64 = 0, Run, Bench, "Base of all pseudo-random numbers; the same seed gives the same keys. 0 takes the clock.";
    seek_missing_prefix: bool = false, Work, Bench, "seekrandom: seeks to prefixes that do not exist. Needs prefix_size above 8.";
    seek_nexts: i32 = 0, Work, Bench, "Steps after each seek.";
    separate_key_value_in_data_block: bool = false, Table, Sets(Scope::Table, "separate_key_value_in_data_block"), "Keys first, values last in each data block.";
    show_table_properties: bool = false, Run, Ignored("the benchmark sstables prints the tables"), "With stats_per_interval: prints table properties of each level.";
    sine_a: f64 = 1.0, Work, Bench, "sine_mix_rate: operations per second a sin(b x + c) + d, x in seconds.";
    sine_b: f64 = 1.0, Work, Bench, "See sine_a.";
    sine_c: f64 = 0.0, Work, Bench, "See sine_a.";
    sine_d: f64 = 1.0, Work, Bench, "See sine_a.";
    sine_mix_rate: bool = false, Work, Bench, "mixgraph: limits operations per second by a sine over time.";
    sine_mix_rate_interval_milliseconds: u64 = 10_000, Work, Bench, "sine_mix_rate: the time between changes of the rate.";
    sine_mix_rate_noise: f64 = 0.0, Work, Bench, "sine_mix_rate: noise, as a share of sine_a.";
    skip_list_lookahead: i32 = 0, Memtable, Custom, "Entries that a seek in the skip list compares linearly before it uses the index.";
    skip_stats_update_on_db_open: bool = false, Engine, Ignored("the option skip_stats_update_on_db_open has no effect"), "Does not read file properties at the open.";
    slow_usecs: u64 = 1_000_000, Run, Bench, "With histogram: reports single operations slower than this on standard error.";
    soft_pending_compaction_bytes_limit: u64 = 68_719_476_736, Compaction, Sets(Scope::Family, "soft_pending_compaction_bytes_limit"), "Compaction debt at which writes are slowed.";
    statistics: bool = false, Run, Custom, "Collects the counters of the engine and prints them at the end.";
    statistics_string: String = "", Run, Refused("use --statistics"), "Statistics created from a string.";
    stats_dump_period_sec: u64 = 600, Engine, Sets(Scope::Db, "stats_dump_period_sec"), "Interval at which all statistics are written to LOG.";
    stats_history_buffer_size: u64 = 1_048_576, Engine, Sets(Scope::Db, "stats_history_buffer_size"), "Memory bound of the statistics history.";
    stats_interval: i64 = 0, Run, Bench, "Operations of a thread between progress lines. 0: no such lines.";
    stats_interval_seconds: i64 = 0, Run, Bench, "Seconds between progress lines; sets stats_interval to 1000.";
    stats_level: i32 = 3, Run, Custom, "Level of detail of the statistics, 0 to 5: none, no histograms, no times, all.";
    stats_per_interval: i32 = 0, Run, Bench, "Above 0: thread 0 adds the property rocksdb.stats to its progress lines.";
    stats_persist_period_sec: u64 = 600, Engine, Sets(Scope::Db, "stats_persist_period_sec"), "Interval at which counters are copied into the in-memory (or persistent) history.";
    stddev: f64 = 2000.0, Work, Bench, "Standard deviation of the keys of randomreplacekeys.";
    strict_max_successive_merges: bool = false, Engine, Sets(Scope::Family, "strict_max_successive_merges"), "Allow file reads while max_successive_merges folds operands.";
    subcompactions: u64 = 1, Compaction, Sets(Scope::Db, "max_subcompactions"), "Threads that may share one compaction; also of compact and compactall.";
    super_block_alignment_size: u64 = 0, Table, Sets(Scope::Table, "super_block_alignment_size"), "Pad so that no data block crosses a multiple of this size.";
    super_block_alignment_space_overhead_ratio: u64 = 128, Table, Sets(Scope::Table, "super_block_alignment_space_overhead_ratio"), "Bound on the padding of super_block_alignment_size.";
    sync: bool = false, Read, Bench, "Syncs the log after every write.";
    table_cache_numshardbits: i32 = 4, Engine, Sets(Scope::Db, "table_cache_numshardbits"), "Shards of the table cache.";
    target_file_size_base: i64 = 67_108_864, Compaction, Sets(Scope::Family, "target_file_size_base"), "Target size of a table file at the base level.";
    target_file_size_multiplier: i32 = 1, Compaction, Sets(Scope::Family, "target_file_size_multiplier"), "Target file size of level n+1 over level n.";
    thread_status_per_interval: i32 = 0, Run, Refused("thread states are not kept"), "Prints thread states with progress lines.";
    threads: i32 = 1, Run, Bench, "Threads of each benchmark. Every thread does the full count; ...while... benchmarks add one.";
    time_range: u64 = 100_000, Work, Bench, "timeseries: the age at which entries expire, in writes.";
    total_order_seek: bool = false, Read, Bench, "Seeks ignore prefix filters and prefix indexes.";
    track_and_verify_wals: bool = false, Engine, Sets(Scope::Db, "track_and_verify_wals"), "Each WAL names its predecessor, checked at recovery.";
    track_and_verify_wals_in_manifest: bool = false, Engine, Sets(Scope::Db, "track_and_verify_wals_in_manifest"), "Record WAL sync sizes in the MANIFEST and check them at recovery.";
    transaction_db: bool = false, Work, Bench, "Opens a database with pessimistic transactions.";
    transaction_lock_timeout: u64 = 100, Work, Bench, "Milliseconds to wait for a lock.";
    transaction_set_snapshot: bool = false, Work, Ignored("every transaction takes one, as in RocksDB"), "Transactions take a snapshot.";
    transaction_sets: u64 = 2, Work, Bench, "Key sets of randomtransaction.";
    truth_db: String = "/dev/shm/truth_db/dbbench", Run, Bench, "verify: the database to compare with.";
    ttl_seconds: u64 = 18_446_744_073_709_551_614, Engine, Sets(Scope::Family, "ttl"), "Age at which data is pushed towards the last level (FIFO: dropped).";
    uncache_aggressiveness: u32 = 0, Engine, Sets(Scope::Family, "uncache_aggressiveness"), "Effort to evict blocks of deleted files from the cache.";
    uniform_cv_threshold: f64 = -1.0, Table, Sets(Scope::Table, "uniform_cv_threshold"), "Index blocks whose key gaps vary less than this are marked uniform (used by kAuto).";
    universal_allow_trivial_move: bool = false, Compaction, Sets(Scope::Universal, "allow_trivial_move"), "Move instead of rewriting files that do not overlap.";
    universal_compression_size_percent: i32 = -1, Compaction, Custom, "Universal: compress only this share of the data, oldest first. -1: all.";
    universal_incremental: bool = false, Compaction, Sets(Scope::Universal, "incremental"), "Split size-amplification compactions into parts.";
    universal_max_merge_width: i32 = 0, Compaction, Custom, "Universal: largest number of runs merged together. 0: the default.";
    universal_max_read_amp: i32 = -1, Compaction, Sets(Scope::Universal, "max_read_amp"), "Bound on sorted runs.";
    universal_max_size_amplification_percent: i32 = 0, Compaction, Custom, "Universal: space amplification that triggers a full compaction. 0: the default.";
    universal_min_merge_width: i32 = 0, Compaction, Custom, "Universal: smallest number of runs merged together. 0: the default.";
    universal_reduce_file_locking: bool = true, Compaction, Sets(Scope::Universal, "reduce_file_locking"), "Lock fewer input files while bottom-priority compactions wait.";
    universal_size_ratio: i32 = 0, Compaction, Custom, "Universal: tolerance in percent when run sizes are compared. 0: the default.";
    universal_stop_style: i32 = 1, Compaction, Custom, "Universal: how runs are added to a compaction. 0: similar size, 1: total size.";
    unordered_write: bool = false, Engine, Sets(Scope::Db, "unordered_write"), "Publishes writes before they are in the memtables: weaker snapshots.";
    use_adaptive_mutex: bool = false, Engine, Sets(Scope::Db, "use_adaptive_mutex"), "Spin before sleeping on the main mutex.";
    use_blob_cache: bool = false, Blob, Custom, "Caches blobs.";
    use_cuckoo_table: bool = false, Table, Custom, "Writes cuckoo tables. Needs mmap_read.";
    use_data_block_hash_index: bool = false, Table, Custom, "Writes data blocks with a hash index.";
    use_direct_io_for_compaction_reads: bool = false, Compaction, Sets(Scope::Db, "use_direct_io_for_compaction_reads"), "O_DIRECT for compaction inputs only.";
    use_direct_io_for_flush_and_compaction: bool = false, Compaction, Sets(Scope::Db, "use_direct_io_for_flush_and_compaction"), "O_DIRECT for files written by flush and compaction.";
    use_direct_reads: bool = false, Engine, Sets(Scope::Db, "use_direct_reads"), "O_DIRECT for reads of user requests and compactions.";
    use_existing_db: bool = false, Run, Bench, "Keeps the existing database; without this flag it is destroyed at the start. Benchmarks that need a fresh database are then skipped.";
    use_existing_keys: bool = false, Keys, Bench, "Reads all keys of the database at the start and uses these. Needs use_existing_db.";
    use_fsync: bool = false, Engine, Sets(Scope::Db, "use_fsync"), "fsync instead of fdatasync.";
    use_hash_search: bool = false, Table, Custom, "Writes hash indexes over key prefixes. Needs prefix_size.";
    use_keep_filter: bool = false, Engine, Custom, "A compaction filter that keeps everything.";
    use_multiscan: bool = true, Work, Ignored("ranges are scanned by a cursor each, as RocksDB does without it"), "multiscanrandom: the call for several ranges.";
    use_plain_table: bool = false, Table, Custom, "Writes plain tables.";
    use_ribbon_filter: bool = false, Table, Custom, "Ribbon filters instead of Bloom filters.";
    use_shared_block_and_blob_cache: bool = true, Blob, Custom, "Blobs share the block cache.";
    use_single_deletes: bool = true, Work, Bench, "randomreplacekeys deletes by SingleDelete.";
    use_stderr_info_logger: bool = false, Engine, Custom, "Writes the LOG to standard error.";
    use_tailing_iterator: bool = false, Work, Bench, "seekrandom: one cursor, refreshed before each seek, instead of a new one.";
    use_uint64_comparator: bool = false, Keys, Custom, "Orders keys as 64-bit native integers. Keys are written big-endian nevertheless, so key numbers are not in order.";
    value_k: f64 = 0.2615, Work, Bench, "mixgraph: shape of the sizes of values.";
    value_sigma: f64 = 25.45, Work, Bench, "mixgraph: scale of the sizes of values.";
    value_size: i32 = 100, Keys, Bench, "Bytes per value.";
    value_size_distribution_type: String = "fixed", Keys, Bench, "Sizes of values: fixed, uniform or normal. The latter two cannot be repeated.";
    value_size_max: i32 = 102_400, Keys, Bench, "Largest value of uniform and normal sizes.";
    value_size_min: i32 = 100, Keys, Bench, "Smallest value of uniform and normal sizes.";
    value_theta: f64 = 0.0, Work, Bench, "mixgraph: smallest size of values.";
    verify_checksum: bool = true, Read, Bench, "Verifies the checksum of every block read.";
    verify_compression: bool = false, Table, Sets(Scope::Table, "verify_compression"), "Decompress each block after compressing it and compare.";
    verify_manifest_content_on_close: bool = false, Engine, Sets(Scope::Db, "verify_manifest_content_on_close"), "Re-read and check the MANIFEST at close; write a fresh one if it is damaged.";
    wal_bytes_per_sync: u64 = 0, Engine, Sets(Scope::Db, "wal_bytes_per_sync"), "Request write-back from the OS after every this many bytes of a WAL file.";
    wal_compression: String = "none", Compaction, Custom, "Codec of the log: none or zstd.";
    wal_dir: String = "", Engine, Custom, "Directory of the log, if not the database itself.";
    wal_size_limit_MB: u64 = 0, Engine, Sets(Scope::Db, "WAL_size_limit_MB"), "Size bound of archived WALs.";
    wal_ttl_seconds: u64 = 0, Engine, Sets(Scope::Db, "WAL_ttl_seconds"), "Age bound of archived WALs.";
    whole_key_filtering: bool = true, Table, Sets(Scope::Table, "whole_key_filtering"), "Add whole keys, not only prefixes, to filters.";
    writable_file_max_buffer_size: i32 = 1_048_576, Engine, Sets(Scope::Db, "writable_file_max_buffer_size"), "Largest buffer in front of a table, WAL or MANIFEST file being written.";
    write_buffer_size: i64 = 67_108_864, Memtable, Sets(Scope::Family, "write_buffer_size"), "Memtable size that triggers a flush.";
    write_thread_max_yield_usec: u64 = 100, Engine, Sets(Scope::Db, "write_thread_max_yield_usec"), "Longest spin before blocking.";
    write_thread_slow_yield_usec: u64 = 3, Engine, Sets(Scope::Db, "write_thread_slow_yield_usec"), "A yield longer than this counts as contention.";
    writes: i64 = -1, Run, Bench, "Operations of a writing benchmark, per thread. Negative: num.";
    writes_before_delete_range: i64 = 0, Work, Bench, "Writes before the first range deletion.";
    writes_per_range_tombstone: i64 = 0, Work, Bench, "Fills and background writers: one range deletion after so many writes. 0: none.";
}

#[cfg(test)]
mod effects;
#[cfg(test)]
mod tests;
