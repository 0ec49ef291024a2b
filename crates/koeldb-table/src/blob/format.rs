//! The fixed parts of blob files: header, record header, footer.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::checksum::{crc32c, crc32c_extend, mask};
use koeldb_base::codec::Compression;
use koeldb_base::coding::{put_fixed32, put_fixed64, take_fixed32, take_fixed64, take_u8};
use koeldb_base::{Error, Result};

/// The first and the last part of a blob file begin with this number.
const MAGIC: u32 = 0x0024_8f37;

/// The version of the format.
pub const VERSION: u32 = 1;

/// The flag of files whose values expire, which the older `BlobDB` writes.
const HAS_TTL: u8 = 1;

/// The size of the header of a file.
pub const HEADER_BYTES: u64 = 30;

/// The size of the header of a record.
pub const RECORD_HEADER_BYTES: u64 = 32;

/// The size of the footer.
pub const FOOTER_BYTES: u64 = 32;

/// The header of a blob file. It has no checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobHeader {
    /// The id of the column family that wrote the file.
    pub column_family_id: u32,
    /// The compression of all values.
    pub compression: Compression,
}

impl BlobHeader {
    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(30);
        put_fixed32(&mut out, MAGIC);
        put_fixed32(&mut out, VERSION);
        put_fixed32(&mut out, self.column_family_id);
        out.push(0);
        out.push(self.compression.to_byte());
        put_fixed64(&mut out, 0);
        put_fixed64(&mut out, 0);
        out
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// `Corruption` if the bytes are not a header; `NotSupported` for another version, and for files
    /// whose values expire.
    pub fn decode(mut bytes: &[u8]) -> Result<Self> {
        let input = &mut bytes;
        let magic = take_fixed32(input)?;
        if magic != MAGIC {
            return Err(Error::corruption(format!(
                "not a blob file: it begins with {magic:#x} instead of {MAGIC:#x}"
            )));
        }
        let version = take_fixed32(input)?;
        if version != VERSION {
            return Err(Error::not_supported(format!(
                "version {version} of blob files is not supported, only {VERSION}"
            )));
        }
        let column_family_id = take_fixed32(input)?;
        let flags = take_u8(input)?;
        let codec = take_u8(input)?;
        let expirations = (take_fixed64(input)?, take_fixed64(input)?);
        if flags & HAS_TTL != 0 || expirations != (0, 0) {
            return Err(Error::not_supported(
                "the values of the blob file expire: it was written by the older BlobDB",
            ));
        }
        if flags != 0 {
            return Err(Error::corruption(format!("unknown flags {flags:#x}")));
        }
        let compression = Compression::from_byte(codec)
            .ok_or_else(|| Error::corruption(format!("unknown compression {codec}")))?;
        Ok(BlobHeader {
            column_family_id,
            compression,
        })
    }
}

/// The footer of a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobFooter {
    /// The number of records.
    pub count: u64,
}

impl BlobFooter {
    /// Encodes the footer.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        put_fixed32(&mut out, MAGIC);
        put_fixed64(&mut out, self.count);
        put_fixed64(&mut out, 0);
        put_fixed64(&mut out, 0);
        let checksum = mask(crc32c(&out));
        put_fixed32(&mut out, checksum);
        out
    }

    /// Decodes a footer.
    ///
    /// # Errors
    /// `Corruption` if the bytes are not a footer.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes;
        let input = &mut rest;
        let magic = take_fixed32(input)?;
        let count = take_fixed64(input)?;
        let expirations = (take_fixed64(input)?, take_fixed64(input)?);
        let checksum = take_fixed32(input)?;
        let covered = bytes.get(..28).unwrap_or_default();
        if magic != MAGIC || checksum != mask(crc32c(covered)) {
            return Err(Error::corruption(
                "the footer of the blob file is missing or damaged",
            ));
        }
        if expirations != (0, 0) {
            return Err(Error::corruption(
                "the footer of the blob file has expiration times, and its header has none",
            ));
        }
        Ok(BlobFooter { count })
    }
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The length of the user key.
    pub key_bytes: u64,
    /// The length of the stored value.
    pub value_bytes: u64,
    /// The masked CRC-32C of key and stored value.
    pub checksum: u32,
}

impl RecordHeader {
    /// Creates the header of a key and a stored value.
    #[must_use]
    pub fn of(key: &[u8], stored: &[u8]) -> Self {
        RecordHeader {
            key_bytes: key.len() as u64,
            value_bytes: stored.len() as u64,
            checksum: mask(crc32c_extend(crc32c(key), stored)),
        }
    }

    /// Appends the encoded header.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let mut fields = Vec::with_capacity(24);
        put_fixed64(&mut fields, self.key_bytes);
        put_fixed64(&mut fields, self.value_bytes);
        put_fixed64(&mut fields, 0);
        out.extend_from_slice(&fields);
        put_fixed32(out, mask(crc32c(&fields)));
        put_fixed32(out, self.checksum);
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// `Corruption` if its checksum differs, or the value expires.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes;
        let input = &mut rest;
        let key_bytes = take_fixed64(input)?;
        let value_bytes = take_fixed64(input)?;
        let expiration = take_fixed64(input)?;
        let own_checksum = take_fixed32(input)?;
        let checksum = take_fixed32(input)?;
        let covered = bytes.get(..24).unwrap_or_default();
        if own_checksum != mask(crc32c(covered)) {
            return Err(Error::corruption(
                "the checksum of the record's header does not match",
            ));
        }
        if expiration != 0 {
            return Err(Error::corruption("the record has an expiration time"));
        }
        Ok(RecordHeader {
            key_bytes,
            value_bytes,
            checksum,
        })
    }

    /// The size of the whole record; `None` if it overflows.
    #[must_use]
    pub fn record_bytes(&self) -> Option<u64> {
        RECORD_HEADER_BYTES
            .checked_add(self.key_bytes)?
            .checked_add(self.value_bytes)
    }
}
