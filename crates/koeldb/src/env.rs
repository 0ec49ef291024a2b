//! What databases share: a file system, a clock, and one pool of background threads.

use std::collections::VecDeque;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;
use koeldb_fs::{Clock, FileSystem, MemoryFileSystem, PosixFileSystem, SystemClock};

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
    /// Without threads: those that wait for others.
    waiting: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

#[derive(Default)]
struct PoolShared {
    queues: Mutex<Queues>,
    work: Condvar,
    /// Instead of threads.
    steps: Option<Steps>,
}

/// Jobs that run in whatever thread waits for them, one at a time.
struct Steps {
    clock: Arc<dyn Clock>,
    /// What chooses the next job: a multiplicative generator.
    state: AtomicU64,
    is_running: AtomicBool,
}

impl Steps {
    fn choose(&self, count: usize) -> usize {
        let state = self.state.load(Ordering::Relaxed);
        let next = state.wrapping_mul(0xda94_2042_e4dd_58b5) | 1;
        self.state.store(next, Ordering::Relaxed);
        koeldb_base::coding::to_usize(next >> 33) % count.max(1)
    }
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
        if self.shared.steps.is_some() {
            return;
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

    /// A job that waits for other jobs and for writers. Without threads it begins in [`Env::step`] alone, where nobody waits
    /// that it would have to wait for; others run while it waits.
    pub(crate) fn submit_waiting(&self, job: impl FnOnce() + Send + 'static) {
        match self.is_stepped() {
            true => lock(&self.shared.queues).waiting.push_back(Box::new(job)),
            false => self.submit(JobPriority::High, job),
        }
    }

    fn stepped(clock: Arc<dyn Clock>, seed: u64) -> Self {
        let shared = PoolShared {
            steps: Some(Steps {
                clock,
                state: AtomicU64::new(seed.wrapping_mul(2) | 1),
                is_running: AtomicBool::new(false),
            }),
            ..PoolShared::default()
        };
        Pool {
            shared: Arc::new(shared),
        }
    }

    /// Whether jobs run in the threads that wait for them.
    pub(crate) fn is_stepped(&self) -> bool {
        self.shared.steps.is_some()
    }

    /// Runs one waiting job in this thread; `false` if none waits, one runs, or there are threads for them. A job that
    /// waits for something lets only time pass: jobs do not nest.
    fn step(&self) -> bool {
        let Some(steps) = &self.shared.steps else {
            return false;
        };
        if steps.is_running.swap(true, Ordering::Acquire) {
            return false;
        }
        let job = {
            let mut queues = lock(&self.shared.queues);
            let count = queues.high.len() + queues.low.len();
            let chosen = steps.choose(count);
            match chosen.checked_sub(queues.high.len()) {
                None => queues.high.remove(chosen),
                Some(chosen) => queues.low.remove(chosen),
            }
        };
        let is_any = job.is_some();
        if let Some(job) = job {
            let _ = std::panic::catch_unwind(AssertUnwindSafe(job));
        }
        steps.is_running.store(false, Ordering::Release);
        is_any
    }

    /// [`Pool::step`] where nobody waits: it may begin one that waits for others.
    fn step_any(&self) -> bool {
        let Some(steps) = &self.shared.steps else {
            return false;
        };
        let waiting = {
            let mut queues = lock(&self.shared.queues);
            let others = queues.high.len() + queues.low.len();
            match steps.choose(others + queues.waiting.len()) < others {
                true => None,
                false => queues.waiting.pop_front(),
            }
        };
        let Some(job) = waiting else {
            return self.step();
        };
        let _ = std::panic::catch_unwind(AssertUnwindSafe(job));
        true
    }

    /// For whoever waits without threads to wait for: a job runs, or so much time passes. `false` if there are threads.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let Some(steps) = &self.shared.steps else {
            return false;
        };
        if !self.step() {
            steps.clock.sleep(limit);
        }
        true
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

    /// An environment without threads, for tests: background jobs run one at a time, in the thread that waits for them or
    /// calls [`Env::step`], in an order that `seed` chooses; where nobody has anything to do, `clock` is asked to sleep.
    /// Over files in memory and a clock that is moved by hand, what one thread does repeats exactly. Only in [`Env::step`] does
    /// a database resume by itself after an error.
    #[must_use]
    pub fn stepped(fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>, seed: u64) -> Self {
        Env {
            pool: Pool::stepped(Arc::clone(&clock), seed),
            fs,
            clock,
        }
    }

    /// Runs one background job of an environment made by [`Env::stepped`]; `false` if none waits, or it was not.
    pub fn step(&self) -> bool {
        self.pool.step_any()
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

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Env({:?})", self.fs)
    }
}
