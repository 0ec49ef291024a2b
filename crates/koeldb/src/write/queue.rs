//! Leader election: a queue of groups of writers, the first of which has the right to commit.
//!
//! A writer that finds no leader immediately leads alone, with its batch borrowed. Otherwise it
//! copies its records into the last group of the queue, or creates one; the creator leads the group
//! when it is first, and the others wait for its result. A waiting thread spins briefly before it
//! parks: every blocking hand-off costs some 20 us, and a log write takes one. The number of
//! spinning threads is limited to that of spare cores, and spinning is shorter without a log to
//! wait for; members that spin help to insert.
//!
//! With pipelined or unordered writes a leader with successors passes on leadership before it
//! inserts, and its group uses the [`Pipeline`]. A leader without successors keeps it: there is
//! nothing to overlap with.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use koeldb_base::error::WriteOutcome;
use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::sync::{
    AtomicU8, AtomicUsize, Mutex, MutexGuard, Ordering, SPINS, Thread, cores, current, lock, park,
    park_timeout, spin_loop,
};
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_fs::Clock;

use super::apply::{Part, SharedApply};
use super::commit::{ColumnFamilyMemtable, CommitState, not_applied};
use super::pipeline::{Pipeline, PipelineSlot};
use crate::batch::{WriteBatch, verify};
use crate::options::DbOptions;

/// The number of spins of a member of a group whose batches are small and not logged.
///
/// Such a group takes a microsecond or two: if it takes longer, its leader is not running, and
/// spinning threads may occupy the processor it needs.
const SPINS_SMALL: u32 = if cfg!(loom) { 1 } else { 300 };
/// The number of spins in a microsecond, at least, on present processors.
const SPINS_PER_MICRO: u64 = 20;
/// The size of the records of a small batch.
const SMALL_BYTES: usize = 4 << 10;

/// The operations on which a write queue relies: log, memtables, publication.
pub(crate) trait CommitEnv: Send + Sync + 'static {
    /// Makes room for a group and writes it to the log; called by the leader.
    ///
    /// The group gets the sequence numbers from the returned one to the resulting `last_seqno`.
    fn commit_group(
        self: &Arc<Self>,
        commit: &mut CommitState,
        records: &[u8],
        count: u32,
        mode: CommitMode,
    ) -> Result<SeqNo>;

    /// Counts a group whose log write is complete, or not required.
    fn count_committed(&self, batches: usize, bytes: usize, mode: CommitMode);

    /// Inserts operations, numbered from `first`, into the memtables of their column families.
    ///
    /// Returns whether a memtable has reached its check size.
    fn insert(
        &self,
        families: &[ColumnFamilyMemtable],
        records: &[u8],
        first: SeqNo,
    ) -> Result<bool>;

    /// Handles the result of the insertion of a group.
    fn handle_insertion(&self, inserted: Result<bool>) -> Result<()>;

    /// Makes everything up to `seqno` visible.
    fn publish(&self, seqno: SeqNo);

    /// Returns how long a write may wait before it calls again; an error if it must not wait.
    fn remaining_wait(&self, mode: CommitMode) -> Result<Duration>;
}

/// The operations of one or several writers, to be committed as one log record.
#[derive(Debug, Default)]
pub(crate) struct GroupRecords {
    pub(crate) records: Vec<u8>,
    pub(crate) count: u32,
    pub(crate) mode: CommitMode,
    /// The records of each member.
    pub(crate) parts: Vec<Part>,
}

/// The records of one batch or group on the way through [`WriteQueue::commit`].
#[derive(Clone, Copy)]
struct CommitBatch<'r> {
    records: &'r [u8],
    count: u32,
    /// The number of batches that `records` consists of.
    members: usize,
    mode: CommitMode,
}

/// Compares the records of each member of a group with its checksums.
fn verify_parts(records: &[u8], parts: &[Part]) -> Result<()> {
    parts
        .iter()
        .try_for_each(|part| verify(&records[part.records.clone()], part.protection))
}

/// The write options that the members of a group have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommitMode {
    pub(crate) sync: bool,
    pub(crate) disable_wal: bool,
    pub(crate) no_slowdown: bool,
    pub(crate) stall_timeout: Option<StallTimeout>,
    /// The sum of the checksums of the batch's operations, if they are protected.
    pub(crate) protection: Option<u64>,
}

/// The time limit of a write in a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StallTimeout {
    limit: Duration,
    /// The time at which the limit expires.
    until: Duration,
}

impl StallTimeout {
    pub(crate) fn new(limit: Duration, clock: &dyn Clock) -> Self {
        StallTimeout {
            limit,
            until: clock.now().saturating_add(limit),
        }
    }

    /// Returns the time left; zero after the limit.
    pub(crate) fn left(self, clock: &dyn Clock) -> Duration {
        self.until.saturating_sub(clock.now())
    }
}

impl CommitMode {
    /// Whether a writer may join a group, because it would not time out much earlier than alone.
    fn may_join(self, group: CommitMode) -> bool {
        let agrees = match (self.stall_timeout, group.stall_timeout) {
            (Some(own), Some(other)) => {
                own.limit == other.limit && own.until.saturating_sub(other.until) <= own.limit / 4
            }
            (None, None) => true,
            _ => false,
        };
        agrees && self.disable_wal == group.disable_wal && self.no_slowdown == group.no_slowdown
    }
}

/// The states of a ticket after the initial one, in which its members wait.
const LEADING: u8 = 1;
const APPLYING: u8 = 2;
const DONE: u8 = 3;

/// The state of a group, on which its members wait.
pub(crate) struct Ticket {
    state: AtomicU8,
    /// The number of spins before parking.
    spins: u32,
    failure: OnceLock<Error>,
    /// The insertion with which awake members can help, set before the state `APPLYING`.
    shared: OnceLock<Arc<SharedApply>>,
    parked: Mutex<Vec<Thread>>,
}

impl Default for Ticket {
    fn default() -> Self {
        Ticket::new(SPINS)
    }
}

impl Ticket {
    fn new(spins: u32) -> Self {
        Ticket {
            state: AtomicU8::new(0),
            spins,
            failure: OnceLock::new(),
            shared: OnceLock::new(),
            parked: Mutex::default(),
        }
    }

    /// Returns the result of the group, which must be finished.
    pub(crate) fn outcome(&self) -> Result<()> {
        self.failure
            .get()
            .map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Waits until the group is done, without spinning.
    #[cfg(test)]
    #[cfg(not(loom))]
    pub(crate) fn wait(&self) {
        self.wait_until(DONE, &AtomicUsize::new(0), 0);
    }

    /// Sets the result of the group and wakes the waiting members.
    pub(crate) fn finish(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            let _ = self.failure.set(error);
        }
        self.set(DONE);
    }

    /// Lets spinning members help with the insertion; parked ones are not woken.
    fn share(&self, shared: Arc<SharedApply>) {
        if self.shared.set(shared).is_ok() {
            self.state.store(APPLYING, Ordering::Release);
        }
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::SeqCst);
        for thread in lock(&self.parked).drain(..) {
            thread.unpark();
        }
    }

    fn wait_until(&self, state: u8, spinning: &AtomicUsize, spinners_max: usize) {
        // Without a time limit the wait does not fail.
        let _ = self.wait_until_timeout(state, spinning, spinners_max, || Ok(Duration::MAX));
    }

    /// Waits for a state of the ticket, as long as `left` permits.
    fn wait_until_timeout(
        &self,
        state: u8,
        spinning: &AtomicUsize,
        spinners_max: usize,
        left: impl Fn() -> Result<Duration>,
    ) -> Result<()> {
        let _timer = perf::timer(PerfMetric::WriteThreadWaitNanos);
        let reached = || self.state.load(Ordering::Acquire) >= state;
        if spinning.fetch_add(1, Ordering::Relaxed) < spinners_max {
            for _ in 0..self.spins {
                if reached() {
                    break;
                }
                if state == DONE
                    && self.state.load(Ordering::Acquire) == APPLYING
                    && let Some(shared) = self.shared.get()
                {
                    shared.help();
                }
                spin_loop();
            }
        }
        spinning.fetch_sub(1, Ordering::Relaxed);
        while !reached() {
            let mut parked = lock(&self.parked);
            if self.state.load(Ordering::SeqCst) >= state {
                break;
            }
            parked.push(current());
            drop(parked);
            match left()? {
                Duration::MAX => park(),
                left => park_timeout(left),
            }
        }
        Ok(())
    }
}

/// A guard that fails a group on drop, in case its leader panics.
struct FinishOnDrop<'t>(&'t Ticket);

impl FinishOnDrop<'_> {
    fn done(self) {
        self.0.set(DONE);
        std::mem::forget(self);
    }
}

impl Drop for FinishOnDrop<'_> {
    fn drop(&mut self) {
        let _ = self.0.failure.set(
            Error::with_kind(ErrorKind::Aborted, "the leader of the write group panicked")
                .with_outcome(WriteOutcome::Indeterminate),
        );
        self.0.set(DONE);
    }
}

struct Group {
    /// The records of the group; `None` for an exclusive turn, which no writer joins.
    records: Option<GroupRecords>,
    ticket: Arc<Ticket>,
}

#[derive(Default)]
struct QueueState {
    is_led: bool,
    groups: VecDeque<Group>,
}

/// The way in which groups are inserted into the memtables and published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Insertion {
    /// The leader alone inserts (`allow_concurrent_memtable_write` is off).
    Alone,
    /// The leader and members of its group insert, before the leader hands on leadership.
    Shared,
    /// Several groups insert concurrently and publish in order (`enable_pipelined_write`).
    Pipelined,
    /// Several groups publish first and insert concurrently (`unordered_write`).
    Unordered,
}

impl Insertion {
    pub(crate) fn of(options: &DbOptions) -> Self {
        if !options.allow_concurrent_memtable_write {
            Insertion::Alone
        } else if options.unordered_write {
            Insertion::Unordered
        } else if options.enable_pipelined_write {
            Insertion::Pipelined
        } else {
            Insertion::Shared
        }
    }
}

/// The queue of writers, and the state of the leader.
pub(crate) struct WriteQueue {
    state: Mutex<QueueState>,
    commit: Mutex<CommitState>,
    /// The approximate number of queued groups and turns.
    waiting: AtomicUsize,
    spinning: AtomicUsize,
    /// The number of waiting writers that spin.
    pub(crate) spinners_max: usize,
    /// The bound of the spins of one wait.
    pub(crate) spins_max: u32,
    is_pipelined: bool,
    /// Whether members help with the insertion of their group.
    is_shared: bool,
    /// The number of bytes of records at which a group accepts no more members.
    group_bytes_max: usize,
    pub(crate) pipeline: Pipeline,
}

/// Leadership: the right to commit; dropping it passes it to the next group.
pub(crate) struct Leadership<'q> {
    // Dropped first, so that the next leader can lock it.
    pub(crate) commit: MutexGuard<'q, CommitState>,
    _hand_off: HandOff<'q>,
}

struct HandOff<'q>(&'q WriteQueue);

impl Drop for HandOff<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        match state.groups.front() {
            Some(next) => next.ticket.set(LEADING),
            None => state.is_led = false,
        }
    }
}

impl WriteQueue {
    pub(crate) fn new(commit: CommitState, insertion: Insertion, group_bytes_max: usize) -> Self {
        WriteQueue {
            state: Mutex::new(QueueState::default()),
            commit: Mutex::new(commit),
            waiting: AtomicUsize::new(0),
            spinning: AtomicUsize::new(0),
            spinners_max: cores().saturating_sub(1),
            spins_max: u32::MAX,
            is_pipelined: matches!(insertion, Insertion::Pipelined | Insertion::Unordered),
            is_shared: insertion != Insertion::Alone,
            group_bytes_max,
            pipeline: Pipeline::new(insertion != Insertion::Unordered),
        }
    }

    /// Bounds the spinning of a waiting writer in microseconds.
    #[must_use]
    pub(crate) fn spinning_for(mut self, micros: u64) -> Self {
        let spins = u32::try_from(micros.saturating_mul(SPINS_PER_MICRO));
        self.spins_max = spins.unwrap_or(u32::MAX);
        match micros {
            0 => self.without_spinning(),
            _ => self,
        }
    }

    /// Makes waiting writers park immediately.
    #[must_use]
    pub(crate) fn without_spinning(mut self) -> Self {
        self.spinners_max = 0;
        self
    }

    #[inline]
    fn leadership(&self) -> Leadership<'_> {
        Leadership {
            commit: lock(&self.commit),
            _hand_off: HandOff(self),
        }
    }

    /// Whether the leader hands on leadership before the insertion, and uses the pipeline.
    ///
    /// It does if others wait to lead or earlier groups are still inside.
    #[inline]
    fn hands_off_early(&self) -> bool {
        self.is_pipelined && (self.waiting.load(Ordering::Relaxed) > 0 || !self.pipeline.is_empty())
    }

    /// Removes the first group from the queue.
    fn take_turn(&self) -> Option<GroupRecords> {
        let mut state = lock(&self.state);
        let front = state.groups.pop_front();
        self.waiting.store(state.groups.len(), Ordering::Relaxed);
        front.and_then(|group| group.records)
    }

    /// Completes a group whose insertion has ended, and waits for earlier groups.
    fn complete(
        &self,
        inner: &impl CommitEnv,
        slot: PipelineSlot,
        inserted: Result<bool>,
        ticket: impl FnOnce() -> Arc<Ticket>,
    ) -> Result<()> {
        self.pipeline.complete(
            slot,
            inner.handle_insertion(inserted),
            ticket,
            |seqno| inner.publish(seqno),
            |ticket| ticket.wait_until(DONE, &self.spinning, self.spinners_max),
        )
    }

    /// Takes leadership for an operation other than a write.
    pub(crate) fn lead(&self) -> Leadership<'_> {
        let ticket = {
            let mut state = lock(&self.state);
            if !state.is_led {
                state.is_led = true;
                None
            } else {
                let ticket = Arc::new(Ticket::default());
                state.groups.push_back(Group {
                    records: None,
                    ticket: Arc::clone(&ticket),
                });
                self.waiting.store(state.groups.len(), Ordering::Relaxed);
                Some(ticket)
            }
        };
        if let Some(ticket) = ticket {
            ticket.wait_until(LEADING, &self.spinning, self.spinners_max);
            self.take_turn();
        }
        self.leadership()
    }

    /// Commits `count` operations, alone or as a member of a group.
    #[inline]
    pub(crate) fn write(
        &self,
        inner: &Arc<impl CommitEnv>,
        records: &[u8],
        count: u32,
        mode: CommitMode,
    ) -> Result<()> {
        let joined = {
            let mut state = lock(&self.state);
            if state.is_led {
                let joined = self.join(&mut state, records, count, mode);
                self.waiting.store(state.groups.len(), Ordering::Relaxed);
                Some(joined)
            } else {
                state.is_led = true;
                None
            }
        };
        let Some((ticket, opened)) = joined else {
            let alone = self.commit_alone(inner, self.leadership(), records, count, mode);
            return alone.map(|_| ());
        };
        if !opened {
            ticket.wait_until(DONE, &self.spinning, self.spinners_max);
            return ticket.outcome();
        }
        let finish = FinishOnDrop(&ticket);
        if let Err(error) = self.wait_to_lead(&**inner, &ticket, mode) {
            let _ = ticket.failure.set(error.clone());
            finish.done();
            return Err(error);
        }
        let group = self.take_turn().unwrap_or_default();
        let led = self.commit_members(inner, group, &ticket);
        if let Err(error) = &led {
            let _ = ticket.failure.set(error.clone());
        }
        finish.done();
        led
    }

    /// Commits the records of a group, whose members wait at `ticket`.
    fn commit_members(
        &self,
        inner: &Arc<impl CommitEnv>,
        group: GroupRecords,
        ticket: &Arc<Ticket>,
    ) -> Result<()> {
        let GroupRecords {
            records,
            count,
            mode,
            parts,
        } = group;
        let records = Arc::new(records);
        let members = parts.len();
        let batch = CommitBatch {
            records: &records,
            count,
            members,
            mode,
        };
        let leadership = self.leadership();
        verify_parts(&records, &parts).map_err(not_applied)?;
        let insert = |families: &Arc<Vec<ColumnFamilyMemtable>>, first| {
            // The entries of a family that folds operands are inserted in order.
            let folds = || families.iter().any(|active| active.folding.is_some());
            if members == 1 || !self.is_shared || folds() {
                verify_parts(&records, &parts)?;
                inner.insert(families, &records, first)
            } else {
                Self::insert_parts(inner, families, &records, parts, first, ticket)
            }
        };
        let ticket = || Arc::clone(ticket);
        let committed = self.commit(inner, leadership, batch, insert, ticket);
        committed.map(|_| ())
    }

    /// Commits a batch alone, if `check` accepts the last sequence number when its turn comes.
    ///
    /// All earlier writes are then in the memtables and visible. Returns the last sequence number
    /// of the batch.
    pub(crate) fn write_checked(
        &self,
        inner: &Arc<impl CommitEnv>,
        records: &[u8],
        count: u32,
        mode: CommitMode,
        check: impl FnOnce(SeqNo) -> Result<()>,
    ) -> Result<SeqNo> {
        let leadership = self.lead();
        self.pipeline.drain();
        let last = leadership.commit.last_seqno;
        check(last)?;
        if records.is_empty() {
            return Ok(last);
        }
        self.commit_alone(inner, leadership, records, count, mode)
    }

    /// Commits a batch that `make` creates while no other write runs; nothing if it is empty.
    ///
    /// All earlier writes are in the memtables and visible when `make` is called.
    pub(crate) fn write_made(
        &self,
        inner: &Arc<impl CommitEnv>,
        mode: CommitMode,
        make: impl FnOnce() -> Result<WriteBatch>,
    ) -> Result<()> {
        let leadership = self.lead();
        self.pipeline.drain();
        let batch = make()?;
        if batch.is_empty() {
            return Ok(());
        }
        self.commit_alone(inner, leadership, batch.records(), batch.count(), mode)
            .map(drop)
    }

    /// Commits a batch as the leader, without copying it.
    #[inline(always)]
    fn commit_alone(
        &self,
        inner: &Arc<impl CommitEnv>,
        leadership: Leadership<'_>,
        records: &[u8],
        count: u32,
        mode: CommitMode,
    ) -> Result<SeqNo> {
        let batch = CommitBatch {
            records,
            count,
            members: 1,
            mode,
        };
        verify(records, mode.protection).map_err(not_applied)?;
        let insert = |families: &Arc<Vec<_>>, first| {
            verify(records, mode.protection)?;
            inner.insert(families, records, first)
        };
        self.commit(inner, leadership, batch, insert, Arc::default)
    }

    /// Commits one batch or group (log, memtables, readers); returns its last sequence number.
    ///
    /// `insert` inserts into the memtables of the given column families, with sequence numbers from
    /// the given one. If others wait to lead, they do so from the moment that the log is written,
    /// and `ticket` gives the place where this thread waits for earlier groups.
    #[inline(always)]
    fn commit(
        &self,
        inner: &Arc<impl CommitEnv>,
        mut leadership: Leadership<'_>,
        batch: CommitBatch<'_>,
        insert: impl FnOnce(&Arc<Vec<ColumnFamilyMemtable>>, SeqNo) -> Result<bool>,
        ticket: impl FnOnce() -> Arc<Ticket>,
    ) -> Result<SeqNo> {
        let commit = &mut *leadership.commit;
        let first = inner.commit_group(commit, batch.records, batch.count, batch.mode)?;
        inner.count_committed(batch.members, batch.records.len(), batch.mode);
        let last = commit.last_seqno;
        if !self.hands_off_early() {
            inner.handle_insertion(insert(&commit.families, first))?;
            inner.publish(last);
            return Ok(last);
        }
        let families = Arc::clone(&commit.families);
        let slot = self.pipeline.enter(last, |seqno| inner.publish(seqno));
        drop(leadership);
        self.complete(&**inner, slot, insert(&families, first), ticket)?;
        Ok(last)
    }

    /// Waits until the group of `ticket` is at the head of the queue.
    ///
    /// Removes the group if its time limit is reached.
    fn wait_to_lead(
        &self,
        inner: &impl CommitEnv,
        ticket: &Arc<Ticket>,
        mode: CommitMode,
    ) -> Result<()> {
        let left = || inner.remaining_wait(mode);
        let waited = ticket.wait_until_timeout(LEADING, &self.spinning, self.spinners_max, left);
        if waited.is_ok() {
            return Ok(());
        }
        let mut state = lock(&self.state);
        // Under the lock that passes on leadership: a group that has it by now continues.
        if ticket.state.load(Ordering::SeqCst) < LEADING {
            state
                .groups
                .retain(|group| !Arc::ptr_eq(&group.ticket, ticket));
            self.waiting.store(state.groups.len(), Ordering::Relaxed);
            return waited;
        }
        Ok(())
    }

    /// Inserts the parts of a group with the help of its members, who wait at `ticket`.
    fn insert_parts(
        inner: &Arc<impl CommitEnv>,
        families: &Arc<Vec<ColumnFamilyMemtable>>,
        records: &Arc<Vec<u8>>,
        parts: Vec<Part>,
        first: SeqNo,
        ticket: &Ticket,
    ) -> Result<bool> {
        let engine = Arc::clone(inner);
        let (families, records) = (Arc::clone(families), Arc::clone(records));
        let insert_part = move |part: &Part| {
            let records = &records[part.records.clone()];
            verify(records, part.protection)?;
            engine.insert(&families, records, first + part.first)
        };
        let shared = Arc::new(SharedApply::new(parts, Box::new(insert_part)));
        ticket.share(Arc::clone(&shared));
        shared.help();
        shared.wait()
    }

    /// Returns the number of bytes of records at which `group` accepts no more members.
    ///
    /// A group that a small batch opened stays small, so that its leader is not delayed much.
    fn bytes_max_of(&self, group: &GroupRecords) -> usize {
        let first = group.parts.first().map_or(0, |part| part.records.len());
        let share = self.group_bytes_max / 8;
        if first <= share {
            first + share
        } else {
            self.group_bytes_max
        }
    }

    /// Adds operations to the last group, or to a new one; returns whether a new one was created.
    fn join(
        &self,
        state: &mut QueueState,
        records: &[u8],
        count: u32,
        mode: CommitMode,
    ) -> (Arc<Ticket>, bool) {
        if let Some(Group {
            records: Some(group),
            ticket,
        }) = state.groups.back_mut()
            && mode.may_join(group.mode)
            && group.records.len() + records.len() <= self.bytes_max_of(group)
        {
            let from = group.records.len();
            group.records.extend_from_slice(records);
            group.parts.push(Part {
                records: from..group.records.len(),
                first: SeqNo::from(group.count),
                protection: mode.protection,
            });
            group.count += count;
            group.mode.sync |= mode.sync;
            return (Arc::clone(ticket), false);
        }
        let is_short = mode.disable_wal && records.len() <= SMALL_BYTES;
        let spins = if is_short { SPINS_SMALL } else { SPINS };
        let ticket = Arc::new(Ticket::new(spins.min(self.spins_max)));
        state.groups.push_back(Group {
            records: Some(GroupRecords {
                records: records.to_vec(),
                count,
                mode,
                parts: vec![Part {
                    records: 0..records.len(),
                    first: 0,
                    protection: mode.protection,
                }],
            }),
            ticket: Arc::clone(&ticket),
        });
        (ticket, true)
    }
}

#[cfg(all(test, loom))]
mod models;
