//! Who leads: a queue of groups of writers, the front one of which owns the right to commit.
//!
//! A writer that finds nobody leading leads at once, alone, with its batch borrowed. Otherwise it copies its records
//! into the last group in line, or opens one; the opener leads the group when its turn comes, the others wait for
//! its result. Waiting spins briefly before it parks: every blocking hand-off costs some 20 us, and a log write
//! takes one. Spinning is limited to as many threads as there are cores to spare; members that spin help to insert.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use koeldb_base::error::WriteOutcome;
use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_fs::Clock;

use super::apply::{Part, SharedApply, insert};
use super::commit::CommitState;
use crate::inner::DbInner;
use crate::super_version::lock;

/// Bytes of records after which a group takes no more members.
const GROUP_BYTES_MAX: usize = 1 << 20;
const SPINS: u32 = 2_000;

/// The operations of one or more writers, to be committed as one log record.
#[derive(Debug, Default)]
pub(crate) struct GroupRecords {
    pub(crate) records: Vec<u8>,
    pub(crate) count: u32,
    pub(crate) how: CommitHow,
    /// One for each member.
    pub(crate) parts: Vec<Part>,
}

/// What the members of a group asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommitHow {
    pub(crate) sync: bool,
    pub(crate) disable_wal: bool,
    pub(crate) no_slowdown: bool,
    pub(crate) patience: Option<Patience>,
}

/// How long a write waits where writes are stopped or slowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    limit: Duration,
    /// When it ends.
    until: Duration,
}

impl Patience {
    pub(crate) fn new(limit: Duration, clock: &dyn Clock) -> Self {
        Patience {
            limit,
            until: clock.now().saturating_add(limit),
        }
    }

    /// The time left; zero when it is over.
    pub(crate) fn left(self, clock: &dyn Clock) -> Duration {
        self.until.saturating_sub(clock.now())
    }
}

impl CommitHow {
    /// Whether a writer may share the fate of a group opened before: it would not give up much earlier than it would
    /// alone.
    fn may_join(self, group: CommitHow) -> bool {
        let agrees = match (self.patience, group.patience) {
            (Some(own), Some(other)) => {
                own.limit == other.limit && own.until.saturating_sub(other.until) <= own.limit / 4
            }
            (None, None) => true,
            _ => false,
        };
        agrees && self.disable_wal == group.disable_wal && self.no_slowdown == group.no_slowdown
    }
}

/// A ticket begins at 0, waiting.
const LEADING: u8 = 1;
const APPLYING: u8 = 2;
const DONE: u8 = 3;

/// Where the members of a group wait.
#[derive(Default)]
struct Ticket {
    state: AtomicU8,
    failure: OnceLock<Error>,
    /// What members that are awake can help with, from the state of that name on.
    shared: OnceLock<Arc<SharedApply>>,
    parked: Mutex<Vec<Thread>>,
}

impl Ticket {
    /// Lets members that spin help; the others sleep on.
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
        // Without a limit it does not fail.
        let _ = self.wait_while_patient(state, spinning, spinners_max, || Ok(Duration::MAX));
    }

    /// Waits as long as `left` says how long.
    fn wait_while_patient(
        &self,
        state: u8,
        spinning: &AtomicUsize,
        spinners_max: usize,
        left: impl Fn() -> Result<Duration>,
    ) -> Result<()> {
        let reached = || self.state.load(Ordering::Acquire) >= state;
        if spinning.fetch_add(1, Ordering::Relaxed) < spinners_max {
            for _ in 0..SPINS {
                if reached() {
                    break;
                }
                if state == DONE
                    && self.state.load(Ordering::Acquire) == APPLYING
                    && let Some(shared) = self.shared.get()
                {
                    shared.help();
                }
                std::hint::spin_loop();
            }
        }
        spinning.fetch_sub(1, Ordering::Relaxed);
        while !reached() {
            let mut parked = lock(&self.parked);
            if self.state.load(Ordering::SeqCst) >= state {
                break;
            }
            parked.push(std::thread::current());
            drop(parked);
            match left()? {
                Duration::MAX => std::thread::park(),
                left => std::thread::park_timeout(left),
            }
        }
        Ok(())
    }
}

/// Tells the members of a group how it went, also if its leader panics.
struct Settle<'t>(&'t Ticket);

impl Settle<'_> {
    fn done(self) {
        self.0.set(DONE);
        std::mem::forget(self);
    }
}

impl Drop for Settle<'_> {
    fn drop(&mut self) {
        let _ = self.0.failure.set(
            Error::with_kind(ErrorKind::Aborted, "the leader of the write group panicked")
                .with_outcome(WriteOutcome::Indeterminate),
        );
        self.0.set(DONE);
    }
}

struct Group {
    /// `None` for an exclusive turn, which nobody joins.
    records: Option<GroupRecords>,
    ticket: Arc<Ticket>,
}

#[derive(Default)]
struct Line {
    is_led: bool,
    groups: VecDeque<Group>,
}

/// The line of writers, and what only its leader touches.
pub(crate) struct WriteQueue {
    line: Mutex<Line>,
    commit: Mutex<CommitState>,
    spinning: AtomicUsize,
    spinners_max: usize,
}

/// The right to commit; the next in line gets it when it is dropped.
pub(crate) struct Leadership<'q> {
    queue: &'q WriteQueue,
    pub(crate) commit: MutexGuard<'q, CommitState>,
}

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        let mut line = lock(&self.queue.line);
        match line.groups.front() {
            Some(next) => next.ticket.set(LEADING),
            None => line.is_led = false,
        }
    }
}

impl WriteQueue {
    pub(crate) fn new(commit: CommitState) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        WriteQueue {
            line: Mutex::new(Line::default()),
            commit: Mutex::new(commit),
            spinning: AtomicUsize::new(0),
            spinners_max: cores.saturating_sub(1),
        }
    }

    fn leadership(&self) -> Leadership<'_> {
        Leadership {
            queue: self,
            commit: lock(&self.commit),
        }
    }

    /// Takes leadership for something that is no write.
    pub(crate) fn lead(&self) -> Leadership<'_> {
        let ticket = {
            let mut line = lock(&self.line);
            if !line.is_led {
                line.is_led = true;
                None
            } else {
                let ticket = Arc::new(Ticket::default());
                line.groups.push_back(Group {
                    records: None,
                    ticket: Arc::clone(&ticket),
                });
                Some(ticket)
            }
        };
        if let Some(ticket) = ticket {
            ticket.wait_until(LEADING, &self.spinning, self.spinners_max);
            lock(&self.line).groups.pop_front();
        }
        self.leadership()
    }

    /// Commits `count` operations, alone or as a member of a group.
    #[inline]
    pub(crate) fn write(
        &self,
        inner: &Arc<DbInner>,
        records: &[u8],
        count: u32,
        how: CommitHow,
    ) -> Result<()> {
        let joined = {
            let mut line = lock(&self.line);
            if line.is_led {
                Some(Self::join(&mut line, records, count, how))
            } else {
                line.is_led = true;
                None
            }
        };
        let Some((ticket, opened)) = joined else {
            let mut leadership = self.leadership();
            let commit = &mut *leadership.commit;
            let first = inner.commit_group(commit, records, count, how)?;
            inner
                .write_counters
                .committed(1, records.len() as u64, !how.disable_wal);
            let inserted = insert(&commit.families, records, first);
            return inner.publish_group(commit, first, count, records.len(), inserted);
        };
        if !opened {
            ticket.wait_until(DONE, &self.spinning, self.spinners_max);
            return ticket
                .failure
                .get()
                .map_or(Ok(()), |error| Err(error.clone()));
        }
        let settle = Settle(&ticket);
        if let Err(error) = self.wait_to_lead(inner, &ticket, how) {
            let _ = ticket.failure.set(error.clone());
            settle.done();
            return Err(error);
        }
        let group = lock(&self.line)
            .groups
            .pop_front()
            .and_then(|group| group.records);
        let mut leadership = self.leadership();
        let led = Self::lead_group(
            inner,
            &mut leadership.commit,
            group.unwrap_or_default(),
            &ticket,
        );
        if let Err(error) = &led {
            let _ = ticket.failure.set(error.clone());
        }
        settle.done();
        led
    }

    /// Waits for the turn of the group that `ticket` is of, and takes the group out of line if it must not wait longer.
    fn wait_to_lead(&self, inner: &DbInner, ticket: &Arc<Ticket>, how: CommitHow) -> Result<()> {
        let left = || inner.may_wait(how);
        let waited = ticket.wait_while_patient(LEADING, &self.spinning, self.spinners_max, left);
        if waited.is_ok() {
            return Ok(());
        }
        let mut line = lock(&self.line);
        // Under the lock that hands leadership on: a group that has it by now goes ahead.
        if ticket.state.load(Ordering::SeqCst) < LEADING {
            line.groups
                .retain(|group| !Arc::ptr_eq(&group.ticket, ticket));
            return waited;
        }
        Ok(())
    }

    fn lead_group(
        inner: &Arc<DbInner>,
        commit: &mut CommitState,
        group: GroupRecords,
        ticket: &Ticket,
    ) -> Result<()> {
        let GroupRecords {
            records,
            count,
            how,
            parts,
        } = group;
        let bytes = records.len();
        let first = inner.commit_group(commit, &records, count, how)?;
        inner
            .write_counters
            .committed(parts.len() as u64, bytes as u64, !how.disable_wal);
        let inserted = if parts.len() > 1 {
            let shared = Arc::new(SharedApply::new(
                records,
                parts,
                first,
                Arc::clone(&commit.families),
            ));
            ticket.share(Arc::clone(&shared));
            shared.help();
            shared.wait()
        } else {
            insert(&commit.families, &records, first)
        };
        inner.publish_group(commit, first, count, bytes, inserted)
    }

    /// Puts the operations into the last group, or into a new one; says whether a new one was opened.
    fn join(line: &mut Line, records: &[u8], count: u32, how: CommitHow) -> (Arc<Ticket>, bool) {
        if let Some(Group {
            records: Some(group),
            ticket,
        }) = line.groups.back_mut()
            && how.may_join(group.how)
            && group.records.len() + records.len() <= GROUP_BYTES_MAX
        {
            let from = group.records.len();
            group.records.extend_from_slice(records);
            group.parts.push(Part {
                records: from..group.records.len(),
                first: SeqNo::from(group.count),
            });
            group.count += count;
            group.how.sync |= how.sync;
            return (Arc::clone(ticket), false);
        }
        let ticket = Arc::new(Ticket::default());
        line.groups.push_back(Group {
            records: Some(GroupRecords {
                records: records.to_vec(),
                count,
                how,
                parts: vec![Part {
                    records: 0..records.len(),
                    first: 0,
                }],
            }),
            ticket: Arc::clone(&ticket),
        });
        (ticket, true)
    }
}
