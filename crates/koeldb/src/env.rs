//! What databases share: a file system, a clock, and one pool of background threads.

use std::collections::VecDeque;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use koeldb_fs::{Clock, FileSystem, MemoryFileSystem, PosixFileSystem, SystemClock};

use crate::super_version::lock;

/// Which queue a job waits in: flushes never wait behind compactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobPriority {
    High,
    Low,
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queues {
    high: VecDeque<Job>,
    low: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

#[derive(Default)]
struct PoolShared {
    queues: Mutex<Queues>,
    work: Condvar,
}

/// Background threads: started when there is more work than idle threads, ended when idle for long.
#[derive(Clone, Default)]
pub(crate) struct Pool {
    shared: Arc<PoolShared>,
}

/// A bound on runaway growth; databases limit their own jobs.
const THREADS_MAX: usize = 256;
const IDLE_LIMIT: Duration = Duration::from_secs(5);

impl Pool {
    pub(crate) fn submit(&self, priority: JobPriority, job: impl FnOnce() + Send + 'static) {
        let mut queues = lock(&self.shared.queues);
        match priority {
            JobPriority::High => queues.high.push_back(Box::new(job)),
            JobPriority::Low => queues.low.push_back(Box::new(job)),
        }
        let waiting = queues.high.len() + queues.low.len();
        if waiting > queues.idle && queues.threads < THREADS_MAX {
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new()
                .name("koeldb-background".to_owned())
                .spawn(move || run(&shared));
            if started.is_ok() {
                queues.threads += 1;
            }
        }
        drop(queues);
        self.shared.work.notify_one();
    }
}

fn run(shared: &PoolShared) {
    let mut queues = lock(&shared.queues);
    loop {
        let job = queues.high.pop_front().or_else(|| queues.low.pop_front());
        if let Some(job) = job {
            drop(queues);
            // Jobs report their own failures; a panic that got out of one must not take the thread's count along.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(job));
            queues = lock(&shared.queues);
            continue;
        }
        queues.idle += 1;
        let (woken, timeout) = shared
            .work
            .wait_timeout(queues, IDLE_LIMIT)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        queues = woken;
        queues.idle -= 1;
        if timeout.timed_out() && queues.high.is_empty() && queues.low.is_empty() {
            queues.threads -= 1;
            return;
        }
    }
}

/// Where databases keep their files and find their threads. Cheap to clone; the default one is shared by all.
#[derive(Clone)]
pub struct Env {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) pool: Pool,
}

impl Env {
    /// An environment over a file system and a clock, with threads of its own.
    #[must_use]
    pub fn new(fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Self {
        Env {
            fs,
            clock,
            pool: Pool::default(),
        }
    }

    /// An environment whose files live in memory, and end with it.
    #[must_use]
    pub fn mem_env() -> Self {
        Self::new(Arc::new(MemoryFileSystem::new()), Arc::new(SystemClock))
    }

    /// The file system.
    #[must_use]
    pub fn file_system(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}

impl Default for Env {
    fn default() -> Self {
        static SHARED: OnceLock<Env> = OnceLock::new();
        SHARED
            .get_or_init(|| Env::new(Arc::new(PosixFileSystem::new()), Arc::new(SystemClock)))
            .clone()
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Env({:?})", self.fs)
    }
}
