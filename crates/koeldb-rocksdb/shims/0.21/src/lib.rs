//! The API of the crate `rocksdb` 0.21: that of `koeldb-rocksdb`.

pub use koeldb_rocksdb::*;
