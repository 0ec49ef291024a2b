//! Blob files: large values outside of tables, in RocksDB's format (`NNNNNN.blob`).
//!
//! A table holds a [`BlobReference`] in place of the value. A file is a header, records of a key and
//! a value each, and a footer:
//!
//! ```text
//! header, 30 bytes
//! record: header of 32 bytes, user key, stored value
//! …
//! footer, 32 bytes
//! ```
//!
//! The file is written once, by [`BlobFileBuilder`]. Each value is read alone, by [`BlobFile`],
//! or with those behind it, by [`BlobReadahead`].

mod builder;
mod file;
pub mod format;
mod readahead;
mod reference;
pub mod references;

pub use builder::{BlobFileBuilder, FinishedBlobFile};
pub use file::{BlobFile, BlobFileContext};
pub use readahead::BlobReadahead;
pub use reference::BlobReference;

#[cfg(test)]
mod tests;
