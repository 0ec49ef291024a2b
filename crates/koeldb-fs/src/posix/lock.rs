//! Locks that exclude other processes, including RocksDB, and other locks of this process.
//!
//! Files get `fcntl` record locks. Directories, which do not support those, get `flock` locks; on a
//! file system without them, such as NFS, a directory is locked only within this process.
//! Open-file-description locks are used where available: the other kind ends when any descriptor of
//! the file is closed.
#![expect(
    clippy::disallowed_methods,
    reason = "this module is where the rest of the project reaches std::fs"
)]
#![expect(
    unsafe_code,
    reason = "open-file-description locks have no safe wrapper"
)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use koeldb_base::{Error, ErrorKind, Result};

use super::system::identity;
use crate::file::{FileLock, held, held_here};
use crate::origin::Origin;

/// The files this process holds locks on, by device and inode.
///
/// Record locks do not exclude their own process.
static LOCKED: Mutex<Option<Locked>> = Mutex::new(None);

/// The files that this process has locked, by device and inode.
#[derive(Debug)]
struct Locked {
    /// A forked child holds none of the locks of its parent.
    origin: Origin,
    files: BTreeSet<(u64, u64)>,
}

/// Passes the locked files of this process to `use_files`, under a mutex.
fn with_locked_files<T>(use_files: impl FnOnce(&mut BTreeSet<(u64, u64)>) -> T) -> T {
    // No code panics while it is held, and the set is never partially changed.
    let mut locked = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
    let inherited = locked.take().filter(|locked| locked.origin.is_here());
    let locked = locked.insert(inherited.unwrap_or_else(|| Locked {
        origin: Origin::here(),
        files: BTreeSet::new(),
    }));
    use_files(&mut locked.files)
}

/// A record lock over a whole file, or an advisory lock on a directory.
#[derive(Debug)]
pub(super) struct PosixLock {
    file: File,
    identity: (u64, u64),
    is_directory: bool,
    origin: Origin,
}

impl FileLock for PosixLock {}

impl PosixLock {
    /// Locks the file or directory at `path`; fails if any process holds the lock.
    pub(super) fn take(path: &Path) -> Result<Self> {
        with_locked_files(|locked| Self::lock_unless_in(path, locked))
    }

    /// Locks the file or directory at `path`; fails if it is in `locked`, those of this process.
    fn lock_unless_in(path: &Path, locked: &mut BTreeSet<(u64, u64)>) -> Result<Self> {
        let failed = |error| Error::io(error, "lock", path);
        // Checked before the file is opened: where locks belong to processes, closing it again
        // would release a lock of this process.
        let before = match fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if before
            .as_ref()
            .is_some_and(|metadata| locked.contains(&identity(metadata)))
        {
            return Err(held_here(path));
        }
        let is_directory = before.is_some_and(|metadata| metadata.is_dir());
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
            Err(error) if is_directory && is_unsupported(&error) => {}
            Err(error) if is_held(&error) => {
                return Err(held(path, &holder(&file)));
            }
            Err(error) => return Err(failed(error)),
        }
        // The file may have been removed, as by a `destroy`, since it was opened.
        let is_there =
            fs::metadata(path).is_ok_and(|metadata| self::identity(&metadata) == identity);
        if !is_there {
            return Err(held(path, "by a process that removes it"));
        }
        locked.insert(identity);
        Ok(PosixLock {
            file,
            identity,
            is_directory,
            origin: Origin::here(),
        })
    }
}

impl Drop for PosixLock {
    fn drop(&mut self) {
        // In a forked child the lock belongs to the parent; closing the descriptor leaves it held.
        if !self.origin.is_here() {
            return;
        }
        with_locked_files(|locked| {
            // Unlocked explicitly, because a forked child's copy of the descriptor would keep the
            // lock held.
            if self.is_directory {
                let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
            } else {
                let _ = set_record_lock(&self.file, libc::F_UNLCK);
            }
            locked.remove(&self.identity);
        });
    }
}

/// Whether an error of `fcntl` means that another process holds the lock.
fn is_held(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(code) if code == libc::EAGAIN || code == libc::EACCES)
}

/// Whether the file system has no `flock` locks for directories.
fn is_unsupported(error: &io::Error) -> bool {
    // NFS implements them by record locks, which need a file open for writing.
    let codes = [
        libc::EBADF,
        libc::EINVAL,
        libc::ENOLCK,
        libc::ENOSYS,
        libc::EOPNOTSUPP,
    ];
    error
        .raw_os_error()
        .is_some_and(|code| codes.contains(&code))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const SET_LOCK: i32 = libc::F_OFD_SETLK;
#[cfg(any(target_os = "linux", target_os = "android"))]
const GET_LOCK: i32 = libc::F_OFD_GETLK;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SET_LOCK: i32 = libc::F_SETLK;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const GET_LOCK: i32 = libc::F_GETLK;

/// Returns the `flock` structure of a lock request for the whole file.
///
/// All other fields are zero; open-file-description locks require process 0.
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

/// Locks or unlocks the whole file, without waiting.
fn set_record_lock(file: &File, kind: i32) -> io::Result<()> {
    let lock = whole_file(kind);
    // SAFETY: the descriptor is open, and the command reads one `flock` through the pointer.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), SET_LOCK, &raw const lock) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Describes the lock's holder, if known: open-file-description locks have no process.
fn holder(file: &File) -> String {
    let mut lock = whole_file(libc::F_WRLCK);
    // SAFETY: the descriptor is open, and the command writes one `flock` through the pointer.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), GET_LOCK, &raw mut lock) };
    if result != -1 && i32::from(lock.l_type) != libc::F_UNLCK && lock.l_pid > 0 {
        format!("by process {}", lock.l_pid)
    } else if let Some(process) = opener(file) {
        format!("by another process: {process} has it open")
    } else {
        "by another process".to_owned()
    }
}

/// Returns another process that has the file open, if `/proc` shows one.
///
/// The system does not tell who holds an open-file-description lock.
fn opener(file: &File) -> Option<u32> {
    let wanted = identity(&file.metadata().ok()?);
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut others = processes
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .filter(|&process: &u32| process != std::process::id());
    others.find(|process| {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else {
            return false;
        };
        descriptors
            .flatten()
            .filter_map(|descriptor| fs::metadata(descriptor.path()).ok())
            .any(|metadata| identity(&metadata) == wanted)
    })
}
