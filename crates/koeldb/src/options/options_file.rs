//! OPTIONS files: the options of a database, for tools and for later opens.
//!
//! ```text
//! # comment
//! [Version]
//!   rocksdb_version=11.9.0
//!   options_file_version=1.1
//!
//! [DBOptions]
//!   name=value
//!
//! [CFOptions "default"]
//!   name=value
//!
//! [TableOptions/BlockBasedTable "default"]
//!   name=value
//! ```
//!
//! Names that RocksDB 7.8 does not know are written only if the value is not the default, so that
//! tools of 7.8 to 11.9 can read the file as long as no newer option is used. Additions of KoelDB
//! are under `[Version]`, where every reader skips unknown names. A text is read back and compared
//! when a process writes it for the first time.

mod parse;
mod print;

use std::path::{Path, PathBuf};

use koeldb_base::file_name::{self, FileKind};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::posix::PosixFileSystem;
use koeldb_fs::{FileSystem, Purpose, WriteOptions};

use super::apply::Target as _;
use super::config::{ConfigOptions, IgnoredOption, LoadedOptions};
use super::conversion::limits;
use super::db::{DbOptions, Options};
use super::grammar;
use super::mend::mend;
use super::wal_dir::{self, WalDirectory};
use crate::env::Env;

pub(crate) use parse::{ParsedFile, parse};
pub(crate) use print::{FamilyText, checked_database, checked_family};
#[cfg(test)]
pub(crate) use print::{print, print_checked};

/// The release of RocksDB whose option names this version knows and writes.
const ROCKSDB_VERSION: [u32; 3] = [11, 9, 0];

/// Writes `OPTIONS-<number>` into `directory`: as a temporary file, which is synced and renamed.
///
/// # Errors
/// If the file system fails.
pub(crate) fn write(fs: &dyn FileSystem, directory: &Path, number: u64, text: &str) -> Result<()> {
    let temporary = directory.join(format!("OPTIONS-{number:06}.dbtmp"));
    let mut file = fs.create(&temporary, &WriteOptions::new(Purpose::Manifest))?;
    file.append(text.as_bytes())?;
    file.sync_all()?;
    file.close()?;
    fs.rename(&temporary, &file_name::options(directory, number))?;
    fs.sync_dir(directory)
}

/// Returns the newest OPTIONS file of a database directory.
///
/// # Errors
/// `NotFound` if there is none, or the file system fails.
pub(crate) fn latest(fs: &dyn FileSystem, directory: &Path) -> Result<PathBuf> {
    let newest = fs
        .list(directory)?
        .into_iter()
        .filter_map(|entry| match file_name::parse(&entry.name) {
            Some(FileKind::Options(number)) => Some((number, entry.name)),
            _ => None,
        })
        .max();
    match newest {
        Some((_, name)) => Ok(directory.join(name)),
        None => Err(Error::with_kind(
            ErrorKind::NotFound,
            format!("no OPTIONS file in {}", directory.display()),
        )
        .with_advice("open the database with options set in code, which writes the file")),
    }
}

/// Reads an OPTIONS file.
///
/// # Errors
/// See [`parse`]; errors of the file system.
pub(crate) fn load(fs: &dyn FileSystem, file: &Path, how: &ConfigOptions) -> Result<LoadedOptions> {
    let bytes = fs.read_all(file, limits(how.untrusted).options_bytes, Purpose::Open)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::corruption("the OPTIONS file is not UTF-8 text"))
        .map_err(|error| error.in_file(file, None, "read"))?;
    let mut parsed = parse(&text, how).map_err(|error| error.in_file(file, None, "read"))?;
    mend(&mut parsed);
    find_logs(fs, file, how, &mut parsed);
    let cf = parsed
        .families
        .first()
        .map(|(_, options)| options.clone())
        .unwrap_or_default();
    Ok(LoadedOptions {
        options: Options {
            db: parsed.db,
            cf,
            mended: parsed.mended.clone(),
            ..Options::default()
        },
        column_families: parsed.families,
        file: file.to_owned(),
        ignored: parsed.ignored,
        mended: parsed.mended,
    })
}

/// Applies the recorded `wal_dir`, if certainly no other database uses that directory.
fn find_logs(fs: &dyn FileSystem, file: &Path, how: &ConfigOptions, parsed: &mut ParsedFile) {
    let is_log_directory =
        |option: &IgnoredOption| option.section == DbOptions::SECTION && option.name == "wal_dir";
    let Some(directory) = file.parent().filter(|_| !how.apply_paths && !how.untrusted) else {
        return;
    };
    let Some(at) = parsed.ignored.iter().position(is_log_directory) else {
        return;
    };
    let recorded = grammar::unescape(&parsed.ignored[at].value);
    match wal_dir::locate(fs, directory, &recorded) {
        WalDirectory::At(path) => {
            parsed.db.wal_dir = path.to_string_lossy().into_owned();
            parsed.ignored.remove(at);
        }
        WalDirectory::Unknown(reason) => parsed.ignored[at].reason = reason,
    }
}

impl Options {
    /// Reads the newest OPTIONS file of a database directory.
    ///
    /// # Errors
    /// `NotFound` if there is none; otherwise see [`Options::load_file`].
    pub fn load_latest(db: impl AsRef<Path>, how: &ConfigOptions) -> Result<LoadedOptions> {
        Self::load_latest_in(&Env::default(), db, how)
    }

    /// Reads the newest OPTIONS file of a database directory in the file system of `env`.
    ///
    /// # Errors
    /// See [`Options::load_latest`].
    pub fn load_latest_in(
        env: &Env,
        db: impl AsRef<Path>,
        how: &ConfigOptions,
    ) -> Result<LoadedOptions> {
        let fs = &**env.file_system();
        load(fs, &latest(fs, db.as_ref())?, how)
    }

    /// Reads an OPTIONS file of any release of RocksDB or KoelDB.
    ///
    /// # Errors
    /// `InvalidArgument` for unknown names and invalid values, and `NotSupported` for unavailable
    /// objects, unless `how` says to ignore that; `Corruption` if the file is not an OPTIONS file.
    pub fn load_file(file: impl AsRef<Path>, how: &ConfigOptions) -> Result<LoadedOptions> {
        load(&PosixFileSystem::new(), file.as_ref(), how)
    }

    /// Reads an OPTIONS file in the file system of `env`.
    ///
    /// # Errors
    /// See [`Options::load_file`].
    pub fn load_file_in(
        env: &Env,
        file: impl AsRef<Path>,
        how: &ConfigOptions,
    ) -> Result<LoadedOptions> {
        load(&**env.file_system(), file.as_ref(), how)
    }
}
