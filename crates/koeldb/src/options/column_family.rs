//! The options of one column family.

use std::sync::Arc;
use std::time::Duration;

use koeldb_base::codec::Compression;
use koeldb_base::merge_operator::MergeOperator;
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::{Comparator, KeyOrder};
use koeldb_lsm::job::{CompactionFilterFactory, Decision};

use super::block_based::BlockBasedOptions;
use super::cache::Cache;
use super::compaction::{
    CompressionOptions, FifoCompactionOptions, Temperature, UniversalCompactionOptions,
};
use super::compaction_filter::FunctionFilter;
use super::cuckoo::CuckooTableOptions;
use super::db::Options;
use super::db_path::{DbPath, PathList};
use super::declare::option_section;
use super::grammar;
use super::memtable::MemtableFactory;
use super::object::{
    BuiltinCompactionFilter, BuiltinCompressionManager, SstPartitioner, TablePropertiesCollector,
};
use super::plain::PlainTableOptions;
use super::registry::{OptionValue, Reading, Refusal, Style};
use super::table_format::TableFormat;
use super::value::{Scalar, enum_texts, option_enum, read_scalar};

/// A codec that may be unset: `None` is written as `kDisableCompressionOption`.
impl OptionValue for Option<Compression> {
    fn kind() -> String {
        <Compression as Scalar>::kind()
    }

    fn read(&mut self, name: &str, text: &str, _: &mut Reading) -> Result<(), Refusal> {
        let text = grammar::strip_braces(text);
        *self = if text == Compression::UNSET_OPTION_NAME {
            None
        } else {
            Some(read_scalar(name, text)?)
        };
        Ok(())
    }

    fn write(&self, _: Style) -> Option<String> {
        Some(match self {
            Some(compression) => compression.to_text(),
            None => Compression::UNSET_OPTION_NAME.to_owned(),
        })
    }
}

enum_texts!(Compression {
    Compression::None = "kNoCompression",
    Compression::Snappy = "kSnappyCompression",
    Compression::Zlib = "kZlibCompression",
    Compression::Bzip2 = "kBZip2Compression",
    Compression::Lz4 = "kLZ4Compression",
    Compression::Lz4hc = "kLZ4HCCompression",
    Compression::Xpress = "kXpressCompression",
    Compression::Zstd = "kZSTD",
});

option_enum! {
    /// The compaction style, which determines the shape of the tree.
    pub enum CompactionStyle {
        /// Levels of sorted files, each some times larger than the one above.
        Level = "kCompactionStyleLevel",
        /// Sorted runs of growing size.
        Universal = "kCompactionStyleUniversal",
        /// A queue of files whose oldest are dropped.
        Fifo = "kCompactionStyleFIFO",
        /// Only manual compactions.
        None = "kCompactionStyleNone",
    }
}

option_enum! {
    /// The rule by which leveled compaction picks its first input file (RocksDB: `CompactionPri`).
    pub enum CompactionPri {
        /// The file with the smallest overlap with the next level, relative to its size.
        MinOverlappingRatio = "kMinOverlappingRatio",
        /// The largest file, with extra weight for deletions.
        ByCompensatedSize = "kByCompensatedSize",
        /// The file whose newest entry is oldest.
        OldestLargestSeqFirst = "kOldestLargestSeqFirst",
        /// The file whose oldest entry is oldest.
        OldestSmallestSeqFirst = "kOldestSmallestSeqFirst",
        /// Round-robin through the key range.
        RoundRobin = "kRoundRobin",
    }
}

option_enum! {
    /// The new values of blob files that are inserted into the blob cache.
    pub enum PrepopulateBlobCache {
        /// None.
        Disable = "kDisable",
        /// Those written by flushes.
        FlushOnly = "kFlushOnly",
    }
}

option_enum! {
    /// The rule by which compactions with `enable_blob_garbage_collection` empty blob files.
    pub enum BlobCollection {
        /// By dead bytes, unless `blob_garbage_collection_age_cutoff` or
        /// `blob_garbage_collection_force_threshold` has another value than by default: then by age.
        Default = "kDefault",
        /// By dead bytes: files with much garbage are emptied, of any age, as
        /// `blob_collection_target` and `blob_collection_share` say.
        DeadBytes = "kDeadBytes",
        /// By age, as in RocksDB: the oldest files are emptied, as
        /// `blob_garbage_collection_age_cutoff` and `blob_garbage_collection_force_threshold` say.
        Age = "kAge",
    }
}

option_section! {
    /// The options of one column family.
    pub struct ColumnFamilyOptions, "CFOptions";
    options {
        /// Measure time spent in I/O calls of background jobs.
        [accepted mutable "<=5.4"] report_bg_io_stats: bool = false, "",
            set_report_bg_io_stats(on: bool), get_report_bg_io_stats;
        /// No automatic compactions.
        [honoured mutable "<=5.4"] disable_auto_compactions: bool = false, "",
            set_disable_auto_compactions(on: bool), get_disable_auto_compactions;
        /// Format of new table files; `table_factory.<option>` sets one table option.
        [honoured mutable "<=5.4"] table_factory: TableFormat = TableFormat::default(), "Id of a table factory, `{id=…;…}`, or a bare option map only through the alias of the current factory.";
        /// Re-read each new block-based table and compare a hash of its entries. A job whose table differs fails
        /// with `Corruption` before the table becomes part of the database.
        [honoured mutable "<=5.4"] paranoid_file_checks: bool = false, "",
            set_paranoid_file_checks(on: bool), get_paranoid_file_checks;
        /// The checks of compaction outputs, which fail as those of `paranoid_file_checks`. A file
        /// checksum is compared if `file_checksum_gen_factory` is set.
        [honoured mutable "10.8"] verify_output_flags: u32 = 0, "Bit mask: 1 block checksums, 2 iteration, 4 file checksum, 1024 local compactions, 2048 remote compactions; 4294967295 = all.",
            set_verify_output_flags(count: u32), get_verify_output_flags;
        /// Compaction debt at which writes are slowed.
        [honoured mutable "<=5.4"] soft_pending_compaction_bytes_limit: u64 = 64 << 30, "Bytes; 0 = hard limit; never above hard limit if that is >0.",
            set_soft_pending_compaction_bytes_limit(value: u64), get_soft_pending_compaction_bytes_limit;
        /// Compaction debt at which writes stop.
        [honoured mutable "<=5.4"] hard_pending_compaction_bytes_limit: u64 = 256 << 30, "Bytes; 0 = off.",
            set_hard_pending_compaction_bytes_limit(value: u64), get_hard_pending_compaction_bytes_limit;
        /// Bound on the input bytes of one compaction.
        [honoured mutable "<=5.4"] max_compaction_bytes: u64 = 0, "Bytes; 0 → 25 × target_file_size_base at open.",
            set_max_compaction_bytes(value: u64), get_max_compaction_bytes;
        /// L0 files (universal, FIFO: sorted runs) that trigger a compaction. With leveled compaction, a
        /// database compacts fewer some seconds after its last write, if they are a fifth of the result.
        [honoured mutable "<=5.4"] level0_file_num_compaction_trigger: i32 = 4, "0 → 1 at open; ≤ slowdown ≤ stop is enforced by raising the latter two.",
            set_level_zero_file_num_compaction_trigger(count: u32 as Count), get_level_zero_file_num_compaction_trigger;
        /// L0 files at which writes are slowed. They keep the pace of compactions from twice the compaction
        /// trigger on, or from a quarter of the way between the triggers, if this is at most 1000.
        [honoured mutable "<=5.4"] level0_slowdown_writes_trigger: i32 = 20, "INT_MAX with FIFO; with universal compaction it counts sorted runs, and 1 acts as 2.",
            set_level_zero_slowdown_writes_trigger(count: u32 as Count), get_level_zero_slowdown_writes_trigger;
        /// L0 files at which writes stop.
        [honoured mutable "<=5.4"] level0_stop_writes_trigger: i32 = 36, "INT_MAX with FIFO; with universal compaction it counts sorted runs, and 1 acts as 2.",
            set_level_zero_stop_writes_trigger(count: u32 as Count), get_level_zero_stop_writes_trigger;
        /// Memtables (active + immutable) before writes stop.
        [honoured mutable "<=5.4"] max_write_buffer_number: i32 = 2, "<2 → 2 at open.",
            set_max_write_buffer_number(count: u32 as Count), get_max_write_buffer_number;
        /// Target file size of level n+1 over level n.
        [honoured mutable "<=5.4"] target_file_size_multiplier: i32 = 1, "≥1.",
            set_target_file_size_multiplier(count: u32 as Count), get_target_file_size_multiplier;
        /// Cut tables of compactions so that the whole file, with filter, index and metadata, stays
        /// below the target size as estimated; otherwise the target is that of the data blocks.
        [honoured mutable "10.9"] target_file_size_is_upper_bound: bool = false, "",
            set_target_file_size_is_upper_bound(on: bool), get_target_file_size_is_upper_bound;
        /// Allocation unit of a memtable's arena.
        [honoured mutable "<=5.4"] arena_block_size: u64 = 0, "Bytes; 0 → min(1 MiB, write_buffer_size/8) rounded up to 4 KiB.",
            set_arena_block_size(bytes: u64), get_arena_block_size;
        /// Lock stripes for in-place updates.
        [accepted mutable "<=5.4"] inplace_update_num_locks: u64 = 10_000, "",
            set_inplace_update_num_locks(value: u64), get_inplace_update_num_locks;
        /// Merge operands of one key in the memtable at which a write stores the merged value instead
        /// of one more operand. The operand is kept if a file would have to be read (without the
        /// strict form), if the operator fails, for wide columns, and in TTL databases.
        [honoured mutable "<=5.4"] max_successive_merges: u64 = 0, "0 = off.",
            set_max_successive_merges(value: u64), get_max_successive_merges;
        /// Allow file reads while max_successive_merges folds operands.
        [honoured mutable "9.1"] strict_max_successive_merges: bool = false, "",
            set_strict_max_successive_merges(on: bool), get_strict_max_successive_merges;
        /// Huge page size for memtable arenas and blooms.
        [accepted mutable "<=5.4"] memtable_huge_page_size: u64 = 0, "Bytes; 0 = off.",
            set_memtable_huge_page_size(bytes: u64), get_memtable_huge_page_size;
        /// Memtable size that triggers a flush.
        [honoured mutable "<=5.4"] write_buffer_size: u64 = 64 << 20, "Bytes; clipped to 64 KiB to 64 GiB.",
            set_write_buffer_size(bytes: u64), get_write_buffer_size;
        /// Bloom filter of the memtable as a share of write_buffer_size.
        [honoured mutable "<=5.4"] memtable_prefix_bloom_size_ratio: f64 = 0.0, "Clipped to [0, 0.25]; 0 = off.",
            set_memtable_prefix_bloom_ratio(ratio: f64), get_memtable_prefix_bloom_ratio;
        /// Add whole keys, not only prefixes, to the memtable's Bloom filter.
        [honoured mutable "6.0"] memtable_whole_key_filtering: bool = false, "Needs the ratio above >0.",
            set_memtable_whole_key_filtering(on: bool), get_memtable_whole_key_filtering;
        /// Target size of L1 (or the base level).
        [honoured mutable "<=5.4"] max_bytes_for_level_base: u64 = 256 << 20, "Bytes.",
            set_max_bytes_for_level_base(value: u64), get_max_bytes_for_level_base;
        /// Size ratio between levels.
        [honoured mutable "<=5.4"] max_bytes_for_level_multiplier: f64 = 10.0, "<=0 → 1 at open; f64, printed with six decimals.",
            set_max_bytes_for_level_multiplier(value: f64), get_max_bytes_for_level_multiplier;
        /// Extra factor per level (static level sizes only).
        [honoured mutable "<=5.4"] max_bytes_for_level_multiplier_additional: Vec<i32> = vec![1; 7], "`:`-separated list, one per level; missing entries count as 1.";
        /// Versions of one key an iterator steps over before it seeks instead.
        [honoured mutable "<=5.4"] max_sequential_skip_in_iterations: u64 = 8, "",
            set_max_sequential_skip_in_iterations(value: u64), get_max_sequential_skip_in_iterations;
        /// Target size of a table file at the base level. One with files below it may have up to twice
        /// this size, since it is cut where those begin and end.
        [honoured mutable "<=5.4"] target_file_size_base: u64 = 64 << 20, "Bytes.",
            set_target_file_size_base(bytes: u64), get_target_file_size_base;
        /// Codec for levels without a more specific setting.
        [honoured mutable "<=5.4"] compression: Compression = if cfg!(feature = "lz4") { Compression::Lz4 } else if cfg!(feature = "snappy") { Compression::Snappy } else { Compression::None }, "The codec's feature must be built in.",
            set_compression_type(value: Compression), get_compression_type;
        /// Maps keys to prefixes for filters, hash indexes, prefix seek.
        [honoured mutable "<=5.4"] prefix_extractor: Option<Arc<dyn PrefixExtractor>> = None, "fixed:N, capped:N, rocksdb.Noop or nullptr.";
        /// FIFO settings.
        [honoured mutable "5.9"] compaction_options_fifo: FifoCompactionOptions = FifoCompactionOptions::default(), "A bare number sets max_table_files_size.";
        /// Universal settings.
        [honoured mutable "5.10"] compaction_options_universal: UniversalCompactionOptions = UniversalCompactionOptions::default(), "";
        /// Age at which data is pushed towards the last level (FIFO: dropped; not in universal style).
        [honoured mutable "5.9"] ttl: u64 = u64::MAX - 1, "Seconds; 0 = off; the default number means \"choose\": 2592000 for block-based tables, else 0.",
            set_ttl(time: Duration as Seconds), get_ttl;
        /// Age since creation at which a file is rewritten; in leveled style only.
        [honoured mutable "6.2"] periodic_compaction_seconds: u64 = u64::MAX - 1, "Seconds; 0 = off; the default number means \"choose\", 30 days if compactions filter or are universal.",
            set_periodic_compaction_seconds(period: Duration as Seconds), get_periodic_compaction_seconds;
        /// Compact files that useless reads hit often.
        [accepted mutable "11.2"] read_triggered_compaction_threshold: f64 = 0.0, "Estimated reads per byte; 0 = off.",
            set_read_triggered_compaction_threshold(ratio: f64), get_read_triggered_compaction_threshold;
        /// Keep younger data out of the last level (tiering).
        [accepted mutable "7.5"] preclude_last_level_data_seconds: u64 = 0, "Seconds; 0 = off.",
            set_preclude_last_level_data_seconds(time: Duration as Seconds), get_preclude_last_level_data_seconds;
        /// Keep the time of writes this long (tiering).
        [accepted mutable "7.8"] preserve_internal_time_seconds: u64 = 0, "Seconds; 0 = off.",
            set_preserve_internal_time_seconds(time: Duration as Seconds), get_preserve_internal_time_seconds;
        /// Temperature of tables that compactions write into the last level: recorded in the MANIFEST,
        /// and a hint to the file system.
        [honoured mutable "7.6"] last_level_temperature: Temperature = Temperature::Unknown, "",
            set_last_level_temperature(value: Temperature), get_last_level_temperature;
        /// Temperature of other tables of flushes and compactions.
        [honoured mutable "9.1"] default_write_temperature: Temperature = Temperature::Unknown, "",
            set_default_write_temperature(value: Temperature), get_default_write_temperature;
        /// Store large values in blob files.
        [honoured mutable "6.13"] enable_blob_files: bool = false, "",
            set_enable_blob_files(on: bool), get_enable_blob_files;
        /// Smallest value that goes to a blob file.
        [honoured mutable "6.13"] min_blob_size: u64 = 0, "Bytes.",
            set_min_blob_size(bytes: u64), get_min_blob_size;
        /// Size at which a blob file is finished.
        [honoured mutable "6.13"] blob_file_size: u64 = 256 << 20, "Bytes.",
            set_blob_file_size(bytes: u64), get_blob_file_size;
        /// Codec of blob files.
        [honoured mutable "6.13"] blob_compression_type: Compression = Compression::None, "",
            set_blob_compression_type(value: Compression), get_blob_compression_type;
        /// Codec settings of blob files.
        [honoured mutable "11.2"] blob_compression_opts: CompressionOptions = CompressionOptions::default(), "As compression_opts.";
        /// Relocate live blobs during compaction.
        [honoured mutable "6.15"] enable_blob_garbage_collection: bool = false, "",
            set_enable_blob_gc(on: bool), get_enable_blob_gc;
        /// Share of the oldest blob files subject to relocation.
        [honoured mutable "6.15"] blob_garbage_collection_age_cutoff: f64 = 0.25, "0..1.",
            set_blob_gc_age_cutoff(ratio: f64), get_blob_gc_age_cutoff;
        /// Garbage share of the oldest blob files that forces compactions.
        [honoured mutable "6.26"] blob_garbage_collection_force_threshold: f64 = 1.0, "0..1; 1 = never. Leveled style.",
            set_blob_gc_force_threshold(ratio: f64), get_blob_gc_force_threshold;
        /// Rule by which compactions empty blob files, if `enable_blob_garbage_collection` is on.
        [honoured mutable "KoelDB"] blob_collection: BlobCollection = BlobCollection::Default, "kDefault is kAge if one of the two options of age has another value than by default, otherwise kDeadBytes. Not in RocksDB.",
            set_blob_collection(rule: BlobCollection), get_blob_collection;
        /// Bytes of blob files for each live byte above which compactions for that reason empty
        /// files. Not for collection by age.
        [honoured mutable "KoelDB"] blob_collection_target: f64 = 1.3, "Above 1. Leveled style; with others only compactions that run anyway empty files. Not in RocksDB.",
            set_blob_collection_target(ratio: f64), get_blob_collection_target;
        /// Share of garbage from which on any compaction moves values out of a blob file. Not for
        /// collection by age.
        [honoured mutable "KoelDB"] blob_collection_share: f64 = 0.5, "0..1. Not in RocksDB.",
            set_blob_collection_share(ratio: f64), get_blob_collection_share;
        /// Readahead on blob files in compactions.
        [honoured mutable "6.27"] blob_compaction_readahead_size: u64 = 0, "Bytes; 0 = up to 1 MiB.",
            set_blob_compaction_read_ahead_size(bytes: u64), get_blob_compaction_read_ahead_size;
        /// First level whose output may create blob files.
        [honoured mutable "7.4"] blob_file_starting_level: i32 = 0, "Level.",
            set_blob_file_starting_level(count: u32 as Count), get_blob_file_starting_level;
        /// Insert values into the blob cache when they are flushed.
        [honoured mutable "7.6"] prepopulate_blob_cache: PrepopulateBlobCache = PrepopulateBlobCache::Disable, "",
            set_prepopulate_blob_cache(value: PrepopulateBlobCache), get_prepopulate_blob_cache;
        /// Try a fast and a slow codec on sampled data blocks, and record the estimated sizes of the
        /// table in its properties.
        [honoured mutable "6.1"] sample_for_compression: u64 = 0, "1 in N blocks; 0 = off.",
            set_sample_for_compression(value: u64), get_sample_for_compression;
        /// Codec of the last level.
        [honoured mutable "<=5.4"] bottommost_compression: Option<Compression> = None, "kDisableCompressionOption = not set.";
        /// Codec by level; overrides compression.
        [honoured mutable "<=5.4"] compression_per_level: Vec<Compression> = Vec::new(), "`:`-separated list; not written when empty; entry 0 is L0, entry 1 the base level, and so on; deeper levels use the last entry.";
        /// Rewrite a garbage-rich memtable in memory instead of flushing.
        [accepted mutable "7.5"] experimental_mempurge_threshold: f64 = 0.0, "0 = off.",
            set_experimental_mempurge_threshold(ratio: f64), get_experimental_mempurge_threshold;
        /// Checksum bytes per memtable entry.
        [honoured mutable "7.6"] memtable_protection_bytes_per_key: u32 = 0, "0, 1, 2, 4 or 8.",
            set_memtable_protection_bytes_per_key(count: u32), get_memtable_protection_bytes_per_key;
        /// Age of a bottommost file before releasing a snapshot makes it eligible for rewriting.
        [honoured mutable "8.6"] bottommost_file_compaction_delay: u32 = 0, "Seconds.",
            set_bottommost_file_compaction_delay(time: Duration as Seconds), get_bottommost_file_compaction_delay;
        /// Evict the blocks of tables that a compaction replaces from the cache; gives up after this many
        /// data blocks of a table in a row that are not there.
        [honoured mutable "9.4"] uncache_aggressiveness: u32 = 0, "0 = off.",
            set_uncache_aggressiveness(count: u32), get_uncache_aggressiveness;
        /// Checksum bytes per entry of a loaded block.
        [accepted mutable "8.3"] block_protection_bytes_per_key: u8 = 0, "0, 1, 2, 4 or 8.",
            set_block_protection_bytes_per_key(value: u8), get_block_protection_bytes_per_key;
        /// Check the order of keys while cursors read a memtable.
        [honoured mutable "9.6"] paranoid_memory_checks: bool = false, "",
            set_paranoid_memory_checks(on: bool), get_paranoid_memory_checks;
        /// Check entry checksums while seeking in a skip list.
        [accepted mutable "11.5"] memtable_verify_per_key_checksum_on_seek: bool = false, "Needs memtable_protection_bytes_per_key.",
            set_memtable_verify_per_key_checksum_on_seek(on: bool), get_memtable_verify_per_key_checksum_on_seek;
        /// Codec settings.
        [honoured mutable "<=5.4"] compression_opts: CompressionOptions = CompressionOptions::default(), "Members, or by position `window_bits:level:strategy[:…]`.";
        /// Codec settings of the last level.
        [honoured mutable "5.15"] bottommost_compression_opts: CompressionOptions = CompressionOptions::default(), "As compression_opts; used only if its enabled=true.";
        /// Range tombstones in a memtable that trigger a flush.
        [honoured mutable "8.6"] memtable_max_range_deletions: u32 = 0, "0 = off.",
            set_memtable_max_range_deletions(count: u32), get_memtable_max_range_deletions;
        /// Invisible entries met in the memtable by one iterator call that trigger a flush.
        [accepted mutable "10.2"] memtable_op_scan_flush_trigger: u32 = 0, "0 = off.",
            set_memtable_op_scan_flush_trigger(count: u32), get_memtable_op_scan_flush_trigger;
        /// Average of invisible entries per iterator step that triggers a flush; needs
        /// memtable_op_scan_flush_trigger.
        [accepted mutable "10.4"] memtable_avg_op_scan_flush_trigger: u32 = 0, "0 = off.",
            set_memtable_avg_op_scan_flush_trigger(count: u32), get_memtable_avg_op_scan_flush_trigger;
        /// Adjacent point tombstones that a scan turns into a range tombstone.
        [accepted mutable "11.2"] min_tombstones_for_range_conversion: u32 = 0, "0 = off; experimental.",
            set_min_tombstones_for_range_conversion(count: u32), get_min_tombstones_for_range_conversion;
        /// Size levels backwards from the last one.
        [honoured fixed "<=5.4"] level_compaction_dynamic_level_bytes: bool = true, "Switched off for other styles and for several paths.",
            set_level_compaction_dynamic_level_bytes(on: bool), get_level_compaction_dynamic_level_bytes;
        /// No filters in the last level.
        [honoured fixed "<=5.4"] optimize_filters_for_hits: bool = false, "",
            set_optimize_filters_for_hits(on: bool), get_optimize_filters_for_hits;
        /// Check the order of files at every version change, also in release builds.
        [accepted fixed "<=5.4"] force_consistency_checks: bool = true, "",
            set_force_consistency_checks(on: bool), get_force_consistency_checks;
        /// Family can only be filled by ingestion.
        [honoured fixed "10.0"] disallow_memtable_writes: bool = false, "Forces memtable_factory=vector.",
            set_disallow_memtable_writes(on: bool), get_disallow_memtable_writes;
        /// Temperature assumed for tables without one when they are opened: a hint to the file system.
        [honoured fixed "8.6"] default_temperature: Temperature = Temperature::Unknown, "",
            set_default_temperature(value: Temperature), get_default_temperature;
        /// Flushed memtables kept for transaction conflict checks.
        [accepted fixed "6.5"] max_write_buffer_size_to_maintain: i64 = 0, "Bytes; <0 → max_write_buffer_number × write_buffer_size.",
            set_max_write_buffer_size_to_maintain(value: i64), get_max_write_buffer_size_to_maintain;
        /// Immutable memtables merged into one flush.
        [honoured fixed "<=5.4"] min_write_buffer_number_to_merge: i32 = 1, "Clipped to [1, max_write_buffer_number−1]; 1 with atomic_flush.",
            set_min_write_buffer_number_to_merge(count: u32 as Count), get_min_write_buffer_number_to_merge;
        /// Levels of the tree.
        [honoured fixed "<=5.4"] num_levels: i32 = 7, "≥1; level style ≥2; universal with ingest-behind ≥3; opening with fewer levels than used fails.",
            set_num_levels(count: u32 as Count), get_num_levels;
        /// Layout of the filters stored in plain tables.
        [honoured fixed "<=5.4"] bloom_locality: u32 = 0, ">0 = cache-line blocked.",
            set_bloom_locality(count: u32), get_bloom_locality;
        /// Key order.
        [honoured fixed "<=5.4"] comparator: KeyOrder = KeyOrder::Bytewise, "The name must be the one the database was made with.";
        /// Prefixes for which skip-list insert positions are remembered.
        [accepted fixed "<=5.4"] memtable_insert_with_hint_prefix_extractor: Option<Arc<dyn PrefixExtractor>> = None, "As prefix_extractor.";
        /// Memtable representation.
        [honoured fixed "<=5.4"] memtable_factory: MemtableFactory = MemtableFactory::default(), "Id, `id:number` or `{id=…;…}`.";
        /// Collectors run on every table that a flush or a compaction writes. The leveled style takes
        /// the tables that they mark for compaction when no level is due.
        [honoured fixed "6.26"] table_properties_collectors: Vec<TablePropertiesCollector> = Vec::new(), "`id` or `{{id=…;…}:id:…}`; not written when empty.";
        /// Filter instance applied by compactions.
        [honoured fixed "<=5.4"] compaction_filter: Option<BuiltinCompactionFilter> = None, "RemoveEmptyValueCompactionFilter or nullptr.";
        /// Creates a compaction filter for each compaction.
        [honoured fixed "<=5.4"] compaction_filter_factory: Option<Arc<dyn CompactionFilterFactory>> = None, "Set in code; none is built in.";
        /// Combines merge operands.
        [honoured fixed "<=5.4"] merge_operator: Option<Arc<dyn MergeOperator>> = None, "stringappend, uint64add, put, max, bytesxor or nullptr.";
        /// Shape of the tree.
        [honoured fixed "<=5.4"] compaction_style: CompactionStyle = CompactionStyle::Level, "",
            set_compaction_style(value: CompactionStyle), get_compaction_style;
        /// The file from which a leveled compaction starts.
        [honoured fixed "<=5.4"] compaction_pri: CompactionPri = CompactionPri::MinOverlappingRatio, "",
            set_compaction_pri(value: CompactionPri), get_compaction_pri;
        /// Ends tables below level 0 where the leading bytes of the key change. A table that has
        /// several such prefixes is rewritten instead of moved to another level.
        [honoured fixed "6.26"] sst_partitioner_factory: Option<SstPartitioner> = None, "SstPartitionerFixedPrefixFactory or nullptr.";
        /// Cache of values in blob files, uncompressed.
        [honoured fixed "7.4"] blob_cache: Option<Cache> = None, "String as block_cache.";
        /// Blob files written in parallel with enable_blob_direct_write.
        [accepted fixed "11.2"] blob_direct_write_partitions: u32 = 1, "≥1.",
            set_blob_direct_write_partitions(count: u32), get_blob_direct_write_partitions;
        /// Reserve the last level for back-fill ingestion.
        [honoured fixed "10.6"] cf_allow_ingest_behind: bool = false, "Universal needs num_levels ≥3.",
            set_cf_allow_ingest_behind(on: bool), get_cf_allow_ingest_behind;
        /// Write user-defined timestamps to tables. Without, they are in memtables and logs only: a
        /// flush raises full_history_ts_low above all timestamps that it leaves out. Timestamps can
        /// be switched on and off then.
        [honoured fixed "8.3"] persist_user_defined_timestamps: bool = true, "false: not with atomic_flush or allow_concurrent_memtable_write; 64-bit timestamps.",
            set_persist_user_defined_timestamps(on: bool), get_persist_user_defined_timestamps;
        /// Reuse the skip-list search path between sorted MultiGet keys (ours may always do so).
        [accepted fixed "11.1"] memtable_batch_lookup_optimization: bool = false, "",
            set_memtable_batch_lookup_optimization(on: bool), get_memtable_batch_lookup_optimization;
        /// Directories with target sizes for the tables of the family, instead of db_paths.
        [honoured fixed "5.14"] cf_paths: PathList = PathList::default(), "Set in code; never written.";
    }
    declined {
        /// Plug-in that chooses or implements codecs; only the built-in one is accepted.
        [mutable "10.4"] compression_manager: BuiltinCompressionManager = BuiltinCompressionManager;
        /// Overwrite values inside the memtable.
        [fixed "<=5.4"] inplace_update_support: bool = false;
        /// Write large values to blob files before the WAL.
        [fixed "11.2"] enable_blob_direct_write: bool = false;
    }
    removed {
        [mutable] filter_deletes "Removed. Drop deletions of keys that do not exist.";
        [mutable] check_flush_compaction_key_order "Removed. Always on.";
        [mutable] verify_checksums_in_compaction "Removed. Always on.";
        [mutable] hard_rate_limit "Removed. See hard_pending_compaction_bytes_limit.";
        [mutable] soft_rate_limit "Removed. See soft_pending_compaction_bytes_limit.";
        [mutable] ignore_max_compaction_bytes_for_input "Removed. Always on.";
        [mutable] expanded_compaction_factor "Removed. See max_compaction_bytes.";
        [mutable] max_grandparent_overlap_factor "Removed. See max_compaction_bytes.";
        [mutable] source_compaction_factor "Removed. See max_compaction_bytes.";
        [mutable] memtable_prefix_bloom_huge_page_tlb_size "Removed. See memtable_huge_page_size.";
        [mutable] memtable_prefix_bloom_bits "Removed. See memtable_prefix_bloom_size_ratio.";
        [mutable] memtable_prefix_bloom_probes "Removed. Number of probes, now fixed.";
        [mutable] min_partial_merge_operands "Removed. Operands before partial merging.";
        [mutable] snap_refresh_nanos "Removed. Refresh of the snapshot list in compactions.";
        [mutable] bottommost_temperature -> last_level_temperature "Removed. Renamed last_level_temperature.";
        [fixed] compaction_measure_io_stats "Removed. See report_bg_io_stats.";
        [fixed] purge_redundant_kvs_while_flush "Removed. Always on.";
        [fixed] level_compaction_dynamic_file_size "Removed. Always on.";
        [fixed] max_mem_compaction_level "Removed. Push flushes below L0.";
        [fixed] max_write_buffer_number_to_maintain "Removed. See max_write_buffer_size_to_maintain.";
        [fixed] rate_limit_delay_max_milliseconds "Removed. Longest write delay.";
    }
    aliases {
        block_based_table_factory = table_factory;
        plain_table_factory = table_factory;
        memtable_veirfy_per_key_checksum_on_seek = memtable_verify_per_key_checksum_on_seek;
        memtable = memtable_factory;
    }
    accessors {
        ColumnFamilyOptions {};
        Options {.cf};
    }
}

/// Defines the accessors that are written by hand, of [`ColumnFamilyOptions`] and [`Options`].
macro_rules! family_accessors {
    ($Target:ident $($path:ident)?) => {
        impl $Target {
            /// Sets the comparator, which the first open fixes: opening with another name fails.
            ///
            /// Default: [`BytewiseComparator`](crate::BytewiseComparator).
            pub fn set_comparator(&mut self, comparator: impl Comparator) -> &mut Self {
                self.$($path.)?comparator = KeyOrder::new(comparator);
                self
            }

            /// The comparator of the column family.
            #[must_use]
            pub fn get_comparator(&self) -> &dyn Comparator {
                self.$($path.)?comparator.comparator()
            }

            /// Sets the operator that merges operands.
            ///
            /// Default: none.
            pub fn set_merge_operator(&mut self, operator: impl MergeOperator) -> &mut Self {
                self.$($path.)?merge_operator = Some(Arc::new(operator));
                self
            }

            /// The option `merge_operator`.
            #[must_use]
            pub fn get_merge_operator(&self) -> Option<&Arc<dyn MergeOperator>> {
                self.$($path.)?merge_operator.as_ref()
            }

            /// Sets `filter` as the compaction filter; its arguments are level, key and value.
            ///
            /// The level is the uppermost of the inputs, not that of the output.
            ///
            /// A column family with its own options has its own filter, or none.
            ///
            /// Default: none.
            pub fn set_compaction_filter(
                &mut self,
                name: impl Into<String>,
                filter: impl Fn(u32, &[u8], &[u8]) -> Decision + Send + Sync + 'static,
            ) -> &mut Self {
                self.set_compaction_filter_factory(FunctionFilter::new(name.into(), filter))
            }

            /// Applies filters created by `factory` to values in compactions.
            ///
            /// A column family with its own options has its own factory, or none.
            ///
            /// Default: none.
            pub fn set_compaction_filter_factory(
                &mut self,
                factory: impl CompactionFilterFactory,
            ) -> &mut Self {
                self.$($path.)?compaction_filter_factory = Some(Arc::new(factory));
                self
            }

            /// The option `compaction_filter_factory`.
            #[must_use]
            pub fn get_compaction_filter_factory(&self) -> Option<&Arc<dyn CompactionFilterFactory>> {
                self.$($path.)?compaction_filter_factory.as_ref()
            }

            /// Sets the extractor of key prefixes for filters and prefix scans.
            ///
            /// Default: none.
            pub fn set_prefix_extractor(&mut self, extractor: impl PrefixExtractor) -> &mut Self {
                self.$($path.)?prefix_extractor = Some(Arc::new(extractor));
                self
            }

            /// The option `prefix_extractor`.
            #[must_use]
            pub fn get_prefix_extractor(&self) -> Option<&Arc<dyn PrefixExtractor>> {
                self.$($path.)?prefix_extractor.as_ref()
            }

            /// Makes new files block-based tables with these options.
            pub fn set_block_based_table_factory(&mut self, options: &BlockBasedOptions) -> &mut Self {
                self.$($path.)?table_factory = TableFormat::BlockBased(options.clone());
                self
            }

            /// Makes new files cuckoo tables with these options.
            pub fn set_cuckoo_table_factory(&mut self, options: &CuckooTableOptions) -> &mut Self {
                self.$($path.)?table_factory = TableFormat::Cuckoo(options.clone());
                self
            }

            /// Makes new files plain tables with these options.
            pub fn set_plain_table_factory(&mut self, options: &PlainTableOptions) -> &mut Self {
                self.$($path.)?table_factory = TableFormat::Plain(options.clone());
                self
            }

            /// The format of new files: the option `table_factory`.
            #[must_use]
            pub fn get_table_format(&self) -> &TableFormat {
                &self.$($path.)?table_factory
            }

            /// Sets the data structure of memtables.
            ///
            /// Default: a skip list.
            pub fn set_memtable_factory(&mut self, factory: MemtableFactory) -> &mut Self {
                self.$($path.)?memtable_factory = factory;
                self
            }

            /// The option `memtable_factory`.
            #[must_use]
            pub fn get_memtable_factory(&self) -> &MemtableFactory {
                &self.$($path.)?memtable_factory
            }

            /// Sets the codec of the last level; `None` uses that of the other levels.
            ///
            /// Default: not set, `kDisableCompressionOption` as a text.
            pub fn set_bottommost_compression_type(
                &mut self,
                compression: impl Into<Option<Compression>>,
            ) -> &mut Self {
                self.$($path.)?bottommost_compression = compression.into();
                self
            }

            /// The option `bottommost_compression`.
            #[must_use]
            pub fn get_bottommost_compression_type(&self) -> Option<Compression> {
                self.$($path.)?bottommost_compression
            }

            /// Sets the codec by level: for level 0, the base level, and those below it.
            ///
            /// Deeper levels use the last one. Empty: `compression` on all levels.
            ///
            /// Default: empty.
            pub fn set_compression_per_level(&mut self, levels: &[Compression]) -> &mut Self {
                self.$($path.)?compression_per_level = levels.to_vec();
                self
            }

            /// The option `compression_per_level`.
            #[must_use]
            pub fn get_compression_per_level(&self) -> &[Compression] {
                &self.$($path.)?compression_per_level
            }

            /// Sets the cache of values in blob files, which may be the block cache; none by default.
            ///
            /// It has the values without compression, at the lowest priority. Values that were read
            /// without a look at their checksums are not inserted.
            pub fn set_blob_cache(&mut self, cache: &Cache) -> &mut Self {
                self.$($path.)?blob_cache = Some(cache.clone());
                self
            }

            /// The option `blob_cache`.
            #[must_use]
            pub fn get_blob_cache(&self) -> Option<&Cache> {
                self.$($path.)?blob_cache.as_ref()
            }

            /// Sets the partitioner that cuts compaction outputs by key; `None` cuts only by size.
            ///
            /// Default: none.
            pub fn set_sst_partitioner_factory(
                &mut self,
                partitioner: impl Into<Option<SstPartitioner>>,
            ) -> &mut Self {
                self.$($path.)?sst_partitioner_factory = partitioner.into();
                self
            }

            /// Returns the option `sst_partitioner_factory`.
            #[must_use]
            pub fn get_sst_partitioner_factory(&self) -> Option<&SstPartitioner> {
                self.$($path.)?sst_partitioner_factory.as_ref()
            }

            /// Sets the collectors that inspect each table that is written.
            ///
            /// Default: empty.
            pub fn set_table_properties_collectors(
                &mut self,
                collectors: &[TablePropertiesCollector],
            ) -> &mut Self {
                self.$($path.)?table_properties_collectors = collectors.to_vec();
                self
            }

            /// Returns the option `table_properties_collectors`.
            #[must_use]
            pub fn get_table_properties_collectors(&self) -> &[TablePropertiesCollector] {
                &self.$($path.)?table_properties_collectors
            }

            /// Sets the settings of the codec.
            pub fn set_compression_options(&mut self, options: &CompressionOptions) -> &mut Self {
                self.$($path.)?compression_opts = options.clone();
                self
            }

            /// The option `compression_opts`.
            #[must_use]
            pub fn get_compression_options(&self) -> &CompressionOptions {
                &self.$($path.)?compression_opts
            }

            /// Sets the settings of the codec of the last level; used if `enabled` is set in them.
            pub fn set_bottommost_compression_options(&mut self, options: &CompressionOptions) -> &mut Self {
                self.$($path.)?bottommost_compression_opts = options.clone();
                self
            }

            /// The option `bottommost_compression_opts`.
            #[must_use]
            pub fn get_bottommost_compression_options(&self) -> &CompressionOptions {
                &self.$($path.)?bottommost_compression_opts
            }

            /// Sets the settings of universal compaction.
            pub fn set_universal_compaction_options(&mut self, options: &UniversalCompactionOptions) -> &mut Self {
                self.$($path.)?compaction_options_universal = options.clone();
                self
            }

            /// The option `compaction_options_universal`.
            #[must_use]
            pub fn get_universal_compaction_options(&self) -> &UniversalCompactionOptions {
                &self.$($path.)?compaction_options_universal
            }

            /// Sets the settings of FIFO compaction.
            pub fn set_fifo_compaction_options(&mut self, options: &FifoCompactionOptions) -> &mut Self {
                self.$($path.)?compaction_options_fifo = options.clone();
                self
            }

            /// The option `compaction_options_fifo`.
            #[must_use]
            pub fn get_fifo_compaction_options(&self) -> &FifoCompactionOptions {
                &self.$($path.)?compaction_options_fifo
            }

            /// Sets extra factors for the target sizes of levels, used with static level sizes.
            ///
            /// Default: seven times 1.
            pub fn set_max_bytes_for_level_multiplier_additional(&mut self, factors: &[i32]) -> &mut Self {
                self.$($path.)?max_bytes_for_level_multiplier_additional = factors.to_vec();
                self
            }

            /// Sets the directories of the tables of the column family, instead of those of the
            /// [database](crate::Options::set_db_paths); at most four.
            ///
            /// Set the same ones for each open, as for the database.
            ///
            /// Default: empty.
            pub fn set_cf_paths(&mut self, paths: impl IntoIterator<Item = DbPath>) -> &mut Self {
                self.$($path.)?cf_paths = PathList(paths.into_iter().collect());
                self
            }

            /// The option `cf_paths`.
            #[must_use]
            pub fn get_cf_paths(&self) -> &[DbPath] {
                &self.$($path.)?cf_paths.0
            }

            /// The option `max_bytes_for_level_multiplier_additional`.
            #[must_use]
            pub fn get_max_bytes_for_level_multiplier_additional(&self) -> &[i32] {
                &self.$($path.)?max_bytes_for_level_multiplier_additional
            }
        }
    };
}

family_accessors!(ColumnFamilyOptions);
family_accessors!(Options cf);

impl ColumnFamilyOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}
