//! State shared by databases: a file system, a clock, and a pool of background threads.
//!
//! Its submodules are budgets of several databases (`write_buffers`, `sst_file_manager`), the list of
//! running jobs, and the interface of compaction services. An environment knows its databases by traits
//! alone, and uses no other storey.

pub(crate) mod compaction_service;
pub(crate) mod sst_file_manager;
pub(crate) mod thread_status;
pub(crate) mod write_buffers;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;
use koeldb_fs::{Clock, FileSystem, MemoryFileSystem, Origin, PosixFileSystem, SystemClock};

use crate::env::thread_status::ThreadList;

/// The priority of a background job: `High` for flushes and short jobs, `Low` for compactions.
///
/// (RocksDB: `Env::Priority`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobPriority {
    High,
    Low,
}

type Job = Box<dyn FnOnce() + Send>;

/// The job queues and thread counts of a background thread pool, guarded by its mutex.
#[derive(Default)]
struct Queues {
    high: VecDeque<Job>,
    low: VecDeque<Job>,
    /// Jobs that wait for other jobs or for writers.
    waiting: VecDeque<Job>,
    idle: usize,
    threads: usize,
    /// Calls of users, which may wait for all other jobs.
    calls: VecDeque<Job>,
    calls_running: usize,
    /// Whether the system refused to start a thread for a job that is still queued.
    is_short: bool,
    /// The number of threads that a simulated system allows.
    threads_allowed: Option<usize>,
}

impl Queues {
    fn len(&self) -> usize {
        self.high.len() + self.waiting.len() + self.low.len() + self.takeable_calls()
    }

    /// Returns the number of queued user calls that may start now, given the limit on running ones.
    fn takeable_calls(&self) -> usize {
        let free = CALLS_MAX.saturating_sub(self.calls_running);
        self.calls.len().min(free)
    }

    /// Dequeues a flush or compaction for a thread that waits for background work to run itself.
    fn take_short(&mut self) -> Option<Job> {
        self.high.pop_front().or_else(|| self.low.pop_front())
    }

    /// Dequeues the next job for a background thread: flushes first, user calls last.
    ///
    /// The second value tells whether it is a call of a user.
    fn take(&mut self) -> Option<(Job, bool)> {
        let urgent = self.high.pop_front();
        let urgent = urgent.or_else(|| self.waiting.pop_front());
        if let Some(job) = urgent.or_else(|| self.low.pop_front()) {
            return Some((job, false));
        }
        if self.takeable_calls() == 0 {
            return None;
        }
        let call = self.calls.pop_front()?;
        self.calls_running += 1;
        Some((call, true))
    }
}

/// The state of a thread pool that its clones and its threads share.
struct PoolShared {
    /// The process that has the threads.
    origin: Origin,
    /// The environment that takes the place of this one in a forked child.
    heir: OnceLock<(Pool, ThreadList)>,
    queues: Mutex<Queues>,
    work: Condvar,
    /// The simulated pool, in place of threads.
    steps: Option<SteppedPool>,
}

impl Default for PoolShared {
    fn default() -> Self {
        PoolShared {
            origin: Origin::here(),
            heir: OnceLock::new(),
            queues: Mutex::default(),
            work: Condvar::new(),
            steps: None,
        }
    }
}

/// A simulated thread pool for tests: threads that wait for background work run the jobs.
struct SteppedPool {
    clock: Arc<dyn Clock>,
    /// The state of the pseudo-random generator that chooses the next job.
    state: AtomicU64,
    /// The threads that are running a job.
    running: Mutex<Vec<ThreadId>>,
}

impl SteppedPool {
    /// Registers the calling thread as running a job; `false` if it already runs one.
    fn enter(&self) -> bool {
        let me = std::thread::current().id();
        let mut running = lock(&self.running);
        let is_free = !running.contains(&me);
        if is_free {
            running.push(me);
        }
        is_free
    }

    /// Deregisters the calling thread, which has finished its job.
    fn leave(&self) {
        let me = std::thread::current().id();
        lock(&self.running).retain(|thread| *thread != me);
    }

    /// Returns a pseudorandom index below `count`.
    fn choose(&self, count: usize) -> usize {
        let state = self.state.load(Ordering::Relaxed);
        let next = state.wrapping_mul(0xda94_2042_e4dd_58b5) | 1;
        self.state.store(next, Ordering::Relaxed);
        koeldb_base::coding::to_usize(next >> 33) % count.max(1)
    }
}

thread_local! {
    /// Whether this thread runs a job while it waits for another one.
    static IS_HELPING: Cell<bool> = const { Cell::new(false) };
}

/// A background thread pool whose threads start when needed and end after being idle.
///
/// If the system refuses a thread, the jobs stay queued: threads that wait for background work run
/// them, and every submission and every wait tries to start a thread again.
#[derive(Clone, Default)]
pub(crate) struct Pool {
    shared: Arc<PoolShared>,
}

/// The maximum number of threads, against runaway growth; databases limit their own jobs.
const THREADS_MAX: usize = 256;

/// The maximum number of threads that run calls of users.
const CALLS_MAX: usize = THREADS_MAX / 2;
/// The time without a job after which a thread of the pool ends.
const IDLE_LIMIT: Duration = Duration::from_secs(5);

impl Pool {
    /// Queues a background job of this priority.
    pub(crate) fn submit(&self, priority: JobPriority, job: impl FnOnce() + Send + 'static) {
        self.enqueue(Box::new(job), |queues| match priority {
            JobPriority::High => &mut queues.high,
            JobPriority::Low => &mut queues.low,
        });
    }

    /// Submits a background job that may block on other background jobs or on writers.
    ///
    /// A thread that waits for background work never runs such a job. Without threads it starts
    /// only in [`Env::step`]; other jobs run while it waits.
    pub(crate) fn submit_waiting(&self, job: impl FnOnce() + Send + 'static) {
        self.enqueue(Box::new(job), |queues| &mut queues.waiting);
    }

    /// Submits an asynchronous user call, which may block on writers and on background jobs.
    ///
    /// Only a part of the threads runs calls, so that the jobs they wait for have threads.
    pub(crate) fn submit_call(&self, call: impl FnOnce() + Send + 'static) {
        if let Some((heir, _)) = self.heir() {
            return heir.submit_call(call);
        }
        if self.is_stepped() {
            return self.submit_waiting(call);
        }
        self.enqueue(Box::new(call), |queues| &mut queues.calls);
    }

    /// Submits a job, or runs it in this thread if no background thread exists or can be started.
    pub(crate) fn submit_or_run(&self, job: impl FnOnce() + Send + 'static) {
        if let Some((heir, _)) = self.heir() {
            return heir.submit_or_run(job);
        }
        let mut queues = lock(&self.shared.queues);
        if self.is_stepped() || (queues.threads == 0 && !self.start_thread(&mut queues)) {
            drop(queues);
            return job();
        }
        queues.high.push_back(Box::new(job));
        self.provide_thread(queues);
    }

    /// Returns the thread pool that replaces this one in a forked child; `None` in the parent.
    ///
    /// The threads of the parent do not exist in the child, which may even have inherited a locked
    /// mutex of the pool. Calls of users on inherited databases run there; other jobs of such
    /// databases belong to the parent.
    fn heir(&self) -> Option<&(Pool, ThreadList)> {
        let is_inherited = !self.is_stepped() && !self.shared.origin.is_here();
        is_inherited.then(|| self.shared.heir.get_or_init(Default::default))
    }

    /// Adds a job to the queue that `queue` selects, and wakes or starts a thread for it.
    fn enqueue(&self, job: Job, queue: impl FnOnce(&mut Queues) -> &mut VecDeque<Job>) {
        let mut queues = lock(&self.shared.queues);
        queue(&mut queues).push_back(job);
        if !self.is_stepped() {
            self.provide_thread(queues);
        }
    }

    /// Wakes an idle thread for the job queued last, or starts a thread if all are busy.
    fn provide_thread(&self, mut queues: MutexGuard<'_, Queues>) {
        if queues.len() > queues.idle && queues.threads < THREADS_MAX {
            queues.is_short = !self.start_thread(&mut queues);
        }
        drop(queues);
        self.shared.work.notify_one();
    }

    /// Starts a pool thread; `false` if the system refuses it.
    fn start_thread(&self, queues: &mut Queues) -> bool {
        if queues
            .threads_allowed
            .is_some_and(|allowed| queues.threads >= allowed)
        {
            return false;
        }
        let shared = Arc::clone(&self.shared);
        let started = std::thread::Builder::new()
            .name("koeldb-background".to_owned())
            .spawn(move || run(&shared));
        queues.threads += usize::from(started.is_ok());
        started.is_ok()
    }

    /// Tries again to start a thread that the system refused; `false` if queued jobs still need it.
    pub(crate) fn ensure_threads(&self) -> bool {
        let mut queues = lock(&self.shared.queues);
        if queues.is_short {
            queues.is_short = queues.len() > queues.idle && !self.start_thread(&mut queues);
        }
        !queues.is_short
    }

    /// Runs a queued flush or compaction in this thread if the system refused a thread for it.
    ///
    /// Returns whether a job was run.
    fn help(&self) -> bool {
        if self.ensure_threads() || IS_HELPING.get() {
            return false;
        }
        let Some(job) = lock(&self.shared.queues).take_short() else {
            return false;
        };
        IS_HELPING.set(true);
        let _ = std::panic::catch_unwind(AssertUnwindSafe(job));
        IS_HELPING.set(false);
        true
    }

    /// Limits the number of threads that can be started, to simulate thread exhaustion in tests.
    pub(crate) fn allow_threads(&self, allowed: Option<usize>) {
        lock(&self.shared.queues).threads_allowed = allowed;
    }

    /// Creates a simulated pool without threads, with jobs in an order that `seed` determines.
    fn stepped(clock: Arc<dyn Clock>, seed: u64) -> Self {
        let shared = PoolShared {
            steps: Some(SteppedPool {
                clock,
                state: AtomicU64::new(seed.wrapping_mul(2) | 1),
                running: Mutex::default(),
            }),
            ..PoolShared::default()
        };
        Pool {
            shared: Arc::new(shared),
        }
    }

    /// Whether the pool is simulated: jobs run in the threads that wait for them.
    pub(crate) fn is_stepped(&self) -> bool {
        self.shared.steps.is_some()
    }

    /// Runs one queued flush or compaction of a simulated pool in this thread.
    ///
    /// Returns `false` if none waits, this thread is running one, or there are threads for them.
    /// Jobs do not nest: a job that waits only advances the clock.
    fn step(&self) -> bool {
        let Some(steps) = &self.shared.steps else {
            return false;
        };
        if !steps.enter() {
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
        steps.leave();
        is_any
    }

    /// Runs one queued job of a simulated pool, of any kind: also one that may block on other jobs.
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

    /// Lets a thread that waits for background work run a queued job for which there is no thread.
    ///
    /// A simulated pool runs one job, or advances the clock by `limit`. Returns `false` if nothing
    /// was done and the caller has to wait.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let Some(steps) = &self.shared.steps else {
            return self.help();
        };
        if !self.step() {
            steps.clock.sleep(limit);
        }
        true
    }
}

/// Runs the main loop of a pool thread: executes queued jobs until it was idle for `IDLE_LIMIT`.
fn run(shared: &PoolShared) {
    let mut queues = lock(&shared.queues);
    loop {
        if let Some((job, is_call)) = queues.take() {
            drop(queues);
            // Jobs report their own failures; an escaped panic must not break the count of threads.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(job));
            queues = lock(&shared.queues);
            queues.calls_running -= usize::from(is_call);
            continue;
        }
        queues.idle += 1;
        let (woken, timeout) = shared
            .work
            .wait_timeout(queues, IDLE_LIMIT)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        queues = woken;
        queues.idle -= 1;
        if timeout.timed_out() && queues.len() == 0 {
            queues.threads -= 1;
            return;
        }
    }
}

/// The environment of databases: file system, clock and background threads (RocksDB: `Env`).
///
/// It is cheap to clone; the default one is shared by all databases.
#[derive(Clone)]
pub struct Env {
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) pool: Pool,
    /// The running jobs of the databases of the environment.
    pub(crate) threads: ThreadList,
}

impl Env {
    /// Creates an environment with a file system, a clock and its own threads.
    #[must_use]
    pub fn new(fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Self {
        Env {
            fs,
            clock,
            pool: Pool::default(),
            threads: ThreadList::default(),
        }
    }

    /// Creates an environment with a simulated thread pool, for deterministic tests.
    ///
    /// Background jobs run in the threads that wait for them or call [`Env::step`], one at a time
    /// in each, in an order determined by `seed`; if a thread waits and no job is left, `clock` is
    /// asked to sleep. With files in memory and a manual clock, a single-threaded test is
    /// reproducible. Automatic resume happens only in [`Env::step`].
    #[must_use]
    pub fn stepped(fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>, seed: u64) -> Self {
        Env {
            pool: Pool::stepped(Arc::clone(&clock), seed),
            fs,
            clock,
            threads: ThreadList::default(),
        }
    }

    /// Returns this environment; in a forked child, a copy with a thread pool of its own.
    pub(crate) fn of_this_process(&self) -> Env {
        let mut env = self.clone();
        while let Some(heir) = env.pool.heir().cloned() {
            (env.pool, env.threads) = heir;
        }
        env
    }

    /// Runs one background job of an environment created by [`Env::stepped`].
    ///
    /// Returns `false` if none waits or the environment is of another kind.
    pub fn step(&self) -> bool {
        self.pool.step_any()
    }

    /// Simulates a system that refuses more than `threads` background threads, for tests.
    ///
    /// Threads that run stay until they are idle for long. `None` ends the simulation.
    pub fn simulate_thread_limit(&self, threads: Option<usize>) {
        self.pool.allow_threads(threads);
    }

    /// Creates an environment with files in memory, which are dropped with it.
    #[must_use]
    pub fn mem_env() -> Self {
        Self::new(Arc::new(MemoryFileSystem::new()), Arc::new(SystemClock))
    }

    /// Returns the environment's file system.
    #[must_use]
    pub fn file_system(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// Returns the environment's clock.
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

#[cfg(test)]
mod tests;
