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
//! The file is written once, by [`BlobFileBuilder`]. A value is taken from the blob cache or read
//! alone, by [`BlobFile`], with those behind it, by [`BlobReadahead`], or with others that a batch
//! wants, by [`BlobBatch`]. [`BlobRecords`] reads all of them in order.

mod batch;
mod builder;
mod cache;
mod file;
pub mod format;
mod key;
mod readahead;
mod records;
mod reference;
pub mod references;

pub use batch::{BlobBatch, BlobParts, WantedBlobs};
pub use builder::{BlobFileBuilder, FinishedBlobFile};
pub use file::{BlobBytes, BlobFile, BlobFileContext};
pub use key::BlobKey;
pub use readahead::BlobReadahead;
pub use records::{BlobRecord, BlobRecords, FooterRead, read_ends};
pub use reference::BlobReference;

#[cfg(test)]
mod tests;
