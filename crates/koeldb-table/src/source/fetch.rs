//! Loads blocks: reads or maps, verifies, decompresses, parses and caches them.
//!
//! The checksum is verified before the bytes are interpreted. A size from the file is compared with
//! the length of the file or, for a decompressed size, with the size that the stored bytes can
//! expand to, before anything is allocated.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;
use std::time::Duration;

use koeldb_base::codec::Compression;
use koeldb_base::coding::to_usize;
use koeldb_base::error::ErrorDetail;
use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::stats::{HistogramKind, Stopwatch, Ticker};
use koeldb_base::{Buffer, Error, Result};
use koeldb_cache::Priority;

use crate::block::{Block, BlockBytes};
use crate::file_read::read_bytes;
use crate::filter::FilterReader;
use crate::format::{BLOCK_TRAILER_BYTES, BlockHandle};
use crate::source::{BlockKind, CachedBlock, TableFile};

impl TableFile {
    /// Looks up a block in the block cache, counting hits and misses.
    #[inline]
    #[must_use]
    pub fn cached(&self, handle: BlockHandle, kind: BlockKind) -> Option<Arc<CachedBlock>> {
        let block = self.cache.as_ref()?.get(&self.cache_key(handle.offset));
        if self.statistics.is_some() {
            self.count_access(kind, block.as_deref());
        }
        if perf::is_on() && block.is_some() {
            count_hit(kind);
        }
        block
    }

    /// Inserts a block into the block cache, if there is one.
    ///
    /// A full cache is no error: the block is used and dropped.
    pub fn publish(&self, handle: BlockHandle, kind: BlockKind, block: &Arc<CachedBlock>) {
        let Some(cache) = &self.cache else { return };
        let charge = block.charge();
        let priority = match kind {
            BlockKind::Data | BlockKind::Span => Priority::Low,
            _ => self.metadata_priority,
        };
        let key = self.cache_key(handle.offset);
        let added = cache.insert(key, Arc::clone(block), charge, priority);
        if let Some(statistics) = &self.statistics {
            if added.is_err() {
                statistics.add(Ticker::BlockCacheAddFailures, 1);
                return;
            }
            let (add, bytes) = match kind {
                BlockKind::Data | BlockKind::RangeDeletions | BlockKind::Span => {
                    (Ticker::BlockCacheDataAdd, Ticker::BlockCacheDataBytesInsert)
                }
                BlockKind::Filter | BlockKind::FilterIndex => (
                    Ticker::BlockCacheFilterAdd,
                    Ticker::BlockCacheFilterBytesInsert,
                ),
                BlockKind::Dictionary => (
                    Ticker::BlockCacheCompressionDictAdd,
                    Ticker::BlockCacheCompressionDictBytesInsert,
                ),
                BlockKind::Index | BlockKind::Properties | BlockKind::Metaindex => (
                    Ticker::BlockCacheIndexAdd,
                    Ticker::BlockCacheIndexBytesInsert,
                ),
            };
            statistics.add_all(&[
                (Ticker::BlockCacheAdd, 1),
                (Ticker::BlockCacheBytesWrite, charge),
                (add, 1),
                (bytes, charge),
            ]);
        }
    }

    /// Counts a block cache hit (`Some`) or miss (`None`) in the tickers of the block's kind.
    pub(crate) fn count_access(&self, kind: BlockKind, hit: Option<&CachedBlock>) {
        let Some(statistics) = &self.statistics else {
            return;
        };
        let (hit_ticker, miss_ticker) = match kind {
            BlockKind::Data | BlockKind::RangeDeletions | BlockKind::Span => {
                (Ticker::BlockCacheDataHit, Ticker::BlockCacheDataMiss)
            }
            BlockKind::Filter | BlockKind::FilterIndex => {
                (Ticker::BlockCacheFilterHit, Ticker::BlockCacheFilterMiss)
            }
            BlockKind::Dictionary => (
                Ticker::BlockCacheCompressionDictHit,
                Ticker::BlockCacheCompressionDictMiss,
            ),
            BlockKind::Index | BlockKind::Properties | BlockKind::Metaindex => {
                (Ticker::BlockCacheIndexHit, Ticker::BlockCacheIndexMiss)
            }
        };
        match hit {
            Some(block) => statistics.add_all(&[
                (Ticker::BlockCacheHit, 1),
                (Ticker::BlockCacheBytesRead, block.charge()),
                (hit_ticker, 1),
            ]),
            None => statistics.add_all(&[(Ticker::BlockCacheMiss, 1), (miss_ticker, 1)]),
        }
    }

    /// Reads a block from the file, bypassing the block cache.
    ///
    /// # Errors
    /// If the file cannot be read, or the block is damaged.
    pub fn read(&self, handle: BlockHandle, kind: BlockKind, verify: bool) -> Result<CachedBlock> {
        let stored_bytes = self.stored_bytes(handle, kind)?;
        if kind == BlockKind::Span {
            let stored = self.read_bytes(handle.offset, stored_bytes)?;
            return self.decode(handle, kind, &stored, verify);
        }
        if let Some(mapped) = self.file.mapped() {
            let len = u32::try_from(stored_bytes).map_err(|_| self.too_large(handle))?;
            let stored = mapped.slice(handle.offset, len);
            return match self.verified(handle, kind, stored, verify)? {
                (Compression::None, raw) => {
                    let len = u32::try_from(raw.len()).map_err(|_| self.too_large(handle))?;
                    let bytes = BlockBytes::mapped(Arc::clone(mapped), handle.offset, len);
                    self.parse(kind, bytes).map_err(|e| self.here(e, handle))
                }
                (compression, stored) => self.decompressed(handle, kind, compression, stored),
            };
        }
        let stored = self.read_bytes(handle.offset, stored_bytes)?;
        match self.verified(handle, kind, &stored, verify)? {
            (Compression::None, raw) => {
                // The trailer stays after the block: removing it would copy.
                let len = u32::try_from(raw.len()).map_err(|_| self.too_large(handle))?;
                let bytes = BlockBytes::new(Arc::new(Buffer::from_vec(stored)), 0, len);
                self.parse(kind, bytes).map_err(|e| self.here(e, handle))
            }
            (compression, stored) => self.decompressed(handle, kind, compression, stored),
        }
    }

    /// The stored size of a block, including its trailer if it has one.
    ///
    /// # Errors
    /// `Corruption` if the handle points beyond the blocks of the file.
    pub fn stored_bytes(&self, handle: BlockHandle, kind: BlockKind) -> Result<u64> {
        if kind == BlockKind::Span {
            let end = handle.offset.checked_add(handle.size);
            return match end.filter(|&end| end <= self.blocks_end) {
                Some(_) => Ok(handle.size),
                None => Err(self.here(
                    Error::corruption("read of a range beyond the end of the table"),
                    handle,
                )),
            };
        }
        match handle.end_within(self.blocks_end) {
            Ok(_) if handle.size > self.block_bytes_max as u64 => Err(self.too_large(handle)),
            Ok(end) => Ok(end.saturating_sub(handle.offset)),
            Err(error) => Err(self.here(error, handle)),
        }
    }

    /// Decodes a block (checksum, decompression, parsing) from its stored bytes with the trailer.
    ///
    /// # Errors
    /// `Corruption` if the block is damaged; `NotSupported` if its codec is not built in.
    pub fn decode(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        stored: &[u8],
        verify: bool,
    ) -> Result<CachedBlock> {
        if kind == BlockKind::Span {
            if let Some(spans) = self.spans.as_ref().filter(|_| verify) {
                let verified = spans.verify_span_at(handle.offset, stored);
                verified.map_err(|error| self.here(error, handle))?;
            }
            return Ok(CachedBlock::Raw(BlockBytes::from(stored.to_vec())));
        }
        let (compression, stored) = self.verified(handle, kind, stored, verify)?;
        self.decompressed(handle, kind, compression, stored)
    }

    /// Decodes a data block within a larger read buffer, to which uncompressed bytes then refer.
    ///
    /// Uncompressed bytes stay in that buffer.
    ///
    /// # Errors
    /// See [`TableFile::decode`].
    pub(crate) fn decode_lent(
        &self,
        handle: BlockHandle,
        (read, start, len): (&Arc<Buffer>, u64, u32),
        verify: bool,
    ) -> Result<CachedBlock> {
        match self.verified(handle, BlockKind::Data, read.slice(start, len), verify)? {
            (Compression::None, raw) => {
                let len = u32::try_from(raw.len()).map_err(|_| self.too_large(handle))?;
                let bytes = BlockBytes::lent(Arc::clone(read), start, len);
                let parsed = self.parse(BlockKind::Data, bytes);
                parsed.map_err(|e| self.here(e, handle))
            }
            (compression, stored) => {
                self.decompressed(handle, BlockKind::Data, compression, stored)
            }
        }
    }

    /// Decompresses a block and parses it as its kind.
    fn decompressed(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        compression: Compression,
        stored: &[u8],
    ) -> Result<CachedBlock> {
        let _timer = perf::timer(PerfMetric::BlockDecompressTime);
        let decompressor = match kind {
            BlockKind::Data => &self.data_decompressor,
            _ => &self.plain_decompressor,
        };
        let raw = decompressor.decompress(compression, stored, self.block_bytes_max);
        if let (Some(statistics), Ok(raw)) = (&self.statistics, &raw) {
            statistics.add_all(&[
                (Ticker::NumberBlockDecompressed, 1),
                (Ticker::BytesDecompressedFrom, stored.len() as u64),
                (Ticker::BytesDecompressedTo, raw.len() as u64),
            ]);
        }
        raw.and_then(|raw| self.parse(kind, BlockBytes::from(raw)))
            .map_err(|e| self.here(e, handle))
    }

    /// Parses the uncompressed contents of a block as its kind.
    fn parse(&self, kind: BlockKind, bytes: BlockBytes) -> Result<CachedBlock> {
        Ok(match kind {
            BlockKind::Filter => CachedBlock::Filter(FilterReader::new(bytes)),
            BlockKind::Dictionary | BlockKind::Span => CachedBlock::Raw(bytes),
            BlockKind::Index => {
                let mut block = Block::parse(bytes)?.of_kind(kind);
                if let Some(preparation) = &self.index_preparation {
                    block.prepare(preparation);
                }
                CachedBlock::Entries(block)
            }
            BlockKind::Data
            | BlockKind::FilterIndex
            | BlockKind::RangeDeletions
            | BlockKind::Properties
            | BlockKind::Metaindex => CachedBlock::Entries(Block::parse(bytes)?.of_kind(kind)),
        })
    }

    /// Verifies a block's checksum if `verify` is set; returns compression type and contents.
    fn verified<'s>(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        stored: &'s [u8],
        verify: bool,
    ) -> Result<(Compression, &'s [u8])> {
        if perf::is_on() {
            count_read(kind, stored.len());
        }
        let cut_off = || self.here(Error::corruption("truncated block read"), handle);
        let (contents, trailer) = stored
            .split_last_chunk::<BLOCK_TRAILER_BYTES>()
            .filter(|(contents, _)| contents.len() as u64 == handle.size)
            .ok_or_else(cut_off)?;
        let &[type_byte, a, b, c, d] = trailer;
        if verify {
            let expected = u32::from_le_bytes([a, b, c, d]);
            let timer = perf::timer(PerfMetric::BlockChecksumTime);
            let computed = self.checksum.block(handle.offset, contents, type_byte);
            drop(timer);
            if let Some(statistics) = &self.statistics {
                statistics.add(Ticker::BlockChecksumComputeCount, 1);
            }
            if expected != computed {
                return Err(self.mismatch(handle, expected, computed));
            }
        }
        let compression = Compression::from_byte(type_byte).ok_or_else(|| {
            let message = format!("block of unknown compression type {type_byte:#04x}");
            self.here(Error::corruption(message), handle)
        })?;
        Ok((compression, contents))
    }

    /// Creates the `Corruption` error of a checksum mismatch, and counts it in the statistics.
    #[cold]
    fn mismatch(&self, handle: BlockHandle, expected: u32, computed: u32) -> Error {
        if let Some(statistics) = &self.statistics {
            statistics.add(Ticker::BlockChecksumMismatchCount, 1);
        }
        let error = Error::corruption(format!(
            "block checksum mismatch: stored = {expected}, computed = {computed}, type = {}, size {}",
            self.checksum.kind.to_byte(),
            handle.size
        ))
        .with_detail(ErrorDetail::ChecksumMismatch);
        self.here(error, handle)
    }

    /// Adds the path of the table file and the offset of the block to an error.
    #[cold]
    fn here(&self, error: Error, handle: BlockHandle) -> Error {
        error.in_file(self.file.path(), Some(handle.offset), "read")
    }

    /// Creates the `Corruption` error of a block larger than the limit.
    #[cold]
    fn too_large(&self, handle: BlockHandle) -> Error {
        let message = format!("block of {} bytes exceeds the limit", handle.size);
        self.here(Error::corruption(message), handle)
    }

    /// Reads `len` bytes at `offset`, all of which must be inside the file.
    ///
    /// # Errors
    /// If the system fails or the file is shorter than it was.
    pub fn read_bytes(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let _timer = perf::timer(PerfMetric::BlockReadTime);
        let stopwatch = Stopwatch::start_for(self.statistics.as_ref());
        let read = read_bytes(&*self.file, offset, to_usize(len))?;
        if let Some(stopwatch) = stopwatch {
            self.count_read(len, stopwatch.elapsed());
        }
        Ok(read)
    }

    /// Counts a read of `bytes` bytes of the file, which took `elapsed`, in the statistics.
    #[cold]
    pub(crate) fn count_read(&self, bytes: u64, elapsed: Duration) {
        let Some(statistics) = &self.statistics else {
            return;
        };
        statistics.record_micros(HistogramKind::SstReadMicros, elapsed);
        statistics.add_all(&match self.is_last_level {
            true => [
                (Ticker::LastLevelReadBytes, bytes),
                (Ticker::LastLevelReadCount, 1),
            ],
            false => [
                (Ticker::NonLastLevelReadBytes, bytes),
                (Ticker::NonLastLevelReadCount, 1),
            ],
        });
    }
}

/// Counts a block cache hit in the perf context, by the kind of block.
#[cold]
fn count_hit(kind: BlockKind) {
    perf::count(PerfMetric::BlockCacheHitCount, 1);
    match kind {
        BlockKind::Index => perf::count(PerfMetric::BlockCacheIndexHitCount, 1),
        BlockKind::Filter | BlockKind::FilterIndex => {
            perf::count(PerfMetric::BlockCacheFilterHitCount, 1);
        }
        _ => {}
    }
}

/// Counts a block read in the perf context, by the kind of block.
#[cold]
fn count_read(kind: BlockKind, bytes: usize) {
    perf::count(PerfMetric::BlockReadCount, 1);
    perf::count(PerfMetric::BlockReadByte, bytes as u64);
    match kind {
        BlockKind::Index => perf::count(PerfMetric::IndexBlockReadCount, 1),
        BlockKind::Filter | BlockKind::FilterIndex => {
            perf::count(PerfMetric::FilterBlockReadCount, 1);
        }
        BlockKind::Dictionary => perf::count(PerfMetric::CompressionDictBlockReadCount, 1),
        _ => {}
    }
}
