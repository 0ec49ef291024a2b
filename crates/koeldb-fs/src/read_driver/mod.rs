//! Many reads at once: the one place where the engine waits for devices.
//!
//! An operation that misses several blocks *pushes* a [`ReadOp`] for each, *flushes* once, and *reaps* outcomes as
//! they arrive. [`AsyncReads`] is what an open database holds: it was told at open how reads are carried out, and
//! hands out drivers of two kinds, by the lifetime of the reads:
//!
//! - [`AsyncReads::inline`]: for a call that finishes what it starts. With io_uring the calling thread has a ring for
//!   as long as the call lasts, submits and waits itself; when the driver is dropped, nothing is under way.
//! - [`AsyncReads::shared`]: for reads that may outlive a call, a thread, or a future: prefetches, deadlines, tasks.
//!   Another thread carries them out. A [`ReadSession`] can be waited for by a thread, polled by a task, moved and
//!   dropped; [`ReadSession::push_then`] hands an outcome to a function instead.
//!
//! Both are [`ReadDriver`]s, so that an operation is written once.
//!
//! Invariants, kept here so that nobody else has to:
//! - A read owns its file and its memory until its own completion, whatever becomes of whoever asked ([`Request`]).
//! - Interrupted, short, refused and cancelled attempts are repaired in one place, [`Request::advance`]. An outcome
//!   is the bytes asked for, or fewer at the end of the file, or an error of this read alone.
//! - A driver that cannot do a read hands it to positional reads on a pool; nobody sees a read fail that `pread` can
//!   do.
//! - What is under way is not read again: who wants a part of it, whichever driver it has, gets a copy of the bytes.
//!
//! `request`: one read under way. `buffer`: what it fills. `joins`: who waits for the read of another. `session`: the reads
//! of one operation. `inline`: those of one call. `uring`: reads by io_uring. `pool`: reads by threads. `sim`: reads in an order that a seed decides, for tests.
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
mod inline;
mod joins;
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
pub use inline::InlineReads;
pub use joins::JOINED_WITHIN;
pub use request::{Advanced, Request};
pub use session::ReadSession;
pub use sim::{SimAttempt, SimReads};

use crate::file::RandomAccessFile;

/// A read that is wanted. Neither offset nor length need be aligned; what alignment adds is read and not shown.
#[derive(Clone, Debug)]
pub struct ReadOp {
    /// The file.
    pub file: Arc<dyn RandomAccessFile>,
    /// Offset of the first byte.
    pub offset: u64,
    /// How many bytes.
    pub length: usize,
}

impl ReadOp {
    /// `length` bytes of `file` at `offset`.
    pub fn new(file: &Arc<dyn RandomAccessFile>, offset: u64, length: usize) -> Self {
        ReadOp {
            file: Arc::clone(file),
            offset,
            length,
        }
    }
}

/// Names a read among all of its [`AsyncReads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(u64);

/// What came of a read.
#[derive(Debug)]
pub struct Outcome {
    /// The bytes asked for, fewer only at the end of the file; or what failed, with path, offset and length.
    pub result: Result<ReadBuffer>,
    /// From the push to the completion, whenever it was reaped.
    pub latency: Duration,
}

/// What a driver is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Whether reads overlap at all. If not, pushing several before waiting gains nothing.
    pub parallel: bool,
    /// How many reads are given to devices at once; more may be pushed, and wait for their turn.
    pub batch: usize,
}

/// Carries out reads for one owner.
pub trait ReadDriver {
    /// What it is good for.
    fn caps(&self) -> Caps;

    /// Takes a read in. Nothing is asked of the system before [`ReadDriver::flush`].
    fn push(&mut self, op: ReadOp) -> OpId;

    /// Begins all reads that were pushed. Outcomes may be there when it returns.
    fn flush(&mut self);

    /// Hands outcomes to `each`, in the order in which they arrived, and returns how many. Waits until there were
    /// `min`, or nothing is outstanding, or the clock of [`AsyncReads::clock`] shows `until`; with a `min` of 0 it
    /// only takes what is there. Reads that were not flushed are not waited for: flush before.
    fn reap(
        &mut self,
        min: usize,
        until: Option<Duration>,
        each: &mut dyn FnMut(OpId, Outcome),
    ) -> usize;

    /// Nobody wants this outcome any more. With `cancel`, the read itself is called off where that is possible: worth
    /// it for large reads only. A read that is not outstanding is let be.
    fn orphan(&mut self, id: OpId, cancel: bool);

    /// How many reads were pushed and neither reaped nor orphaned.
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

/// Carries out the reads of all sessions. Files' systems may supply their own, through
/// [`FileSystem::read_backend`](crate::FileSystem::read_backend).
pub trait ReadBackend: Send + Sync + Debug {
    /// What it is good for.
    fn caps(&self) -> Caps;

    /// Takes over all requests and leaves the vector empty. Each is to be completed, by [`Request::advance`] or
    /// [`Request::read_in_place`], on any thread, before this returns or after. One that is dropped reports that it
    /// was given up.
    fn submit(&self, requests: &mut Vec<Request>);

    /// The outcome of this read is not wanted. A hint.
    fn cancel(&self, id: OpId) {
        let _ = id;
    }

    /// Called by a thread that is about to wait, until `until` at most. A backend without threads of its own makes
    /// progress here, and returns whether there was any.
    fn drive(&self, until: Option<Duration>) -> bool {
        let _ = until;
        false
    }
}
