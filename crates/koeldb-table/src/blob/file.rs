//! Reads values of blob files.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use koeldb_base::checksum::{crc32c, mask};
use koeldb_base::codec::{Compression, Decompressor};
use koeldb_base::coding::to_usize;
use koeldb_base::file_name::FileNumber;
use koeldb_base::{Error, Limits, PinnedSlice, Result};
use koeldb_fs::RandomAccessFile;

use super::format::{
    BlobFooter, BlobHeader, FOOTER_BYTES, HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader,
};
use super::key::BlobKey;
use super::reference::BlobReference;
use crate::file_read::read_bytes;

/// The size of the parts in which a file is searched for the header of a record.
const SEARCH_BYTES: u64 = 64 << 10;

/// The description of a blob file in the MANIFEST, which the file is compared with.
#[derive(Clone, Copy, Debug)]
pub struct BlobFileContext {
    /// The number in the file's name.
    pub number: FileNumber,
    /// The number of records.
    pub count: u64,
    /// The size of all records, without header and footer.
    pub record_bytes: u64,
    /// The limits on sizes that a value declares.
    pub limits: Limits,
}

/// An open blob file. Immutable and shared by threads.
#[derive(Debug)]
pub struct BlobFile {
    file: Arc<dyn RandomAccessFile>,
    number: FileNumber,
    header: BlobHeader,
    limits: Limits,
}

impl BlobFile {
    /// Opens a blob file, and compares it with its record in the MANIFEST.
    ///
    /// # Errors
    /// `Corruption` if header or footer are damaged, or the length or the number of records is not
    /// the recorded one; `NotSupported` for files of the older `BlobDB`.
    pub fn open(file: Arc<dyn RandomAccessFile>, context: &BlobFileContext) -> Result<Self> {
        let header = Self::read_header(&*file, context)
            .map_err(|error| error.in_file(file.path(), None, "open"))?;
        Ok(BlobFile {
            file,
            number: context.number,
            header,
            limits: context.limits,
        })
    }

    fn read_header(file: &dyn RandomAccessFile, context: &BlobFileContext) -> Result<BlobHeader> {
        let expected = context
            .record_bytes
            .saturating_add(HEADER_BYTES)
            .saturating_add(FOOTER_BYTES);
        if file.len() != expected {
            return Err(Error::corruption(format!(
                "the blob file has {} bytes, and {expected} are recorded",
                file.len()
            )));
        }
        let header = BlobHeader::decode(&read_bytes(file, 0, to_usize(HEADER_BYTES))?)?;
        let at = expected.saturating_sub(FOOTER_BYTES);
        let footer = BlobFooter::decode(&read_bytes(file, at, to_usize(FOOTER_BYTES))?)?;
        if footer.count != context.count {
            return Err(Error::corruption(format!(
                "the blob file has {} records, and {} are recorded",
                footer.count, context.count
            )));
        }
        Ok(header)
    }

    /// The header of the file.
    #[must_use]
    pub fn header(&self) -> &BlobHeader {
        &self.header
    }

    /// Reads the value of a key.
    ///
    /// # Errors
    /// `Corruption` if the reference does not fit the file, or the record is damaged or of another
    /// key; otherwise if the system fails.
    pub fn value(
        &self,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<PinnedSlice> {
        let read = || {
            self.check(reference)?;
            let (begin, end) = self.range(reference, key.record_key_bytes(), verifies)?;
            self.read_value(begin, end, reference, key, verifies)
        };
        self.or_search(read(), reference, key, verifies)
    }

    /// Returns the value of a key from the bytes of the file in [`BlobFile::checked_range`].
    ///
    /// The value pins them if it is stored uncompressed.
    ///
    /// # Errors
    /// `Corruption` if the record is damaged or of another key.
    pub fn value_in(
        &self,
        record: &PinnedSlice,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<PinnedSlice> {
        let value = self.decode(record, reference, key, verifies);
        self.or_search(value, reference, key, verifies)
    }

    /// Returns the first and the last offset, exclusive, of what a read of the value needs.
    ///
    /// That is the whole record if it is verified.
    ///
    /// # Errors
    /// `Corruption` if the reference does not fit the file.
    pub fn checked_range(
        &self,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<(u64, u64)> {
        self.check(reference)
            .and_then(|()| self.range(reference, key.record_key_bytes(), verifies))
            .map_err(|error| self.at(error, reference))
    }

    /// Compares a reference with the file.
    fn check(&self, reference: &BlobReference) -> Result<()> {
        if reference.compression != self.header.compression {
            return Err(Error::corruption(format!(
                "the reference says {:?}, and the file has {:?}",
                reference.compression, self.header.compression
            )));
        }
        if reference.bytes > self.limits.block_bytes as u64 {
            return Err(Error::corruption(format!(
                "a value of {} bytes is over the limit of {}",
                reference.bytes, self.limits.block_bytes
            )));
        }
        // The value itself, without header and key.
        self.range(reference, 0, false).map(drop)
    }

    /// Returns the part of the file with a value, and with its header and key if it is verified.
    fn range(
        &self,
        reference: &BlobReference,
        key_bytes: u64,
        verifies: bool,
    ) -> Result<(u64, u64)> {
        let key_bytes = if verifies { key_bytes } else { 0 };
        let head_bytes = RECORD_HEADER_BYTES.saturating_add(key_bytes);
        let end = reference.offset.checked_add(reference.bytes);
        let values_end = self.file.len().saturating_sub(FOOTER_BYTES);
        let end = end.filter(|&end| end <= values_end);
        let is_behind_header = reference.offset >= HEADER_BYTES.saturating_add(head_bytes);
        match end {
            Some(end) if reference.file == self.number && is_behind_header => {
                let skipped = if verifies { head_bytes } else { 0 };
                Ok((reference.offset.saturating_sub(skipped), end))
            }
            _ => Err(Error::corruption(format!(
                "the reference to {} bytes at {} does not fit the file",
                reference.bytes, reference.offset
            ))),
        }
    }

    /// Reads a value from its record, which is the part of the file from `begin` to `end`.
    fn read_value(
        &self,
        begin: u64,
        end: u64,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<PinnedSlice> {
        let bytes = read_bytes(&*self.file, begin, to_usize(end.saturating_sub(begin)))?;
        self.decode(&PinnedSlice::from(bytes), reference, key, verifies)
    }

    /// Returns the value that was found, or searches for the record if its key may be longer or
    /// shorter than the reader knows.
    ///
    /// Errors get the place of the value.
    fn or_search(
        &self,
        value: Result<PinnedSlice>,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<PinnedSlice> {
        let value = match value {
            Err(error) if verifies && error.is_corruption() && key.may_differ_in_length() => self
                .check(reference)
                .and_then(|()| match self.record_before(reference)? {
                    Some(begin) => {
                        let end = reference.offset.saturating_add(reference.bytes);
                        self.read_value(begin, end, reference, key, verifies)
                    }
                    None => Err(error),
                }),
            value => value,
        };
        value.map_err(|error| self.at(error, reference))
    }

    /// Searches for the header of the record whose key ends where a value begins.
    ///
    /// The header has the length of the key, and a checksum.
    #[cold]
    fn record_before(&self, reference: &BlobReference) -> Result<Option<u64>> {
        let header_bytes = to_usize(RECORD_HEADER_BYTES);
        // The first offset that was not searched yet.
        let mut to = reference
            .offset
            .saturating_sub(RECORD_HEADER_BYTES)
            .saturating_add(1);
        while to > HEADER_BYTES {
            let from = to.saturating_sub(SEARCH_BYTES).max(HEADER_BYTES);
            let bytes = to.saturating_sub(from).saturating_add(RECORD_HEADER_BYTES);
            let part = self.read_part(from, bytes.saturating_sub(1))?;
            for (at, head) in part.windows(header_bytes).enumerate().rev() {
                let begin = from.saturating_add(at as u64);
                let key_bytes = head.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
                let key_begin = begin.saturating_add(RECORD_HEADER_BYTES);
                let ends_here = key_bytes.and_then(|bytes| key_begin.checked_add(bytes))
                    == Some(reference.offset);
                if ends_here
                    && let Ok(header) = RecordHeader::decode(head)
                    && header.value_bytes == reference.bytes
                {
                    return Ok(Some(begin));
                }
            }
            to = from;
        }
        Ok(None)
    }

    /// Reads up to `bytes` bytes from the offset `begin` on, but not the footer.
    ///
    /// # Errors
    /// If the system fails.
    pub(super) fn read_part(&self, begin: u64, bytes: u64) -> Result<Vec<u8>> {
        let values_end = self.file.len().saturating_sub(FOOTER_BYTES);
        let bytes = bytes.min(values_end.saturating_sub(begin));
        read_bytes(&*self.file, begin, to_usize(bytes))
            .map_err(|error| error.in_file(self.file.path(), Some(begin), "read values"))
    }

    /// Advises the system that `bytes` bytes from the offset `begin` on will be read soon.
    pub(super) fn prefetch(&self, begin: u64, bytes: u64) {
        if begin < self.file.len() {
            self.file.prefetch(begin, bytes);
        }
    }

    /// Returns the value in a record, which it pins if it is stored uncompressed.
    fn decode(
        &self,
        record: &PinnedSlice,
        reference: &BlobReference,
        key: &BlobKey<'_>,
        verifies: bool,
    ) -> Result<PinnedSlice> {
        let skipped = record.len().saturating_sub(to_usize(reference.bytes));
        if verifies {
            verify_record(record, skipped, reference, key)?;
        }
        if reference.compression == Compression::None {
            return Ok(record.subslice(skipped..record.len()));
        }
        let stored = record.get(skipped..).unwrap_or_default();
        let raw = Decompressor::new(None).decompress(
            reference.compression,
            stored,
            self.limits.block_bytes,
        )?;
        Ok(PinnedSlice::from(raw))
    }

    /// Adds the file and the offset of a value to an error.
    fn at(&self, error: Error, reference: &BlobReference) -> Error {
        error.in_file(self.file.path(), Some(reference.offset), "read a value")
    }
}

/// Compares a record with its checksums, its key and the reference to it.
///
/// The value begins at `value_at`.
fn verify_record(
    record: &[u8],
    value_at: usize,
    reference: &BlobReference,
    key: &BlobKey<'_>,
) -> Result<()> {
    let (head, content) = record
        .split_at_checked(to_usize(RECORD_HEADER_BYTES))
        .ok_or_else(|| Error::corruption("a record without a header"))?;
    let header = RecordHeader::decode(head)?;
    let key_bytes = value_at.saturating_sub(to_usize(RECORD_HEADER_BYTES));
    let record_key = content.get(..key_bytes).unwrap_or_default();
    let is_of_reference =
        header.value_bytes == reference.bytes && header.key_bytes == key_bytes as u64;
    if !is_of_reference || !key.is(record_key) {
        return Err(Error::corruption("the record is of another key"));
    }
    if mask(crc32c(content)) != header.checksum {
        return Err(Error::corruption(
            "the checksum of the value does not match",
        ));
    }
    Ok(())
}
