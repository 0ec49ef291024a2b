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

pub(super) struct Encoder;

impl Encoder {
    pub(super) fn new(_: &CompressionOptions, _: &[u8]) -> Result<Self> {
        Ok(Encoder)
    }

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

pub(super) fn decompress(stored: &[u8], _: &[u8], raw_bytes: usize) -> Result<Vec<u8>> {
    let mut raw = reserved(raw_bytes.max(1))?;
    match Decompress::new(false).decompress_vec(stored, &mut raw) {
        Ok(Status::StreamEnd) => Ok(raw),
        Ok(_) => Err(Error::corruption("bzip2 block: the stream does not end")),
        Err(error) => Err(damaged(&error)),
    }
}

fn damaged(error: &::bzip2::Error) -> Error {
    Error::corruption(format!("bzip2 block: {error}"))
}
