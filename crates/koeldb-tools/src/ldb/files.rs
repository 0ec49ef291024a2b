//! Commands on the contents of live files.

use std::path::{Path, PathBuf};

use koeldb::{LiveFile, SstFileReader};

use super::args::Global;
use super::blobs;
use super::database::{Database, open_to_read};
use super::manifest;
use super::output::Output;
use super::{Failure, Outcome};
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

/// Prints the MANIFEST and the properties and entries of all tables (`dump_live_files`).
pub(super) fn dump(global: &Global, out: &mut Output) -> Outcome {
    check_flags(global)?;
    let database = open_to_read(global)?;
    out.line("Manifest File")?;
    out.line("==============================")?;
    manifest::dump(global, None, true, out)?;
    out.line("")?;
    out.line("SST Files")?;
    out.line("==============================")?;
    for file in database.db.live_files() {
        let name = path_of(&file.directory, &file.name);
        let (level, family) = (file.level, &file.column_family);
        out.line(&format!(
            "{} level:{level} column family name={family}",
            name.display()
        ))?;
        let table = open_table(&file, &database)?;
        out.line(&format!("{:?}", table.properties()?))?;
        for entry in table.entries()? {
            let entry = entry?;
            let (key, value) = (hex(&entry.key), hex(&entry.value));
            let (seqno, kind) = (entry.seqno, entry.kind);
            out.line(&format!("'{key}' seq:{seqno}, type:{kind:?} => {value}"))?;
        }
        print_tombstones(&table, usize::MAX, out)?;
    }
    let blob_files = database.db.live_blob_files();
    if !blob_files.is_empty() {
        out.line("")?;
        out.line("Blob Files")?;
        out.line("==============================")?;
    }
    for file in blob_files {
        let path = path_of(&file.directory, &file.name);
        let family = &file.column_family;
        out.line(&format!("{} column family name:{family}", path.display()))?;
        blobs::dump(&path, true, out)?;
    }
    Ok(())
}

/// Prints at most `max_keys` range deletions of each table of the column family.
pub(super) fn range_deletes(global: &Global, max_keys: usize, out: &mut Output) -> Outcome {
    check_flags(global)?;
    let database = open_to_read(global)?;
    for file in database.db.live_files() {
        if file.column_family != database.family.name() {
            continue;
        }
        let name = path_of(&file.directory, &file.name);
        out.line(&format!("{} level:{}", name.display(), file.level))?;
        print_tombstones(&open_table(&file, &database)?, max_keys, out)?;
    }
    Ok(())
}

/// Prints at most `count_max` range deletions of a table.
fn print_tombstones(table: &SstFileReader, count_max: usize, out: &mut Output) -> Outcome {
    for tombstone in table.range_tombstones().iter().take(count_max) {
        let (start, end) = (hex(&tombstone.start), hex(&tombstone.end));
        out.line(&format!(
            "start: {start} end: {end} seq: {}",
            tombstone.seqno
        ))?;
    }
    Ok(())
}

/// Fails with `--secondary_path` or `--leader_path`: files are read where they are.
fn check_flags(global: &Global) -> Outcome {
    if global.secondary_path.is_some() || global.leader_path.is_some() {
        let message = "the files of a database are read without --secondary_path and --leader_path";
        return Err(Failure::Message(message.to_owned()));
    }
    Ok(())
}
