//! Runs remote compactions: see `koeldb-worker --help`.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use clap::Parser;
use koeldb::{Error, Options, Result};
use koeldb_worker::{JobOutcome, JobReport, Worker};
use serde_json::json;

const EXPLANATION: &str = "\
The primary is a program that opens its database with a DirectoryService on the same directory:

    let service = DirectoryService::open(&Env::default(), \"/shared/jobs\")?;
    options.set_compaction_service(service);
    let db = Db::open(&options, \"/shared/db\")?;

    koeldb-worker --store /shared/jobs --threads 2

Start as many workers as you like, on every machine that sees the directory and the database under
the same paths, as the same user. They only read the database. The primary checks every result, and
compacts by itself if no worker answers.

A worker may be killed at any time: another one takes its job over after three missed beats. A worker
reads any database that a job names, so only the primaries and workers may write to the store.

Comparators, merge operators and compaction filters that are defined in a program are unknown here:
jobs of such databases fail, and the primary runs them. Build a worker of your own for them, with
koeldb_worker::Worker.";

/// Runs the compactions of KoelDB databases that other processes have open.
#[derive(Clone, Debug, Parser)]
#[command(name = "koeldb-worker", version, after_help = EXPLANATION, arg_required_else_help = true)]
struct Args {
    /// The directory of jobs, which the primary has created.
    #[arg(long, value_name = "DIR")]
    store: String,

    /// The number of jobs that run concurrently.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,

    /// The prefix of the workers' names in the files of jobs [default: the process id].
    #[arg(long)]
    name: Option<String>,

    /// The interval in which the directory is searched for jobs, in milliseconds.
    #[arg(long, value_name = "MILLIS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    poll_millis: u64,

    /// The interval of signs of life during a job, in milliseconds: the same for all workers.
    #[arg(long, value_name = "MILLIS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    beat_millis: u64,

    /// Exits after this many jobs.
    #[arg(long, value_name = "COUNT")]
    jobs: Option<u64>,

    /// Exits when there is no job to run.
    #[arg(long)]
    until_idle: bool,

    /// Prints each job as one line of JSON.
    #[arg(long)]
    json: bool,
}

/// Formats a report as one line of JSON.
fn json_line(report: &JobReport) -> String {
    let (outcome, error) = match &report.outcome {
        JobOutcome::Completed => ("completed", None),
        JobOutcome::Failed(error) => ("failed", Some(error.to_string())),
        JobOutcome::Withdrawn => ("withdrawn", None),
        _ => ("unknown", None),
    };
    json!({
        "job": report.job,
        "attempt": report.attempt,
        "database": report.database,
        "outcome": outcome,
        "error": error,
        "tables": report.table_count,
        "bytes": report.table_bytes,
        "seconds": report.elapsed.as_secs_f64(),
    })
    .to_string()
}

/// Runs compaction jobs in one thread, until `--jobs`, `--until-idle` or an error ends the loop.
fn run_thread(args: &Args, number: u32, left: &AtomicU64) -> Result<()> {
    let options = Options::default();
    let process = std::process::id().to_string();
    let name = args.name.as_ref().unwrap_or(&process);
    let mut worker = Worker::new(&options, &args.store, format!("{name}-{number}"))?;
    worker.set_beat_interval(Duration::from_millis(args.beat_millis));
    let take = |left: u64| left.checked_sub(1);
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        .is_ok()
    {
        let report = loop {
            match worker.run_one()? {
                Some(report) => break report,
                None if args.until_idle => return Ok(()),
                None => {
                    let pause = Duration::from_millis(args.poll_millis);
                    options.get_env().clock().sleep(pause);
                }
            }
        };
        let line = if args.json {
            json_line(&report)
        } else {
            report.to_string()
        };
        // A reader that has gone is no reason to stop.
        let _ = writeln!(io::stdout(), "{line}");
    }
    Ok(())
}

/// Runs the worker threads until all have ended, or until the first error.
fn run(args: &Args) -> Result<()> {
    if args.store.contains("://") {
        return Err(Error::not_supported(format!(
            "{} is not a directory; object stores are not supported yet",
            args.store
        )));
    }
    let left = Arc::new(AtomicU64::new(args.jobs.unwrap_or(u64::MAX)));
    let (end, ends) = mpsc::channel();
    for number in 1..=args.threads {
        let (args, left, end) = (args.clone(), Arc::clone(&left), end.clone());
        std::thread::spawn(move || end.send(run_thread(&args, number, &left)));
    }
    drop(end);
    // The first error ends the process.
    ends.iter().collect()
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("koeldb-worker: {error}");
            ExitCode::FAILURE
        }
    }
}
