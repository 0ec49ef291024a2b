//! Appends finished blocks to a file: compressed where that pays, each with its trailer.

use koeldb_base::codec::{Compression, CompressionOptions, Compressor, Decompressor};
use koeldb_base::stats::{HistogramKind, Statistics, Stopwatch, Ticker};
use koeldb_base::{Error, Result};
use koeldb_fs::WritableFile;

use super::index_builder::IndexBlockSink;
use crate::format::{BLOCK_TRAILER_BYTES, BlockHandle, ChecksumContext};

/// COMPAT: the size above which blocks are not compressed, as codecs in RocksDB count in `int`.
const COMPRESSED_RAW_BYTES_MAX: usize = (1 << 31) - 1;

/// A writer that appends blocks with trailers to the file of a table under construction.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    file: Box<dyn WritableFile>,
    offset: u64,
    checksum: ChecksumContext,
    compressed: Vec<u8>,
    /// Decompresses blocks to compare them, with the dictionary of the blocks to come.
    verifier: Option<Decompressor>,
    /// The size of a super block, whose end no block crosses, and the bound of the padding for it.
    super_blocks: Option<(u64, u64)>,
    /// The statistics of compression, and the histogram of the time of the sync.
    statistics: Option<(Statistics, HistogramKind)>,
    /// The first failure, which makes the file unusable.
    failure: Option<Error>,
}

impl BlockWriter {
    /// Creates a writer at the end of an empty file.
    pub(crate) fn new(
        file: Box<dyn WritableFile>,
        checksum: ChecksumContext,
        verifies: bool,
    ) -> Self {
        BlockWriter {
            verifier: verifies.then(|| Decompressor::new(None)),
            file,
            offset: 0,
            checksum,
            compressed: Vec::new(),
            failure: None,
            super_blocks: None,
            statistics: None,
        }
    }

    /// Sets the statistics that count compressed blocks, and the histogram of the time of the sync.
    pub(crate) fn counted(mut self, statistics: Option<(Statistics, HistogramKind)>) -> Self {
        self.statistics = statistics;
        self
    }

    /// Enables super block alignment (`super_block_alignment_size`) for the blocks to come.
    ///
    /// Blocks that would cross a multiple of `bytes` are preceded by zeros, if these are fewer than
    /// `padding_max`.
    pub(crate) fn within_super_blocks(mut self, bytes: u64, padding_max: u64) -> Self {
        self.super_blocks = (bytes > 0 && padding_max > 0).then_some((bytes, padding_max));
        self
    }

    /// Disables super block alignment after the data blocks; other blocks need none.
    pub(crate) fn end_super_blocks(&mut self) {
        self.super_blocks = None;
    }

    /// Pads with zeros if a block of `bytes` bytes would otherwise cross a super block boundary.
    fn align_to_super_block(&mut self, bytes: usize) -> Result<()> {
        let Some((super_block, padding_max)) = self.super_blocks else {
            return Ok(());
        };
        let left = super_block - self.offset % super_block;
        if left < super_block && left < padding_max && left < bytes as u64 {
            self.pad_to(super_block)?;
        }
        Ok(())
    }

    /// Sets the compression dictionary with which compressed blocks are verified; empty for none.
    pub(crate) fn set_dictionary(&mut self, dictionary: &[u8]) {
        if self.verifier.is_some() {
            let dictionary = (!dictionary.is_empty()).then(|| dictionary.into());
            self.verifier = Some(Decompressor::new(dictionary));
        }
    }

    /// The bytes written so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the checksum type and context of the block trailers.
    pub(crate) fn checksum(&self) -> ChecksumContext {
        self.checksum
    }

    /// Writes a block uncompressed, after appending its trailer to `block`.
    ///
    /// The trailer is appended so that one write suffices for both.
    pub(crate) fn write_raw(&mut self, block: &mut Vec<u8>) -> Result<BlockHandle> {
        self.align_to_super_block(block.len() + BLOCK_TRAILER_BYTES)?;
        let handle = self.handle_for(block);
        let trailer = self
            .checksum
            .trailer(self.offset, block, Compression::None.to_byte());
        block.extend_from_slice(&trailer);
        self.append(block)?;
        Ok(handle)
    }

    /// Writes a block, compressed if that saves enough; returns whether it is compressed.
    pub(crate) fn write_compressed(
        &mut self,
        block: &mut Vec<u8>,
        compressor: &mut Compressor,
        options: &CompressionOptions,
    ) -> Result<(BlockHandle, Compression)> {
        if block.len() >= COMPRESSED_RAW_BYTES_MAX {
            return Ok((self.write_raw(block)?, Compression::None));
        }
        let mut compressed = std::mem::take(&mut self.compressed);
        let bytes_max = options
            .max_compressed_bytes(block.len())
            .min(block.len().saturating_sub(1));
        let written = if compressor.compress(block, bytes_max, &mut compressed)? {
            let compression = compressor.compression();
            if let Some(verifier) = &self.verifier {
                verify(verifier, compression, &compressed, block)?;
            }
            self.align_to_super_block(compressed.len() + BLOCK_TRAILER_BYTES)?;
            let handle = self.handle_for(&compressed);
            let trailer = self
                .checksum
                .trailer(self.offset, &compressed, compression.to_byte());
            compressed.extend_from_slice(&trailer);
            self.append(&compressed)?;
            self.count(&[
                (Ticker::NumberBlockCompressed, 1),
                (Ticker::BytesCompressedFrom, block.len() as u64),
                (Ticker::BytesCompressedTo, handle.size),
            ]);
            (handle, compression)
        } else {
            self.count(&[
                (Ticker::NumberBlockCompressionRejected, 1),
                (Ticker::BytesCompressionRejected, block.len() as u64),
            ]);
            (self.write_raw(block)?, Compression::None)
        };
        self.compressed = compressed;
        Ok(written)
    }

    /// Adds to tickers, if there are statistics.
    fn count(&self, counts: &[(Ticker, u64)]) {
        if let Some((statistics, _)) = &self.statistics {
            statistics.add_all(counts);
        }
    }

    /// Returns the handle for stored block bytes (without trailer) at the current file offset.
    fn handle_for(&self, stored: &[u8]) -> BlockHandle {
        BlockHandle {
            offset: self.offset,
            size: stored.len() as u64,
        }
    }

    /// Appends zeros up to a multiple of `alignment`, a power of two.
    pub(crate) fn pad_to(&mut self, alignment: u64) -> Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        let mut padding =
            koeldb_base::coding::to_usize(self.offset.next_multiple_of(alignment) - self.offset);
        while padding > 0 {
            let part = padding.min(ZEROS.len());
            self.append(&ZEROS[..part])?;
            padding -= part;
        }
        Ok(())
    }

    /// Appends bytes outside a block.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.check()?;
        self.file
            .append(bytes)
            .inspect_err(|error| self.failure = Some(error.clone()))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Returns the first failure of the file as an error, if there was one.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// Marks the file as failed with `error`: all later writes return it.
    pub(crate) fn give_up(&mut self, error: &Error) {
        self.failure.get_or_insert_with(|| error.clone());
    }

    /// Syncs and closes the file; returns its length.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.check()?;
        let statistics = self.statistics.as_ref();
        let stopwatch = Stopwatch::start_for(statistics.map(|(statistics, _)| statistics));
        self.file.sync_data()?;
        if let (Some((statistics, kind)), Some(stopwatch)) = (statistics, stopwatch) {
            stopwatch.record(statistics, *kind);
        }
        self.file.close()?;
        Ok(self.offset)
    }
}

/// Decompresses a compressed block and checks that the result equals the raw block.
fn verify(
    verifier: &Decompressor,
    compression: Compression,
    compressed: &[u8],
    raw: &[u8],
) -> Result<()> {
    match verifier.decompress(compression, compressed, raw.len()) {
        Ok(found) if found == raw => Ok(()),
        Ok(_) => Err(Error::corruption(
            "a compressed block differs from the block before compression",
        )),
        Err(error) => Err(error.context("verifying a compressed block")),
    }
}

/// A sink that writes index or filter blocks to a table, compressed if there is a compressor.
#[derive(Debug)]
pub(crate) struct BlockSink<'a> {
    pub(crate) writer: &'a mut BlockWriter,
    pub(crate) compressor: Option<&'a mut Compressor>,
    pub(crate) options: &'a CompressionOptions,
    /// Whether any block was compressed.
    pub(crate) compressed: bool,
}

impl IndexBlockSink for BlockSink<'_> {
    fn write(&mut self, block: &mut Vec<u8>) -> Result<BlockHandle> {
        let Some(compressor) = &mut self.compressor else {
            return self.writer.write_raw(block);
        };
        let (handle, compression) =
            self.writer
                .write_compressed(block, compressor, self.options)?;
        self.compressed |= compression != Compression::None;
        Ok(handle)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use koeldb_base::checksum::ChecksumKind;
    use koeldb_fs::{FileSystem, MemoryFileSystem, Purpose, WriteOptions};

    use super::*;

    #[test]
    fn blocks_cross_super_blocks_only_where_padding_is_too_large() {
        let (super_block, padding_max) = (4096, 512);
        let fs = MemoryFileSystem::new();
        let options = WriteOptions::new(Purpose::Flush);
        let file = fs.create(Path::new("/table"), &options).unwrap();
        let checksum = ChecksumContext {
            kind: ChecksumKind::Crc32c,
            base: 0,
        };
        let mut writer =
            BlockWriter::new(file, checksum, false).within_super_blocks(super_block, padding_max);
        let (mut padded, mut crossing) = (0, 0);
        let mut end = 0;
        for block in 0..1000 {
            let bytes = 1 + block * 37 % 900;
            let handle = writer.write_raw(&mut vec![1; bytes]).unwrap();
            let last = handle.offset + handle.size + BLOCK_TRAILER_BYTES as u64 - 1;
            if handle.offset / super_block != last / super_block {
                assert!(super_block - handle.offset % super_block >= padding_max);
                crossing += 1;
            }
            if handle.offset != end {
                assert_eq!(handle.offset % super_block, 0);
                assert!(handle.offset - end < padding_max);
                padded += 1;
            }
            end = last + 1;
        }
        assert!(padded > 10 && crossing > 10, "{padded} {crossing}");
        writer.end_super_blocks();
        let handle = writer.write_raw(&mut vec![1; 8000]).unwrap();
        assert_eq!(handle.offset, end);
    }

    #[test]
    fn a_block_that_decompresses_to_another_is_refused() {
        let codec = Compression::Lz4;
        if !codec.is_available() {
            return;
        }
        let raw = vec![7; 1000];
        let mut compressor = Compressor::new(codec, &CompressionOptions::default(), None).unwrap();
        let mut compressed = Vec::new();
        assert!(compressor.compress(&raw, 500, &mut compressed).unwrap());
        let verifier = Decompressor::new(None);
        verify(&verifier, codec, &compressed, &raw).unwrap();
        let mut other = raw.clone();
        other[500] = 8;
        verify(&verifier, codec, &compressed, &other).unwrap_err();
        verify(&verifier, codec, &compressed[..compressed.len() - 3], &raw).unwrap_err();
    }
}
