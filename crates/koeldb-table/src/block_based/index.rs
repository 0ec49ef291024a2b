//! Index entries: from a separator key to the handle of a block.
//!
//! A separator is not smaller than the last key of its block and smaller than the first key of the next. The
//! block of a target is therefore that of the first separator at or behind it. Separators are internal keys, or
//! user keys where no two neighbouring blocks share a user key.
//!
//! ```text
//! plain value:    varint64 offset | varint64 size | length-prefixed first key (index type 3)
//! delta-encoded:  the same in an entry that shares no key byte, otherwise
//!                 zigzag varint64 (size - size before) | length-prefixed first key (index type 3)
//! ```
//!
//! [`IndexScan`] borrows a block for one look-up; [`IndexCursor`] owns one for a scan.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;

use koeldb_base::Result;
use koeldb_base::coding;

use super::block::{
    Block, BlockCursor, Entry, EntryLayout, KeyBuffer, KeyFormat, Start, View, bad_entry,
};
use super::format::BlockHandle;

mod decoded;
mod interpolation;
mod number;

pub use decoded::DecodedIndex;
pub(super) use decoded::DecodedPlace;

/// How the restart points of an index block are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IndexSearch {
    /// By halving.
    #[default]
    Binary,
    /// By guessing from the keys' numbers; for the bytewise order and its reverse.
    Interpolation,
    /// By guessing where a block is marked as evenly spread and in bytewise order; otherwise by halving.
    Auto,
}

/// Which index blocks are decoded when they are loaded, at the cost of 17 bytes for each of their entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IndexDecoding {
    /// None.
    Never,
    /// Those that an open table holds.
    #[default]
    Pinned,
    /// Those in the cache too.
    Always,
}

/// How the entries of an index are to be read.
#[derive(Clone, Debug)]
pub struct IndexFormat {
    /// The keys.
    pub keys: KeyFormat,
    /// Whether handles are delta-encoded.
    pub delta_values: bool,
    /// Whether handles are followed by the first key of their block.
    pub first_keys: bool,
    /// How restart points are searched.
    pub search: IndexSearch,
}

impl IndexFormat {
    /// How entries of an index block carry their values.
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

    /// The handle in a plain value, and where in it the first key lies.
    fn take_plain_value<'v>(&self, mut value: &'v [u8]) -> Result<(BlockHandle, &'v [u8])> {
        let handle = BlockHandle::take(&mut value)?;
        let first_key = if self.first_keys {
            coding::take_length_prefixed(&mut value)?
        } else {
            &[]
        };
        Ok((handle, first_key))
    }

    /// Finds the place of the first separator at or behind the internal key `target` among the restart points.
    #[inline]
    fn search_restarts(&self, block: &Block, view: &View<'_>, target: &[u8]) -> Result<Start> {
        if let Some(decoded) = block.decoded() {
            decoded.search(view, &self.keys, target)
        } else if self.interpolates(block) {
            let key_at = |index| view.restart_key(index);
            interpolation::search(view.restart_key_count(), key_at, &self.keys, target)
        } else {
            view.halve(|key| self.keys.compare(key, target))
        }
    }

    /// Whether a block is searched by guessing. The mark of a block in another than the bytewise order says
    /// nothing: RocksDB sets it by the gaps between ascending numbers.
    #[inline]
    fn interpolates(&self, block: &Block) -> bool {
        match self.search {
            IndexSearch::Binary => false,
            IndexSearch::Interpolation => true,
            IndexSearch::Auto => block.is_uniform() && self.keys.order.is_bytewise(),
        }
    }
}

/// A position in an index block that lives as long as one look-up.
pub struct IndexScan<'b> {
    view: View<'b>,
    format: &'b IndexFormat,
    next: usize,
    key_in_block: Option<&'b [u8]>,
    key: KeyBuffer,
    handle: BlockHandle,
    first_key: &'b [u8],
}

impl<'b> IndexScan<'b> {
    /// The first entry whose separator is at or behind the internal key `target`; `None` if there is none.
    ///
    /// # Errors
    /// `Corruption` if an entry is malformed.
    #[inline]
    pub fn seek(block: &'b Block, format: &'b IndexFormat, target: &[u8]) -> Result<Option<Self>> {
        let view = View::new(block, format.layout());
        let start = format.search_restarts(block, &view, target)?;
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
            // The search put the next restart point behind the target.
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
        let mut scan = Self::at_restart(View::new(block, format.layout()), format, last_restart);
        let mut found = false;
        while scan.advance()? {
            found = true;
        }
        Ok(found.then_some(scan))
    }

    fn at_restart(view: View<'b>, format: &'b IndexFormat, restart: usize) -> Self {
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

    /// Goes to the next entry, and says whether there is one.
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

    /// The separator.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self.key_in_block {
            Some(key) => key,
            None => self.key.as_slice(),
        }
    }

    /// The handle of the block.
    #[inline]
    #[must_use]
    pub fn handle(&self) -> BlockHandle {
        self.handle
    }

    /// The first internal key of the block, with the sequence number as stored; empty if the index has none.
    #[inline]
    #[must_use]
    pub fn first_key(&self) -> &'b [u8] {
        self.first_key
    }
}

/// A position in an index block that owns the block.
#[derive(Clone, Debug)]
pub struct IndexCursor {
    cursor: BlockCursor,
    format: IndexFormat,
}

impl IndexCursor {
    /// A cursor that stands nowhere yet.
    #[must_use]
    pub fn new(block: Block, format: IndexFormat) -> Self {
        IndexCursor {
            cursor: BlockCursor::new(block, format.layout(), format.keys.clone()),
            format,
        }
    }

    /// Goes over to another block of the same index, and stands nowhere in it yet.
    pub fn reset(&mut self, block: Block) {
        self.cursor.reset(block, self.format.layout());
    }

    /// Whether the cursor stands on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.cursor.valid()
    }

    /// The separator.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    /// The handle of the block.
    ///
    /// # Errors
    /// `Corruption` if it is malformed.
    pub fn handle(&self) -> Result<BlockHandle> {
        if self.format.delta_values {
            return Ok(self.cursor.handle());
        }
        Ok(self.format.take_plain_value(self.cursor.value())?.0)
    }

    /// The first internal key of the block, with the sequence number as stored; empty if the index has none.
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
    /// `Corruption` if an entry is malformed. So it is for all movements.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.cursor.seek_to_first()
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    /// As [`IndexCursor::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.cursor.seek_to_last()
    }

    /// Moves to the first entry at or behind the internal key `target`.
    ///
    /// # Errors
    /// As [`IndexCursor::seek_to_first`].
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        let start = {
            let block = self.cursor.block();
            let view = View::new(block, self.format.layout());
            self.format.search_restarts(block, &view, target)?
        };
        self.cursor.seek_from(start, target)
    }

    /// Moves to the next entry. The cursor must be valid.
    ///
    /// # Errors
    /// As [`IndexCursor::seek_to_first`].
    pub fn advance(&mut self) -> Result<()> {
        self.cursor.advance()
    }

    /// Moves to the previous entry. The cursor must be valid.
    ///
    /// # Errors
    /// As [`IndexCursor::seek_to_first`].
    pub fn retreat(&mut self) -> Result<()> {
        self.cursor.retreat()
    }
}
