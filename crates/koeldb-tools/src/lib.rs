//! The command-line tools of KoelDB.
//!
//! - [`db_bench`]: benchmarks with RocksDB's flags, key sequences and output lines.
//! - [`db_stress`]: operations of many threads, kills, and a record outside of what must be there.
//! - [`sst_dump`]: looks into table files. [`ldb`]: reads, writes and inspects databases.
//!
//! Each module has a `run` that takes the words of a command line and returns what the process exits with;
//! the binaries only call it. Standard output carries results, standard error everything else. No thread of
//! a tool outlives its `run`.

pub mod db_bench;
pub mod db_stress;
mod histogram;
mod json;
pub mod ldb;
pub mod sst_dump;
mod text;
