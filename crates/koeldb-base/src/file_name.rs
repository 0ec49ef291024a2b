//! Names of the files in a database directory.
//!
//! Numbers are printed with at least six digits and parsed as plain decimal numbers. Files with any
//! other name are ignored and never deleted (`docs/formats/directory.md`).

use std::path::{Path, PathBuf};

/// The number that identifies a numbered file of a directory.
pub type FileNumber = u64;

/// The type of a file in a database directory, with its number (RocksDB: `FileType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// `CURRENT`: names the live MANIFEST.
    Current,
    /// `IDENTITY`: holds the id of the database.
    Identity,
    /// `LOCK`: the file whose lock excludes other processes.
    Lock,
    /// `LOG` and `LOG.old.*`: the information log.
    InfoLog,
    /// `MANIFEST-N`.
    Manifest(FileNumber),
    /// `OPTIONS-N`.
    Options(FileNumber),
    /// `N.log`.
    Wal(FileNumber),
    /// `N.sst` or, from LevelDB, `N.ldb`.
    Table(FileNumber),
    /// `N.blob`.
    Blob(FileNumber),
    /// `N.dbtmp` or `OPTIONS-N.dbtmp`.
    Temporary(FileNumber),
}

/// Parses a file number in decimal digits; `None` for anything else.
fn number(digits: &str) -> Option<FileNumber> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// The longest name of an information log in a directory of its own, without a time.
const INFO_LOG_NAME_MAX: usize = 220;

/// Returns the path of a database's information log in another directory (RocksDB: `db_log_dir`).
///
/// Its name is `database`, the absolute path of the database, with underscores, and `_LOG`: several
/// databases may share the directory.
#[must_use]
pub fn info_log_in(directory: &Path, database: &Path) -> PathBuf {
    let bytes = database.as_os_str().as_encoded_bytes();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let mut name = String::new();
    for (index, &byte) in bytes.iter().enumerate() {
        match byte {
            byte if is_plain(byte) => name.push(char::from(byte)),
            _ if index > 0 => name.push('_'),
            _ => {}
        }
    }
    name.truncate(INFO_LOG_NAME_MAX);
    directory.join(name + "_LOG")
}

/// Parses a file name; `None` for names that no database file has.
#[must_use]
pub fn parse(name: &str) -> Option<FileKind> {
    match name {
        "CURRENT" => return Some(FileKind::Current),
        "IDENTITY" => return Some(FileKind::Identity),
        "LOCK" => return Some(FileKind::Lock),
        "LOG" => return Some(FileKind::InfoLog),
        _ => {}
    }
    if let Some(time) = name.strip_prefix("LOG.old.") {
        return number(time).map(|_| FileKind::InfoLog);
    }
    if let Some(digits) = name.strip_prefix("MANIFEST-") {
        return number(digits).map(FileKind::Manifest);
    }
    if let Some(rest) = name.strip_prefix("OPTIONS-") {
        return match rest.strip_suffix(".dbtmp") {
            Some(digits) => number(digits).map(FileKind::Temporary),
            None => number(rest).map(FileKind::Options),
        };
    }
    let (digits, extension) = name.split_once('.')?;
    let number = number(digits)?;
    match extension {
        "log" => Some(FileKind::Wal(number)),
        "sst" | "ldb" => Some(FileKind::Table(number)),
        "blob" => Some(FileKind::Blob(number)),
        "dbtmp" => Some(FileKind::Temporary(number)),
        _ => None,
    }
}

/// The suffix of the names of files in the trash, which wait for their deletion.
pub const TRASH_EXTENSION: &str = ".trash";

/// Whether this is the name of a database file in the trash, which was renamed for its deletion.
///
/// RocksDB appends a number if a name is taken: `000012.sst1.trash`.
#[must_use]
pub fn is_trash(name: &str) -> bool {
    let Some((number, extension)) = name
        .strip_suffix(TRASH_EXTENSION)
        .map(|name| name.trim_end_matches(|c: char| c.is_ascii_digit()))
        .and_then(|name| name.split_once('.'))
    else {
        return false;
    };
    self::number(number).is_some() && matches!(extension, "sst" | "ldb" | "log" | "blob")
}

impl FileKind {
    /// The file number in the name; `None` for types of files without a number.
    #[must_use]
    pub fn number(self) -> Option<FileNumber> {
        match self {
            FileKind::Manifest(number)
            | FileKind::Options(number)
            | FileKind::Wal(number)
            | FileKind::Table(number)
            | FileKind::Blob(number)
            | FileKind::Temporary(number) => Some(number),
            _ => None,
        }
    }
}

/// The path of table `number` in `directory`.
#[must_use]
pub fn table(directory: &Path, number: FileNumber) -> PathBuf {
    directory.join(format!("{number:06}.sst"))
}

/// Returns the path of the blob file with this number: `NNNNNN.blob`.
#[must_use]
pub fn blob(directory: &Path, number: FileNumber) -> PathBuf {
    directory.join(format!("{number:06}.blob"))
}

/// The path of write-ahead log `number` in `directory`.
#[must_use]
pub fn wal(directory: &Path, number: FileNumber) -> PathBuf {
    directory.join(format!("{number:06}.log"))
}

/// The path of MANIFEST `number` in `directory`.
#[must_use]
pub fn manifest(directory: &Path, number: FileNumber) -> PathBuf {
    directory.join(format!("MANIFEST-{number:06}"))
}

/// The path of OPTIONS file `number` in `directory`.
#[must_use]
pub fn options(directory: &Path, number: FileNumber) -> PathBuf {
    directory.join(format!("OPTIONS-{number:06}"))
}

/// The path of temporary file `number` in `directory`.
#[must_use]
pub fn temporary(directory: &Path, number: FileNumber) -> PathBuf {
    directory.join(format!("{number:06}.dbtmp"))
}

/// The path of CURRENT, which names the live MANIFEST.
#[must_use]
pub fn current(directory: &Path) -> PathBuf {
    directory.join("CURRENT")
}

/// The path of IDENTITY, which holds the id of the database.
#[must_use]
pub fn identity(directory: &Path) -> PathBuf {
    directory.join("IDENTITY")
}

/// The path of LOCK, the file whose lock excludes other processes.
#[must_use]
pub fn lock(directory: &Path) -> PathBuf {
    directory.join("LOCK")
}

/// The path of LOG, the information log.
#[must_use]
pub fn info_log(directory: &Path) -> PathBuf {
    directory.join("LOG")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_grammar_are_ours() {
        assert_eq!(parse("000012.sst"), Some(FileKind::Table(12)));
        assert_eq!(parse("7.sst"), Some(FileKind::Table(7)));
        assert_eq!(parse("MANIFEST-000005"), Some(FileKind::Manifest(5)));
        assert_eq!(parse("OPTIONS-000007.dbtmp"), Some(FileKind::Temporary(7)));
        for foreign in [
            "+1.sst",
            "-1.log",
            "1.sst.bak",
            "MANIFEST-5x",
            "99999999999999999999.sst",
            "LOGS",
            ".sst",
        ] {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
        assert_eq!(table(Path::new("d"), 7), Path::new("d/000007.sst"));
    }

    #[test]
    fn only_files_of_databases_are_trash() {
        for ours in [
            "000012.sst.trash",
            "7.ldb.trash",
            "3.log2.trash",
            "000004.blob.trash",
        ] {
            assert!(is_trash(ours), "{ours}");
            assert_eq!(parse(ours), None);
        }
        for foreign in [
            ".trash",
            "sst.trash",
            "a.sst.trash",
            "1.txt.trash",
            "1.sst.trash.1",
            "1.sst",
        ] {
            assert!(!is_trash(foreign), "{foreign}");
        }
    }
}
