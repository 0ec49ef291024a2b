//! Reads by io_uring.
//!
//! Two owners have rings, and both use them from one thread only:
//! - A call that finishes what it starts leases the ring of its thread (`lease`) and gives it back idle. A thread keeps
//!   its ring for the next call.
//! - Reads that may outlive whoever asked are submitted by a thread of their own (`reactor`): a read belongs to the
//!   thread that submitted it, and fails or hangs when that thread ends first.
//!
//! `ring`: the ring itself, and the only unsafe code. `probe`: whether this kernel and this process can have one.
//!
//! What a ring cannot do goes to a pool of threads, read by read. After a `fork` the child's memory has no rings, and
//! the child reads in place.

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

/// How many reads a ring gives to the kernel at once.
const RING_ENTRIES: u32 = 128;

/// Where reads go that a ring cannot do. They were not answered.
type Elsewhere<'a> = &'a dyn Fn(Request);

/// The rings of one database.
#[derive(Debug)]
pub(super) struct Uring {
    flags: RingFlags,
    reactor: Reactor,
    pool: Arc<dyn ReadBackend>,
    /// Rings that could not be had although the first could.
    failures: AtomicU64,
}

impl Uring {
    /// Rings as this kernel has them, found out by reading a byte of `probe`; or why there are none. `old` takes
    /// kernels older than those trusted.
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

    /// What the kernel's part is called.
    pub(super) fn flags_text(&self) -> &'static str {
        self.flags.text()
    }

    /// A ring for this thread, until it is given back. `None` if there is none to be had any more: somebody else used
    /// the last file descriptor, or the memory that may be locked.
    pub(super) fn lease(&self) -> Option<Lease> {
        match Lease::new(self.flags) {
            Ok(lease) => Some(lease),
            Err(_) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// How often a ring could not be had although the first could.
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

/// Makes a ring; tests put failures in its place.
type MakeRing<'a> = &'a dyn Fn(RingFlags) -> io::Result<ring::Ring>;
