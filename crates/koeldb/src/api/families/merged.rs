//! Cursors over several column families that move in step.
//!
//! All stand at or behind the current key, in the direction of travel. A change of direction seeks
//! all by the current key. (RocksDB: `db/multi_cf_iterator_impl.h`.)

use std::cmp::Ordering;

use koeldb_base::entity::Columns;
use koeldb_base::{Error, KeyOrder, Result};

use crate::api::column_family::ColumnFamily;
use crate::api::db::Db;
use crate::api::indexed_batch::BatchCursor;
use crate::read::{DbCursor, Direction, ReadOptions};

/// The cursor over one of the families: of the database, or of a transaction.
pub(super) enum FamilyCursor {
    Database(Box<DbCursor>),
    Batch(Box<BatchCursor>),
}

/// Calls the same method of either cursor.
macro_rules! of_either {
    ($cursor:expr, $inner:ident => $call:expr) => {
        match $cursor {
            FamilyCursor::Database($inner) => $call,
            FamilyCursor::Batch($inner) => $call,
        }
    };
}

impl FamilyCursor {
    fn key(&self) -> Option<&[u8]> {
        of_either!(self, cursor => cursor.key())
    }

    pub(super) fn columns(&self) -> Option<Columns<'_>> {
        of_either!(self, cursor => cursor.columns())
    }

    /// Moves to the first entry at or behind `key` in `direction`, or to the first of all.
    fn seek(&mut self, direction: Direction, key: Option<&[u8]>) -> Result<bool> {
        of_either!(self, cursor => match (direction, key) {
            (Direction::Forward, Some(key)) => cursor.seek(key),
            (Direction::Forward, None) => cursor.seek_to_first(),
            (Direction::Reverse, Some(key)) => cursor.seek_for_prev(key),
            (Direction::Reverse, None) => cursor.seek_to_last(),
        })
    }

    fn step(&mut self, direction: Direction) -> Result<bool> {
        of_either!(self, cursor => match direction {
            Direction::Forward => cursor.next(),
            Direction::Reverse => cursor.prev(),
        })
    }
}

/// Cursors over several column families, positioned at the next key of any of them.
pub(super) struct MergedFamilies {
    families: Vec<ColumnFamily>,
    cursors: Vec<FamilyCursor>,
    order: KeyOrder,
    direction: Direction,
    /// The cursors at the current key, in the order of the families.
    at: Vec<usize>,
    failure: Option<Error>,
}

impl MergedFamilies {
    /// Creates cursors, without position, over families of `db` with keys in the same order.
    ///
    /// # Errors
    /// `InvalidArgument` without families, for one of another database, or if their orders differ.
    pub(super) fn new(
        db: &Db,
        families: &[&ColumnFamily],
        options: &ReadOptions,
        open: impl Fn(&ColumnFamily, &ReadOptions) -> FamilyCursor,
    ) -> Result<Self> {
        let Some(first) = families.first() else {
            return Err(Error::invalid_argument(
                "a cursor over column families needs at least one of them",
            ));
        };
        let order = first.data().order.clone();
        for family in families {
            family.check_database(db.inner().context.id)?;
            let other = family.data().order.name();
            if other != order.name() {
                return Err(Error::invalid_argument(format!(
                    "a cursor over families whose comparators differ: {} of {:?}, {other} of {:?}",
                    order.name(),
                    first.name(),
                    family.name()
                )));
            }
        }
        let count = match options.tailing {
            true => 1,
            false => families.len(),
        };
        let same_time = db.at_one_time(options, count);
        Ok(MergedFamilies {
            cursors: families
                .iter()
                .map(|family| open(family, &same_time))
                .collect(),
            families: families.iter().map(|&family| family.clone()).collect(),
            order,
            direction: Direction::Forward,
            at: Vec::new(),
            failure: None,
        })
    }

    /// Creates cursors over families of `db`.
    ///
    /// # Errors
    /// See [`MergedFamilies::new`].
    pub(super) fn of_database(
        db: &Db,
        families: &[&ColumnFamily],
        options: &ReadOptions,
    ) -> Result<Self> {
        let is_tied = options.get_snapshot().is_some();
        MergedFamilies::new(db, families, options, |family, options| {
            let mut options = options.clone();
            options.set_allow_unprepared_value(false);
            let mut cursor = Box::new(family.cursor_opt(&options));
            if !is_tied {
                cursor.forget_snapshot();
            }
            FamilyCursor::Database(cursor)
        })
    }

    /// Runs `step`; an error invalidates the position until the next seek.
    fn run(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) -> Result<bool> {
        if let Err(error) = step(self) {
            self.fail(&error);
            return Err(error);
        }
        Ok(!self.at.is_empty())
    }

    /// Ends the position with an error, which later steps repeat.
    pub(super) fn fail(&mut self, error: &Error) {
        self.at.clear();
        self.failure = Some(error.clone());
    }

    /// Moves to the first key at or behind `key` in `direction`, or to the first of all.
    pub(super) fn seek(&mut self, direction: Direction, key: Option<&[u8]>) -> Result<bool> {
        self.failure = None;
        self.direction = direction;
        self.at.clear();
        self.run(|all| {
            for cursor in &mut all.cursors {
                cursor.seek(direction, key)?;
            }
            all.settle();
            Ok(())
        })
    }

    /// Moves to the next key in `direction`; `true` if there is one.
    pub(super) fn step(&mut self, direction: Direction) -> Result<bool> {
        self.status()?;
        let Some(key) = self.key().map(<[u8]>::to_vec) else {
            return Ok(false);
        };
        if self.direction != direction {
            self.seek(direction, Some(&key))?;
        }
        self.run(|all| {
            for cursor in &mut all.cursors {
                if cursor
                    .key()
                    .is_some_and(|other| all.order.equal(other, &key))
                {
                    cursor.step(direction)?;
                }
            }
            all.settle();
            Ok(())
        })
    }

    /// Finds the cursors at the next key in the direction of travel.
    fn settle(&mut self) {
        self.at.clear();
        let first = match self.direction {
            Direction::Forward => Ordering::Less,
            Direction::Reverse => Ordering::Greater,
        };
        let mut best: Option<&[u8]> = None;
        for (index, cursor) in self.cursors.iter().enumerate() {
            let Some(key) = cursor.key() else {
                continue;
            };
            let compared = best.map_or(first, |best| self.order.compare(key, best));
            if compared == first {
                best = Some(key);
                self.at.clear();
            }
            if compared == first || compared.is_eq() {
                self.at.push(index);
            }
        }
    }

    /// The current key; `None` without a position.
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.cursors.get(*self.at.first()?)?.key()
    }

    /// The families that have the current key, in their order, and its columns in each.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&ColumnFamily, Columns<'_>)> {
        self.at.iter().filter_map(|&index| {
            let (family, cursor) = (self.families.get(index)?, self.cursors.get(index)?);
            Some((family, cursor.columns()?))
        })
    }

    /// Fails with the error that ended the position, if there is one.
    ///
    /// # Errors
    /// The error of the last step.
    pub(super) fn status(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}
