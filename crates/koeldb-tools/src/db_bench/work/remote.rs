//! A compaction as a worker of remote compactions runs it, beside the open database.

use std::fmt::Write as _;
use std::path::Path;

use koeldb::{Db, Options};
use koeldb_base::coding::put_fixed32;
use koeldb_base::file_name::{self, FileKind};
use koeldb_fs::clock::{Clock, SystemClock};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileSystem, small_file};

use super::transfer::directory;
use crate::db_bench::plan::{Failure, Outcome};
use crate::db_bench::worker::Worker;
use crate::text::hex;

/// The version of a message to a worker.
const MESSAGE_VERSION: u32 = 1;

/// A message to a worker: a compaction of tables of the default column family.
///
/// Its fields are those of RocksDB's `CompactionServiceInput`.
fn message(tables: &[String], output_level: i32, options_file: u64) -> Vec<u8> {
    let names: Vec<String> = tables.iter().map(|name| hex(name.as_bytes())).collect();
    let mut fields = String::new();
    let mut set = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = write!(fields, "{name}={value};");
    };
    set("cf_name", &hex(b"default"));
    set("snapshots", "");
    set("input_files", &names.join(":"));
    set("output_level", &output_level.to_string());
    set("db_id", &hex(b"db_bench_openandcompact"));
    set("has_begin", "false");
    set("begin", "");
    set("has_end", "false");
    set("end", "");
    set("options_file_number", &options_file.to_string());
    let mut message = Vec::new();
    put_fixed32(&mut message, MESSAGE_VERSION);
    message.extend_from_slice(fields.as_bytes());
    message
}

/// Returns the number of the newest OPTIONS file in a directory; `None` without any.
fn newest_options(path: &Path) -> koeldb::Result<Option<u64>> {
    let entries = PosixFileSystem::new().list(path)?;
    let numbers = entries
        .iter()
        .filter_map(|entry| match file_name::parse(&entry.name) {
            Some(FileKind::Options(number)) => Some(number),
            _ => None,
        });
    Ok(numbers.max())
}

/// Runs `openandcompact`: compacts all tables to the last level, into `secondary_path`.
///
/// The database stays as it is.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn open_and_compact(worker: &mut Worker<'_>) -> Outcome {
    let flags = worker.flags();
    let place = directory("secondary_path", &flags.secondary_path)?;
    let output = Path::new(place).join("openandcompact_0");
    let database = worker.select();
    let family = database.default_family().name();
    let mut files = database.db.live_files();
    files.retain(|file| file.column_family == family);
    let keys: u64 = files.iter().map(|file| file.entries).sum();
    println!("\nInput files: {} files, {keys} keys", files.len());
    let failed = |error: koeldb::Error| Failure::of("OpenAndCompact failed", &error);
    let options_file = newest_options(&database.path).map_err(failed)?;
    let options_file = options_file.ok_or_else(|| Failure::new("there is no OPTIONS file"))?;
    let names: Vec<String> = files
        .iter()
        .map(|file| file.name.trim_start_matches('/').to_owned())
        .collect();
    let input = message(&names, flags.num_levels - 1, options_file);
    let fs = PosixFileSystem::new();
    if fs.exists(&output).map_err(failed)? {
        small_file::remove_dir_all(&fs, &output).map_err(failed)?;
    }
    fs.create_dir_all(&output).map_err(failed)?;
    let begun = SystemClock.now();
    let result = Db::open_and_compact(&Options::new(), &database.path, &output, &input);
    let elapsed = SystemClock.now().saturating_sub(begun).as_secs_f64();
    println!(
        "OpenAndCompact() API call : {:.3} micros/op {elapsed:.3} seconds/op",
        elapsed * 1e6
    );
    result.map_err(failed)?;
    println!("OpenAndCompact status: OK");
    let (mut count, mut bytes) = (0_u64, 0_u64);
    for entry in fs.list(&output).map_err(failed)? {
        if let Some(FileKind::Table(_)) = file_name::parse(&entry.name) {
            count += 1;
            bytes += fs.metadata(&output.join(&entry.name)).map_err(failed)?.len;
        }
    }
    let average = bytes.checked_div(count).unwrap_or(0);
    println!(
        "Output: {count} files, average size: {average} bytes ({:.2} MB)",
        average as f64 / (1 << 20) as f64
    );
    Ok(())
}
