//! Scans as standard iterators: owned entries, from both ends.

use koeldb_base::{Error, PinnedSlice, Result};

use super::cursor::DbCursor;
use super::stream::DbStream;
use crate::state::key_bounds::PrefixRange;

/// The start position and direction of a [`DbIterator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IteratorMode<'a> {
    /// From the first entry forward.
    Start,
    /// From the last entry backward.
    End,
    /// From a key, inclusive, in a direction.
    From(&'a [u8], Direction),
}

/// The direction of a [`DbIterator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Reverse,
}

/// The progress of a double-ended iterator at its front or its back.
#[derive(Clone, Debug)]
enum Side {
    /// No cursor yet: the iterator was not used. Has the start key.
    Fresh(Option<Vec<u8>>),
    Running,
    Done,
}

/// A double-ended iterator over the entries of a key range, with owned keys and values.
///
/// After an error, which is yielded once, the iterator ends.
#[derive(Debug)]
pub struct DbIterator {
    front: DbCursor,
    front_side: Side,
    back: Option<Box<DbCursor>>,
    back_side: Side,
    /// The last keys yielded at either end: when both ends meet, the iteration is over.
    front_key: Option<Vec<u8>>,
    back_key: Option<Vec<u8>>,
    reversed: bool,
    /// The key at which the iteration starts.
    start: Option<Vec<u8>>,
}

impl DbIterator {
    pub(crate) fn new(mut cursor: DbCursor, mode: IteratorMode<'_>) -> Self {
        if let IteratorMode::From(key, direction) = mode {
            match direction {
                Direction::Forward => cursor.narrow(key..),
                Direction::Reverse => cursor.narrow(..=key),
            }
        }
        let (from, reversed) = match mode {
            IteratorMode::Start => (None, false),
            IteratorMode::End => (None, true),
            IteratorMode::From(key, direction) => {
                (Some(key.to_vec()), direction == Direction::Reverse)
            }
        };
        let start = from.clone();
        let (front_from, back_from) = if reversed { (None, from) } else { (from, None) };
        DbIterator {
            front: cursor,
            front_side: Side::Fresh(front_from),
            back: None,
            back_side: Side::Fresh(back_from),
            front_key: None,
            back_key: None,
            reversed,
            start,
        }
    }

    /// Creates the cursor for the other end of the iteration, limited to the same prefix.
    ///
    /// With `prefix_same_as_start` it must determine the prefix of the iteration: that of the
    /// start, whichever end is used first.
    fn opposite_end(&self) -> Result<DbCursor> {
        let mut opposite = self.front.unpositioned_copy();
        if !self.front.stays_in_prefixes() {
            return Ok(opposite);
        }
        let mut start = self.front.unpositioned_copy();
        match (self.reversed, &self.start) {
            (false, Some(key)) => start.seek(key)?,
            (false, None) => start.seek_to_first()?,
            (true, Some(key)) => start.seek_for_prev(key)?,
            (true, None) => start.seek_to_last()?,
        };
        if let Some(prefix) = start.prefix() {
            opposite.narrow(PrefixRange(prefix.to_vec()));
        }
        Ok(opposite)
    }

    /// Converts the iterator into a stream, which never blocks the polling thread.
    #[must_use]
    pub fn into_stream(self) -> DbStream {
        let pool = self.front.pool();
        DbStream::new(self, pool)
    }

    /// Ends the iteration at both ends.
    fn end(&mut self) {
        self.front_side = Side::Done;
        self.back_side = Side::Done;
    }

    /// Ends the iteration and returns `error` as its last item.
    fn fail(&mut self, error: Error) -> Option<Result<(PinnedSlice, PinnedSlice)>> {
        self.end();
        Some(Err(error))
    }

    /// Returns the next entry in ascending order; `None` once it meets the back's last key.
    fn step_front(&mut self) -> Option<Result<(PinnedSlice, PinnedSlice)>> {
        if self.reversed && matches!(self.front_side, Side::Fresh(_)) {
            match self.opposite_end() {
                Ok(front) => self.front = front,
                Err(error) => return self.fail(error),
            }
        }
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
        if let Err(error) = self.front.prepare_value() {
            return self.fail(error);
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

    /// Returns the next entry in descending order; `None` once it meets the front's last key.
    fn step_back(&mut self) -> Option<Result<(PinnedSlice, PinnedSlice)>> {
        if matches!(self.back_side, Side::Done) {
            return None;
        }
        if self.back.is_none() {
            self.front_key = self.front.key().map(<[u8]>::to_vec);
        }
        let back = match self.back.take() {
            Some(back) => back,
            None if self.reversed => Box::new(self.front.unpositioned_copy()),
            None => match self.opposite_end() {
                Ok(back) => Box::new(back),
                Err(error) => return self.fail(error),
            },
        };
        let back = self.back.insert(back);
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
        if let Err(error) = back.prepare_value() {
            return self.fail(error);
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
