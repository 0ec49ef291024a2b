//! Compression of log records: one zstd frame with a checksum per record.
//!
//! The writer splits the frame into fragments; the reader decompresses them as they arrive
//! (`docs/formats/log.md`, WAL compression).
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use super::{Compression, zstd};
use crate::error::Result;

/// The largest accepted window, 8 MiB; frames with a larger one are refused.
const WINDOW_LOG_MAX: u32 = 23;

/// A compressor of log records, each in a zstd frame of its own (RocksDB: `StreamingCompress`).
pub struct StreamCompressor(zstd::FrameEncoder);

impl StreamCompressor {
    /// Creates a compressor for one log.
    ///
    /// # Errors
    /// `NotSupported` if this build lacks zstd.
    pub fn new() -> Result<Self> {
        Compression::Zstd.ensure_available()?;
        Ok(StreamCompressor(zstd::FrameEncoder::new()?))
    }

    /// Compresses `record` and appends its zstd frame to `out`; an empty record has no frame.
    ///
    /// # Errors
    /// `Corruption` if zstd fails.
    pub fn compress(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if record.is_empty() {
            return Ok(());
        }
        self.0.compress(record, out)
    }
}

/// A decompressor of log records from fragments of their zstd frames (`StreamingUncompress`).
pub struct StreamDecompressor {
    decoder: zstd::FrameDecoder,
    started: bool,
    ended: bool,
}

impl StreamDecompressor {
    /// Creates a decompressor for one log.
    ///
    /// # Errors
    /// `NotSupported` if this build lacks zstd.
    pub fn new() -> Result<Self> {
        Compression::Zstd.ensure_available()?;
        Ok(StreamDecompressor {
            decoder: zstd::FrameDecoder::new(WINDOW_LOG_MAX)?,
            started: false,
            ended: false,
        })
    }

    /// Discards the current record; called before the first fragment of each record.
    ///
    /// # Errors
    /// `Corruption` if zstd fails.
    pub fn reset(&mut self) -> Result<()> {
        self.started = false;
        self.ended = false;
        self.decoder.reset()
    }

    /// Decompresses the next fragment of a record into `out`, which may reach `max_bytes` in total.
    ///
    /// After an error the record is lost; [`StreamDecompressor::reset`] begins the next one.
    ///
    /// # Errors
    /// `Corruption` if the frame is damaged, has a window above 8 MiB, ends before its last
    /// fragment or holds more than `max_bytes`; `MemoryLimit` if memory runs out.
    pub fn decompress(
        &mut self,
        fragment: &[u8],
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if fragment.is_empty() {
            return Ok(());
        }
        self.started = true;
        self.ended = self.decoder.decompress(fragment, max_bytes, out)?;
        Ok(())
    }

    /// Whether the record is complete: its frame has ended, or it is empty and has no frame.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ended || !self.started
    }
}
