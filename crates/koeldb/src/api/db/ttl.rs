//! TTL databases: see [`crate::state::ttl`].

use std::path::Path;
use std::time::Duration;

use koeldb_base::{Error, Result};

use super::Db;
use crate::api::column_family::ColumnFamily;
use crate::options::Options;

impl Db {
    /// Opens a database whose compactions remove values older than `ttl`; zero keeps all.
    ///
    /// Values carry the time at which they were written, as in RocksDB's `DBWithTTL`. The database
    /// must always be opened so: without it, reads return values with their times. In it, values
    /// without times are an error, or lose 4 bytes that look like a time since 2013. An expired
    /// value is readable until a compaction reads it.
    /// [`Db::builder`] opens several column families, and secondaries.
    ///
    /// # Errors
    /// `NotSupported` with `Options::set_transactions` or cuckoo tables; otherwise see [`Db::open`].
    pub fn open_with_ttl(options: &Options, path: impl AsRef<Path>, ttl: Duration) -> Result<Db> {
        Db::builder(options).ttl(ttl).open(path)
    }

    /// Changes the time to live of the default column family: see [`ColumnFamily::set_ttl`].
    ///
    /// # Errors
    /// `InvalidArgument` if this is no TTL database.
    pub fn set_ttl(&self, ttl: Duration) -> Result<()> {
        self.default_cf().set_ttl(ttl)
    }
}

impl ColumnFamily {
    /// Changes the time to live of values, for compactions that run from now on; zero keeps all.
    ///
    /// The change lasts until the database is closed. Fractions of seconds are cut off.
    ///
    /// # Errors
    /// `InvalidArgument` if this is no TTL database.
    pub fn set_ttl(&self, ttl: Duration) -> Result<()> {
        let cell = self.data().ttl.as_ref().ok_or_else(no_ttl)?;
        cell.set(ttl);
        Ok(())
    }

    /// Returns the time to live of values; zero for ever, `None` if this is no TTL database.
    #[must_use]
    pub fn ttl(&self) -> Option<Duration> {
        Some(self.data().ttl.as_ref()?.get())
    }
}

/// Returns the error of a TTL operation on a database without a time to live.
fn no_ttl() -> Error {
    Error::invalid_argument("the database was not opened with a time to live")
}
