//! Operations on paths: everything except open files and locks.
#![expect(
    clippy::disallowed_methods,
    reason = "this module is where the rest of the project reaches std::fs"
)]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::{Error, ErrorKind, Result};

use super::lock::PosixLock;
use super::reader::{DIRECT_FLAG, DirectFile, MappedFile, PlainFile};
use super::{direct_writer, writer};
use crate::file::{
    DirEntry, EntryKind, FileLock, FileSystem, Metadata, OpenOptions, RandomAccessFile,
    WritableFile, WriteOptions,
};

/// The machine's file system, without state of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixFileSystem;

impl PosixFileSystem {
    /// Creates a handle to the machine's file system.
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
            .custom_flags(libc::O_NOFOLLOW | if options.direct { DIRECT_FLAG } else { 0 })
            .open(path)
            .map_err(|error| Error::io(error, "create", path))?;
        if options.direct {
            return direct_writer::direct_writer(file, path, options);
        }
        Ok(writer::writer(file, path, 0, options))
    }

    fn append(&self, path: &Path, options: &WriteOptions) -> Result<Box<dyn WritableFile>> {
        let (file, metadata) = open_existing(path, libc::O_NOFOLLOW, true)?;
        Ok(writer::writer(file, path, metadata.len(), options))
    }

    fn reuse(
        &self,
        from: &Path,
        to: &Path,
        options: &WriteOptions,
    ) -> Result<Box<dyn WritableFile>> {
        if options.direct {
            // A direct writer cuts the file to its length with each sync.
            self.remove_file(from)?;
            return self.create(to, options);
        }
        let (file, metadata) = open_existing(from, libc::O_NOFOLLOW, true)?;
        self.rename_new(from, to)?;
        Ok(writer::rewriter(file, to, metadata.len(), options))
    }

    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn RandomAccessFile>> {
        if options.direct && options.mmap {
            return Err(Error::invalid_argument(
                "direct and mapped reads of one file exclude each other",
            ));
        }
        if options.direct {
            let (file, metadata) = open_existing(path, DIRECT_FLAG, false)?;
            return Ok(Arc::new(DirectFile::new(file, path, metadata.len())?));
        }
        let (file, metadata) = open_existing(path, 0, false)?;
        if options.mmap {
            return Ok(Arc::new(MappedFile::new(&file, path, metadata.len())?));
        }
        let hint = options.hint;
        Ok(Arc::new(PlainFile::new(file, path, metadata.len(), hint)))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|error| Error::io(error, "rename", from))
    }

    #[cfg(target_os = "linux")]
    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // The file system or the kernel has no such call.
            Err(Errno::INVAL | Errno::NOSYS) if !self.exists(to)? => self.rename(from, to),
            Err(error) => Err(Error::io(error.into(), "rename", to)),
            Ok(()) => Ok(()),
        }
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
                // The entry was removed after it was listed.
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
        let _timer = perf::timer(PerfMetric::FsyncNanos);
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
            links: metadata.nlink(),
        })
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        // Some calls take an empty path for the working directory; most refuse it.
        if path.as_os_str().is_empty() {
            return Ok(PathBuf::new());
        }
        std::path::absolute(path).map_err(|error| Error::io(error, "resolve", path))
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

/// Converts a file type of `std` to the kind of a directory entry.
fn entry_kind(file_type: fs::FileType) -> EntryKind {
    if file_type.is_file() {
        EntryKind::File
    } else if file_type.is_dir() {
        EntryKind::Directory
    } else {
        EntryKind::Other
    }
}

/// Returns the device and inode numbers of a file.
pub(super) fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Opens a regular file for reading or writing; refuses others, and does not wait for a pipe.
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
