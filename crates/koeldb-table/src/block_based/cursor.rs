//! Scans of a block-based table.
//!
//! A cursor is a path: a position in the top level of a partitioned index, one in an index block,
//! one in a data block. When a step leaves a block, the positions above move first; the remaining
//! work is recorded, so that a block source may suspend the step at any block, and repeating the
//! same call resumes it.

use std::sync::Arc;

use koeldb_base::key::FOOTER_BYTES;
use koeldb_base::{ArcRef, Cursor, Fault, PinnedSlice, Result};

use super::reader::BlockBasedReader;
use crate::block::index::IndexCursor;
use crate::block::{BlockCursor, HeldBlock};
use crate::format::BlockHandle;
use crate::read_context::TableCursorOptions;
use crate::source::probe::ProbeSource;
use crate::source::{BlockKind, BlockSource, BlockingSource, CachedBlock, Direction, TableFile};

/// The position and direction of a scan in a table.
#[derive(Clone, Copy, Debug)]
pub struct ScanPosition<'c> {
    pub(super) table: &'c ArcRef<'c, BlockBasedReader>,
    /// The index position, on the entry of the block that the scan enters.
    pub(super) index: &'c IndexPath<'c>,
    pub(super) direction: Direction,
}

impl ScanPosition<'_> {
    /// The file of the table.
    #[inline]
    #[must_use]
    pub fn file(&self) -> &Arc<TableFile> {
        &self.table.file
    }
}

/// A block source for table cursors, which is told the position of a scan for readahead.
pub trait CursorSource: BlockSource {
    /// Returns a data block that a scan enters at `place`.
    ///
    /// `place` gives access to the blocks that the scan enters next, for sources that read ahead.
    ///
    /// # Errors
    /// See [`BlockSource::block`].
    #[inline]
    fn scanned_block(
        &mut self,
        place: &ScanPosition<'_>,
        handle: BlockHandle,
    ) -> Result<Arc<CachedBlock>, Fault<Self::Suspend>> {
        self.block(place.file(), handle, BlockKind::Data)
    }

    /// Whether the source reads ahead into the next tables of a level.
    fn reads_levels(&self) -> bool {
        false
    }

    /// Sets the tables of the level, into which the source reads ahead.
    fn set_level(&mut self, level: Arc<dyn TableLevel>) {
        drop(level);
    }
}

impl CursorSource for BlockingSource {}

impl CursorSource for ProbeSource {}

/// A source that a cursor borrows for one look-up.
impl<S: CursorSource> CursorSource for &mut S {}

/// The tables of a level, for readahead into the next table.
pub trait TableLevel: Send + Sync {
    /// The table after that of file `number` in the given direction, and its first user key.
    ///
    /// That is the key at which it begins in this direction. `None` at the end of the level, and if
    /// the table is not block-based.
    ///
    /// # Errors
    /// If the table cannot be opened.
    fn neighbour(
        &self,
        number: u64,
        way: Direction,
    ) -> Result<Option<(Arc<BlockBasedReader>, Vec<u8>)>>;
}

/// A cursor over the index of a table, whether partitioned (two-level) or not.
#[derive(Debug, Default)]
pub(super) struct IndexPath<'t> {
    /// The table, if it outlives the path: the path then borrows its root.
    lender: Option<&'t BlockBasedReader>,
    /// Boxed, because few indexes are partitioned and cursors are moved while they are created.
    top: Option<Box<IndexCursor<'t>>>,
    leaf: Option<IndexCursor<'t>>,
    /// The direction of a move of the top level after which the partition is not loaded yet.
    unloaded: Option<Direction>,
}

impl<'t> IndexPath<'t> {
    /// Creates an unpositioned index cursor that borrows the pinned index of `table`.
    pub(super) fn borrowing(table: &'t BlockBasedReader) -> Self {
        IndexPath {
            lender: Some(table),
            ..IndexPath::default()
        }
    }

    /// Clones the index cursor at its position with counted references, free of `'t`.
    pub(super) fn detached<'a>(&self) -> IndexPath<'a> {
        IndexPath {
            lender: None,
            top: self.top.as_ref().map(|top| Box::new(top.detached())),
            leaf: self.leaf.as_ref().map(IndexCursor::detached),
            unloaded: self.unloaded,
        }
    }

    /// Whether the index cursor is on an entry.
    #[inline]
    pub(super) fn valid(&self) -> bool {
        self.unloaded.is_none() && self.leaf.as_ref().is_some_and(IndexCursor::valid)
    }

    /// Whether the index cursor is past either end of the index, and not suspended.
    pub(super) fn is_behind(&self) -> bool {
        self.unloaded.is_none() && !self.valid()
    }

    /// The separator at the current index entry.
    pub(super) fn key(&self) -> &[u8] {
        self.leaf.as_ref().map_or(&[], IndexCursor::key)
    }

    /// The handle of the data block at the current index entry.
    pub(super) fn handle(&self) -> Result<BlockHandle> {
        match &self.leaf {
            Some(leaf) => leaf.handle(),
            None => Ok(BlockHandle::NULL),
        }
    }

    /// Moves to the first entry whose separator is at or after `target`.
    pub(super) fn seek<S: BlockSource>(
        &mut self,
        target: &[u8],
        table: &BlockBasedReader,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        if let Some(top) = self.begin(table, source)? {
            top.seek(target)?;
            if !self.load_partition(table, source)? {
                return Ok(());
            }
        }
        if let Some(leaf) = &mut self.leaf {
            leaf.seek(target)?;
            if !leaf.valid() && self.top.is_some() {
                return self.leave(Direction::Forward, table, source);
            }
        }
        Ok(())
    }

    /// Moves to the first index entry (forward) or the last one (backward).
    pub(super) fn enter<S: BlockSource>(
        &mut self,
        direction: Direction,
        table: &BlockBasedReader,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        match self.begin(table, source)? {
            Some(top) => {
                top.enter(direction)?;
                self.arrive(direction, table, source)
            }
            None => Ok(self
                .leaf
                .as_mut()
                .map_or(Ok(()), |leaf| leaf.enter(direction))?),
        }
    }

    /// Moves to the next index entry, or completes a suspended move to it.
    pub(super) fn next<S: BlockSource>(
        &mut self,
        table: &BlockBasedReader,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        self.step(Direction::Forward, table, source)
    }

    /// Moves one index entry in the given direction, or completes a suspended move.
    pub(super) fn step<S: BlockSource>(
        &mut self,
        direction: Direction,
        table: &BlockBasedReader,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        if self.unloaded.is_some() {
            return self.arrive(direction, table, source);
        }
        if let Some(leaf) = &mut self.leaf {
            leaf.step(direction)?;
            if !leaf.valid() && self.top.is_some() {
                return self.leave(direction, table, source);
            }
        }
        Ok(())
    }

    /// Loads the index root if necessary; returns the top-level cursor of a partitioned index.
    fn begin<S: BlockSource>(
        &mut self,
        table: &BlockBasedReader,
        source: &mut S,
    ) -> Result<Option<&mut IndexCursor<'t>>, Fault<S::Suspend>> {
        self.unloaded = None;
        let is_loaded = match table.partitioned_index {
            true => self.top.is_some(),
            false => self.leaf.is_some(),
        };
        if !is_loaded {
            let root = match self.lender.and_then(|lender| lender.index.pinned.as_ref()) {
                Some(pinned) => HeldBlock::new(pinned)?,
                None => HeldBlock::new(table.index.get(&table.file, source)?.into_counted())?,
            };
            let root = IndexCursor::new(root, table.index_format.clone());
            match table.partitioned_index {
                true => self.top = Some(Box::new(root)),
                false => self.leaf = Some(root),
            }
        }
        Ok(self.top.as_deref_mut())
    }

    /// Moves the top level of a partitioned index to the next partition, and enters that.
    fn leave<S: BlockSource>(
        &mut self,
        direction: Direction,
        table: &BlockBasedReader,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        if let Some(top) = &mut self.top {
            top.step(direction)?;
        }
        self.arrive(direction, table, source)
    }

    /// Enters the partition at the top-level position, or the next nonempty one in the direction.
    fn arrive<S: BlockSource>(
        &mut self,
        direction: Direction,
        table: &BlockBasedReader,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        loop {
            self.unloaded = Some(direction);
            let loaded = self.load_partition(table, source)?;
            self.unloaded = None;
            if !loaded {
                return Ok(());
            }
            let (Some(leaf), Some(top)) = (&mut self.leaf, &mut self.top) else {
                return Ok(());
            };
            leaf.enter(direction)?;
            if leaf.valid() {
                return Ok(());
            }
            top.step(direction)?;
        }
    }

    /// Loads the current partition of the top level; `false` if there is none.
    fn load_partition<S: BlockSource>(
        &mut self,
        table: &BlockBasedReader,
        source: &mut S,
    ) -> Result<bool, Fault<S::Suspend>> {
        let Some(top) = self.top.as_ref().filter(|top| top.valid()) else {
            self.leaf = None;
            return Ok(false);
        };
        let partition = source.block(&table.file, top.handle()?, BlockKind::Index)?;
        let block = HeldBlock::new(partition)?;
        match &mut self.leaf {
            Some(leaf) => leaf.reset(block),
            None => self.leaf = Some(IndexCursor::new(block, table.index_format.clone())),
        }
        Ok(true)
    }
}

/// The rest of a suspended cursor move: whether an index step or a data block load comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingStep {
    /// The index must be moved.
    Index(Direction),
    /// The data block at the index position must be loaded.
    Block(Direction),
}

/// The current data block of a cursor, which stays charged to the block cache while in use.
#[derive(Debug)]
struct DataBlock {
    cursor: BlockCursor<'static>,
    handle: BlockHandle,
}

/// A cursor over the point entries of a block-based table (RocksDB: `BlockBasedTableIterator`).
pub struct BlockBasedCursor<'t, S> {
    table: ArcRef<'t, BlockBasedReader>,
    source: S,
    /// Whether seeks query the filter for the target's prefix.
    filters: bool,
    index: IndexPath<'t>,
    data: Option<DataBlock>,
    on_entry: bool,
    pending: Option<PendingStep>,
}

impl<'t, S: CursorSource> BlockBasedCursor<'t, S> {
    /// Creates an unpositioned cursor.
    pub(crate) fn new(
        table: ArcRef<'t, BlockBasedReader>,
        source: S,
        options: &TableCursorOptions,
    ) -> Self {
        BlockBasedCursor {
            filters: options.filters_by(table.prefix_extractor()),
            index: match &table {
                ArcRef::Borrowed(table) => IndexPath::borrowing(table),
                ArcRef::Counted(_) => IndexPath::default(),
            },
            table,
            source,
            data: None,
            on_entry: false,
            pending: None,
        }
    }

    /// Returns the block source, so that a cursor over another table can use it.
    pub(crate) fn into_source(self) -> S {
        self.source
    }

    /// Loads the data block at the index position unless it is current; `None` past the end.
    fn load(
        &mut self,
        direction: Direction,
    ) -> Result<Option<&mut BlockCursor<'static>>, Fault<S::Suspend>> {
        if !self.index.valid() {
            return Ok(None);
        }
        let handle = self.index.handle()?;
        if self.data.as_ref().is_none_or(|data| data.handle != handle) {
            let place = ScanPosition {
                table: &self.table,
                index: &self.index,
                direction,
            };
            let block = HeldBlock::new(self.source.scanned_block(&place, handle)?)?;
            let layout = block.layout();
            match &mut self.data {
                Some(data) => {
                    data.cursor.reset(block, layout);
                    data.handle = handle;
                }
                None => {
                    self.data = Some(DataBlock {
                        cursor: BlockCursor::new(block, layout, self.table.data_keys.clone()),
                        handle,
                    });
                }
            }
        }
        Ok(self.data.as_mut().map(|data| &mut data.cursor))
    }

    /// Completes a suspended move, until the cursor is on an entry or at the end.
    fn finish(&mut self) -> Result<(), Fault<S::Suspend>> {
        while let Some(pending) = self.pending {
            match pending {
                PendingStep::Index(direction) => {
                    self.index.step(direction, &self.table, &mut self.source)?;
                    self.pending = Some(PendingStep::Block(direction));
                }
                PendingStep::Block(direction) => {
                    let Some(cursor) = self.load(direction)? else {
                        self.pending = None;
                        return Ok(());
                    };
                    match direction {
                        Direction::Forward => cursor.seek_to_first()?,
                        Direction::Backward => cursor.seek_to_last()?,
                    }
                    self.on_entry = cursor.valid();
                    self.pending = (!self.on_entry).then_some(PendingStep::Index(direction));
                }
            }
        }
        Ok(())
    }

    /// Moves one entry in the given direction, or completes a suspended move.
    fn step(&mut self, direction: Direction) -> Result<(), Fault<S::Suspend>> {
        if self.pending.is_none() {
            let Some(data) = self.data.as_mut().filter(|_| self.on_entry) else {
                return Ok(());
            };
            self.on_entry = false;
            match direction {
                Direction::Forward => data.cursor.advance()?,
                Direction::Backward => data.cursor.retreat()?,
            }
            if data.cursor.valid() {
                self.on_entry = true;
                return Ok(());
            }
            self.pending = Some(PendingStep::Index(direction));
        }
        let done = self.finish();
        self.settle(done)
    }

    /// Discards the position and any suspended move if `done` is an error, and returns `done`.
    fn settle(&mut self, done: Result<(), Fault<S::Suspend>>) -> Result<(), Fault<S::Suspend>> {
        if let Err(Fault::Error(_)) = &done {
            self.reset();
        }
        done
    }

    /// Discards the position and any suspended move.
    fn reset(&mut self) {
        self.on_entry = false;
        self.pending = None;
    }

    /// Moves to the first entry at or after the internal key `target`.
    fn seek_inner(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        self.index.seek(target, &self.table, &mut self.source)?;
        let Some(cursor) = self.load(Direction::Forward)? else {
            return Ok(());
        };
        cursor.seek(target)?;
        self.on_entry = cursor.valid();
        if !self.on_entry {
            self.pending = Some(PendingStep::Index(Direction::Forward));
            return self.finish();
        }
        Ok(())
    }

    /// Moves to the first entry (forward) or the last one (backward).
    fn seek_to_end(&mut self, direction: Direction) -> Result<(), Fault<S::Suspend>> {
        self.index.enter(direction, &self.table, &mut self.source)?;
        self.pending = Some(PendingStep::Block(direction));
        self.finish()
    }

    /// Moves to the last entry at or before the internal key `target`.
    fn seek_for_prev_inner(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        self.seek_inner(target)?;
        if !self.on_entry {
            return self.seek_to_end(Direction::Backward);
        }
        if self.key() != target {
            return self.step(Direction::Backward);
        }
        Ok(())
    }

    /// Runs `position`, a seek, after discarding the former position and any suspended move.
    fn afresh(
        &mut self,
        position: impl FnOnce(&mut Self) -> Result<(), Fault<S::Suspend>>,
    ) -> Result<(), Fault<S::Suspend>> {
        self.reset();
        let done = position(self);
        if done.is_err() {
            // A suspended call is repeated from its start.
            self.reset();
        }
        done
    }
}

impl<S: CursorSource> Cursor for BlockBasedCursor<'_, S> {
    type Suspend = S::Suspend;

    #[inline]
    fn valid(&self) -> bool {
        self.on_entry
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.afresh(|cursor| cursor.seek_to_end(Direction::Forward))
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.afresh(|cursor| cursor.seek_to_end(Direction::Backward))
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        debug_assert!(target.len() >= FOOTER_BYTES, "targets are internal keys");
        self.afresh(|cursor| {
            let (table, source) = (&cursor.table, &mut cursor.source);
            let direction = Direction::Forward;
            if cursor.filters && !table.may_contain_prefix(target, direction, source)? {
                return Ok(());
            }
            cursor.seek_inner(target)
        })
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<S::Suspend>> {
        debug_assert!(target.len() >= FOOTER_BYTES, "targets are internal keys");
        self.afresh(|cursor| {
            let (table, source) = (&cursor.table, &mut cursor.source);
            let direction = Direction::Backward;
            if cursor.filters && !table.may_contain_prefix(target, direction, source)? {
                return Ok(());
            }
            cursor.seek_for_prev_inner(target)
        })
    }

    #[inline]
    fn next(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.step(Direction::Forward)
    }

    #[inline]
    fn prev(&mut self) -> Result<(), Fault<S::Suspend>> {
        self.step(Direction::Backward)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.data.as_ref().map_or(&[], |data| data.cursor.key())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.data.as_ref().map_or(&[], |data| data.cursor.value())
    }

    fn pinned_value(&self) -> PinnedSlice {
        self.data
            .as_ref()
            .map_or_else(PinnedSlice::default, |data| data.cursor.pinned_value())
    }
}
