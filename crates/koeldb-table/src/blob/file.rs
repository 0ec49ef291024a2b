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
use koeldb_base::{Buffer, Error, Limits, PinnedSlice, Result};
use koeldb_fs::RandomAccessFile;

use super::format::{
    BlobFooter, BlobHeader, FOOTER_BYTES, HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader,
};
use super::records::BlobRecords;
use super::reference::BlobReference;
use crate::file_read::read_bytes;

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
    context: BlobFileContext,
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
            context: *context,
            limits: context.limits,
        })
    }

    /// Reads the whole file, and verifies header, footer and each record.
    ///
    /// `progress` receives the size of each record.
    ///
    /// # Errors
    /// `Corruption` with the file and the offset of the first damage; otherwise if the system fails.
    pub fn verify_checksums(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let path = self.file.path();
        let header = Self::read_header(&*self.file, &self.context)
            .map_err(|error| error.in_file(path, None, "verify"))?;
        if header != self.header {
            let changed = Error::corruption("the header of the blob file has changed");
            return Err(changed.in_file(path, Some(0), "verify"));
        }
        let end = self.file.len().saturating_sub(FOOTER_BYTES);
        let mut records = BlobRecords::new(Arc::clone(&self.file), end, self.limits);
        let (mut at, mut count) = (records.offset(), 0_u64);
        while let Some(record) = records.next_record()? {
            if !record.is_intact {
                let damaged = Error::corruption("the checksum of the value does not match");
                return Err(damaged.in_file(path, Some(record.offset), "verify"));
            }
            count = count.saturating_add(1);
            progress(records.offset().saturating_sub(at));
            at = records.offset();
        }
        if count != self.context.count {
            let counted = Error::corruption(format!(
                "the blob file has {count} records, and {} are recorded",
                self.context.count
            ));
            return Err(counted.in_file(path, None, "verify"));
        }
        Ok(())
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
        user_key: &[u8],
        verifies: bool,
    ) -> Result<PinnedSlice> {
        let (begin, end) = self.checked_range(reference, user_key, verifies)?;
        let read = || {
            let bytes = read_bytes(&*self.file, begin, to_usize(end.saturating_sub(begin)))?;
            if reference.compression != Compression::None {
                return self.decode(&bytes, reference, user_key, verifies);
            }
            if verifies {
                verify_record(&bytes, reference, user_key)?;
            }
            let len = u32::try_from(reference.bytes)
                .map_err(|_| Error::corruption("a value of 4 GiB or more"))?;
            let skipped = reference.offset.saturating_sub(begin);
            let buffer = Arc::new(Buffer::from_vec(bytes));
            Ok(PinnedSlice::pin(&buffer, skipped, len))
        };
        read().map_err(|error| self.at(error, reference))
    }

    /// Returns the value of a key from the bytes of the file in [`BlobFile::checked_range`].
    ///
    /// # Errors
    /// `Corruption` if the record is damaged or of another key.
    pub fn value_in(
        &self,
        record: &[u8],
        reference: &BlobReference,
        user_key: &[u8],
        verifies: bool,
    ) -> Result<PinnedSlice> {
        self.decode(record, reference, user_key, verifies)
            .map_err(|error| self.at(error, reference))
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
        user_key: &[u8],
        verifies: bool,
    ) -> Result<(u64, u64)> {
        self.range(reference, user_key, verifies)
            .map_err(|error| self.at(error, reference))
    }

    fn range(
        &self,
        reference: &BlobReference,
        user_key: &[u8],
        verifies: bool,
    ) -> Result<(u64, u64)> {
        let key_bytes = if verifies { user_key.len() as u64 } else { 0 };
        let head_bytes = RECORD_HEADER_BYTES.saturating_add(key_bytes);
        let end = reference.offset.checked_add(reference.bytes);
        let values_end = self.file.len().saturating_sub(FOOTER_BYTES);
        let end = end.filter(|&end| end <= values_end);
        let is_behind_header = reference.offset >= HEADER_BYTES.saturating_add(head_bytes);
        let end = match end {
            Some(end) if reference.file == self.number && is_behind_header => end,
            _ => {
                return Err(Error::corruption(format!(
                    "the reference to {} bytes at {} does not fit the file",
                    reference.bytes, reference.offset
                )));
            }
        };
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
        let skipped = if verifies { head_bytes } else { 0 };
        Ok((reference.offset.saturating_sub(skipped), end))
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

    fn decode(
        &self,
        record: &[u8],
        reference: &BlobReference,
        user_key: &[u8],
        verifies: bool,
    ) -> Result<PinnedSlice> {
        if verifies {
            verify_record(record, reference, user_key)?;
        }
        let skipped = record.len().saturating_sub(to_usize(reference.bytes));
        let stored = record.get(skipped..).unwrap_or_default();
        if reference.compression == Compression::None {
            return Ok(PinnedSlice::copy_of(stored));
        }
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
fn verify_record(record: &[u8], reference: &BlobReference, user_key: &[u8]) -> Result<()> {
    let (head, content) = record
        .split_at_checked(to_usize(RECORD_HEADER_BYTES))
        .ok_or_else(|| Error::corruption("a record without a header"))?;
    let header = RecordHeader::decode(head)?;
    let is_of_reference =
        header.value_bytes == reference.bytes && header.key_bytes == user_key.len() as u64;
    if !is_of_reference || !content.starts_with(user_key) {
        return Err(Error::corruption("the record is of another key"));
    }
    if mask(crc32c(content)) != header.checksum {
        return Err(Error::corruption(
            "the checksum of the value does not match",
        ));
    }
    Ok(())
}
