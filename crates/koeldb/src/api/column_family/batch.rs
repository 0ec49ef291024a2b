//! Operations of a batch on the column family of a handle.

use koeldb_base::{Result, entity};

use super::ColumnFamily;
use crate::batch::WriteBatch;

impl WriteBatch {
    /// Records that the batch belongs to the database of `family`; returns the id of the family.
    fn bind_family(&mut self, family: &ColumnFamily) -> u32 {
        self.bind_database(family.database_id());
        family.id()
    }

    /// Sets the value of `key` in `family`.
    pub fn put_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        let cf = self.bind_family(family);
        self.put_id(cf, key.as_ref(), value.as_ref())
    }

    /// Sets the value of `key` in `family` to a wide-column entity: see [`WriteBatch::put_entity`].
    ///
    /// # Errors
    /// See [`WriteBatch::put_entity`].
    pub fn put_entity_cf<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        columns: &[(N, V)],
    ) -> Result<&mut Self> {
        let entity = entity::encode(columns)?;
        Ok(self.put_encoded_entity_cf(family, key.as_ref(), &entity))
    }

    /// Sets the value of `key` in `family` to an encoded wide-column entity.
    pub(crate) fn put_encoded_entity_cf(
        &mut self,
        family: &ColumnFamily,
        key: &[u8],
        entity: &[u8],
    ) -> &mut Self {
        let cf = self.bind_family(family);
        self.put_encoded_entity_id(cf, key, entity)
    }

    /// Adds a merge operand to `key` in `family`.
    pub fn merge_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut Self {
        let cf = self.bind_family(family);
        self.merge_id(cf, key.as_ref(), operand.as_ref())
    }

    /// Deletes `key` in `family`.
    pub fn delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Self {
        let cf = self.bind_family(family);
        self.delete_id(cf, key.as_ref())
    }

    /// Deletes `key` in `family`: see [`ColumnFamily::single_delete`].
    ///
    /// It must have been put exactly once since its last single deletion.
    pub fn single_delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Self {
        let cf = self.bind_family(family);
        self.single_delete_id(cf, key.as_ref())
    }

    /// Deletes the keys in `[from, to)` in `family`.
    pub fn delete_range_cf(
        &mut self,
        family: &ColumnFamily,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> &mut Self {
        let cf = self.bind_family(family);
        self.delete_range_id(cf, from.as_ref(), to.as_ref())
    }
}
