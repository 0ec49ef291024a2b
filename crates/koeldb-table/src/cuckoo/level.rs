//! Cuckoo tables that divide all keys between them: a point read of a tree that has nothing else.
//!
//! The way from a key to its value is as short as it can be: the table is found among numbers made of the smallest
//! keys, the key is hashed, its window is looked through, the value is copied out or pinned. A look-up that visits run
//! after run is not needed, for there is one.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::Arc;

use koeldb_base::{KeyOrder, PinnedSlice, Result, SeqNo};

use super::cursor::rank;
use super::reader::{CuckooReader, Found, RING};

/// Cuckoo tables in the order of their keys, none of which is in two of them.
#[derive(Debug)]
pub struct CuckooLevel {
    order: KeyOrder,
    /// Of the smallest key of each table.
    ranks: Box<[u64]>,
    parts: Box<[Part]>,
}

#[derive(Debug)]
struct Part {
    smallest: Vec<u8>,
    reader: Arc<CuckooReader>,
}

/// A key of a batch that was not decided yet.
struct Waiting<'l> {
    index: usize,
    reader: &'l CuckooReader,
    /// Where its window begins.
    start: u64,
}

impl CuckooLevel {
    /// The level of these tables, given with their smallest user keys, in order.
    #[must_use]
    pub fn new(
        order: KeyOrder,
        tables: impl IntoIterator<Item = (Vec<u8>, Arc<CuckooReader>)>,
    ) -> Self {
        let parts: Box<[Part]> = tables
            .into_iter()
            .map(|(smallest, reader)| Part { smallest, reader })
            .collect();
        CuckooLevel {
            ranks: (parts.iter().map(|part| rank(&order, &part.smallest))).collect(),
            order,
            parts,
        }
    }

    /// The only table that may have a key.
    #[inline]
    fn table(&self, key: &[u8]) -> Option<&CuckooReader> {
        let own = rank(&self.order, key);
        let mut behind = self.ranks.partition_point(|&rank| rank <= own);
        while let Some(at) = behind.checked_sub(1) {
            let part = self.parts.get(at)?;
            // Equal numbers say nothing of keys that are longer.
            let is_tied = self.ranks.get(at) == Some(&own);
            if !is_tied || self.order.compare(&part.smallest, key).is_le() {
                return Some(&part.reader);
            }
            behind = at;
        }
        None
    }

    /// The value of a key as a snapshot sees it.
    ///
    /// # Errors
    /// `Corruption` if the entry is neither a value nor a deletion.
    #[inline]
    pub fn get(&self, key: &[u8], snapshot: SeqNo) -> Result<Option<PinnedSlice>> {
        match self.table(key) {
            Some(table) => table.get(key, snapshot),
            None => Ok(None),
        }
    }

    /// As [`CuckooLevel::get`] for many keys, which wait for memory together. `answer` is given the answer of each, by
    /// its index, in any order.
    pub fn get_batch<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        snapshot: SeqNo,
        mut answer: impl FnMut(usize, Result<Option<PinnedSlice>>),
    ) {
        let mut waiting: Vec<Waiting<'_>> = Vec::with_capacity(keys.len().min(RING));
        for (round, keys) in keys.chunks(RING).enumerate() {
            let first = round.saturating_mul(RING);
            for (at, key) in keys.iter().enumerate() {
                let key = key.as_ref();
                let begun = self
                    .table(key)
                    .and_then(|reader| Some((reader, reader.begin(key)?)));
                match begun {
                    Some((reader, start)) => waiting.push(Waiting {
                        index: at,
                        reader,
                        start,
                    }),
                    None => answer(first.saturating_add(at), Ok(None)),
                }
            }
            let mut function = 0_u32;
            while !waiting.is_empty() {
                function = function.saturating_add(1);
                waiting.retain_mut(|waiter| {
                    let reader = waiter.reader;
                    let Some(key) = keys.get(waiter.index).map(AsRef::as_ref) else {
                        return false;
                    };
                    let decided = match reader.look(waiter.start, key) {
                        Found::Here(slot, at) => reader.decide(slot, at, snapshot),
                        Found::NotYet if function < reader.layout.function_count => {
                            waiter.start = reader.go_on(function, key);
                            return true;
                        }
                        Found::Absent | Found::NotYet => Ok(None),
                    };
                    answer(first.saturating_add(waiter.index), decided);
                    false
                });
            }
        }
    }
}
