//! Writes and reads of the attribute groups of a key.

use koeldb_base::entity::{WideColumns, encode};
use koeldb_base::error::WriteOutcome;
use koeldb_base::{Error, Result};

use crate::api::column_family::ColumnFamily;
use crate::api::db::Db;
use crate::batch::WriteBatch;
use crate::options::WriteOptions;
use crate::read::ReadOptions;

impl WriteBatch {
    /// Sets the entities of `key` in several column families, each with its columns.
    ///
    /// # Errors
    /// `InvalidArgument` without groups, or if two columns of a group have the same name; the batch is
    /// then as before.
    pub fn put_attribute_groups<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        groups: &[(&ColumnFamily, &[(N, V)])],
    ) -> Result<&mut Self> {
        if groups.is_empty() {
            return Err(Error::invalid_argument(
                "a put of attribute groups needs at least one group",
            ));
        }
        let entities = groups.iter().map(|(_, columns)| encode(columns));
        let entities: Vec<_> = entities.collect::<Result<_>>()?;
        for ((family, _), entity) in groups.iter().zip(entities) {
            self.put_encoded_entity_cf(family, key.as_ref(), &entity);
        }
        Ok(self)
    }
}

impl Db {
    /// Sets the entities of `key` in several column families by one write (RocksDB: `PutEntity`).
    ///
    /// ```
    /// # use koeldb::{ColumnFamilyOptions, Db};
    /// # fn main() -> koeldb::Result<()> {
    /// let db = Db::temporary()?;
    /// let (hot, cold) = (db.default_cf(), &db.create_cf("cold", &ColumnFamilyOptions::new())?);
    /// let groups = [(hot, &[("name", "Ada")][..]), (cold, &[("born", "1815")])];
    /// db.put_attribute_groups("1", &groups)?;
    /// let found = db.get_attribute_groups("1", &[hot, cold]);
    /// let cold = found[1].as_ref().unwrap().as_ref().unwrap();
    /// assert_eq!(cold.get("born"), Some(&b"1815"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`WriteBatch::put_attribute_groups`] and [`Db::write_opt`].
    pub fn put_attribute_groups<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        groups: &[(&ColumnFamily, &[(N, V)])],
    ) -> Result<()> {
        self.put_attribute_groups_opt(key, groups, &WriteOptions::new())
    }

    /// Like [`Db::put_attribute_groups`], with `options`.
    ///
    /// # Errors
    /// See [`Db::put_attribute_groups`].
    pub fn put_attribute_groups_opt<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        groups: &[(&ColumnFamily, &[(N, V)])],
        options: &WriteOptions,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch
            .put_attribute_groups(key, groups)
            .map_err(|error| error.with_outcome(WriteOutcome::NotApplied))?;
        self.write_opt(&batch, options)
    }

    /// Returns the columns of `key` in each of `families`, as of one point in time.
    ///
    /// # Errors
    /// Each result has the error of its family alone: `InvalidArgument` if that is one of another
    /// database; otherwise see [`ColumnFamily::get_entity`].
    #[must_use]
    pub fn get_attribute_groups(
        &self,
        key: impl AsRef<[u8]>,
        families: &[&ColumnFamily],
    ) -> Vec<Result<Option<WideColumns>>> {
        self.get_attribute_groups_opt(key, families, &ReadOptions::new())
    }

    /// Like [`Db::get_attribute_groups`], with `options`.
    ///
    /// # Errors
    /// See [`Db::get_attribute_groups`]; `Incomplete` if the read tier does not have the columns.
    #[must_use]
    pub fn get_attribute_groups_opt(
        &self,
        key: impl AsRef<[u8]>,
        families: &[&ColumnFamily],
        options: &ReadOptions,
    ) -> Vec<Result<Option<WideColumns>>> {
        let options = self.at_one_time(options, families.len());
        let read = |family: &&ColumnFamily| {
            family.check_database(self.inner().context.id)?;
            family.get_entity_opt(key.as_ref(), &options)
        };
        families.iter().map(read).collect()
    }

    /// Returns the columns of several keys, each in its families, as of one point in time.
    ///
    /// The results are in the order of the keys, and those of a key in the order of its families.
    ///
    /// # Errors
    /// See [`Db::get_attribute_groups_opt`].
    #[must_use]
    pub fn multi_get_attribute_groups<K: AsRef<[u8]>>(
        &self,
        keys: &[(K, &[&ColumnFamily])],
        options: &ReadOptions,
    ) -> Vec<Vec<Result<Option<WideColumns>>>> {
        let count = keys.iter().map(|(_, families)| families.len()).sum();
        let options = self.at_one_time(options, count);
        let mut found: Vec<Vec<_>> = keys
            .iter()
            .map(|(_, families)| families.iter().map(|_| Ok(None)).collect())
            .collect();
        // One batch of lookups for each family.
        let mut places: Vec<(&ColumnFamily, usize, usize)> = Vec::with_capacity(count);
        for (at, (_, families)) in keys.iter().enumerate() {
            let families = families.iter().enumerate();
            places.extend(families.map(|(group, family)| (*family, at, group)));
        }
        places.sort_by_key(|(family, ..)| (family.database_id(), family.id()));
        let is_same = |a: &ColumnFamily, b: &ColumnFamily| {
            (a.database_id(), a.id()) == (b.database_id(), b.id())
        };
        for places in places.chunk_by(|(a, ..), (b, ..)| is_same(a, b)) {
            let Some((family, ..)) = places.first() else {
                continue;
            };
            let answers = match family.check_database(self.inner().context.id) {
                Ok(()) => {
                    let wanted: Vec<&[u8]> = places
                        .iter()
                        .map(|(_, at, _)| keys[*at].0.as_ref())
                        .collect();
                    family.multi_get_entity_opt(&wanted, &options)
                }
                Err(error) => places.iter().map(|_| Err(error.clone())).collect(),
            };
            for ((_, at, group), answer) in places.iter().zip(answers) {
                found[*at][*group] = answer;
            }
        }
        found
    }

    /// Returns `options` with a snapshot if `count` reads with them must see one state.
    pub(super) fn at_one_time(&self, options: &ReadOptions, count: usize) -> ReadOptions {
        let mut options = options.clone();
        if count > 1 && options.get_snapshot().is_none() {
            options.set_snapshot(&self.snapshot());
        }
        options
    }
}
