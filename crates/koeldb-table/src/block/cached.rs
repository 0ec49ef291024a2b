//! Blocks of all kinds, as the block cache keeps them.

use std::sync::Arc;

use koeldb_base::{Buffer, Error, Result};

use super::index::PreparedIndex;
use super::{Block, BlockBytes};
use crate::filter::FilterReader;

/// The kind of a block, which determines how it is parsed, charged and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// A data block of entries.
    Data,
    /// An index block.
    Index,
    /// A filter, or a partition of one.
    Filter,
    /// The index over the partitions of a filter.
    FilterIndex,
    /// The compression dictionary of data blocks.
    Dictionary,
    /// The block of range tombstones.
    RangeDeletions,
    /// The properties block.
    Properties,
    /// The metaindex block.
    Metaindex,
    /// A piece of a table whose format has no blocks: stored raw, without a trailer.
    Span,
}

/// A verified, decompressed and parsed block, as used by readers and kept in the cache.
#[derive(Debug)]
pub enum CachedBlock {
    /// A block of entries: data, index, metadata.
    Entries(Block),
    /// A filter.
    Filter(FilterReader<BlockBytes>),
    /// Unstructured bytes: a dictionary.
    Raw(BlockBytes),
}

impl CachedBlock {
    /// Creates an empty entry that charges memory held elsewhere to the cache.
    #[must_use]
    pub fn reservation() -> Self {
        CachedBlock::Raw(BlockBytes::new(
            Arc::new(Buffer::from_vec(Vec::new())),
            0,
            0,
        ))
    }

    /// Creates a filter block from the bytes of a filter; `None` if they are 4 GiB or more.
    pub(crate) fn filter_of(bytes: Vec<u8>) -> Option<Self> {
        let len = u32::try_from(bytes.len()).ok()?;
        let bytes = BlockBytes::new(Arc::new(Buffer::from_vec(bytes)), 0, len);
        Some(CachedBlock::Filter(FilterReader::new(bytes)))
    }

    /// Whether the entry only charges memory held elsewhere.
    #[must_use]
    pub fn is_reservation(&self) -> bool {
        matches!(self, CachedBlock::Raw(bytes) if bytes.is_empty())
    }

    /// The memory of the block, charged to the cache.
    #[must_use]
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "sizes of memory that is allocated"
    )]
    pub fn charge(&self) -> u64 {
        const OVERHEAD: usize = size_of::<CachedBlock>() + 2 * size_of::<usize>();
        let prepared = match self {
            CachedBlock::Entries(block) => block.prepared().map_or(0, PreparedIndex::heap_bytes),
            CachedBlock::Filter(_) | CachedBlock::Raw(_) => 0,
        };
        (OVERHEAD + self.bytes().heap_bytes() + prepared) as u64
    }

    /// The uncompressed bytes.
    #[must_use]
    pub fn bytes(&self) -> &BlockBytes {
        match self {
            CachedBlock::Entries(block) => block.bytes(),
            CachedBlock::Filter(filter) => filter.bytes(),
            CachedBlock::Raw(bytes) => bytes,
        }
    }

    /// The block of entries.
    ///
    /// # Errors
    /// `Corruption` if it is of another kind: two handles of different kinds refer to one block.
    #[inline]
    pub fn entries(&self) -> Result<&Block> {
        match self {
            CachedBlock::Entries(block) => Ok(block),
            CachedBlock::Filter(_) | CachedBlock::Raw(_) => Err(unexpected("entries")),
        }
    }

    /// The filter in this block.
    ///
    /// # Errors
    /// `Corruption` if it is of another kind: two handles of different kinds refer to one block.
    #[inline]
    pub fn filter(&self) -> Result<&FilterReader<BlockBytes>> {
        match self {
            CachedBlock::Filter(filter) => Ok(filter),
            CachedBlock::Entries(_) | CachedBlock::Raw(_) => Err(unexpected("a filter")),
        }
    }
}

/// Creates the error of a cached block of another kind than expected.
#[cold]
fn unexpected(what: &str) -> Error {
    Error::corruption(format!("block of another kind, expected {what}"))
}
