//! The API of the crate `rocksdb` 0.23: that of `koeldb-rocksdb`.

pub use koeldb_rocksdb::*;
