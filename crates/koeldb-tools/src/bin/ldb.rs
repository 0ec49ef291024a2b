//! Reads, writes and inspects databases: see `ldb --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    koeldb_tools::ldb::run(&koeldb_tools::words())
}
