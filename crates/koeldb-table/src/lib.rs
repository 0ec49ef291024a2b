//! Immutable files of sorted entries: building, opening and searching them.
//!
//! A table is built once, from entries in internal-key order, and never changes. This crate
//! implements the formats, filters and readers; `koeldb-lsm` decides which tables exist and which
//! is newer.
//!
//! - [`reader`]: the open table, in any format. [`builder`]: a table under construction.
//! - [`source`]: block sources, and the suspension of reads on missing blocks.
//! - [`block_based`]: RocksDB's block-based format. [`filter`]: its filters. [`cuckoo`]: its cuckoo
//!   tables. [`plain`]: its plain tables.
//! - `examine`: validation of untrusted tables. `load_once`: lazy initialization.
//! - [`properties`]: table properties. `span_checksums`: checksums for formats without any.
//!
//! Readers are shared by threads and take no lock; a builder, a cursor and a source have one owner.

#![cfg_attr(koeldb_counts, feature(arbitrary_self_types))]

#[cfg(koeldb_counts)]
extern crate koeldb_counts as std;

pub mod block;
pub mod block_based;
mod build_context;
pub mod builder;
pub mod cuckoo;
mod examine;
mod fallback;
pub mod file_read;
pub mod filter;
pub mod format;
mod load_once;
pub mod memory_filter;
pub mod metaindex;
pub mod plain;
pub mod properties;
mod read_context;
pub mod reader;
pub mod source;
mod span_checksums;

pub use properties::TableProperties;
pub use reader::TableReader;
