//! A vector of entries in order of arrival, sorted on read: for loads that are not read back.
//!
//! An insert appends under a lock. A read takes a sorted copy of the positions, which is kept until
//! the next insert: the entries since the last read are sorted and merged with the earlier copy.
//! The first read after [`Vector::seal`] sorts for good; later ones take no lock.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use koeldb_base::KeyOrder;

use super::Duplicate;
use super::entry::{Entry, EntryParts, Position};
use super::sorted::{Sortable, Sorted};
use crate::arena::SharedArena;

/// The entries of a vector in insertion order, and the sorted copy of the last read.
struct Appended {
    /// The positions of the entries in order of arrival.
    entries: Vec<Position>,
    /// The sorted copy of a prefix of `entries`.
    sorted: Sorted,
}

/// A memtable representation: an append-only vector, sorted when it is read (`VectorRep`).
///
/// Inserts exclude each other; reads of a sealed and sorted vector never wait.
pub(crate) struct Vector {
    order: KeyOrder,
    arena: SharedArena,
    appended: Mutex<Appended>,
    memory_bytes: AtomicUsize,
    sealed: AtomicBool,
    finished: OnceLock<Sorted>,
}

impl Vector {
    /// Creates an empty vector with room for `reserved` entries, stored in `arena`.
    pub(crate) fn new(order: KeyOrder, arena: SharedArena, reserved: usize) -> Self {
        let appended = Appended {
            entries: Vec::with_capacity(reserved),
            sorted: Arc::default(),
        };
        let memory_bytes = AtomicUsize::new(appended.memory_bytes());
        Vector {
            order,
            arena,
            appended: Mutex::new(appended),
            memory_bytes,
            sealed: AtomicBool::new(false),
            finished: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Appended> {
        self.appended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an entry, without a check for duplicates.
    ///
    /// # Errors
    /// Never; the other representations find duplicates.
    pub(crate) fn insert(&self, parts: &EntryParts<'_>) -> Result<(), Duplicate> {
        let position = {
            let mut lease = self.arena.arena().lease();
            lease.count(parts.seqno, parts.value_type, parts.encoded_len());
            Position::allocate(&mut lease, parts)
        };
        let mut appended = self.lock();
        assert!(
            !self.sealed.load(Ordering::Relaxed),
            "nothing is inserted into a sealed memtable"
        );
        appended.entries.push(position);
        self.memory_bytes
            .store(appended.memory_bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// Marks the vector as immutable: no insert may follow.
    pub(crate) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed) + size_of::<Self>()
    }

    /// Returns the positions of all entries in key order, reusing the last sorted copy.
    fn sort(&self, appended: &Appended) -> Sorted {
        let old = &appended.sorted;
        let mut all = Vec::with_capacity(appended.entries.len());
        all.extend_from_slice(old);
        all.extend_from_slice(&appended.entries[old.len()..]);
        // A stable sort detects the sorted run at the front and merges the rest into it.
        all.sort_by(|&a, &b| self.compare(a, b));
        all.into()
    }

    /// Returns the entries from the first one at or after an internal key on.
    pub(crate) fn entries_from(&self, internal_key: &[u8]) -> VectorEntries<'_> {
        let sorted = self.sorted();
        VectorEntries {
            vector: self,
            index: self.lower_bound(&sorted, internal_key),
            sorted,
        }
    }
}

impl Sortable for Vector {
    fn order(&self) -> &KeyOrder {
        &self.order
    }

    #[inline]
    fn arena(&self) -> &SharedArena {
        &self.arena
    }

    fn sorted(&self) -> Sorted {
        if let Some(finished) = self.finished.get() {
            return Arc::clone(finished);
        }
        let mut appended = self.lock();
        if appended.sorted.len() < appended.entries.len() {
            appended.sorted = self.sort(&appended);
        }
        let sorted = Arc::clone(&appended.sorted);
        if self.sealed.load(Ordering::Acquire) && self.finished.set(Arc::clone(&sorted)).is_ok() {
            appended.entries = Vec::new();
        }
        self.memory_bytes
            .store(appended.memory_bytes(), Ordering::Relaxed);
        sorted
    }
}

impl Appended {
    fn memory_bytes(&self) -> usize {
        (self.entries.capacity() + self.sorted.len()) * size_of::<Position>()
    }
}

/// An iterator over the entries of a vector in key order, as of its creation.
pub(crate) struct VectorEntries<'vector> {
    vector: &'vector Vector,
    sorted: Sorted,
    index: usize,
}

impl<'vector> Iterator for VectorEntries<'vector> {
    type Item = Entry<'vector>;

    fn next(&mut self) -> Option<Entry<'vector>> {
        let position = self.sorted.get(self.index)?;
        self.index += 1;
        Some(position.entry(&self.vector.arena))
    }
}
