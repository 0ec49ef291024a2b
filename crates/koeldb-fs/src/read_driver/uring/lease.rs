//! The ring of a thread, for one call at a time.
//!
//! A lease takes the ring out of its thread's keeping and puts it back when it is dropped, idle. A call inside a call
//! finds none there and makes another. A thread that ends drops its ring, in which nothing is under way.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use super::ring::{Ring, RingFlags, Wait};
use crate::read_driver::OpId;
use crate::read_driver::request::Request;

struct Kept {
    ring: Box<Ring>,
    process: u32,
}

thread_local! {
    static KEPT: Cell<Option<Kept>> = const { Cell::new(None) };
}

/// A ring, for as long as a call lasts.
#[derive(Debug)]
pub(in crate::read_driver) struct Lease {
    /// Gone only while the lease is dropped.
    ring: Option<Box<Ring>>,
    this_thread: PhantomData<*const ()>,
}

impl Lease {
    /// The thread's ring, or a new one.
    pub(super) fn new(flags: RingFlags) -> io::Result<Lease> {
        let process = std::process::id();
        let ring = match KEPT.try_with(Cell::take).ok().flatten() {
            Some(kept) if kept.process == process => kept.ring,
            kept => {
                if let Some(kept) = kept {
                    kept.ring.forget();
                }
                Box::new(Ring::new(flags)?)
            }
        };
        Ok(Lease {
            ring: Some(ring),
            this_thread: PhantomData,
        })
    }
}

impl Lease {
    /// Takes a read in, to begin with the next turn.
    pub(in crate::read_driver) fn push(&mut self, request: Request) {
        self.ring().push(request);
    }

    /// How many reads are pushed and not completed.
    pub(in crate::read_driver) fn in_use(&self) -> usize {
        self.ring.as_ref().map_or(0, |ring| ring.in_use())
    }

    /// Begins what was pushed, and waits for `wait` completions, or for as many as are to come, for `limit` at most.
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

    /// Calls a read off.
    pub(in crate::read_driver) fn cancel(&mut self, id: OpId) {
        self.ring().cancel(id);
    }

    /// This process is a child of the one that the ring belongs to.
    pub(in crate::read_driver) fn forget(mut self) {
        if let Some(ring) = self.ring.take() {
            ring.forget();
        }
    }

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
        debug_assert_eq!(ring.in_use(), 0, "a call left reads behind");
        if !ring.is_broken() && ring.in_use() == 0 {
            let process = std::process::id();
            // A thread that ends keeps nothing.
            let _ = KEPT.try_with(|kept| kept.set(Some(Kept { ring, process })));
        }
    }
}
