//! Stubs for codecs that were left out of the build.
//!
//! [`Compression::ensure_available`] returns an error that names the feature before any stub is
//! called.
//!
//! [`Compression::ensure_available`]: super::Compression::ensure_available

#![allow(
    dead_code,
    reason = "each codec uses a part of it, and any subset may be left out"
)]

use super::CompressionOptions;
use crate::error::{Error, ErrorDetail, Result};

/// Returns the `NotSupported` error of a codec that was left out.
fn missing<T>() -> Result<T> {
    Err(
        Error::not_supported("the codec is not included in this build")
            .with_detail(ErrorDetail::FeatureMissing),
    )
}

/// The uninhabited encoder of a missing codec.
pub(super) enum Encoder {}

impl Encoder {
    /// Returns the `NotSupported` error: the codec was left out.
    pub(super) fn new(_: &CompressionOptions, _: &[u8]) -> Result<Self> {
        missing()
    }

    /// Is never called: the encoder of a missing codec cannot exist.
    pub(super) fn compress(&mut self, _: &[u8], _: usize, _: &mut Vec<u8>) -> Result<bool> {
        match *self {}
    }
}

/// The digested dictionary of a missing codec, which is never created.
pub(super) struct Prepared;

impl Prepared {
    /// Returns the `NotSupported` error: the codec was left out.
    pub(super) fn new(_: &[u8]) -> Result<Self> {
        missing()
    }
}

/// Returns the `NotSupported` error in place of the raw size of a block.
pub(super) fn raw_bytes(_: &[u8]) -> Result<u64> {
    missing()
}

/// Returns the `NotSupported` error in place of the decompressed block.
pub(super) fn decompress<D>(_: &[u8], _: D, _: usize) -> Result<Vec<u8>> {
    missing()
}

/// The uninhabited frame encoder of a missing codec.
pub(super) enum FrameEncoder {}

impl FrameEncoder {
    /// Returns the `NotSupported` error: the codec was left out.
    pub(super) fn new() -> Result<Self> {
        missing()
    }

    /// Is never called: the frame encoder of a missing codec cannot exist.
    pub(super) fn compress(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<()> {
        match *self {}
    }
}

/// The uninhabited frame decoder of a missing codec.
pub(super) enum FrameDecoder {}

impl FrameDecoder {
    /// Returns the `NotSupported` error: the codec was left out.
    pub(super) fn new(_: u32) -> Result<Self> {
        missing()
    }

    /// Is never called: the frame decoder of a missing codec cannot exist.
    pub(super) fn reset(&mut self) -> Result<()> {
        match *self {}
    }

    /// Is never called: the frame decoder of a missing codec cannot exist.
    pub(super) fn decompress(&mut self, _: &[u8], _: usize, _: &mut Vec<u8>) -> Result<bool> {
        match *self {}
    }
}

/// Returns `None`: a missing codec cannot train a dictionary.
pub(super) fn train(_: &[u8], _: &[usize], _: usize) -> Option<Vec<u8>> {
    None
}
