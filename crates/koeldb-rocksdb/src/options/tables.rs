//! Options of tables and memtables.

use super::compaction::{Members, members};
use super::values::OptionText;
use super::{
    BlockBasedIndexType, BlockBasedTablePinningTier, Cache, ChecksumType, DataBlockIndexType,
    KeyEncodingType,
};

/// Options of block-based tables, whose default `format_version` is that of RocksDB: 7.
pub struct BlockBasedOptions {
    pub(crate) inner: koeldb::BlockBasedOptions,
    pub(crate) members: Members,
}

impl Default for BlockBasedOptions {
    fn default() -> Self {
        let mut inner = koeldb::BlockBasedOptions::new();
        inner.set_format_version(7);
        BlockBasedOptions {
            inner,
            members: Members::default(),
        }
    }
}

members! { BlockBasedOptions {
    /// The size of data blocks before compression, in bytes.
    set_block_size(usize) = "block_size";
    /// The size of blocks of partitioned indexes and filters, in bytes.
    set_metadata_block_size(usize) = "metadata_block_size";
    /// Whether filters are partitioned, with a two-level index.
    set_partition_filters(bool) = "partition_filters";
    /// Whether index and filter blocks are in the block cache.
    set_cache_index_and_filter_blocks(bool) = "cache_index_and_filter_blocks";
    /// Whether index and filter blocks are evicted later.
    set_cache_index_and_filter_blocks_with_high_priority(bool) =
        "cache_index_and_filter_blocks_with_high_priority";
    /// The index type.
    set_index_type(BlockBasedIndexType) = "index_type";
    /// Whether index and filter blocks of level 0 stay in the cache.
    set_pin_l0_filter_and_index_blocks_in_cache(bool) = "pin_l0_filter_and_index_blocks_in_cache";
    /// Whether the tops of partitioned indexes and filters stay in the cache.
    set_pin_top_level_index_and_filter(bool) = "pin_top_level_index_and_filter";
    /// The version of the format.
    set_format_version(i32) = "format_version";
    /// Entries between restart points in data blocks, where keys are stored whole.
    set_block_restart_interval(i32) = "block_restart_interval";
    /// Entries between restart points in index blocks, where keys are stored whole.
    set_index_block_restart_interval(i32) = "index_block_restart_interval";
    /// The search in data blocks (`data_block_index_type`): binary, or binary and hash.
    set_data_block_index_type(DataBlockIndexType) = "data_block_index_type";
    /// The ratio of keys to buckets of the hash tables in data blocks.
    set_data_block_hash_ratio(f64) = "data_block_hash_table_util_ratio";
    /// Whether filters contain whole keys, not only prefixes (`whole_key_filtering`).
    set_whole_key_filtering(bool) = "whole_key_filtering";
    /// The checksum of blocks.
    set_checksum_type(ChecksumType) = "checksum";
    /// Whether filters have sizes that suit the allocator. No effect.
    set_optimize_filters_for_memory(bool) = "optimize_filters_for_memory";
    /// The tables that keep the tops of partitioned indexes and filters in the cache.
    set_top_level_index_pinning_tier(BlockBasedTablePinningTier) =
        "metadata_cache_options.top_level_index_pinning";
    /// The tables that keep partitions in the cache. No effect.
    set_partition_pinning_tier(BlockBasedTablePinningTier) =
        "metadata_cache_options.partition_pinning";
    /// The tables that keep whole indexes and filters in the cache.
    set_unpartitioned_pinning_tier(BlockBasedTablePinningTier) =
        "metadata_cache_options.unpartitioned_pinning";
}}

impl BlockBasedOptions {
    /// Sets the block cache.
    pub fn set_block_cache(&mut self, cache: &Cache) {
        self.inner.set_block_cache(&cache.inner);
    }

    /// Disables the block cache.
    pub fn disable_cache(&mut self) {
        self.inner.disable_cache();
    }

    /// Sets a Bloom filter policy of full filters; `block_based` has no effect.
    pub fn set_bloom_filter(&mut self, bits_per_key: f64, block_based: bool) {
        let _ = block_based;
        self.inner.set_bloom_filter(bits_per_key);
    }

    /// Sets a Ribbon filter policy as precise as a Bloom filter with these bits per key.
    pub fn set_ribbon_filter(&mut self, bloom_equivalent_bits_per_key: f64) {
        self.inner.set_ribbon_filter(bloom_equivalent_bits_per_key);
    }

    /// Sets Bloom filters for levels before `bloom_before_level`, Ribbon filters for it and below.
    pub fn set_hybrid_ribbon_filter(
        &mut self,
        bloom_equivalent_bits_per_key: f64,
        bloom_before_level: i32,
    ) {
        self.inner
            .set_hybrid_ribbon_filter(bloom_equivalent_bits_per_key, bloom_before_level);
    }
}

/// Options of cuckoo tables.
#[derive(Default)]
pub struct CuckooTableOptions {
    pub(crate) members: Members,
}

members! { CuckooTableOptions {
    /// The ratio of entries to buckets.
    set_hash_ratio(f64) = "hash_table_ratio";
    /// The maximum depth of the search for a free bucket (`max_search_depth`).
    set_max_search_depth(u32) = "max_search_depth";
    /// The number of adjacent buckets in a block, probed for each hash (`cuckoo_block_size`).
    set_cuckoo_block_size(u32) = "cuckoo_block_size";
    /// Whether the first eight bytes of a key are its hash.
    set_identity_as_first_hash(bool) = "identity_as_first_hash";
    /// Whether the hash is divided by the number of buckets, which then need not be a power of two.
    set_use_module_hash(bool) = "use_module_hash";
}}

/// Options of plain tables.
pub struct PlainTableFactoryOptions {
    /// The length of all keys; 0 if it varies.
    pub user_key_length: u32,
    /// The bits per prefix of the Bloom filter.
    pub bloom_bits_per_key: i32,
    /// The ratio of prefixes to buckets of the hash index.
    pub hash_table_ratio: f64,
    /// Keys between entries of the index within a prefix.
    pub index_sparseness: usize,
    /// The size of huge pages in bytes. No effect.
    pub huge_page_tlb_size: usize,
    /// The encoding of keys.
    pub encoding_type: KeyEncodingType,
    /// Whether tables have no index and can only be scanned.
    pub full_scan_mode: bool,
    /// Whether the index is stored in the file.
    pub store_index_in_file: bool,
}

impl PlainTableFactoryOptions {
    /// Returns the plain table options as pairs of name and option text.
    pub(crate) fn members(&self) -> Members {
        vec![
            ("user_key_len", self.user_key_length.text()),
            ("bloom_bits_per_key", self.bloom_bits_per_key.text()),
            ("hash_table_ratio", self.hash_table_ratio.text()),
            ("index_sparseness", self.index_sparseness.text()),
            ("huge_page_tlb_size", self.huge_page_tlb_size.text()),
            ("encoding_type", self.encoding_type.text()),
            ("full_scan_mode", self.full_scan_mode.text()),
            ("store_index_in_file", self.store_index_in_file.text()),
        ]
    }
}

/// The memtable representation (`memtable_factory`), if it is not the skip list.
pub enum MemtableFactory {
    /// `VectorRepFactory`: a vector, sorted when it is read.
    Vector,
    /// `HashSkipListRepFactory`: a hash table of prefixes with skip lists.
    HashSkipList {
        /// The number of buckets.
        bucket_count: usize,
        /// The height of the skip lists. No effect.
        height: i32,
        /// The branching of the skip lists. No effect.
        branching_factor: i32,
    },
    /// `HashLinkListRepFactory`: a hash table of prefixes with linked lists.
    HashLinkList {
        /// The number of buckets.
        bucket_count: usize,
    },
}

impl OptionText for MemtableFactory {
    fn text(&self) -> String {
        match self {
            MemtableFactory::Vector => "VectorRepFactory".to_owned(),
            MemtableFactory::HashSkipList {
                bucket_count,
                height,
                branching_factor,
            } => format!(
                "{{id=HashSkipListRepFactory;bucket_count={bucket_count};\
                 skiplist_height={height};branching_factor={branching_factor};}}"
            ),
            MemtableFactory::HashLinkList { bucket_count } => {
                format!("{{id=HashLinkListRepFactory;bucket_count={bucket_count};}}")
            }
        }
    }
}
