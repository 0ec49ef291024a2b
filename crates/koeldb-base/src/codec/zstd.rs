//! Zstandard: one frame per block, or a frame split into fragments.
//!
//! Creating a context costs twice the decoding of a small block, so each thread keeps a decoding
//! context. A dictionary is digested once per file. It may be trained or raw content: zstd tells
//! them apart.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cell::RefCell;

use zstd_safe::zstd_sys::{ZSTD_EndDirective, ZSTD_ErrorCode};
use zstd_safe::{CCtx, CParameter, DCtx, DDict, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::CompressionOptions;
use super::decompressor::reserved;
use crate::error::{Error, ErrorKind, Result};

const LEVEL_DEFAULT: i32 = 3;

/// The step in bytes by which the output buffer grows while a fragmented frame is decompressed.
const GROWTH_BYTES: usize = 64 << 10;

thread_local! {
    static CONTEXT: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// A zstd block encoder, with the dictionary and settings loaded.
pub(super) struct Encoder(CCtx<'static>);

impl Encoder {
    pub(super) fn new(options: &CompressionOptions, dictionary: &[u8]) -> Result<Self> {
        let level = match options.level {
            CompressionOptions::DEFAULT_LEVEL => LEVEL_DEFAULT,
            level => level,
        };
        let mut context = CCtx::try_create().ok_or_else(no_memory)?;
        context
            .set_parameter(CParameter::CompressionLevel(level))
            .map_err(refused)?;
        context
            .set_parameter(CParameter::ChecksumFlag(options.checksum))
            .map_err(refused)?;
        if !dictionary.is_empty() {
            context.load_dictionary(dictionary).map_err(refused)?;
        }
        Ok(Encoder(context))
    }

    /// Appends the compressed block to `out`; false if that exceeds `max_bytes`.
    pub(super) fn compress(
        &mut self,
        raw: &[u8],
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let start = out.len();
        // The encoder gives up at the end of the buffer.
        let room = zstd_safe::compress_bound(raw.len());
        out.resize(start.saturating_add(room).min(max_bytes.max(start)), 0);
        let target = out.get_mut(start..).unwrap_or_default();
        match self.0.compress2(target, raw) {
            Ok(len) => {
                out.truncate(start.saturating_add(len));
                Ok(true)
            }
            Err(code) if is_too_small(code) => Ok(false),
            Err(code) => Err(damaged(code)),
        }
    }
}

/// A dictionary that zstd has digested for decompression (`ZSTD_DDict`).
pub(super) struct Prepared(DDict<'static>);

impl Prepared {
    /// Digests a dictionary, trained or raw.
    pub(super) fn new(dictionary: &[u8]) -> Result<Self> {
        DDict::try_create(dictionary)
            .map(Prepared)
            .ok_or_else(|| Error::corruption("zstd rejects the compression dictionary"))
    }
}

/// Decompresses a block of at most `raw_bytes` bytes.
pub(super) fn decompress(
    stored: &[u8],
    dictionary: Option<&Prepared>,
    raw_bytes: usize,
) -> Result<Vec<u8>> {
    let mut raw = reserved(raw_bytes)?;
    let mut decode = |context: &mut DCtx<'static>| match dictionary {
        Some(Prepared(dictionary)) => context.decompress_using_ddict(&mut raw, stored, dictionary),
        None => context.decompress(&mut raw, stored),
    };
    // At its end a thread has no context any more, and destructors of other values may still read.
    CONTEXT
        .try_with(|context| decode(&mut context.borrow_mut()))
        .unwrap_or_else(|_| decode(&mut DCtx::create()))
        .map_err(damaged)?;
    Ok(raw)
}

/// An encoder that writes each frame, with a checksum, in one piece.
pub(super) struct FrameEncoder(CCtx<'static>);

impl FrameEncoder {
    pub(super) fn new() -> Result<Self> {
        let mut context = CCtx::try_create().ok_or_else(no_memory)?;
        context
            .set_parameter(CParameter::CompressionLevel(LEVEL_DEFAULT))
            .map_err(refused)?;
        context
            .set_parameter(CParameter::ChecksumFlag(true))
            .map_err(refused)?;
        Ok(FrameEncoder(context))
    }

    /// Appends one complete frame, with checksum, to `out`.
    pub(super) fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.reserve(zstd_safe::compress_bound(raw.len()));
        let mut input = InBuffer::around(raw);
        let mut output = OutBuffer::around_pos(out, start);
        let left = self
            .0
            .compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_end)
            .map_err(damaged)?;
        if left > 0 {
            self.0.reset(ResetDirective::SessionOnly).map_err(damaged)?;
            return Err(Error::corruption("zstd frame exceeds its bound"));
        }
        Ok(())
    }
}

/// A decoder for frames that arrive in fragments.
pub(super) struct FrameDecoder(DCtx<'static>);

impl FrameDecoder {
    /// Creates a decoder that refuses frames with a window above 2^`window_log_max` bytes.
    pub(super) fn new(window_log_max: u32) -> Result<Self> {
        let mut context = DCtx::try_create().ok_or_else(no_memory)?;
        context
            .set_parameter(DParameter::WindowLogMax(window_log_max))
            .map_err(refused)?;
        Ok(FrameDecoder(context))
    }

    /// Discards the unfinished frame, if any.
    pub(super) fn reset(&mut self) -> Result<()> {
        self.0.reset(ResetDirective::SessionOnly).map_err(damaged)?;
        Ok(())
    }

    /// Appends the decoded `fragment` to `out`; returns true if the frame ended with it.
    ///
    /// Fails with `Corruption` once `out` exceeds `max_bytes`.
    pub(super) fn decompress(
        &mut self,
        fragment: &[u8],
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let mut input = InBuffer::around(fragment);
        loop {
            let len = out.len();
            if len > max_bytes {
                return Err(Error::corruption(format!(
                    "zstd frame of more than {max_bytes} bytes"
                )));
            }
            out.try_reserve(GROWTH_BYTES).map_err(|_| no_memory())?;
            let mut output = OutBuffer::around_pos(out, len);
            let hint = self
                .0
                .decompress_stream(&mut output, &mut input)
                .map_err(damaged)?;
            let full = output.pos() == output.capacity();
            if hint == 0 {
                return if input.pos == fragment.len() && out.len() <= max_bytes {
                    Ok(true)
                } else {
                    Err(Error::corruption("zstd frame ends before its record"))
                };
            }
            if !full && input.pos == fragment.len() && out.len() <= max_bytes {
                return Ok(false);
            }
        }
    }
}

/// Trains a dictionary on concatenated samples; `None` if zstd cannot train on them.
pub(super) fn train(samples: &[u8], sample_bytes: &[usize], max_bytes: usize) -> Option<Vec<u8>> {
    let mut dictionary = Vec::with_capacity(max_bytes);
    zstd_safe::train_from_buffer(&mut dictionary, samples, sample_bytes).ok()?;
    dictionary.truncate(max_bytes);
    Some(dictionary)
}

/// Whether a zstd error code means that the destination is too small.
fn is_too_small(code: usize) -> bool {
    let too_small = ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as u32;
    code.wrapping_neg() as u64 == u64::from(too_small)
}

/// Returns the `Corruption` error for a zstd error code.
fn damaged(code: usize) -> Error {
    Error::corruption(format!("zstd frame: {}", zstd_safe::get_error_name(code)))
}

/// Returns the `InvalidArgument` error for a zstd error code.
fn refused(code: usize) -> Error {
    Error::invalid_argument(format!("zstd: {}", zstd_safe::get_error_name(code)))
}

/// Returns the `MemoryLimit` error of zstd.
fn no_memory() -> Error {
    Error::with_kind(ErrorKind::MemoryLimit, "no memory for zstd")
}
