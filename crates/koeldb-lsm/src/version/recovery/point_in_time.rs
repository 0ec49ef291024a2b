//! Recovery to the newest point in time whose tables all exist (`best_efforts_recovery`).
//!
//! The MANIFEST is replayed as usual, and each column family keeps the newest of its states whose
//! tables and blob files exist. A state is also taken if only the newest tables of level 0 are missing, unless an
//! atomic group was applied to the family. The states after an atomic group are taken together:
//! until every family has one, all of them stay at their states of before.
//!
//! CURRENT is not read: the newest MANIFEST that can be replayed counts. RocksDB's
//! `VersionEditHandlerPointInTime` (release 11.9) has the same rules.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::FileSystem;

use super::super::builder::{MissingEpochs, VersionBuilder};
use super::super::column_family::ColumnFamilySpec;
use super::super::edit::{BlobGarbage, ColumnFamilyChange, VersionEdit};
use super::super::set::{ManifestReport, VersionSetOptions};
use super::super::version::Version;
use super::{Recovered, Replay, family_names, read_with};
use crate::blob_file_meta::BlobFileMeta;
use crate::file_meta::FileMeta;
use crate::manifest::ManifestReader;

/// Whether a table of the named column family, on a level, exists and is the recorded one.
pub type TableCheck<'c> = dyn Fn(&str, usize, &FileMeta) -> Result<bool> + 'c;

/// Whether a blob file of the named column family exists and is the recorded one.
pub type BlobFileCheck<'c> = dyn Fn(&str, &BlobFileMeta) -> Result<bool> + 'c;

/// The checks of whether files exist.
#[derive(Clone, Copy)]
pub struct FileChecks<'c> {
    /// The check of tables.
    pub table: &'c TableCheck<'c>,
    /// The check of blob files.
    pub blob_file: &'c BlobFileCheck<'c>,
}

/// The tables of a column family with their levels, and its blob files with their garbage.
#[derive(Clone, Debug, Default)]
struct Files {
    tables: Vec<(usize, Arc<FileMeta>)>,
    blob_files: BTreeMap<FileNumber, BlobFileMeta>,
}

/// A column family during the replay: its files, and those of the newest complete state.
#[derive(Debug, Default)]
struct Tracked {
    name: String,
    files: BTreeMap<FileNumber, (usize, Arc<FileMeta>)>,
    missing: BTreeSet<FileNumber>,
    /// All blob files that were added, those that were removed since among them.
    blob_files: BTreeMap<FileNumber, BlobFileMeta>,
    missing_blob_files: BTreeSet<FileNumber>,
    /// Whether an atomic group changed the tables.
    was_in_group: bool,
    complete: Files,
}

impl Tracked {
    /// Whether all tables exist, or only the newest ones of level 0 are missing, and the blob files of
    /// those that exist.
    fn is_complete(&self) -> bool {
        let has_tables =
            self.missing.is_empty() || (!self.was_in_group && self.lacks_only_newest());
        has_tables && !self.lacks_blob_files()
    }

    /// Whether a blob file is missing to which an existing table may refer.
    ///
    /// A table names only the oldest file. A file that is all garbage and not the oldest of a table was
    /// removed while older ones are still in use.
    fn lacks_blob_files(&self) -> bool {
        if self.missing_blob_files.is_empty() {
            return false;
        }
        let present = self.files.values();
        let linked: BTreeSet<FileNumber> = present
            .filter(|(_, file)| !self.missing.contains(&file.number))
            .map(|(_, file)| file.oldest_blob_file)
            .filter(|&oldest| oldest != 0)
            .collect();
        let Some(&oldest) = linked.first() else {
            return false;
        };
        self.missing_blob_files.range(oldest..).any(|number| {
            let file = self.blob_files.get(number);
            let has_values = file.is_some_and(|file| file.garbage_count < file.count);
            has_values || linked.contains(number)
        })
    }

    /// Whether the missing tables are the newest ones of level 0.
    fn lacks_only_newest(&self) -> bool {
        let is_level0 = |number| matches!(self.files.get(number), Some((0, _)));
        if !self.missing.iter().all(is_level0) {
            return false;
        }
        let level0 = self.files.values().filter(|(level, _)| *level == 0);
        let mut newest_first: Vec<&Arc<FileMeta>> = level0.map(|(_, file)| file).collect();
        newest_first
            .sort_by_key(|file| Reverse((file.largest_seqno, file.smallest_seqno, file.number)));
        let newest = newest_first.iter().take(self.missing.len());
        newest
            .copied()
            .all(|file| self.missing.contains(&file.number))
    }

    /// The files that exist.
    fn present(&self) -> Files {
        let present = self.files.iter();
        let mut blob_files = self.blob_files.clone();
        blob_files.retain(|number, _| !self.missing_blob_files.contains(number));
        Files {
            tables: present
                .filter(|(number, _)| !self.missing.contains(number))
                .map(|(_, (level, file))| (*level, Arc::clone(file)))
                .collect(),
            blob_files,
        }
    }

    /// Applies the changes of `edit` to the files, and looks for the new ones.
    fn apply(&mut self, edit: &VersionEdit, checks: FileChecks<'_>) -> Result<()> {
        self.was_in_group |= edit.changes_files() && edit.remaining_in_group.is_some();
        for file in &edit.added_blob_files {
            if !(checks.blob_file)(&self.name, file)? {
                self.missing_blob_files.insert(file.number);
            }
            self.blob_files.insert(file.number, file.clone());
        }
        for garbage in &edit.blob_garbage {
            // The replay has found that the file exists and has as many values.
            if let Some(file) = self.blob_files.get_mut(&garbage.number) {
                file.garbage_count = file.garbage_count.saturating_add(garbage.count);
                file.garbage_bytes = file.garbage_bytes.saturating_add(garbage.bytes);
            }
        }
        for (_, number) in &edit.deleted_files {
            self.files.remove(number);
            self.missing.remove(number);
        }
        for (level, file) in &edit.added_files {
            if !(checks.table)(&self.name, *level, file)? {
                self.missing.insert(file.number);
            }
            self.files.insert(file.number, (*level, Arc::clone(file)));
        }
        Ok(())
    }
}

/// The complete states of all column families during the replay of a MANIFEST.
#[derive(Debug, Default)]
struct PointInTime {
    families: BTreeMap<u32, Tracked>,
    /// The complete states after the latest atomic group, until every family has one.
    pending: BTreeMap<u32, Option<Files>>,
}

impl PointInTime {
    /// Applies the edits of one record or atomic group, which were applied to `replay`.
    fn apply(
        &mut self,
        edits: &[VersionEdit],
        replay: &Replay,
        checks: FileChecks<'_>,
    ) -> Result<()> {
        let is_group = edits.iter().any(|edit| edit.remaining_in_group.is_some());
        if is_group {
            self.keep_all();
            let ids = self.families.keys();
            self.pending = ids.map(|&id| (id, None)).collect();
        }
        for edit in edits {
            self.apply_one(edit, is_group, replay, checks)?;
        }
        Ok(())
    }

    /// Applies one edit; keeps the state before it if that was the last complete one.
    fn apply_one(
        &mut self,
        edit: &VersionEdit,
        is_in_group: bool,
        replay: &Replay,
        checks: FileChecks<'_>,
    ) -> Result<()> {
        let id = edit.family;
        match &edit.family_change {
            Some(ColumnFamilyChange::Add(name)) => {
                if replay.spec(name).is_some() {
                    self.add_family(id, name);
                }
                return Ok(());
            }
            Some(ColumnFamilyChange::Drop) => {
                self.families.remove(&id);
                if self.pending.remove(&id).is_some() {
                    self.take_pending();
                }
                return Ok(());
            }
            None => {}
        }
        let Some(family) = self.families.get_mut(&id) else {
            return Ok(());
        };
        let before = family.is_complete().then(|| family.present());
        family.apply(edit, checks)?;
        if let Some(before) = before
            && !is_in_group
            && !family.is_complete()
        {
            self.keep(id, before);
        }
        Ok(())
    }

    fn add_family(&mut self, id: u32, name: &str) {
        let family = Tracked {
            name: name.to_owned(),
            ..Tracked::default()
        };
        self.families.insert(id, family);
    }

    /// Keeps the state of each column family whose state is complete.
    fn keep_all(&mut self) {
        let complete = self.families.iter();
        let complete: Vec<(u32, Files)> = complete
            .filter(|(_, family)| family.is_complete())
            .map(|(&id, family)| (id, family.present()))
            .collect();
        for (id, files) in complete {
            self.keep(id, files);
        }
    }

    /// Keeps a complete state, as one of those after an atomic group if that is not complete yet.
    fn keep(&mut self, id: u32, files: Files) {
        if let Some(pending) = self.pending.get_mut(&id) {
            *pending = Some(files);
            self.take_pending();
        } else if let Some(family) = self.families.get_mut(&id) {
            family.complete = files;
        }
    }

    /// Takes the states after an atomic group once every column family has one.
    fn take_pending(&mut self) {
        if self.pending.values().any(Option::is_none) {
            return;
        }
        for (id, files) in std::mem::take(&mut self.pending) {
            if let (Some(family), Some(files)) = (self.families.get_mut(&id), files) {
                family.complete = files;
            }
        }
    }
}

/// Recovers the newest complete state from the newest MANIFEST that can be replayed.
///
/// Returns the number of that MANIFEST as well.
pub(in crate::version) fn read(
    fs: &dyn FileSystem,
    directory: &Path,
    families: &[ColumnFamilySpec],
    options: &VersionSetOptions,
    checks: FileChecks<'_>,
) -> Result<(Recovered, ManifestReport)> {
    newest(fs, directory, |number| {
        read_one(fs, directory, number, families, options, checks)
    })
}

/// Returns the names of the column families in the newest MANIFEST that can be replayed.
pub(in crate::version) fn names(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<String>> {
    newest(fs, directory, |number| family_names(fs, directory, number))
}

/// Whether a directory has a MANIFEST that is not empty.
///
/// # Errors
/// If the system fails.
pub fn has_manifest(fs: &dyn FileSystem, directory: &Path) -> Result<bool> {
    for number in manifests(fs, directory)? {
        if fs.metadata(&file_name::manifest(directory, number))?.len > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the numbers of the MANIFESTs in a directory, newest first.
fn manifests(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<FileNumber>> {
    let entries = fs.list(directory)?;
    let numbers = entries
        .iter()
        .filter_map(|entry| match file_name::parse(&entry.name) {
            Some(FileKind::Manifest(number)) => Some(number),
            _ => None,
        });
    let mut numbers: Vec<FileNumber> = numbers.collect();
    numbers.sort_unstable_by_key(|number| Reverse(*number));
    Ok(numbers)
}

/// Calls `read` with each MANIFEST, newest first, until one can be replayed.
///
/// Returns the error of the newest one if there is none. Unlike in RocksDB, an error of the caller
/// ends the search: an older MANIFEST might lack the family that was not named.
fn newest<R>(
    fs: &dyn FileSystem,
    directory: &Path,
    read: impl Fn(FileNumber) -> Result<R>,
) -> Result<R> {
    let mut first = None;
    for number in manifests(fs, directory)? {
        match read(number) {
            Ok(found) => return Ok(found),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidArgument | ErrorKind::NotSupported
                ) =>
            {
                return Err(error);
            }
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| {
        Error::corruption("best_efforts_recovery: there is no MANIFEST")
            .in_file(directory, None, "open")
    }))
}

/// Recovers the newest complete state that MANIFEST `number` has.
fn read_one(
    fs: &dyn FileSystem,
    directory: &Path,
    number: FileNumber,
    families: &[ColumnFamilySpec],
    options: &VersionSetOptions,
    checks: FileChecks<'_>,
) -> Result<(Recovered, ManifestReport)> {
    let mut points = PointInTime::default();
    points.add_family(0, super::DEFAULT_FAMILY);
    let run = |replay: &mut Replay, reader: &mut ManifestReader| -> Result<()> {
        while let Some(mut edits) = reader.next_edits()? {
            let mut applied = edits.iter_mut().try_for_each(|edit| replay.apply(edit));
            applied = applied.and_then(|()| points.apply(&edits, replay, checks));
            applied.map_err(|error| reader.located(error))?;
        }
        points.keep_all();
        replay.settle().map_err(|error| reader.located(error))?;
        let missing = points.go_back(replay)?;
        replay.missing_tables = missing;
        Ok(())
    };
    read_with(fs, directory, number, families, options, run)
}

impl PointInTime {
    /// Replaces the final state of each column family by its newest complete one.
    ///
    /// Returns the tables that are missing in the final states.
    fn go_back(&self, replay: &mut Replay) -> Result<Vec<FileNumber>> {
        let mut missing = Vec::new();
        for (id, family) in &self.families {
            let Some(replayed) = replay.families.get_mut(id) else {
                continue;
            };
            let Some(current) = &replayed.current else {
                continue;
            };
            missing.extend(&family.missing);
            let complete = &family.complete;
            let tables = complete.tables.iter();
            let kept: BTreeSet<FileNumber> = tables.map(|(_, file)| file.number).collect();
            let is_whole = family.missing.is_empty() && !family.lacks_blob_files();
            if is_whole && kept.iter().eq(family.files.keys()) {
                continue;
            }
            let blob_files = complete.blob_files.values();
            let garbage = |file: &BlobFileMeta| BlobGarbage {
                number: file.number,
                count: file.garbage_count,
                bytes: file.garbage_bytes,
            };
            let without_garbage = |file: &BlobFileMeta| BlobFileMeta {
                garbage_count: 0,
                garbage_bytes: 0,
                ..file.clone()
            };
            let mut empty = Version::empty(current.order.clone(), current.levels.len());
            empty.ingests_behind = current.ingests_behind;
            empty.persists_timestamps = current.persists_timestamps;
            let mut builder = VersionBuilder::new(Arc::new(empty));
            builder.apply(&VersionEdit {
                added_files: complete.tables.clone(),
                added_blob_files: blob_files.clone().map(without_garbage).collect(),
                blob_garbage: blob_files.map(garbage).collect(),
                full_history_ts_low: current.full_history_ts_low.map(|low| low.to_vec()),
                ..VersionEdit::of(*id)
            })?;
            replayed.current = Some(Arc::new(builder.finish(MissingEpochs::Assign)?));
        }
        Ok(missing)
    }
}
