//! An embedded key-value store for point lookups that reads and writes RocksDB's on-disk formats.

mod options;

pub use options::*;
