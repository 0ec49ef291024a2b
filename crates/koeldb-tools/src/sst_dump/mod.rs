//! Inspects table files: verifies them, and prints their entries, properties and blocks.
//!
//! - [`table`](self): opens a file with its own comparator. `scan` prints entries, `raw` the whole
//!   layout, `properties` the table properties, `summary` totals.
//!
//! Commands, flags and output follow RocksDB's `sst_dump`; unlike that, the process exits with 1 if
//! any file is damaged.

mod properties;
mod raw;
mod scan;
mod summary;
mod table;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use indicatif::HumanBytes;
use koeldb_base::key::InternalKey;
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{EntryKind, FileSystem};
use koeldb_table::TableReader;

use crate::command_line;
use crate::entries::EntryFormat;
use crate::json::Json;
use crate::progress;
use crate::text::{hex, parse_hex};
use summary::Summary;
use table::OpenTable;

/// Checks and prints table files of KoelDB and RocksDB.
#[derive(Debug, Parser)]
#[command(
    name = "sst_dump",
    version,
    rename_all = "snake_case",
    arg_required_else_help = true,
    after_help = EXAMPLES
)]
struct Args {
    /// Table files, or directories of table files.
    files: Vec<PathBuf>,

    /// Table file or directory, for compatibility.
    #[arg(long, value_name = "FILE_OR_DIRECTORY")]
    file: Option<PathBuf>,

    /// Command to run.
    #[arg(long, value_enum, default_value_t = Command::Check)]
    command: Command,

    /// Prints keys and values in hexadecimal.
    #[arg(long)]
    output_hex: bool,

    /// --from, --to and --prefix are hexadecimal.
    #[arg(long)]
    input_key_hex: bool,

    /// scan: prints the fields of references to blob files.
    #[arg(long)]
    decode_blob_index: bool,

    /// check, scan: starts at this user key.
    #[arg(long, value_name = "KEY")]
    from: Option<String>,

    /// check, scan: ends before this user key.
    #[arg(long, value_name = "KEY")]
    to: Option<String>,

    /// check, scan: only user keys with this prefix.
    #[arg(long, value_name = "KEY", conflicts_with = "from")]
    prefix: Option<String>,

    /// check, scan: stops after this many entries.
    #[arg(long, value_name = "COUNT")]
    read_num: Option<u64>,

    /// Accepted without effect: checksums are always verified.
    #[arg(long)]
    verify_checksum: bool,

    /// Prints the properties after the output of the command.
    #[arg(long)]
    show_properties: bool,

    /// Prints totals over all files at the end.
    #[arg(long)]
    show_summary: bool,

    /// Prints names and offsets of the metadata blocks.
    #[arg(long)]
    list_meta_blocks: bool,

    /// raw: prints sequence number and type of each entry.
    #[arg(long)]
    show_sequence_number_type: bool,

    /// Prints JSON: one object per line, keys and values in hexadecimal.
    #[arg(long)]
    json: bool,

    /// Parses an internal key, given in hexadecimal, and prints its parts.
    #[arg(long, value_name = "0xKEY")]
    parse_internal_key: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  sst_dump --file=000012.sst --command=scan --output_hex --read_num=10
  sst_dump --command=verify /var/lib/app/db
  sst_dump --command=properties --json /var/lib/app/db/000012.sst

Of RocksDB's sst_dump, these do not exist here:
  --command=recompress                       db_bench and a compaction measure codecs on whole databases
  --set_block_size, --compression_types, --compression_level_from, ...   belong to recompress";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Command {
    /// Reads and counts all entries; prints nothing unless there is an error.
    Check,
    /// Prints the entries.
    Scan,
    /// Writes the contents of all blocks to <FILE>_dump.txt, in the directory of the file.
    Raw,
    /// Verifies every block. For cuckoo tables, prints the cost of lookups.
    Verify,
    /// Prints the properties.
    Properties,
    /// Prints whether each file is a valid table.
    Identify,
}

/// Runs `sst_dump` with the words of its command line, without the name of the program.
pub fn run(words: &[String]) -> ExitCode {
    let args: Args = match command_line::parse("sst_dump", words) {
        Ok(args) => args,
        Err(status) => return status,
    };
    match dump(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The command line, for the reference.
#[cfg(test)]
pub(crate) fn command() -> clap::Command {
    <Args as clap::CommandFactory>::command()
}

/// Dumps all files; returns `false` if one is damaged.
fn dump(args: &Args) -> Result<bool, String> {
    if let Some(text) = &args.parse_internal_key {
        print_internal_key(&parse_hex(text)?)?;
        return Ok(true);
    }
    let named = args.files.iter().chain(&args.file);
    let mut files = Vec::new();
    for path in named {
        files.extend(table_files(path)?);
    }
    if files.is_empty() {
        return Err("file or directory must be specified, and hold a table".to_owned());
    }
    let range = scan::Range::new(args)?;
    let mut good = true;
    let mut summary = Summary::default();
    for path in &files {
        let mut out = io::BufWriter::new(io::stdout().lock());
        match dump_file(args, path, &range, &mut summary, &mut out) {
            Ok(()) => {}
            // The reader closed the pipe.
            Err(Trouble::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(good);
            }
            Err(Trouble::Output(error)) => return Err(format!("cannot write: {error}")),
            Err(Trouble::Table(error)) => {
                good = false;
                report_damage(args, path, &error, &mut out).map_err(|error| error.to_string())?;
            }
        }
        let flushed = out.flush();
        if flushed.is_err_and(|error| error.kind() != io::ErrorKind::BrokenPipe) {
            return Err("cannot write to standard output".to_owned());
        }
    }
    if args.show_summary {
        let written = summary.write(args.json, &mut io::stdout().lock());
        if written.is_err_and(|error| error.kind() != io::ErrorKind::BrokenPipe) {
            return Err("cannot write to standard output".to_owned());
        }
    }
    Ok(good)
}

/// The reason for the failure of a dump.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The output cannot be written.
    Output(io::Error),
    /// The table cannot be read.
    Table(koeldb_base::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::Output(error)
    }
}

impl From<koeldb_base::Error> for Trouble {
    fn from(error: koeldb_base::Error) -> Self {
        Trouble::Table(error)
    }
}

/// Reports a damaged file on standard error, and in JSON on standard output too.
fn report_damage(
    args: &Args,
    path: &Path,
    error: &koeldb_base::Error,
    out: &mut impl Write,
) -> io::Result<()> {
    let path = path.display();
    if args.json {
        let mut json = Json::object();
        json.set("file", &path.to_string())
            .set("ok", false)
            .set("error", &error.to_string());
        writeln!(out, "{}", json.finish())?;
    }
    out.flush()?;
    eprintln!("{path}: {error}");
    if args.command == Command::Identify {
        eprintln!("{path} is not a valid SST file");
    }
    Ok(())
}

/// Opens a table file, adds its properties to the totals, and runs the command on it.
fn dump_file(
    args: &Args,
    path: &Path,
    range: &scan::Range,
    summary: &mut Summary,
    out: &mut impl Write,
) -> Result<(), Trouble> {
    if !args.json {
        writeln!(out, "Process {}", path.display())?;
    }
    let table = OpenTable::open(path)?;
    summary.add(table.reader.properties());
    if !args.json {
        writeln!(out, "Sst file format: {}", table.format_name())?;
    }
    match args.command {
        Command::Check => scan::check(&table, range, args, out)?,
        Command::Scan => scan::scan(&table, range, args, out)?,
        Command::Raw => {
            let dump_path = raw::write(&table, args)?;
            if !args.json {
                writeln!(out, "raw dump written to file {}", dump_path.display())?;
            }
        }
        Command::Verify => {
            let mut bytes = 0;
            let spinner = progress::spinner("verify");
            table.reader.verify_checksums(&mut |block_bytes| {
                let before = bytes;
                bytes += block_bytes;
                if before >> 20 != bytes >> 20 {
                    spinner.set_message(HumanBytes(bytes).to_string());
                }
            })?;
            spinner.finish_and_clear();
            if args.json {
                let mut json = table.json();
                json.set("ok", true).set("block_bytes", bytes);
                writeln!(out, "{}", json.finish())?;
            } else {
                writeln!(out, "The file is ok")?;
                if let TableReader::Cuckoo(cuckoo) = &*table.reader {
                    write!(out, "{}", cuckoo.whole()?.examine()?)?;
                }
            }
        }
        Command::Properties => {}
        Command::Identify if args.json => {
            let mut json = table.json();
            json.set("ok", true).set("format", table.format_name());
            writeln!(out, "{}", json.finish())?;
        }
        Command::Identify => writeln!(out, "{} is a valid SST file", path.display())?,
    }
    if args.show_properties || args.command == Command::Properties {
        properties::write(&table, args.json, out)?;
    }
    if args.list_meta_blocks {
        properties::write_meta_blocks(&table, args.json, out)?;
    }
    Ok(())
}

/// Returns the table of a path, or all tables in a directory.
fn table_files(path: &Path) -> Result<Vec<PathBuf>, String> {
    let fs = PosixFileSystem::new();
    let metadata = fs.metadata(path).map_err(|error| error.to_string())?;
    if metadata.kind != EntryKind::Directory {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = fs.list(path).map_err(|error| error.to_string())?;
    let names = entries.into_iter().map(|entry| entry.name);
    let mut tables: Vec<PathBuf> = names
        .filter(|name| name.ends_with(".sst") || name.ends_with(".ldb"))
        .map(|name| path.join(name))
        .collect();
    tables.sort();
    Ok(tables)
}

/// What [`print_table`] prints of a table.
pub(crate) struct TableDump {
    /// The first user key.
    pub(crate) from: Option<Vec<u8>>,
    /// The user key before which the dump ends.
    pub(crate) to: Option<Vec<u8>>,
    /// The largest number of entries.
    pub(crate) most: u64,
    pub(crate) format: EntryFormat,
    /// Prints a JSON object per entry, without properties.
    pub(crate) json: bool,
}

/// Prints the entries of a table, then its properties, as RocksDB's `ldb` does.
pub(crate) fn print_table(
    path: &Path,
    dump: TableDump,
    out: &mut impl Write,
) -> Result<(), Trouble> {
    let TableDump { format, json, .. } = dump;
    let range = scan::Range::between(dump.from, dump.to, dump.most);
    let table = OpenTable::open(path)?;
    if !json {
        writeln!(out, "Process {}", path.display())?;
        writeln!(out, "Sst file format: {}", table.format_name())?;
    }
    scan::write_entries(&table, &range, format, json, out)?;
    if !json {
        writeln!(out, "\nTable Properties:")?;
        properties::write_lines(&table, "", "=", out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Parses an internal key and prints its user key, sequence number and type.
fn print_internal_key(bytes: &[u8]) -> Result<(), String> {
    let key = InternalKey::parse(bytes).map_err(|error| error.to_string())?;
    println!(
        "key='{}' seq:{}, type:{}",
        hex(key.user_key),
        key.seqno,
        key.value_type as u8
    );
    Ok(())
}
