//! RocksDB's block-based table (`docs/formats/block-based-table.md`).
//!
//! ```text
//! data blocks | filter | index | dictionary | range tombstones | properties | metaindex | footer
//! ```
//!
//! - `open`: opens a reader from the end of a file. [`reader`], `batch`, [`cursor`]: point reads,
//!   batched reads, scans.
//! - [`readahead`]: reading ahead of scans.
//! - [`builder`], `write_options`: building a table. [`index_builder`], `uniformity`,
//!   `filter_builder`, `dictionary`, `block_writer`: its parts.
//!
//! Its blocks are in [`crate::block`], the footer and the block handles in [`crate::format`].

mod batch;
pub(crate) mod block_writer;
pub mod builder;
mod compression_samples;
pub mod cursor;
pub(crate) mod dictionary;
pub(crate) mod filter_builder;
pub mod index_builder;
pub(crate) mod open;
pub mod readahead;
pub mod reader;
mod uniformity;
mod write_options;

pub use crate::block::index;
pub use crate::format;
