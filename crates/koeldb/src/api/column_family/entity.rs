//! Writes and reads of wide-column entities by a handle.

use koeldb_base::entity::{self, WideColumns};
use koeldb_base::{Error, Result};

use super::ColumnFamily;
use crate::options::WriteOptions;
use crate::read::ReadOptions;

impl ColumnFamily {
    /// Sets the value of `key` to a wide-column entity: `columns` are names and values, in any order.
    ///
    /// Plain reads show the value of the default column, which has the empty name, or an empty value
    /// if there is none. A merge changes the default column and keeps the others. Cuckoo tables have
    /// no entities: a flush writes a block-based table instead.
    ///
    /// ```
    /// use koeldb::Db;
    ///
    /// let db = Db::temporary()?;
    /// db.put_entity("ada", &[("born", "1815"), ("", "Lovelace")])?;
    /// let columns = db.get_entity("ada")?.unwrap();
    /// assert_eq!(columns.get("born"), Some(&b"1815"[..]));
    /// assert_eq!(db.get("ada")?.as_deref(), Some(&b"Lovelace"[..]));
    /// # Ok::<(), koeldb::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if two columns have the same name; `NotSupported` in a TTL database; see
    /// [`Db::write_opt`](crate::Db::write_opt).
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        columns: &[(N, V)],
    ) -> Result<()> {
        self.put_entity_opt(key, columns, &WriteOptions::new())
    }

    /// Like [`ColumnFamily::put_entity`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::put_entity`].
    pub fn put_entity_opt<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        columns: &[(N, V)],
        options: &WriteOptions,
    ) -> Result<()> {
        let not_applied = |error: Error| error.with_outcome(crate::WriteOutcome::NotApplied);
        let entity = entity::encode(columns).map_err(not_applied)?;
        let key = key.as_ref();
        self.write_one(options, |batch, cf| {
            batch.put_encoded_entity_id(cf, key, &entity);
        })
    }

    /// Returns the columns of `key`, or `None` if it has no value.
    ///
    /// A plain value is returned as the default column.
    ///
    /// # Errors
    /// See [`ColumnFamily::get`].
    pub fn get_entity(&self, key: impl AsRef<[u8]>) -> Result<Option<WideColumns>> {
        self.get_entity_opt(key, &ReadOptions::new())
    }

    /// Like [`ColumnFamily::get_entity`], with `options`.
    ///
    /// # Errors
    /// See [`ColumnFamily::get_opt`].
    pub fn get_entity_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<WideColumns>> {
        let reads = &self.inner().reads;
        reads.get_entity(self.data(), key.as_ref(), options)
    }

    /// Returns the columns of `keys` in their order, each with its own result.
    ///
    /// # Errors
    /// Each result has the error of its key alone: see [`ColumnFamily::get_entity`].
    #[must_use]
    pub fn multi_get_entity<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<WideColumns>>> {
        self.multi_get_entity_opt(keys, &ReadOptions::new())
    }

    /// Like [`ColumnFamily::multi_get_entity`], with `options`.
    ///
    /// # Errors
    /// Each result has the error of its key alone: see [`ColumnFamily::get_entity_opt`].
    #[must_use]
    pub fn multi_get_entity_opt<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<WideColumns>>> {
        let reads = &self.inner().reads;
        reads.multi_get_entity(self.data(), keys, options)
    }
}
