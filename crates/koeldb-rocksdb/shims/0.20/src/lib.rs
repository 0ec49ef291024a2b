//! The API of the crate `rocksdb` 0.20: that of `koeldb-rocksdb`.

pub use koeldb_rocksdb::*;
