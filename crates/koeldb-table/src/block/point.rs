//! Point lookups in a data block.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;

use koeldb_base::checksum::hash32;
use koeldb_base::key::{FOOTER_BYTES, footer_of};
use koeldb_base::{KeyOrder, Result};

use super::bytes::{prefetch, prefetch_all};
use super::entry::{Entry, KeyBuffer, bad_entry};
use super::{Block, BlockSlices, EntryLayout, FEW_RESTARTS, KeyFormat, ValueRange};

/// The seed of the hash function of the hash index in a data block.
const HASH_SEED: u32 = 397;
/// The value of a hash bucket without a key.
const BUCKET_EMPTY: u8 = 255;
/// The value of a hash bucket with keys of several restart intervals.
const BUCKET_COLLISION: u8 = 254;

/// The number of bytes of a restart interval that are prefetched when a linear scan begins.
///
/// Each entry leads only to the next one, so without this every entry would be waited for.
const SCAN_AHEAD_BYTES: usize = 2048;

/// The outcome of a point search in one block: whether the next block must be searched too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointEnd {
    /// The visitor is done, or a later user key was found: later blocks have no entry of the key.
    Settled,
    /// The block ended before a later user key: versions of the key may begin the next block.
    EndOfBlock,
}

/// The receiver of a point search's entries, with the internal key to seek.
pub trait PointVisitor {
    /// The internal key to seek: the wanted user key with the highest sequence number to visit.
    fn seek_key(&self) -> &[u8];

    /// Receives an entry of the wanted user key, as packed sequence number and type, newest first.
    ///
    /// Returns whether it is done.
    ///
    /// # Errors
    /// If the entry is invalid.
    fn visit(&mut self, footer: u64, value: ValueRange) -> Result<bool>;
}

impl Block {
    /// Passes the versions of one user key in this block, from the seek key on, to `visitor`.
    ///
    /// It stops when the visitor is done. The keys of the block must be internal keys.
    ///
    /// # Errors
    /// `Corruption` if an entry is malformed, or the error of the visitor.
    #[inline]
    pub fn search_point(
        &self,
        keys: &KeyFormat,
        visitor: &mut impl PointVisitor,
    ) -> Result<PointEnd> {
        let order = &keys.order;
        self.bytes.prefetch_pin();
        let view = BlockSlices::new(self, self.layout());
        view.prefetch_restarts();
        let seek_key = visitor.seek_key();
        let (user, footer) = footer_of(seek_key);
        let restart = match self.hashed_restart(view.contents, user) {
            Some(restart) => restart,
            None if view.guesses_in_data(keys) => view.guess(keys, seek_key)?.restart(),
            None if order.is_bytewise() => view
                .halve(|key| {
                    let (key_user, key_footer) = footer_of(key);
                    key_user.cmp(user).then(footer.cmp(&key_footer))
                })?
                .restart(),
            None => view
                .halve(|key| order.compare_internal(key, seek_key))?
                .restart(),
        };
        let steps = Steps::new(&view, restart);
        if order.is_bytewise() {
            view.scan_bytewise(steps, footer, visitor)
        } else {
            view.scan_ordered(steps, order, visitor)
        }
    }

    /// Prefetches the first data that [`Block::search_point`] reads.
    #[inline]
    pub(crate) fn prefetch_search(&self) {
        self.bytes.prefetch_pin();
        BlockSlices::new(self, self.layout()).prefetch_restarts();
    }

    /// Looks up the restart point for a user key in the data block hash index; `None` if undecided.
    ///
    /// An empty bucket leads to the last one, where the scan decides whether the key may begin the
    /// next block.
    #[inline]
    fn hashed_restart(&self, contents: &[u8], user: &[u8]) -> Option<usize> {
        if self.sections.bucket_count == 0 {
            return None;
        }
        let bucket = hash32(user, HASH_SEED).checked_rem(u32::from(self.sections.bucket_count))?;
        let at = self.sections.buckets_at.checked_add(bucket)?;
        match *contents.get(at as usize)? {
            BUCKET_COLLISION => None,
            BUCKET_EMPTY => (self.sections.restart_count as usize).checked_sub(1),
            restart => {
                Some(usize::from(restart)).filter(|&r| r < self.sections.restart_count as usize)
            }
        }
    }
}

impl BlockSlices<'_> {
    /// Prefetches the keys at all restart points if they are few, as in most data blocks.
    #[inline]
    fn prefetch_restarts(&self) {
        if self.restarts.len() <= FEW_RESTARTS {
            for word in self.restarts {
                prefetch(self.entries, u32::from_le_bytes(*word) as usize);
            }
        }
    }

    /// Scans for the user key in bytewise order, comparing suffixes without assembling whole keys.
    ///
    /// `matched` counts the bytes that the preceding user key, which is smaller, has in common with
    /// the target. An entry that shares more than `matched` is therefore smaller too, and the
    /// others are decided by their own bytes.
    #[inline]
    fn scan_bytewise(
        &self,
        start: Steps,
        target_footer: u64,
        visitor: &mut impl PointVisitor,
    ) -> Result<PointEnd> {
        let (target, _) = footer_of(visitor.seek_key());
        let mut steps = start;
        let mut matched = 0;
        let mut user_len_before = 0;
        while let Some(entry) = steps.next(self)? {
            let user_len = entry
                .key_len()
                .checked_sub(FOOTER_BYTES)
                .ok_or_else(|| bad_entry(steps.at))?;
            if entry.shared > user_len_before {
                if user_len == user_len_before && steps.at != start.at {
                    continue;
                }
                // Bytes of the preceding footer are part of this user key: rare, and left to the
                // scan that assembles keys.
                return self.scan_ordered(start, &KeyOrder::Bytewise, visitor);
            }
            user_len_before = user_len;
            if entry.shared > matched {
                continue;
            }
            let own = user_len
                .checked_sub(entry.shared)
                .and_then(|len| {
                    let end = entry.key_start.saturating_add(len);
                    self.entries.get(entry.key_start..end)
                })
                .ok_or_else(|| bad_entry(steps.at))?;
            let rest = target.get(entry.shared..).unwrap_or_default();
            let common = own.iter().zip(rest).take_while(|(a, b)| a == b).count();
            match (own.get(common), rest.get(common)) {
                (None, None) => return self.visit_versions(steps, entry, target_footer, visitor),
                (Some(own), Some(wanted)) if own > wanted => return Ok(PointEnd::Settled),
                (Some(_), None) => return Ok(PointEnd::Settled),
                (Some(_) | None, Some(_)) => matched = entry.shared.saturating_add(common),
            }
        }
        Ok(PointEnd::EndOfBlock)
    }

    /// Scans for the user key in any comparator's order, assembling each key.
    #[cold]
    fn scan_ordered(
        &self,
        mut steps: Steps,
        order: &KeyOrder,
        visitor: &mut impl PointVisitor,
    ) -> Result<PointEnd> {
        let mut key = KeyBuffer::new();
        while let Some(entry) = steps.next(self)? {
            let own = self.entries.get(entry.key_start..entry.key_end);
            let key = own
                .and_then(|own| key.replace(entry.shared, own))
                .filter(|key| key.len() >= FOOTER_BYTES)
                .ok_or_else(|| bad_entry(steps.at))?;
            let (user, footer) = footer_of(key);
            let (target, target_footer) = footer_of(visitor.seek_key());
            match order.compare(user, target) {
                Ordering::Less => {}
                Ordering::Greater => return Ok(PointEnd::Settled),
                Ordering::Equal => {
                    if footer <= target_footer && visitor.visit(footer, entry.value)? {
                        return Ok(PointEnd::Settled);
                    }
                }
            }
        }
        Ok(PointEnd::EndOfBlock)
    }

    /// Passes `entry`, whose user key is the target, and the following versions to the visitor.
    #[inline]
    fn visit_versions(
        &self,
        mut steps: Steps,
        mut entry: Entry,
        target_footer: u64,
        visitor: &mut impl PointVisitor,
    ) -> Result<PointEnd> {
        let mut footer = [0; FOOTER_BYTES];
        loop {
            let own = self
                .entries
                .get(entry.key_start..entry.key_end)
                .ok_or_else(|| bad_entry(steps.at))?;
            match own.last_chunk() {
                Some(own_footer) => footer = *own_footer,
                None => {
                    let shared = FOOTER_BYTES.saturating_sub(own.len());
                    if let Some(place) = footer.get_mut(shared..) {
                        place.copy_from_slice(own);
                    }
                }
            }
            let number = u64::from_le_bytes(footer);
            if number <= target_footer && visitor.visit(number, entry.value)? {
                return Ok(PointEnd::Settled);
            }
            entry = match steps.next(self)? {
                Some(entry) => entry,
                None => return Ok(PointEnd::EndOfBlock),
            };
            if !self.continues(&entry, footer_of(visitor.seek_key()).0) {
                return Ok(PointEnd::Settled);
            }
        }
    }

    /// Whether `entry`, which follows an entry of user key `user`, has the same user key.
    #[inline]
    fn continues(&self, entry: &Entry, user: &[u8]) -> bool {
        if entry.key_len() != user.len().saturating_add(FOOTER_BYTES) {
            return false;
        }
        match user.get(entry.shared..) {
            None => true,
            Some(rest) => self
                .entries
                .get(entry.key_start..entry.key_end)
                .is_some_and(|own| own.starts_with(rest)),
        }
    }
}

/// An iterator over the entries of a data block from a restart point on.
#[derive(Clone, Copy)]
struct Steps {
    /// The position of the last returned entry; of the first one before any was returned.
    at: usize,
    next: usize,
    /// The next restart point.
    restart: usize,
    value_end: usize,
}

impl Steps {
    /// Starts at a restart point, and prefetches the entries of its interval.
    #[inline]
    fn new(view: &BlockSlices<'_>, restart: usize) -> Self {
        let at = view.restart_offset(restart);
        let behind = view.restart_offset(restart.saturating_add(1));
        let end = behind.min(at.saturating_add(SCAN_AHEAD_BYTES));
        prefetch_all(view.entries.get(at..end).unwrap_or_default());
        Steps {
            at,
            next: at,
            restart,
            value_end: 0,
        }
    }

    /// Moves to the next entry; `None` at the end of the block.
    #[inline(always)]
    fn next(&mut self, view: &BlockSlices<'_>) -> Result<Option<Entry>> {
        if self.next >= view.entries.len() {
            return Ok(None);
        }
        self.at = self.next;
        let mut at_restart = false;
        if view.layout == EntryLayout::Separated && view.restart_offset(self.restart) == self.at {
            at_restart = true;
            self.restart = self.restart.saturating_add(1);
        }
        let entry = view
            .entry(self.at, at_restart, self.value_end)
            .ok_or_else(|| bad_entry(self.at))?;
        self.value_end = (entry.value.start as usize).saturating_add(entry.value.len as usize);
        self.next = entry.next;
        Ok(Some(entry))
    }
}
