//! Structures that speed up index block searches, built when a block is loaded.

use super::decoded::DecodedIndex;
use super::sampled::SampledIndex;
use super::{IndexFormat, IndexSearch};
use crate::block::Block;

/// The settings for building search structures of a table's index blocks when they are loaded.
#[derive(Clone, Debug)]
pub struct IndexPreparation {
    /// The format of the index entries.
    pub format: IndexFormat,
    /// Whether all index blocks are decoded.
    pub decode: bool,
}

/// A search structure for an index block, built when the block is loaded.
#[derive(Debug)]
pub enum PreparedIndex {
    /// All keys and handles, decoded.
    Decoded(DecodedIndex),
    /// Samples of the keys for interpolation search.
    Sampled(SampledIndex),
}

impl IndexPreparation {
    /// Whether index blocks may get a search structure, by these settings.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.decode || self.format.search != IndexSearch::Binary
    }

    /// Builds the search structure for an index block; `None` if plain binary search is used.
    pub(crate) fn prepared(&self, block: &Block) -> Option<PreparedIndex> {
        if self.decode
            && let Some(decoded) = DecodedIndex::new(block, &self.format)
        {
            return Some(PreparedIndex::Decoded(decoded));
        }
        if self.format.interpolates(block) {
            return SampledIndex::new(block, &self.format).map(PreparedIndex::Sampled);
        }
        None
    }
}

impl PreparedIndex {
    /// The heap memory of the structure.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        const HEADER: usize = size_of::<PreparedIndex>() + 2 * size_of::<usize>();
        let kept = match self {
            PreparedIndex::Decoded(decoded) => decoded.heap_bytes(),
            PreparedIndex::Sampled(sampled) => sampled.heap_bytes(),
        };
        HEADER.saturating_add(kept)
    }
}
