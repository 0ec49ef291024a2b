//! References to values in blob files, as tables hold them (RocksDB: `BlobIndex`).
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::codec::Compression;
use koeldb_base::coding::{put_varint64, take_u8, take_varint64};
use koeldb_base::file_name::FileNumber;
use koeldb_base::{Error, Result};

use super::format::RECORD_HEADER_BYTES;

/// The kind of a reference to a value that does not expire.
const KIND_BLOB: u8 = 1;

/// A reference to a value in a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobReference {
    /// The number of the blob file; 0 for a value in the table that holds the reference.
    pub file: FileNumber,
    /// The offset of the stored value in the file, behind the record's header and key.
    pub offset: u64,
    /// The size of the stored value.
    pub bytes: u64,
    /// The compression of the stored value.
    pub compression: Compression,
}

impl BlobReference {
    /// Encodes the reference as the value of a table's entry.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![KIND_BLOB];
        put_varint64(&mut out, self.file);
        put_varint64(&mut out, self.offset);
        put_varint64(&mut out, self.bytes);
        out.push(self.compression.to_byte());
        out
    }

    /// Decodes the value of a table's entry of type `BlobIndex`.
    ///
    /// # Errors
    /// `Corruption` if it is malformed, or the value expires: only the older `BlobDB` writes such.
    pub fn decode(mut bytes: &[u8]) -> Result<Self> {
        let input = &mut bytes;
        let kind = take_u8(input)?;
        if kind != KIND_BLOB {
            return Err(Error::corruption(format!(
                "blob reference of kind {kind}, which only the older BlobDB writes"
            )));
        }
        let file = take_varint64(input)?;
        let offset = take_varint64(input)?;
        let value_bytes = take_varint64(input)?;
        let codec = take_u8(input)?;
        if !input.is_empty() {
            return Err(Error::corruption(
                "blob reference with bytes behind its end",
            ));
        }
        let compression = Compression::from_byte(codec)
            .ok_or_else(|| Error::corruption(format!("unknown compression {codec}")))?;
        Ok(BlobReference {
            file,
            offset,
            bytes: value_bytes,
            compression,
        })
    }

    /// The size of the record of a value whose user key has `key_bytes` bytes.
    #[must_use]
    pub fn record_bytes(&self, key_bytes: usize) -> u64 {
        RECORD_HEADER_BYTES
            .saturating_add(key_bytes as u64)
            .saturating_add(self.bytes)
    }
}
