//! The options of block-based tables.

use koeldb_base::checksum::ChecksumKind;
use koeldb_table::block_based::format::IndexType;
use koeldb_table::block_based::index::{IndexDecoding, IndexSearch};
use koeldb_table::block_based::index_builder::IndexShortening;
use koeldb_table::filter::FilterPolicy;

use super::cache::Cache;
use super::declare::option_section;
use super::object::{FlushBlockPolicy, NoObject};
use super::value::{ReadAmpBytes, enum_texts, option_enum};

enum_texts!(IndexType {
    IndexType::BinarySearch = "kBinarySearch",
    IndexType::HashSearch = "kHashSearch",
    IndexType::TwoLevel = "kTwoLevelIndexSearch",
    IndexType::BinarySearchWithFirstKey = "kBinarySearchWithFirstKey",
});

enum_texts!(ChecksumKind {
    ChecksumKind::None = "kNoChecksum",
    ChecksumKind::Crc32c = "kCRC32c",
    ChecksumKind::XxHash32 = "kxxHash",
    ChecksumKind::XxHash64 = "kxxHash64",
    ChecksumKind::Xxh3 = "kXXH3",
});

enum_texts!(IndexSearch {
    IndexSearch::Binary = "kBinary",
    IndexSearch::Interpolation = "kInterpolation",
    IndexSearch::Auto = "kAuto",
});

enum_texts!(IndexDecoding {
    IndexDecoding::Never = "kNever",
    IndexDecoding::Pinned = "kPinned",
    IndexDecoding::Always = "kAlways",
});

enum_texts!(IndexShortening {
    IndexShortening::None = "kNoShortening",
    IndexShortening::Separators = "kShortenSeparators",
    IndexShortening::SeparatorsAndSuccessor = "kShortenSeparatorsAndSuccessor",
});

option_enum! {
    /// The kind of index within data blocks that point lookups use.
    pub enum DataBlockIndexType {
        /// Restart points only.
        BinarySearch = "kDataBlockBinarySearch",
        /// Restart points and a hash index.
        BinaryAndHash = "kDataBlockBinaryAndHash",
    }
}

option_enum! {
    /// The jobs whose new blocks are inserted into the block cache (`prepopulate_block_cache`).
    pub enum PrepopulateBlockCache {
        /// Inserts no blocks.
        Disable = "kDisable",
        /// Inserts the blocks written by flushes.
        FlushOnly = "kFlushOnly",
        /// Inserts the blocks written by flushes and compactions.
        FlushAndCompaction = "kFlushAndCompaction",
    }
}

option_enum! {
    /// The files whose metadata blocks are pinned in the block cache.
    pub enum PinningTier {
        /// According to the older `pin_*` options.
        Fallback = "kFallback",
        /// No files.
        None = "kNone",
        /// Flushed files, and those of a similar size.
        FlushedAndSimilar = "kFlushedAndSimilar",
        /// All files.
        All = "kAll",
    }
}

option_section! {
    /// The options for pinning metadata blocks (indexes, filters) in the block cache.
    pub struct MetadataCacheOptions, "TableOptions/BlockBasedTable/metadata_cache_options";
    options {
        /// Top level of a partitioned index and filter: when to pin in the cache.
        [honoured mutable "6.15"] top_level_index_pinning: PinningTier = PinningTier::Fallback, "kFallback = as the older pin_* options say.",
            set_top_level_index_pinning(value: PinningTier), get_top_level_index_pinning;
        /// Partitions of index and filter: when to pin in the cache.
        [honoured mutable "6.15"] partition_pinning: PinningTier = PinningTier::Fallback, "kFallback = as the older pin_* options say.",
            set_partition_pinning(value: PinningTier), get_partition_pinning;
        /// Unpartitioned index and filter blocks: when to pin them in the cache.
        [honoured mutable "6.15"] unpartitioned_pinning: PinningTier = PinningTier::Fallback, "kFallback = as the older pin_* options say.",
            set_unpartitioned_pinning(value: PinningTier), get_unpartitioned_pinning;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        MetadataCacheOptions {};
    }
}

option_section! {
    /// The options of block-based tables.
    pub struct BlockBasedOptions, "TableOptions/BlockBasedTable";
    options {
        /// Rule that ends a data block: by size, or after each entry.
        [honoured mutable "<=5.4"] flush_block_policy_factory: FlushBlockPolicy = FlushBlockPolicy::BySize, "FlushBlockBySizePolicyFactory, FlushBlockEveryKeyPolicyFactory.";
        /// Index and filter blocks live in the block cache instead of the table reader.
        [honoured mutable "<=5.4"] cache_index_and_filter_blocks: bool = false, "",
            set_cache_index_and_filter_blocks(on: bool), get_cache_index_and_filter_blocks;
        /// Insert index and filter blocks into the cache with high priority.
        [honoured mutable "<=5.4"] cache_index_and_filter_blocks_with_high_priority: bool = true, "Needs the previous option.",
            set_cache_index_and_filter_blocks_with_high_priority(on: bool), get_cache_index_and_filter_blocks_with_high_priority;
        /// Pin index and filter blocks of L0 files in the cache.
        [honoured mutable "<=5.4"] pin_l0_filter_and_index_blocks_in_cache: bool = false, "Old form of unpartitioned_pinning=kFlushedAndSimilar.",
            set_pin_l0_filter_and_index_blocks_in_cache(on: bool), get_pin_l0_filter_and_index_blocks_in_cache;
        /// Index format.
        [honoured mutable "<=5.4"] index_type: IndexType = IndexType::BinarySearch, "kHashSearch needs a prefix_extractor and sets index_block_restart_interval=1.",
            set_index_type(value: IndexType), get_index_type;
        /// Search method inside index blocks.
        [honoured mutable "11.0"] index_block_search_type: IndexSearch = IndexSearch::Binary, "kInterpolation needs the bytewise comparator or its reverse (RocksDB: the former).",
            set_index_block_search_type(value: IndexSearch), get_index_block_search_type;
        /// Which index blocks are decoded when they are loaded, so that a search reads an array of
        /// numbers instead of keys: those that tables hold, or those in the cache too.
        /// `index_block_search_type` applies to the others. RocksDB does not know the option, and
        /// rejects OPTIONS files that contain it: only values other than the default are written.
        [honoured mutable "KoelDB 0.1"] index_decoding: IndexDecoding = IndexDecoding::Pinned, "kNever, kPinned, kAlways; 17 bytes an entry.",
            set_index_decoding(which: IndexDecoding), get_index_decoding;
        /// Hash index at the end of data blocks.
        [honoured mutable "5.16"] data_block_index_type: DataBlockIndexType = DataBlockIndexType::BinarySearch, "",
            set_data_block_index_type(value: DataBlockIndexType), get_data_block_index_type;
        /// The amount of shortening of separators in the index.
        [honoured mutable "6.2"] index_shortening: IndexShortening = IndexShortening::Separators, "",
            set_index_shortening(value: IndexShortening), get_index_shortening;
        /// Keys per bucket of the data block hash index.
        [honoured mutable "5.16"] data_block_hash_table_util_ratio: f64 = 0.75, ">0.",
            set_data_block_hash_ratio(ratio: f64), get_data_block_hash_ratio;
        /// Block checksum of new files.
        [honoured mutable "<=5.4"] checksum: ChecksumKind = ChecksumKind::Xxh3, "",
            set_checksum_type(value: ChecksumKind), get_checksum_type;
        /// Use no block cache.
        [honoured mutable "<=5.4"] no_block_cache: bool = false, "",
            set_no_block_cache(on: bool), get_no_block_cache;
        /// Uncompressed size at which a data block is ended.
        [honoured mutable "<=5.4"] block_size: u64 = 4096, "Bytes, ≤4 GiB.",
            set_block_size(bytes: u64), get_block_size;
        /// End a block early if less than this share is left and the next entry exceeds it.
        [honoured mutable "<=5.4"] block_size_deviation: i32 = 10, "Percent; outside 0..100 → 0.",
            set_block_size_deviation(value: i32), get_block_size_deviation;
        /// Entries between restart points in data blocks.
        [honoured mutable "<=5.4"] block_restart_interval: i32 = 16, "<1 → 1.",
            set_block_restart_interval(count: u32 as Count), get_block_restart_interval;
        /// Entries between restart points in index blocks.
        [honoured mutable "<=5.4"] index_block_restart_interval: i32 = 1, "<1 → 1.",
            set_index_block_restart_interval(count: u32 as Count), get_index_block_restart_interval;
        /// Target size of index and filter partitions.
        [honoured mutable "<=5.4"] metadata_block_size: u64 = 4096, "Bytes.",
            set_metadata_block_size(bytes: u64), get_metadata_block_size;
        /// Partition the filter.
        [honoured mutable "<=5.4"] partition_filters: bool = false, "Needs kTwoLevelIndexSearch, else treated as false.",
            set_partition_filters(on: bool), get_partition_filters;
        /// Cut filter partitions independently of index partitions; otherwise both end at one key.
        [honoured mutable "9.6"] decouple_partitioned_filters: bool = true, "Deprecated by RocksDB.",
            set_decouple_partitioned_filters(on: bool), get_decouple_partitioned_filters;
        /// Round filter sizes to the size classes of the allocator.
        [accepted mutable "6.12"] optimize_filters_for_memory: bool = true, "",
            set_optimize_filters_for_memory(on: bool), get_optimize_filters_for_memory;
        /// Share key prefixes inside data blocks.
        [honoured mutable "9.1"] use_delta_encoding: bool = true, "",
            set_use_delta_encoding(on: bool), get_use_delta_encoding;
        /// Filter of new files.
        [honoured mutable "<=5.4"] filter_policy: FilterPolicy = FilterPolicy::None, "bloomfilter:BITS, ribbonfilter:BITS[:LEVEL], rocksdb.BuiltinBloomFilter or nullptr.";
        /// Add whole keys, not only prefixes, to filters.
        [honoured mutable "<=5.4"] whole_key_filtering: bool = true, "",
            set_whole_key_filtering(on: bool), get_whole_key_filtering;
        /// Verify a filter while building it.
        [honoured mutable "7.0"] detect_filter_construct_corruption: bool = false, "",
            set_detect_filter_construct_corruption(on: bool), get_detect_filter_construct_corruption;
        /// Version of the block-based format.
        [honoured mutable "<=5.4"] format_version: u32 = 6, "2..7; RocksDB reads 6 since 8.6, 5 since 6.6, 7 since 10.4.",
            set_format_version(count: u32), get_format_version;
        /// Keys first, values last in each data block.
        [honoured mutable "11.0"] separate_key_value_in_data_block: bool = false, "Unreadable by releases before 11.",
            set_separate_key_value_in_data_block(on: bool), get_separate_key_value_in_data_block;
        /// Index blocks whose key gaps vary less than this are marked uniform (used by kAuto).
        /// RocksDB before 11.0 considers a marked block damaged and cannot read the file.
        [honoured mutable "11.1"] uniform_cv_threshold: f64 = -1.0, "<0 = never mark.",
            set_uniform_cv_threshold(ratio: f64), get_uniform_cv_threshold;
        /// Decompress each block after compressing it and compare.
        [honoured mutable "<=5.4"] verify_compression: bool = false, "",
            set_verify_compression(on: bool), get_verify_compression;
        /// Granularity of the used-bytes estimate of blocks.
        [accepted mutable "<=5.4"] read_amp_bytes_per_bit: ReadAmpBytes = ReadAmpBytes(0), "0 = off; ≥2³² from old files is reduced to its low 32 bits.";
        /// Compress index blocks too.
        [honoured mutable "5.12"] enable_index_compression: bool = true, "",
            set_enable_index_compression(on: bool), get_enable_index_compression;
        /// Pad data blocks so that none crosses a block_size boundary.
        [honoured mutable "5.14"] block_align: bool = false, "Needs no compression and power-of-two block_size.",
            set_block_align(on: bool), get_block_align;
        /// Pad so that no data block crosses a multiple of this size.
        [honoured mutable "10.8"] super_block_alignment_size: u64 = 0, "Bytes; 0 or a power of two.",
            set_super_block_alignment_size(bytes: u64), get_super_block_alignment_size;
        /// Bound on the padding of super_block_alignment_size.
        [honoured mutable "10.8"] super_block_alignment_space_overhead_ratio: u64 = 128, "0, or ≥4; padding < size/ratio; 0 = off.",
            set_super_block_alignment_space_overhead_ratio(value: u64), get_super_block_alignment_space_overhead_ratio;
        /// Pin the top level of partitioned index and filter.
        [honoured mutable "5.15"] pin_top_level_index_and_filter: bool = true, "Old form of top_level_index_pinning=kAll.",
            set_pin_top_level_index_and_filter(on: bool), get_pin_top_level_index_and_filter;
        /// The metadata that is pinned in the cache.
        [honoured mutable "6.15"] metadata_cache_options: MetadataCacheOptions = MetadataCacheOptions::default(), "All kFallback: as the older pin_* options say.";
        /// Block cache of this factory.
        [honoured mutable "6.10"] block_cache: Option<Cache> = None, "Number with suffix, `{capacity=…;…}`, or a cache URI; parsed only.";
        /// Upper bound of the implicit readahead of iterators.
        [honoured mutable "6.19"] max_auto_readahead_size: u64 = 256 << 10, "Bytes; 0 = no implicit readahead.",
            set_max_auto_readahead_size(bytes: u64), get_max_auto_readahead_size;
        /// Insert blocks into the cache when files are written.
        [honoured mutable "6.22"] prepopulate_block_cache: PrepopulateBlockCache = PrepopulateBlockCache::Disable, "",
            set_prepopulate_block_cache(value: PrepopulateBlockCache), get_prepopulate_block_cache;
        /// First implicit readahead.
        [honoured mutable "7.2"] initial_auto_readahead_size: u64 = 8192, "Bytes; > max is cut to max.",
            set_initial_auto_readahead_size(bytes: u64), get_initial_auto_readahead_size;
        /// Sequential reads of a file before implicit readahead starts.
        [honoured mutable "7.7"] num_file_reads_for_auto_readahead: u64 = 2, "",
            set_num_file_reads_for_auto_readahead(value: u64), get_num_file_reads_for_auto_readahead;
        /// Fail to open a table that lacks the user-defined index.
        [accepted mutable "10.6"] fail_if_no_udi_on_open: bool = false, "",
            set_fail_if_no_udi_on_open(on: bool), get_fail_if_no_udi_on_open;
    }
    declined {
        /// Additional user-defined index.
        [mutable "10.6"] user_defined_index_factory: NoObject = NoObject;
        /// Read through the user-defined index only.
        [mutable "11.2"] use_udi_as_primary_index: bool = false;
    }
    removed {
        [mutable] hash_index_allow_collision "Removed. Always allowed.";
        [mutable] index_per_partition "Removed. See metadata_block_size.";
        [mutable] reserve_table_builder_memory "Removed. See cache_usage_options.";
        [mutable] reserve_table_reader_memory "Removed. See cache_usage_options.";
        [mutable] skip_table_builder_flush "Removed. Do not flush after each block.";
        [mutable] block_cache_compressed "Removed. Compressed block cache.";
    }
    aliases {}
    accessors {
        BlockBasedOptions {};
    }
}

impl BlockBasedOptions {
    /// Creates the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the filter policy of new files.
    ///
    /// Default: none.
    pub fn set_filter_policy(&mut self, policy: FilterPolicy) -> &mut Self {
        self.filter_policy = policy;
        self
    }

    /// Sets a Bloom filter of this many bits per key.
    ///
    /// Default: no filter.
    pub fn set_bloom_filter(&mut self, bits_per_key: f64) -> &mut Self {
        self.set_filter_policy(FilterPolicy::bloom(bits_per_key))
    }

    /// Sets a Ribbon filter with the accuracy of a Bloom filter of this many bits per key.
    ///
    /// Flushes get a Bloom filter.
    ///
    /// Default: no filter.
    pub fn set_ribbon_filter(&mut self, bloom_equivalent_bits_per_key: f64) -> &mut Self {
        self.set_hybrid_ribbon_filter(bloom_equivalent_bits_per_key, 0)
    }

    /// Sets a Ribbon filter, and a Bloom filter for levels below `bloom_before_level`.
    ///
    /// Default: no filter.
    pub fn set_hybrid_ribbon_filter(
        &mut self,
        bloom_equivalent_bits_per_key: f64,
        bloom_before_level: i32,
    ) -> &mut Self {
        self.set_filter_policy(FilterPolicy::ribbon(
            bloom_equivalent_bits_per_key,
            bloom_before_level,
        ))
    }

    /// The option `filter_policy`.
    #[must_use]
    pub fn get_filter_policy(&self) -> FilterPolicy {
        self.filter_policy
    }

    /// Sets the block cache. By default column families share one of 32 MiB.
    pub fn set_block_cache(&mut self, cache: &Cache) -> &mut Self {
        self.block_cache = Some(cache.clone());
        self
    }

    /// The option `block_cache`.
    #[must_use]
    pub fn get_block_cache(&self) -> Option<&Cache> {
        self.block_cache.as_ref()
    }

    /// Uses no block cache.
    ///
    /// Default: a cache of the database: see [`BlockBasedOptions::set_block_cache`].
    pub fn disable_cache(&mut self) -> &mut Self {
        self.no_block_cache = true;
        self
    }

    /// Sets which metadata blocks are pinned in the cache.
    ///
    /// Default: [`MetadataCacheOptions::default`].
    pub fn set_metadata_cache_options(&mut self, options: &MetadataCacheOptions) -> &mut Self {
        self.metadata_cache_options = options.clone();
        self
    }

    /// The option `metadata_cache_options`.
    #[must_use]
    pub fn get_metadata_cache_options(&self) -> &MetadataCacheOptions {
        &self.metadata_cache_options
    }
}
