//! Compression of log records: one zstd frame with a checksum per record (`docs/formats/log.md`, WAL
//! compression). The writer cuts the frame into fragments; the reader hands them over as they come.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use super::{Compression, zstd};
use crate::error::Result;

/// Frames with a window above 8 MiB are refused.
const WINDOW_LOG_MAX: u32 = 23;

/// Compresses records, each on its own.
pub struct StreamCompressor(zstd::FrameEncoder);

impl StreamCompressor {
    /// A compressor for one log.
    ///
    /// # Errors
    /// `NotSupported` if this build lacks zstd.
    pub fn new() -> Result<Self> {
        Compression::Zstd.ensure_available()?;
        Ok(StreamCompressor(zstd::FrameEncoder::new()?))
    }

    /// Appends the frame of `record` to `out`. An empty record has no frame.
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

/// Decompresses records from fragments of their frames.
pub struct StreamDecompressor {
    decoder: zstd::FrameDecoder,
    started: bool,
    ended: bool,
}

impl StreamDecompressor {
    /// A decompressor for one log.
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

    /// Forgets the record under way; called before the first fragment of each.
    ///
    /// # Errors
    /// `Corruption` if zstd fails.
    pub fn reset(&mut self) -> Result<()> {
        self.started = false;
        self.ended = false;
        self.decoder.reset()
    }

    /// Appends what the next fragment of a record holds to `out`, which may reach `max_bytes` in all.
    ///
    /// After an error the record is lost; [`StreamDecompressor::reset`] begins the next one.
    ///
    /// # Errors
    /// `Corruption` if the frame is damaged, has a window above 8 MiB, ends before its last fragment or
    /// holds more than `max_bytes`; `MemoryLimit` if memory runs out.
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

    /// Whether the record is whole: its frame has ended, or it has none because it is empty.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ended || !self.started
    }
}
