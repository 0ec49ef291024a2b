//! Reads the records of a blob file in order, without references.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use koeldb_base::checksum::{crc32c, mask};
use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Limits, Result};
use koeldb_fs::RandomAccessFile;

use super::format::{
    BlobFooter, BlobHeader, FOOTER_BYTES, HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader,
};
use crate::file_read::read_bytes;

/// The size of one read, unless a record is larger.
const PIECE_BYTES: u64 = 1 << 20;

/// A record of a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobRecord<'a> {
    /// The offset of the stored value, as references have it.
    pub offset: u64,
    /// The user key.
    pub key: &'a [u8],
    /// The stored value, compressed as the header of the file says.
    pub stored: &'a [u8],
    /// Whether key and value have the checksum of the record.
    pub is_intact: bool,
}

/// A reader of the records of a blob file, from the first on.
#[derive(Debug)]
pub struct BlobRecords {
    file: Arc<dyn RandomAccessFile>,
    limits: Limits,
    /// The offset of the next record.
    at: u64,
    /// The end of the records.
    end: u64,
    /// A part of the file.
    piece: Vec<u8>,
    /// The offset of `piece`.
    piece_at: u64,
}

impl BlobRecords {
    /// Creates a reader of the records in front of the offset `end`.
    #[must_use]
    pub fn new(file: Arc<dyn RandomAccessFile>, end: u64, limits: Limits) -> Self {
        BlobRecords {
            end: end.min(file.len()),
            file,
            limits,
            at: HEADER_BYTES,
            piece: Vec::new(),
            piece_at: HEADER_BYTES,
        }
    }

    /// The offset behind the last record that was read.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// Reads the next record; `None` at the end.
    ///
    /// A record whose header is intact is returned although key or value may be damaged.
    ///
    /// # Errors
    /// `Corruption` if the header of the record is damaged, or it does not fit the file: nothing behind
    /// it can be read. Otherwise if the system fails.
    pub fn next_record(&mut self) -> Result<Option<BlobRecord<'_>>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let at = self.at;
        let header = self
            .read_header()
            .map_err(|error| error.in_file(self.file.path(), Some(at), "read a record"))?;
        // It was found to fit the file.
        let record_bytes = header.record_bytes().unwrap_or(u64::MAX);
        self.fill(record_bytes)
            .map_err(|error| error.in_file(self.file.path(), Some(at), "read a record"))?;
        self.at = self.at.saturating_add(record_bytes);
        let content = self.bytes(at, record_bytes);
        let content = content
            .get(to_usize(RECORD_HEADER_BYTES)..)
            .unwrap_or_default();
        let key_bytes = to_usize(header.key_bytes).min(content.len());
        let (key, stored) = content.split_at(key_bytes);
        Ok(Some(BlobRecord {
            offset: self.at.saturating_sub(header.value_bytes),
            key,
            stored,
            is_intact: mask(crc32c(content)) == header.checksum,
        }))
    }

    /// Reads the header of the next record, which then fits the file.
    fn read_header(&mut self) -> Result<RecordHeader> {
        let left = self.end.saturating_sub(self.at);
        if left < RECORD_HEADER_BYTES {
            return Err(Error::corruption(format!(
                "{left} bytes instead of a record"
            )));
        }
        self.fill(RECORD_HEADER_BYTES)?;
        let header = RecordHeader::decode(self.bytes(self.at, RECORD_HEADER_BYTES))?;
        if header.record_bytes().is_none_or(|bytes| bytes > left) {
            return Err(Error::corruption(format!(
                "a record with a key of {} bytes and a value of {} bytes, and {left} bytes are left",
                header.key_bytes, header.value_bytes
            )));
        }
        if header.value_bytes > self.limits.block_bytes as u64 {
            return Err(Error::corruption(format!(
                "a value of {} bytes is over the limit of {}",
                header.value_bytes, self.limits.block_bytes
            )));
        }
        Ok(header)
    }

    /// Reads the next `bytes` bytes of the file, which it has, and some behind them.
    fn fill(&mut self, bytes: u64) -> Result<()> {
        if self.bytes(self.at, bytes).len() as u64 == bytes {
            return Ok(());
        }
        let left = self.end.saturating_sub(self.at);
        let piece_bytes = bytes.max(PIECE_BYTES).min(left);
        self.piece = read_bytes(&*self.file, self.at, to_usize(piece_bytes))?;
        self.piece_at = self.at;
        Ok(())
    }

    /// Returns a part of the piece; empty if the piece does not have all of it.
    fn bytes(&self, at: u64, bytes: u64) -> &[u8] {
        let begin = to_usize(at.saturating_sub(self.piece_at));
        let end = begin.saturating_add(to_usize(bytes));
        self.piece.get(begin..end).unwrap_or_default()
    }
}

/// The end of a blob file: its footer, or why it has none.
pub type FooterRead = Result<BlobFooter>;

/// Reads header and footer of a blob file of any length.
///
/// # Errors
/// `Corruption` if the header is damaged, `NotSupported` for files of the older `BlobDB`; otherwise if
/// the system fails.
pub fn read_ends(file: &dyn RandomAccessFile) -> Result<(BlobHeader, FooterRead)> {
    let named = |error: Error| error.in_file(file.path(), None, "read");
    if file.len() < HEADER_BYTES {
        return Err(named(Error::corruption(format!(
            "{} bytes are less than a header",
            file.len()
        ))));
    }
    let header = read_bytes(file, 0, to_usize(HEADER_BYTES)).map_err(named)?;
    let header = BlobHeader::decode(&header).map_err(named)?;
    let at = file.len().saturating_sub(FOOTER_BYTES);
    if at < HEADER_BYTES {
        let missing = Error::corruption("the file ends before a footer");
        return Ok((header, Err(named(missing))));
    }
    let footer = read_bytes(file, at, to_usize(FOOTER_BYTES)).map_err(named)?;
    Ok((header, BlobFooter::decode(&footer).map_err(named)))
}
