//! What a read needs of a column family, in one pinned value: memtables, tables, options.
//!
//! A family's current [`SuperVersion`] is replaced whenever a memtable is sealed or a version installed. A read
//! takes it from a slot of its own thread, validated by one load of the family's install number: nothing that
//! another thread writes is written to, and no instruction is locked, so that reads overlap in the processor.
//!
//! Idle threads pin neither memtables nor files that were replaced. An install *sweeps*: it empties the slots of threads
//! that are not reading, one sweep at a time. A slot that it passes over is its thread's to see to:
//!
//! - A thread that was inside sees the new install number on its way out, and empties its slot.
//! - A thread that the sweep turned away replaces what is in its slot, or, if it is turned away again, waits until the sweep
//!   is over and empties it.
//!
//! What is left to a thread's next read: a slot whose reader panicked, and slots that were idle where the system refuses the
//! barrier that [`koeldb_base::biased`] needs to look into them.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use koeldb_base::biased::{Owner, Taker, biased, take_idle};
use koeldb_base::sync::{self, AtomicU64, Mutex, Ordering, thread_local};
use koeldb_lsm::{TableCache, Version};
use koeldb_memtable::Memtable;

use crate::options::ColumnFamilyOptions;
use crate::write_buffers::Charge;

/// One consistent state of a family.
#[derive(Debug)]
pub(crate) struct SuperVersion {
    /// Takes the writes.
    pub(crate) memtable: Arc<Memtable>,
    /// Full memtables on their way to level 0, newest first.
    pub(crate) sealed: Vec<Arc<Memtable>>,
    /// The tables.
    pub(crate) version: Arc<Version>,
    /// Opens tables.
    pub(crate) tables: Arc<TableCache>,
    /// The family's options as they were when this state was made.
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// What the memtables are charged, as long as somebody may read them.
    pub(crate) _charges: Vec<Arc<Charge>>,
}

/// A super-version and the install number it was current at.
type Held = (u64, Arc<SuperVersion>);

/// The slot of this thread in the cell of one family.
struct Slot {
    cell: u64,
    /// `None` while it is lent to a read.
    held: Cell<Option<Owner<Held>>>,
}

thread_local! {
    static SLOTS: RefCell<Vec<Slot>> = const { RefCell::new(Vec::new()) };
}

static NEXT_CELL: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// Super-versions that nobody finds any more: freeing their memtables takes its time.
pub(crate) struct Replaced {
    _garbage: Vec<Arc<SuperVersion>>,
}

/// Where a family's current super-version is found.
pub(crate) struct SuperVersionCell {
    id: u64,
    installed: AtomicU64,
    current: Mutex<Arc<SuperVersion>>,
    /// Locked for as long as a sweep takes.
    slots: Mutex<Vec<Taker<Held>>>,
}

impl SuperVersionCell {
    pub(crate) fn new(first: SuperVersion) -> Self {
        SuperVersionCell {
            id: NEXT_CELL.fetch_add(1, Ordering::Relaxed),
            installed: AtomicU64::new(1),
            current: Mutex::new(Arc::new(first)),
            slots: Mutex::new(Vec::new()),
        }
    }

    /// The current super-version, owned: for cursors and jobs.
    pub(crate) fn load(&self) -> Arc<SuperVersion> {
        Arc::clone(&sync::lock(&self.current))
    }

    /// How often a super-version was installed.
    pub(crate) fn install_number(&self) -> u64 {
        self.installed.load(Ordering::Relaxed)
    }

    /// Makes `next` the current super-version; what it replaces is given back, to be let go of without a lock held.
    #[must_use]
    pub(crate) fn install(&self, next: SuperVersion) -> Replaced {
        let next = Arc::new(next);
        let replaced = std::mem::replace(&mut *sync::lock(&self.current), next);
        self.installed.fetch_add(1, Ordering::Release);
        let mut garbage = self.sweep();
        garbage.push(replaced);
        Replaced { _garbage: garbage }
    }

    /// Empties the slots of threads that are not reading.
    fn sweep(&self) -> Vec<Arc<SuperVersion>> {
        let mut slots = sync::lock(&self.slots);
        let held = take_idle(&mut slots);
        slots.retain(|slot| !slot.is_orphaned());
        held.into_iter()
            .map(|(_, super_version)| super_version)
            .collect()
    }

    /// Runs `read` on the current super-version.
    ///
    /// All of it is to end up in the caller, in registers: what is handed on through memory in pieces of one size and
    /// taken in another waits until all earlier loads are done, and so would keep reads from overlapping. For the same
    /// reason each instruction counts: the processor runs ahead of a miss of the cache by a few hundred of them.
    #[inline(always)]
    pub(crate) fn with<R>(&self, read: impl FnOnce(&Arc<SuperVersion>) -> R) -> R {
        // Unlike `with`, `try_with` ends up here, too.
        let done = SLOTS.try_with(|slots| {
            // Borrowed and lent as long as the read takes.
            if let Ok(slots) = slots.try_borrow()
                && let Some(slot) = slots.iter().find(|slot| slot.cell == self.id)
                && let Some(mut owner) = slot.held.take()
            {
                let held = owner.enter();
                if let Some(inside) = &held
                    && let Some((number, super_version)) = &**inside
                    && self.installed.load(Ordering::Acquire) == *number
                {
                    let number = *number;
                    let result = read(super_version);
                    drop(held);
                    // An install that met the reader in its slot relies on it to empty the slot.
                    if self.installed.load(Ordering::SeqCst) != number {
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
        match done.expect("a thread that ends does not read") {
            Ok(result) => result,
            Err(read) => self.with_newest(read),
        }
    }

    /// The same where this thread's slot does not have the current super-version, or something is in the way: a read around
    /// this one, or a sweep.
    #[cold]
    #[inline(never)]
    fn with_newest<R>(&self, read: impl FnOnce(&Arc<SuperVersion>) -> R) -> R {
        let newest = SLOTS.with(|slots| {
            if let Ok(mut slots) = slots.try_borrow_mut() {
                self.make_slot(&mut slots);
            }
            let Ok(slots) = slots.try_borrow() else {
                return self.load();
            };
            let slot = slots.iter().find(|slot| slot.cell == self.id);
            let Some((slot, mut owner)) = slot.and_then(|slot| Some((slot, slot.held.take()?)))
            else {
                return self.load();
            };
            let newest = self.refill(&mut owner);
            slot.held.set(Some(owner));
            newest
        });
        read(&newest)
    }

    /// Puts the current super-version into a slot, unless a sweep turns its thread away: what was there may be what the sweep
    /// passed over.
    fn refill(&self, slot: &mut Owner<Held>) -> Arc<SuperVersion> {
        let Some(mut held) = slot.enter() else {
            self.empty(slot);
            return self.load();
        };
        // Read after the slot was entered: an install after this meets the reader in it.
        let installed = self.installed.load(Ordering::Acquire);
        let newest = self.load();
        let replaced = held.replace((installed, Arc::clone(&newest)));
        drop(held);
        if self.installed.load(Ordering::SeqCst) != installed {
            self.empty(slot);
        }
        drop(replaced);
        newest
    }

    /// Gives this thread a slot if it has none, or lost it to a panic, and lets go of those of families that are gone. No read
    /// of this thread is under way.
    fn make_slot(&self, slots: &mut Vec<Slot>) {
        let mut has_own = false;
        slots.retain_mut(|slot| {
            let is_live = slot
                .held
                .get_mut()
                .as_ref()
                .is_some_and(|held| !held.is_orphaned());
            has_own |= is_live && slot.cell == self.id;
            is_live
        });
        if !has_own {
            let (held, taker) = biased();
            sync::lock(&self.slots).push(taker);
            slots.push(Slot {
                cell: self.id,
                held: Cell::new(Some(held)),
            });
        }
    }

    /// Lets go of a super-version that was replaced, while no sweep can turn this thread away: the one that did may have
    /// passed over the slot.
    #[cold]
    fn empty(&self, slot: &mut Owner<Held>) {
        let no_sweep = sync::lock(&self.slots);
        let stale = slot.enter().and_then(|mut held| {
            let installed = self.installed.load(Ordering::SeqCst);
            held.take_if(|(number, _)| *number != installed)
        });
        drop(no_sweep);
        drop(stale);
    }
}

impl Drop for SuperVersionCell {
    fn drop(&mut self) {
        // Nobody reads while the cell is dropped: all slots are idle.
        drop(self.sweep());
    }
}

#[cfg(all(test, loom))]
mod models;
