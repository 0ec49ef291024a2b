//! Operations of a batch on the column family of a handle.

use koeldb_base::timestamp::{MIN_TIMESTAMP, Timestamp, join};
use koeldb_base::{Result, entity};

use super::ColumnFamily;
use crate::batch::WriteBatch;

impl WriteBatch {
    /// Records that the batch belongs to the database of `family`; returns the id of the family.
    fn bind_family(&mut self, family: &ColumnFamily) -> u32 {
        self.bind_database(family.database_id());
        family.id()
    }

    /// Appends an operation of a family: with `timestamp`, or with room for one to be set later if
    /// the keys of the family have timestamps.
    ///
    /// `append` appends it with the keys that are passed to it.
    fn append_to<const KEYS: usize>(
        &mut self,
        family: &ColumnFamily,
        keys: [&[u8]; KEYS],
        timestamp: Option<&Timestamp>,
        append: impl FnOnce(&mut WriteBatch, u32, [&[u8]; KEYS]),
    ) -> &mut Self {
        let cf = self.bind_family(family);
        if timestamp.is_none() && !family.data().has_timestamps {
            append(self, cf, keys);
            return self;
        }
        let time = timestamp.unwrap_or(&MIN_TIMESTAMP);
        let dated = keys.map(|key| join(key, time));
        self.dated(timestamp.is_none(), |batch| {
            append(batch, cf, dated.each_ref().map(Vec::as_slice));
        })
    }

    /// Sets the value of `key` in `family`.
    ///
    /// If the family has user-defined timestamps, [`WriteBatch::update_timestamps`] must set that of
    /// the operation before the batch is written.
    pub fn put_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        let value = value.as_ref();
        self.append_to(family, [key.as_ref()], None, |batch, cf, [key]| {
            batch.put_id(cf, key, value);
        })
    }

    /// Sets the value of `key` in `family` at a user-defined timestamp.
    ///
    /// The timestamps of a key must not fall.
    pub fn put_cf_with_ts(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        timestamp: Timestamp,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        let value = value.as_ref();
        self.append_to(
            family,
            [key.as_ref()],
            Some(&timestamp),
            |batch, cf, [key]| {
                batch.put_id(cf, key, value);
            },
        )
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

    /// Adds a merge operand to `key` in `family`; for timestamps see [`WriteBatch::put_cf`].
    pub fn merge_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut Self {
        let operand = operand.as_ref();
        self.append_to(family, [key.as_ref()], None, |batch, cf, [key]| {
            batch.merge_id(cf, key, operand);
        })
    }

    /// Adds a merge operand to `key` in `family` at a user-defined timestamp.
    pub fn merge_cf_with_ts(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        timestamp: Timestamp,
        operand: impl AsRef<[u8]>,
    ) -> &mut Self {
        let operand = operand.as_ref();
        self.append_to(
            family,
            [key.as_ref()],
            Some(&timestamp),
            |batch, cf, [key]| {
                batch.merge_id(cf, key, operand);
            },
        )
    }

    /// Deletes `key` in `family`; for timestamps see [`WriteBatch::put_cf`].
    pub fn delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Self {
        self.append_to(family, [key.as_ref()], None, |batch, cf, [key]| {
            batch.delete_id(cf, key);
        })
    }

    /// Deletes `key` in `family` at a user-defined timestamp.
    pub fn delete_cf_with_ts(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        timestamp: Timestamp,
    ) -> &mut Self {
        self.append_to(
            family,
            [key.as_ref()],
            Some(&timestamp),
            |batch, cf, [key]| {
                batch.delete_id(cf, key);
            },
        )
    }

    /// Deletes `key` in `family`: see [`ColumnFamily::single_delete`].
    ///
    /// It must have been put exactly once since its last single deletion. For timestamps see
    /// [`WriteBatch::put_cf`].
    pub fn single_delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Self {
        self.append_to(family, [key.as_ref()], None, |batch, cf, [key]| {
            batch.single_delete_id(cf, key);
        })
    }

    /// Deletes `key` in `family` at a user-defined timestamp: see [`ColumnFamily::single_delete`].
    pub fn single_delete_cf_with_ts(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        timestamp: Timestamp,
    ) -> &mut Self {
        self.append_to(
            family,
            [key.as_ref()],
            Some(&timestamp),
            |batch, cf, [key]| {
                batch.single_delete_id(cf, key);
            },
        )
    }

    /// Deletes the keys in `[from, to)` in `family`; for timestamps see [`WriteBatch::put_cf`].
    pub fn delete_range_cf(
        &mut self,
        family: &ColumnFamily,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> &mut Self {
        let keys = [from.as_ref(), to.as_ref()];
        self.append_to(family, keys, None, |batch, cf, [from, to]| {
            batch.delete_range_id(cf, from, to);
        })
    }

    /// Deletes the keys in `[from, to)` in `family` at a user-defined timestamp.
    pub fn delete_range_cf_with_ts(
        &mut self,
        family: &ColumnFamily,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        timestamp: Timestamp,
    ) -> &mut Self {
        let keys = [from.as_ref(), to.as_ref()];
        self.append_to(family, keys, Some(&timestamp), |batch, cf, [from, to]| {
            batch.delete_range_id(cf, from, to);
        })
    }
}
