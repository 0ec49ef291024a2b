//! Stress test with kills: see `db_stress --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    koeldb_tools::db_stress::run(&words)
}
