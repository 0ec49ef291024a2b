//! A vector of entries in the order of arrival, sorted when somebody reads: for loads that are not read back.
//!
//! An insert appends under a lock. A read takes a sorted copy of the positions, which is kept until the next
//! insert: the entries since the last read are sorted and merged with what was sorted then. The first read
//! after [`Vector::seal`] sorts for good; later ones take no lock.
//!
//! # Invariants
//! - **V1** A position in `Appended::entries` or a [`Sorted`] leads to a whole entry in this vector's arena.
#![expect(
    unsafe_code,
    reason = "positions of entries in the arena are half the size of what carries its own proof"
)]

use std::cmp::Ordering as Order;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use koeldb_base::KeyOrder;

use super::Duplicate;
use super::entry::{Entry, EntryParts};
use crate::arena::SharedArena;

/// Where an entry begins.
#[derive(Clone, Copy)]
struct Position(NonNull<u8>);

// SAFETY: entries never change once there is a position (V1), so any thread may read them.
unsafe impl Send for Position {}
// SAFETY: as above.
unsafe impl Sync for Position {}

type Sorted = Arc<[Position]>;

struct Appended {
    /// In the order of arrival.
    entries: Vec<Position>,
    /// The first so many entries, sorted.
    sorted: Sorted,
}

/// The vector. Inserts take turns; reads of a sealed vector wait for nobody.
pub(crate) struct Vector {
    order: KeyOrder,
    arena: SharedArena,
    appended: Mutex<Appended>,
    memory_bytes: AtomicUsize,
    sealed: AtomicBool,
    finished: OnceLock<Sorted>,
}

impl Vector {
    /// An empty vector with room for `reserved` entries, whose bytes go to `arena`.
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

    /// Appends an entry. Duplicates are found when the vector is sorted, not before: see [`Vector::sorted`].
    ///
    /// # Errors
    /// Never; the other representations find duplicates.
    pub(crate) fn insert(&self, parts: &EntryParts<'_>) -> Result<(), Duplicate> {
        let encoded_len = parts.encoded_len();
        let start = {
            let mut lease = self.arena.arena().lease();
            lease.count(parts.seqno, parts.value_type, encoded_len);
            lease.allocate(encoded_len)
        };
        // SAFETY: the memory is this call's alone.
        unsafe { parts.write(start) };
        let mut appended = self.lock();
        assert!(
            !self.sealed.load(Ordering::Relaxed),
            "nothing is inserted into a sealed memtable"
        );
        appended.entries.push(Position(start));
        self.memory_bytes
            .store(appended.memory_bytes(), Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn arena(&self) -> &SharedArena {
        &self.arena
    }

    #[inline]
    fn entry(&self, position: Position) -> Entry<'_> {
        // SAFETY: positions lead to whole entries of this arena (V1).
        unsafe { Entry::new(position.0, &self.arena) }
    }

    fn compare(&self, a: Position, b: Position) -> Order {
        self.order
            .compare_internal(self.entry(a).key(), self.entry(b).key())
    }

    /// All entries, sorted.
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

    fn sort(&self, appended: &Appended) -> Sorted {
        let old = &appended.sorted;
        let mut all = Vec::with_capacity(appended.entries.len());
        all.extend_from_slice(old);
        all.extend_from_slice(&appended.entries[old.len()..]);
        // A stable sort finds the sorted run at the front and merges the rest into it.
        all.sort_by(|&a, &b| self.compare(a, b));
        all.into()
    }

    /// The index of the first entry at or after an internal key.
    fn lower_bound(&self, sorted: &[Position], internal_key: &[u8]) -> usize {
        sorted.partition_point(|&position| {
            let key = self.entry(position).key();
            self.order.compare_internal(key, internal_key).is_lt()
        })
    }

    /// The first entry at or after an internal key, and those behind it.
    pub(crate) fn entries_from(&self, internal_key: &[u8]) -> VectorEntries<'_> {
        let sorted = self.sorted();
        VectorEntries {
            vector: self,
            index: self.lower_bound(&sorted, internal_key),
            sorted,
        }
    }
}

impl Appended {
    fn memory_bytes(&self) -> usize {
        (self.entries.capacity() + self.sorted.len()) * size_of::<Position>()
    }
}

/// Entries in order, as of the call.
pub(crate) struct VectorEntries<'vector> {
    vector: &'vector Vector,
    sorted: Sorted,
    index: usize,
}

impl<'vector> Iterator for VectorEntries<'vector> {
    type Item = Entry<'vector>;

    fn next(&mut self) -> Option<Entry<'vector>> {
        let &position = self.sorted.get(self.index)?;
        self.index += 1;
        Some(self.vector.entry(position))
    }
}

/// A position in the entries of a point in time.
pub(crate) struct VectorCursor {
    vector: Arc<Vector>,
    sorted: Sorted,
    /// The length stands for "not valid".
    index: usize,
}

impl VectorCursor {
    pub(crate) fn new(vector: Arc<Vector>) -> Self {
        let sorted = vector.sorted();
        VectorCursor {
            index: sorted.len(),
            vector,
            sorted,
        }
    }

    pub(crate) fn refresh(&mut self) {
        self.sorted = self.vector.sorted();
        self.index = self.sorted.len();
    }

    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        let &position = self.sorted.get(self.index)?;
        Some(self.vector.entry(position))
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.index = 0;
    }

    pub(crate) fn seek_to_last(&mut self) {
        self.index = self.sorted.len().saturating_sub(1);
    }

    pub(crate) fn seek(&mut self, internal_key: &[u8]) {
        self.index = self.vector.lower_bound(&self.sorted, internal_key);
    }

    pub(crate) fn seek_for_prev(&mut self, internal_key: &[u8]) {
        let behind = self.sorted.partition_point(|&position| {
            let key = self.vector.entry(position).key();
            self.vector
                .order
                .compare_internal(key, internal_key)
                .is_le()
        });
        self.index = behind.checked_sub(1).unwrap_or(self.sorted.len());
    }

    #[inline]
    pub(crate) fn next(&mut self) {
        self.index = self.sorted.len().min(self.index + 1);
    }

    pub(crate) fn prev(&mut self) {
        if self.index < self.sorted.len() {
            self.index = self.index.checked_sub(1).unwrap_or(self.sorted.len());
        }
    }
}
