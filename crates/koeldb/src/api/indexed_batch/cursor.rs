//! A cursor over a column family as if a batch had been written.
//!
//! Both sources stand at or behind the entry, in the direction of travel; a change of direction
//! seeks both by the current key. On equal keys the batch decides.
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
use super::view::{Effect, View};
use crate::api::column_family::ColumnFamily;
use crate::read::ReadOptions;
use crate::read::{DbCursor, Direction};
use crate::state::key_bounds::KeyBounds;

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
/// It is owned and `Send`, and shows the batch as it was when the cursor was created. Keys and
/// values are lent until the next move.
pub struct BatchCursor {
    family: ColumnFamily,
    options: ReadOptions,
    bounds: KeyBounds,
    database: DbCursor,
    view: Arc<View>,
    /// The number of the batch's keys before the position; going backward, up to and including it.
    next: usize,
    /// The indexes of the batch's keys within the bounds.
    visible: std::ops::Range<usize>,
    /// The prefix that the cursor stays in since the last seek.
    prefix: Option<Vec<u8>>,
    direction: Direction,
    at: At,
    failure: Option<Error>,
}

impl BatchCursor {
    pub(super) fn new(family: &ColumnFamily, options: &ReadOptions, view: Arc<View>) -> Self {
        let mut own = options.clone();
        own.set_prefix_same_as_start(false);
        // Operands of the batch are merged with them.
        own.set_keys_only(false).set_allow_unprepared_value(false);
        BatchCursor::over(family, options, family.cursor_opt(&own), view)
    }

    /// Creates a cursor over an existing one; `options` have the bounds of the batch's keys.
    pub(super) fn over(
        family: &ColumnFamily,
        options: &ReadOptions,
        database: DbCursor,
        view: Arc<View>,
    ) -> Self {
        BatchCursor {
            family: family.clone(),
            options: options.clone(),
            bounds: options.bounds(),
            database,
            visible: 0..view.len(),
            prefix: None,
            view,
            next: 0,
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
        self.view = batch.view(&self.family);
        self.at = At::Nowhere;
        self.failure = None;
        self.visible = 0..0;
        self.database.refresh()
    }

    /// Restricts the batch's keys that the cursor shows to those within the iterate bounds.
    fn limit(&mut self) {
        let order = &self.family.data().user_order;
        let (bounds, view) = (&self.bounds, &self.view);
        let first = view.partition_point(|key| bounds.is_before(order, key));
        let end = view.partition_point(|key| !bounds.is_behind(order, key));
        self.visible = first..end.max(first);
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
        self.limit();
    }

    /// Moves to the first entry at or after `key`; `true` if there is one.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.begin_seek(Direction::Forward, Some(key));
        self.run(|cursor| {
            cursor.place_forward(key)?;
            cursor.settle_forward()
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
            cursor.place_backward(key)?;
            cursor.settle_backward()
        })
    }

    /// Moves to the first entry; `true` if there is one.
    ///
    /// # Errors
    /// See [`DbCursor::seek`].
    pub fn seek_to_first(&mut self) -> Result<bool> {
        let lower = match self.bounds.lower.clone() {
            Bound::Unbounded => None,
            // As in RocksDB, a lower bound counts as the key sought.
            Bound::Included(lower) | Bound::Excluded(lower) => Some(lower),
        };
        self.begin_seek(Direction::Forward, lower.as_deref());
        self.run(|cursor| {
            cursor.next = cursor.visible.start;
            cursor.database.seek_to_first()?;
            cursor.settle_forward()?;
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
            cursor.next = cursor.visible.end;
            cursor.database.seek_to_last()?;
            cursor.settle_backward()?;
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
        let Some(key) = self.key().map(<[u8]>::to_vec) else {
            return Ok(false);
        };
        let turns = self.direction != direction;
        self.direction = direction;
        self.run(|cursor| {
            if direction == Direction::Forward {
                if turns {
                    cursor.place_forward(&key)?;
                }
                cursor.leave_forward(&key)?;
                cursor.settle_forward()
            } else {
                if turns {
                    cursor.place_backward(&key)?;
                }
                cursor.leave_backward(&key)?;
                cursor.settle_backward()
            }
        })
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.family.data().user_order.compare(a, b)
    }

    /// Seeks the positions in the batch and in the database to the first keys at or after `key`.
    fn place_forward(&mut self, key: &[u8]) -> Result<()> {
        let at = self.view.lower_bound(&self.family.data().user_order, key);
        self.next = at.clamp(self.visible.start, self.visible.end);
        self.database.seek(key)?;
        Ok(())
    }

    /// Seeks the positions in the batch and in the database to the last keys at or before `key`.
    fn place_backward(&mut self, key: &[u8]) -> Result<()> {
        let order = &self.family.data().user_order;
        let at = self
            .view
            .partition_point(|other| order.compare(other, key).is_le());
        self.next = at.clamp(self.visible.start, self.visible.end);
        self.database.seek_for_prev(key)?;
        Ok(())
    }

    /// The index of the batch's next key in the cursor's direction; `None` if there is none.
    fn candidate(&self) -> Option<usize> {
        match self.direction {
            Direction::Forward => (self.next < self.visible.end).then_some(self.next),
            Direction::Reverse => (self.next > self.visible.start).then(|| self.next - 1),
        }
    }

    /// Whether the cursor over the database is positioned at `key`.
    fn is_database_at(&self, key: &[u8]) -> bool {
        self.database
            .key()
            .is_some_and(|other| self.compare(other, key).is_eq())
    }

    /// Whether the batch's next key in the cursor's direction equals `key`.
    fn is_batch_at(&self, key: &[u8]) -> bool {
        self.candidate()
            .is_some_and(|index| self.compare(self.view.key(index), key).is_eq())
    }

    /// Advances the positions in the batch and in the database that are at `key` past it.
    fn leave_forward(&mut self, key: &[u8]) -> Result<()> {
        if self.is_database_at(key) {
            self.database.next()?;
        }
        self.next += usize::from(self.is_batch_at(key));
        Ok(())
    }

    /// Steps the positions in the batch and in the database that are at `key` back before it.
    fn leave_backward(&mut self, key: &[u8]) -> Result<()> {
        if self.is_database_at(key) {
            self.database.prev()?;
        }
        self.next -= usize::from(self.is_batch_at(key));
        Ok(())
    }

    /// Determines the current entry from the positions in batch and database, for a forward scan.
    fn settle_forward(&mut self) -> Result<()> {
        self.settle(Ordering::Less, |cursor, key| cursor.leave_forward(key))
    }

    /// Determines the current entry from the positions in batch and database, for a backward scan.
    fn settle_backward(&mut self) -> Result<()> {
        self.settle(Ordering::Greater, |cursor, key| cursor.leave_backward(key))
    }

    /// Determines the current entry; invalidates the cursor if that is outside of the prefix.
    ///
    /// `first` is the ordering of keys that come first in the direction of the scan.
    fn settle(
        &mut self,
        first: Ordering,
        leave: impl Fn(&mut Self, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.find_entry(first, leave)?;
        self.stop_behind_prefix();
        Ok(())
    }

    /// Sets the current entry from the positions in batch and database, past deleted keys.
    fn find_entry(
        &mut self,
        first: Ordering,
        leave: impl Fn(&mut Self, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.at = At::Nowhere;
        loop {
            let view = Arc::clone(&self.view);
            let Some(index) = self.candidate() else {
                if self.database.valid() {
                    self.at = At::Database;
                }
                return Ok(());
            };
            let key = view.key(index);
            let is_stored = match self.database.key().map(|other| self.compare(other, key)) {
                Some(order) if order == first => {
                    self.at = At::Database;
                    return Ok(());
                }
                Some(Ordering::Equal) => true,
                _ => false,
            };
            match view.effect(index) {
                Effect::Value(_) => self.at = At::Batch,
                Effect::Entity(entity) => {
                    Columns::of_entity(entity)?;
                    self.at = At::Batch;
                }
                Effect::Operands(operands, base) => {
                    let stored = match is_stored {
                        true => self.database.pinned_columns(),
                        false => None,
                    };
                    let stored = stored.as_ref();
                    let merged = merge_columns(&self.family, key, base, stored, &operands)?;
                    self.at = At::Merged(merged);
                }
                Effect::Deleted => {
                    if self.leaves_prefix(key) {
                        return Ok(());
                    }
                    leave(self, key)?;
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
            At::Batch | At::Merged(_) => Some(self.view.key(self.candidate()?)),
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
        match self.view.effect(self.candidate()?) {
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
