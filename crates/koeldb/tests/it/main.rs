//! KoelDB against directories of RocksDB, RocksDB against directories of KoelDB, and both against damage.
//!
//! Where another engine is the judge (Debian's `rocksdb-tools`, RocksDB's Java library) its absence is a notice on a
//! developer's machine and a failure with `CI=true` (`CONTRIBUTING.md`).
#![expect(
    clippy::disallowed_methods,
    reason = "directories are prepared, damaged and compared without the code under test"
)]
#![expect(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod api;
mod async_engine;
mod async_multi_get;
mod async_reads;
mod async_scan;
mod cuckoo;
mod defaults;
mod device;
mod errors;
mod examples;
mod expected;
mod failover;
mod failure_classes;
mod files;
mod golden;
mod interop;
mod joined_reads;
mod level0;
mod metamorphic;
mod model;
mod plain;
mod recovery_rules;
mod regressions;
mod repair;
mod representations;
mod resume;
mod rocksdb;
mod scratch;
mod scrub;
mod stalls;
mod stats;
mod storage;
mod stress;
mod time_limits;
mod untrusted;
mod write_buffers;
mod writes;
