//! The tree of tables: the version set with its MANIFEST, the OPTIONS file, and obsolete files.
//!
//! A job hands in an edit; the tree logs it, installs the new version in its column family, and
//! removes obsolete files once nobody reads them. The mutex of the version set is held while the
//! MANIFEST is written; readers and writers are not blocked. The tree may use all storeys below: `wal`,
//! to which it tells the logs that no column family needs, and downwards.

mod families;
mod holds;
mod options_file;
mod purge;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, Result, Timestamp};
use koeldb_lsm::version::{BlobFileMeta, VersionEdit, VersionSet};
use koeldb_lsm::{FileMeta, Version};

use crate::state::column_family_data::{ColumnFamilyData, ColumnFamilyState};
use crate::state::column_family_set::ColumnFamilySet;
use crate::state::context::Context;
use crate::state::health::Health;
use crate::state::job_slots::JobSlots;
use crate::state::visibility::Visibility;
use crate::wal::WalSet;

pub(crate) use families::{
    NewFamily, TableToOpen, add_families, descriptor, new_family, open_tables,
};
pub(crate) use holds::Holds;
use options_file::OptionsFiles;
use purge::Purge;

/// The LSM tree's on-disk state: the version set with its MANIFEST, and the obsolete files.
pub(crate) struct Tree {
    context: Arc<Context>,
    health: Arc<Health>,
    slots: Arc<JobSlots>,
    families: Arc<ColumnFamilySet>,
    visibility: Arc<Visibility>,
    wals: Arc<WalSet>,
    versions: Mutex<VersionSet>,
    purge: Purge,
    /// The OPTIONS files; locked while a new one is written.
    options_file: Mutex<OptionsFiles>,
    /// The number of changes of options so far.
    options_changes: AtomicU64,
    /// The number of the newest OPTIONS file.
    options_number: AtomicU64,
}

/// The components of a database that a [`Tree`] shares, as arguments of [`Tree::new`].
pub(crate) struct TreeParts<'d> {
    pub(crate) context: &'d Arc<Context>,
    pub(crate) health: &'d Arc<Health>,
    pub(crate) slots: &'d Arc<JobSlots>,
    pub(crate) families: &'d Arc<ColumnFamilySet>,
    pub(crate) visibility: &'d Arc<Visibility>,
    pub(crate) wals: &'d Arc<WalSet>,
}

impl Tree {
    pub(crate) fn new(versions: VersionSet, parts: &TreeParts<'_>) -> Self {
        Tree {
            context: Arc::clone(parts.context),
            health: Arc::clone(parts.health),
            slots: Arc::clone(parts.slots),
            families: Arc::clone(parts.families),
            visibility: Arc::clone(parts.visibility),
            wals: Arc::clone(parts.wals),
            versions: Mutex::new(versions),
            purge: Purge::default(),
            options_file: Mutex::default(),
            options_changes: AtomicU64::new(0),
            options_number: AtomicU64::new(0),
        }
    }

    /// Locks and returns the version set.
    pub(crate) fn versions(&self) -> MutexGuard<'_, VersionSet> {
        lock(&self.versions)
    }

    /// Logs a version edit to the MANIFEST and installs the result (RocksDB: `LogAndApply`).
    ///
    /// `change` also alters the column family's state in the same step.
    ///
    /// Returns `false` without any effect if the column family was dropped in the meantime.
    pub(crate) fn log_edit(
        &self,
        versions: &mut VersionSet,
        family: &ColumnFamilyData,
        edit: VersionEdit,
        change: impl FnOnce(&mut ColumnFamilyState),
    ) -> Result<bool> {
        if versions.family(family.id).is_none() {
            return Ok(false);
        }
        versions.raise_last_seqno(self.visibility.seqno());
        let installed = versions
            .log_and_apply(vec![edit])
            .map_err(|error| self.health.manifest_failed(error))?;
        family.update_and_install(self.context.stall(), |state| {
            // An edit without files creates no version.
            if let Some((_, version)) = installed.into_iter().next() {
                let before = std::mem::replace(&mut state.version, version);
                self.retire_gone_blob_files(family, &before, &state.version);
            }
            change(state);
        });
        Ok(true)
    }

    /// Logs the drop of column families to the MANIFEST.
    pub(crate) fn drop_families(&self, dropped: &[Arc<ColumnFamilyData>]) -> Result<()> {
        let mut versions = self.versions();
        for (empty, first) in self.families.without_data() {
            versions.set_needed_from(empty, first);
        }
        // Later logs begin behind the writes to the column family.
        versions.raise_last_seqno(self.visibility.seqno());
        let ids: Vec<u32> = dropped.iter().map(|family| family.id).collect();
        versions
            .drop_families(&ids)
            .map_err(|error| self.health.manifest_failed(error))
    }

    /// Records tables that a version edit removed, to be deleted after their last reader.
    pub(crate) fn retire<'f>(
        &self,
        family: &ColumnFamilyData,
        files: impl IntoIterator<Item = &'f Arc<FileMeta>>,
    ) {
        self.purge.retire(family, files);
    }

    /// Deletes table files immediately that never became part of a version, such as a failed job's.
    pub(crate) fn discard<'f>(
        &self,
        family: &ColumnFamilyData,
        files: impl IntoIterator<Item = &'f Arc<FileMeta>>,
    ) {
        for file in files {
            // A file that cannot be removed now is an orphan that the next open removes.
            let path = family.tables.paths().of_table(file);
            let _ = self.context.fs.remove_file(&path);
        }
    }

    /// Deletes blob files immediately that never became part of a version.
    pub(crate) fn discard_blob_files(&self, family: &ColumnFamilyData, files: &[BlobFileMeta]) {
        let table_files = &self.context.table_files;
        table_files.remove_blob_files(&family.tables, files);
    }

    /// Records the blob files that `before` has and its successor `after` has not, to be deleted.
    pub(crate) fn retire_gone_blob_files(
        &self,
        family: &ColumnFamilyData,
        before: &Version,
        after: &Version,
    ) {
        let files = before.blob_files.values();
        let gone = files.filter(|file| !after.blob_files.contains_key(&file.number));
        self.purge.retire_blob_files(family, gone);
    }

    /// Records the blob files of a dropped column family, to be deleted.
    pub(crate) fn retire_blob_files(&self, family: &ColumnFamilyData) {
        let version = family.version();
        self.purge
            .retire_blob_files(family, version.blob_files.values());
    }

    /// Raises the user-defined timestamp below which history of `family` may be collapsed.
    ///
    /// # Errors
    /// `InvalidArgument` if it would fall.
    pub(crate) fn raise_history(&self, family: &ColumnFamilyData, low: &Timestamp) -> Result<()> {
        let mut versions = self.versions();
        let known = versions.family(family.id);
        let known = known.and_then(|family| family.current().full_history_ts_low);
        if let Some(known) = known
            && family.order.compare_timestamps(low, &known).is_lt()
        {
            return Err(Error::invalid_argument(format!(
                "full_history_ts_low cannot fall: it is {}, and {} was given",
                u64::from_le_bytes(known),
                u64::from_le_bytes(*low),
            )));
        }
        let mut edit = VersionEdit::of(family.id);
        edit.full_history_ts_low = Some(low.to_vec());
        match self.log_edit(&mut versions, family, edit, |_| ())? {
            true => Ok(()),
            false => Err(family.dropped_error()),
        }
    }

    /// Returns the counter of holds that forbid the deletion of obsolete files.
    pub(crate) fn holds(&self) -> &Holds {
        &self.purge.holds
    }
}
