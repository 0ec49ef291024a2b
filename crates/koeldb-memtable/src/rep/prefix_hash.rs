//! A hash table of prefixes with a sorted list in each bucket.
//!
//! It implements both `HashSkipListRepFactory` and `HashLinkListRepFactory` of RocksDB
//! (`memtable/hash_skiplist_rep.cc`, `hash_linklist_rep.cc`, release 11.9): they differ in when the
//! list of a bucket gets its index, immediately or when a search walks past many entries. A scan
//! inside a prefix is a scan of a short list. A full scan needs a sorted copy, which is kept until
//! the next insert.

use std::array;
use std::hash::{BuildHasher, Hasher};
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use koeldb_base::KeyOrder;
use koeldb_base::coding::to_usize;
use koeldb_base::key::footer_of;
use koeldb_base::prefix::PrefixExtractor;

use super::KeyHasher;
use super::entry::{Entry, EntryParts, Position};
use super::index::BATCH;
use super::skiplist::{SkipList, SkipListCursor, SkipListEntries};
use super::sorted::{Sortable, Sorted};
use super::{Duplicate, prefetch};
use crate::arena::SharedArena;

type Bucket = OnceLock<Arc<SkipList>>;

/// The size of a bucket in bytes.
pub(super) const BUCKET_BYTES: usize = size_of::<Bucket>();

/// A sorted copy of the positions of all entries, as of `count` inserts.
#[derive(Default)]
struct Copy {
    count: u64,
    sorted: Sorted,
}

/// A memtable representation that hashes key prefixes to buckets, each a sorted list.
///
/// Any number of threads may insert and search concurrently; sorted copies are made one at a time.
pub(crate) struct PrefixHash {
    order: KeyOrder,
    arena: SharedArena,
    prefixes: Arc<dyn PrefixExtractor>,
    hasher: KeyHasher,
    buckets: Box<[Bucket]>,
    /// The number of entries that a search in a list walks past before the list gets an index.
    index_after: usize,
    /// The number of entries that are linked in their lists.
    inserted: AtomicU64,
    memory_bytes: AtomicUsize,
    copy: Mutex<Copy>,
}

impl PrefixHash {
    /// Creates an empty table; a list is indexed once a search walks past `index_after` entries.
    pub(crate) fn new(
        order: KeyOrder,
        arena: SharedArena,
        prefixes: Arc<dyn PrefixExtractor>,
        hasher: KeyHasher,
        bucket_count: usize,
        index_after: usize,
    ) -> Self {
        let buckets: Box<[Bucket]> = (0..bucket_count.max(1)).map(|_| Bucket::new()).collect();
        PrefixHash {
            order,
            arena,
            prefixes,
            hasher,
            memory_bytes: AtomicUsize::new(size_of::<Self>()),
            buckets,
            index_after,
            inserted: AtomicU64::new(0),
            copy: Mutex::default(),
        }
    }

    /// Whether the table hashes keys by the prefix extractor `prefixes`.
    pub(crate) fn hashes(&self, prefixes: &Arc<dyn PrefixExtractor>) -> bool {
        Arc::ptr_eq(&self.prefixes, prefixes)
    }

    /// The bucket of a key: by its prefix, or by the whole key if it has none.
    #[inline]
    fn bucket(&self, user_key: &[u8]) -> &Bucket {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(self.prefixes.prefix(user_key).unwrap_or(user_key));
        // The high half of the product is below the count: a uniform choice without a division.
        let product = u128::from(hasher.finish()) * self.buckets.len() as u128;
        let index = (product >> 64) as u64;
        &self.buckets[to_usize(index)]
    }

    /// Inserts an entry.
    ///
    /// # Errors
    /// If there is an entry of the same user key and sequence number, of any type.
    pub(crate) fn insert(&self, parts: &EntryParts<'_>) -> Result<(), Duplicate> {
        let list = self.bucket(parts.user_key).get_or_init(|| {
            let list = SkipList::new(self.order.clone(), self.arena.clone(), self.index_after);
            self.memory_bytes
                .fetch_add(size_of::<SkipList>() + 16, Ordering::Relaxed);
            Arc::new(list)
        });
        list.insert(parts)?;
        self.inserted.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Returns the entries in the bucket of an internal key, from that key on; `None` if empty.
    #[inline]
    pub(crate) fn entries_from(&self, internal_key: &[u8]) -> Option<SkipListEntries<'_>> {
        let list = self.bucket(footer_of(internal_key).0).get()?;
        Some(list.entries_from(internal_key))
    }

    /// Runs [`entries_from`](Self::entries_from) for up to [`BATCH`] internal keys together.
    pub(crate) fn entries_from_batch<'t>(
        &'t self,
        internal_keys: &[&[u8]],
    ) -> [Option<SkipListEntries<'t>>; BATCH] {
        let buckets: [&Bucket; BATCH] = array::from_fn(|at| {
            let internal_key = internal_keys.get(at).copied().unwrap_or_default();
            let bucket = self.bucket(footer_of(internal_key).0);
            prefetch(ptr::from_ref(bucket).cast());
            bucket
        });
        let lists = buckets.map(|bucket| {
            let list = bucket.get();
            prefetch(list.map_or(ptr::null(), |list| Arc::as_ptr(list).cast()));
            list
        });
        array::from_fn(|at| {
            let internal_key = internal_keys.get(at)?;
            Some(lists[at]?.entries_from(internal_key))
        })
    }

    /// The bytes of the bucket array.
    #[inline]
    pub(crate) fn bucket_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// The number of entries in each bucket that has any.
    pub(crate) fn bucket_sizes(&self) -> Vec<usize> {
        let lists = self.buckets.iter().filter_map(OnceLock::get);
        lists.map(|list| list.entries().count()).collect()
    }

    /// The bytes of the lists, without their nodes, and of the sorted copy.
    #[inline]
    pub(crate) fn order_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }
}

impl Sortable for PrefixHash {
    fn order(&self) -> &KeyOrder {
        &self.order
    }

    #[inline]
    fn arena(&self) -> &SharedArena {
        &self.arena
    }

    fn sorted(&self) -> Sorted {
        let mut copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        // Loaded before the lists are read: a later entry makes the copy stale.
        let count = self.inserted.load(Ordering::Acquire);
        if copy.count < count {
            let lists = self.buckets.iter().filter_map(OnceLock::get);
            let entries = lists.flat_map(|list| list.entries().map(Entry::position));
            let mut sorted: Vec<Position> = entries.collect();
            sorted.sort_unstable_by(|&a, &b| self.compare(a, b));
            self.memory_bytes
                .fetch_add(size_of_val(&*sorted), Ordering::Relaxed);
            self.memory_bytes
                .fetch_sub(size_of_val(&*copy.sorted), Ordering::Relaxed);
            *copy = Copy {
                count,
                sorted: sorted.into(),
            };
        }
        Arc::clone(&copy.sorted)
    }
}

/// A cursor within the bucket of the last key sought, which sees later inserts.
pub(crate) struct PrefixCursor {
    table: Arc<PrefixHash>,
    cursor: Option<SkipListCursor<'static>>,
}

impl PrefixCursor {
    pub(crate) fn new(table: Arc<PrefixHash>) -> Self {
        PrefixCursor {
            table,
            cursor: None,
        }
    }

    /// Invalidates the position; nothing else is needed, as the cursor sees all inserts.
    pub(crate) fn refresh(&mut self) {
        self.cursor = None;
    }

    /// The current entry; `None` if the cursor is not valid.
    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.as_ref()?.entry()
    }

    /// Moves the cursor to the bucket of a key's prefix; `None` if the bucket is empty.
    fn choose(&mut self, internal_key: &[u8]) -> Option<&mut SkipListCursor<'static>> {
        let list = self.table.bucket(footer_of(internal_key).0).get();
        self.cursor = list.map(|list| SkipListCursor::new(Arc::clone(list).into(), 0));
        self.cursor.as_mut()
    }

    pub(crate) fn seek(&mut self, internal_key: &[u8]) {
        if let Some(cursor) = self.choose(internal_key) {
            cursor.seek(internal_key);
        }
    }

    pub(crate) fn seek_for_prev(&mut self, internal_key: &[u8]) {
        if let Some(cursor) = self.choose(internal_key) {
            cursor.seek_for_prev(internal_key);
        }
    }

    /// Invalidates the cursor: there is no first entry over all prefixes.
    pub(crate) fn seek_to_first(&mut self) {
        self.cursor = None;
    }

    /// Invalidates the cursor: there is no last entry over all prefixes.
    pub(crate) fn seek_to_last(&mut self) {
        self.cursor = None;
    }

    #[inline]
    pub(crate) fn next(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            cursor.next();
        }
    }

    pub(crate) fn prev(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            cursor.prev();
        }
    }
}
