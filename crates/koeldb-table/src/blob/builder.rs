//! Writes blob files.

use koeldb_base::Result;
use koeldb_base::codec::{Compression, CompressionOptions, Compressor};
use koeldb_base::file_name::FileNumber;
use koeldb_fs::WritableFile;

use super::format::{BlobFooter, BlobHeader, FOOTER_BYTES, HEADER_BYTES, RecordHeader};
use super::reference::BlobReference;

/// A blob file under construction. One owner; dropping it leaves an incomplete file.
#[derive(Debug)]
pub struct BlobFileBuilder {
    file: Box<dyn WritableFile>,
    number: FileNumber,
    compressor: Compressor,
    count: u64,
    record_bytes: u64,
    /// The record being written, but for its value.
    head: Vec<u8>,
    compressed: Vec<u8>,
}

/// A blob file that was written, synced and closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedBlobFile {
    /// The number in the file's name.
    pub number: FileNumber,
    /// The number of records.
    pub count: u64,
    /// The size of all records, without header and footer.
    pub record_bytes: u64,
}

impl FinishedBlobFile {
    /// The length of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        HEADER_BYTES + self.record_bytes + FOOTER_BYTES
    }
}

impl BlobFileBuilder {
    /// Writes the header of a new, empty file.
    ///
    /// # Errors
    /// If the system fails; `NotSupported` if this build lacks the codec.
    pub fn new(
        mut file: Box<dyn WritableFile>,
        number: FileNumber,
        column_family_id: u32,
        compression: Compression,
        options: &CompressionOptions,
    ) -> Result<Self> {
        let compressor = Compressor::new(compression, options, None)?;
        let header = BlobHeader {
            column_family_id,
            compression,
        };
        let header = header.encode();
        file.append(&header)?;
        Ok(BlobFileBuilder {
            file,
            number,
            compressor,
            count: 0,
            record_bytes: 0,
            head: Vec::new(),
            compressed: Vec::new(),
        })
    }

    /// The number in the file's name.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// The length of the file if it were finished now.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        HEADER_BYTES + self.record_bytes + FOOTER_BYTES
    }

    /// Appends a value, and returns the reference to it.
    ///
    /// # Errors
    /// If the system or the codec fails.
    pub fn add(&mut self, user_key: &[u8], value: &[u8]) -> Result<BlobReference> {
        // COMPAT: the compressed form is kept even if it is larger.
        let compression = self.compressor.compression();
        let stored = match compression {
            Compression::None => value,
            _ => {
                self.compressor
                    .compress(value, usize::MAX, &mut self.compressed)?;
                &self.compressed
            }
        };
        let header = RecordHeader::of(user_key, stored);
        self.head.clear();
        header.encode_into(&mut self.head);
        self.head.extend_from_slice(user_key);
        let offset = HEADER_BYTES + self.record_bytes + self.head.len() as u64;
        self.file.append(&self.head)?;
        self.file.append(stored)?;
        self.count += 1;
        self.record_bytes += (self.head.len() + stored.len()) as u64;
        Ok(BlobReference {
            file: self.number,
            offset,
            bytes: stored.len() as u64,
            compression,
        })
    }

    /// Writes the footer, and syncs and closes the file.
    ///
    /// # Errors
    /// If the system fails.
    pub fn finish(mut self) -> Result<FinishedBlobFile> {
        let footer = BlobFooter { count: self.count }.encode();
        self.file.append(&footer)?;
        self.file.sync_all()?;
        self.file.close()?;
        Ok(FinishedBlobFile {
            number: self.number,
            count: self.count,
            record_bytes: self.record_bytes,
        })
    }
}
