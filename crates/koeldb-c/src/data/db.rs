//! Databases as a whole: opening and closing, identity, removal and repair.

use std::ffi::CStr;
use std::path::Path;
use std::time::Duration;

use koeldb::Db;

use crate::boundary::Failure;
use crate::memory::path;
use crate::settings::options::Options;

/// Opens a database.
pub(crate) fn open(options: &Options, name: &CStr) -> Result<Db, Failure> {
    Ok(Db::open(options.checked()?, path(name))?)
}

/// Opens a database read-only.
pub(crate) fn open_for_read_only(
    options: &Options,
    name: &CStr,
    error_if_wal_file_exists: bool,
) -> Result<Db, Failure> {
    let options = options.checked()?;
    let path = path(name);
    check_logs(options, path, error_if_wal_file_exists)?;
    Ok(Db::builder(options).read_only().open(path)?)
}

/// Checks that a database has no write-ahead log, if `error_if_wal_file_exists` demands it.
pub(crate) fn check_logs(
    options: &koeldb::Options,
    path: &Path,
    error_if_wal_file_exists: bool,
) -> Result<(), Failure> {
    let directory = match options.get_wal_dir() {
        directory if directory.as_os_str().is_empty() => path,
        directory => directory,
    };
    let fs = options.get_env().file_system();
    // The open itself reports a missing directory.
    if !error_if_wal_file_exists || !fs.exists(directory)? {
        return Ok(());
    }
    let is_log = |name: &str| {
        let number = name.strip_suffix(".log").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    match fs.list(directory)?.iter().find(|entry| is_log(&entry.name)) {
        None => Ok(()),
        Some(log) => Err(Failure::Text(format!(
            "Corruption: the database has the write-ahead log {} (error_if_wal_file_exists is true)",
            directory.join(&log.name).display()
        ))),
    }
}

/// Opens a database as a secondary, with a directory of its own.
pub(crate) fn open_as_secondary(
    options: &Options,
    name: &CStr,
    secondary_path: &CStr,
) -> Result<Db, Failure> {
    let mut builder = Db::builder(options.checked()?);
    Ok(builder.secondary(path(secondary_path)).open(path(name))?)
}

/// Returns a time to live in seconds; zero and negative numbers keep all values.
pub(crate) fn time_to_live(seconds: i32) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// Opens a database whose values expire.
pub(crate) fn open_with_ttl(options: &Options, name: &CStr, ttl: i32) -> Result<Db, Failure> {
    let options = options.checked()?;
    Ok(Db::open_with_ttl(options, path(name), time_to_live(ttl))?)
}

/// Closes a database. Iterators, snapshots and column families may outlive it.
pub(crate) fn close(db: Db) {
    // C has no place for the error; it is in LOG.
    let _ = db.close();
    drop(db);
}

/// Removes the files of a database.
pub(crate) fn destroy(options: &Options, name: &CStr) -> Result<(), Failure> {
    Ok(Db::destroy(options.checked()?, path(name))?)
}

/// Restores as much of a damaged database as possible.
pub(crate) fn repair(options: &Options, name: &CStr) -> Result<(), Failure> {
    Db::repair(options.checked()?, path(name))?;
    Ok(())
}

/// Returns the identity of a database.
pub(crate) fn identity(db: &Db) -> Option<&str> {
    Some(db.identity())
}

/// Returns the sequence number of the last write.
pub(crate) fn latest_sequence_number(db: &Db) -> u64 {
    db.latest_sequence_number()
}

/// Reads in a secondary what its primary has written.
pub(crate) fn try_catch_up_with_primary(db: &Db) -> koeldb::Result<()> {
    db.try_catch_up_with_primary().map(drop)
}
