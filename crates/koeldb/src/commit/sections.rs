//! Undecided prepared transactions, as the records of logs are read in order.

use std::collections::BTreeMap;

use koeldb_base::file_name::FileNumber;
use koeldb_base::{Result, SeqNo};

use super::two_phase::{Numbering, Piece, Pieces, Section};

/// The prepared, undecided transactions in the log records read so far, by name.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    /// The sections that take effect at their commit (WriteCommitted), with their logs.
    prepared: BTreeMap<Box<[u8]>, (FileNumber, Section)>,
    /// The logs of sections that took effect at their position (WritePrepared), by name.
    applied: BTreeMap<Box<[u8]>, FileNumber>,
}

/// The sequence numbers that an applied log record takes.
#[derive(Debug)]
pub(crate) struct RecordNumbers {
    /// The sequence number after the last one of the record.
    pub(crate) next: SeqNo,
    /// The number after the last one that the writer of the record can have given.
    pub(crate) largest: SeqNo,
    /// Whether `next` is certain: not if the record commits a section that was not read.
    pub(crate) is_known: bool,
    /// Whether several operations may have one number.
    pub(crate) are_shared: bool,
    /// Whether the record commits a section of another log.
    pub(crate) spans_logs: bool,
}

impl Sections {
    /// Passes the operations that take effect in a record to `apply`; keeps its prepared sections.
    ///
    /// The record is of `log`, and its first sequence number is `first`.
    ///
    /// `apply` takes the records of operations that take effect here.
    pub(crate) fn apply(
        &mut self,
        pieces: Pieces<'_>,
        first: SeqNo,
        log: FileNumber,
        mut apply: impl for<'r> FnMut(&'r [u8], &mut Numbering<'r>) -> Result<()>,
    ) -> Result<RecordNumbers> {
        let prepared = &self.prepared;
        let mut numbering = pieces.numbering(first, |name| prepared.contains_key(name));
        let mut numbers = RecordNumbers {
            next: first,
            largest: first,
            is_known: true,
            are_shared: numbering.is_per_batch() && pieces.count() > 1,
            spans_logs: false,
        };
        for piece in pieces.list {
            match piece {
                Piece::Plain(records, _) => apply(records, &mut numbering)?,
                Piece::Prepare(section) => {
                    self.prepared.insert(section.name.clone(), (log, section));
                }
                Piece::Applied(records, _, name) => {
                    apply(records, &mut numbering)?;
                    numbering.end_decision();
                    self.applied.insert(name.into(), log);
                    numbers.are_shared = true;
                }
                Piece::Commit(name) | Piece::Rollback(name)
                    if self.applied.remove(name).is_some() =>
                {
                    numbering.end_decision();
                }
                Piece::Commit(name) => match self.prepared.remove(name) {
                    Some((prepared_in, section)) => {
                        numbers.spans_logs |= prepared_in != log;
                        let mut own = Numbering::per_operation(numbering.next());
                        apply(&section.records, &mut own)?;
                        numbering.skip(section.count);
                    }
                    // The log of its section was removed, since its entries are in tables.
                    None => {
                        numbering.end_batch();
                        numbers.spans_logs = true;
                        numbers.is_known = false;
                    }
                },
                Piece::Rollback(name) => {
                    numbering.end_batch();
                    self.prepared.remove(name);
                }
            }
        }
        (numbers.next, numbers.largest) = (numbering.next(), numbering.longest());
        Ok(numbers)
    }

    /// The prepared sections of the undecided WriteCommitted transactions, by name.
    pub(crate) fn prepared(&self) -> impl Iterator<Item = &Section> {
        self.prepared.values().map(|(_, section)| section)
    }

    /// Returns the prepared section of the undecided WriteCommitted transaction of this name.
    pub(crate) fn section(&self, name: &[u8]) -> Option<&Section> {
        self.prepared.get(name).map(|(_, section)| section)
    }

    /// Returns the first undecided WriteCommitted transaction by name, with the log it is in.
    pub(crate) fn first_prepared(&self) -> Option<(&[u8], FileNumber)> {
        let (name, (log, _)) = self.prepared.first_key_value()?;
        Some((name, *log))
    }

    /// Returns the first undecided transaction, by name, whose section is applied (WritePrepared).
    ///
    /// The number is that of its log.
    pub(crate) fn first_applied(&self) -> Option<(&[u8], FileNumber)> {
        let (name, log) = self.applied.first_key_value()?;
        Some((name, *log))
    }

    /// Removes and returns the prepared sections of all undecided WriteCommitted transactions.
    pub(crate) fn take_prepared(&mut self) -> Vec<Section> {
        let prepared = std::mem::take(&mut self.prepared);
        prepared.into_values().map(|(_, section)| section).collect()
    }
}
