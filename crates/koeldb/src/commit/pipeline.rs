//! The pipeline of write groups that are logged, but not yet visible to readers.
//!
//! The next group is logged while earlier ones are inserted into the memtables. A group *enters* when
//! it is in the log and *leaves* when its entries, and those of all groups that entered before it, are
//! in the memtables. Groups are in a ring. The thread that inserts the last entries of a group lets
//! all finished groups at the front leave, unless another thread is doing so; that thread then
//! looks once more.
//!
//! # Invariants
//! - **L1** Groups enter under leadership, so in the order of their sequence numbers.
//! - **L2** In order (the default), the last sequence number of a group is published when it leaves,
//!   and success is not reported before: readers see whole groups in order. After a group that could
//!   not be inserted none is published any more.
//! - **L3** Out of order (`unordered_write`), it is published on entering, as in RocksDB: a read
//!   may miss a part of a batch in flight, and the view of a snapshot may grow; a writer waits only
//!   for its own group.
//! - **L4** A leader that finds the pipeline empty has exclusive access to the memtables: it may
//!   seal them, and may record that an empty one needs no older log.
//! - **L5** A finished group stays in the pipeline only while a thread holds the right to let groups
//!   leave. That thread gives it up by an exchange that reads the attempts of others, and then looks
//!   once more.

use std::sync::OnceLock;

use koeldb_base::error::WriteOutcome;
use koeldb_base::sync::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering, Padded, SPINS, Thread, current,
    lock, park, spin_loop,
};
use koeldb_base::{Error, Result, SeqNo};

use super::writer::WriterId;

/// The number of groups that fit in the pipeline.
const SLOTS: usize = if cfg!(loom) { 2 } else { 256 };

/// The number of groups that a thread lets leave before it wakes their writers.
const LEAVE_MAX: usize = 8;

/// The bit that is set while a thread holds the right to publish.
const HELD: u32 = 1;
/// The bit that is set while a thread sleeps until something is published.
const AWAITED: u32 = 2;

/// A try-lock on publication, whose holder makes the insertions of all threads visible in order.
///
/// One thread has it and publishes for all; the others leave their part to it and go on.
pub(super) struct PublicationRight(Padded<AtomicU32>);

impl PublicationRight {
    pub(super) fn new() -> Self {
        PublicationRight(Padded(AtomicU32::new(0)))
    }

    /// Calls `publish` until nothing is left to publish, unless another thread holds the right.
    ///
    /// `given_up` is called without the right, each time it was given up: it wakes threads. Its last
    /// argument says whether one announced that it sleeps.
    #[inline]
    pub(super) fn publish<W>(
        &self,
        woken: &mut W,
        publish: impl Fn(&mut W),
        is_any_left: impl Fn() -> bool,
        given_up: impl Fn(&mut W, bool),
    ) {
        let state = &self.0.0;
        while state.fetch_or(HELD, Ordering::AcqRel) & HELD == 0 {
            publish(woken);
            // The part or the announcement of a thread from before this is seen; a thread that comes
            // later sees what was published.
            let is_awaited = state.swap(0, Ordering::AcqRel) & AWAITED != 0;
            let is_any = is_any_left();
            given_up(woken, is_awaited);
            if !is_any {
                return;
            }
        }
    }

    /// Announces that the calling thread is about to sleep, so that the next publisher wakes it.
    pub(super) fn announce_sleep(&self) {
        self.0.0.fetch_or(AWAITED, Ordering::AcqRel);
    }
}

/// The number of a group that entered the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct PipelineSlot(u64);

/// A slot of the pipeline: a write group whose entries are being inserted into memtables.
#[repr(align(128))]
struct InsertingGroup {
    /// The number of insertions that have not ended; out of order, one more until the writers know.
    open: AtomicUsize,
    last: AtomicU64,
    has_failed: AtomicBool,
    writers: Mutex<Waiting>,
}

/// The writers that wait for the end of a write group, and the error of its insertion.
#[derive(Default)]
struct Waiting {
    writers: Vec<WriterId>,
    failure: Option<Error>,
}

/// The pipeline of write groups that are logged but not yet visible to readers.
pub(crate) struct Pipeline {
    is_ordered: bool,
    slots: Box<[InsertingGroup]>,
    /// The number of groups that have entered; only a leader changes it.
    entered: Padded<AtomicU64>,
    /// The number of groups that have left.
    left: Padded<AtomicU64>,
    right: PublicationRight,
    /// The leader that sleeps until a group leaves.
    awaiting: Mutex<Option<Thread>>,
    /// The error after which no group is published.
    broken: OnceLock<Error>,
}

/// The operations by which a pipeline ends a write group: publication and wakes of its writers.
pub(super) trait PipelineEnv {
    /// Makes everything up to `seqno` visible.
    fn publish(&self, seqno: SeqNo);

    /// Tells a writer that its group has ended; returns whether it sleeps.
    fn finish(&self, writer: WriterId, failure: Option<Error>) -> bool;

    /// Wakes a writer that was asleep according to [`PipelineEnv::finish`].
    fn wake(&self, writer: WriterId);
}

impl Pipeline {
    pub(crate) fn new(is_ordered: bool) -> Self {
        let slots = (0..SLOTS).map(|_| InsertingGroup {
            open: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            writers: Mutex::default(),
        });
        Pipeline {
            is_ordered,
            slots: slots.collect(),
            entered: Padded(AtomicU64::new(0)),
            left: Padded(AtomicU64::new(0)),
            right: PublicationRight::new(),
            awaiting: Mutex::default(),
            broken: OnceLock::new(),
        }
    }

    /// Returns the slot of group `number`, in a ring of `SLOTS`.
    fn slot(&self, number: u64) -> &InsertingGroup {
        &self.slots[koeldb_base::coding::to_usize(number) % SLOTS]
    }

    /// Whether no write group is in the pipeline; stays true while the calling leader leads.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.left.0.load(Ordering::Acquire) == self.entered.0.load(Ordering::Acquire)
    }

    /// Whether a leader may insert and publish without the pipeline.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_empty() && (!self.is_ordered || self.broken.get().is_none())
    }

    /// Adds a write group whose last sequence number is `last`; called by the leader.
    ///
    /// The group leaves after `insertions` calls of [`complete`](Self::complete), which the caller must
    /// guarantee; its `writers` are told then.
    pub(super) fn enter(
        &self,
        env: &impl PipelineEnv,
        last: SeqNo,
        insertions: usize,
        writers: impl Iterator<Item = WriterId>,
    ) -> PipelineSlot {
        let number = self.entered.0.load(Ordering::Relaxed);
        if number - self.left.0.load(Ordering::Acquire) == SLOTS as u64 {
            self.wait_until(|| number - self.left.0.load(Ordering::Acquire) < SLOTS as u64);
        }
        if !self.is_ordered {
            env.publish(last);
        }
        let slot = self.slot(number);
        lock(&slot.writers).writers.extend(writers);
        slot.last.store(last, Ordering::Relaxed);
        slot.has_failed.store(false, Ordering::Relaxed);
        let telling = usize::from(!self.is_ordered);
        slot.open.store(insertions + telling, Ordering::Relaxed);
        self.entered.0.store(number + 1, Ordering::Release);
        PipelineSlot(number)
    }

    /// Records the result of an insertion into the group at `slot`.
    pub(super) fn complete(&self, env: &impl PipelineEnv, slot: PipelineSlot, outcome: Result<()>) {
        let group = self.slot(slot.0);
        if let Err(error) = outcome {
            lock(&group.writers).failure.get_or_insert(error);
            group.has_failed.store(true, Ordering::Relaxed);
        }
        let mut open = group.open.fetch_sub(1, Ordering::AcqRel) - 1;
        let mut asleep = Vec::new();
        if !self.is_ordered && open == 1 {
            self.tell(env, group, None, &mut asleep);
            open = group.open.fetch_sub(1, Ordering::AcqRel) - 1;
        }
        if open == 0 {
            self.leave(env, asleep);
        } else {
            asleep.into_iter().for_each(|writer| env.wake(writer));
        }
    }

    /// Tells the writers of a group that it has ended; adds those that sleep to `asleep`.
    fn tell(
        &self,
        env: &impl PipelineEnv,
        group: &InsertingGroup,
        broken: Option<&Error>,
        asleep: &mut Vec<WriterId>,
    ) {
        let mut waiting = lock(&group.writers);
        let failure = waiting.failure.take().or_else(|| broken.cloned());
        for writer in waiting.writers.drain(..) {
            if env.finish(writer, failure.clone()) {
                asleep.push(writer);
            }
        }
    }

    /// Publishes and removes the finished groups at the front, up to the first unfinished one.
    ///
    /// Wakes come last, also those of `asleep`: a thread that is woken may take the processor of this
    /// one.
    fn leave(&self, env: &impl PipelineEnv, mut asleep: Vec<WriterId>) {
        let wake = |asleep: &mut Vec<WriterId>| {
            asleep.drain(..).for_each(|writer| env.wake(writer));
        };
        self.right.publish(
            &mut asleep,
            |asleep| {
                for _ in 0..LEAVE_MAX {
                    let Some(number) = self.first_finished() else {
                        break;
                    };
                    self.let_leave(env, number, asleep);
                }
            },
            || self.first_finished().is_some(),
            |asleep, is_leader_waiting| {
                if is_leader_waiting {
                    self.wake_leader();
                }
                wake(asleep);
            },
        );
        wake(&mut asleep);
    }

    /// The number of the oldest group in the pipeline, if all of its insertions have ended.
    fn first_finished(&self) -> Option<u64> {
        let number = self.left.0.load(Ordering::Relaxed);
        let is_inside = number < self.entered.0.load(Ordering::Acquire);
        let is_finished = is_inside && self.slot(number).open.load(Ordering::Acquire) == 0;
        is_finished.then_some(number)
    }

    /// Removes the oldest group; if in order, publishes its numbers first and tells its writers.
    fn let_leave(&self, env: &impl PipelineEnv, number: u64, asleep: &mut Vec<WriterId>) {
        let group = self.slot(number);
        if self.is_ordered {
            if group.has_failed.load(Ordering::Relaxed)
                && let Some(error) = &lock(&group.writers).failure
            {
                let _ = self.broken.set(error.clone());
            }
            let broken = self.broken.get();
            if broken.is_none() {
                env.publish(group.last.load(Ordering::Relaxed));
            }
            self.tell(env, group, broken, asleep);
        }
        self.left.0.store(number + 1, Ordering::Release);
    }

    /// Wakes the leader that waits for the pipeline, if any.
    #[cold]
    fn wake_leader(&self) {
        let leader = lock(&self.awaiting).clone();
        if let Some(leader) = leader {
            leader.unpark();
        }
    }

    /// Waits until the pipeline is empty.
    ///
    /// Called by the leader, so that no group enters. The groups inside finish without leadership.
    ///
    /// # Errors
    /// If a group could not be inserted: its entries may be in memtables in part, and must neither be
    /// published nor flushed.
    pub(crate) fn drain(&self) -> Result<()> {
        if !self.is_empty() {
            self.wait_until(|| self.is_empty());
        }
        match self.broken.get() {
            Some(error) => Err(error.clone().with_outcome(WriteOutcome::NotApplied)),
            None => Ok(()),
        }
    }

    /// Stops publication; called by the leader after the insertion of another batch failed.
    pub(super) fn break_off(&self, error: &Error) {
        let _ = self.broken.set(error.clone());
    }

    /// Waits until `is_over`: spins first, then sleeps until a group leaves.
    #[cold]
    fn wait_until(&self, is_over: impl Fn() -> bool) {
        for _ in 0..SPINS {
            if is_over() {
                return;
            }
            spin_loop();
        }
        *lock(&self.awaiting) = Some(current());
        loop {
            // Either the thread that lets groups leave sees this, or its stores are seen below.
            self.right.announce_sleep();
            if is_over() {
                return;
            }
            park();
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
