//! Parallel reads: the only place where the engine waits for devices.
//!
//! An operation that misses several blocks *pushes* a [`ReadOp`] for each, *flushes* once, and
//! *reaps* outcomes as they arrive. An open database holds an [`AsyncReads`], which chose the read
//! engine at open and creates drivers of two kinds, by the lifetime of the reads:
//!
//! - [`AsyncReads::inline`]: for a call that completes its reads. With io_uring the calling thread
//!   has a ring for the duration of the call, and submits and waits itself; when the driver is
//!   dropped, nothing is in flight.
//! - [`AsyncReads::shared`]: for reads that may outlive a call, a thread, or a future: prefetches,
//!   deadlines, tasks. Another thread executes them. A thread can wait for a [`ReadSession`], a
//!   task can poll it, and it can be moved and dropped; [`ReadSession::push_then`] passes an
//!   outcome to a function instead.
//!
//! Both are [`ReadDriver`]s, so that an operation is written once.
//!
//! Invariants:
//! - A read owns its file and its memory until its own completion, even if its requester is gone
//!   ([`Request`]).
//! - Interrupted, short, refused and cancelled attempts are repaired in one place,
//!   [`Request::advance`]. An outcome is the requested bytes, or fewer at the end of the file, or
//!   an error of this read alone.
//! - A driver that cannot perform a read passes it to positional reads on a pool; no read fails
//!   that `pread` can do.
//! - An in-flight range is not read again: a second request for a part of it, from any driver, gets
//!   a copy of the bytes.
//!
//! `request`: one in-flight read. `buffer`: its memory. `in_flight_reads`: requests that wait for
//! the read of another. `session`: the reads of one operation. `inline`: those of one call.
//! `uring`: reads by io_uring. `pool`: reads by threads. `sim`: reads in a seeded order, for tests.
//!
//! ```
//! use std::path::Path;
//! use koeldb_fs::read_driver::{AsyncReads, ReadDriver, ReadOp};
//! use koeldb_fs::{FileSystem, MemoryFileSystem, OpenOptions, WriteOptions};
//!
//! # fn main() -> koeldb_base::Result<()> {
//! let fs = MemoryFileSystem::new();
//! let mut file = fs.create(Path::new("/table"), &WriteOptions::default())?;
//! file.append(b"0123456789")?;
//! file.close()?;
//! let file = fs.open(Path::new("/table"), &OpenOptions::default())?;
//!
//! let reads = AsyncReads::pool(2);
//! let mut driver = reads.inline();
//! let first = driver.push(ReadOp::new(&file, 2, 3));
//! let second = driver.push(ReadOp::new(&file, 8, 100));
//! driver.flush();
//! while driver.outstanding() > 0 {
//!     driver.reap(1, None, &mut |id, outcome| {
//!         let bytes = outcome.result.expect("memory does not fail");
//!         if id == first {
//!             assert_eq!(&*bytes, b"234");
//!         } else {
//!             assert_eq!(id, second);
//!             assert_eq!(&*bytes, b"89", "the file ends");
//!         }
//!     });
//! }
//! # Ok(())
//! # }
//! ```

mod async_reads;
mod buffer;
mod in_flight_reads;
mod inline;
mod pool;
mod request;
mod session;
mod sim;
#[cfg(test)]
mod tests;
#[cfg_attr(
    not(all(target_os = "linux", feature = "io_uring")),
    path = "uring_absent.rs"
)]
mod uring;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use koeldb_base::Result;

pub use async_reads::{ActiveEngine, AsyncReadOptions, AsyncReads, ReadCounts, ReadEngine};
pub use buffer::ReadBuffer;
pub use in_flight_reads::JOINED_WITHIN;
pub use inline::InlineReads;
pub use request::{Advanced, Request};
pub use session::ReadSession;
pub use sim::{SimAttempt, SimReads};

use crate::file::RandomAccessFile;

/// A requested read. Offset and length need not be aligned; bytes added for alignment are hidden.
#[derive(Clone, Debug)]
pub struct ReadOp {
    /// The file to read.
    pub file: Arc<dyn RandomAccessFile>,
    /// Offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: usize,
}

impl ReadOp {
    /// Creates a read of `length` bytes of `file` at `offset`.
    pub fn new(file: &Arc<dyn RandomAccessFile>, offset: u64, length: usize) -> Self {
        ReadOp {
            file: Arc::clone(file),
            offset,
            length,
        }
    }
}

/// The identity of a read within its [`AsyncReads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(u64);

/// The outcome of a read.
#[derive(Debug)]
pub struct Outcome {
    /// The requested bytes, fewer only at the end of the file; or an error with path, offset and
    /// length.
    pub result: Result<ReadBuffer>,
    /// The time from push to completion, independent of when it was reaped.
    pub latency: Duration,
}

/// The capabilities of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Whether reads overlap. If not, pushing several before waiting gains nothing.
    pub parallel: bool,
    /// The number of reads issued to devices concurrently; more may be pushed, and are queued.
    pub batch: usize,
}

/// A driver that executes reads for one owner.
pub trait ReadDriver {
    /// The driver's capabilities.
    fn caps(&self) -> Caps;

    /// Adds a read. It is not issued before [`ReadDriver::flush`].
    fn push(&mut self, op: ReadOp) -> OpId;

    /// Issues all pushed reads. Outcomes may be available when it returns.
    fn flush(&mut self);

    /// Passes outcomes to `each`, in order of arrival, and returns their number.
    ///
    /// Waits until there were `min`, or nothing is outstanding, or [`AsyncReads::clock`] reaches
    /// `until`; with a `min` of 0 it takes only available outcomes. Reads that were not flushed are
    /// not waited for: flush first.
    fn reap(
        &mut self,
        min: usize,
        until: Option<Duration>,
        each: &mut dyn FnMut(OpId, Outcome),
    ) -> usize;

    /// Discards the outcome of a read; does nothing if the read is not outstanding.
    ///
    /// With `cancel`, the read itself is cancelled where that is possible, which pays for large
    /// reads only.
    fn orphan(&mut self, id: OpId, cancel: bool);

    /// The number of reads pushed and neither reaped nor orphaned.
    fn outstanding(&self) -> usize;
}

impl<D: ReadDriver + ?Sized> ReadDriver for Box<D> {
    fn caps(&self) -> Caps {
        (**self).caps()
    }

    fn push(&mut self, op: ReadOp) -> OpId {
        (**self).push(op)
    }

    fn flush(&mut self) {
        (**self).flush();
    }

    fn reap(
        &mut self,
        min: usize,
        until: Option<Duration>,
        each: &mut dyn FnMut(OpId, Outcome),
    ) -> usize {
        (**self).reap(min, until, each)
    }

    fn orphan(&mut self, id: OpId, cancel: bool) {
        (**self).orphan(id, cancel);
    }

    fn outstanding(&self) -> usize {
        (**self).outstanding()
    }
}

/// A backend that executes the reads of all sessions.
///
/// File systems may supply their own through
/// [`FileSystem::read_backend`](crate::FileSystem::read_backend).
pub trait ReadBackend: Send + Sync + Debug {
    /// The backend's capabilities.
    fn caps(&self) -> Caps;

    /// Takes over all requests, and leaves the vector empty.
    ///
    /// Each request must be completed, by [`Request::advance`] or [`Request::read_in_place`], on
    /// any thread, before or after this returns. A dropped request reports that it was aborted.
    fn submit(&self, requests: &mut Vec<Request>);

    /// Requests the cancellation of a read whose outcome is no longer wanted; a hint.
    fn cancel(&self, id: OpId) {
        let _ = id;
    }

    /// Executes reads on the calling thread before it waits, until `until` at most; returns whether
    /// it did.
    ///
    /// This is for backends without threads of their own.
    fn drive(&self, until: Option<Duration>) -> bool {
        let _ = until;
        false
    }
}
