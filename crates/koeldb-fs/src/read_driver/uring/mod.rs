//! Reads by io_uring.
//!
//! Rings have two kinds of owners, and each ring is used by one thread only:
//! - A call that completes its reads leases the ring of its thread (`lease`) and returns it idle. A
//!   thread keeps its ring for the next call.
//! - Reads that may outlive their requester are submitted by a dedicated thread (`reactor`): a read
//!   belongs to the thread that submitted it, and fails or hangs when that thread ends first.
//!
//! `ring`: the ring itself, and the only unsafe code. `probe`: tests whether this kernel and this
//! process can have one.
//!
//! Reads that a ring cannot perform go to a thread pool, one by one. After a `fork` the child's
//! memory has no rings, and the child reads synchronously.

mod lease;
mod probe;
mod reactor;
mod ring;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::Result;

pub(super) use lease::Lease;
use reactor::Reactor;
use ring::RingFlags;

use super::request::Request;
use super::{Caps, OpId, ReadBackend};
use crate::clock::Clock;
use crate::file::RandomAccessFile;

/// The number of reads that a ring issues to the kernel concurrently.
const RING_ENTRIES: u32 = 128;

/// The function that receives unanswered reads that a ring cannot perform.
type Elsewhere<'a> = &'a dyn Fn(Request);

/// The rings of one database.
#[derive(Debug)]
pub(super) struct Uring {
    flags: RingFlags,
    reactor: Reactor,
    pool: Arc<dyn ReadBackend>,
    /// The number of rings that could not be created although the first one could.
    failures: AtomicU64,
}

impl Uring {
    /// Probes which rings this kernel supports by reading a byte of `probe`; returns the reason if
    /// none.
    ///
    /// `old` accepts kernels older than the trusted ones.
    pub(super) fn new(
        probe: &Arc<dyn RandomAccessFile>,
        old: bool,
        pool: Arc<dyn ReadBackend>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let flags = probe::probe(probe, old, clock, &ring::Ring::new)?;
        Ok(Uring {
            flags,
            reactor: Reactor::new(flags, Arc::clone(&pool)),
            pool,
            failures: AtomicU64::new(0),
        })
    }

    /// The name of the ring mode in use.
    pub(super) fn flags_text(&self) -> &'static str {
        self.flags.text()
    }

    /// Leases a ring to this thread until it is dropped.
    ///
    /// `None` if no ring can be created any more, because the file descriptors or the lockable
    /// memory are used up.
    pub(super) fn lease(&self) -> Option<Lease> {
        match Lease::new(self.flags) {
            Ok(lease) => Some(lease),
            Err(_) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// The number of rings that could not be created although the first one could.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed) + self.reactor.failures()
    }
}

impl ReadBackend for Uring {
    fn caps(&self) -> Caps {
        Caps {
            parallel: true,
            batch: RING_ENTRIES as usize,
        }
    }

    fn submit(&self, requests: &mut Vec<Request>) {
        let mut for_pool: Vec<Request> = requests
            .extract_if(.., |request| request.file().descriptor().is_none())
            .collect();
        if !for_pool.is_empty() {
            self.pool.submit(&mut for_pool);
        }
        if !requests.is_empty() {
            self.reactor.submit(requests);
        }
    }

    fn cancel(&self, id: OpId) {
        self.pool.cancel(id);
        self.reactor.cancel(id);
    }
}

/// The function that creates a ring; tests substitute failures.
type MakeRing<'a> = &'a dyn Fn(RingFlags) -> io::Result<ring::Ring>;
