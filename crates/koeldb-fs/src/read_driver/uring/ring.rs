//! An io_uring, used by one thread, and the reads in it.
//!
//! Invariants:
//! - A request is moved into a slot before the kernel learns of its memory, and leaves the slot
//!   when its own completion arrives. Its memory does not move with it.
//! - The slots hold at most as many reads as the ring has entries, so that the queues never
//!   overflow; further reads wait.
//! - `pushed` lists, in order, the entries that the kernel has not consumed. It consumes them in
//!   that order, and only when it is entered with their number.
//! - A forked child leaks the rings that it inherits: their memory is not mapped in it.
//! - A ring whose reads cannot be waited for any more is leaked with their memory; memory that the
//!   kernel may still write to is never freed.
#![expect(
    unsafe_code,
    reason = "an entry of a ring names memory by its address, and nobody checks for how long"
)]

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};
use koeldb_base::Error;

use super::{Elsewhere, RING_ENTRIES};
use crate::read_driver::OpId;
use crate::read_driver::request::{Advanced, Request};

/// The largest single read, a little below the kernel's own limit. Longer reads are split.
const READ_BYTES_MAX: usize = 1 << 30;

/// The number of consecutive times that a busy kernel may refuse entries before they fall back.
const BUSY_ROUNDS: u32 = 8;

/// The user data of the entry for a wake-up.
const WAKE: u64 = u64::MAX;
/// The user data of the entries that cancel reads.
const CANCEL: u64 = u64::MAX - 1;

/// The setup flags of a ring, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingFlags {
    /// Completions are processed on request, for the one submitting thread. Linux 6.1.
    Deferred,
    /// Completions do not interrupt the thread. Linux 5.19.
    Cooperative,
    /// A ring without setup flags.
    Plain,
}

impl RingFlags {
    /// The name of the flags in reports.
    pub(super) fn text(self) -> &'static str {
        match self {
            RingFlags::Deferred => "deferred task run",
            RingFlags::Cooperative => "cooperative task run",
            RingFlags::Plain => "no flags",
        }
    }
}

/// A slot for a request that was passed to the kernel.
#[derive(Debug, Default)]
struct Slot {
    /// The number of requests so far in the slot, so that a stale completion matches no later
    /// request.
    generation: u32,
    request: Option<Request>,
}

/// An entry in the submission queue that the kernel has not consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pushed {
    Read(u32),
    Other,
}

/// The condition that [`Ring::turn`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Does not wait.
    No,
    /// This many read completions, if so many are outstanding; one entry into the kernel waits for
    /// all.
    ForReads(usize),
    /// A read completion or a wake-up.
    ForAny,
}

/// An io_uring of one thread, with the reads that are queued for it and those in the kernel.
pub(super) struct Ring {
    /// The kernel ring; `None` once it has proved unusable.
    ring: Option<IoUring>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    waiting: VecDeque<Request>,
    pushed: VecDeque<Pushed>,
    /// Whether a wake-up was requested and has not arrived.
    awaits_wake: bool,
    busy_rounds: u32,
    /// The process that created the ring.
    process: u32,
}

impl Ring {
    /// Creates a ring for use by the calling thread alone.
    pub(super) fn new(flags: RingFlags) -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        builder.dontfork();
        match flags {
            RingFlags::Deferred => {
                builder.setup_single_issuer().setup_defer_taskrun();
                builder.setup_taskrun_flag().setup_coop_taskrun();
            }
            RingFlags::Cooperative => {
                builder.setup_coop_taskrun().setup_taskrun_flag();
            }
            RingFlags::Plain => {}
        }
        // Twice as many entries as reads, to leave room for wake-ups and cancellations.
        let ring = builder.build(2 * RING_ENTRIES)?;
        Ok(Ring {
            ring: Some(ring),
            slots: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            pushed: VecDeque::new(),
            awaits_wake: false,
            busy_rounds: 0,
            process: std::process::id(),
        })
    }

    /// Queues a read, which [`Ring::turn`] submits to the kernel.
    pub(super) fn push(&mut self, request: Request) {
        self.waiting.push_back(request);
    }

    /// The number of reads pushed and not completed.
    pub(super) fn in_use(&self) -> usize {
        self.waiting.len() + self.in_slots()
    }

    /// The number of slots that hold a request.
    fn in_slots(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether the ring proved unusable and was given up.
    pub(super) fn is_broken(&self) -> bool {
        self.ring.is_none()
    }

    /// Submits waiting reads, waits for `limit` at most, and processes completions.
    pub(super) fn turn(&mut self, wait: Wait, limit: Option<Duration>, elsewhere: Elsewhere<'_>) {
        self.fill(elsewhere);
        let entered = self.enter(wait, limit);
        self.take_completed(elsewhere);
        match entered {
            Ok(()) => self.busy_rounds = 0,
            Err(error) => self.recover(&error, elsewhere),
        }
        // Continued reads, and reads that had no room before.
        if self.ring.is_some() && !self.waiting.is_empty() && self.pushed.is_empty() {
            self.fill(elsewhere);
            if self.enter(Wait::No, None).is_ok() {
                self.take_completed(elsewhere);
            }
        }
    }

    /// Requests the cancellation of a read if it is in this ring.
    pub(super) fn cancel(&mut self, id: OpId) {
        if let Some(at) = self.waiting.iter().position(|read| read.id() == id) {
            drop(self.waiting.remove(at));
            return;
        }
        let is_it = |slot: &Slot| slot.request.as_ref().is_some_and(|read| read.id() == id);
        if let Some(index) = self.slots.iter().position(is_it) {
            self.push_cancel(index);
        }
    }

    /// Requests the cancellation of all reads.
    pub(super) fn cancel_all(&mut self) {
        self.waiting.clear();
        for index in 0..self.slots.len() {
            if self.slots[index].request.is_some() {
                self.push_cancel(index);
            }
        }
    }

    /// Requests a completion, the wake-up, when `descriptor` becomes readable.
    pub(super) fn await_wake(&mut self, descriptor: BorrowedFd<'_>) {
        if self.awaits_wake {
            return;
        }
        let events = u32::try_from(libc::POLLIN).unwrap_or(1);
        let entry = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), events);
        self.awaits_wake = self.push_entry(&entry.build().user_data(WAKE), Pushed::Other);
    }

    /// Whether a wake-up of [`Ring::await_wake`] was requested and has not arrived.
    pub(super) fn awaits_wake(&self) -> bool {
        self.awaits_wake
    }

    /// Queues the cancellation of the read in a slot.
    fn push_cancel(&mut self, index: usize) {
        let entry = opcode::AsyncCancel::new(self.user_data(index));
        // A hint: without room, the read simply takes its time.
        self.push_entry(&entry.build().user_data(CANCEL), Pushed::Other);
    }

    /// Returns the `user_data` of the read in a slot, which identifies it also in its completion.
    fn user_data(&self, index: usize) -> u64 {
        u64::from(self.slots[index].generation) << 32 | index as u64
    }

    /// Moves queued reads into free slots and pushes their submission-queue entries.
    fn fill(&mut self, elsewhere: Elsewhere<'_>) {
        while self.in_slots() < RING_ENTRIES as usize {
            let Some(request) = self.waiting.pop_front() else {
                return;
            };
            if !request.is_wanted() {
                continue;
            }
            if self.ring.is_none() || request.file().descriptor().is_none() {
                elsewhere(request.left());
                continue;
            }
            if let Some(request) = self.place(request) {
                self.waiting.push_front(request);
                return;
            }
        }
    }

    /// Moves a read into a slot and pushes its entry; returns it if there is no room.
    fn place(&mut self, request: Request) -> Option<Request> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot::default());
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        let at = index as usize;
        let slot = &mut self.slots[at];
        slot.generation = slot.generation.wrapping_add(1) & 0x7fff_ffff;
        let request = slot.request.insert(request);
        let descriptor = request.file().descriptor().map(|fd| fd.as_raw_fd());
        let (_, offset, memory) = request.attempt();
        let bytes = u32::try_from(memory.len().min(READ_BYTES_MAX)).unwrap_or(0);
        let entry = opcode::Read::new(Fd(descriptor.unwrap_or(-1)), memory.as_mut_ptr(), bytes)
            .offset(offset)
            .build()
            .user_data(self.user_data(at));
        if self.push_entry(&entry, Pushed::Read(index)) {
            return None;
        }
        self.vacate(at)
    }

    /// Takes the request out of a slot and marks the slot as free.
    fn vacate(&mut self, at: usize) -> Option<Request> {
        let request = self.slots[at].request.take();
        if request.is_some() {
            self.free.extend(u32::try_from(at));
        }
        request
    }

    /// Pushes an entry to the submission queue; returns false if there is no room.
    fn push_entry(&mut self, entry: &squeue::Entry, what: Pushed) -> bool {
        let Some(ring) = &mut self.ring else {
            return false;
        };
        // SAFETY: an entry other than a read names no memory. That of a read names the memory of
        // the request in its slot, which is at least `bytes` long, is owned by the request wherever
        // that moves, and is freed, lent or reused only after the request has left the slot: at the
        // read's own completion (`take_completed`), or if the kernel never consumed the entry and
        // never will (`place`, `retire`). The descriptor is open as long as the request, which
        // holds the file.
        let room = unsafe { ring.submission().push(entry) }.is_ok();
        if room {
            self.pushed.push_back(what);
        }
        room
    }

    /// Calls `io_uring_enter` if there is anything to submit, wait for, or process.
    fn enter(&mut self, wait: Wait, limit: Option<Duration>) -> io::Result<()> {
        let to_come = self.in_slots();
        let awaited = match wait {
            Wait::No => 0,
            Wait::ForReads(count) => count.min(to_come),
            Wait::ForAny => usize::from(to_come > 0 || self.awaits_wake),
        };
        let Some(ring) = &mut self.ring else {
            return Ok(());
        };
        let has_work = ring.submission().taskrun() || ring.submission().cq_overflow();
        // Completions that have already arrived count.
        let want = if ring.completion().len() < awaited {
            awaited
        } else {
            0
        };
        if self.pushed.is_empty() && want == 0 && !has_work {
            return Ok(());
        }
        let entered = match limit {
            Some(limit) if want > 0 => {
                let limit = Timespec::from(limit);
                let args = SubmitArgs::new().timespec(&limit);
                ring.submitter().submit_with_args(want, &args)
            }
            _ => ring.submitter().submit_and_wait(want),
        };
        let taken = match entered {
            Ok(taken) => taken,
            // Interrupted, or the timeout expired; no entry was consumed.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::ETIME)) => 0,
            Err(error) => return Err(error),
        };
        self.pushed.drain(..taken.min(self.pushed.len()));
        Ok(())
    }

    /// Handles all entries in the completion queue.
    fn take_completed(&mut self, elsewhere: Elsewhere<'_>) {
        while let Some(ring) = &mut self.ring {
            let Some(completed) = ring.completion().next() else {
                return;
            };
            let (user_data, result) = (completed.user_data(), completed.result());
            match user_data {
                WAKE => self.awaits_wake = false,
                CANCEL => {}
                _ => self.complete(user_data, result, elsewhere),
            }
        }
    }

    /// Handles the completion of a read: its slot and generation are in `user_data`.
    fn complete(&mut self, user_data: u64, result: i32, elsewhere: Elsewhere<'_>) {
        let at = koeldb_base::coding::to_usize(user_data & u64::from(u32::MAX));
        let is_its = at < self.slots.len() && self.user_data(at) == user_data;
        debug_assert!(is_its, "a completion of nobody's read");
        if !is_its {
            return;
        }
        let Some(mut request) = self.vacate(at) else {
            debug_assert!(false, "a read completed twice");
            return;
        };
        let result = usize::try_from(result).map_err(|_| {
            let (file, offset, memory) = request.attempt();
            let error = io::Error::from_raw_os_error(result.wrapping_neg());
            Error::io(error, "read", file.path())
                .context(format!("{} bytes at offset {offset}", memory.len()))
        });
        match request.advance(result) {
            Advanced::Answered => {}
            Advanced::Again(request) => self.waiting.push_front(request),
            Advanced::Elsewhere(request) => elsewhere(request),
        }
    }

    /// Handles a failure of `io_uring_enter`: yields if it is temporary, or gives the ring up.
    fn recover(&mut self, error: &io::Error, elsewhere: Elsewhere<'_>) {
        let is_busy = matches!(
            error.raw_os_error(),
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM)
        );
        self.busy_rounds += 1;
        if is_busy && self.busy_rounds <= BUSY_ROUNDS {
            std::thread::yield_now();
        } else {
            self.retire(elsewhere);
        }
    }

    /// Gives the ring up: reads that the kernel has not consumed fall back, the others are awaited.
    fn retire(&mut self, elsewhere: Elsewhere<'_>) {
        // The kernel consumes entries only when told how many, and from here on it is told none.
        for pushed in std::mem::take(&mut self.pushed) {
            if let Pushed::Read(index) = pushed
                && let Some(request) = self.vacate(index as usize)
            {
                elsewhere(request.left());
            }
        }
        while self.in_slots() > 0 && self.wait_for_one() {
            self.take_completed(elsewhere);
        }
        let ring = self.ring.take();
        if self.in_slots() > 0 {
            // It is no longer known when the kernel finishes with the ring or with the memory in
            // the slots.
            std::mem::forget(ring);
            for at in 0..self.slots.len() {
                let restarted = self.vacate(at).and_then(Request::leak_and_restart);
                if let Some(request) = restarted {
                    elsewhere(request.left());
                }
            }
        }
        self.awaits_wake = false;
        self.fill(elsewhere);
    }

    /// Waits for a completion without submitting; returns false if that is not possible.
    fn wait_for_one(&mut self) -> bool {
        let Some(ring) = &mut self.ring else {
            return false;
        };
        if !ring.completion().is_empty() {
            return true;
        }
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: no argument is passed, and no entry is submitted.
        let entered = unsafe { ring.submitter().enter::<libc::sigset_t>(0, 1, flags, None) };
        match entered {
            Ok(_) => true,
            Err(error) => matches!(
                error.raw_os_error(),
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
            ),
        }
    }

    /// Whether the ring belongs to the parent process, so that its memory is not mapped here.
    pub(super) fn is_inherited(&self) -> bool {
        std::process::id() != self.process
    }
}

impl Drop for Ring {
    /// Waits for the reads that the kernel has consumed.
    ///
    /// An inherited ring is leaked: other mappings may now be at the address of its memory.
    fn drop(&mut self) {
        if self.is_inherited() {
            std::mem::forget(self.ring.take());
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget(std::mem::take(&mut self.waiting));
        } else if self.in_use() > 0 {
            self.waiting.clear();
            self.retire(&|request| drop(request));
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ring({} reads)", self.in_use())
    }
}
