//! Undecided prepared transactions, as the records of logs are read in order.

use std::collections::{BTreeMap, BTreeSet};

use koeldb_base::file_name::FileNumber;
use koeldb_base::{Result, SeqNo};

use super::two_phase::{Numbering, Piece, Pieces, Section};

/// The prepared, undecided transactions in the log records read so far, by name.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    /// The sections that take effect at their commit (WriteCommitted), with their logs.
    prepared: BTreeMap<Box<[u8]>, (FileNumber, Section)>,
    /// The sections that took effect at their position (WritePrepared), by name.
    applied: BTreeMap<Box<[u8]>, AppliedSection>,
    /// The first sequence numbers of batches of such sections that are not applied; `None` if all are.
    left_out: Option<BTreeSet<SeqNo>>,
    /// The column families whose keys have the timestamp of the commit, if it has one.
    dated: BTreeSet<u32>,
}

/// The batches of an undecided transaction that took effect where they are (WritePrepared).
#[derive(Debug, Default)]
pub(crate) struct AppliedSection {
    pub(crate) batches: Vec<AppliedBatch>,
    /// Whether the transaction is prepared: if not, a recovery rolls it back.
    is_prepared: bool,
}

/// A batch of an undecided transaction that took effect where it is.
#[derive(Debug)]
pub(crate) struct AppliedBatch {
    /// The log of the batch.
    pub(crate) log: FileNumber,
    pub(crate) records: Vec<u8>,
    count: u32,
    /// The sequence numbers of the operations.
    pub(crate) numbers: Vec<SeqNo>,
}

impl AppliedSection {
    /// Returns the section as one that takes effect at its commit; `None` if it is rolled back.
    fn into_section(self, name: Box<[u8]>) -> Option<Section> {
        self.is_prepared.then(|| Section {
            name,
            count: self.batches.iter().map(|batch| batch.count).sum(),
            records: self.batches.into_iter().flat_map(|b| b.records).collect(),
        })
    }
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
    /// Sets the column families with user-defined timestamps.
    pub(crate) fn set_dated(&mut self, families: impl Iterator<Item = u32>) {
        self.dated = families.collect();
    }

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
                Piece::Applied(records, count, name, is_prepared) => {
                    let own = numbering.clone().number_all(records)?;
                    let left_out = self.left_out.as_ref();
                    match own.first() {
                        Some(first) if left_out.is_some_and(|left| left.contains(first)) => {
                            numbering.number_all(records)?;
                        }
                        _ => apply(records, &mut numbering)?,
                    }
                    numbering.end_decision();
                    let section = self.applied.entry(name.into()).or_default();
                    section.is_prepared |= is_prepared;
                    section.batches.push(AppliedBatch {
                        log,
                        records: records.to_vec(),
                        count,
                        numbers: own,
                    });
                    numbers.are_shared = true;
                }
                Piece::Commit(name, _) | Piece::Rollback(name)
                    if self.applied.remove(name).is_some() =>
                {
                    numbering.end_decision();
                }
                Piece::Commit(name, timestamp) => match self.prepared.remove(name) {
                    Some((prepared_in, section)) => {
                        numbers.spans_logs |= prepared_in != log;
                        let dated = &self.dated;
                        let records = section.records_at(timestamp, |cf| dated.contains(&cf))?;
                        let mut own = Numbering::per_operation(numbering.next());
                        apply(&records, &mut own)?;
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
        let (name, section) = self.applied.first_key_value()?;
        Some((name, section.batches.first()?.log))
    }

    /// The undecided transactions whose sections took effect at their positions (WritePrepared).
    pub(crate) fn applied(&self) -> impl Iterator<Item = &AppliedSection> {
        self.applied.values()
    }

    /// Returns the first sequence numbers of the batches of these transactions.
    pub(crate) fn applied_numbers(&self) -> BTreeSet<SeqNo> {
        let batches = self.applied.values().flat_map(|section| &section.batches);
        batches
            .filter_map(|batch| batch.numbers.first().copied())
            .collect()
    }

    /// Leaves out the batches with these first numbers, where records are applied from now on.
    pub(crate) fn leave_out(&mut self, numbers: BTreeSet<SeqNo>) {
        self.left_out = Some(numbers);
    }

    /// Whether batches of undecided transactions are left out.
    pub(crate) fn leaves_out(&self) -> bool {
        self.left_out.is_some()
    }

    /// Removes the transactions whose batches were left out; returns the prepared ones.
    pub(crate) fn take_left_out(&mut self) -> Vec<Section> {
        let applied = std::mem::take(&mut self.applied);
        applied
            .into_iter()
            .filter_map(|(name, section)| section.into_section(name))
            .collect()
    }

    /// Removes and returns the prepared sections of all undecided WriteCommitted transactions.
    pub(crate) fn take_prepared(&mut self) -> Vec<Section> {
        let prepared = std::mem::take(&mut self.prepared);
        prepared.into_values().map(|(_, section)| section).collect()
    }
}
