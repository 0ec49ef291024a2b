//! Stress test: kills a process that writes to a database, and verifies what it left.
//!
//! The expected contents are in a separate file. `db_stress --db=DIR` is the driver: it starts
//! itself as a worker, kills it after a random time, and starts the next one with other options,
//! until the time is up. A worker first verifies every key and then continues. If a worker finds an
//! inconsistency, it exits with 1, and so does the driver; the printed seed reproduces the options
//! and the choice of operations. A panic on any thread of a worker is a failure, also if the engine
//! catches it and refuses writes from then on.
//!
//! | excluded | reason |
//! |---|---|
//! | single deletions without log | different versions in column families would be irreconcilable |
//! | unlogged writes if all writes are synced | exclude each other |
//! | the options that [`koeldb_testkit::variety`] leaves out for it | see there |
//!
//! - `expected`: the expected versions of every key. `worker`: the operations. `copies`: checkpoints,
//!   backups, exports and secondaries, each opened and compared. `ingestion`: tables of new versions.
//!   `own`: a column family of each thread, imported, clipped and dropped. `feed`: the change feed,
//!   compared with the writes. `driver`: starts and kills.

mod copies;
mod driver;
mod expected;
mod feed;
mod ingestion;
mod own;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// The command line.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "db_stress",
    about = "Writes a database in many threads, kills the writing process, and checks that nothing was lost",
    rename_all = "snake_case"
)]
pub(crate) struct Flags {
    /// Directory of the database, which is created if missing.
    #[arg(long)]
    db: PathBuf,
    /// File of the expected contents; DB.expected by default.
    #[arg(long)]
    expected: Option<PathBuf>,
    /// Duration in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Minimum number of kills, even beyond the duration.
    #[arg(long, default_value_t = 0)]
    kills: u64,
    /// Maximum time in milliseconds after which a worker process is killed.
    #[arg(long, default_value_t = 3000)]
    life_ms: u64,
    /// Threads that write, each to its own keys.
    #[arg(long, default_value_t = 4)]
    threads: u64,
    /// Number of keys per thread.
    #[arg(long, default_value_t = 500)]
    keys: u64,
    /// Column families besides the default one; every key is in all of them.
    #[arg(long, default_value_t = 2)]
    families: u64,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Makes one in this many calls to the file system fail; 0 for none.
    #[arg(long, default_value_t = 0)]
    fault_one_in: u32,
    /// Syncs the log after every write.
    #[arg(long)]
    sync: bool,
    /// Program that cuts the power (`PROGRAM cut PID`, before the worker is killed) and restores
    /// the disk (`PROGRAM restore`). Needs `sync`, and the expected contents on another disk.
    #[arg(long, requires = "sync", requires = "expected")]
    power_cut: Option<PathBuf>,
    /// One operation in this many is a checkpoint, a backup, an export or a look at a secondary, or
    /// an ingestion, or imports, clips or drops a column family, or compares the change feed; 0 for
    /// none.
    #[arg(long, default_value_t = 250)]
    copy_one_in: u64,
    /// Makes a background thread of each worker panic, which the driver must report.
    #[arg(long, hide = true)]
    panic: bool,
    /// Number of this worker process; set by the driver.
    #[arg(long, hide = true)]
    worker: Option<u64>,
}

impl Flags {
    /// Returns the path of the file of expected versions.
    fn expected(&self) -> PathBuf {
        match &self.expected {
            Some(path) => path.clone(),
            None => {
                let mut name = self.db.clone().into_os_string();
                name.push(".expected");
                name.into()
            }
        }
    }
}

fn main() -> ExitCode {
    // Prints help or the error, and ends the process then.
    let flags = Flags::parse();
    let outcome = match flags.worker {
        Some(life) => worker::run(&flags, life),
        None => driver::run(&flags),
    };
    match outcome {
        Ok(code) => code,
        Err(text) => {
            eprintln!("db_stress: {text}");
            ExitCode::FAILURE
        }
    }
}
