//! The counters of a version set, in edits and after these are durable.

use koeldb_base::key::MAX_SEQNO;

use super::VersionSet;
use crate::version::edit::{ColumnFamilyChange, VersionEdit};
use crate::version::recovery;

impl VersionSet {
    /// Adds the new `min_log_number_to_keep` to edits that advance log numbers or drop families.
    ///
    /// COMPAT: the deletion of tracked logs is a separate edit, after the others. RocksDB ignores
    /// the added and deleted files of an edit that deletes logs.
    pub(super) fn fill_logs(&self, edits: &mut Vec<VersionEdit>) {
        let advances = |edit: &VersionEdit| {
            edit.min_log_number_to_keep.is_none()
                && (edit.log_number.is_some()
                    || edit.family_change == Some(ColumnFamilyChange::Drop))
        };
        if !edits.iter().any(advances) {
            return;
        }
        let needed = self.families.values().filter_map(|family| {
            let mut log_number = family.needed_from;
            for edit in edits.iter().filter(|edit| edit.family == family.id) {
                if edit.family_change == Some(ColumnFamilyChange::Drop) {
                    return None;
                }
                log_number = log_number.max(edit.log_number.unwrap_or(0));
            }
            Some(log_number)
        });
        let min = needed.min().unwrap_or(0);
        if min > self.min_log_number_to_keep
            && let Some(first) = edits.first_mut()
        {
            first.min_log_number_to_keep = Some(min);
            if self.wals.range(..min).next().is_some() {
                edits.push(VersionEdit {
                    wal_deletion: Some(min),
                    ..VersionEdit::default()
                });
            }
        }
    }

    /// Sets the file number, sequence number and atomic group fields of edits to be written.
    pub(super) fn fill_counters(&mut self, edits: &mut [VersionEdit], begins_manifest: bool) {
        for edit in &*edits {
            let of_files = edit.added_files.iter().map(|(_, file)| file.largest_seqno);
            let largest = of_files.chain(edit.last_seqno).max();
            self.raise_last_seqno(largest.unwrap_or(0).min(MAX_SEQNO));
        }
        // A deletion of logs follows the group and is not part of it.
        let is_ordinary =
            |edit: &VersionEdit| edit.wal_deletion.is_none() || edit.log_number.is_some();
        let count = edits.iter().filter(|edit| is_ordinary(edit)).count();
        // COMPAT: RocksDB writes no groups that create or drop families.
        let is_group = count > 1 && edits.iter().all(|edit| edit.family_change.is_none());
        let next_file_number = self.numbers.peek();
        for (index, edit) in edits.iter_mut().take(count).enumerate() {
            edit.prev_log_number = Some(0);
            edit.next_file_number = Some(next_file_number);
            edit.last_seqno = Some(self.last_seqno);
            edit.remaining_in_group = if is_group {
                u32::try_from(count - 1 - index).ok()
            } else {
                None
            };
            if index == 0 && begins_manifest && self.max_column_family > 0 {
                edit.max_column_family = Some(self.max_column_family);
            }
        }
    }

    /// Applies the WAL changes of durable edits to the state of the version set.
    pub(super) fn note(&mut self, edits: &[VersionEdit]) {
        for edit in edits {
            if let Some(min) = edit.min_log_number_to_keep {
                self.min_log_number_to_keep = self.min_log_number_to_keep.max(min);
            }
            for wal in &edit.wal_additions {
                recovery::track(&mut self.wals, *wal);
            }
            if let Some(below) = edit.wal_deletion {
                self.wals = self.wals.split_off(&below);
            }
        }
    }
}
