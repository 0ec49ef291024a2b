//! Reads of a snapshot.

use koeldb_base::entity::WideColumns;
use koeldb_base::{PinnedSlice, Result};

use super::Db;
use crate::api::column_family::ColumnFamily;
use crate::read::snapshot::Snapshot;
use crate::read::{DbCursor, DbIterator, PinnedSlices, ReadOptions};
use crate::state::key_bounds::IterateBounds;

impl Snapshot {
    fn db(&self) -> Db {
        Db::from_inner(self.inner())
    }

    /// Returns read options that read as of this snapshot.
    fn options(&self) -> ReadOptions {
        ReadOptions::at(self)
    }

    /// Returns the value of `key` in the default column family, as of the snapshot.
    ///
    /// # Errors
    /// See [`Db::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        let inner = self.inner();
        inner
            .reads
            .get(&inner.default, key.as_ref(), &self.options())
    }

    /// Returns the value of `key` in `family`, as of the snapshot.
    ///
    /// # Errors
    /// See [`Db::get`].
    pub fn get_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        family.get_opt(key, &self.options())
    }

    /// Returns the columns of `key` in the default column family, as of the snapshot.
    ///
    /// # Errors
    /// See [`Db::get_entity`].
    pub fn get_entity(&self, key: impl AsRef<[u8]>) -> Result<Option<WideColumns>> {
        self.db().get_entity_opt(key, &self.options())
    }

    /// Returns the columns of `key` in `family`, as of the snapshot.
    ///
    /// # Errors
    /// See [`Db::get_entity`].
    pub fn get_entity_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<WideColumns>> {
        family.get_entity_opt(key, &self.options())
    }

    /// Returns the values of `keys` in the default column family, as of the snapshot.
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> PinnedSlices {
        self.db().multi_get_opt(keys, &self.options())
    }

    /// Returns the values of `keys` in `family`, as of the snapshot.
    #[must_use]
    pub fn multi_get_cf<K: AsRef<[u8]>>(&self, family: &ColumnFamily, keys: &[K]) -> PinnedSlices {
        family.multi_get_opt(keys, &self.options())
    }

    /// Returns the entries of `range` in the default column family, as of the snapshot.
    #[must_use]
    pub fn range(&self, range: impl IterateBounds) -> DbIterator {
        self.db().range_opt(range, &self.options())
    }

    /// Returns the entries of `range` in `family`, as of the snapshot.
    #[must_use]
    pub fn range_cf(&self, family: &ColumnFamily, range: impl IterateBounds) -> DbIterator {
        family.range_opt(range, &self.options())
    }

    /// Returns the default column family's entries with `prefix`, as of the snapshot.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> DbIterator {
        self.db().prefix_opt(prefix, &self.options())
    }

    /// Returns the entries of `family` whose keys begin with `prefix`, as of the snapshot.
    #[must_use]
    pub fn prefix_cf(&self, family: &ColumnFamily, prefix: impl AsRef<[u8]>) -> DbIterator {
        family.prefix_opt(prefix, &self.options())
    }

    /// Creates a cursor over the default column family, as of the snapshot.
    #[must_use]
    pub fn cursor(&self) -> DbCursor {
        self.db().cursor_opt(&self.options())
    }

    /// Creates a cursor over `family`, as of the snapshot.
    #[must_use]
    pub fn cursor_cf(&self, family: &ColumnFamily) -> DbCursor {
        family.cursor_opt(&self.options())
    }
}
