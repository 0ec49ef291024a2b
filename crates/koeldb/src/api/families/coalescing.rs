//! The cursor that shows the columns of a key in several column families as one entity.

use std::collections::BTreeMap;
use std::fmt;

use koeldb_base::Result;
use koeldb_base::entity::{Columns, encode};

use super::merged::{FamilyCursor, MergedFamilies};
use crate::api::column_family::ColumnFamily;
use crate::api::db::Db;
use crate::api::transaction::Transaction;
use crate::read::{Direction, ReadOptions};

/// A cursor over the keys of several column families (RocksDB: `CoalescingIterator`).
///
/// The columns of a key are those of all families that have it. If several have a column of one name,
/// the last of these families decides. The cursor is owned and `Send`, and shows one point in time.
pub struct CoalescingCursor {
    families: MergedFamilies,
    /// The columns of the current key, as an entity.
    entity: Vec<u8>,
}

impl CoalescingCursor {
    fn new(families: MergedFamilies) -> Self {
        CoalescingCursor {
            families,
            entity: Vec::new(),
        }
    }

    /// Runs a movement and combines the columns of its key; `true` if there is one.
    fn run(&mut self, movement: impl FnOnce(&mut MergedFamilies) -> Result<bool>) -> Result<bool> {
        if !movement(&mut self.families)? {
            return Ok(false);
        }
        let columns: BTreeMap<&[u8], &[u8]> = self
            .families
            .groups()
            .flat_map(|(_, columns)| columns)
            .collect();
        let columns: Vec<_> = columns.into_iter().collect();
        match encode(&columns) {
            Ok(entity) => {
                self.entity = entity;
                Ok(true)
            }
            Err(error) => {
                self.families.fail(&error);
                Err(error)
            }
        }
    }

    /// The columns of the current key; `None` without a position.
    #[must_use]
    pub fn columns(&self) -> Option<Columns<'_>> {
        self.families.key()?;
        Columns::of_entity(&self.entity).ok()
    }

    /// The default column of the current key, empty if it has none; `None` without a position.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        Some(self.columns()?.default_value())
    }
}

/// Defines the movements that both cursors over column families have, by their method `run`.
macro_rules! movements {
    ($cursor:ident) => {
        impl $cursor {
            /// Moves to the first key at or after `key`; `true` if there is one.
            ///
            /// # Errors
            /// See [`DbCursor::seek`](crate::DbCursor::seek).
            pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
                self.run(|families| families.seek(Direction::Forward, Some(key.as_ref())))
            }

            /// Moves to the last key at or before `key`; `true` if there is one.
            ///
            /// # Errors
            /// See [`DbCursor::seek`](crate::DbCursor::seek).
            pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
                self.run(|families| families.seek(Direction::Reverse, Some(key.as_ref())))
            }

            /// Moves to the first key; `true` if there is one.
            ///
            /// # Errors
            /// See [`DbCursor::seek`](crate::DbCursor::seek).
            pub fn seek_to_first(&mut self) -> Result<bool> {
                self.run(|families| families.seek(Direction::Forward, None))
            }

            /// Moves to the last key; `true` if there is one.
            ///
            /// # Errors
            /// See [`DbCursor::seek`](crate::DbCursor::seek).
            pub fn seek_to_last(&mut self) -> Result<bool> {
                self.run(|families| families.seek(Direction::Reverse, None))
            }

            /// Moves to the next key; `true` if there is one.
            ///
            /// # Errors
            /// See [`DbCursor::seek`](crate::DbCursor::seek).
            #[expect(
                clippy::should_implement_trait,
                reason = "a cursor lends, an iterator gives"
            )]
            pub fn next(&mut self) -> Result<bool> {
                self.run(|families| families.step(Direction::Forward))
            }

            /// Moves to the previous key; `true` if there is one.
            ///
            /// # Errors
            /// See [`DbCursor::seek`](crate::DbCursor::seek).
            pub fn prev(&mut self) -> Result<bool> {
                self.run(|families| families.step(Direction::Reverse))
            }

            /// Whether the cursor is positioned on a key.
            #[must_use]
            pub fn valid(&self) -> bool {
                self.key().is_some()
            }

            /// The current key; `None` without a position.
            #[must_use]
            pub fn key(&self) -> Option<&[u8]> {
                self.families.key()
            }

            /// Returns the error of the last seek or step, if it failed.
            ///
            /// # Errors
            /// The error of the last step.
            pub fn status(&self) -> Result<()> {
                self.families.status()
            }
        }

        impl fmt::Debug for $cursor {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($cursor))
                    .field("key", &self.key())
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(super) use movements;

movements!(CoalescingCursor);

impl Db {
    /// Creates a cursor over the keys of `families`, which shows the columns of all as one entity.
    ///
    /// # Errors
    /// `InvalidArgument` without families, for one of another database, or if their comparators
    /// differ.
    pub fn coalescing_cursor(
        &self,
        families: &[&ColumnFamily],
        options: &ReadOptions,
    ) -> Result<CoalescingCursor> {
        MergedFamilies::of_database(self, families, options).map(CoalescingCursor::new)
    }
}

impl Transaction {
    /// Creates a cursor like [`Db::coalescing_cursor`], which sees the writes of the transaction.
    ///
    /// # Errors
    /// See [`Db::coalescing_cursor`].
    pub fn coalescing_cursor(
        &self,
        families: &[&ColumnFamily],
        options: &ReadOptions,
    ) -> Result<CoalescingCursor> {
        self.merged_families(families, options)
            .map(CoalescingCursor::new)
    }

    /// Creates cursors over families that see the writes of the transaction.
    pub(super) fn merged_families(
        &self,
        families: &[&ColumnFamily],
        options: &ReadOptions,
    ) -> Result<MergedFamilies> {
        self.with_options(options, |options| {
            MergedFamilies::new(self.db(), families, options, |family, options| {
                FamilyCursor::Batch(Box::new(self.batch().cursor_opt(family, options)))
            })
        })
    }
}
