//! The settings for reading tables, and what is known of a table before it is opened.

use std::fmt;
use std::sync::Arc;

use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::stats::Statistics;
use koeldb_base::{Error, KeyOrder, Limits, Result, SeqNo};
use koeldb_cache::Cache;
use koeldb_fs::RandomAccessFile;

use crate::block::CachedBlock;
use crate::block::index::{IndexDecoding, IndexSearch};
use crate::memory_filter::MemoryFilter;
use crate::properties::TableProperties;

/// The settings for reading a table, and its metadata known before it is opened (MANIFEST).
#[derive(Clone, Default)]
pub struct TableReadContext {
    /// The order of user keys, which must be the table's.
    pub order: KeyOrder,
    /// Whether keys are stored without the timestamps that `order` has; `None` if only the
    /// properties of the table record it.
    pub undated: Option<bool>,
    /// The prefix extractor for filters.
    pub prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// The settings for block-based tables.
    pub block_based: BlockBasedReadOptions,
    /// The settings for plain tables.
    pub plain: PlainReadOptions,
    /// The placement of cuckoo tables.
    pub cuckoo: Residency,
    /// The limits on sizes that a table declares.
    pub limits: Limits,
    /// The block cache.
    pub cache: Option<Cache<CachedBlock>>,
    /// The cache of values in blob files.
    pub blob_cache: Option<Cache<CachedBlock>>,
    /// The statistics that reads of the table update; `None` for none.
    pub statistics: Option<Statistics>,
    /// The number in the file's name.
    pub number: u64,
    /// The recorded length of the file; 0 if none is.
    pub expected_bytes: u64,
    /// The size of the file after the data blocks; 0 if not recorded.
    pub tail_bytes: u64,
    /// The recorded largest sequence number of the table.
    pub largest_seqno: Option<SeqNo>,
    /// The level of the table.
    pub level: Option<u32>,
    /// The last level of the column family, whose reads are counted apart.
    pub last_level: Option<u32>,
    /// The first and last internal key of the file, to which its range tombstones are truncated.
    pub tombstone_bounds: Option<(Vec<u8>, Vec<u8>)>,
    /// The recorded unique id of the table; `None` or `[0, 0]` if none is recorded.
    pub unique_id: Option<[u64; 2]>,
    /// The filter for a table without one in its file.
    pub memory_filter: Option<MemoryFilter>,
    /// The file's part of cache keys, if it was opened before; `None` for a new one.
    pub cache_id: Option<u64>,
}

impl fmt::Debug for TableReadContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableReadContext")
            .field("order", &self.order)
            .field("number", &self.number)
            .field("expected_bytes", &self.expected_bytes)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

impl TableReadContext {
    /// Checks that the table has the unique ID recorded in the MANIFEST, if one is recorded.
    ///
    /// # Errors
    /// `Corruption` if they differ.
    pub(crate) fn check_unique_id(&self, properties: &TableProperties) -> Result<()> {
        match self.unique_id {
            None | Some([0, 0]) => Ok(()),
            expected if properties.unique_id() == expected => Ok(()),
            Some(expected) => Err(Error::corruption(format!(
                "Mismatch in unique ID on table file: {:016x?} is recorded, and the table has {:016x?}",
                expected,
                properties.unique_id().unwrap_or_default()
            ))),
        }
    }
}

/// The settings for reading block-based tables.
#[derive(Clone, Debug)]
pub struct BlockBasedReadOptions {
    /// Whether index and filter blocks stay in the cache instead of being pinned by the open table.
    pub cache_index_and_filter_blocks: bool,
    /// Whether index and filter blocks have a higher cache priority than data blocks.
    pub high_priority_metadata: bool,
    /// The tables whose unpartitioned index and filter are pinned although others are cached.
    pub pin_unpartitioned: Pinning,
    /// The tables whose top level of a partitioned index or filter is pinned although others are
    /// cached.
    pub pin_top_level: Pinning,
    /// The tables whose partitions of index and filter are loaded when they are opened, and stay in
    /// the cache while they are open.
    pub pin_partitions: Pinning,
    /// The search method for index blocks that are not decoded.
    pub index_search: IndexSearch,
    /// The choice of the index blocks that are decoded.
    pub index_decoding: IndexDecoding,
}

impl Default for BlockBasedReadOptions {
    fn default() -> Self {
        BlockBasedReadOptions {
            cache_index_and_filter_blocks: false,
            high_priority_metadata: true,
            pin_unpartitioned: Pinning::None,
            pin_top_level: Pinning::All,
            pin_partitions: Pinning::None,
            index_search: IndexSearch::Binary,
            index_decoding: IndexDecoding::Pinned,
        }
    }
}

/// Which tables have their index and filter blocks pinned in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// No tables.
    None,
    /// Tables of level 0.
    Level0,
    /// All tables.
    All,
}

impl Pinning {
    /// Whether index and filter blocks of a table on `level` are pinned.
    pub(crate) fn applies(self, level: Option<u32>) -> bool {
        match self {
            Pinning::None => false,
            Pinning::Level0 => level == Some(0),
            Pinning::All => true,
        }
    }
}

/// The settings for reading plain tables.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainReadOptions {
    /// Bits per prefix, or per key without prefixes, of a filter built at open; 0 builds none.
    ///
    /// A filter is built for a table without a stored index.
    pub bloom_bits_per_key: u32,
    /// The load factor of an index built at open, at most three quarters.
    pub hash_table_ratio: f64,
    /// The number of rows of a prefix for each one listed in an index built at open; 0 and 1 list
    /// all.
    pub index_sparseness: u64,
    /// Whether neither index nor filter is built or read, so that point lookups fail.
    pub full_scan: bool,
}

impl Default for PlainReadOptions {
    fn default() -> Self {
        PlainReadOptions {
            bloom_bits_per_key: 10,
            hash_table_ratio: 0.75,
            index_sparseness: 16,
            full_scan: false,
        }
    }
}

/// Where cuckoo tables are to be held while they are open: mapped, copied, or in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residency {
    /// Mapped, if files are, with huge pages where the system provides them on access; otherwise
    /// paged, if files use direct I/O; otherwise copied.
    #[default]
    Auto,
    /// Mapped with pages of 4 KiB: least memory, for tables much larger than memory.
    Mapped,
    /// Mapped with huge pages, and populated at open.
    MappedHuge,
    /// Copied to private memory in huge pages: fastest, and not shared with other processes.
    Copied,
    /// Not in memory: every lookup reads the pieces of its windows, of which a cache of the column
    /// family keeps 32 MiB. A scan loads the table first, and it stays loaded. Not for tables with
    /// versions.
    Paged,
}

impl Residency {
    /// Whether a table in this file is read through the block cache instead of held in memory.
    pub(crate) fn is_paged(self, file: &dyn RandomAccessFile) -> bool {
        match self {
            Residency::Auto => file.mapped().is_none() && file.alignment() > 1,
            Residency::Mapped | Residency::MappedHuge | Residency::Copied => false,
            Residency::Paged => true,
        }
    }
}

/// The options of a cursor over one table.
#[derive(Clone, Default)]
pub struct TableCursorOptions {
    /// Only keys with the target's prefix matter: a seek may find nothing if the table's filter
    /// denies it. Tables filtered by the prefixes of another extractor ignore this.
    pub prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
}

impl TableCursorOptions {
    /// Whether seeks may query a table's filter of the prefixes of `extractor`.
    pub(crate) fn filters_by(&self, extractor: Option<&Arc<dyn PrefixExtractor>>) -> bool {
        match (&self.prefix_extractor, extractor) {
            (Some(wanted), Some(extractor)) => wanted.name() == extractor.name(),
            _ => false,
        }
    }
}

impl fmt::Debug for TableCursorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extractor = self.prefix_extractor.as_ref();
        f.debug_struct("TableCursorOptions")
            .field("prefix_extractor", &extractor.map(|e| e.name()))
            .finish()
    }
}
