//! A bound on the number of open tables.
//!
//! Without a bound, a file's metadata keeps its reader for life, and none of this is used. With one,
//! each file has a [`ReaderSlot`], which a clock empties: tables that were used since the hand passed
//! them get a second chance. A reader that is in use stays open until its last user is done.
//!
//! Lock order: the ring, then a slot. A slot's lock is held while its table is opened, so that each
//! table is opened once however many threads need it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use koeldb_base::Result;
use koeldb_table::reader::TableReader;

/// A slot of the table cache: the table's reader while open (with limited `max_open_files`).
#[derive(Debug, Default)]
pub struct ReaderSlot {
    reader: Mutex<Option<Arc<TableReader>>>,
    is_used: AtomicBool,
    /// The file's part of cache keys, kept while the table is closed so that its cached blocks stay
    /// valid.
    cache_id: OnceLock<u64>,
}

impl ReaderSlot {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<TableReader>>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the table reader; `None` if the table is not open.
    #[must_use]
    pub fn get(&self) -> Option<Arc<TableReader>> {
        self.lock().clone()
    }

    /// Returns the table reader, opening it with `open` if needed, and whether it was opened.
    pub(crate) fn get_or_open(
        &self,
        open: impl FnOnce() -> Result<Arc<TableReader>>,
    ) -> Result<(Arc<TableReader>, bool)> {
        let mut place = self.lock();
        self.is_used.store(true, Ordering::Relaxed);
        if let Some(reader) = &*place {
            return Ok((Arc::clone(reader), false));
        }
        let reader = open()?;
        *place = Some(Arc::clone(&reader));
        Ok((reader, true))
    }

    /// Returns the file id for block cache keys; the first call creates it with `new_id`.
    pub(crate) fn cache_id(&self, new_id: impl FnOnce() -> u64) -> u64 {
        *self.cache_id.get_or_init(new_id)
    }

    /// Removes and returns the table reader, which closes the table for later users.
    pub(crate) fn take(&self) -> Option<Arc<TableReader>> {
        self.lock().take()
    }
}

/// The limit on the open tables of a database (`max_open_files`), enforced by CLOCK eviction.
#[derive(Debug)]
pub struct OpenTables {
    limit: AtomicUsize,
    /// The slots in the order of the CLOCK algorithm, whose hand is at the front.
    ring: Mutex<VecDeque<Weak<ReaderSlot>>>,
    is_closed: AtomicBool,
}

impl Default for OpenTables {
    /// Creates a set without a limit.
    fn default() -> Self {
        OpenTables::new(None)
    }
}

impl OpenTables {
    /// Creates an empty set of open tables with a limit; `None` means no limit.
    #[must_use]
    pub fn new(limit: Option<usize>) -> Self {
        OpenTables {
            limit: AtomicUsize::new(limit.unwrap_or(usize::MAX)),
            ring: Mutex::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Records that the database is closed, after which another opener of it may remove its tables.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Whether the number of open tables is limited.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.limit.load(Ordering::Relaxed) != usize::MAX
    }

    /// Changes the limit, and closes tables above it; those opened without a limit stay open.
    pub fn set_limit(&self, limit: Option<usize>) {
        self.limit
            .store(limit.unwrap_or(usize::MAX), Ordering::Relaxed);
        self.shrink(None);
    }

    /// Registers a table that was opened, and closes others if the limit is exceeded.
    pub(crate) fn add(&self, slot: &Arc<ReaderSlot>) {
        self.shrink(Some(Arc::downgrade(slot)));
    }

    /// Registers `added`, if any, and closes tables in CLOCK order until the limit is met.
    fn shrink(&self, added: Option<Weak<ReaderSlot>>) {
        let mut closed = Vec::new();
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.extend(added);
        let limit = self.limit.load(Ordering::Relaxed);
        let mut chances = ring.len();
        while ring.len() > limit {
            let Some(next) = ring.pop_front() else {
                break;
            };
            // Without the file, the slot has closed its table.
            let Some(slot) = next.upgrade() else {
                continue;
            };
            if chances > 0 && slot.is_used.swap(false, Ordering::Relaxed) {
                chances -= 1;
                ring.push_back(next);
            } else {
                closed.extend(slot.take());
            }
        }
        drop(ring);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(tables: &OpenTables, count: usize) -> Vec<Arc<ReaderSlot>> {
        let slots: Vec<_> = (0..count).map(|_| Arc::default()).collect();
        slots.iter().for_each(|slot| tables.add(slot));
        slots
    }

    fn len(tables: &OpenTables) -> usize {
        tables.ring.lock().unwrap().len()
    }

    #[test]
    fn the_ring_holds_as_many_as_the_limit_and_spares_used_ones_once() {
        let tables = OpenTables::new(Some(3));
        let slots = slots(&tables, 3);
        assert_eq!(len(&tables), 3);
        slots[0].is_used.store(true, Ordering::Relaxed);
        let added = Arc::default();
        tables.add(&added);
        assert_eq!(len(&tables), 3);
        let kept: Vec<_> = (tables.ring.lock().unwrap().iter())
            .map(Weak::as_ptr)
            .collect();
        let expected = [&slots[2], &added, &slots[0]].map(Arc::as_ptr);
        assert_eq!(kept, expected);
        // All were used: one is closed nevertheless.
        for slot in slots.iter().chain([&added]) {
            slot.is_used.store(true, Ordering::Relaxed);
        }
        tables.set_limit(Some(2));
        assert_eq!(len(&tables), 2);
        tables.set_limit(None);
        assert!(!tables.is_limited());
    }

    #[test]
    fn dropped_files_give_their_place_back() {
        let tables = OpenTables::new(Some(2));
        drop(slots(&tables, 2));
        let _other = slots(&tables, 2);
        assert_eq!(len(&tables), 2);
    }
}
