//! The records of two-phase transactions in a log, among the operations of a batch.
//!
//! ```text
//! 09 | operations … | 0a lp name     a prepared section: its operations are counted, and not applied
//! 12 | operations … | 0a lp name     a section of the policy write-prepared, applied at its position
//! 13 | operations … | 0a lp name     a section of the policy write-unprepared, applied at its position
//! 0b lp name                         commit: the section takes effect here
//! 15 lp timestamp | lp name          commit: the same, after the timestamp has replaced the last
//!                                    bytes of the keys of column families with timestamps
//! 0c lp name                         rollback: the section is forgotten
//! ```
//!
//! A section that is not applied takes no sequence numbers where it stands. A commit takes as many
//! as its section has operations.
//!
//! Under RocksDB's policies write-prepared and write-unprepared, a transaction writes its
//! operations when it is prepared, a rollback writes the former values, and the sequence numbers
//! are those of [`Numbering::per_batch`]. (`docs/formats/write-batch.md`; RocksDB 11.9:
//! `db/write_batch.cc`.)

use std::borrow::Cow;
use std::collections::BTreeSet;

use koeldb_base::coding::{put_length_prefixed, take_length_prefixed};
use koeldb_base::key::MAX_SEQNO;
use koeldb_base::timestamp::{TIMESTAMP_BYTES, Timestamp};
use koeldb_base::{Error, Result, SeqNo, ValueType};

use crate::batch::{self, BatchIter, HEADER_BYTES, Operation, Record, tag};

/// The prepared section of a transaction in a log: its name and operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) name: Box<[u8]>,
    /// The records of the section's operations.
    pub(crate) records: Vec<u8>,
    /// The number of operations in the section.
    pub(crate) count: u32,
}

impl Section {
    /// Returns the operations of the section with the timestamp of its commit, if it has one.
    ///
    /// # Errors
    /// See [`with_timestamp`].
    pub(crate) fn records_at(
        &self,
        timestamp: Option<Timestamp>,
        has_timestamps: impl Fn(u32) -> bool,
    ) -> Result<Cow<'_, [u8]>> {
        Ok(match timestamp {
            Some(time) => Cow::Owned(with_timestamp(&self.records, &time, has_timestamps)?),
            None => Cow::Borrowed(&self.records),
        })
    }

    /// Whether an operation is in a column family for which `has_timestamps` is true.
    pub(crate) fn is_dated(&self, has_timestamps: impl Fn(u32) -> bool) -> Result<bool> {
        let mut operations = BatchIter::new(&self.records);
        while let Some(operation) = operations.next_operation()? {
            if has_timestamps(operation.cf) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Encodes the prepared section of the transaction, for its log record.
    pub(crate) fn prepare(&self) -> Vec<u8> {
        let mut records = Vec::with_capacity(self.records.len() + self.name.len() + 12);
        self.prepare_into(&mut records);
        records
    }

    /// Appends the prepared section: begin mark, operations, end mark with the transaction's name.
    fn prepare_into(&self, records: &mut Vec<u8>) {
        records.push(tag::BEGIN_PREPARE);
        records.extend_from_slice(&self.records);
        put_mark(records, tag::END_PREPARE, &self.name);
    }

    /// Encodes a rollback and the prepared section, to repeat the prepare in a later log.
    pub(crate) fn prepare_again(&self) -> Vec<u8> {
        let mut records = rollback(&self.name);
        self.prepare_into(&mut records);
        records
    }
}

/// Appends a two-phase commit mark: its tag, and the transaction's name, length-prefixed.
fn put_mark(records: &mut Vec<u8>, tag: u8, name: &[u8]) {
    records.push(tag);
    put_length_prefixed(records, name);
}

/// Appends the record that commits a transaction.
pub(crate) fn put_commit(records: &mut Vec<u8>, name: &[u8]) {
    put_mark(records, tag::COMMIT, name);
}

/// Appends the record that commits a transaction at a user-defined timestamp.
pub(crate) fn put_commit_at(records: &mut Vec<u8>, name: &[u8], timestamp: &Timestamp) {
    put_mark(records, tag::COMMIT_WITH_TIMESTAMP, timestamp);
    put_length_prefixed(records, name);
}

/// Returns a transaction's operations with the timestamp of its commit.
///
/// It replaces the last bytes of each key, and of each end of a range, in column families for which
/// `has_timestamps` is true.
///
/// # Errors
/// `Corruption` if the records are malformed, or a key is too short.
pub(crate) fn with_timestamp(
    records: &[u8],
    timestamp: &Timestamp,
    has_timestamps: impl Fn(u32) -> bool,
) -> Result<Vec<u8>> {
    let mut dated = records.to_vec();
    let mut rest = BatchIter::new(records);
    while let Some(operation) = rest.next_operation()? {
        if !has_timestamps(operation.cf) {
            continue;
        }
        let is_range = operation.value_type == ValueType::RangeDeletion;
        let ends = [Some(operation.key), is_range.then_some(operation.value)];
        for key in ends.into_iter().flatten() {
            let end = key.as_ptr() as usize - records.as_ptr() as usize + key.len();
            let place = end.checked_sub(TIMESTAMP_BYTES);
            match place.filter(|_| key.len() >= TIMESTAMP_BYTES) {
                Some(from) => dated[from..end].copy_from_slice(timestamp),
                None => {
                    return Err(Error::corruption(format!(
                        "a transaction has a key of {} bytes, without room for its timestamp",
                        key.len()
                    )));
                }
            }
        }
    }
    Ok(dated)
}

/// Returns the record that rolls a transaction back.
pub(crate) fn rollback(name: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    put_mark(&mut records, tag::ROLLBACK, name);
    records
}

/// A part of a log record: plain operations, a prepared section, or a commit or rollback mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Operations outside of transactions: their records and their number.
    Plain(&'a [u8], u32),
    Prepare(Section),
    /// A section that is applied at its position (WritePrepared): records, count, transaction name,
    /// and whether the transaction is prepared by it.
    Applied(&'a [u8], u32, &'a [u8], bool),
    /// The name of the transaction, and the timestamp of its keys, if the mark has one.
    Commit(&'a [u8], Option<Timestamp>),
    Rollback(&'a [u8]),
}

impl Piece<'_> {
    /// Whether the operations of the piece take sequence numbers at its position.
    pub(crate) fn takes_numbers(&self) -> bool {
        matches!(
            self,
            Piece::Plain(..) | Piece::Applied(..) | Piece::Commit(..)
        )
    }
}

/// A log record, split into plain operations, prepared sections, and commit and rollback marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pieces<'a> {
    pub(crate) list: Vec<Piece<'a>>,
    /// Whether a RocksDB database with one sequence number a batch would write these bytes.
    ///
    /// It ends each batch of a record with a mark or a no-op, and has no range deletions. Writers
    /// with a number for each operation end a record so only where a transaction without operations
    /// follows in its group. The shorter numbering of the entries is as good then: their order is
    /// the same, and later records have higher numbers. Only the next record shows how many numbers
    /// the record took, and if there is none, [`Numbering::longest`] is safe.
    is_per_batch: bool,
}

impl<'a> Pieces<'a> {
    /// The number of operations.
    pub(crate) fn count(&self) -> u32 {
        let counts = self.list.iter().map(|piece| match piece {
            Piece::Plain(_, count) | Piece::Applied(_, count, ..) => *count,
            Piece::Prepare(section) => section.count,
            Piece::Commit(..) | Piece::Rollback(_) => 0,
        });
        counts.sum()
    }

    /// Whether any operation takes a sequence number.
    pub(crate) fn takes_numbers(&self) -> bool {
        self.list.iter().any(Piece::takes_numbers)
    }

    /// Whether prepared sections are applied where they are in the log (WritePrepared).
    ///
    /// Their operations share sequence numbers.
    pub(crate) fn has_applied(&self) -> bool {
        let is_applied = |piece: &Piece<'_>| matches!(piece, Piece::Applied(..));
        self.list.iter().any(is_applied)
    }

    /// Returns the assignment of sequence numbers, from `first` on, to the record's operations.
    ///
    /// `is_prepared` says whether a section that is not applied has this name: its decision shows
    /// that each operation takes a number.
    pub(crate) fn numbering(
        &self,
        first: SeqNo,
        is_prepared: impl Fn(&[u8]) -> bool,
    ) -> Numbering<'a> {
        let decides_prepared = || {
            self.list.iter().any(|piece| match piece {
                Piece::Commit(name, _) | Piece::Rollback(name) => is_prepared(name),
                _ => false,
            })
        };
        if self.is_per_batch && !decides_prepared() {
            Numbering::per_batch(first)
        } else {
            Numbering::per_operation(first)
        }
    }
}

/// The assignment of sequence numbers to the operations of a log record.
#[derive(Clone, Debug)]
pub(crate) struct Numbering<'a> {
    next: SeqNo,
    /// The number after the last one, if each operation takes one.
    longest: SeqNo,
    is_per_batch: bool,
    /// Whether the current batch has no operation yet.
    is_empty: bool,
    /// The keys with the current number, and their column families.
    keys: BTreeSet<(u32, &'a [u8])>,
}

impl<'a> Numbering<'a> {
    /// Creates a numbering that gives each operation a sequence number of its own.
    pub(crate) fn per_operation(first: SeqNo) -> Self {
        Numbering {
            next: first,
            longest: first,
            is_per_batch: false,
            is_empty: true,
            keys: BTreeSet::new(),
        }
    }

    /// Creates a numbering by sub-batches, each without equal keys (RocksDB: `seq_per_batch`).
    pub(crate) fn per_batch(first: SeqNo) -> Self {
        Numbering {
            is_per_batch: true,
            ..Self::per_operation(first)
        }
    }

    /// Whether the operations of a batch share one sequence number (RocksDB: `seq_per_batch`).
    pub(crate) fn is_per_batch(&self) -> bool {
        self.is_per_batch
    }

    /// The sequence number after the last one that was assigned.
    pub(crate) fn next(&self) -> SeqNo {
        match self.is_empty || !self.is_per_batch {
            true => self.next,
            false => self.next + 1,
        }
    }

    /// The sequence number after the last one that the writer of the record may have used.
    ///
    /// It is larger than [`Numbering::next`] if the bytes leave open whether operations share a
    /// number.
    pub(crate) fn longest(&self) -> SeqNo {
        self.longest.max(self.next())
    }

    /// Assigns a sequence number to the next operation of the record, and returns it.
    pub(crate) fn number(&mut self, operation: &Operation<'a>) -> SeqNo {
        self.longest += 1;
        if !self.is_per_batch {
            let number = self.next;
            self.next += 1;
            return number;
        }
        self.is_empty = false;
        if !self.keys.insert((operation.cf, operation.key)) {
            self.advance();
            self.is_empty = false;
            self.keys.insert((operation.cf, operation.key));
        }
        self.next
    }

    /// Assigns sequence numbers to the operations of `records`, and returns them.
    pub(crate) fn number_all(&mut self, records: &'a [u8]) -> Result<Vec<SeqNo>> {
        let mut numbers = Vec::new();
        let mut operations = BatchIter::new(records);
        while let Some(operation) = operations.next_operation()? {
            numbers.push(self.number(&operation));
        }
        Ok(numbers)
    }

    /// Moves the last operation to a new sub-batch, as its key is a duplicate; returns its number.
    ///
    /// `None` if the operation has a number of its own.
    pub(crate) fn number_again(&mut self) -> Option<SeqNo> {
        if !self.is_per_batch {
            return None;
        }
        self.advance();
        self.is_empty = false;
        Some(self.next)
    }

    /// Ends the current sub-batch at a no-op or a mark, unless it has no operations yet.
    pub(crate) fn end_batch(&mut self) {
        if self.is_per_batch && !self.is_empty {
            self.advance();
        }
    }

    /// Ends the sub-batch at a mark of a WritePrepared section; an empty one takes a number, too.
    pub(crate) fn end_decision(&mut self) {
        if self.is_per_batch {
            self.advance();
            // Such decisions are only in records whose batches take one number each.
            self.longest = self.next;
        }
    }

    /// Skips the `count` sequence numbers of a prepared section that the record commits.
    pub(crate) fn skip(&mut self, count: u32) {
        self.next += SeqNo::from(count);
        self.longest += SeqNo::from(count);
    }

    /// Starts a sub-batch, with the next sequence number and no operations yet.
    fn advance(&mut self) {
        self.next += 1;
        self.is_empty = true;
        self.keys.clear();
    }
}

/// Splits a serialized batch at its marks; validates all of it except its header.
///
/// # Errors
/// `Corruption` if the bytes are not a batch; `NotSupported` for timestamps of other sizes than 8.
pub(crate) fn pieces(rep: &[u8]) -> Result<Pieces<'_>> {
    let records = rep.get(HEADER_BYTES..).unwrap_or_default();
    let mut rest = BatchIter::new(records);
    let mut pieces = Vec::new();
    // The operations since the last mark: where they begin, and their number.
    let (mut begin, mut count) = (records, 0_u32);
    // The mark that began the section, if one is open.
    let mut section = None;
    let (mut ends_in_mark, mut deletes_ranges) = (false, false);
    while let Some((&tag, mut behind)) = rest.records().split_first() {
        if !is_mark(tag) {
            match rest.decode()? {
                Record::Operation(operation) => {
                    count += 1;
                    ends_in_mark = false;
                    deletes_ranges |= operation.value_type == ValueType::RangeDeletion;
                }
                Record::LogData(_) => ends_in_mark = false,
                Record::Noop => ends_in_mark = true,
            }
            continue;
        }
        ends_in_mark = true;
        let before = &begin[..begin.len() - rest.records().len()];
        let piece = match (tag, section.take()) {
            (tag::END_PREPARE, Some(mark)) => {
                let name = take_length_prefixed(&mut behind)?;
                Some(prepared(mark, before, count, name))
            }
            (_, Some(_)) => {
                return Err(Error::corruption(
                    "a two-phase commit mark inside a prepared section",
                ));
            }
            (_, None) => {
                if count > 0 {
                    pieces.push(Piece::Plain(before, count));
                }
                match tag {
                    tag::BEGIN_PREPARE | tag::BEGIN_PERSISTED_PREPARE | tag::BEGIN_UNPREPARE => {
                        section = Some(tag);
                        None
                    }
                    tag::COMMIT => Some(Piece::Commit(take_length_prefixed(&mut behind)?, None)),
                    tag::COMMIT_WITH_TIMESTAMP => {
                        let timestamp = timestamp_of(take_length_prefixed(&mut behind)?)?;
                        let name = take_length_prefixed(&mut behind)?;
                        Some(Piece::Commit(name, Some(timestamp)))
                    }
                    tag::ROLLBACK => Some(Piece::Rollback(take_length_prefixed(&mut behind)?)),
                    _ => return Err(lone_end_mark()),
                }
            }
        };
        pieces.extend(piece);
        (begin, count) = (behind, 0);
        rest = BatchIter::new(behind);
    }
    if section.is_some() {
        return Err(Error::corruption("a prepared section without its end mark"));
    }
    if count > 0 {
        pieces.push(Piece::Plain(begin, count));
    }
    checked(pieces, ends_in_mark && !deletes_ranges)
}

/// Returns the piece of a prepared section that begins with `mark`.
fn prepared<'r>(mark: u8, records: &'r [u8], count: u32, name: &'r [u8]) -> Piece<'r> {
    match mark {
        tag::BEGIN_PREPARE => Piece::Prepare(Section {
            name: name.into(),
            records: records.to_vec(),
            count,
        }),
        _ => Piece::Applied(records, count, name, mark == tag::BEGIN_PERSISTED_PREPARE),
    }
}

/// Returns the pieces of a batch, after checking that all sections are of one write policy.
fn checked(pieces: Vec<Piece<'_>>, may_be_per_batch: bool) -> Result<Pieces<'_>> {
    let has = |wanted: fn(&Piece<'_>) -> bool| pieces.iter().any(wanted);
    let has_prepared = has(|piece| matches!(piece, Piece::Prepare(_)));
    let has_applied = has(|piece| matches!(piece, Piece::Applied(..)));
    if has_prepared && has_applied {
        return Err(Error::corruption(
            "prepared sections of different write policies in a batch",
        ));
    }
    Ok(Pieces {
        list: pieces,
        is_per_batch: has_applied || may_be_per_batch && !has_prepared,
    })
}

/// Decodes and validates a log record; returns its first sequence number and its pieces.
///
/// # Errors
/// See [`pieces`].
pub(crate) fn decode(record: &[u8]) -> Result<(SeqNo, Pieces<'_>)> {
    let (first, _) = batch::header(record)?;
    let pieces = pieces(record)?;
    let count = batch::check_count(record, pieces.count())?;
    if first > MAX_SEQNO || first + SeqNo::from(count) > MAX_SEQNO {
        return Err(Error::corruption(format!(
            "batch has the invalid sequence number {first}"
        )));
    }
    Ok((first, pieces))
}

/// Whether `tag` is a mark of two-phase commit rather than an operation.
fn is_mark(tag: u8) -> bool {
    matches!(
        tag,
        tag::BEGIN_PREPARE
            | tag::END_PREPARE
            | tag::COMMIT
            | tag::ROLLBACK
            | tag::BEGIN_PERSISTED_PREPARE
            | tag::BEGIN_UNPREPARE
            | tag::COMMIT_WITH_TIMESTAMP
    )
}

/// Returns the error of the end of a section that has no beginning.
fn lone_end_mark() -> Error {
    Error::corruption("the end mark of a prepared section without its begin mark")
}

/// Decodes the timestamp of a commit mark.
fn timestamp_of(bytes: &[u8]) -> Result<Timestamp> {
    Timestamp::try_from(bytes).map_err(|_| {
        Error::not_supported(format!(
            "a transaction in the log commits with a timestamp of {} bytes: only 8 bytes are \
             supported",
            bytes.len()
        ))
    })
}

/// Returns the error for an undecided transaction whose operations are applied already.
///
/// Only a writable open for transactions takes them out of the tables.
pub(crate) fn refused_undecided(name: &[u8]) -> Error {
    Error::not_supported(format!(
        "transaction '{}' of the write policy write-prepared or write-unprepared is neither committed \
         nor rolled back: open the database with Options::set_transactions, or with RocksDB as a \
         TransactionDB of that policy, and commit it or roll it back",
        name.escape_ascii()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::WriteBatch;
    use proptest::prelude::*;

    fn section() -> Section {
        let batch = WriteBatch::new().put("k", "v").clone();
        Section {
            name: (*b"t1").into(),
            records: batch.records().to_vec(),
            count: 1,
        }
    }

    #[test]
    fn the_records_are_rocksdbs() {
        let section = section();
        assert_eq!(section.prepare(), b"\x09\x01\x01k\x01v\x0a\x02t1");
        assert_eq!(
            section.prepare_again(),
            b"\x0c\x02t1\x09\x01\x01k\x01v\x0a\x02t1"
        );
        let mut commit = Vec::new();
        put_commit(&mut commit, b"t1");
        assert_eq!(commit, b"\x0b\x02t1");
    }

    #[test]
    fn marks_are_found_among_other_operations() {
        let mut rep = WriteBatch::new().put("a", "1").clone().into_data();
        rep.push(tag::NOOP);
        rep.extend_from_slice(&section().prepare_again());
        rep.extend_from_slice(b"\x00\x01b\x03\x04note\x0b\x02t1");
        let found = pieces(&rep).unwrap();
        let expected = [
            Piece::Plain(b"\x01\x01a\x011\x0d", 1),
            Piece::Rollback(b"t1"),
            Piece::Prepare(section()),
            Piece::Plain(b"\x00\x01b\x03\x04note", 1),
            Piece::Commit(b"t1", None),
        ];
        assert_eq!(found.list, expected);
        assert_eq!(found.count(), 3);
    }

    #[test]
    fn a_commit_with_a_timestamp_dates_the_keys_of_its_section() {
        let mut commit = Vec::new();
        put_commit_at(&mut commit, b"t1", &7_u64.to_le_bytes());
        let expected = b"\x15\x08\x07\x00\x00\x00\x00\x00\x00\x00\x02t1";
        assert_eq!(commit, expected);
        let header = [0; HEADER_BYTES];
        let rep = [&header[..], &commit].concat();
        let time = 7_u64.to_le_bytes();
        assert_eq!(
            pieces(&rep).unwrap().list,
            [Piece::Commit(b"t1", Some(time))]
        );
        let records = b"\x01\x09k\0\0\0\0\0\0\0\0\x01v\x05\x01\x01k\x01v";
        let dated = with_timestamp(records, &time, |cf| cf == 0).unwrap();
        let expected = b"\x01\x09k\x07\0\0\0\0\0\0\0\x01v\x05\x01\x01k\x01v";
        assert_eq!(dated, expected);
        assert!(with_timestamp(b"\x01\x01k\x01v", &time, |_| true).is_err());
    }

    #[test]
    fn timestamps_of_other_sizes_are_refused_by_name_and_torn_sections_are_corruption() {
        let header = [0; HEADER_BYTES];
        let error = pieces(&[&header[..], b"\x15\x01t\x01x"].concat()).unwrap_err();
        assert!(error.message().contains("timestamp"), "{error}");
        for torn in [
            &b"\x15"[..],
            b"\x15\x08\x07",
            b"\x09\x00\x01k",
            b"\x0a\x01t",
            b"\x09\x09",
            b"\x09\x0b\x01t",
            b"\x0b\x05t",
            b"\x12\x00\x01k",
            b"\x13\x12",
            b"\x09\x0a\x01t\x12\x0a\x01u",
        ] {
            assert!(
                pieces(&[&header[..], torn].concat())
                    .unwrap_err()
                    .is_corruption()
            );
        }
    }

    /// The numbers of the operations of a record that begins with number 10, the number after it,
    /// and the largest one that can be after it.
    fn numbers(records: &[u8], prepared: &[u8]) -> (Vec<SeqNo>, SeqNo, SeqNo) {
        let rep = [&[0; HEADER_BYTES][..], records].concat();
        let found = pieces(&rep).unwrap();
        let mut numbering = found.numbering(10, |name| name == prepared);
        let mut numbers = Vec::new();
        for piece in &found.list {
            match piece {
                Piece::Plain(records, _) | Piece::Applied(records, ..) => {
                    let mut records = BatchIter::new(records);
                    while !records.records().is_empty() {
                        match records.decode().unwrap() {
                            Record::Operation(operation) => {
                                numbers.push(numbering.number(&operation));
                            }
                            Record::Noop => numbering.end_batch(),
                            Record::LogData(_) => {}
                        }
                    }
                    if matches!(piece, Piece::Applied(..)) {
                        numbering.end_decision();
                    }
                }
                Piece::Commit(..) | Piece::Rollback(_) => numbering.end_batch(),
                Piece::Prepare(_) => {}
            }
        }
        (numbers, numbering.next(), numbering.longest())
    }

    #[test]
    fn a_batch_that_ends_in_a_mark_takes_one_number_and_one_more_for_each_repeated_key() {
        const A: &[u8] = b"\x00\x01a";
        const B: &[u8] = b"\x00\x01b";
        let of = |parts: &[&[u8]]| numbers(&parts.concat(), b"c");
        assert_eq!(of(&[A, B]), (vec![10, 11], 12, 12));
        assert_eq!(of(&[b"\x0d", A, B]), (vec![10, 11], 12, 12));
        // Whether the operations share a number is open.
        assert_eq!(of(&[b"\x0d", A, B, b"\x0d"]), (vec![10, 10], 11, 12));
        assert_eq!(
            of(&[A, B, b"\x0d\x0d", B, b"\x0d"]),
            (vec![10, 10, 11], 12, 13)
        );
        assert_eq!(
            of(&[A, B, A, B, A, b"\x0d"]),
            (vec![10, 10, 11, 11, 12], 13, 15)
        );
        for begin in [&b"\x12"[..], b"\x13"] {
            let record = [begin, A, B, b"\x0a\x01t", A, b"\x0c\x01u"];
            assert_eq!(of(&record), (vec![10, 10, 11], 12, 12));
        }
        // The commit of a section that was not applied, and a range deletion.
        assert_eq!(of(&[A, B, b"\x0b\x01c"]), (vec![10, 11], 12, 12));
        assert_eq!(of(&[A, b"\x0f\x01a\x01b\x0d"]), (vec![10, 11], 12, 12));
    }

    proptest! {
        #[test]
        fn any_bytes_are_pieces_or_an_error(rep: Vec<u8>) {
            let _ = pieces(&rep);
        }
    }
}
