//! Writers that wait for a leader, and the signals with which they are told to go on.
//!
//! A waiting writer claims a place of its own, which lies on cache lines that no other writer uses.
//! Its state is one word: a phase, and whether its thread sleeps. Each change of the word is one
//! atomic exchange, so that no wake is lost: a thread that is about to sleep either sees the change
//! or is seen by it. A spinning thread costs its waker one store, a sleeping one a system call.
//!
//! # Invariants
//! - **W1** A place belongs to the thread that claimed it until that thread releases it. If the thread
//!   gives up while it is queued, the leader that removes it from the queue releases it.
//! - **W2** Only a leader moves a writer out of `WAITING`, except that the writer may give up. So it is
//!   taken into a group, leads, or gives up, and only one of these.
//! - **W3** A writer that is taken inserts its own entries exactly if the leader could move it from
//!   `TAKEN` to `INSERTING`, which fails once it sleeps. Otherwise the leader inserts them.
//! - **W4** `DONE` is the last change by another thread. A late wake of a place that has a new owner
//!   only makes that thread look again.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use koeldb_base::sync::{
    AtomicBool, AtomicU32, Mutex, Ordering, Thread, current, lock, park, park_timeout, spin_loop,
    thread_number,
};
use koeldb_base::{Error, Result, SeqNo};
use koeldb_fs::Clock;

use super::pipeline::PipelineSlot;
use super::protocol::ColumnFamilyMemtable;
use super::recent_writes::GroupCheck;

/// The number of places in a segment, which is allocated as a whole.
const SEGMENT_PLACES: usize = if cfg!(loom) { 4 } else { 64 };
/// The number of segments; beyond all of them writers wait for a place.
const SEGMENTS_MAX: usize = if cfg!(loom) { 1 } else { 256 };

/// Allocates a segment of unclaimed writer places.
fn segment() -> Box<[Writer]> {
    (0..SEGMENT_PLACES).map(|_| Writer::new()).collect()
}

/// The capacity for records that a place keeps.
const RECORDS_KEPT: usize = 64 << 10;

/// The phases of a waiting writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Phase {
    /// It is queued.
    Waiting = 0,
    /// It is a member of a group.
    Taken = 1,
    /// It is to insert its own entries.
    Inserting = 2,
    /// It leads.
    Leading = 3,
    /// Its group has ended.
    Done = 4,
    /// It gave up while it was queued.
    Left = 5,
}

impl Phase {
    /// Decodes the phase from the state of a writer, without its sleep bit.
    fn of(state: u32) -> Phase {
        match state & !ASLEEP {
            0 => Phase::Waiting,
            1 => Phase::Taken,
            2 => Phase::Inserting,
            3 => Phase::Leading,
            4 => Phase::Done,
            _ => Phase::Left,
        }
    }
}

/// The bit of the state of a writer whose thread sleeps, or is about to.
const ASLEEP: u32 = 1 << 8;

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
    /// Starts the time limit of a write at the current time of `clock`.
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
    pub(super) fn may_join(self, group: CommitMode) -> bool {
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

/// The request of a waiting writer, and the answer of its leader.
#[derive(Default)]
pub(super) struct Request {
    /// A copy of the records for the log.
    pub(super) records: Vec<u8>,
    /// The number of operations.
    pub(super) count: u32,
    pub(super) mode: CommitMode,
    /// The check by the leader, if it is the commit of an optimistic transaction.
    pub(super) check: Option<GroupCheck>,
    /// Whether the writer requests leadership for an operation other than a write, in no group.
    pub(super) is_turn: bool,
    /// The order to insert the entries.
    pub(super) insertion: Option<InsertionOrder>,
    pub(super) failure: Option<Error>,
}

/// A command of the leader to a group member to insert its own entries into the memtables.
pub(super) struct InsertionOrder {
    pub(super) slot: PipelineSlot,
    /// The sequence number of the first entry.
    pub(super) first: SeqNo,
    pub(super) families: Arc<Vec<ColumnFamilyMemtable>>,
}

/// The phase of a waiting writer, on which it spins or sleeps, and the thread to wake.
#[repr(align(128))]
struct Signal {
    state: AtomicU32,
    /// The thread to wake, once it sleeps.
    thread: Mutex<Option<Thread>>,
}

/// The place of a waiting writer: its request and its phase (RocksDB: `WriteThread::Writer`).
#[repr(align(128))]
pub(super) struct Writer {
    is_claimed: AtomicBool,
    /// The writer that was queued before it.
    pub(super) older: AtomicU32,
    /// Whether the request has a failure.
    has_failed: AtomicBool,
    pub(super) request: Mutex<Request>,
    signal: Signal,
}

impl Writer {
    fn new() -> Self {
        Writer {
            is_claimed: AtomicBool::new(false),
            older: AtomicU32::new(0),
            has_failed: AtomicBool::new(false),
            request: Mutex::default(),
            signal: Signal {
                state: AtomicU32::new(Phase::Waiting as u32),
                thread: Mutex::default(),
            },
        }
    }

    /// Claims the place for a writer; `false` if it is taken.
    fn try_claim(&self) -> bool {
        let claimed = &self.is_claimed;
        !claimed.load(Ordering::Relaxed)
            && claimed
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Releases the place, so that another writer can claim it.
    pub(super) fn release(&self) {
        self.is_claimed.store(false, Ordering::Release);
    }

    /// Fills the request of a writer that is not queued yet.
    pub(super) fn fill_request(
        &self,
        records: &[u8],
        count: u32,
        mode: CommitMode,
        check: Option<GroupCheck>,
    ) {
        let mut request = lock(&self.request);
        request.records.clear();
        request.records.extend_from_slice(records);
        (request.count, request.mode, request.check) = (count, mode, check);
    }

    /// Sets the initial phase of a writer before it is queued.
    pub(super) fn begin(&self, phase: Phase) {
        self.signal.state.store(phase as u32, Ordering::Relaxed);
    }

    /// Moves the writer from phase `from` to `to`, and returns whether its thread sleeps.
    ///
    /// Returns `None` if it is in another phase.
    ///
    /// If `to` ends its wait, the sleep ends too.
    fn advance(&self, from: Phase, to: Phase) -> Option<bool> {
        let mut state = self.signal.state.load(Ordering::Relaxed);
        while Phase::of(state) == from {
            let is_asleep = state & ASLEEP != 0;
            let kept = if to == Phase::Taken {
                state & ASLEEP
            } else {
                0
            };
            match self.signal.state.compare_exchange_weak(
                state,
                to as u32 | kept,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(is_asleep),
                Err(found) => state = found,
            }
        }
        None
    }

    /// Moves a queued writer into a group (phase `Taken`); `false` if it gave up.
    pub(super) fn take(&self) -> bool {
        self.advance(Phase::Waiting, Phase::Taken).is_some()
    }

    /// Lets a member insert its own entries; false if it sleeps.
    pub(super) fn let_insert(&self) -> bool {
        let (from, to) = (Phase::Taken as u32, Phase::Inserting as u32);
        let state = &self.signal.state;
        let moved = state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        moved.is_ok()
    }

    /// Passes leadership to a queued writer; false if it gave up.
    pub(super) fn let_lead(&self) -> bool {
        match self.advance(Phase::Waiting, Phase::Leading) {
            Some(is_asleep) => {
                if is_asleep {
                    self.wake();
                }
                true
            }
            None => false,
        }
    }

    /// Tells a member or leader that its group has ended; returns whether it sleeps.
    pub(super) fn finish(&self, failure: Option<Error>) -> bool {
        if failure.is_some() {
            lock(&self.request).failure = failure;
            self.has_failed.store(true, Ordering::Relaxed);
        }
        let done = Phase::Done as u32;
        self.signal.state.swap(done, Ordering::AcqRel) & ASLEEP != 0
    }

    /// Whether the thread of the writer sleeps.
    pub(super) fn is_asleep(&self) -> bool {
        self.signal.state.load(Ordering::Relaxed) & ASLEEP != 0
    }

    /// Marks a queued writer as having given up; `false` if a leader took it first.
    ///
    /// The place no longer belongs to the writer then, so its request is freed under the lock, which
    /// the next owner takes before it fills the place.
    pub(super) fn leave(&self) -> bool {
        let mut request = lock(&self.request);
        let has_left = self.advance(Phase::Waiting, Phase::Left).is_some();
        if has_left {
            request.records = Vec::new();
            request.check = None;
        }
        has_left
    }

    /// Whether the writer gave up while it was queued.
    pub(super) fn has_left(&self) -> bool {
        Phase::of(self.signal.state.load(Ordering::Acquire)) == Phase::Left
    }

    /// Returns the result of the writer's group, and releases the place.
    ///
    /// The place keeps limited memory of the `bytes` of records.
    pub(super) fn take_outcome(&self, bytes: usize) -> Result<()> {
        let mut failure = None;
        if bytes > RECORDS_KEPT || self.has_failed.load(Ordering::Relaxed) {
            let mut request = lock(&self.request);
            request.records.clear();
            request.records.shrink_to(RECORDS_KEPT);
            failure = request.failure.take();
            self.has_failed.store(false, Ordering::Relaxed);
        }
        self.release();
        failure.map_or(Ok(()), Err)
    }

    /// Wakes the thread of a writer that was asleep when its phase changed.
    #[cold]
    pub(super) fn wake(&self) {
        let thread = lock(&self.signal.thread).clone();
        if let Some(thread) = thread {
            thread.unpark();
        }
    }

    /// Spins at most `spins` times until the writer is in a phase for which `is_over` holds.
    pub(super) fn spin(&self, spins: u32, is_over: impl Fn(Phase) -> bool) -> Option<Phase> {
        for _ in 0..spins {
            let phase = Phase::of(self.signal.state.load(Ordering::Acquire));
            if is_over(phase) {
                return Some(phase);
            }
            spin_loop();
        }
        None
    }

    /// Sleeps until the writer is in a phase for which `is_over` holds; fails when `left` does.
    ///
    /// `left` returns the time for one sleep.
    pub(super) fn sleep(
        &self,
        is_over: impl Fn(Phase) -> bool,
        left: impl Fn(Phase) -> Result<Duration>,
    ) -> Result<Phase> {
        let state = &self.signal.state;
        *lock(&self.signal.thread) = Some(current());
        loop {
            let found = state.load(Ordering::Acquire);
            let phase = Phase::of(found);
            if is_over(phase) {
                return Ok(phase);
            }
            let asleep = found | ASLEEP;
            let announced = found == asleep
                || state
                    .compare_exchange(found, asleep, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
            if !announced {
                continue;
            }
            match left(phase)? {
                Duration::MAX => park(),
                left => park_timeout(left),
            }
        }
    }
}

/// The index of a place.
pub(super) type WriterId = u32;

/// The places of all waiting writers of a database.
pub(super) struct Writers {
    first: Box<[Writer]>,
    /// Further places, allocated when all before them are claimed.
    more: Box<[OnceLock<Box<[Writer]>>]>,
}

/// Returns the number of this thread, at which its search for a free place begins.
///
/// It is 0 in loom models.
pub(super) fn preferred() -> usize {
    if cfg!(loom) { 0 } else { thread_number() }
}

impl Writers {
    pub(super) fn new() -> Self {
        Writers {
            first: segment(),
            more: (1..SEGMENTS_MAX).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Claims a free place; `None` if all are taken.
    pub(super) fn claim(&self) -> Option<(WriterId, &Writer)> {
        let preferred = preferred();
        let more = self.more.iter().map(|more| &**more.get_or_init(segment));
        let segments = std::iter::once(&*self.first).chain(more);
        for (number, places) in segments.enumerate() {
            for offset in 0..SEGMENT_PLACES {
                let at = (preferred + offset) % SEGMENT_PLACES;
                if places[at].try_claim() {
                    let id = u32::try_from(number * SEGMENT_PLACES + at).ok()?;
                    return Some((id, &places[at]));
                }
            }
        }
        None
    }

    /// Returns the place of the writer with this id.
    pub(super) fn get(&self, id: WriterId) -> &Writer {
        let id = koeldb_base::coding::to_usize(u64::from(id));
        let places = match (id / SEGMENT_PLACES).checked_sub(1) {
            None => &self.first,
            Some(more) => self.more[more].get_or_init(segment),
        };
        &places[id % SEGMENT_PLACES]
    }
}
