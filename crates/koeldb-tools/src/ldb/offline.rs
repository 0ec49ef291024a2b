//! Commands that change the MANIFEST of a closed database: a table removed, tables on other levels.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb::{BottommostLevelCompaction, CompactRangeOptions};
use koeldb_base::file_name::{self, FileNumber};
use koeldb_fs::directory_lock::lock_directory;
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileLock, FileSystem};
use koeldb_lsm::version::{ColumnFamilySpec, Version, VersionEdit, VersionSet, VersionSetOptions};

use super::args::Global;
use super::database::{directory, open_to_write};
use super::manifest::current_state;
use super::output::Output;
use super::{Failure, Outcome};

/// An upper bound of the number of levels of any column family.
const LEVELS_MAX: usize = 64;

/// The versions of a closed database, whose directory is locked meanwhile.
struct Offline {
    path: PathBuf,
    versions: VersionSet,
    _lock: Box<dyn FileLock>,
}

impl Offline {
    /// Locks the directory and recovers the versions of all column families from the MANIFEST.
    fn open(global: &Global) -> Outcome<Self> {
        let path = directory(global)?;
        let fs = Arc::new(PosixFileSystem::new());
        let lock = lock_directory(&*fs, &path)?;
        let mut families = Vec::new();
        for family in current_state(&path)?.families.values() {
            families.push(ColumnFamilySpec {
                name: family.name.clone(),
                order: family.order()?,
                level_count: LEVELS_MAX,
                ingests_behind: false,
                persists_timestamps: family.persists_timestamps,
            });
        }
        let options = VersionSetOptions::default();
        let (versions, _) = VersionSet::recover(fs, &path, &families, options)?;
        Ok(Offline {
            path,
            versions,
            _lock: lock,
        })
    }

    /// Logs a version edit to a new MANIFEST, with a number that no file in the directory has.
    fn write(&mut self, edit: VersionEdit) -> Outcome {
        // The new MANIFEST gets a number that no file has.
        self.versions
            .file_numbers()
            .skip(largest_number(&self.path)?);
        self.versions.log_and_apply(vec![edit])?;
        Ok(())
    }
}

/// Returns the largest file number in the directory of a database.
fn largest_number(path: &Path) -> Outcome<FileNumber> {
    let entries = PosixFileSystem::new().list(path)?;
    let numbers = entries
        .iter()
        .filter_map(|entry| file_name::parse(&entry.name)?.number());
    Ok(numbers.max().unwrap_or(0))
}

/// Runs `unsafe_remove_sst_file`: removes a table from the LSM tree, with the entries in it.
pub(super) fn remove_table(global: &Global, number: FileNumber, out: &mut Output) -> Outcome {
    let mut offline = Offline::open(global)?;
    let found = offline.versions.families().find_map(|family| {
        let mut files = family.current().files();
        let (level, _) = files.find(|(_, file)| file.number == number)?;
        Some((family.id(), level))
    });
    let Some((family, level)) = found else {
        return Err(Failure::Message(format!(
            "failed to unsafely remove SST file: no column family has table {number:06}"
        )));
    };
    let mut edit = VersionEdit::of(family);
    edit.deleted_files.push((level, number));
    offline.write(edit)?;
    out.line("unsafely removed SST file")
}

/// Runs `reduce_levels`: compacts, and moves all tables to within `new_levels` levels.
pub(super) fn reduce_levels(
    global: &Global,
    new_levels: usize,
    print_old_levels: bool,
    out: &mut Output,
) -> Outcome {
    if new_levels <= 1 {
        return Err(Failure::Message("Invalid number of levels.".to_owned()));
    }
    let levels_in_use = |offline: &Offline| Some(in_use(current(offline, global)?));
    let old_levels = levels_in_use(&Offline::open(global)?);
    let Some(old_levels) = old_levels else {
        let message = format!("column family {} does not exist", global.column_family);
        return Err(Failure::Message(message));
    };
    if print_old_levels {
        out.line(&format!("The old number of levels in use is {old_levels}"))?;
    }
    if old_levels <= new_levels {
        return out.ok();
    }
    let database = open_to_write(global)?;
    let mut options = CompactRangeOptions::new();
    options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
    database.family.compact_range_opt(.., &options)?;
    database.close()?;
    let mut offline = Offline::open(global)?;
    if let Some(edit) = moved(&offline, global, new_levels)? {
        offline.write(edit)?;
    }
    out.ok()
}

/// Returns the current version of `--column_family`; `None` if there is no such column family.
fn current<'o>(offline: &'o Offline, global: &Global) -> Option<&'o Version> {
    let family = offline.versions.family_named(&global.column_family)?;
    Some(family.current())
}

/// Returns the number of levels in use: one more than the deepest level with tables.
fn in_use(version: &Version) -> usize {
    version
        .files()
        .map(|(level, _)| level + 1)
        .max()
        .unwrap_or(0)
}

/// Returns the version edit that moves tables below the new last level to it; `None` without any.
fn moved(offline: &Offline, global: &Global, new_levels: usize) -> Outcome<Option<VersionEdit>> {
    let Some(family) = offline.versions.family_named(&global.column_family) else {
        return Ok(None);
    };
    let last = new_levels - 1;
    let mut edit = VersionEdit::of(family.id());
    let mut from = None;
    for (level, file) in family.current().files().filter(|(level, _)| *level >= last) {
        if *from.get_or_insert(level) != level {
            return Err(Failure::Message(format!(
                "the tables from level {last} on are on several levels: repeat the command"
            )));
        }
        if level > last {
            edit.deleted_files.push((level, file.number));
            edit.added_files.push((last, Arc::clone(file)));
        }
    }
    Ok((!edit.added_files.is_empty()).then_some(edit))
}
