//! The two ways in which databases keep the handles of column families.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use super::{BoundColumnFamily, ColumnFamily};
use crate::{Error, Options};

/// The map of column family handles of a database: [`SingleThreaded`] or [`MultiThreaded`].
pub trait ThreadMode {
    /// Creates the map of handles from the column families opened by name.
    #[doc(hidden)]
    fn new_cf_map_internal(families: BTreeMap<String, koeldb::ColumnFamily>) -> Self;

    /// Releases all column family handles, before the database is closed.
    #[doc(hidden)]
    fn drop_all_cfs_internal(&mut self);
}

/// The mode in which column families are created and dropped through `&mut self`.
///
/// Handles are references.
pub struct SingleThreaded {
    pub(crate) families: BTreeMap<String, ColumnFamily>,
}

/// The mode in which column families are created and dropped through `&self`.
///
/// Handles are reference-counted.
pub struct MultiThreaded {
    pub(crate) families: RwLock<BTreeMap<String, Arc<BoundColumnFamily<'static>>>>,
}

impl ThreadMode for SingleThreaded {
    fn new_cf_map_internal(families: BTreeMap<String, koeldb::ColumnFamily>) -> Self {
        let lent = |(name, family)| (name, ColumnFamily { family });
        SingleThreaded {
            families: families.into_iter().map(lent).collect(),
        }
    }

    fn drop_all_cfs_internal(&mut self) {
        self.families.clear();
    }
}

impl ThreadMode for MultiThreaded {
    fn new_cf_map_internal(families: BTreeMap<String, koeldb::ColumnFamily>) -> Self {
        let counted = |(name, family)| (name, bound(family));
        MultiThreaded {
            families: RwLock::new(families.into_iter().map(counted).collect()),
        }
    }

    fn drop_all_cfs_internal(&mut self) {
        let families = self.families.get_mut();
        families.unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Wraps a column family in a reference-counted handle.
fn bound(family: koeldb::ColumnFamily) -> Arc<BoundColumnFamily<'static>> {
    Arc::new(BoundColumnFamily {
        family,
        label: PhantomData,
    })
}

impl SingleThreaded {
    /// Creates a column family in `db` and adds its handle to the map.
    pub(crate) fn create(
        &mut self,
        db: &koeldb::Db,
        name: &str,
        options: &Options,
    ) -> Result<(), Error> {
        let family = db.create_cf(name, options.checked()?.cf_options())?;
        self.families
            .insert(name.to_owned(), ColumnFamily { family });
        Ok(())
    }

    /// Drops a column family in `db` and removes its handle; fails if there is none of this name.
    pub(crate) fn drop(&mut self, db: &koeldb::Db, name: &str) -> Result<(), Error> {
        match self.families.remove(name) {
            Some(dropped) => Ok(db.drop_cf(&dropped.family)?),
            None => Err(unknown(name)),
        }
    }
}

impl MultiThreaded {
    /// Locks the map of column families for writing.
    fn families_mut(
        &self,
    ) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<BoundColumnFamily<'static>>>> {
        let families = self.families.write();
        families.unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a column family in `db` and adds its handle to the map, under the map's write lock.
    pub(crate) fn create(
        &self,
        db: &koeldb::Db,
        name: &str,
        options: &Options,
    ) -> Result<(), Error> {
        let mut families = self.families_mut();
        let family = db.create_cf(name, options.checked()?.cf_options())?;
        families.insert(name.to_owned(), bound(family));
        Ok(())
    }

    /// Drops a column family in `db` and removes its handle, under the map's write lock.
    pub(crate) fn drop(&self, db: &koeldb::Db, name: &str) -> Result<(), Error> {
        let mut families = self.families_mut();
        match families.remove(name) {
            Some(dropped) => Ok(db.drop_cf(&dropped.family)?),
            None => Err(unknown(name)),
        }
    }

    /// Returns the handle of the column family called `name`; `None` if there is none.
    pub(crate) fn handle(&self, name: &str) -> Option<Arc<BoundColumnFamily<'_>>> {
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        families.get(name).cloned()
    }
}

/// Returns the error `Invalid column family`, for a name without a column family.
fn unknown(name: &str) -> Error {
    Error::new(format!("Invalid column family: {name}"))
}
