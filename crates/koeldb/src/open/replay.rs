//! Log replay: recovers acknowledged data that is not yet in tables, as whole batches without gaps.
//!
//! The handling of damage depends on the recovery mode (`docs/reliability.md`, 2.5). All dropped
//! data is listed in the [`RecoveryReport`]. Memory is bounded: a memtable that fills up during
//! replay is immediately written to a table.

mod flush;
pub(super) mod left_out;
mod verdict;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::{Error, Result, SeqNo, Timestamp};
use koeldb_fs::{FileSystem, RandomAccessFile};
use koeldb_log::{ProblemKind, RecordAndSizes, RecordReader, RecoveryMode, survey};
use koeldb_lsm::version::{ManifestReport, VersionSet};

use crate::batch::{self, Link, LinkKind};
use crate::commit::log_keys::{KeyEnd, LogKeys};
use crate::commit::logged::{insert_operations, refused_though_intact};
use crate::commit::sections::{RecordNumbers, Sections};
use crate::commit::two_phase::{self, Numbering, Pieces, Section, refused_undecided};
use crate::options::DbOptions;
use crate::options::limits;
use crate::report::{LogReport, RecoveryReport};
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::info_log::RECOVERY_JOB;
use crate::state::table_files::TableFiles;

use flush::{FlushedTable, discard, memory_max};
use left_out::{LeftOut, RewrittenTable};
use verdict::{Irregularity, Stop, Verdict};

/// The advice for a damaged or missing log, in the modes that fail at it.
const KEEP_START: &str = "restore a backup, or set wal_recovery_mode=kPointInTimeRecovery, which \
                          keeps the writes before the damage";

/// The result of the log replay, before the open records it in the MANIFEST.
#[derive(Default)]
pub(crate) struct Recovered {
    pub(crate) report: RecoveryReport,
    pub(crate) last_seqno: SeqNo,
    /// The sequence number after the last one in the logs.
    pub(crate) next_seqno: SeqNo,
    pub(crate) flushed: Vec<FlushedTable>,
    /// The newest timestamps that these tables leave out, by column family.
    pub(crate) newest_flushed: BTreeMap<u32, Timestamp>,
    /// Whether replay stopped at damage, in point-in-time mode.
    pub(crate) stopped_early: bool,
    /// The column families whose recovered data stays in their memtables, with their oldest log.
    pub(crate) in_memory: BTreeMap<u32, FileNumber>,
    /// The logs of that data, with their sizes, oldest first.
    pub(crate) kept: Vec<(FileNumber, u64)>,
    /// The numbers of logs with dropped data, which are kept in the archive.
    pub(crate) archive: Vec<FileNumber>,
    /// The prepared transactions that were neither committed nor rolled back.
    pub(crate) undecided: Vec<Section>,
    /// The entries of undecided transactions that may be in tables (WritePrepared).
    pub(crate) left_out: LeftOut,
    /// The tables without such entries that replace others.
    pub(crate) rewritten: Vec<RewrittenTable>,
}

impl Recovered {
    /// Returns the report of the log replay, completed by what the MANIFEST recovery dropped.
    pub(super) fn report_with(&self, manifest: &ManifestReport) -> RecoveryReport {
        let dropped_tail = manifest.dropped_tail.as_ref();
        let mut report = self.report.clone();
        report.manifest_tail_dropped =
            dropped_tail.map(|tail| format!("{} at offset {}", tail.kind, tail.offset));
        report.manifest_edits_dropped = manifest.dropped_group_edits;
        report.tables_missing.clone_from(&manifest.missing_tables);
        report
    }

    /// Removes the files that recovery wrote, if no edit names them.
    pub(super) fn discard(
        &self,
        families: &BTreeMap<u32, Arc<ColumnFamilyData>>,
        table_files: &TableFiles,
    ) {
        discard(&self.flushed, families, table_files);
        left_out::discard(&self.rewritten, families, table_files);
    }
}

/// Whether a record was applied, was the end of the log, or lies behind a gap.
enum RecordOutcome {
    Applied,
    End,
    /// The record does not continue the previous log.
    Gap,
}

/// The state of a log replay in progress, over all logs and column families.
struct Replay<'a> {
    mode: RecoveryMode,
    /// The size of one read of a log; 0 for the default.
    readahead_bytes: usize,
    /// The limit of the memory of all memtables, if recovery has to keep it.
    memory_max: Option<u64>,
    families: &'a BTreeMap<u32, Arc<ColumnFamilyData>>,
    log_numbers: BTreeMap<u32, FileNumber>,
    table_files: &'a TableFiles,
    read_only: bool,
    last_seqno: SeqNo,
    /// The largest sequence number that the latest record can have taken. The writer may have
    /// shown it to readers, so new entries come after it.
    last_possible: SeqNo,
    /// The sequence number of the next batch if nothing is missing.
    next_seqno: Option<SeqNo>,
    /// The sequence number after the latest record, and the larger one that follows if each of its
    /// operations took a number. Lower than `next_seqno` after a record that repeats sections.
    end_of_record: Option<(SeqNo, SeqNo)>,
    /// The log number below which all data is in tables.
    oldest_needed: FileNumber,
    /// Whether the oldest needed log is missing.
    lacks_oldest: bool,
    /// The last intact log that has no batches, only a declaration of its compression.
    announcement: Option<FileNumber>,
    /// The position where replay stopped, in point-in-time mode.
    stop: Option<Stop>,
    flushed: Vec<FlushedTable>,
    newest_flushed: BTreeMap<u32, Timestamp>,
    /// The prepared sections that are undecided so far.
    sections: Sections,
    /// Whether a transaction was committed in another log than that of its section.
    spans_logs: bool,
    /// Whether a log has operations that share a sequence number. RocksDB does not read such a log
    /// beside one of ours.
    has_shared_numbers: bool,
    /// The column families with timestamps to which records of the current log belong, except for
    /// those whose timestamps may have been switched on since.
    dated: BTreeSet<u32>,
    log_keys: LogKeys,
}

/// Replays the logs of `directory` that `versions` needs into the memtables of `families`.
///
/// `decides` says whether the database can decide prepared transactions; otherwise an undecided one
/// fails a writable open.
#[expect(clippy::too_many_arguments, reason = "the parts of an open, used once")]
pub(crate) fn replay_logs(
    fs: &dyn FileSystem,
    directory: &Path,
    db: &DbOptions,
    versions: &VersionSet,
    families: &BTreeMap<u32, Arc<ColumnFamilyData>>,
    table_files: &TableFiles,
    read_only: bool,
    decides: bool,
) -> Result<Recovered> {
    let log_numbers: BTreeMap<u32, FileNumber> = versions
        .families()
        .map(|family| (family.id(), family.log_number()))
        .collect();
    let kept_from = versions.min_log_number_to_keep();
    let unflushed_from = log_numbers.values().copied().min().unwrap_or(0);
    let oldest_needed = unflushed_from.max(kept_from);
    let ends = families
        .iter()
        .map(|(&cf, family)| (cf, KeyEnd::of(family)));
    let log_keys = LogKeys::new(ends);
    let new_replay = |left_out: Option<BTreeSet<SeqNo>>| -> Result<Replay<'_>> {
        let retained = kept_from..unflushed_from;
        let mut sections = retained_sections(fs, directory, retained, &mut log_keys.clone())?;
        let dated = families.values().filter(|family| family.has_timestamps);
        sections.set_dated(dated.map(|family| family.id));
        if let Some(left_out) = left_out {
            sections.leave_out(left_out);
        }
        Ok(Replay {
            mode: db.wal_recovery_mode,
            readahead_bytes: koeldb_base::coding::to_usize(db.log_readahead_size),
            memory_max: memory_max(db, table_files),
            families,
            log_numbers: log_numbers.clone(),
            table_files,
            read_only,
            last_seqno: versions.last_seqno(),
            last_possible: 0,
            next_seqno: None,
            end_of_record: None,
            oldest_needed,
            lacks_oldest: !fs.exists(&file_name::wal(directory, oldest_needed))?,
            announcement: None,
            stop: None,
            flushed: Vec::new(),
            newest_flushed: BTreeMap::new(),
            sections,
            spans_logs: false,
            has_shared_numbers: false,
            dated: BTreeSet::new(),
            log_keys: log_keys.clone(),
        })
    };
    let mut replay = new_replay(None)?;
    let mut recovered = replay.run(fs, directory, db, versions, decides);
    if let Ok(None) = recovered {
        // Batches of undecided transactions are in the memtables: once more without them.
        replay.discard_flushed();
        for family in families.values() {
            family.renew_memtable();
        }
        replay = new_replay(Some(replay.sections.applied_numbers()))?;
        recovered = replay.run(fs, directory, db, versions, decides);
    }
    match recovered {
        Ok(Some(recovered)) => Ok(recovered),
        Ok(None) => Err(Error::corruption(
            "a replay without undecided batches met one",
        )),
        Err(error) => {
            // An open that fails leaves the directory as it was.
            replay.discard_flushed();
            Err(error)
        }
    }
}

/// Returns the prepared sections that are undecided in logs retained only for two-phase commit.
///
/// RocksDB retains the log of a prepared section until the transaction is decided; `retained` are the
/// logs that the MANIFEST retains for that. All else in them is in tables.
fn retained_sections(
    fs: &dyn FileSystem,
    directory: &Path,
    retained: Range<FileNumber>,
    log_keys: &mut LogKeys,
) -> Result<Sections> {
    let mut sections = Sections::default();
    if retained.is_empty() {
        return Ok(sections);
    }
    let numbers = koeldb_log::wal::list(fs, directory)?;
    for number in numbers
        .into_iter()
        .filter(|number| retained.contains(number))
    {
        // Nothing is applied: records after damage count as well.
        let mode = RecoveryMode::SkipAnyCorruptedRecords;
        let mut reader = koeldb_log::wal::open(fs, directory, number, mode)?;
        log_keys.begin_log();
        while let Some((record, sizes)) = reader.next_record_and_sizes()? {
            let path = file_name::wal(directory, number);
            let record = log_keys.of_now(record, sizes, |_| true);
            let record = record
                .map_err(|error| refused_though_intact(error).in_file(&path, None, "replay"))?;
            two_phase::decode(&record)
                .and_then(|(first, pieces)| {
                    sections.apply(pieces, first, number, |records, numbering| {
                        numbering.number_all(records).map(drop)
                    })
                })
                .map_err(|error| refused_though_intact(error).in_file(&path, None, "replay"))?;
        }
        while let Some(problem) = reader.take_problem() {
            if problem.is_of_intact_record() {
                return Err(problem.to_error(&**reader.file()));
            }
        }
    }
    Ok(sections)
}

/// Fails if there are prepared transactions that were neither committed nor rolled back.
fn refuse_undecided(directory: &Path, sections: &Sections) -> Result<()> {
    let Some((name, log)) = sections.first_prepared() else {
        return Ok(());
    };
    let error = Error::not_supported(format!(
        "transaction '{}' is prepared and neither committed nor rolled back: open the database with \
         Options::set_transactions, or with RocksDB as a TransactionDB, and commit it or roll it back",
        name.escape_ascii()
    ));
    Err(error.in_file(&file_name::wal(directory, log), None, "replay"))
}

/// A log to be replayed, and its file if it is already open.
type NeededLog = (FileNumber, Option<Arc<dyn RandomAccessFile>>);

/// Returns the logs from number `oldest` on, oldest first; with `read_only` they are opened too.
///
/// A concurrent writer may continue in the meantime. The youngest log is therefore opened first: if
/// it has records, the older ones were complete, and if it has none, the contents of the older ones
/// are from one point in time. A log that disappeared after the listing had no needed data, unless
/// the MANIFEST has changed and all of this is repeated.
fn needed_logs(
    fs: &dyn FileSystem,
    directory: &Path,
    oldest: FileNumber,
    read_only: bool,
) -> Result<Vec<NeededLog>> {
    let mut logs = Vec::new();
    let numbers = koeldb_log::wal::list(fs, directory)?;
    for number in numbers.into_iter().rev() {
        if number < oldest {
            break;
        }
        if !read_only {
            logs.push((number, None));
            continue;
        }
        match koeldb_log::wal::open_file(fs, directory, number) {
            Ok(file) => logs.push((number, Some(file))),
            Err(error) if error.is_path_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    logs.reverse();
    Ok(logs)
}

impl Replay<'_> {
    /// Removes the files that were written.
    fn discard_flushed(&self) {
        discard(&self.flushed, self.families, self.table_files);
    }

    /// Replays all needed logs, checks the result, and flushes the memtables or keeps them.
    ///
    /// `None` if batches of undecided transactions were applied that have to be left out.
    fn run(
        &mut self,
        fs: &dyn FileSystem,
        directory: &Path,
        db: &DbOptions,
        versions: &VersionSet,
        decides: bool,
    ) -> Result<Option<Recovered>> {
        let mut report = RecoveryReport {
            logs: self.replay_needed_logs(fs, directory)?,
            ..RecoveryReport::default()
        };
        self.check_consistency(versions)?;
        if let Some((name, number)) = self.sections.first_applied() {
            if self.read_only || !decides || !self.can_leave_out(versions)? {
                let log = file_name::wal(directory, number);
                return Err(refused_undecided(name).in_file(&log, None, "replay"));
            }
            if !self.sections.leaves_out() {
                return Ok(None);
            }
        }
        let left_out = self.left_out_of_tables(versions)?;
        if !self.read_only && !decides {
            refuse_undecided(directory, &self.sections)?;
        }
        let mut in_memory = BTreeMap::new();
        if !self.read_only && db.avoid_flush_during_recovery && self.may_keep_memtables(&report) {
            in_memory = self.unflushed();
        } else if !self.read_only {
            self.flush_all()?;
        }
        let oldest_kept = in_memory.values().min().copied().unwrap_or(FileNumber::MAX);
        let kept = report.logs.iter().map(|log| (log.number, log.bytes));
        let kept = kept.filter(|(number, _)| *number >= oldest_kept).collect();
        let damaged = report.logs.iter();
        let damaged = damaged.filter(|log| log.ignored || log.dropped_bytes > 0);
        let archive = damaged.map(|log| log.number).collect();
        let last_seqno = self.last_seqno.max(self.last_possible);
        report.last_seqno = last_seqno;
        report.tables_written = self.flushed.iter().map(|it| it.table.number).collect();
        let blob_files = self.flushed.iter().flat_map(|it| &it.blob_files);
        report.blob_files_written = blob_files.map(|file| file.number).collect();
        let mut undecided = self.sections.take_prepared();
        undecided.extend(self.sections.take_left_out());
        Ok(Some(Recovered {
            report,
            last_seqno,
            next_seqno: self.next_seqno.unwrap_or(last_seqno + 1),
            stopped_early: self.stop.is_some(),
            flushed: std::mem::take(&mut self.flushed),
            newest_flushed: std::mem::take(&mut self.newest_flushed),
            in_memory,
            kept,
            archive,
            undecided,
            left_out,
            rewritten: Vec::new(),
        }))
    }

    /// Replays all logs that may have unflushed data, oldest first, and reports the damage of each.
    fn replay_needed_logs(
        &mut self,
        fs: &dyn FileSystem,
        directory: &Path,
    ) -> Result<Vec<LogReport>> {
        let logs = needed_logs(fs, directory, self.oldest_needed, self.read_only)?;
        let info_log = &self.table_files.info_log;
        info_log.log_event(
            info_log
                .event(Some(RECOVERY_JOB), "recovery_started")
                .numbers("wal_files", logs.iter().map(|(number, _)| number)),
        );
        let mut reports = Vec::with_capacity(logs.len());
        for (number, file) in logs {
            let file = match file {
                Some(file) => file,
                None => koeldb_log::wal::open_file(fs, directory, number)?,
            };
            let mut log = self.replay(&file, number)?;
            if let Some(offset) = log.problem_offset
                && self.mode != RecoveryMode::SkipAnyCorruptedRecords
            {
                log.intact_records_after = survey::intact_records_after(&*file, number, offset)?;
            }
            reports.push(log);
        }
        Ok(reports)
    }

    /// Replays one log file and reports its batches and damage.
    fn replay(
        &mut self,
        file: &Arc<dyn RandomAccessFile>,
        number: FileNumber,
    ) -> Result<LogReport> {
        let mut reader = RecordReader::new(Arc::clone(file), number, self.mode);
        reader.set_record_bytes_max(limits(self.table_files.untrusted).record_bytes);
        reader.set_readahead_bytes(self.readahead_bytes);
        let mut log = LogReport {
            number,
            bytes: file.len(),
            ..LogReport::default()
        };
        let follows_stop = self.stop.is_some();
        if !self.replay_records(&mut reader, &mut log)? {
            return Ok(log);
        }
        if let Some(tail) = reader.tolerated_tail() {
            log.add_problem(tail.offset, || tail.to_error(&**file).to_string());
            log.dropped_bytes = log.dropped_bytes.max(tail.dropped_bytes);
        }
        if follows_stop && log.batches > 0 {
            // The log continues exactly where replay stopped: nothing is missing.
            self.stop = None;
        }
        if log.batches == 0 && log.problem.is_none() && reader.is_compression_announced() {
            self.announcement = Some(number);
        }
        Ok(log)
    }

    /// Replays the records of a log until its end or a stop, at damage or a gap; `true` at its end.
    fn replay_records(&mut self, reader: &mut RecordReader, log: &mut LogReport) -> Result<bool> {
        let file = Arc::clone(reader.file());
        let mut is_first = true;
        self.dated.clear();
        self.log_keys.begin_log();
        loop {
            let next = reader.next_record_and_sizes()?;
            let outcome = match self.with_keys_of_now(next, log.number) {
                Err(error) => Err(error),
                Ok(None) => Ok(RecordOutcome::End),
                Ok(Some(record)) if std::mem::take(&mut is_first) => {
                    self.replay_first_record(&record, &*file, log)
                }
                Ok(Some(record)) => self.replay_record(&record, log),
            };
            let outcome = outcome.and_then(|outcome| {
                self.check_timestamps(reader.timestamp_sizes())?;
                Ok(outcome)
            });
            while let Some(problem) = reader.take_problem() {
                if problem.kind == ProblemKind::OldRecord {
                    // Every log that was written over an older one ends like this. Nothing is known
                    // to be missing, but a later log must continue here.
                    self.stop_in(log, Stop::Remains { log: log.number });
                    return Ok(false);
                }
                let error = problem.to_error(&*file);
                if problem.is_of_intact_record() {
                    return Err(error);
                }
                log.add_problem(problem.offset, || error.to_string());
                log.dropped_bytes = log.dropped_bytes.max(reader.dropped_bytes());
                if !self.passes_damage(log, error)? {
                    return Ok(false);
                }
            }
            match outcome {
                Ok(RecordOutcome::Applied) => {}
                Ok(RecordOutcome::End) => return Ok(true),
                Ok(RecordOutcome::Gap) => {
                    self.check_gap(reader)?;
                    log.ignored = true;
                    log.dropped_bytes = log.bytes;
                    return Ok(false);
                }
                Err(error) => {
                    let start = reader.last_record().start;
                    return Err(error.in_file(file.path(), Some(start), "replay"));
                }
            }
        }
    }

    /// Returns the next record of log `log` with the keys that its column families have now.
    fn with_keys_of_now<'r>(
        &mut self,
        next: Option<RecordAndSizes<'r>>,
        log: FileNumber,
    ) -> Result<Option<Cow<'r, [u8]>>> {
        let Some((record, sizes)) = next else {
            return Ok(None);
        };
        let is_needed = |cf| self.log_numbers.get(&cf).is_some_and(|&from| log >= from);
        let record = self.log_keys.of_now(record, sizes, is_needed);
        record.map(Some).map_err(refused_though_intact)
    }

    /// Fails unless a log declares the families with timestamps that its records belong to.
    fn check_timestamps(&self, declared: &[(u32, u16)]) -> Result<()> {
        let is_declared = |cf: &u32| declared.iter().any(|(known, _)| known == cf);
        match self.dated.iter().find(|cf| !is_declared(cf)) {
            None => Ok(()),
            Some(cf) => Err(Error::not_supported(format!(
                "keys of column family {cf} in the log have no timestamps, which its comparator needs"
            ))),
        }
    }

    /// Reacts to damage by the `WALRecoveryMode`: returns whether to continue, or fails.
    fn passes_damage(&mut self, log: &LogReport, error: Error) -> Result<bool> {
        match Verdict::of(Irregularity::Damage, self.mode) {
            Verdict::Continue => Ok(true),
            Verdict::Fail => Err(error.with_advice(KEEP_START)),
            Verdict::Stop => {
                self.stop_in(log, Stop::Damage { log: log.number });
                Ok(false)
            }
        }
    }

    /// Records that replay stops in this log; a later log that continues exactly there resumes it.
    ///
    /// A log of which nothing was applied does not move the place where replay stopped.
    fn stop_in(&mut self, log: &LogReport, stop: Stop) {
        if log.batches > 0 || self.stop.is_none() {
            self.stop = Some(stop);
        }
    }

    /// Replays the first record of a log, unless a gap before it stops or fails the replay.
    fn replay_first_record(
        &mut self,
        record: &[u8],
        file: &dyn RandomAccessFile,
        log: &mut LogReport,
    ) -> Result<RecordOutcome> {
        if let Some(before) = self.gap_before(record) {
            let what = format!("the end of log {before:06} is missing, which this log continues");
            match Verdict::of(Irregularity::Gap, self.mode) {
                Verdict::Continue => log.problem = Some(what),
                Verdict::Fail => {
                    let error = Error::corruption(what).in_file(file.path(), Some(0), "replay");
                    return Err(error.with_advice(KEEP_START));
                }
                Verdict::Stop => {
                    let after = log.number;
                    self.stop = match self.stop {
                        None | Some(Stop::Remains { .. }) => Some(Stop::Gap { before, after }),
                        stop => stop,
                    };
                    return Ok(RecordOutcome::Gap);
                }
            }
        }
        self.replay_record(record, log)
    }

    /// Returns the log whose end is missing before a log that begins with `record`; else `None`.
    ///
    /// A log of KoelDB records which log it follows and how that one ended; a log of RocksDB is
    /// assumed to be contiguous unless the log before it is damaged.
    fn gap_before(&self, record: &[u8]) -> Option<FileNumber> {
        let (first, _) = batch::header(record).ok()?;
        let continues = self
            .end_of_record
            .is_some_and(|(end, longest)| first == end || first == longest);
        match Link::decode(record) {
            Some(link) if link.before < self.oldest_needed => self.stopped_in(),
            Some(link) if self.is_link_of_early_version(link) => self.stopped_in(),
            Some(link) => (!continues).then_some(link.before),
            None => self.stopped_in().filter(|_| !continues),
        }
    }

    /// Returns the number of the log in which replay has stopped; `None` if it has not.
    fn stopped_in(&self) -> Option<FileNumber> {
        self.stop.map(Stop::log)
    }

    /// Whether the log that a link of an early KoelDB version names is missing without data loss.
    ///
    /// The linked log is empty, or it was removed without a record because no family needed it.
    fn is_link_of_early_version(&self, link: Link) -> bool {
        let is_gone = self.lacks_oldest || self.announcement == Some(link.before);
        link.kind == LinkKind::Early && self.next_seqno.is_none() && is_gone
    }

    /// Fails at a gap that no crash explains: this log records that its predecessors were synced.
    ///
    /// This is one of the logs after the gap, read from its second record. No crash explains that.
    fn check_gap(&self, reader: &mut RecordReader) -> Result<()> {
        let Some(Stop::Gap { before, after }) = self.stop else {
            return Ok(());
        };
        while let Some(record) = reader.next_record()? {
            if Link::decode(record).is_some_and(|link| link.kind == LinkKind::Durable) {
                let directory = reader.file().path().parent().unwrap_or(Path::new(""));
                return Err(Error::corruption(format!(
                    "{} is missing or ends early, without damage, and {} continues after it and has \
                     synced batches",
                    file_name::wal(directory, before).display(),
                    file_name::wal(directory, after).display(),
                ))
                .with_advice(
                    "restore the missing log, or open without it, with \
                     wal_recovery_mode=kSkipAnyCorruptedRecords",
                ));
            }
        }
        Ok(())
    }

    /// Replays the write batch of one record into the memtables.
    fn replay_record(&mut self, record: &[u8], log: &mut LogReport) -> Result<RecordOutcome> {
        let (first, pieces) = self.decode(record).map_err(refused_though_intact)?;
        let takes_numbers = pieces.takes_numbers();
        let is_older = self.next_seqno.is_some_and(|next| first < next);
        let longest = first + SeqNo::from(pieces.count());
        let RecordNumbers {
            next,
            largest,
            is_known,
            ..
        } = self.replay_pieces(pieces, first, log.number)?;
        log.batches += 1;
        if next > first {
            self.last_seqno = self.last_seqno.max(next - 1);
            self.last_possible = largest - 1;
            log.last_seqno = largest - 1;
        }
        let end = is_known.then_some(next);
        self.end_of_record = end.map(|end| (end, end.max(longest)));
        if takes_numbers || !is_older {
            self.next_seqno = end;
        }
        Ok(RecordOutcome::Applied)
    }

    /// Decodes a write batch and its sequence number; fails if that is below the next one due.
    fn decode<'r>(&self, record: &'r [u8]) -> Result<(SeqNo, Pieces<'r>)> {
        let (first, pieces) = two_phase::decode(record)?;
        // Sections and rollbacks take no numbers. A log that replaces a failed one repeats sections
        // under the number of the batch that failed, which may be in the older log.
        match self.next_seqno.filter(|&next| first < next) {
            Some(next) if pieces.takes_numbers() => Err(Error::corruption(format!(
                "batch goes back to sequence number {first}, where {next} or more is due"
            ))),
            _ => Ok((first, pieces)),
        }
    }

    /// Applies the operations and two-phase commit sections of a batch; returns its numbers.
    fn replay_pieces(
        &mut self,
        pieces: Pieces<'_>,
        first: SeqNo,
        log: FileNumber,
    ) -> Result<RecordNumbers> {
        let mut sections = std::mem::take(&mut self.sections);
        let applied = sections.apply(pieces, first, log, |records, numbering| {
            self.apply(records, numbering, log)
        });
        self.sections = sections;
        let numbers = applied?;
        self.has_shared_numbers |= numbers.are_shared;
        self.spans_logs |= numbers.spans_logs;
        Ok(numbers)
    }

    /// Inserts operations into the memtables of the column families that still need log `log`.
    fn apply<'r>(
        &mut self,
        records: &'r [u8],
        numbering: &mut Numbering<'r>,
        log: FileNumber,
    ) -> Result<()> {
        insert_operations(records, numbering, |cf, _| {
            let is_needed = self.log_numbers.get(&cf).is_some_and(|&from| log >= from);
            let family = self.families.get(&cf).filter(|_| is_needed)?;
            if self.log_keys.are_always_dated(cf) {
                self.dated.insert(cf);
            }
            Some(family.read(|state| Arc::clone(&state.active.memtable)))
        })?;
        self.flush_full()
    }

    /// Checks that no column family has tables with data from after the point where replay stopped.
    ///
    /// (W1 in `docs/reliability.md`.)
    fn check_consistency(&self, versions: &VersionSet) -> Result<()> {
        let stopped_in = match self.stop {
            // Like the end of a file.
            None | Some(Stop::Remains { .. }) => return Ok(()),
            Some(stop) => stop.log(),
        };
        for family in versions.families() {
            let has_tables = family.current().files().next().is_some();
            if family.log_number() > stopped_in && has_tables {
                return Err(Error::corruption(format!(
                    "Column family inconsistency: tables of column family '{}' hold data beyond the point of corruption \
                     in log {stopped_in:06}; open with kSkipAnyCorruptedRecords to read what can be read",
                    family.name()
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
