//! The execution of compaction plans: moving, dropping or merging tables, and the installation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use koeldb_base::Result;
use koeldb_base::codec::Compression;
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::sync::lock_plain as lock;
use koeldb_lsm::FileMeta;
use koeldb_lsm::job::Fallback;
use koeldb_lsm::pick::{CompactionPlan, CompactionReason};
use koeldb_lsm::version::{BlobFileMeta, BlobGarbage, VersionEdit};
use koeldb_table::TableProperties;

use super::blob_garbage::learn_references;
use super::remote::WorkerJob;
use super::{Background, is_given_up};
use crate::env::thread_status::ThreadOperation;
use crate::options::BlobGarbageCollectionPolicy;
use crate::report::listener::{CompactionJobInfo, Event};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::counters::JobTotals;
use crate::state::health::catch_panics;
use crate::state::info_log::CompactionOutcome;
use crate::state::spans;
use crate::state::work_queue::WorkKind;

/// The settings of one compaction that its plan lacks: cancel flags, codec, table size, threads.
#[derive(Clone, Copy, Default)]
pub(super) struct CompactionRequest<'a> {
    /// The flags that cancel the compaction: one that is set is enough.
    pub(super) canceled: &'a [&'a AtomicBool],
    /// The number of threads that share the work; 0 for that of the options.
    pub(super) max_subcompactions: u32,
    /// The codec of the output; `None` for that of the output level.
    pub(super) compression: Option<Compression>,
    /// The size at which an output table is cut; `None` for that of the output level.
    pub(super) target_file_bytes: Option<u64>,
    /// Whether values are moved out of old blob files.
    pub(super) blob_policy: BlobGarbageCollectionPolicy,
    /// The share of the oldest blob files that is emptied; `None` for that of the options.
    pub(super) blob_age_cutoff: Option<f64>,
    /// The job of another process that this one runs.
    pub(super) worker: Option<&'a WorkerJob>,
    /// Receives a copy of the description that listeners get at the end.
    pub(super) report: Option<&'a Mutex<Option<CompactionJobInfo>>>,
}

impl CompactionRequest<'_> {
    /// Whether the compaction is to be cancelled: one of its cancel flags is set.
    pub(super) fn is_canceled(&self) -> bool {
        let mut flags = self.canceled.iter();
        flags.any(|flag| flag.load(Ordering::Relaxed))
    }
}

/// The output of a compaction plan that has run but is not yet installed in a version.
#[derive(Default)]
pub(super) struct CarriedOut {
    /// The tables for the output level.
    pub(super) files: Vec<Arc<FileMeta>>,
    /// The properties of the tables that a merge wrote.
    pub(super) properties: Vec<TableProperties>,
    fallbacks: Vec<Fallback>,
    /// The figures of a merge; `None` if the tables were only moved or dropped.
    pub(super) merge: Option<CompactionOutcome>,
    /// The blobs to which no table refers any more.
    pub(super) blob_garbage: Vec<BlobGarbage>,
    /// The new blob files.
    pub(super) blob_files: Vec<BlobFileMeta>,
}

impl Background {
    /// Runs a compaction plan that has begun, installs the result, and removes obsolete files.
    pub(super) fn compact(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        plan: CompactionPlan,
        request: CompactionRequest<'_>,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let reserved = match self.reserve_space(&plan) {
            Ok(reserved) => reserved,
            Err(error) => {
                family.end_compaction(&plan);
                self.slots.notify();
                return Err(error);
            }
        };
        let _tracked = (self.context).track(ThreadOperation::Compaction, &family.name);
        let begun = self.context.clock.now();
        let mut info = self.compaction_info(family, &plan, &request);
        self.context.notify(&Event::CompactionBegin(&info));
        let outcome = catch_panics(|| self.try_compact(family, &plan, request, &mut info));
        info.elapsed = self.context.clock.now().saturating_sub(begun);
        info.stats.elapsed = info.elapsed;
        info.error = outcome.as_ref().err().cloned();
        self.context.notify(&Event::CompactionCompleted(&info));
        if let Some(report) = request.report {
            *lock(report) = Some(info.clone());
        }
        family.end_compaction(&plan);
        drop(plan);
        family.queue(WorkKind::Compaction);
        self.slots.notify();
        let removed = outcome.inspect(|_| self.tree.remove_obsolete_files());
        drop(reserved);
        removed
    }

    /// Returns the number of files on level 0, summed over all column families.
    pub(crate) fn level0_files(&self) -> usize {
        let families = self.families.all();
        let files = families
            .iter()
            .map(|family| family.read(|state| state.version.levels[0].files.len()));
        files.sum()
    }

    /// Schedules level-0 compactions in a database at rest, where they save runs at a small cost.
    pub(crate) fn compact_at_rest(self: &Arc<Self>) {
        for family in self.families.all() {
            if family.suggest_level0() {
                family.queue(WorkKind::Compaction);
            }
        }
        self.schedule();
    }

    /// Runs a compaction plan and installs its output in a new version; returns the new tables.
    fn try_compact(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        plan: &CompactionPlan,
        request: CompactionRequest<'_>,
        info: &mut CompactionJobInfo,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let begun = self.context.clock.now();
        let _span = spans::compaction(&family.name, info.job_id);
        let done = self.carry_out(family, plan, request, info);
        let done = done.map_err(|error| match family.is_dropped() && is_given_up(&error) {
            true => family.dropped_error(),
            false => error,
        })?;
        self.install_compaction(family, plan, &done)?;
        self.count_compaction(family, plan, done.merge.as_ref());
        self.context
            .record_elapsed(HistogramKind::CompactionTime, begun);
        if self.tells(&request) {
            self.add_result(info, family, &done);
        }
        info.output_bytes = done.merge.as_ref().map_or(0, |merge| merge.totals.written);
        self.log_compaction(info, family, plan, done.merge.as_ref());
        self.notify_fallbacks(family, done.fallbacks);
        // A trivial move creates no files.
        Ok(if plan.trivial_move {
            Vec::new()
        } else {
            done.files
        })
    }

    /// Executes a compaction plan (trivial move, deletion or merge) without installing its result.
    fn carry_out(
        &self,
        family: &Arc<ColumnFamilyData>,
        plan: &CompactionPlan,
        request: CompactionRequest<'_>,
        info: &CompactionJobInfo,
    ) -> Result<CarriedOut> {
        if plan.trivial_move {
            let files = plan.files().map(|(_, file)| Arc::clone(file)).collect();
            return Ok(CarriedOut {
                files,
                ..CarriedOut::default()
            });
        }
        if plan.deletion_only {
            return Ok(CarriedOut::default());
        }
        let (output, merge) = match self.merge_remotely(info, family, plan, &request)? {
            Some(merged) => merged,
            None => self.merge_tables(info, family, plan, request)?,
        };
        Ok(CarriedOut {
            files: output.files.into_iter().map(Arc::new).collect(),
            properties: output.properties,
            fallbacks: output.fallbacks,
            blob_garbage: output.blob_garbage,
            blob_files: output.blob_files,
            merge: Some(merge),
        })
    }

    /// Replaces the inputs of a plan by `files` on its output level: logged, synced and installed.
    ///
    /// # Errors
    /// If the edit cannot be logged; `ColumnFamilyDropped`; new files are removed then.
    fn install_compaction(
        &self,
        family: &Arc<ColumnFamilyData>,
        plan: &CompactionPlan,
        done: &CarriedOut,
    ) -> Result<()> {
        let files = &*done.files;
        if plan.reason == CompactionReason::BottommostFiles {
            for file in files {
                file.entry_stats.is_settled.store(true, Ordering::Relaxed);
            }
        }
        let mut edit = VersionEdit::of(family.id);
        edit.deleted_files = plan
            .files()
            .map(|(level, file)| (level, file.number))
            .collect();
        edit.compact_cursors.extend(plan.next_cursor.clone());
        edit.blob_garbage.clone_from(&done.blob_garbage);
        edit.added_blob_files.clone_from(&done.blob_files);
        let added = files.iter().map(Arc::clone);
        edit.added_files = added.map(|file| (plan.output_level, file)).collect();
        if plan.deletion_only {
            learn_references(&family.tables, plan.files());
        }
        let is_installed = {
            let mut versions = self.tree.versions();
            if plan.deletion_only
                && let Some(current) = versions.family(family.id)
            {
                let removed = plan.files().map(|(_, file)| file);
                edit.blob_garbage = current.current().garbage_of_replaced(removed, []);
            }
            self.tree.log_edit(&mut versions, family, edit, |_| ())?
        };
        match (is_installed, plan.trivial_move) {
            (true, false) => {
                self.tree.retire(family, plan.files().map(|(_, file)| file));
                self.uncache(family, plan);
            }
            (true, true) => {}
            (false, is_move) => {
                if !is_move {
                    self.tree.discard(family, files);
                    self.tree.discard_blob_files(family, &done.blob_files);
                }
                return Err(family.dropped_error());
            }
        }
        Ok(())
    }

    /// Evicts the blocks of compacted tables from the block cache (`uncache_aggressiveness`).
    fn uncache(&self, family: &ColumnFamilyData, plan: &CompactionPlan) {
        let misses_max = family.options().uncache_aggressiveness;
        if misses_max == 0 {
            return;
        }
        let readers = plan.files().filter_map(|(_, file)| file.open_reader());
        for reader in readers {
            if let Err(error) = reader.uncache(misses_max) {
                let log = &self.context.info_log;
                log.warn(format_args!("removing blocks from the cache: {error}"));
            }
        }
    }

    /// Records an installed compaction in the tickers, histograms and column family totals.
    fn count_compaction(
        &self,
        family: &ColumnFamilyData,
        plan: &CompactionPlan,
        merge: Option<&CompactionOutcome>,
    ) {
        let mut read = plan.input_bytes();
        if plan.trivial_move {
            let moved = JobTotals {
                moved: std::mem::take(&mut read),
                ..JobTotals::default()
            };
            family.counters.compacted(plan.output_level, moved);
        }
        self.context.count(Ticker::CompactReadBytes, read);
        let written = merge.map_or(0, |merge| merge.totals.written);
        self.context.count(Ticker::CompactWriteBytes, written);
        for &(ticker, count) in counts_of(plan.reason, read, written).iter().flatten() {
            self.context.count(ticker, count);
        }
        let Some(merge) = merge else { return };
        let cpu_micros = u64::try_from(merge.totals.cpu.as_micros()).unwrap_or(u64::MAX);
        self.context
            .count(Ticker::CompactionCpuTotalTime, cpu_micros);
        for (histogram, value) in [
            (HistogramKind::CompactionCpuTime, cpu_micros),
            (
                HistogramKind::NumFilesInSingleCompaction,
                plan.files().count() as u64,
            ),
            (
                HistogramKind::NumSubcompactionsScheduled,
                merge.subcompactions as u64,
            ),
        ] {
            self.context.record(histogram, value);
        }
    }

    /// Logs the end of a compaction; `merge` is `None` for a trivial move or deletion of tables.
    fn log_compaction(
        &self,
        info: &CompactionJobInfo,
        family: &ColumnFamilyData,
        plan: &CompactionPlan,
        merge: Option<&CompactionOutcome>,
    ) {
        let (log, job, name) = (&self.context.info_log, info.job_id, &family.name);
        match merge {
            Some(merge) => log.compaction_finished(job, name, plan, merge, &family.version()),
            None if plan.trivial_move => log.tables_moved(job, name, plan, &family.version()),
            None => log.tables_dropped(name, plan),
        }
    }
}
/// Returns the counts that a compaction has for its reason: the bytes read and written, or itself.
fn counts_of(reason: CompactionReason, read: u64, written: u64) -> [Option<(Ticker, u64)>; 2] {
    let bytes = |of_reads, of_writes| [Some((of_reads, read)), Some((of_writes, written))];
    let itself = |ticker| [Some((ticker, 1)), None];
    match reason {
        CompactionReason::FilesMarkedForCompaction => bytes(
            Ticker::CompactReadBytesMarked,
            Ticker::CompactWriteBytesMarked,
        ),
        CompactionReason::PeriodicCompaction => bytes(
            Ticker::CompactReadBytesPeriodic,
            Ticker::CompactWriteBytesPeriodic,
        ),
        CompactionReason::Ttl => bytes(Ticker::CompactReadBytesTtl, Ticker::CompactWriteBytesTtl),
        CompactionReason::FifoMaxSize => itself(Ticker::FifoMaxSizeCompactions),
        CompactionReason::FifoTtl => itself(Ticker::FifoTtlCompactions),
        CompactionReason::ChangeTemperature => itself(Ticker::FifoChangeTemperatureCompactions),
        _ => [None, None],
    }
}
