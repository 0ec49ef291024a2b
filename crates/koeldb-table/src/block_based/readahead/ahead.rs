//! Readahead planning: the data blocks ahead of a scan, in pieces of one read each.
//!
//! A `Lookahead` walks the index with its own position; the scan's position never runs ahead, so a
//! scan may change direction or seek at any moment, and a plan that no longer fits is dropped. The
//! walk continues from table to table of a level. A `Piece` holds whole blocks: no block spans two
//! pieces, and none is copied for assembly.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use koeldb_base::{Buffer, Fault, KeyOrder, Result};

use super::scan_reads::{PieceBytes, PieceRead};
use crate::block::prefetch_block;
use crate::block_based::cursor::{IndexPath, ScanPosition, TableLevel};
use crate::block_based::reader::BlockBasedReader;
use crate::format::BlockHandle;
use crate::source::{BlockKind, BlockSource, CachedBlock, Direction, TableFile};

/// The largest gap of cached blocks that is read anyway to join the reads of missing ones.
const GAP_MAX: u64 = 16 << 10;

/// The number of consecutive cache misses after which a walk queries the cache less often.
///
/// It then queries for one block in [`ASKED_STRIDE`], until it has a hit: a query is a CPU cache
/// miss, and reading one unneeded block among others costs little.
const ABSENT_SURE: u32 = 32;

/// The interval of blocks at which a walk queries the cache after [`ABSENT_SURE`] misses.
const ASKED_STRIDE: u32 = 8;

/// The largest block that is read ahead.
const BLOCK_AHEAD_MAX: u64 = 2 << 20;

/// A range of user keys.
type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The bounds and the length of a scan, shared by the readahead of all its tables.
///
/// These are the user keys that the scan may see, which change with each seek, and the length of
/// the scan so far.
#[derive(Debug, Default)]
pub struct ScanLimits {
    range: Mutex<Option<KeyRange>>,
    passed_bytes: AtomicU64,
}

impl ScanLimits {
    /// Creates limits without key bounds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the key bounds (`iterate_lower_bound`, `iterate_upper_bound` or a prefix) of the scan.
    pub fn set(&self, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) {
        *self.range.lock().unwrap_or_else(PoisonError::into_inner) = Some((lower, upper));
    }

    /// Resets the length of the scan, after a seek.
    pub(super) fn restart(&self) {
        self.passed_bytes.store(0, Ordering::Relaxed);
    }

    /// Adds `bytes`, planned for readahead in any table, to the length of the scan.
    pub(super) fn pass(&self, bytes: u64) {
        self.passed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes planned for readahead in all tables since the last seek.
    pub(super) fn passed_bytes(&self) -> u64 {
        self.passed_bytes.load(Ordering::Relaxed)
    }

    /// Whether a scan in `direction` need not go beyond the index entry with this separator.
    ///
    /// Forwards its block is still within the key bounds, backwards it is already outside.
    fn end_at(&self, order: &KeyOrder, separator: &[u8], direction: Direction) -> bool {
        let range = self.range.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((lower, upper)) = &*range else {
            return false;
        };
        match (direction, lower, upper) {
            (Direction::Forward, _, Bound::Excluded(upper)) => {
                order.compare(separator, upper).is_ge()
            }
            (Direction::Forward, _, Bound::Included(upper)) => {
                order.compare(separator, upper).is_gt()
            }
            (Direction::Backward, Bound::Included(lower) | Bound::Excluded(lower), _) => {
                order.compare(separator, lower).is_lt()
            }
            _ => false,
        }
    }
}

/// A data block that the scan will enter after the current one.
#[derive(Debug)]
pub(super) struct Upcoming {
    pub(super) handle: BlockHandle,
    /// The end offset, including the trailer.
    end: u64,
    /// The block itself, if the cache has it.
    cached: Option<Arc<CachedBlock>>,
}

/// An index cursor that runs ahead of a scan and finds the blocks to read ahead.
pub(super) struct Lookahead {
    table: Arc<BlockBasedReader>,
    /// The level of the table, to continue in the next table.
    level: Option<Arc<dyn TableLevel>>,
    index: IndexPath<'static>,
    direction: Direction,
    /// Whether the index is positioned on a block that was not returned yet.
    fresh: bool,
    ended: bool,
    /// A block that was put back, to be returned again.
    held: Option<Upcoming>,
    /// The number of consecutive preceding blocks not in the cache, or not looked up.
    absent: u32,
}

impl Lookahead {
    /// Creates the lookahead at the data block that a scan enters.
    pub(super) fn new(place: &ScanPosition<'_>, level: Option<Arc<dyn TableLevel>>) -> Self {
        Lookahead {
            table: Arc::clone(place.table),
            level,
            index: place.index.detached(),
            direction: place.direction,
            fresh: true,
            ended: false,
            held: None,
            absent: 0,
        }
    }

    /// Ends the lookahead: no further block is returned.
    pub(super) fn end(&mut self) {
        self.ended = true;
        self.held = None;
    }

    /// Whether the lookahead has ended, so that no further block will be returned.
    pub(super) fn ended(&self) -> bool {
        self.ended && self.held.is_none()
    }

    /// Returns the next block to read ahead; `None` at the end of the scan or if `source` suspends.
    ///
    /// An error also ends the lookahead; the scan itself meets and reports it.
    fn next<S: BlockSource>(
        &mut self,
        source: &mut S,
        limits: Option<&ScanLimits>,
    ) -> Option<Upcoming> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        if self.ended {
            return None;
        }
        self.ended = true;
        let is_first = std::mem::take(&mut self.fresh);
        if !is_first && !self.index.is_behind() {
            let moved = self.index.step(self.direction, &self.table, source);
            self.unless_suspended(moved)?;
        }
        while !self.index.valid() {
            self.cross(source, limits)?;
        }
        let table = &self.table;
        let handle = self.index.handle().ok()?;
        let end = handle.end_within(table.file.blocks_end).ok()?;
        let keys = &table.index_format.keys;
        let leaves = limits.is_some_and(|limits| {
            limits.end_at(
                &keys.order,
                keys.user_part(self.index.key()),
                self.direction,
            )
        });
        match self.direction {
            Direction::Backward if leaves && !is_first => return None,
            _ => self.ended = leaves,
        }
        Some(Upcoming {
            handle,
            end,
            cached: None,
        })
    }

    /// Ends the lookahead if the index move `moved` failed; a suspended move is repeated later.
    fn unless_suspended<S>(&mut self, moved: Result<(), Fault<S>>) -> Option<()> {
        self.ended = !matches!(moved, Err(Fault::Suspend(_)));
        moved.ok()
    }

    /// Moves the lookahead to the next table of the level; `None` at the key bounds or the end.
    fn cross<S: BlockSource>(&mut self, source: &mut S, limits: Option<&ScanLimits>) -> Option<()> {
        let level = self.level.as_ref()?;
        let (table, edge) = level
            .neighbour(self.table.file.number, self.direction)
            .ok()??;
        if limits.is_some_and(|limits| limits.end_at(&table.order, &edge, self.direction)) {
            return None;
        }
        let mut index = IndexPath::default();
        let entered = index.enter(self.direction, &table, source);
        self.unless_suspended(entered)?;
        self.table = table;
        self.index = index;
        Some(())
    }

    /// Looks up a data block in the block cache; after many misses most blocks count as missing.
    fn cached(&mut self, handle: BlockHandle) -> Option<Arc<CachedBlock>> {
        let file = &self.table.file;
        file.cache.as_ref()?;
        let absent = self.absent;
        self.absent = absent.saturating_add(1);
        if absent >= ABSENT_SURE && !absent.is_multiple_of(ASKED_STRIDE) {
            file.count_access(BlockKind::Data, None);
            return None;
        }
        let cached = file.cached(handle, BlockKind::Data);
        if cached.is_some() {
            self.absent = 0;
        }
        cached
    }

    /// Plans one read: the next blocks, with at most `bytes` after the first; `None` at the end.
    ///
    /// Cached blocks are pinned instead of read, if they are at an end of the piece or numerous.
    ///
    /// At the start of a walk the first block counts as missing, since the scan missed it.
    pub(super) fn piece<S: BlockSource>(
        &mut self,
        bytes: u64,
        source: &mut S,
        limits: Option<&ScanLimits>,
    ) -> Option<Piece> {
        let mut piece = Piece {
            file: Arc::clone(&self.table.file),
            blocks: VecDeque::new(),
            range: 0..0,
            stored: Stored::Not,
            kept: true,
        };
        let mut known_missing = self.fresh;
        let mut seen: Option<Range<u64>> = None;
        while let Some(mut block) = self.next(source, limits) {
            if !Arc::ptr_eq(&piece.file, &self.table.file) {
                if !piece.blocks.is_empty() {
                    self.held = Some(block);
                    break;
                }
                piece.file = Arc::clone(&self.table.file);
            }
            let own = block.handle.offset..block.end;
            let all = match &seen {
                None => own.clone(),
                Some(seen) => seen.start.min(own.start)..seen.end.max(own.end),
            };
            let first_bytes = piece.blocks.front().map_or(u64::MAX, |first| {
                first.end.saturating_sub(first.handle.offset)
            });
            let is_far = seen
                .as_ref()
                .is_some_and(|seen| !follows(seen, &own, self.direction));
            if length(&all) > first_bytes.saturating_add(bytes)
                || is_far
                || (seen.is_some() && length(&own) > BLOCK_AHEAD_MAX)
            {
                self.held = Some(block);
                break;
            }
            if !std::mem::take(&mut known_missing) && block.cached.is_none() {
                block.cached = self.cached(block.handle);
            }
            if block.cached.is_none() {
                let range = if piece.range.is_empty() {
                    own
                } else {
                    piece.range.start.min(own.start)..piece.range.end.max(own.end)
                };
                let in_vain = length(&range)
                    .saturating_sub(length(&piece.range))
                    .saturating_sub(block.end.saturating_sub(block.handle.offset));
                if !piece.range.is_empty() && in_vain > GAP_MAX {
                    self.held = Some(block);
                    break;
                }
                piece.range = range;
            }
            seen = Some(all);
            piece.blocks.push_back(block);
        }
        (!piece.blocks.is_empty()).then_some(piece)
    }
}

/// Returns the number of bytes in a file range.
fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Whether `block` is adjacent to the blocks `seen` before it, apart from padding.
fn follows(seen: &Range<u64>, block: &Range<u64>, direction: Direction) -> bool {
    let gap = match direction {
        Direction::Forward => block.start.checked_sub(seen.end),
        Direction::Backward => seen.start.checked_sub(block.end),
    };
    gap.is_some_and(|gap| gap <= GAP_MAX)
}

impl fmt::Debug for Lookahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookahead")
            .field("table", &self.table)
            .field("direction", &self.direction)
            .field("ended", &self.ended())
            .finish_non_exhaustive()
    }
}

/// The state of the read of a piece: not read, arrived, or in flight.
#[derive(Debug)]
pub(super) enum Stored {
    /// Not read yet, or the read has failed.
    Not,
    /// The bytes have arrived.
    Here(PieceBytes),
    /// A read that is in flight, or has completed.
    Coming(Arc<PieceRead>),
}

/// Consecutive data blocks that are read ahead of a scan with one read.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) file: Arc<TableFile>,
    /// The blocks that the scan has not entered yet.
    blocks: VecDeque<Upcoming>,
    /// The range of all blocks that are not pinned; empty if all are.
    pub(super) range: Range<u64>,
    pub(super) stored: Stored,
    /// Whether the blocks of the piece are inserted into the cache.
    pub(super) kept: bool,
}

/// A block taken from a piece: a cached block, the stored bytes, or neither.
pub(super) enum Planned<'p> {
    /// The cached block.
    Block(Arc<CachedBlock>),
    /// The stored bytes of the block, including the trailer: a buffer, a position and a length.
    Stored(&'p Arc<Buffer>, u64, u32),
    /// Neither: the block has to be read by itself.
    Nothing,
}

impl Piece {
    /// Whether the scan has entered all blocks of the piece.
    pub(super) fn is_done(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The size of the read for the piece, in bytes; 0 if all blocks are cached.
    pub(super) fn bytes(&self) -> u64 {
        length(&self.range)
    }

    /// The bytes of the uncached blocks that the scan has not entered yet.
    pub(super) fn unused_bytes(&self) -> u64 {
        let unused = self.blocks.iter().filter(|block| block.cached.is_none());
        unused
            .map(|block| block.end.saturating_sub(block.handle.offset))
            .sum()
    }

    /// Whether the piece needs a read that was not issued yet.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self.stored, Stored::Not) && !self.range.is_empty()
    }

    /// Whether the piece still holds this block.
    pub(super) fn holds(&self, file: &Arc<TableFile>, handle: BlockHandle) -> bool {
        Arc::ptr_eq(&self.file, file) && self.blocks.iter().any(|block| block.handle == handle)
    }

    /// Drops the blocks before the given one; returns false if the piece does not contain that.
    pub(super) fn advance_to(&mut self, file: &Arc<TableFile>, handle: BlockHandle) -> bool {
        if !Arc::ptr_eq(&self.file, file) {
            return false;
        }
        let Some(at) = self.blocks.iter().position(|block| block.handle == handle) else {
            return false;
        };
        if at > 0 {
            self.blocks.drain(..at);
        }
        true
    }

    /// The in-flight read for which the next block has to wait; `None` if it need not wait.
    pub(super) fn missing(&self) -> Option<&Arc<PieceRead>> {
        match (&self.stored, self.blocks.front()) {
            (Stored::Coming(read), Some(block)) if block.cached.is_none() => {
                Some(read).filter(|read| !read.is_done())
            }
            _ => None,
        }
    }

    /// Removes the first remaining block and returns it, with its stored bytes if they were read.
    pub(super) fn take(&mut self) -> Planned<'_> {
        let Some(block) = self.blocks.pop_front() else {
            return Planned::Nothing;
        };
        if let Some(cached) = block.cached {
            return Planned::Block(cached);
        }
        if let Stored::Coming(read) = &self.stored
            && let Some(bytes) = read.share(&self.range)
        {
            self.stored = Stored::Here(bytes);
        }
        let Stored::Here(bytes) = &self.stored else {
            return Planned::Nothing;
        };
        // The device or another core wrote the next block, and its checksum would stall on each
        // line. Prefetching overlaps with the scan's work on this block.
        if let Some(next) = self.blocks.front().filter(|next| next.cached.is_none())
            && let Some((start, length)) = self.place_of(next, bytes)
        {
            prefetch_block(bytes.buffer.slice(start, length));
        }
        match self.place_of(&block, bytes) {
            Some((start, length)) => Planned::Stored(&bytes.buffer, start, length),
            None => Planned::Nothing,
        }
    }

    /// Returns offset and length of a block's stored bytes in the buffer; `None` if not in it.
    fn place_of(&self, block: &Upcoming, bytes: &PieceBytes) -> Option<(u64, u32)> {
        let (from, to) = (block.handle.offset, block.end);
        if from < self.range.start || to > self.range.end {
            return None;
        }
        let length = u32::try_from(to.saturating_sub(from)).ok()?;
        let at = from.saturating_sub(self.range.start);
        Some((bytes.start.saturating_add(at), length))
    }
}
