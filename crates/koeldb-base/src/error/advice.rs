//! Advice on failures of the operating system and on damaged files, one sentence each.
//!
//! Other advice is given where its error is made ([`Error::with_advice`]).
//!
//! [`Error::with_advice`]: super::Error::with_advice

use std::io;
use std::path::Path;

use crate::file_name::{self, FileKind};

/// The advice for a file of a database that is missing or cut short.
pub const LOST_FILE: &str = "restore a backup, open with best_efforts_recovery, which returns to \
                             the newest state without the file, or run `ldb repair`";

/// The `errno` of too many open files in the process (`EMFILE`).
const TOO_MANY_OPEN_FILES: i32 = 24;

/// The `errno` of too many open files in the system (`ENFILE`).
const TOO_MANY_OPEN_FILES_IN_SYSTEM: i32 = 23;

/// Returns the advice for an error of the operating system met on `path`.
pub(super) fn of_system_error(error: &io::Error, path: &Path) -> Option<&'static str> {
    use io::ErrorKind as Kind;
    let is_out_of_files = matches!(
        error.raw_os_error(),
        Some(TOO_MANY_OPEN_FILES | TOO_MANY_OPEN_FILES_IN_SYSTEM)
    );
    Some(match error.kind() {
        Kind::NotFound => return of_missing_file(path),
        Kind::PermissionDenied => {
            "run as a user who may use the path, or change its owner or permissions"
        }
        Kind::ReadOnlyFilesystem => {
            "mount the file system for writing, or open the database read-only"
        }
        Kind::NotADirectory => "a part of the path is a file: give the path of a directory",
        Kind::StorageFull => "free space on the device",
        Kind::QuotaExceeded => "free space, or raise the quota",
        _ if is_out_of_files => {
            "raise the limit of open files (`ulimit -n`), or set max_open_files below it"
        }
        _ => return None,
    })
}

/// Returns the advice for a file that does not exist.
fn of_missing_file(path: &Path) -> Option<&'static str> {
    match kind(path)? {
        FileKind::Current => Some("check the path: a directory without CURRENT has no database"),
        FileKind::Table(_) | FileKind::Blob(_) | FileKind::Manifest(_) => Some(LOST_FILE),
        _ => None,
    }
}

/// Returns the advice for a damaged file of a database.
pub(super) fn of_damaged_file(path: &Path) -> Option<&'static str> {
    Some(match kind(path)? {
        FileKind::Table(_) | FileKind::Blob(_) => {
            "restore a backup, or run `ldb repair`, which keeps what is readable"
        }
        FileKind::Current | FileKind::Manifest(_) => {
            "restore a backup, or run `ldb repair`, which writes CURRENT and MANIFEST anew"
        }
        FileKind::Options(_) => {
            "open the database with options set in code, which writes a new file"
        }
        _ => return None,
    })
}

/// Returns the kind of a file by its name; `None` if no database file has that name.
fn kind(path: &Path) -> Option<FileKind> {
    file_name::parse(path.file_name()?.to_str()?)
}
