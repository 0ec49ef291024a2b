//! The thread that submits and reaps the reads that may outlive their requester.
//!
//! A requester puts requests into the inbox, and wakes the thread if it sleeps. The thread sleeps
//! in the kernel, in its ring, where a readable eventfd is a completion like any other.
//!
//! The thread starts with the first request. If it has no ring, or loses it, all requests go to the
//! pool.

use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};

use super::ring::{Ring, RingFlags, Wait};
use crate::read_driver::pool::join_all;
use crate::read_driver::request::Request;
use crate::read_driver::{OpId, ReadBackend};

/// A background thread with a ring, which executes the reads of sessions; the first read starts it.
#[derive(Debug)]
pub(super) struct Reactor {
    flags: RingFlags,
    pool: Arc<dyn ReadBackend>,
    /// The running thread, once a read was requested; `None` inside if it could not be started.
    started: OnceLock<Option<Started>>,
    failures: Arc<AtomicU64>,
}

/// A running reactor thread and its inbox.
#[derive(Debug)]
struct Started {
    inbox: Arc<Inbox>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The messages to the reactor thread, and the eventfd that wakes it.
#[derive(Debug)]
struct Inbox {
    messages: Mutex<Messages>,
    /// Whether the thread may be asleep and must be woken.
    asleep: AtomicBool,
    eventfd: OwnedFd,
}

/// The requests and cancellations that the thread has not taken yet.
#[derive(Debug, Default)]
struct Messages {
    requests: Vec<Request>,
    cancelled: Vec<OpId>,
    closing: bool,
    /// Whether the ring is gone: requesters then pass their requests to the pool.
    broken: bool,
}

impl Reactor {
    /// Creates a reactor without its thread; `pool` serves reads that have no ring.
    pub(super) fn new(flags: RingFlags, pool: Arc<dyn ReadBackend>) -> Self {
        Reactor {
            flags,
            pool,
            started: OnceLock::new(),
            failures: Arc::default(),
        }
    }

    /// The number of times that the thread could not start, or lost its ring.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Passes requests to the thread, which the first call starts; to the pool if there is no ring.
    pub(super) fn submit(&self, requests: &mut Vec<Request>) {
        let started = self.started.get_or_init(|| {
            let started = self.start();
            if started.is_none() {
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
            started
        });
        if let Some(started) = started {
            let mut messages = started.inbox.messages();
            if !messages.broken {
                messages.requests.append(requests);
                drop(messages);
                started.inbox.wake();
                return;
            }
        }
        self.pool.submit(requests);
    }

    /// Requests the cancellation of a read from the thread.
    pub(super) fn cancel(&self, id: OpId) {
        if let Some(Some(started)) = self.started.get() {
            started.inbox.messages().cancelled.push(id);
            started.inbox.wake();
        }
    }

    /// Starts the thread; `None` if the system refuses the eventfd or the thread.
    fn start(&self) -> Option<Started> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let inbox = Arc::new(Inbox {
            messages: Mutex::default(),
            asleep: AtomicBool::new(false),
            eventfd,
        });
        let worker = Worker {
            inbox: Arc::clone(&inbox),
            pool: Arc::clone(&self.pool),
            failures: Arc::clone(&self.failures),
        };
        let flags = self.flags;
        let thread = thread::Builder::new()
            .name("koeldb-reads".to_owned())
            .spawn(move || worker.run(flags))
            .ok()?;
        Some(Started {
            inbox,
            thread: Mutex::new(Some(thread)),
        })
    }
}

impl Inbox {
    fn messages(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread if it sleeps, or is about to.
    fn wake(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            // Any non-zero number, in either byte order.
            let _ = rustix::io::write(&self.eventfd, &[1, 0, 0, 0, 0, 0, 0, 0]);
        }
    }

    /// Resets the eventfd.
    fn drain_eventfd(&self) {
        let _ = rustix::io::read(&self.eventfd, &mut [0; 8]);
    }
}

/// The state of the reactor thread: its inbox, the fallback for reads, and the failure count.
struct Worker {
    inbox: Arc<Inbox>,
    pool: Arc<dyn ReadBackend>,
    failures: Arc<AtomicU64>,
}

impl Worker {
    /// Runs the reactor thread: creates its ring, and serves requests.
    ///
    /// The ring belongs to the thread that uses it.
    fn run(&self, flags: RingFlags) {
        if let Ok(mut ring) = Ring::new(flags) {
            let _ = panic::catch_unwind(AssertUnwindSafe(|| self.serve(&mut ring)));
        }
        let left = {
            let mut messages = self.inbox.messages();
            messages.broken = true;
            if !messages.closing {
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
            mem::take(&mut messages.requests)
        };
        left.into_iter().for_each(|request| self.elsewhere(request));
    }

    /// Passes a request to the thread pool.
    fn elsewhere(&self, request: Request) {
        self.pool.submit(&mut vec![request]);
    }

    /// Serves requests until the database closes or the ring breaks.
    fn serve(&self, ring: &mut Ring) {
        let mut closing = false;
        while !ring.is_broken() {
            let messages = {
                let mut messages = self.inbox.messages();
                closing |= messages.closing;
                Messages {
                    requests: mem::take(&mut messages.requests),
                    cancelled: mem::take(&mut messages.cancelled),
                    ..Messages::default()
                }
            };
            messages
                .requests
                .into_iter()
                .for_each(|request| ring.push(request));
            messages
                .cancelled
                .into_iter()
                .for_each(|id| ring.cancel(id));
            if closing {
                if ring.in_use() == 0 {
                    return;
                }
                ring.cancel_all();
            }
            if !ring.awaits_wake() {
                self.inbox.drain_eventfd();
                ring.await_wake(self.inbox.eventfd.as_fd());
            }
            // A requester that adds a request from here on sees that the thread may sleep, or the
            // thread sees the request.
            self.inbox.asleep.store(true, Ordering::SeqCst);
            let is_empty = {
                let messages = self.inbox.messages();
                messages.requests.is_empty()
                    && messages.cancelled.is_empty()
                    && messages.closing == closing
            };
            let wait = match (is_empty, closing) {
                (false, _) => Wait::No,
                (true, false) => Wait::ForAny,
                // No further wake-up will come.
                (true, true) => Wait::ForReads(1),
            };
            ring.turn(wait, None, &|request| self.elsewhere(request));
            self.inbox.asleep.store(false, Ordering::SeqCst);
        }
    }
}

impl Drop for Reactor {
    /// Cancels all reads, and waits until the kernel has completed them.
    fn drop(&mut self) {
        if let Some(Some(started)) = self.started.get() {
            started.inbox.messages().closing = true;
            started.inbox.wake();
            let mut thread = started
                .thread
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            join_all(thread.take());
        }
    }
}
