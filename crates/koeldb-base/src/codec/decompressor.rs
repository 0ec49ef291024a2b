//! Decompresses blocks from their stored form.
//!
//! Invariant: a size from the file allocates memory only once it is known to be at most the
//! caller's limit and, for codecs with a bounded ratio, at most the size that the stored bytes can
//! expand to. bzip2 has no useful bound: its memory grows as the decoder fills it.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::{Arc, OnceLock};

use super::{Compression, bzip2, lz4, snappy, zlib, zstd};
use crate::coding::take_varint32;
use crate::error::{Error, ErrorKind, Result};

/// The largest plausible ratio of raw to stored bytes for Snappy; beyond it is corruption.
const SNAPPY_RATIO: u64 = 64;
/// The largest plausible ratio of raw to stored bytes for LZ4.
const LZ4_RATIO: u64 = 256;
/// The largest plausible ratio of raw to stored bytes for zlib.
const DEFLATE_RATIO: u64 = 1100;
/// The largest plausible ratio of raw to stored bytes for zstd.
///
/// A block of a frame holds at most 128 KiB and takes at least four bytes: three of header and the
/// byte that it repeats.
const ZSTD_RATIO: u64 = (128 << 10) / 4;
/// The ratio for codecs without a bound.
const UNBOUNDED: u64 = u64::MAX;

/// Bytes by which a declared size may exceed the ratio, for blocks of a few bytes.
const RATIO_SLACK: u64 = 64;

/// The allocation size from which a failure is an error instead of an abort of the process.
const FALLIBLE_BYTES: usize = 1 << 20;

/// A decompressor for the blocks of one file. Any number of threads may use it concurrently.
#[derive(Default)]
pub struct Decompressor {
    dictionary: Option<Arc<[u8]>>,
    /// The digested dictionary of zstd, created for the first block that needs it.
    prepared: OnceLock<zstd::Prepared>,
}

impl Decompressor {
    /// Creates a decompressor for blocks that were compressed with `dictionary`, or without one.
    ///
    /// An empty dictionary counts as none.
    #[must_use]
    pub fn new(dictionary: Option<Arc<[u8]>>) -> Self {
        Decompressor {
            dictionary: dictionary.filter(|bytes| !bytes.is_empty()),
            prepared: OnceLock::new(),
        }
    }

    /// The dictionary of the blocks; `None` for blocks compressed without one.
    #[must_use]
    pub fn dictionary(&self) -> Option<&Arc<[u8]>> {
        self.dictionary.as_ref()
    }

    /// Decompresses a block, whose stored form may declare at most `max_bytes` raw bytes.
    ///
    /// # Errors
    /// `Corruption` if the stored form is damaged or declares a size beyond the limits;
    /// `NotSupported` if this build lacks the codec; `MemoryLimit` if there is no memory for the
    /// size declared.
    pub fn decompress(
        &self,
        compression: Compression,
        stored: &[u8],
        max_bytes: usize,
    ) -> Result<Vec<u8>> {
        compression.ensure_available()?;
        let dictionary = self.dictionary.as_deref().unwrap_or_default();
        let raw = match compression {
            Compression::None | Compression::Xpress => {
                let bytes = checked_size(stored.len() as u64, stored.len(), 1, max_bytes)?;
                let mut raw = reserved(bytes)?;
                raw.extend_from_slice(stored);
                return Ok(raw);
            }
            Compression::Snappy => {
                let declared = snappy::raw_bytes(stored)?;
                let bytes = checked_size(declared, stored.len(), SNAPPY_RATIO, max_bytes)?;
                let raw = snappy::decompress(stored, dictionary, bytes)?;
                (raw, bytes)
            }
            Compression::Zlib => {
                let (bytes, frame) = declared_size(stored, DEFLATE_RATIO, max_bytes)?;
                (zlib::decompress(frame, dictionary, bytes)?, bytes)
            }
            Compression::Bzip2 => {
                let (bytes, frame) = declared_size(stored, UNBOUNDED, max_bytes)?;
                (bzip2::decompress(frame, dictionary, bytes)?, bytes)
            }
            Compression::Lz4 | Compression::Lz4hc => {
                let (bytes, frame) = declared_size(stored, LZ4_RATIO, max_bytes)?;
                (lz4::decompress(frame, dictionary, bytes)?, bytes)
            }
            Compression::Zstd => {
                let (bytes, frame) = declared_size(stored, ZSTD_RATIO, max_bytes)?;
                (zstd::decompress(frame, self.prepared()?, bytes)?, bytes)
            }
        };
        match raw {
            (raw, bytes) if raw.len() == bytes => Ok(raw),
            (raw, bytes) => Err(Error::corruption(format!(
                "{} block declares {bytes} bytes but contains {}",
                compression.name(),
                raw.len()
            ))),
        }
    }

    /// Returns the dictionary as digested by zstd, on first use; `None` without a dictionary.
    fn prepared(&self) -> Result<Option<&zstd::Prepared>> {
        let Some(dictionary) = &self.dictionary else {
            return Ok(None);
        };
        if let Some(prepared) = self.prepared.get() {
            return Ok(Some(prepared));
        }
        let prepared = zstd::Prepared::new(dictionary)?;
        Ok(Some(self.prepared.get_or_init(|| prepared)))
    }
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.dictionary.as_ref().map_or(0, |bytes| bytes.len());
        write!(f, "Decompressor({bytes} bytes of dictionary)")
    }
}

/// Decodes and checks the raw size in front of a block; returns it and the remaining bytes.
fn declared_size(mut stored: &[u8], ratio: u64, max_bytes: usize) -> Result<(usize, &[u8])> {
    let declared = take_varint32(&mut stored)?;
    let bytes = checked_size(u64::from(declared), stored.len(), ratio, max_bytes)?;
    Ok((bytes, stored))
}

/// Checks the declared raw size of a block against the limit and the codec's highest ratio.
fn checked_size(declared: u64, stored: usize, ratio: u64, max_bytes: usize) -> Result<usize> {
    let reachable = (stored as u64)
        .saturating_mul(ratio)
        .saturating_add(RATIO_SLACK);
    match usize::try_from(declared) {
        Ok(bytes) if bytes <= max_bytes && declared <= reachable => Ok(bytes),
        _ => Err(Error::corruption(format!(
            "block of {stored} stored bytes declares {declared} bytes, at most {} are allowed",
            reachable.min(max_bytes as u64)
        ))),
    }
}

/// Allocates an empty vector for `bytes` bytes; a failure from 1 MiB on is `MemoryLimit`.
pub(super) fn reserved(bytes: usize) -> Result<Vec<u8>> {
    let mut vec = Vec::new();
    if bytes < FALLIBLE_BYTES {
        vec.reserve_exact(bytes);
    } else {
        vec.try_reserve_exact(bytes).map_err(|_| {
            Error::with_kind(
                ErrorKind::MemoryLimit,
                format!("cannot allocate {bytes} bytes for a block"),
            )
        })?;
    }
    Ok(vec)
}

/// Allocates a vector of `bytes` zeros; a failure from 1 MiB on is `MemoryLimit`.
#[cfg(any(feature = "snappy", feature = "zlib", feature = "lz4"))]
pub(super) fn zeroed(bytes: usize) -> Result<Vec<u8>> {
    if bytes < FALLIBLE_BYTES {
        return Ok(vec![0; bytes]);
    }
    let mut vec = reserved(bytes)?;
    vec.resize(bytes, 0);
    Ok(vec)
}
