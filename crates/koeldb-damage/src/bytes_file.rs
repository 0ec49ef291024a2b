//! In-memory files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use koeldb_base::Result;
use koeldb_fs::{FileSystem, MemoryFileSystem, Purpose, RandomAccessFile, WriteOptions};

/// A read-only file of bytes in memory, which lists the first 10,000 reads of it.
pub struct BytesFile {
    path: PathBuf,
    bytes: Vec<u8>,
    reads: Mutex<Vec<(u64, usize)>>,
}

impl BytesFile {
    /// Creates a file with these bytes.
    #[must_use]
    pub fn new(path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) -> Arc<Self> {
        Arc::new(BytesFile {
            path: path.as_ref().to_owned(),
            bytes: bytes.into(),
            reads: Mutex::default(),
        })
    }

    /// The offsets and lengths of the reads so far, at most the first 10,000.
    #[must_use]
    pub fn reads(&self) -> Vec<(u64, usize)> {
        let reads = self.reads.lock();
        reads.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for BytesFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.bytes.len(), self.path.display())
    }
}

impl RandomAccessFile for BytesFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        if reads.len() < 10_000 {
            reads.push((offset, buffer.len()));
        }
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.bytes.get(from..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Writes a file of an in-memory file system, replacing an existing one.
///
/// # Errors
/// If the path's directory does not exist.
pub fn put_file(fs: &MemoryFileSystem, path: &Path, bytes: &[u8]) -> Result<()> {
    if fs.exists(path)? {
        fs.remove_file(path)?;
    }
    let mut file = fs.create(path, &WriteOptions::new(Purpose::Open))?;
    file.append(bytes)?;
    file.sync_all()?;
    file.close()
}
