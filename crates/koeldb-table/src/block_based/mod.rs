//! RocksDB's block-based table (`docs/formats/block-based-table.md`).
//!
//! ```text
//! data blocks | filter | index | dictionary | range tombstones | properties | metaindex | footer
//! ```
//!
//! - [`mod@format`]: footer, handles, trailers; [`metaindex`]: the names of the metadata blocks.
//! - [`block`]: a block of entries and its cursor; [`index`]: index entries.
//! - [`fetch`]: from a handle to a verified, decompressed, cached block.
//! - `open`: from the end of a file to a reader. [`reader`], `batch`, [`cursor`]: point reads, many at once, and scans.
//! - [`scan_source`], [`ahead`], `pace`, [`scan_reads`]: reading ahead of a scan.
//! - [`builder`], `write_options`: writing a table. `block_builder`, [`index_builder`], `uniformity`,
//!   `filter_builder`, `dictionary`, `block_writer`: its parts.

pub mod ahead;
mod batch;
pub mod block;
pub(crate) mod block_builder;
pub(crate) mod block_writer;
pub mod builder;
pub mod cursor;
pub(crate) mod dictionary;
pub mod fetch;
pub(crate) mod filter_builder;
pub mod format;
pub mod index;
pub mod index_builder;
pub mod metaindex;
pub(crate) mod open;
mod pace;
pub mod reader;
pub mod scan_reads;
pub mod scan_source;
mod uniformity;
mod write_options;
