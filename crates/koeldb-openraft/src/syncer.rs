//! Group commit: one sync completes the callbacks of all groups that wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use koeldb::{Db, Error, ErrorKind, Result, WriteBatch};

/// Called once the writes before it are durable, or have failed.
pub(crate) type Completion = Box<dyn FnOnce(Result<()>) + Send>;

/// The callbacks that wait for the next WAL sync, the closing flag and the sync count.
#[derive(Default)]
struct Queue {
    waiting: Vec<Completion>,
    is_closing: bool,
    syncs: u64,
}

/// Group commit for the log database: runs one WAL sync for all callbacks that wait.
///
/// The first failure is kept: a later flush of a memtable could make entries durable whose callback
/// has reported a failure.
pub(crate) struct Syncer {
    pub(crate) db: Db,
    queue: Mutex<Queue>,
    work: Condvar,
    failure: OnceLock<Error>,
}

impl Syncer {
    pub(crate) fn new(db: Db) -> Self {
        Syncer {
            db,
            queue: Mutex::default(),
            work: Condvar::new(),
            failure: OnceLock::new(),
        }
    }

    /// Locks the queue of waiting callbacks.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if an earlier write or sync has failed.
    pub(crate) fn check(&self) -> Result<()> {
        match self.failure.get() {
            Some(failure) => Err(failure.clone().context(
                "the Raft logs refuse all calls since a failure, until they are reopened",
            )),
            None => Ok(()),
        }
    }

    /// Records the error of the first failed write or sync; all later calls fail with it.
    fn latch<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            let _ = self.failure.set(error.clone());
        })
    }

    /// Writes a batch to the WAL and memtable without a sync.
    pub(crate) fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.check()?;
        self.latch(self.db.write(batch))
    }

    /// Writes a batch, and queues `done` to be called after the next sync of the WAL.
    pub(crate) fn write_durably(&self, batch: &WriteBatch, done: Completion) -> Result<()> {
        self.write(batch)?;
        self.queue().waiting.push(done);
        self.work.notify_one();
        Ok(())
    }

    /// Syncs the WAL, which makes all writes so far durable.
    fn sync(&self) -> Result<()> {
        self.check()?;
        self.queue().syncs += 1;
        self.latch(self.db.flush_wal(true))
    }

    /// Syncs the WAL once if callbacks wait for it, and calls them; returns their number.
    pub(crate) fn sync_waiting(&self) -> usize {
        let waiting = std::mem::take(&mut self.queue().waiting);
        self.complete(waiting)
    }

    /// Syncs the WAL once if `waiting` is not empty, calls the callbacks and returns their number.
    fn complete(&self, waiting: Vec<Completion>) -> usize {
        let count = waiting.len();
        if count > 0 {
            let synced = self.sync();
            for done in waiting {
                let call = AssertUnwindSafe(|| done(synced.clone()));
                if catch_unwind(call).is_err() {
                    // Others wait for this thread. Whoever panicked may have missed the answer.
                    let panicked = Error::with_kind(
                        ErrorKind::Aborted,
                        "a callback of the Raft logs panicked",
                    );
                    let _ = self.failure.set(panicked);
                }
            }
        }
        count
    }

    /// Returns the number of WAL syncs since the logs were opened.
    pub(crate) fn sync_count(&self) -> u64 {
        self.queue().syncs
    }

    /// Runs the sync thread: syncs the WAL and calls callbacks until the logs close and none waits.
    fn run(&self) {
        let mut queue = self.queue();
        loop {
            if !queue.waiting.is_empty() {
                let waiting = std::mem::take(&mut queue.waiting);
                drop(queue);
                self.complete(waiting);
                queue = self.queue();
            } else if queue.is_closing {
                return;
            } else {
                let woken = self.work.wait(queue);
                queue = woken.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// The syncer of open logs together with its thread, which is stopped on drop.
pub(crate) struct RunningSyncer {
    pub(crate) syncer: Arc<Syncer>,
    thread: Option<JoinHandle<()>>,
}

impl RunningSyncer {
    /// Creates the syncer and, if `has_thread`, starts the thread that syncs for waiting callbacks.
    pub(crate) fn start(db: Db, has_thread: bool) -> Result<Self> {
        let syncer = Arc::new(Syncer::new(db));
        let thread = has_thread.then(|| {
            let syncer = Arc::clone(&syncer);
            let name = "koeldb-raft-sync".to_owned();
            let thread = std::thread::Builder::new().name(name);
            thread.spawn(move || syncer.run())
        });
        let thread = thread
            .transpose()
            .map_err(|error| Error::io(error, "start the syncer", syncer.db.path()))?;
        Ok(RunningSyncer { syncer, thread })
    }
}

impl Drop for RunningSyncer {
    fn drop(&mut self) {
        self.syncer.queue().is_closing = true;
        self.syncer.work.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
