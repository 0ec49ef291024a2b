//! Runs RocksDB's benchmarks with RocksDB's flags: see `db_bench --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    koeldb_tools::db_bench::run(&words)
}
