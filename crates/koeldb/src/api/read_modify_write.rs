//! Atomic updates of single entries, and calls that the standard library's maps have.
//!
//! An update reads and writes in a transaction, and repeats both after a conflict.

use koeldb_base::{PinnedSlice, Result};

use crate::api::column_family::ColumnFamily;
use crate::api::db::Db;
use crate::api::transaction::Transaction;
use crate::options::TransactionOptions;

impl ColumnFamily {
    /// Returns the first entry in key order, if there is one.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`].
    pub fn first_key_value(&self) -> Result<Option<(PinnedSlice, PinnedSlice)>> {
        self.range(..).next().transpose()
    }

    /// Returns the last entry in key order, if there is one.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`].
    pub fn last_key_value(&self) -> Result<Option<(PinnedSlice, PinnedSlice)>> {
        self.range(..).next_back().transpose()
    }

    /// Replaces the value of `key` by the result of `update`; returns the previous value.
    ///
    /// `update` gets the current value, or `None`; its result `None` deletes the key. No other
    /// write of the key takes effect in between. `update` runs again after a conflict, so it must
    /// have no other effects.
    ///
    /// ```
    /// # fn main() -> koeldb::Result<()> {
    /// let db = koeldb::Db::temporary()?;
    /// let increment = |old: Option<&[u8]>| {
    ///     let count = old.and_then(|old| old.try_into().ok()).map_or(0, u64::from_le_bytes);
    ///     Some((count + 1).to_le_bytes().to_vec())
    /// };
    /// assert!(db.fetch_update("visits", increment)?.is_none());
    /// assert_eq!(db.fetch_update("visits", increment)?.as_deref(), Some(&1u64.to_le_bytes()[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`Db::transact`]; with much contention the conflict of the last attempt, which is
    /// [retryable](crate::Error::is_retryable).
    pub fn fetch_update(
        &self,
        key: impl AsRef<[u8]>,
        mut update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<PinnedSlice>> {
        let key = key.as_ref();
        self.db()
            .transact(&TransactionOptions::new(), |transaction| {
                let old = transaction.get_for_update_cf(self, key)?;
                match update(old.as_deref()) {
                    Some(new) => transaction.put_cf(self, key, new)?,
                    None if old.is_some() => transaction.delete_cf(self, key)?,
                    None => {}
                }
                Ok(old)
            })
    }

    /// Removes the first entry in key order and returns it.
    ///
    /// No two calls return the same entry. An entry that another thread writes before the first one
    /// meanwhile may be passed over.
    ///
    /// # Errors
    /// See [`ColumnFamily::fetch_update`].
    pub fn pop_first(&self) -> Result<Option<(PinnedSlice, PinnedSlice)>> {
        self.pop(|family| family.first_key_value())
    }

    /// Removes the last entry in key order and returns it.
    ///
    /// See [`ColumnFamily::pop_first`].
    ///
    /// # Errors
    /// See [`ColumnFamily::fetch_update`].
    pub fn pop_last(&self) -> Result<Option<(PinnedSlice, PinnedSlice)>> {
        self.pop(|family| family.last_key_value())
    }

    /// Removes and returns the first or last entry, which `end` reads, in a transaction.
    fn pop(
        &self,
        end: impl Fn(&ColumnFamily) -> Result<Option<(PinnedSlice, PinnedSlice)>>,
    ) -> Result<Option<(PinnedSlice, PinnedSlice)>> {
        self.db()
            .transact(&TransactionOptions::new(), |transaction| {
                // An entry that disappears before it is read for update is no longer at the end.
                while let Some((key, _)) = end(self)? {
                    if let Some(value) = self.take(transaction, &key)? {
                        return Ok(Some((key, value)));
                    }
                }
                Ok(None)
            })
    }

    /// Locks and deletes `key` in the transaction; returns its value, `None` if it is missing.
    fn take(&self, transaction: &mut Transaction, key: &[u8]) -> Result<Option<PinnedSlice>> {
        let value = transaction.get_for_update_cf(self, key)?;
        if value.is_some() {
            transaction.delete_cf(self, key)?;
        }
        Ok(value)
    }

    /// Estimates the number of entries: the property `rocksdb.estimate-num-keys`.
    ///
    /// Overwritten and deleted entries that no compaction has removed yet distort it.
    ///
    /// # Errors
    /// If a table must be opened for it and that fails.
    pub fn approximate_len(&self) -> Result<u64> {
        let estimate = self.property_int_value("rocksdb.estimate-num-keys")?;
        Ok(estimate.unwrap_or(0))
    }
}

/// Atomic updates, first and last entries of the default column family.
impl Db {
    /// Returns the first entry in key order, if there is one.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`].
    pub fn first_key_value(&self) -> Result<Option<(PinnedSlice, PinnedSlice)>> {
        self.default_cf().first_key_value()
    }

    /// Returns the last entry in key order, if there is one.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`].
    pub fn last_key_value(&self) -> Result<Option<(PinnedSlice, PinnedSlice)>> {
        self.default_cf().last_key_value()
    }

    /// Replaces the value of `key` by the result of `update`; returns the previous value.
    ///
    /// # Errors
    /// See [`ColumnFamily::fetch_update`].
    pub fn fetch_update(
        &self,
        key: impl AsRef<[u8]>,
        update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<PinnedSlice>> {
        self.default_cf().fetch_update(key, update)
    }

    /// Removes the first entry in key order and returns it.
    ///
    /// # Errors
    /// See [`ColumnFamily::pop_first`].
    pub fn pop_first(&self) -> Result<Option<(PinnedSlice, PinnedSlice)>> {
        self.default_cf().pop_first()
    }

    /// Removes the last entry in key order and returns it.
    ///
    /// # Errors
    /// See [`ColumnFamily::pop_first`].
    pub fn pop_last(&self) -> Result<Option<(PinnedSlice, PinnedSlice)>> {
        self.default_cf().pop_last()
    }

    /// Estimates the number of entries.
    ///
    /// # Errors
    /// See [`ColumnFamily::approximate_len`].
    pub fn approximate_len(&self) -> Result<u64> {
        self.default_cf().approximate_len()
    }
}
