//! A cursor over a column family as if a batch had been written.
//!
//! Both sources stand at or behind the entry, in the direction of travel, and on equal keys the
//! batch decides. How they move is RocksDB's (`utilities/write_batch_with_index/
//! write_batch_with_index_internal.cc`, release 11.9), because it decides which later operations of
//! the batch the cursor shows.
//!
//! With `prefix_same_as_start` the limit of a prefix applies to the combined entries. The cursor of
//! the database has none: its own first entry may be one that the batch deletes.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use koeldb_base::entity::{Columns, WideColumns};
use koeldb_base::{Error, PinnedSlice, Result};

use super::batch::merge_columns;
use super::delta::{Delta, DeltaCursor};
use super::effect::Effect;
use crate::api::column_family::ColumnFamily;
use crate::read::ReadOptions;
use crate::read::{DbCursor, Direction};

/// The source of a cursor's current entry: the database, the batch, both, or none.
enum At {
    Nowhere,
    Database,
    /// The batch, which sets the value.
    Batch,
    /// The batch and the database, whose merged value, or columns, this is.
    Merged(WideColumns),
}

/// A cursor over a column family as if a batch was written (RocksDB: `BaseDeltaIterator`).
///
/// It is owned and `Send`. Keys and values are lent until the next move.
///
/// The cursor shows operations that are added to the batch after its creation, as in RocksDB: a seek
/// finds all of them. A step finds those on keys that the cursor has not passed, except between an
/// entry of the database and the key of the batch that follows it, which the cursor has found
/// already. After a change of direction it may show such a key where it steps back. The entry at the
/// cursor itself stays as it is until a move. A rollback to a save point and a clear are seen by
/// the next move. The state of the database is that of the cursor's creation.
pub struct BatchCursor {
    family: ColumnFamily,
    options: ReadOptions,
    database: DbCursor,
    batch: DeltaCursor,
    /// Whether batch and database are at the same key.
    is_equal: bool,
    /// The prefix that the cursor stays in since the last seek.
    prefix: Option<Vec<u8>>,
    direction: Direction,
    at: At,
    failure: Option<Error>,
}

impl BatchCursor {
    pub(super) fn new(family: &ColumnFamily, options: &ReadOptions, delta: Arc<Delta>) -> Self {
        let mut own = options.clone();
        own.set_prefix_same_as_start(false);
        // Operands of the batch are merged with them.
        own.set_keys_only(false).set_allow_unprepared_value(false);
        BatchCursor::over(family, options, family.cursor_opt(&own), delta)
    }

    /// Creates a cursor over an existing one; `options` have the bounds of the batch's keys.
    pub(super) fn over(
        family: &ColumnFamily,
        options: &ReadOptions,
        database: DbCursor,
        delta: Arc<Delta>,
    ) -> Self {
        BatchCursor {
            family: family.clone(),
            options: options.clone(),
            batch: DeltaCursor::new(delta, options.bounds()),
            database,
            is_equal: false,
            prefix: None,
            direction: Direction::Forward,
            at: At::Nowhere,
            failure: None,
        }
    }

    /// Refreshes the cursor to the present state of `batch` and the latest state of the database.
    ///
    /// The cursor then has no position. A snapshot in its options still limits the database.
    ///
    /// # Errors
    /// See [`DbCursor::refresh`].
    pub fn refresh(&mut self, batch: &super::WriteBatchWithIndex) -> Result<()> {
        self.batch = DeltaCursor::new(batch.delta(&self.family), self.options.bounds());
        self.at = At::Nowhere;
        self.failure = None;
        self.database.refresh()
    }

    /// Returns the prefix of `key` if `prefix_same_as_start` limits the cursor to it, else `None`.
    fn prefix_of(&self, key: &[u8]) -> Option<Vec<u8>> {
        if !self.options.prefix_same_as_start {
            return None;
        }
        let options = self.family.data().options();
        let extractor = options.prefix_extractor.as_ref()?;
        extractor.prefix(key).map(<[u8]>::to_vec)
    }

    /// Limits the cursor to the prefix of the current entry, unless it is limited already.
    fn keep_prefix(&mut self) {
        if self.prefix.is_none() {
            self.prefix = self.key().and_then(|key| self.prefix_of(key));
        }
    }

    /// Whether `key` is outside of the prefix to which the last seek limited the cursor.
    fn leaves_prefix(&self, key: &[u8]) -> bool {
        self.prefix.is_some() && self.prefix_of(key) != self.prefix
    }

    /// Invalidates the cursor if its current entry is outside of the prefix of the last seek.
    fn stop_behind_prefix(&mut self) {
        if self.key().is_some_and(|key| self.leaves_prefix(key)) {
            self.at = At::Nowhere;
        }
    }

    /// Runs `step`, which moves the cursor; an error invalidates the cursor until the next seek.
    ///
    /// Returns whether the cursor is positioned on an entry.
    fn run(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) -> Result<bool> {
        let stepped = match self.options.get_iter_start_ts() {
            None => step(self),
            Some(_) => Err(Error::not_supported(
                "iter_start_ts is not supported by cursors over a batch and the database",
            )),
        };
        match stepped {
            Ok(()) => Ok(self.valid()),
            Err(error) => {
                self.at = At::Nowhere;
                self.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Resets the cursor before a seek to `sought`, or to the first or last entry if it is `None`.
    fn begin_seek(&mut self, direction: Direction, sought: Option<&[u8]>) {
        self.failure = None;
        self.at = At::Nowhere;
        self.direction = direction;
        self.prefix = sought.and_then(|key| self.prefix_of(key));
        self.batch.renew();
    }

    /// Moves to the first entry at or after `key`; `true` if there is one.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.begin_seek(Direction::Forward, Some(key));
        self.run(|cursor| {
            cursor.database.seek(key)?;
            cursor.batch.seek(key)?;
            cursor.settle()
        })
    }

    /// Moves to the last entry at or before `key`; `true` if there is one.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.begin_seek(Direction::Reverse, Some(key));
        self.run(|cursor| {
            cursor.database.seek_for_prev(key)?;
            cursor.batch.seek_for_prev(key)?;
            cursor.settle()
        })
    }

    /// Moves to the first entry; `true` if there is one.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    pub fn seek_to_first(&mut self) -> Result<bool> {
        let lower = match self.options.bounds().lower {
            Bound::Unbounded => None,
            // As in RocksDB, a lower bound counts as the key sought.
            Bound::Included(lower) | Bound::Excluded(lower) => Some(lower),
        };
        self.begin_seek(Direction::Forward, lower.as_deref());
        self.run(|cursor| {
            cursor.database.seek_to_first()?;
            cursor.batch.seek_to_first()?;
            cursor.settle()?;
            cursor.keep_prefix();
            Ok(())
        })
    }

    /// Moves to the last entry; `true` if there is one.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.begin_seek(Direction::Reverse, None);
        self.run(|cursor| {
            cursor.database.seek_to_last()?;
            cursor.batch.seek_to_last()?;
            cursor.settle()?;
            cursor.keep_prefix();
            Ok(())
        })
    }

    /// Moves to the next entry; `true` if there is one.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor lends, an iterator gives"
    )]
    pub fn next(&mut self) -> Result<bool> {
        self.step(Direction::Forward)
    }

    /// Moves to the previous entry; `true` if there is one.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    pub fn prev(&mut self) -> Result<bool> {
        self.step(Direction::Reverse)
    }

    /// Moves one entry in `direction`; `true` if there is one.
    fn step(&mut self, direction: Direction) -> Result<bool> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        if !self.valid() {
            return Ok(false);
        }
        let turns = self.direction != direction;
        self.direction = direction;
        self.run(|cursor| {
            if cursor.batch.renew() {
                cursor.find_behind()?;
            } else {
                if turns {
                    cursor.turn()?;
                }
                cursor.leave()?;
            }
            cursor.settle()
        })
    }

    /// Seeks batch and database to the first keys behind the current one, in the direction.
    fn find_behind(&mut self) -> Result<()> {
        let key = match self.at {
            At::Database => self.database.key(),
            _ => Some(self.batch.key()),
        };
        let key = key.unwrap_or_default().to_vec();
        match self.direction {
            Direction::Forward => {
                self.database.seek(&key)?;
                self.batch.seek(&key)?;
            }
            Direction::Reverse => {
                self.database.seek_for_prev(&key)?;
                self.batch.seek_for_prev(&key)?;
            }
        }
        let order = &self.family.data().user_order;
        let is_batch_at = self.batch.valid() && order.equal(self.batch.key(), &key);
        if self
            .database
            .key()
            .is_some_and(|other| order.equal(other, &key))
        {
            self.step_database()?;
        }
        if is_batch_at {
            self.step_batch()?;
        }
        Ok(())
    }

    /// Moves the source that is not at the current entry to the other side of it.
    fn turn(&mut self) -> Result<()> {
        match (self.database.valid(), self.batch.valid()) {
            (false, _) => match self.direction {
                Direction::Forward => self.database.seek_to_first().map(drop)?,
                Direction::Reverse => self.database.seek_to_last().map(drop)?,
            },
            (true, false) => match self.direction {
                Direction::Forward => self.batch.seek_to_first()?,
                Direction::Reverse => self.batch.seek_to_last()?,
            },
            (true, true) if matches!(self.at, At::Database) => self.step_batch()?,
            (true, true) => self.step_database()?,
        }
        let order = self.compare_sources();
        self.is_equal = order == Some(Ordering::Equal);
        Ok(())
    }

    /// Moves the database one entry in the direction.
    fn step_database(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.database.next().map(drop),
            Direction::Reverse => self.database.prev().map(drop),
        }
    }

    /// Moves the batch one key in the direction.
    fn step_batch(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => self.batch.next(),
            Direction::Reverse => self.batch.prev(),
        }
    }

    /// Compares the keys of the database and of the batch; `None` if one has none.
    fn compare_sources(&self) -> Option<Ordering> {
        let key = self.database.key().filter(|_| self.batch.valid())?;
        let order = &self.family.data().user_order;
        Some(order.compare(key, self.batch.key()))
    }

    /// Moves the sources that are at the current entry past it.
    fn leave(&mut self) -> Result<()> {
        let is_at_database = matches!(self.at, At::Database);
        if self.is_equal || is_at_database {
            self.step_database()?;
        }
        if self.is_equal || !is_at_database {
            self.step_batch()?;
        }
        Ok(())
    }

    /// Determines the current entry; invalidates the cursor if that is outside of the prefix.
    fn settle(&mut self) -> Result<()> {
        self.find_entry()?;
        self.stop_behind_prefix();
        Ok(())
    }

    /// Sets the current entry from the positions in batch and database, past deleted keys.
    fn find_entry(&mut self) -> Result<()> {
        // The order of the database's key and the batch's, if the database comes first.
        let first = match self.direction {
            Direction::Forward => Ordering::Less,
            Direction::Reverse => Ordering::Greater,
        };
        loop {
            self.at = At::Nowhere;
            self.is_equal = false;
            if !self.batch.read()? {
                if self.database.valid() {
                    self.at = At::Database;
                }
                return Ok(());
            }
            match self.compare_sources() {
                Some(order) if order == first => {
                    self.at = At::Database;
                    return Ok(());
                }
                order => self.is_equal = order == Some(Ordering::Equal),
            }
            match self.batch.effect() {
                Effect::Value(_) => self.at = At::Batch,
                Effect::Entity(entity) => {
                    Columns::of_entity(entity)?;
                    self.at = At::Batch;
                }
                Effect::Operands(operands, base) => {
                    let stored = match self.is_equal {
                        true => self.database.pinned_columns(),
                        false => None,
                    };
                    let (key, stored) = (self.batch.key(), stored.as_ref());
                    let merged = merge_columns(&self.family, key, base, stored, &operands)?;
                    self.at = At::Merged(merged);
                }
                Effect::Deleted => {
                    if self.leaves_prefix(self.batch.key()) {
                        return Ok(());
                    }
                    self.step_batch()?;
                    if self.is_equal {
                        self.step_database()?;
                    }
                    continue;
                }
            }
            return Ok(());
        }
    }

    /// Whether the cursor is positioned on an entry.
    #[must_use]
    pub fn valid(&self) -> bool {
        !matches!(self.at, At::Nowhere)
    }

    /// The key of the current entry.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        match self.at {
            At::Nowhere => None,
            At::Database => self.database.key(),
            At::Batch | At::Merged(_) => Some(self.batch.key()),
        }
    }

    /// The value of the current entry.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        match &self.at {
            At::Nowhere => None,
            At::Database => self.database.value(),
            At::Merged(columns) => Some(columns.default_value()),
            At::Batch => Some(self.columns_of_batch()?.default_value()),
        }
    }

    /// The columns of the current entry; those of a plain value are the default column.
    #[must_use]
    pub fn columns(&self) -> Option<Columns<'_>> {
        match &self.at {
            At::Nowhere => None,
            At::Database => self.database.columns(),
            At::Merged(columns) => Some(columns.columns()),
            At::Batch => self.columns_of_batch(),
        }
    }

    /// The columns that the batch sets at the current entry.
    fn columns_of_batch(&self) -> Option<Columns<'_>> {
        match self.batch.effect() {
            Effect::Value(value) => Some(Columns::of_value(value)),
            Effect::Entity(entity) => Columns::of_entity(entity).ok(),
            Effect::Operands(..) | Effect::Deleted => None,
        }
    }

    /// The key and value of the current entry.
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        Some((self.key()?, self.value()?))
    }

    /// An owned key and value of the current entry.
    #[must_use]
    pub fn pinned_entry(&self) -> Option<(PinnedSlice, PinnedSlice)> {
        match self.at {
            At::Database => self.database.pinned_entry(),
            _ => {
                let (key, value) = self.entry()?;
                Some((PinnedSlice::copy_of(key), PinnedSlice::copy_of(value)))
            }
        }
    }

    /// Fails with the error that invalidated the cursor, if there is one.
    ///
    /// # Errors
    /// The error of the last step.
    pub fn status(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

impl fmt::Debug for BatchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchCursor")
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}
