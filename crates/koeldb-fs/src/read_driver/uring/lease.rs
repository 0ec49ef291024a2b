//! A thread's ring, leased to one call at a time.
//!
//! A lease takes the ring out of thread-local storage and returns it, idle, when dropped. A nested
//! call finds none there and creates another. A thread that ends drops its ring, in which nothing
//! is in flight.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use super::ring::{Ring, RingFlags, Wait};
use crate::read_driver::OpId;
use crate::read_driver::request::Request;

thread_local! {
    /// The ring of this thread while no call leases it.
    static KEPT: Cell<Option<Box<Ring>>> = const { Cell::new(None) };
}

/// A ring leased to one call, and returned to the thread when dropped.
#[derive(Debug)]
pub(in crate::read_driver) struct Lease {
    /// The leased ring; `None` only while the lease is being dropped.
    ring: Option<Box<Ring>>,
    this_thread: PhantomData<*const ()>,
}

impl Lease {
    /// Leases the ring that this thread keeps, or a new one.
    pub(super) fn new(flags: RingFlags) -> io::Result<Lease> {
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        let ring = match kept.filter(|ring| !ring.is_inherited()) {
            Some(ring) => ring,
            None => Box::new(Ring::new(flags)?),
        };
        Ok(Lease {
            ring: Some(ring),
            this_thread: PhantomData,
        })
    }
}

impl Lease {
    /// Queues a read, which [`Lease::turn`] submits.
    pub(in crate::read_driver) fn push(&mut self, request: Request) {
        self.ring().push(request);
    }

    /// The number of reads pushed and not completed.
    pub(in crate::read_driver) fn in_use(&self) -> usize {
        self.ring.as_ref().map_or(0, |ring| ring.in_use())
    }

    /// Submits queued reads and waits for `wait` completions, for `limit` at most.
    ///
    /// If fewer reads remain, it waits for all.
    pub(in crate::read_driver) fn turn(
        &mut self,
        wait: usize,
        limit: Option<Duration>,
        elsewhere: &dyn Fn(Request),
    ) {
        let wait = match wait {
            0 => Wait::No,
            count => Wait::ForReads(count),
        };
        self.ring().turn(wait, limit, elsewhere);
    }

    /// Cancels a read.
    pub(in crate::read_driver) fn cancel(&mut self, id: OpId) {
        self.ring().cancel(id);
    }

    /// The leased ring.
    fn ring(&mut self) -> &mut Ring {
        match &mut self.ring {
            Some(ring) => ring,
            None => unreachable!("only a lease that is dropped has none"),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(ring) = self.ring.take() else {
            return;
        };
        debug_assert!(
            ring.in_use() == 0 || ring.is_inherited(),
            "a call left reads behind"
        );
        if !ring.is_broken() && ring.in_use() == 0 {
            // A thread that is ending keeps no ring.
            let _ = KEPT.try_with(|kept| kept.set(Some(ring)));
        }
    }
}
