//! The LSM tree: versions, version edits, the MANIFEST, compaction picking, flush and compaction
//! jobs.
//!
//! Jobs turn inputs into an edit; only the database changes the database. Pickers are pure
//! functions from a [`Version`] to an optional plan. Nothing here holds the database's lock or
//! knows its options.

#[cfg(koeldb_counts)]
extern crate koeldb_counts as std;

pub mod blob_file_meta;
pub mod blob_space;
pub mod current;
pub mod cursor;
mod data_paths;
pub mod file_checksum;
pub mod file_meta;
pub mod job;
pub mod manifest;
mod open_tables;
pub mod pick;
mod table_opener;
pub mod text;
pub mod version;

pub use data_paths::{DATA_PATHS_MAX, DataPaths};
pub use file_meta::FileMeta;
pub use open_tables::{OpenTables, ReaderSlot};
pub use table_opener::{TableOpener, TableRef};
pub use version::{Level, Version};
