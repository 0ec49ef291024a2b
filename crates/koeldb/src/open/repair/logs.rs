//! The contents of logs: the sequence numbers of each column family.
//!
//! They show what the tables already contain. The entries of a column family went into tables in the
//! order of their sequence numbers, so it needs those after the last one flushed. Mostly these are
//! whole logs, as each memtable begins with a log of its own. A log with others too, of an
//! interrupted recovery for instance, gives the needed ones to a new table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::{Result, SeqNo};
use koeldb_fs::FileSystem;
use koeldb_log::RecoveryMode;
use koeldb_memtable::{Memtable, MemtableOptions};

use super::families::FamilyKeys;
use super::merge::Merger;
use super::tables::FoundTable;
use crate::commit::log_keys::{KeyEnd, LogKeys};
use crate::commit::logged::{insert_operations, refused_though_intact};
use crate::commit::sections::Sections;
use crate::commit::two_phase::{self, refused_undecided};

/// The sequence numbers of the entries of one log, by column family.
#[derive(Debug, Default)]
struct Log {
    number: FileNumber,
    /// The sequence numbers of each column family.
    seqnos: BTreeMap<u32, Seqnos>,
    /// Whether the log is damaged, so that it may have more entries.
    is_damaged: bool,
}

/// A set of sequence numbers, stored as ascending ranges of a first and a last number.
#[derive(Debug)]
struct Seqnos(Vec<(SeqNo, SeqNo)>);

impl Seqnos {
    fn first(&self) -> SeqNo {
        self.0.first().map_or(0, |&(first, _)| first)
    }

    fn last(&self) -> SeqNo {
        self.0.last().map_or(0, |&(_, last)| last)
    }

    fn contain(&self, seqno: SeqNo) -> bool {
        let behind = self.0.partition_point(|&(first, _)| first <= seqno);
        behind > 0 && self.0[behind - 1].1 >= seqno
    }

    /// Adds a sequence number to the set.
    fn add(&mut self, seqno: SeqNo) {
        if self.contain(seqno) {
            return;
        }
        match self.0.last_mut() {
            Some((_, last)) if seqno == *last + 1 => *last = seqno,
            _ => {
                let at = self.0.partition_point(|&(first, _)| first < seqno);
                self.0.insert(at, (seqno, seqno));
            }
        }
    }
}

/// The sequence numbers in all logs of a database, oldest log first.
#[derive(Debug, Default)]
pub(super) struct Logs {
    directory: PathBuf,
    logs: Vec<Log>,
}

/// The logs with entries of a column family that are in no table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NeededLogs {
    /// A log of which only some entries are needed.
    pub(super) in_part: Option<FileNumber>,
    /// The first log, after `in_part` if set, that is needed as a whole; `None` if no log is.
    pub(super) whole_from: Option<FileNumber>,
}

impl Logs {
    /// Reads all logs of a directory, and collects the sequence numbers of their entries.
    ///
    /// # Errors
    /// `NotSupported` for an intact record that cannot be replayed.
    pub(super) fn read(fs: &dyn FileSystem, directory: &Path) -> Result<Self> {
        let mut logs = Logs {
            directory: directory.to_owned(),
            logs: Vec::new(),
        };
        if !fs.exists(directory)? {
            return Ok(logs);
        }
        let mut sections = Sections::default();
        for number in koeldb_log::wal::list(fs, directory)? {
            let mut seqnos = BTreeMap::new();
            let note = |family, seqno| {
                let of_family = seqnos.entry(family).or_insert_with(|| Seqnos(Vec::new()));
                of_family.add(seqno);
                None
            };
            // Only the numbers matter.
            let replay = (&mut sections, &mut LogKeys::default());
            let is_damaged = read_log(fs, directory, number, replay, note)?;
            logs.logs.push(Log {
                number,
                seqnos,
                is_damaged,
            });
        }
        if let Some((name, log)) = sections.first_applied() {
            let path = file_name::wal(directory, log);
            return Err(refused_undecided(name).in_file(&path, None, "repair"));
        }
        Ok(logs)
    }

    /// Returns the logs from `first` on with entries of a column family that are in no table.
    ///
    /// `flushed_of` returns the sequence number up to which all entries of a log are in tables.
    pub(super) fn needed(
        &self,
        family: u32,
        flushed_of: impl Fn(FileNumber) -> SeqNo,
        first: FileNumber,
    ) -> NeededLogs {
        let mut needed = NeededLogs::default();
        for log in self.logs.iter().rev().filter(|log| log.number >= first) {
            let flushed = flushed_of(log.number);
            match log.seqnos.get(&family) {
                Some(seqnos) if seqnos.first() <= flushed => {
                    let is_in_part = seqnos.last() > flushed || log.is_damaged;
                    needed.in_part = is_in_part.then_some(log.number);
                    break;
                }
                Some(_) => needed.whole_from = Some(log.number),
                None if log.is_damaged => needed.whole_from = Some(log.number),
                None => {}
            }
        }
        needed
    }

    /// Returns a memtable with the entries after `flushed` of one column family in one log.
    ///
    /// A damaged log is kept in the archive, as the next open does not read it for them.
    pub(super) fn entries_after(
        &self,
        fs: &dyn FileSystem,
        log: FileNumber,
        (family, keys): (u32, FamilyKeys<'_>),
        flushed: SeqNo,
    ) -> Result<Arc<Memtable>> {
        let order = keys.order;
        let memtable_options = MemtableOptions {
            tracks_timestamps: keys.undated,
            ..MemtableOptions::default()
        };
        let memtable = Memtable::new(order.clone(), &memtable_options);
        let end = match (order.has_timestamps(), keys.undated) {
            (false, _) => KeyEnd::Plain,
            (true, false) => KeyEnd::Dated,
            (true, true) => KeyEnd::DatedSince,
        };
        let mut log_keys = LogKeys::new([(family, end)].into_iter());
        let mut sections = Sections::default();
        sections.set_dated(order.has_timestamps().then_some(family).into_iter());
        let mut is_damaged = false;
        // Older logs have sections that this one may commit.
        for number in self.logs.iter().map(|log| log.number) {
            if number > log {
                break;
            }
            let memtable_of = |cf, seqno| {
                let is_needed = number == log && cf == family && seqno > flushed;
                is_needed.then(|| Arc::clone(&memtable))
            };
            let replay = (&mut sections, &mut log_keys);
            is_damaged = read_log(fs, &self.directory, number, replay, memtable_of)?;
        }
        if is_damaged {
            koeldb_log::wal::keep_in_archive(fs, &self.directory, log)?;
        }
        Ok(memtable)
    }

    /// Whether the logs from `first` on are intact and contain all entries of a table.
    pub(super) fn have_all(
        &self,
        family: u32,
        first: FileNumber,
        table: &FoundTable,
        merger: &Merger<'_>,
    ) -> Result<bool> {
        let logs = || self.logs.iter().filter(|log| log.number >= first);
        let seqnos = || logs().filter_map(|log| log.seqnos.get(&family));
        let contain = |seqno| seqnos().any(|seqnos| seqnos.contain(seqno));
        let mut have_all = contain(table.file.smallest_seqno)
            && contain(table.file.largest_seqno)
            && !logs().any(|log| log.is_damaged);
        if have_all {
            merger.each_seqno(table, |seqno| have_all &= contain(seqno))?;
        }
        Ok(have_all)
    }

    /// Infers from a table's entries up to which sequence number the column family was flushed.
    ///
    /// Used for a table whose properties do not record that number.
    ///
    /// Of its sequence numbers, that of an ingestion is in no log and shows nothing.
    pub(super) fn flushed_by(
        &self,
        family: u32,
        table: &FoundTable,
        merger: &Merger<'_>,
    ) -> Result<SeqNo> {
        let seqnos = || self.logs.iter().filter_map(|log| log.seqnos.get(&family));
        let first = seqnos().map(Seqnos::first).min();
        let is_older = |seqno| first.is_none_or(|first| seqno < first);
        if is_older(table.file.largest_seqno) {
            return Ok(table.file.largest_seqno);
        }
        let mut flushed = 0;
        merger.each_seqno(table, |seqno| {
            if is_older(seqno) || seqnos().any(|seqnos| seqnos.contain(seqno)) {
                flushed = seqno.max(flushed);
            }
        })?;
        Ok(flushed)
    }

    /// Returns the first log from `first` on that may have entries of a column family.
    pub(super) fn first_with(&self, family: u32, first: FileNumber) -> Option<FileNumber> {
        let may_have = |log: &&Log| log.is_damaged || log.seqnos.contains_key(&family);
        let mut logs = self.logs.iter().filter(|log| log.number >= first);
        logs.find(may_have).map(|log| log.number)
    }

    /// Returns the numbers of the logs from `first` on.
    pub(super) fn logs_from(&self, first: FileNumber) -> Vec<FileNumber> {
        self.logs
            .iter()
            .map(|log| log.number)
            .filter(|&number| number >= first)
            .collect()
    }

    /// Returns the ids of the column families with entries in any log; ids can repeat.
    pub(super) fn families(&self) -> impl Iterator<Item = u32> {
        self.logs.iter().flat_map(|log| log.seqnos.keys().copied())
    }

    /// Returns the numbers of the logs with entries of any of these column families.
    pub(super) fn with_any_of(&self, families: &[u32]) -> Vec<FileNumber> {
        let has_any = |log: &&Log| {
            families
                .iter()
                .any(|family| log.seqnos.contains_key(family))
        };
        self.logs
            .iter()
            .filter(has_any)
            .map(|log| log.number)
            .collect()
    }
}

/// Replays a log into the memtables of `memtable_of`; returns whether the log is damaged.
///
/// `memtable_of` returns the memtable for an operation, by its column family and sequence number.
fn read_log(
    fs: &dyn FileSystem,
    directory: &Path,
    number: FileNumber,
    (sections, log_keys): (&mut Sections, &mut LogKeys),
    mut memtable_of: impl FnMut(u32, SeqNo) -> Option<Arc<Memtable>>,
) -> Result<bool> {
    let mode = RecoveryMode::SkipAnyCorruptedRecords;
    let mut reader = koeldb_log::wal::open(fs, directory, number, mode)?;
    let path = file_name::wal(directory, number);
    log_keys.begin_log();
    while let Some((record, sizes)) = reader.next_record_and_sizes()? {
        let applied = log_keys.of_now(record, sizes, |_| true).and_then(|record| {
            let (first, pieces) = two_phase::decode(&record)?;
            sections.apply(pieces, first, number, |records, numbering| {
                insert_operations(records, numbering, &mut memtable_of)
            })
        });
        if let Err(error) = applied {
            let start = reader.last_record().start;
            return Err(refused_though_intact(error).in_file(&path, Some(start), "repair"));
        }
    }
    while let Some(problem) = reader.take_problem() {
        if problem.is_of_intact_record() {
            return Err(problem.to_error(&**reader.file()));
        }
    }
    Ok(reader.problem_count() > 0)
}
