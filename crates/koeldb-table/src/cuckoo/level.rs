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

use std::mem;
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
#[derive(Clone, Copy, Default)]
struct Waiting {
    /// The index of the key, counted from the first under way.
    key: u32,
    /// The index of its table.
    part: u32,
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

    /// The index of the only table that may have a key; `None` if all keys are larger.
    #[inline]
    fn part_of(&self, key: &[u8]) -> Option<usize> {
        if self.parts.len() == 1 {
            return Some(0);
        }
        let own = rank(&self.order, key);
        let at = (self.ranks.partition_point(|&rank| rank <= own)).checked_sub(1)?;
        if self.ranks.get(at) == Some(&own) {
            self.part_of_tied(key, at)
        } else {
            Some(at)
        }
    }

    /// The same where the number of the key is that of the smallest key of the table `at`: equal numbers say nothing of
    /// keys that are longer.
    #[cold]
    fn part_of_tied(&self, key: &[u8], at: usize) -> Option<usize> {
        (self.parts.get(..=at)?)
            .iter()
            .rposition(|part| self.order.compare(&part.smallest, key).is_le())
    }

    /// The slot that has a key, and whose table. Handing on that much through memory takes longer than finding it.
    #[inline(always)]
    fn find(&self, key: &[u8]) -> Option<(&CuckooReader, &[u8], u64)> {
        let reader = &*self.parts.get(self.part_of(key)?)?.reader;
        let (slot, at) = reader.find(key)?;
        Some((reader, slot, at))
    }

    /// The value of a key as a snapshot sees it.
    ///
    /// # Errors
    /// `Corruption` if the entry is neither a value nor a deletion.
    #[inline]
    pub fn get(&self, key: &[u8], snapshot: SeqNo) -> Result<Option<PinnedSlice>> {
        match self.find(key) {
            Some((reader, slot, at)) => reader.decide(slot, at, snapshot),
            None => Ok(None),
        }
    }

    /// What `read` makes of the value of a key as a snapshot sees it.
    ///
    /// # Errors
    /// As [`CuckooLevel::get`].
    #[inline]
    pub fn get_with<R>(
        &self,
        key: &[u8],
        snapshot: SeqNo,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        match self.find(key) {
            Some((reader, slot, _)) => Ok(reader.value_in(slot, snapshot)?.map(read)),
            None => Ok(None),
        }
    }

    /// As [`CuckooLevel::get`] for many keys, which wait for memory together. `answers` has one for each, `Ok(None)`
    /// before; what it is if the key is not there stays.
    pub fn get_batch<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        snapshot: SeqNo,
        answers: &mut [Result<Option<PinnedSlice>>],
    ) {
        let mut waiting = [Waiting::default(); RING];
        for (keys, answers) in keys.chunks(RING).zip(answers.chunks_mut(RING)) {
            let mut count = 0_usize;
            for (at, key) in (0_u32..).zip(keys) {
                if let Some((part, start)) = self.begin(key.as_ref())
                    && let Some(place) = waiting.get_mut(count)
                {
                    *place = Waiting {
                        key: at,
                        part,
                        start,
                    };
                    count = count.wrapping_add(1);
                }
            }
            let mut function = 0_u32;
            while count > 0 {
                function = function.saturating_add(1);
                let waiting = waiting.get_mut(..count).unwrap_or_default();
                count = self.look_through(waiting, function, keys, |key, reader, slot, at| {
                    if let Some(answer) = answers.get_mut(key as usize) {
                        let nothing = mem::replace(answer, reader.decide(slot, at, snapshot));
                        debug_assert!(matches!(nothing, Ok(None)));
                        // Nothing has to be let go of, which the compiler cannot know: the answer is written where it
                        // belongs, and not put together elsewhere first.
                        mem::forget(nothing);
                    }
                });
            }
        }
    }

    /// Begins to fetch the first window of a key: its table and where it begins. `None` if no table has the key.
    #[inline]
    fn begin(&self, key: &[u8]) -> Option<(u32, u64)> {
        let part = self.part_of(key)?;
        let start = self.parts.get(part)?.reader.begin(key)?;
        Some((u32::try_from(part).ok()?, start))
    }

    /// Looks through the windows that wait, those of the function before `next`; what is not decided waits on, in front, and
    /// is counted.
    #[inline]
    fn look_through<'l, K: AsRef<[u8]>>(
        &'l self,
        waiting: &mut [Waiting],
        next: u32,
        keys: &[K],
        mut found: impl FnMut(u32, &'l CuckooReader, &'l [u8], u64),
    ) -> usize {
        let mut left = 0_usize;
        for at in 0..waiting.len() {
            let Some(&waiter) = waiting.get(at) else {
                break;
            };
            let (Some(part), Some(key)) = (
                self.parts.get(waiter.part as usize),
                keys.get(waiter.key as usize),
            ) else {
                continue;
            };
            let (reader, key) = (&*part.reader, key.as_ref());
            match reader.look(waiter.start, key) {
                Found::Here(slot, at) => found(waiter.key, reader, slot, at),
                Found::NotYet if next < reader.layout.function_count => {
                    if let Some(place) = waiting.get_mut(left) {
                        *place = Waiting {
                            start: reader.go_on(next, key),
                            ..waiter
                        };
                        left = left.wrapping_add(1);
                    }
                }
                Found::Absent | Found::NotYet => {}
            }
        }
        left
    }
}
