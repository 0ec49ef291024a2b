//! Stress test with kills: see `db_stress --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    koeldb_tools::db_stress::run(&koeldb_tools::words())
}
