//! Compression of blocks, blobs and log records.
//!
//! - [`Compression`] lists the codecs of files and options; [`CompressionOptions`] holds their
//!   settings.
//! - A [`Compressor`] turns a sequence of blocks into their stored form, which is that of format
//!   version 2 and later: a varint of the raw size (Snappy stores its own), then the codec's
//!   output.
//! - A [`Decompressor`] reverses it. It belongs to one file, because of the dictionary, and any
//!   number of threads may use it; contexts that are expensive to create are kept per thread.
//! - [`StreamCompressor`] and [`StreamDecompressor`] are for the log, whose records are split into
//!   fragments.
//! - [`train_dictionary`] builds a dictionary from samples.
//!
//! Stored bytes are untrusted: a declared size is checked against the caller's limit and against
//! the codec's largest ratio before anything is allocated, and the result must have exactly that
//! size.
//!
//! Each codec is a cargo feature. Where one is disabled, `absent` replaces its module and the error
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
