//! Writes without a log that need no leader: each inserts its own batch concurrently.
//!
//! A gate is open while many threads write without a log. A writer that passes it takes sequence
//! numbers by one addition, inserts, and marks its batch as inserted. The marked batches that follow
//! the visible ones are published in order, by one of the writers that marked one, as in the
//! [`Pipeline`](super::pipeline::Pipeline) ([`PublicationRight`]). A leader closes the gate first: nothing is being
//! inserted then, and it has the exclusive access of any leader.
//!
//! The gate is a lock for each of some slots, which hold the memtables. A writer locks the slot of its
//! thread until its batch is published, so writers share no line for it; a leader empties all of them.
//!
//! # Invariants
//! - **D1** A batch has numbers only while its writer holds a filled slot, and slots are emptied and
//!   filled by the leader alone. So no number is taken while there is a leader that has closed the gate.
//! - **D2** Numbers are published in order, and only when all up to them are inserted. After a batch
//!   that could not be inserted none is published any more.
//! - **D3** A marked batch is unpublished only while one before it is not marked, or a thread holds
//!   the right to publish, which looks once more after it gave that right up.

use std::sync::{Arc, OnceLock};

use koeldb_base::coding::to_usize;
use koeldb_base::error::WriteOutcome;
use koeldb_base::key::MAX_SEQNO;
use koeldb_base::sync::{
    AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, Padded, Thread, current, lock,
    park, spin_loop, stripe_count,
};
use koeldb_base::{Error, ErrorKind, Result, SeqNo};

use super::pipeline::PublicationRight;
use super::protocol::{ColumnFamilyMemtable, CommitState, not_applied};
use super::queue::CommitEnv;
use super::writer::{CommitMode, preferred};
use crate::batch::verify;

/// The maximum number of operations of a batch that is written without a leader.
const COUNT_MAX: u32 = if cfg!(loom) { 2 } else { 64 };
/// The maximum size of the records of a batch that is written without a leader, in bytes.
///
/// Concurrent batches behind the gate thus exceed a memory limit only slightly.
const BYTES_MAX: usize = 64 << 10;
/// The number of successive groups of eligible batches that opens the gate; 1 in debug builds.
///
/// Tests thus pass the gate often.
const GROUPS_MIN: u32 = if cfg!(all(debug_assertions, not(loom))) {
    1
} else {
    8
};
/// The number of spins of a writer that waits for its publication, before it sleeps.
const SPINS: u32 = if cfg!(loom) { 1 } else { 300 };

/// Whether a batch has few enough operations and bytes to be written without a leader.
#[inline]
pub(super) fn is_small(count: u32, records: &[u8]) -> bool {
    (1..=COUNT_MAX).contains(&count) && records.len() <= BYTES_MAX
}

/// The column families with their active memtables, by ascending id.
type Families = Arc<Vec<ColumnFamilyMemtable>>;
/// A lock of the gate, with the memtables while the gate is open; a writer holds one.
type Slot = Padded<Mutex<Option<Families>>>;

/// The gate by which small writes with `disable_wal` bypass write groups and their leaders.
pub(super) struct DirectWrites {
    is_open: Padded<AtomicBool>,
    /// The number of successive eligible groups up to the last one; changed by the leader.
    groups: AtomicU32,
    /// The state of the batches, created when the gate opens for the first time.
    batches: OnceLock<Batches>,
}

/// The batches that are being inserted without a leader, and the state of their publication.
struct Batches {
    /// The locks that form the gate; each holds the memtables while the gate is open.
    slots: Box<[Slot]>,
    /// The last sequence number that was given to a batch.
    last: Padded<AtomicU64>,
    /// For the first number of each inserted batch its last number; see [`Batches::mark`].
    ///
    /// There are as many as the batches of all slots can have numbers.
    marks: Box<[AtomicU64]>,
    /// The last published number; changed by the thread that publishes.
    published: Padded<AtomicU64>,
    right: PublicationRight,
    sleepers: Mutex<Vec<Thread>>,
    /// The first number of a batch that could not be inserted; the largest number without one.
    failed_from: AtomicU64,
    failure: OnceLock<Error>,
}

/// A guard of a batch that has sequence numbers and is being inserted, in case that panics.
///
/// A guard: if the insertion panics, all batches with later numbers fail.
struct Unmarked<'b, E: CommitEnv> {
    batches: &'b Batches,
    env: &'b E,
    first: SeqNo,
}

impl<E: CommitEnv> Drop for Unmarked<'_, E> {
    fn drop(&mut self) {
        let error = Error::with_kind(ErrorKind::Aborted, "the insertion of a batch panicked");
        let error = error.with_outcome(WriteOutcome::Indeterminate);
        self.batches.fail(self.env, self.first, &error);
    }
}

impl DirectWrites {
    pub(super) fn new() -> Self {
        DirectWrites {
            is_open: Padded(AtomicBool::new(false)),
            groups: AtomicU32::new(0),
            batches: OnceLock::new(),
        }
    }

    /// Whether the gate is open; only the write leader opens and closes it.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.is_open.0.load(Ordering::Acquire)
    }

    /// Counts a write group; returns whether enough eligible ones came in a row to open the gate.
    ///
    /// `may_pass`: all its batches could have passed.
    pub(super) fn count_group(&self, may_pass: bool) -> bool {
        let groups = match may_pass {
            true => self.groups.load(Ordering::Relaxed).saturating_add(1),
            false => 0,
        };
        self.groups.store(groups, Ordering::Relaxed);
        groups >= GROUPS_MIN
    }

    /// Lets writers without the WAL insert without joining a write group.
    ///
    /// The leader calls it while nothing is being inserted.
    pub(super) fn open(&self, commit: &CommitState) {
        let batches = self.batches.get_or_init(|| Batches::new(stripe_count()));
        // Leaders refuse numbers beyond the largest one.
        if batches.failure.get().is_some() || commit.last_seqno > MAX_SEQNO / 2 {
            return;
        }
        batches.last.0.store(commit.last_seqno, Ordering::Relaxed);
        batches
            .published
            .0
            .store(commit.last_seqno, Ordering::Relaxed);
        for slot in &batches.slots {
            *lock(&slot.0) = Some(Arc::clone(&commit.families));
        }
        self.is_open.0.store(true, Ordering::Release);
    }

    /// Closes the gate and waits for the batches that passed it; called by the leader.
    ///
    /// Returns the failure of a batch that could not be inserted.
    #[cold]
    pub(super) fn close(&self, commit: &mut CommitState) -> Option<&Error> {
        self.is_open.0.store(false, Ordering::Relaxed);
        let batches = self.batches.get()?;
        for slot in &batches.slots {
            *lock(&slot.0) = None;
        }
        commit.last_seqno = batches.last.0.load(Ordering::Relaxed);
        batches.failure.get()
    }

    /// Resets the count of eligible write groups, so that the gate stays closed for some time.
    pub(super) fn stay_closed(&self) {
        self.groups.store(0, Ordering::Relaxed);
    }

    /// Writes a batch through the gate, without a write group; `None` if it needs a leader instead.
    pub(super) fn write(
        &self,
        env: &impl CommitEnv,
        records: &[u8],
        count: u32,
        mode: CommitMode,
    ) -> Option<Result<()>> {
        let batches = self.batches.get()?;
        let (index, slot) = batches.enter();
        let families = slot.as_ref()?;
        // After a failure only the batches that have numbers already may get marks.
        if batches.failure.get().is_some() || !env.may_write_directly() {
            return None;
        }
        if let Err(error) = verify(records, mode.protection) {
            return Some(Err(not_applied(error)));
        }
        let before = batches
            .last
            .0
            .fetch_add(u64::from(count), Ordering::Relaxed);
        let (first, last) = (before + 1, before + u64::from(count));
        let unmarked = Unmarked {
            batches,
            env,
            first,
        };
        let inserted = env.handle_insertion(env.insert(families, records, first));
        std::mem::forget(unmarked);
        if let Err(error) = inserted {
            batches.fail(env, first, &error);
            return Some(Err(error));
        }
        env.count_direct(index, count, records.len());
        batches.mark(first).store(last, Ordering::Release);
        batches.publish(env);
        Some(batches.wait(last))
    }
}

impl Batches {
    fn new(slots: usize) -> Self {
        let marks = slots * to_usize(u64::from(COUNT_MAX));
        Batches {
            slots: (0..slots).map(|_| Padded(Mutex::default())).collect(),
            last: Padded(AtomicU64::new(0)),
            marks: (0..marks).map(|_| AtomicU64::new(0)).collect(),
            published: Padded(AtomicU64::new(0)),
            right: PublicationRight::new(),
            sleepers: Mutex::default(),
            failed_from: AtomicU64::new(u64::MAX),
            failure: OnceLock::new(),
        }
    }

    /// Locks one of the gate's slots, a free one if possible; returns its index and its memtables.
    fn enter(&self) -> (usize, MutexGuard<'_, Option<Families>>) {
        let preferred = preferred();
        for offset in 0..self.slots.len() {
            let index = (preferred + offset) % self.slots.len();
            if let Ok(slot) = self.slots[index].0.try_lock() {
                return (index, slot);
            }
        }
        let index = preferred % self.slots.len();
        (index, lock(&self.slots[index].0))
    }

    /// Returns the mark of the batch from `first` on: its last sequence number, once inserted.
    ///
    /// The marks of neighbouring numbers are on different cache lines. A mark below the number belongs
    /// to an earlier batch.
    fn mark(&self, first: SeqNo) -> &AtomicU64 {
        let (number, slots) = (to_usize(first), self.slots.len());
        let columns = self.marks.len() / slots;
        &self.marks[number % columns * slots + number / columns % slots]
    }

    /// Returns the last sequence number of the inserted batches that follow the visible ones.
    ///
    /// `None` if the next batch is not inserted yet.
    fn last_marked(&self) -> Option<SeqNo> {
        let published = self.published.0.load(Ordering::Relaxed);
        let mut last = published;
        loop {
            let mark = self.mark(last + 1).load(Ordering::Acquire);
            if mark <= last {
                return (last > published).then_some(last);
            }
            last = mark;
        }
    }

    /// Makes inserted batches visible in order, without gaps, unless another thread does so.
    fn publish(&self, env: &impl CommitEnv) {
        self.right.publish(
            &mut (),
            |()| {
                if let Some(last) = self.last_marked() {
                    env.publish(last);
                    self.published.0.store(last, Ordering::Release);
                }
            },
            || self.last_marked().is_some(),
            |(), is_any_asleep| {
                if is_any_asleep {
                    self.wake();
                }
            },
        );
    }

    /// Wakes all threads that sleep until their batches are published.
    #[cold]
    fn wake(&self) {
        let sleepers = std::mem::take(&mut *lock(&self.sleepers));
        sleepers.iter().for_each(Thread::unpark);
    }

    /// Waits until all sequence numbers up to `last` are visible to readers.
    fn wait(&self, last: SeqNo) -> Result<()> {
        for _ in 0..SPINS {
            if self.published.0.load(Ordering::Acquire) >= last {
                return Ok(());
            }
            spin_loop();
        }
        self.sleep(last)
    }

    /// Sleeps until the sequence numbers up to `last` are visible, or a batch among them failed.
    #[cold]
    fn sleep(&self, last: SeqNo) -> Result<()> {
        loop {
            lock(&self.sleepers).push(current());
            self.right.announce_sleep();
            if self.published.0.load(Ordering::Acquire) >= last {
                return Ok(());
            }
            if self.failed_from.load(Ordering::Acquire) <= last
                && let Some(failure) = self.failure.get()
            {
                return Err(failure.clone());
            }
            park();
        }
    }

    /// Fails the batches with sequence numbers from `first` on, after an insertion that failed.
    #[cold]
    fn fail(&self, env: &impl CommitEnv, first: SeqNo, error: &Error) {
        let _ = self.failure.set(error.clone());
        self.failed_from.fetch_min(first, Ordering::AcqRel);
        self.publish(env);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
