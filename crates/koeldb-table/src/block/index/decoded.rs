//! Decoded index blocks, for blocks that are searched frequently.
//!
//! ```text
//! samples    largest number of each group              in order, in few hot cache lines
//! groups     8 numbers | 8 handles, two cache lines    a search reads one group
//! ```
//!
//! Numbers are those of [`Numbering`]. As they never contradict the order of the keys, a number
//! that differs from the target's decides without accessing a key; only among equal numbers are
//! keys decoded and compared. The group is found by a linear model of the samples and the model's
//! largest error, known from its construction: a window of a few samples if keys are uniform, and
//! all of them at worst. A binary search in a window of constant width takes a constant number of
//! steps, without branches to predict.
//!
//! A block that is damaged, or too small to gain from it, is not decoded.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;

use koeldb_base::key::footer_of;
use koeldb_base::{KeyOrder, Result};

use super::linear_model::{LinearModel, below};
use super::{INDEX_BATCH, IndexFormat, IndexScan, IndexSearchResult};
use crate::block::number::KeySpan;
use crate::block::{Block, BlockSlices, KeyFormat, Start, halve, prefetch_item};
use crate::format::BlockHandle;

/// The number of entries in a group: one cache line of key numbers.
const GROUP: usize = 8;

/// The number of restart points below which blocks are not decoded: a search takes a step or two.
const FEW_KEYS: usize = 8;

/// The number of bits of the size in a packed handle.
const SIZE_BITS: u32 = 24;

/// A cache-line-aligned group of consecutive index entries: key numbers and packed block handles.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group {
    numbers: [u64; GROUP],
    handles: [u64; GROUP],
}

/// The padding after the last key: numbers not below any other.
const BEHIND: Group = Group {
    numbers: [u64::MAX; GROUP],
    handles: [0; GROUP],
};

/// The keys of an index block as integers for fast search, with the handles of the data blocks.
#[derive(Debug)]
pub struct DecodedIndex {
    span: KeySpan,
    groups: Vec<Group>,
    samples: Vec<u64>,
    model: LinearModel,
    count: usize,
    /// Whether each restart point has exactly one entry.
    single: bool,
    /// Whether the handles contain all information of the entries.
    has_handles: bool,
}

impl DecodedIndex {
    /// Decodes an index block; `None` if it has few keys, a custom comparator, or is damaged.
    pub(crate) fn new(block: &Block, format: &IndexFormat) -> Option<Self> {
        let view = BlockSlices::new(block, format.layout());
        let count = view.restart_key_count();
        if count < FEW_KEYS {
            return None;
        }
        let keys = &format.keys;
        let first = keys.user_part(view.restart_key(0).ok()?);
        let last = keys.user_part(view.restart_key(count.checked_sub(1)?).ok()?);
        let span = KeySpan::new(&keys.order, first, last)?;
        let numbering = span.numbering();
        let mut groups = vec![BEHIND; count.div_ceil(GROUP)];
        let (mut largest, mut single, mut has_handles) = (0, true, !format.first_keys);
        let mut scan = IndexScan::at_restart(view, format, 0);
        let places = groups
            .iter_mut()
            .flat_map(|group| group.numbers.iter_mut().zip(&mut group.handles));
        for (restart, (number, handle)) in (0..count).zip(places) {
            scan.next = scan.view.restart_offset(restart);
            scan.advance().ok()?;
            *number = numbering.number(keys.user_part(scan.key_in_block?));
            if *number < largest {
                return None;
            }
            largest = *number;
            single &= scan.next == scan.view.restart_offset(restart.saturating_add(1));
            match pack(scan.handle) {
                Some(packed) => *handle = packed,
                None => has_handles = false,
            }
        }
        let ends = groups.iter().flat_map(|group| group.numbers.last());
        let mut samples: Vec<u64> = ends.copied().collect();
        *samples.last_mut()? = largest;
        Some(DecodedIndex {
            span,
            model: LinearModel::through(&samples),
            groups,
            samples,
            count,
            single,
            has_handles: has_handles && single,
        })
    }

    /// The heap memory of the decoded index.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(self.groups.as_slice())
            .saturating_add(self.span.heap_bytes())
            .saturating_add(size_of_val(self.samples.as_slice()))
    }

    /// Finds the data block that may hold a user key; `Unknown` if key numbers alone do not decide.
    #[inline]
    pub(crate) fn find_block(&self, order: &KeyOrder, user_key: &[u8]) -> IndexSearchResult {
        match self.span.wanted(order, user_key) {
            Ok(wanted) => {
                let group = self.model.first_not_below(&self.samples, wanted);
                self.block_in(group, wanted)
            }
            Err(side) => self.block_beyond(side),
        }
    }

    /// Finds the data blocks for ascending user keys, one result for each place in `places`.
    ///
    /// One pass goes through the samples, and the groups are prefetched during the search for other
    /// keys.
    pub(super) fn find_blocks<'k>(
        &self,
        order: &KeyOrder,
        user_keys: impl Iterator<Item = &'k [u8]>,
        places: &mut [IndexSearchResult],
    ) {
        let mut found = [(0, 0); INDEX_BATCH];
        let mut group = 0;
        for ((place, found), user_key) in places.iter_mut().zip(&mut found).zip(user_keys) {
            *place = match self.span.wanted(order, user_key) {
                Ok(wanted) => {
                    let is_further = |sample: &u64| *sample < wanted;
                    if self.samples.get(group).is_some_and(is_further) {
                        group = self.model.first_not_below(&self.samples, wanted);
                    }
                    if let Some(group) = self.groups.get(group) {
                        prefetch_item(&group.numbers);
                        prefetch_item(&group.handles);
                    }
                    *found = (group, wanted);
                    continue;
                }
                Err(side) => self.block_beyond(side),
            };
            *found = (usize::MAX, 0);
        }
        for (place, (group, wanted)) in places.iter_mut().zip(found) {
            if group != usize::MAX {
                *place = self.block_in(group, wanted);
            }
        }
    }

    /// Returns the block of the first key number in `group` from `wanted` on; `Unknown` if equal.
    #[inline]
    fn block_in(&self, group: usize, wanted: u64) -> IndexSearchResult {
        let Some(group) = self.groups.get(group).filter(|_| self.has_handles) else {
            return IndexSearchResult::Unknown;
        };
        prefetch_item(&group.handles);
        let at = group.first_not_below(wanted);
        match (group.numbers.get(at), group.handles.get(at)) {
            (Some(number), Some(handle)) if *number != wanted => {
                IndexSearchResult::Block(unpack(*handle))
            }
            _ => IndexSearchResult::Unknown,
        }
    }

    /// Returns the result for a key before (`Less`) or after (`Greater`) all keys of the block.
    fn block_beyond(&self, side: Ordering) -> IndexSearchResult {
        let first = self.groups.first().filter(|_| self.has_handles);
        match first.and_then(|group| group.handles.first()) {
            Some(_) if side == Ordering::Greater => IndexSearchResult::Behind,
            Some(handle) => IndexSearchResult::Block(unpack(*handle)),
            None => IndexSearchResult::Unknown,
        }
    }

    /// Finds the position of an internal key among the restart points of the decoded block.
    pub(super) fn search(
        &self,
        view: &BlockSlices<'_>,
        keys: &KeyFormat,
        target: &[u8],
    ) -> Result<Start> {
        let (user_key, _) = footer_of(target);
        let (first, end) = match self.span.wanted(&keys.order, user_key) {
            Ok(wanted) => self.run_of(wanted),
            Err(Ordering::Greater) => (self.count, self.count),
            Err(_) => (0, 0),
        };
        if first == end {
            return Ok(self.start(first));
        }
        // For equal numbers the keys decide.
        let key_at = |index| view.restart_key(index);
        let start = halve(first..end, key_at, |key| keys.compare(key, target))?;
        Ok(match start {
            Start::Found(index) if index == first => self.start(index),
            Start::Scan(index) => self.start(index.saturating_add(1)),
            Start::Found(_) => start,
        })
    }

    /// Converts `first`, the first restart point at or after the target, to where a scan starts.
    #[inline]
    fn start(&self, first: usize) -> Start {
        if first == 0 || (self.single && first < self.count) {
            Start::Found(first)
        } else {
            Start::Scan(first.saturating_sub(1))
        }
    }

    /// Returns the index range of the key numbers equal to `wanted`; empty at its place if none is.
    fn run_of(&self, wanted: u64) -> (usize, usize) {
        let place = |at: usize, offset: fn(&Group, u64) -> usize| {
            let within = self.groups.get(at).map_or(0, |group| offset(group, wanted));
            at.saturating_mul(GROUP)
                .saturating_add(within)
                .min(self.count)
        };
        let at = self.model.first_not_below(&self.samples, wanted);
        let first = place(at, Group::first_not_below);
        let is_equal = self
            .groups
            .get(at)
            .is_some_and(|group| group.numbers.get(first % GROUP) == Some(&wanted));
        if !is_equal {
            return (first, first);
        }
        let behind = self.samples.partition_point(|sample| *sample <= wanted);
        (first, place(behind, Group::first_above))
    }
}

impl Group {
    /// Returns the position of the first number in the group at or after `wanted`.
    #[inline]
    fn first_not_below(&self, wanted: u64) -> usize {
        // One bisection first: the compiler vectorizes a sum of eight comparisons poorly.
        let is_below = |place| below(&self.numbers, place, wanted);
        let half = is_below(3).wrapping_mul(4);
        let places = [half, half | 1, half | 2, half | 3];
        let within: usize = places.map(is_below).iter().sum();
        half.saturating_add(within)
    }

    /// Returns the position of the first number in the group after `wanted`.
    fn first_above(&self, wanted: u64) -> usize {
        self.numbers
            .iter()
            .map(|number| usize::from(*number <= wanted))
            .sum()
    }
}

/// Packs a block handle into 64 bits, the offset above the size; `None` if it does not fit.
fn pack(handle: BlockHandle) -> Option<u64> {
    let offset = handle.offset.checked_shl(SIZE_BITS)?;
    let fits =
        offset.checked_shr(SIZE_BITS)? == handle.offset && handle.size.checked_shr(SIZE_BITS)? == 0;
    fits.then_some(offset | handle.size)
}

/// Returns the handle that [`pack`] packed.
#[inline]
fn unpack(packed: u64) -> BlockHandle {
    BlockHandle {
        offset: packed >> SIZE_BITS,
        size: packed & ((1 << SIZE_BITS) - 1),
    }
}

#[cfg(test)]
pub(crate) mod tests;
