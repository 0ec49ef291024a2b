//! The shape of the tree: versions and the edits between them, the MANIFEST, the choice of compactions, and the
//! jobs that flush and compact.
//!
//! Jobs turn inputs into an edit; only the database changes the database. Pickers are pure functions from a
//! [`Version`] to an optional plan. Nothing here holds the database's lock or knows its options.

pub mod current;
pub mod cursor;
pub mod file_checksum;
pub mod job;
pub mod manifest;
pub mod pick;
mod table_cache;
pub mod version;

pub use table_cache::TableCache;
pub use version::{FileMeta, Level, Version};
