//! Databases: opening, closing, reads and writes.

use std::ffi::CStr;

use koeldb::{ColumnFamily, Db, PinnedSlice, WriteOptions};

use crate::boundary::Failure;
use crate::memory::path;
use crate::settings::options::Options;
use crate::settings::read::ReadOptions;

/// Opens a database.
pub(crate) fn open(options: &Options, name: &CStr) -> Result<Db, Failure> {
    Ok(Db::open(options.checked()?, path(name))?)
}

/// Writes a key.
pub(crate) fn put(db: &Db, options: &WriteOptions, key: &[u8], value: &[u8]) -> koeldb::Result<()> {
    db.put_opt(key, value, options)
}

/// Writes a key of a column family.
pub(crate) fn put_cf(
    _: &Db,
    options: &WriteOptions,
    family: &ColumnFamily,
    key: &[u8],
    value: &[u8],
) -> koeldb::Result<()> {
    family.put_opt(key, value, options)
}

/// Returns the value of a key.
pub(crate) fn get(
    db: &Db,
    options: &ReadOptions,
    key: &[u8],
) -> koeldb::Result<Option<PinnedSlice>> {
    db.get_opt(key, &options.inner)
}

/// Closes a database for good; iterators, snapshots and families that outlive it are harmless.
pub(crate) fn close(db: Db) {
    // C has no place for the error; it is in LOG.
    let _ = db.close();
}
