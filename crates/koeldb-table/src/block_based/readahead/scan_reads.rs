//! The in-flight reads of scans, and the blocks that scans wait for.
//!
//! A [`ScanEngine`] belongs to a database, a [`ScanReads`] to one of its scans. A scan reads in two
//! ways. Missing blocks become needs: all tables of the scan record theirs before any waits, and
//! they are then read together, on the waiting thread. Pieces are read ahead by other threads and
//! outlive every call: a scan can be moved to another thread or dropped while they are in flight,
//! and nothing waits for them then.
//!
//! Invariants: the memory of a piece counts against the budgets of its scan and of the engine until
//! the read has completed and the last scan has released it. An in-flight range is not read again:
//! later requests join it. A scan with a time limit has all its reads executed by other threads,
//! and abandons those that take too long.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::time::Duration;

use koeldb_base::coding::to_usize;
use koeldb_base::pinned::Region;
use koeldb_base::stats::Stopwatch;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Buffer, Error, ErrorKind, Fault, Result};
use koeldb_fs::read_driver::{
    AsyncReads, JOINED_WITHIN, Outcome, ReadBuffer, ReadDriver, ReadOp, ReadSession,
};

use crate::format::BlockHandle;
use crate::source::flights::FlightLimits;
use crate::source::gather::{Gather, GatherOptions, too_late};
use crate::source::probe::{Needs, ProbeSource};
use crate::source::{BlockKind, BlockReadOptions, BlockSource, CachedBlock, TableFile};

/// The budget for readahead of all scans of a database, in bytes.
pub const ENGINE_BYTES: u64 = 64 << 20;

/// The readahead budget of one scan in bytes; half of it until the scan has become long.
///
/// Scans that share a device delay each other by milliseconds, in each of which they consume a good
/// part of a MiB.
pub const SCAN_BYTES: u64 = 4 << 20;

/// The divisor of the bytes a long scan has consumed that gives the bytes it may hold.
const HELD_SHARE: u64 = 4;

/// The consumption below which a table counts as one of [`TABLES_PRESUMED`] with equal consumption.
const USED_PRESUMED: u64 = 512 << 10;
/// The number of tables assumed to share a budget before any of them has consumed bytes.
const TABLES_PRESUMED: u64 = 8;

/// Spin iterations before a thread that waits for a read parks: a few microseconds.
const SPINS: u32 = 200;

/// The reason of a suspended scan call: it waits for the missing blocks in its [`ScanReads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanSuspended;

/// The time limits of a scan (`deadline`, `io_timeout`), on the clock of its reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeLimits {
    /// The time at which the scan stops waiting.
    pub deadline: Option<Duration>,
    /// The limit of each wait for a read.
    pub io_timeout: Option<Duration>,
}

impl TimeLimits {
    /// Whether neither `deadline` nor `io_timeout` is set.
    fn are_none(&self) -> bool {
        self.deadline.is_none() && self.io_timeout.is_none()
    }

    /// Returns when a wait that begins at `begun` must end, by both limits; `None` without limits.
    fn end_of(&self, begun: Duration) -> Option<Duration> {
        let expires = self.io_timeout.map(|limit| begun.saturating_add(limit));
        match (self.deadline, expires) {
            (Some(deadline), Some(expires)) => Some(deadline.min(expires)),
            (deadline, expires) => deadline.or(expires),
        }
    }
}

/// A limit of readahead bytes, shared by threads.
#[derive(Debug)]
struct Budget {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// Creates an unused budget of `limit` bytes.
    fn new(limit: u64) -> Arc<Self> {
        Arc::new(Budget {
            limit,
            used: AtomicU64::new(0),
        })
    }

    /// Reserves `bytes` of the budget; `None` unless at least `reserve` bytes then remain.
    fn take(self: &Arc<Self>, bytes: u64, reserve: u64) -> Option<BudgetShare> {
        let limit = self.limit.saturating_sub(reserve);
        let more = |used: u64| used.checked_add(bytes).filter(|&used| used <= limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(BudgetShare {
            budget: Arc::clone(self),
            bytes,
        })
    }

    /// Returns the number of bytes that the budget has left.
    fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used.load(Ordering::Relaxed))
    }
}

/// A reservation of budget bytes, which are released when it is dropped.
#[derive(Debug)]
struct BudgetShare {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An asynchronous read of a file range ahead of a scan, which several scans may share.
pub(super) struct PieceRead {
    /// The file number.
    number: u64,
    range: Range<u64>,
    begun: Duration,
    outcome: OnceLock<Outcome>,
    /// Whether a thread sleeps until the read completes.
    waiting: Mutex<bool>,
    arrived: Condvar,
    engine: Arc<ScanEngine>,
    _shares: [BudgetShare; 2],
}

impl PieceRead {
    /// Sets the outcome of the read, and wakes the thread that waits for it, if any.
    fn complete(&self, outcome: Outcome) {
        let _ = self.outcome.set(outcome);
        if *lock(&self.waiting) {
            self.arrived.notify_all();
        }
    }

    /// Whether the read has completed or failed.
    pub(super) fn is_done(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// The latency of the completed read; `None` while it is in flight.
    pub(super) fn latency(&self) -> Option<Duration> {
        self.outcome.get().map(|outcome| outcome.latency)
    }

    /// Returns a reference to the read bytes of `range`; `None` unless all of them were read.
    pub(super) fn share(self: &Arc<Self>, range: &Range<u64>) -> Option<PieceBytes> {
        let read = self.outcome.get()?.result.as_ref().ok()?;
        let start = range.start.checked_sub(self.range.start)?;
        let end = range.end.checked_sub(self.range.start)?;
        (end <= read.len() as u64).then(|| PieceBytes {
            buffer: Arc::new(Buffer::from_region(Arrived(Arc::clone(self)))),
            start,
        })
    }

    /// Waits until the read completes or fails, or the time `until`; returns whether it is done.
    fn wait(&self, until: Option<Duration>) -> bool {
        for _ in 0..SPINS {
            if self.is_done() {
                return true;
            }
            std::hint::spin_loop();
        }
        let reads = &self.engine.reads;
        while !self.is_done() {
            let left = until.map(|until| until.saturating_sub(reads.clock().now()));
            if left == Some(Duration::ZERO) {
                return false;
            }
            if reads.drive(until) {
                continue;
            }
            let mut waiting = lock(&self.waiting);
            *waiting = true;
            if self.is_done() {
                return true;
            }
            match left {
                Some(left) => drop(self.arrived.wait_timeout(waiting, left)),
                None => drop(self.arrived.wait(waiting)),
            }
        }
        true
    }
}

/// The memory of a completed asynchronous read, as a region that blocks refer to.
struct Arrived(Arc<PieceRead>);

impl Region for Arrived {
    fn bytes(&self, start: u64, len: u32) -> &[u8] {
        let outcome = self.0.outcome.get();
        let read = outcome.and_then(|outcome| outcome.result.as_ref().ok());
        read.map_or(&[], |read| slice(read, start, len))
    }
}

/// The memory of a synchronous read, as a region that blocks refer to.
struct InPlace(ReadBuffer);

impl Region for InPlace {
    fn bytes(&self, start: u64, len: u32) -> &[u8] {
        slice(&self.0, start, len)
    }
}

/// Returns `len` bytes of the read buffer from `start`; empty if out of range.
fn slice(read: &ReadBuffer, start: u64, len: u32) -> &[u8] {
    let start = to_usize(start);
    read.get(start..start.saturating_add(len as usize))
        .unwrap_or_default()
}

/// The stored bytes of consecutive blocks that were read together.
#[derive(Debug)]
pub(super) struct PieceBytes {
    pub(super) buffer: Arc<Buffer>,
    /// The position in the buffer at which the piece begins.
    pub(super) start: u64,
}

impl PieceBytes {
    /// Reads `range` of `file` synchronously.
    ///
    /// # Errors
    /// If not all of it can be read.
    pub(super) fn read(file: &TableFile, range: &Range<u64>) -> Result<Self> {
        let length = to_usize(range.end.saturating_sub(range.start));
        let stopwatch = Stopwatch::start_for(file.statistics.as_ref());
        let read = ReadBuffer::read(&*file.file, range.start, length)?;
        if let Some(stopwatch) = stopwatch {
            file.count_read(length as u64, stopwatch.elapsed());
        }
        if read.len() < length {
            return Err(Error::corruption(
                "read of a range beyond the end of the file",
            ));
        }
        Ok(PieceBytes {
            buffer: Arc::new(Buffer::from_region(InPlace(read))),
            start: 0,
        })
    }
}

impl Drop for PieceRead {
    fn drop(&mut self) {
        let key = (self.number, self.range.start);
        let mut under_way = lock(&self.engine.under_way);
        if under_way
            .get(&key)
            .is_some_and(|read| read.strong_count() == 0)
        {
            under_way.remove(&key);
        }
    }
}

impl fmt::Debug for PieceRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PieceRead")
            .field("number", &self.number)
            .field("range", &self.range)
            .field("is_done", &self.is_done())
            .finish_non_exhaustive()
    }
}

/// State shared by the scans of one database: read engine, budget, and in-flight reads.
pub struct ScanEngine {
    reads: AsyncReads,
    budget: Arc<Budget>,
    /// In-flight reads by file number and first byte.
    under_way: Mutex<BTreeMap<(u64, u64), Weak<PieceRead>>>,
}

impl ScanEngine {
    /// Creates an engine for scans that read through `reads`, with `bytes` bytes of readahead.
    #[must_use]
    pub fn new(reads: AsyncReads, bytes: u64) -> Arc<Self> {
        Arc::new(ScanEngine {
            reads,
            budget: Budget::new(bytes),
            under_way: Mutex::default(),
        })
    }

    /// The asynchronous read engine with its limits.
    #[must_use]
    pub fn reads(&self) -> &AsyncReads {
        &self.reads
    }

    /// Whether reads can be in flight concurrently.
    #[must_use]
    pub fn is_parallel(&self) -> bool {
        self.reads.is_parallel()
    }

    /// The readahead bytes in use: read or in flight, and not yet released by scans.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.budget.used.load(Ordering::Relaxed)
    }

    /// Finds a read of `range`, in flight or held by another scan, that this scan can share.
    ///
    /// A device may lose a read: one that began long before `now` is not joined.
    fn joinable(&self, number: u64, range: &Range<u64>, now: Duration) -> Option<Arc<PieceRead>> {
        let under_way = lock(&self.under_way);
        let (_, read) = under_way
            .range((number, 0)..=(number, range.start))
            .next_back()?;
        let read = read.upgrade();
        // This may be the last reference by now, and dropping it needs the lock.
        drop(under_way);
        read.filter(|read| {
            let is_new = || now.saturating_sub(read.begun) <= JOINED_WITHIN;
            range.end <= read.range.end && (read.is_done() || is_new())
        })
    }
}

impl fmt::Debug for ScanEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanEngine")
            .field("reads", &self.reads)
            .field("held_bytes", &self.held_bytes())
            .finish_non_exhaustive()
    }
}

/// The mutable state of a scan's reads, behind a lock.
#[derive(Debug)]
struct ScanReadsState {
    probe: ProbeSource,
    session: ReadSession,
    awaited: Vec<Arc<PieceRead>>,
}

/// The asynchronous reads of one scan: missing blocks, and pieces ahead of the scan.
#[derive(Debug)]
pub struct ScanReads {
    engine: Arc<ScanEngine>,
    options: BlockReadOptions,
    limits: TimeLimits,
    budget: Arc<Budget>,
    /// The readahead bytes that all tables of the scan have consumed.
    used: AtomicU64,
    /// Whether a call is suspended; only then does the state have blocks for it.
    suspended: AtomicBool,
    /// The state of suspended calls, locked by the scan alone, and only on misses.
    state: Mutex<ScanReadsState>,
}

impl ScanReads {
    /// Creates the reads of a scan, with a readahead budget of `bytes` and waits within `limits`.
    #[must_use]
    pub fn new(
        engine: &Arc<ScanEngine>,
        options: BlockReadOptions,
        bytes: u64,
        limits: TimeLimits,
    ) -> Arc<Self> {
        Arc::new(ScanReads {
            engine: Arc::clone(engine),
            options: options.clone(),
            limits,
            budget: Budget::new(bytes),
            used: AtomicU64::new(0),
            suspended: AtomicBool::new(false),
            state: Mutex::new(ScanReadsState {
                probe: ProbeSource::new(options),
                session: engine.reads.shared(),
                awaited: Vec::new(),
            }),
        })
    }

    /// The current time, on the clock of the reads.
    pub(super) fn now(&self) -> Duration {
        self.engine.reads.clock().now()
    }

    /// Returns a cached block, or one read for the suspended call; otherwise suspends for it.
    pub(super) fn block(
        &self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<ScanSuspended>> {
        lock(&self.state)
            .probe
            .block(file, handle, kind)
            .map_err(|fault| self.awaited(fault))
    }

    /// Returns a block after a cache miss: read for the suspended call, or mapped; or suspends.
    pub(super) fn missed(
        &self,
        file: &Arc<TableFile>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Result<Arc<CachedBlock>, Fault<ScanSuspended>> {
        lock(&self.state)
            .probe
            .missed(file, handle, kind)
            .map_err(|fault| self.awaited(fault))
    }

    /// Converts a fault of block access to one of the scan; a suspension also suspends the scan.
    fn awaited<S>(&self, fault: Fault<S>) -> Fault<ScanSuspended> {
        match fault {
            Fault::Error(error) => Fault::Error(error),
            Fault::Suspend(_) => {
                self.suspended.store(true, Ordering::Relaxed);
                Fault::Suspend(ScanSuspended)
            }
        }
    }

    /// Whether a call of the scan is suspended until missing blocks are read.
    #[inline]
    pub(super) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::Relaxed)
    }

    /// Whether the suspended call waits for this block.
    pub(super) fn is_needed(&self, file: &Arc<TableFile>, handle: BlockHandle) -> bool {
        let state = lock(&self.state);
        let needs = state.probe.needs();
        !needs.is_empty() && needs.find(file, handle).is_some()
    }

    /// Whether a suspended call waits for pieces that are read ahead.
    pub(super) fn is_awaiting(&self) -> bool {
        !lock(&self.state).awaited.is_empty()
    }

    /// The readahead bytes that are left in both the budget of the scan and that of the engine.
    pub(super) fn bytes_left(&self) -> u64 {
        self.budget.left().min(self.engine.budget.left())
    }

    /// Records that the scan consumed `bytes` readahead bytes in one of its tables.
    pub(super) fn use_up(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the readahead budget of a table, by its share `used` of the bytes consumed so far.
    ///
    /// Its share of the scan's budget is its share of the consumption.
    pub(super) fn allotment(&self, used: u64) -> u64 {
        let used_by_all = self.used.load(Ordering::Relaxed);
        let limit = self.budget.limit;
        let limit = limit.min((limit / 2).max(used_by_all / HELD_SHARE));
        let all = used_by_all + TABLES_PRESUMED * USED_PRESUMED;
        let part = u128::from(limit) * u128::from(used + USED_PRESUMED);
        u64::try_from(part / u128::from(all)).unwrap_or(u64::MAX)
    }

    /// Queues the read of a file range, or joins an existing one; `None` if over budget or late.
    ///
    /// [`ScanReads::flush`] issues it.
    ///
    /// Requests that are not `urgent` leave some budget for urgent ones.
    pub(super) fn push(
        &self,
        file: &TableFile,
        range: &Range<u64>,
        urgent: bool,
    ) -> Option<Arc<PieceRead>> {
        // Without parallel reads it would be read immediately.
        if self.is_late() {
            return None;
        }
        let engine = &self.engine;
        let begun = self.now();
        if let Some(read) = engine.joinable(file.number, range, begun) {
            return Some(read);
        }
        let bytes = range.end.saturating_sub(range.start);
        // Before others can join the read: they need not wait for the tokens of this scan.
        self.options.pay(bytes);
        let reserve = if urgent { 0 } else { self.budget.limit / 8 };
        let shares = [
            self.budget.take(bytes, reserve)?,
            engine.budget.take(bytes, 0)?,
        ];
        let read = Arc::new(PieceRead {
            number: file.number,
            range: range.clone(),
            begun,
            outcome: OnceLock::new(),
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            engine: Arc::clone(engine),
            _shares: shares,
        });
        let key = (file.number, range.start);
        let replaced = lock(&engine.under_way).insert(key, Arc::downgrade(&read));
        drop(replaced);
        let op = ReadOp::new(&file.file, range.start, to_usize(bytes));
        let completed = Arc::clone(&read);
        lock(&self.state)
            .session
            .push_then(op, move |outcome| completed.complete(outcome));
        Some(read)
    }

    /// Issues the queued reads to the device.
    pub(super) fn flush(&self) {
        lock(&self.state).session.flush();
    }

    /// Suspends the scan until `read` has completed.
    pub(super) fn note(&self, read: &Arc<PieceRead>) -> Fault<ScanSuspended> {
        lock(&self.state).awaited.push(Arc::clone(read));
        self.suspended.store(true, Ordering::Relaxed);
        Fault::Suspend(ScanSuspended)
    }

    /// Issues all reads that a suspended call needs, together, and waits for them.
    ///
    /// # Errors
    /// `TimedOut` if that exceeds the time limits. The call is then not repeated: its needs must be
    /// released by [`ScanReads::settle`].
    pub fn wait(&self) -> Result<()> {
        if self.is_late() {
            return Err(too_late());
        }
        let until = self.limits.end_of(self.now());
        let state = &mut *lock(&self.state);
        state.session.flush();
        let is_alone = self.limits.are_none() && state.awaited.iter().all(|read| read.is_done());
        if is_alone && let Some(only) = state.probe.needs_mut().take_only_wanted() {
            state.probe.read_in_place(only);
            return Ok(());
        }
        let needs = state.probe.needs_mut();
        if needs.has_wanted() {
            self.read(needs)?;
        }
        for read in &state.awaited {
            if !read.wait(until) {
                return Err(self.given_up(read));
            }
        }
        Ok(())
    }

    /// Reads the missing blocks in `needs` concurrently.
    fn read(&self, needs: &mut Needs) -> Result<()> {
        let reads = &self.engine.reads;
        // Abandoned reads outlive the call.
        let driver: Box<dyn ReadDriver> = if self.limits.are_none() {
            Box::new(reads.inline())
        } else {
            Box::new(reads.shared())
        };
        let options = GatherOptions {
            flights: FlightLimits {
                io_timeout: self.limits.io_timeout,
                ..FlightLimits::default()
            },
            ..GatherOptions::default()
        };
        let mut gather = Gather::new(driver, self.options.clone(), options);
        gather.start(needs, self.now());
        while gather.settle_some(needs, self.limits.deadline, || self.now()) {}
        if gather.is_idle() {
            return Ok(());
        }
        gather.abandon();
        Err(too_late())
    }

    /// Whether the deadline of the scan has passed.
    fn is_late(&self) -> bool {
        let deadline = self.limits.deadline;
        deadline.is_some_and(|deadline| self.now() >= deadline)
    }

    /// Creates the `TimedOut` error of an abandoned read, by `deadline` or by `io_timeout`.
    #[cold]
    fn given_up(&self, read: &PieceRead) -> Error {
        if self.is_late() {
            return too_late();
        }
        let range = &read.range;
        Error::with_kind(
            ErrorKind::TimedOut,
            format!(
                "the read of {} to {} of table {} takes longer than `io_timeout`",
                range.start, range.end, read.number
            ),
        )
    }

    /// Releases the blocks read for a suspended call that has completed, and ends the suspension.
    pub fn settle(&self) {
        let mut state = lock(&self.state);
        state.probe.needs_mut().clear();
        state.awaited.clear();
        self.suspended.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tables_may_hold_follows_what_they_use_and_fits_the_budget() {
        let engine = ScanEngine::new(AsyncReads::off(), ENGINE_BYTES);
        let reads = ScanReads::new(
            &engine,
            BlockReadOptions::default(),
            SCAN_BYTES,
            TimeLimits::default(),
        );
        assert_eq!(reads.allotment(0), SCAN_BYTES / 2 / TABLES_PRESUMED);
        // Runs each half as large as the preceding one, like levels.
        let used: Vec<u64> = (0..8).map(|run| (20 << 20) >> run).collect();
        for &bytes in &used {
            reads.use_up(bytes);
        }
        let parts: Vec<u64> = used.iter().map(|&used| reads.allotment(used)).collect();
        assert!(parts.iter().sum::<u64>() <= SCAN_BYTES, "{parts:?}");
        assert!(parts[0] > SCAN_BYTES * 2 / 5, "{parts:?}");
        assert!(parts[7] < SCAN_BYTES / 40, "{parts:?}");
    }
}
