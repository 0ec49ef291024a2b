//! Removes obsolete files.
//!
//! A durable edit removes a table from the tree; its metadata remains in the versions that readers
//! and jobs still hold. When the last of them is dropped, as the weak reference here shows, its
//! file is removed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use koeldb_base::Result;
use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::stats::Ticker;
use koeldb_base::sync::lock_plain as lock;
use koeldb_lsm::FileMeta;
use koeldb_lsm::version::{BlobFileMeta, WeakReader};

use crate::env::JobPriority;
use crate::env::sst_file_manager::ObsoleteFile;
use crate::report::listener::Event;
use crate::state::column_family_data::ColumnFamilyData;

use super::{Holds, Tree};

/// An obsolete blob file that was not deleted yet.
struct RetiredBlobFile {
    path: PathBuf,
    bytes: u64,
    /// Alive while a version has the file.
    reader: WeakReader,
}

/// An obsolete table whose file was not deleted yet.
struct RetiredTable {
    number: FileNumber,
    path: PathBuf,
    bytes: u64,
    file: Weak<FileMeta>,
}

/// The obsolete files that were not deleted yet, for example because readers still use them.
#[derive(Default)]
pub(crate) struct Purge {
    pub(crate) holds: Holds,
    retired: Mutex<Vec<RetiredTable>>,
    blob_files: Mutex<Vec<RetiredBlobFile>>,
    /// Logs and MANIFESTs that were still needed at the last check.
    manifests: Mutex<Vec<FileNumber>>,
    /// The function called when the last reader of an obsolete table is dropped.
    on_unused: OnceLock<Arc<dyn Fn() + Send + Sync>>,
}

impl Purge {
    /// Records tables that a version edit removed, to be deleted after their last reader.
    pub(crate) fn retire<'f>(
        &self,
        family: &ColumnFamilyData,
        files: impl IntoIterator<Item = &'f Arc<FileMeta>>,
    ) {
        let mut retired = lock(&self.retired);
        retired.extend(files.into_iter().map(|file| RetiredTable {
            number: file.number,
            path: family.tables.paths().of_table(file),
            bytes: file.bytes,
            file: Arc::downgrade(file),
        }));
    }

    /// Records blob files that the newest version does not have, to be deleted after the last one.
    pub(crate) fn retire_blob_files<'f>(
        &self,
        family: &ColumnFamilyData,
        files: impl IntoIterator<Item = &'f BlobFileMeta>,
    ) {
        lock(&self.blob_files).extend(files.into_iter().map(|file| RetiredBlobFile {
            path: family.tables.paths().blob(file.number),
            bytes: file.file_bytes(),
            reader: file.reader.downgrade(),
        }));
    }

    /// Takes the obsolete blob files that no version has off the list.
    ///
    /// Others get the hook that is called when the last version is dropped.
    fn take_unused_blob_files(&self) -> Vec<RetiredBlobFile> {
        let is_unused = |file: &mut RetiredBlobFile| {
            let used = file.reader.upgrade();
            if let (Some(reader), Some(on_unused)) = (&used, self.on_unused.get()) {
                reader.drop_hook().set(Arc::clone(on_unused));
            }
            used.is_none()
        };
        lock(&self.blob_files).extract_if(.., is_unused).collect()
    }

    /// Takes the obsolete tables without readers off the list.
    ///
    /// Tables still in use get the hook that is called when their last reader is dropped.
    fn take_unused(&self) -> Vec<RetiredTable> {
        let is_unused = |table: &mut RetiredTable| {
            let used = table.file.upgrade();
            if let (Some(file), Some(on_unused)) = (&used, self.on_unused.get()) {
                file.drop_hook.set(Arc::clone(on_unused));
            }
            used.is_none()
        };
        lock(&self.retired).extract_if(.., is_unused).collect()
    }
}

impl Tree {
    /// Returns the bytes of obsolete tables that were not deleted yet.
    pub(crate) fn retired_bytes(&self) -> u64 {
        let retired = lock(&self.purge.retired);
        retired.iter().map(|table| table.bytes).sum()
    }

    /// Enables the background deletion of obsolete tables when their last reader is dropped.
    ///
    /// The database may be idle from then on.
    pub(crate) fn begin_purging(self: &Arc<Self>) {
        let (tree, pool) = (Arc::downgrade(self), self.context.env.pool.clone());
        let is_requested = Arc::new(AtomicBool::new(false));
        let origin = self.context.origin;
        let on_unused = move || {
            // A forked child has no background threads and leaves the directory alone.
            if !origin.is_here() {
                return;
            }
            if is_requested.swap(true, Ordering::AcqRel) {
                return;
            }
            let (tree, is_requested) = (Weak::clone(&tree), Arc::clone(&is_requested));
            pool.submit(JobPriority::High, move || {
                is_requested.store(false, Ordering::Release);
                let Some(tree) = tree.upgrade() else { return };
                if let Ok(_foreground) = tree.slots.enter() {
                    tree.remove_obsolete_files();
                }
            });
        };
        let _ = self.purge.on_unused.set(Arc::new(on_unused));
    }

    /// Deletes obsolete tables, logs and MANIFESTs, unless a hold forbids file deletions.
    ///
    /// A file that cannot be removed is an orphan that the next open removes.
    pub(crate) fn remove_obsolete_files(&self) {
        if self.context.read_only {
            return;
        }
        let removed = match self.purge.holds.begin_removal() {
            Some(_removal) => self.remove_unheld_files(),
            None => return,
        };
        if let Some(manager) = &self.context.plugins.sst_file_manager
            && !removed.is_empty()
        {
            manager.tables_removed();
        }
        // A listener may take a hold, which waits for the end of the removal.
        for number in removed {
            self.context.notify(&Event::TableFileDeleted(number));
        }
    }

    /// Deletes obsolete files without checking for holds; returns the numbers of deleted tables.
    fn remove_unheld_files(&self) -> Vec<FileNumber> {
        let mut removed = Vec::new();
        let (is_uncertain, manifest) = {
            let versions = lock(&self.versions);
            (versions.is_uncertain(), versions.oldest_manifest())
        };
        // After a failed MANIFEST write the state on disk is unknown: nothing may be removed (O21).
        if is_uncertain {
            return removed;
        }
        let unused = self.purge.take_unused();
        let job = match unused.is_empty() {
            true => 0,
            false => self.context.info_log.new_job(),
        };
        for table in unused {
            let RetiredTable { number, path, .. } = table;
            let outcome = self.remove_table(&path, table.bytes);
            self.context.info_log.table_deleted(job, number, &outcome);
            match outcome {
                Ok(()) => removed.push(number),
                Err(error) => self
                    .context
                    .info_log
                    .warn(format_args!("removing {}: {error}", path.display())),
            }
        }
        for file in self.purge.take_unused_blob_files() {
            if let Err(error) = self.remove_table(&file.path, file.bytes) {
                let log = &self.context.info_log;
                log.warn(format_args!("removing {}: {error}", file.path.display()));
            }
        }
        self.remove_obsolete_logs();
        let old_manifests: Vec<FileNumber> = {
            let mut known = lock(&self.purge.manifests);
            if known.last() != Some(&manifest) {
                known.push(manifest);
            }
            let (old, live) = known.iter().partition(|&&number| number < manifest);
            *known = live;
            old
        };
        for number in old_manifests {
            // Already removed if it was never the current one.
            let _ = self
                .context
                .fs
                .remove_file(&file_name::manifest(&self.context.path, number));
        }
        removed
    }

    /// Deletes an obsolete table file, or passes it to the `SstFileManager`.
    fn remove_table(&self, path: &Path, bytes: u64) -> Result<()> {
        let context = &self.context;
        let Some(manager) = &context.plugins.sst_file_manager else {
            context.fs.remove_file(path)?;
            context.count(Ticker::FilesDeletedImmediately, 1);
            return Ok(());
        };
        let file = ObsoleteFile {
            env: &context.env,
            path,
            bytes,
            may_be_mapped: context.db_options.allow_mmap_reads,
            statistics: context.statistics.as_ref(),
        };
        manager.remove(file).map(drop)
    }

    /// Returns the paths and sizes of obsolete tables that were not deleted yet.
    pub(crate) fn retired_tables(&self) -> Vec<(PathBuf, u64)> {
        let retired = lock(&self.purge.retired);
        let tables = retired
            .iter()
            .map(|table| (table.path.clone(), table.bytes));
        tables.collect()
    }

    /// Removes the logs before the `min_log_number_to_keep` of the version set.
    fn remove_obsolete_logs(&self) {
        let min_needed = lock(&self.versions).min_log_number_to_keep();
        self.wals.remove_before(min_needed);
    }

    /// Deletes obsolete files after the last hold has ended, unless the database is closed.
    ///
    /// A closed database leaves them to the next open.
    pub(crate) fn remove_after_holds(&self) {
        if self.context.is_forked() {
            return;
        }
        if let Ok(_foreground) = self.slots.enter() {
            self.remove_obsolete_files();
        }
    }

    /// Returns the directory of the database.
    pub(crate) fn path(&self) -> &Path {
        &self.context.path
    }
}
