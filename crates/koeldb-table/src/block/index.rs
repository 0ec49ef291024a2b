//! Index entries, which map separator keys to block handles.
//!
//! A separator is not smaller than the last key of its block and smaller than the first key of the
//! next. The block of a target is therefore that of the first separator at or after it. Separators
//! are internal keys, or user keys where no two neighbouring blocks share a user key.
//!
//! ```text
//! plain value:    varint64 offset | varint64 size | length-prefixed first key (index type 3)
//! delta-encoded:  as above in an entry that shares no key byte, otherwise
//!                 zigzag varint64 (size - size before) | length-prefixed first key (index type 3)
//! ```
//!
//! [`IndexScan`] borrows a block for one lookup; [`IndexCursor`] holds one for a scan.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;
use std::ops::Range;

use koeldb_base::Result;
use koeldb_base::coding;
use koeldb_base::key::user_key;

use crate::block::{
    Block, BlockCursor, BlockSlices, Entry, EntryLayout, HeldBlock, KeyBuffer, KeyFormat, Start,
    bad_entry, halve,
};
use crate::format::BlockHandle;

mod decoded;
#[cfg(test)]
mod limit;
mod linear_model;
mod prepared;
mod sampled;

pub use decoded::DecodedIndex;
pub use prepared::{IndexPreparation, PreparedIndex};
pub use sampled::SampledIndex;

/// The number of keys searched for together.
pub(crate) const INDEX_BATCH: usize = 32;

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// The result of an index search: the block that may hold a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexSearchResult {
    /// The key can only be in this block: its separator is after the key.
    Block(BlockHandle),
    /// The key is after all blocks.
    Behind,
    /// Undetermined: the separators must be compared, and several blocks may qualify.
    Unknown,
}

/// The search method for an index block's restart points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IndexSearch {
    /// Binary search.
    #[default]
    Binary,
    /// Interpolation search, in the bytewise order and its reverse.
    ///
    /// It also applies to data blocks with 16 restart points or more.
    Interpolation,
    /// Interpolation for blocks in bytewise order marked as uniform; otherwise binary search.
    Auto,
}

/// The choice of the index blocks that are decoded when loaded, at 17 bytes per entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IndexDecoding {
    /// No index blocks.
    Never,
    /// Index blocks that an open table pins.
    #[default]
    Pinned,
    /// Index blocks in the cache too.
    Always,
}

/// The interpretation of an index's entries.
#[derive(Clone, Debug)]
pub struct IndexFormat {
    /// The key format.
    pub keys: KeyFormat,
    /// Whether handles are delta-encoded.
    pub delta_values: bool,
    /// Whether each handle is followed by the first key of its block.
    pub first_keys: bool,
    /// The search method for restart points.
    pub search: IndexSearch,
}

impl IndexFormat {
    /// The layout of values in an index block.
    #[must_use]
    pub fn layout(&self) -> EntryLayout {
        if self.delta_values {
            EntryLayout::Handles {
                first_keys: self.first_keys,
            }
        } else {
            EntryLayout::Interleaved
        }
    }

    /// Decodes the handle in a plain value, and the first key after it.
    fn take_plain_value<'v>(&self, mut value: &'v [u8]) -> Result<(BlockHandle, &'v [u8])> {
        let handle = BlockHandle::take(&mut value)?;
        let first_key = if self.first_keys {
            coding::take_length_prefixed(&mut value)?
        } else {
            &[]
        };
        Ok((handle, first_key))
    }

    /// Finds the first separator at or after the internal key `target` among the restart points.
    #[inline]
    fn search_restarts(
        &self,
        block: &Block,
        view: &BlockSlices<'_>,
        target: &[u8],
    ) -> Result<Start> {
        match block.prepared() {
            Some(PreparedIndex::Decoded(decoded)) => decoded.search(view, &self.keys, target),
            Some(PreparedIndex::Sampled(sampled)) => {
                sampled.search(|at| view.restart_key(at), &self.keys, target)
            }
            None if self.interpolates(block) => view.guess(&self.keys, target),
            None => view.halve(|key| self.keys.compare(key, target)),
        }
    }

    /// Finds the blocks that may hold the user keys of up to [`INDEX_BATCH`] internal keys.
    ///
    /// The keys must ascend; they are searched together.
    pub(crate) fn find_blocks(
        &self,
        block: &Block,
        targets: &[&[u8]],
        places: &mut [IndexSearchResult],
    ) -> Result<()> {
        if let Some(decoded) = block.decoded() {
            let user_keys = targets.iter().map(|target| user_key(target));
            decoded.find_blocks(&self.keys.order, user_keys, places);
            return Ok(());
        }
        let view = BlockSlices::new(block, self.layout());
        let mut starts = [Start::Found(0); INDEX_BATCH];
        if self.interpolates(block) {
            for (start, target) in starts.iter_mut().zip(targets) {
                *start = self.search_restarts(block, &view, target)?;
            }
        } else {
            let all = 0..view.restart_key_count();
            self.halve_together(&view, all, targets, &mut starts)?;
        }
        for ((start, target), place) in starts.into_iter().zip(targets).zip(places) {
            *place = match IndexScan::seek_from(block, self, start, target)? {
                Some(scan) => self.place_of(&scan, target),
                None => IndexSearchResult::Behind,
            };
        }
        Ok(())
    }

    /// Searches for the middle target, then on either side of its position for the others.
    ///
    /// No two searches repeat the same steps.
    fn halve_together(
        &self,
        view: &BlockSlices<'_>,
        range: Range<usize>,
        targets: &[&[u8]],
        starts: &mut [Start],
    ) -> Result<()> {
        let middle = targets.len() / 2;
        let (Some(target), Some((starts_before, [start, starts_behind @ ..]))) =
            (targets.get(middle), starts.split_at_mut_checked(middle))
        else {
            return Ok(());
        };
        let key_at = |index| view.restart_key(index);
        let compare = |key: &[u8]| self.keys.compare(key, target);
        let first = match halve(range.clone(), key_at, compare)? {
            Start::Found(first) => first,
            Start::Scan(before) => before.saturating_add(1),
        };
        *start = match first.checked_sub(1) {
            Some(before) => Start::Scan(before),
            None => Start::Found(0),
        };
        let (targets_before, targets_behind) = targets.split_at(middle);
        let targets_behind = targets_behind.get(1..).unwrap_or_default();
        self.halve_together(view, range.start..first, targets_before, starts_before)?;
        self.halve_together(view, first..range.end, targets_behind, starts_behind)
    }

    /// The block that may hold a target's user key, given the first entry at or after the target.
    fn place_of(&self, scan: &IndexScan<'_>, target: &[u8]) -> IndexSearchResult {
        let order = &self.keys.order;
        let (wanted, first_key) = (user_key(target), scan.first_key());
        if !first_key.is_empty() && order.compare(user_key(first_key), wanted).is_gt() {
            IndexSearchResult::Behind
        } else if !self.keys.user_keys && order.compare(user_key(scan.key()), wanted).is_eq() {
            IndexSearchResult::Unknown
        } else {
            IndexSearchResult::Block(scan.handle())
        }
    }

    /// Whether an index block is searched by interpolation.
    ///
    /// The uniform mark is meaningless in other orders than the bytewise one: RocksDB sets it by
    /// the gaps between ascending numbers.
    #[inline]
    fn interpolates(&self, block: &Block) -> bool {
        match self.search {
            IndexSearch::Binary => false,
            IndexSearch::Interpolation => true,
            IndexSearch::Auto => block.is_uniform() && self.keys.order.is_bytewise(),
        }
    }
}

/// A position in an index block, for the duration of one lookup.
pub struct IndexScan<'b> {
    view: BlockSlices<'b>,
    format: &'b IndexFormat,
    next: usize,
    key_in_block: Option<&'b [u8]>,
    key: KeyBuffer,
    handle: BlockHandle,
    first_key: &'b [u8],
}

impl<'b> IndexScan<'b> {
    /// Finds the first entry whose separator is at or after the internal key `target`.
    ///
    /// # Errors
    /// `Corruption` if an entry is malformed.
    #[inline]
    pub fn seek(block: &'b Block, format: &'b IndexFormat, target: &[u8]) -> Result<Option<Self>> {
        let start =
            format.search_restarts(block, &BlockSlices::new(block, format.layout()), target)?;
        Self::seek_from(block, format, start, target)
    }

    /// Completes a seek whose restart points were searched already.
    #[inline]
    fn seek_from(
        block: &'b Block,
        format: &'b IndexFormat,
        start: Start,
        target: &[u8],
    ) -> Result<Option<Self>> {
        let view = BlockSlices::new(block, format.layout());
        let restart = start.restart();
        let behind = view.restart_offset(restart.saturating_add(1));
        let mut scan = Self::at_restart(view, format, restart);
        if !scan.advance()? {
            return Ok(None);
        }
        if start == Start::Found(restart) {
            return Ok(Some(scan));
        }
        loop {
            // The search put the next restart point after the target.
            let found = scan.next == behind;
            if !scan.advance()? {
                return Ok(None);
            }
            if found || format.keys.compare(scan.key(), target) != Ordering::Less {
                return Ok(Some(scan));
            }
        }
    }

    /// The last entry; `None` if there is none.
    ///
    /// # Errors
    /// `Corruption` if an entry is malformed.
    pub fn last(block: &'b Block, format: &'b IndexFormat) -> Result<Option<Self>> {
        let last_restart = (block.restart_count() as usize).saturating_sub(1);
        let mut scan = Self::at_restart(
            BlockSlices::new(block, format.layout()),
            format,
            last_restart,
        );
        let mut found = false;
        while scan.advance()? {
            found = true;
        }
        Ok(found.then_some(scan))
    }

    /// Creates a scan before the first entry of a restart interval.
    fn at_restart(view: BlockSlices<'b>, format: &'b IndexFormat, restart: usize) -> Self {
        IndexScan {
            next: view.restart_offset(restart),
            view,
            format,
            key_in_block: None,
            key: KeyBuffer::new(),
            handle: BlockHandle::NULL,
            first_key: &[],
        }
    }

    /// Moves to the next entry; returns whether there is one.
    ///
    /// # Errors
    /// `Corruption` if it is malformed.
    pub fn advance(&mut self) -> Result<bool> {
        let at = self.next;
        if at >= self.view.entries.len() {
            return Ok(false);
        }
        let entry = if self.format.delta_values {
            let (entry, handle) = self
                .view
                .handle_entry(at, self.format.first_keys, self.handle)
                .ok_or_else(|| bad_entry(at))?;
            self.handle = handle;
            self.first_key = entry.value.of(self.view.entries);
            entry
        } else {
            let entry = self.view.entry(at, false, 0).ok_or_else(|| bad_entry(at))?;
            let value = entry.value.of(self.view.entries);
            (self.handle, self.first_key) = self.format.take_plain_value(value)?;
            entry
        };
        self.take_key(&entry).ok_or_else(|| bad_entry(at))?;
        self.next = entry.next;
        Ok(true)
    }

    /// Replaces the current key by that of `entry`; `None` if it is malformed.
    #[inline]
    fn take_key(&mut self, entry: &Entry) -> Option<()> {
        let own = self.view.entries.get(entry.key_start..entry.key_end)?;
        if entry.shared == 0 {
            self.key_in_block = Some(own);
        } else {
            if let Some(before) = self.key_in_block.take() {
                self.key.replace(0, before)?;
            }
            self.key.replace(entry.shared, own)?;
        }
        Some(())
    }

    /// The separator at the current entry.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self.key_in_block {
            Some(key) => key,
            None => self.key.as_slice(),
        }
    }

    /// The handle of the data block at the current entry.
    #[inline]
    #[must_use]
    pub fn handle(&self) -> BlockHandle {
        self.handle
    }

    /// The first internal key of the block, with its stored sequence number; empty if the index has
    /// none.
    #[inline]
    #[must_use]
    pub fn first_key(&self) -> &'b [u8] {
        self.first_key
    }
}

/// A position in an index block that holds the block.
#[derive(Clone, Debug)]
pub struct IndexCursor<'t> {
    cursor: BlockCursor<'t>,
    format: IndexFormat,
}

impl<'t> IndexCursor<'t> {
    /// Creates an unpositioned cursor.
    #[must_use]
    pub fn new(block: impl Into<HeldBlock<'t>>, format: IndexFormat) -> Self {
        IndexCursor {
            cursor: BlockCursor::new(block, format.layout(), format.keys.clone()),
            format,
        }
    }

    /// Switches to another block of the same index, unpositioned.
    pub fn reset(&mut self, block: HeldBlock<'t>) {
        self.cursor.reset(block, self.format.layout());
    }

    /// Returns a cursor at the same position with a counted reference to its block.
    pub(crate) fn detached<'a>(&self) -> IndexCursor<'a> {
        IndexCursor {
            cursor: self.cursor.detached(),
            format: self.format.clone(),
        }
    }

    /// Whether the cursor is positioned on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.cursor.valid()
    }

    /// The separator at the current entry.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    /// The handle of the data block at the current entry.
    ///
    /// # Errors
    /// `Corruption` if it is malformed.
    pub fn handle(&self) -> Result<BlockHandle> {
        if self.format.delta_values {
            return Ok(self.cursor.handle());
        }
        Ok(self.format.take_plain_value(self.cursor.value())?.0)
    }

    /// The first internal key of the block, with its stored sequence number; empty if the index has
    /// none.
    ///
    /// # Errors
    /// `Corruption` if it is malformed.
    pub fn first_key(&self) -> Result<&[u8]> {
        if self.format.delta_values {
            return Ok(self.cursor.value());
        }
        Ok(self.format.take_plain_value(self.cursor.value())?.1)
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    /// `Corruption` if an entry is malformed. This applies to all movements.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.cursor.seek_to_first()
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    /// See [`IndexCursor::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.cursor.seek_to_last()
    }

    /// Moves to the first entry in the given direction.
    ///
    /// # Errors
    /// See [`IndexCursor::seek_to_first`].
    pub fn enter(&mut self, direction: Direction) -> Result<()> {
        match direction {
            Direction::Forward => self.seek_to_first(),
            Direction::Backward => self.seek_to_last(),
        }
    }

    /// Moves to the first entry at or after the internal key `target`.
    ///
    /// # Errors
    /// See [`IndexCursor::seek_to_first`].
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        let start = {
            let block = self.cursor.block();
            let view = BlockSlices::new(block, self.format.layout());
            self.format.search_restarts(block, &view, target)?
        };
        self.cursor.seek_from(start, target)
    }

    /// Moves to the next entry. The cursor must be valid.
    ///
    /// # Errors
    /// See [`IndexCursor::seek_to_first`].
    pub fn advance(&mut self) -> Result<()> {
        self.cursor.advance()
    }

    /// Moves to the previous entry. The cursor must be valid.
    ///
    /// # Errors
    /// See [`IndexCursor::seek_to_first`].
    pub fn retreat(&mut self) -> Result<()> {
        self.cursor.retreat()
    }

    /// Moves one entry in the given direction. The cursor must be valid.
    ///
    /// # Errors
    /// See [`IndexCursor::seek_to_first`].
    pub fn step(&mut self, direction: Direction) -> Result<()> {
        match direction {
            Direction::Forward => self.advance(),
            Direction::Backward => self.retreat(),
        }
    }
}

#[cfg(test)]
mod tests;
