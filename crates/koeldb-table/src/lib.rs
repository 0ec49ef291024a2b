//! Immutable files of sorted entries: how they are written, opened and searched.
//!
//! A table is built once, from entries in internal-key order, and never changes. This crate knows its bytes,
//! its filters and its readers; which tables exist, and which of them is newer, is the business of
//! `koeldb-lsm`.
//!
//! - [`reader`]: the open table, whatever its format. [`builder`]: a table being written.
//! - [`source`]: where blocks come from, and how a missing one suspends a read.
//! - [`block_based`]: RocksDB's block-based format. [`filter`]: its filters. [`cuckoo`]: its hash tables.
//!   [`plain`]: its plain tables.
//! - `examine`: a look at all of a table that is not trusted. `load_once`: what is made when it is first needed.
//! - [`properties`]: what a table says of itself. `span_checksums`: checksums for formats that have none.
//!
//! Readers are shared by threads and take no lock; a builder, a cursor and a source have one owner.

pub mod block_based;
pub mod builder;
pub mod cuckoo;
mod examine;
pub mod filter;
pub mod gather;
mod held;
mod load_once;
pub mod plain;
pub mod plan;
pub mod probe;
pub mod properties;
pub mod reader;
pub mod source;
mod span_checksums;

pub use properties::TableProperties;
pub use reader::TableReader;
