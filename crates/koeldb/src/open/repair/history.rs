//! The contents of old MANIFESTs, as far as they are readable.
//!
//! They are read in order. The contents of a damaged end are unknown, so this is not the current
//! state but a former one. Ids and file numbers are never reused, so names, dropped column families
//! and removed tables remain valid.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;
use koeldb_base::{SeqNo, Timestamp};
use koeldb_fs::FileSystem;
use koeldb_lsm::FileMeta;
use koeldb_lsm::manifest::ManifestReader;
use koeldb_lsm::version::VersionEdit;
use koeldb_lsm::version::edit::ColumnFamilyChange;

use super::tables::FoundTable;

/// The last state of a column family in the readable parts of the old MANIFESTs.
#[derive(Debug, Default)]
pub(super) struct ColumnFamilyHistory {
    pub(super) name: Option<String>,
    pub(super) comparator: Option<String>,
    /// Whether tables have no timestamps (`persist_user_defined_timestamps=false`).
    pub(super) lacks_timestamps: bool,
    pub(super) log_number: FileNumber,
    /// The user-defined timestamp below which history may have been collapsed.
    pub(super) full_history_ts_low: Option<Timestamp>,
    /// The tables of the column family, with their levels.
    pub(super) live: BTreeMap<FileNumber, usize>,
    /// Tables that were removed from the tree.
    removed: BTreeSet<FileNumber>,
}

/// The accumulated state of all old MANIFESTs of a directory, as far as they are readable.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) families: BTreeMap<u32, ColumnFamilyHistory>,
    pub(super) dropped: BTreeSet<u32>,
    /// The tables as the MANIFESTs record them, with the ids of their column families.
    pub(super) tables: BTreeMap<FileNumber, (u32, Arc<FileMeta>)>,
    pub(super) db_id: Option<String>,
    pub(super) max_column_family: u32,
    pub(super) last_seqno: SeqNo,
    /// The log number below which no prepared section is undecided; 0 if unknown.
    pub(super) min_log_number_to_keep: FileNumber,
}

impl History {
    /// Reads all version edits of `manifests`, oldest first, up to the first damage of each.
    pub(super) fn read(fs: &dyn FileSystem, path: &Path, manifests: &[FileNumber]) -> Self {
        let mut history = History::default();
        for &number in manifests {
            // An unreadable or truncated MANIFEST is expected in a repair.
            let Ok(mut reader) = ManifestReader::open(fs, path, number) else {
                continue;
            };
            while let Ok(Some(edits)) = reader.next_edits() {
                for edit in &edits {
                    history.take(edit);
                }
            }
        }
        history
    }

    /// Sets the file metadata and column family of a table that the MANIFESTs recorded.
    ///
    /// An ingested table names no column family, and an imported one the family it was exported
    /// from.
    pub(super) fn describe(&self, table: &mut FoundTable) {
        let Some((family, recorded)) = self.tables.get(&table.file.number) else {
            return;
        };
        if recorded.bytes != table.file.bytes {
            return;
        }
        let path_id = table.file.path_id;
        table.file = match table.file.undated {
            true => recorded.as_undated(),
            false => recorded.with_epoch(recorded.epoch),
        };
        // Where it was found.
        table.file.path_id = path_id;
        table.is_recorded = true;
        table.family = Some(*family);
        let past = self.families.get(family);
        if let Some(name) = past.and_then(|past| past.name.as_ref()) {
            table.family_name.clone_from(name);
        }
    }

    /// Returns the live tables in directories that are not among the first `count` ones.
    pub(super) fn tables_beyond(&self, count: usize) -> impl Iterator<Item = &FileMeta> {
        let live = self.families.values().flat_map(|family| family.live.keys());
        let tables = live.filter_map(|number| self.tables.get(number));
        let tables = tables.map(|(_, file)| &**file);
        tables.filter(move |file| usize::from(file.path_id) >= count)
    }

    /// Applies a version edit to the accumulated state.
    fn take(&mut self, edit: &VersionEdit) {
        if let Some(id) = &edit.db_id {
            self.db_id = String::from_utf8(id.clone()).ok();
        }
        self.last_seqno = self.last_seqno.max(edit.last_seqno.unwrap_or(0));
        self.min_log_number_to_keep = self
            .min_log_number_to_keep
            .max(edit.min_log_number_to_keep.unwrap_or(0));
        self.max_column_family = self
            .max_column_family
            .max(edit.family)
            .max(edit.max_column_family.unwrap_or(0));
        if matches!(edit.family_change, Some(ColumnFamilyChange::Drop)) {
            self.families.remove(&edit.family);
            self.dropped.insert(edit.family);
            return;
        }
        let family = self.families.entry(edit.family).or_default();
        if let Some(ColumnFamilyChange::Add(name)) = &edit.family_change {
            family.name = Some(name.clone());
        }
        if let Some(comparator) = &edit.comparator {
            family.comparator = Some(comparator.clone());
            family.lacks_timestamps = edit.persist_timestamps == Some(false);
            // A MANIFEST begins a column family with this edit: its tables follow.
            family.live.clear();
        }
        family.log_number = family.log_number.max(edit.log_number.unwrap_or(0));
        // It only rises, and a MANIFEST begins with the current one.
        let low = edit.full_history_ts_low.as_deref();
        if let Some(low) = low.and_then(|low| Timestamp::try_from(low).ok()) {
            family.full_history_ts_low = Some(low);
        }
        for (_, number) in &edit.deleted_files {
            family.live.remove(number);
            family.removed.insert(*number);
        }
        for (level, file) in &edit.added_files {
            family.live.insert(file.number, *level);
            family.removed.remove(&file.number);
            self.tables
                .insert(file.number, (edit.family, Arc::clone(file)));
        }
    }
}

impl ColumnFamilyHistory {
    /// Whether a version edit deleted table `number` and none added it again.
    pub(super) fn has_removed(&self, number: FileNumber) -> bool {
        self.removed.contains(&number)
    }
}
