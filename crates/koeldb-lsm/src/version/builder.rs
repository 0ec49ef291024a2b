//! Builds a version from a base version and edits.
//!
//! A builder applies any number of edits and builds one version from them, so that recovery does
//! not build the intermediate versions. Each edit is checked against the tree as it is applied, and
//! the order and disjointness of files when the version is built. Unchanged files are shared with
//! the base.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;
use koeldb_base::timestamp::{TIMESTAMP_BYTES, Timestamp};
use koeldb_base::{Error, KeyOrder, Result};

use super::edit::{BlobGarbage, VersionEdit};
use super::version::{Level, Version};
use crate::blob_file_meta::BlobFileMeta;
use crate::file_meta::FileMeta;

/// The treatment of table files without an epoch number: assign new ones or fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingEpochs {
    /// Give every file of the tree a new epoch, by levels and sequence numbers: for a tree read
    /// from a MANIFEST.
    Assign,
    /// Return an error: the files were written by this engine.
    Refuse,
}

/// The level of a file in the base version and after the edits applied so far.
#[derive(Debug)]
struct FileLocation {
    /// The level of the file in the base version.
    base_level: Option<usize>,
    /// The current level and metadata of the file; `None` if it was removed.
    now: Option<(usize, Arc<FileMeta>)>,
}

/// A builder that applies version edits to a base version and builds the resulting one.
#[derive(Debug)]
pub struct VersionBuilder {
    base: Arc<Version>,
    locations: HashMap<FileNumber, FileLocation>,
    /// Files added to each level; some may have been removed again.
    added: BTreeMap<usize, Vec<FileNumber>>,
    /// For each level of the base, whether it lost a file or has another one with the same number.
    touched: Vec<bool>,
    blob_files: BTreeMap<FileNumber, BlobFileMeta>,
    compact_cursors: BTreeMap<usize, Vec<u8>>,
    full_history_ts_low: Option<Timestamp>,
}

impl VersionBuilder {
    /// Creates a builder whose edits are applied to the version `base`.
    #[must_use]
    pub fn new(base: Arc<Version>) -> Self {
        let locations = base
            .files()
            .map(|(level, file)| {
                let location = FileLocation {
                    base_level: Some(level),
                    now: Some((level, Arc::clone(file))),
                };
                (file.number, location)
            })
            .collect();
        VersionBuilder {
            locations,
            added: BTreeMap::new(),
            touched: vec![false; base.levels.len()],
            blob_files: base.blob_files.clone(),
            compact_cursors: base.compact_cursors.clone(),
            full_history_ts_low: base.full_history_ts_low,
            base,
        }
    }

    /// Applies the file changes of `edit`: removals first, then additions.
    ///
    /// # Errors
    /// `Corruption` if the edit contradicts the tree; the builder is then unusable.
    pub fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        for &(level, number) in &edit.deleted_files {
            self.delete(level, number)?;
        }
        for (level, file) in &edit.added_files {
            self.add(*level, file)?;
        }
        self.compact_cursors
            .extend(edit.compact_cursors.iter().cloned());
        if let Some(low) = &edit.full_history_ts_low {
            self.raise_history(low)?;
        }
        for blob_file in &edit.added_blob_files {
            if self
                .blob_files
                .insert(blob_file.number, blob_file.clone())
                .is_some()
            {
                return Err(Error::corruption(format!(
                    "blob file #{} is added twice",
                    blob_file.number
                )));
            }
        }
        for garbage in &edit.blob_garbage {
            self.add_garbage(garbage)?;
        }
        Ok(())
    }

    /// Deletes table file `number` from `level`; `Corruption` if it is not there.
    fn delete(&mut self, level: usize, number: FileNumber) -> Result<()> {
        let location = self.locations.get_mut(&number);
        let found = location
            .as_ref()
            .and_then(|location| location.now.as_ref())
            .map(|&(found, _)| found);
        match location {
            Some(location) if found == Some(level) => {
                location.now = None;
                if location.base_level == Some(level)
                    && let Some(touched) = self.touched.get_mut(level)
                {
                    *touched = true;
                }
                Ok(())
            }
            _ => {
                let found = found.map_or_else(String::new, |found| format!(": it is on {found}"));
                Err(Error::corruption(format!(
                    "Cannot delete table file #{number} from level {level} since it is not in the LSM tree there{found}"
                )))
            }
        }
    }

    /// Adds a table file to `level`; `Corruption` if its bounds are inverted or the tree has it.
    fn add(&mut self, level: usize, file: &Arc<FileMeta>) -> Result<()> {
        let number = file.number;
        let order = &self.base.order;
        let is_one_entry = file.smallest == file.largest;
        if !is_one_entry
            && order
                .compare_internal(&file.smallest, &file.largest)
                .is_gt()
        {
            return Err(Error::corruption(format!(
                "table file #{number} has bounds in the wrong order"
            )));
        }
        let location = self.locations.entry(number).or_insert(FileLocation {
            base_level: None,
            now: None,
        });
        if let Some((found, _)) = &location.now {
            return Err(Error::corruption(format!(
                "Cannot add table file #{number} to level {level} since it is already in the LSM tree on level {found}"
            )));
        }
        location.now = Some((level, Arc::clone(file)));
        if location.base_level == Some(level) {
            if let Some(touched) = self.touched.get_mut(level) {
                *touched = true;
            }
        } else {
            self.added.entry(level).or_default().push(number);
        }
        Ok(())
    }

    /// Raises the timestamp below which history may be collapsed to `low`; it never falls.
    fn raise_history(&mut self, low: &[u8]) -> Result<()> {
        let order = &self.base.order;
        if !order.has_timestamps() {
            // COMPAT: RocksDB keeps it when timestamps are switched off.
            return Ok(());
        }
        let Ok(low) = Timestamp::try_from(low) else {
            return Err(Error::corruption(format!(
                "full_history_ts_low has {} bytes, and not {TIMESTAMP_BYTES}",
                low.len()
            )));
        };
        let rises = |known: Timestamp| order.compare_timestamps(&known, &low).is_lt();
        if self.full_history_ts_low.is_none_or(rises) {
            self.full_history_ts_low = Some(low);
        }
        Ok(())
    }

    /// Adds to the garbage count of a blob file; `Corruption` if it exceeds the blobs of the file.
    fn add_garbage(&mut self, garbage: &BlobGarbage) -> Result<()> {
        let number = garbage.number;
        let Some(file) = self.blob_files.get_mut(&number) else {
            return Err(Error::corruption(format!(
                "garbage in blob file #{number}, which does not exist"
            )));
        };
        let count = file.garbage_count.checked_add(garbage.count);
        let bytes = file.garbage_bytes.checked_add(garbage.bytes);
        match (count, bytes) {
            (Some(count), Some(bytes)) if count <= file.count && bytes <= file.bytes => {
                file.garbage_count = count;
                file.garbage_bytes = bytes;
                Ok(())
            }
            _ => Err(Error::corruption(format!(
                "more garbage than blobs in blob file #{number}"
            ))),
        }
    }

    /// Builds and validates the version that results from all applied edits.
    ///
    /// # Errors
    /// `Corruption` if files contradict each other; `InvalidArgument` if a file is on a level
    /// beyond the configured ones.
    pub fn finish(mut self, missing_epochs: MissingEpochs) -> Result<Version> {
        let order = &self.base.order;
        let level_count = self.base.levels.len();
        let mut levels = Vec::with_capacity(level_count);
        for (level, base) in self.base.levels.iter().enumerate() {
            let added = self.added.remove(&level).unwrap_or_default();
            let touched = self.touched.get(level).copied().unwrap_or_default();
            if added.is_empty() && !touched {
                levels.push(base.clone());
                continue;
            }
            let files = base.files.iter().map(|file| file.number).chain(added);
            let mut files: Vec<Arc<FileMeta>> = files
                .filter_map(|number| match &self.locations.get(&number)?.now {
                    Some((now, file)) if *now == level => Some(Arc::clone(file)),
                    _ => None,
                })
                .collect();
            sort(level, order, &mut files);
            files.dedup_by_key(|file| file.number);
            levels.push(Level { files });
        }
        self.refuse_deeper_levels(level_count)?;
        if levels
            .iter()
            .flat_map(|level| &level.files)
            .any(|file| file.epoch == 0)
        {
            if missing_epochs == MissingEpochs::Refuse {
                return Err(Error::corruption("a new table file has no epoch"));
            }
            assign_epochs(&mut levels)?;
        }
        for (level, files) in levels.iter().enumerate() {
            check(level, order, files)?;
        }
        let blob_files = keep_linked(self.blob_files, &levels)?;
        let mut version = Version::new(order.clone(), levels);
        version.blob_files = blob_files;
        version.running = Arc::clone(&self.base.running);
        version.ingests_behind = self.base.ingests_behind;
        version.full_history_ts_low = self.full_history_ts_low;
        version.persists_timestamps = self.base.persists_timestamps;
        version.compact_cursors = self.compact_cursors;
        version
            .compact_cursors
            .retain(|&level, _| level < level_count);
        Ok(version)
    }

    /// Fails with `InvalidArgument` if an added file is on level `level_count` or a deeper one.
    fn refuse_deeper_levels(&self, level_count: usize) -> Result<()> {
        for (&level, numbers) in self.added.range(level_count..) {
            for number in numbers {
                let now = self
                    .locations
                    .get(number)
                    .and_then(|location| location.now.as_ref());
                if now.is_some_and(|&(now, _)| now == level) {
                    return Err(Error::invalid_argument(format!(
                        "table file #{number} is on level {level}, but the column family has {level_count} levels"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Builds the version that results from `edit`; every added file must have an epoch number.
///
/// # Errors
/// `Corruption` if the edit contradicts `base`.
pub fn apply_edit(base: &Arc<Version>, edit: &VersionEdit) -> Result<Version> {
    let mut builder = VersionBuilder::new(Arc::clone(base));
    builder.apply(edit)?;
    builder.finish(MissingEpochs::Refuse)
}

/// Orders files newest first: by epoch, and for equal epochs by sequence numbers.
fn newest_first(a: &FileMeta, b: &FileMeta) -> Ordering {
    b.epoch.cmp(&a.epoch).then_with(|| newest_seqno_first(a, b))
}

/// Orders files by sequence numbers, newest first, as RocksDB's `NewestFirstBySeqNo`.
fn newest_seqno_first(a: &FileMeta, b: &FileMeta) -> Ordering {
    let key = |file: &FileMeta| (file.largest_seqno, file.smallest_seqno, file.number);
    key(b).cmp(&key(a))
}

/// Sorts the files of a level: level 0 newest first, the others by smallest key.
fn sort(level: usize, order: &KeyOrder, files: &mut [Arc<FileMeta>]) {
    if level == 0 {
        files.sort_by(|a, b| newest_first(a, b));
    } else {
        files.sort_by(|a, b| {
            order
                .compare_internal(&a.smallest, &b.smallest)
                .then(a.number.cmp(&b.number))
        });
    }
}

/// Assigns new epoch numbers to all files (RocksDB: `RecoverEpochNumbers`).
///
/// Each deeper level gets one, the deepest the oldest; then each file of level 0 gets one by its
/// sequence numbers.
fn assign_epochs(levels: &mut [Level]) -> Result<()> {
    let too_many = || Error::corruption("too many files for epochs");
    let mut epoch = 0_u64;
    for level in levels.iter_mut().skip(1).rev() {
        if level.files.is_empty() {
            continue;
        }
        epoch = epoch.checked_add(1).ok_or_else(too_many)?;
        for file in &mut level.files {
            *file = Arc::new(file.with_epoch(epoch));
        }
    }
    if let Some(level_0) = levels.first_mut() {
        level_0.files.sort_by(|a, b| newest_seqno_first(a, b));
        for file in level_0.files.iter_mut().rev() {
            epoch = epoch.checked_add(1).ok_or_else(too_many)?;
            *file = Arc::new(file.with_epoch(epoch));
        }
    }
    Ok(())
}

/// Fails if files of a level overlap: in key range, or on level 0 with the same epoch number.
fn check(level: usize, order: &KeyOrder, files: &Level) -> Result<()> {
    for pair in files.files.windows(2) {
        let [a, b] = pair else { continue };
        if level == 0 {
            if a.epoch == b.epoch && overlap(order, a, b) {
                return Err(Error::corruption(format!(
                    "L0 files of same epoch number but overlapping range: #{} and #{}, epoch {}",
                    a.number, b.number, a.epoch
                )));
            }
        } else if order.compare_internal(&a.largest, &b.smallest) != Ordering::Less {
            return Err(Error::corruption(format!(
                "L{level} has overlapping ranges: table files #{} and #{}",
                a.number, b.number
            )));
        }
    }
    Ok(())
}

/// Whether the internal key ranges of two files overlap.
fn overlap(order: &KeyOrder, a: &FileMeta, b: &FileMeta) -> bool {
    order.compare_internal(&a.smallest, &b.largest) != Ordering::Greater
        && order.compare_internal(&b.smallest, &a.largest) != Ordering::Greater
}

/// Returns the blob files that tables may refer to; `Corruption` if a linked one is missing.
///
/// A table names only the oldest blob file it refers to, so a file is kept while an older one is
/// named, unless all of it is garbage.
fn keep_linked(
    blob_files: BTreeMap<FileNumber, BlobFileMeta>,
    levels: &[Level],
) -> Result<BTreeMap<FileNumber, BlobFileMeta>> {
    let files = levels.iter().flat_map(|level| &level.files);
    let mut linked = BTreeMap::new();
    for file in files.filter(|file| file.oldest_blob_file != 0) {
        let blob_number = file.oldest_blob_file;
        linked.entry(blob_number).or_insert(file.number);
    }
    for (blob_number, table) in &linked {
        match blob_files.get(blob_number) {
            None => {
                return Err(Error::corruption(format!(
                    "table file #{table} refers to blob file #{blob_number}, which does not exist"
                )));
            }
            Some(file) if file.garbage_count == file.count => {
                return Err(Error::corruption(format!(
                    "blob file #{blob_number} consists entirely of garbage, but table file #{table} refers to it"
                )));
            }
            Some(_) => {}
        }
    }
    let Some(oldest) = linked.keys().next().copied() else {
        return Ok(BTreeMap::new());
    };
    let mut kept = blob_files;
    kept.retain(|number, file| *number >= oldest && file.garbage_count < file.count);
    Ok(kept)
}

#[cfg(test)]
mod tests;
