//! Stress: threads work on a database, the process is killed at any moment, and what it left is compared with what it was
//! told, which lies in a file of its own.
//!
//! `db_stress --db=DIR` drives: it starts itself as a worker, kills it after a random time, and starts the next one, under
//! other options, until the time is up. A worker first looks at every key, then goes on. Whatever a worker finds that cannot be
//! makes it exit with 1, and the driver with it; the seed that is printed repeats the options and the choice of operations.
//!
//! | left out | why |
//! |---|---|
//! | single deletions without log | families that kept different versions could not be made to agree |
//! | writes without log, where all are synced | exclude each other |
//! | what [`koeldb_testkit::variety`] leaves out, but for `unordered_write` | see there |
//!
//! - `expected`: what was asked and answered, key by key. `worker`: the operations. `driver`: lives and deaths.

mod driver;
mod expected;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// The command line.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "db_stress",
    about = "Works on a database in many threads, kills itself, and looks whether anything was lost",
    rename_all = "snake_case"
)]
pub(crate) struct Flags {
    /// Where the database is. It is made if it is missing.
    #[arg(long)]
    db: PathBuf,
    /// Where what was asked and answered is kept; DB.expected if not given.
    #[arg(long)]
    expected: Option<PathBuf>,
    /// For how long, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// And until it was killed so often.
    #[arg(long, default_value_t = 0)]
    kills: u64,
    /// A worker lives at most so long, in milliseconds.
    #[arg(long, default_value_t = 3000)]
    life_ms: u64,
    /// Threads that write, each to keys of its own.
    #[arg(long, default_value_t = 4)]
    threads: u64,
    /// Keys of each thread.
    #[arg(long, default_value_t = 500)]
    keys: u64,
    /// Families besides the default one; every key is in all of them.
    #[arg(long, default_value_t = 2)]
    families: u64,
    /// What chooses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One call in so many to the file system fails; 0 for none.
    #[arg(long, default_value_t = 0)]
    fault_one_in: u32,
    /// Every write is synced.
    #[arg(long)]
    sync: bool,
    /// A program that cuts the power (`PROGRAM cut PID`, before the worker is killed) and brings the disk back
    /// (`PROGRAM restore`). With `sync`, and what is expected on another disk.
    #[arg(long, requires = "sync", requires = "expected")]
    power_cut: Option<PathBuf>,
    /// Set by the driver: the number of this life.
    #[arg(long, hide = true)]
    worker: Option<u64>,
}

impl Flags {
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

/// Runs the words of a command line.
#[must_use]
pub fn run(words: &[String]) -> ExitCode {
    let program = std::iter::once("db_stress".to_owned());
    let flags = match Flags::try_parse_from(program.chain(words.iter().cloned())) {
        Ok(flags) => flags,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(2);
        }
    };
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
