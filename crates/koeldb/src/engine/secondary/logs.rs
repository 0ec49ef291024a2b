//! Reads the logs of a primary, from the position where the last catch-up ended.
//!
//! An incomplete record at the end of a log is not written yet, unless a later log has records: a
//! writer continues in a new log only after the record of the old one, or gave it up.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_fs::{FileSystem, RandomAccessFile};
use koeldb_log::{RecordReader, RecoveryMode};
use koeldb_memtable::Memtable;

use crate::commit::log_keys::{KeyEnd, LogKeys};
use crate::commit::logged::{insert_operations, refused_though_intact};
use crate::commit::sections::Sections;
use crate::commit::two_phase::{self, Numbering, refused_undecided};
use crate::state::column_family_data::ColumnFamilyData;

/// A WAL file of the primary, opened for reading up to its length at that time.
pub(crate) struct OpenedLog {
    pub(crate) number: FileNumber,
    file: Arc<dyn RandomAccessFile>,
}

/// Opens the primary's WAL files from number `oldest` on, and returns them oldest first.
///
/// The youngest is opened first: if it has records, the older ones are complete when they are opened.
/// A log that is gone is left out.
pub(crate) fn open_logs(
    fs: &dyn FileSystem,
    directory: &Path,
    oldest: FileNumber,
) -> Result<Vec<OpenedLog>> {
    let mut logs = Vec::new();
    let numbers = koeldb_log::wal::list(fs, directory)?;
    for number in numbers
        .into_iter()
        .rev()
        .take_while(|&number| number >= oldest)
    {
        match koeldb_log::wal::open_file(fs, directory, number) {
            Ok(file) => logs.push(OpenedLog { number, file }),
            Err(error) if error.is_path_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    logs.reverse();
    Ok(logs)
}

/// Whether the primary has removed or renamed one of `logs` since they were opened.
pub(crate) fn are_removed(fs: &dyn FileSystem, logs: &[OpenedLog]) -> Result<bool> {
    for log in logs {
        if !fs.exists(log.file.path())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A column family into which the primary's logs are replayed, with its log number.
pub(crate) struct Target {
    pub(crate) data: Arc<ColumnFamilyData>,
    /// The log number below which all data of the column family is in its tables.
    pub(crate) log_number: FileNumber,
}

/// The replay position of a secondary in its primary's logs.
#[derive(Default)]
pub(crate) struct LogTail {
    /// The log being read, with a reader after the last record that was applied.
    current: Option<(FileNumber, RecordReader)>,
    /// The prepared transactions read so far that are undecided.
    sections: Sections,
    /// The largest sequence number applied so far.
    pub(crate) last_seqno: SeqNo,
    /// The number of batches applied so far.
    pub(crate) batches: u64,
    /// The largest sequence number applied from the current log.
    pub(crate) last_in_current: SeqNo,
    failure: Option<Error>,
}

impl LogTail {
    /// Returns the prepared transactions that were read and are neither committed nor rolled back.
    pub(crate) fn undecided(&self) -> &Sections {
        &self.sections
    }

    /// Whether `error` may be due to a concurrent write of the primary, so that a retry may help.
    ///
    /// A record that the primary writes during the reading, or a recycled log that it truncates,
    /// cannot be told from damage.
    pub(crate) fn is_worth_rereading(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::Corruption && self.failure.is_none()
    }

    /// Returns the number of the log being read; `None` before the first log.
    pub(crate) fn current(&self) -> Option<FileNumber> {
        self.current.as_ref().map(|(number, _)| *number)
    }

    /// Returns the number of the first log from which the replay continues.
    pub(crate) fn read_from(&self, oldest_needed: FileNumber) -> FileNumber {
        oldest_needed.max(self.current().unwrap_or(0))
    }

    /// Replays the write batches of `logs` behind the current position into memtables.
    ///
    /// The sequence numbers of new batches must be above the last applied one and above `view`, that
    /// of the installed view; `None` if no view was installed yet.
    ///
    /// # Errors
    /// `Corruption` for damage; errors of the file system. `Aborted` if the logs do not continue
    /// the view: nothing of the batch that does not is applied. If a part of a batch was applied,
    /// or a batch is malformed, later calls fail too. `NotSupported`, until a later call, if a
    /// transaction is undecided whose operations the logs and tables have already.
    pub(crate) fn apply(
        &mut self,
        logs: &[OpenedLog],
        families: &BTreeMap<u32, Target>,
        view: Option<SeqNo>,
    ) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if let Some(first) = logs.first()
            && self
                .current
                .as_ref()
                .is_some_and(|(number, _)| *number < first.number)
        {
            // A later commit of these sections is in tables, or is of other sections of that name.
            self.sections = Sections::default();
            self.current = None;
            self.last_in_current = 0;
        }
        let dated = families.iter().filter(|(_, of)| of.data.has_timestamps);
        self.sections.set_dated(dated.map(|(cf, _)| *cf));
        let ends = families.iter().map(|(cf, of)| (*cf, KeyEnd::of(&of.data)));
        let mut log_keys = LogKeys::new(ends);
        for log in logs {
            let reader = match self.current.take() {
                Some((number, mut reader)) if number == log.number => {
                    let read = reader.last_record().end;
                    if log.file.len() < read {
                        return Err(Error::with_kind(
                            ErrorKind::Aborted,
                            format!("log {number:06} ends before {read}, which was read"),
                        ));
                    }
                    // Of any length: a recycled log keeps that of its earlier use, and damage is
                    // reported again.
                    if let Err(error) = reader.resume(Arc::clone(&log.file)) {
                        self.current = Some((number, reader));
                        return Err(error);
                    }
                    reader
                }
                other => {
                    self.current = other;
                    let mode = RecoveryMode::TolerateCorruptedTailRecords;
                    RecordReader::new(Arc::clone(&log.file), log.number, mode)
                }
            };
            log_keys.begin_log();
            self.apply_log(log.number, reader, families, &mut log_keys, view)?;
        }
        match self.sections.first_applied() {
            Some((name, _)) => Err(refused_undecided(name)),
            None => Ok(()),
        }
    }

    /// Stores and returns an error that leaves the replay position unknown: later calls fail too.
    fn fail(&mut self, error: Error) -> Error {
        self.failure.insert(error).clone()
    }

    /// Replays the remaining write batches of one log, and keeps its reader for later records.
    ///
    /// The reader of a log without records is not kept if an earlier log is still being read.
    fn apply_log(
        &mut self,
        number: FileNumber,
        mut reader: RecordReader,
        families: &BTreeMap<u32, Target>,
        log_keys: &mut LogKeys,
        view: Option<SeqNo>,
    ) -> Result<()> {
        let mut log = Log {
            number,
            view,
            families,
            memtables: BTreeMap::new(),
        };
        let applied = loop {
            let is_needed = |cf| families.get(&cf).is_some_and(|of| number >= of.log_number);
            let next = reader.next_record_and_sizes();
            let record = match next {
                Ok(Some((record, sizes))) => log_keys.of_now(record, sizes, is_needed),
                Ok(None) => break Ok(()),
                // A later call continues behind the last record.
                Err(error) => break Err(error),
            };
            let applied = record.map_err(refused_though_intact);
            let applied = applied.and_then(|record| self.apply_record(&record, &mut log));
            if let Err(error) = applied {
                let start = reader.last_record().start;
                let error = error.in_file(reader.file().path(), Some(start), "replay");
                break Err(self.fail(error));
            }
            self.batches += 1;
        };
        let problem = reader.take_problem();
        let damage = problem.map(|problem| problem.to_error(&**reader.file()));
        // The log before may still be written while this one is empty.
        if self.current.is_none() || !reader.last_record().is_empty() {
            self.current = Some((number, reader));
        }
        applied.and(damage.map_or(Ok(()), Err))
    }

    /// Checks the sequence number of one log record, and applies its write batch to the memtables.
    fn apply_record(&mut self, record: &[u8], log: &mut Log<'_>) -> Result<()> {
        let (first, pieces) = two_phase::decode(record).map_err(refused_though_intact)?;
        // Checked before anything is applied, as in recovery.
        let newest = self.last_seqno.max(log.view.unwrap_or(0));
        if newest > 0 && first <= newest && pieces.takes_numbers() {
            let message = format!("a batch goes back to sequence number {first}, after {newest}");
            return Err(match log.view {
                Some(_) => Error::with_kind(ErrorKind::Aborted, message),
                None => refused_though_intact(Error::corruption(message)),
            });
        }
        let applied = self
            .sections
            .apply(pieces, first, log.number, |records, numbering| {
                log.apply(records, numbering)
            });
        let next = applied?.next;
        if next > first {
            self.last_seqno = self.last_seqno.max(next - 1);
            self.last_in_current = self.last_in_current.max(next - 1);
        }
        Ok(())
    }
}

/// The context for replaying one log of the primary: its number, column families and memtables.
struct Log<'f> {
    number: FileNumber,
    /// The sequence number of the view that the log continues.
    view: Option<SeqNo>,
    families: &'f BTreeMap<u32, Target>,
    /// The memtables for the log's entries; `None` for column families that need none of them.
    memtables: BTreeMap<u32, Option<Arc<Memtable>>>,
}

impl Log<'_> {
    /// Inserts the operations of a write batch into the memtables, by column family.
    fn apply<'r>(&mut self, records: &'r [u8], numbering: &mut Numbering<'r>) -> Result<()> {
        let (number, families) = (self.number, self.families);
        insert_operations(records, numbering, |cf, _| {
            let memtable = self.memtables.entry(cf);
            memtable
                .or_insert_with(|| memtable_of(families.get(&cf)?, number))
                .clone()
        })
    }
}

/// Returns the memtable for replaying log `number`, created if needed; `None` if tables cover it.
///
/// Each memtable has the entries of one log, so that it can be dropped when a version covers that.
fn memtable_of(target: &Target, number: FileNumber) -> Option<Arc<Memtable>> {
    if number < target.log_number {
        return None;
    }
    let family = &target.data;
    let (first_log, active) =
        family.read(|state| (state.active.first_log, Arc::clone(&state.active.memtable)));
    if first_log == number {
        return Some(active);
    }
    family.install_view(|state| {
        let mut next = family.maker.make(&family.order, &state.options);
        next.first_log = number;
        next.activate();
        let full = std::mem::replace(&mut state.active, next);
        if !full.memtable.is_empty() {
            full.memtable.seal();
            state.sealed.push(full);
        }
    });
    Some(family.read(|state| Arc::clone(&state.active.memtable)))
}

/// Returns the number of the oldest log that the state of a MANIFEST needs.
///
/// (RocksDB: `VersionSet::min_log_number_to_keep`.)
pub(crate) fn oldest_needed(
    kept_from: FileNumber,
    log_numbers: impl Iterator<Item = FileNumber>,
) -> FileNumber {
    match kept_from {
        0 => log_numbers.min().unwrap_or(0),
        kept_from => kept_from,
    }
}
