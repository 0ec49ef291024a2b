//! Entries that a scan has read ahead, in one buffer.

use koeldb::{BatchCursor, DbCursor, Result};

/// Entries of a chunk, at most, and bytes, about.
const ROWS_MAX: usize = 1024;
const BYTES_MAX: usize = 256 << 10;

/// A cursor of the engine, over a database or a transaction.
pub(crate) trait Steps: Send + 'static {
    fn first(&mut self, reverse: bool) -> Result<bool>;
    fn step(&mut self, reverse: bool) -> Result<bool>;
    fn at(&self) -> Option<(&[u8], &[u8])>;
}

macro_rules! steps {
    ($($cursor:ty),*) => {$(
        impl Steps for $cursor {
            fn first(&mut self, reverse: bool) -> Result<bool> {
                if reverse { self.seek_to_last() } else { self.seek_to_first() }
            }

            fn step(&mut self, reverse: bool) -> Result<bool> {
                if reverse { self.prev() } else { self.next() }
            }

            fn at(&self) -> Option<(&[u8], &[u8])> {
                self.entry()
            }
        }
    )*};
}

steps!(DbCursor, BatchCursor);

/// Consecutive entries.
#[derive(Default)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    /// Where the key and the value of each end.
    ends: Vec<(usize, usize)>,
    /// The number of entries that are already delivered.
    taken: usize,
}

impl Chunk {
    /// Returns the next entry.
    pub(crate) fn next(&mut self) -> Option<(&[u8], &[u8])> {
        let &(key, value) = self.ends.get(self.taken)?;
        let start = match self.taken {
            0 => 0,
            taken => self.ends[taken - 1].1,
        };
        self.taken += 1;
        Some((&self.bytes[start..key], &self.bytes[key..value]))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.taken = 0;
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((end, self.bytes.len()));
    }
}

/// A scan that reads ahead in chunks, which grow: the first entry is there soon.
pub(crate) struct Reader {
    pub(crate) reverse: bool,
    has_begun: bool,
    is_over: bool,
    has_values: bool,
    rows: usize,
    cursor: Box<dyn Steps>,
}

impl Reader {
    pub(crate) fn new(cursor: impl Steps, reverse: bool, has_values: bool) -> Self {
        Reader {
            reverse,
            has_begun: false,
            is_over: false,
            has_values,
            rows: 4,
            cursor: Box::new(cursor),
        }
    }

    /// Steps to the next entry.
    fn advance(&mut self) -> Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        let there = if self.has_begun {
            self.cursor.step(self.reverse)
        } else {
            self.has_begun = true;
            self.cursor.first(self.reverse)
        };
        self.is_over = !matches!(there, Ok(true));
        there
    }

    /// Reads the next chunk; an empty one is the end. An error comes with what was read before it.
    pub(crate) fn fill(&mut self, chunk: &mut Chunk) -> Result<()> {
        chunk.clear();
        for _ in 0..self.rows {
            if !self.advance()? {
                break;
            }
            if let Some((key, value)) = self.cursor.at() {
                chunk.push(key, if self.has_values { value } else { &[] });
            }
            if chunk.bytes.len() >= BYTES_MAX {
                break;
            }
        }
        self.rows = (self.rows * 4).min(ROWS_MAX);
        Ok(())
    }

    /// Counts the entries.
    pub(crate) fn count(&mut self) -> Result<usize> {
        let mut count = 0;
        while self.advance()? {
            count += 1;
        }
        Ok(count)
    }

    /// Visits up to `rows` entries; returns whether there may be more.
    pub(crate) fn visit(&mut self, rows: usize, mut row: impl FnMut(&[u8], &[u8])) -> Result<bool> {
        for _ in 0..rows {
            if !self.advance()? {
                return Ok(false);
            }
            if let Some((key, value)) = self.cursor.at() {
                row(key, value);
            }
        }
        Ok(true)
    }
}
