//! Reads, writes and inspects databases from the command line.
//!
//! - `args`: the command line. `database`: opens a database with its last options.
//! - `data`: keys and values. `admin`: column families, compactions, properties.
//! - `transfers`: checkpoints, backups, ingestion. `files`: contents of live files.
//! - `manifest`, `wal`, `internal`, `blobs`: contents of the files, read without opening the database.
//! - `tree`: a column family's tables, read likewise. `doctor`, `explain`, `lsm` say what they mean.
//! - `offline`: changes to the MANIFEST of a closed database. `top`: a running database.
//! - `remote`: a compaction by another process.
//!
//! Commands, flags and output follow RocksDB's `ldb`. Failures print `Failed: …` on standard error
//! and exit with 1.

mod admin;
mod args;
mod blobs;
mod data;
mod database;
mod doctor;
mod explain;
mod files;
mod internal;
mod lsm;
mod manifest;
mod offline;
mod output;
mod prefixes;
mod remote;
mod top;
mod transfers;
mod tree;
mod wal;

use std::io;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::command_line;
use crate::sst_dump::Trouble;
use args::{Cli, Command, JobDirectory};
use output::Output;

/// The error with which a command fails.
#[derive(Debug)]
enum Failure {
    /// A message for the user.
    Message(String),
    /// The output cannot be written.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

impl From<koeldb::Error> for Failure {
    fn from(error: koeldb::Error) -> Self {
        Failure::Message(error.to_string())
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Output(error) => error.into(),
            Trouble::Table(error) => error.into(),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::Message(message)
    }
}

type Outcome<T = ()> = Result<T, Failure>;

/// Runs `ldb` with the words of its command line, without the name of the program.
pub fn run(words: &[String]) -> ExitCode {
    let is_misplaced = |error: clap::Error| error.kind() == ErrorKind::UnknownArgument;
    let parsed =
        Cli::try_parse_from(std::iter::once("ldb").chain(words.iter().map(String::as_str)));
    let words = match parsed.is_err_and(is_misplaced) {
        true => args::with_command_first(words),
        false => words.to_vec(),
    };
    let cli: Cli = match command_line::parse("ldb", &words) {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    let mut out = Output::new(&cli.global);
    let outcome = execute(&cli, &mut out).and_then(|()| Ok(out.finish()?));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Output(error)) => {
            eprintln!("Failed: cannot write the output: {error}");
            ExitCode::FAILURE
        }
        Err(Failure::Message(message)) => {
            // Output before the failure must precede its message.
            let _ = out.finish();
            eprintln!("Failed: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The command line, for the reference.
#[cfg(test)]
pub(crate) fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

fn execute(cli: &Cli, out: &mut Output) -> Outcome {
    let global = &cli.global;
    if global.create_if_missing && !cli.command.may_create() {
        let message = "this command does not take --create_if_missing: it creates no database";
        return Err(Failure::Message(message.to_owned()));
    }
    match &cli.command {
        Command::Put { key, value } => data::put(global, key, value, out),
        Command::Batchput { pairs } => data::batch_put(global, pairs, out),
        Command::Get { key } => data::get(global, key, out),
        Command::MultiGet { keys } => data::multi_get(global, keys, out),
        Command::PutEntity { key, columns } => data::put_entity(global, key, columns, out),
        Command::GetEntity { key } => data::get_entity(global, key, out),
        Command::MultiGetEntity { keys } => data::multi_get_entity(global, keys, out),
        Command::Delete { key } => data::delete(global, key, out),
        Command::Singledelete { key } => data::single_delete(global, key, out),
        Command::Deleterange { from, to } => data::delete_range(global, from, to, out),
        Command::Scan(scan) => data::scan(global, scan, out),
        Command::Dump(dump) => data::dump(global, dump, out),
        Command::Load(load) => data::load(global, load, out),
        Command::Approxsize(range) => data::approximate_size(global, range, out),
        Command::Idump(idump) => internal::dump(global, idump, out),
        Command::ManifestDump { path, verbose } => {
            manifest::dump(global, path.as_deref(), *verbose, out)
        }
        Command::DumpWal(dump) => wal::dump(global, dump, out),
        Command::ListColumnFamilies => admin::list_families(global, out),
        Command::CreateColumnFamily { name } => admin::create_family(global, name, out),
        Command::DropColumnFamily { name } => admin::drop_family(global, name, out),
        Command::Compact(range) => admin::compact(global, range, out),
        Command::GetProperty { name } => admin::property(global, name, out),
        Command::Checkconsistency => admin::check_consistency(global, out),
        Command::ListLiveFilesMetadata { sort_by_filename } => {
            admin::live_files(global, *sort_by_filename, out)
        }
        Command::DumpLiveFiles(contents) => files::dump(global, *contents, out),
        Command::BlobDump { path, show_values } => {
            let values = match show_values {
                true => blobs::Values::Stored,
                false => blobs::Values::Hidden,
            };
            let what = blobs::BlobDump {
                values,
                states: true,
            };
            blobs::dump(path, what, out)
        }
        Command::ListFileRangeDeletes { max_keys } => files::range_deletes(global, *max_keys, out),
        Command::Checkpoint { checkpoint_dir } => {
            transfers::checkpoint(global, checkpoint_dir, out)
        }
        Command::Backup(backups) => transfers::backup(global, backups, out),
        Command::Restore(backups) => transfers::restore(global, backups, out),
        Command::WriteExternSst { path } => transfers::write_table(global, path, out),
        Command::IngestExternSst(ingestion) => transfers::ingest(global, ingestion, out),
        Command::FileChecksumDump => transfers::file_checksums(global, out),
        Command::Doctor(flags) => doctor::examine(global, flags, out),
        Command::ExplainGet { key } => explain::get(global, key, out),
        Command::Lsm { out: path } => lsm::draw(global, path.as_deref(), out),
        Command::Top(flags) => top::run(global, flags, out),
        Command::ReduceLevels {
            new_levels,
            print_old_levels,
        } => offline::reduce_levels(global, *new_levels, *print_old_levels, out),
        Command::RemoteCompactionPrimary(JobDirectory { job_dir }) => {
            remote::compact(global, job_dir, out)
        }
        Command::RemoteCompactionWorker(JobDirectory { job_dir }) => {
            remote::work(global, job_dir, out)
        }
        Command::UnsafeRemoveSstFile { number } => offline::remove_table(global, *number, out),
        Command::Repair { verbose } => admin::repair(global, *verbose, out),
    }
}
