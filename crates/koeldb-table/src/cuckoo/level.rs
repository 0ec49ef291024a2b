//! Cuckoo tables with disjoint key ranges: the fast point-read path of a tree that has only these.
//!
//! The path from a key to its value is as short as possible: the table is found by fence keys as
//! numbers, the key is hashed, its window is searched, and the value is copied out or pinned. There
//! is only one run, so a lookup over runs is not needed.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::mem;
use std::sync::Arc;

use koeldb_base::{KeyOrder, PinnedSlice, Result, SeqNo};

use super::fences::Fences;
use super::reader::{CuckooReader, RING};
use super::windows::{Found, WindowKind, Windows, find, with_windows};

/// The cuckoo tables of one level, which have disjoint key ranges, for point lookups.
#[derive(Debug)]
pub struct CuckooLevel {
    fences: Fences,
    readers: Box<[Arc<CuckooReader>]>,
    /// The cuckoo block kind of all tables.
    kind: WindowKind,
}

/// A batch key under search: its table, and the cuckoo block that was prefetched for it.
#[derive(Clone, Copy, Default)]
struct PendingKey<W> {
    window: W,
    /// The index of the key, counted from the first one in progress.
    key: u32,
    /// The index of the table that may contain the key.
    table: u32,
}

impl CuckooLevel {
    /// Creates a level of these tables, given with their smallest user keys, in order.
    #[must_use]
    pub fn new(
        order: KeyOrder,
        tables: impl IntoIterator<Item = (Vec<u8>, Arc<CuckooReader>)>,
    ) -> Self {
        let (smallest, readers): (Vec<_>, Vec<Arc<CuckooReader>>) = tables.into_iter().unzip();
        let mut kinds = readers.iter().map(|reader| reader.kind);
        let first = kinds.next().unwrap_or(WindowKind::Any);
        let is_one = kinds.all(|kind| kind == first);
        let fences = Fences::new(order, smallest.into());
        let is_one = is_one && (readers.len() == 1 || fences.are_numbers());
        CuckooLevel {
            fences,
            readers: readers.into(),
            kind: if is_one { first } else { WindowKind::Any },
        }
    }

    /// Finds the table and the slot of a key; `None` if it is absent.
    ///
    /// Returning more through memory takes longer than finding it.
    #[inline(always)]
    fn find<W: Windows>(&self, key: &[u8]) -> Option<(&CuckooReader, W::Slot<'_>)> {
        let key = W::key(key)?;
        let reader = &**self.readers.get(W::table(&self.fences, key) as usize)?;
        Some((reader, find::<W>(reader, key)?))
    }

    /// Looks up a key; writes its value visible at `snapshot` into `place`, initially `Ok(None)`.
    ///
    /// It stays `Ok(None)` if there is no value, and becomes `Corruption` if the entry is neither a
    /// value nor a deletion.
    #[inline(always)]
    pub fn get_to(&self, key: &[u8], snapshot: SeqNo, place: &mut Result<Option<PinnedSlice>>) {
        with_windows!(self.kind, W => {
            if let Some((reader, slot)) = self.find::<W>(key) {
                answer::<W>(reader, slot, snapshot, place);
            }
        });
    }

    /// Looks up a key and applies `read` to its value visible at `snapshot`; `None` if absent.
    ///
    /// # Errors
    /// `Corruption` if the entry is neither a value nor a deletion.
    #[inline]
    pub fn get_with<R>(
        &self,
        key: &[u8],
        snapshot: SeqNo,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        with_windows!(self.kind, W => match self.find::<W>(key) {
            Some((reader, slot)) => Ok(W::value(reader, slot, snapshot)?.map(read)),
            None => Ok(None),
        })
    }

    /// Looks up many keys (`MultiGet`), overlapping their memory accesses.
    ///
    /// `answers` has an `Ok(None)` for each key, which stays if the key is absent.
    pub fn get_batch<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        snapshot: SeqNo,
        answers: &mut [Result<Option<PinnedSlice>>],
    ) {
        with_windows!(self.kind, W => self.get_windows::<W, K>(keys, snapshot, answers));
    }

    /// Implements [`CuckooLevel::get_batch`] for one kind of window, with `RING` keys at a time.
    fn get_windows<W: Windows, K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        snapshot: SeqNo,
        answers: &mut [Result<Option<PinnedSlice>>],
    ) {
        let mut waiting = [PendingKey::<W::Window<'_>>::default(); RING];
        for (keys, answers) in keys.chunks(RING).zip(answers.chunks_mut(RING)) {
            let mut count = 0_usize;
            for (at, key) in (0_u32..).zip(keys) {
                if let Some((table, window)) = self.begin::<W>(key.as_ref())
                    && let Some(place) = waiting.get_mut(count)
                {
                    *place = PendingKey {
                        window,
                        key: at,
                        table,
                    };
                    count = count.wrapping_add(1);
                }
            }
            let mut function = 0_u32;
            while count > 0 {
                function = function.saturating_add(1);
                let waiting = waiting.get_mut(..count).unwrap_or_default();
                count = self.look_through::<W, K>(waiting, function, keys, |key, reader, slot| {
                    if let Some(place) = answers.get_mut(key as usize) {
                        answer::<W>(reader, slot, snapshot, place);
                    }
                });
            }
        }
    }

    /// Prefetches a key's first window; returns table and window, or `None` if the key is absent.
    #[inline(always)]
    fn begin<W: Windows>(&self, key: &[u8]) -> Option<(u32, W::Window<'_>)> {
        let key = W::key(key)?;
        let table = W::table(&self.fences, key);
        let reader = self.readers.get(table as usize)?;
        let window = W::window(reader, 0, key)?;
        W::fetch(reader, window);
        Some((table, window))
    }

    /// Searches the prefetched windows, and prefetches the `next` ones for keys not found so far.
    ///
    /// Undecided keys move to the front, and their number is returned.
    #[inline(always)]
    fn look_through<'l, W: Windows, K: AsRef<[u8]>>(
        &'l self,
        waiting: &mut [PendingKey<W::Window<'l>>],
        next: u32,
        keys: &[K],
        mut found: impl FnMut(u32, &'l CuckooReader, W::Slot<'l>),
    ) -> usize {
        let mut left = 0_usize;
        for at in 0..waiting.len() {
            let Some(&waiter) = waiting.get(at) else {
                break;
            };
            let key = keys.get(waiter.key as usize).map(K::as_ref);
            let (Some(reader), Some(key)) = (
                self.readers.get(waiter.table as usize),
                key.and_then(W::key),
            ) else {
                continue;
            };
            let reader = &**reader;
            match W::look(reader, waiter.window, key) {
                Found::Here(slot) => found(waiter.key, reader, slot),
                Found::NotYet => {
                    if let Some(window) = go_on::<W>(reader, next, key)
                        && let Some(place) = waiting.get_mut(left)
                    {
                        *place = PendingKey { window, ..waiter };
                        left = left.wrapping_add(1);
                    }
                }
                Found::Absent => {}
            }
        }
        left
    }
}

/// Prefetches a key's window by hash function number `function`; `None` after the last function.
#[inline(never)]
fn go_on<'r, W: Windows>(
    reader: &'r CuckooReader,
    function: u32,
    key: W::Key<'_>,
) -> Option<W::Window<'r>> {
    if function >= reader.layout.function_count {
        return None;
    }
    let window = W::window(reader, function, key)?;
    W::fetch(reader, window);
    Some(window)
}

/// Writes the value in `slot` visible at `snapshot` into `place`, which must be `Ok(None)`.
#[inline(always)]
fn answer<'r, W: Windows>(
    reader: &'r CuckooReader,
    slot: W::Slot<'r>,
    snapshot: SeqNo,
    place: &mut Result<Option<PinnedSlice>>,
) {
    let value = W::value(reader, slot, snapshot);
    let found = value.map(|value| value.map(|value| W::pin(reader, slot, value)));
    let nothing = mem::replace(place, found);
    debug_assert!(matches!(nothing, Ok(None)));
    // Dropping the old value is a no-op, which the compiler cannot know: forgetting it lets the
    // answer be written in place instead of assembled elsewhere first.
    mem::forget(nothing);
}
