//! Iterators over entries.

use std::marker::PhantomData;

use crate::access::Family;
use crate::cursor::{Cursor, each};
use crate::{DBAccess, Error, ReadOptions};

/// A raw iterator: positioned by seeks, it lends key and value of the current entry.
///
/// A failed step leaves it without position; [`DBRawIteratorWithThreadMode::status`] has the error.
pub struct DBRawIteratorWithThreadMode<'a, D: DBAccess> {
    cursor: Cursor,
    /// Whether reads are at a timestamp.
    has_timestamp: bool,
    /// The timestamp of the current entry, if reads are at a timestamp.
    timestamp: Option<koeldb::Timestamp>,
    /// The internal key of the current entry, if each version of a key is an entry.
    internal_key: Option<Vec<u8>>,
    label: PhantomData<fn() -> &'a D>,
}

impl<'a, D: DBAccess> DBRawIteratorWithThreadMode<'a, D> {
    pub(crate) fn new(source: &D, family: Family<'_>, options: &ReadOptions) -> Self {
        DBRawIteratorWithThreadMode {
            cursor: match options.checked() {
                Ok(options) => source.cursor(family, options),
                Err(error) => Cursor::Refused(error),
            },
            has_timestamp: options.inner.get_timestamp().is_some(),
            timestamp: None,
            internal_key: None,
            label: PhantomData,
        }
    }

    /// Remembers the version of the entry that the iterator is at, if entries have versions.
    fn note_version(&mut self) {
        if let (true, Cursor::Db(cursor)) = (self.has_timestamp, &self.cursor) {
            self.timestamp = cursor.timestamp();
            self.internal_key = cursor.internal_key();
        }
    }

    /// Returns whether the iterator is at an entry.
    pub fn valid(&self) -> bool {
        each!(&self.cursor, valid(), false)
    }

    /// Returns the error of the last seek or step, if any; `Ok` at an entry or the end.
    pub fn status(&self) -> Result<(), Error> {
        match &self.cursor {
            Cursor::Db(cursor) => Ok(cursor.status()?),
            Cursor::Transaction(cursor) => Ok(cursor.status()?),
            Cursor::Refused(error) => Err(error.clone()),
        }
    }

    /// Renews the iterator at the latest state, even if it had a snapshot (`Iterator::Refresh`).
    ///
    /// The position is lost. An iterator of a transaction cannot be renewed.
    pub fn refresh(&mut self) -> Result<(), Error> {
        match &mut self.cursor {
            Cursor::Db(cursor) => Ok(cursor.refresh_to_latest()?),
            // As in RocksDB: create another iterator of the transaction.
            Cursor::Transaction(_) => Err(Error::new(String::from(
                "Not implemented: Refresh() is not supported",
            ))),
            Cursor::Refused(error) => Err(error.clone()),
        }
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        let _ = each!(&mut self.cursor, seek_to_first(), Ok(false));
        self.note_version();
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        let _ = each!(&mut self.cursor, seek_to_last(), Ok(false));
        self.note_version();
    }

    /// Moves to the first entry at or after `key`.
    pub fn seek<K: AsRef<[u8]>>(&mut self, key: K) {
        let _ = each!(&mut self.cursor, seek(key), Ok(false));
        self.note_version();
    }

    /// Moves to the last entry at or before `key`.
    pub fn seek_for_prev<K: AsRef<[u8]>>(&mut self, key: K) {
        let _ = each!(&mut self.cursor, seek_for_prev(key), Ok(false));
        self.note_version();
    }

    /// Moves to the next entry; does nothing if the iterator is not valid.
    pub fn next(&mut self) {
        if self.valid() {
            let _ = each!(&mut self.cursor, next(), Ok(false));
            self.note_version();
        }
    }

    /// Moves to the previous entry; does nothing if the iterator is not valid.
    pub fn prev(&mut self) {
        if self.valid() {
            let _ = each!(&mut self.cursor, prev(), Ok(false));
            self.note_version();
        }
    }

    /// Returns the key of the current entry; `None` if the iterator is not valid.
    ///
    /// With [`ReadOptions::set_iter_start_ts`], that is the internal key.
    pub fn key(&self) -> Option<&[u8]> {
        if let Some(key) = &self.internal_key {
            return Some(key);
        }
        each!(&self.cursor, key(), None)
    }

    /// Returns the value of the current entry; `None` if the iterator is not valid.
    pub fn value(&self) -> Option<&[u8]> {
        each!(&self.cursor, value(), None)
    }

    /// Returns the timestamp of the current entry, empty if keys have none; `None` if the iterator
    /// is not valid.
    pub fn timestamp(&self) -> Option<&[u8]> {
        let timestamp = self.timestamp.as_ref().map_or(&[][..], |of| &of[..]);
        self.valid().then_some(timestamp)
    }

    /// Returns key and value of the current entry; `None` if the iterator is not valid.
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        if let Some(key) = &self.internal_key {
            return Some((key, self.value()?));
        }
        each!(&self.cursor, entry(), None)
    }
}

/// A Rust iterator over copies of the entries, in one direction.
///
/// After an error, which it yields once, it ends.
pub struct DBIteratorWithThreadMode<'a, D: DBAccess> {
    raw: DBRawIteratorWithThreadMode<'a, D>,
    direction: Direction,
    done: bool,
}

/// The direction of an iteration: forward or reverse.
#[derive(Clone, Copy)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Reverse,
}

/// A key and its value.
pub type KVBytes = (Box<[u8]>, Box<[u8]>);

/// The start position and the direction of an iterator.
#[derive(Clone, Copy)]
pub enum IteratorMode<'a> {
    /// Ascending, from the first entry.
    Start,
    /// Descending, from the last entry.
    End,
    /// From this key or, if it does not exist, the next one in the direction.
    From(&'a [u8], Direction),
}

impl<'a, D: DBAccess> DBIteratorWithThreadMode<'a, D> {
    pub(crate) fn new(
        source: &D,
        family: Family<'_>,
        options: &ReadOptions,
        mode: IteratorMode,
    ) -> Self {
        let mut iterator = DBIteratorWithThreadMode {
            raw: DBRawIteratorWithThreadMode::new(source, family, options),
            direction: Direction::Forward,
            done: false,
        };
        iterator.set_mode(mode);
        iterator
    }

    /// Restarts at another position and direction, in the same state of the database.
    pub fn set_mode(&mut self, mode: IteratorMode) {
        self.done = false;
        self.direction = match mode {
            IteratorMode::Start | IteratorMode::From(_, Direction::Forward) => Direction::Forward,
            IteratorMode::End | IteratorMode::From(_, Direction::Reverse) => Direction::Reverse,
        };
        match mode {
            IteratorMode::Start => self.raw.seek_to_first(),
            IteratorMode::End => self.raw.seek_to_last(),
            IteratorMode::From(key, Direction::Forward) => self.raw.seek(key),
            IteratorMode::From(key, Direction::Reverse) => self.raw.seek_for_prev(key),
        }
    }

    /// Restarts at another position and direction, in the latest state of the database.
    pub fn refresh(&mut self, mode: IteratorMode) -> Result<(), Error> {
        self.raw.refresh()?;
        self.set_mode(mode);
        Ok(())
    }
}

impl<D: DBAccess> Iterator for DBIteratorWithThreadMode<'_, D> {
    type Item = Result<KVBytes, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let Some((key, value)) = self.raw.item() else {
            self.done = true;
            return self.raw.status().err().map(Err);
        };
        let item = (key.into(), value.into());
        match self.direction {
            Direction::Forward => self.raw.next(),
            Direction::Reverse => self.raw.prev(),
        }
        Some(Ok(item))
    }
}

impl<D: DBAccess> std::iter::FusedIterator for DBIteratorWithThreadMode<'_, D> {}

impl<'a, D: DBAccess> From<DBIteratorWithThreadMode<'a, D>> for DBRawIteratorWithThreadMode<'a, D> {
    fn from(iterator: DBIteratorWithThreadMode<'a, D>) -> Self {
        iterator.raw
    }
}
