//! The file system of a POSIX machine.
//!
//! Most calls are the standard library's; `rustix` adds advice, preallocation and free space, and `libc` the two
//! calls that neither has: open-file-description locks and range write-back.
//!
//! - New files are created exclusively and no link in the last component is followed; they get mode 0666 less the
//!   umask, directories 0700. Files that exist are opened without blocking and must be regular.
//! - A writable file that failed once stays failed: every later call returns the first error, so that no caller
//!   can take a second sync for a success.
//! - Direct I/O is for reads. Writes asked to be direct go through the page cache: the engine writes tables
//!   once and in large pieces, where the page cache costs little.
#![expect(
    clippy::disallowed_methods,
    reason = "this module is where the rest of the project reaches std::fs"
)]
#![expect(
    unsafe_code,
    reason = "two system calls have no safe wrapper, and a mapping is only as stable as its file"
)]

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koeldb_base::coding::to_usize;
use koeldb_base::error::ErrorDetail;
use koeldb_base::pinned::Region;
use koeldb_base::{Buffer, Error, ErrorKind, Result};

use crate::aligned::{AlignedBuffer, DIRECT_ALIGNMENT};
use crate::file::{
    AccessHint, DirEntry, EntryKind, FileLock, FileSystem, Metadata, OpenOptions, RandomAccessFile,
    WritableFile, WriteOptions,
};
use crate::write_buffer::WriteBuffer;

/// The machine's file system. A value without state: all are equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixFileSystem;

impl PosixFileSystem {
    /// The machine's file system.
    #[must_use]
    pub fn new() -> Self {
        PosixFileSystem
    }
}

impl FileSystem for PosixFileSystem {
    fn create(&self, path: &Path, options: &WriteOptions) -> Result<Box<dyn WritableFile>> {
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o666)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(|error| Error::io(error, "create", path))?;
        Ok(Box::new(PosixWritableFile::new(file, path, 0, options)))
    }

    fn append(&self, path: &Path, options: &WriteOptions) -> Result<Box<dyn WritableFile>> {
        let (file, metadata) = open_existing(path, libc::O_NOFOLLOW, true)?;
        let len = metadata.len();
        Ok(Box::new(PosixWritableFile::new(file, path, len, options)))
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn RandomAccessFile>> {
        if options.direct && options.mmap {
            return Err(Error::invalid_argument(
                "a file is opened direct or mapped, not both",
            ));
        }
        if options.direct {
            let (file, metadata) = open_existing(path, DIRECT_FLAG, false)?;
            set_uncached(&file).map_err(|error| Error::io(error, "open direct", path))?;
            return Ok(Arc::new(DirectFile {
                file,
                path: path.to_owned(),
                len: metadata.len(),
            }));
        }
        let (file, metadata) = open_existing(path, 0, false)?;
        if options.mmap {
            return Ok(Arc::new(MappedFile::new(&file, path, metadata.len())?));
        }
        advise(&file, options.hint);
        Ok(Arc::new(BufferedFile {
            file,
            path: path.to_owned(),
            len: metadata.len(),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|error| Error::io(error, "rename", from))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        fs::hard_link(from, to).map_err(|error| Error::io(error, "link", from))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|error| Error::io(error, "remove", path))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| Error::io(error, "create directory", path))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path).map_err(|error| Error::io(error, "remove directory", path))
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let failed = |error| Error::io(error, "list", path);
        let mut entries = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let kind = match entry.file_type() {
                Ok(file_type) => entry_kind(file_type),
                // Removed since it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            entries.push(DirEntry { name, kind });
        }
        Ok(entries)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let failed = |error| Error::io(error, "sync directory", path);
        let directory = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(path)
            .map_err(failed)?;
        directory.sync_all().map_err(failed)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(PosixLock::take(path)?))
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        let metadata = fs::metadata(path).map_err(|error| Error::io(error, "stat", path))?;
        Ok(Metadata {
            kind: entry_kind(metadata.file_type()),
            len: metadata.len(),
            identity: identity(&metadata),
            modified_unix_secs: u64::try_from(metadata.mtime()).unwrap_or(0),
        })
    }

    fn truncate(&self, path: &Path, len: u64) -> Result<()> {
        let (file, _) = open_existing(path, libc::O_NOFOLLOW, true)?;
        file.set_len(len)
            .map_err(|error| Error::io(error, "truncate", path))
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        let stat = rustix::fs::statvfs(path)
            .map_err(|error| Error::io(error.into(), "free space", path))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

fn entry_kind(file_type: fs::FileType) -> EntryKind {
    if file_type.is_file() {
        EntryKind::File
    } else if file_type.is_dir() {
        EntryKind::Directory
    } else {
        EntryKind::Other
    }
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Opens without waiting for the other end of a pipe, and refuses whatever is no regular file.
fn open_existing(path: &Path, flags: i32, write: bool) -> Result<(File, fs::Metadata)> {
    let failed = |error| Error::io(error, "open", path);
    let file = File::options()
        .read(!write)
        .write(write)
        .custom_flags(libc::O_NONBLOCK | flags)
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(
            Error::with_kind(ErrorKind::IoError, "not a regular file").in_file(path, None, "open")
        );
    }
    Ok((file, metadata))
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
const DIRECT_FLAG: i32 = libc::O_DIRECT;
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
const DIRECT_FLAG: i32 = 0;

#[cfg(target_vendor = "apple")]
fn set_uncached(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fcntl_nocache(file, true)?)
}

#[cfg(not(target_vendor = "apple"))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "the counterpart on other platforms fails"
)]
fn set_uncached(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Advice is advice: whether it was taken is not looked at.
#[cfg(not(target_vendor = "apple"))]
fn advise(file: &File, hint: AccessHint) {
    let advice = match hint {
        AccessHint::Normal => return,
        AccessHint::Random => rustix::fs::Advice::Random,
        AccessHint::Sequential => rustix::fs::Advice::Sequential,
    };
    let _ = rustix::fs::fadvise(file, 0, None, advice);
}

#[cfg(target_vendor = "apple")]
fn advise(_file: &File, _hint: AccessHint) {}

#[cfg(not(target_vendor = "apple"))]
fn will_need(file: &File, offset: u64, len: u64) {
    if let Some(len) = std::num::NonZeroU64::new(len) {
        let _ = rustix::fs::fadvise(file, offset, Some(len), rustix::fs::Advice::WillNeed);
    }
}

#[cfg(target_vendor = "apple")]
fn will_need(file: &File, offset: u64, len: u64) {
    let _ = rustix::fs::fcntl_rdadvise(file, offset, len);
}

/// Reads until the buffer is full or the file ends.
fn read_fully(file: &File, path: &Path, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let at = offset + done as u64;
        match file.read_at(&mut buffer[done..], at) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(Error::io(error, "read", path)
                    .context(format!("{} bytes at offset {offset}", buffer.len())));
            }
        }
    }
    Ok(done)
}

#[derive(Debug)]
struct BufferedFile {
    file: File,
    path: PathBuf,
    len: u64,
}

impl RandomAccessFile for BufferedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        read_fully(&self.file, &self.path, offset, buffer)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn prefetch(&self, offset: u64, len: u64) {
        will_need(&self.file, offset, len);
    }
}

/// Reads around the page cache. Requests that are not aligned are served through an aligned copy, so a caller
/// who does not care is right, and one who does is fast.
#[derive(Debug)]
struct DirectFile {
    file: File,
    path: PathBuf,
    len: u64,
}

impl DirectFile {
    fn read_aligned(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let read = read_once(&self.file, &self.path, at, &mut buffer[done..])?;
            done += read;
            // A read ends off the grid only at the end of the file.
            if read == 0 || !read.is_multiple_of(DIRECT_ALIGNMENT) {
                break;
            }
        }
        Ok(done)
    }
}

fn read_once(file: &File, path: &Path, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(read) => return Ok(read),
            Err(error) => {
                return Err(Error::io(error, "read", path)
                    .context(format!("{} bytes at offset {offset}", buffer.len())));
            }
        }
    }
}

impl RandomAccessFile for DirectFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let grid = DIRECT_ALIGNMENT as u64;
        if offset.is_multiple_of(grid)
            && buffer.len().is_multiple_of(DIRECT_ALIGNMENT)
            && buffer.as_ptr().addr().is_multiple_of(DIRECT_ALIGNMENT)
        {
            return self.read_aligned(offset, buffer);
        }
        let skip = to_usize(offset % grid);
        let mut aligned = AlignedBuffer::new(skip + buffer.len(), DIRECT_ALIGNMENT)?;
        let read = self.read_aligned(offset - offset % grid, &mut aligned)?;
        let there = read.saturating_sub(skip).min(buffer.len());
        buffer[..there].copy_from_slice(&aligned[skip..skip + there]);
        Ok(there)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn alignment(&self) -> usize {
        DIRECT_ALIGNMENT
    }
}

/// A file's bytes where the kernel put them.
struct Mapping {
    map: memmap2::Mmap,
}

impl Region for Mapping {
    fn bytes(&self, start: u64, len: u32) -> &[u8] {
        let start = to_usize(start);
        &self.map[start..start + len as usize]
    }
}

#[derive(Debug)]
struct MappedFile {
    map: Arc<Mapping>,
    buffer: Arc<Buffer>,
    path: PathBuf,
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mapping({} bytes)", self.map.len())
    }
}

/// The mapping is shared by the file, for reads and advice, and the buffer that values are pinned in.
struct SharedMapping(Arc<Mapping>);

impl Region for SharedMapping {
    fn bytes(&self, start: u64, len: u32) -> &[u8] {
        self.0.bytes(start, len)
    }
}

impl MappedFile {
    fn new(file: &File, path: &Path, len: u64) -> Result<Self> {
        let mut options = memmap2::MmapOptions::new();
        options.len(to_usize(len));
        // SAFETY: the engine maps only files that are complete and never written again, under its lock on the
        // directory. Somebody else who cuts such a file off kills the process with SIGBUS, as with every user of
        // mapped files; `OpenOptions::mmap` is off unless asked for.
        let map = unsafe { options.map(file) }.map_err(|error| Error::io(error, "map", path))?;
        // With huge pages a random lookup needs one entry of the TLB. `Advice::Random` is never given: it makes
        // filling the mapping slower by an order of magnitude, for it reads page by page.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let map = Arc::new(Mapping { map });
        Ok(MappedFile {
            buffer: Arc::new(Buffer::from_region(SharedMapping(Arc::clone(&map)))),
            map,
            path: path.to_owned(),
        })
    }
}

impl RandomAccessFile for MappedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let bytes = &self.map.map[..];
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| bytes.get(offset..))
            .unwrap_or(&[]);
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.map.map.len() as u64
    }

    fn mapped(&self) -> Option<&Arc<Buffer>> {
        Some(&self.buffer)
    }

    fn prefetch(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len());
        if offset < end {
            let _ = self.map.map.advise_range(
                memmap2::Advice::WillNeed,
                to_usize(offset),
                to_usize(end - offset),
            );
        }
    }
}

/// A file written at its end, through a buffer of its own.
#[derive(Debug)]
struct PosixWritableFile {
    buffer: WriteBuffer,
    sink: Sink,
    closed: bool,
    /// A forked child inherits the buffer but must not write it.
    process: u32,
}

/// The far side of the buffer.
#[derive(Debug)]
struct Sink {
    file: File,
    path: PathBuf,
    /// Length of what the operating system has.
    written: u64,
    /// How far write-back was asked for.
    hinted: u64,
    bytes_per_sync: u64,
    /// How far space was set aside, and in what steps; step 0 for never.
    preallocated: u64,
    preallocate_bytes: u64,
    /// The first failure, which is the answer to everything after it.
    failure: Option<Error>,
}

impl Sink {
    fn check(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    fn fail(&mut self, error: io::Error, operation: &'static str) -> Error {
        let error = Error::io(error, operation, &self.path);
        self.failure = Some(error.clone());
        error
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let end = self.written + bytes.len() as u64;
        self.preallocate(end);
        if let Err(error) = self.file.write_all_at(bytes, self.written) {
            return Err(self.fail(error, "write"));
        }
        self.written = end;
        self.hint_write_back();
        Ok(())
    }

    /// Sets space aside in whole steps. That it fails is no error: the write will say what is wrong.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn preallocate(&mut self, end: u64) {
        if self.preallocate_bytes == 0 || end <= self.preallocated {
            return;
        }
        let Some(until) = end.checked_next_multiple_of(self.preallocate_bytes) else {
            return;
        };
        let _ = rustix::fs::fallocate(
            &self.file,
            rustix::fs::FallocateFlags::KEEP_SIZE,
            self.preallocated,
            until - self.preallocated,
        );
        self.preallocated = until;
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn preallocate(&mut self, end: u64) {
        self.preallocated = end;
    }

    /// Gives back what was set aside and not used.
    fn trim(&self) -> io::Result<()> {
        if self.preallocated <= self.written {
            return Ok(());
        }
        self.file.set_len(self.written)?;
        // Some file systems keep the space when the length stays as it is.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let metadata = self.file.metadata()?;
            let allocated = metadata.blocks().saturating_mul(512);
            let needed = self
                .written
                .checked_next_multiple_of(metadata.blksize().max(1));
            if needed.is_some_and(|needed| allocated > needed) {
                let _ = rustix::fs::fallocate(
                    &self.file,
                    rustix::fs::FallocateFlags::KEEP_SIZE | rustix::fs::FallocateFlags::PUNCH_HOLE,
                    self.written,
                    self.preallocated - self.written,
                );
            }
        }
        Ok(())
    }

    /// Starts write-back of what was written since it was last asked for. Never waits, never counts as a sync.
    fn hint_write_back(&mut self) {
        if self.bytes_per_sync == 0 || self.written - self.hinted < self.bytes_per_sync {
            return;
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let (Ok(offset), Ok(len)) = (
            libc::off64_t::try_from(self.hinted),
            libc::off64_t::try_from(self.written - self.hinted),
        ) {
            // SAFETY: a system call on a descriptor that `self` owns; it touches no memory.
            let _ = unsafe {
                libc::sync_file_range(
                    self.file.as_raw_fd(),
                    offset,
                    len,
                    libc::SYNC_FILE_RANGE_WRITE,
                )
            };
        }
        self.hinted = self.written;
    }

    fn sync(&mut self, all: bool) -> Result<()> {
        let result = if all {
            self.file.sync_all()
        } else {
            self.file.sync_data()
        };
        result.map_err(|error| self.fail(error, "sync"))
    }
}

impl PosixWritableFile {
    fn new(file: File, path: &Path, len: u64, options: &WriteOptions) -> Self {
        PosixWritableFile {
            buffer: WriteBuffer::new(options.buffer_bytes),
            sink: Sink {
                file,
                path: path.to_owned(),
                written: len,
                hinted: len,
                bytes_per_sync: options.bytes_per_sync,
                preallocated: len,
                preallocate_bytes: options.preallocate_bytes,
                failure: None,
            },
            closed: false,
            process: std::process::id(),
        }
    }
}

impl WritableFile for PosixWritableFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.check()?;
        self.buffer.append(bytes, |bytes| self.sink.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        self.sink.check()?;
        self.buffer.flush(|bytes| self.sink.write(bytes))
    }

    fn sync_data(&mut self) -> Result<()> {
        self.flush()?;
        self.sink.sync(false)
    }

    fn sync_all(&mut self) -> Result<()> {
        self.flush()?;
        self.sink.sync(true)
    }

    fn len(&self) -> u64 {
        self.sink.written + self.buffer.len()
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.closed = true;
        let flushed = self.flush();
        let trimmed = self.sink.trim();
        flushed?;
        trimmed.map_err(|error| self.sink.fail(error, "close"))
    }
}

impl Drop for PosixWritableFile {
    fn drop(&mut self) {
        if !self.closed && self.process == std::process::id() {
            let _ = self.flush();
            let _ = self.sink.trim();
        }
    }
}

/// The files this process holds locks on, by device and inode. Record locks do not exclude their own process.
static LOCKED: Mutex<Option<HashSet<(u64, u64)>>> = Mutex::new(None);

fn locked_files() -> MutexGuard<'static, Option<HashSet<(u64, u64)>>> {
    // Nothing panics while it is held, and a set is never half changed.
    LOCKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A record lock over a whole file, or an advisory lock on a directory.
#[derive(Debug)]
struct PosixLock {
    file: File,
    identity: (u64, u64),
    is_directory: bool,
    process: u32,
}

impl FileLock for PosixLock {}

impl PosixLock {
    fn take(path: &Path) -> Result<Self> {
        let failed = |error| Error::io(error, "lock", path);
        let mut locked = locked_files();
        let locked = locked.get_or_insert_default();
        // Looked at before the file is opened: closing it again would end a lock of this process where locks
        // belong to processes.
        let before = match fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if before.is_some_and(|metadata| locked.contains(&identity(&metadata))) {
            return Err(held(path, "by this process"));
        }
        let is_directory = fs::metadata(path).is_ok_and(|metadata| metadata.is_dir());
        let file = if is_directory {
            File::open(path)
        } else {
            File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o666)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
                .open(path)
        }
        .map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !is_directory && !metadata.is_file() {
            return Err(Error::with_kind(ErrorKind::IoError, "not a regular file")
                .in_file(path, None, "lock"));
        }
        let identity = identity(&metadata);
        if locked.contains(&identity) {
            return Err(held(path, "by this process"));
        }
        let result = if is_directory {
            rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
                .map_err(io::Error::from)
        } else {
            set_record_lock(&file, libc::F_WRLCK)
        };
        match result {
            Ok(()) => {}
            Err(error) if is_held(&error) => {
                return Err(held(path, &holder(&file)));
            }
            Err(error) => return Err(failed(error)),
        }
        locked.insert(identity);
        Ok(PosixLock {
            file,
            identity,
            is_directory,
            process: std::process::id(),
        })
    }
}

impl Drop for PosixLock {
    fn drop(&mut self) {
        // In a forked child the lock is the parent's; closing the descriptor leaves it alone.
        if self.process != std::process::id() {
            return;
        }
        let mut locked = locked_files();
        // Said aloud, because a forked child's copy of the descriptor would keep the lock alive.
        if self.is_directory {
            let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
        } else {
            let _ = set_record_lock(&self.file, libc::F_UNLCK);
        }
        if let Some(locked) = locked.as_mut() {
            locked.remove(&self.identity);
        }
    }
}

fn held(path: &Path, by: &str) -> Error {
    Error::with_kind(ErrorKind::IoError, format!("the lock is held {by}"))
        .with_detail(ErrorDetail::LockHeld)
        .in_file(path, None, "lock")
}

fn is_held(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(code) if code == libc::EAGAIN || code == libc::EACCES)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const SET_LOCK: i32 = libc::F_OFD_SETLK;
#[cfg(any(target_os = "linux", target_os = "android"))]
const GET_LOCK: i32 = libc::F_OFD_GETLK;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SET_LOCK: i32 = libc::F_SETLK;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const GET_LOCK: i32 = libc::F_GETLK;

/// A request for the whole file. All bits zero is right for what is not named; for open-file-description locks
/// the process must be 0.
fn whole_file(kind: i32) -> libc::flock {
    // SAFETY: `flock` is a C struct of integers, for which all bits zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kinds and SEEK_SET are small numbers, kept in an int by libc"
    )]
    {
        lock.l_type = kind as libc::c_short;
        lock.l_whence = libc::SEEK_SET as libc::c_short;
    }
    lock
}

fn set_record_lock(file: &File, kind: i32) -> io::Result<()> {
    let lock = whole_file(kind);
    // SAFETY: the descriptor is open, and the command reads one `flock` through the pointer.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), SET_LOCK, &raw const lock) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Who holds the lock, as far as the system tells: open-file-description locks have no process.
fn holder(file: &File) -> String {
    let mut lock = whole_file(libc::F_WRLCK);
    // SAFETY: the descriptor is open, and the command writes one `flock` through the pointer.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), GET_LOCK, &raw mut lock) };
    if result != -1 && i32::from(lock.l_type) != libc::F_UNLCK && lock.l_pid > 0 {
        format!("by process {}", lock.l_pid)
    } else {
        "by another process".to_owned()
    }
}
