//! One read under way: what it owns, and how partial and failed attempts are repaired.
//!
//! Invariants:
//! - A request owns its file and its buffer until the attempt that uses them has completed, whoever else has lost
//!   interest. Nothing outside of it points into either.
//! - A request is answered exactly once: when it is done, or, as given up, when it is dropped.
//! - Every attempt of every driver ends in [`Request::advance`]. Whether a read is repeated, continued or done is
//!   decided there and nowhere else.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use koeldb_base::coding::to_usize;
use koeldb_base::{Error, ErrorKind, Result};

use super::buffer::ReadBuffer;
use super::joins::Joins;
use super::pool::InPlace;
use super::session::Mailbox;
use super::{OpId, Outcome, ReadBackend, ReadOp};
use crate::clock::Clock;
use crate::file::RandomAccessFile;

/// How often an interrupted attempt is repeated before the driver is not asked again.
const ATTEMPTS: u32 = 8;

/// Who gets the outcome.
pub(super) enum Reply {
    /// The mailbox of a session.
    Session(Arc<Mailbox>),
    /// A function.
    Call(Box<dyn FnOnce(Outcome) + Send>),
}

/// Counts what all drivers of one database do; each is written only where a device is asked.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) reads: AtomicU64,
    pub(super) joined: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) rounds: AtomicU64,
    pub(super) under_way: AtomicU64,
    pub(super) elsewhere: AtomicU64,
}

/// What all requests of a database share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counts: Counts,
    pub(super) joins: Joins,
    /// What carries out reads that have waited for one that failed.
    again: Weak<dyn ReadBackend>,
}

impl Shared {
    pub(super) fn new(clock: Arc<dyn Clock>, again: Weak<dyn ReadBackend>) -> Self {
        Shared {
            clock,
            counts: Counts::default(),
            joins: Joins::default(),
            again,
        }
    }

    /// For requests that nobody joins.
    #[cfg_attr(
        not(all(target_os = "linux", feature = "io_uring")),
        expect(dead_code, reason = "only rings are tried on such")
    )]
    pub(super) fn alone(clock: Arc<dyn Clock>) -> Self {
        Self::new(clock, Weak::<InPlace>::new())
    }

    /// Has requests read that have waited for another in vain.
    #[cold]
    fn send_again(&self, mut requests: Vec<Request>) {
        for request in &requests {
            request.count();
        }
        if let Some(backend) = self.again.upgrade() {
            // The one that has failed may be on its way out of a panic.
            let submit = AssertUnwindSafe(|| backend.submit(&mut requests));
            let _ = panic::catch_unwind(submit);
        }
    }
}

/// What becomes of a request after an attempt.
#[derive(Debug)]
#[must_use]
pub enum Advanced {
    /// It was answered.
    Answered,
    /// The rest has to be read, by the same means.
    Again(Request),
    /// The rest has to be read by [`Request::read_in_place`]: what read it so far cannot.
    Elsewhere(Request),
}

/// A read on its way, as drivers handle it.
///
/// A driver reads [`Request::rest`] of [`Request::file`] into the memory of [`Request::attempt`], and hands what came
/// of it to [`Request::advance`]; or it calls [`Request::read_in_place`], which does both.
pub struct Request {
    id: OpId,
    file: Arc<dyn RandomAccessFile>,
    buffer: ReadBuffer,
    /// Offset in the file of the buffer's first byte; a multiple of `grid`.
    start: u64,
    /// Bytes to fill of the buffer; a multiple of `grid`.
    want: usize,
    /// Bytes filled.
    got: usize,
    /// Bytes at the buffer's front that only alignment asked for.
    skip: usize,
    /// Bytes asked for.
    length: usize,
    /// What offsets, lengths and memory are multiples of.
    grid: usize,
    interruptions: u32,
    /// Others may wait for it.
    is_listed: bool,
    /// Attempts are plain positional reads, and there is nobody else to ask.
    in_place: bool,
    begun: Duration,
    reply: Option<Reply>,
    shared: Arc<Shared>,
}

impl Request {
    /// The read that `op` asks for; `None` if it was answered at once, for it wants no bytes or cannot be.
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

    /// Counts it as one that a device is asked for.
    fn count(&self) {
        let counts = &self.shared.counts;
        counts.reads.fetch_add(1, Ordering::Relaxed);
        counts.bytes.fetch_add(self.want as u64, Ordering::Relaxed);
    }

    /// Counts it as one that waits for another instead.
    pub(super) fn count_join(&self) {
        let counts = &self.shared.counts;
        counts.reads.fetch_sub(1, Ordering::Relaxed);
        counts.bytes.fetch_sub(self.want as u64, Ordering::Relaxed);
        counts.joined.fetch_add(1, Ordering::Relaxed);
    }

    /// It is listed among those that others may wait for, until it is answered.
    pub(super) fn set_listed(&mut self) {
        self.is_listed = true;
    }

    /// When it was asked for.
    pub(super) fn begun(&self) -> Duration {
        self.begun
    }

    /// Where all that is to be read begins and ends in the file.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.start, self.start + self.want as u64)
    }

    /// Which read it is.
    #[must_use]
    pub fn id(&self) -> OpId {
        self.id
    }

    /// The file to read.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn RandomAccessFile> {
        &self.file
    }

    /// Offset in the file and number of bytes that are still to be read; both are multiples of the file's alignment.
    #[must_use]
    pub fn rest(&self) -> (u64, usize) {
        (self.start + self.got as u64, self.want - self.got)
    }

    /// The file, the offset, and the memory for the bytes that are still to be read.
    pub fn attempt(&mut self) -> (&dyn RandomAccessFile, u64, &mut [u8]) {
        let offset = self.start + self.got as u64;
        let memory = &mut self.buffer.memory_mut()[self.got..self.want];
        (&*self.file, offset, memory)
    }

    /// Whether anybody still waits for the outcome. A request nobody wants may be dropped instead of begun.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted_by_its_owner() || self.is_joined()
    }

    fn is_wanted_by_its_owner(&self) -> bool {
        match &self.reply {
            Some(Reply::Session(mailbox)) => mailbox.wants(self.id),
            Some(Reply::Call(_)) => true,
            None => false,
        }
    }

    fn is_joined(&self) -> bool {
        self.is_listed && self.shared.joins.is_joined(&self.file, self.start)
    }

    /// Takes in what came of an attempt: so many bytes, 0 at the end of the file, or an error.
    ///
    /// # Panics
    /// If more bytes were read than asked for.
    pub fn advance(mut self, result: Result<usize>) -> Advanced {
        match result {
            Ok(read) => {
                assert!(read <= self.want - self.got, "more was read than asked for");
                self.got += read;
                // Direct reads end off the grid only where the file does.
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
                // Its owner called it off: what read it so far did as it was told.
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

    /// To be read on by positional reads, because whoever read it so far cannot.
    pub(super) fn left(self) -> Request {
        self.shared.counts.elsewhere.fetch_add(1, Ordering::Relaxed);
        self.by_positional_reads()
    }

    fn by_positional_reads(mut self) -> Request {
        self.in_place = true;
        self.interruptions = 0;
        self
    }

    /// Gives up what was read and the memory it was read into, and begins anew with other memory. The old memory is
    /// never freed: somebody may still write into it.
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

    /// Reads all that is left with positional reads, and answers.
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

    /// Answers those that have waited for it, if it was `read`.
    fn answer_waiting(&mut self, read: bool) {
        self.is_listed = false;
        let shared = Arc::clone(&self.shared);
        let waiting = shared.joins.close(&self.file, self.start);
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
    fn send(self, id: OpId, outcome: Outcome) {
        // Whoever completes reads goes on, whatever a waker or a function does.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| match self {
            Reply::Session(mailbox) => mailbox.deliver(id, outcome),
            Reply::Call(call) => call(outcome),
        }));
    }
}

/// What an error of one attempt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    Repeat,
    Elsewhere,
    Cancelled,
    None,
}

impl Repair {
    #[cfg(unix)]
    fn of(error: &Error) -> Repair {
        match error.raw_os_error() {
            Some(libc::EINTR | libc::EAGAIN) => Repair::Repeat,
            // What this kernel's ring cannot do for this file; and what it says of reads whose submitter is gone.
            Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM | libc::EFAULT) => {
                Repair::Elsewhere
            }
            Some(libc::ECANCELED) => Repair::Cancelled,
            _ => Repair::None,
        }
    }

    #[cfg(not(unix))]
    fn of(_error: &Error) -> Repair {
        Repair::None
    }
}
