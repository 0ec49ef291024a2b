//! RocksDB's block-based table (`docs/formats/block-based-table.md`).
//!
//! ```text
//! data blocks | filter | index | dictionary | range tombstones | properties | metaindex | footer
//! ```
//!
//! - [`mod@format`]: footer, handles, trailers; [`metaindex`]: the names of the metadata blocks.
//! - [`block`]: a block of entries and its cursor; [`index`]: index entries.
//! - [`fetch`]: loads, verifies, decompresses and caches blocks.
//! - `open`: opens a reader from the end of a file. [`reader`], `batch`, [`cursor`]: point reads,
//!   batched reads, scans.
//! - [`readahead`]: reading ahead of scans.
//! - [`builder`], `write_options`: building a table. `block_builder`, [`index_builder`],
//!   `uniformity`, `filter_builder`, `dictionary`, `block_writer`: its parts.

mod batch;
pub mod block;
pub(crate) mod block_builder;
pub(crate) mod block_writer;
pub mod builder;
mod compression_samples;
pub mod cursor;
pub(crate) mod dictionary;
pub mod fetch;
pub(crate) mod filter_builder;
pub mod format;
pub mod index;
pub mod index_builder;
pub mod metaindex;
pub(crate) mod open;
pub mod readahead;
pub mod reader;
mod uniformity;
mod write_options;
