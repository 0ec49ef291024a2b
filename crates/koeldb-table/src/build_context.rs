//! The settings of tables to be written, and the result of writing one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use koeldb_base::checksum::ChecksumKind;
use koeldb_base::codec::{Compression, CompressionOptions};
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::stats::{HistogramKind, Statistics};
use koeldb_base::{KeyOrder, SeqNo};

use crate::filter::FilterPolicy;
use crate::format::IndexType;
use crate::memory_filter::MemoryFilter;
use crate::properties::{TableProperties, UNKNOWN_COLUMN_FAMILY_ID, names};

/// The event for which a table is written, which determines its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TableReason {
    /// A memtable is flushed.
    Flush,
    /// A compaction.
    Compaction,
    /// A log is replayed while a database is opened.
    Recovery,
    /// Any other reason.
    #[default]
    Other,
}

/// The file format of a table to be written.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum WriteFormat {
    /// RocksDB's block-based format, with the settings of [`TableBuildContext::format`].
    #[default]
    BlockBased,
    /// A cuckoo table; block-based if the entries do not fit a cuckoo table.
    Cuckoo(CuckooWriteOptions),
    /// A plain table; block-based if the entries do not fit a plain table.
    Plain(PlainWriteOptions),
}

/// The parameters of a table to be written.
#[derive(Clone)]
pub struct TableBuildContext {
    /// The order of user keys.
    pub order: KeyOrder,
    /// Whether keys are stored without their timestamps, which must all be 0.
    pub undated: bool,
    /// The format of the table.
    pub write_as: WriteFormat,
    /// The settings of the block-based format.
    pub format: BlockBasedWriteOptions,
    /// The compression of blocks.
    pub compression: Compression,
    /// The compression settings.
    pub compression_options: CompressionOptions,
    /// The prefix extractor for filters and hash indexes.
    pub prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// The merge operator's name, recorded in the properties.
    pub merge_operator_name: Option<String>,
    /// The column family's id, recorded in the properties.
    pub column_family_id: u64,
    /// The column family's name, recorded in the properties.
    pub column_family_name: String,
    /// The database's identity, recorded in the properties.
    pub db_id: String,
    /// The database session's id, recorded in the properties.
    pub session_id: String,
    /// The host's name, recorded in the properties.
    pub host_id: String,
    /// The number in the file's name, recorded in the properties.
    pub file_number: u64,
    /// The creation time of the oldest ancestor file, in seconds since 1970; 0 unknown. Recorded.
    pub oldest_ancestor_time: u64,
    /// The creation time of the file, in seconds since 1970; 0 unknown. Recorded.
    pub file_creation_time: u64,
    /// The write time of the oldest entry, in seconds since 1970; 0 unknown. Recorded.
    pub oldest_key_time: u64,
    /// The write time of the newest entry, in seconds since 1970; 0 unknown. Recorded.
    pub newest_key_time: u64,
    /// The target level; `None` where it is unknown. Selects the filter.
    pub level: Option<u32>,
    /// The reason for writing. A flush counts as above level 0 when the filter is selected.
    pub reason: TableReason,
    /// The target file size; 0 for any. Limits the data buffered for a dictionary.
    pub target_file_bytes: u64,
    /// Whether to build a filter in memory if the format writes none to the file.
    pub keeps_filter: bool,
    /// The names of the property collectors in RocksDB's form. Recorded.
    pub property_collector_names: String,
    /// Additional properties to record.
    pub user_properties: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The statistics that count the blocks; `None` for none.
    pub statistics: Option<Statistics>,
}

impl TableBuildContext {
    /// Returns the statistics of blocks, and the histogram of the time of the sync.
    pub(crate) fn block_counts(&self) -> Option<(Statistics, HistogramKind)> {
        let sync = match self.reason {
            TableReason::Compaction => HistogramKind::CompactionOutfileSyncMicros,
            _ => HistogramKind::TableSyncMicros,
        };
        Some((self.statistics.clone()?, sync))
    }

    /// Records a property: the sequence number up to which the column family is flushed to tables.
    pub fn set_flushed_seqno(&mut self, seqno: SeqNo) {
        let value = seqno.to_le_bytes().to_vec();
        self.user_properties
            .insert(names::FLUSHED_SEQNO.into(), value);
    }
}

impl Default for TableBuildContext {
    fn default() -> Self {
        TableBuildContext {
            order: KeyOrder::default(),
            undated: false,
            write_as: WriteFormat::default(),
            format: BlockBasedWriteOptions::default(),
            compression: Compression::default(),
            compression_options: CompressionOptions::default(),
            prefix_extractor: None,
            merge_operator_name: None,
            column_family_id: UNKNOWN_COLUMN_FAMILY_ID,
            column_family_name: String::new(),
            db_id: String::new(),
            session_id: String::new(),
            host_id: String::new(),
            file_number: 0,
            oldest_ancestor_time: 0,
            file_creation_time: 0,
            oldest_key_time: 0,
            newest_key_time: 0,
            level: None,
            reason: TableReason::default(),
            target_file_bytes: 0,
            keeps_filter: false,
            property_collector_names: "[]".to_owned(),
            user_properties: BTreeMap::new(),
            statistics: None,
        }
    }
}

impl fmt::Debug for TableBuildContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableBuildContext")
            .field("order", &self.order)
            .field("write_as", &self.write_as)
            .field("format", &self.format)
            .field("compression", &self.compression)
            .field("file_number", &self.file_number)
            .field("level", &self.level)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

/// The result of building a table, which was written, synced and closed.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedTable {
    /// The length of the file.
    pub file_bytes: u64,
    /// The size of the file after the data blocks.
    pub tail_bytes: u64,
    /// The table's properties.
    pub properties: TableProperties,
    /// The internal unique id, from database id, session id and file number; zero if these are
    /// unknown.
    pub unique_id: [u64; 2],
    /// The reason why the table is block-based instead of in the requested format.
    pub fallback: Option<String>,
    /// The filter that is not in the file, if it was asked for.
    pub memory_filter: Option<MemoryFilter>,
}

/// The block-based format settings that a builder reads.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockBasedWriteOptions {
    /// The format version: 2 to 7. RocksDB 7.8 reads up to 5.
    pub format_version: u32,
    /// The checksum type of blocks.
    pub checksum: ChecksumKind,
    /// The raw size at which a data block is cut (`block_size`).
    pub block_bytes: usize,
    /// The percentage of a block that may stay empty if the next entry would not fit; 0 fills it
    /// (`block_size_deviation`).
    pub block_deviation_percent: u32,
    /// The number of entries between restart points in data blocks.
    pub block_restart_interval: u32,
    /// Whether data blocks are aligned to their size (at most 4 KiB). Requires no compression.
    pub block_align: bool,
    /// The power of two whose multiples, as file offsets, data blocks should not cross; 0 for none
    /// (`super_block_alignment_size`).
    pub super_block_bytes: u64,
    /// The exclusive limit of the padding before a data block for that, in bytes; 0 for no padding
    /// (`super_block_alignment_size / super_block_alignment_space_overhead_ratio`).
    pub super_block_padding_max: u64,
    /// The number of data blocks of which one is compressed by other codecs, for an estimate; 0 for
    /// no estimate (`sample_for_compression`).
    pub compression_sample_period: u64,
    /// Whether keys in data blocks omit the prefix shared with the preceding key
    /// (`use_delta_encoding`).
    pub share_key_prefixes: bool,
    /// Whether data blocks store values separately from keys (`separate_key_value_in_data_block`).
    ///
    /// RocksDB before 11.0 does not read them.
    pub separate_values: bool,
    /// Whether data blocks have a hash index from user keys to restart points.
    pub data_block_hash_index: bool,
    /// The load factor of the hash index of data blocks (`data_block_hash_table_util_ratio`).
    pub data_block_hash_utilization: f64,
    /// The type of the index.
    pub index_type: IndexType,
    /// The degree to which index keys are shortened.
    pub index_shortening: IndexShortening,
    /// The number of entries between restart points in index blocks.
    pub index_block_restart_interval: u32,
    /// Whether index blocks are compressed like data blocks (`enable_index_compression`).
    pub compress_index: bool,
    /// The raw size at which an index or filter partition is cut (`metadata_block_size`).
    pub metadata_block_bytes: u64,
    /// The largest coefficient of variation at which index blocks are marked as uniform.
    ///
    /// It is that of the gaps between restart keys. A negative value marks none; RocksDB before
    /// 11.1 does not read marked blocks.
    pub uniform_cv_threshold: f64,
    /// The kind and size of the filter.
    pub filter: FilterPolicy,
    /// Whether the filter contains whole keys.
    pub whole_key_filtering: bool,
    /// Whether the filter is partitioned; requires a two-level index.
    pub partition_filters: bool,
    /// Whether filter partitions end where index partitions do (`!decouple_partitioned_filters`).
    pub couple_filter_partitions: bool,
    /// Whether each entry has a data block of its own (`FlushBlockEveryKeyPolicy`).
    pub block_per_entry: bool,
    /// Whether each compressed block is decompressed and compared.
    pub verify_compression: bool,
    /// Whether each filter is compared with its keys (`detect_filter_construct_corruption`).
    pub verify_filters: bool,
}

impl Default for BlockBasedWriteOptions {
    fn default() -> Self {
        BlockBasedWriteOptions {
            format_version: 6,
            checksum: ChecksumKind::Xxh3,
            block_bytes: 4096,
            block_deviation_percent: 10,
            block_restart_interval: 16,
            block_align: false,
            super_block_bytes: 0,
            super_block_padding_max: 0,
            compression_sample_period: 0,
            share_key_prefixes: true,
            separate_values: false,
            data_block_hash_index: false,
            data_block_hash_utilization: 0.75,
            index_type: IndexType::BinarySearch,
            index_shortening: IndexShortening::Separators,
            index_block_restart_interval: 1,
            compress_index: true,
            metadata_block_bytes: 4096,
            uniform_cv_threshold: -1.0,
            filter: FilterPolicy::None,
            whole_key_filtering: true,
            partition_filters: false,
            couple_filter_partitions: false,
            block_per_entry: false,
            verify_compression: false,
            verify_filters: false,
        }
    }
}

/// The degree to which index keys are shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum IndexShortening {
    /// None: index keys are the last keys of blocks.
    None,
    /// Shortened separators between blocks.
    #[default]
    Separators,
    /// Shortened separators, and a shortened successor of the table's last key.
    SeparatorsAndSuccessor,
}

/// The settings of cuckoo tables to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct CuckooWriteOptions {
    /// The target load factor, above 0 and at most 1.
    pub hash_table_ratio: f64,
    /// The longest chain of moves of entries to free a slot (`max_search_depth`).
    pub depth_max: u32,
    /// The number of slots in a window, up to 65536.
    pub window_slots: u32,
    /// Whether the first hash is the key's first 8 bytes.
    pub identity_first: bool,
    /// Whether slots are chosen by remainder, for any number of slots; otherwise by masking.
    pub use_module: bool,
    /// The placement algorithm.
    pub placement: Placement,
    /// Whether entries without a slot are stored after the slots, in a format that RocksDB rejects.
    ///
    /// Otherwise the table would be block-based.
    pub keep_versions: bool,
    /// Whether to add checksums, which RocksDB ignores. Without them the file is identical to
    /// RocksDB's.
    pub checksums: bool,
}

impl Default for CuckooWriteOptions {
    fn default() -> Self {
        CuckooWriteOptions {
            hash_table_ratio: 0.9,
            depth_max: 100,
            window_slots: 5,
            identity_first: false,
            use_module: true,
            placement: Placement::default(),
            keep_versions: false,
            checksums: true,
        }
    }
}

/// The algorithm that assigns cuckoo table entries to slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Placement {
    /// Earliest deadline first: maximizes the number of entries in their first window.
    #[default]
    EarliestDeadline,
    /// Greedy placement with moves of entries, as in RocksDB.
    Greedy,
}

/// The settings of plain tables to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainWriteOptions {
    /// The key encoding; without a prefix extractor keys are always stored whole.
    pub encoding: Encoding,
    /// The length of all user keys; 0 if it varies.
    pub user_key_bytes: u32,
    /// Bits per entry in the stored filter; 0 stores none.
    pub bloom_bits_per_key: u32,
    /// Whether the stored filter keeps the bits of a prefix in one cache line.
    pub bloom_lines: bool,
    /// Prefixes per bucket of the stored index; 0 stores one bucket.
    pub hash_table_ratio: f64,
    /// The interval of entries of a prefix in the stored index; 0 and 1 list all.
    ///
    /// In the prefix encoding it is also the interval of keys stored whole.
    pub index_sparseness: u64,
    /// Whether to store index and filter in the file.
    pub store_index: bool,
    /// Whether to add checksums, which RocksDB ignores. Without them the file is identical to
    /// RocksDB's.
    pub checksums: bool,
}

impl Default for PlainWriteOptions {
    fn default() -> Self {
        PlainWriteOptions {
            encoding: Encoding::Plain,
            user_key_bytes: 0,
            bloom_bits_per_key: 10,
            bloom_lines: false,
            hash_table_ratio: 0.75,
            index_sparseness: 16,
            store_index: false,
            checksums: true,
        }
    }
}

/// The key encoding of a plain table (RocksDB: `EncodingType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Encoding {
    /// Each key stored whole.
    #[default]
    Plain,
    /// The prefix stored once for several keys.
    Prefix,
}
