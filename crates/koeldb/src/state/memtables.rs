//! The memtables of a column family: their creation, their memory charge, and the standby memtable.
//!
//! The leader of the write queue checks the active memtable when it has reached a certain size.
//! When it is half full, a background job creates its successor, so that a switch takes
//! microseconds regardless of the size of the arrays of a representation. The successor is charged
//! like any memtable and is dropped with its column family.

use std::fmt;
use std::sync::{Arc, Weak};

use koeldb_base::coding::to_usize;
use koeldb_base::file_name::FileNumber;
use koeldb_base::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, lock};
use koeldb_base::{KeyOrder, Timestamp};
use koeldb_memtable::{Memtable, MemtableOptions, Recycler, SortTask, Sorter};

use crate::env::write_buffers::{Charge, WriteBufferManager};
use crate::env::{JobPriority, Pool};
use crate::options::ColumnFamilyOptions;

/// A memtable with the first WAL that has its data and its charge to the write buffer manager.
#[derive(Clone, Debug)]
pub(crate) struct LoggedMemtable {
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) first_log: FileNumber,
    pub(crate) charge: Option<Arc<Charge>>,
    /// The memory of the entries, which readers may hold longer than the memtable.
    pub(crate) memory: Weak<EntryMemory>,
}

/// A token that keeps a memtable's memory charged until its entries are freed.
#[derive(Debug)]
pub(crate) struct EntryMemory(
    #[expect(dead_code, reason = "held until the memory is freed")] Option<Arc<Charge>>,
);

/// The flushed memtables that readers still hold: super versions, cursors and long values.
#[derive(Debug, Default)]
pub(crate) struct HeldMemtables(Vec<(Weak<EntryMemory>, usize)>);

impl HeldMemtables {
    /// Adds memtables that were flushed, and forgets those that were freed.
    pub(crate) fn add(&mut self, flushed: impl Iterator<Item = LoggedMemtable>) {
        self.0.retain(|(memory, _)| memory.strong_count() > 0);
        self.0
            .extend(flushed.map(|flushed| (flushed.memory, flushed.memtable.memory_bytes())));
    }

    /// The memory of those that are still held.
    pub(crate) fn bytes(&self) -> usize {
        let held = self
            .0
            .iter()
            .filter(|(memory, _)| memory.strong_count() > 0);
        held.map(|(_, bytes)| bytes).sum()
    }
}

impl LoggedMemtable {
    /// Sets the charge to the write buffer manager to the memtable's present memory.
    pub(crate) fn update_charge(&self) {
        if let Some(charge) = &self.charge {
            charge.set(self.memtable.memory_bytes());
        }
    }

    /// Marks the memtable as the active one at the write buffer manager.
    pub(crate) fn activate(&self) {
        if let Some(charge) = &self.charge {
            charge.activate();
        }
    }

    /// Marks the memtable as inactive at the write buffer manager, after a drop or close.
    pub(crate) fn retire(&self) {
        if let Some(charge) = &self.charge {
            charge.set(self.memtable.memory_bytes());
            charge.seal();
        }
    }

    /// The memory that sealing the memtable can free.
    pub(crate) fn freeable_bytes(&self) -> u64 {
        match &self.charge {
            Some(charge) if !self.memtable.is_empty() => charge.bytes(),
            _ => 0,
        }
    }
}

/// Returns the newest user-defined timestamp in memtables whose flush leaves out the timestamps.
///
/// Others do not track it.
pub(crate) fn newest_timestamp(memtables: &[Arc<Memtable>]) -> Option<Timestamp> {
    let newest = memtables
        .iter()
        .filter_map(|memtable| memtable.newest_timestamp());
    newest.max_by_key(|time| u64::from_le_bytes(*time))
}

/// The factory of the memtables of all column families of a database.
#[derive(Clone)]
pub(crate) struct MemtableMaker {
    pub(crate) write_buffers: Option<WriteBufferManager>,
    /// The memory of dropped memtables for reuse.
    recycler: Arc<Recycler>,
    /// The charge of `recycler`.
    recycler_charge: Option<Arc<Charge>>,
    sorter: Sorter,
    /// Whether the pool is simulated, so that keys must be hashed the same in every run.
    is_stepped: bool,
}

impl MemtableMaker {
    /// Creates the factory; up to `recycled_bytes_max` bytes of dropped memtables are reused.
    pub(crate) fn new(
        write_buffers: Option<WriteBufferManager>,
        recycled_bytes_max: usize,
        pool: &Pool,
    ) -> Self {
        let pool = pool.clone();
        let charge = |manager| Charge::new(manager, 0);
        MemtableMaker {
            recycler: Recycler::new(recycled_bytes_max),
            recycler_charge: write_buffers.as_ref().map(charge),
            is_stepped: pool.is_stepped(),
            sorter: Arc::new(move |task: SortTask| {
                pool.submit(JobPriority::High, move || task.run());
            }),
            write_buffers,
        }
    }

    /// Creates an empty charge to the write buffer manager for a new memtable.
    fn charge(&self) -> Option<Arc<Charge>> {
        let manager = self.write_buffers.as_ref();
        manager.map(|manager| Charge::new(manager, 0))
    }

    /// Returns the options of a new memtable, with its recycler, sorter and charge.
    fn options(&self, options: &ColumnFamilyOptions, memory: &Arc<EntryMemory>) -> MemtableOptions {
        MemtableOptions {
            recycler: Some(Arc::clone(&self.recycler)),
            sorter: Some(Arc::clone(&self.sorter)),
            fixed_hash_seed: self.is_stepped,
            charge: Some(Arc::clone(memory) as _),
            ..options.memtable_options()
        }
    }

    /// Creates an empty memtable that is not active yet.
    pub(crate) fn make(&self, order: &KeyOrder, options: &ColumnFamilyOptions) -> LoggedMemtable {
        let charge = self.charge();
        let memory = Arc::new(EntryMemory(charge.clone()));
        let memtable = Memtable::new(order.clone(), &self.options(options, &memory));
        self.logged(memtable, charge, &memory)
    }

    /// Creates an empty memtable as the successor of the active one.
    pub(crate) fn make_successor(
        &self,
        active: &Memtable,
        options: &ColumnFamilyOptions,
    ) -> LoggedMemtable {
        let charge = self.charge();
        let memory = Arc::new(EntryMemory(charge.clone()));
        let memtable = active.successor(&self.options(options, &memory));
        self.logged(memtable, charge, &memory)
    }

    /// Wraps a new memtable with its memory charge.
    fn logged(
        &self,
        memtable: Arc<Memtable>,
        charge: Option<Arc<Charge>>,
        memory: &Arc<EntryMemory>,
    ) -> LoggedMemtable {
        if let Some(charge) = &self.recycler_charge {
            charge.set(self.recycler.memory_bytes());
        }
        let logged = LoggedMemtable {
            charge,
            memory: Arc::downgrade(memory),
            first_log: 0,
            memtable,
        };
        logged.update_charge();
        logged
    }

    /// Returns the memtable size at which the write leader next checks for a memtable switch.
    pub(crate) fn next_check_bytes(&self, bytes: usize, write_buffer_bytes: usize) -> usize {
        let half = write_buffer_bytes / 2;
        let mark = if bytes < half {
            half
        } else {
            write_buffer_bytes
        };
        match &self.write_buffers {
            Some(manager) => mark.min(bytes.saturating_add(manager.step_bytes())),
            None => mark,
        }
    }
}

/// The standby memtable, which becomes active at the next switch, and the size of the next check.
#[derive(Debug)]
pub(crate) struct StandbyMemtable<M = LoggedMemtable> {
    /// The standby memtable, with the options for which it was created.
    ready: Mutex<Option<(M, Arc<ColumnFamilyOptions>)>>,
    is_requested: AtomicBool,
    check_at_bytes: AtomicUsize,
}

impl<M> Default for StandbyMemtable<M> {
    fn default() -> Self {
        StandbyMemtable {
            ready: Mutex::new(None),
            is_requested: AtomicBool::new(false),
            check_at_bytes: AtomicUsize::new(0),
        }
    }
}

impl<M> StandbyMemtable<M> {
    /// Whether the write leader must check the active memtable for a switch, at this memory size.
    #[inline]
    pub(crate) fn should_check_switch(&self, memory_bytes: usize) -> bool {
        memory_bytes >= self.check_at_bytes.load(Ordering::Relaxed)
    }

    /// Sets the memtable size at which the write leader next checks for a memtable switch.
    pub(crate) fn set_next_switch_check(&self, memory_bytes: usize) {
        self.check_at_bytes.store(memory_bytes, Ordering::Relaxed);
    }

    /// Requests the creation of the standby; `false` if that was requested already.
    pub(crate) fn begin_request(&self) -> bool {
        !self.is_requested.swap(true, Ordering::Relaxed)
    }

    /// Whether there is a standby.
    #[cfg(test)]
    pub(crate) fn is_ready(&self) -> bool {
        lock(&self.ready).is_some()
    }

    /// Takes the standby if it was created with these options; another one may then be requested.
    pub(crate) fn take(&self, options: &Arc<ColumnFamilyOptions>) -> Option<M> {
        self.is_requested.store(false, Ordering::Relaxed);
        let ready = lock(&self.ready).take();
        ready
            .filter(|(_, made_by)| Arc::ptr_eq(made_by, options))
            .map(|(next, _)| next)
    }

    /// Creates the standby, unless there is one or the column family is dropped.
    pub(crate) fn prepare(
        &self,
        options: Arc<ColumnFamilyOptions>,
        is_dropped: impl Fn() -> bool,
        make: impl FnOnce(&ColumnFamilyOptions) -> M,
    ) {
        let is_ready = lock(&self.ready)
            .as_ref()
            .is_some_and(|(_, made_by)| Arc::ptr_eq(made_by, &options));
        if !is_ready && !is_dropped() {
            let next = make(&options);
            let replaced = lock(&self.ready).replace((next, options));
            drop(replaced);
        }
        // The column family was dropped in the meantime, so nothing else would remove the standby.
        if is_dropped() {
            self.forget();
        }
    }

    /// Drops the standby memtable, if there is one.
    pub(crate) fn forget(&self) {
        let ready = lock(&self.ready).take();
        drop(ready);
    }
}

impl fmt::Debug for MemtableMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemtableMaker")
            .field("write_buffers", &self.write_buffers)
            .field("recycler", &self.recycler)
            .finish_non_exhaustive()
    }
}

/// The size at which a memtable with these options is full.
pub(crate) fn write_buffer_bytes(options: &ColumnFamilyOptions) -> usize {
    to_usize(options.write_buffer_size)
}

#[cfg(all(test, loom))]
mod models;
#[cfg(test)]
mod tests;
