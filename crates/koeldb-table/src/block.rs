//! A block of entries: parsed and checked once when it is loaded, then searched in place.
//!
//! ```text
//! block:  entries | fixed32 restart [n] | u8 bucket [b] | fixed16 b | fixed32 start of values
//!                                         `- hash index -----------'  `- separated layout ---'
//!         | fixed32 packed footer
//! entry:  varint32 shared | varint32 unshared | varint32 value length | unshared key bytes | value
//! ```
//!
//! - In the *separated* layout all values follow all keys; an entry at a restart point has a
//!   `varint32 value offset` after the value length, and the other offsets follow from it.
//! - In the *handles* layout of a delta-encoded index there is no value length: a value is a block
//!   handle, or its difference from the preceding one, and optionally a first key.
//!
//! A key consists of the first `shared` bytes of the preceding key and the unshared bytes; at a
//! restart point nothing is shared. A point lookup ([`Block::search_point`]) never assembles keys:
//! it tracks the number of bytes that the last key has in common with the target, which with
//! `shared` decides most comparisons alone.
//!
//! Invariants of a parsed block: the restart points ascend, start at 0 and are inside the entries;
//! every section is inside the block. Entries are checked when they are read
//! (`table/block_based/block.cc`, RocksDB 11.9; `docs/formats/block-based-table.md`).
//!
//! [`index`]: the entries of index blocks. `cached`: blocks of all kinds, as the block cache keeps
//! them.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod bytes;
mod cached;
mod cursor;
mod entry;
mod held;
pub mod index;
pub(crate) mod interpolation;
pub(crate) mod number;
mod point;

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use koeldb_base::coding;
use koeldb_base::{Error, Result};

use crate::format::PackedFooter;
use index::{DecodedIndex, IndexPreparation, PreparedIndex};

pub use bytes::BlockBytes;
pub(crate) use bytes::{prefetch, prefetch_block, prefetch_item};
pub use cached::{BlockKind, CachedBlock};
pub use cursor::{BlockCursor, KeyFormat};
use entry::Lengths;
pub(crate) use entry::{Entry, KeyBuffer, bad_entry};
pub use held::HeldBlock;
pub use point::{PointEnd, PointVisitor};

const HASH_SECTION_MAX: usize = 65535;
const WORD: usize = 4;

/// The number of restart points cached beside the block and prefetched together; most data blocks
/// have fewer.
const FEW_RESTARTS: usize = 4;

/// The byte range of a value within its block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueRange {
    /// The offset of its first byte.
    pub start: u32,
    /// The length of the value.
    pub len: u32,
}

impl ValueRange {
    /// Returns the bytes of this range in `bytes`, the block contents; empty if out of range.
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        let start = self.start as usize;
        bytes
            .get(start..start.saturating_add(self.len as usize))
            .unwrap_or_default()
    }
}

/// The way a block stores its values: after each key, in a separate section, or as handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryLayout {
    /// Each value follows its key.
    Interleaved,
    /// All values follow all keys.
    Separated,
    /// Delta-encoded handles of an index.
    Handles {
        /// Whether each handle is followed by the first key of its block.
        first_keys: bool,
    },
}

/// The result of a search among restart points: where to begin a linear scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The entry at this restart point is the first at or after the target, if it exists.
    Found(usize),
    /// This restart point is before the target, and the next one is not: a scan from here finds the
    /// entry.
    Scan(usize),
}

/// The offsets and counts of a parsed block's sections: entries, restart array and hash index.
#[derive(Clone, Copy, Debug)]
struct Sections {
    /// The end of the entries; in the separated layout also the start of the values.
    entries_end: u32,
    /// The start of the restart array, which is also the end of the values.
    restarts_at: u32,
    restart_count: u32,
    buckets_at: u32,
    bucket_count: u16,
    separated: bool,
    uniform: bool,
    /// A copy of the restart points, if they are few: the stored array is far from the entries.
    few_restarts: [[u8; WORD]; FEW_RESTARTS],
}

/// A parsed block of entries.
#[derive(Clone, Debug)]
pub struct Block {
    bytes: BlockBytes,
    sections: Sections,
    /// A structure that speeds up searches of an index block.
    prepared: Option<Arc<PreparedIndex>>,
    kind: BlockKind,
}

impl Sections {
    /// The stored restart points of the block with these contents.
    fn restart_array<'b>(&self, contents: &'b [u8]) -> &'b [[u8; WORD]] {
        let array = contents.get(self.restarts_at as usize..self.buckets_at as usize);
        array.unwrap_or_default().as_chunks().0
    }

    /// Returns whether values are interleaved or separated; index blocks may instead have handles.
    #[inline]
    fn layout(&self) -> EntryLayout {
        if self.separated {
            EntryLayout::Separated
        } else {
            EntryLayout::Interleaved
        }
    }
}

impl Block {
    /// Parses the footer of a block and checks its sections and restart points.
    ///
    /// # Errors
    /// `Corruption` if they are inconsistent.
    pub fn parse(bytes: BlockBytes) -> Result<Self> {
        let contents = bytes.as_slice();
        let bad = || Error::corruption("bad block contents");
        let mut end = contents.len().checked_sub(WORD).ok_or_else(bad)?;
        let packed = PackedFooter::decode(coding::fixed32_at(contents, end).ok_or_else(bad)?)?;
        let mut values_at = None;
        if packed.separated {
            end = end.checked_sub(WORD).ok_or_else(bad)?;
            values_at = Some(coding::fixed32_at(contents, end).ok_or_else(bad)?);
        }
        let mut buckets_at = end;
        let mut bucket_count = 0;
        if packed.hash_index {
            let count_at = end.checked_sub(2).ok_or_else(bad)?;
            bucket_count = coding::fixed16_at(contents, count_at).ok_or_else(bad)?;
            if end > HASH_SECTION_MAX || bucket_count == 0 {
                return Err(bad());
            }
            buckets_at = count_at
                .checked_sub(usize::from(bucket_count))
                .ok_or_else(bad)?;
        }
        let restarts_bytes = WORD.saturating_mul(packed.restart_count as usize);
        let restarts_at = buckets_at.checked_sub(restarts_bytes).ok_or_else(bad)?;
        let restarts_at = u32::try_from(restarts_at).map_err(|_| bad())?;
        let entries_end = values_at.unwrap_or(restarts_at);
        if entries_end > restarts_at {
            return Err(bad());
        }
        let sections = Sections {
            entries_end,
            restarts_at,
            restart_count: packed.restart_count,
            buckets_at: u32::try_from(buckets_at).map_err(|_| bad())?,
            bucket_count,
            separated: packed.separated,
            uniform: packed.uniform,
            few_restarts: [[0; WORD]; FEW_RESTARTS],
        };
        let mut block = Block {
            bytes,
            sections,
            prepared: None,
            kind: BlockKind::Data,
        };
        block.check_restarts()?;
        let restarts = block.sections.restart_array(block.bytes.as_slice());
        if restarts.len() <= FEW_RESTARTS {
            let mut few = [[0; WORD]; FEW_RESTARTS];
            for (kept, word) in few.iter_mut().zip(restarts) {
                *kept = *word;
            }
            block.sections.few_restarts = few;
        }
        Ok(block)
    }

    /// Checks that the restart offsets ascend from 0 and lie before the end of the entries.
    fn check_restarts(&self) -> Result<()> {
        let mut expected_min = 0;
        let sections = &self.sections;
        let restarts = sections.restart_array(self.bytes.as_slice());
        for (index, word) in restarts.iter().enumerate() {
            let offset = u32::from_le_bytes(*word);
            let inside = offset < sections.entries_end || (index == 0 && sections.entries_end == 0);
            if offset < expected_min || (index == 0 && offset != 0) || !inside {
                return Err(Error::corruption(format!(
                    "bad block contents: restart point {index} at {offset}"
                )));
            }
            expected_min = offset.saturating_add(1);
        }
        if sections.restart_count == 0 && sections.entries_end != 0 {
            return Err(Error::corruption(
                "bad block contents: entries before the first restart point",
            ));
        }
        Ok(())
    }

    /// Sets the kind of a block, which is a data block after parsing, and returns the block.
    pub(crate) fn of_kind(self, kind: BlockKind) -> Self {
        Block { kind, ..self }
    }

    /// The kind of the block.
    #[must_use]
    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// The bytes of the block.
    #[must_use]
    pub fn bytes(&self) -> &BlockBytes {
        &self.bytes
    }

    /// Builds the search structure of an index block (decoded or sampled keys), if configured.
    pub(crate) fn prepare(&mut self, preparation: &IndexPreparation) {
        self.prepared = preparation.prepared(self).map(Arc::new);
    }

    /// The structure (decoded or sampled keys) that speeds up searches of an index block, if built.
    #[inline]
    #[must_use]
    pub fn prepared(&self) -> Option<&PreparedIndex> {
        self.prepared.as_deref()
    }

    /// The decoded entries of an index block, if they are decoded.
    #[inline]
    #[must_use]
    pub fn decoded(&self) -> Option<&DecodedIndex> {
        match self.prepared() {
            Some(PreparedIndex::Decoded(decoded)) => Some(decoded),
            _ => None,
        }
    }

    /// Whether the block has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sections.entries_end == 0
    }

    /// The number of restart points.
    #[must_use]
    pub fn restart_count(&self) -> u32 {
        self.sections.restart_count
    }

    /// Whether the keys of an index block are marked as uniformly distributed.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.sections.uniform
    }

    /// Returns whether values are interleaved or separated; index blocks may instead have handles.
    #[must_use]
    pub fn layout(&self) -> EntryLayout {
        self.sections.layout()
    }
}

/// The sections of a block as slices, borrowed for one search.
pub(crate) struct BlockSlices<'b> {
    contents: &'b [u8],
    pub(crate) entries: &'b [u8],
    restarts: &'b [[u8; WORD]],
    values_end: usize,
    layout: EntryLayout,
}

impl Start {
    /// The restart point at which a scan begins.
    #[inline]
    pub(crate) fn restart(self) -> usize {
        match self {
            Start::Found(restart) | Start::Scan(restart) => restart,
        }
    }
}

impl<'b> BlockSlices<'b> {
    #[inline]
    pub(crate) fn new(block: &'b Block, layout: EntryLayout) -> Self {
        Self::of(block.bytes.as_slice(), &block.sections, layout)
    }

    /// Creates the view of `contents` with these sections.
    #[inline]
    fn of(contents: &'b [u8], sections: &'b Sections, layout: EntryLayout) -> Self {
        let few = (sections.few_restarts).get(..sections.restart_count as usize);
        BlockSlices {
            contents,
            entries: contents
                .get(..sections.entries_end as usize)
                .unwrap_or_default(),
            restarts: few.unwrap_or_else(|| sections.restart_array(contents)),
            values_end: sections.restarts_at as usize,
            layout,
        }
    }

    /// The number of restart points with a key: 0 for an empty block, otherwise all restart points.
    #[inline]
    pub(crate) fn restart_key_count(&self) -> usize {
        if self.entries.is_empty() {
            0
        } else {
            self.restarts.len()
        }
    }

    /// Returns the offset of restart point `index`; for one after the last, the end of the entries.
    #[inline]
    pub(crate) fn restart_offset(&self, index: usize) -> usize {
        self.restarts.get(index).map_or(self.entries.len(), |word| {
            u32::from_le_bytes(*word) as usize
        })
    }

    /// The key at a restart point.
    #[inline]
    pub(crate) fn restart_key(&self, index: usize) -> Result<&'b [u8]> {
        let at = self.restart_offset(index);
        let lengths = match self.layout {
            EntryLayout::Interleaved => Lengths::decode(self.entries, at),
            EntryLayout::Separated => Lengths::decode(self.entries, at)
                .and_then(|lengths| lengths.skip_offset(self.entries)),
            EntryLayout::Handles { .. } => Lengths::decode_without_value(self.entries, at),
        };
        lengths
            .filter(|lengths| lengths.shared == 0)
            .and_then(|lengths| {
                let end = lengths.key_start.saturating_add(lengths.unshared);
                self.entries.get(lengths.key_start..end)
            })
            .ok_or_else(|| bad_entry(at))
    }

    /// Whether to search a data block by interpolation: if enabled, with 16 or more restart points.
    #[inline]
    pub(crate) fn guesses_in_data(&self, keys: &KeyFormat) -> bool {
        const MANY_RESTARTS: usize = 16;
        keys.guess_in_data && self.restarts.len() >= MANY_RESTARTS
    }

    /// Finds the position of the internal key `target` among the restart points by interpolation.
    #[inline]
    pub(crate) fn guess(&self, keys: &KeyFormat, target: &[u8]) -> Result<Start> {
        let key_at = |index| self.restart_key(index);
        interpolation::search(self.restart_key_count(), key_at, keys, target)
    }

    /// Finds the position of a target among the restart points by binary search.
    #[inline]
    pub(crate) fn halve(&self, compare: impl Fn(&[u8]) -> Ordering) -> Result<Start> {
        halve(
            0..self.restart_key_count(),
            |index| self.restart_key(index),
            compare,
        )
    }
}

/// Finds the position of a target among ascending keys by binary search.
///
/// `compare` compares a key with the target.
#[inline]
pub(crate) fn halve<'k>(
    range: Range<usize>,
    key_at: impl Fn(usize) -> Result<&'k [u8]>,
    compare: impl Fn(&[u8]) -> Ordering,
) -> Result<Start> {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low.midpoint(high);
        match compare(key_at(middle)?) {
            Ordering::Less => low = middle.saturating_add(1),
            Ordering::Greater => high = middle,
            Ordering::Equal => return Ok(Start::Found(middle)),
        }
    }
    Ok(if low == range.start {
        Start::Found(low)
    } else {
        Start::Scan(low.saturating_sub(1))
    })
}

#[cfg(test)]
mod tests;
