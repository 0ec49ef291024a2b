//! Repair: creates a MANIFEST from the readable tables and logs.
//!
//! It first examines tables ([`tables`]), blob files ([`blobs`]), old MANIFESTs as far as they are
//! readable ([`history`]), and logs ([`logs`]). They determine the column families ([`families`]), and an order of their
//! tables that cannot give stale reads: by the levels in a MANIFEST, otherwise on level 0, where
//! tables of uncertain order are merged ([`order`]). Logs stay in place for replay by the next
//! open, from the first one without entries that are in tables.
//!
//! Unusable files are moved to the directory `lost` ([`lost`]): they get a second name there before
//! the new MANIFEST is current, and lose the first one afterwards. So nothing is ever deleted, an
//! interrupted repair can be repeated, and an open in between is harmless.

mod blobs;
mod families;
mod history;
mod logs;
mod lost;
mod merge;
mod order;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::directory_lock::lock_directory;
use koeldb_fs::{FileSystem, Purpose, WriteOptions};
use koeldb_lsm::current::read_identity;
use koeldb_lsm::manifest::{self, ManifestSnapshot};
use koeldb_lsm::{DataPaths, FileMeta};

use crate::options::{Options, wal_dir};
use crate::state::table_files::FLUSH_PATH;
use blobs::FoundBlobFiles;
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
    /// Blob files in the repaired database.
    pub blob_files: Vec<FileNumber>,
    /// Values to which tables refer and which no blob file has, or which are damaged.
    ///
    /// The references are kept: reads of them return `Corruption`.
    pub lost_values: Vec<LostValue>,
}

/// A value to which a table refers and which no blob file has, or which is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostValue {
    /// The name of the column family.
    pub column_family: String,
    /// The user key.
    pub key: Vec<u8>,
    /// The number of the table with the reference.
    pub table: FileNumber,
    /// The number of the blob file that the reference names.
    pub blob_file: FileNumber,
    /// The offset of the stored value in the blob file.
    pub offset: u64,
    /// The size of the stored value.
    pub bytes: u64,
}

/// Rebuilds the MANIFEST of the database at `path` from its tables, logs and old MANIFESTs.
pub(crate) fn repair(options: &Options, path: &Path) -> Result<RepairReport> {
    let fs = &*options.plugins.env.fs;
    let wal_dir = options.db.wal_directory(path);
    wal_dir::check_logs(fs, path, &options.db.wal_dir, 0)?;
    let _lock = lock_directory(fs, path)?;
    let paths = table_paths(options, path)?;
    let mut report = RepairReport::default();
    let mut lost = LostFiles::new(fs);

    let names = names_of_ours(fs, path)?;
    let places = places_of_tables(fs, &paths)?;
    let mut manifests: Vec<FileNumber> = kinds(&names)
        .filter_map(|kind| match kind {
            FileKind::Manifest(number) => Some(number),
            _ => None,
        })
        .collect();
    manifests.sort_unstable();
    let history = History::read(fs, path, &manifests);
    let is_missing = |file: &&FileMeta| !places.iter().any(|place| place.number == file.number);
    if let Some(file) = history.tables_beyond(paths.count()).find(is_missing) {
        return Err(Error::invalid_argument(format!(
            "table {:06}.sst is in directory number {} of db_paths, counted from 0, which is not set",
            file.number, file.path_id
        ))
        .in_file(path, None, "repair"));
    }
    // First, as a log that cannot be replayed refuses the repair, which has changed nothing then.
    let logs = Logs::read(fs, &wal_dir)?;
    let db_id = read_identity(fs, path)?
        .or_else(|| history.db_id.clone())
        .or_else(|| identity_in_tables(fs, options, &places));
    let found = read_tables(fs, db_id.as_deref(), options, &places, &mut lost)?;
    let blob_files = FoundBlobFiles::read(fs, path, &paths, &mut lost)?;
    let referred = found.iter().map(|table| table.newest_blob_file);
    let largest = largest_number(fs, path, &wal_dir, &paths)?;
    let largest = referred.fold(largest, FileNumber::max);
    let next_number = largest.checked_add(1).map(AtomicU64::new);
    let next_number = next_number.ok_or_else(|| {
        Error::corruption("a table refers to a blob file of the largest number")
            .in_file(path, None, "repair")
    })?;

    let merger = Merger {
        fs,
        path: paths.directory(FLUSH_PATH),
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
    blob_files.describe(&mut snapshot, options, &mut lost, &mut report)?;
    let log_numbers = snapshot.families.iter().map(|family| family.log_number);
    let first_log = log_numbers.min().unwrap_or(number);
    report.logs = logs.logs_from(first_log);
    snapshot.min_log_number_to_keep = history.min_log_number_to_keep.min(first_log);
    for family in &snapshot.families {
        for (_, file) in family.version.files() {
            make_durable(fs, &paths.of_table(file))?;
        }
    }
    lost.make_durable()?;
    manifest::install(fs, path, number, number + 1, &snapshot)?;
    report.lost = lost.finish()?;
    Ok(report)
}

/// Returns the directories of the tables of a database: those of `db_paths`, or its own.
///
/// # Errors
/// `NotSupported` for `cf_paths`: nothing tells which column family has which of them.
fn table_paths(options: &Options, path: &Path) -> Result<DataPaths> {
    let fs = &*options.plugins.env.fs;
    if !options.get_cf_paths().is_empty() {
        return Err(Error::not_supported(
            "a repair finds tables in the directories of db_paths only: leave out cf_paths",
        ));
    }
    let absolute = |path: &Path| fs.absolute(path);
    let directories = options.get_db_paths().iter().map(|it| absolute(&it.path));
    let directories = directories.collect::<Result<Vec<_>>>()?;
    let Some(paths) = DataPaths::of(&directories) else {
        return Ok(DataPaths::single(path));
    };
    let own = absolute(path)?;
    let is_table = |kind| matches!(kind, FileKind::Table(_));
    // The next open would remove them.
    if !directories.contains(&own) && kinds(&names_of_ours(fs, path)?).any(is_table) {
        return Err(Error::invalid_argument(
            "there are tables in this directory, which is not one of db_paths",
        )
        .in_file(path, None, "repair"));
    }
    Ok(paths)
}

/// A table file that was found, with the index of its directory.
struct TablePlace {
    file: PathBuf,
    number: FileNumber,
    path_id: u8,
}

/// Returns the places of all table files.
///
/// # Errors
/// `Corruption` if two of them have one number.
fn places_of_tables(fs: &dyn FileSystem, paths: &DataPaths) -> Result<Vec<TablePlace>> {
    let mut places: Vec<TablePlace> = Vec::new();
    for (directory, path_id) in paths.directories().zip(0..) {
        for name in names_of_ours(fs, directory)? {
            let Some(FileKind::Table(number)) = file_name::parse(&name) else {
                continue;
            };
            let place = TablePlace {
                file: directory.join(name),
                number,
                path_id,
            };
            let is_other = |other: &&TablePlace| other.number == number && other.path_id != path_id;
            if let Some(other) = places.iter().find(is_other) {
                return Err(Error::corruption(format!(
                    "{} and {} have the same number: move away the one that is not part of the database",
                    other.file.display(),
                    place.file.display()
                )));
            }
            places.push(place);
        }
    }
    Ok(places)
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
fn largest_number(
    fs: &dyn FileSystem,
    path: &Path,
    wal_dir: &Path,
    paths: &DataPaths,
) -> Result<FileNumber> {
    let mut directories = vec![
        path.to_owned(),
        wal_dir.to_owned(),
        koeldb_log::wal::archive_directory(wal_dir),
        lost::directory(path),
    ];
    for directory in paths.directories() {
        directories.extend([directory.to_owned(), lost::directory(directory)]);
    }
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
    options: &Options,
    places: &[TablePlace],
) -> Option<String> {
    let mut newest_first: Vec<&TablePlace> = places.iter().collect();
    newest_first.sort_unstable_by_key(|place| std::cmp::Reverse(place.number));
    let identity = |place: &TablePlace| tables::identity(fs, &place.file, place.number, options);
    newest_first.into_iter().find_map(identity)
}

/// Reads every table completely; moves unreadable ones to `lost`.
///
/// A table in a format that this build or these options do not support is an error, since it is not
/// damaged; any other failure sets the table aside.
fn read_tables(
    fs: &dyn FileSystem,
    db_id: Option<&str>,
    options: &Options,
    places: &[TablePlace],
    lost: &mut LostFiles<'_>,
) -> Result<Vec<FoundTable>> {
    let mut found = Vec::new();
    for TablePlace {
        file,
        number,
        path_id,
    } in places
    {
        match tables::examine(fs, file, (db_id.unwrap_or_default(), *number), options) {
            Ok(mut table) => {
                table.file.path_id = *path_id;
                found.push(table);
            }
            Err(error) if error.kind() == ErrorKind::NotSupported => {
                return Err(error.in_file(file, None, "repair"));
            }
            Err(error) => lost.set_aside(file, error.without_advice())?,
        }
    }
    Ok(found)
}

/// Syncs a file, since one found after a crash may be readable but not durable (O1).
fn make_durable(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    let mut file = fs.append(path, &WriteOptions::new(Purpose::Other))?;
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
