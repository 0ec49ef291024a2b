//! Finds the WAL files (logs) of a database that are outside of its directory.
//!
//! An OPTIONS file names the directory of the WAL files (`wal_dir`). An open without it misses data
//! that is only in the logs. An open of a *copy* of the database with it would read, and remove,
//! the logs of the original. Therefore:
//!
//! | the logs | a load |
//! |---|---|
//! | are in the loaded directory | applies nothing: they are where an open expects them |
//! | were in the database's directory before it was copied or moved | applies nothing, likewise |
//! | are below it, or below it before the directory was moved | applies that directory |
//! | are elsewhere; LOG names `wal_dir`, and this database or a deleted one | applies `wal_dir` |
//! | are elsewhere; the LOG files name another database | reports the option as ignored: a copy |
//! | are elsewhere; no LOG file names `wal_dir` | reports the option as ignored |
//!
//! The open checks for missing logs ([`check_logs`]), and fails if there are any: if nothing was
//! applied, or if the options name a directory without logs and the database's own has some.

use std::path::{Component, Path, PathBuf};

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{Error, Result};
use koeldb_fs::{FileSystem, OpenOptions, Purpose};

use super::grammar;
use super::options_file::latest;

/// The number of bytes read from a LOG file, which begins with the summary of the database.
const SUMMARY_BYTES: usize = 64 << 10;
/// The maximum number of LOG files that are read, newest first.
const LOG_FILES_MAX: usize = 64;
/// The text before the value of `wal_dir` in LOG.
pub(crate) const WAL_DIR_LINE: &str = "Options.wal_dir: ";
/// The maximum size of an OPTIONS file; a larger one is ignored.
const OPTIONS_BYTES_MAX: u64 = 64 << 20;

/// The directory of the WAL files of a database whose OPTIONS file is loaded, if it is known.
#[derive(Debug)]
pub(super) enum WalDirectory {
    /// The WAL files are in this directory.
    At(PathBuf),
    /// Unknown, for this reason.
    Unknown(String),
}

/// Locates the WAL files of a database whose OPTIONS file records `recorded` as `wal_dir`.
pub(super) fn locate(fs: &dyn FileSystem, directory: &Path, recorded: &str) -> WalDirectory {
    let recorded = PathBuf::from(recorded);
    if !fs.exists(&file_name::current(directory)).unwrap_or(false) {
        return WalDirectory::Unknown(
            "it belongs to the database that the file lies in".to_owned(),
        );
    }
    if holds_logs(fs, directory, 0) {
        return WalDirectory::Unknown("the directory of the database holds logs itself".to_owned());
    }
    if recorded.starts_with(directory) {
        return WalDirectory::At(recorded);
    }
    if let Some(moved) = below(fs, directory, &recorded) {
        return WalDirectory::At(moved);
    }
    let info_logs = InfoLogs::read(fs, directory);
    if is_home(fs, &info_logs, &recorded) {
        return WalDirectory::Unknown(
            "it was the directory of the database before that was copied or moved".to_owned(),
        );
    }
    // A relative one depends on the working directory of the process.
    let homes: Vec<PathBuf> = info_logs
        .homes()
        .filter(|home| home.is_absolute())
        .collect();
    let other = homes
        .iter()
        .find(|home| is_other_database(fs, home, directory));
    if let Some(other) = other {
        let other = other.display();
        return WalDirectory::Unknown(format!(
            "these are the logs of {other}, of which this is a copy"
        ));
    }
    if homes.is_empty() || !info_logs.name_logs_in(&recorded) {
        return WalDirectory::Unknown(
            "no LOG file tells whether this database or one that it was copied from uses it"
                .to_owned(),
        );
    }
    match fs.list(&recorded) {
        Ok(_) => WalDirectory::At(recorded),
        Err(error) => WalDirectory::Unknown(error.to_string()),
    }
}

/// Returns the location below `directory` of a WAL directory that moved with the database.
///
/// It is the longest suffix of its path that exists below `directory` and contains WAL files.
fn below(fs: &dyn FileSystem, directory: &Path, recorded: &Path) -> Option<PathBuf> {
    let names: Vec<_> = recorded
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    (0..names.len()).find_map(|first| {
        let end: PathBuf = names.iter().skip(first).collect();
        let moved = directory.join(end);
        logs(fs, &moved).next().is_some().then_some(moved)
    })
}

/// Lists the WAL files in a directory, with their numbers and paths.
fn logs(
    fs: &dyn FileSystem,
    directory: &Path,
) -> impl Iterator<Item = (FileNumber, PathBuf)> + use<> {
    let directory = directory.to_owned();
    let entries = fs.list(&directory).unwrap_or_default().into_iter();
    entries.filter_map(move |entry| match file_name::parse(&entry.name) {
        Some(FileKind::Wal(log)) => Some((log, directory.join(entry.name))),
        _ => None,
    })
}

/// Whether a directory contains nonempty WAL files with numbers from `oldest` on.
fn holds_logs(fs: &dyn FileSystem, directory: &Path, oldest: FileNumber) -> bool {
    let has_bytes = |path: &Path| fs.metadata(path).is_ok_and(|metadata| metadata.len > 0);
    logs(fs, directory).any(|(log, path)| log >= oldest && has_bytes(&path))
}

/// The beginnings of the newest LOG files, which show where the database was opened.
struct InfoLogs(Vec<String>);

impl InfoLogs {
    /// Reads the beginnings of the newest LOG files; files that cannot be read are left out.
    fn read(fs: &dyn FileSystem, directory: &Path) -> Self {
        let entries = fs.list(directory).unwrap_or_default();
        let mut logs: Vec<&str> = entries
            .iter()
            .filter(|entry| file_name::parse(&entry.name) == Some(FileKind::InfoLog))
            .map(|entry| &*entry.name)
            .collect();
        // `LOG`, then the newest of `LOG.old.<microseconds>`.
        logs.sort_unstable_by_key(|name| (name.contains('.'), std::cmp::Reverse(*name)));
        let texts = logs
            .into_iter()
            .take(LOG_FILES_MAX)
            .filter_map(|name| beginning(fs, &directory.join(name)));
        InfoLogs(texts.collect())
    }

    /// Returns the directories in which the database was opened, according to its LOG files.
    fn homes(&self) -> impl Iterator<Item = PathBuf> {
        self.0
            .iter()
            .flat_map(|text| text.lines().filter_map(home_of_line))
    }

    /// Whether a LOG file records `recorded` as the WAL directory.
    fn name_logs_in(&self, recorded: &Path) -> bool {
        let names = |line: &str| {
            let value = line.split_once(WAL_DIR_LINE);
            value.is_some_and(|(_, value)| Path::new(value.trim()) == recorded)
        };
        self.0.iter().any(|text| text.lines().any(names))
    }
}

/// Reads the first `SUMMARY_BYTES` bytes of a LOG file; `None` if it cannot be read.
fn beginning(fs: &dyn FileSystem, path: &Path) -> Option<String> {
    let options = OpenOptions {
        purpose: Purpose::Open,
        ..OpenOptions::default()
    };
    let file = fs.open(path, &options).ok()?;
    let mut bytes = vec![0; SUMMARY_BYTES];
    let read = file.read_at(0, &mut bytes).ok()?;
    bytes.truncate(read);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses the database directory from a line of the summary in LOG.
fn home_of_line(line: &str) -> Option<PathBuf> {
    let between = |from: &str, to: &str| {
        let (_, rest) = line.split_once(from)?;
        rest.rsplit_once(to).map(|(home, _)| PathBuf::from(home))
    };
    between("SST files in ", " dir, Total Num: ").or_else(|| {
        let is_ours = line.contains("KoelDB ");
        between(" opened ", " (session ").filter(|_| is_ours)
    })
}

/// Whether `recorded` is the directory of the database itself before it was copied or moved.
///
/// RocksDB up to 6.22 records the directory of the database if `wal_dir` is not set.
fn is_home(fs: &dyn FileSystem, info_logs: &InfoLogs, recorded: &Path) -> bool {
    info_logs.homes().any(|home| home == recorded)
        || fs.exists(&file_name::current(recorded)).unwrap_or(false)
}

/// Whether there is a database at `home` other than the one in `directory`.
fn is_other_database(fs: &dyn FileSystem, home: &Path, directory: &Path) -> bool {
    let identity = |path: &Path| fs.metadata(path).map(|metadata| metadata.identity).ok();
    fs.exists(&file_name::current(home)).unwrap_or(false)
        && (home != directory && identity(home) != identity(directory))
}

/// Reads `wal_dir` from the newest OPTIONS file; `None` if unset or the database directory.
fn recorded(fs: &dyn FileSystem, directory: &Path) -> Option<String> {
    let file = latest(fs, directory).ok()?;
    let bytes = fs.read_all(&file, OPTIONS_BYTES_MAX, Purpose::Open).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let value = text
        .lines()
        .find_map(|line| grammar::trim(line).strip_prefix("wal_dir="))?;
    let mut path = grammar::unescape(grammar::trim(value));
    while path.len() > 1 && path.ends_with('/') {
        path.pop();
    }
    (!path.is_empty() && Path::new(&path) != directory).then_some(path)
}

/// Fails if WAL files numbered from `oldest` on lie in a directory that the open does not read.
///
/// # Errors
/// `InvalidArgument` if the directory that is read has none, but the directory of the database has
/// some (`wal_dir` is named); or the directory in its OPTIONS file has some, or cannot be listed
/// (`wal_dir` is not named).
pub(crate) fn check_logs(
    fs: &dyn FileSystem,
    directory: &Path,
    wal_dir: &str,
    oldest: FileNumber,
) -> Result<()> {
    if !wal_dir.is_empty() {
        return check_named(fs, directory, Path::new(wal_dir), oldest);
    }
    if holds_logs(fs, directory, oldest) {
        return Ok(());
    }
    let Some(recorded) = recorded(fs, directory) else {
        return Ok(());
    };
    let elsewhere = Path::new(&recorded);
    if is_home(fs, &InfoLogs::read(fs, directory), elsewhere) {
        return Ok(());
    }
    if fs.list(elsewhere).is_ok() && !holds_logs(fs, elsewhere, oldest) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "{}: its OPTIONS file says that its logs lie in {recorded} (wal_dir), and the directory itself holds none: \
         set wal_dir to the directory that holds the logs of this database, not of one that it was copied from, or \
         to {0} to open it without them",
        directory.display()
    )))
}

/// Fails if the named WAL directory has no WAL files, but the database directory has some.
///
/// The directory in the OPTIONS file is not checked: a restored database may keep its logs
/// elsewhere.
fn check_named(
    fs: &dyn FileSystem,
    directory: &Path,
    named: &Path,
    oldest: FileNumber,
) -> Result<()> {
    if holds_logs(fs, named, oldest) || !holds_logs(fs, directory, oldest) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "wal_dir names {}, which has no logs of the database, but {} has some: move them there, or \
         open the database without wal_dir",
        named.display(),
        directory.display()
    )))
}
