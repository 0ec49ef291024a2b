//! Writes of single keys and of batches.

use koeldb::{ColumnFamily, Db, WriteBatch, WriteOptions};

use crate::boundary::Failure;
use crate::data::timestamps;

/// Writes of a key alone.
macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident, $name_cf:ident = $method:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(db: &Db, options: &WriteOptions, key: &[u8]) -> koeldb::Result<()> {
            db.$method(key, options)
        }

        $(#[$doc])*
        pub(crate) fn $name_cf(
            _: &Db,
            options: &WriteOptions,
            family: &ColumnFamily,
            key: &[u8],
        ) -> koeldb::Result<()> {
            family.$method(key, options)
        }
    )*};
}

/// Writes of a key and a value.
macro_rules! pairs {
    ($($(#[$doc:meta])* $name:ident, $name_cf:ident = $method:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(
            db: &Db,
            options: &WriteOptions,
            key: &[u8],
            value: &[u8],
        ) -> koeldb::Result<()> {
            db.$method(key, value, options)
        }

        $(#[$doc])*
        pub(crate) fn $name_cf(
            _: &Db,
            options: &WriteOptions,
            family: &ColumnFamily,
            key: &[u8],
            value: &[u8],
        ) -> koeldb::Result<()> {
            family.$method(key, value, options)
        }
    )*};
}

/// Deletions of a key at a timestamp.
macro_rules! deletions_with_ts {
    ($($(#[$doc:meta])* $name:ident, $name_cf:ident = $method:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(
            db: &Db,
            options: &WriteOptions,
            key: &[u8],
            timestamp: &[u8],
        ) -> Result<(), Failure> {
            $name_cf(db, options, db.default_cf(), key, timestamp)
        }

        $(#[$doc])*
        pub(crate) fn $name_cf(
            _: &Db,
            options: &WriteOptions,
            family: &ColumnFamily,
            key: &[u8],
            timestamp: &[u8],
        ) -> Result<(), Failure> {
            Ok(family.$method(key, timestamps::of(timestamp)?, options)?)
        }
    )*};
}

keys! {
    /// Deletes a key.
    delete, delete_cf = delete_opt;
    /// Deletes a key that was put once.
    single_delete, single_delete_cf = single_delete_opt;
}

pairs! {
    /// Writes a key.
    put, put_cf = put_opt;
    /// Adds a merge operand to a key.
    merge, merge_cf = merge_opt;
}

deletions_with_ts! {
    /// Deletes a key at a timestamp.
    delete_with_ts, delete_cf_with_ts = delete_with_ts_opt;
    /// Deletes a key that was put once, at a timestamp.
    single_delete_with_ts, single_delete_cf_with_ts = single_delete_with_ts_opt;
}

/// Writes a key at a timestamp.
pub(crate) fn put_with_ts(
    db: &Db,
    options: &WriteOptions,
    key: &[u8],
    timestamp: &[u8],
    value: &[u8],
) -> Result<(), Failure> {
    put_cf_with_ts(db, options, db.default_cf(), key, timestamp, value)
}

/// Writes a key of a column family at a timestamp.
pub(crate) fn put_cf_with_ts(
    _: &Db,
    options: &WriteOptions,
    family: &ColumnFamily,
    key: &[u8],
    timestamp: &[u8],
    value: &[u8],
) -> Result<(), Failure> {
    Ok(family.put_with_ts_opt(key, timestamps::of(timestamp)?, value, options)?)
}

/// Deletes the keys of a range, without its end.
pub(crate) fn delete_range_cf(
    _: &Db,
    options: &WriteOptions,
    family: &ColumnFamily,
    from: &[u8],
    to: &[u8],
) -> koeldb::Result<()> {
    family.delete_range_opt(from, to, options)
}

/// Writes a batch.
pub(crate) fn write(db: &Db, options: &WriteOptions, batch: &WriteBatch) -> koeldb::Result<()> {
    db.write_opt(batch, options)
}
