//! The state that a read of a column family needs, pinned as one: memtables, tables, options.
//!
//! The current [`SuperVersion`] of a column family is replaced whenever a memtable is sealed or a
//! version installed. A read takes it from a thread-local slot, validated by one load of the
//! install number of the column family: it writes no shared memory and executes no locked
//! instruction, so that reads overlap in the processor.
//!
//! A cursor needs the super-version for longer than one call. It clones the [`Hand`] in the slot of
//! the thread that creates it, whose reference count is on a line that other threads do not touch:
//! threads that create cursors share neither a lock nor a count.
//!
//! Idle threads pin neither memtables nor files that were replaced. An install *sweeps*: it empties
//! the slots of threads that are not reading, one sweep at a time. If it skips a slot, the thread
//! of that slot acts:
//!
//! - A thread that was reading sees the new install number afterwards, and empties its slot.
//! - A thread that the sweep turned away replaces the contents of its slot, or, if it is turned
//!   away again, waits until the sweep is over and empties it.
//!
//! Two cases are left to the next read of a thread: a slot whose reader panicked, and slots that
//! were idle while the system refuses the barrier that [`koeldb_base::biased`] needs to inspect
//! them.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock};

use koeldb_base::biased::{self, Owner, Revoker, biased, revoke_idle};
use koeldb_base::merge_operator::{FetchBlob, FetchOptions, MergeCounts, Merger};
use koeldb_base::sync::{self, AtomicU64, Mutex, Ordering, thread_local};
use koeldb_base::{PinnedSlice, Result, SeqNo};
use koeldb_lsm::version::BlobRead;
use koeldb_lsm::{TableOpener, Version};
use koeldb_memtable::Memtable;
use koeldb_table::blob::BlobBytes;
use koeldb_table::cuckoo::level::CuckooLevel;

use crate::options::{ColumnFamilyOptions, TableFormat};
use crate::state::deleted_ranges::DeletedRanges;

/// The memtables and tables of a column family that a read pins (RocksDB: `SuperVersion`).
///
/// Aligned so that its reference count is not on the lines that every read loads.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct SuperVersion {
    /// The memtable for writes.
    pub(crate) memtable: Arc<Memtable>,
    /// Sealed memtables to be flushed, newest first.
    pub(crate) sealed: Vec<Arc<Memtable>>,
    /// The tables of each level.
    pub(crate) version: Arc<Version>,
    /// Opens the tables of the version.
    pub(crate) tables: Arc<TableOpener>,
    /// The name of the column family.
    pub(crate) family_name: Arc<str>,
    /// The options of the column family when this state was created.
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// The newest sequence number that readers of this state may see: no limit, except in a
    /// secondary database, whose states replace each other as a whole.
    pub(crate) seqno_max: SeqNo,
    /// The largest sequence number in the tables, once it was requested.
    pub(crate) newest_in_tables: OnceLock<SeqNo>,
    /// The ranges of deleted keys that scans of this state skip.
    pub(crate) deleted_ranges: Arc<DeletedRanges>,
}

impl FetchBlob for SuperVersion {
    fn fetch(&self, user_key: &[u8], reference: &[u8]) -> Result<PinnedSlice> {
        self.fetch_with(user_key, reference, FetchOptions::default())
    }

    fn fetch_with(
        &self,
        user_key: &[u8],
        reference: &[u8],
        options: FetchOptions,
    ) -> Result<PinnedSlice> {
        let how = BlobRead {
            options,
            lacks_timestamps: true,
            bytes: BlobBytes::Alone,
        };
        self.version
            .blob_value(&self.tables, user_key, reference, how)
    }
}

impl SuperVersion {
    /// The largest sequence number in the tables.
    pub(crate) fn newest_in_tables(&self) -> SeqNo {
        *self.newest_in_tables.get_or_init(|| {
            let files = self.version.files();
            files.map(|(_, file)| file.largest_seqno).max().unwrap_or(0)
        })
    }
}

impl SuperVersion {
    /// Returns the merge operator of these options, and the source of values in blob files, which
    /// are read with `options`. Keys are without timestamps.
    #[inline]
    pub(crate) fn merger(&self, options: FetchOptions) -> Merger<'_> {
        let statistics = self.tables.context().statistics.as_ref();
        Merger::new(self.options.merge_operator.as_deref(), &self.family_name)
            .with_counts(MergeCounts::of_reads(statistics))
            .with_fetch_options(options)
            .with_blobs(self)
    }

    /// Returns the number of memtables, whose runs precede those of the version.
    #[inline]
    pub(crate) fn runs_above(&self) -> usize {
        1 + self.sealed.len()
    }

    /// Returns the cuckoo table level if it holds all data, and the read `takes_level`.
    ///
    /// All tables are then cuckoo tables of one level. It has everything that was acknowledged
    /// before the super-version was taken, since the memtables are empty.
    #[inline]
    pub(crate) fn cuckoo_level(&self, takes_level: bool) -> Option<&CuckooLevel> {
        if !takes_level || !self.sealed.is_empty() || !self.memtable.is_empty() {
            return None;
        }
        let is_cuckoo = || matches!(self.options.table_factory, TableFormat::Cuckoo(_));
        self.version.cuckoo(|| is_cuckoo().then_some(&*self.tables))
    }
}

/// A thread's own reference to a super version, so that threads share no reference count.
///
/// The slot of a thread and the cursors that the thread creates share one hand. They may be dropped
/// by other threads; the last of them drops the reference to the super-version.
///
/// Aligned so that the counts of two threads are not on one line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Hand {
    super_version: Arc<SuperVersion>,
}

impl Hand {
    /// Creates a thread's own reference that holds `super_version`.
    pub(crate) fn new(super_version: Arc<SuperVersion>) -> Arc<Self> {
        Arc::new(Hand { super_version })
    }

    /// Returns the super version that this reference holds.
    #[inline]
    pub(crate) fn super_version(&self) -> &Arc<SuperVersion> {
        &self.super_version
    }
}

/// A thread's cached super version, with the reference for cursors and its install number.
#[derive(Clone)]
struct CachedSuperVersion {
    number: u64,
    /// The super-version of the hand: reads reach it without a load of the hand.
    super_version: Arc<SuperVersion>,
    hand: Arc<Hand>,
}

impl CachedSuperVersion {
    fn new(number: u64, super_version: Arc<SuperVersion>) -> Self {
        CachedSuperVersion {
            number,
            hand: Hand::new(Arc::clone(&super_version)),
            super_version,
        }
    }
}

/// The slot in which this thread caches the super-version of one column family.
struct Slot {
    cell: u64,
    /// The owner's end of the slot; `None` while a read borrows it.
    held: Cell<Option<Owner<CachedSuperVersion>>>,
}

thread_local! {
    /// The slots of this thread, one for each column family that it reads.
    static SLOTS: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

/// The id of the next [`SuperVersionCell`], by which a thread finds its slot.
static NEXT_CELL: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// Super-versions that were replaced, to be dropped without a lock: freeing memtables takes time.
pub(crate) struct Replaced {
    _garbage: Vec<CachedSuperVersion>,
    _last: Arc<SuperVersion>,
}

/// The id and install number of a cell, on cache lines that change only with an install.
#[repr(align(128))]
struct Validation {
    id: u64,
    installed: AtomicU64,
}

/// The cell with the current super-version of a column family.
pub(crate) struct SuperVersionCell {
    validation: Validation,
    current: Mutex<Arc<SuperVersion>>,
    /// The revokers of all threads' slots, locked during a sweep.
    slots: Mutex<Vec<Revoker<CachedSuperVersion>>>,
}

impl SuperVersionCell {
    pub(crate) fn new(first: SuperVersion) -> Self {
        // Here and not in the first read, which would wait for it.
        biased::register();
        SuperVersionCell {
            validation: Validation {
                id: NEXT_CELL.fetch_add(1, Ordering::Relaxed),
                installed: AtomicU64::new(1),
            },
            current: Mutex::new(Arc::new(first)),
            slots: Mutex::new(Vec::new()),
        }
    }

    /// Returns a counted reference to the current super version, for background jobs.
    pub(crate) fn load(&self) -> Arc<SuperVersion> {
        Arc::clone(&sync::lock(&self.current))
    }

    /// The number of installed super-versions.
    pub(crate) fn install_number(&self) -> u64 {
        self.validation.installed.load(Ordering::Relaxed)
    }

    /// Makes `next` the current super-version; returns replaced ones, to be dropped without a lock.
    #[must_use]
    pub(crate) fn install(&self, next: SuperVersion) -> Replaced {
        let next = Arc::new(next);
        let replaced = std::mem::replace(&mut *sync::lock(&self.current), next);
        self.validation.installed.fetch_add(1, Ordering::Release);
        Replaced {
            _garbage: self.sweep(),
            _last: replaced,
        }
    }

    /// Takes the cached super versions of threads that are not reading, so that they can be freed.
    fn sweep(&self) -> Vec<CachedSuperVersion> {
        let mut slots = sync::lock(&self.slots);
        let held = revoke_idle(&mut slots);
        slots.retain(|slot| !slot.is_orphaned());
        held
    }

    /// Calls `read` with the current super version, normally from the cache of this thread.
    ///
    /// Everything must be inlined into the caller, in registers: a value that is stored to memory
    /// in pieces of one size and loaded in another waits until all earlier loads are done, which
    /// would prevent reads from overlapping. For the same reason each instruction counts: the
    /// processor runs ahead of a cache miss by a few hundred instructions.
    #[inline(always)]
    pub(crate) fn with<R>(&self, read: impl FnOnce(&Arc<SuperVersion>) -> R) -> R {
        self.with_cached(|cached| read(&cached.super_version))
    }

    /// Calls `read` with this thread's reference to the current super version, for cursors.
    #[inline]
    pub(crate) fn with_hand<R>(&self, read: impl FnOnce(&Arc<Hand>) -> R) -> R {
        self.with_cached(|cached| read(&cached.hand))
    }

    /// Calls `read` with this thread's cached super version, after refreshing it if it is stale.
    #[inline(always)]
    fn with_cached<R>(&self, read: impl FnOnce(&CachedSuperVersion) -> R) -> R {
        if SLOTS.try_with(|_| ()).is_err() {
            return self.with_no_slot(read);
        }
        // Unlike `with`, `try_with` reaches this point, too.
        let done = SLOTS.try_with(|slots| {
            // Borrowed during the read.
            if let Ok(slots) = slots.try_borrow()
                && let Some(slot) = slots.iter().find(|slot| slot.cell == self.validation.id)
                && let Some(mut owner) = slot.held.take()
            {
                let held = owner.enter();
                if let Some(inside) = &held
                    && let Some(cached) = &**inside
                    && self.validation.installed.load(Ordering::Acquire) == cached.number
                {
                    let number = cached.number;
                    let result = read(cached);
                    drop(held);
                    // An install that met the reader in its slot relies on it to empty the slot.
                    if self.validation.installed.load(Ordering::SeqCst) != number {
                        self.empty(&mut owner);
                    }
                    slot.held.set(Some(owner));
                    return Ok(result);
                }
                drop(held);
                slot.held.set(Some(owner));
            }
            Err(read)
        });
        match done.expect("the slots are there") {
            Ok(result) => result,
            Err(read) => self.with_newest(read),
        }
    }

    /// Calls `read` with the newest super version if this thread's cache is stale or in use.
    ///
    /// The cache is in use in a read within a read, and during a sweep.
    #[cold]
    #[inline(never)]
    fn with_newest<R>(&self, read: impl FnOnce(&CachedSuperVersion) -> R) -> R {
        let newest = SLOTS.with(|slots| {
            if let Ok(mut slots) = slots.try_borrow_mut() {
                self.make_slot(&mut slots);
            }
            let Ok(slots) = slots.try_borrow() else {
                return self.uncached();
            };
            let slot = slots.iter().find(|slot| slot.cell == self.validation.id);
            let Some((slot, mut owner)) = slot.and_then(|slot| Some((slot, slot.held.take()?)))
            else {
                return self.uncached();
            };
            let newest = self.refill(&mut owner);
            slot.held.set(Some(owner));
            newest
        });
        read(&newest)
    }

    /// Calls `read` without the cache, in a thread whose thread-local values are destroyed.
    #[cold]
    #[inline(never)]
    fn with_no_slot<R>(&self, read: impl FnOnce(&CachedSuperVersion) -> R) -> R {
        read(&self.uncached())
    }

    /// Returns the current super version with a reference that no cache slot shares.
    fn uncached(&self) -> CachedSuperVersion {
        CachedSuperVersion::new(0, self.load())
    }

    /// Caches the current super version in a slot, unless a sweep is emptying the slot.
    ///
    /// The previous contents may be what the sweep skipped.
    fn refill(&self, slot: &mut Owner<CachedSuperVersion>) -> CachedSuperVersion {
        let Some(mut held) = slot.enter() else {
            self.empty(slot);
            return self.uncached();
        };
        // Read after entering the slot: a later install finds the reader in it.
        let installed = self.validation.installed.load(Ordering::Acquire);
        let newest = CachedSuperVersion::new(installed, self.load());
        let replaced = held.replace(newest.clone());
        drop(held);
        if self.validation.installed.load(Ordering::SeqCst) != installed {
            self.empty(slot);
        }
        drop(replaced);
        newest
    }

    /// Gives this thread a cache slot for the column family if it has none, or lost it to a panic.
    ///
    /// Drops slots of dropped column families. No read of this thread may be running.
    fn make_slot(&self, slots: &mut Vec<Slot>) {
        let mut has_own = false;
        slots.retain_mut(|slot| {
            let is_live = slot
                .held
                .get_mut()
                .as_ref()
                .is_some_and(|held| !held.is_orphaned());
            has_own |= is_live && slot.cell == self.validation.id;
            is_live
        });
        if !has_own {
            let (held, revoker) = biased();
            let mut revokers = sync::lock(&self.slots);
            if revokers.len() == revokers.capacity() {
                // An idle column family is never swept; the slots of ended threads must not
                // accumulate.
                revokers.retain(|revoker| !revoker.is_orphaned());
            }
            revokers.push(revoker);
            drop(revokers);
            slots.push(Slot {
                cell: self.validation.id,
                held: Cell::new(Some(held)),
            });
        }
    }

    /// Drops a stale super version from a cache slot, with sweeps locked out.
    ///
    /// The sweep that turned it away may have skipped the slot.
    #[cold]
    fn empty(&self, slot: &mut Owner<CachedSuperVersion>) {
        let no_sweep = sync::lock(&self.slots);
        let stale = slot.enter().and_then(|mut held| {
            let installed = self.validation.installed.load(Ordering::SeqCst);
            held.take_if(|cached| cached.number != installed)
        });
        drop(no_sweep);
        drop(stale);
    }
}

impl Drop for SuperVersionCell {
    fn drop(&mut self) {
        // There are no readers while the cell is dropped: all slots are idle.
        drop(self.sweep());
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use koeldb_table::reader::TableReader;

    use super::*;
    use crate::{Db, Env, Options};

    #[test]
    fn a_cursor_counts_no_reference_that_the_cursors_of_other_threads_count() {
        let mut options = Options::new();
        options.create_if_missing(true).set_env(&Env::mem_env());
        let db = Db::open(&options, "/counts").unwrap();
        for round in 0..3 {
            for key in ["a", "b", "c"] {
                db.put(key, format!("{round}")).unwrap();
            }
            match round {
                0 => db.compact_range(..).unwrap(),
                1 => db.default_cf().flush().unwrap(),
                _ => {}
            }
        }
        let family = db.default_cf().data();
        let counts = || {
            family.super_version.with(|now| {
                let mut counts = vec![
                    Arc::strong_count(now),
                    Arc::strong_count(&now.memtable),
                    Arc::strong_count(&now.version),
                    Arc::strong_count(&now.tables),
                    Arc::strong_count(&now.options),
                    Arc::strong_count(&now.deleted_ranges),
                    Arc::strong_count(&now.family_name),
                    Arc::strong_count(family),
                    Arc::strong_count(db.inner()),
                ];
                for (_, file) in now.version.files() {
                    let reader = file.reader.get().expect("a cursor opened it");
                    counts.push(Arc::strong_count(reader));
                    if let TableReader::BlockBased(reader) = &**reader {
                        counts.push(Arc::strong_count(reader));
                    }
                }
                counts
            })
        };
        let seek = || {
            let mut cursor = db.cursor();
            assert!(cursor.seek("b").unwrap());
            cursor
        };
        drop(seek());
        let before = counts();
        assert_eq!(before.len(), 9 + 2 * 2);
        let cursors = [seek(), seek()];
        assert_eq!(counts(), before);
        let hands = family.super_version.with_hand(Arc::strong_count);
        assert_eq!(hands, 1 + cursors.len());
        drop(cursors);
        assert_eq!(family.super_version.with_hand(Arc::strong_count), 1);
    }

    #[test]
    fn the_slots_of_ended_threads_do_not_pile_up_in_an_idle_family() {
        let mut options = Options::new();
        options.create_if_missing(true).set_env(&Env::mem_env());
        let db = Db::open(&options, "/idle").unwrap();
        for _ in 0..500 {
            let db = db.clone();
            let reader = std::thread::spawn(move || db.get("key").unwrap());
            assert!(reader.join().unwrap().is_none());
        }
        let family = db.default_cf().data();
        let slots = sync::lock(&family.super_version.slots).len();
        assert!(slots < 50, "{slots} slots");
    }
}
