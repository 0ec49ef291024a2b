//! Compression of blocks, blobs and log records.
//!
//! - [`Compression`] names the codecs as files and options do; [`CompressionOptions`] tunes them.
//! - A [`Compressor`] turns one block after another into its stored form, the one of format version 2 and
//!   later: a varint of the raw size, except for Snappy, which brings its own, and then the codec's bytes.
//! - A [`Decompressor`] turns it back. It belongs to one file (because of the dictionary) and is used by any
//!   number of threads; contexts that are dear to make are kept per thread.
//! - [`StreamCompressor`] and [`StreamDecompressor`] are for the log, whose records are cut into fragments.
//! - [`train_dictionary`] makes a dictionary from samples.
//!
//! Stored bytes are hostile until proven otherwise: a declared size is checked against the caller's limit and
//! against what the codec can reach before anything is allocated, and the result has exactly that size.
//!
//! Each codec is a cargo feature; where one is left out, `absent` stands in for its module and the error
//! names the feature (`docs/formats/block-based-table.md`, compression).

mod compression;
mod compressor;
mod decompressor;
mod dictionary;
mod stream;

#[cfg(not(all(
    feature = "snappy",
    feature = "zlib",
    feature = "bzip2",
    feature = "lz4",
    feature = "zstd"
)))]
mod absent;

#[cfg(feature = "snappy")]
mod snappy;
#[cfg(not(feature = "snappy"))]
use absent as snappy;

#[cfg(feature = "zlib")]
mod zlib;
#[cfg(not(feature = "zlib"))]
use absent as zlib;

#[cfg(feature = "bzip2")]
mod bzip2;
#[cfg(not(feature = "bzip2"))]
use absent as bzip2;

#[cfg(feature = "lz4")]
mod lz4;
#[cfg(not(feature = "lz4"))]
use absent as lz4;

#[cfg(feature = "zstd")]
mod zstd;
#[cfg(not(feature = "zstd"))]
use absent as zstd;

pub use compression::{Compression, CompressionOptions};
pub use compressor::Compressor;
pub use decompressor::Decompressor;
pub use dictionary::train_dictionary;
pub use stream::{StreamCompressor, StreamDecompressor};

#[cfg(test)]
mod tests;
