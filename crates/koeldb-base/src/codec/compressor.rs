//! Compresses blocks into their stored form.

use super::{Compression, CompressionOptions, bzip2, lz4, snappy, zlib, zstd};
use crate::coding::put_varint32;
use crate::error::Result;

/// A compressor for a sequence of blocks with the same settings and dictionary; it reuses contexts.
pub struct Compressor {
    compression: Compression,
    encoder: Encoder,
}

/// The encoder of one codec, with its dictionary and settings.
enum Encoder {
    None,
    Snappy(snappy::Encoder),
    Zlib(zlib::Encoder),
    Bzip2(bzip2::Encoder),
    Lz4(lz4::Encoder),
    Zstd(zstd::Encoder),
}

impl Compressor {
    /// Creates a compressor for blocks that share `dictionary`.
    ///
    /// An empty dictionary counts as none; codecs without dictionary support ignore it.
    ///
    /// # Errors
    /// `NotSupported` if this build lacks the codec; `InvalidArgument` if the codec refuses a
    /// setting.
    pub fn new(
        compression: Compression,
        options: &CompressionOptions,
        dictionary: Option<&[u8]>,
    ) -> Result<Self> {
        compression.ensure_available()?;
        let dictionary = dictionary.unwrap_or_default();
        let encoder = match compression {
            Compression::None | Compression::Xpress => Encoder::None,
            Compression::Snappy => Encoder::Snappy(snappy::Encoder::new(options, dictionary)?),
            Compression::Zlib => Encoder::Zlib(zlib::Encoder::new(options, dictionary)?),
            Compression::Bzip2 => Encoder::Bzip2(bzip2::Encoder::new(options, dictionary)?),
            Compression::Lz4 | Compression::Lz4hc => {
                Encoder::Lz4(lz4::Encoder::new(options, dictionary)?)
            }
            Compression::Zstd => Encoder::Zstd(zstd::Encoder::new(options, dictionary)?),
        };
        Ok(Compressor {
            compression,
            encoder,
        })
    }

    /// The codec, whose type byte is stored with the blocks.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Compresses `raw` into `out`, in stored form; returns false if that exceeds `max_bytes`.
    ///
    /// `max_bytes` comes from [`CompressionOptions::max_compressed_bytes`]. If the result is
    /// larger, this returns false and leaves `out` empty, and the caller stores the block
    /// uncompressed. Codecs that can abort early do so.
    ///
    /// # Errors
    /// `MemoryLimit` or `Corruption` if the codec fails.
    pub fn compress(&mut self, raw: &[u8], max_bytes: usize, out: &mut Vec<u8>) -> Result<bool> {
        out.clear();
        let Ok(raw_bytes) = u32::try_from(raw.len()) else {
            return Ok(false);
        };
        let fits = match &mut self.encoder {
            Encoder::None => false,
            Encoder::Snappy(encoder) => encoder.compress(raw, max_bytes, out)?,
            Encoder::Zlib(encoder) => {
                put_varint32(out, raw_bytes);
                encoder.compress(raw, max_bytes, out)?
            }
            Encoder::Bzip2(encoder) => {
                put_varint32(out, raw_bytes);
                encoder.compress(raw, max_bytes, out)?
            }
            Encoder::Lz4(encoder) => {
                put_varint32(out, raw_bytes);
                encoder.compress(raw, max_bytes, out)?
            }
            Encoder::Zstd(encoder) => {
                put_varint32(out, raw_bytes);
                encoder.compress(raw, max_bytes, out)?
            }
        };
        let fits = fits && out.len() <= max_bytes;
        if !fits {
            out.clear();
        }
        Ok(fits)
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compressor({})", self.compression.name())
    }
}
