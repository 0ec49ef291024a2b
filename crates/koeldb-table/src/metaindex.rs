//! The metaindex: a block that maps names to the handles of metadata blocks.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::collections::BTreeMap;

use koeldb_base::{Error, Result};

use crate::block::{Block, BlockCursor, KeyFormat};
use crate::format::BlockHandle;

/// The properties block, which every block-based table has.
pub const PROPERTIES: &str = "rocksdb.properties";
/// The index block, or the top level of a partitioned index (from format version 6 on).
pub const INDEX: &str = "rocksdb.index";
/// A filter over the whole table, Bloom or Ribbon.
pub const FULL_FILTER: &str = "fullfilter.rocksdb.BuiltinBloomFilter";
/// The index over the partitions of a filter.
pub const PARTITIONED_FILTER: &str = "partitionedfilter.rocksdb.BuiltinBloomFilter";
/// The compression dictionary of data blocks.
pub const COMPRESSION_DICTIONARY: &str = "rocksdb.compression_dict";
/// The block of range tombstones.
pub const RANGE_DELETIONS: &str = "rocksdb.range_del";
/// The key prefixes of a hash index.
pub const HASH_INDEX_PREFIXES: &str = "rocksdb.hashindex.prefixes";
/// The positions in the index of a hash index's prefixes.
pub const HASH_INDEX_METADATA: &str = "rocksdb.hashindex.metadata";

/// The metaindex of a table: the handles of its metadata blocks by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metaindex {
    handles: BTreeMap<Vec<u8>, BlockHandle>,
}

impl Metaindex {
    /// Decodes the metaindex block.
    ///
    /// # Errors
    /// `Corruption` if an entry or a handle is malformed, or the names are out of order.
    pub fn parse(block: &Block) -> Result<Self> {
        let mut handles = BTreeMap::new();
        for (name, value) in named_entries(block)? {
            let handle = BlockHandle::take(&mut value.as_slice())?;
            if handles
                .last_key_value()
                .is_some_and(|(last, _)| *last >= name)
            {
                return Err(Error::corruption("metaindex unsorted"));
            }
            handles.insert(name, handle);
        }
        Ok(Metaindex { handles })
    }

    /// Returns the handle of the metadata block with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<BlockHandle> {
        self.handles.get(name.as_bytes()).copied()
    }

    /// Iterates over the names and handles of all metadata blocks, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], BlockHandle)> {
        self.handles
            .iter()
            .map(|(name, handle)| (name.as_slice(), *handle))
    }
}

/// Returns the entries of a metadata block, such as the properties: names and values.
///
/// # Errors
/// `Corruption` if an entry is malformed.
pub fn named_entries(block: &Block) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut entries = Vec::new();
    let mut cursor = BlockCursor::new(block.clone(), block.layout(), KeyFormat::names());
    cursor.seek_to_first()?;
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.advance()?;
    }
    Ok(entries)
}
