//! The memtables of a family: how they are made and charged, and the one that stands by.
//!
//! A memtable that takes writes is looked at by the leader of the write queue when it has grown to a mark. When it is half
//! full a job in the background makes its successor, so that switching costs microseconds however large the arrays of a
//! representation are. The successor is charged like any other, and goes with its family.

use std::fmt;
use std::sync::Arc;

use koeldb_base::KeyOrder;
use koeldb_base::coding::to_usize;
use koeldb_base::file_name::FileNumber;
use koeldb_base::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, lock};
use koeldb_memtable::{Memtable, MemtableOptions, Recycler, SortTask, Sorter};

use crate::env::{JobPriority, Pool};
use crate::family::FamilyData;
use crate::inner::DbInner;
use crate::options::ColumnFamilyOptions;
use crate::write_buffers::{Charge, WriteBufferManager};

/// A memtable, the first log that holds a part of it, and what it is charged where that is counted.
#[derive(Clone, Debug)]
pub(crate) struct LoggedMemtable {
    pub(crate) memtable: Arc<Memtable>,
    pub(crate) first_log: FileNumber,
    pub(crate) charge: Option<Arc<Charge>>,
}

impl LoggedMemtable {
    /// Brings the charge up to date.
    pub(crate) fn recharge(&self) {
        if let Some(charge) = &self.charge {
            charge.set(self.memtable.memory_bytes());
        }
    }

    /// It takes writes from now on.
    pub(crate) fn activate(&self) {
        if let Some(charge) = &self.charge {
            charge.activate();
        }
    }

    /// What can be gained by sealing it.
    pub(crate) fn gain(&self) -> u64 {
        match &self.charge {
            Some(charge) if !self.memtable.is_empty() => charge.bytes(),
            _ => 0,
        }
    }
}

/// What the memtables of all families of a database have in common.
#[derive(Clone)]
pub(crate) struct MemtableMaker {
    pub(crate) write_buffers: Option<WriteBufferManager>,
    /// Memory of dropped memtables, for the next ones, and its charge.
    recycler: Arc<Recycler>,
    recycler_charge: Option<Arc<Charge>>,
    sorter: Sorter,
}

impl MemtableMaker {
    /// Keeps up to `recycled_bytes_max` bytes of dropped memtables; sorts in the threads of `pool`.
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
            sorter: Arc::new(move |task: SortTask| {
                pool.submit(JobPriority::High, move || task.run());
            }),
            write_buffers,
        }
    }

    fn options(&self, options: &ColumnFamilyOptions) -> MemtableOptions {
        MemtableOptions {
            recycler: Some(Arc::clone(&self.recycler)),
            sorter: Some(Arc::clone(&self.sorter)),
            ..options.memtable_options()
        }
    }

    /// An empty memtable, which takes no writes yet.
    pub(crate) fn make(&self, order: &KeyOrder, options: &ColumnFamilyOptions) -> LoggedMemtable {
        self.logged(Memtable::new(order.clone(), &self.options(options)))
    }

    /// An empty memtable to follow one that is still written to.
    fn make_successor(&self, active: &Memtable, options: &ColumnFamilyOptions) -> LoggedMemtable {
        self.logged(active.successor(&self.options(options)))
    }

    fn logged(&self, memtable: Arc<Memtable>) -> LoggedMemtable {
        if let Some(charge) = &self.recycler_charge {
            charge.set(self.recycler.memory_bytes());
        }
        let charge = |manager| Charge::new(manager, memtable.memory_bytes());
        LoggedMemtable {
            charge: self.write_buffers.as_ref().map(charge),
            first_log: 0,
            memtable,
        }
    }

    /// How large the active memtable of a family is when the leader looks at it next.
    fn next_look(&self, bytes: usize, write_buffer_bytes: usize) -> usize {
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

/// The successor of a memtable, and when the memtable is looked at.
#[derive(Debug)]
pub(crate) struct Standby<M = LoggedMemtable> {
    /// With the options it was made by.
    ready: Mutex<Option<(M, Arc<ColumnFamilyOptions>)>>,
    is_requested: AtomicBool,
    look_at_bytes: AtomicUsize,
}

impl<M> Default for Standby<M> {
    fn default() -> Self {
        Standby {
            ready: Mutex::new(None),
            is_requested: AtomicBool::new(false),
            look_at_bytes: AtomicUsize::new(0),
        }
    }
}

impl<M> Standby<M> {
    /// The successor, if one stands by that was made by these options; another one may be asked for.
    fn take(&self, options: &Arc<ColumnFamilyOptions>) -> Option<M> {
        self.is_requested.store(false, Ordering::Relaxed);
        let ready = lock(&self.ready).take();
        ready
            .filter(|(_, made_by)| Arc::ptr_eq(made_by, options))
            .map(|(next, _)| next)
    }

    /// Makes the successor, unless there is one or its family is dropped.
    fn prepare(
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
        // Dropped meanwhile: nobody else takes it away.
        if is_dropped() {
            self.forget();
        }
    }

    /// Lets go of the successor.
    fn forget(&self) {
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

impl FamilyData {
    /// Whether the leader should look at the active memtable, now that it takes so many bytes.
    #[inline]
    pub(crate) fn should_look(&self, memory_bytes: usize) -> bool {
        memory_bytes >= self.standby.look_at_bytes.load(Ordering::Relaxed)
    }

    /// Sets when the active memtable, which takes so many bytes, is looked at again.
    pub(crate) fn look_later(&self, memory_bytes: usize, write_buffer_bytes: usize) {
        let mark = self.maker.next_look(memory_bytes, write_buffer_bytes);
        self.standby.look_at_bytes.store(mark, Ordering::Relaxed);
    }

    /// The successor of the active memtable: the one that stands by if it was made by these options, else a new one.
    pub(crate) fn take_successor(&self, options: &Arc<ColumnFamilyOptions>) -> LoggedMemtable {
        let next = self.standby.take(options);
        next.unwrap_or_else(|| self.maker.make(&self.order, options))
    }

    /// Makes the successor, unless there is one.
    fn prepare_successor(&self) {
        self.standby.prepare(
            self.options(),
            || self.is_dropped(),
            |options| {
                let active = self.read(|state| Arc::clone(&state.active.memtable));
                self.maker.make_successor(&active, options)
            },
        );
    }

    /// Lets go of the successor.
    pub(crate) fn forget_successor(&self) {
        self.standby.forget();
    }

    /// Whether a successor stands by.
    #[cfg(test)]
    pub(crate) fn has_successor(&self) -> bool {
        lock(&self.standby.ready).is_some()
    }
}

impl DbInner {
    /// Has the successor of a family's active memtable made in the background.
    pub(crate) fn request_successor(self: &Arc<Self>, family: &Arc<FamilyData>) {
        if family.standby.is_requested.swap(true, Ordering::Relaxed) {
            return;
        }
        let (inner, family) = (Arc::clone(self), Arc::clone(family));
        self.env.pool.submit(JobPriority::High, move || {
            if let Ok(_foreground) = inner.background.enter() {
                family.prepare_successor();
            }
        });
    }

    /// The most that sealing one memtable of this database would gain.
    pub(crate) fn largest_gain(&self) -> u64 {
        let families = self.all_families();
        let gains = families
            .iter()
            .map(|family| family.read(|state| state.active.gain()));
        gains.max().unwrap_or(0)
    }

    /// Seals the largest memtable of this database in the background, for another one that has reached the limit of both.
    pub(crate) fn seal_largest_later(self: &Arc<Self>) {
        if self.is_relieving.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = Arc::clone(self);
        self.env.pool.submit(JobPriority::High, move || {
            if let Ok(_foreground) = inner.background.enter() {
                // A failure is stored, and the writes of this database meet it.
                let _ = inner.seal_largest(&mut inner.queue.lead().commit);
                inner.report_failures();
            }
            inner.is_relieving.store(false, Ordering::Release);
        });
    }
}

/// The size at which a memtable of these options is full.
pub(crate) fn write_buffer_bytes(options: &ColumnFamilyOptions) -> usize {
    to_usize(options.write_buffer_size)
}

#[cfg(all(test, loom))]
mod models;
#[cfg(test)]
mod tests;
