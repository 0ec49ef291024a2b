//! Whole-file checksums of tables and blob files, which the MANIFEST can record.
//!
//! They are CRC-32C, big-endian, as in RocksDB's `FileChecksumGenCrc32cFactory`. Checksums of other
//! functions are kept but not verified.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use koeldb_base::checksum::crc32c_extend;
use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Result};
use koeldb_fs::{RandomAccessFile, WritableFile};
use koeldb_table::file_read::read_bytes;

use crate::blob_file_meta::BlobFileMeta;
use crate::file_meta::FileMeta;

/// The name of the checksum function, as in the MANIFEST.
pub const NAME: &str = "FileChecksumCrc32c";

/// The size of one read.
const PIECE_BYTES: u64 = 1 << 20;

/// A writable file that computes the CRC-32C of all appended bytes for the MANIFEST.
#[derive(Debug)]
pub(crate) struct SummedFile {
    file: Box<dyn WritableFile>,
    sum: Arc<AtomicU32>,
}

impl SummedFile {
    /// Wraps an empty file; also returns its checksum, which is updated by every append.
    pub(crate) fn new(file: Box<dyn WritableFile>) -> (Self, Arc<AtomicU32>) {
        let sum = Arc::new(AtomicU32::new(0));
        let own = Arc::clone(&sum);
        (SummedFile { file, sum: own }, sum)
    }
}

impl WritableFile for SummedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        let sum = crc32c_extend(self.sum.load(Ordering::Relaxed), bytes);
        self.sum.store(sum, Ordering::Relaxed);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }

    fn sync_data(&mut self) -> Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&mut self) -> Result<()> {
        self.file.sync_all()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.file.close()
    }
}

/// Encodes a checksum in big-endian order, as it is stored in the MANIFEST.
fn stored(sum: u32) -> [u8; 4] {
    sum.swap_bytes().to_le_bytes()
}

/// Stores the file checksum of a written table in its metadata.
pub(crate) fn record(meta: &mut FileMeta, sum: &AtomicU32) {
    set(meta, sum.load(Ordering::Relaxed));
}

/// Stores the file checksum of a written blob file in its metadata.
pub(crate) fn record_blob(meta: &mut BlobFileMeta, sum: &AtomicU32) {
    meta.checksum_name = NAME.as_bytes().to_vec();
    meta.checksum = stored(sum.load(Ordering::Relaxed)).to_vec();
}

/// Stores `crc32c` as the file checksum in the metadata of a table.
pub fn set(meta: &mut FileMeta, crc32c: u32) {
    meta.checksum_name = NAME.as_bytes().to_vec();
    meta.checksum = stored(crc32c).to_vec();
}

/// A recorded checksum of a whole file.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// The length of the file.
    bytes: u64,
    /// The name of the function; empty for none.
    name: &'a [u8],
    checksum: &'a [u8],
}

impl<'a> From<&'a FileMeta> for Recorded<'a> {
    fn from(file: &'a FileMeta) -> Self {
        Recorded {
            bytes: file.bytes,
            name: &file.checksum_name,
            checksum: &file.checksum,
        }
    }
}

impl<'a> From<&'a BlobFileMeta> for Recorded<'a> {
    fn from(file: &'a BlobFileMeta) -> Self {
        Recorded {
            bytes: file.file_bytes(),
            name: &file.checksum_name,
            checksum: &file.checksum,
        }
    }
}

/// Returns the CRC-32C in the metadata of a table or a blob file; `None` without one.
#[must_use]
pub fn recorded<'a>(meta: impl Into<Recorded<'a>>) -> Option<u32> {
    let meta = meta.into();
    let bytes = <[u8; 4]>::try_from(meta.checksum).ok()?;
    (meta.name == NAME.as_bytes()).then(|| u32::from_le_bytes(bytes).swap_bytes())
}

/// Verifies a file against its recorded checksum (RocksDB: `VerifyFullFileChecksum`).
///
/// Returns `false` if none is recorded, or one of another function. `progress` receives the size of
/// each piece.
///
/// # Errors
/// `Corruption` if they differ or the file has another length; otherwise the errors of the system.
pub fn compare<'a>(
    file: &dyn RandomAccessFile,
    meta: impl Into<Recorded<'a>>,
    progress: &mut dyn FnMut(u64),
) -> Result<bool> {
    let meta = meta.into();
    if meta.name != NAME.as_bytes() {
        return Ok(false);
    }
    let named = |error: Error| error.in_file(file.path(), None, "verify");
    if file.len() != meta.bytes {
        return Err(named(Error::corruption(format!(
            "the file has {} bytes, but {} are recorded",
            file.len(),
            meta.bytes
        ))));
    }
    let (mut at, mut sum) = (0, 0);
    while at < meta.bytes {
        let len = PIECE_BYTES.min(meta.bytes - at);
        sum = crc32c_extend(sum, &read_bytes(file, at, to_usize(len)).map_err(named)?);
        at += len;
        progress(len);
    }
    if meta.checksum == stored(sum) {
        return Ok(true);
    }
    let computed = stored(sum);
    Err(named(Error::corruption(format!(
        "file checksum mismatch: stored = {:02x?}, computed = {computed:02x?}",
        meta.checksum
    ))))
}
