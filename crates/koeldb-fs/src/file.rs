//! The traits all storage goes through.
//!
//! Operations carry a [`Purpose`], so that faults can be aimed and I/O can be accounted. Errors are
//! [`Error::io`] with path and operation; bytes that should be there and are not are an I/O error, never an
//! early end of file.

use std::fmt;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use koeldb_base::{Buffer, Error, ErrorKind, Result};

use crate::read_driver::ReadBackend;

/// On whose behalf an operation is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Purpose {
    /// A user's read.
    #[default]
    Read,
    /// The write-ahead log.
    Wal,
    /// A memtable's flush.
    Flush,
    /// A compaction.
    Compaction,
    /// MANIFEST, CURRENT, OPTIONS, IDENTITY.
    Manifest,
    /// Opening a database.
    Open,
    /// Removing files nobody needs.
    Purge,
    /// The information log and everything else.
    Other,
}

/// How a file is opened for reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// On whose behalf.
    pub purpose: Purpose,
    /// Bypass the page cache. Reads whose offset, length and buffer are multiples of
    /// [`RandomAccessFile::alignment`] are then free of copies; others are served through one.
    pub direct: bool,
    /// Map the whole file into memory; [`RandomAccessFile::mapped`] is then there.
    pub mmap: bool,
    /// What to tell the operating system about the reads to come.
    pub hint: AccessHint,
}

/// The order in which a file will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AccessHint {
    /// Say nothing.
    #[default]
    Normal,
    /// Here and there.
    Random,
    /// From front to back.
    Sequential,
}

/// The pages of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappedPages {
    /// 4 KiB.
    Small,
    /// 2 MiB, as far as the page cache has the file in pieces of that size.
    Huge,
}

/// How a file is created or reopened for writing.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// On whose behalf.
    pub purpose: Purpose,
    /// Bytes collected before they are handed to the operating system; 0 hands over every append.
    pub buffer_bytes: usize,
    /// Bypass the page cache, where the file system can; `PosixFileSystem` writes through it.
    pub direct: bool,
    /// Bytes to preallocate, without changing the length; 0 for none.
    pub preallocate_bytes: u64,
    /// Ask for write-back whenever so many bytes were written; 0 never. Never counts as a sync.
    pub bytes_per_sync: u64,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions {
            purpose: Purpose::Other,
            buffer_bytes: 64 << 10,
            direct: false,
            preallocate_bytes: 0,
            bytes_per_sync: 0,
        }
    }
}

impl WriteOptions {
    /// The defaults for `purpose`.
    #[must_use]
    pub fn new(purpose: Purpose) -> Self {
        WriteOptions {
            purpose,
            ..Self::default()
        }
    }
}

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else: links, devices, pipes.
    Other,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name; entries whose names are not Unicode are left out of listings, for none of them is ours.
    pub name: String,
    /// What it is, links not followed.
    pub kind: EntryKind,
}

/// What is known of a path, links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: EntryKind,
    /// Its length in bytes.
    pub len: u64,
    /// Device and inode, or what stands for them: equal exactly for the same file.
    pub identity: (u64, u64),
    /// Last modification, in seconds since 1970.
    pub modified_unix_secs: u64,
}

/// A lock held as long as the value lives.
pub trait FileLock: Send + Sync + fmt::Debug {}

/// A file system. All paths are the caller's; nothing is resolved against a root.
pub trait FileSystem: Send + Sync + fmt::Debug + 'static {
    /// Creates a file that must not exist, for writing at its end.
    ///
    /// # Errors
    /// If it exists, or the system fails.
    fn create(&self, path: &Path, options: &WriteOptions) -> Result<Box<dyn WritableFile>>;

    /// Opens an existing file for writing at its end.
    ///
    /// # Errors
    /// If it does not exist, or the system fails.
    fn append(&self, path: &Path, options: &WriteOptions) -> Result<Box<dyn WritableFile>>;

    /// Opens an existing regular file for positional reads.
    ///
    /// # Errors
    /// If it does not exist, is no regular file, or the system fails.
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn RandomAccessFile>>;

    /// Replaces `to` by `from` in one step.
    ///
    /// # Errors
    /// If the system fails.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives the file `from` a second name.
    ///
    /// # Errors
    /// If `to` exists, the names are on different devices, or the system fails.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file's name. Open files stay readable.
    ///
    /// # Errors
    /// If it does not exist, or the system fails.
    fn remove_file(&self, path: &Path) -> Result<()>;

    /// Makes a directory (mode 0700) and those above it that are missing. An existing one is fine.
    ///
    /// # Errors
    /// If something else has the name, or the system fails.
    fn create_dir_all(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// If it is not empty, or the system fails.
    fn remove_dir(&self, path: &Path) -> Result<()>;

    /// Lists a directory in no particular order.
    ///
    /// # Errors
    /// If it does not exist, or the system fails.
    fn list(&self, path: &Path) -> Result<Vec<DirEntry>>;

    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// If the system fails.
    fn sync_dir(&self, path: &Path) -> Result<()>;

    /// Locks a file, created if missing, against every other process, RocksDB included, and every other lock
    /// taken in this one.
    ///
    /// # Errors
    /// `IoError` with detail `LockHeld` if somebody holds it.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;

    /// What is known of a path.
    ///
    /// # Errors
    /// With detail `PathNotFound` if it does not exist.
    fn metadata(&self, path: &Path) -> Result<Metadata>;

    /// Cuts or extends a file to `len` bytes.
    ///
    /// # Errors
    /// If the system fails.
    fn truncate(&self, path: &Path, len: u64) -> Result<()>;

    /// Bytes free for use on the device of `path`.
    ///
    /// # Errors
    /// If the system fails.
    fn free_space(&self, path: &Path) -> Result<u64>;

    /// How many reads are carried out at once, if the file system has means of its own: a remote store, a simulation.
    fn read_backend(&self) -> Option<Arc<dyn ReadBackend>> {
        None
    }

    /// Whether the path exists.
    ///
    /// # Errors
    /// If the system cannot tell.
    fn exists(&self, path: &Path) -> Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.is_path_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads a whole file of at most `max_bytes` bytes.
    ///
    /// # Errors
    /// `Corruption` if it is longer; otherwise as `open` and `read_exact_at`.
    fn read_all(&self, path: &Path, max_bytes: u64, purpose: Purpose) -> Result<Vec<u8>> {
        let file = self.open(
            path,
            &OpenOptions {
                purpose,
                ..OpenOptions::default()
            },
        )?;
        let len = file.len();
        if len > max_bytes {
            return Err(Error::corruption(format!(
                "file of {len} bytes where at most {max_bytes} are expected"
            ))
            .in_file(path, None, "read"));
        }
        let mut bytes = vec![0; koeldb_base::coding::to_usize(len)];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }
}

/// A file being written at its end, by one owner.
pub trait WritableFile: Send + fmt::Debug {
    /// Appends bytes, through the file's buffer.
    ///
    /// # Errors
    /// If the system fails; how much was written is then unknown.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Hands everything appended to the operating system.
    ///
    /// # Errors
    /// If the system fails.
    fn flush(&mut self) -> Result<()>;

    /// Flushes, and makes content and length durable.
    ///
    /// # Errors
    /// If the system fails; the file must not be synced again then.
    fn sync_data(&mut self) -> Result<()>;

    /// Flushes, and makes content and all metadata durable.
    ///
    /// # Errors
    /// As [`WritableFile::sync_data`].
    fn sync_all(&mut self) -> Result<()>;

    /// Bytes appended so far, those already in a reopened file included.
    fn len(&self) -> u64;

    /// Whether nothing was appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Flushes and closes; drops preallocated space.
    ///
    /// # Errors
    /// If the system fails. Dropping a file flushes and closes it too, without a report; in a forked child it only
    /// closes.
    fn close(self: Box<Self>) -> Result<()>;
}

/// A file for positional reads, shared by threads.
pub trait RandomAccessFile: Send + Sync + fmt::Debug {
    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file. Interrupted and short
    /// reads are continued inside.
    ///
    /// # Errors
    /// If the system fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// The path it was opened under.
    fn path(&self) -> &Path;

    /// Its length in bytes when it was opened.
    fn len(&self) -> u64;

    /// Whether it was empty when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole file as pinnable memory: position 0 of the buffer is offset 0. Only with
    /// [`OpenOptions::mmap`].
    fn mapped(&self) -> Option<&Arc<Buffer>> {
        None
    }

    /// Asks for pages of this size for what of the mapping was not read yet, and with huge ones reads all of it in now, so
    /// that a look-up meets neither the disk nor a small page. Does nothing without a mapping, or where the system has no
    /// such pages.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn arrange_mapping(&self, pages: MappedPages) -> Result<()> {
        let _ = pages;
        Ok(())
    }

    /// What offsets, lengths and buffers are best multiples of; 1 unless opened direct.
    fn alignment(&self) -> usize {
        1
    }

    /// The descriptor that [`RandomAccessFile::read_at`] reads, if it does nothing but that. Open as long as the file
    /// is there.
    #[cfg(unix)]
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Tells the operating system that `len` bytes at `offset` will be read soon.
    fn prefetch(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Reads exactly `buffer.len()` bytes at `offset`.
    ///
    /// # Errors
    /// `Corruption` if the file ends before; otherwise as [`RandomAccessFile::read_at`].
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.read_at(offset, buffer)?;
        if read == buffer.len() {
            return Ok(());
        }
        Err(Error::with_kind(
            ErrorKind::Corruption,
            format!(
                "{} bytes expected and {read} found: the file is cut off",
                buffer.len()
            ),
        )
        .in_file(self.path(), Some(offset), "read"))
    }
}
