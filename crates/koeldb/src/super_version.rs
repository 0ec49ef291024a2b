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
//! - A thread that the sweep turned away waits until the sweep is over, and empties its slot then.
//!
//! What is left to a thread's next read: a slot whose reader panicked, and slots that were idle where the system refuses the
//! barrier that [`koeldb_base::biased`] needs to look into them.

use std::cell::RefCell;
use std::rc::Rc;
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
    held: Rc<Owner<Held>>,
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
    /// taken in another waits until all earlier loads are done, and so would keep reads from overlapping.
    #[inline]
    pub(crate) fn with<R>(&self, read: impl FnOnce(&Arc<SuperVersion>) -> R) -> R {
        let slot = self.slot();
        let mut held = slot.enter();
        let installed = self.installed.load(Ordering::Acquire);
        let newest;
        let super_version = match held.as_deref_mut() {
            Some(Some((number, super_version))) if *number == installed => &*super_version,
            Some(held) => self.refill(held, installed),
            // A read inside a read, or an install sweeping by.
            None => {
                self.empty(&slot);
                newest = self.load();
                &newest
            }
        };
        let result = read(super_version);
        drop(held);
        // An install that met the reader in its slot relies on it to empty the slot.
        if self.installed.load(Ordering::SeqCst) != installed {
            self.empty(&slot);
        }
        result
    }

    /// The slot of this thread.
    #[inline]
    fn slot(&self) -> Rc<Owner<Held>> {
        let known = SLOTS.with(|slots| {
            let slots = slots.borrow();
            let own = slots.iter().find(|slot| slot.cell == self.id);
            own.map(|slot| Rc::clone(&slot.held))
        });
        known.unwrap_or_else(|| self.make_slot())
    }

    /// Replaces what a slot holds; the install number was read before.
    #[cold]
    fn refill<'s>(&self, held: &'s mut Option<Held>, installed: u64) -> &'s Arc<SuperVersion> {
        &held.insert((installed, self.load())).1
    }

    /// Lets go of a super-version that was replaced, while no sweep can turn this thread away: the one that did may have
    /// passed over the slot.
    #[cold]
    fn empty(&self, slot: &Owner<Held>) {
        let no_sweep = sync::lock(&self.slots);
        let stale = slot.enter().and_then(|mut held| {
            let installed = self.installed.load(Ordering::SeqCst);
            held.take_if(|(number, _)| *number != installed)
        });
        drop(no_sweep);
        drop(stale);
    }

    /// Gives this thread a slot.
    #[cold]
    fn make_slot(&self) -> Rc<Owner<Held>> {
        let (owner, taker) = biased();
        let held = Rc::new(owner);
        sync::lock(&self.slots).push(taker);
        let slot = Slot {
            cell: self.id,
            held: Rc::clone(&held),
        };
        // Those of families that are gone are let go of when nothing is borrowed any more.
        let orphaned: Vec<Slot> = SLOTS.with(|slots| {
            let mut slots = slots.borrow_mut();
            slots.push(slot);
            slots
                .extract_if(.., |slot| slot.held.is_orphaned())
                .collect()
        });
        drop(orphaned);
        held
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
