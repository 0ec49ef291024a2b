//! Where blocks come from, and how a missing one suspends a read.
//!
//! Every reader of blocks is generic over a [`BlockSource`] and written as plain code: it asks for a block, and
//! when the source would have to wait, [`Fault::Suspend`] climbs out through `?`. The caller fetches the block
//! and makes the same call again. [`BlockingSource`] waits in place; its suspension type has no values, so its
//! readers compile to code without suspension.

use std::sync::Arc;

use koeldb_base::codec::Decompressor;
use koeldb_base::pinned::Buffer;
use koeldb_base::stats::Statistics;
use koeldb_base::{Blocking, Error, ErrorKind, Fault, Result};
use koeldb_cache::{Cache, CacheKey, Priority};
use koeldb_fs::RandomAccessFile;

use crate::block_based::block::{Block, BlockBytes};
use crate::block_based::cursor::ScanPlace;
use crate::block_based::format::{BlockHandle, ChecksumContext};
use crate::block_based::index::{IndexPreparation, Shortcut};
use crate::filter::FilterReader;
use crate::reader::{TableReadContext, TableReader};
use crate::span_checksums::SpanChecksums;

/// What a block holds: how it is parsed, charged and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// Entries.
    Data,
    /// Index entries.
    Index,
    /// A filter, or a partition of one.
    Filter,
    /// The index over the partitions of a filter.
    FilterIndex,
    /// The dictionary data blocks are compressed with.
    Dictionary,
    /// Range tombstones.
    RangeDeletions,
    /// Properties.
    Properties,
    /// The metaindex.
    Metaindex,
    /// A piece of a table whose format has no blocks: stored as it is, without a trailer.
    Span,
}

/// A block as readers use it and the cache keeps it: verified, decompressed, parsed.
#[derive(Debug)]
pub enum CachedBlock {
    /// A block of entries: data, index, metadata.
    Entries(Block),
    /// A filter.
    Filter(FilterReader<BlockBytes>),
    /// Bytes without structure: a dictionary.
    Raw(BlockBytes),
}

impl CachedBlock {
    /// An entry without bytes: it stands for memory that is kept elsewhere.
    #[must_use]
    pub fn reservation() -> Self {
        CachedBlock::Raw(BlockBytes::new(
            Arc::new(Buffer::from_vec(Vec::new())),
            0,
            0,
        ))
    }

    /// The memory the block takes, for the cache's accounts.
    #[must_use]
    pub fn charge(&self) -> u64 {
        const OVERHEAD: usize = size_of::<CachedBlock>() + 2 * size_of::<usize>();
        let shortcut = match self {
            CachedBlock::Entries(block) => block.shortcut().map_or(0, Shortcut::heap_bytes),
            CachedBlock::Filter(_) | CachedBlock::Raw(_) => 0,
        };
        (OVERHEAD + self.bytes().heap_bytes() + shortcut) as u64
    }

    /// The uncompressed bytes.
    #[must_use]
    pub fn bytes(&self) -> &BlockBytes {
        match self {
            CachedBlock::Entries(block) => block.bytes(),
            CachedBlock::Filter(filter) => filter.bytes(),
            CachedBlock::Raw(bytes) => bytes,
        }
    }

    /// The block of entries.
    ///
    /// # Errors
    /// `Corruption` if it is something else: two handles of different kinds name one block.
    #[inline]
    pub fn entries(&self) -> Result<&Block> {
        match self {
            CachedBlock::Entries(block) => Ok(block),
            CachedBlock::Filter(_) | CachedBlock::Raw(_) => Err(unexpected("entries")),
        }
    }

    /// The filter.
    ///
    /// # Errors
    /// `Corruption` if it is something else: two handles of different kinds name one block.
    #[inline]
    pub fn filter(&self) -> Result<&FilterReader<BlockBytes>> {
        match self {
            CachedBlock::Filter(filter) => Ok(filter),
            CachedBlock::Entries(_) | CachedBlock::Raw(_) => Err(unexpected("a filter")),
        }
    }
}

#[cold]
fn unexpected(what: &str) -> Error {
    Error::corruption(format!("a block of another kind where {what} is expected"))
}

/// An open file of a table and what is needed to turn its bytes into blocks. Shared by threads.
#[derive(Debug)]
pub struct TableFile {
    /// The file.
    pub file: Arc<dyn RandomAccessFile>,
    /// The number in its name.
    pub number: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Where the last block must end: the offset of the footer.
    pub blocks_end: u64,
    /// The longest block, decompressed.
    pub block_bytes_max: usize,
    /// How checksums are computed.
    pub checksum: ChecksumContext,
    /// For data blocks, which may need the table's dictionary.
    pub data_decompressor: Decompressor,
    /// For all other blocks.
    pub plain_decompressor: Decompressor,
    /// This file's part of the cache's keys.
    pub cache_id: u64,
    /// Where blocks are kept.
    pub cache: Option<Cache<CachedBlock>>,
    /// How the blocks of an index are prepared when they are loaded; `None` if they are not.
    pub index_preparation: Option<IndexPreparation>,
    /// The priority of index and filter blocks in the cache.
    pub metadata_priority: Priority,
    /// Where hits and misses are counted.
    pub statistics: Option<Statistics>,
    /// The checksums of its pieces, if its format has no blocks.
    pub(crate) spans: Option<SpanChecksums>,
}

impl TableFile {
    /// A file whose blocks end at an offset: not compressed, without an index to prepare, and with metadata that is as dear as data.
    pub(crate) fn new(
        file: Arc<dyn RandomAccessFile>,
        blocks_end: u64,
        checksum: ChecksumContext,
        context: &TableReadContext,
    ) -> Self {
        TableFile {
            number: context.number,
            bytes: file.len(),
            blocks_end,
            block_bytes_max: context.limits.block_bytes,
            checksum,
            data_decompressor: Decompressor::new(None),
            plain_decompressor: Decompressor::new(None),
            cache_id: (context.cache.as_ref()).map_or(context.number, Cache::new_id),
            cache: context.cache.clone(),
            index_preparation: None,
            metadata_priority: Priority::Low,
            statistics: context.statistics.clone(),
            spans: None,
            file,
        }
    }

    /// The key of the block at `offset` in the cache.
    #[inline]
    #[must_use]
    pub fn cache_key(&self, offset: u64) -> CacheKey {
        CacheKey {
            file: self.cache_id,
            offset,
        }
    }
}

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// Hands out blocks, or says what has to be waited for.
pub trait BlockSource {
    /// [`Blocking`], or what a suspended read waits for.
    type Suspend;

    /// The block of `handle` in `file`.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged; [`Fault::Suspend`] if the source would have to wait for it.
    fn block(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<Self::Suspend>>;

    /// The data block of `handle`, which a scan enters. `place` knows which blocks it enters next, for a source that
    /// reads ahead.
    ///
    /// # Errors
    /// As [`BlockSource::block`].
    #[inline]
    fn scanned_block(
        &mut self,
        place: &ScanPlace<'_>,
        handle: BlockHandle,
    ) -> Result<Arc<CachedBlock>, Fault<Self::Suspend>> {
        self.block(place.file(), handle, BlockKind::Data)
    }

    /// The table is one of a level, and a scan through it goes on in its neighbours.
    fn set_level(&mut self, level: &Arc<dyn TableLevel>) {
        let _ = level;
    }
}

/// The tables of a level, as one that reads ahead sees them.
pub trait TableLevel: Send + Sync {
    /// The table that comes after that of file `number` on the given way, and the user key it begins with there; `None`
    /// at the end of the level.
    ///
    /// # Errors
    /// If the table cannot be opened.
    fn neighbour(&self, number: u64, way: Way) -> Result<Option<(Arc<TableReader>, Vec<u8>)>>;
}

/// How blocks are read.
#[derive(Clone, Copy, Debug)]
pub struct BlockReadOptions {
    /// Compare stored checksums with computed ones.
    pub verify_checksums: bool,
    /// Put blocks that were read into the cache.
    pub fill_cache: bool,
    /// Read nothing: a block that is not in the cache is an error of kind `Incomplete`.
    pub cache_only: bool,
    /// Data blocks are read in pieces of so many bytes; 0 reads each alone. For one pass through whole tables.
    pub readahead_bytes: u64,
}

impl Default for BlockReadOptions {
    fn default() -> Self {
        BlockReadOptions {
            verify_checksums: true,
            fill_cache: true,
            cache_only: false,
            readahead_bytes: 0,
        }
    }
}

/// A source that reads what the cache does not have, in place.
#[derive(Debug, Default)]
pub struct BlockingSource {
    options: BlockReadOptions,
    ahead: Readahead,
}

impl BlockingSource {
    /// A source that reads as `options` say.
    #[must_use]
    pub fn new(options: BlockReadOptions) -> Self {
        BlockingSource {
            options,
            ahead: Readahead::default(),
        }
    }

    #[cold]
    fn load(
        &mut self,
        file: &TableFile,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>> {
        if self.options.cache_only {
            return Err(not_cached());
        }
        let verify = self.options.verify_checksums;
        let block = match self.ahead.stored(&self.options, file, handle, kind)? {
            Some(stored) => file.decode(handle, kind, stored, verify)?,
            None => file.read(handle, kind, verify)?,
        };
        let block = Arc::new(block);
        if self.options.fill_cache {
            file.publish(handle, kind, &block);
        }
        Ok(block)
    }
}

impl Clone for BlockingSource {
    /// A source of the same options that has read nothing ahead.
    fn clone(&self) -> Self {
        BlockingSource::new(self.options)
    }
}

impl BlockSource for BlockingSource {
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
}

#[cold]
pub(crate) fn not_cached() -> Error {
    Error::with_kind(
        ErrorKind::Incomplete,
        "the block is not in the cache, and the read is confined to it",
    )
}

/// What was read ahead of a pass through a table.
#[derive(Debug, Default)]
struct Readahead {
    cache_id: u64,
    /// Where the bytes begin in the file.
    start: u64,
    bytes: Vec<u8>,
}

impl Readahead {
    /// The stored bytes of a data block with its trailer, if they are to be read ahead.
    fn stored(
        &mut self,
        options: &BlockReadOptions,
        file: &TableFile,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Option<&[u8]>> {
        let wanted = options.readahead_bytes != 0;
        if !wanted || kind != BlockKind::Data || file.file.mapped().is_some() {
            return Ok(None);
        }
        let end = handle.end_within(file.blocks_end)?;
        let have = self.start..self.start + self.bytes.len() as u64;
        let is_there =
            self.cache_id == file.cache_id && have.start <= handle.offset && end <= have.end;
        if !is_there {
            let until = end.max(handle.offset.saturating_add(options.readahead_bytes));
            let until = until.min(file.blocks_end);
            self.bytes = file.read_bytes(handle.offset, until - handle.offset)?;
            self.start = handle.offset;
            self.cache_id = file.cache_id;
        }
        let from = koeldb_base::coding::to_usize(handle.offset - self.start);
        let to = koeldb_base::coding::to_usize(end - self.start);
        Ok(self.bytes.get(from..to))
    }
}
