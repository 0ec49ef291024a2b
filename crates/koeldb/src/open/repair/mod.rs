//! Repair: creates a MANIFEST from the readable tables and logs.
//!
//! It first examines tables ([`tables`]), old MANIFESTs as far as they are readable ([`history`]),
//! and logs ([`logs`]). They determine the column families ([`families`]), and an order of their
//! tables that cannot give stale reads: by the levels in a MANIFEST, otherwise on level 0, where
//! tables of uncertain order are merged ([`order`]). Logs stay in place for replay by the next
//! open, from the first one without entries that are in tables.
//!
//! Unusable files are moved to the directory `lost` ([`lost`]): they get a second name there before
//! the new MANIFEST is current, and lose the first one afterwards. So nothing is ever deleted, an
//! interrupted repair can be repeated, and an open in between is harmless.

mod families;
mod history;
mod logs;
mod lost;
mod merge;
mod order;
mod tables;

use std::path::Path;
use std::sync::atomic::AtomicU64;

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{ErrorKind, Result};
use koeldb_fs::directory_lock::lock_directory;
use koeldb_fs::{FileSystem, Purpose, WriteOptions};
use koeldb_lsm::current::read_identity;
use koeldb_lsm::manifest::{self, ManifestSnapshot};
use koeldb_lsm::version::blob_files_not_supported;

use crate::options::{Options, wal_dir};
use families::RebuiltColumnFamilies;
use history::History;
use logs::Logs;
use lost::LostFiles;
use merge::Merger;
use tables::FoundTable;

/// The result of a repair: the files that are part of the new database, and those moved to `lost`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Tables in the repaired database.
    pub tables: Vec<FileNumber>,
    /// The number of entries in the tables.
    pub entries: u64,
    /// Files moved to `lost`, with the reasons.
    pub lost: Vec<(String, String)>,
    /// The names of the column families found.
    pub families: Vec<String>,
    /// Logs that the next open replays.
    pub logs: Vec<FileNumber>,
    /// Column families that are known only from log entries and cannot be opened.
    ///
    /// Copies of these logs are in the archive, from which only `WAL_ttl_seconds` and
    /// `WAL_size_limit_MB` remove logs.
    pub unknown_families: Vec<u32>,
}

/// Rebuilds the MANIFEST of the database at `path` from its tables, logs and old MANIFESTs.
pub(crate) fn repair(options: &Options, path: &Path) -> Result<RepairReport> {
    let fs = &*options.plugins.env.fs;
    let wal_dir = options.db.wal_directory(path);
    wal_dir::check_logs(fs, path, &options.db.wal_dir, 0)?;
    let _lock = lock_directory(fs, path)?;
    let mut report = RepairReport::default();
    let mut lost = LostFiles::new(fs, path);

    let names = names_of_ours(fs, path)?;
    if kinds(&names).any(|kind| matches!(kind, FileKind::Blob(_))) {
        let found = "blob files are not supported: a repair would leave them without tables";
        return Err(blob_files_not_supported(found).in_file(path, None, "repair"));
    }
    let mut manifests: Vec<FileNumber> = kinds(&names)
        .filter_map(|kind| match kind {
            FileKind::Manifest(number) => Some(number),
            _ => None,
        })
        .collect();
    manifests.sort_unstable();
    let history = History::read(fs, path, &manifests);
    // First, as a log that cannot be replayed refuses the repair, which has changed nothing then.
    let logs = Logs::read(fs, &wal_dir)?;
    let db_id = read_identity(fs, path)?
        .or_else(|| history.db_id.clone())
        .or_else(|| identity_in_tables(fs, path, options, &names));
    let found = read_tables(fs, path, db_id.as_deref(), options, &names, &mut lost)?;
    let next_number = AtomicU64::new(1 + largest_number(fs, path, &wal_dir)?);

    let merger = Merger {
        fs,
        path,
        options,
        db_id: db_id.as_deref().unwrap_or_default(),
        next_number: &next_number,
    };
    let mut families =
        RebuiltColumnFamilies::from_evidence(found, &history, &logs, &merger, &mut lost)?;
    families.find_needed_logs(&logs, &merger)?;
    families.arrange(&history, &merger, &mut lost)?;
    let number = next_number.into_inner();
    report.unknown_families = families.unknown_in(&logs, &history);
    for log in logs.with_any_of(&report.unknown_families) {
        koeldb_log::wal::keep_in_archive(fs, &wal_dir, log)?;
    }
    for manifest in manifests {
        let path = file_name::manifest(path, manifest);
        lost.set_aside(&path, "replaced by the repaired MANIFEST")?;
    }
    let mut snapshot = ManifestSnapshot {
        db_id,
        max_column_family: history.max_column_family,
        last_seqno: history.last_seqno,
        ..ManifestSnapshot::default()
    };
    families.describe(&mut snapshot, &logs, number, &mut report);
    let log_numbers = snapshot.families.iter().map(|family| family.log_number);
    let first_log = log_numbers.min().unwrap_or(number);
    report.logs = logs.logs_from(first_log);
    snapshot.min_log_number_to_keep = history.min_log_number_to_keep.min(first_log);
    for &table in &report.tables {
        make_durable(fs, &file_name::table(path, table))?;
    }
    lost.make_durable()?;
    manifest::install(fs, path, number, number + 1, &snapshot)?;
    report.lost = lost.finish()?;
    Ok(report)
}

/// Returns the names of the database files in a directory; other files are ignored.
fn names_of_ours(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<String>> {
    let entries = fs.list(directory)?.into_iter().map(|entry| entry.name);
    Ok(entries
        .filter(|name| file_name::parse(name).is_some())
        .collect())
}

/// Parses file names, and returns the kinds of those that are names of database files.
fn kinds(names: &[String]) -> impl Iterator<Item = FileKind> {
    names.iter().filter_map(|name| file_name::parse(name))
}

/// Returns the largest file number in the name of any file in the database's directories (O13).
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

/// Returns the DB id from the newest table whose properties record the file number it has.
fn identity_in_tables(
    fs: &dyn FileSystem,
    path: &Path,
    options: &Options,
    names: &[String],
) -> Option<String> {
    let mut numbers: Vec<FileNumber> = kinds(names)
        .filter_map(|kind| match kind {
            FileKind::Table(number) => Some(number),
            _ => None,
        })
        .collect();
    numbers.sort_unstable_by_key(|&number| std::cmp::Reverse(number));
    let identity = |number| tables::identity(fs, &file_name::table(path, number), number, options);
    numbers.into_iter().find_map(identity)
}

/// Reads every table completely; moves unreadable ones to `lost`.
///
/// A table in a format that this build or these options do not support is an error, since it is not
/// damaged; any other failure sets the table aside.
fn read_tables(
    fs: &dyn FileSystem,
    path: &Path,
    db_id: Option<&str>,
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
        match tables::examine(fs, &file, (db_id.unwrap_or_default(), number), options) {
            Ok(table) => found.push(table),
            Err(error) if error.kind() == ErrorKind::NotSupported => {
                return Err(error.in_file(&file, None, "repair"));
            }
            Err(error) => lost.set_aside(&file, &error)?,
        }
    }
    Ok(found)
}

/// Syncs a table file, since a table found after a crash may be readable but not durable (O1).
fn make_durable(fs: &dyn FileSystem, table: &Path) -> Result<()> {
    let mut file = fs.append(table, &WriteOptions::new(Purpose::Other))?;
    file.sync_all()?;
    file.close()
}

impl crate::Db {
    /// Rebuilds the MANIFEST of the database at `path` from the readable tables and logs.
    ///
    /// Unusable files are moved to the subdirectory `lost`; nothing is deleted.
    ///
    /// # Errors
    /// If the database is in use or nothing can be written.
    pub fn repair(options: &Options, path: impl AsRef<Path>) -> Result<RepairReport> {
        repair(options, path.as_ref())
    }
}
