//! The lines of flushes, compactions and table files in LOG, each with its event.
//!
//! Words and fields are those of RocksDB (`db/flush_job.cc`, `db/compaction/compaction_job.cc`).

use std::sync::Arc;
use std::time::Duration;

use koeldb_base::file_name::FileNumber;
use koeldb_base::{Result, SeqNo};
use koeldb_lsm::pick::{CompactionPlan, CompactionReason};
use koeldb_lsm::{FileMeta, Version};
use koeldb_memtable::Memtable;
use koeldb_table::TableProperties;

use super::events::created_table;
use super::{InfoLog, JobId};
use crate::report::listener::FlushReason;
use crate::report::{CompactionJobStats, StallCause, StallCondition};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::counters::JobTotals;

const MIB: f64 = (1_u64 << 20) as f64;

/// The statistics of a compaction that rewrote tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompactionOutcome {
    pub(crate) totals: JobTotals,
    pub(crate) outputs: usize,
    pub(crate) subcompactions: usize,
    /// The codec of the output.
    pub(crate) compression: String,
    /// The description that listeners get.
    pub(crate) stats: CompactionJobStats,
}

fn micros(time: Duration) -> u128 {
    time.as_micros()
}

/// Returns the throughput in MiB a second.
fn mib_a_second(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / MIB / (time.as_secs_f64() + 1e-6)
}

/// Returns the codec name in the properties of a table, or RocksDB's name of no compression.
fn codec_of(properties: Option<&TableProperties>) -> String {
    let name = properties.map(|properties| String::from_utf8_lossy(&properties.compression_name));
    match name {
        Some(name) if !name.is_empty() => name.into_owned(),
        _ => "NoCompression".to_owned(),
    }
}

/// Returns RocksDB's name of a compaction reason.
fn reason_name(reason: CompactionReason) -> String {
    // Only the capitals of FIFO differ from the names of the variants.
    format!("{reason:?}").replacen("Fifo", "FIFO", 1)
}

/// Formats the number of files on each level as in LOG: `files[4 0 1]`.
fn level_summary(version: &Version) -> String {
    let counts: Vec<String> = version
        .levels
        .iter()
        .map(|level| level.files.len().to_string())
        .collect();
    format!("files[{}]", counts.join(" "))
}

impl InfoLog {
    /// Logs the beginning of a flush.
    pub(crate) fn flush_started(
        &self,
        job: JobId,
        family: &ColumnFamilyData,
        memtables: &[Arc<Memtable>],
        reason: FlushReason,
    ) {
        let sum = |figure: fn(&Memtable) -> u64| -> u64 {
            memtables.iter().map(|memtable| figure(memtable)).sum()
        };
        self.info(format_args!(
            "[{}] [JOB {job}] Flushing {} memtables: {reason}",
            family.name,
            memtables.len()
        ));
        self.log_event(
            self.event(Some(job), "flush_started")
                .number("num_memtables", memtables.len())
                .number("total_num_input_entries", sum(Memtable::entry_count))
                .number("num_deletes", sum(Memtable::deletion_count))
                .number("total_data_size", sum(Memtable::data_bytes))
                .number(
                    "memory_usage",
                    sum(|memtable| memtable.memory_bytes() as u64),
                )
                .number("num_range_deletes", sum(Memtable::range_deletion_count))
                .text("flush_reason", reason.name())
                .text("cf_name", &family.name),
        );
    }

    /// Logs a flush whose table, if any, is part of the current version.
    pub(crate) fn flush_finished(
        &self,
        job: JobId,
        family: &ColumnFamilyData,
        file: Option<(&FileMeta, Option<&TableProperties>)>,
        elapsed: Duration,
    ) {
        let (version, waiting) =
            family.read(|state| (Arc::clone(&state.version), state.sealed.len()));
        let table = match file {
            Some((file, _)) => format!(
                "Level-0 flush table #{}: {} bytes OK",
                file.number, file.bytes
            ),
            None => "no entry to flush: no table OK".to_owned(),
        };
        self.info(format_args!(
            "[{}] [JOB {job}] {table} in {} micros; {}",
            family.name,
            micros(elapsed),
            level_summary(&version)
        ));
        self.log_event(
            self.event(Some(job), "flush_finished")
                .text(
                    "output_compression",
                    &codec_of(file.and_then(|(_, properties)| properties)),
                )
                .lsm_state(&version)
                .number("immutable_memtables", waiting),
        );
    }

    /// Logs the beginning of a compaction and its input files.
    pub(crate) fn compaction_started(
        &self,
        job: JobId,
        family: &str,
        plan: &CompactionPlan,
        oldest_snapshot: Option<SeqNo>,
    ) {
        let inputs: Vec<String> = plan
            .inputs
            .iter()
            .map(|input| format!("{}@{}", input.files.len(), input.level))
            .collect();
        let reason = reason_name(plan.reason);
        self.info(format_args!(
            "[{family}] [JOB {job}] Compacting {} files to L{}: {reason}, {} bytes",
            inputs.join(" + "),
            plan.output_level,
            plan.input_bytes()
        ));
        let mut event = self
            .event(Some(job), "compaction_started")
            .text("cf_name", family)
            .text("compaction_reason", &reason);
        for input in &plan.inputs {
            let numbers = input.files.iter().map(|file| file.number);
            event = event.numbers(&format!("files_L{}", input.level), numbers);
        }
        self.log_event(
            event
                .number("input_data_size", plan.input_bytes())
                // RocksDB writes -1 without snapshots.
                .number(
                    "oldest_snapshot_seqno",
                    oldest_snapshot.map_or(-1, i128::from),
                ),
        );
    }

    /// Logs a compaction whose tables are part of `version`.
    pub(crate) fn compaction_finished(
        &self,
        job: JobId,
        family: &str,
        plan: &CompactionPlan,
        outcome: &CompactionOutcome,
        version: &Version,
    ) {
        let totals = &outcome.totals;
        let amplification = |bytes: u64| match totals.read_above {
            0 => 0.0,
            above => bytes as f64 / above as f64,
        };
        let above: usize = plan
            .inputs
            .iter()
            .filter(|input| input.level != plan.output_level)
            .map(|input| input.files.len())
            .sum();
        self.info(format_args!(
            "[{family}] [JOB {job}] compacted to: {}, MB/sec: {:.1} rd, {:.1} wr, level {}, files in({above}, {}) \
             out({} +0 blob) MB in({:.1}, {:.1} +0.0 blob) out({:.1} +0.0 blob), read-write-amplify({:.1}) \
             write-amplify({:.1}) OK, records in: {}, records dropped: {} output_compression: {}",
            level_summary(version),
            mib_a_second(totals.read(), totals.elapsed),
            mib_a_second(totals.written, totals.elapsed),
            plan.output_level,
            plan.files().count() - above,
            outcome.outputs,
            totals.read_above as f64 / MIB,
            totals.read_there as f64 / MIB,
            totals.written as f64 / MIB,
            amplification(totals.read() + totals.written),
            amplification(totals.written),
            totals.keys_in,
            totals.keys_dropped,
            outcome.compression,
        ));
        self.log_event(
            self.event(Some(job), "compaction_finished")
                .number("compaction_time_micros", micros(totals.elapsed))
                .number("compaction_time_cpu_micros", micros(totals.cpu))
                .number("output_level", plan.output_level)
                .number("num_output_files", outcome.outputs)
                .number("total_output_size", totals.written)
                .number("num_input_records", totals.keys_in)
                .number(
                    "num_output_records",
                    totals.keys_in.saturating_sub(totals.keys_dropped),
                )
                .number("num_subcompactions", outcome.subcompactions)
                .text("output_compression", &outcome.compression)
                .lsm_state(version),
        );
    }

    /// Logs a trivial move: tables that a compaction moved to another level without reading them.
    pub(crate) fn tables_moved(
        &self,
        job: JobId,
        family: &str,
        plan: &CompactionPlan,
        version: &Version,
    ) {
        for (_, file) in plan.files() {
            self.info(format_args!(
                "[{family}] Moved #{} to level-{} {} bytes",
                file.number, plan.output_level, file.bytes
            ));
        }
        let count = plan.files().count();
        self.info(format_args!(
            "[{family}] Moved #{count} files to level-{} {} bytes OK: {}",
            plan.output_level,
            plan.input_bytes(),
            level_summary(version)
        ));
        self.log_event(
            self.event(Some(job), "trivial_move")
                .number("destination_level", plan.output_level)
                .number("files", count)
                .number("total_files_size", plan.input_bytes()),
        );
    }

    /// Logs tables that a compaction deleted without reading them.
    pub(crate) fn tables_dropped(&self, family: &str, plan: &CompactionPlan) {
        self.info(format_args!(
            "[{family}] Deleted {} files, {} bytes: {}",
            plan.files().count(),
            plan.input_bytes(),
            reason_name(plan.reason)
        ));
    }

    /// Logs a change of the stall condition.
    pub(crate) fn stall_changed(&self, family: &ColumnFamilyData, condition: StallCondition) {
        let (what, rate) = match condition {
            StallCondition::Normal => {
                return self.info(format_args!(
                    "[{}] Writes are no longer stalled",
                    family.name
                ));
            }
            StallCondition::Delayed {
                bytes_per_second, ..
            } => ("Stalling", format!(" rate {bytes_per_second}")),
            StallCondition::Stopped(_) => ("Stopping", String::new()),
        };
        let (waiting, level0, pending, options) = family.read(|state| {
            (
                state.sealed.len(),
                state
                    .version
                    .levels
                    .first()
                    .map_or(0, |level| level.files.len()),
                state.pending_compaction_bytes,
                Arc::clone(&state.options),
            )
        });
        let cause = match condition.cause().map(|(cause, _)| cause) {
            Some(StallCause::MemtableLimit) => format!(
                "we have {waiting} immutable memtables (waiting for flush), max_write_buffer_number is set to {}",
                options.max_write_buffer_number
            ),
            Some(StallCause::Level0FileLimit) => format!("we have {level0} level-0 files"),
            _ => format!("of estimated pending compaction bytes {pending}"),
        };
        self.warn(format_args!(
            "[{}] {what} writes because {cause}{rate}",
            family.name
        ));
    }

    /// Logs the event `table_file_creation`.
    pub(crate) fn table_created(
        &self,
        job: JobId,
        family: &str,
        file: &FileMeta,
        properties: &TableProperties,
    ) {
        let event = self
            .event(Some(job), "table_file_creation")
            .text("cf_name", family);
        self.log_event(created_table(event, file, properties));
    }

    /// Logs the event `table_file_deletion`.
    pub(crate) fn table_deleted(&self, job: JobId, number: FileNumber, outcome: &Result<()>) {
        let status = match outcome {
            Ok(()) => "OK".to_owned(),
            Err(error) => error.to_string(),
        };
        self.log_event(
            self.event(Some(job), "table_file_deletion")
                .number("file_number", number)
                .text("status", &status),
        );
    }
}

impl CompactionOutcome {
    /// Creates the statistics of a compaction from the properties of its output tables.
    pub(crate) fn new(
        totals: JobTotals,
        subcompactions: usize,
        properties: &[TableProperties],
        stats: CompactionJobStats,
    ) -> Self {
        CompactionOutcome {
            stats: CompactionJobStats {
                elapsed: totals.elapsed,
                cpu: totals.cpu,
                ..stats
            },
            totals,
            outputs: properties.len(),
            subcompactions,
            compression: codec_of(properties.first()),
        }
    }
}
