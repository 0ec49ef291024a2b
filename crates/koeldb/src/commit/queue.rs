//! Leader election: a list of writers, one of which has the right to commit.
//!
//! A writer becomes the leader if there is none. Otherwise it fills a place of its own and links it to
//! the list of [`waiting`] writers by one exchange, which takes no lock. The leader commits its [`group`].
//! Leadership is passed in the order in which writers were linked: before the insertion if a spare
//! core can log the next group meanwhile, and after it otherwise.
//!
//! A waiting thread spins briefly before it sleeps: a blocking hand-off costs some 20 us, and a log
//! write takes one. Only as many writers spin as there are spare cores, and spinning is shorter without
//! a log to wait for.

mod group;
mod synced;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::sync::{
    AtomicUsize, Mutex, MutexGuard, Ordering, Padded, SPINS, cores, lock, yield_now,
};
use koeldb_base::{Result, SeqNo};

use super::direct::{DirectWrites, is_small};
use super::pipeline::Pipeline;
use super::protocol::CommitState;
use super::recent_writes::GroupCheck;
use super::writer::{CommitMode, Phase, Writer, WriterId};
use crate::batch::WriteBatch;
use crate::options::DbOptions;

use group::insert_part;
pub(crate) use group::{CommitEnv, TIMESTAMP_SIZE};
use waiting::WaitingWriters;

/// The number of spins of a writer whose batch is small and not logged, or synced.
///
/// A group without a log takes a microsecond or two: if it takes longer, its leader is not running, and
/// spinning threads may occupy the processor it needs. A sync takes longer than a writer may spin, and
/// the other members of its group need the processor.
const SPINS_SHORT: u32 = if cfg!(loom) { 1 } else { 300 };
/// The number of spins before a writer is counted among those that spin.
const SPINS_QUICK: u32 = if cfg!(loom) { 1 } else { 100 };
/// The number of spins in a microsecond, at least, on present processors.
const SPINS_PER_MICRO: u64 = 20;
/// The size of the records of a small batch.
const SMALL_BYTES: usize = 4 << 10;

/// The check of an optimistic commit: no key was written since a sequence number.
///
/// The transaction has validated its keys up to that number before it commits.
pub(crate) trait CommitCheck {
    /// The number up to which the keys are validated.
    fn validated(&self) -> SeqNo;

    /// Returns the check for a group leader; `None` if equal keys may have different hashes.
    fn in_group(&self) -> Option<GroupCheck>;

    /// Searches memtables, and tables if needed, for conflicts after the validated number.
    ///
    /// # Errors
    /// A conflict, and errors of the search.
    fn validate_rest(&self) -> Result<()>;
}

/// The way in which write groups are inserted into the memtables and made visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Insertion {
    /// The leader alone inserts (`allow_concurrent_memtable_write` is off).
    Alone,
    /// Members insert their own entries. The next group is logged meanwhile if there are spare
    /// cores, and published in order.
    Shared,
    /// The next group is always logged meanwhile (`enable_pipelined_write`).
    Pipelined,
    /// Groups publish first and are inserted concurrently (`unordered_write`).
    Unordered,
}

impl Insertion {
    /// Returns the way of inserting that the write options of the database select.
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

/// The outcome of a queued write: its group has ended, or its writer became the leader.
enum Queued<'q> {
    /// Its group has ended, with the answer to its check.
    Ended(Option<GroupCheck>),
    /// It leads, and has not written.
    Leads(Leadership<'q>),
}

/// The queue of writers, from which write groups are formed (RocksDB: `WriteThread`).
pub(crate) struct WriteQueue {
    pub(crate) waiting: WaitingWriters,
    commit: Padded<Mutex<CommitState>>,
    /// The number of waiting writers that spin.
    spinning: Padded<AtomicUsize>,
    /// The bound of `spinning`.
    pub(crate) spinners_max: usize,
    /// The bound of the spins of one wait.
    pub(crate) spins_max: u32,
    insertion: Insertion,
    /// The number of bytes of records at which a group accepts no more members.
    group_bytes_max: usize,
    pub(crate) pipeline: Pipeline,
    pub(super) direct: DirectWrites,
}

/// Leadership of the write queue, the exclusive right to commit; a drop passes it on.
pub(crate) struct Leadership<'q> {
    // Dropped first, so that the next leader can lock it.
    pub(crate) commit: MutexGuard<'q, CommitState>,
    hand_off: HandOff<'q>,
    /// Whether the gate for writes without a log opens when leadership ends.
    pub(super) opens_gate: bool,
}

impl Drop for Leadership<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.opens_gate {
            self.hand_off.0.open_gate(&self.commit);
        }
    }
}

/// A guard that hands leadership to the next writer on drop.
struct HandOff<'q>(&'q WriteQueue);

impl Drop for HandOff<'_> {
    fn drop(&mut self) {
        self.0.waiting.hand_off();
    }
}

impl WriteQueue {
    pub(crate) fn new(commit: CommitState, insertion: Insertion, group_bytes_max: usize) -> Self {
        WriteQueue {
            waiting: WaitingWriters::new(),
            commit: Padded(Mutex::new(commit)),
            spinning: Padded(AtomicUsize::new(0)),
            spinners_max: cores().saturating_sub(1),
            spins_max: u32::MAX,
            insertion,
            group_bytes_max,
            pipeline: Pipeline::new(insertion != Insertion::Unordered),
            direct: DirectWrites::new(),
        }
    }

    /// Sets the maximum time in microseconds for which a waiting writer spins before it sleeps.
    #[must_use]
    pub(crate) fn spinning_for(mut self, micros: u64) -> Self {
        let spins = u32::try_from(micros.saturating_mul(SPINS_PER_MICRO));
        self.spins_max = spins.unwrap_or(u32::MAX);
        match micros {
            0 => self.without_spinning(),
            _ => self,
        }
    }

    /// Makes waiting writers sleep immediately.
    #[must_use]
    pub(crate) fn without_spinning(mut self) -> Self {
        self.spinners_max = 0;
        self
    }

    // Leadership.

    /// Returns a guard of leadership that was taken, after closing the gate for unlogged writes.
    ///
    /// The gate opens again when leadership ends, if `reopens`.
    #[inline]
    fn leadership(&self, reopens: bool) -> Leadership<'_> {
        let mut commit = lock(&self.commit.0);
        let opens_gate = self.direct.is_open() && self.close_gate(&mut commit, reopens);
        Leadership {
            commit,
            hand_off: HandOff(self),
            opens_gate,
        }
    }

    /// Closes the gate for writes without a log, for good unless `reopens`; returns `reopens`.
    #[cold]
    fn close_gate(&self, commit: &mut CommitState, reopens: bool) -> bool {
        if let Some(error) = self.direct.close(commit) {
            self.pipeline.break_off(error);
        }
        if !reopens {
            self.direct.stay_closed();
        }
        reopens
    }

    /// Opens the gate for writes without a log if the pipeline is idle and inserts are concurrent.
    #[cold]
    fn open_gate(&self, commit: &CommitState) {
        if self.pipeline.is_idle() && self.inserts_concurrently(&commit.families) {
            self.direct.open(commit);
        }
    }

    /// Whether the leader passes leadership on before it inserts its group into the memtables.
    ///
    /// Without a spare core the next leader would only take the processor of this one, and one that
    /// sleeps would begin later than this one ends.
    fn passes_early(&self) -> bool {
        match self.insertion {
            Insertion::Alone => false,
            Insertion::Shared => {
                self.spinners_max > 1
                    && (!self.waiting.is_awaited() || self.waiting.is_next_awake())
            }
            Insertion::Pipelined | Insertion::Unordered => true,
        }
    }

    /// Claims a queue place for a writer; `None` if the writer became the leader instead.
    ///
    /// There are more places than threads usually; beyond them a writer waits here, as long as `left`
    /// permits.
    fn claim_or_lead(
        &self,
        left: impl Fn() -> Result<Duration>,
    ) -> Result<Option<(WriterId, &Writer)>> {
        loop {
            match self.waiting.places.claim() {
                Some(claimed) => return Ok(Some(claimed)),
                None if self.waiting.try_lead() => return Ok(None),
                None => {
                    left()?;
                    yield_now();
                }
            }
        }
    }

    /// Waits until `writer` is in a phase for which `is_over` holds; fails when `left` does.
    ///
    /// It spins at most `spins` times before it sleeps.
    fn wait(
        &self,
        writer: &Writer,
        spins: u32,
        is_over: impl Fn(Phase) -> bool,
        left: impl Fn(Phase) -> Result<Duration>,
    ) -> Result<Phase> {
        // With spare cores most waits are over before the spinners would be counted.
        let is_spare = self.spinners_max > 1;
        if let Some(phase) = writer.spin(if is_spare { SPINS_QUICK } else { 1 }, &is_over) {
            return Ok(phase);
        }
        let _timer = perf::timer(PerfMetric::WriteThreadWaitNanos);
        let spinning = &self.spinning.0;
        let may_spin = spinning.fetch_add(1, Ordering::Relaxed) < self.spinners_max;
        let reached = may_spin.then(|| writer.spin(spins.min(self.spins_max), &is_over));
        spinning.fetch_sub(1, Ordering::Relaxed);
        match reached.flatten() {
            Some(phase) => Ok(phase),
            None => writer.sleep(is_over, left),
        }
    }

    /// Takes leadership for an operation other than a write.
    pub(crate) fn lead(&self) -> Leadership<'_> {
        if self.waiting.try_lead() {
            return self.leadership(true);
        }
        // Without a time limit the claim does not fail.
        let claimed = self.claim_or_lead(|| Ok(Duration::MAX));
        let Ok(Some((id, writer))) = claimed else {
            return self.leadership(true);
        };
        lock(&writer.request).is_turn = true;
        writer.begin(Phase::Waiting);
        if self.waiting.link(id, writer) {
            let is_over = |phase| phase == Phase::Leading;
            // Without a time limit the wait does not fail.
            let _ = self.wait(writer, SPINS, is_over, |_| Ok(Duration::MAX));
        }
        lock(&writer.request).is_turn = false;
        writer.release();
        self.leadership(true)
    }

    // Writes.

    /// Commits `count` operations, alone or as a member of a group.
    #[expect(
        clippy::inline_always,
        reason = "a write calls it and nothing else does"
    )]
    #[inline(always)]
    pub(crate) fn write(
        &self,
        inner: &Arc<impl CommitEnv>,
        records: &[u8],
        count: u32,
        mode: CommitMode,
    ) -> Result<()> {
        if self.may_pass_gate(records, count, mode)
            && let Some(written) = self.direct.write(&**inner, records, count, mode)
        {
            return written;
        }
        if self.waiting.try_lead() {
            return match self.may_share_sync(records, mode) {
                true => self.lead_synced(inner, records, count, mode),
                false => self.lead_alone(inner, records, count, mode),
            };
        }
        self.write_behind(inner, records, count, mode)
    }

    /// Commits a batch while another writer leads: in a group, or alone once its writer leads.
    #[inline(never)]
    fn write_behind(
        &self,
        inner: &Arc<impl CommitEnv>,
        records: &[u8],
        count: u32,
        mode: CommitMode,
    ) -> Result<()> {
        match self.write_queued(inner, records, count, mode, None)? {
            Queued::Ended(_) => Ok(()),
            Queued::Leads(leadership) => {
                let alone = self.commit_alone(inner, leadership, records, count, mode);
                alone.map(|_| ())
            }
        }
    }

    /// Commits a batch as the leader that was just elected.
    #[expect(clippy::inline_always, reason = "one call, in a usual write")]
    #[inline(always)]
    fn lead_alone(
        &self,
        inner: &Arc<impl CommitEnv>,
        records: &[u8],
        count: u32,
        mode: CommitMode,
    ) -> Result<()> {
        let leadership = self.leadership(mode.disable_wal && is_small(count, records));
        let alone = self.commit_alone(inner, leadership, records, count, mode);
        alone.map(|_| ())
    }

    /// Whether a batch is small and unlogged, and the gate for writes without a leader is open.
    #[inline]
    fn may_pass_gate(&self, records: &[u8], count: u32, mode: CommitMode) -> bool {
        mode.disable_wal && self.direct.is_open() && is_small(count, records)
    }

    /// Commits a batch as a member of a group, or returns leadership if its writer must commit it.
    ///
    /// A commit with a `check` is left out of its group unless the answer is clean.
    fn write_queued(
        &self,
        inner: &Arc<impl CommitEnv>,
        records: &[u8],
        count: u32,
        mode: CommitMode,
        check: Option<GroupCheck>,
    ) -> Result<Queued<'_>> {
        let left = || inner.remaining_wait(mode);
        if mode.no_slowdown || mode.stall_timeout.is_some() {
            left()?;
        }
        let is_checked = check.is_some();
        let reopens = !is_checked && mode.disable_wal && is_small(count, records);
        let Some((id, writer)) = self.claim_or_lead(left)? else {
            return Ok(Queued::Leads(self.leadership(reopens)));
        };
        writer.fill_request(records, count, mode, check);
        writer.begin(Phase::Waiting);
        if !self.waiting.link(id, writer) {
            writer.take_outcome(records.len())?;
            return Ok(Queued::Leads(self.leadership(reopens)));
        }
        let spins = spins_for(records, mode);
        // If it fails, the leader that unlinks the writer releases its place.
        match self.wait_for_leader(&**inner, writer, spins, mode)? {
            Phase::Leading
                if !is_checked
                    && self.may_pass_gate(records, count, mode)
                    && inner.may_write_directly() =>
            {
                // Others pass the gate, too.
                self.waiting.hand_off();
                writer.take_outcome(records.len())?;
                self.write(inner, records, count, mode)?;
                return Ok(Queued::Ended(None));
            }
            Phase::Leading => {
                let mut leadership = self.leadership(false);
                if self.may_share_sync(records, mode) {
                    self.await_others(&**inner, &mut leadership.commit);
                }
                if let Some(leadership) = self.lead_group(inner, leadership, (id, writer)) {
                    writer.take_outcome(records.len())?;
                    return Ok(Queued::Leads(leadership));
                }
            }
            Phase::Inserting => {
                let order = lock(&writer.request).insertion.take();
                if let Some(order) = order {
                    let inserted = insert_part(&**inner, &order, records, mode.protection);
                    self.complete(&**inner, order.slot, inserted);
                }
            }
            _ => {}
        }
        self.wait_for_end(writer, spins);
        let check = match is_checked {
            true => lock(&writer.request).check.take(),
            false => None,
        };
        writer.take_outcome(records.len())?;
        Ok(Queued::Ended(check))
    }

    /// Waits until the writer leads, is to insert, or its group has ended.
    ///
    /// Fails if its time limit is reached first; the writer has left the queue then.
    fn wait_for_leader(
        &self,
        inner: &impl CommitEnv,
        writer: &Writer,
        spins: u32,
        mode: CommitMode,
    ) -> Result<Phase> {
        let is_over = |phase| !matches!(phase, Phase::Waiting | Phase::Taken);
        let left = |phase| match phase {
            Phase::Waiting => inner.remaining_wait(mode),
            _ => Ok(Duration::MAX),
        };
        match self.wait(writer, spins, is_over, left) {
            Err(error) if writer.leave() => Err(error),
            Err(_) => writer.sleep(is_over, |_| Ok(Duration::MAX)),
            Ok(phase) => Ok(phase),
        }
    }

    /// Waits until the group of a writer has ended.
    fn wait_for_end(&self, writer: &Writer, spins: u32) {
        let is_over = |phase| phase == Phase::Done;
        // Without a time limit the wait does not fail.
        let _ = self.wait(writer, spins, is_over, |_| Ok(Duration::MAX));
    }

    /// Commits a batch if its check finds no conflict; returns its last sequence number.
    ///
    /// A commit that finds a leader becomes a member of a group if the leader's answer is clean.
    /// Otherwise it leads: all earlier writes are in the memtables then, and it searches them.
    pub(crate) fn write_checked(
        &self,
        inner: &Arc<impl CommitEnv>,
        records: &[u8],
        count: u32,
        mode: CommitMode,
        check: &impl CommitCheck,
    ) -> Result<SeqNo> {
        let mut leadership = if self.waiting.try_lead() {
            self.leadership(false)
        } else if let Some(in_group) = check.in_group() {
            match self.write_queued(inner, records, count, mode, Some(in_group))? {
                Queued::Ended(answer) => match answer.and_then(|answer| answer.admitted) {
                    Some(last) => return Ok(last),
                    None => self.lead(),
                },
                Queued::Leads(leadership) => leadership,
            }
        } else {
            self.lead()
        };
        let commit = &mut *leadership.commit;
        let last = commit.last_seqno;
        if last != check.validated() {
            let in_group = check.in_group();
            let is_clean = |check| commit.recent.is_clean(check, last);
            if !in_group.as_ref().is_some_and(is_clean) {
                self.pipeline.drain()?;
                check.validate_rest()?;
                // Without hashes no check would use the table.
                if in_group.is_some() {
                    commit.recent.cover(last);
                }
            }
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
        self.pipeline.drain()?;
        let batch = make()?;
        if batch.is_empty() {
            return Ok(());
        }
        self.commit_alone(inner, leadership, batch.records(), batch.count(), mode)
            .map(drop)
    }
}

/// Returns how many times a waiting writer of `records` spins before it sleeps.
fn spins_for(records: &[u8], mode: CommitMode) -> u32 {
    let is_short = mode.disable_wal && records.len() <= SMALL_BYTES;
    if is_short || mode.sync {
        SPINS_SHORT
    } else {
        SPINS
    }
}

#[cfg(all(test, loom))]
mod models;
