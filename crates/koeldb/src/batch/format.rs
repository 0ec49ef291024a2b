//! The serialized form of a write batch.
//!
//! ```text
//! fixed64 sequence number of the first operation | fixed32 count | records …
//! record = tag | [varint family id] | length-prefixed key | [length-prefixed value or end]
//! ```
//!
//! Column family 0 always uses the tag without id. The sequence number is 0 until the batch is
//! committed. (`docs/formats/write-batch.md`; RocksDB: `db/write_batch.cc`.)

use koeldb_base::coding;
use koeldb_base::{Error, Result, SeqNo, ValueType};

/// The bytes before the first record.
pub(crate) const HEADER_BYTES: usize = 12;

pub(crate) mod tag {
    pub(crate) const DELETION: u8 = 0x00;
    pub(crate) const VALUE: u8 = 0x01;
    pub(crate) const MERGE: u8 = 0x02;
    pub(crate) const LOG_DATA: u8 = 0x03;
    pub(crate) const CF_DELETION: u8 = 0x04;
    pub(crate) const CF_VALUE: u8 = 0x05;
    pub(crate) const CF_MERGE: u8 = 0x06;
    pub(crate) const SINGLE_DELETION: u8 = 0x07;
    pub(crate) const CF_SINGLE_DELETION: u8 = 0x08;
    pub(crate) const BEGIN_PREPARE: u8 = 0x09;
    pub(crate) const END_PREPARE: u8 = 0x0a;
    pub(crate) const COMMIT: u8 = 0x0b;
    pub(crate) const ROLLBACK: u8 = 0x0c;
    pub(crate) const NOOP: u8 = 0x0d;
    pub(crate) const CF_RANGE_DELETION: u8 = 0x0e;
    pub(crate) const RANGE_DELETION: u8 = 0x0f;
    pub(crate) const BEGIN_PERSISTED_PREPARE: u8 = 0x12;
    pub(crate) const BEGIN_UNPREPARE: u8 = 0x13;
    pub(crate) const COMMIT_WITH_TIMESTAMP: u8 = 0x15;
    pub(crate) const WIDE_COLUMN_ENTITY: u8 = 0x16;
    pub(crate) const CF_WIDE_COLUMN_ENTITY: u8 = 0x17;
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchEntry<'a> {
    /// Sets a key to a value.
    Put {
        /// The id of the column family.
        cf: u32,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Deletes a key.
    Delete {
        /// The id of the column family.
        cf: u32,
        /// The key.
        key: &'a [u8],
    },
    /// Deletes a key that was put exactly once.
    SingleDelete {
        /// The id of the column family.
        cf: u32,
        /// The key.
        key: &'a [u8],
    },
    /// Deletes all keys in `[from, to)`.
    DeleteRange {
        /// The id of the column family.
        cf: u32,
        /// The first deleted key.
        from: &'a [u8],
        /// The end of the range, exclusive.
        to: &'a [u8],
    },
    /// Adds a merge operand.
    Merge {
        /// The id of the column family.
        cf: u32,
        /// The key.
        key: &'a [u8],
        /// The operand.
        operand: &'a [u8],
    },
    /// Sets a key to a wide-column entity: `Columns::of_entity` decodes it.
    PutEntity {
        /// The id of the column family.
        cf: u32,
        /// The key.
        key: &'a [u8],
        /// The serialised columns.
        entity: &'a [u8],
    },
    /// Log data, which is not stored in the database.
    LogData(
        /// The data.
        &'a [u8],
    ),
}

impl BatchEntry<'_> {
    /// The key of an operation on a single key; `None` for a range deletion and log data.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match *self {
            BatchEntry::Put { key, .. }
            | BatchEntry::PutEntity { key, .. }
            | BatchEntry::Delete { key, .. }
            | BatchEntry::SingleDelete { key, .. }
            | BatchEntry::Merge { key, .. } => Some(key),
            BatchEntry::DeleteRange { .. } | BatchEntry::LogData(_) => None,
        }
    }

    /// The id of the column family; `None` for log data.
    pub(crate) fn family(&self) -> Option<u32> {
        match *self {
            BatchEntry::Put { cf, .. }
            | BatchEntry::PutEntity { cf, .. }
            | BatchEntry::Delete { cf, .. }
            | BatchEntry::SingleDelete { cf, .. }
            | BatchEntry::Merge { cf, .. }
            | BatchEntry::DeleteRange { cf, .. } => Some(cf),
            BatchEntry::LogData(_) => None,
        }
    }
}

/// An operation of a batch that takes a sequence number, as a value type with key and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) cf: u32,
    pub(crate) value_type: ValueType,
    pub(crate) key: &'a [u8],
    /// Also the operand, the end of the range or the entity; empty for a deletion.
    pub(crate) value: &'a [u8],
}

impl<'a> Operation<'a> {
    /// Converts the operation to the `BatchEntry` variant of its value type.
    #[inline]
    fn entry(self) -> BatchEntry<'a> {
        let Operation {
            cf,
            value_type,
            key,
            value,
        } = self;
        match value_type {
            ValueType::Deletion => BatchEntry::Delete { cf, key },
            ValueType::SingleDeletion => BatchEntry::SingleDelete { cf, key },
            ValueType::RangeDeletion => BatchEntry::DeleteRange {
                cf,
                from: key,
                to: value,
            },
            ValueType::Merge => BatchEntry::Merge {
                cf,
                key,
                operand: value,
            },
            ValueType::WideColumnEntity => BatchEntry::PutEntity {
                cf,
                key,
                entity: value,
            },
            // The other types do not occur in batches.
            _ => BatchEntry::Put { cf, key, value },
        }
    }
}

/// A decoded record of a batch: an operation, log data or a no-op.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Record<'a> {
    Operation(Operation<'a>),
    LogData(&'a [u8]),
    Noop,
}

/// An iterator over the operations of a batch.
#[derive(Clone, Debug)]
pub struct BatchIter<'a> {
    rest: &'a [u8],
}

impl<'a> BatchIter<'a> {
    pub(crate) fn new(records: &'a [u8]) -> Self {
        BatchIter { rest: records }
    }

    /// The serialized records that the iterator has not decoded yet.
    pub(crate) fn records(&self) -> &'a [u8] {
        self.rest
    }

    /// Decodes the next record.
    #[inline]
    pub(crate) fn decode(&mut self) -> Result<Record<'a>> {
        let input = &mut self.rest;
        let tag = coding::take_u8(input)?;
        let (value_type, names_family) = match tag {
            tag::VALUE => (ValueType::Value, false),
            tag::CF_VALUE => (ValueType::Value, true),
            tag::DELETION => (ValueType::Deletion, false),
            tag::CF_DELETION => (ValueType::Deletion, true),
            tag::SINGLE_DELETION => (ValueType::SingleDeletion, false),
            tag::CF_SINGLE_DELETION => (ValueType::SingleDeletion, true),
            tag::MERGE => (ValueType::Merge, false),
            tag::CF_MERGE => (ValueType::Merge, true),
            tag::RANGE_DELETION => (ValueType::RangeDeletion, false),
            tag::CF_RANGE_DELETION => (ValueType::RangeDeletion, true),
            tag::WIDE_COLUMN_ENTITY => (ValueType::WideColumnEntity, false),
            tag::CF_WIDE_COLUMN_ENTITY => (ValueType::WideColumnEntity, true),
            tag::LOG_DATA => return Ok(Record::LogData(coding::take_length_prefixed(input)?)),
            tag::NOOP => return Ok(Record::Noop),
            _ => return Err(refused(tag)),
        };
        let cf = if names_family {
            coding::take_varint32(input)?
        } else {
            0
        };
        let key = coding::take_length_prefixed(input)?;
        let is_key_alone = matches!(value_type, ValueType::Deletion | ValueType::SingleDeletion);
        let value = if is_key_alone {
            &[]
        } else {
            coding::take_length_prefixed(input)?
        };
        Ok(Record::Operation(Operation {
            cf,
            value_type,
            key,
            value,
        }))
    }

    /// Returns the next operation, past log data and no-ops; `None` at the end.
    #[inline]
    pub(crate) fn next_operation(&mut self) -> Result<Option<Operation<'a>>> {
        while !self.rest.is_empty() {
            if let Record::Operation(operation) = self.decode()? {
                return Ok(Some(operation));
            }
        }
        Ok(None)
    }
}

/// Returns the error for a record tag that is unknown or not supported in a batch.
#[cold]
fn refused(tag: u8) -> Error {
    match tag {
        tag::BEGIN_PREPARE
        | tag::END_PREPARE
        | tag::COMMIT
        | tag::ROLLBACK
        | tag::BEGIN_PERSISTED_PREPARE
        | tag::BEGIN_UNPREPARE
        | tag::COMMIT_WITH_TIMESTAMP => Error::not_supported(format!(
            "the batch belongs to a two-phase transaction (tag {tag:#04x}), which this release does not replay"
        )),
        0x10 | 0x11 | 0x18 | 0x19 => Error::not_supported(format!(
            "the batch contains an operation with tag {tag:#04x}, which this release does not support"
        )),
        _ => Error::corruption(format!("unknown WriteBatch tag: {tag:#04x}")),
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = Result<BatchEntry<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            match self.decode() {
                Ok(Record::Operation(operation)) => return Some(Ok(operation.entry())),
                Ok(Record::LogData(data)) => return Some(Ok(BatchEntry::LogData(data))),
                Ok(Record::Noop) => {}
                Err(error) => {
                    self.rest = &[];
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Decodes the operation at a byte offset of a serialized batch.
///
/// `None` if there is no operation, which does not happen at the offset of one.
pub(crate) fn entry_at(rep: &[u8], offset: usize) -> Option<BatchEntry<'_>> {
    BatchIter::new(rep.get(offset..)?).next()?.ok()
}

/// Decodes the header of a serialised batch: sequence number (fixed64) and count (fixed32).
pub(crate) fn header(rep: &[u8]) -> Result<(SeqNo, u32)> {
    match (coding::fixed64_at(rep, 0), coding::fixed32_at(rep, 8)) {
        (Some(seqno), Some(count)) => Ok((seqno, count)),
        _ => Err(Error::corruption(format!(
            "WriteBatch is shorter than its header of {HEADER_BYTES} bytes: found {}",
            rep.len()
        ))),
    }
}

/// Decodes a whole serialized batch to validate it; returns its number of operations.
pub(crate) fn check(rep: &[u8]) -> Result<u32> {
    header(rep)?;
    let mut operations = BatchIter::new(&rep[HEADER_BYTES..]);
    let mut count = 0_u32;
    while operations.next_operation()?.is_some() {
        count += 1;
    }
    check_count(rep, count)
}

/// Fails with `Corruption` unless the batch header declares `count` operations; returns `count`.
pub(crate) fn check_count(rep: &[u8], count: u32) -> Result<u32> {
    let (_, declared) = header(rep)?;
    if count != declared {
        return Err(Error::corruption(format!(
            "WriteBatch has wrong count: {declared} declared, {count} found"
        )));
    }
    Ok(count)
}
