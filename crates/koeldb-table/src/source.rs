//! Block sources, and the suspension of reads on missing blocks.
//!
//! Every reader of blocks is generic over a [`BlockSource`] and written as plain code: it requests
//! a block, and if the source would have to wait, [`Fault::Suspend`] propagates through `?`. The
//! caller fetches the block and repeats the call. [`BlockingSource`] waits synchronously; its
//! suspension type has no values, so its readers compile to code without suspension.
//!
//! [`probe::ProbeSource`] never waits: [`gather`] reads what it missed, as [`plan`] arranges.
//! `fetch` loads a block of a [`TableFile`]: it verifies, decompresses, parses and caches it.

mod fetch;
pub mod flights;
pub mod gather;
pub mod plan;
pub mod probe;

use std::sync::Arc;

use koeldb_base::codec::Decompressor;
use koeldb_base::stats::Statistics;
use koeldb_base::{Blocking, Error, ErrorKind, Fault, Lookup, Result};
use koeldb_cache::{Cache, CacheKey, Priority};
use koeldb_fs::RandomAccessFile;
use koeldb_fs::rate_limit::IoCharge;

pub use crate::block::index::Direction;
use crate::block::index::IndexPreparation;
pub use crate::block::{BlockKind, CachedBlock};
use crate::format::{BlockHandle, ChecksumContext};
use crate::read_context::TableReadContext;
use crate::span_checksums::SpanChecksums;

/// An open table file with what is needed to decode its blocks: checksum, dictionary, cache.
#[derive(Debug)]
pub struct TableFile {
    /// The open file of the table.
    pub file: Arc<dyn RandomAccessFile>,
    /// The number in the name of the file.
    pub number: u64,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The limit for the end of the last block: the offset of the footer.
    pub blocks_end: u64,
    /// The largest decompressed block.
    pub block_bytes_max: usize,
    /// The checksum parameters.
    pub checksum: ChecksumContext,
    /// The decompressor of data blocks, which may need the table's dictionary.
    pub data_decompressor: Decompressor,
    /// The decompressor of all other blocks.
    pub plain_decompressor: Decompressor,
    /// The file's part of the cache keys.
    pub cache_id: u64,
    /// The block cache.
    pub cache: Option<Cache<CachedBlock>>,
    /// The preparation of index blocks when they are loaded; `None` for none.
    pub index_preparation: Option<IndexPreparation>,
    /// The priority of index and filter blocks in the cache.
    pub metadata_priority: Priority,
    /// The statistics of reads, hits and misses.
    pub statistics: Option<Statistics>,
    /// Whether the table is on the last level.
    pub(crate) is_last_level: bool,
    /// The checksums of the file's spans, if its format has no blocks.
    pub(crate) spans: Option<SpanChecksums>,
}

impl TableFile {
    /// Creates the table file; its blocks end at or before file offset `blocks_end`.
    ///
    /// It is uncompressed, has no index to prepare, and its metadata has the priority of data.
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
            cache_id: (context.cache_id)
                .or_else(|| context.cache.as_ref().map(Cache::new_id))
                .unwrap_or(context.number),
            cache: context.cache.clone(),
            index_preparation: None,
            metadata_priority: Priority::Low,
            statistics: context.statistics.clone(),
            is_last_level: context.level.is_some() && context.level == context.last_level,
            spans: None,
            file,
        }
    }

    /// The cache key of the block at `offset`.
    #[inline]
    #[must_use]
    pub fn cache_key(&self, offset: u64) -> CacheKey {
        CacheKey {
            file: self.cache_id,
            offset,
        }
    }
}

/// A way to get blocks: from the cache or the file, or by suspending the read until they arrive.
pub trait BlockSource {
    /// [`Blocking`], or a description of what a suspended read waits for.
    type Suspend;

    /// Returns a block from the cache or the file, or suspends the read.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged; [`Fault::Suspend`] if the source would have to wait for
    /// it.
    fn block(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<Self::Suspend>>;
}

impl<S: BlockSource + ?Sized> BlockSource for &mut S {
    type Suspend = S::Suspend;

    fn block(
        &mut self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<S::Suspend>> {
        (**self).block(file, handle, kind)
    }
}

/// Calls `search` for each lookup in turn, and `outcome` with its index and result.
pub(crate) fn search_each<W>(
    lookups: &mut [&mut Lookup],
    mut outcome: impl FnMut(usize, Result<(), Fault<W>>),
    mut search: impl FnMut(&mut Lookup) -> Result<(), Fault<W>>,
) {
    for (index, lookup) in lookups.iter_mut().enumerate() {
        outcome(index, search(lookup));
    }
}

/// The options of block reads.
#[derive(Clone, Debug)]
pub struct BlockReadOptions {
    /// Whether checksums are verified.
    pub verify_checksums: bool,
    /// Whether blocks that were read are inserted into the cache.
    pub fill_cache: bool,
    /// Whether nothing may be read: a block missing from the cache is an error of kind
    /// `Incomplete`.
    pub cache_only: bool,
    /// The readahead size for data blocks, for one pass through whole tables; 0 reads each block
    /// alone.
    pub readahead_bytes: u64,
    /// Charges the bytes that are read to a rate limiter.
    pub charge: Option<Arc<IoCharge>>,
}

impl BlockReadOptions {
    /// Charges `bytes` to the rate limiter, if there is one, and waits for its permission.
    pub(crate) fn pay(&self, bytes: u64) {
        if let Some(charge) = &self.charge {
            charge.pay(bytes);
        }
    }
}

impl Default for BlockReadOptions {
    fn default() -> Self {
        BlockReadOptions {
            verify_checksums: true,
            fill_cache: true,
            cache_only: false,
            readahead_bytes: 0,
            charge: None,
        }
    }
}

/// A block source that reads missing blocks synchronously.
#[derive(Debug, Default)]
pub struct BlockingSource {
    options: BlockReadOptions,
    ahead: Readahead,
}

impl BlockingSource {
    /// Creates a source with these options.
    #[must_use]
    pub fn new(options: BlockReadOptions) -> Self {
        BlockingSource {
            options,
            ahead: Readahead::default(),
        }
    }

    /// Reads a block after a cache miss, and adds it to the block cache if `fill_cache` is set.
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
            None => {
                self.options.pay(handle.size);
                file.read(handle, kind, verify)?
            }
        };
        let block = Arc::new(block);
        if self.options.fill_cache {
            file.publish(handle, kind, &block);
        }
        Ok(block)
    }
}

impl Clone for BlockingSource {
    /// Creates a source with the same options and no readahead.
    fn clone(&self) -> Self {
        BlockingSource::new(self.options.clone())
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

/// Creates the `Incomplete` error of an uncached block in a read without I/O (`kBlockCacheTier`).
#[cold]
pub(crate) fn not_cached() -> Error {
    Error::with_kind(
        ErrorKind::Incomplete,
        "the block is not cached, and the read tier excludes I/O",
    )
}

/// The readahead buffer of a block source, for one pass through a table.
#[derive(Debug, Default)]
struct Readahead {
    cache_id: u64,
    /// The file offset of the buffered bytes.
    start: u64,
    bytes: Vec<u8>,
}

impl Readahead {
    /// Returns a data block's stored bytes from the readahead buffer; `None` without readahead.
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
            options.pay(until - handle.offset);
            self.bytes = file.read_bytes(handle.offset, until - handle.offset)?;
            self.start = handle.offset;
            self.cache_id = file.cache_id;
        }
        let from = koeldb_base::coding::to_usize(handle.offset - self.start);
        let to = koeldb_base::coding::to_usize(end - self.start);
        Ok(self.bytes.get(from..to))
    }
}
