//! Writes recovered memtables to tables: full ones during replay, or all of them at its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use koeldb_base::Result;
use koeldb_base::file_name::FileNumber;
use koeldb_lsm::FileMeta;
use koeldb_lsm::job::LiveSnapshots;
use koeldb_lsm::version::BlobFileMeta;
use koeldb_table::builder::TableReason;

use super::Replay;
use crate::options::DbOptions;
use crate::report::RecoveryReport;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::info_log::RECOVERY_JOB;
use crate::state::table_files::TableFiles;

/// A table that a recovery wrote, which is not part of a version yet.
pub(crate) struct FlushedTable {
    pub(crate) family: u32,
    pub(crate) table: Arc<FileMeta>,
    /// The new blob files to which the table refers.
    pub(crate) blob_files: Vec<BlobFileMeta>,
}

impl Replay<'_> {
    /// Flushes memtables that are full, between two replayed batches.
    pub(super) fn flush_full(&mut self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        for family in self.families.values() {
            let is_full = family.read(|state| {
                state.active.memtable.filled_bytes() as u64 >= state.options.write_buffer_size
            });
            if is_full {
                self.flush(family)?;
            }
        }
        self.flush_beyond_memory()
    }

    /// Flushes the largest memtable if all together are near the limit of the write buffer manager.
    pub(super) fn flush_beyond_memory(&mut self) -> Result<()> {
        let Some(memory_max) = self.memory_max else {
            return Ok(());
        };
        let bytes_of = |family: &ColumnFamilyData| {
            family.read(|state| state.active.memtable.filled_bytes() as u64)
        };
        let families = self
            .families
            .values()
            .map(|family| (bytes_of(family), family));
        let bytes: u64 = families.clone().map(|(bytes, _)| bytes).sum();
        let largest = families.max_by_key(|(bytes, _)| *bytes);
        match largest {
            Some((_, largest)) if bytes > memory_max / 8 * 7 => self.flush(largest),
            _ => Ok(()),
        }
    }

    /// Whether memtables may stay unflushed (`avoid_flush_during_recovery`) and the logs in use.
    ///
    /// All logs must be whole, and no data of them may be in tables.
    ///
    /// Otherwise the next replay could stop at the damage, before later logs, or meet data twice.
    pub(super) fn may_keep_memtables(&self, report: &RecoveryReport) -> bool {
        let is_whole = report.logs.iter().all(|log| log.problem.is_none())
            && !report.dropped_anything()
            && !self.spans_logs
            && !self.has_shared_numbers;
        let end_of_record = self.end_of_record.map(|(end, _)| end);
        let is_in_step = self.next_seqno.is_some() && end_of_record == self.next_seqno;
        is_whole
            && is_in_step
            && self.flushed.is_empty()
            && self.sections.first_prepared().is_none()
            && !self.sections.leaves_out()
    }

    /// Returns the column families with non-empty memtables, with the first log that each needs.
    pub(super) fn unflushed(&self) -> BTreeMap<u32, FileNumber> {
        let families = self.families.values();
        let filled =
            families.filter(|family| family.read(|state| !state.active.memtable.is_empty()));
        filled
            .filter_map(|family| Some((family.id, *self.log_numbers.get(&family.id)?)))
            .collect()
    }

    /// Flushes the memtables of all column families.
    pub(super) fn flush_all(&mut self) -> Result<()> {
        for family in self.families.values() {
            self.flush(family)?;
        }
        Ok(())
    }

    /// Flushes the memtable of a column family to a level-0 table, unless it is empty.
    fn flush(&mut self, family: &ColumnFamilyData) -> Result<()> {
        let memtable = family.read(|state| Arc::clone(&state.active.memtable));
        if memtable.is_empty() {
            return Ok(());
        }
        memtable.seal();
        let epoch = family.epochs.next();
        let newest = memtable.newest_timestamp();
        let flush = self.table_files.flush(
            RECOVERY_JOB,
            family,
            &[memtable],
            &LiveSnapshots::default(),
            epoch,
            TableReason::Recovery,
        )?;
        if let Some(table) = flush.file {
            self.flushed.push(FlushedTable {
                family: family.id,
                table: Arc::new(table),
                blob_files: flush.blob_files,
            });
        }
        if let Some(newest) = newest {
            let known = self.newest_flushed.entry(family.id).or_insert(newest);
            if u64::from_le_bytes(newest) > u64::from_le_bytes(*known) {
                *known = newest;
            }
        }
        family.renew_memtable();
        Ok(())
    }
}

/// Removes tables and their blob files; what remains of them is removed by the next open.
pub(super) fn discard(
    flushed: &[FlushedTable],
    families: &BTreeMap<u32, Arc<ColumnFamilyData>>,
    table_files: &TableFiles,
) {
    for flushed in flushed {
        if let Some(family) = families.get(&flushed.family) {
            table_files.remove(family, &flushed.table);
            table_files.remove_blob_files(&family.tables, &flushed.blob_files);
        }
    }
}

/// Returns the write buffer manager's limit, if recovery has to keep it.
pub(super) fn memory_max(db: &DbOptions, table_files: &TableFiles) -> Option<u64> {
    if !db.enforce_write_buffer_manager_during_recovery {
        return None;
    }
    let manager = table_files.memtables.write_buffers.as_ref()?;
    Some(manager.get_buffer_size()).filter(|&bytes| bytes > 0)
}
