//! Remote compactions, in RocksDB's protocol: those that a service runs elsewhere, and those that a
//! worker runs.
//!
//! A primary with a [`CompactionService`](crate::CompactionService) describes a compaction
//! ([`format`]) and gives it to the service. A worker (`remote_worker`) opens the same files without
//! lock or log, writes new tables into a directory of its own, and describes them. The primary
//! checks every one of them ([`accept`]), takes them into its directory and installs the edit;
//! otherwise it compacts locally. The transport of messages and files belongs to the service.

pub(crate) mod accept;
pub(crate) mod format;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::stats::Ticker;
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::{Purpose, WriteOptions};
use koeldb_lsm::job::{
    HiddenTables, LiveSnapshots, MergeFigures, OutputFigures, Outputs, PartRange,
};
use koeldb_lsm::pick::CompactionPlan;
use koeldb_table::builder::TableReason;

use super::Background;
use super::compaction::CompactionRequest;
use super::offers::Offer;
use crate::background::remote::accept::{AcceptedJob, RemoteJob};
use crate::background::remote::format::{JobInput, table_name};
use crate::background::transfer::{Pace, Transfer, TransferFile};
use crate::env::compaction_service::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceScheduleResponse, CompactionServiceWaitResponse,
};
use crate::report::CompactionJobStats;
use crate::report::listener::CompactionJobInfo;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::counters::JobTotals;
use crate::state::info_log::CompactionOutcome;
use crate::state::table_files::TableReporter;

/// Returns the `Aborted` error of a cancelled remote compaction.
fn aborted() -> Error {
    Error::with_kind(ErrorKind::Aborted, "the remote compaction was aborted")
}

/// The parts of a remote compaction that a worker cannot take from the database it opened.
#[derive(Clone, Debug)]
pub(crate) struct WorkerJob {
    pub(crate) db_id: String,
    pub(crate) directory: PathBuf,
    pub(crate) snapshots: LiveSnapshots,
    pub(crate) range: PartRange,
}

/// The tables imported from a worker, which are removed if the import fails.
struct TakenTables<'a> {
    background: &'a Background,
    paths: Vec<PathBuf>,
}

impl Drop for TakenTables<'_> {
    fn drop(&mut self) {
        for path in &self.paths {
            // The next open removes a file that cannot be removed now.
            let _ = self.background.context.fs.remove_file(path);
        }
    }
}

impl Background {
    /// Runs a remote compaction as the worker, for the database of another process.
    pub(crate) fn run_worker_job(
        &self,
        family: &Arc<ColumnFamilyData>,
        plan: &CompactionPlan,
        job: &WorkerJob,
    ) -> Result<(Outputs, CompactionOutcome)> {
        let _foreground = self.slots.enter()?;
        let request = CompactionRequest {
            max_subcompactions: 1,
            worker: Some(job),
            ..CompactionRequest::default()
        };
        let info = self.compaction_info(family, plan, &request);
        self.merge_tables(&info, family, plan, request)
    }

    /// Returns the compaction service; `None` if there is none or it cannot run this compaction.
    fn service_for(
        &self,
        family: &ColumnFamilyData,
        plan: &CompactionPlan,
        request: &CompactionRequest<'_>,
    ) -> Option<&dyn CompactionService> {
        let service = self.context.plugins.compaction_service.as_deref()?;
        // The input cannot carry the settings of one call, the clock of a TTL database, or blob files,
        // and the output no blob files.
        let is_plain = request.compression.is_none()
            && request.target_file_bytes.is_none()
            && request.worker.is_none()
            && self.context.table_files.ttl.is_none()
            && !family.options().enable_blob_files
            && !plan.files().any(|(_, file)| file.oldest_blob_file != 0);
        (is_plain && !plan.inputs.is_empty()).then_some(service)
    }

    /// Has a worker merge the inputs of a plan; `None` if the compaction must run locally.
    pub(super) fn merge_remotely(
        &self,
        info: &CompactionJobInfo,
        family: &Arc<ColumnFamilyData>,
        plan: &CompactionPlan,
        request: &CompactionRequest<'_>,
    ) -> Result<Option<(Outputs, CompactionOutcome)>> {
        let Some(service) = self.service_for(family, plan, request) else {
            return Ok(None);
        };
        let begun = self.context.clock.now();
        let Some(offer) = self.offers.begin(begun) else {
            return Ok(None);
        };
        let Some(id) = self.schedule_remotely(service, info, family, plan)? else {
            return Ok(None);
        };
        let waited = self.wait_for_worker(service, offer, &id, &family.name)?;
        let Some((message, directory)) = waited else {
            return Ok(None);
        };
        let is_cancelled = self.slots.cancelled.load(Ordering::Relaxed);
        if is_cancelled || request.is_canceled() || family.is_dropped() {
            service.on_installation(&id, CompactionServiceJobStatus::Aborted);
            return Err(aborted());
        }
        let job = RemoteJob {
            files: &self.context.table_files,
            family,
            plan,
            directory: &directory,
        };
        let taken = job
            .accept(&message)
            .and_then(|accepted| self.take_tables(info, family, plan, accepted));
        match taken {
            Ok((output, mut totals)) => {
                totals.elapsed = self.context.clock.now().saturating_sub(begun);
                family.counters.compacted(plan.output_level, totals);
                let context = &self.context;
                context.count(Ticker::RemoteCompactReadBytes, plan.input_bytes());
                context.count(Ticker::RemoteCompactWriteBytes, totals.written);
                service.on_installation(&id, CompactionServiceJobStatus::Success);
                let figures = MergeFigures {
                    entries_read: totals.keys_in,
                    output: OutputFigures::of(&output),
                    ..MergeFigures::default()
                };
                let stats = CompactionJobStats {
                    is_remote_compaction: true,
                    ..CompactionJobStats::of(figures)
                };
                let outcome = CompactionOutcome::new(totals, 1, &output.properties, stats);
                Ok(Some((output, outcome)))
            }
            Err(error) => {
                self.context.info_log.warn(format_args!(
                    "[{}] the result of remote compaction {id} is refused, it runs locally: {error}",
                    family.name
                ));
                service.on_installation(&id, CompactionServiceJobStatus::UseLocal);
                Ok(None)
            }
        }
    }

    /// Schedules a compaction at the service and returns the job id; `None` to compact locally.
    fn schedule_remotely(
        &self,
        service: &dyn CompactionService,
        info: &CompactionJobInfo,
        family: &ColumnFamilyData,
        plan: &CompactionPlan,
    ) -> Result<Option<String>> {
        let files = plan.files();
        let input = JobInput {
            family: family.name.to_string(),
            snapshots: self.visibility.snapshots.all().all,
            files: files.map(|(_, file)| table_name(file.number)).collect(),
            output_level: u32::try_from(plan.output_level).unwrap_or(u32::MAX),
            db_id: self.context.identity.clone(),
            begin: None,
            end: None,
            options_file: self.tree.options_file_number(),
        };
        let described = CompactionServiceJobInfo {
            db_path: self.context.path.clone(),
            db_id: self.context.identity.clone(),
            db_session_id: self.context.table_files.session_id.clone(),
            column_family_id: family.id,
            column_family: family.name.to_string(),
            job_id: info.job_id,
            reason: plan.reason,
            is_bottommost: plan.bottommost,
            is_full_compaction: info.stats.is_full_compaction,
            base_input_level: info.base_input_level,
            output_level: plan.output_level,
            input_bytes: plan.input_bytes(),
        };
        match service.schedule(&described, &input.encode()) {
            CompactionServiceScheduleResponse::Scheduled { job_id } => Ok(Some(job_id)),
            CompactionServiceScheduleResponse::Refused(CompactionServiceJobStatus::Aborted) => {
                Err(aborted())
            }
            CompactionServiceScheduleResponse::Refused(_) => Ok(None),
        }
    }

    /// Waits for a remote job; returns its result and directory, or `None` to compact locally.
    fn wait_for_worker(
        &self,
        service: &dyn CompactionService,
        offer: Offer<'_>,
        id: &str,
        family: &str,
    ) -> Result<Option<(Vec<u8>, PathBuf)>> {
        use CompactionServiceJobStatus::{Aborted, UseLocal};
        match service.wait(id) {
            CompactionServiceWaitResponse::Completed {
                result,
                output_directory,
            } => {
                offer.answered();
                Ok(Some((result, output_directory)))
            }
            CompactionServiceWaitResponse::Ended(Aborted) => Err(aborted()),
            CompactionServiceWaitResponse::Ended(status) => {
                let log = &self.context.info_log;
                log.warn(format_args!(
                    "[{family}] remote compaction {id}: {status:?}; it runs locally"
                ));
                if status != UseLocal {
                    offer.answered();
                } else if let Some(pause) = offer.given_up(self.context.clock.now()) {
                    log.warn(format_args!(
                        "the next job is offered to the compaction service in {:.3} s",
                        pause.as_secs_f64()
                    ));
                }
                Ok(None)
            }
        }
    }

    /// Imports the tables of an accepted remote compaction into the database directory, durably.
    fn take_tables(
        &self,
        info: &CompactionJobInfo,
        family: &ColumnFamilyData,
        plan: &CompactionPlan,
        accepted: AcceptedJob,
    ) -> Result<(Outputs, JobTotals)> {
        let AcceptedJob { tables, result } = accepted;
        let (fs, files) = (&*self.context.fs, &self.context.table_files);
        let path = (plan.output_path, TableReason::Compaction);
        let reporter = TableReporter::new(files, info.job_id, family, path);
        let directory = family.tables.paths().directory(plan.output_path);
        let mut taken = TakenTables {
            background: self,
            paths: Vec::new(),
        };
        let mut output = Outputs::default();
        // The worker does not know the tables below its output.
        let version = family.version();
        let hidden = HiddenTables {
            version: &version,
            tables: &family.tables,
            first_level: plan.output_level + 1,
        };
        let mut take = || -> Result<()> {
            for table in &tables {
                let number: FileNumber = reporter.begin();
                let target = file_name::table(directory, number);
                taken.paths.push(target.clone());
                self.take_file(&table.path, &target, table.file.bytes)?;
                let mut file = table.file.with_epoch(plan.output_epoch());
                (file.number, file.path_id) = (number, plan.output_path);
                if let Some(tombstones) = table.tombstones.as_ref().filter(|_| !plan.bottommost) {
                    let fragments = tombstones.fragments().iter();
                    let ranges = fragments.map(|fragment| (&*fragment.start, &*fragment.end));
                    file.compensated_range_deletion_bytes = hidden.freed_by(ranges);
                }
                file.tail_bytes = match table.properties.tail_start_offset {
                    0 => 0,
                    start => file.bytes.saturating_sub(start),
                };
                output.raw_bytes +=
                    table.properties.raw_key_bytes + table.properties.raw_value_bytes;
                output.files.push(file);
                output.properties.push(table.properties.clone());
            }
            fs.sync_dir(directory)
        };
        reporter.check(take())?;
        taken.paths.clear();
        for (file, properties) in output.files.iter().zip(&output.properties) {
            reporter.created(file, properties);
        }
        let read_there = plan.bytes_at_output_level();
        let figures = &result.figures;
        let totals = JobTotals {
            count: 1,
            cpu: Duration::from_micros(figures.cpu_micros),
            read_above: plan.input_bytes().saturating_sub(read_there),
            read_there,
            written: output.files.iter().map(|file| file.bytes).sum(),
            raw: output.raw_bytes,
            keys_in: figures.input_entries,
            keys_dropped: figures.input_entries.saturating_sub(figures.output_entries),
            ..JobTotals::default()
        };
        Ok((output, totals))
    }

    /// Links or copies a table of a worker to `target`, and makes its bytes durable.
    fn take_file(&self, source: &Path, target: &Path, bytes: u64) -> Result<()> {
        let fs = &*self.context.fs;
        let file = TransferFile {
            source: source.to_owned(),
            target: target.to_owned(),
            bytes,
            may_link: true,
            expected_crc32c: None,
        };
        let transfer = Transfer {
            from: fs,
            to: fs,
            purpose: Purpose::Compaction,
            pace: &Pace::new(&self.context.clock, 0),
            threads: 1,
            must_link: false,
            stop: None,
            progress: &|_| (),
        };
        let transferred = transfer.run(&[file])?;
        if transferred.iter().any(|it| it.is_linked) {
            // A service may have brought the file here without a sync.
            let mut linked = fs.append(target, &WriteOptions::new(Purpose::Compaction))?;
            linked.sync_all()?;
            linked.close()?;
        }
        Ok(())
    }
}
