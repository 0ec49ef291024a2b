//! Commands on the contents of live files.

use std::path::{Path, PathBuf};

use koeldb::{LiveFile, SstFileReader};
use koeldb_base::file_name;
use koeldb_fs::posix::PosixFileSystem;

use super::args::{FileContents, Global};
use super::blobs::{BlobDump, Values};
use super::database::{Database, directory, log_directory, open_to_read};
use super::output::Output;
use super::{Failure, Outcome, blobs, manifest, wal};
use crate::entries::EntryFormat;
use crate::sst_dump::{self, TableDump};
use crate::text::hex;

/// Returns the path of a live file in its directory.
fn path_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(name.trim_start_matches('/'))
}

/// Opens a live table file with the options of its column family.
fn open_table(file: &LiveFile, database: &Database) -> Outcome<SstFileReader> {
    let family = database.db.cf_handle(&file.column_family);
    let options = family.as_ref().unwrap_or(&database.family).options();
    Ok(SstFileReader::open(
        &options,
        path_of(&file.directory, &file.name),
    )?)
}

/// Returns the format in which the entries of tables are printed.
pub(super) fn format_of(contents: FileContents, out: &Output) -> EntryFormat {
    EntryFormat {
        key_hex: out.key_hex,
        value_hex: out.value_hex,
        decode_blob_index: contents.decode_blob_index,
    }
}

/// Returns what is printed of blob files.
pub(super) fn blobs_of(contents: FileContents) -> BlobDump {
    let values = match contents.dump_uncompressed_blobs {
        true => Values::Uncompressed,
        false => Values::Stored,
    };
    BlobDump {
        values,
        states: false,
    }
}

/// The line below a heading.
const RULE: &str = "==============================";
/// The line below the path of a file.
const THIN_RULE: &str = "------------------------------";

/// Prints the MANIFEST, all tables and blob files, and the logs (`dump_live_files`).
pub(super) fn dump(global: &Global, contents: FileContents, out: &mut Output) -> Outcome {
    check_flags(global)?;
    let database = open_to_read(global)?;
    let directory = directory(global)?;
    out.line(&format!("Manifest File\n{RULE}"))?;
    let manifest = manifest::locate(global, None)?;
    out.line(&manifest.display().to_string())?;
    manifest::dump(global, Some(&manifest), false, out)?;
    out.line("")?;
    let (tables, blob_files) = (database.db.live_files(), database.db.live_blob_files());
    for family in database.db.cf_handles() {
        let family = family.name();
        out.line(&format!("Column family name: {family}\n{RULE}\n"))?;
        out.line(&format!("SST Files\n{RULE}"))?;
        for file in tables.iter().filter(|file| file.column_family == family) {
            let path = path_of(&file.directory, &file.name);
            let level = file.level;
            out.line(&format!("{} level:{level}\n{THIN_RULE}", path.display()))?;
            let what = TableDump {
                from: None,
                to: None,
                most: u64::MAX,
                format: format_of(contents, out),
                json: out.json,
            };
            sst_dump::print_table(&path, what, out.writer())?;
            out.line("")?;
        }
        out.line(&format!("Blob Files\n{RULE}"))?;
        let of_family = blob_files
            .iter()
            .filter(|file| file.column_family == family);
        for file in of_family {
            let path = path_of(&file.directory, &file.name);
            out.line(&format!("{}\n{THIN_RULE}", path.display()))?;
            blobs::dump(&path, blobs_of(contents), out)?;
            out.line("")?;
        }
    }
    out.line(&format!("\nWrite Ahead Log Files\n{RULE}"))?;
    let options = database.db.options();
    let wal_dir = log_directory(&options, &directory);
    for number in koeldb_log::wal::list(&PosixFileSystem::new(), wal_dir)? {
        let path = file_name::wal(wal_dir, number);
        out.line(&path.display().to_string())?;
        wal::dump_file(&path, true, true, out)?;
    }
    Ok(())
}

/// Prints at most `count_max` range deletions of the column family, by table.
pub(super) fn range_deletes(global: &Global, count_max: usize, out: &mut Output) -> Outcome {
    check_flags(global)?;
    let database = open_to_read(global)?;
    let mut left = count_max;
    for file in database.db.live_files() {
        if file.column_family != database.family.name() {
            continue;
        }
        if left == 0 {
            break;
        }
        let name = path_of(&file.directory, &file.name);
        out.line(&format!("=== file : {} ===", name.display()))?;
        let table = open_table(&file, &database)?;
        for tombstone in table.range_tombstones().iter().take(left) {
            let (start, end) = (hex(&tombstone.start), hex(&tombstone.end));
            let seqno = tombstone.seqno;
            out.line(&format!("start: {start} end: {end} seq: {seqno}"))?;
            left -= 1;
        }
    }
    if left == 0 {
        out.line("(results may not be complete)")?;
    }
    out.line("")
}

/// Fails with `--secondary_path` or `--leader_path`: files are read where they are.
fn check_flags(global: &Global) -> Outcome {
    if global.secondary_path.is_some() || global.leader_path.is_some() {
        let message = "the files of a database are read without --secondary_path and --leader_path";
        return Err(Failure::Message(message.to_owned()));
    }
    Ok(())
}
