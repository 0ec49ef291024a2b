//! The writes of a transaction, which go to its batch.

use koeldb_base::{Error, Result, entity};

use super::errors;
use super::key_use::{Target, Use};
use super::transaction::Transaction;
use crate::api::column_family::ColumnFamily;
use crate::api::indexed_batch::WriteBatchWithIndex;

impl Transaction {
    /// Locks or tracks `key`, then lets `write` add to the batch, up to `max_write_batch_size`.
    fn write(
        &mut self,
        family: &ColumnFamily,
        key: &[u8],
        validates: bool,
        write: impl FnOnce(&mut WriteBatchWithIndex),
    ) -> Result<()> {
        let bytes_max = self.options.max_write_batch_size;
        let bytes = self.batch.batch().size_in_bytes();
        if bytes_max > 0 && bytes >= bytes_max {
            return Err(errors::batch_too_large(bytes, bytes_max));
        }
        self.use_key(Target {
            family,
            key,
            as_what: Use::Write,
            validates,
        })?;
        if bytes_max == 0 {
            write(&mut self.batch);
            return Ok(());
        }
        self.batch.set_save_point();
        write(&mut self.batch);
        let bytes = self.batch.batch().size_in_bytes();
        if bytes > bytes_max {
            self.batch.rollback_to_save_point()?;
            return Err(errors::batch_too_large(bytes, bytes_max));
        }
        self.batch.pop_save_point()
    }

    /// Sets the value of `key` in the default column family.
    ///
    /// # Errors
    /// `Busy` if the key was written since the snapshot, or if waiting for its lock would be a
    /// deadlock; `TimedOut` if its lock was not acquired in time; `Expired`; `Aborted` if there are
    /// `max_num_locks` locks; `MemoryLimit` if the batch exceeds `max_write_batch_size`. The
    /// transaction is then as before.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let family = self.db.default_cf().clone();
        self.put_cf(&family, key, value)
    }

    /// Sets the value of `key` in `family`.
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn put_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let key = key.as_ref();
        self.write(family, key, true, |batch| {
            batch.put_cf(family, key, value);
        })
    }

    /// Like [`Transaction::put_cf`], without a check for conflicting writes.
    ///
    /// A pessimistic transaction still locks the key.
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn put_untracked(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let key = key.as_ref();
        self.write(family, key, false, |batch| {
            batch.put_cf(family, key, value);
        })
    }

    /// Sets the value of `key` in the default column family to a wide-column entity.
    ///
    /// See [`ColumnFamily::put_entity`].
    ///
    /// # Errors
    /// See [`Transaction::put`]; `InvalidArgument` if two columns have the same name.
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        columns: &[(N, V)],
    ) -> Result<()> {
        let family = self.db.default_cf().clone();
        self.put_entity_cf(&family, key, columns)
    }

    /// Sets the value of `key` in `family` to a wide-column entity.
    ///
    /// # Errors
    /// See [`Transaction::put_entity`].
    pub fn put_entity_cf<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        columns: &[(N, V)],
    ) -> Result<()> {
        let (key, entity) = (key.as_ref(), entity::encode(columns)?);
        self.write(family, key, true, |batch| {
            batch.put_encoded_entity_cf(family, key, &entity);
        })
    }

    /// Like [`Transaction::put_entity_cf`], without a check for conflicting writes.
    ///
    /// A pessimistic transaction still locks the key.
    ///
    /// # Errors
    /// See [`Transaction::put_entity`].
    pub fn put_entity_untracked<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        columns: &[(N, V)],
    ) -> Result<()> {
        let (key, entity) = (key.as_ref(), entity::encode(columns)?);
        self.write(family, key, false, |batch| {
            batch.put_encoded_entity_cf(family, key, &entity);
        })
    }

    /// Deletes `key` in the default column family.
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let family = self.db.default_cf().clone();
        self.delete_cf(&family, key)
    }

    /// Deletes `key` in `family`.
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.write(family, key, true, |batch| {
            batch.delete_cf(family, key);
        })
    }

    /// Like [`Transaction::delete_cf`], without a check for conflicting writes.
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn delete_untracked(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.write(family, key, false, |batch| {
            batch.delete_cf(family, key);
        })
    }

    /// Deletes `key` in `family`, put exactly once: see [`ColumnFamily::single_delete`].
    ///
    /// # Errors
    /// See [`Transaction::put`].
    pub fn single_delete(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.write(family, key, true, |batch| {
            batch.single_delete_cf(family, key);
        })
    }

    /// Adds a merge operand to `key` in the default column family.
    ///
    /// # Errors
    /// See [`Transaction::put`]; `NotSupported` without a merge operator.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let family = self.db.default_cf().clone();
        self.merge_cf(&family, key, operand)
    }

    /// Adds a merge operand to `key` in `family`.
    ///
    /// # Errors
    /// See [`Transaction::put`]; `NotSupported` without a merge operator.
    pub fn merge_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        if family.data().options().merge_operator.is_none() {
            return Err(Error::not_supported(format!(
                "column family {:?} has no merge_operator: set one before merging",
                family.name()
            )));
        }
        let key = key.as_ref();
        self.write(family, key, true, |batch| {
            batch.merge_cf(family, key, operand);
        })
    }

    /// Adds log data, which is written only to the log.
    pub fn put_log_data(&mut self, note: impl AsRef<[u8]>) {
        self.batch.put_log_data(note);
    }
}
