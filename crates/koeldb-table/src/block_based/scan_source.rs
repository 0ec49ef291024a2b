//! The source of a scan's blocks: it notices blocks entered one after the other, and then reads ahead.
//!
//! The decision is RocksDB's (`file/file_prefetch_buffer.cc`): after a number of blocks in a row the next one that the
//! cache does not have is read together with some bytes behind it, twice as many each time up to a limit. A size given
//! by the reader is used as it is, from the first block on. Unlike there, it works both ways, and never reads beyond
//! what the scan may see.

use std::ops::Range;
use std::sync::Arc;

use koeldb_base::stats::Ticker;
use koeldb_base::{Blocking, Fault, Result};

use super::ahead::{Lookahead, Piece, Planned, ScanLimits, Stored};
use super::cursor::ScanPlace;
use super::format::BlockHandle;
use crate::source::{
    BlockKind, BlockReadOptions, BlockSource, CachedBlock, TableFile, Way, not_cached,
};

/// How much a scan reads ahead.
#[derive(Clone, Copy, Debug)]
pub struct ReadaheadPolicy {
    /// Bytes behind a missing block that are read with it; 0: as the other fields say.
    pub fixed_bytes: u64,
    /// The same, the first time; 0: none ever.
    pub initial_bytes: u64,
    /// The most; 0: none ever.
    pub max_bytes: u64,
    /// So many blocks one after the other are entered before anything is read ahead.
    pub blocks_before: u64,
    /// Whether the size is kept from one table to the next, and falls where blocks turn out to be cached.
    pub adaptive: bool,
    /// Whether nothing is read that the scan will not see.
    pub trimmed: bool,
}

impl Default for ReadaheadPolicy {
    fn default() -> Self {
        ReadaheadPolicy {
            fixed_bytes: 0,
            initial_bytes: 8 << 10,
            max_bytes: 256 << 10,
            blocks_before: 2,
            adaptive: false,
            trimmed: true,
        }
    }
}

/// What was entered last, and what follows from it.
#[derive(Clone, Copy, Debug, Default)]
struct Pattern {
    cache_id: u64,
    /// Where the block begins and ends.
    start: u64,
    end: u64,
    /// How many were entered in a row.
    run: u64,
    /// The bytes to read ahead next; 0: the initial ones.
    ahead_bytes: u64,
}

/// Blocks may be padded to an alignment: with a gap up to this, one still follows the other.
const PADDING_MAX: u64 = 8 << 10;

impl Pattern {
    #[inline]
    fn enter(&mut self, file: &TableFile, handle: BlockHandle, way: Way, adaptive: bool) {
        let end = handle.offset.saturating_add(handle.size);
        let gap = match way {
            Way::Forward => handle.offset.wrapping_sub(self.end),
            Way::Backward => self.start.wrapping_sub(end),
        };
        if self.cache_id == file.cache_id && gap <= PADDING_MAX {
            self.run = self.run.saturating_add(1);
        } else {
            self.begin(file, adaptive);
        }
        self.start = handle.offset;
        self.end = end;
    }

    /// A block that does not follow the one before. A source comes to another table only in a scan that crosses over.
    #[cold]
    fn begin(&mut self, file: &TableFile, adaptive: bool) {
        let crosses = self.cache_id != file.cache_id && self.run != 0;
        if crosses && adaptive {
            self.run = self.run.saturating_add(1);
        } else {
            self.run = 1;
            self.ahead_bytes = 0;
        }
        self.cache_id = file.cache_id;
    }
}

/// A source that reads what the cache does not have, in place, and ahead of a scan.
#[derive(Debug)]
pub struct ScanSource {
    options: BlockReadOptions,
    policy: ReadaheadPolicy,
    limits: Arc<ScanLimits>,
    pattern: Pattern,
    piece: Option<Box<Piece>>,
}

impl ScanSource {
    /// A source for a scan within `limits`.
    #[must_use]
    pub fn new(
        options: BlockReadOptions,
        policy: ReadaheadPolicy,
        limits: Arc<ScanLimits>,
    ) -> Self {
        ScanSource {
            options,
            policy,
            limits,
            pattern: Pattern::default(),
            piece: None,
        }
    }

    fn check_tier(&self) -> Result<()> {
        if self.options.cache_only {
            return Err(not_cached());
        }
        Ok(())
    }

    fn publish(
        &self,
        file: &TableFile,
        handle: BlockHandle,
        kind: BlockKind,
        block: CachedBlock,
    ) -> Arc<CachedBlock> {
        let block = Arc::new(block);
        if self.options.fill_cache {
            file.publish(handle, kind, &block);
        }
        block
    }

    /// Reads one block alone.
    #[cold]
    fn load(
        &self,
        file: &TableFile,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>> {
        self.check_tier()?;
        let block = file.read(handle, kind, self.options.verify_checksums)?;
        Ok(self.publish(file, handle, kind, block))
    }

    /// How many bytes behind a missing block are to be read with it.
    fn ahead_bytes(&mut self, file: &TableFile) -> u64 {
        let policy = &self.policy;
        if file.file.mapped().is_some() || self.options.cache_only {
            return 0;
        }
        if policy.fixed_bytes != 0 {
            return policy.fixed_bytes;
        }
        if policy.max_bytes == 0
            || policy.initial_bytes == 0
            || self.pattern.run <= policy.blocks_before
        {
            return 0;
        }
        let initial = policy.initial_bytes.min(policy.max_bytes);
        let bytes = self.pattern.ahead_bytes.max(initial);
        self.pattern.ahead_bytes = bytes.saturating_mul(2).min(policy.max_bytes);
        bytes
    }

    /// Lets the system read what comes behind a piece while the piece is used, where it keeps what it reads.
    fn hint(&self, file: &TableFile, range: &Range<u64>, way: Way, ended: bool) {
        let next = self.pattern.ahead_bytes.max(self.policy.fixed_bytes);
        if ended || file.file.alignment() > 1 {
            return;
        }
        let (from, to) = match way {
            Way::Forward => (
                range.end,
                range.end.saturating_add(next).min(file.blocks_end),
            ),
            Way::Backward => (range.start.saturating_sub(next), range.start),
        };
        file.file.prefetch(from, to.saturating_sub(from));
    }

    /// The block from what was read ahead, if it is there.
    fn planned(
        &mut self,
        file: &TableFile,
        handle: BlockHandle,
    ) -> Result<Option<Arc<CachedBlock>>> {
        let Some(mut piece) = self.piece.take() else {
            return Ok(None);
        };
        if !piece.advance_to(file.cache_id, handle) {
            return Ok(None);
        }
        let verify = self.options.verify_checksums;
        let block = match piece.take() {
            Planned::Block(block) => block,
            Planned::Stored(stored) => {
                // What is damaged in a large read may be whole in one of its own.
                let block = match file.decode(handle, BlockKind::Data, stored, verify) {
                    Ok(block) => block,
                    Err(_) => file.read(handle, BlockKind::Data, verify)?,
                };
                if let Some(statistics) = &file.statistics {
                    statistics.add(Ticker::PrefetchHits, 1);
                }
                self.publish(file, handle, BlockKind::Data, block)
            }
            Planned::Nothing => self.load(file, handle, BlockKind::Data)?,
        };
        self.piece = (!piece.is_done()).then_some(piece);
        Ok(Some(block))
    }

    #[cold]
    fn fetch(&mut self, place: &ScanPlace<'_>, handle: BlockHandle) -> Result<Arc<CachedBlock>> {
        let file = place.file();
        if self.piece.is_some() {
            if let Some(block) = self.planned(file, handle)? {
                return Ok(block);
            }
            if let Some(block) = file.cached(handle, BlockKind::Data) {
                return Ok(block);
            }
        }
        let ahead = self.ahead_bytes(file);
        if ahead == 0 {
            return self.load(file, handle, BlockKind::Data);
        }
        let limits = Arc::clone(&self.limits);
        let limits = self.policy.trimmed.then_some(&*limits);
        let mut lookahead = Lookahead::new(place);
        let piece = lookahead.piece(ahead, self, limits);
        if let Some(mut piece) = piece {
            let bytes = piece.range.end - piece.range.start;
            if let Ok(stored) = file.read_bytes(piece.range.start, bytes) {
                piece.stored = Stored::Here(stored);
                self.hint(file, &piece.range, place.way, lookahead.ended());
                if let Some(statistics) = &file.statistics {
                    statistics.add(Ticker::PrefetchBytes, bytes);
                }
            }
            self.piece = Some(Box::new(piece));
        }
        match self.planned(file, handle)? {
            Some(block) => Ok(block),
            None => self.load(file, handle, BlockKind::Data),
        }
    }
}

impl Clone for ScanSource {
    /// A source for another table of the scan.
    fn clone(&self) -> Self {
        ScanSource::new(self.options, self.policy, Arc::clone(&self.limits))
    }
}

impl BlockSource for ScanSource {
    type Suspend = Blocking;

    #[inline]
    fn block(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<Blocking>> {
        match file.cached(handle, kind) {
            Some(block) => Ok(block),
            None => Ok(self.load(file, handle, kind)?),
        }
    }

    #[inline]
    fn scanned_block(
        &mut self,
        place: &ScanPlace<'_>,
        handle: BlockHandle,
    ) -> Result<Arc<CachedBlock>, Fault<Blocking>> {
        let file = place.file();
        let adaptive = self.policy.adaptive;
        self.pattern.enter(file, handle, place.way, adaptive);
        if self.piece.is_none()
            && let Some(block) = file.cached(handle, BlockKind::Data)
        {
            return Ok(block);
        }
        Ok(self.fetch(place, handle)?)
    }
}
