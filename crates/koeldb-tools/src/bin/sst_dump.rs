//! Checks and prints table files: see `sst_dump --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    koeldb_tools::sst_dump::run(&koeldb_tools::words())
}
