//! The command-line tools of KoelDB.
//!
//! - [`db_bench`]: benchmarks with RocksDB's flags, key sequences and output lines.
//! - [`sst_dump`]: inspects table files. [`ldb`]: reads, writes and inspects databases.
//!
//! Each module has a function `run` that takes the words of a command line and returns the exit
//! status; the binaries only call it. Results go to standard output, everything else to standard
//! error. No thread of a tool outlives its `run`.

mod columns;
mod command_line;
pub mod db_bench;
mod entries;
mod histogram;
mod json;
pub mod ldb;
mod progress;
#[cfg(test)]
mod reference;
pub mod sst_dump;
mod text;

pub use command_line::words;
