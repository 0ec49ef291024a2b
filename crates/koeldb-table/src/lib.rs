//! Immutable files of sorted entries: building, opening and searching them.
//!
//! A table is built once, from entries in internal-key order, and never changes. This crate
//! implements the formats, filters and readers; `koeldb-lsm` decides which tables exist and which
//! is newer.
//!
//! From top to bottom; each module uses those below it:
//!
//! - `examine`: validation of untrusted tables. [`reader`]: the open table, in any format.
//!   [`builder`]: a table under construction, in any format.
//! - [`undated`]: block-based tables without the timestamps of their keys.
//! - [`cuckoo`]: RocksDB's cuckoo tables. [`plain`]: its plain tables. `fallback`: a block-based table
//!   in place of one of these. [`block_based`]: its block-based format.
//! - [`whole_or_paged`]: tables of formats without blocks, in memory or read piece by piece.
//! - [`blob`]: blob files, which hold large values outside of tables.
//! - [`source`]: open files, block sources, and the suspension of reads on missing blocks.
//! - `read_context`, `build_context`: the settings of tables that are read or written.
//! - `span_checksums`: checksums for formats without any. [`properties`]: table properties.
//!   [`metaindex`]: the metadata blocks by name. [`memory_filter`]: filters kept in memory alone.
//! - [`block`]: blocks of entries, and index entries. `block_builder`: builds blocks. [`filter`]:
//!   filters.
//! - [`mod@format`]: footer, handles, trailers. [`file_read`]: reads of byte ranges. `load_once`:
//!   lazy initialization.
//!
//! Readers are shared by threads and take no lock; a builder, a cursor and a source have one owner.

#![cfg_attr(koeldb_counts, feature(arbitrary_self_types))]

#[cfg(koeldb_counts)]
extern crate koeldb_counts as std;

pub mod blob;
pub mod block;
pub mod block_based;
mod block_builder;
mod build_context;
pub mod builder;
pub mod cuckoo;
pub mod embedded;
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
pub mod undated;
pub mod whole_or_paged;

pub use properties::TableProperties;
pub use reader::TableReader;
