//! Runs RocksDB's benchmarks with RocksDB's flags: see `db_bench --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    koeldb_tools::db_bench::run(&koeldb_tools::words())
}
