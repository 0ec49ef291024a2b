//! Snapshots: directories of files, and their transfer into other directories.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use koeldb::fs::file::{EntryKind, OpenOptions, Purpose, WriteOptions, is_link_refused};
use koeldb::fs::small_file::remove_dir_all;
use koeldb::fs::{FileSystem, RandomAccessFile};
use koeldb::{Error, Result};
use serde::{Deserialize, Serialize};

/// The size in bytes of the pieces in which files are copied or sent.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// A file of a snapshot, with its size and checksum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFile {
    /// The name in the directory of the snapshot.
    pub name: String,
    /// The size.
    pub bytes: u64,
    /// The CRC-32C of all bytes.
    pub crc32c: u32,
}

/// A handle to a snapshot, which is a directory with a checkpoint; clones share it.
///
/// The directory of a superseded snapshot is removed when its last handle is dropped, so one that is
/// being sent stays.
#[derive(Clone)]
pub struct SnapshotDir {
    inner: Arc<Inner>,
}

/// The shared state of the handles to a snapshot; removes a superseded directory when dropped.
struct Inner {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    /// The value of the reserved key in the checkpoint.
    applied: Vec<u8>,
    files: Mutex<Option<Vec<SnapshotFile>>>,
    is_superseded: AtomicBool,
}

impl SnapshotDir {
    /// Creates a handle to the checkpoint in `path`, with its encoded applied position.
    pub(crate) fn new(fs: &Arc<dyn FileSystem>, path: &Path, applied: Vec<u8>) -> Self {
        SnapshotDir {
            inner: Arc::new(Inner {
                fs: Arc::clone(fs),
                path: path.to_owned(),
                applied,
                files: Mutex::new(None),
                is_superseded: AtomicBool::new(false),
            }),
        }
    }

    /// Creates a handle to a snapshot received from another node, whose file list is already known.
    #[cfg_attr(not(feature = "grpc"), expect(dead_code, reason = "for transports"))]
    pub(crate) fn received(
        fs: &Arc<dyn FileSystem>,
        path: &Path,
        files: Vec<SnapshotFile>,
    ) -> Self {
        let snapshot = Self::new(fs, path, Vec::new());
        *snapshot.known_files() = Some(files);
        snapshot
    }

    /// Returns the directory of the snapshot.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the encoded applied position that is stored in the snapshot.
    ///
    /// It is the one passed to [`StateStore::write`](crate::StateStore::write).
    #[must_use]
    pub fn applied(&self) -> &[u8] {
        &self.inner.applied
    }

    /// Marks the snapshot as superseded: its directory is removed when the last handle is dropped.
    pub(crate) fn supersede(&self) {
        self.inner.is_superseded.store(true, Ordering::Release);
    }

    /// Locks the cached list of files with checksums, which is `None` until `files` has filled it.
    fn known_files(&self) -> std::sync::MutexGuard<'_, Option<Vec<SnapshotFile>>> {
        let files = self.inner.files.lock();
        files.unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the files with sizes and CRC-32C checksums; the first call reads every file.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn files(&self) -> Result<Vec<SnapshotFile>> {
        let mut known = self.known_files();
        if let Some(files) = &*known {
            return Ok(files.clone());
        }
        let mut files = Vec::new();
        for entry in self.inner.fs.list(self.path())? {
            // The lock file of a database that was opened in place is no part of it.
            if entry.kind == EntryKind::File && entry.name != "LOCK" {
                files.push(describe(&*self.inner.fs, self.path(), &entry.name)?);
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        *known = Some(files.clone());
        Ok(files)
    }

    /// Opens the snapshot file called `name` for reading.
    #[cfg_attr(not(feature = "grpc"), expect(dead_code, reason = "for transports"))]
    pub(crate) fn open(&self, name: &str) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.fs.open(&self.path().join(name), &reading())
    }

    /// Copies the snapshot's files to the directory `target` in `fs`; links tables and blob files where
    /// possible.
    ///
    /// Checks every checksum, and syncs the files and the directory: a transport may not have synced
    /// what it received.
    ///
    /// # Errors
    /// `Corruption` if a file has other bytes than it should; errors of the file systems.
    pub(crate) fn copy_to(&self, fs: &Arc<dyn FileSystem>, target: &Path) -> Result<()> {
        fs.create_dir_all(target)?;
        for file in self.files()? {
            let (from, to) = (self.path().join(&file.name), target.join(&file.name));
            let is_linked = Arc::ptr_eq(fs, &self.inner.fs)
                && [".sst", ".blob"]
                    .iter()
                    .any(|suffix| file.name.ends_with(suffix))
                && link(&**fs, &from, &to)?;
            let found = match is_linked {
                true => describe(&**fs, target, &file.name)?,
                false => copy(&*self.inner.fs, &from, &**fs, &to, &file.name)?,
            };
            if found != file {
                return Err(Error::corruption(format!(
                    "a file of a snapshot is {found:?}, and should be {file:?}"
                ))
                .in_file(&from, None, "copy"));
            }
        }
        fs.sync_dir(target)
    }
}

impl fmt::Debug for SnapshotDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SnapshotDir({})", self.inner.path.display())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.is_superseded.get_mut() {
            // What remains is removed by the next open.
            let _ = discard(&*self.fs, &self.path);
        }
    }
}

/// Returns the options to open snapshot files for reading, with `Purpose::Checkpoint`.
fn reading() -> OpenOptions {
    OpenOptions {
        purpose: Purpose::Checkpoint,
        ..OpenOptions::default()
    }
}

/// Hard-links a file and syncs it; returns false if the file system refuses links there.
fn link(fs: &dyn FileSystem, from: &Path, to: &Path) -> Result<bool> {
    match fs.link(from, to) {
        Ok(()) => {
            let mut file = fs.append(to, &WriteOptions::new(Purpose::Checkpoint))?;
            file.sync_all()?;
            file.close()?;
            Ok(true)
        }
        Err(error) if is_link_refused(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads a file in buffers of `PIECE_BYTES` bytes from its start, and passes each to `visit`.
pub(crate) fn for_each_piece(
    file: &dyn RandomAccessFile,
    mut visit: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut offset = 0;
    loop {
        let read = file.read_at(offset, &mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        visit(&buffer[..read])?;
        offset += read as u64;
    }
}

/// Reads a whole file of a directory, and returns its name, size and CRC-32C.
pub(crate) fn describe(fs: &dyn FileSystem, directory: &Path, name: &str) -> Result<SnapshotFile> {
    let file = fs.open(&directory.join(name), &reading())?;
    let mut described = empty(name);
    for_each_piece(&*file, |piece| {
        described.extend(piece);
        Ok(())
    })?;
    Ok(described)
}

/// Returns the size (0) and checksum of an empty file, to be extended as bytes are read.
pub(crate) fn empty(name: &str) -> SnapshotFile {
    SnapshotFile {
        name: name.to_owned(),
        bytes: 0,
        crc32c: 0,
    }
}

impl SnapshotFile {
    /// Adds the next bytes of the file to the size and the running CRC-32C.
    pub(crate) fn extend(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, piece);
    }
}

/// Copies a file and syncs it; returns the size and CRC-32C of the copied bytes.
fn copy(
    from_fs: &dyn FileSystem,
    from: &Path,
    to_fs: &dyn FileSystem,
    to: &Path,
    name: &str,
) -> Result<SnapshotFile> {
    let source = from_fs.open(from, &reading())?;
    let mut target = to_fs.create(to, &WriteOptions::new(Purpose::Checkpoint))?;
    let mut copied = empty(name);
    for_each_piece(&*source, |piece| {
        copied.extend(piece);
        target.append(piece)
    })?;
    target.sync_all()?;
    target.close()?;
    Ok(copied)
}

/// Removes a snapshot directory crash-safely: renames it to `.old` first, durably.
///
/// A crash must not leave an incomplete one that the next open takes for the newest.
pub(crate) fn discard(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    let leaving = path.with_extension("old");
    match fs.rename(path, &leaving) {
        Err(error) if error.is_path_not_found() => return Ok(()),
        renamed => renamed?,
    }
    if let Some(parent) = path.parent() {
        fs.sync_dir(parent)?;
    }
    remove_dir_all(fs, &leaving)
}
