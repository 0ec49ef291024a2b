//! The traits of all storage access.
//!
//! Operations carry a [`Purpose`], so that faults can target them and I/O can be accounted for.
//! Errors are [`Error::io`] with path and operation; missing bytes are an I/O error, never an early
//! end of file.

use std::fmt;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::error::ErrorDetail;
use koeldb_base::{Buffer, Error, ErrorKind, Result};

use crate::read_driver::ReadBackend;

/// The purpose of a file operation (RocksDB: `Env::IOActivity`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Purpose {
    /// A read requested by a user.
    #[default]
    Read,
    /// Reads and writes of the write-ahead log.
    Wal,
    /// The flush of a memtable.
    Flush,
    /// A compaction.
    Compaction,
    /// MANIFEST, CURRENT, OPTIONS, IDENTITY.
    Manifest,
    /// Opening a database.
    Open,
    /// Removal of obsolete files.
    Purge,
    /// A checkpoint or an exported column family.
    Checkpoint,
    /// A backup or its restoration.
    Backup,
    /// Ingestion of external tables.
    Ingest,
    /// The information log and everything else.
    Other,
}

/// Options for opening a file for reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// The purpose of the reads.
    pub purpose: Purpose,
    /// Bypass the page cache. Reads whose offset, length and buffer are multiples of
    /// [`RandomAccessFile::alignment`] then avoid a copy; others go through an aligned buffer.
    pub direct: bool,
    /// Map the whole file into memory and provide [`RandomAccessFile::mapped`].
    pub mmap: bool,
    /// The access pattern to advise the operating system of.
    pub hint: AccessHint,
    /// The temperature of the data as RocksDB numbers it, for file systems with several tiers of
    /// storage: 0 unknown, 4 hot, 8 warm, 10 cool, 12 cold, 16 ice. Those of this crate ignore it.
    pub temperature: u8,
}

/// The order in which a file will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AccessHint {
    /// No advice.
    #[default]
    Normal,
    /// Random access.
    Random,
    /// Sequential access.
    Sequential,
}

/// The page size of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappedPages {
    /// Pages of 4 KiB.
    Small,
    /// Pages of 2 MiB, where the page cache holds the file in units of that size.
    Huge,
}

/// Options for creating or reopening a file for writing.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// The purpose of the writes.
    pub purpose: Purpose,
    /// Bytes buffered before they are passed to the operating system; 0 passes on every append.
    pub buffer_bytes: usize,
    /// Bypass the page cache. An incomplete last page leaves the buffer with a sync or at the end.
    pub direct: bool,
    /// Preallocates space in steps of this many bytes, without changing the length; 0 for never.
    ///
    /// The first step is at creation; `close` releases what is unused.
    pub preallocate_bytes: u64,
    /// Starts write-back after every this many bytes written; 0 for never. It is not a sync.
    pub bytes_per_sync: u64,
    /// Before it starts write-back, waits for the one started before: bounds dirty pages.
    pub strict_bytes_per_sync: bool,
    /// Makes [`WritableFile::sync_data`] sync all metadata too.
    pub full_sync: bool,
    /// The temperature of the data, as in [`OpenOptions::temperature`].
    pub temperature: u8,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions {
            purpose: Purpose::Other,
            buffer_bytes: 64 << 10,
            direct: false,
            preallocate_bytes: 0,
            bytes_per_sync: 0,
            strict_bytes_per_sync: false,
            full_sync: false,
            temperature: 0,
        }
    }
}

impl WriteOptions {
    /// Creates the default options for `purpose`.
    #[must_use]
    pub fn new(purpose: Purpose) -> Self {
        WriteOptions {
            purpose,
            ..Self::default()
        }
    }
}

/// The type of a directory entry.
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
    /// The name of the entry. Listings omit entries whose names are not Unicode: no database file
    /// has such a name.
    pub name: String,
    /// The type of the entry, without following links.
    pub kind: EntryKind,
}

/// The least number of zeros that follow the last written byte of a reused file.
///
/// A record log recognizes its end by them, wherever it is: they fill the rest of a block that is too
/// short for a record, and the header of a record after it.
pub const REUSED_ZEROS: u64 = 24;

/// The zeros in a reused file end at a multiple of this: no header of a record is zeroed in part.
pub const REUSED_ZEROS_UNIT: u64 = 64;

/// Metadata of a path, following links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The type of the entry.
    pub kind: EntryKind,
    /// The length of the file in bytes.
    pub len: u64,
    /// Device and inode, or equivalents: equal exactly for the same file.
    pub identity: (u64, u64),
    /// Last modification, in seconds since 1970.
    pub modified_unix_secs: u64,
    /// The number of names of the file.
    pub links: u64,
}

/// A file lock, held until the value is dropped.
pub trait FileLock: Send + Sync + fmt::Debug {}

/// Creates the error for a lock on `path` that is held `by` somebody.
pub(crate) fn held(path: &Path, by: &str) -> Error {
    Error::with_kind(ErrorKind::IoError, format!("the lock is held {by}"))
        .with_detail(ErrorDetail::LockHeld)
        .in_file(path, None, "lock")
}

/// Creates the error for a lock on `path` that this process holds.
pub(crate) fn held_here(path: &Path) -> Error {
    held(path, "by this process")
        .with_advice("share the open handle among threads, or close it first")
}

/// A file system that the engine reads and writes (RocksDB: `FileSystem`).
///
/// Paths are used as given; nothing is resolved against a root.
pub trait FileSystem: Send + Sync + fmt::Debug + 'static {
    /// Creates a file, which must not exist, for appending.
    ///
    /// # Errors
    /// If it exists, or the system fails.
    fn create(&self, path: &Path, options: &WriteOptions) -> Result<Box<dyn WritableFile>>;

    /// Opens an existing file for appending.
    ///
    /// # Errors
    /// If it does not exist, or the system fails.
    fn append(&self, path: &Path, options: &WriteOptions) -> Result<Box<dyn WritableFile>>;

    /// Renames `from` to `to`, which must not exist, and opens it to be overwritten from the start.
    ///
    /// The former content stays until it is overwritten, so that neither its space nor its length is
    /// allocated again. As far as it reaches, zeros follow the bytes passed to the system so far: at
    /// least [`REUSED_ZEROS`], up to a multiple of [`REUSED_ZEROS_UNIT`]. `close` cuts the file to the
    /// bytes written. The default removes `from` and creates `to`.
    ///
    /// # Errors
    /// If `from` does not exist, `to` does, or the system fails.
    fn reuse(
        &self,
        from: &Path,
        to: &Path,
        options: &WriteOptions,
    ) -> Result<Box<dyn WritableFile>> {
        self.remove_file(from)?;
        self.create(to, options)
    }

    /// Opens an existing regular file for positional reads.
    ///
    /// # Errors
    /// If it does not exist, is no regular file, or the system fails.
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn RandomAccessFile>>;

    /// Renames `from` to `to`, replacing it atomically.
    ///
    /// # Errors
    /// If the system fails.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Renames the file or directory `from` to `to`, which must not exist.
    ///
    /// The default checks for `to` first, so that a concurrent creation may be replaced; the real
    /// file system does both in one step where it can.
    ///
    /// # Errors
    /// If `to` exists, or the system fails.
    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        if self.exists(to)? {
            let exists = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(Error::io(exists, "rename", to));
        }
        self.rename(from, to)
    }

    /// Creates a hard link `to` to the file `from`.
    ///
    /// # Errors
    /// If `to` exists, the names are on different devices, or the system fails.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;

    /// Unlinks a file. Open files stay readable.
    ///
    /// # Errors
    /// If it does not exist, or the system fails.
    fn remove_file(&self, path: &Path) -> Result<()>;

    /// Creates a directory (mode 0700) and its missing parents. It may exist already.
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

    /// Locks a file or a directory against all processes and all other locks of this process.
    ///
    /// A missing file is created. The lock of a file excludes RocksDB too. Where the system has no
    /// locks for directories, that of a directory excludes only this process.
    ///
    /// # Errors
    /// `IoError` with detail `LockHeld` if another holder has it.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;

    /// The metadata of a path.
    ///
    /// # Errors
    /// With detail `PathNotFound` if it does not exist.
    fn metadata(&self, path: &Path) -> Result<Metadata>;

    /// Truncates or extends a file to `len` bytes.
    ///
    /// # Errors
    /// If the system fails.
    fn truncate(&self, path: &Path, len: u64) -> Result<()>;

    /// Returns the path to keep for use after this call: an absolute one in the real file system.
    ///
    /// The real file system returns an absolute path: a relative one would name something else
    /// after the process changed its working directory. The default returns the path as it is.
    ///
    /// # Errors
    /// If the system cannot tell the working directory.
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_owned())
    }

    /// Returns the bytes that are free for use on the device of `path`.
    ///
    /// # Errors
    /// If the system fails.
    fn free_space(&self, path: &Path) -> Result<u64>;

    /// Returns the file system's own backend for parallel reads, such as a remote store's, if any.
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
    /// `Corruption` if it is longer; otherwise the errors of `open` and `read_exact_at`.
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
                "file has {len} bytes, at most {max_bytes} are allowed"
            ))
            .in_file(path, None, "read"));
        }
        let mut bytes = vec![0; koeldb_base::coding::to_usize(len)];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }
}

/// A handle that makes the content of a file durable while its owner appends to it.
pub trait FileSync: Send + Sync + fmt::Debug {
    /// Makes the first `len` bytes durable, which were flushed before the call; possibly more.
    ///
    /// # Errors
    /// If the system fails; the file must then not be synced again, by any handle.
    fn sync_data(&self, len: u64) -> Result<()>;
}

/// A file that is written by appending, with one owner (RocksDB: `FSWritableFile`).
pub trait WritableFile: Send + fmt::Debug {
    /// Appends bytes, through the file's buffer.
    ///
    /// # Errors
    /// If the system fails; how much was written is then unknown.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Passes all appended bytes to the operating system.
    ///
    /// # Errors
    /// If the system fails.
    fn flush(&mut self) -> Result<()>;

    /// Flushes, and makes content and length durable.
    ///
    /// # Errors
    /// If the system fails; the file must not be synced again after that.
    fn sync_data(&mut self) -> Result<()>;

    /// Flushes, and makes content and all metadata durable.
    ///
    /// # Errors
    /// See [`WritableFile::sync_data`].
    fn sync_all(&mut self) -> Result<()>;

    /// Returns a handle that syncs the file while this one appends; `None` if unsupported.
    ///
    /// The handle stays valid after this file is closed.
    ///
    /// # Errors
    /// If the system refuses a second descriptor.
    fn sync_handle(&self) -> Result<Option<Box<dyn FileSync>>> {
        Ok(None)
    }

    /// The length of the file, without the former content of a reused one.
    ///
    /// It is the bytes in a reopened file and those appended so far.
    fn len(&self) -> u64;

    /// Whether the file is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the former content of a reused file follows the bytes written.
    fn has_remains(&self) -> bool {
        false
    }

    /// Flushes, and cuts a reused file to the bytes written. Nothing may be appended after that.
    ///
    /// # Errors
    /// If the system fails.
    fn cut(&mut self) -> Result<()> {
        self.flush()
    }

    /// Flushes and closes the file; releases preallocated space.
    ///
    /// # Errors
    /// If the system fails. Dropping a file flushes and closes it too, without reporting errors; in
    /// a forked child it only closes.
    fn close(self: Box<Self>) -> Result<()>;
}

/// A file for positional reads, shared by threads (RocksDB: `FSRandomAccessFile`).
pub trait RandomAccessFile: Send + Sync + fmt::Debug {
    /// Reads up to `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    ///
    /// Interrupted and short reads are continued internally.
    ///
    /// # Errors
    /// If the system fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// The path under which the file was opened.
    fn path(&self) -> &Path;

    /// The length of the file in bytes at open.
    fn len(&self) -> u64;

    /// Whether the file was empty at open.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory mapping of the whole file, for pinned values; position 0 is offset 0.
    ///
    /// Present only with [`OpenOptions::mmap`].
    fn mapped(&self) -> Option<&Arc<Buffer>> {
        None
    }

    /// Requests pages of this size for the part of the memory mapping that was not read yet.
    ///
    /// Huge pages also read the whole part now, so that a lookup meets neither the disk nor a small
    /// page. Does nothing without a mapping, or where the system has no such pages.
    ///
    /// # Errors
    /// If the file cannot be read.
    fn arrange_mapping(&self, pages: MappedPages) -> Result<()> {
        let _ = pages;
        Ok(())
    }

    /// The preferred alignment of offsets, lengths and buffers; 1 unless opened direct.
    fn alignment(&self) -> usize {
        1
    }

    /// The file descriptor behind [`RandomAccessFile::read_at`], if that is a plain read of it.
    ///
    /// It stays open as long as the file object exists.
    #[cfg(unix)]
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Advises the operating system that `len` bytes at `offset` will be read soon.
    fn prefetch(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Reads exactly `buffer.len()` bytes at `offset`.
    ///
    /// # Errors
    /// `Corruption` if the file ends earlier; otherwise see [`RandomAccessFile::read_at`].
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.read_at(offset, buffer)?;
        if read == buffer.len() {
            return Ok(());
        }
        Err(Error::with_kind(
            ErrorKind::Corruption,
            format!(
                "file is truncated: expected {} bytes, found {read}",
                buffer.len()
            ),
        )
        .in_file(self.path(), Some(offset), "read"))
    }
}

/// Whether the error of [`FileSystem::link`] means that this file cannot be linked to that name.
///
/// A copy may succeed nevertheless: the two names are on different devices, the file has too many
/// links, or the file system permits or knows no links.
#[must_use]
pub fn is_link_refused(error: &Error) -> bool {
    #[cfg(unix)]
    let refusals = [
        libc::EXDEV,
        libc::EMLINK,
        libc::EPERM,
        libc::EOPNOTSUPP,
        libc::ENOSYS,
    ];
    #[cfg(not(unix))]
    let refusals: [i32; 0] = [];
    error
        .raw_os_error()
        .is_some_and(|number| refusals.contains(&number))
}
