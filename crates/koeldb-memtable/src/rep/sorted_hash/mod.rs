//! The sorted hash memtable: a hash table for lookups, and logs of entries sorted on demand.
//!
//! It keeps the strength of Speedb's sorted hash memtable (`memtable/hash_spdb_rep.cc`, release
//! 2.8), that inserts and lookups pay nothing for the order, and little of its mechanics:
//!
//! - `node`: an insert links its entry with one compare-and-swap; a lookup takes no lock and writes
//!   nothing.
//! - `log`: the write list: each shard of the arena has its own, published by one store.
//! - `runs`: sorted runs that all cursors share and that are merged as their number grows.
//! - `cursor`: a merge of a snapshot of the runs.
//! - `memory`: memory accounting of logs and runs.
//!
//! There is no sorting thread: creating a cursor sorts the entries inserted since the last one.
//! When a vector of the log is full, and when long runs should be merged, a [`SortTask`] is offered
//! to the background.
//!
//! # Invariants
//! - **H1** Insert links the entry in the hash table and then appends it to a log; both are done
//!   when it returns. A cursor loads the run set before the lengths of the logs, so it has every
//!   entry whose insert returned earlier.
//! - **H2** The lock over the run set is held to clone or replace a pointer, and never during
//!   sorting.
//!
//! # Defects of Speedb's four versions, and how this design avoids them
//!
//! Tests carry the numbers; those named `m…` are models of all interleavings (`models`). Two of
//! them are controls, in which a failed design must be seen to fail.
//!
//! - H1, H13, H26: a seek, a drop or a flush waits for a sorting thread that may sleep. Here there
//!   is no thread; the reader sorts. Tests: `h01_h13_h26`, control `m12_h01`.
//! - H2: markers between vectors are freed too early. Here there are no markers; a cursor holds the
//!   runs it shows. Test: `h02`.
//! - H3: an empty last vector is read. Here empty runs are not created. Test: `h03`.
//! - H4: a key that collides hides another, and newer versions are returned. Here there is a chain
//!   of keys, each with a chain of versions. Test: `h04`.
//! - H5, H12, H18: cursors over an active table are empty or begin before it. Here every table and
//!   option has an order. Tests: `h05_h12`, `a_seek_sees_every_write_acknowledged_before_it`.
//! - H6: the hash covers more of a key than the order compares. Here it covers the user key;
//!   timestamps are refused. Test: `h06`.
//! - H7: a walk over the counted number of nodes misses the last. Here walks end at null (N2).
//!   Test: `m1_h07`.
//! - H8: a vector is freed while another thread appends to it. Here there are reference counts;
//!   logs are not merged, runs are. Tests: `h08`, `m8_m11`, control `m13_h08`.
//! - H9, H10: writes between seeks create a vector each, or move all entries each time. Here runs
//!   grow in proportion and are merged. Test: `h09_h10`.
//! - H11: lists are read while other threads link them. Here they are published by a store (L1,
//!   H1). Test: `m5_m7_h11`.
//! - H14, H15: sealing and inserts wait for sorting. Here nothing waits (H2). Test: `h14_h15`.
//! - H16, H27: there are locks by bucket and counters that all writers share. Here there is one
//!   compare-and-swap, and counters by shard. Tests: `h16`, `h27`.
//! - H17, H23: buckets of 168 bytes are not charged, however small the table. Here a key takes
//!   eight bytes, buckets a share of the write buffer, and all are charged. Tests: `h17`,
//!   `h17_h23`.
//! - H19: code that expects live cursors reads stale entries. Here there is `refresh`; a tailing
//!   cursor moves at each seek. Tests: `h19`, the model tests.
//! - H20: counts are estimated as 0. Here they are counted, by shard. Test: `h20`.
//! - H21: keys that compare equal hash differently. Here such orders are refused. Test: `h21`.
//! - H22: versions of one key slow down its neighbours. The solution is that of H4. Test: `h22`.
//! - H24: an entry that cannot be ordered stays in the hash table alone. Here both are done or
//!   neither (H1). Test: `one_of_two_equal_entries_is_refused`.
//! - H25: a switch builds the buckets. Here a successor is prepared, and arrays are reused. Tests:
//!   `h25`, `switching_takes_microseconds`.
//! - H28: resources are freed before the iterator that uses them. Here it owns them. Tests: `h28`,
//!   `a_cursor_outlives_the_switch_the_flush_and_the_handle`.
//!
//! The promises of the design hold: parallel writes without locks, and reads that go directly to a
//! bucket (`m1` to `m6`, `m15`, `m16`, the stress tests); seeks that see all acknowledged writes
//! and block no other thread (`m7`, `h14_h15`); no new vector without a write between two seeks,
//! and the same ones for all cursors (`h02`); vectors closed at a configurable limit
//! (`the_limit_of_a_vector_is_where_a_task_is_offered`), small ones merged (`h09_h10`,
//! `background_merges_keep_runs_few_while_seeks_go_on`); a prepared successor
//! (`the_successor_of_a_half_full_memtable_stands_by_charged_and_goes_with_its_family`).

mod cursor;
mod log;
mod memory;
mod node;
mod runs;

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use koeldb_base::KeyOrder;
use koeldb_base::key::footer_of;

pub(crate) use cursor::SortedHashCursor;
use cursor::TAIL_MAX;
use log::{Item, LogLengths, LogWriter, Segment};
use memory::Gauge;
pub(crate) use node::{BucketArray, PLACE_BYTES};
use node::{HeadRef, KeyHash, NodeRef, Place};
use runs::{ItemOrder, RUNS_MAX, RunSet, SEEK_MERGE_MAX};

use super::entry::{Entry, EntryParts};
use super::index::{BATCH, Base};
use super::{Duplicate, prefetch};
use crate::arena::{Lease, Padded, PerShard, SharedArena};
use crate::recycler::Recycler;
use crate::rep::KeyHasher;
use crate::sync::{AtomicBool, AtomicU64, Mutex};

/// The number of newer versions after which a lookup continues its search in the runs.
const VERSIONS_WALKED: usize = 32;

/// The value length from which values are stored apart from their keys.
///
/// A lookup that does not read the value then misses the cache in a few megabytes of keys, not in
/// the whole memtable. Shorter values are faster to read beside their keys, and need no pointer.
const FAR_FROM: usize = 256;

/// The receiver of background work: it must neither block nor run the task itself, but may drop it.
pub type Sorter = Arc<dyn Fn(SortTask) + Send + Sync>;

/// The parameters for the creation of a sorted hash memtable.
pub(crate) struct SortedHashParts {
    pub(crate) order: KeyOrder,
    pub(crate) arena: SharedArena,
    /// The capacity in keys of the buckets: a power of two.
    pub(crate) bucket_count: usize,
    /// The number of slots of a log that are sorted together.
    pub(crate) vector_limit: usize,
    /// The expected common prefix of keys.
    pub(in crate::rep) base: Base,
    pub(crate) recycler: Option<Arc<Recycler>>,
    pub(crate) sorter: Option<Sorter>,
    pub(crate) hasher: KeyHasher,
}

/// A memtable representation: a hash table of keys, with entries sorted on demand for cursors.
///
/// It takes the place of Speedb's `HashSpdRep`. Any number of threads may insert and read
/// concurrently.
pub(crate) struct SortedHash {
    order: KeyOrder,
    arena: SharedArena,
    hasher: KeyHasher,
    base: Base,
    buckets: BucketArray,
    writers: PerShard<LogWriter>,
    /// The published slots of each log.
    appended: Box<[Padded<AtomicU64>]>,
    vector_limit: usize,
    /// The current sorted runs, locked by each cursor; on cache lines that inserts do not read.
    set: Padded<Mutex<Arc<RunSet>>>,
    /// The count of the memory of segments and runs.
    gauge: Gauge,
    sealed: AtomicBool,
    finishing: Mutex<()>,
    /// Whether any cursor was created: only then is sorting in advance worthwhile.
    was_read: AtomicBool,
    /// Whether a sort task was offered and is still pending.
    offered: AtomicBool,
    sorter: Option<Sorter>,
    recycler: Option<Arc<Recycler>>,
}

impl SortedHash {
    pub(crate) fn new(parts: SortedHashParts) -> Self {
        let gauge = Gauge::default();
        let used = parts.recycler.as_ref();
        let used = used.and_then(|recycler| recycler.take_array(parts.bucket_count));
        let shards = 0..parts.arena.arena().shard_count();
        let tails: Vec<Arc<Segment>> = shards.map(|_| Segment::new(0, 0, &gauge)).collect();
        SortedHash {
            order: parts.order,
            writers: PerShard::new(&parts.arena, |shard| {
                LogWriter::new(Arc::clone(&tails[shard]))
            }),
            arena: parts.arena.with_far_values(FAR_FROM),
            hasher: parts.hasher,
            base: parts.base,
            buckets: used.unwrap_or_else(|| BucketArray::new(parts.bucket_count)),
            appended: tails.iter().map(|_| Padded(AtomicU64::new(0))).collect(),
            vector_limit: parts.vector_limit.max(1),
            set: Padded(Mutex::new(Arc::new(RunSet::new(tails)))),
            gauge,
            sealed: AtomicBool::new(false),
            finishing: Mutex::new(()),
            was_read: AtomicBool::new(false),
            offered: AtomicBool::new(false),
            sorter: parts.sorter,
            recycler: parts.recycler,
        }
    }

    #[inline]
    pub(crate) fn arena(&self) -> &SharedArena {
        &self.arena
    }

    /// The bytes of the bucket array.
    pub(crate) fn bucket_bytes(&self) -> usize {
        self.buckets.memory_bytes()
    }

    /// The bytes of logs and runs, including those that only cursors hold.
    #[inline]
    pub(crate) fn order_bytes(&self) -> usize {
        self.gauge.bytes() + size_of::<Self>() + self.shard_bytes()
    }

    /// The memory in bytes of the per-shard state.
    #[inline]
    fn shard_bytes(&self) -> usize {
        size_of_val(&*self.appended) + self.writers.bytes()
    }

    /// Hashes a user key.
    #[inline]
    fn hash(&self, user_key: &[u8]) -> KeyHash {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(user_key);
        KeyHash(hasher.finish())
    }

    /// Returns the prefix of a key as a number, by which log items are sorted first.
    #[inline]
    fn prefix(&self, user_key: &[u8]) -> u64 {
        self.base.hint(&self.order, user_key)
    }

    /// Returns the order of log items: by key prefix, then by internal key.
    #[inline]
    fn item_order(&self) -> ItemOrder<'_> {
        ItemOrder {
            keys: &self.order,
            arena: &self.arena,
        }
    }

    /// Inserts an entry.
    ///
    /// # Errors
    /// If there is an entry of the same user key and sequence number, of any type.
    pub(crate) fn insert(self: &Arc<Self>, parts: &EntryParts<'_>) -> Result<(), Duplicate> {
        let hash = self.hash(parts.user_key);
        // The cache misses of the search come before the lease: a shard that is leased for the rest
        // alone, with two shards for each core, is rarely found borrowed.
        let place = self
            .buckets
            .bucket(hash)
            .find(hash, parts.user_key, &self.arena);
        let mut lease = self.arena.arena().lease();
        let outcome = self.insert_leased(&mut lease, parts, hash, place);
        drop(lease);
        self.offer_if(outcome?);
        Ok(())
    }

    /// Inserts entries until one is a duplicate; returns the number inserted.
    pub(crate) fn insert_batch(
        self: &Arc<Self>,
        batch: &[EntryParts<'_>],
    ) -> (usize, Result<(), Duplicate>) {
        let mut hashes = [KeyHash(0); BATCH];
        let mut inserted = 0;
        let mut was_cut = false;
        let mut outcome = Ok(());
        'all: for some in batch.chunks(BATCH) {
            for (hash, parts) in hashes.iter_mut().zip(some) {
                *hash = self.hash(parts.user_key);
                self.buckets.bucket(*hash).prefetch();
            }
            // As in `insert`, before the lease.
            let places: [Option<Place<'_>>; BATCH] = std::array::from_fn(|at| {
                let user_key = some.get(at)?.user_key;
                let bucket = self.buckets.bucket(hashes[at]);
                Some(bucket.find(hashes[at], user_key, &self.arena))
            });
            let mut lease = self.arena.arena().lease();
            for ((&hash, parts), place) in hashes.iter().zip(some).zip(places) {
                let Some(place) = place else { break };
                match self.insert_leased(&mut lease, parts, hash, place) {
                    Ok(cut) => was_cut |= cut,
                    Err(duplicate) => {
                        outcome = Err(duplicate);
                        break 'all;
                    }
                }
                inserted += 1;
            }
        }
        self.offer_if(was_cut);
        (inserted, outcome)
    }

    /// Inserts an entry at the searched `place` and in the log; true if it fills a log segment.
    ///
    /// Only a segment of the size limit counts, which can then be sorted.
    #[inline]
    fn insert_leased(
        &self,
        lease: &mut Lease<'_>,
        parts: &EntryParts<'_>,
        hash: KeyHash,
        place: Place<'_>,
    ) -> Result<bool, Duplicate> {
        debug_assert!(!self.sealed.load(Ordering::Relaxed));
        let encoded_len = parts.encoded_len();
        let bucket = self.buckets.bucket(hash);
        let node = bucket.insert(hash, parts, place, lease, &self.arena)?;
        lease.count(parts.seqno, parts.value_type, encoded_len);
        let item = Item {
            prefix: self.prefix(parts.user_key),
            node,
        };
        let appended = &self.appended[lease.index()].0;
        let is_cut = self.writers.with(lease, |writer| {
            writer.append(item, appended, self.vector_limit, &self.gauge)
        });
        Ok(is_cut)
    }

    /// Returns the entries of an internal key's user key, from that sequence number to older ones.
    #[inline]
    pub(crate) fn entries_from(&self, internal_key: &[u8]) -> SortedHashEntries<'_> {
        self.entries_of(self.hash(footer_of(internal_key).0), internal_key)
    }

    /// Returns the same as [`entries_from`](Self::entries_from), given the hash of the user key.
    #[inline]
    fn entries_of(&self, hash: KeyHash, internal_key: &[u8]) -> SortedHashEntries<'_> {
        let (user_key, footer) = footer_of(internal_key);
        let bucket = self.buckets.bucket(hash);
        let head = bucket.find(hash, user_key, &self.arena).ok();
        let found = head.and_then(|head| self.version(head, footer, internal_key));
        let (node, first) = found.unzip();
        SortedHashEntries {
            table: self,
            first,
            node,
        }
    }

    /// Finds the newest version of a key with a footer, sequence number and type, up to `footer`.
    #[inline]
    fn version<'t>(
        &'t self,
        head: HeadRef<'t>,
        footer: u64,
        internal_key: &[u8],
    ) -> Option<(NodeRef<'t>, Entry<'t>)> {
        let mut node = head.newest();
        let mut walked = 0;
        loop {
            let entry = node.entry(&self.arena);
            if entry.user_key_and_footer().1 <= footer {
                return Some((node, entry));
            }
            node = node.older()?;
            walked += 1;
            if walked == VERSIONS_WALKED {
                node = self.nearer(node, footer, internal_key);
            }
        }
    }

    /// Finds a version of a key in the sorted runs that is closer to `footer` than `node` is.
    ///
    /// It is the oldest version in the runs that is newer than `footer`.
    ///
    /// Returns `node`, which is a version of the key, if the runs have no older one. The result
    /// leads to all older versions.
    #[cold]
    fn nearer<'t>(&'t self, node: NodeRef<'t>, footer: u64, internal_key: &[u8]) -> NodeRef<'t> {
        let (mut set, appended) = self.capture();
        if set.tail_len(&appended) > self.tail_max() as u64 {
            set = self.sort_tail(&set, &appended);
        }
        let version = |node: NodeRef<'t>| node.entry(&self.arena).user_key_and_footer();
        let (user_key, mut oldest) = version(node);
        let mut found = node;
        let target = self.target(internal_key);
        for run in &set.runs {
            let at = run.lower_bound(self.item_order(), target);
            let Some(before) = at.checked_sub(1) else {
                continue;
            };
            let candidate = run.items[before].node.borrow(&self.arena);
            let (key, its_footer) = version(candidate);
            if key == user_key && its_footer > footer && its_footer < oldest {
                oldest = its_footer;
                found = candidate;
            }
        }
        found
    }

    /// Runs [`entries_from`](Self::entries_from) for up to [`BATCH`] internal keys together.
    ///
    /// The cache misses of the searches overlap.
    pub(crate) fn entries_from_batch<'t>(
        &'t self,
        internal_keys: &[&[u8]],
    ) -> [SortedHashEntries<'t>; BATCH] {
        let mut hashes = [KeyHash(0); BATCH];
        for (hash, internal_key) in hashes.iter_mut().zip(internal_keys) {
            *hash = self.hash(footer_of(internal_key).0);
            self.buckets.bucket(*hash).prefetch();
        }
        for &hash in hashes.iter().take(internal_keys.len()) {
            self.buckets.bucket(hash).prefetch_head(hash);
        }
        std::array::from_fn(|at| match internal_keys.get(at) {
            Some(internal_key) => self.entries_of(hashes[at], internal_key),
            None => SortedHashEntries {
                table: self,
                first: None,
                node: None,
            },
        })
    }

    /// Captures the run set and the log lengths for a cursor, and marks the memtable as read.
    fn capture_for_cursor(&self) -> (Arc<RunSet>, LogLengths) {
        if !self.was_read.load(Ordering::Relaxed) {
            self.was_read.store(true, Ordering::Relaxed);
        }
        self.capture()
    }

    /// Captures the entries inserted so far, as run set and log lengths.
    fn capture(&self) -> (Arc<RunSet>, LogLengths) {
        let set = Arc::clone(&self.lock_set());
        let appended = LogLengths::new(self.appended.len(), |log| {
            self.appended[log].0.load(Ordering::Acquire)
        });
        (set, appended)
    }

    /// Locks the pointer to the current run set.
    fn lock_set(&self) -> impl std::ops::DerefMut<Target = Arc<RunSet>> {
        self.set.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of unsorted log items up to which a cursor sorts them on its own.
    ///
    /// It is 0 once inserts have ended: the sorted result then stays valid.
    #[inline]
    fn tail_max(&self) -> usize {
        if self.sealed.load(Ordering::Relaxed) {
            0
        } else {
            TAIL_MAX
        }
    }

    /// Sorts the log tail up to `appended` into a new run set, and tries to publish that.
    fn sort_tail(&self, set: &Arc<RunSet>, appended: &LogLengths) -> Arc<RunSet> {
        let merge_max = if self.sorter.is_some() && set.runs.len() < RUNS_MAX {
            SEEK_MERGE_MAX
        } else {
            usize::MAX
        };
        let next = set.with_tail(appended, merge_max, self.item_order(), &self.gauge);
        let next = Arc::new(next);
        self.replace(set, &next);
        next
    }

    /// Publishes the run set `next` if `set` is still current and the lock is free.
    fn replace(&self, set: &Arc<RunSet>, next: &Arc<RunSet>) {
        let old = match self.set.0.try_lock() {
            Ok(mut current) if Arc::ptr_eq(&current, set) => {
                Some(std::mem::replace(&mut *current, Arc::clone(next)))
            }
            _ => None,
        };
        // Runs are freed outside the lock.
        drop(old);
    }

    /// Marks the memtable as immutable; offers a background sort if it was read by cursors.
    pub(crate) fn seal(self: &Arc<Self>) {
        self.sealed.store(true, Ordering::Release);
        // A memtable that was never read in order is sorted by its flush.
        self.offer_if(self.was_read.load(Ordering::Relaxed));
    }

    /// Offers a sort task to the background if `is_due` and none is pending.
    #[inline]
    fn offer_if(self: &Arc<Self>, is_due: bool) {
        if is_due && let Some(sorter) = &self.sorter {
            self.offer(sorter);
        }
    }

    /// Passes a sort task to the background function `sorter`, unless one is pending.
    #[cold]
    fn offer(self: &Arc<Self>, sorter: &Sorter) {
        if !self.offered.swap(true, Ordering::AcqRel) {
            sorter(SortTask {
                table: Arc::clone(self),
            });
        }
    }

    /// Offers a background sort task if long runs should be merged.
    fn offer_if_overdue(self: &Arc<Self>, set: &RunSet) {
        if self.sorter.is_some() {
            self.offer_if(set.overdue().is_some());
        }
    }

    /// Sorts the log tail into a run, and merges runs as needed: the body of a [`SortTask`].
    fn sort_in_background(&self) {
        if self.sealed.load(Ordering::Acquire) {
            self.finish();
            return;
        }
        let (set, appended) = self.capture();
        if set.tail_len(&appended) > 0 {
            let next = set.with_tail(&appended, SEEK_MERGE_MAX, self.item_order(), &self.gauge);
            self.replace(&set, &Arc::new(next));
        }
        loop {
            let set = Arc::clone(&self.lock_set());
            let Some(runs) = set.overdue() else {
                return;
            };
            let merged = RunSet::merge(runs, self.item_order(), &self.gauge);
            let mut current = self.lock_set();
            let Some(next) = current.replaced(runs, merged) else {
                return;
            };
            let old = std::mem::replace(&mut *current, Arc::new(next));
            drop(current);
            drop(old);
        }
    }

    /// Sorts all entries of a sealed memtable into one run, and frees the logs.
    pub(crate) fn finish(&self) {
        debug_assert!(self.sealed.load(Ordering::Relaxed));
        let _turn = self
            .finishing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (set, appended) = self.capture();
        if set.is_finished {
            return;
        }
        let end = Segment::new(0, 0, &self.gauge);
        let next = set.finished(&appended, &end, self.item_order(), &self.gauge);
        let old = std::mem::replace(&mut *self.lock_set(), Arc::new(next));
        drop(old);
        for shard in 0..self.appended.len() {
            let mut lease = self.arena.arena().lease_of(shard);
            self.writers.with(&mut lease, |writer| writer.close(&end));
        }
    }

    /// Returns the hint base that suits the keys of this memtable, for its successor.
    pub(in crate::rep) fn learned_base(&self) -> Base {
        let (set, appended) = self.capture();
        let mut some = Vec::new();
        let step = (set.tail_len(&appended) / 64).max(1);
        let mut count = 0_u64;
        set.read_tail(&appended, log::ALL, |item| {
            if count.is_multiple_of(step) {
                some.push(item);
            }
            count += 1;
        });
        for run in &set.runs {
            some.extend(run.items.first());
            some.extend(run.items.last());
        }
        let order = self.item_order();
        order.sort(&mut some);
        let user_key = |item: Item| footer_of(order.key(item)).0;
        match (some.first(), some.last()) {
            (Some(&first), Some(&last)) => {
                Base::between(&self.order, user_key(first), user_key(last))
            }
            _ => self.base,
        }
    }
}

impl Drop for SortedHash {
    fn drop(&mut self) {
        if let Some(recycler) = &self.recycler {
            let mut buckets = std::mem::replace(&mut self.buckets, BucketArray::new(0));
            buckets.clear();
            recycler.give_array(buckets);
        }
    }
}

/// An iterator over the versions of a key, newest first, which includes later inserts.
pub(crate) struct SortedHashEntries<'t> {
    table: &'t SortedHash,
    /// The first entry, until it is returned.
    first: Option<Entry<'t>>,
    /// The node of the version returned last, or of the first entry.
    node: Option<NodeRef<'t>>,
}

impl<'t> Iterator for SortedHashEntries<'t> {
    type Item = Entry<'t>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'t>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        self.node = self.node?.older();
        Some(self.node?.entry(&self.table.arena))
    }
}

/// A task that sorts and merges entries of a sorted hash memtable in the background.
///
/// It is optional.
///
/// A reader that needs the order and does not find it sorts by itself.
pub struct SortTask {
    table: Arc<SortedHash>,
}

impl SortTask {
    /// Sorts and merges entries. Takes milliseconds in a large memtable.
    pub fn run(self) {
        self.table.sort_in_background();
    }
}

impl Drop for SortTask {
    fn drop(&mut self) {
        self.table.offered.store(false, Ordering::Release);
    }
}

impl fmt::Debug for SortTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SortTask").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(loom)]
mod models;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;
