//! Reads by threads: for files without descriptors, and where io_uring is not available.
//!
//! Threads start when there are more reads than idle threads, up to a limit, and end after they
//! were idle for a while. A read whose session is gone is not begun.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use super::request::Request;
use super::{Caps, OpId, ReadBackend};

/// The idle time after which a thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// A backend with a pool of threads that issue positional reads.
#[derive(Debug)]
pub(super) struct ReadPool {
    work: Arc<Work>,
}

/// The queue shared by the threads of a pool.
#[derive(Debug)]
struct Work {
    state: Mutex<PoolState>,
    more: Condvar,
    limit: usize,
}

/// The queued requests and the counts of threads, under the lock.
#[derive(Debug, Default)]
struct PoolState {
    queue: VecDeque<Request>,
    threads: Vec<JoinHandle<()>>,
    alive: usize,
    idle: usize,
    closing: bool,
}

impl ReadPool {
    /// Creates a pool of at most `limit` threads, at least one.
    pub(super) fn new(limit: usize) -> Self {
        ReadPool {
            work: Arc::new(Work {
                state: Mutex::default(),
                more: Condvar::new(),
                limit: limit.max(1),
            }),
        }
    }
}

impl ReadBackend for ReadPool {
    fn caps(&self) -> Caps {
        Caps {
            parallel: self.work.limit > 1,
            batch: self.work.limit,
        }
    }

    fn submit(&self, requests: &mut Vec<Request>) {
        let count = requests.len();
        let mut state = self.work.state();
        state.queue.extend(requests.drain(..));
        while state.alive < self.work.limit && state.idle < state.queue.len() {
            let work = Arc::clone(&self.work);
            let spawned = thread::Builder::new()
                .name("koeldb-read".to_owned())
                .spawn(move || work.run());
            match spawned {
                Ok(thread) => {
                    state.alive += 1;
                    // The new thread counts as idle: it takes the next read.
                    state.idle += 1;
                    state.threads.push(thread);
                }
                Err(_) if state.alive > 0 => break,
                // No thread can be started: the calling thread reads.
                Err(_) => {
                    let queue = std::mem::take(&mut state.queue);
                    drop(state);
                    queue.into_iter().for_each(Request::read_in_place);
                    return;
                }
            }
        }
        drop(state);
        for _ in 0..count {
            self.work.more.notify_one();
        }
    }

    fn cancel(&self, id: OpId) {
        let mut state = self.work.state();
        let at = state.queue.iter().position(|request| request.id() == id);
        let cancelled = at.and_then(|at| state.queue.remove(at));
        // Dropped outside the lock: it reports to its owner.
        drop(state);
        drop(cancelled);
    }
}

impl Work {
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the main loop of a pool thread: reads queued requests, until idle or the pool closes.
    ///
    /// A thread counts as idle from its start, and whenever it waits.
    fn run(&self) {
        let mut state = self.state();
        loop {
            if let Some(request) = state.queue.pop_front() {
                state.idle -= 1;
                drop(state);
                if request.is_wanted() {
                    // A request that unwinds reports that it was aborted.
                    let read = AssertUnwindSafe(|| request.read_in_place());
                    let _ = panic::catch_unwind(read);
                } else {
                    // Dropped outside the lock: requests that joined it meanwhile are read by this
                    // pool.
                    drop(request);
                }
                state = self.state();
                state.idle += 1;
            } else if state.closing {
                break;
            } else {
                let (next, waited) = self
                    .more
                    .wait_timeout(state, IDLE)
                    .unwrap_or_else(PoisonError::into_inner);
                state = next;
                if waited.timed_out() && state.queue.is_empty() {
                    break;
                }
            }
        }
        state.idle -= 1;
        state.alive -= 1;
        let me = thread::current().id();
        state.threads.retain(|thread| thread.thread().id() != me);
    }
}

impl Drop for ReadPool {
    /// Ends the threads once the queue is empty, and waits for them.
    fn drop(&mut self) {
        let threads = {
            let mut state = self.work.state();
            state.closing = true;
            std::mem::take(&mut state.threads)
        };
        self.work.more.notify_all();
        join_all(threads);
    }
}

/// Joins threads except the calling one: the receiver of an outcome may drop the last handle.
pub(super) fn join_all(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    let me: ThreadId = thread::current().id();
    for thread in threads {
        if thread.thread().id() != me {
            let _ = thread.join();
        }
    }
}

/// A backend that reads on the calling thread, before it returns.
#[derive(Debug)]
pub(super) struct InPlace;

impl ReadBackend for InPlace {
    fn caps(&self) -> Caps {
        Caps {
            parallel: false,
            batch: 1,
        }
    }

    fn submit(&self, requests: &mut Vec<Request>) {
        requests.drain(..).for_each(Request::read_in_place);
    }
}
