//! The cursor that shows the columns of a key family by family.

use std::fmt;

use koeldb_base::Result;
use koeldb_base::entity::Columns;

use super::coalescing::movements;
use super::merged::MergedFamilies;
use crate::api::column_family::ColumnFamily;
use crate::api::db::Db;
use crate::api::transaction::Transaction;
use crate::read::{Direction, ReadOptions};

/// A cursor over the keys of several column families (RocksDB: `AttributeGroupIterator`).
///
/// It shows the columns of a key in each family that has it. It is owned and `Send`, and shows one
/// point in time.
pub struct AttributeGroupCursor {
    families: MergedFamilies,
}

impl AttributeGroupCursor {
    fn run(&mut self, movement: impl FnOnce(&mut MergedFamilies) -> Result<bool>) -> Result<bool> {
        movement(&mut self.families)
    }

    /// The families that have the current key, in the order given, and its columns in each.
    ///
    /// There are none without a position.
    pub fn attribute_groups(&self) -> impl Iterator<Item = (&ColumnFamily, Columns<'_>)> {
        self.families.groups()
    }
}

movements!(AttributeGroupCursor);

impl Db {
    /// Creates a cursor over the keys of `families`, which shows the columns family by family.
    ///
    /// # Errors
    /// See [`Db::coalescing_cursor`].
    pub fn attribute_group_cursor(
        &self,
        families: &[&ColumnFamily],
        options: &ReadOptions,
    ) -> Result<AttributeGroupCursor> {
        let families = MergedFamilies::of_database(self, families, options)?;
        Ok(AttributeGroupCursor { families })
    }
}

impl Transaction {
    /// Creates a cursor like [`Db::attribute_group_cursor`], which sees the transaction's writes.
    ///
    /// # Errors
    /// See [`Db::coalescing_cursor`].
    pub fn attribute_group_cursor(
        &self,
        families: &[&ColumnFamily],
        options: &ReadOptions,
    ) -> Result<AttributeGroupCursor> {
        let families = self.merged_families(families, options)?;
        Ok(AttributeGroupCursor { families })
    }
}
