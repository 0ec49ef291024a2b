//! The read engine of an open database, chosen once.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use koeldb_base::sync::lock_plain;

use super::inline::InlineReads;
use super::pool::{InPlace, ReadPool};
use super::request::Shared;
use super::session::ReadSession;
use super::uring::{Lease, Uring};
use super::{OpId, ReadBackend};
use crate::clock::{Clock, SystemClock};
use crate::file::{FileSystem, OpenOptions};

/// The configured engine for parallel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ReadEngine {
    /// io_uring where the kernel permits it and is new enough to be trusted, otherwise threads.
    #[default]
    Auto,
    /// io_uring wherever the kernel permits it, otherwise threads.
    Uring,
    /// Threads.
    Pool,
    /// No parallelism: the calling thread reads sequentially.
    Off,
}

/// The engine in use for parallel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActiveEngine {
    /// io_uring.
    Uring,
    /// Threads.
    Pool,
    /// No parallelism: the calling thread reads sequentially.
    Off,
    /// The file system's own backend.
    FileSystem,
}

impl ActiveEngine {
    /// The name in reports: "uring", "pool", "off" or "file system".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ActiveEngine::Uring => "uring",
            ActiveEngine::Pool => "pool",
            ActiveEngine::Off => "off",
            ActiveEngine::FileSystem => "file system",
        }
    }
}

/// The options for choosing an engine.
#[derive(Clone, Debug)]
pub struct AsyncReadOptions {
    /// The configured engine.
    pub engine: ReadEngine,
    /// The largest number of pool threads. They exist only while there are reads.
    pub pool_threads: usize,
    /// The clock of deadlines and latencies.
    pub clock: Arc<dyn Clock>,
}

impl Default for AsyncReadOptions {
    fn default() -> Self {
        AsyncReadOptions {
            engine: ReadEngine::Auto,
            pool_threads: 32,
            clock: Arc::new(SystemClock),
        }
    }
}

/// Counts of the reads issued to devices so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// The number of reads.
    pub reads: u64,
    /// Reads that were answered by another in-flight read instead of a device.
    pub joined: u64,
    /// The bytes of all reads, including those added for alignment.
    pub bytes: u64,
    /// Calls of `flush` that issued at least one read.
    pub rounds: u64,
    /// Reads in flight, including orphaned ones.
    pub under_way: u64,
    /// Reads that fell back from the engine to positional reads.
    pub elsewhere: u64,
    /// Rings that could not be created although the first one could; threads served the reads of
    /// these calls.
    pub lost_rings: u64,
}

/// The engine for parallel reads of a database; clones are handles to the same one.
#[derive(Clone)]
pub struct AsyncReads {
    inner: Arc<Inner>,
}

/// The state shared by the clones of `AsyncReads`: the backend and its requests in flight.
struct Inner {
    engine: ActiveEngine,
    reason: String,
    shared: Arc<Shared>,
    /// The backend that executes the reads of sessions.
    backend: Arc<dyn ReadBackend>,
    /// The thread pool, which executes the reads that a ring cannot.
    pool: Arc<dyn ReadBackend>,
    /// The rings for calls, if io_uring is in use; then also the backend.
    rings: Option<Arc<Uring>>,
    fallbacks: Fallbacks,
    next: AtomicU64,
    process: u32,
}

/// The shortest interval between reports of reads that fell back from io_uring.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// The listener for fallback reads, with the count and time of the last report.
#[derive(Default)]
struct Fallbacks {
    listener: OnceLock<Box<dyn Fn() + Send + Sync>>,
    told: AtomicU64,
    told_at: Mutex<Option<Duration>>,
}

impl Fallbacks {
    /// Calls the listener for `count` fallbacks so far, unless it was called in the last minute.
    #[cold]
    fn tell(&self, count: u64, now: Duration) {
        let Some(listener) = self.listener.get() else {
            return;
        };
        {
            let mut told_at = lock_plain(&self.told_at);
            if told_at.is_some_and(|at| now < at.saturating_add(TELL_EVERY)) {
                return;
            }
            *told_at = Some(now);
            self.told.store(count, Ordering::Relaxed);
        }
        listener();
    }
}

impl AsyncReads {
    /// Chooses the engine for parallel reads of files of `fs`; io_uring must pass a test read.
    ///
    /// `probe` is an existing file, of which at least a part can be read, for a test read.
    #[must_use]
    pub fn choose(options: &AsyncReadOptions, fs: &dyn FileSystem, probe: &Path) -> Self {
        let clock = Arc::clone(&options.clock);
        if options.engine == ReadEngine::Off {
            return Self::new(ActiveEngine::Off, "as configured", Arc::new(InPlace), clock);
        }
        if let Some(backend) = fs.read_backend() {
            return Self::with_backend(backend, clock);
        }
        let pool: Arc<dyn ReadBackend> = Arc::new(ReadPool::new(options.pool_threads));
        let old = match options.engine {
            ReadEngine::Auto => false,
            ReadEngine::Uring => true,
            ReadEngine::Pool | ReadEngine::Off => {
                return Self::new(ActiveEngine::Pool, "as configured", pool, clock);
            }
        };
        let rings = fs
            .open(probe, &OpenOptions::default())
            .map_err(|error| format!("the file for the probe cannot be opened: {error}"))
            .and_then(|file| Uring::new(&file, old, Arc::clone(&pool), &clock));
        match rings {
            Ok(rings) => Self::with_rings(Arc::new(rings), pool, clock),
            Err(reason) => Self::new(ActiveEngine::Pool, &reason, pool, clock),
        }
    }

    /// Creates an engine that reads through io_uring.
    fn with_rings(rings: Arc<Uring>, pool: Arc<dyn ReadBackend>, clock: Arc<dyn Clock>) -> Self {
        let backend = Arc::clone(&rings);
        let engine = ActiveEngine::Uring;
        Self::of_parts(
            engine,
            rings.flags_text(),
            backend,
            pool,
            Some(rings),
            clock,
        )
    }

    /// Creates an engine of at most `threads` threads.
    #[must_use]
    pub fn pool(threads: usize) -> Self {
        let pool = Arc::new(ReadPool::new(threads));
        Self::new(
            ActiveEngine::Pool,
            "as asked for",
            pool,
            Arc::new(SystemClock),
        )
    }

    /// Creates an engine that reads sequentially on the calling thread.
    #[must_use]
    pub fn off() -> Self {
        let clock = Arc::new(SystemClock);
        Self::new(ActiveEngine::Off, "as asked for", Arc::new(InPlace), clock)
    }

    /// Creates an engine that passes all reads to `backend`, the file system's own.
    #[must_use]
    pub fn with_backend(backend: Arc<dyn ReadBackend>, clock: Arc<dyn Clock>) -> Self {
        Self::new(
            ActiveEngine::FileSystem,
            "the file system's own",
            backend,
            clock,
        )
    }

    /// Creates an engine with one backend for all reads.
    fn new(
        engine: ActiveEngine,
        reason: &str,
        backend: Arc<dyn ReadBackend>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let pool = Arc::clone(&backend);
        Self::of_parts(engine, reason, backend, pool, None, clock)
    }

    /// Creates an engine from its parts.
    fn of_parts(
        engine: ActiveEngine,
        reason: &str,
        backend: Arc<dyn ReadBackend>,
        pool: Arc<dyn ReadBackend>,
        rings: Option<Arc<Uring>>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        AsyncReads {
            inner: Arc::new(Inner {
                engine,
                reason: reason.to_owned(),
                shared: Arc::new(Shared::new(clock, Arc::downgrade(&pool))),
                backend,
                pool,
                rings,
                fallbacks: Fallbacks::default(),
                next: AtomicU64::new(0),
                process: std::process::id(),
            }),
        }
    }

    /// The engine in use.
    #[must_use]
    pub fn engine(&self) -> ActiveEngine {
        self.inner.engine
    }

    /// The reason for the choice of engine.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.inner.reason
    }

    /// Whether reads overlap. If not, an operation should read missing blocks one at a time.
    #[must_use]
    pub fn is_parallel(&self) -> bool {
        self.inner.backend.caps().parallel
    }

    /// The clock of deadlines and latencies.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.shared.clock
    }

    /// Creates a driver for one call on this thread, which completes its reads and has no deadline.
    #[must_use]
    pub fn inline(&self) -> InlineReads {
        InlineReads::new(self.clone())
    }

    /// Creates a driver for an operation that may be abandoned: its reads may outlive the driver.
    #[must_use]
    pub fn shared(&self) -> ReadSession {
        ReadSession::new(self.clone())
    }

    /// Lets the backend make progress on [`ReadSession::push_then`] reads, until `until` at most.
    ///
    /// This serves backends without threads of their own. Returns false if nothing was done.
    #[must_use]
    pub fn drive(&self, until: Option<Duration>) -> bool {
        self.backend().drive(until)
    }

    /// Returns the counts of the reads of all threads so far; exact when no read is in flight.
    #[must_use]
    pub fn counts(&self) -> ReadCounts {
        let counts = &self.inner.shared.counts;
        ReadCounts {
            reads: counts.reads.load(Ordering::Relaxed),
            joined: counts.joined.load(Ordering::Relaxed),
            bytes: counts.bytes.load(Ordering::Relaxed),
            rounds: counts.rounds.load(Ordering::Relaxed),
            under_way: counts.under_way.load(Ordering::Relaxed),
            elsewhere: counts.elsewhere.load(Ordering::Relaxed),
            lost_rings: self
                .inner
                .rings
                .as_ref()
                .map_or(0, |rings| rings.failures()),
        }
    }

    /// Returns the state that all requests of the database share.
    pub(super) fn shared_state(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// Returns an unused id for a read.
    pub(super) fn next_id(&self) -> OpId {
        OpId(self.inner.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Counts a `flush` that issued reads, and tells the listener of new fallbacks from io_uring.
    pub(super) fn count_round(&self) {
        let counts = &self.inner.shared.counts;
        counts.rounds.fetch_add(1, Ordering::Relaxed);
        if let Some(rings) = &self.inner.rings {
            let count = rings.failures() + counts.elsewhere.load(Ordering::Relaxed);
            if count != self.inner.fallbacks.told.load(Ordering::Relaxed) {
                self.inner.fallbacks.tell(count, self.clock().now());
            }
        }
    }

    /// Sets a listener that reports reads that fell back from io_uring.
    ///
    /// It is called when a ring was lost or could not be created, or when a thread served a read
    /// instead: at the next reads, and at most once a minute. A reading thread calls it and must
    /// not be delayed; [`AsyncReads::counts`] has the counts. Only the first listener takes effect.
    pub fn on_fallback(&self, listener: impl Fn() + Send + Sync + 'static) {
        let _ = self.inner.fallbacks.listener.set(Box::new(listener));
    }

    /// Whether this process is a forked child, which has neither the threads nor the rings.
    pub(super) fn is_forked(&self) -> bool {
        std::process::id() != self.inner.process
    }

    /// Leases a ring for the calling thread, if the engine has rings and one can be created.
    pub(super) fn lease(&self) -> Option<Lease> {
        let rings = self.inner.rings.as_ref()?;
        if self.is_forked() {
            None
        } else {
            rings.lease()
        }
    }

    /// The backend for reads that a ring cannot execute: the thread pool, or the only backend.
    pub(super) fn pool_backend(&self) -> &dyn ReadBackend {
        &*self.inner.pool
    }

    /// The backend for sessions; in a forked child, reads in place.
    pub(super) fn backend(&self) -> &dyn ReadBackend {
        if self.is_forked() {
            &InPlace
        } else {
            &*self.inner.backend
        }
    }
}

impl Drop for Inner {
    /// Leaks the backends in a forked child.
    ///
    /// The threads that their drops would wait for do not exist there, and their locks stay locked.
    fn drop(&mut self) {
        if std::process::id() != self.process {
            std::mem::forget(Arc::clone(&self.backend));
            std::mem::forget(Arc::clone(&self.pool));
        }
    }
}

impl fmt::Debug for AsyncReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsyncReads({}, {})", self.engine().name(), self.reason())
    }
}
