//! Snappy's raw format, which begins with the raw size.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use super::CompressionOptions;
use super::decompressor::zeroed;
use crate::error::{Error, Result};

/// A Snappy block encoder.
pub(super) struct Encoder(Box<snap::raw::Encoder>);

impl Encoder {
    pub(super) fn new(_: &CompressionOptions, _: &[u8]) -> Result<Self> {
        Ok(Encoder(Box::new(snap::raw::Encoder::new())))
    }

    /// Replaces `out` by the compressed block; always returns true.
    pub(super) fn compress(&mut self, raw: &[u8], _: usize, out: &mut Vec<u8>) -> Result<bool> {
        out.resize(snap::raw::max_compress_len(raw.len()), 0);
        let len = self.0.compress(raw, out).map_err(|error| damaged(&error))?;
        out.truncate(len);
        Ok(true)
    }
}

/// Decodes the raw size with which a Snappy block begins.
pub(super) fn raw_bytes(stored: &[u8]) -> Result<u64> {
    let bytes = snap::raw::decompress_len(stored).map_err(|error| damaged(&error))?;
    Ok(bytes as u64)
}

/// Decompresses a block of at most `raw_bytes` bytes.
pub(super) fn decompress(stored: &[u8], _: &[u8], raw_bytes: usize) -> Result<Vec<u8>> {
    let mut raw = zeroed(raw_bytes)?;
    let len = snap::raw::Decoder::new()
        .decompress(stored, &mut raw)
        .map_err(|error| damaged(&error))?;
    raw.truncate(len);
    Ok(raw)
}

/// Returns the `Corruption` error for an error of the Snappy library.
fn damaged(error: &snap::Error) -> Error {
    Error::corruption(format!("Snappy block: {error}"))
}
