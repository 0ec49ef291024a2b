//! The records of two-phase transactions in a log, among the operations of a batch.
//!
//! ```text
//! 09 | operations … | 0a lp name     a prepared section: its operations are counted, and not applied
//! 0b lp name                         commit: the section takes effect here
//! 0c lp name                         rollback: the section is forgotten
//! ```
//!
//! A section takes no sequence numbers where it stands. A commit takes as many as its section has
//! operations. Tags 12 and 13 begin sections of RocksDB's policies write-prepared and write-unprepared,
//! which are refused. (`docs/formats/write-batch.md`; RocksDB 11.9: `db/write_batch.cc`.)

use koeldb_base::coding::{put_length_prefixed, take_length_prefixed};
use koeldb_base::{Error, Result};

use crate::batch::{BatchIter, HEADER_BYTES, Record, tag};

/// The prepared section of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) name: Box<[u8]>,
    /// The records of the section's operations.
    pub(crate) records: Vec<u8>,
    /// The number of operations in the section.
    pub(crate) count: u32,
}

impl Section {
    /// Returns the records that prepare the transaction.
    pub(crate) fn prepare(&self) -> Vec<u8> {
        let mut records = Vec::with_capacity(self.records.len() + self.name.len() + 12);
        self.prepare_into(&mut records);
        records
    }

    fn prepare_into(&self, records: &mut Vec<u8>) {
        records.push(tag::BEGIN_PREPARE);
        records.extend_from_slice(&self.records);
        put_mark(records, tag::END_PREPARE, &self.name);
    }

    /// Returns the records that prepare the transaction again in a later log.
    pub(crate) fn prepare_again(&self) -> Vec<u8> {
        let mut records = rollback(&self.name);
        self.prepare_into(&mut records);
        records
    }
}

fn put_mark(records: &mut Vec<u8>, tag: u8, name: &[u8]) {
    records.push(tag);
    put_length_prefixed(records, name);
}

/// Appends the record that commits a transaction.
pub(crate) fn put_commit(records: &mut Vec<u8>, name: &[u8]) {
    put_mark(records, tag::COMMIT, name);
}

/// Returns the record that rolls a transaction back.
pub(crate) fn rollback(name: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    put_mark(&mut records, tag::ROLLBACK, name);
    records
}

/// A piece of a batch in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Operations outside of transactions: their records and their number.
    Plain(&'a [u8], u32),
    Prepare(Section),
    Commit(&'a [u8]),
    Rollback(&'a [u8]),
}

impl Piece<'_> {
    /// Whether the operations of the piece take sequence numbers at its position.
    pub(crate) fn takes_numbers(&self) -> bool {
        matches!(self, Piece::Plain(..) | Piece::Commit(_))
    }
}

/// Decodes a serialized batch, which is validated completely, except for the count in its header.
///
/// # Errors
/// `Corruption` if the bytes are not a batch; `NotSupported` for the sections of other write policies
/// and for commits with timestamps.
pub(crate) fn pieces(rep: &[u8]) -> Result<Vec<Piece<'_>>> {
    let records = rep.get(HEADER_BYTES..).unwrap_or_default();
    let mut rest = BatchIter::new(records);
    let mut pieces = Vec::new();
    // The operations since the last mark: where they begin, and their number.
    let (mut begin, mut count) = (records, 0_u32);
    let mut is_in_section = false;
    while let Some((&tag, mut behind)) = rest.records().split_first() {
        if !is_mark(tag) {
            if let Record::Operation(_) = rest.decode()? {
                count += 1;
            }
            continue;
        }
        let before = &begin[..begin.len() - rest.records().len()];
        match tag {
            tag::END_PREPARE if is_in_section => {
                pieces.push(Piece::Prepare(Section {
                    name: take_length_prefixed(&mut behind)?.into(),
                    records: before.to_vec(),
                    count,
                }));
                is_in_section = false;
            }
            _ if is_in_section => {
                return Err(Error::corruption(
                    "a two-phase commit mark inside a prepared section",
                ));
            }
            _ => {
                if count > 0 {
                    pieces.push(Piece::Plain(before, count));
                }
                match tag {
                    tag::BEGIN_PREPARE => is_in_section = true,
                    tag::COMMIT => pieces.push(Piece::Commit(take_length_prefixed(&mut behind)?)),
                    tag::ROLLBACK => {
                        pieces.push(Piece::Rollback(take_length_prefixed(&mut behind)?));
                    }
                    _ => return Err(refused(tag)),
                }
            }
        }
        (begin, count) = (behind, 0);
        rest = BatchIter::new(behind);
    }
    if is_in_section {
        return Err(Error::corruption("a prepared section without its end mark"));
    }
    if count > 0 {
        pieces.push(Piece::Plain(begin, count));
    }
    Ok(pieces)
}

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

fn refused(tag: u8) -> Error {
    let what = match tag {
        tag::BEGIN_PERSISTED_PREPARE => "is of the write policy write-prepared",
        tag::BEGIN_UNPREPARE => "is of the write policy write-unprepared",
        tag::COMMIT_WITH_TIMESTAMP => "commits with a timestamp",
        _ => return Error::corruption("the end mark of a prepared section without its begin mark"),
    };
    Error::not_supported(format!(
        "a transaction in the log {what}, which is not supported: close it with RocksDB so that its \
         logs are empty"
    ))
}

/// The number of operations in the pieces of a batch.
pub(crate) fn count_of(pieces: &[Piece<'_>]) -> u32 {
    let counts = pieces.iter().map(|piece| match piece {
        Piece::Plain(_, count) => *count,
        Piece::Prepare(section) => section.count,
        Piece::Commit(_) | Piece::Rollback(_) => 0,
    });
    counts.sum()
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
            Piece::Commit(b"t1"),
        ];
        assert_eq!(found, expected);
        assert_eq!(count_of(&found), 3);
    }

    #[test]
    fn other_policies_are_refused_by_name_and_torn_sections_are_corruption() {
        let header = [0; HEADER_BYTES];
        for (tag, word) in [
            (0x12, "write-prepared"),
            (0x13, "write-unprepared"),
            (0x15, "timestamp"),
        ] {
            let error = pieces(&[&header[..], &[tag]].concat()).unwrap_err();
            assert!(error.message().contains(word), "{error}");
        }
        for torn in [
            &b"\x09\x00\x01k"[..],
            b"\x0a\x01t",
            b"\x09\x09",
            b"\x09\x0b\x01t",
            b"\x0b\x05t",
        ] {
            assert!(
                pieces(&[&header[..], torn].concat())
                    .unwrap_err()
                    .is_corruption()
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_pieces_or_an_error(rep: Vec<u8>) {
            let _ = pieces(&rep);
        }
    }
}
