//! The directory of a backup engine: its subdirectories and the names of files in them.
//!
//! ```text
//! meta/<id>                         the list of files of a backup
//! private/<id>/<name>               files of one backup
//! shared/<name>                     tables of all backups of one database
//! shared_checksum/NNNNNN_s<session id>[_<bytes>].sst
//! shared_checksum/NNNNNN_<CRC-32C, decimal>_<bytes>.<extension>
//! ```
//!
//! Temporary files begin with a dot and end with `.tmp`. Ids are decimals from 1 without leading
//! zeros.

use std::fmt;
use std::path::{Path, PathBuf};

use koeldb_base::file_name::{self, FileKind};
use koeldb_base::{Error, Result};

/// The number of a backup, from 1.
pub type BackupId = u32;

pub(super) const SHARED: &str = "shared";
pub(super) const SHARED_CHECKSUM: &str = "shared_checksum";
pub(super) const PRIVATE: &str = "private";
pub(super) const META: &str = "meta";

/// The naming of tables in `shared_checksum` (RocksDB: `ShareFilesNaming`).
///
/// Tables without a session id, and all blob files, are named by checksum and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareFilesNaming {
    /// By CRC-32C and size: RocksDB's `kLegacyCrc32cAndFileSize`.
    LegacyCrc32cAndFileSize,
    /// By the session id of the database that wrote the table: RocksDB's `kUseDbSessionId` alone.
    UseDbSessionId,
    /// By session id and size: RocksDB's default.
    UseDbSessionIdAndFileSize,
}

/// The path of a file in a backup, relative to the directory of the backup engine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct BackupPath(String);

impl BackupPath {
    /// Parses and validates the path of a file of backup `id`, as it is in a meta file.
    ///
    /// # Errors
    /// `Corruption` for a path that is not of the layout, or that leaves its directory.
    pub(super) fn parse(text: &str, id: BackupId) -> Result<Self> {
        let path = BackupPath(text.to_owned());
        let own = format!("{PRIVATE}/{id}");
        let name = match text.rsplit_once('/') {
            Some((directory, name)) if directory == SHARED || directory == own => name,
            Some((SHARED_CHECKSUM, _)) => &path.database_name(),
            _ => "",
        };
        match file_name::parse(name) {
            Some(kind) if is_backed_up(kind) && !text.contains('\0') => Ok(path),
            _ => Err(Error::corruption(format!(
                "{text:?} is not the path of a file of backup {id}"
            ))),
        }
    }

    /// Returns the path in `private/ID` of file `name`, which only backup `id` has.
    pub(super) fn private(id: BackupId, name: &str) -> Self {
        BackupPath(format!("{PRIVATE}/{id}/{name}"))
    }

    /// Returns the path of a table in the directory `shared`, named by its file number.
    pub(super) fn shared(name: &str) -> Self {
        BackupPath(format!("{SHARED}/{name}"))
    }

    /// The path of a shared table that is named by its session id.
    pub(super) fn by_session(name: &str, session_id: &str, bytes: Option<u64>) -> Self {
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let bytes = bytes.map_or_else(String::new, |bytes| format!("_{bytes}"));
        BackupPath(format!(
            "{SHARED_CHECKSUM}/{stem}_s{session_id}{bytes}.{extension}"
        ))
    }

    /// The path of a shared file that is named by checksum and size.
    pub(super) fn by_checksum(name: &str, crc32c: u32, bytes: u64) -> Self {
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        BackupPath(format!(
            "{SHARED_CHECKSUM}/{stem}_{crc32c}_{bytes}.{extension}"
        ))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the file is shared between backups.
    pub(super) fn is_shared(&self) -> bool {
        !self.0.starts_with(PRIVATE)
    }

    /// Whether a table is shared under its number alone.
    pub(super) fn is_shared_by_number(&self) -> bool {
        self.is_shared() && !self.0.starts_with(SHARED_CHECKSUM)
    }

    /// Returns the full path of the file, in the engine's directory `engine`.
    pub(super) fn in_directory(&self, engine: &Path) -> PathBuf {
        engine.join(&self.0)
    }

    /// Returns the path under which a shared file is written before it is renamed.
    pub(super) fn temporary(&self, engine: &Path) -> PathBuf {
        let (directory, name) = self.0.rsplit_once('/').unwrap_or(("", &self.0));
        engine.join(directory).join(format!(".{name}.tmp"))
    }

    /// The name that the file has in a database.
    pub(super) fn database_name(&self) -> String {
        let name = self.0.rsplit('/').next().unwrap_or_default();
        if !self.0.starts_with(SHARED_CHECKSUM) {
            return name.to_owned();
        }
        let stem = name.split('_').next().unwrap_or_default();
        match name.rsplit_once('.') {
            Some((before, extension)) if before.contains('_') => format!("{stem}.{extension}"),
            _ => name.to_owned(),
        }
    }

    /// Returns the kind of the database file; `None` if its name is unknown.
    pub(super) fn kind(&self) -> Option<FileKind> {
        file_name::parse(&self.database_name())
    }
}

impl fmt::Display for BackupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether backups contain files of this kind.
fn is_backed_up(kind: FileKind) -> bool {
    matches!(
        kind,
        FileKind::Current
            | FileKind::Manifest(_)
            | FileKind::Options(_)
            | FileKind::Wal(_)
            | FileKind::Table(_)
            | FileKind::Blob(_)
    )
}

/// Parses the name of a backup in the directory `meta` or `private`.
pub(super) fn parse_id(name: &str) -> Option<BackupId> {
    let id: BackupId = name.parse().ok()?;
    (id > 0 && name == id.to_string()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_rocksdbs_and_lead_back_to_the_database() {
        let by_session = BackupPath::by_session("000008.sst", "ABC", Some(9));
        assert_eq!(by_session.as_str(), "shared_checksum/000008_sABC_9.sst");
        let by_checksum = BackupPath::by_checksum("000009.blob", 7, 9);
        assert_eq!(by_checksum.as_str(), "shared_checksum/000009_7_9.blob");
        for (path, name) in [
            (by_session, "000008.sst"),
            (
                BackupPath::by_session("000008.sst", "ABC", None),
                "000008.sst",
            ),
            (by_checksum, "000009.blob"),
            (BackupPath::shared("000001.sst"), "000001.sst"),
            (BackupPath::private(4, "OPTIONS-000007"), "OPTIONS-000007"),
        ] {
            assert_eq!(path.database_name(), name);
            assert_eq!(BackupPath::parse(path.as_str(), 4).unwrap(), path);
        }
    }

    #[test]
    fn only_paths_of_the_layout_are_taken() {
        for text in [
            "",
            "CURRENT",
            "shared/",
            "shared/..",
            "shared/x/000001.sst",
            "shared/../CURRENT",
            "shared_checksum/../../000001_1_1.sst",
            "shared_checksum/000001_1/1.sst",
            "private/1/LOCK",
            "private/1/IDENTITY",
            "private/1/../2/CURRENT",
            "private/01/CURRENT",
            "private/2/CURRENT",
            "/private/1/CURRENT",
            "private/1/CURRENT\0",
            "shared/letter.txt",
        ] {
            assert!(BackupPath::parse(text, 1).is_err(), "{text:?}");
        }
    }

    #[test]
    fn ids_are_plain_decimals() {
        assert_eq!(parse_id("17"), Some(17));
        for name in ["0", "017", "+1", "-1", "", "1.tmp", "4294967296", ".1.tmp"] {
            assert_eq!(parse_id(name), None, "{name:?}");
        }
    }
}
