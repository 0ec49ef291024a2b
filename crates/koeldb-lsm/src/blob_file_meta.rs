//! The metadata of a blob file: its record in the MANIFEST, and its reader.

use std::sync::{Arc, OnceLock, Weak};

use koeldb_base::Result;
use koeldb_base::file_name::FileNumber;
use koeldb_table::blob::BlobFile;
use koeldb_table::blob::format::{FOOTER_BYTES, HEADER_BYTES};

use crate::file_meta::DropHook;

/// The metadata of a blob file: its MANIFEST fields and its garbage totals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobFileMeta {
    /// The number in the name of the blob file.
    pub number: FileNumber,
    /// The number of blobs.
    pub count: u64,
    /// The size of all blobs.
    pub bytes: u64,
    /// The name of the checksum function, empty for none.
    pub checksum_name: Vec<u8>,
    /// The checksum of the whole blob file.
    pub checksum: Vec<u8>,
    /// The number of unreferenced blobs.
    pub garbage_count: u64,
    /// The size of the unreferenced blobs.
    pub garbage_bytes: u64,
    /// The open file, shared by the versions that have it.
    pub reader: SharedReader,
}

impl BlobFileMeta {
    /// The length of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.bytes.saturating_add(HEADER_BYTES + FOOTER_BYTES)
    }

    /// Returns a file of `count` records of `record_bytes` bytes, `garbage` of them garbage.
    #[cfg(test)]
    pub(crate) fn of_equal_records(
        number: FileNumber,
        count: u64,
        garbage: u64,
        record_bytes: u64,
    ) -> Self {
        BlobFileMeta {
            number,
            count,
            bytes: count * record_bytes,
            checksum_name: Vec::new(),
            checksum: Vec::new(),
            garbage_count: garbage,
            garbage_bytes: garbage * record_bytes,
            reader: Default::default(),
        }
    }
}

/// The reader of a blob file, opened on first use.
#[derive(Clone, Debug, Default)]
pub struct SharedReader(Arc<Reader>);

#[derive(Debug, Default)]
struct Reader {
    file: OnceLock<BlobFile>,
    drop_hook: DropHook,
}

impl PartialEq for SharedReader {
    /// Open or not, it is the same file.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SharedReader {}

/// A weak reference to the reader of a blob file, which tells whether a version has the file.
#[derive(Clone, Debug)]
pub struct WeakReader(Weak<Reader>);

impl WeakReader {
    /// Returns the reader if a version has the file.
    #[must_use]
    pub fn upgrade(&self) -> Option<SharedReader> {
        self.0.upgrade().map(SharedReader)
    }
}

impl SharedReader {
    /// The hook for the moment when no version has the file any more.
    #[must_use]
    pub fn drop_hook(&self) -> &DropHook {
        &self.0.drop_hook
    }

    /// Returns a weak reference to the reader.
    #[must_use]
    pub fn downgrade(&self) -> WeakReader {
        WeakReader(Arc::downgrade(&self.0))
    }

    /// Returns the reader, if the file is open.
    pub(crate) fn get(&self) -> Option<&BlobFile> {
        self.0.file.get()
    }

    /// Returns the reader; the first caller opens the file with `open`.
    ///
    /// # Errors
    /// Those of `open`.
    pub(crate) fn get_or_open(&self, open: impl FnOnce() -> Result<BlobFile>) -> Result<&BlobFile> {
        if let Some(reader) = self.0.file.get() {
            return Ok(reader);
        }
        let reader = open()?;
        Ok(self.0.file.get_or_init(|| reader))
    }
}
