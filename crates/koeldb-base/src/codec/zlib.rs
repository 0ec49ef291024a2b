//! Raw deflate, without header or checksum.
//!
//! COMPAT: RocksDB reads with a window of 2^14 bytes, so no larger one is written; up to 2^15 is
//! read.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cell::RefCell;

use zlib_rs::{
    Deflate, DeflateConfig, DeflateFlush, Inflate, InflateFlush, Method, Status, Strategy,
};

use super::CompressionOptions;
use super::decompressor::zeroed;
use crate::coding::to_usize;
use crate::error::{Error, Result};

const WINDOW_BITS_MIN: u32 = 9;
const WINDOW_BITS_MAX: u32 = 14;
const LEVEL_DEFAULT: i32 = 6;
const LEVEL_MAX: i32 = 9;

thread_local! {
    static INFLATE: RefCell<Inflate> = RefCell::new(Inflate::new(false, 15));
}

/// An encoder of raw deflate streams, without zlib header, as RocksDB writes them.
pub(super) struct Encoder {
    config: DeflateConfig,
    deflate: Deflate,
    dictionary: Vec<u8>,
}

impl Encoder {
    pub(super) fn new(options: &CompressionOptions, dictionary: &[u8]) -> Result<Self> {
        let window_bits = options
            .window_bits
            .unsigned_abs()
            .clamp(WINDOW_BITS_MIN, WINDOW_BITS_MAX);
        let level = match options.level {
            level @ 0..=LEVEL_MAX => level,
            CompressionOptions::DEFAULT_LEVEL | ..0 => LEVEL_DEFAULT,
            _ => LEVEL_MAX,
        };
        let config = DeflateConfig {
            level,
            method: Method::Deflated,
            window_bits: window_bits.cast_signed().saturating_neg(),
            mem_level: 8,
            strategy: Strategy::try_from(options.strategy).unwrap_or_default(),
        };
        Ok(Encoder {
            config,
            deflate: Deflate::new_with_config(config),
            dictionary: dictionary.to_vec(),
        })
    }

    /// Appends the compressed block to `out`, even beyond `max_bytes`; false if it is incomplete.
    pub(super) fn compress(
        &mut self,
        raw: &[u8],
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let start = out.len();
        self.deflate.reset();
        if !self.dictionary.is_empty() {
            self.deflate
                .set_dictionary(&self.dictionary)
                .map_err(|error| damaged(error.as_str()))?;
        }
        if start >= max_bytes {
            return Ok(false);
        }
        // Room for the whole stream, also where it exceeds `max_bytes`: the caller compares.
        let room = zlib_rs::compress_bound(raw.len());
        out.resize(start.saturating_add(room), 0);
        let target = out.get_mut(start..).unwrap_or_default();
        let status = self
            .deflate
            .compress(raw, target, DeflateFlush::Finish)
            .map_err(|error| damaged(error.as_str()))?;
        out.truncate(start.saturating_add(to_usize(self.deflate.total_out())));
        let is_whole = status == Status::StreamEnd;
        if !is_whole {
            // `reset` does not rewind the pending output of an unfinished stream: zlib-rs 0.6.8
            // loses that part of its buffer, and panics once the whole buffer is lost.
            self.deflate = Deflate::new_with_config(self.config);
        }
        Ok(is_whole)
    }
}

/// Decompresses a raw deflate stream of at most `raw_bytes` bytes.
pub(super) fn decompress(stored: &[u8], dictionary: &[u8], raw_bytes: usize) -> Result<Vec<u8>> {
    let mut raw = zeroed(raw_bytes)?;
    let mut decode = |inflate: &mut Inflate| {
        inflate.reset(false);
        if !dictionary.is_empty() {
            inflate
                .set_dictionary(dictionary)
                .map_err(|error| damaged(error.as_str()))?;
        }
        let status = inflate
            .decompress(stored, &mut raw, InflateFlush::Finish)
            .map_err(|error| damaged(error.as_str()))?;
        if status != Status::StreamEnd {
            return Err(damaged("the stream does not end"));
        }
        raw.truncate(to_usize(inflate.total_out()));
        Ok(())
    };
    // At its end a thread has no state any more, and destructors of other values may still read.
    INFLATE
        .try_with(|inflate| decode(&mut inflate.borrow_mut()))
        .unwrap_or_else(|_| decode(&mut Inflate::new(false, 15)))?;
    Ok(raw)
}

/// Returns the `Corruption` error of a zlib block, for this reason.
fn damaged(reason: &str) -> Error {
    Error::corruption(format!("zlib block: {reason}"))
}
