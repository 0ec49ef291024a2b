//! The on-disk format of record logs.
//!
//! A log is a sequence of blocks of 32 KiB. A block holds physical records, none of which crosses
//! its end; where no header fits any more, the block is padded with zeros. A logical record is one
//! FULL physical record or a chain FIRST, MIDDLE…, LAST.
//!
//! ```text
//! legacy header      fixed32 checksum | fixed16 length | u8 type                       (7 bytes)
//! recyclable header  fixed32 checksum | fixed16 length | u8 type | fixed32 log number (11 bytes)
//! checksum = mask(crc32c(everything from the type byte to the end of the payload))
//! ```
//!
//! Source: `docs/formats/log.md`; RocksDB `db/log_format.h`.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::checksum::{crc32c, mask};
use koeldb_base::coding::{fixed16_at, fixed32_at, take_fixed32, take_fixed64};
use koeldb_base::file_name::FileNumber;
use koeldb_base::{Error, Result, SeqNo};

/// The size of a log block.
pub const BLOCK_BYTES: usize = 32 << 10;

/// The size of a legacy record header, without log number.
pub const HEADER_BYTES: usize = 7;

/// The size of a recyclable record header, with log number.
pub const RECYCLABLE_HEADER_BYTES: usize = 11;

/// The offset of the checksummed part of a record, which begins with the type byte.
pub const CHECKSUMMED_FROM: usize = 6;

/// The number of the codec zstd in a [`RecordType::SetCompression`] record.
pub const ZSTD: u32 = 7;

/// The fragment of a logical record that a physical record holds: FULL, FIRST, MIDDLE or LAST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole record.
    Full,
    /// The first part.
    First,
    /// A middle part.
    Middle,
    /// The last part.
    Last,
}

/// The type of a physical log record, decoded from its type byte (RocksDB: `log::RecordType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// Unwritten space.
    Zero,
    /// A part of a logical record.
    Data(Part),
    /// The compression of the logical records that follow; the first record of its file.
    SetCompression,
    /// The column families whose keys end with a timestamp.
    TimestampSizes,
    /// A description of the preceding log.
    PredecessorInfo,
    /// An unknown type that may be skipped.
    Ignorable(u8),
    /// An unknown type that must not be skipped.
    Unknown(u8),
}

impl RecordType {
    /// Decodes the type byte of a physical record; every byte has a type.
    #[must_use]
    pub fn from_byte(byte: u8) -> Self {
        match byte {
            0 => RecordType::Zero,
            1 | 5 => RecordType::Data(Part::Full),
            2 | 6 => RecordType::Data(Part::First),
            3 | 7 => RecordType::Data(Part::Middle),
            4 | 8 => RecordType::Data(Part::Last),
            9 => RecordType::SetCompression,
            10 | 11 => RecordType::TimestampSizes,
            130 | 131 => RecordType::PredecessorInfo,
            _ if byte >= 0x80 => RecordType::Ignorable(byte),
            _ => RecordType::Unknown(byte),
        }
    }
}

/// The type byte of a data record with a legacy header.
#[must_use]
pub fn data_type_byte(part: Part) -> u8 {
    match part {
        Part::Full => 1,
        Part::First => 2,
        Part::Middle => 3,
        Part::Last => 4,
    }
}

/// The type byte of a data record with a recyclable header.
#[must_use]
pub fn recyclable_type_byte(part: Part) -> u8 {
    match part {
        Part::Full => 5,
        Part::First => 6,
        Part::Middle => 7,
        Part::Last => 8,
    }
}

/// Returns the low 32 bits of a log number, which recyclable record headers store.
#[must_use]
pub fn low_half(log_number: FileNumber) -> u32 {
    let [a, b, c, d, ..] = log_number.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The type byte of a [`RecordType::SetCompression`] record.
pub const SET_COMPRESSION_BYTE: u8 = 9;

/// The type byte of a [`RecordType::TimestampSizes`] record.
pub const TIMESTAMP_SIZES_BYTE: u8 = 10;

/// The type byte of a [`RecordType::TimestampSizes`] record in a log with recyclable headers.
pub const RECYCLABLE_TIMESTAMP_SIZES_BYTE: u8 = 11;

/// The header of a physical record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The stored masked checksum.
    pub checksum: u32,
    /// The length of the payload.
    pub length: u16,
    /// The stored type byte.
    pub type_byte: u8,
    /// The low half of the log's file number, in recyclable headers.
    pub log_number: Option<u32>,
}

impl Header {
    /// Decodes the header at the front of `block`; `None` if it is truncated.
    #[must_use]
    pub fn decode(block: &[u8]) -> Option<Self> {
        let type_byte = *block.get(CHECKSUMMED_FROM)?;
        Some(Header {
            checksum: fixed32_at(block, 0)?,
            length: fixed16_at(block, 4)?,
            type_byte,
            log_number: if is_recyclable(type_byte) {
                Some(fixed32_at(block, HEADER_BYTES)?)
            } else {
                None
            },
        })
    }

    /// The size of the header as stored.
    #[must_use]
    pub fn bytes(&self) -> usize {
        if self.log_number.is_some() {
            RECYCLABLE_HEADER_BYTES
        } else {
            HEADER_BYTES
        }
    }

    /// The size of header and payload.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.bytes().saturating_add(usize::from(self.length))
    }

    /// Whether the bytes of `record`, header and payload, match the checksum in this header.
    #[must_use]
    pub fn verifies(&self, record: &[u8]) -> bool {
        record
            .get(CHECKSUMMED_FROM..)
            .is_some_and(|covered| mask(crc32c(covered)) == self.checksum)
    }
}

/// Whether records with this type byte have a recyclable header, which has the log number.
#[must_use]
pub fn is_recyclable(type_byte: u8) -> bool {
    matches!(type_byte, 5..=8 | 11 | 131)
}

/// The number, size and last sequence number of the preceding WAL (`PredecessorWALInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredecessorInfo {
    /// The number of the preceding log.
    pub log_number: FileNumber,
    /// The length of the preceding log in bytes.
    pub bytes: u64,
    /// The last sequence number in the preceding log; 0 if it holds no record.
    pub last_seqno: SeqNo,
}

impl PredecessorInfo {
    /// Decodes the payload of a [`RecordType::PredecessorInfo`] record.
    ///
    /// # Errors
    /// `Corruption` if it is truncated. Later releases may append bytes.
    pub fn decode(mut payload: &[u8]) -> Result<Self> {
        Ok(PredecessorInfo {
            log_number: take_fixed64(&mut payload)?,
            bytes: take_fixed64(&mut payload)?,
            last_seqno: take_fixed64(&mut payload)?,
        })
    }
}

/// The size of one family's entry in a [`RecordType::TimestampSizes`] record.
const TIMESTAMP_SIZE_BYTES: usize = 6;

/// Encodes the payload of a [`RecordType::TimestampSizes`] record: families and timestamp sizes.
#[must_use]
pub fn encode_timestamp_sizes(sizes: &[(u32, u16)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (family, size) in sizes {
        payload.extend_from_slice(&family.to_le_bytes());
        payload.extend_from_slice(&size.to_le_bytes());
    }
    payload
}

/// Decodes a [`RecordType::TimestampSizes`] record: pairs of column family id and timestamp size.
///
/// # Errors
/// `Corruption` if it is no sequence of whole entries.
pub fn decode_timestamp_sizes(payload: &[u8]) -> Result<Vec<(u32, u16)>> {
    let (entries, rest) = payload.as_chunks::<TIMESTAMP_SIZE_BYTES>();
    if !rest.is_empty() {
        return Err(Error::corruption(
            "user-defined timestamp size record is truncated",
        ));
    }
    let decoded = entries
        .iter()
        .filter_map(|entry| Some((fixed32_at(entry, 0)?, fixed16_at(entry, 4)?)));
    Ok(decoded.collect())
}

/// Decodes the payload of a [`RecordType::SetCompression`] record: the compression type.
///
/// # Errors
/// `Corruption` if it is truncated.
pub fn decode_compression(mut payload: &[u8]) -> Result<u32> {
    take_fixed32(&mut payload)
}
