//! Garbage in blob files that no compaction counts: of tables that are removed unread, and what was
//! lost before the database was opened.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::Result;
use koeldb_lsm::blob_space::{References, TableReferences};
use koeldb_lsm::version::VersionEdit;
use koeldb_lsm::{FileMeta, TableOpener};

use super::Background;
use crate::state::column_family_data::ColumnFamilyData;

/// Opens the tables whose references to blob files are not known yet.
///
/// The references of a table that cannot be opened stay in doubt: whoever reads it gets the error.
pub(crate) fn learn_references<'f>(
    opener: &TableOpener,
    files: impl IntoIterator<Item = (usize, &'f Arc<FileMeta>)>,
) {
    for (level, file) in files {
        if file.references() == References::Unknown && opener.reader(file, level).is_err() {
            let _ = file.blob_references.set(TableReferences::Opaque);
        }
    }
}

impl Background {
    /// Records the garbage in blob files that the MANIFEST lacks, of all families in which something
    /// has changed.
    ///
    /// RocksDB records none for tables that it removes unread. Once all tables list their
    /// references, what is missing is known.
    pub(super) fn settle_blob_garbage(&self) -> Result<()> {
        for family in self.families.with_compaction_work() {
            if family.version().blob_files.is_empty() || family.is_dropped() {
                continue;
            }
            let version = family.version();
            learn_references(&family.tables, version.files());
            self.report_damaged_lists(&family);
            if version.unrecorded_garbage().is_empty() {
                continue;
            }
            let mut versions = self.tree.versions();
            // The missing garbage is computed from the version to which it is added.
            let Some(current) = versions.family(family.id) else {
                continue;
            };
            let garbage = current.current().unrecorded_garbage();
            if garbage.is_empty() {
                continue;
            }
            let bytes = garbage.iter().map(|one| one.bytes).sum::<u64>();
            self.context.info_log.info(format_args!(
                "[{}] {bytes} bytes of garbage in {} blob files were not in the MANIFEST",
                family.name,
                garbage.len()
            ));
            let mut edit = VersionEdit::of(family.id);
            edit.blob_garbage = garbage;
            self.tree.log_edit(&mut versions, &family, edit, |_| ())?;
        }
        Ok(())
    }

    /// Logs the tables whose lists of references are damaged, once for each column family.
    fn report_damaged_lists(&self, family: &ColumnFamilyData) {
        if family
            .blob_collection
            .has_reported
            .swap(true, Ordering::Relaxed)
        {
            return;
        }
        let version = family.version();
        for (_, file) in version.files() {
            if let Some(TableReferences::Damaged(reason)) = file.blob_references.get() {
                self.context.info_log.warn(format_args!(
                    "[{}] table {:06}.sst: the list of its references to blob files is not used: \
                     {reason}",
                    family.name, file.number
                ));
            }
        }
    }
}
