//! LZ4's block format. A dictionary is history directly before the block; its last 64 KiB count.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use lz4_flex::block;

use super::CompressionOptions;
use super::decompressor::zeroed;
use crate::error::{Error, Result};

/// The length of LZ4's shortest match: a shorter dictionary is of no use to the encoder.
const MATCH_BYTES_MIN: usize = 4;

/// An LZ4 block encoder.
pub(super) struct Encoder {
    dictionary: Vec<u8>,
}

impl Encoder {
    pub(super) fn new(_: &CompressionOptions, dictionary: &[u8]) -> Result<Self> {
        Ok(Encoder {
            dictionary: dictionary.to_vec(),
        })
    }

    /// Appends the compressed block to `out`; always returns true.
    pub(super) fn compress(&mut self, raw: &[u8], _: usize, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        let room = block::get_maximum_output_size(raw.len());
        out.resize(start.saturating_add(room), 0);
        let target = out.get_mut(start..).unwrap_or_default();
        let len = if self.dictionary.len() < MATCH_BYTES_MIN {
            block::compress_into(raw, target)
        } else {
            block::compress_into_with_dict(raw, target, &self.dictionary)
        }
        .map_err(|error| damaged(&error))?;
        out.truncate(start.saturating_add(len));
        Ok(true)
    }
}

/// Decompresses a block of at most `raw_bytes` bytes.
pub(super) fn decompress(stored: &[u8], dictionary: &[u8], raw_bytes: usize) -> Result<Vec<u8>> {
    let mut raw = zeroed(raw_bytes)?;
    let len = if dictionary.is_empty() {
        block::decompress_into(stored, &mut raw)
    } else {
        block::decompress_into_with_dict(stored, &mut raw, dictionary)
    }
    .map_err(|error| damaged(&error))?;
    raw.truncate(len);
    Ok(raw)
}

/// Returns the `Corruption` error for an error of the LZ4 library.
fn damaged(error: &dyn std::fmt::Display) -> Error {
    Error::corruption(format!("LZ4 block: {error}"))
}
