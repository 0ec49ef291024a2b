//! The space of tables that an [`SstFileManager`](crate::SstFileManager) allows.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::error::ErrorDetail;
use koeldb_base::stats::Ticker;
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_lsm::pick::CompactionPlan;

use super::Background;
use crate::env::sst_file_manager::{Reservation, TrackedDatabase, space_limit_reached};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::work_queue::WorkKind;

impl Background {
    /// Reserves the disk space that a compaction may need from the `SstFileManager`.
    ///
    /// # Errors
    /// `Incomplete` if it could pass the limit.
    pub(super) fn reserve_space(&self, plan: &CompactionPlan) -> Result<Option<Reservation>> {
        let writes = !plan.trivial_move && !plan.deletion_only;
        match &self.context.plugins.sst_file_manager {
            Some(manager) if writes => {
                // Before the check, so that space freed during the check is noticed.
                self.waits_for_space.store(true, Ordering::SeqCst);
                let reserved = manager.reserve(plan.input_bytes());
                let is_cancelled = u64::from(reserved.is_err());
                self.context
                    .count(Ticker::CompactionCancelled, is_cancelled);
                reserved.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Postpones the compactions of `family` until there is space.
    pub(super) fn postpone_compactions(&self, family: &ColumnFamilyData) {
        self.families.queue().leave(WorkKind::Compaction, family.id);
        if !self.waits_for_space.load(Ordering::SeqCst) {
            // Space was freed in the meantime.
            family.queue(WorkKind::Compaction);
        }
    }

    /// Stops writes if the `SstFileManager` has reached its `max_allowed_space_usage`.
    pub(super) fn check_space(&self) {
        if let Some(manager) = &self.context.plugins.sst_file_manager
            && manager.is_max_allowed_space_reached()
        {
            self.health.fail_writes(space_limit_reached());
        }
    }
}

/// Whether a compaction was refused because its output could exceed the space limit.
pub(super) fn is_short_of_space(error: &Error) -> bool {
    error.kind() == ErrorKind::Incomplete && error.detail() == Some(ErrorDetail::SpaceLimit)
}

impl TrackedDatabase for Background {
    fn table_bytes(&self) -> u64 {
        if self.health.is_closing() {
            return 0;
        }
        let families = self.families.all();
        let live = families.iter().map(|family| family.version().bytes());
        live.sum::<u64>() + self.tree.retired_bytes()
    }

    fn tables(&self) -> Vec<(PathBuf, u64)> {
        if self.health.is_closing() {
            return Vec::new();
        }
        let mut tables = self.tree.retired_tables();
        for family in &*self.families.all() {
            let version = family.version();
            let files = version.levels.iter().flat_map(|level| &level.files);
            let paths = family.tables.paths();
            tables.extend(files.map(|file| (paths.of_table(file), file.bytes)));
        }
        tables
    }

    fn space_changed(self: Arc<Self>) {
        if self.health.is_closing() {
            return;
        }
        if self.waits_for_space.swap(false, Ordering::SeqCst) {
            self.families.queue_all();
            self.schedule();
        }
        let failure = self.health.failure();
        if failure.is_some_and(|failure| failure.detail() == Some(ErrorDetail::SpaceLimit)) {
            self.health.report_failures();
        }
    }
}
