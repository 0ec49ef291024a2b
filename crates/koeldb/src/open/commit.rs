//! Makes the recovered state that of the database: a new log, then one edit in a new MANIFEST.

use std::collections::BTreeMap;
use std::sync::Arc;

use koeldb_base::{Result, file_name};
use koeldb_fs::{Purpose, WriteOptions};
use koeldb_lsm::version::{VersionEdit, VersionSet};

use super::Opening;
use super::replay::Recovered;
use crate::commit::queue::TIMESTAMP_SIZE;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::table_files::TableFiles;
use crate::wal::{Wal, new_wal_file, wal_writer};

impl Opening {
    /// Creates a new WAL file, and logs the recovered state as version edits in a new MANIFEST.
    pub(super) fn commit_recovery(
        &self,
        versions: &mut VersionSet,
        families: &BTreeMap<u32, Arc<ColumnFamilyData>>,
        recovered: &Recovered,
        table_files: &TableFiles,
    ) -> Result<Wal> {
        self.sync_kept_logs(recovered)?;
        let number = table_files.numbers.next();
        let file = new_wal_file(&*self.fs, &self.wal_dir, number, &self.db.wal_file())?;
        let mut writer = wal_writer(file, number, &self.db)?;
        versions.raise_last_seqno(recovered.last_seqno);
        if recovered.stopped_early {
            // By this empty batch the next recovery, in KoelDB or RocksDB, recognizes that no data
            // is missing (W2).
            let mut empty = [0; crate::batch::HEADER_BYTES];
            empty[..8].copy_from_slice(&recovered.next_seqno.to_le_bytes());
            writer.add_record(&empty)?;
            writer.sync()?;
            self.fs.sync_dir(&self.wal_dir)?;
        }
        if !recovered.undecided.is_empty() {
            // Without it, RocksDB takes the keys of the sections for ones without timestamps.
            let dated = families.values().filter(|family| family.has_timestamps);
            let sizes: Vec<_> = dated.map(|family| (family.id, TIMESTAMP_SIZE)).collect();
            writer.declare_timestamps(&sizes)?;
            for section in &recovered.undecided {
                let mut record = recovered.next_seqno.to_le_bytes().to_vec();
                record.extend_from_slice(&section.count.to_le_bytes());
                record.extend_from_slice(&section.prepare_again());
                writer.add_record(&record)?;
            }
            writer.sync()?;
            self.fs.sync_dir(&self.wal_dir)?;
        }
        // The originals are removed with other obsolete logs once this edit is durable (W3).
        for &damaged in &recovered.archive {
            koeldb_log::wal::keep_in_archive(&*self.fs, &self.wal_dir, damaged)?;
        }
        let edits = families
            .keys()
            .map(|&id| {
                let mut edit = VersionEdit::of(id);
                edit.log_number = Some(number).filter(|_| !recovered.in_memory.contains_key(&id));
                for flushed in recovered.flushed.iter().filter(|it| it.family == id) {
                    edit.added_files.push((0, Arc::clone(&flushed.table)));
                    let blob_files = flushed.blob_files.iter().cloned();
                    edit.added_blob_files.extend(blob_files);
                }
                let rewritten = || recovered.rewritten.iter().filter(move |it| it.family == id);
                if let Some(family) = versions.family(id) {
                    let newest = recovered.newest_flushed.get(&id).copied();
                    edit.full_history_ts_low = family.current().raised_by_flush(newest);
                    let removed = rewritten().map(|table| &table.old);
                    let added = rewritten().flat_map(|table| &table.new);
                    edit.blob_garbage = family.current().garbage_of_replaced(removed, added);
                }
                for table in rewritten() {
                    edit.deleted_files.push((table.level, table.old.number));
                    let new = table.new.iter();
                    edit.added_files
                        .extend(new.map(|new| (table.level, Arc::clone(new))));
                }
                edit
            })
            .collect();
        // An edit without files installs no version.
        let mut installed: BTreeMap<_, _> = versions.log_and_apply(edits)?.into_iter().collect();
        for (id, family) in families {
            let version = installed.remove(id);
            let first_log = recovered.in_memory.get(id).copied().unwrap_or(number);
            family.restart(version.unwrap_or_else(|| family.version()), first_log);
        }
        Ok(Wal {
            writer,
            number,
            // The edit began a MANIFEST, whose name in CURRENT was synced with its directory.
            is_entry_synced: self.wal_dir == self.path
                || recovered.stopped_early
                || !recovered.undecided.is_empty(),
            has_unsynced: false,
            follows: recovered.kept.last().map(|(number, _)| *number),
            is_linked: false,
            unconfirmed: None,
            next_seqno: recovered.next_seqno,
            beside: None,
        })
    }

    /// Syncs the replayed WAL files that stay in use, before a later one can become durable (O6).
    fn sync_kept_logs(&self, recovered: &Recovered) -> Result<()> {
        for &(number, _) in &recovered.kept {
            let path = file_name::wal(&self.wal_dir, number);
            let mut log = self.fs.append(&path, &WriteOptions::new(Purpose::Wal))?;
            log.sync_data()?;
            log.close()?;
        }
        if recovered.kept.is_empty() {
            return Ok(());
        }
        self.fs.sync_dir(&self.wal_dir)
    }
}
