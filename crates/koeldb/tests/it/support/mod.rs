//! The means of the tests: shared options, directories, devices, storage that fails, gates, waits, RocksDB,
//! expected contents.

pub(crate) mod device;
pub(crate) mod expected;
pub(crate) mod gate;
pub(crate) mod prelude;
pub(crate) mod rocksdb;
pub(crate) mod scratch;
pub(crate) mod storage;
pub(crate) mod wait;
