//! The reads of one call.
//!
//! Invariant: when an [`InlineReads`] is dropped, none of its reads is under way. So it may use what belongs to the
//! calling thread, and nothing has to be aborted, handed over or cleaned up later.

use std::marker::PhantomData;
use std::time::Duration;

use super::session::ReadSession;
use super::{AsyncReads, Caps, OpId, Outcome, ReadDriver, ReadOp};

/// A driver for one call on one thread; see [`AsyncReads::inline`].
///
/// Dropping it waits for the reads that were neither reaped nor orphaned, as long as the device takes.
#[derive(Debug)]
pub struct InlineReads {
    session: ReadSession,
    /// What it uses is the thread's.
    this_thread: PhantomData<*const ()>,
}

impl InlineReads {
    pub(super) fn new(reads: AsyncReads) -> Self {
        InlineReads {
            session: ReadSession::new(reads),
            this_thread: PhantomData,
        }
    }
}

impl ReadDriver for InlineReads {
    fn caps(&self) -> Caps {
        self.session.caps()
    }

    fn push(&mut self, op: ReadOp) -> OpId {
        self.session.push(op)
    }

    fn flush(&mut self) {
        self.session.flush();
    }

    fn reap(
        &mut self,
        min: usize,
        until: Option<Duration>,
        each: &mut dyn FnMut(OpId, Outcome),
    ) -> usize {
        self.session.reap(min, until, each)
    }

    fn orphan(&mut self, id: OpId, cancel: bool) {
        self.session.orphan(id, cancel);
    }

    fn outstanding(&self) -> usize {
        self.session.outstanding()
    }
}

impl Drop for InlineReads {
    fn drop(&mut self) {
        self.session.drop_queued();
        self.session.reap(usize::MAX, None, &mut |_, _| {});
    }
}
