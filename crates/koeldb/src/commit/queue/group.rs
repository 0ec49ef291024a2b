//! The commit of a write group: gather members, make room, log, insert, publish.
//!
//! The leader takes the writers that wait into its group and writes all of them to the log as one
//! record. Then each member inserts its own entries, and the [`Pipeline`](crate::commit::pipeline::Pipeline)
//! publishes groups in order. A writer that finds no leader commits its batch alone, without a copy,
//! unless it syncs and others wait.
//! A member that sleeps is not woken to insert: the leader inserts for it.

use std::sync::Arc;
use std::time::Duration;

use koeldb_base::error::{Severity, WriteOutcome};
use koeldb_base::key::MAX_SEQNO;
use koeldb_base::perf::{self, PerfMetric};
use koeldb_base::stats::{HistogramKind, Ticker};
use koeldb_base::sync::{MutexGuard, Ordering, lock};
use koeldb_base::{Error, ErrorKind, Result, SeqNo, ValueType};

use super::{Insertion, Leadership, WriteQueue, spins_for};
use crate::batch::{BatchIter, verify};
use crate::commit::apply::insert;
use crate::commit::direct::is_small;
use crate::commit::pipeline::{PipelineEnv, PipelineSlot};
use crate::commit::protocol::{ColumnFamilyMemtable, CommitPipeline, CommitState, not_applied};
use crate::commit::recent_writes::{KeyHash, key_hash};
use crate::commit::writer::{CommitMode, InsertionOrder, Phase, Request, Writer, WriterId};
use crate::wal::BATCHES_MAX;

/// The number of operations of a group below which its leader inserts all, without spare cores:
/// another thread would begin later than the leader ends.
const SHARED_MIN: u32 = if cfg!(loom) { 2 } else { 8 };

/// The number of bytes of a user-defined timestamp, as logs declare it.
pub(crate) const TIMESTAMP_SIZE: u16 = 8;

/// The operations that a write queue needs: log write, memtable insertion and publication.
pub(crate) trait CommitEnv: Send + Sync + 'static {
    /// Makes room for a group and writes it to the log; called by the leader.
    ///
    /// `records` are those of each member, in order.
    /// The group gets the sequence numbers from the returned one to the resulting `last_seqno`.
    fn commit_group(
        self: &Arc<Self>,
        commit: &mut CommitState,
        records: &[&[u8]],
        count: u32,
        mode: CommitMode,
    ) -> Result<SeqNo>;

    /// Passes the hash of each key that `records` write to `note`; `false` for a range deletion.
    fn hash_keys(&self, records: &[u8], note: &mut dyn FnMut(KeyHash)) -> bool;

    /// Counts a write group in the statistics after its log write, if it needs one.
    fn count_committed(&self, batches: usize, bytes: usize, mode: CommitMode);

    /// Inserts operations, with sequence numbers from `first` on, into their families' memtables.
    ///
    /// Returns whether a memtable has reached its check size.
    fn insert(
        &self,
        families: &[ColumnFamilyMemtable],
        records: &[u8],
        first: SeqNo,
    ) -> Result<bool>;

    /// Requests a check of memtable sizes if `inserted` is true; stops all writes after an error.
    fn handle_insertion(&self, inserted: Result<bool>) -> Result<()>;

    /// Makes everything up to `seqno` visible.
    fn publish(&self, seqno: SeqNo);

    /// Returns how long a queued write may sleep before the next call; fails if it must not wait.
    fn remaining_wait(&self, mode: CommitMode) -> Result<Duration>;

    /// Returns the monotonic time.
    fn now(&self) -> Duration;

    /// Whether writes are possible and no memtable needs a leader to make room for them.
    fn may_write_directly(&self) -> bool;

    /// Counts a batch of `count` operations that was inserted without a leader.
    ///
    /// The calling thread has the `slot` of the counters for itself.
    fn count_direct(&self, slot: usize, count: u32, bytes: usize);
}

/// A member of a write group, with its request locked.
///
/// The request stays locked until the member is told to insert, or its entries are inserted for it.
struct Member<'q> {
    writer: WriterId,
    request: MutexGuard<'q, Request>,
}

/// An adapter that implements [`PipelineEnv`] for a write queue and its database.
struct Env<'q, E> {
    queue: &'q WriteQueue,
    inner: &'q E,
}

impl<E: CommitEnv> PipelineEnv for Env<'_, E> {
    fn publish(&self, seqno: SeqNo) {
        self.inner.publish(seqno);
    }

    fn finish(&self, writer: WriterId, failure: Option<Error>) -> bool {
        self.queue.waiting.places.get(writer).finish(failure)
    }

    fn wake(&self, writer: WriterId) {
        self.queue.waiting.places.get(writer).wake();
    }
}

/// The members of a write group that is not in the pipeline yet, which fail on drop.
///
/// They are dropped with members if their leader panics.
struct Members<'q> {
    queue: &'q WriteQueue,
    list: Vec<Member<'q>>,
}

impl Members<'_> {
    /// Ends the group with `error` before it enters the pipeline; wakes all members but the leader.
    fn fail(mut self, error: &Error) {
        self.finish(error);
    }

    /// Ends all members but the leader with `error`, and wakes them.
    fn finish(&mut self, error: &Error) {
        for member in self.list.drain(..).skip(1) {
            let writer = self.queue.waiting.places.get(member.writer);
            drop(member);
            if writer.finish(Some(error.clone())) {
                writer.wake();
            }
        }
    }
}

impl Drop for Members<'_> {
    fn drop(&mut self) {
        if !self.list.is_empty() {
            let error =
                Error::with_kind(ErrorKind::Aborted, "the leader of the write group panicked");
            self.finish(&error.with_outcome(WriteOutcome::Indeterminate));
        }
    }
}

impl WriteQueue {
    /// Commits a batch as the leader (log, memtables, readers), without copying it.
    ///
    /// Returns its last sequence number. If others wait to lead, they do so from the moment that the
    /// log is written.
    #[inline(always)]
    pub(super) fn commit_alone(
        &self,
        inner: &Arc<impl CommitEnv>,
        mut leadership: Leadership<'_>,
        records: &[u8],
        count: u32,
        mode: CommitMode,
    ) -> Result<SeqNo> {
        verify(records, mode.protection).map_err(not_applied)?;
        let commit = &mut *leadership.commit;
        let first = inner.commit_group(commit, &[records], count, mode)?;
        if commit.recent.is_on() {
            enter_alone(&**inner, commit, records, first);
        }
        inner.count_committed(1, records.len(), mode);
        let last = commit.last_seqno;
        if self.pipeline.is_idle() && !(self.waiting.is_awaited() && self.passes_early()) {
            let inserted = verify(records, mode.protection)
                .and_then(|()| inner.insert(&commit.families, records, first));
            inner.handle_insertion(inserted)?;
            inner.publish(last);
            return Ok(last);
        }
        self.insert_alone(inner, leadership, (records, first), mode)?;
        Ok(last)
    }

    /// Inserts a logged batch through the pipeline, as writers wait or earlier groups still insert.
    #[inline(never)]
    fn insert_alone(
        &self,
        inner: &Arc<impl CommitEnv>,
        leadership: Leadership<'_>,
        (records, first): (&[u8], SeqNo),
        mode: CommitMode,
    ) -> Result<()> {
        let last = leadership.commit.last_seqno;
        let families = Arc::clone(&leadership.commit.families);
        let is_concurrent = self.inserts_concurrently(&families);
        // Only a leader frees the places of writers that gave up, so this one must not wait for one.
        let claimed = self.waiting.places.claim();
        if !is_concurrent || claimed.is_none() {
            let drained = self.pipeline.drain();
            if claimed.is_none() {
                drained.map_err(|error| error.with_outcome(WriteOutcome::Indeterminate))?;
            }
        }
        let Some((id, writer)) = claimed else {
            let inserted = verify(records, mode.protection)
                .and_then(|()| inner.insert(&families, records, first));
            inner.handle_insertion(inserted)?;
            inner.publish(last);
            return Ok(());
        };
        let passes_early = is_concurrent && self.passes_early();
        writer.begin(Phase::Leading);
        let env = self.env(&**inner);
        let slot = self.pipeline.enter(&env, last, 1, [id].into_iter());
        let leadership = (!passes_early).then_some(leadership);
        let order = InsertionOrder {
            slot,
            first,
            families,
        };
        let inserted = insert_part(&**inner, &order, records, mode.protection);
        drop(order);
        self.complete(&**inner, slot, inserted);
        drop(leadership);
        self.wait_for_end(writer, spins_for(records, mode));
        writer.take_outcome(records.len())
    }

    /// Commits a write group as its leader: gathers, logs and inserts it.
    ///
    /// All its writers, the leader too, are told when it has ended.
    ///
    /// Returns leadership, and does nothing, if the check of the leader's own commit is unsure.
    pub(super) fn lead_group<'q>(
        &self,
        inner: &Arc<impl CommitEnv>,
        mut leadership: Leadership<'q>,
        leader: (WriterId, &Writer),
    ) -> Option<Leadership<'q>> {
        let gathered = self.gather(&**inner, &mut leadership.commit, leader.0);
        let Some((mut members, mode)) = gathered else {
            return Some(leadership);
        };
        let first = match self.log_group(inner, &mut leadership.commit, &members.list, mode) {
            Ok(first) => first,
            Err(error) => {
                drop(leadership);
                members.fail(&error);
                leader.1.finish(Some(error));
                return None;
            }
        };
        let last = leadership.commit.last_seqno;
        if leadership.commit.recent.is_on() {
            leadership.commit.recent.advance(first, last);
        }
        let families = Arc::clone(&leadership.commit.families);
        let env = self.env(&**inner);
        let opens_gate = self.should_open_gate(&members.list, mode);
        let ids = members.list.iter().map(|member| member.writer);
        if opens_gate || !self.inserts_concurrently(&families) {
            leadership.opens_gate = opens_gate;
            // After a failure the pipeline publishes nothing.
            let _ = self.pipeline.drain();
            let slot = self.pipeline.enter(&env, last, 1, ids);
            let inserted = insert_members(&**inner, &families, &members.list, first);
            drop(std::mem::take(&mut members.list));
            self.complete(&**inner, slot, inserted);
            return None;
        }
        let insertions = members.list.len();
        let slot = self.pipeline.enter(&env, last, insertions, ids);
        let _held = (!self.passes_early()).then_some(leadership);
        self.insert_members_concurrently(
            inner,
            slot,
            &families,
            std::mem::take(&mut members.list),
            first,
        );
        None
    }

    /// Forms a leader's group of waiting writers (RocksDB: `EnterAsBatchGroupLeader`).
    ///
    /// A commit whose check is unsure is told so, and left out; `None` if it is the leader's own.
    fn gather(
        &self,
        inner: &impl CommitEnv,
        commit: &mut CommitState,
        id: WriterId,
    ) -> Option<(Members<'_>, CommitMode)> {
        let mut request = lock(&self.waiting.places.get(id).request);
        let mut last = commit.last_seqno;
        if !admit(inner, commit, &mut request, last) {
            return None;
        }
        last += SeqNo::from(request.count);
        let mut mode = request.mode;
        let mut bytes = request.records.len();
        let mut members = Members {
            queue: self,
            list: vec![Member {
                writer: id,
                request,
            }],
        };
        let bytes_max = self.bytes_max_of(bytes);
        let mut unlinked = self.waiting.all_unlinked();
        while let Some(&next) = unlinked.front()
            && members.list.len() < BATCHES_MAX
        {
            let writer = self.waiting.places.get(next);
            let mut request = lock(&writer.request);
            let is_member = !request.is_turn
                && request.mode.may_join(mode)
                && bytes + request.records.len() <= bytes_max;
            if !is_member {
                break;
            }
            unlinked.pop_front();
            if !writer.take() {
                drop(request);
                writer.release();
                continue;
            }
            if !admit(inner, commit, &mut request, last) {
                drop(request);
                if writer.finish(None) {
                    writer.wake();
                }
                continue;
            }
            last += SeqNo::from(request.count);
            bytes += request.records.len();
            mode.sync |= request.mode.sync;
            members.list.push(Member {
                writer: next,
                request,
            });
        }
        if mode.sync && !unlinked.is_empty() {
            commit.group_wait.back_off();
        }
        Some((members, mode))
    }

    /// Returns the maximum bytes of a group, from those of its first batch.
    ///
    /// A group that has as many bytes of records accepts no more members.
    ///
    /// A group that a small batch opened stays small, so that its leader is not delayed much.
    fn bytes_max_of(&self, first: usize) -> usize {
        let share = self.group_bytes_max / 8;
        match first <= share {
            true => first + share,
            false => self.group_bytes_max,
        }
    }

    /// Whether writes without a log should bypass write groups from now on; called by the leader.
    fn should_open_gate(&self, members: &[Member<'_>], mode: CommitMode) -> bool {
        let is_concurrent = match self.insertion {
            Insertion::Alone | Insertion::Unordered => false,
            Insertion::Shared => self.spinners_max > 1,
            Insertion::Pipelined => true,
        };
        let mut requests = members.iter().map(|member| &member.request);
        // A commit of a transaction must know the keys of all writes.
        let may_pass = requests
            .all(|request| is_small(request.count, &request.records) && request.check.is_none());
        is_concurrent && self.direct.count_group(mode.disable_wal && may_pass)
    }

    /// Returns whether entries may be inserted concurrently, by writers of one group or several.
    ///
    /// The entries of a family that folds operands are inserted in order.
    pub(super) fn inserts_concurrently(&self, families: &[ColumnFamilyMemtable]) -> bool {
        self.insertion != Insertion::Alone
            && !families.iter().any(|active| active.folding.is_some())
    }

    /// Verifies a group and writes it to the log; returns its first sequence number.
    fn log_group(
        &self,
        inner: &Arc<impl CommitEnv>,
        commit: &mut CommitState,
        members: &[Member<'_>],
        mode: CommitMode,
    ) -> Result<SeqNo> {
        let mut records = [&[][..]; BATCHES_MAX];
        let (mut count, mut bytes) = (0, 0);
        for (at, member) in members.iter().enumerate() {
            let request = &*member.request;
            verify(&request.records, request.mode.protection).map_err(not_applied)?;
            records[at] = &request.records;
            count += request.count;
            bytes += request.records.len();
        }
        let first = inner.commit_group(commit, &records[..members.len()], count, mode)?;
        inner.count_committed(members.len(), bytes, mode);
        Ok(first)
    }

    /// Inserts a group's entries: awake members insert their own if that pays, the leader the rest.
    fn insert_members_concurrently(
        &self,
        inner: &Arc<impl CommitEnv>,
        slot: PipelineSlot,
        families: &Arc<Vec<ColumnFamilyMemtable>>,
        members: Vec<Member<'_>>,
        first: SeqNo,
    ) {
        let count: u32 = members.iter().map(|member| member.request.count).sum();
        let is_shared = count >= SHARED_MIN || self.spinners_max > 1;
        let mut own = Vec::with_capacity(members.len());
        let mut next = first;
        for (at, mut member) in members.into_iter().enumerate() {
            let order = InsertionOrder {
                slot,
                first: next,
                families: Arc::clone(families),
            };
            next += SeqNo::from(member.request.count);
            if !is_shared || at == 0 {
                own.push((member, order));
                continue;
            }
            let writer = self.waiting.places.get(member.writer);
            member.request.insertion = Some(order);
            drop(member.request);
            if writer.let_insert() {
                continue;
            }
            // It sleeps.
            member.request = lock(&writer.request);
            if let Some(order) = member.request.insertion.take() {
                own.push((member, order));
            }
        }
        for (member, order) in own {
            let request = &*member.request;
            let protection = request.mode.protection;
            let inserted = insert_part(&**inner, &order, &request.records, protection);
            // The writer is told of a failure through its request.
            drop(member);
            self.complete(&**inner, order.slot, inserted);
        }
    }

    /// Tells the pipeline the outcome of an insertion into the memtables.
    pub(super) fn complete(
        &self,
        inner: &impl CommitEnv,
        slot: PipelineSlot,
        inserted: Result<bool>,
    ) {
        let outcome = inner.handle_insertion(inserted);
        self.pipeline.complete(&self.env(inner), slot, outcome);
    }

    /// Returns the adapter through which the pipeline uses this queue and its database.
    fn env<'e, E>(&'e self, inner: &'e E) -> Env<'e, E> {
        Env { queue: self, inner }
    }
}

/// Admits a member to a group and records its keys; `false` if its check may have a conflict.
fn admit(
    inner: &impl CommitEnv,
    commit: &mut CommitState,
    request: &mut Request,
    before: SeqNo,
) -> bool {
    let last = before + SeqNo::from(request.count);
    let recent = &mut commit.recent;
    if let Some(check) = &mut request.check {
        if !recent.is_clean(check, commit.last_seqno) {
            return false;
        }
        check.admitted = Some(last);
    }
    if recent.is_on() {
        let hash_keys = |note: &mut dyn FnMut(KeyHash)| inner.hash_keys(&request.records, note);
        recent.enter(request.count, last, hash_keys);
    }
    true
}

/// Records the keys of a batch that was logged alone in the table of recent writes.
#[cold]
fn enter_alone(inner: &impl CommitEnv, commit: &mut CommitState, records: &[u8], first: SeqNo) {
    let last = commit.last_seqno;
    let count = u32::try_from(last + 1 - first).unwrap_or(u32::MAX);
    let hash_keys = |note: &mut dyn FnMut(KeyHash)| inner.hash_keys(records, note);
    commit.recent.enter(count, last, hash_keys);
    commit.recent.advance(first, last);
}

/// Verifies the records of one group member and inserts them into the memtables.
pub(super) fn insert_part(
    inner: &impl CommitEnv,
    order: &InsertionOrder,
    records: &[u8],
    protection: Option<u64>,
) -> Result<bool> {
    verify(records, protection)?;
    inner.insert(&order.families, records, order.first)
}

/// Verifies the records of all group members and inserts them into the memtables in order.
fn insert_members(
    inner: &impl CommitEnv,
    families: &[ColumnFamilyMemtable],
    members: &[Member<'_>],
    first: SeqNo,
) -> Result<bool> {
    let (mut next, mut should_check_switch) = (first, false);
    for member in members {
        let request = &*member.request;
        verify(&request.records, request.mode.protection)?;
        should_check_switch |= inner.insert(families, &request.records, next)?;
        next += SeqNo::from(request.count);
    }
    Ok(should_check_switch)
}

impl CommitEnv for CommitPipeline {
    fn commit_group(
        self: &Arc<Self>,
        commit: &mut CommitState,
        records: &[&[u8]],
        count: u32,
        mode: CommitMode,
    ) -> Result<SeqNo> {
        let bytes = || records.iter().map(|records| records.len()).sum::<usize>();
        self.make_room(commit, mode).map_err(not_applied)?;
        let first = commit.last_seqno + 1;
        if commit.last_seqno + SeqNo::from(count) > MAX_SEQNO {
            return Err(not_applied(Error::invalid_argument(
                "the sequence numbers of the database are exhausted",
            )));
        }
        if !mode.disable_wal && bytes() > 0 {
            let begun = mode.sync.then(|| self.now());
            self.write_log(commit, first, records, (count, count), mode.sync)?;
            if let Some(begun) = begun {
                let writers = records.len() + self.queue.waiting.unlinked_count();
                let took = self.now().saturating_sub(begun);
                commit.group_wait.record_sync(writers, took);
            }
        } else if mode.sync {
            self.wals.sync(commit.wal()?)?;
        } else if count > 0 {
            self.visibility.record_unlogged();
        }
        commit.last_seqno = first - 1 + SeqNo::from(count);
        if self.context.statistics.is_some() {
            self.count_group(count, bytes());
        }
        Ok(first)
    }

    #[inline]
    fn count_committed(&self, batches: usize, bytes: usize, mode: CommitMode) {
        self.counters
            .committed(batches as u64, bytes as u64, !mode.disable_wal);
        if batches > 1 {
            self.context
                .count(Ticker::WriteDoneByOther, batches as u64 - 1);
        }
    }

    fn hash_keys(&self, records: &[u8], note: &mut dyn FnMut(KeyHash)) -> bool {
        let mut operations = BatchIter::new(records);
        while let Ok(next) = operations.next_operation() {
            match next {
                Some(operation) if operation.value_type == ValueType::RangeDeletion => {
                    return false;
                }
                Some(operation) => note(key_hash(operation.cf, operation.key)),
                None => return true,
            }
        }
        false
    }

    #[inline]
    fn insert(
        &self,
        families: &[ColumnFamilyMemtable],
        records: &[u8],
        first: SeqNo,
    ) -> Result<bool> {
        let _timer = perf::timer(PerfMetric::WriteMemtableTime);
        insert(families, records, first)
    }

    /// Handles the result of the insertion of a group.
    ///
    /// Schedules a check of memtables that have grown, and stops writes if the entries of a group
    /// were not inserted: their batch is in the log, and partially in the memtables.
    #[inline]
    fn handle_insertion(&self, inserted: Result<bool>) -> Result<()> {
        match inserted {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.check_due.store(true, Ordering::Release);
                Ok(())
            }
            Err(error) => {
                let error = error.with_severity(Severity::Fatal);
                Err(self
                    .health
                    .fail_writes(error.with_outcome(WriteOutcome::Indeterminate)))
            }
        }
    }

    #[inline]
    fn publish(&self, seqno: SeqNo) {
        self.visibility.publish(seqno);
    }

    fn remaining_wait(&self, mode: CommitMode) -> Result<Duration> {
        // A leader may wait for memory; stalled writes wait before they are queued.
        self.remaining_of(mode, || self.is_out_of_memory())
    }

    fn now(&self) -> Duration {
        self.context.clock.now()
    }

    fn may_write_directly(&self) -> bool {
        !self.check_due.load(Ordering::Relaxed)
            && !self.is_out_of_memory()
            && self.health.check_writable().is_ok()
    }

    fn count_direct(&self, slot: usize, count: u32, bytes: usize) {
        self.counters.wrote_directly(slot, bytes as u64);
        if self.context.statistics.is_some() {
            self.count_group(count, bytes);
        }
    }
}

impl CommitPipeline {
    /// Appends a record to the current log, and syncs it if `sync`.
    ///
    /// `counts` are the number of operations in the record and of sequence numbers that it takes,
    /// which differ for two-phase transactions.
    pub(crate) fn write_log(
        &self,
        commit: &mut CommitState,
        first: SeqNo,
        records: &[&[u8]],
        counts: (u32, u32),
        sync: bool,
    ) -> Result<()> {
        if self.families.have_timestamps() {
            self.declare_timestamps(commit)?;
        }
        self.wals
            .append(commit.wal()?, first, records, counts, sync)
    }

    /// Declares the column families with user-defined timestamps in the log, unless it names them.
    #[cold]
    fn declare_timestamps(&self, commit: &mut CommitState) -> Result<()> {
        let families = Arc::clone(&commit.families);
        let families = families.iter().map(|active| &active.family);
        let dated = families.filter(|family| family.has_timestamps);
        let sizes: Vec<_> = dated.map(|family| (family.id, TIMESTAMP_SIZE)).collect();
        self.wals.declare_timestamps(commit.wal()?, &sizes)
    }

    /// Adds a write group to the tickers and histograms of writes.
    fn count_group(&self, count: u32, bytes: usize) {
        let context = &self.context;
        context.count(Ticker::NumberKeysWritten, u64::from(count));
        context.count(Ticker::BytesWritten, bytes as u64);
        context.count(Ticker::WriteDoneBySelf, 1);
        context.record(HistogramKind::BytesPerWrite, bytes as u64);
    }
}
