//! The range tombstones of a memtable, and their fragments for readers.
//!
//! Tombstones are kept as written. Readers need them in fragments, which are built on demand and
//! kept until the next tombstone. To keep readers from contending for one lock, each thread uses
//! one of a few cells, which cache the fragments and the number of tombstones in them.
//!
//! # Invariants
//! - **T1** `count` is increased, with release, after the tombstone is in the list. A reader that
//!   loads it after it got its snapshot therefore counts every tombstone published before, and uses
//!   no older fragments.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use koeldb_base::range_del::{FragmentedTombstones, RangeTombstone};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{KeyOrder, SeqNo};

use crate::arena::{Padded, SHARDS, thread_slot};

/// The fragments of the first `count` tombstones.
#[derive(Clone, Default)]
struct Cached {
    count: usize,
    fragments: Option<Arc<FragmentedTombstones>>,
}

#[derive(Default)]
struct List {
    written: Vec<RangeTombstone>,
    newest: Cached,
}

type Cells = Box<[Padded<Mutex<Cached>>; SHARDS]>;

/// The range tombstones of a memtable: the list, and the cells that cache its fragments.
#[derive(Default)]
pub(crate) struct Tombstones {
    count: AtomicUsize,
    memory_bytes: AtomicUsize,
    list: Mutex<List>,
    /// The cells, created by the first reader that finds tombstones.
    cells: OnceLock<Cells>,
}

impl Tombstones {
    /// Adds a tombstone.
    pub(crate) fn insert(&self, tombstone: RangeTombstone) {
        let bytes =
            size_of::<RangeTombstone>() + tombstone.start.capacity() + tombstone.end.capacity();
        let mut list = lock(&self.list);
        list.written.push(tombstone);
        self.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.count.store(list.written.len(), Ordering::Release);
    }

    /// The number of tombstones.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The bytes of the tombstones as written.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// All tombstones published so far in fragments; `None` if there are none.
    pub(crate) fn fragments(&self, order: &KeyOrder) -> Option<Arc<FragmentedTombstones>> {
        if self.count() == 0 {
            return None;
        }
        self.with_fragments(order, |fragments| fragments.map(Arc::clone))
    }

    /// The sequence number of the newest tombstone over `user_key` up to `snapshot`, or 0.
    #[inline]
    pub(crate) fn covering_seqno(
        &self,
        order: &KeyOrder,
        user_key: &[u8],
        snapshot: SeqNo,
    ) -> SeqNo {
        if self.count() == 0 {
            return 0;
        }
        self.with_fragments(order, |fragments| {
            fragments.map_or(0, |fragments| fragments.covering_seqno(user_key, snapshot))
        })
    }

    fn with_fragments<T>(
        &self,
        order: &KeyOrder,
        read: impl FnOnce(Option<&Arc<FragmentedTombstones>>) -> T,
    ) -> T {
        let cells = self.cells.get_or_init(Cells::default);
        let mut cell = lock(&cells[thread_slot() % SHARDS].0);
        if cell.count < self.count() {
            *cell = self.newest(order);
        }
        read(cell.fragments.as_ref())
    }

    /// Returns the fragments of the whole list, built if necessary.
    fn newest(&self, order: &KeyOrder) -> Cached {
        let mut list = lock(&self.list);
        if list.newest.count < list.written.len() {
            let fragments = FragmentedTombstones::new(order, &list.written);
            list.newest = Cached {
                count: list.written.len(),
                fragments: Some(Arc::new(fragments)),
            };
        }
        list.newest.clone()
    }
}
