//! A cursor in a block, which assembles keys as it moves.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;

use koeldb_base::key::{FOOTER_BYTES, footer_of};
use koeldb_base::{KeyOrder, PinnedSlice, Result, SeqNo};

use super::bytes::{LINE_BYTES, prefetch, prefetch_all};
use super::entry::bad_entry;
use super::{Block, EntryLayout, HeldBlock, Start, ValueRange};
use crate::format::BlockHandle;

/// The distance by which a cursor prefetches ahead of an entry.
const SCAN_AHEAD_BYTES: usize = 1024;

/// How the keys of a block are interpreted: their order, kind, and global sequence number.
#[derive(Clone, Debug)]
pub struct KeyFormat {
    /// The order of user keys.
    pub order: KeyOrder,
    /// Whether keys are user keys, as index keys may be, instead of internal keys.
    pub user_keys: bool,
    /// The sequence number that replaces that of every internal key.
    pub global_seqno: Option<SeqNo>,
    /// Whether data blocks with many restart points are searched by interpolation.
    pub guess_in_data: bool,
}

impl KeyFormat {
    /// The format of metadata blocks (properties, metaindex): names as keys, in bytewise order.
    #[must_use]
    pub fn names() -> Self {
        KeyFormat {
            order: KeyOrder::Bytewise,
            user_keys: true,
            global_seqno: None,
            guess_in_data: false,
        }
    }

    /// Compares a stored key (user key or internal key) with the internal key `target`.
    #[inline]
    pub(crate) fn compare(&self, key: &[u8], target: &[u8]) -> Ordering {
        let (target_user, target_footer) = footer_of(target);
        if self.user_keys {
            return self.order.compare(key, target_user);
        }
        let (user, footer) = footer_of(key);
        self.order
            .compare(user, target_user)
            .then_with(|| target_footer.cmp(&self.footer(footer)))
    }

    /// Returns the user key of a stored key, which is an internal key or a user key itself.
    #[inline]
    pub(crate) fn user_part<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        if self.user_keys {
            key
        } else {
            footer_of(key).0
        }
    }

    /// Returns a key's packed sequence number and type after applying the global sequence number.
    #[inline]
    fn footer(&self, stored: u64) -> u64 {
        match self.global_seqno {
            Some(seqno) => (seqno << 8) | (stored & 0xff),
            None => stored,
        }
    }
}

/// Where the current key of a cursor is: in the block, or assembled in a buffer.
#[derive(Clone, Copy, Debug)]
enum KeyLocation {
    /// In the block, between two offsets.
    Block(usize, usize),
    /// Assembled in the buffer of keys.
    Buffer,
    /// Assembled in the other buffer, with the global sequence number.
    Rewritten,
}

/// A cursor over the entries of a block (RocksDB: `BlockIter`).
///
/// [`BlockCursor::valid`] tells whether it is on an entry; some calls require it.
#[derive(Clone, Debug)]
pub struct BlockCursor<'t> {
    block: HeldBlock<'t>,
    format: KeyFormat,
    layout: EntryLayout,
    valid: bool,
    at: usize,
    next: usize,
    /// The restart point of the next entry, or the first one after it.
    restart_ahead: usize,
    key_place: KeyLocation,
    /// The stored key, if it is not contiguous in the block.
    key: Vec<u8>,
    /// The current key with the global sequence number; later keys must not share its bytes.
    rewritten: Vec<u8>,
    value: ValueRange,
    handle: BlockHandle,
}

impl<'t> BlockCursor<'t> {
    /// Creates an unpositioned cursor.
    #[must_use]
    pub fn new(block: impl Into<HeldBlock<'t>>, layout: EntryLayout, format: KeyFormat) -> Self {
        BlockCursor {
            block: block.into(),
            format,
            layout,
            valid: false,
            at: 0,
            next: 0,
            restart_ahead: 0,
            key_place: KeyLocation::Buffer,
            key: Vec::new(),
            rewritten: Vec::new(),
            value: ValueRange::default(),
            handle: BlockHandle::NULL,
        }
    }

    /// Switches to another block of the same kind, unpositioned.
    pub fn reset(&mut self, block: HeldBlock<'t>, layout: EntryLayout) {
        self.block = block;
        self.layout = layout;
        self.valid = false;
    }

    /// Clones the cursor at its position with an owned reference to its block, free of `'t`.
    pub(crate) fn detached<'a>(&self) -> BlockCursor<'a> {
        BlockCursor {
            block: self.block.detached(),
            format: self.format.clone(),
            key: self.key.clone(),
            rewritten: self.rewritten.clone(),
            ..*self
        }
    }

    /// Whether the cursor is positioned on an entry.
    #[inline]
    #[must_use]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key of the entry.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self.key_place {
            KeyLocation::Block(start, end) => {
                self.block.contents().get(start..end).unwrap_or_default()
            }
            KeyLocation::Buffer => &self.key,
            KeyLocation::Rewritten => &self.rewritten,
        }
    }

    /// Returns the value of the entry.
    ///
    /// In an index block with delta-encoded handles, it is the first key of the data block, which
    /// follows the handle (`kBinarySearchWithFirstKey`), or empty.
    #[inline]
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.value.of(self.block.contents())
    }

    /// The position of the entry's value.
    #[must_use]
    pub fn value_range(&self) -> ValueRange {
        self.value
    }

    /// The value of the entry, pinned in the block.
    #[must_use]
    pub fn pinned_value(&self) -> PinnedSlice {
        self.block.pin(self.value)
    }

    /// The block handle of the current entry of a delta-encoded index block.
    #[must_use]
    pub fn handle(&self) -> BlockHandle {
        self.handle
    }

    /// The block that the cursor reads.
    #[must_use]
    pub fn block(&self) -> &Block {
        self.block.block()
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    /// `Corruption` if the entry is malformed; the cursor is then invalid. This applies to all
    /// movements.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.start_at(0);
        self.step()
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    /// See [`BlockCursor::seek_to_first`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.start_at((self.block.sections.restart_count as usize).saturating_sub(1));
        self.step_until_before(self.block.sections.entries_end as usize)
    }

    /// Moves to the first entry at or after the internal key `target`.
    ///
    /// # Errors
    /// See [`BlockCursor::seek_to_first`].
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.valid = false;
        let start = {
            let view = self.block.slices(self.layout);
            if view.guesses_in_data(&self.format) {
                view.guess(&self.format, target)?
            } else {
                view.halve(|key| self.format.compare(key, target))?
            }
        };
        self.seek_from(start, target)
    }

    /// Completes a seek to `target` from `start`, the result of a search among the restart points.
    pub(crate) fn seek_from(&mut self, start: Start, target: &[u8]) -> Result<()> {
        self.start_at(start.restart());
        self.step()?;
        if start == Start::Scan(start.restart()) {
            while self.valid && self.format.compare(self.key(), target) == Ordering::Less {
                self.step()?;
            }
        }
        Ok(())
    }

    /// Moves to the next entry. The cursor must be valid.
    ///
    /// # Errors
    /// See [`BlockCursor::seek_to_first`].
    #[inline]
    pub fn advance(&mut self) -> Result<()> {
        debug_assert!(self.valid, "a step from a cursor that stands on nothing");
        self.step()
    }

    /// Moves to the previous entry. The cursor must be valid.
    ///
    /// # Errors
    /// See [`BlockCursor::seek_to_first`].
    pub fn retreat(&mut self) -> Result<()> {
        debug_assert!(self.valid, "a step from a cursor that stands on nothing");
        let end = self.at;
        self.valid = false;
        if end == 0 {
            return Ok(());
        }
        let restart = {
            let view = self.block.slices(self.layout);
            view.restarts
                .partition_point(|word| (u32::from_le_bytes(*word) as usize) < end)
        };
        self.start_at(restart.saturating_sub(1));
        self.step_until_before(end)
    }

    /// Makes the entry at a restart point the one to which the next step moves.
    fn start_at(&mut self, restart: usize) {
        self.valid = false;
        let view = self.block.slices(self.layout);
        self.next = view.restart_offset(restart);
        let end = self.next.saturating_add(SCAN_AHEAD_BYTES);
        let end = end.min(view.entries.len());
        prefetch_all(view.entries.get(self.next..end).unwrap_or_default());
        self.restart_ahead = restart;
        self.key_place = KeyLocation::Buffer;
        self.key.clear();
        self.value = ValueRange::default();
    }

    /// Moves forward to the entry that ends at offset `end`.
    fn step_until_before(&mut self, end: usize) -> Result<()> {
        self.step()?;
        while self.valid && self.next < end {
            self.step()?;
        }
        Ok(())
    }

    /// Decodes the next entry and moves to it; after the last entry the cursor becomes invalid.
    fn step(&mut self) -> Result<()> {
        self.valid = false;
        let view = self.block.slices(self.layout);
        let at = self.next;
        if at >= view.entries.len() {
            return Ok(());
        }
        // Entries lead only to the next one, so the bytes after them are prefetched before they are
        // reached.
        let ahead = at.saturating_add(SCAN_AHEAD_BYTES);
        prefetch(view.entries, ahead);
        prefetch(view.entries, ahead.saturating_add(LINE_BYTES));
        let entry = match self.layout {
            EntryLayout::Interleaved => view.entry(at, false, 0),
            EntryLayout::Separated => {
                let at_restart = view.restart_offset(self.restart_ahead) == at;
                if at_restart {
                    self.restart_ahead = self.restart_ahead.saturating_add(1);
                }
                let value_start = self.value.start.saturating_add(self.value.len);
                view.entry(at, at_restart, value_start as usize)
            }
            EntryLayout::Handles { first_keys } => view
                .handle_entry(at, first_keys, self.handle)
                .map(|(entry, handle)| {
                    self.handle = handle;
                    entry
                }),
        };
        let entry = entry.ok_or_else(|| bad_entry(at))?;
        let own = view
            .entries
            .get(entry.key_start..entry.key_end)
            .ok_or_else(|| bad_entry(at))?;
        if entry.shared == 0 && self.format.global_seqno.is_none() {
            self.key_place = KeyLocation::Block(entry.key_start, entry.key_end);
        } else {
            if let KeyLocation::Block(start, end) = self.key_place {
                self.key.clear();
                let before = view.entries.get(start..end).unwrap_or_default();
                self.key.extend_from_slice(before);
            }
            if entry.shared > self.key.len() {
                return Err(bad_entry(at));
            }
            self.key.truncate(entry.shared);
            self.key.extend_from_slice(own);
            self.key_place = KeyLocation::Buffer;
        }
        if !self.format.user_keys {
            if entry.key_len() < FOOTER_BYTES {
                return Err(bad_entry(at));
            }
            if let Some(seqno) = self.format.global_seqno {
                self.rewrite_key(seqno);
            }
        }
        self.at = at;
        self.next = entry.next;
        self.value = entry.value;
        self.valid = true;
        Ok(())
    }

    /// Copies the current key with its sequence number replaced by the global one, `seqno`.
    fn rewrite_key(&mut self, seqno: SeqNo) {
        self.rewritten.clone_from(&self.key);
        if let Some([_type, stored @ ..]) = self.rewritten.last_chunk_mut::<FOOTER_BYTES>() {
            let [a, b, c, d, e, f, g, _] = seqno.to_le_bytes();
            *stored = [a, b, c, d, e, f, g];
        }
        self.key_place = KeyLocation::Rewritten;
    }
}
