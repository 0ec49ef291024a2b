//! The two ways in which databases keep the handles of column families.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use super::{BoundColumnFamily, ColumnFamily};
use crate::{Error, Options};

/// The way in which a database keeps the handles of column families.
pub trait ThreadMode {
    #[doc(hidden)]
    fn new_cf_map_internal(families: BTreeMap<String, koeldb::ColumnFamily>) -> Self;

    #[doc(hidden)]
    fn drop_all_cfs_internal(&mut self);
}

/// Column families are created and dropped through `&mut self`, and handles are references.
pub struct SingleThreaded {
    pub(crate) families: BTreeMap<String, ColumnFamily>,
}

/// Column families are created and dropped through `&self`, and handles are counted.
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

/// Makes a reference-counted handle of a column family.
fn bound(family: koeldb::ColumnFamily) -> Arc<BoundColumnFamily<'static>> {
    Arc::new(BoundColumnFamily {
        family,
        label: PhantomData,
    })
}

impl SingleThreaded {
    /// Creates a column family and keeps its handle.
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

    /// Drops a column family; fails if there is none of this name.
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

    /// Creates a column family and keeps its handle, under the write lock of the map.
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

    /// Drops a column family, under the write lock of the map; fails if there is none of this name.
    pub(crate) fn drop(&self, db: &koeldb::Db, name: &str) -> Result<(), Error> {
        let mut families = self.families_mut();
        match families.remove(name) {
            Some(dropped) => Ok(db.drop_cf(&dropped.family)?),
            None => Err(unknown(name)),
        }
    }

    /// The handle of a column family; `None` if there is none of this name.
    pub(crate) fn handle(&self, name: &str) -> Option<Arc<BoundColumnFamily<'_>>> {
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        families.get(name).cloned()
    }
}

/// Returns the error for an unknown column family.
fn unknown(name: &str) -> Error {
    Error::new(format!("Invalid column family: {name}"))
}
