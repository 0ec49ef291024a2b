//! What is kept beside an index block so that it is searched faster, made when the block is loaded.

use super::super::block::Block;
use super::decoded::DecodedIndex;
use super::sampled::SampledIndex;
use super::{IndexFormat, IndexSearch};

/// How the index blocks of a table are prepared when they are loaded.
#[derive(Clone, Debug)]
pub struct IndexPreparation {
    /// How their entries are read.
    pub format: IndexFormat,
    /// Whether all of them are decoded.
    pub decode: bool,
}

/// What is kept beside an index block.
#[derive(Debug)]
pub enum Shortcut {
    /// All of its keys and handles.
    Decoded(DecodedIndex),
    /// A few of its keys, where it is searched by interpolation.
    Sampled(SampledIndex),
}

impl IndexPreparation {
    /// Whether there is anything to do.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.decode || self.format.search != IndexSearch::Binary
    }

    /// What a block gains from, if it does.
    pub(in super::super) fn shortcut(&self, block: &Block) -> Option<Shortcut> {
        if self.decode
            && let Some(decoded) = DecodedIndex::new(block, &self.format)
        {
            return Some(Shortcut::Decoded(decoded));
        }
        if self.format.interpolates(block) {
            return SampledIndex::new(block, &self.format).map(Shortcut::Sampled);
        }
        None
    }
}

impl Shortcut {
    /// The memory this takes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        const HEADER: usize = size_of::<Shortcut>() + 2 * size_of::<usize>();
        let kept = match self {
            Shortcut::Decoded(decoded) => decoded.heap_bytes(),
            Shortcut::Sampled(sampled) => sampled.heap_bytes(),
        };
        HEADER.saturating_add(kept)
    }
}
