//! Internal keys: a user key followed by 8 bytes that carry the sequence number and the kind of
//! entry.
//!
//! ```text
//! internal key = user key ‖ fixed64( (sequence number << 8) | value type )
//! ```
//!
//! The order is user key ascending, then footer descending: newer entries first. Numbers and
//! meanings are RocksDB's (`db/dbformat.h`; `docs/formats/keys.md`).

use crate::error::{Error, Result};

/// The position of a write in the history of the database. 56 bits are used.
pub type SeqNo = u64;

/// The largest sequence number.
pub const MAX_SEQNO: SeqNo = (1 << 56) - 1;

/// The length of the footer, which follows the user key.
pub const FOOTER_BYTES: usize = 8;

/// The type of an entry, a byte in the footer of its internal key (RocksDB: `ValueType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueType {
    /// The key is deleted.
    Deletion = 0x00,
    /// The key has a value.
    Value = 0x01,
    /// An operand for the merge operator.
    Merge = 0x02,
    /// A single deletion, for a key that was written once.
    SingleDeletion = 0x07,
    /// A range of keys is deleted; the value is the exclusive end.
    RangeDeletion = 0x0f,
    /// The value is stored in a blob file.
    BlobIndex = 0x11,
    /// A deletion with a user-defined timestamp.
    DeletionWithTimestamp = 0x14,
    /// The value is a set of named columns.
    WideColumnEntity = 0x16,
    /// A value followed by its preferred sequence number.
    ValuePreferredSeqno = 0x18,
}

impl ValueType {
    /// The largest type: a seek key with it sorts before all entries of its user key and sequence
    /// number.
    pub const FOR_SEEK: ValueType = ValueType::ValuePreferredSeqno;

    /// Decodes a type byte; `None` if it may not occur in a table or memtable.
    #[inline]
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x00 => ValueType::Deletion,
            0x01 => ValueType::Value,
            0x02 => ValueType::Merge,
            0x07 => ValueType::SingleDeletion,
            0x0f => ValueType::RangeDeletion,
            0x11 => ValueType::BlobIndex,
            0x14 => ValueType::DeletionWithTimestamp,
            0x16 => ValueType::WideColumnEntity,
            0x18 => ValueType::ValuePreferredSeqno,
            _ => return None,
        })
    }

    /// Whether the entry is a point deletion of any type, and not a range deletion.
    #[must_use]
    pub fn is_deletion(self) -> bool {
        matches!(
            self,
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp
        )
    }
}

/// Packs a sequence number and a type into the footer (RocksDB: `PackSequenceAndType`).
#[inline]
#[must_use]
pub const fn pack(seqno: SeqNo, value_type: ValueType) -> u64 {
    (seqno << 8) | value_type as u64
}

/// The footer of the range-tombstone sentinel: as a file's upper boundary it excludes its user key.
pub const RANGE_DELETION_SENTINEL: u64 = pack(MAX_SEQNO, ValueType::RangeDeletion);

/// The type byte that sorts before all others of a sequence number (`kTypeMaxValid` of RocksDB).
///
/// No entry has it, but the bound of a file may, where a range tombstone was cut between two
/// versions of a key.
const TYPE_OF_CUT: u8 = 0x1a;

/// Splits an internal key into user key and footer. A shorter slice is all user key, with footer 0.
#[inline]
#[must_use]
pub fn footer_of(internal: &[u8]) -> (&[u8], u64) {
    match internal.split_last_chunk::<FOOTER_BYTES>() {
        Some((user, footer)) => (user, u64::from_le_bytes(*footer)),
        None => (internal, 0),
    }
}

/// The user key of an internal key.
#[inline]
#[must_use]
pub fn user_key(internal: &[u8]) -> &[u8] {
    footer_of(internal).0
}

/// The sequence number of an internal key.
#[inline]
#[must_use]
pub fn seqno(internal: &[u8]) -> SeqNo {
    footer_of(internal).1 >> 8
}

/// Encodes an internal key.
#[must_use]
pub fn encode(user_key: &[u8], seqno: SeqNo, value_type: ValueType) -> Vec<u8> {
    let mut out = Vec::with_capacity(user_key.len() + FOOTER_BYTES);
    encode_into(&mut out, user_key, seqno, value_type);
    out
}

/// Replaces the content of `out` by the encoded internal key.
pub fn encode_into(out: &mut Vec<u8>, user_key: &[u8], seqno: SeqNo, value_type: ValueType) {
    out.clear();
    out.reserve(user_key.len() + FOOTER_BYTES);
    out.extend_from_slice(user_key);
    out.extend_from_slice(&pack(seqno, value_type).to_le_bytes());
}

/// A decoded internal key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InternalKey<'a> {
    /// The key that the user wrote.
    pub user_key: &'a [u8],
    /// The sequence number of the write.
    pub seqno: SeqNo,
    /// The kind of write.
    pub value_type: ValueType,
}

impl<'a> InternalKey<'a> {
    /// Decodes an internal key.
    ///
    /// # Errors
    /// `Corruption` if it is shorter than a footer or of an unknown type.
    #[inline]
    pub fn parse(internal: &'a [u8]) -> Result<Self> {
        match internal.split_last_chunk::<FOOTER_BYTES>() {
            Some((user_key, footer)) => match ValueType::from_byte(footer[0]) {
                Some(value_type) => Ok(InternalKey {
                    user_key,
                    seqno: u64::from_le_bytes(*footer) >> 8,
                    value_type,
                }),
                None => Err(corrupted(internal)),
            },
            None => Err(corrupted(internal)),
        }
    }

    /// Checks that `internal` may be the smallest or largest key of a file.
    ///
    /// It must be an internal key, or a position before one.
    ///
    /// # Errors
    /// See [`InternalKey::parse`].
    pub fn check_bound(internal: &[u8]) -> Result<()> {
        match internal.last_chunk::<FOOTER_BYTES>() {
            Some([TYPE_OF_CUT, ..]) => Ok(()),
            _ => InternalKey::parse(internal).map(drop),
        }
    }

    /// Encodes the internal key.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        encode(self.user_key, self.seqno, self.value_type)
    }
}

/// Returns the `Corruption` error for a malformed internal key.
#[cold]
fn corrupted(internal: &[u8]) -> Error {
    match footer_of(internal) {
        (_, footer) if internal.len() >= FOOTER_BYTES => Error::corruption(format!(
            "corrupted key: entry of unknown type {:#04x}",
            footer & 0xff
        )),
        _ => Error::corruption(format!(
            "corrupted key: internal key of {} bytes",
            internal.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_byte_comes_first_in_the_footer() {
        assert_eq!(
            encode(b"foo", 5, ValueType::Value),
            b"foo\x01\x05\0\0\0\0\0\0"
        );
        let key = encode(b"k", MAX_SEQNO, ValueType::FOR_SEEK);
        let parsed = InternalKey::parse(&key).unwrap();
        assert_eq!((parsed.user_key, parsed.seqno), (&b"k"[..], MAX_SEQNO));
        assert!(InternalKey::parse(b"short").is_err());
        assert!(InternalKey::parse(b"k\x7f0000000").is_err());
    }
}
