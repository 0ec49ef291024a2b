//! Automatic compactions, and the execution and installation of all compactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use koeldb_base::codec::Compression;
use koeldb_base::file_name::FileNumber;
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::Purpose;
use koeldb_fs::rate_limit::{IoKind, IoPriority};
use koeldb_lsm::FileMeta;
use koeldb_lsm::job::{CompactionFilterContext, CompactionJob, OutputSpec, Outputs};
use koeldb_lsm::pick::{CompactionPlan, CompactionReason, leveled};
use koeldb_lsm::version::VersionEdit;
use koeldb_table::builder::TableReason;
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use super::Background;
use crate::column_family_data::ColumnFamilyData;
use crate::counters::JobTotals;
use crate::health::catch_panics;
use crate::info_log::CompactionOutcome;
use crate::listener::{CompactionJobInfo, Event, SubcompactionJobInfo};
use crate::options::pick_settings;
use crate::output_checks::OutputChecks;
use crate::spans;
use crate::table_files::TableDestination;
use crate::table_reporter::TableReporter;
use crate::work_queue::WorkKind;

/// The settings of one compaction beyond its plan.
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
}

impl Background {
    /// Runs a compaction plan that has begun, installs the result, and removes obsolete files.
    pub(super) fn compact(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        plan: CompactionPlan,
        request: CompactionRequest<'_>,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let begun = self.context.clock.now();
        let mut info = self.compaction_info(family, &plan);
        self.context.notify(&Event::CompactionBegin(&info));
        let outcome = catch_panics(|| self.try_compact(family, &plan, request, &mut info));
        info.elapsed = self.context.clock.now().saturating_sub(begun);
        info.error = outcome.as_ref().err().cloned();
        self.context.notify(&Event::CompactionCompleted(&info));
        plan.end(&family.version());
        drop(plan);
        family.queue(WorkKind::Compaction);
        self.slots.notify();
        let files = outcome?;
        self.tree.remove_obsolete_files();
        Ok(files)
    }

    /// Returns the description of a compaction that begins.
    fn compaction_info(
        &self,
        family: &ColumnFamilyData,
        plan: &CompactionPlan,
    ) -> CompactionJobInfo {
        CompactionJobInfo {
            column_family: family.name.clone(),
            column_family_id: family.id,
            job_id: self.context.new_job(),
            reason: plan.reason,
            error: None,
            base_input_level: plan.inputs.first().map_or(0, |input| input.level),
            inputs: plan
                .files()
                .map(|(level, file)| (level, file.number))
                .collect(),
            outputs: Vec::new(),
            output_level: plan.output_level,
            input_bytes: plan.input_bytes(),
            output_bytes: 0,
            elapsed: Duration::ZERO,
        }
    }

    fn try_compact(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        plan: &CompactionPlan,
        request: CompactionRequest<'_>,
        info: &mut CompactionJobInfo,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let begun = self.context.clock.now();
        let mut edit = VersionEdit::of(family.id);
        edit.deleted_files = plan
            .files()
            .map(|(level, file)| (level, file.number))
            .collect();
        edit.compact_cursors.extend(plan.next_cursor.clone());
        let job = info.job_id;
        let _span = spans::compaction(&family.name, job);
        let mut outcome = None;
        let mut fallbacks = Vec::new();
        if plan.trivial_move {
            edit.added_files = plan
                .files()
                .map(|(_, file)| (plan.output_level, Arc::clone(file)))
                .collect();
        } else if !plan.deletion_only {
            let (output, written) = self.merge_tables(info, family, plan, request)?;
            fallbacks = output.fallbacks;
            outcome = Some(written);
            edit.added_files = output
                .files
                .into_iter()
                .map(|file| (plan.output_level, Arc::new(file)))
                .collect();
        }
        if plan.reason == CompactionReason::BottommostFiles {
            for (_, file) in &edit.added_files {
                file.is_settled.store(true, Ordering::Relaxed);
            }
        }
        let outputs: Vec<Arc<FileMeta>> = edit
            .added_files
            .iter()
            .map(|(_, file)| Arc::clone(file))
            .collect();
        let is_installed = {
            let mut versions = self.tree.versions();
            self.tree.log_edit(&mut versions, family, edit, |_| ())?
        };
        if !is_installed {
            if !plan.trivial_move {
                self.tree.discard(&outputs);
            }
            return Err(Error::with_kind(
                ErrorKind::Aborted,
                "the column family was dropped",
            ));
        }
        if plan.trivial_move {
            let moved = JobTotals {
                moved: plan.input_bytes(),
                ..JobTotals::default()
            };
            family.counters.compacted(plan.output_level, moved);
        } else {
            self.tree.retire(plan.files().map(|(_, file)| file));
        }
        self.notify_fallbacks(family, fallbacks);
        self.context.count(
            Ticker::CompactReadBytes,
            if plan.trivial_move {
                0
            } else {
                plan.input_bytes()
            },
        );
        let output_bytes = outcome.as_ref().map_or(0, |outcome| outcome.totals.written);
        self.context.count(Ticker::CompactWriteBytes, output_bytes);
        if let Some(outcome) = &outcome {
            self.count_compaction(plan, outcome);
        }
        self.context
            .record_elapsed(HistogramKind::CompactionTime, begun);
        info.outputs = outputs.iter().map(|file| file.number).collect();
        info.output_bytes = output_bytes;
        let (log, version) = (&self.context.info_log, family.version());
        match &outcome {
            _ if plan.trivial_move => log.tables_moved(job, &family.name, plan, &version),
            Some(outcome) => log.compaction_finished(job, &family.name, plan, outcome, &version),
            None => log.tables_dropped(&family.name, plan),
        }
        // A trivial move creates no files.
        Ok(if plan.trivial_move {
            Vec::new()
        } else {
            outputs
        })
    }

    fn count_compaction(&self, plan: &CompactionPlan, outcome: &CompactionOutcome) {
        let cpu_micros = u64::try_from(outcome.totals.cpu.as_micros()).unwrap_or(u64::MAX);
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
                outcome.subcompactions as u64,
            ),
        ] {
            self.context.record(histogram, value);
        }
    }

    fn merge_tables(
        &self,
        info: &CompactionJobInfo,
        family: &Arc<ColumnFamilyData>,
        plan: &CompactionPlan,
        request: CompactionRequest<'_>,
    ) -> Result<(Outputs, CompactionOutcome)> {
        let job_id = info.job_id;
        let options = family.options();
        let version = family.version();
        let settings = pick_settings(&options);
        // Level 0 is not divided.
        let target_file_bytes = match plan.output_level {
            0 => plan.target_file_bytes,
            _ => request
                .target_file_bytes
                .unwrap_or(plan.target_file_bytes)
                .min(options.table_bytes_max()),
        };
        let base_level = leveled::level_targets(&version, &settings).base_level;
        let level = |level: usize| u32::try_from(level).unwrap_or(u32::MAX);
        // After the plan was made, so that the list has every snapshot that could see an input.
        let snapshots = self.visibility.snapshots.all();
        let log = &self.context.info_log;
        log.compaction_started(job_id, &family.name, plan, snapshots.first().copied());
        let mut context = self.context.table_files.build_context(
            family,
            &options,
            TableDestination {
                level: level(plan.output_level),
                base_level: level(base_level),
                bottommost: plan.bottommost,
                reason: TableReason::Compaction,
                target_file_bytes,
            },
        );
        if let Some(compression) = request.compression {
            context.compression = compression;
        }
        let readahead = self.context.mutable_options().compaction_readahead_size;
        let tables = &self.context.table_files;
        // A table ends a little behind its target.
        let bytes_expected = target_file_bytes
            .saturating_add(target_file_bytes / 10)
            .min(plan.input_bytes());
        let source = BlockingSource::new(BlockReadOptions {
            fill_cache: false,
            readahead_bytes: readahead,
            charge: tables.charge(IoPriority::Low, IoKind::Read),
            ..BlockReadOptions::default()
        });
        let filter_context = CompactionFilterContext::new(
            plan.bottommost,
            plan.reason == CompactionReason::ManualCompaction,
            family.id,
            level(plan.output_level),
        );
        let checks = OutputChecks::of_compaction(&options);
        let reporter = TableReporter::new(tables, job_id, &family.name, TableReason::Compaction);
        let next_file_number = || -> FileNumber { reporter.begin() };
        let epoch = plan
            .files()
            .map(|(_, file)| file.epoch)
            .filter(|&epoch| epoch > 0)
            .min()
            .unwrap_or(0);
        let filtering = Arc::clone(&options);
        let new_filter = || filtering.new_compaction_filter(&filter_context);
        let cancelled: Vec<&AtomicBool> = [&self.slots.cancelled]
            .into_iter()
            .chain(request.canceled.iter().copied())
            .collect();
        let cpu_nanos = AtomicU64::new(0);
        let run_parts = |count: usize, part: &(dyn Fn(usize) + Sync)| {
            self.run_parts(count, &|number| {
                let subcompaction = SubcompactionJobInfo {
                    column_family: info.column_family.clone(),
                    column_family_id: info.column_family_id,
                    job_id,
                    subcompaction_job_id: number,
                    base_input_level: info.base_input_level,
                    output_level: info.output_level,
                    reason: info.reason,
                };
                self.context
                    .notify(&Event::SubcompactionBegin(&subcompaction));
                let begun = self.context.clock.thread_cpu();
                part(number);
                let cpu = self.context.clock.thread_cpu().saturating_sub(begun);
                let nanos = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
                cpu_nanos.fetch_add(nanos, Ordering::Relaxed);
                self.context
                    .notify(&Event::SubcompactionCompleted(&subcompaction));
            });
        };
        let job = CompactionJob {
            plan,
            version: &version,
            tables: &family.tables,
            source,
            snapshots: snapshots.clone(),
            merge_operator: options.merge_operator.as_deref(),
            new_filter: &new_filter,
            output: OutputSpec {
                fs: &*self.context.fs,
                directory: self.context.table_files.directory(),
                write_options: self
                    .context
                    .table_files
                    .write_options(Purpose::Compaction, bytes_expected),
                charge: tables.charge(IoPriority::Low, IoKind::Write),
                context,
                next_file_number: &next_file_number,
                target_file_bytes,
                grandparents: &plan.grandparents,
                max_grandparent_bytes: plan.max_grandparent_bytes,
                snapshots: &snapshots,
                bottommost: plan.bottommost,
                epoch,
                file_checksums: self.context.table_files.file_checksums,
                // Level 0 is not divided.
                partition_bytes: options.partition_bytes().filter(|_| plan.output_level > 0),
                deletion_triggers: &options.deletion_triggers(),
                hash_entries: checks.entries,
            },
            cancelled: &cancelled,
            parts_max: self.parts_max(&options, plan, request.max_subcompactions),
            run_parts: &run_parts,
            verify_record_count: self.context.db_options.compaction_verify_record_count,
        };
        let begun = self.context.clock.now();
        let run = || {
            let result = job.run()?;
            let written = (&*result.output.files, &*result.output.entry_hashes);
            checks.verify(written, plan.output_level, &family.tables, tables)?;
            Ok(result)
        };
        let result = reporter.check(run())?;
        let read_there = plan
            .files()
            .filter(|(level, _)| *level == plan.output_level)
            .map(|(_, file)| file.bytes)
            .sum();
        let totals = JobTotals {
            count: 1,
            elapsed: self.context.clock.now().saturating_sub(begun),
            cpu: Duration::from_nanos(cpu_nanos.load(Ordering::Relaxed)),
            read_above: plan.input_bytes().saturating_sub(read_there),
            read_there,
            written: result.output.files.iter().map(|file| file.bytes).sum(),
            raw: result.output.raw_bytes,
            keys_in: result.entries_read,
            keys_dropped: result.drops.total(),
            ..JobTotals::default()
        };
        family.counters.compacted(plan.output_level, totals);
        let written = &result.output;
        for (file, properties) in written.files.iter().zip(&written.properties) {
            reporter.created(file, properties);
        }
        let outcome = CompactionOutcome::new(totals, result.parts, &written.properties);
        self.context
            .count(Ticker::CompactionKeyDropNewerEntry, result.drops.hidden);
        self.context
            .count(Ticker::CompactionKeyDropObsolete, result.drops.obsolete);
        self.context.count(
            Ticker::CompactionKeyDropRangeDel,
            result.drops.range_deleted,
        );
        self.context
            .count(Ticker::CompactionKeyDropUser, result.drops.filtered);
        Ok((result.output, outcome))
    }
}
