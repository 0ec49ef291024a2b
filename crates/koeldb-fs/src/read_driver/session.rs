//! The reads of one operation on the shared backend, and the mailbox for their outcomes.
//!
//! Invariant: a session owns nothing that an in-flight read uses; it can be dropped, leaked or
//! moved to another thread at any time. Outcomes that arrive later are dropped on arrival.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use koeldb_base::{Error, ErrorKind};

use super::request::{Reply, Request};
use super::{AsyncReads, Caps, OpId, Outcome, ReadDriver, ReadOp};

/// The queue of outcomes of a session's reads.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    state: Mutex<Arrivals>,
    arrived: Condvar,
}

/// The outcomes that have arrived for a session, and the receiver's state.
#[derive(Debug, Default)]
struct Arrivals {
    done: Vec<(OpId, Outcome)>,
    orphans: Vec<OpId>,
    abandoned: bool,
    /// Whether a thread waits: notifying without a waiter would cost a system call.
    has_waiting: bool,
    waker: Option<Waker>,
}

impl Mailbox {
    fn state(&self) -> MutexGuard<'_, Arrivals> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers an outcome and wakes the receiver, unless the read is no longer wanted.
    pub(super) fn deliver(&self, id: OpId, outcome: Outcome) {
        let mut state = self.state();
        if state.abandoned {
            drop(state);
            drop(outcome);
            return;
        }
        if let Some(at) = state.orphans.iter().position(|&orphan| orphan == id) {
            state.orphans.swap_remove(at);
            return;
        }
        state.done.push((id, outcome));
        let waker = state.waker.take();
        let has_waiting = std::mem::take(&mut state.has_waiting);
        drop(state);
        if has_waiting {
            self.arrived.notify_one();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the session still wants the outcome of a read.
    pub(super) fn wants(&self, id: OpId) -> bool {
        let state = self.state();
        !state.abandoned && !state.orphans.contains(&id)
    }

    /// Waits for an outcome, for `limit` at most.
    fn wait(&self, limit: Option<Duration>) {
        let mut state = self.state();
        if !state.done.is_empty() {
            return;
        }
        state.has_waiting = true;
        match limit {
            Some(limit) => {
                let _ = self.arrived.wait_timeout(state, limit);
            }
            None => drop(self.arrived.wait(state)),
        }
    }

    /// Discards the outcome of a read, whether it has arrived or not.
    fn orphan(&self, id: OpId) {
        let mut state = self.state();
        match state.done.iter().position(|(done, _)| *done == id) {
            Some(at) => drop(state.done.swap_remove(at)),
            None => state.orphans.push(id),
        }
    }

    /// Discards all outcomes, present and future.
    fn abandon(&self) {
        let mut state = self.state();
        state.abandoned = true;
        state.waker = None;
        drop(std::mem::take(&mut state.done));
    }
}

/// The driver of one operation's reads on the shared backend; see [`AsyncReads::shared`].
///
/// Reads in flight when it is dropped become orphans: they complete by themselves, and the drop
/// does not wait.
pub struct ReadSession {
    reads: AsyncReads,
    mailbox: Arc<Mailbox>,
    queued: Vec<Request>,
    /// The process that owns the mailbox.
    process: u32,
    /// Reads whose outcomes have not been delivered.
    outstanding: Vec<OpId>,
}

impl ReadSession {
    /// Creates the session of one operation, a batch or a scan, without reads.
    pub(super) fn new(reads: AsyncReads) -> Self {
        ReadSession {
            reads,
            mailbox: Arc::default(),
            queued: Vec::new(),
            process: std::process::id(),
            outstanding: Vec::new(),
        }
    }

    /// Passes every available outcome to `each` and returns their number.
    ///
    /// Pending if there is none and some are outstanding: the first arrival then wakes the task.
    pub fn poll_reap(
        &mut self,
        context: &mut Context<'_>,
        each: &mut dyn FnMut(OpId, Outcome),
    ) -> Poll<usize> {
        let reaped = self.take_arrived(each);
        if reaped > 0 || self.outstanding.is_empty() {
            return Poll::Ready(reaped);
        }
        let mut state = self.mailbox.state();
        if state.done.is_empty() {
            match &mut state.waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => state.waker = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        drop(state);
        Poll::Ready(self.take_arrived(each))
    }

    /// The [`AsyncReads`] of this session.
    #[must_use]
    pub fn reads(&self) -> &AsyncReads {
        &self.reads
    }

    /// Creates a request for `op` without issuing it.
    pub(super) fn request(&mut self, op: ReadOp) -> (OpId, Option<Request>) {
        let id = self.reads.next_id();
        self.outstanding.push(id);
        let reply = Reply::Session(Arc::clone(&self.mailbox));
        (id, Request::new(op, id, reply, self.reads.shared_state()))
    }

    /// Pushes a read whose outcome is passed to `then` instead of this session.
    ///
    /// `then` runs on the thread that completes the read, even if the session is gone by then. It
    /// must neither wait nor panic. The read is flushed with the others.
    pub fn push_then(&mut self, op: ReadOp, then: impl FnOnce(Outcome) + Send + 'static) -> OpId {
        let id = self.reads.next_id();
        let reply = Reply::Call(Box::new(then));
        let request = Request::new(op, id, reply, self.reads.shared_state());
        self.queued.extend(request);
        id
    }

    /// Queues a request, to be submitted with the others.
    pub(super) fn queue(&mut self, request: Request) {
        self.queued.push(request);
    }

    /// Submits queued requests that cannot join in-flight reads; returns false if there are none.
    pub(super) fn submit_queued(&mut self) -> bool {
        if !self.queued.is_empty() && !self.reads.is_forked() {
            let in_flight_reads = &self.reads.shared_state().in_flight_reads;
            let queued = std::mem::take(&mut self.queued);
            let admitted = queued
                .into_iter()
                .filter_map(|one| in_flight_reads.admit(one, None));
            self.queued = admitted.collect();
        }
        let has_some = !self.queued.is_empty();
        if has_some {
            self.reads.backend().submit(&mut self.queued);
        }
        has_some
    }

    /// The time left until `until`.
    pub(super) fn time_left(&self, until: Option<Duration>) -> Option<Duration> {
        until.map(|until| until.saturating_sub(self.reads.clock().now()))
    }

    /// Drops the queued reads, which were not submitted yet.
    pub(super) fn drop_queued(&mut self) {
        self.queued.clear();
    }

    /// Passes all arrived outcomes to `each`; returns their number.
    pub(super) fn take_arrived(&mut self, each: &mut dyn FnMut(OpId, Outcome)) -> usize {
        let arrived = if self.reads.is_forked() {
            self.lost_by_fork()
        } else {
            std::mem::take(&mut self.mailbox.state().done)
        };
        let count = arrived.len();
        for (id, outcome) in arrived {
            self.outstanding.retain(|&outstanding| outstanding != id);
            each(id, outcome);
        }
        count
    }

    /// Resets the session in a forked child; returns the outstanding reads as failed.
    ///
    /// No thread of the child completes the parent's reads, and locks that the parent's threads
    /// held stay locked. The child starts with its own mailbox.
    fn lost_by_fork(&mut self) -> Vec<(OpId, Outcome)> {
        let process = std::process::id();
        if self.process != process {
            self.process = process;
            std::mem::forget(std::mem::take(&mut self.mailbox));
            let error = Error::with_kind(ErrorKind::Aborted, "the process was forked");
            let lost = |id| {
                let outcome = Outcome {
                    result: Err(error.clone()),
                    latency: Duration::ZERO,
                };
                (id, outcome)
            };
            self.queued.drain(..).for_each(std::mem::forget);
            return self.outstanding.iter().copied().map(lost).collect();
        }
        std::mem::take(&mut self.mailbox.state().done)
    }

    /// Waits for an outcome until `until`; may return early.
    pub(super) fn wait(&self, until: Option<Duration>) {
        if self.reads.backend().drive(until) {
            return;
        }
        self.mailbox.wait(self.time_left(until));
    }
}

impl ReadDriver for ReadSession {
    fn caps(&self) -> Caps {
        self.reads.backend().caps()
    }

    fn push(&mut self, op: ReadOp) -> OpId {
        let (id, request) = self.request(op);
        self.queued.extend(request);
        id
    }

    fn flush(&mut self) {
        if self.submit_queued() {
            self.reads.count_round();
        }
    }

    fn reap(
        &mut self,
        min: usize,
        until: Option<Duration>,
        each: &mut dyn FnMut(OpId, Outcome),
    ) -> usize {
        let mut reaped = 0;
        loop {
            reaped += self.take_arrived(each);
            let left = self.time_left(until);
            if reaped >= min || self.outstanding.is_empty() || left == Some(Duration::ZERO) {
                return reaped;
            }
            self.wait(until);
        }
    }

    fn orphan(&mut self, id: OpId, cancel: bool) {
        let Some(at) = self.outstanding.iter().position(|&mine| mine == id) else {
            return;
        };
        self.outstanding.swap_remove(at);
        self.mailbox.orphan(id);
        self.queued.retain(|request| request.id() != id);
        if cancel {
            self.reads.backend().cancel(id);
        }
    }

    fn outstanding(&self) -> usize {
        self.outstanding.len()
    }
}

impl Drop for ReadSession {
    fn drop(&mut self) {
        self.mailbox.abandon();
    }
}

impl fmt::Debug for ReadSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadSession({} outstanding)", self.outstanding.len())
    }
}
