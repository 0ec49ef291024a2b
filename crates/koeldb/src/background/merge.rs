//! The merge of a compaction: the settings of its [`CompactionJob`], its run, and its figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use koeldb_base::file_name::FileNumber;
use koeldb_base::merge_operator::{MergeCounts, Merger};
use koeldb_base::stats::Ticker;
use koeldb_base::{Result, SeqNo};
use koeldb_fs::rate_limit::{IoKind, IoPriority};
use koeldb_fs::{Purpose, WriteOptions};
use koeldb_lsm::job::{
    BlobSpec, CompactionFilterContext, CompactionJob, CompactionResult, DeletionTrigger,
    HiddenTables, LiveSnapshots, OutputSpec, Outputs, RunPart,
};
use koeldb_lsm::pick::{
    CompactionPlan, CompactionReason, blob_garbage, dead_bytes, leveled, universal,
};
use koeldb_lsm::version::{Version, VersionBlobs};
use koeldb_table::blob::BlobReadahead;
use koeldb_table::builder::{TableBuildContext, TableReason};
use koeldb_table::properties::names;
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use super::Background;
use super::compaction::CompactionRequest;
use crate::options::{
    BlobGarbageCollectionPolicy, BlobRule, ColumnFamilyOptions, Compression, blob_rule,
    pick_settings,
};
use crate::report::CompactionJobStats;
use crate::report::listener::{CompactionJobInfo, Event, SubcompactionJobInfo};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::counters::JobTotals;
use crate::state::info_log::CompactionOutcome;
use crate::state::prepopulate::prepopulate;
use crate::state::table_files::{OutputChecks, TableDestination, TableReporter};

impl Background {
    /// Merges the inputs of a plan into new tables, verifies them, and updates the tickers.
    pub(super) fn merge_tables(
        &self,
        info: &CompactionJobInfo,
        family: &Arc<ColumnFamilyData>,
        plan: &CompactionPlan,
        request: CompactionRequest<'_>,
    ) -> Result<(Outputs, CompactionOutcome)> {
        let merge = Merge::new(self, info, family, plan, request);
        let begun = self.context.clock.now();
        let tables = &self.context.table_files;
        let reporter = TableReporter::new(
            tables,
            info.job_id,
            family,
            (plan.output_path, TableReason::Compaction),
        );
        let result = reporter.check(merge.run(&|| reporter.begin()))?;
        let drops = result.figures.drops;
        reporter.kept_unmerged(result.figures.merge_failures);
        let elapsed = self.context.clock.now().saturating_sub(begun);
        let totals = merge.totals(&result, elapsed);
        family.counters.compacted(plan.output_level, totals);
        let output = &result.output;
        for (file, properties) in output.files.iter().zip(&output.properties) {
            reporter.created(file, properties);
        }
        let stats = CompactionJobStats::of(result.figures);
        let outcome = CompactionOutcome::new(totals, result.parts, &output.properties, stats);
        for (ticker, count) in [
            (Ticker::CompactionKeyDropNewerEntry, drops.hidden),
            (Ticker::CompactionKeyDropObsolete, drops.obsolete),
            (Ticker::CompactionKeyDropRangeDel, drops.range_deleted),
            (
                Ticker::CompactionRangeDelDropObsolete,
                output.obsolete_tombstones,
            ),
            (Ticker::CompactionKeyDropUser, drops.filtered),
            (Ticker::BlobDbGcNumKeysRelocated, output.moved_values),
            (Ticker::BlobDbGcBytesRelocated, output.moved_bytes),
        ] {
            self.context.count(ticker, count);
        }
        tables.count_blob_files(&output.blob_files);
        Ok((result.output, outcome))
    }
}

/// A local compaction that merges tables, with the options, version and snapshots it began with.
struct Merge<'a> {
    jobs: &'a Background,
    info: &'a CompactionJobInfo,
    family: &'a Arc<ColumnFamilyData>,
    plan: &'a CompactionPlan,
    request: CompactionRequest<'a>,
    options: Arc<ColumnFamilyOptions>,
    version: Arc<Version>,
    snapshots: LiveSnapshots,
    /// The size at which an output table is cut.
    target_file_bytes: u64,
    deletion_triggers: Vec<DeletionTrigger>,
    /// The CPU time of the parts that ended.
    cpu_nanos: AtomicU64,
}

impl<'a> Merge<'a> {
    fn new(
        jobs: &'a Background,
        info: &'a CompactionJobInfo,
        family: &'a Arc<ColumnFamilyData>,
        plan: &'a CompactionPlan,
        request: CompactionRequest<'a>,
    ) -> Self {
        let options = family.options();
        let version = family.version();
        // After the plan was made, so that the list has every snapshot that could see an input.
        let snapshots = match request.worker {
            Some(job) => job.snapshots.clone(),
            None => jobs.visibility.snapshots.all(),
        };
        let oldest = snapshots.oldest();
        let log = &jobs.context.info_log;
        log.compaction_started(info.job_id, &family.name, plan, oldest);
        // Level 0 is not divided.
        let target_file_bytes = match plan.output_level {
            0 => plan.target_file_bytes,
            _ => request
                .target_file_bytes
                .unwrap_or(plan.target_file_bytes)
                .min(options.table_bytes_max()),
        };
        let deletion_triggers = options.deletion_triggers();
        Merge {
            jobs,
            info,
            family,
            plan,
            request,
            options,
            version,
            snapshots,
            target_file_bytes,
            deletion_triggers,
            cpu_nanos: AtomicU64::new(0),
        }
    }

    /// Runs the compaction job and verifies its output tables (`verify_output_flags`).
    fn run(&self, next_file_number: &(dyn Fn() -> FileNumber + Sync)) -> Result<CompactionResult> {
        let (jobs, plan) = (self.jobs, self.plan);
        // The primary of a worker checks its tables.
        let checks = match self.request.worker {
            Some(_) => OutputChecks::default(),
            None => OutputChecks::of_compaction(&self.options),
        };
        let range = self.request.worker.map(|job| job.range.clone());
        let filter_context = CompactionFilterContext::new(
            plan.is_full(&self.version),
            plan.reason == CompactionReason::ManualCompaction,
            self.family.id,
            as_level(plan.output_level),
        );
        let new_filter = || self.options.new_compaction_filter(&filter_context);
        // The result for a dropped column family would be discarded.
        let cancelled: Vec<&AtomicBool> = [&jobs.slots.cancelled, &self.family.dropped]
            .into_iter()
            .chain(self.request.canceled.iter().copied())
            .collect();
        let run_parts = |count: usize, part: &RunPart<'_>| {
            jobs.run_parts(count, &|number| self.run_part(number, part));
        };
        let requested_parts = self.request.max_subcompactions;
        let readahead_bytes = match self.options.blob_compaction_readahead_size {
            0 => BlobReadahead::BYTES_MAX,
            bytes => bytes,
        };
        let blobs = VersionBlobs::new(&self.version, &self.family.tables, true, readahead_bytes);
        let blob_files = self.blob_spec(&blobs);
        let statistics = jobs.context.statistics.as_ref();
        let job = CompactionJob {
            plan,
            version: &self.version,
            range: range.unwrap_or_default(),
            tables: &self.family.tables,
            source: self.source(),
            snapshots: self.snapshots.clone(),
            merger: Merger::new(self.options.merge_operator.as_deref(), &self.family.name)
                .with_counts(MergeCounts::of_jobs(statistics))
                .with_blobs(&blobs),
            new_filter: &new_filter,
            output: self.output(next_file_number, checks.entries, blob_files)?,
            cancelled: &cancelled,
            parts_max: jobs.parts_max(&self.options, plan, requested_parts),
            run_parts: &run_parts,
            verify_record_count: jobs.context.db_options.compaction_verify_record_count,
            counts_input: jobs.tells(&self.request),
        };
        let result = job.run()?;
        let written = (&*result.output.files, &*result.output.entry_hashes);
        let tables = &jobs.context.table_files;
        let (opener, level) = (&self.family.tables, plan.output_level);
        checks
            .verify(written, level, opener, tables)
            .inspect_err(|_| tables.remove_blob_files(opener, &result.output.blob_files))?;
        // The tables of a worker are not those of its directory.
        if self.request.worker.is_none() {
            prepopulate(
                written.0,
                TableReason::Compaction,
                &self.options,
                plan.output_level,
                &self.family.tables,
            );
        }
        Ok(result)
    }

    /// Returns the settings of blob files: which values go to new ones, and which old ones are emptied.
    ///
    /// Those with much garbage are emptied, or the oldest, as many as
    /// `blob_garbage_collection_age_cutoff` says; a call that says how many gets the oldest.
    fn blob_spec<'o>(&'o self, blobs: &'o VersionBlobs<'o>) -> BlobSpec<'o> {
        // A worker sends back tables only.
        if self.request.worker.is_some() {
            return BlobSpec::unchanged();
        }
        let (family, files) = (self.family, &self.jobs.context.table_files);
        let (plan, paths) = (self.plan, family.tables.paths());
        let level = plan.output_level;
        let mut spec = files.blob_spec(&self.options, family.id, level, paths);
        let is_on = match self.request.blob_policy {
            BlobGarbageCollectionPolicy::UseDefault => self.options.enable_blob_garbage_collection,
            BlobGarbageCollectionPolicy::Force => true,
            BlobGarbageCollectionPolicy::Disable => false,
        };
        if is_on {
            spec.source = Some(blobs);
            match (self.request.blob_age_cutoff, blob_rule(&self.options)) {
                (None, BlobRule::DeadBytes(rule)) => {
                    let policy = self.request.blob_policy;
                    let is_bounded = policy != BlobGarbageCollectionPolicy::Force;
                    let has_begun = family.blob_collection.has_begun();
                    spec.victims =
                        dead_bytes::victims(&self.version, rule, plan, has_begun, is_bounded);
                }
                (cutoff, _) => {
                    let files = &self.version.blob_files;
                    let of_options = self.options.blob_garbage_collection_age_cutoff;
                    let emptied =
                        blob_garbage::emptied_files(cutoff.unwrap_or(of_options), files.len());
                    spec.relocates_below = match files.keys().nth(emptied) {
                        Some(&number) => number,
                        None => u64::MAX,
                    };
                }
            }
        }
        spec
    }

    /// Returns the reader of input blocks: with readahead, without filling the block cache.
    fn source(&self) -> BlockingSource {
        let context = &self.jobs.context;
        BlockingSource::new(BlockReadOptions {
            fill_cache: false,
            readahead_bytes: context.mutable_options().compaction_readahead_size,
            charge: context.table_files.charge(IoPriority::Low, IoKind::Read),
            ..BlockReadOptions::default()
        })
    }

    /// Returns the settings of the output tables: where and how to write and when to cut them.
    fn output<'o>(
        &'o self,
        next_file_number: &'o (dyn Fn() -> FileNumber + Sync),
        hash_entries: bool,
        blobs: BlobSpec<'o>,
    ) -> Result<OutputSpec<'o>> {
        let (context, plan) = (&self.jobs.context, self.plan);
        // To the next boundary below, but not beyond what the format or the caller permits.
        let file_bytes_max = match self.request.target_file_bytes {
            Some(_) => self.target_file_bytes,
            None => self
                .target_file_bytes
                .saturating_mul(2)
                .min(self.options.table_bytes_max()),
        };
        // Most tables end near their target.
        let bytes_expected = self
            .target_file_bytes
            .saturating_add(self.target_file_bytes / 10)
            .min(plan.input_bytes());
        Ok(OutputSpec {
            fs: &*context.fs,
            directory: match self.request.worker {
                Some(job) => &job.directory,
                None => self.family.tables.paths().directory(plan.output_path),
            },
            path_id: plan.output_path,
            write_options: WriteOptions {
                temperature: plan
                    .temperature
                    .unwrap_or_else(|| self.options.temperature_at(plan.output_level).to_byte()),
                ..context
                    .table_files
                    .write_options(Purpose::Compaction, bytes_expected)
            },
            charge: context.table_files.charge(IoPriority::Low, IoKind::Write),
            context: self.table_context()?,
            next_file_number,
            target_file_bytes: self.target_file_bytes,
            file_bytes_max,
            target_is_upper_bound: self.options.target_file_size_is_upper_bound,
            grandparents: &plan.grandparents,
            max_grandparent_bytes: plan.max_grandparent_bytes,
            snapshots: &self.snapshots.all,
            bottommost: plan.bottommost,
            history_low: self.version.history_low(),
            hidden: Some(HiddenTables {
                version: &self.version,
                tables: &self.family.tables,
                first_level: plan.output_level + 1,
            }),
            epoch: plan.output_epoch(),
            file_checksums: context.table_files.file_checksums,
            // Level 0 is not divided.
            partition_bytes: self
                .options
                .partition_bytes()
                .filter(|_| plan.output_level > 0),
            deletion_triggers: &self.deletion_triggers,
            hash_entries,
            blobs,
        })
    }

    /// Returns the table builder settings of the output: codec, properties, destination level.
    fn table_context(&self) -> Result<TableBuildContext> {
        let plan = self.plan;
        let targets = leveled::level_targets(&self.version, &pick_settings(&self.options));
        let destination = TableDestination {
            level: as_level(plan.output_level),
            base_level: as_level(targets.base_level),
            bottommost: plan.bottommost,
            reason: TableReason::Compaction,
            target_file_bytes: self.target_file_bytes,
        };
        let tables = &self.jobs.context.table_files;
        let mut context = tables.build_context(self.family, &self.options, destination);
        if let Some(instead) = replacing_codec(&self.options, &self.version, plan, &self.request) {
            context.compression = instead;
        }
        if let Some(job) = self.request.worker {
            context.db_id.clone_from(&job.db_id);
        }
        if plan.reason == CompactionReason::BottommostFiles {
            let settled = (names::SETTLED.into(), b"1".to_vec());
            context.user_properties.extend([settled]);
        }
        context.set_flushed_seqno(self.flushed_seqno(&context.db_id)?);
        Ok(context)
    }

    /// Returns a sequence number up to which all entries of the column family are in tables.
    fn flushed_seqno(&self, db_id: &str) -> Result<SeqNo> {
        let mut flushed = 0;
        for (level, file) in self.plan.files() {
            let table = self.family.tables.reader(file, level)?;
            let properties = table.properties();
            let of_table = properties.flushed_seqno(db_id, file.number, file.largest_seqno);
            flushed = of_table.max(flushed);
        }
        // The largest number in a table of RocksDB may be that of an ingestion.
        let unflushed = self.family.read(|state| {
            let memtables = state.sealed.iter().chain([&state.active]);
            let firsts = memtables.filter_map(|logged| logged.memtable.first_seqno());
            firsts.min()
        });
        Ok(unflushed.map_or(flushed, |first| flushed.min(first.saturating_sub(1))))
    }

    /// Runs one subcompaction in the calling thread, notifies listeners, measures its CPU time.
    fn run_part(&self, number: usize, part: &RunPart<'_>) {
        let (context, info) = (&self.jobs.context, self.info);
        let mut subcompaction = SubcompactionJobInfo {
            column_family: info.column_family.clone(),
            column_family_id: info.column_family_id,
            job_id: info.job_id,
            subcompaction_job_id: number,
            base_input_level: info.base_input_level,
            output_level: info.output_level,
            reason: info.reason,
            compression: info.compression,
            blob_compression: info.blob_compression,
            error: None,
            stats: CompactionJobStats::default(),
        };
        context.notify(&Event::SubcompactionBegin(&subcompaction));
        let (begun, begun_cpu) = (context.clock.now(), context.clock.thread_cpu());
        let result = part(number);
        let elapsed = context.clock.now().saturating_sub(begun);
        let cpu = context.clock.thread_cpu().saturating_sub(begun_cpu);
        match result {
            Ok(figures) => subcompaction.stats = CompactionJobStats::of(figures),
            Err(error) => subcompaction.error = Some(error),
        }
        subcompaction.stats.elapsed = elapsed;
        subcompaction.stats.cpu = cpu;
        subcompaction.stats.is_full_compaction = info.stats.is_full_compaction;
        subcompaction.stats.is_manual_compaction = info.stats.is_manual_compaction;
        let nanos = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
        self.cpu_nanos.fetch_add(nanos, Ordering::Relaxed);
        context.notify(&Event::SubcompactionCompleted(&subcompaction));
    }

    /// Returns the statistics of the finished merge: times, bytes and keys.
    fn totals(&self, result: &CompactionResult, elapsed: Duration) -> JobTotals {
        let plan = self.plan;
        let read_there = plan.bytes_at_output_level();
        JobTotals {
            count: 1,
            elapsed,
            cpu: Duration::from_nanos(self.cpu_nanos.load(Ordering::Relaxed)),
            read_above: plan.input_bytes().saturating_sub(read_there),
            read_there,
            written: result.output.files.iter().map(|file| file.bytes).sum(),
            raw: result.output.raw_bytes,
            keys_in: result.figures.entries_read,
            keys_dropped: result.figures.drops.total(),
            ..JobTotals::default()
        }
    }
}

/// Returns the codec that replaces the output level's one for a plan; `None` if none does.
fn replacing_codec(
    options: &ColumnFamilyOptions,
    version: &Version,
    plan: &CompactionPlan,
    request: &CompactionRequest<'_>,
) -> Option<Compression> {
    if request.compression.is_some() {
        return request.compression;
    }
    let percent = options.compressed_percent()?;
    universal::stays_uncompressed(version, plan, percent).then_some(Compression::None)
}

/// Returns the codec of the output of a plan.
pub(super) fn output_compression(
    options: &ColumnFamilyOptions,
    version: &Version,
    plan: &CompactionPlan,
    request: &CompactionRequest<'_>,
) -> Compression {
    replacing_codec(options, version, plan, request).unwrap_or_else(|| {
        let targets = leveled::level_targets(version, &pick_settings(options));
        let (level, base_level) = (as_level(plan.output_level), as_level(targets.base_level));
        options.compression_at(level, base_level, plan.bottommost).0
    })
}

/// Converts a level number to `u32`, saturating.
fn as_level(level: usize) -> u32 {
    u32::try_from(level).unwrap_or(u32::MAX)
}
