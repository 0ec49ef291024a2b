//! The block source of a scan, which detects sequential access and reads ahead.
//!
//! The policy is RocksDB's (`file/file_prefetch_buffer.cc`): after a number of consecutive blocks,
//! the next block that the cache lacks is read together with some bytes after it, twice as many
//! each time up to a limit. A size given by the reader is used unchanged, from the first block on.
//! In contrast to RocksDB it works in both directions, and never reads beyond the scan's bounds.
//!
//! A source without [`ScanReads`] reads one piece when the scan reaches it, synchronously, and
//! never suspends. A source with them has pieces read while the scan consumes the preceding one, as
//! many as `Pace` determines, and suspends where a block has not arrived.
//!
//! A block that enters the cache is copied out of its piece. Other blocks are used in place.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::{Fault, Result};

use super::ahead::{Lookahead, Piece, Planned, ScanLimits, Stored};
use super::pace::Pace;
use super::scan_reads::{PieceBytes, ScanReads, ScanSuspended};
use crate::block_based::cursor::{CursorSource, ScanPosition, TableLevel};
use crate::format::BlockHandle;
use crate::source::{
    BlockKind, BlockReadOptions, BlockSource, CachedBlock, Direction, TableFile, not_cached,
};

/// The readahead settings of a scan.
#[derive(Clone, Copy, Debug)]
pub struct ReadaheadPolicy {
    /// Bytes to read after a missing block; 0 uses the adaptive size of the other fields.
    pub fixed_bytes: u64,
    /// The initial adaptive size; 0 disables it.
    pub initial_bytes: u64,
    /// The largest adaptive size; 0 disables readahead.
    pub max_bytes: u64,
    /// The number of consecutive blocks entered before readahead begins.
    pub blocks_before: u64,
    /// Whether the size is kept from one table to the next.
    pub adaptive: bool,
    /// Whether readahead stops at the bounds of the scan.
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

/// The last block that a scan entered, its run of blocks, and the readahead size for that run.
#[derive(Clone, Copy, Debug, Default)]
struct AccessPattern {
    cache_id: u64,
    /// The start and end of the block.
    start: u64,
    end: u64,
    /// The number of consecutive blocks entered.
    run: u64,
    /// The next readahead size; 0 for the initial one.
    ahead_bytes: u64,
}

/// The largest gap, left by padding to an alignment, at which one block still follows another.
const PADDING_MAX: u64 = 8 << 10;

/// The number of bytes read ahead after which the share of unused ones is evaluated.
const WASTE_COUNTED: u64 = 1 << 20;

/// The largest piece: with its first block and alignment it fits into 256 KiB of memory.
const PIECE_BYTES_MAX: u64 = 240 << 10;

/// The number of pieces that should fit into a table's budget: one in use and two ahead.
const PIECES_ALLOTTED: u64 = 3;

/// The smallest budget of a table, if there is any.
const ALLOTTED_MIN: u64 = 96 << 10;

/// The divisor of the cache capacity that gives the length from which a scan may bypass the cache.
const LONG_SHARE: u64 = 128;

/// The smallest readahead that is worthwhile.
const PIECE_BYTES_MIN: u64 = 4 << 10;

impl AccessPattern {
    /// Records that the scan enters a data block; one that is not adjacent begins a new run.
    #[inline]
    fn enter(
        &mut self,
        file: &TableFile,
        handle: BlockHandle,
        direction: Direction,
        adaptive: bool,
        limits: &ScanLimits,
    ) {
        let end = handle.offset.saturating_add(handle.size);
        let gap = match direction {
            Direction::Forward => handle.offset.wrapping_sub(self.end),
            Direction::Backward => self.start.wrapping_sub(end),
        };
        if self.cache_id == file.cache_id && gap <= PADDING_MAX {
            self.run = self.run.saturating_add(1);
        } else {
            self.begin(file, handle, adaptive, limits);
        }
        self.start = handle.offset;
        self.end = end;
    }

    /// Handles a block that does not follow the last one: a seek begins a new run of blocks.
    ///
    /// An adaptive scan that crosses over to another table continues its run. The repetition of a
    /// suspended call changes nothing.
    ///
    /// A source moves to another table only in a scan that crosses over.
    #[cold]
    fn begin(
        &mut self,
        file: &TableFile,
        handle: BlockHandle,
        adaptive: bool,
        limits: &ScanLimits,
    ) {
        let is_same_file = self.cache_id == file.cache_id;
        if is_same_file && self.start == handle.offset && self.run != 0 {
            return;
        }
        let is_first = self.run == 0;
        if !is_same_file && !is_first && adaptive {
            self.run = self.run.saturating_add(1);
        } else {
            self.run = 1;
            self.ahead_bytes = 0;
        }
        if is_same_file || is_first {
            limits.restart();
        }
        self.cache_id = file.cache_id;
    }
}

/// The state of a scan's readahead: the pieces that are read or in flight, and the lookahead.
#[derive(Debug)]
struct ReadaheadPlan {
    lookahead: Lookahead,
    /// The pieces; the first is the one being consumed.
    pieces: VecDeque<Piece>,
    /// When the scan began to consume the first piece, excluding the wait for it.
    begun: Duration,
    /// When the wait for the first piece began.
    waiting: Option<Duration>,
    waited: bool,
    /// Whether the arrival of the first piece was counted.
    arrived: bool,
}

impl ReadaheadPlan {
    /// The bytes read or in flight for blocks that the scan has not entered.
    fn unused_bytes(&self) -> u64 {
        let read = self.pieces.iter().filter(|piece| !piece.is_unread());
        read.map(Piece::unused_bytes).sum()
    }
}

impl Drop for ReadaheadPlan {
    /// Counts unused bytes, whether the scan seeks elsewhere or ends.
    fn drop(&mut self) {
        let unused = self.unused_bytes();
        if let Some(piece) = self.pieces.front()
            && unused > 0
            && let Some(statistics) = &piece.file.statistics
        {
            statistics.record(HistogramKind::PrefetchedBytesDiscarded, unused);
        }
    }
}

/// The read options, readahead policy and limits that the block readers of one scan share.
struct ScanSettings {
    options: BlockReadOptions,
    policy: ReadaheadPolicy,
    limits: Arc<ScanLimits>,
    /// The engine for overlapping reads, if available.
    reads: Option<Arc<ScanReads>>,
}

/// The block source of a scan, which reads ahead (RocksDB: `BlockPrefetcher`).
pub struct ScanSource {
    settings: Arc<ScanSettings>,
    /// The largest adaptive size; less than that of the policy after much was wasted.
    bytes_max: u64,
    level: Option<Arc<dyn TableLevel>>,
    pattern: AccessPattern,
    plan: Option<Box<ReadaheadPlan>>,
    pace: Pace,
    /// Whether a block may come from a plan or a suspended call, not only from the cache.
    busy: bool,
    /// The number of readahead bytes consumed.
    used_bytes: u64,
    /// The bytes read ahead since the last evaluation of waste.
    ahead_bytes: u64,
    /// Those of `ahead_bytes` that were not used.
    wasted_bytes: u64,
}

impl ScanSource {
    /// Creates a source for a scan within `limits`, which may suspend if `reads` is given.
    #[must_use]
    pub fn new(
        options: BlockReadOptions,
        policy: ReadaheadPolicy,
        limits: Arc<ScanLimits>,
        reads: Option<Arc<ScanReads>>,
    ) -> Self {
        Self::of(Arc::new(ScanSettings {
            options,
            policy,
            limits,
            reads,
        }))
    }

    /// Creates the source of one table of a scan, without readahead state.
    fn of(settings: Arc<ScanSettings>) -> Self {
        ScanSource {
            bytes_max: settings.policy.max_bytes,
            settings,
            level: None,
            pattern: AccessPattern::default(),
            plan: None,
            pace: Pace::default(),
            busy: false,
            used_bytes: 0,
            ahead_bytes: 0,
            wasted_bytes: 0,
        }
    }

    /// Returns a loaded block, after adding it to the block cache if `fill_cache` is set.
    fn publish(
        &self,
        file: &TableFile,
        handle: BlockHandle,
        kind: BlockKind,
        block: CachedBlock,
    ) -> Arc<CachedBlock> {
        let block = Arc::new(block);
        if self.settings.options.fill_cache {
            file.publish(handle, kind, &block);
        }
        block
    }

    /// Reads one block without readahead, after a cache miss; suspends if reads are asynchronous.
    #[cold]
    fn load(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<ScanSuspended>> {
        if let Some(reads) = &self.settings.reads {
            self.busy = true;
            return reads.missed(file, handle, kind);
        }
        if self.settings.options.cache_only {
            return Err(not_cached().into());
        }
        self.settings.options.pay(handle.size);
        let block = file.read(handle, kind, self.settings.options.verify_checksums)?;
        Ok(self.publish(file, handle, kind, block))
    }

    /// Returns a block for a repeated call: one read for that, or cached; otherwise suspends.
    #[cold]
    fn load_again(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<ScanSuspended>> {
        match &self.settings.reads {
            Some(reads) => reads.block(file, handle, kind),
            None => match file.cached(handle, kind) {
                Some(block) => Ok(block),
                None => self.load(file, handle, kind),
            },
        }
    }

    /// Returns the number of bytes to read after a missing block; 0 for no readahead.
    fn bytes_ahead(&mut self, file: &TableFile) -> u64 {
        if file.file.mapped().is_some() || self.settings.options.cache_only {
            return 0;
        }
        let policy = &self.settings.policy;
        if policy.fixed_bytes == 0
            && (self.bytes_max == 0
                || policy.initial_bytes == 0
                || self.pattern.run <= policy.blocks_before)
        {
            return 0;
        }
        self.next_bytes()
    }

    /// Returns the readahead size of the next piece; doubles the adaptive size for later ones.
    fn next_bytes(&mut self) -> u64 {
        let policy = &self.settings.policy;
        if policy.fixed_bytes != 0 {
            return policy.fixed_bytes;
        }
        let bytes = self.pattern.ahead_bytes.max(policy.initial_bytes);
        self.pattern.ahead_bytes = bytes.saturating_mul(2).min(self.bytes_max);
        bytes.min(self.bytes_max)
    }

    /// Drops the readahead plan, and halves the readahead size limit if too much was read in vain.
    fn drop_plan(&mut self) {
        let Some(plan) = self.plan.take() else { return };
        self.wasted_bytes = self.wasted_bytes.saturating_add(plan.unused_bytes());
        if self.ahead_bytes >= WASTE_COUNTED {
            if self.wasted_bytes > self.ahead_bytes / 2 {
                let least = self.settings.policy.initial_bytes.min(self.bytes_max);
                self.bytes_max = (self.bytes_max / 2).max(least);
                self.pattern.ahead_bytes = 0;
            }
            self.ahead_bytes = 0;
            self.wasted_bytes = 0;
        }
    }

    /// Whether the block is among those read ahead.
    fn is_planned(&self, file: &Arc<TableFile>, handle: BlockHandle) -> bool {
        let pieces = self.plan.iter().flat_map(|plan| &plan.pieces);
        pieces.into_iter().any(|piece| piece.holds(file, handle))
    }

    /// Takes a block from the readahead plan; drops a plan without the block and returns `None`.
    fn planned(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
    ) -> Result<Option<Arc<CachedBlock>>, Fault<ScanSuspended>> {
        let Some(mut plan) = self.plan.take() else {
            return Ok(None);
        };
        while let Some(piece) = plan.pieces.front_mut() {
            if piece.advance_to(file, handle) {
                break;
            }
            // A scan may skip blocks in between, as a seek does.
            let ahead = plan.pieces.iter().skip(1);
            if !ahead.into_iter().any(|piece| piece.holds(file, handle)) {
                self.plan = Some(plan);
                self.drop_plan();
                return Ok(None);
            }
            self.finish_piece(&mut plan);
        }
        if let Some(piece) = plan.pieces.front() {
            if let Some(read) = piece.missing() {
                let Some(reads) = &self.settings.reads else {
                    return Ok(None);
                };
                plan.waiting.get_or_insert_with(|| reads.now());
                let fault = reads.note(read);
                self.plan = Some(plan);
                return Err(fault);
            }
            if !plan.arrived
                && let Stored::Coming(read) = &piece.stored
                && let Some(latency) = read.latency()
            {
                plan.arrived = true;
                self.pace.arrived(latency);
                piece.file.count_read(piece.bytes(), latency);
            }
            if let (Some(since), Some(reads)) = (plan.waiting.take(), &self.settings.reads) {
                plan.begun = plan.begun.saturating_add(reads.now().saturating_sub(since));
                plan.waited = true;
            }
        }
        let block = self.take_block(&mut plan, file, handle);
        if plan.pieces.front().is_some_and(Piece::is_done) {
            self.finish_piece(&mut plan);
            self.top_up(&mut plan);
        }
        self.plan = (!plan.pieces.is_empty()).then_some(plan);
        block
    }

    /// Returns the next block of the current piece, decoded; loads it separately if that fails.
    fn take_block(
        &mut self,
        plan: &mut ReadaheadPlan,
        file: &Arc<TableFile>,
        handle: BlockHandle,
    ) -> Result<Option<Arc<CachedBlock>>, Fault<ScanSuspended>> {
        let verify = self.settings.options.verify_checksums;
        let kept = plan.pieces.front().is_some_and(|piece| piece.kept);
        let planned = plan.pieces.front_mut().map(Piece::take);
        let (read, start, length) = match planned {
            Some(Planned::Block(block)) => return Ok(Some(block)),
            Some(Planned::Stored(read, start, length)) => (read, start, length),
            Some(Planned::Nothing) | None => {
                return self.load(file, handle, BlockKind::Data).map(Some);
            }
        };
        let decoded = if kept {
            let stored = read.slice(start, length);
            file.decode(handle, BlockKind::Data, stored, verify)
        } else {
            file.decode_lent(handle, (read, start, length), verify)
        };
        let Ok(block) = decoded else {
            // A block that is damaged in a large read may be intact in a read of its own.
            return self.load(file, handle, BlockKind::Data).map(Some);
        };
        if let Some(statistics) = &file.statistics {
            statistics.add_all(&[
                (Ticker::PrefetchHits, 1),
                (Ticker::PrefetchBytesUseful, u64::from(length)),
            ]);
        }
        let block = Arc::new(block);
        if kept {
            file.publish(handle, BlockKind::Data, &block);
        }
        Ok(Some(block))
    }

    /// Removes the current piece and records its consumption in the measured pace.
    fn finish_piece(&mut self, plan: &mut ReadaheadPlan) {
        let Some(piece) = plan.pieces.pop_front() else {
            return;
        };
        if let Some(reads) = &self.settings.reads {
            let now = reads.now();
            if piece.bytes() > 0 {
                reads.use_up(piece.bytes());
                self.used_bytes = self.used_bytes.saturating_add(piece.bytes());
                let elapsed = now.saturating_sub(plan.begun);
                let is_ahead = plan.pieces.iter().all(|piece| piece.missing().is_none());
                self.pace
                    .used(piece.bytes(), elapsed, plan.waited, is_ahead);
            }
            plan.begun = now;
            plan.waited = false;
            plan.arrived = false;
        }
    }

    /// Plans pieces until the scan has enough read ahead of it, and issues their reads.
    fn top_up(&mut self, plan: &mut ReadaheadPlan) {
        let Some(reads) = self.settings.reads.clone() else {
            return;
        };
        let mut pushed = false;
        for (index, piece) in plan.pieces.iter_mut().enumerate() {
            if piece.is_unread() {
                pushed |= self.push(&reads, piece, index == 0);
            }
        }
        loop {
            let allotted = reads.allotment(self.used_bytes).max(ALLOTTED_MIN);
            let size = self
                .pattern
                .ahead_bytes
                .max(self.settings.policy.fixed_bytes);
            let size = self.pace.piece_bytes(size.min(PIECE_BYTES_MAX));
            let size = size.min(allotted / PIECES_ALLOTTED);
            let is_unread = plan.pieces.back().is_some_and(Piece::is_unread);
            if plan.lookahead.ended() || is_unread || plan.pieces.len() > self.pace.depth(size) {
                break;
            }
            let urgent = plan.pieces.is_empty();
            let held = plan.pieces.iter().map(Piece::bytes).sum();
            let room = match allotted.saturating_sub(held) {
                _ if urgent => reads.bytes_left(),
                unheld => unheld.min(reads.bytes_left()),
            };
            if room < PIECE_BYTES_MIN.max(if urgent { 0 } else { size / 2 }) {
                break;
            }
            let bytes = self.next_bytes().min(size.max(PIECE_BYTES_MIN));
            let Some(mut piece) = self.plan_piece(&mut plan.lookahead, bytes.min(room)) else {
                break;
            };
            if piece.range.is_empty() && !urgent {
                // All of it is cached: the cache may also have what follows.
                plan.lookahead.end();
            }
            pushed |= self.push(&reads, &mut piece, urgent);
            plan.pieces.push_back(piece);
        }
        if pushed {
            reads.flush();
        }
    }

    /// Queues the read of a piece; false if it needs none, or the scan is over budget or too late.
    fn push(&mut self, reads: &ScanReads, piece: &mut Piece, urgent: bool) -> bool {
        if piece.range.is_empty() {
            return false;
        }
        let Some(read) = reads.push(&piece.file, &piece.range, urgent) else {
            return false;
        };
        piece.stored = Stored::Coming(read);
        self.count_ahead(piece);
        true
    }

    /// Counts the bytes of a piece in the statistics (`PREFETCH_BYTES`) and for the share of waste.
    fn count_ahead(&mut self, piece: &Piece) {
        self.ahead_bytes = self.ahead_bytes.saturating_add(piece.bytes());
        if let Some(statistics) = &piece.file.statistics {
            statistics.add(Ticker::PrefetchBytes, piece.bytes());
        }
    }

    /// Plans the next read-ahead of blocks: at most `bytes` after the first; `None` at an end.
    fn plan_piece(&mut self, lookahead: &mut Lookahead, bytes: u64) -> Option<Piece> {
        let settings = Arc::clone(&self.settings);
        let limits = settings.policy.trimmed.then_some(&*settings.limits);
        let bytes = match &settings.reads {
            Some(_) => bytes.min(PIECE_BYTES_MAX),
            None => bytes,
        };
        let mut piece = lookahead.piece(bytes, self, limits)?;
        piece.kept = self.keeps(&piece);
        self.settings.limits.pass(piece.bytes());
        Some(piece)
    }

    /// Whether to insert a piece's blocks into the block cache; rarely once a long scan filled it.
    ///
    /// A long scan inserts blocks while the cache has room, and then one piece in 64.
    ///
    /// Most blocks of a long scan do not evict others: they would be evicted before the next use,
    /// which costs more than reading them again.
    fn keeps(&self, piece: &Piece) -> bool {
        let Some(cache) = piece
            .file
            .cache
            .as_ref()
            .filter(|_| self.settings.options.fill_cache)
        else {
            return false;
        };
        let is_long = self.settings.limits.passed_bytes() > cache.capacity() / LONG_SHARE;
        !is_long || cache.admits_passing(&piece.file.cache_key(piece.range.start))
    }

    /// Starts readahead at the block that the scan enters, by reading the first piece.
    fn begin_plan(&mut self, place: &ScanPosition<'_>, bytes: u64) {
        let mut lookahead = Lookahead::new(place, self.level.clone());
        let room = match &self.settings.reads {
            Some(reads) => reads.bytes_left(),
            None => u64::MAX,
        };
        let Some(mut piece) = self.plan_piece(&mut lookahead, bytes.min(room)) else {
            return;
        };
        let mut begun = Duration::ZERO;
        if let Some(reads) = self.settings.reads.clone() {
            begun = reads.now();
            if !self.push(&reads, &mut piece, true) {
                return;
            }
        } else {
            let file = place.file();
            self.settings.options.pay(piece.bytes());
            // If they cannot be read together, the blocks are read one by one.
            if let Ok(stored) = PieceBytes::read(file, &piece.range) {
                piece.stored = Stored::Here(stored);
                self.count_ahead(&piece);
                self.hint(file, &piece.range, place.direction, lookahead.ended());
            }
        }
        let mut plan = Box::new(ReadaheadPlan {
            lookahead,
            pieces: VecDeque::from([piece]),
            begun,
            waiting: None,
            waited: false,
            arrived: false,
        });
        self.top_up(&mut plan);
        self.plan = Some(plan);
        self.busy = true;
    }

    /// Advises the operating system to prefetch the bytes after a piece, unless reads are direct.
    fn hint(&self, file: &TableFile, range: &Range<u64>, direction: Direction, ended: bool) {
        let next = self
            .pattern
            .ahead_bytes
            .max(self.settings.policy.fixed_bytes);
        if ended || file.file.alignment() > 1 {
            return;
        }
        let (from, to) = match direction {
            Direction::Forward => (
                range.end,
                range.end.saturating_add(next).min(file.blocks_end),
            ),
            Direction::Backward => (range.start.saturating_sub(next), range.start),
        };
        file.file.prefetch(from, to.saturating_sub(from));
    }

    /// Returns a data block that is read ahead or cached; otherwise starts readahead with it.
    #[cold]
    fn fetch(
        &mut self,
        place: &ScanPosition<'_>,
        handle: BlockHandle,
    ) -> Result<Arc<CachedBlock>, Fault<ScanSuspended>> {
        let file = place.file();
        if self.busy {
            let suspended = self
                .settings
                .reads
                .as_ref()
                .filter(|reads| reads.is_suspended());
            if suspended.is_some_and(|reads| reads.is_needed(file, handle)) {
                return self.load_again(file, handle, BlockKind::Data);
            }
            // A repeated call passes blocks outside the plan. The plan it waits for is kept;
            // otherwise it would wait for ever.
            let waits = suspended.is_some_and(|reads| reads.is_awaiting());
            if (!waits || self.is_planned(file, handle))
                && let Some(block) = self.planned(file, handle)?
            {
                return Ok(block);
            }
            self.busy = self.plan.is_some();
            if let Some(block) = file.cached(handle, BlockKind::Data) {
                return Ok(block);
            }
            if waits && self.plan.is_some() {
                return self.load(file, handle, BlockKind::Data);
            }
        }
        let bytes = self.bytes_ahead(file);
        if bytes == 0 {
            return self.load(file, handle, BlockKind::Data);
        }
        self.begin_plan(place, bytes);
        match self.planned(file, handle)? {
            Some(block) => Ok(block),
            None => self.load(file, handle, BlockKind::Data),
        }
    }
}

impl Clone for ScanSource {
    /// Creates a source for another table of the scan.
    fn clone(&self) -> Self {
        ScanSource {
            level: self.level.clone(),
            ..ScanSource::of(Arc::clone(&self.settings))
        }
    }
}

impl BlockSource for ScanSource {
    type Suspend = ScanSuspended;

    #[inline]
    fn block(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<ScanSuspended>> {
        if self.busy {
            return self.load_again(file, handle, kind);
        }
        match file.cached(handle, kind) {
            Some(block) => Ok(block),
            None => self.load(file, handle, kind),
        }
    }
}

impl CursorSource for ScanSource {
    #[inline]
    fn scanned_block(
        &mut self,
        place: &ScanPosition<'_>,
        handle: BlockHandle,
    ) -> Result<Arc<CachedBlock>, Fault<ScanSuspended>> {
        let file = place.file();
        let adaptive = self.settings.policy.adaptive;
        self.pattern.enter(
            file,
            handle,
            place.direction,
            adaptive,
            &self.settings.limits,
        );
        if !self.busy
            && let Some(block) = file.cached(handle, BlockKind::Data)
        {
            return Ok(block);
        }
        self.fetch(place, handle)
    }

    /// Whether reads overlap: only then are they issued before the scan reaches the next table.
    fn reads_levels(&self) -> bool {
        self.settings.reads.is_some()
    }

    fn set_level(&mut self, level: Arc<dyn TableLevel>) {
        self.level = Some(level);
    }
}

impl fmt::Debug for ScanSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanSource")
            .field("policy", &self.settings.policy)
            .field("pattern", &self.pattern)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}
