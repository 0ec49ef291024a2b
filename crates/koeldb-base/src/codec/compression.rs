//! Compression types, with their names and type bytes, and compression settings.

use crate::error::{Error, ErrorDetail, Result};

/// The compression type of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Uncompressed.
    #[default]
    None,
    /// Snappy, in its raw format.
    Snappy,
    /// Raw deflate with a window of at most 16 KiB.
    Zlib,
    /// bzip2.
    Bzip2,
    /// LZ4, in its block format.
    Lz4,
    /// LZ4 from the slower high-compression encoder. COMPAT: read as [`Compression::Lz4`], and
    /// written with the encoder of LZ4.
    Lz4hc,
    /// The Windows codec, which is neither read nor written.
    Xpress,
    /// Zstandard, one frame per block.
    Zstd,
}

impl Compression {
    /// All codecs, in the order of their bytes.
    pub const ALL: [Compression; 8] = [
        Compression::None,
        Compression::Snappy,
        Compression::Zlib,
        Compression::Bzip2,
        Compression::Lz4,
        Compression::Lz4hc,
        Compression::Xpress,
        Compression::Zstd,
    ];

    /// The byte for "not set" in options that may inherit from another option; never stored in
    /// tables.
    pub const UNSET_BYTE: u8 = 0xff;

    /// The OPTIONS-file name of an option that inherits its value from another option.
    pub const UNSET_OPTION_NAME: &'static str = "kDisableCompressionOption";

    /// Returns the codec with this compression type byte; `None` for a byte of no built-in codec.
    #[inline]
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// The compression type byte in a block's trailer.
    #[inline]
    #[must_use]
    pub fn to_byte(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Snappy => 1,
            Compression::Zlib => 2,
            Compression::Bzip2 => 3,
            Compression::Lz4 => 4,
            Compression::Lz4hc => 5,
            Compression::Xpress => 6,
            Compression::Zstd => 7,
        }
    }

    /// Returns the name of the codec in table properties, such as `NoCompression`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "NoCompression",
            Compression::Snappy => "Snappy",
            Compression::Zlib => "Zlib",
            Compression::Bzip2 => "BZip2",
            Compression::Lz4 => "LZ4",
            Compression::Lz4hc => "LZ4HC",
            Compression::Xpress => "Xpress",
            Compression::Zstd => "ZSTD",
        }
    }

    /// Returns the codec with this name in table properties; `None` if it is unknown.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// Returns the name of the codec in OPTIONS files, such as `kNoCompression`.
    #[must_use]
    pub fn option_name(self) -> &'static str {
        match self {
            Compression::None => "kNoCompression",
            Compression::Snappy => "kSnappyCompression",
            Compression::Zlib => "kZlibCompression",
            Compression::Bzip2 => "kBZip2Compression",
            Compression::Lz4 => "kLZ4Compression",
            Compression::Lz4hc => "kLZ4HCCompression",
            Compression::Xpress => "kXpressCompression",
            Compression::Zstd => "kZSTD",
        }
    }

    /// Returns the codec with this name in OPTIONS files; `None` if it is unknown.
    #[must_use]
    pub fn from_option_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|codec| codec.option_name() == name)
    }

    /// The cargo feature that enables the codec; `None` for codecs without a feature.
    #[must_use]
    pub fn feature(self) -> Option<&'static str> {
        match self {
            Compression::None | Compression::Xpress => None,
            Compression::Snappy => Some("snappy"),
            Compression::Zlib => Some("zlib"),
            Compression::Bzip2 => Some("bzip2"),
            Compression::Lz4 | Compression::Lz4hc => Some("lz4"),
            Compression::Zstd => Some("zstd"),
        }
    }

    /// Whether this build can read and write the codec.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Compression::None => true,
            Compression::Snappy => cfg!(feature = "snappy"),
            Compression::Zlib => cfg!(feature = "zlib"),
            Compression::Bzip2 => cfg!(feature = "bzip2"),
            Compression::Lz4 | Compression::Lz4hc => cfg!(feature = "lz4"),
            Compression::Xpress => false,
            Compression::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// Whether the codec supports a dictionary.
    #[must_use]
    pub fn uses_dictionary(self) -> bool {
        matches!(
            self,
            Compression::Zlib | Compression::Lz4 | Compression::Lz4hc | Compression::Zstd
        )
    }

    /// Returns an error if this build lacks the codec.
    ///
    /// # Errors
    /// `NotSupported`, with the detail `FeatureMissing` if a cargo feature would enable the codec.
    #[inline]
    pub fn ensure_available(self) -> Result<()> {
        if self.is_available() {
            Ok(())
        } else {
            Err(self.missing())
        }
    }

    /// Returns the error for a codec that is not in this build.
    #[cold]
    fn missing(self) -> Error {
        match self.feature() {
            Some(feature) => {
                Error::not_supported(format!("{} compression is not in this build", self.name()))
                    .with_detail(ErrorDetail::FeatureMissing)
                    .with_advice(format!("build koeldb with the cargo feature `{feature}`"))
            }
            None => Error::not_supported(format!("{} compression", self.name())),
        }
    }
}

/// The compression settings of a column family's tables (RocksDB: `CompressionOptions`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionOptions {
    /// The codec's level; [`CompressionOptions::DEFAULT_LEVEL`] is the codec's own default. LZ4 has
    /// one level.
    pub level: i32,
    /// zlib: the base-2 logarithm of the window; its sign is ignored, and readers accept at most
    /// 14.
    pub window_bits: i32,
    /// zlib: the strategy.
    pub strategy: i32,
    /// The compressed bytes per 1024 bytes of input up to which a block is stored compressed.
    pub max_compressed_bytes_per_kb: u32,
    /// The dictionary's size in bytes; 0 for none.
    pub max_dict_bytes: u32,
    /// zstd: bytes of samples to train the dictionary on; 0 uses the samples themselves as
    /// dictionary.
    pub zstd_max_train_bytes: u32,
    /// Bytes of data buffered until the dictionary is built; 0 buffers the whole file.
    pub max_dict_buffer_bytes: u64,
    /// zstd: whether the dictionary is trained; otherwise the samples themselves are the
    /// dictionary.
    pub use_zstd_dict_trainer: bool,
    /// zstd: whether frames carry a checksum.
    pub checksum: bool,
}

impl CompressionOptions {
    /// The level that selects the codec's default.
    pub const DEFAULT_LEVEL: i32 = 32767;

    /// Returns the largest compressed size up to which a block of `raw_bytes` is stored compressed.
    #[must_use]
    pub fn max_compressed_bytes(&self, raw_bytes: usize) -> usize {
        let share = u64::from(self.max_compressed_bytes_per_kb.min(1024));
        let bytes = (u128::from(share) * raw_bytes as u128) >> 10;
        usize::try_from(bytes).unwrap_or(raw_bytes)
    }
}

impl Default for CompressionOptions {
    fn default() -> Self {
        CompressionOptions {
            level: Self::DEFAULT_LEVEL,
            window_bits: -14,
            strategy: 0,
            max_compressed_bytes_per_kb: 896,
            max_dict_bytes: 0,
            zstd_max_train_bytes: 0,
            max_dict_buffer_bytes: 0,
            use_zstd_dict_trainer: true,
            checksum: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn bytes_and_names_round_trip() {
        for codec in Compression::ALL {
            assert_eq!(Compression::from_byte(codec.to_byte()), Some(codec));
            assert_eq!(Compression::from_name(codec.name()), Some(codec));
            assert_eq!(
                Compression::from_option_name(codec.option_name()),
                Some(codec)
            );
        }
        assert_eq!(Compression::from_byte(0x40), None);
        assert_eq!(Compression::from_byte(Compression::UNSET_BYTE), None);
        assert_eq!(
            Compression::from_option_name(Compression::UNSET_OPTION_NAME),
            None
        );
    }

    #[test]
    fn a_missing_codec_names_its_feature() {
        for codec in Compression::ALL {
            let Err(error) = codec.ensure_available() else {
                continue;
            };
            assert_eq!(error.kind(), ErrorKind::NotSupported);
            if let Some(feature) = codec.feature() {
                assert_eq!(error.detail(), Some(ErrorDetail::FeatureMissing));
                assert!(error.advice().unwrap().contains(feature));
            }
        }
    }

    #[test]
    fn seven_eighths_are_worth_storing() {
        let options = CompressionOptions::default();
        assert_eq!(options.max_compressed_bytes(1024), 896);
        assert_eq!(options.max_compressed_bytes(4096), 3584);
        assert_eq!(options.max_compressed_bytes(0), 0);
    }
}
