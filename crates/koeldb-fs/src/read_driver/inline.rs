//! The read driver of one call.
//!
//! Invariant: when an [`InlineReads`] is dropped, none of its reads is in flight. It may therefore
//! use resources of the calling thread, and nothing has to be aborted, handed over or cleaned up
//! later.

use std::marker::PhantomData;
use std::thread;
use std::time::Duration;

use super::request::Request;
use super::session::ReadSession;
use super::uring::Lease;
use super::{AsyncReads, Caps, OpId, Outcome, ReadDriver, ReadOp};

/// A driver for one call on one thread; see [`AsyncReads::inline`].
///
/// Dropping it waits for the reads that were neither reaped nor orphaned, for as long as the device
/// takes.
#[derive(Debug)]
pub struct InlineReads {
    /// The session that receives all outcomes, and that executes the reads that a ring cannot.
    session: ReadSession,
    /// The ring of this thread, if the engine has rings.
    ring: Option<Lease>,
    this_thread: PhantomData<*const ()>,
}

impl InlineReads {
    pub(super) fn new(reads: AsyncReads) -> Self {
        InlineReads {
            ring: reads.lease(),
            session: ReadSession::new(reads),
            this_thread: PhantomData,
        }
    }

    /// Submits the ring's reads and waits for `wait` completions, or for all if fewer remain.
    ///
    /// Returns false if the ring is empty.
    fn turn(&mut self, wait: usize, limit: Option<Duration>) -> bool {
        let Some(ring) = self.ring.as_mut().filter(|ring| ring.in_use() > 0) else {
            return false;
        };
        let pool = self.session.reads().pool_backend();
        ring.turn(wait, limit, &|request| pool.submit(&mut vec![request]));
        true
    }

    /// Abandons the ring in a forked child, because it belongs to the parent.
    fn check_process(&mut self) {
        if self.ring.is_some() && self.session.reads().is_forked() {
            self.ring = None;
        }
    }
}

impl ReadDriver for InlineReads {
    fn caps(&self) -> Caps {
        self.session.caps()
    }

    fn push(&mut self, op: ReadOp) -> OpId {
        let (id, request) = self.session.request(op);
        let Some(request) = request else {
            return id;
        };
        match &mut self.ring {
            Some(ring) if has_descriptor(&request) => {
                let this_thread = thread::current().id();
                let in_flight_reads = &self.session.reads().shared_state().in_flight_reads;
                if let Some(request) = in_flight_reads.admit(request, Some(this_thread)) {
                    ring.push(request);
                }
            }
            _ => self.session.queue(request),
        }
        id
    }

    fn flush(&mut self) {
        self.check_process();
        let begun = self.turn(0, None);
        let handed_over = self.session.submit_queued();
        if begun || handed_over {
            self.session.reads().count_round();
        }
    }

    fn reap(
        &mut self,
        min: usize,
        until: Option<Duration>,
        each: &mut dyn FnMut(OpId, Outcome),
    ) -> usize {
        self.check_process();
        let mut reaped = 0;
        loop {
            reaped += self.session.take_arrived(each);
            let limit = self.session.time_left(until);
            if reaped >= min || self.outstanding() == 0 || limit == Some(Duration::ZERO) {
                return reaped;
            }
            // Only this thread completes reads in its ring; other reads complete meanwhile.
            let half = self.ring.as_ref().map_or(0, Lease::in_use).div_ceil(2);
            if !self.turn(half.min(min - reaped), limit) {
                self.session.wait(until);
            }
        }
    }

    fn orphan(&mut self, id: OpId, cancel: bool) {
        self.session.orphan(id, cancel);
        if cancel && let Some(ring) = &mut self.ring {
            ring.cancel(id);
        }
    }

    fn outstanding(&self) -> usize {
        self.session.outstanding()
    }
}

impl Drop for InlineReads {
    fn drop(&mut self) {
        self.check_process();
        self.session.drop_queued();
        while self.turn(usize::MAX, None) {}
        self.session.reap(usize::MAX, None, &mut |_, _| {});
    }
}

/// Whether the file has a descriptor, so that a ring can read it.
#[cfg(unix)]
fn has_descriptor(request: &Request) -> bool {
    request.file().descriptor().is_some()
}

/// Returns false: no ring can read files on this platform.
#[cfg(not(unix))]
fn has_descriptor(_request: &Request) -> bool {
    false
}
