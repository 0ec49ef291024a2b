//! Table builders, independent of the format.

use std::collections::BTreeMap;
use std::sync::Arc;

use koeldb_base::codec::{Compression, CompressionOptions};
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::range_del::RangeTombstone;
use koeldb_base::{KeyOrder, Result, SeqNo};
use koeldb_fs::WritableFile;

use crate::block_based::builder::{BlockBasedTableBuilder, BlockBasedWriteOptions};
use crate::cuckoo::builder::{CuckooTableBuilder, CuckooWriteOptions};
use crate::memory_filter::MemoryFilter;
use crate::plain::builder::{PlainTableBuilder, PlainWriteOptions};
use crate::properties::{TableProperties, UNKNOWN_COLUMN_FAMILY_ID, names};

/// The reason for writing a table, which determines its filter.
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

/// The format of a table to be written.
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
}

impl TableBuildContext {
    /// Records the sequence number up to which all entries of the column family are in tables.
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
        }
    }
}

impl std::fmt::Debug for TableBuildContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

/// A table that was written, synced and closed.
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

/// A table under construction, in any format. One owner; dropping it leaves an incomplete file.
#[derive(Debug)]
pub enum TableBuilder {
    /// RocksDB's block-based format.
    BlockBased(Box<BlockBasedTableBuilder>),
    /// RocksDB's cuckoo table.
    Cuckoo(Box<CuckooTableBuilder>),
    /// RocksDB's plain table.
    Plain(Box<PlainTableBuilder>),
}

impl TableBuilder {
    /// Begins a table in an empty file.
    ///
    /// # Errors
    /// `InvalidArgument` if settings contradict each other; `NotSupported` if this build lacks the
    /// codec.
    pub fn create(file: Box<dyn WritableFile>, context: &TableBuildContext) -> Result<Self> {
        match &context.write_as {
            WriteFormat::BlockBased => {
                let builder = BlockBasedTableBuilder::create(file, context)?;
                Ok(TableBuilder::BlockBased(Box::new(builder)))
            }
            WriteFormat::Cuckoo(options) => {
                let builder = CuckooTableBuilder::create(file, options, context)?;
                Ok(TableBuilder::Cuckoo(Box::new(builder)))
            }
            WriteFormat::Plain(options) => {
                let builder = PlainTableBuilder::create(file, options, context);
                Ok(TableBuilder::Plain(Box::new(builder)))
            }
        }
    }

    /// Appends an entry; entries must come in internal-key order.
    ///
    /// Range tombstones go through [`TableBuilder::add_tombstone`].
    ///
    /// # Errors
    /// `Corruption` if the key is malformed or not after the last one; `InvalidArgument` if key or
    /// value have 4 GiB or more; the errors of the file system. After an error the table must be
    /// abandoned.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            TableBuilder::BlockBased(builder) => builder.add(key, value),
            TableBuilder::Cuckoo(builder) => builder.add(key, value),
            TableBuilder::Plain(builder) => builder.add(key, value),
        }
    }

    /// Counts the last entry as an older version of the key before it, for the properties of a
    /// block-based table.
    #[inline]
    pub fn count_older_version(&mut self) {
        match self {
            TableBuilder::BlockBased(builder) => builder.count_older_version(),
            TableBuilder::Cuckoo(_) | TableBuilder::Plain(_) => {}
        }
    }

    /// Adds a range tombstone; the order of the calls does not matter. They are written sorted and
    /// fragmented.
    pub fn add_tombstone(&mut self, tombstone: &RangeTombstone) {
        match self {
            TableBuilder::BlockBased(builder) => builder.add_tombstone(tombstone),
            TableBuilder::Cuckoo(builder) => builder.add_tombstone(tombstone),
            TableBuilder::Plain(builder) => builder.add_tombstone(tombstone),
        }
    }

    /// The size of the file so far: completed data blocks, buffered ones uncompressed.
    ///
    /// For a cuckoo table, its final size.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        match self {
            TableBuilder::BlockBased(builder) => builder.file_bytes(),
            TableBuilder::Cuckoo(builder) => builder.file_bytes(),
            TableBuilder::Plain(builder) => builder.file_bytes(),
        }
    }

    /// An upper estimate of the final size of the file, if no entry follows.
    #[must_use]
    pub fn estimated_file_bytes(&self) -> u64 {
        match self {
            TableBuilder::BlockBased(builder) => builder.estimated_file_bytes(),
            TableBuilder::Cuckoo(builder) => builder.file_bytes(),
            TableBuilder::Plain(builder) => builder.file_bytes(),
        }
    }

    /// The number of entries so far, including tombstones.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        match self {
            TableBuilder::BlockBased(builder) => builder.entry_count(),
            TableBuilder::Cuckoo(builder) => builder.entry_count(),
            TableBuilder::Plain(builder) => builder.entry_count(),
        }
    }

    /// Whether no entry was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entry_count() == 0
    }

    /// Writes the remaining sections, makes the file durable and closes it. The caller syncs the
    /// directory.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn finish(self) -> Result<FinishedTable> {
        match self {
            TableBuilder::BlockBased(builder) => builder.finish(),
            TableBuilder::Cuckoo(builder) => builder.finish(),
            TableBuilder::Plain(builder) => builder.finish(),
        }
    }

    /// Abandons the table. The caller removes the file.
    pub fn abandon(self) {
        drop(self);
    }
}
