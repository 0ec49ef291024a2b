//! The lock of a database directory.
//!
//! The file LOCK excludes RocksDB too, but only as long as it keeps its name: after its removal,
//! the next open creates and locks another file. The directory itself is therefore locked as well;
//! its lock belongs to the directory's identity (rules L1 to L3 of `docs/reliability.md`).

use std::path::Path;

use koeldb_base::error::ErrorDetail;
use koeldb_base::{Error, Result, file_name};

use crate::file::{FileLock, FileSystem};

/// The locks of a directory and of the file LOCK in it.
#[derive(Debug)]
struct DirectoryLock {
    _directory: Box<dyn FileLock>,
    _file: Box<dyn FileLock>,
}

impl FileLock for DirectoryLock {}

/// Locks a database directory, which must exist, against all other users of this function.
///
/// The file LOCK is created if it is missing.
///
/// # Errors
/// `IoError` with detail `LockHeld` if another holder has one of the locks.
pub fn lock_directory(fs: &dyn FileSystem, directory: &Path) -> Result<Box<dyn FileLock>> {
    // LOCK first: its error names the process that holds it, also one of RocksDB.
    let file = fs.lock(&file_name::lock(directory)).map_err(advised)?;
    let directory = fs.lock(directory).map_err(|error| match error.detail() {
        Some(ErrorDetail::LockHeld) => advised(error).context(
            "the directory is in use, although its file LOCK was free: that file was removed or \
             replaced, or another program locked the directory",
        ),
        _ => error,
    })?;
    Ok(Box::new(DirectoryLock {
        _directory: directory,
        _file: file,
    }))
}

/// Adds advice for the lock of a database that another process holds.
fn advised(error: Error) -> Error {
    match (error.detail(), error.advice()) {
        (Some(ErrorDetail::LockHeld), None) => error.with_advice(
            "close the database in that process, or open it read-only or as a secondary",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::file::WriteOptions;
    use crate::memory::MemoryFileSystem;

    #[test]
    fn a_directory_stays_locked_when_its_file_is_removed_or_replaced() {
        let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
        let directory = Path::new("/db");
        fs.create_dir_all(directory).unwrap();
        let lock = lock_directory(&*fs, directory).unwrap();
        fs.remove_file(&file_name::lock(directory)).unwrap();
        for is_replaced in [false, true] {
            if is_replaced {
                let _ = fs.remove_file(&file_name::lock(directory));
                let new = file_name::lock(directory);
                drop(fs.create(&new, &WriteOptions::default()).unwrap());
            }
            let error = lock_directory(&*fs, directory).unwrap_err();
            assert_eq!(error.detail(), Some(ErrorDetail::LockHeld));
            assert!(error.to_string().contains("LOCK was free"), "{error}");
        }
        drop(lock);
        drop(lock_directory(&*fs, directory).unwrap());
    }
}
