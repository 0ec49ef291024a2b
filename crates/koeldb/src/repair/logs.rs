//! The contents of logs: the last sequence number of each column family.
//!
//! It shows which logs the tables already contain. Each column family starts a new memtable with a
//! new log: the entries of one column family in a log went into tables together or not at all. So a
//! column family needs the logs from the first one whose entries are not in its tables.

use std::collections::BTreeMap;
use std::path::Path;

use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::{Result, SeqNo};
use koeldb_fs::FileSystem;
use koeldb_log::RecoveryMode;

use crate::batch::{self, BatchIter, HEADER_BYTES, Record};
use crate::open::refused_though_intact;
use crate::write::two_phase;

#[derive(Debug, Default)]
struct Log {
    number: FileNumber,
    /// The last sequence number of each column family.
    last: BTreeMap<u32, SeqNo>,
    /// Whether the log is damaged, so that it may have more entries.
    is_damaged: bool,
}

/// The logs of a database, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Logs {
    logs: Vec<Log>,
}

impl Logs {
    pub(super) fn read(fs: &dyn FileSystem, directory: &Path) -> Result<Self> {
        let mut logs = Vec::new();
        if !fs.exists(directory)? {
            return Ok(Logs::default());
        }
        for number in koeldb_log::wal::list(fs, directory)? {
            logs.push(Log::read(fs, directory, number)?);
        }
        Ok(Logs { logs })
    }

    /// Returns the first log with entries of a column family after `flushed`, which its tables
    /// contain.
    ///
    /// Returns `behind_all` if it needs none.
    pub(super) fn first_needed(
        &self,
        family: u32,
        flushed: SeqNo,
        behind_all: FileNumber,
    ) -> FileNumber {
        let mut needed = behind_all;
        for log in self.logs.iter().rev() {
            match log.last.get(&family) {
                Some(&last) if last <= flushed => break,
                Some(_) => needed = log.number,
                None if log.is_damaged => needed = log.number,
                None => {}
            }
        }
        needed
    }

    /// Returns the first log from `first` on that may have entries of a column family.
    ///
    /// Returns `behind_all` if there is none.
    pub(super) fn first_with(
        &self,
        family: u32,
        first: FileNumber,
        behind_all: FileNumber,
    ) -> FileNumber {
        let may_have = |log: &&Log| log.is_damaged || log.last.contains_key(&family);
        let mut logs = self.logs.iter().filter(|log| log.number >= first);
        logs.find(may_have).map_or(behind_all, |log| log.number)
    }

    /// The logs from `first` on.
    pub(super) fn logs_from(&self, first: FileNumber) -> Vec<FileNumber> {
        self.logs
            .iter()
            .map(|log| log.number)
            .filter(|&number| number >= first)
            .collect()
    }

    /// Returns all column families that have entries.
    pub(super) fn families(&self) -> impl Iterator<Item = u32> {
        self.logs.iter().flat_map(|log| log.last.keys().copied())
    }

    /// Returns the logs with entries of one of these column families.
    pub(super) fn with_any_of(&self, families: &[u32]) -> Vec<FileNumber> {
        let has_any = |log: &&Log| families.iter().any(|family| log.last.contains_key(family));
        self.logs
            .iter()
            .filter(has_any)
            .map(|log| log.number)
            .collect()
    }
}

impl Log {
    fn read(fs: &dyn FileSystem, directory: &Path, number: FileNumber) -> Result<Self> {
        let mode = RecoveryMode::SkipAnyCorruptedRecords;
        let mut reader = koeldb_log::wal::open(fs, directory, number, mode)?;
        let mut log = Log {
            number,
            ..Log::default()
        };
        let path = file_name::wal(directory, number);
        while let Some(record) = reader.next_record()? {
            let taken = log.take(record);
            if let Err(error) = taken {
                let start = reader.last_record().start;
                return Err(refused_though_intact(error).in_file(&path, Some(start), "repair"));
            }
        }
        while let Some(problem) = reader.take_problem() {
            if problem.is_of_intact_record() {
                return Err(problem.to_error(&**reader.file()));
            }
        }
        log.is_damaged |= reader.problem_count() > 0;
        Ok(log)
    }

    fn take(&mut self, record: &[u8]) -> Result<()> {
        let (first, _) = batch::header(record)?;
        batch::check(record)?;
        let mut numbering = two_phase::pieces(record)?.numbering(first, |_| false);
        let mut rest = BatchIter::new(&record[HEADER_BYTES..]);
        while !rest.records().is_empty() {
            match rest.decode()? {
                Record::Operation(operation) => {
                    let last = self.last.entry(operation.cf).or_default();
                    *last = numbering.number(&operation).max(*last);
                }
                Record::Noop => numbering.end_batch(),
                Record::LogData(_) => {}
            }
        }
        Ok(())
    }
}
