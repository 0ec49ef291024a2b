//! What a read needs of a column family, in one pinned value: memtables, tables, options.
//!
//! A family's current [`SuperVersion`] is replaced whenever a memtable is sealed or a version installed. A read
//! takes it from a slot of its own thread, validated by one load of the family's install number: nothing that
//! another thread writes is written to. The slot is locked by its owner for the length of the read; an install
//! empties the slots it can lock, so that idle threads pin neither memtables nor files, and a read whose super-version
//! was replaced meanwhile empties its own slot on the way out.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use koeldb_lsm::{TableCache, Version};
use koeldb_memtable::Memtable;

use crate::options::ColumnFamilyOptions;

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
}

#[derive(Default)]
struct Slot {
    held: Mutex<Option<(u64, Arc<SuperVersion>)>>,
    abandoned: AtomicBool,
}

thread_local! {
    static SLOTS: RefCell<Vec<(u64, Arc<Slot>)>> = const { RefCell::new(Vec::new()) };
}

static NEXT_CELL: AtomicU64 = AtomicU64::new(1);

/// Super-versions that nobody finds any more: freeing their memtables takes its time.
pub(crate) struct Replaced {
    _garbage: Vec<Arc<SuperVersion>>,
}

/// Where a family's current super-version is found.
pub(crate) struct SuperVersionCell {
    id: u64,
    installed: AtomicU64,
    current: Mutex<Arc<SuperVersion>>,
    slots: Mutex<Vec<Arc<Slot>>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        Arc::clone(&lock(&self.current))
    }

    /// How often a super-version was installed.
    pub(crate) fn install_number(&self) -> u64 {
        self.installed.load(Ordering::Relaxed)
    }

    /// Makes `next` the current super-version; what it replaces is given back, to be let go of without a lock held.
    #[must_use]
    pub(crate) fn install(&self, next: SuperVersion) -> Replaced {
        let next = Arc::new(next);
        let replaced = std::mem::replace(&mut *lock(&self.current), next);
        self.installed.fetch_add(1, Ordering::Release);
        let mut garbage = self.sweep();
        garbage.push(replaced);
        Replaced { _garbage: garbage }
    }

    /// Empties the slots of threads that are not reading.
    fn sweep(&self) -> Vec<Arc<SuperVersion>> {
        let mut slots = lock(&self.slots);
        slots.retain(|slot| Arc::strong_count(slot) > 1);
        let held = slots
            .iter()
            .filter_map(|slot| slot.held.try_lock().ok()?.take());
        held.map(|(_, super_version)| super_version).collect()
    }

    /// Runs `read` on the current super-version.
    #[inline]
    pub(crate) fn with<R>(&self, read: impl FnOnce(&Arc<SuperVersion>) -> R) -> R {
        let slot = SLOTS.with_borrow(|slots| {
            slots
                .iter()
                .find(|(id, _)| *id == self.id)
                .map(|(_, slot)| Arc::clone(slot))
        });
        let slot = slot.unwrap_or_else(|| self.new_slot());
        let mut held = match slot.held.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // A read inside a read, or an install sweeping by.
            Err(TryLockError::WouldBlock) => return read(&self.load()),
        };
        let installed = self.installed.load(Ordering::Acquire);
        let is_current = matches!(&*held, Some((number, _)) if *number == installed);
        if !is_current {
            *held = Some((installed, self.load()));
        }
        let result = match &*held {
            Some((_, super_version)) => read(super_version),
            None => read(&self.load()),
        };
        drop(held);
        // An install that met the slot locked relies on its owner to empty it.
        if self.installed.load(Ordering::SeqCst) != installed
            && let Ok(mut held) = slot.held.try_lock()
        {
            let stale = held.take();
            drop(held);
            drop(stale);
        }
        result
    }

    #[cold]
    fn new_slot(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        lock(&self.slots).push(Arc::clone(&slot));
        SLOTS.with_borrow_mut(|slots| {
            slots.retain(|(_, slot)| !slot.abandoned.load(Ordering::Relaxed));
            slots.push((self.id, Arc::clone(&slot)));
        });
        slot
    }
}

impl Drop for SuperVersionCell {
    fn drop(&mut self) {
        for slot in lock(&self.slots).drain(..) {
            slot.abandoned.store(true, Ordering::Relaxed);
            drop(lock(&slot.held).take());
        }
    }
}
