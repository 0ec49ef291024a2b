//! Writes with user-defined timestamps, and the timestamp up to which history may be collapsed.

use koeldb_base::timestamp::{Timestamp, join};
use koeldb_base::{Error, Result};

use super::ColumnFamily;
use crate::batch::WriteBatch;
use crate::options::WriteOptions;

impl ColumnFamily {
    /// Writes one operation whose keys have `timestamp`.
    fn write_one_with_ts<const KEYS: usize>(
        &self,
        keys: [&[u8]; KEYS],
        timestamp: &Timestamp,
        options: &WriteOptions,
        append: impl FnOnce(&mut WriteBatch, u32, [&[u8]; KEYS]),
    ) -> Result<()> {
        let dated = keys.map(|key| join(key, timestamp));
        self.write_one(options, |batch, cf| {
            batch.dated(false, |batch| {
                append(batch, cf, dated.each_ref().map(Vec::as_slice));
            });
        })
    }

    /// Sets the value of `key` at a user-defined timestamp.
    ///
    /// The timestamps of a key must not fall. The comparator of the column family must have
    /// timestamps, such as [`BytewiseComparatorWithU64Ts`](crate::BytewiseComparatorWithU64Ts).
    ///
    /// ```
    /// use koeldb::{BytewiseComparatorWithU64Ts, Db, Env, Options, ReadOptions};
    ///
    /// let mut options = Options::new();
    /// options.create_if_missing(true).set_env(&Env::mem_env());
    /// options.set_comparator(BytewiseComparatorWithU64Ts);
    /// let db = Db::open(&options, "/versions")?;
    /// let (at_1, at_5) = (1_u64.to_le_bytes(), 5_u64.to_le_bytes());
    /// db.default_cf().put_with_ts("key", at_1, "old")?;
    /// db.default_cf().put_with_ts("key", at_5, "new")?;
    /// let mut read = ReadOptions::new();
    /// read.set_timestamp(4_u64.to_le_bytes());
    /// assert_eq!(db.get_opt("key", &read)?.as_deref(), Some(&b"old"[..]));
    /// # Ok::<(), koeldb::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`ColumnFamily::put`]; `InvalidArgument` if the column family has no timestamps.
    pub fn put_with_ts(
        &self,
        key: impl AsRef<[u8]>,
        timestamp: Timestamp,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put_with_ts_opt(key, timestamp, value, &WriteOptions::new())
    }

    /// Like [`ColumnFamily::put_with_ts`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::put_with_ts`].
    pub fn put_with_ts_opt(
        &self,
        key: impl AsRef<[u8]>,
        timestamp: Timestamp,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let value = value.as_ref();
        self.write_one_with_ts([key.as_ref()], &timestamp, options, |batch, cf, [key]| {
            batch.put_id(cf, key, value);
        })
    }

    /// Adds a merge operand to `key` at a user-defined timestamp.
    ///
    /// # Errors
    /// See [`ColumnFamily::merge`]; `InvalidArgument` if the column family has no timestamps.
    pub fn merge_with_ts(
        &self,
        key: impl AsRef<[u8]>,
        timestamp: Timestamp,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.merge_with_ts_opt(key, timestamp, operand, &WriteOptions::new())
    }

    /// Like [`ColumnFamily::merge_with_ts`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::merge_with_ts`].
    pub fn merge_with_ts_opt(
        &self,
        key: impl AsRef<[u8]>,
        timestamp: Timestamp,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.check_merge_operator()?;
        let operand = operand.as_ref();
        self.write_one_with_ts([key.as_ref()], &timestamp, options, |batch, cf, [key]| {
            batch.merge_id(cf, key, operand);
        })
    }

    /// Deletes `key` at a user-defined timestamp: reads at older ones still find it.
    ///
    /// # Errors
    /// See [`ColumnFamily::delete`]; `InvalidArgument` if the column family has no timestamps.
    pub fn delete_with_ts(&self, key: impl AsRef<[u8]>, timestamp: Timestamp) -> Result<()> {
        self.delete_with_ts_opt(key, timestamp, &WriteOptions::new())
    }

    /// Like [`ColumnFamily::delete_with_ts`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::delete_with_ts`].
    pub fn delete_with_ts_opt(
        &self,
        key: impl AsRef<[u8]>,
        timestamp: Timestamp,
        options: &WriteOptions,
    ) -> Result<()> {
        self.write_one_with_ts([key.as_ref()], &timestamp, options, |batch, cf, [key]| {
            batch.delete_id(cf, key);
        })
    }

    /// Deletes `key`, which was put exactly once since its last single deletion, at a user-defined
    /// timestamp.
    ///
    /// # Errors
    /// See [`ColumnFamily::single_delete`]; `InvalidArgument` if the column family has no
    /// timestamps.
    pub fn single_delete_with_ts(&self, key: impl AsRef<[u8]>, timestamp: Timestamp) -> Result<()> {
        self.single_delete_with_ts_opt(key, timestamp, &WriteOptions::new())
    }

    /// Like [`ColumnFamily::single_delete_with_ts`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::single_delete_with_ts`].
    pub fn single_delete_with_ts_opt(
        &self,
        key: impl AsRef<[u8]>,
        timestamp: Timestamp,
        options: &WriteOptions,
    ) -> Result<()> {
        self.write_one_with_ts([key.as_ref()], &timestamp, options, |batch, cf, [key]| {
            batch.single_delete_id(cf, key);
        })
    }

    /// Deletes the keys in `[from, to)` at a user-defined timestamp.
    ///
    /// # Errors
    /// See [`ColumnFamily::delete_range`]; `InvalidArgument` if the column family has no timestamps.
    pub fn delete_range_with_ts(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        timestamp: Timestamp,
    ) -> Result<()> {
        self.delete_range_with_ts_opt(from, to, timestamp, &WriteOptions::new())
    }

    /// Like [`ColumnFamily::delete_range_with_ts`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::delete_range_with_ts`].
    pub fn delete_range_with_ts_opt(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        timestamp: Timestamp,
        options: &WriteOptions,
    ) -> Result<()> {
        let keys = [from.as_ref(), to.as_ref()];
        self.write_one_with_ts(keys, &timestamp, options, |batch, cf, [from, to]| {
            batch.delete_range_id(cf, from, to);
        })
    }

    /// The user-defined timestamp below which history may be collapsed; `None` if it never was set.
    ///
    /// Reads at older timestamps fail.
    ///
    /// # Errors
    /// `InvalidArgument` if the column family has no timestamps.
    pub fn full_history_ts_low(&self) -> Result<Option<Timestamp>> {
        self.check_timestamps()?;
        Ok(self.data().version().full_history_ts_low)
    }

    /// Raises the user-defined timestamp below which history may be collapsed.
    ///
    /// Of the versions of a key before it, flushes and compactions then keep the newest only, and
    /// none if that is a deletion in the last level. It is durable when the call returns.
    ///
    /// # Errors
    /// `InvalidArgument` if the timestamp is older than the current one, or the column family has
    /// no timestamps; `TryAgain` if another call has raised it further; otherwise if the MANIFEST
    /// cannot be written.
    pub fn increase_full_history_ts_low(&self, timestamp: Timestamp) -> Result<()> {
        self.check_timestamps()?;
        let inner = self.inner();
        inner.health.check_writable()?;
        inner.commit.tree.raise_history(self.data(), &timestamp)?;
        // Memtables may have waited for it.
        inner.commit.background.schedule();
        Ok(())
    }

    /// Fails with `InvalidArgument` if keys have no user-defined timestamps.
    fn check_timestamps(&self) -> Result<()> {
        match self.data().has_timestamps {
            true => Ok(()),
            false => Err(Error::invalid_argument(format!(
                "column family {:?} has no user-defined timestamps",
                self.name()
            ))),
        }
    }
}
