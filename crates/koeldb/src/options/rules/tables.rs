//! Rules for the options of a table format and of a memtable factory.

use koeldb_base::KeyOrder;
use koeldb_base::codec::Compression;
use koeldb_table::block_based::format::IndexType;
use koeldb_table::block_based::index::IndexSearch;

use super::{Rule, rule};
use crate::options::CuckooResidency;
use crate::options::block_based::BlockBasedOptions;
use crate::options::column_family::ColumnFamilyOptions;
use crate::options::cuckoo::CuckooTableOptions;
use crate::options::db::DbOptions;
use crate::options::memtable::SortedHashOptions;
use crate::options::plain::PlainTableOptions;

/// The maximum number of adjacent slots in the window of a cuckoo table.
const CUCKOO_BLOCK_SIZE_MAX: u32 = 1 << 16;

/// The options of a column family and its database that rules for tables consult.
pub(crate) struct TableSurroundings {
    has_prefixes: bool,
    is_bytewise: bool,
    has_timestamps: bool,
    /// Whether the tables of any level are compressed.
    compresses: bool,
    allow_mmap_reads: bool,
}

impl TableSurroundings {
    pub(crate) fn new(cf: &ColumnFamilyOptions, db: &DbOptions) -> Self {
        let mut codecs = std::iter::once(&cf.compression)
            .chain(&cf.bottommost_compression)
            .chain(&cf.compression_per_level);
        TableSurroundings {
            has_prefixes: cf.prefix_extractor.is_some(),
            is_bytewise: matches!(
                cf.comparator,
                KeyOrder::Bytewise | KeyOrder::ReverseBytewise
            ),
            has_timestamps: cf.comparator.has_timestamps(),
            compresses: codecs.any(|codec| *codec != Compression::None),
            allow_mmap_reads: db.allow_mmap_reads,
        }
    }
}

/// The rules for block-based tables.
pub(crate) static BLOCK_BASED: &[Rule<BlockBasedOptions, TableSurroundings>] = &[
    rule!(Invalid index_type = IndexType::BinarySearch,
        |table, family| table.index_type == IndexType::HashSearch && !family.has_prefixes,
        "kHashSearch needs a prefix_extractor"),
    rule!(Unsupported index_type = IndexType::BinarySearch,
        |table, family| table.index_type == IndexType::HashSearch && family.has_timestamps,
        "kHashSearch is not supported with user-defined timestamps"),
    rule!(Invalid index_block_search_type = IndexSearch::Binary,
        |table, family| {
            table.index_block_search_type == IndexSearch::Interpolation && !family.is_bytewise
        },
        "kInterpolation needs the comparator leveldb.BytewiseComparator or rocksdb.ReverseBytewiseComparator"),
    rule!(Invalid cache_index_and_filter_blocks = false,
        |table, _| table.cache_index_and_filter_blocks && table.no_block_cache,
        "needs a block cache; set no_block_cache=false"),
    rule!(Invalid pin_l0_filter_and_index_blocks_in_cache = false,
        |table, _| table.pin_l0_filter_and_index_blocks_in_cache && table.no_block_cache,
        "needs a block cache; set no_block_cache=false"),
    rule!(Invalid data_block_hash_table_util_ratio = 0.75,
        |table, _| {
            let ratio = table.data_block_hash_table_util_ratio;
            ratio.is_nan() || ratio <= 0.0
        },
        "above 0"),
    rule!(Invalid format_version = 7,
        |table, _| !(2..=7).contains(&table.format_version),
        "from 2 to 7"),
    rule!(Invalid block_size = u64::from(u32::MAX),
        |table, _| table.block_size > u64::from(u32::MAX),
        "at most 4294967295"),
    rule!(Invalid block_align = false,
        |table, family| table.block_align && family.compresses,
        "needs kNoCompression for compression, bottommost_compression and compression_per_level"),
    Rule {
        detail: Some(|table, _| {
            let size = table.block_size;
            format!("needs a block_size that is a power of two (block_size={size})")
        }),
        ..rule!(Invalid block_align = false,
            |table, _| table.block_align && !table.block_size.is_power_of_two(),
            "needs a block_size that is a power of two")
    },
    rule!(Invalid super_block_alignment_size = 0,
        |table, _| {
            let size = table.super_block_alignment_size;
            size != 0 && (!size.is_power_of_two() || size > u64::from(u32::MAX))
        },
        "0 or a power of two below 4 GiB"),
    rule!(Invalid super_block_alignment_space_overhead_ratio = 4,
        |table, _| (1..4).contains(&table.super_block_alignment_space_overhead_ratio),
        "0 or at least 4"),
];

/// The rules for cuckoo tables.
pub(crate) static CUCKOO: &[Rule<CuckooTableOptions, TableSurroundings>] = &[
    rule!(Invalid residency = CuckooResidency::Auto,
        |table, family| {
            use CuckooResidency::{Mapped, MappedHuge};
            matches!(table.residency, Mapped | MappedHuge) && !family.allow_mmap_reads
        },
        "kMapped and kMappedHuge need allow_mmap_reads=true"),
    rule!(Invalid residency = CuckooResidency::Auto,
        |table, _| table.residency == CuckooResidency::Paged && table.keep_versions,
        "kPaged not together with keep_versions; change one of them"),
    rule!(Invalid hash_table_ratio = 0.9,
        |table, _| !(table.hash_table_ratio > 0.0 && table.hash_table_ratio <= 1.0),
        "above 0 and at most 1"),
    rule!(Invalid cuckoo_block_size = CUCKOO_BLOCK_SIZE_MAX,
        |table, _| table.cuckoo_block_size > CUCKOO_BLOCK_SIZE_MAX,
        "at most 65536"),
];

/// The rules for plain tables.
pub(crate) static PLAIN: &[Rule<PlainTableOptions, TableSurroundings>] = &[
    rule!(Invalid hash_table_ratio = 0.0,
        |table, _| !(table.hash_table_ratio >= 0.0 && table.hash_table_ratio.is_finite()),
        "a finite number of at least 0; 0 is binary search"),
    rule!(Unsupported hash_table_ratio = 0.0,
        |table, family| table.hash_table_ratio > 0.0 && !family.has_prefixes && !table.full_scan_mode,
        "a hash index needs a prefix_extractor; set one, or set the ratio to 0 for binary search"),
    rule!(Invalid bloom_bits_per_key = 0,
        |table, _| table.bloom_bits_per_key < 0,
        "at least 0; 0 is no filter"),
];

/// The rules for memtables that are sorted hash tables.
pub(crate) static SORTED_HASH: &[Rule<SortedHashOptions>] = &[rule!(Invalid sorted_vector_limit,
        |table, ()| table.sorted_vector_limit == 0,
        "at least 1")];
