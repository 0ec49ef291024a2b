//! Repair: a new MANIFEST from the tables and logs that can be read, when the old one is gone or damaged.
//!
//! What is there is looked at first: tables ([`tables`]), old MANIFESTs as far as they can be read ([`history`]), logs
//! ([`logs`]). From that the families follow ([`families`]). Every readable table becomes a table of level 0; logs
//! stay where they are for the next open to replay, from the first one that holds something the tables do not.
//!
//! What cannot be used goes to the directory `lost` ([`lost`]): it gets a second name there before the new MANIFEST is
//! in force, and loses its first one after that. So nothing is ever deleted, a repair that was interrupted can be run
//! again, and an open in between does no harm.

mod families;
mod history;
mod logs;
mod lost;
mod tables;

use std::path::Path;

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{ErrorKind, Result};
use koeldb_fs::{FileSystem, Purpose, WriteOptions};
use koeldb_lsm::current::read_identity;
use koeldb_lsm::manifest::{self, ManifestSnapshot};

use crate::options::Options;
use families::Families;
use history::History;
use logs::Logs;
use lost::LostFiles;
use tables::FoundTable;

/// What a repair used and set aside.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Tables that are part of the database again.
    pub tables: Vec<FileNumber>,
    /// Entries in them.
    pub entries: u64,
    /// Files that are in `lost` now, and why.
    pub lost: Vec<(String, String)>,
    /// Families found, by name.
    pub families: Vec<String>,
    /// Logs that the next open replays.
    pub logs: Vec<FileNumber>,
    /// Families that logs have entries of, and of which nothing else is known: they cannot be opened. These logs are
    /// in the archive too, where nobody removes them.
    pub unknown_families: Vec<u32>,
}

/// Repairs the database at `path`.
pub(crate) fn repair(options: &Options, path: &Path) -> Result<RepairReport> {
    let fs = &*options.plugins.env.fs;
    let wal_dir = options.db.wal_directory(path);
    let _lock = fs.lock(&file_name::lock(path))?;
    let mut report = RepairReport::default();
    let mut lost = LostFiles::new(fs, path);

    let names = names_of_ours(fs, path)?;
    let mut manifests: Vec<FileNumber> = kinds(&names)
        .filter_map(|kind| match kind {
            FileKind::Manifest(number) => Some(number),
            _ => None,
        })
        .collect();
    manifests.sort_unstable();
    let history = History::read(fs, path, &manifests);
    let found = read_tables(fs, path, options, &names, &mut lost)?;
    let logs = Logs::read(fs, &wal_dir)?;
    let number = 1 + largest_number(fs, path, &wal_dir)?;

    let families = Families::from_evidence(found, &history, &logs, options, &mut lost)?;
    report.unknown_families = families.unknown_in(&logs, &history);
    for log in logs.with_any_of(&report.unknown_families) {
        koeldb_log::wal::keep_in_archive(fs, &wal_dir, log)?;
    }
    for manifest in manifests {
        let path = file_name::manifest(path, manifest);
        lost.set_aside(&path, "replaced by the repaired MANIFEST")?;
    }
    let mut snapshot = ManifestSnapshot {
        db_id: read_identity(fs, path)?.or_else(|| history.db_id.clone()),
        max_column_family: history.max_column_family,
        last_seqno: history.last_seqno,
        ..ManifestSnapshot::default()
    };
    families.describe(&mut snapshot, &logs, number, &mut report);
    let log_numbers = snapshot.families.iter().map(|family| family.log_number);
    report.logs = logs.behind(log_numbers.min().unwrap_or(number));
    for &table in &report.tables {
        make_durable(fs, &file_name::table(path, table))?;
    }
    lost.make_durable()?;
    manifest::install(fs, path, number, number + 1, &snapshot)?;
    report.lost = lost.finish()?;
    Ok(report)
}

/// The names in a directory that are of our grammar.
fn names_of_ours(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<String>> {
    let entries = fs.list(directory)?.into_iter().map(|entry| entry.name);
    Ok(entries
        .filter(|name| file_name::parse(name).is_some())
        .collect())
}

fn kinds(names: &[String]) -> impl Iterator<Item = FileKind> {
    names.iter().filter_map(|name| file_name::parse(name))
}

/// The largest number that any file ever had, as far as one can see (O13).
fn largest_number(fs: &dyn FileSystem, path: &Path, wal_dir: &Path) -> Result<FileNumber> {
    let directories = [
        path.to_owned(),
        wal_dir.to_owned(),
        koeldb_log::wal::archive_directory(wal_dir),
        lost::directory(path),
    ];
    let mut largest = 0;
    for directory in directories {
        if fs.exists(&directory)? {
            let names = names_of_ours(fs, &directory)?;
            largest = kinds(&names)
                .filter_map(FileKind::number)
                .fold(largest, FileNumber::max);
        }
    }
    Ok(largest)
}

/// Reads every table whole. One in a format that this build or these options cannot read is an error, for there is
/// nothing wrong with it; any other failure sets the table aside.
fn read_tables(
    fs: &dyn FileSystem,
    path: &Path,
    options: &Options,
    names: &[String],
    lost: &mut LostFiles<'_>,
) -> Result<Vec<FoundTable>> {
    let mut found = Vec::new();
    for name in names {
        let Some(FileKind::Table(number)) = file_name::parse(name) else {
            continue;
        };
        let file = path.join(name);
        match tables::examine(fs, &file, number, options) {
            Ok(table) => found.push(table),
            Err(error) if error.kind() == ErrorKind::NotSupported => {
                return Err(error.in_file(&file, None, "repair"));
            }
            Err(error) => lost.set_aside(&file, &error)?,
        }
    }
    Ok(found)
}

/// A table that a crash left may not be on the device yet, although it can be read (O1).
fn make_durable(fs: &dyn FileSystem, table: &Path) -> Result<()> {
    let mut file = fs.append(table, &WriteOptions::new(Purpose::Other))?;
    file.sync_all()?;
    file.close()
}
