//! Replaying the logs: what was acknowledged and not yet in tables comes back, whole batches only, without holes.
//!
//! How damage is met depends on the recovery mode (`docs/reliability.md`, 2.5). Whatever is dropped is said in the
//! [`RecoveryReport`]. Memory is bounded: a memtable that fills up while logs are replayed becomes a table at once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;
use koeldb_base::key::MAX_SEQNO;
use koeldb_base::sabotage::{Sabotage, is_on};
use koeldb_base::{Error, ErrorKind, Result, SeqNo, ValueType};
use koeldb_fs::{FileSystem, RandomAccessFile};
use koeldb_log::{RecordReader, RecoveryMode, survey};
use koeldb_lsm::FileMeta;
use koeldb_lsm::version::VersionSet;
use koeldb_table::builder::TableReason;

use super::report::{LogReport, RecoveryReport};
use crate::family::FamilyData;
use crate::options::DbOptions;
use crate::tables::{TableFactory, limits};
use crate::write::batch::{self, BatchEntry, BatchIter, HEADER_BYTES};

/// The recovered state, before it is recorded.
pub(crate) struct Recovered {
    pub(crate) report: RecoveryReport,
    pub(crate) last_seqno: SeqNo,
    /// The sequence number that would have come next in the logs.
    pub(crate) next_seqno: SeqNo,
    pub(crate) flushed: Vec<(u32, Arc<FileMeta>)>,
    /// Replay stopped at damage, in point-in-time mode.
    pub(crate) stopped_early: bool,
    /// Logs of which something was left out: they are kept in the archive.
    pub(crate) archive: Vec<FileNumber>,
}

struct Replay<'a> {
    mode: RecoveryMode,
    families: &'a BTreeMap<u32, Arc<FamilyData>>,
    log_numbers: BTreeMap<u32, FileNumber>,
    factory: &'a TableFactory,
    read_only: bool,
    last_seqno: SeqNo,
    /// The sequence number that the next batch has if nothing is missing.
    next_seqno: Option<SeqNo>,
    /// Logs before this one hold nothing that is not in tables.
    oldest_needed: FileNumber,
    /// The last log that had batches.
    previous: Option<FileNumber>,
    /// The log at whose damage replay stopped.
    stopped_in: Option<FileNumber>,
    flushed: Vec<(u32, Arc<FileMeta>)>,
}

/// Replays the logs of `directory` that `versions` needs into the memtables of `families`.
pub(crate) fn replay_logs(
    fs: &dyn FileSystem,
    directory: &Path,
    db: &DbOptions,
    versions: &VersionSet,
    families: &BTreeMap<u32, Arc<FamilyData>>,
    factory: &TableFactory,
    read_only: bool,
) -> Result<Recovered> {
    let log_numbers: BTreeMap<u32, FileNumber> = versions
        .families()
        .map(|family| (family.id(), family.log_number()))
        .collect();
    let oldest_needed = log_numbers
        .values()
        .copied()
        .min()
        .unwrap_or(0)
        .max(versions.min_log_number_to_keep());
    let mut replay = Replay {
        mode: db.wal_recovery_mode,
        families,
        log_numbers,
        factory,
        read_only,
        last_seqno: versions.last_seqno(),
        next_seqno: None,
        oldest_needed,
        previous: None,
        stopped_in: None,
        flushed: Vec::new(),
    };
    let mut report = RecoveryReport::default();
    let mut archive = Vec::new();
    for (number, file) in needed_logs(fs, directory, oldest_needed, read_only)? {
        let file = match file {
            Some(file) => file,
            None => koeldb_log::wal::open_file(fs, directory, number)?,
        };
        let mut log = replay.replay(&file, number)?;
        if let Some(offset) = log.problem_offset
            && db.wal_recovery_mode != RecoveryMode::SkipAnyCorruptedRecords
        {
            log.intact_behind = survey::intact_behind(&*file, number, offset)?;
        }
        if log.batches > 0 {
            // One without batches is the rest of an attempt to begin it.
            replay.previous = Some(number);
        }
        if log.ignored || log.dropped_bytes > 0 {
            archive.push(number);
        }
        report.logs.push(log);
    }
    replay.check_consistency(versions)?;
    if !read_only {
        replay.flush_all()?;
    }
    report.last_seqno = replay.last_seqno;
    report.tables_written = replay.flushed.iter().map(|(_, file)| file.number).collect();
    Ok(Recovered {
        report,
        last_seqno: replay.last_seqno,
        next_seqno: replay.next_seqno.unwrap_or(replay.last_seqno + 1),
        stopped_early: replay.stopped_in.is_some(),
        flushed: replay.flushed,
        archive,
    })
}

/// A log that is replayed, and its file if that has to be opened before.
type NeededLog = (FileNumber, Option<Arc<dyn RandomAccessFile>>);

/// The logs from number `oldest` on, oldest first; with `read_only` opened, each as long as it was then.
///
/// A writer beside a reader may go on meanwhile. So the youngest is opened first: if it has records, the older ones had all of
/// theirs, and if it has none, what the older ones have is all that was there at one moment. One that is gone since they
/// were listed had none, unless the MANIFEST has changed and all of this is done again.
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
    fn replay(
        &mut self,
        file: &Arc<dyn RandomAccessFile>,
        number: FileNumber,
    ) -> Result<LogReport> {
        let path = file.path();
        let mut reader = RecordReader::new(Arc::clone(file), number, self.mode);
        reader.set_record_bytes_max(limits(self.factory.untrusted).record_bytes);
        let mut log = LogReport {
            number,
            bytes: file.len(),
            ..LogReport::default()
        };
        let follows_damage = self.stopped_in.is_some();
        let mut is_first = true;
        loop {
            let outcome = match reader.next_record()? {
                Some(record) => {
                    let gap = if is_first {
                        self.gap_before(record)
                    } else {
                        None
                    };
                    is_first = false;
                    match (gap, self.mode) {
                        (Some(before), RecoveryMode::PointInTime) => {
                            self.stopped_in.get_or_insert(before);
                            Ok(Taken::Gap)
                        }
                        (Some(before), RecoveryMode::AbsoluteConsistency) => {
                            let error = Error::corruption(missing_before(before));
                            return Err(error.in_file(path, Some(0), "replay"));
                        }
                        (gap, _) => {
                            log.problem = gap.map(missing_before);
                            self.take(record, number, &mut log)
                        }
                    }
                }
                None => Ok(Taken::End),
            };
            if let Some(problem) = reader.take_problem() {
                log.problem_offset.get_or_insert(problem.offset);
                log.problem
                    .get_or_insert_with(|| problem.to_error(&**file).to_string());
                log.dropped_bytes = log.dropped_bytes.max(reader.dropped_bytes());
                match self.mode {
                    RecoveryMode::TolerateCorruptedTailRecords
                    | RecoveryMode::AbsoluteConsistency => {
                        return Err(problem.to_error(&**file));
                    }
                    RecoveryMode::PointInTime => {
                        self.stopped_in = Some(number);
                        return Ok(log);
                    }
                    RecoveryMode::SkipAnyCorruptedRecords => {}
                }
            }
            match outcome {
                Ok(Taken::Applied) => {}
                Ok(Taken::End) => break,
                Ok(Taken::Gap) => {
                    log.ignored = true;
                    log.dropped_bytes = log.bytes;
                    return Ok(log);
                }
                Err(error) => {
                    let error = error.in_file(path, Some(reader.last_record().start), "replay");
                    let is_newer_than_us = error.kind() == ErrorKind::NotSupported;
                    if is_newer_than_us || !error.is_corruption() {
                        return Err(error);
                    }
                    log.problem_offset.get_or_insert(reader.last_record().start);
                    log.problem.get_or_insert_with(|| error.to_string());
                    match self.mode {
                        RecoveryMode::SkipAnyCorruptedRecords => {}
                        RecoveryMode::PointInTime => {
                            log.dropped_bytes =
                                log.bytes.saturating_sub(reader.last_record().start);
                            self.stopped_in = Some(number);
                            return Ok(log);
                        }
                        _ => return Err(error),
                    }
                }
            }
        }
        if let Some(tail) = reader.tolerated_tail() {
            log.problem_offset.get_or_insert(tail.offset);
            log.problem
                .get_or_insert_with(|| tail.to_error(&**file).to_string());
            log.dropped_bytes = log.dropped_bytes.max(tail.dropped_bytes);
        }
        if follows_damage && log.batches > 0 {
            // The log continued exactly where the damaged one broke off: nothing is missing.
            self.stopped_in = None;
        }
        Ok(log)
    }

    /// Whether something is missing in front of a log that begins with `record`: then the log before it, as far as
    /// known. A log of ours says which one it follows and how that one ended; one of RocksDB's is believed unless the
    /// log before it is damaged.
    fn gap_before(&self, record: &[u8]) -> Option<FileNumber> {
        if is_on(Sabotage::HoleAccepted) {
            return None;
        }
        let (first, _) = batch::header(record).ok()?;
        let continues = self.next_seqno == Some(first);
        match batch::link_to(record) {
            Some(before) if before < self.oldest_needed => self.stopped_in,
            Some(before) => (self.previous != Some(before) || !continues).then_some(before),
            None => self.stopped_in.filter(|_| !continues),
        }
    }

    fn take(&mut self, record: &[u8], number: FileNumber, log: &mut LogReport) -> Result<Taken> {
        let (first, _) = batch::header(record)?;
        let count = batch::check(record)?;
        if first > MAX_SEQNO || first + SeqNo::from(count) > MAX_SEQNO {
            return Err(Error::corruption(format!(
                "batch with the impossible sequence number {first}"
            )));
        }
        // Found out before anything is applied: entries that are there already are found when half a batch is.
        let goes_back = count > 0 && self.next_seqno.is_some_and(|next| first < next);
        if goes_back && self.mode != RecoveryMode::SkipAnyCorruptedRecords {
            return Err(Error::corruption(format!(
                "batch that goes back to sequence number {first}"
            )));
        }
        self.apply(&record[HEADER_BYTES..], first, number)?;
        log.batches += 1;
        let end = first + SeqNo::from(count);
        self.next_seqno = Some(end);
        let last = end.saturating_sub(1);
        if count > 0 {
            self.last_seqno = self.last_seqno.max(last);
            log.last_seqno = last;
        }
        Ok(Taken::Applied)
    }

    fn apply(&mut self, records: &[u8], first: SeqNo, number: FileNumber) -> Result<()> {
        let mut seqno = first;
        for entry in BatchIter::new(records) {
            let (cf, value_type, key, value) = match entry? {
                BatchEntry::Put { cf, key, value } => (cf, ValueType::Value, key, value),
                BatchEntry::Delete { cf, key } => (cf, ValueType::Deletion, key, &[][..]),
                BatchEntry::SingleDelete { cf, key } => {
                    (cf, ValueType::SingleDeletion, key, &[][..])
                }
                BatchEntry::Merge { cf, key, operand } => (cf, ValueType::Merge, key, operand),
                BatchEntry::DeleteRange { cf, from, to } => {
                    (cf, ValueType::RangeDeletion, from, to)
                }
                BatchEntry::PutEntity { cf, key, entity } => {
                    (cf, ValueType::WideColumnEntity, key, entity)
                }
                BatchEntry::LogData(_) => continue,
            };
            let is_needed = self
                .log_numbers
                .get(&cf)
                .is_some_and(|&from| number >= from);
            let is_lost = is_on(Sabotage::EntryNotReplayed) && seqno.is_multiple_of(7);
            if is_needed
                && !is_lost
                && let Some(family) = self.families.get(&cf)
            {
                let memtable = family.read(|state| Arc::clone(&state.active.memtable));
                memtable
                    .insert(seqno, value_type, key, value)
                    .map_err(|error| match error.kind() {
                        ErrorKind::TryAgain => Error::corruption(format!(
                            "a second entry of a key with sequence number {seqno}"
                        )),
                        _ => error,
                    })?;
            }
            seqno += 1;
        }
        self.flush_full()
    }

    /// Writes memtables out that are full, between batches.
    fn flush_full(&mut self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        for family in self.families.values() {
            let is_full = family.read(|state| {
                state.active.memtable.filled_bytes() as u64 >= state.options.write_buffer_size
            });
            if is_full {
                flush(family, self.factory, &mut self.flushed)?;
            }
        }
        Ok(())
    }

    fn flush_all(&mut self) -> Result<()> {
        for family in self.families.values() {
            flush(family, self.factory, &mut self.flushed)?;
        }
        Ok(())
    }

    /// A family must not have tables from behind the point where replay stopped (W1).
    fn check_consistency(&self, versions: &VersionSet) -> Result<()> {
        let Some(stopped_in) = self.stopped_in else {
            return Ok(());
        };
        if is_on(Sabotage::InconsistencyAccepted) {
            return Ok(());
        }
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

enum Taken {
    Applied,
    End,
    /// The record does not continue the log before.
    Gap,
}

fn missing_before(before: FileNumber) -> String {
    format!("the end of log {before:06} is missing, which this log continues")
}

fn flush(
    family: &FamilyData,
    factory: &TableFactory,
    flushed: &mut Vec<(u32, Arc<FileMeta>)>,
) -> Result<()> {
    let memtable = family.read(|state| Arc::clone(&state.active.memtable));
    if memtable.is_empty() {
        return Ok(());
    }
    memtable.seal();
    let epoch = family.epochs.next();
    let flush = factory.flush(family, &[memtable], &[], epoch, TableReason::Recovery)?;
    if let Some(file) = flush.file {
        flushed.push((family.id, Arc::new(file)));
    }
    family.renew_memtable();
    Ok(())
}
