//! Scans as standard iterators: owned entries, from both ends.

use koeldb_base::{Error, PinnedSlice, Result};

use super::cursor::DbCursor;
use super::stream::DbStream;

/// Where an iterator starts and which way it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IteratorMode<'a> {
    /// From the first entry on.
    Start,
    /// From the last entry back.
    End,
    /// From a key, in a direction; the key itself belongs to both.
    From(&'a [u8], Direction),
}

/// Which way an iterator goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Reverse,
}

#[derive(Clone, Debug)]
enum Side {
    /// Not used yet; where it begins.
    Fresh(Option<Vec<u8>>),
    Running,
    Done,
}

/// The entries of a range. Yields an error once, then ends.
#[derive(Debug)]
pub struct DbIterator {
    front: DbCursor,
    front_side: Side,
    back: Option<Box<DbCursor>>,
    back_side: Side,
    /// The last keys given from either end: where both ends meet, the iteration is over.
    front_key: Option<Vec<u8>>,
    back_key: Option<Vec<u8>>,
    reversed: bool,
}

impl DbIterator {
    pub(crate) fn new(cursor: DbCursor, mode: IteratorMode<'_>) -> Self {
        let (from, reversed) = match mode {
            IteratorMode::Start => (None, false),
            IteratorMode::End => (None, true),
            IteratorMode::From(key, direction) => {
                (Some(key.to_vec()), direction == Direction::Reverse)
            }
        };
        let (front_from, back_from) = if reversed { (None, from) } else { (from, None) };
        DbIterator {
            front: cursor,
            front_side: Side::Fresh(front_from),
            back: None,
            back_side: Side::Fresh(back_from),
            front_key: None,
            back_key: None,
            reversed,
        }
    }

    /// The same entries as a stream, for tasks: waiting for them blocks no thread that polls.
    #[must_use]
    pub fn into_stream(self) -> DbStream {
        let pool = self.front.pool();
        DbStream::new(self, pool)
    }

    fn end(&mut self) {
        self.front_side = Side::Done;
        self.back_side = Side::Done;
    }

    fn fail(&mut self, error: Error) -> Option<Result<(PinnedSlice, PinnedSlice)>> {
        self.end();
        Some(Err(error))
    }

    fn step_front(&mut self) -> Option<Result<(PinnedSlice, PinnedSlice)>> {
        let moved = match std::mem::replace(&mut self.front_side, Side::Running) {
            Side::Done => {
                self.front_side = Side::Done;
                return None;
            }
            Side::Fresh(None) => self.front.seek_to_first(),
            Side::Fresh(Some(key)) => self.front.seek(key),
            Side::Running => self.front.next(),
        };
        match moved {
            Err(error) => return self.fail(error),
            Ok(false) => {
                self.end();
                return None;
            }
            Ok(true) => {}
        }
        let entry = self.front.pinned_entry()?;
        if let Some(back_key) = &self.back_key
            && self.front.compare_keys(&entry.0, back_key).is_ge()
        {
            self.end();
            return None;
        }
        if self.back.is_some() {
            self.front_key = Some(entry.0.to_vec());
        }
        Some(Ok(entry))
    }

    fn step_back(&mut self) -> Option<Result<(PinnedSlice, PinnedSlice)>> {
        if matches!(self.back_side, Side::Done) {
            return None;
        }
        if self.back.is_none() {
            self.front_key = self.front.key().map(<[u8]>::to_vec);
        }
        let front = &self.front;
        let back = self.back.get_or_insert_with(|| Box::new(front.twin()));
        let moved = match std::mem::replace(&mut self.back_side, Side::Running) {
            Side::Fresh(None) => back.seek_to_last(),
            Side::Fresh(Some(key)) => back.seek_for_prev(key),
            Side::Running | Side::Done => back.prev(),
        };
        match moved {
            Err(error) => return self.fail(error),
            Ok(false) => {
                self.end();
                return None;
            }
            Ok(true) => {}
        }
        let entry = back.pinned_entry()?;
        if let Some(front_key) = &self.front_key
            && self.front.compare_keys(&entry.0, front_key).is_le()
        {
            self.end();
            return None;
        }
        if !matches!(self.front_side, Side::Done) {
            self.back_key = Some(entry.0.to_vec());
        }
        Some(Ok(entry))
    }
}

impl Iterator for DbIterator {
    type Item = Result<(PinnedSlice, PinnedSlice)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reversed {
            self.step_back()
        } else {
            self.step_front()
        }
    }
}

impl DoubleEndedIterator for DbIterator {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.reversed {
            self.step_front()
        } else {
            self.step_back()
        }
    }
}

impl std::iter::FusedIterator for DbIterator {}
