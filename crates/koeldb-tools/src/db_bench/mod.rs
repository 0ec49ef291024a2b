//! Benchmarks with RocksDB's flags, key sequences and output lines.
//!
//! A command line that measures RocksDB also measures KoelDB, with the same keys in the same order,
//! counted and printed in the same way, so that two engines can be compared line by line. Additions
//! of this program (`--json`, `--compare`, `--report`) are opt-in.
//!
//! - `flags`: the table of flags and its parser. `options`: converts flags to an option string.
//!   `plan`: the parameters of one benchmark.
//! - `random`, `keys`, `values`: keys and values, bit for bit those of RocksDB's program.
//! - `session` opens databases and runs benchmarks, `worker` is one thread, `catalog` lists the
//!   benchmarks, `work` implements them.
//! - `compaction_workers`: compactions by workers, as of other processes.
//! - `compare` measures two programs in turns, `chart` draws their ratios.
//! - `limit`: the end of a thread's loop. `tally`: counts of a thread. `report`, `header`: output.
//! - `interval` samples a run, `page` is the HTML report.

mod catalog;
mod chart;
mod compaction_workers;
mod compare;
mod database;
mod flags;
mod header;
mod help;
mod interval;
mod keys;
mod limit;
mod options;
mod page;
mod plan;
mod random;
mod report;
mod session;
mod tally;
mod values;
mod work;
mod worker;

use std::process::ExitCode;

use koeldb_fs::clock::{Clock, SystemClock};

use flags::{Command, CommandLine};
use plan::{Failure, Outcome};
use session::Session;

/// Runs `db_bench` with the words of its command line, without the name of the program.
pub fn run(words: &[String]) -> ExitCode {
    #[expect(
        clippy::disallowed_methods,
        reason = "a file of flags, not of a database"
    )]
    let read_file = |path: &str| {
        let bytes = std::fs::read(path)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let mut line = match flags::parse(words, &read_file) {
        Ok(line) => line,
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("{error}"));
            return ExitCode::FAILURE;
        }
    };
    line.notices.iter().for_each(|notice| eprintln!("{notice}"));
    match line.command {
        Command::Help { all } => print!("{}", help::text(all)),
        Command::Version => println!("db_bench version {} (KoelDB)", env!("CARGO_PKG_VERSION")),
        Command::Run if line.flags.build_info => print!("{}", help::build_info()),
        Command::Run => {
            if let Err(failure) = measure(&mut line) {
                eprintln!("{}", failure.message);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// The benchmarks and flags as Markdown, for the reference.
#[cfg(test)]
pub(crate) fn reference() -> String {
    help::reference()
}

fn measure(line: &mut CommandLine) -> Outcome {
    let flags = &mut line.flags;
    for (name, uri) in [("env_uri", &flags.env_uri), ("fs_uri", &flags.fs_uri)] {
        // The names of the file system that RocksDB has built in, which is the one here.
        let is_local = matches!(uri.as_str(), "Default" | "DefaultEnv" | "PosixFileSystem");
        if !uri.is_empty() && !is_local && !uri.starts_with("posix://") {
            return Err(Failure::new(format!(
                "--{name}={uri} is not supported: only the local file system is built in; leave the flag out"
            )));
        }
    }
    flags.use_existing_db |= flags.readonly;
    if flags.use_existing_keys && !flags.use_existing_db {
        return Err(Failure::new(
            "`-use_existing_db` must be true for `-use_existing_keys` to be settable",
        ));
    }
    if flags.use_existing_keys && flags.bgwriter_num > flags.num {
        return Err(Failure::new(
            "`-bgwriter_num` must be less than or equal to `-num` when `-use_existing_keys` is set",
        ));
    }
    if flags.seek_missing_prefix && flags.prefix_size <= 8 {
        return Err(Failure::new(
            "prefix_size > 8 required by --seek_missing_prefix",
        ));
    }
    // Its table has percentiles.
    flags.histogram |= !flags.report.is_empty();
    if flags.db.is_empty() {
        flags.db = default_directory();
    }
    let seed = match flags.seed {
        0 => {
            let seed = SystemClock.unix_micros();
            println!("Set seed to {seed} because --seed was 0");
            seed
        }
        seed => seed.cast_unsigned(),
    };
    if !line.flags.compare.is_empty() {
        return compare::run(line, seed);
    }
    let mut session = Session::start(line, seed)?;
    let outcome = session.run();
    let finished = session.finish();
    outcome.and(finished)
}

/// Returns the default database directory, which is not that of RocksDB's program: a run destroys
/// what is there.
fn default_directory() -> String {
    let base = std::env::var("TEST_TMPDIR").unwrap_or_else(|_| {
        let user = std::fs::metadata("/proc/self")
            .map_or(0, |process| std::os::unix::fs::MetadataExt::uid(&process));
        format!("/tmp/koeldb-{user}")
    });
    format!("{base}/dbbench")
}
