//! Flushes: sealed memtables become tables of level 0.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koeldb_base::Result;
use koeldb_base::error::Severity;
use koeldb_base::file_name::FileNumber;
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_lsm::FileMeta;
use koeldb_lsm::version::{BlobFileMeta, VersionEdit, VersionSet};
use koeldb_memtable::Memtable;
use koeldb_table::TableProperties;
use koeldb_table::builder::TableReason;

use super::{Background, job_info};
use crate::env::thread_status::ThreadOperation;
use crate::report::StallCondition;
use crate::report::listener::{Event, FlushJobInfo, FlushReason};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::cuts::Cuts;
use crate::state::health::catch_panics;
use crate::state::info_log::JobId;
use crate::state::memtables::newest_timestamp;
use crate::state::spans;
use crate::state::work_queue::WorkKind;

/// A column family, and the memtables that a flush has taken, oldest first.
type TakenMemtables = (Arc<ColumnFamilyData>, Vec<Arc<Memtable>>);

/// The flush of one column family within an atomic flush; no file if its memtables were empty.
struct FlushedFamily {
    file: Option<Arc<FileMeta>>,
    blob_files: Vec<BlobFileMeta>,
    properties: Option<TableProperties>,
    info: FlushJobInfo,
}

/// A guard that blocks all flushes while it lives, except those of error recovery (`Db::resume`).
pub(crate) struct FlushHold<'b>(&'b Background);

impl Drop for FlushHold<'_> {
    fn drop(&mut self) {
        self.0.holds_flushes.store(false, Ordering::SeqCst);
        self.0.slots.notify();
    }
}

/// Returns the low mark of history to be recorded with a flush of `memtables`, if it has to rise.
fn raised_history(
    versions: &VersionSet,
    family: &ColumnFamilyData,
    memtables: &[Arc<Memtable>],
) -> Option<Vec<u8>> {
    let version = versions.family(family.id)?.current();
    version.raised_by_flush(newest_timestamp(memtables))
}

impl Background {
    /// Flushes all sealed memtables of `family`; `false` if it has none or a flush of it runs.
    ///
    /// Also `false` while a resume runs, and while logs are given up whose data is not in tables.
    /// With `atomic_flush`, it flushes the sealed memtables of all column families.
    pub(crate) fn flush_sealed(self: &Arc<Self>, family: &Arc<ColumnFamilyData>) -> Result<bool> {
        if let Some(cuts) = self.families.cuts() {
            return self.flush_cuts(cuts);
        }
        let taken = family.update(|state| {
            // A family that is flushed alone past a given-up log would be ahead of the others.
            let is_held = self.holds_flushes.load(Ordering::SeqCst) || self.health.gave_up_logs();
            if is_held || state.flushing > 0 || state.sealed.is_empty() {
                return Vec::new();
            }
            state.flushing = state.sealed.len();
            state.flush_requested = false;
            for sealed in &state.sealed {
                sealed.update_charge();
            }
            state
                .sealed
                .iter()
                .map(|sealed| Arc::clone(&sealed.memtable))
                .collect()
        });
        if taken.is_empty() {
            return Ok(false);
        }
        let outcome = catch_panics(|| self.flush_memtables(family, &taken));
        if outcome.is_err() {
            family.give_up_flush();
        }
        self.slots.notify();
        outcome.map(|()| true)
    }

    /// Flushes all sealed memtables of `family`, and waits for flushes of other threads.
    pub(crate) fn flush_until_empty(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
    ) -> Result<()> {
        while family.read(|state| !state.sealed.is_empty()) {
            if family.is_dropped() {
                return Ok(());
            }
            if !self.flush_sealed(family)? {
                // A resume flushes them, and may wait for the leadership of this caller.
                if let Some(failure) = self.health.failure() {
                    return Err(failure);
                }
                let running = self.slots.running();
                drop(self.slots.wait(running, Duration::from_millis(10)));
            }
        }
        Ok(())
    }

    /// Flushes the `taken` oldest memtables of a column family to one table and installs it.
    fn flush_memtables(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        taken: &[Arc<Memtable>],
    ) -> Result<()> {
        let _tracked = self.context.track(ThreadOperation::Flush, &family.name);
        let begun = self.context.clock.now();
        let job = self.context.info_log.new_job();
        let _span = spans::flush(&family.name, job);
        let reason = family.read(|state| state.flush_reason);
        self.context
            .info_log
            .flush_started(job, family, taken, reason);
        self.count_flush(reason, taken);
        let mut info = self.flush_info(job, family, reason);
        self.context.listeners.report_sealed();
        self.context.notify(&Event::FlushBegin(&info));
        let epoch = family.epochs.next();
        let flush = self.context.table_files.flush(
            job,
            family,
            taken,
            &self.visibility.snapshots.all(),
            epoch,
            TableReason::Flush,
        )?;
        let file = flush.file.map(Arc::new);
        let is_installed = self.install_flush(family, taken, file.as_ref(), &flush.blob_files)?;
        if !is_installed {
            // Handles of a dropped family read its memtables, as no table has what is in them.
            family.update_and_install(self.context.stall(), |state| {
                state.flushing = 0;
            });
            self.tree.discard(family, file.iter());
            self.tree.discard_blob_files(family, &flush.blob_files);
            return Ok(());
        }
        self.notify_fallbacks(family, flush.fallback);
        let table = file
            .as_deref()
            .map(|file| (file, flush.properties.as_ref()));
        self.notify_flushed(family, table, &flush.blob_files, begun, &mut info);
        self.tree.remove_obsolete_files();
        self.check_space();
        self.schedule();
        Ok(())
    }

    /// Installs the table of the `taken` oldest memtables; `false` if the family was dropped.
    fn install_flush(
        &self,
        family: &Arc<ColumnFamilyData>,
        taken: &[Arc<Memtable>],
        file: Option<&Arc<FileMeta>>,
        blob_files: &[BlobFileMeta],
    ) -> Result<bool> {
        // If several column families share logs, the logs after the flushed memtables are synced
        // before the flush is recorded: otherwise a power cut could leave one column family ahead
        // of the others (O7). Logs that are closed in the meantime are not among them.
        let behind = family.first_log_behind(taken.len());
        let empty = self.families.without_data();
        self.sync_logs_behind()?;
        let mut versions = self.tree.versions();
        let mut edit = VersionEdit::of(family.id);
        edit.log_number = Some(behind);
        edit.added_files
            .extend(file.map(|file| (0, Arc::clone(file))));
        edit.added_blob_files = blob_files.to_vec();
        edit.full_history_ts_low = raised_history(&versions, family, taken);
        for (empty, first) in empty {
            versions.set_needed_from(empty, first);
        }
        self.tree.log_edit(&mut versions, family, edit, |state| {
            state.take_flushed(taken.len());
            state.flushing = 0;
        })
    }

    /// Counts a flush by its reason, and records the data size of its memtables.
    fn count_flush(&self, reason: FlushReason, memtables: &[Arc<Memtable>]) {
        match reason {
            FlushReason::WriteBufferFull => {
                self.context.count(Ticker::FlushReasonWriteBufferFull, 1);
            }
            FlushReason::WriteBufferManager => {
                self.context.count(Ticker::FlushReasonWriteBufferManager, 1);
            }
            _ => {}
        }
        let bytes = memtables.iter().map(|memtable| memtable.data_bytes()).sum();
        self.context
            .record(HistogramKind::FlushMemtableTotalDataSize, bytes);
    }

    /// Returns the description of a flush that begins.
    fn flush_info(
        &self,
        job: JobId,
        family: &ColumnFamilyData,
        reason: FlushReason,
    ) -> FlushJobInfo {
        let stall = family.read(|state| state.stall);
        FlushJobInfo {
            column_family: family.name.to_string(),
            column_family_id: family.id,
            job_id: job,
            file: None,
            path: None,
            properties: None,
            oldest_blob_file: 0,
            blob_files: Vec::new(),
            blob_compression: family.options().blob_compression_type,
            reason,
            triggered_writes_slowdown: matches!(stall, StallCondition::Delayed { .. }),
            triggered_writes_stop: matches!(stall, StallCondition::Stopped(_)),
            smallest_seqno: 0,
            largest_seqno: 0,
            bytes: 0,
            elapsed: Duration::ZERO,
        }
    }

    /// Reports a finished flush: statistics, info log and listeners.
    ///
    /// `table` is `None` if the flush wrote no table.
    fn notify_flushed(
        &self,
        family: &ColumnFamilyData,
        table: Option<(&FileMeta, Option<&TableProperties>)>,
        blob_files: &[BlobFileMeta],
        begun: Duration,
        info: &mut FlushJobInfo,
    ) {
        if let Some((file, _)) = table {
            info.file = Some(file.number);
            info.smallest_seqno = file.smallest_seqno;
            info.largest_seqno = file.largest_seqno;
            info.bytes = file.bytes;
        }
        info.elapsed = self.context.clock.now().saturating_sub(begun);
        self.context.count(Ticker::FlushWriteBytes, info.bytes);
        self.context.record_elapsed(HistogramKind::FlushTime, begun);
        self.context
            .info_log
            .flush_finished(info.job_id, family, table, info.elapsed);
        if !self.context.listeners.is_empty() {
            job_info::add_flushed(info, family, table, blob_files);
        }
        self.context.notify(&Event::FlushCompleted(info));
    }

    /// Waits for running flushes, and blocks new ones until the guard is dropped.
    ///
    /// [`Background::flush_all_as_one`] is not blocked.
    pub(crate) fn hold_flushes(&self) -> FlushHold<'_> {
        self.holds_flushes.store(true, Ordering::SeqCst);
        let hold = FlushHold(self);
        self.wait_for_flushes();
        hold
    }

    /// Waits until no flush is running.
    fn wait_for_flushes(&self) {
        let is_flushing = |family: &Arc<ColumnFamilyData>| family.read(|state| state.flushing > 0);
        loop {
            let is_any = self.families.cuts().is_some_and(Cuts::is_flushing)
                || self.families.all().iter().any(is_flushing);
            let running = self.slots.running();
            if running.flushes == 0 && !is_any {
                return;
            }
            drop(self.slots.wait(running, Duration::from_millis(10)));
        }
    }

    /// Flushes all sealed memtables of all column families; `false` if there are none or it runs.
    ///
    /// (RocksDB: `AtomicFlushMemTablesToOutputFiles`)
    fn flush_cuts(self: &Arc<Self>, cuts: &Cuts) -> Result<bool> {
        let taken = {
            let mut cut = cuts.begin();
            let is_held = self.holds_flushes.load(Ordering::SeqCst) || self.health.gave_up_logs();
            if is_held || cut.is_flushing {
                return Ok(false);
            }
            let mut taken = self.take_all_sealed();
            taken.retain(|(_, memtables)| !memtables.is_empty());
            if taken.is_empty() {
                return Ok(false);
            }
            cut.is_flushing = true;
            taken
        };
        let outcome = self.flush_taken(&taken, None);
        cuts.end_flush();
        // Those that were sealed meanwhile were passed over.
        self.families.queue_all_for(WorkKind::Flush);
        self.slots.notify();
        outcome?;
        self.check_space();
        self.schedule();
        Ok(true)
    }

    /// Flushes all sealed memtables of all column families atomically, by one MANIFEST change.
    ///
    /// Used when logs are abandoned: their ends may be lost and may contain a failed batch, so that
    /// column families must not be recovered to different points.
    pub(crate) fn flush_all_as_one(self: &Arc<Self>) -> Result<()> {
        let taken = self.take_all_sealed();
        let outcome = self.flush_taken(&taken, Some(FlushReason::ErrorRecovery));
        self.slots.notify();
        outcome
    }

    /// Takes all sealed memtables of all column families for a flush.
    fn take_all_sealed(&self) -> Vec<TakenMemtables> {
        let take = |family: Arc<ColumnFamilyData>| {
            let memtables: Vec<Arc<Memtable>> = family.update(|state| {
                state.flushing = state.sealed.len();
                state.flush_requested = false;
                for sealed in &state.sealed {
                    sealed.update_charge();
                }
                let sealed = state.sealed.iter();
                sealed.map(|sealed| Arc::clone(&sealed.memtable)).collect()
            });
            (family, memtables)
        };
        self.families.all().into_iter().map(take).collect()
    }

    /// Flushes the `taken` memtables atomically, and makes them eligible again if that fails.
    fn flush_taken(&self, taken: &[TakenMemtables], reason: Option<FlushReason>) -> Result<()> {
        let outcome = catch_panics(|| self.flush_as_one(taken, reason));
        if outcome.is_err() {
            for (family, _) in taken {
                family.give_up_flush();
            }
        }
        outcome
    }

    /// Writes the tables of the `taken` memtables and installs them in one MANIFEST change.
    ///
    /// Without a common `reason`, that of each column family is reported.
    fn flush_as_one(&self, taken: &[TakenMemtables], reason: Option<FlushReason>) -> Result<()> {
        let begun = self.context.clock.now();
        let mut flushed = Vec::new();
        if let Err(error) = self.write_tables_of(taken, reason, &mut flushed) {
            for ((family, _), one) in taken.iter().zip(&flushed) {
                self.tree.discard(family, one.file.as_ref());
                self.tree.discard_blob_files(family, &one.blob_files);
            }
            return Err(error);
        }
        // A family may be dropped once the version set is unlocked, so the installation alone decides
        // which tables are part of the tree.
        let are_installed = self.install_as_one(taken, reason, &flushed)?;
        let all = taken.iter().zip(&mut flushed).zip(are_installed);
        for (((family, _), flushed), is_installed) in all {
            let file = flushed.file.as_ref();
            if is_installed {
                let table = file.map(|file| (&**file, flushed.properties.as_ref()));
                let blob_files = &flushed.blob_files;
                self.notify_flushed(family, table, blob_files, begun, &mut flushed.info);
            } else {
                self.tree.discard(family, file);
                self.tree.discard_blob_files(family, &flushed.blob_files);
            }
        }
        self.tree.remove_obsolete_files();
        Ok(())
    }

    /// Writes the tables of an atomic flush, at most one per family; stops at the first error.
    ///
    /// Adds each finished family to `flushed`.
    fn write_tables_of(
        &self,
        taken: &[TakenMemtables],
        common_reason: Option<FlushReason>,
        flushed: &mut Vec<FlushedFamily>,
    ) -> Result<()> {
        let job = self.context.info_log.new_job();
        let snapshots = self.visibility.snapshots.all();
        self.context.listeners.report_sealed();
        for (family, memtables) in taken {
            let _tracked = self.context.track(ThreadOperation::Flush, &family.name);
            let _span = spans::flush(&family.name, job);
            let reason = common_reason.unwrap_or_else(|| family.read(|state| state.flush_reason));
            self.context
                .info_log
                .flush_started(job, family, memtables, reason);
            self.count_flush(reason, memtables);
            let info = self.flush_info(job, family, reason);
            self.context.notify(&Event::FlushBegin(&info));
            let epoch = family.epochs.next();
            let flush = self.context.table_files.flush(
                job,
                family,
                memtables,
                &snapshots,
                epoch,
                TableReason::Flush,
            )?;
            self.notify_fallbacks(family, flush.fallback);
            flushed.push(FlushedFamily {
                file: flush.file.map(Arc::new),
                blob_files: flush.blob_files,
                properties: flush.properties,
                info,
            });
        }
        Ok(())
    }

    /// Installs the tables of an atomic flush by one MANIFEST change, except of dropped families.
    ///
    /// Returns whether each of them was installed.
    fn install_as_one(
        &self,
        taken: &[TakenMemtables],
        reason: Option<FlushReason>,
        flushed: &[FlushedFamily],
    ) -> Result<Vec<bool>> {
        // The logs as they are before the sync, as in the flush of one column family.
        let behind: Vec<FileNumber> = taken
            .iter()
            .map(|(family, memtables)| family.first_log_behind(memtables.len()))
            .collect();
        let empty = self.families.without_data();
        if reason != Some(FlushReason::ErrorRecovery) {
            self.sync_logs_behind()?;
        }
        // A resume syncs no older log: all column families leave them in one edit. Its logs after
        // the memtables are those from before: while writes are stopped no memtable is sealed and
        // no log is created, so all active memtables are empty and start with the log that replaced
        // the abandoned one.
        let mut versions = self.tree.versions();
        versions.raise_last_seqno(self.visibility.seqno());
        let are_live: Vec<bool> = taken
            .iter()
            .map(|(family, _)| versions.family(family.id).is_some())
            .collect();
        for (empty, first) in empty {
            versions.set_needed_from(empty, first);
        }
        let mut edits = Vec::new();
        for ((((family, memtables), flushed), &is_live), behind) in
            taken.iter().zip(flushed).zip(&are_live).zip(behind)
        {
            if is_live {
                let mut edit = VersionEdit::of(family.id);
                edit.log_number = Some(behind);
                edit.added_files
                    .extend(flushed.file.iter().map(|file| (0, Arc::clone(file))));
                edit.added_blob_files.clone_from(&flushed.blob_files);
                edit.full_history_ts_low = raised_history(&versions, family, memtables);
                edits.push(edit);
            }
        }
        let installed = match edits.is_empty() {
            true => Vec::new(),
            false => versions
                .log_and_apply(edits)
                .map_err(|error| self.health.manifest_failed(error))?,
        };
        for ((family, memtables), &is_live) in taken.iter().zip(&are_live) {
            let version = installed.iter().find(|(id, _)| *id == family.id);
            family.update_and_install(self.context.stall(), |state| {
                if is_live {
                    state.take_flushed(memtables.len());
                }
                state.flushing = 0;
                if let Some((_, version)) = version {
                    state.version = Arc::clone(version);
                }
            });
        }
        Ok(are_live)
    }

    /// Syncs the closed logs, if several column families share them, before a flush is recorded.
    fn sync_logs_behind(&self) -> Result<()> {
        if self.families.all().len() > 1 {
            self.wals.sync_closed().map_err(|error| {
                self.health.fail_writes(
                    error
                        .context("syncing closed logs")
                        .with_severity(Severity::Hard),
                )
            })?;
        }
        Ok(())
    }

    /// Waits while sealing the memtable of `family` and flushing it would stall writes.
    ///
    /// It does not wait for work that nobody does: with neither flushes nor compactions running or
    /// due, or after another thread has sealed the memtable.
    pub(crate) fn wait_until_flush_stalls_no_write(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
    ) -> Result<()> {
        let active = family.read(|state| Arc::clone(&state.active.memtable));
        let waits = || {
            !family.is_dropped()
                && !active.is_empty()
                && family.read(|state| Arc::ptr_eq(&state.active.memtable, &active))
                && family.would_stall_after_flush(self.context.delayed_write_rate())
        };
        while waits() {
            self.health.check_writable()?;
            self.health.check_open()?;
            self.schedule();
            let running = self.slots.running();
            if self.is_idle(&running) {
                break;
            }
            drop(self.slots.wait(running, Duration::from_millis(50)));
        }
        Ok(())
    }

    /// Waits until the sealed memtables of `families` are in tables.
    ///
    /// Dropped families are left out; it fails if there is no other.
    pub(crate) fn wait_until_flushed(
        self: &Arc<Self>,
        families: &[Arc<ColumnFamilyData>],
    ) -> Result<()> {
        for family in families {
            let target = family.read(|state| {
                state
                    .sealed
                    .last()
                    .map(|sealed| Arc::clone(&sealed.memtable))
            });
            let Some(target) = target else { continue };
            self.wait_while(|| {
                Ok(!family.is_dropped()
                    && family.read(|state| {
                        let mut sealed = state.sealed.iter();
                        sealed.any(|sealed| Arc::ptr_eq(&sealed.memtable, &target))
                    }))
            })?;
        }
        match families.first() {
            Some(first) if families.iter().all(|family| family.is_dropped()) => {
                Err(first.dropped_error())
            }
            _ => Ok(()),
        }
    }
}
