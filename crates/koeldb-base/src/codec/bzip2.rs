//! The bzip2 codec, for reading files that were written with it.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use ::bzip2::{Action, Compress, Decompress, Status};

use super::CompressionOptions;
use super::decompressor::reserved;
use crate::error::{Error, Result};

/// A bzip2 block encoder.
pub(super) struct Encoder;

impl Encoder {
    pub(super) fn new(_: &CompressionOptions, _: &[u8]) -> Result<Self> {
        Ok(Encoder)
    }

    /// Appends the compressed block to `out`; false if that exceeds `max_bytes`.
    pub(super) fn compress(
        &mut self,
        raw: &[u8],
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        out.reserve_exact(max_bytes.saturating_sub(out.len()));
        let mut stream = Compress::new(::bzip2::Compression::fast(), 30);
        let status = stream
            .compress_vec(raw, out, Action::Finish)
            .map_err(|error| damaged(&error))?;
        Ok(status == Status::StreamEnd)
    }
}

/// The size below which the declared size is reserved immediately.
const TRUSTED_BYTES: usize = 1 << 20;

/// Decompresses a block of at most `raw_bytes` bytes.
///
/// The format bounds no ratio, so memory above [`TRUSTED_BYTES`] grows as the decoder fills it.
pub(super) fn decompress(stored: &[u8], _: &[u8], raw_bytes: usize) -> Result<Vec<u8>> {
    let raw_bytes = raw_bytes.max(1);
    let mut raw = reserved(raw_bytes.min(TRUSTED_BYTES))?;
    let mut stream = Decompress::new(false);
    loop {
        let rest = usize::try_from(stream.total_in()).ok();
        let rest = rest.and_then(|read| stored.get(read..)).unwrap_or_default();
        let status = stream.decompress_vec(rest, &mut raw);
        match status.map_err(|error| damaged(&error))? {
            Status::StreamEnd => return Ok(raw),
            _ if raw.len() == raw.capacity() && raw.len() < raw_bytes => {
                let larger = raw.len().saturating_mul(2).min(raw_bytes);
                let mut grown = reserved(larger)?;
                grown.extend_from_slice(&raw);
                raw = grown;
            }
            _ => return Err(Error::corruption("bzip2 block: the stream does not end")),
        }
    }
}

/// Returns the `Corruption` error for an error of the bzip2 library.
fn damaged(error: &::bzip2::Error) -> Error {
    Error::corruption(format!("bzip2 block: {error}"))
}
