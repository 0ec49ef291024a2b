//! RocksDB's block-based table (`docs/formats/block-based-table.md`).
//!
//! ```text
//! data blocks | filter | index | dictionary | range tombstones | properties | metaindex | footer
//! ```
//!
//! - [`format`]: footer, handles, trailers; [`metaindex`]: the names of the metadata blocks.
//! - [`block`]: a block of entries and its cursor; [`index`]: index entries.
//! - [`fetch`]: from a handle to a verified, decompressed, cached block.
//! - [`reader`], [`cursor`]: point reads and scans.
//! - [`builder`], [`block_builder`], [`index_builder`]: writing.

pub mod block;
pub mod block_builder;
pub mod builder;
pub mod cursor;
pub mod fetch;
pub mod format;
pub mod index;
pub mod index_builder;
pub mod metaindex;
pub mod reader;
