//! An in-flight read: its resources, and the repair of partial and failed attempts.
//!
//! Invariants:
//! - A request owns its file and its buffer until the attempt that uses them has completed, even if
//!   the outcome is no longer wanted. Nothing outside the request points into either.
//! - A request is answered exactly once: when it is done, or, as aborted, when it is dropped.
//! - Every attempt of every driver ends in [`Request::advance`], which alone decides whether a read
//!   is repeated, continued or done.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use koeldb_base::coding::to_usize;
use koeldb_base::{Error, ErrorKind, Result};

use super::buffer::ReadBuffer;
use super::in_flight_reads::InFlightReads;
use super::pool::InPlace;
use super::session::Mailbox;
use super::{OpId, Outcome, ReadBackend, ReadOp};
use crate::clock::Clock;
use crate::file::RandomAccessFile;

/// The number of interrupted attempts after which a read falls back to positional reads.
const ATTEMPTS: u32 = 8;

/// The receiver of the outcome of a read.
pub(super) enum Reply {
    /// The mailbox of a session.
    Session(Arc<Mailbox>),
    /// A function that receives the outcome.
    Call(Box<dyn FnOnce(Outcome) + Send>),
}

/// The counters behind `ReadCounts`, of all drivers of one database; only device reads change them.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) reads: AtomicU64,
    pub(super) joined: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) rounds: AtomicU64,
    pub(super) under_way: AtomicU64,
    pub(super) elsewhere: AtomicU64,
}

/// State that all requests of a database share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counts: Counts,
    pub(super) in_flight_reads: InFlightReads,
    /// The backend that repeats reads that waited for a failed one.
    again: Weak<dyn ReadBackend>,
}

impl Shared {
    /// Creates the state; `again` repeats reads that had waited for one that failed.
    pub(super) fn new(clock: Arc<dyn Clock>, again: Weak<dyn ReadBackend>) -> Self {
        Shared {
            clock,
            counts: Counts::default(),
            in_flight_reads: InFlightReads::default(),
            again,
        }
    }

    /// Creates the state for requests that are not joined.
    #[cfg_attr(
        not(all(target_os = "linux", feature = "io_uring")),
        expect(dead_code, reason = "only rings are tried on such")
    )]
    pub(super) fn alone(clock: Arc<dyn Clock>) -> Self {
        Self::new(clock, Weak::<InPlace>::new())
    }

    /// Issues requests that waited for a read that failed.
    #[cold]
    fn send_again(&self, mut requests: Vec<Request>) {
        for request in &requests {
            request.count();
        }
        if let Some(backend) = self.again.upgrade() {
            // The failed read may be unwinding from a panic.
            let submit = AssertUnwindSafe(|| backend.submit(&mut requests));
            let _ = panic::catch_unwind(submit);
        }
    }
}

/// The state of a request after an attempt to read it.
#[derive(Debug)]
#[must_use]
pub enum Advanced {
    /// The request was answered.
    Answered,
    /// The driver must read the missing bytes in another attempt.
    Again(Request),
    /// The driver cannot read the missing bytes: [`Request::read_in_place`] must be called.
    Elsewhere(Request),
}

/// An in-flight read, as drivers handle it.
///
/// A driver reads [`Request::rest`] of [`Request::file`] into the memory of [`Request::attempt`],
/// and passes the result to [`Request::advance`]; or it calls [`Request::read_in_place`], which
/// does both.
pub struct Request {
    id: OpId,
    file: Arc<dyn RandomAccessFile>,
    buffer: ReadBuffer,
    /// File offset of the buffer's first byte; a multiple of `grid`.
    start: u64,
    /// The number of bytes to fill in the buffer; a multiple of `grid`.
    want: usize,
    /// The number of bytes filled.
    got: usize,
    /// Bytes at the buffer's front that are read for alignment only.
    skip: usize,
    /// The number of bytes requested.
    length: usize,
    /// The alignment of offsets, lengths and memory.
    grid: usize,
    interruptions: u32,
    /// Whether the request is listed among the in-flight reads, so that others may wait for it.
    is_listed: bool,
    /// Whether attempts are plain positional reads, which have no further fallback.
    in_place: bool,
    begun: Duration,
    reply: Option<Reply>,
    shared: Arc<Shared>,
}

impl Request {
    /// Creates a request for `op`; `None` if it was answered immediately, as empty or invalid.
    pub(super) fn new(op: ReadOp, id: OpId, reply: Reply, shared: &Arc<Shared>) -> Option<Request> {
        let grid = op.file.alignment().max(1);
        let skip = to_usize(op.offset % grid as u64);
        let room = skip
            .checked_add(op.length)
            .and_then(|bytes| bytes.checked_next_multiple_of(grid))
            .filter(|&want| op.offset.checked_add(want as u64).is_some());
        let buffer = match room {
            Some(want) => ReadBuffer::new(skip, want - skip),
            None => Err(Error::invalid_argument(format!(
                "a read of {} bytes",
                op.length
            ))),
        };
        let want = room.unwrap_or(0);
        shared.counts.under_way.fetch_add(1, Ordering::Relaxed);
        let (buffer, error) = match buffer {
            Ok(buffer) => (buffer, None),
            Err(error) => {
                let error = error.in_file(op.file.path(), Some(op.offset), "read");
                (ReadBuffer::default(), Some(error))
            }
        };
        let mut request = Request {
            id,
            start: op.offset - skip as u64,
            file: op.file,
            buffer,
            want,
            got: 0,
            skip,
            length: op.length,
            grid,
            interruptions: 0,
            is_listed: false,
            in_place: false,
            begun: shared.clock.now(),
            reply: Some(reply),
            shared: Arc::clone(shared),
        };
        request.count();
        if error.is_some() || op.length == 0 {
            request.answer(error);
            return None;
        }
        Some(request)
    }

    /// Counts the request as issued to a device.
    fn count(&self) {
        let counts = &self.shared.counts;
        counts.reads.fetch_add(1, Ordering::Relaxed);
        counts.bytes.fetch_add(self.want as u64, Ordering::Relaxed);
    }

    /// Counts the request as joined to an in-flight read instead of issued.
    pub(super) fn count_join(&self) {
        let counts = &self.shared.counts;
        counts.reads.fetch_sub(1, Ordering::Relaxed);
        counts.bytes.fetch_sub(self.want as u64, Ordering::Relaxed);
        counts.joined.fetch_add(1, Ordering::Relaxed);
    }

    /// Marks the request as listed among the in-flight reads until it is answered.
    pub(super) fn set_listed(&mut self) {
        self.is_listed = true;
    }

    /// The time at which the read was pushed to its driver.
    pub(super) fn begun(&self) -> Duration {
        self.begun
    }

    /// The file range to read, including alignment.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.start, self.start + self.want as u64)
    }

    /// The read's id.
    #[must_use]
    pub fn id(&self) -> OpId {
        self.id
    }

    /// The file to read.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn RandomAccessFile> {
        &self.file
    }

    /// Offset and length of the bytes still to be read; both are multiples of the file's alignment.
    #[must_use]
    pub fn rest(&self) -> (u64, usize) {
        (self.start + self.got as u64, self.want - self.got)
    }

    /// Returns the file, offset and memory for the next attempt to read the missing bytes.
    pub fn attempt(&mut self) -> (&dyn RandomAccessFile, u64, &mut [u8]) {
        let offset = self.start + self.got as u64;
        let memory = &mut self.buffer.memory_mut()[self.got..self.want];
        (&*self.file, offset, memory)
    }

    /// Whether the owner or a joined request still wants the outcome; otherwise it may be dropped.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted_by_its_owner() || self.is_joined()
    }

    /// Whether the request's own session or call still wants the outcome.
    fn is_wanted_by_its_owner(&self) -> bool {
        match &self.reply {
            Some(Reply::Session(mailbox)) => mailbox.wants(self.id),
            Some(Reply::Call(_)) => true,
            None => false,
        }
    }

    /// Whether other requests wait for this read.
    fn is_joined(&self) -> bool {
        self.is_listed
            && self
                .shared
                .in_flight_reads
                .is_joined(&self.file, self.start)
    }

    /// Processes the result of an attempt: a number of bytes, 0 at the file's end, or an error.
    ///
    /// # Panics
    /// If more bytes were read than requested.
    pub fn advance(mut self, result: Result<usize>) -> Advanced {
        match result {
            Ok(read) => {
                assert!(read <= self.want - self.got, "more was read than asked for");
                self.got += read;
                // A direct read ends at an unaligned length only at the end of the file.
                if self.got == self.want || read == 0 || !read.is_multiple_of(self.grid) {
                    self.answer(None);
                    return Advanced::Answered;
                }
                self.interruptions = 0;
                Advanced::Again(self)
            }
            Err(error) => match Repair::of(&error) {
                Repair::Repeat if self.interruptions < ATTEMPTS => {
                    self.interruptions += 1;
                    Advanced::Again(self)
                }
                Repair::Repeat | Repair::Elsewhere if !self.in_place => {
                    Advanced::Elsewhere(self.left())
                }
                Repair::Cancelled if !self.in_place && self.is_wanted_by_its_owner() => {
                    Advanced::Elsewhere(self.left())
                }
                // Its owner cancelled it: the driver did as it was told.
                Repair::Cancelled if !self.in_place && self.is_joined() => {
                    Advanced::Elsewhere(self.by_positional_reads())
                }
                _ => {
                    self.answer(Some(error));
                    Advanced::Answered
                }
            },
        }
    }

    /// Counts the request as a fallback, and restricts it to positional reads from now on.
    pub(super) fn left(self) -> Request {
        self.shared.counts.elsewhere.fetch_add(1, Ordering::Relaxed);
        self.by_positional_reads()
    }

    /// Restricts the request to positional reads from now on.
    fn by_positional_reads(mut self) -> Request {
        self.in_place = true;
        self.interruptions = 0;
        self
    }

    /// Abandons the buffer and restarts the read with new memory.
    ///
    /// The old memory is leaked, because the kernel may still write into it.
    #[cfg_attr(
        not(all(target_os = "linux", feature = "io_uring")),
        expect(dead_code, reason = "only rings lose track of memory")
    )]
    pub(super) fn leak_and_restart(mut self) -> Option<Request> {
        match ReadBuffer::new(self.skip, self.want - self.skip) {
            Ok(buffer) => {
                std::mem::forget(std::mem::replace(&mut self.buffer, buffer));
                self.got = 0;
                Some(self)
            }
            Err(error) => {
                self.answer(Some(error));
                std::mem::forget(self);
                None
            }
        }
    }

    /// Reads the missing bytes with positional reads, and reports the outcome.
    pub fn read_in_place(mut self) {
        self.in_place = true;
        let mut request = self;
        loop {
            let (file, offset, memory) = request.attempt();
            let result = file.read_at(offset, memory);
            match request.advance(result) {
                Advanced::Answered => return,
                Advanced::Again(again) | Advanced::Elsewhere(again) => request = again,
            }
        }
    }

    /// Delivers the outcome to the owner and to the requests that wait for it.
    fn answer(&mut self, error: Option<Error>) {
        let Some(reply) = self.reply.take() else {
            return;
        };
        if self.is_listed {
            self.answer_waiting(error.is_none());
        }
        let shared = &self.shared;
        shared.counts.under_way.fetch_sub(1, Ordering::Relaxed);
        let latency = shared.clock.now().saturating_sub(self.begun);
        let result = match error {
            Some(error) => Err(error),
            None => {
                let found = self.got.saturating_sub(self.skip).min(self.length);
                self.buffer.set_bytes(found);
                Ok(std::mem::take(&mut self.buffer))
            }
        };
        reply.send(self.id, Outcome { result, latency });
    }

    /// Answers the requests that wait for this read if it was `read`, otherwise issues them again.
    fn answer_waiting(&mut self, read: bool) {
        self.is_listed = false;
        let shared = Arc::clone(&self.shared);
        let waiting = shared.in_flight_reads.close(&self.file, self.start);
        if waiting.is_empty() {
            return;
        }
        if !read {
            return shared.send_again(waiting);
        }
        let start = self.start;
        let found = &self.buffer.memory_mut()[..self.got];
        for mut request in waiting {
            let from = to_usize(request.start - start).min(found.len());
            let bytes = &found[from..];
            let got = bytes.len().min(request.want);
            request.buffer.memory_mut()[..got].copy_from_slice(&bytes[..got]);
            request.got = got;
            request.answer(None);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.reply.is_some() {
            let error = Error::with_kind(ErrorKind::Aborted, "the read was given up");
            let error = error.in_file(self.file.path(), Some(self.start), "read");
            self.answer(Some(error));
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (offset, bytes) = self.rest();
        let path = self.file.path().display();
        write!(
            f,
            "Request({:?}: {bytes} bytes at {offset} of {path})",
            self.id
        )
    }
}

impl Reply {
    /// Delivers an outcome; a panic of the receiver is caught.
    fn send(self, id: OpId, outcome: Outcome) {
        // The completing thread continues even if a waker or function panics.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| match self {
            Reply::Session(mailbox) => mailbox.deliver(id, outcome),
            Reply::Call(call) => call(outcome),
        }));
    }
}

/// The reaction to the error of one attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    Repeat,
    Elsewhere,
    Cancelled,
    None,
}

impl Repair {
    /// Returns the reaction to an error of the operating system.
    #[cfg(unix)]
    fn of(error: &Error) -> Repair {
        match error.raw_os_error() {
            Some(libc::EINTR | libc::EAGAIN) => Repair::Repeat,
            // Operations that this kernel's ring does not support for the file, and errors of reads
            // whose submitter is gone.
            Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM | libc::EFAULT) => {
                Repair::Elsewhere
            }
            Some(libc::ECANCELED) => Repair::Cancelled,
            _ => Repair::None,
        }
    }

    /// Returns `Repair::None`: the platform has no io_uring, whose errors other reads avoid.
    #[cfg(not(unix))]
    fn of(_error: &Error) -> Repair {
        Repair::None
    }
}
