//! The bytes of a record log.
//!
//! A log is a sequence of blocks of 32 KiB. A block holds physical records, none of which crosses its end;
//! where no header fits any more, zeros fill the block. A logical record is one FULL physical record or a
//! chain FIRST, MIDDLE…, LAST.
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
use koeldb_base::sabotage::{Sabotage, is_on};
use koeldb_base::{Error, Result, SeqNo};

/// The bytes of a block.
pub const BLOCK_BYTES: usize = 32 << 10;

/// The bytes of a header without log number.
pub const HEADER_BYTES: usize = 7;

/// The bytes of a header with log number, used in files that are written anew over old content.
pub const RECYCLABLE_HEADER_BYTES: usize = 11;

/// Where the checksummed part of a record begins: at the type byte.
pub const CHECKSUMMED_FROM: usize = 6;

/// The byte that announces zstd in a [`RecordType::SetCompression`] record.
pub const ZSTD: u32 = 7;

/// Which part of a logical record a physical one carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Full,
    /// Its beginning.
    First,
    /// Neither beginning nor end.
    Middle,
    /// Its end.
    Last,
}

/// What a physical record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// Space nobody wrote to.
    Zero,
    /// A part of a logical record.
    Data(Part),
    /// Announces how logical records are compressed; the first record of its file.
    SetCompression,
    /// Names families whose keys end with a timestamp.
    TimestampSizes,
    /// Describes the log before this one.
    PredecessorInfo,
    /// A type of the future that may be skipped.
    Ignorable(u8),
    /// A type of the future that must be understood.
    Unknown(u8),
}

impl RecordType {
    /// The type a stored byte means.
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

/// The byte of a data record with a legacy header.
#[must_use]
pub fn data_type_byte(part: Part) -> u8 {
    match part {
        Part::Full => 1,
        Part::First => 2,
        Part::Middle => 3,
        Part::Last => 4,
    }
}

/// The byte of a [`RecordType::SetCompression`] record.
pub const SET_COMPRESSION_BYTE: u8 = 9;

/// The header of a physical record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The masked checksum stored.
    pub checksum: u32,
    /// The bytes of the payload.
    pub length: u16,
    /// The type as stored.
    pub type_byte: u8,
    /// The low half of the log's file number, in recyclable headers.
    pub log_number: Option<u32>,
}

impl Header {
    /// The header at the front of `block`; `None` if fewer bytes are left than it takes.
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

    /// The bytes of the header itself.
    #[must_use]
    pub fn bytes(&self) -> usize {
        if self.log_number.is_some() {
            RECYCLABLE_HEADER_BYTES
        } else {
            HEADER_BYTES
        }
    }

    /// The bytes of header and payload.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.bytes().saturating_add(usize::from(self.length))
    }

    /// Whether `record`, header and payload, has the checksum its header says.
    #[must_use]
    pub fn verifies(&self, record: &[u8]) -> bool {
        record
            .get(CHECKSUMMED_FROM..)
            .is_some_and(|covered| mask(crc32c(covered)) == self.checksum)
            || is_on(Sabotage::LogChecksumSkipped)
    }
}

/// Whether a record of this type has a header with log number.
#[must_use]
pub fn is_recyclable(type_byte: u8) -> bool {
    matches!(type_byte, 5..=8 | 11 | 131)
}

/// What a log says of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredecessorInfo {
    /// Its number.
    pub log_number: FileNumber,
    /// Its length in bytes.
    pub bytes: u64,
    /// The last sequence number in it; 0 if it holds no record.
    pub last_seqno: SeqNo,
}

impl PredecessorInfo {
    /// Decodes the payload of a [`RecordType::PredecessorInfo`] record.
    ///
    /// # Errors
    /// `Corruption` if it is cut off. Bytes behind are a later release's.
    pub fn decode(mut payload: &[u8]) -> Result<Self> {
        Ok(PredecessorInfo {
            log_number: take_fixed64(&mut payload)?,
            bytes: take_fixed64(&mut payload)?,
            last_seqno: take_fixed64(&mut payload)?,
        })
    }
}

/// The bytes one family takes in a [`RecordType::TimestampSizes`] record.
const TIMESTAMP_SIZE_BYTES: usize = 6;

/// Decodes the payload of a [`RecordType::TimestampSizes`] record: families and the bytes of their timestamps.
///
/// # Errors
/// `Corruption` if it is no sequence of whole entries.
pub fn decode_timestamp_sizes(payload: &[u8]) -> Result<Vec<(u32, u16)>> {
    let (entries, rest) = payload.as_chunks::<TIMESTAMP_SIZE_BYTES>();
    if !rest.is_empty() {
        return Err(Error::corruption(
            "user-defined timestamp size record is cut off",
        ));
    }
    let decoded = entries
        .iter()
        .filter_map(|entry| Some((fixed32_at(entry, 0)?, fixed16_at(entry, 4)?)));
    Ok(decoded.collect())
}

/// Decodes the payload of a [`RecordType::SetCompression`] record.
///
/// # Errors
/// `Corruption` if it is cut off.
pub fn decode_compression(mut payload: &[u8]) -> Result<u32> {
    take_fixed32(&mut payload)
}
