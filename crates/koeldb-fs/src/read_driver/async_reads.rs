//! What an open database holds: how its reads are carried out, chosen once.

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

/// How reads are to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ReadEngine {
    /// By io_uring where the kernel lets us and is new enough to be trusted, otherwise by threads.
    #[default]
    Auto,
    /// By io_uring wherever the kernel lets us, otherwise by threads.
    Uring,
    /// By threads.
    Pool,
    /// One after the other, by whoever asks.
    Off,
}

/// How reads are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActiveEngine {
    /// By io_uring.
    Uring,
    /// By threads.
    Pool,
    /// One after the other, by whoever asks.
    Off,
    /// By the file system's own means.
    FileSystem,
}

impl ActiveEngine {
    /// "uring", "pool", "off" or "file system".
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

/// What the choice depends on.
#[derive(Clone, Debug)]
pub struct AsyncReadOptions {
    /// How reads are to be carried out.
    pub engine: ReadEngine,
    /// How many threads a pool has at most. They exist only while there is something to read.
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

/// What was asked of devices so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Reads.
    pub reads: u64,
    /// Those that were not made because another one, under way, had the bytes.
    pub joined: u64,
    /// Bytes of these, those that alignment asked for included.
    pub bytes: u64,
    /// Flushes that had something to begin.
    pub rounds: u64,
    /// Reads that are not completed, orphans included.
    pub under_way: u64,
    /// Reads that the engine could not do and positional reads did.
    pub elsewhere: u64,
    /// Rings that could not be had although the first one could: reads of these calls were done by threads.
    pub lost_rings: u64,
}

/// How a database's reads are carried out; clones are handles of one.
#[derive(Clone)]
pub struct AsyncReads {
    inner: Arc<Inner>,
}

struct Inner {
    engine: ActiveEngine,
    reason: String,
    shared: Arc<Shared>,
    /// What carries out the reads of sessions.
    backend: Arc<dyn ReadBackend>,
    /// What carries out the reads that a ring cannot do.
    pool: Arc<dyn ReadBackend>,
    /// Where calls get rings from; also the backend then.
    rings: Option<Arc<Uring>>,
    fallbacks: Fallbacks,
    next: AtomicU64,
    process: u32,
}

/// Of reads that rings should have made and did not, it is told at most so often.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Who is told of such reads, and of how many was told.
#[derive(Default)]
struct Fallbacks {
    listener: OnceLock<Box<dyn Fn() + Send + Sync>>,
    told: AtomicU64,
    told_at: Mutex<Option<Duration>>,
}

impl Fallbacks {
    /// Tells that there were `count` by now, unless somebody was told a while ago.
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
    /// Chooses how the reads of files of `fs` are carried out. `probe` is a file that is there and can be read, if only
    /// in part, to try on it.
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
            .map_err(|error| format!("the file to try on cannot be opened: {error}"))
            .and_then(|file| Uring::new(&file, old, Arc::clone(&pool), &clock));
        match rings {
            Ok(rings) => Self::with_rings(Arc::new(rings), pool, clock),
            Err(reason) => Self::new(ActiveEngine::Pool, &reason, pool, clock),
        }
    }

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

    /// Reads by at most `threads` threads.
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

    /// Reads one after the other, by whoever asks.
    #[must_use]
    pub fn off() -> Self {
        let clock = Arc::new(SystemClock);
        Self::new(ActiveEngine::Off, "as asked for", Arc::new(InPlace), clock)
    }

    /// Reads by `backend`.
    #[must_use]
    pub fn with_backend(backend: Arc<dyn ReadBackend>, clock: Arc<dyn Clock>) -> Self {
        Self::new(
            ActiveEngine::FileSystem,
            "the file system's own",
            backend,
            clock,
        )
    }

    fn new(
        engine: ActiveEngine,
        reason: &str,
        backend: Arc<dyn ReadBackend>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let pool = Arc::clone(&backend);
        Self::of_parts(engine, reason, backend, pool, None, clock)
    }

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

    /// How reads are carried out.
    #[must_use]
    pub fn engine(&self) -> ActiveEngine {
        self.inner.engine
    }

    /// Why so.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.inner.reason
    }

    /// Whether reads overlap. If not, an operation does best to read what it misses one after the other.
    #[must_use]
    pub fn is_parallel(&self) -> bool {
        self.inner.backend.caps().parallel
    }

    /// The clock of deadlines and latencies.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.shared.clock
    }

    /// A driver for one call on this thread, which finishes what it starts and has no deadline.
    #[must_use]
    pub fn inline(&self) -> InlineReads {
        InlineReads::new(self.clone())
    }

    /// A driver whose reads may outlive the call, the thread, and the driver itself.
    #[must_use]
    pub fn shared(&self) -> ReadSession {
        ReadSession::new(self.clone())
    }

    /// For a thread that is about to wait for what [`ReadSession::push_then`] was told to do, until `until` at most: a
    /// backend without threads of its own makes progress. False if there is no need.
    #[must_use]
    pub fn drive(&self, until: Option<Duration>) -> bool {
        self.backend().drive(until)
    }

    /// What was asked of devices so far, by all threads; exact when nothing is under way.
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

    pub(super) fn shared_state(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    pub(super) fn next_id(&self) -> OpId {
        OpId(self.inner.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn note_round(&self) {
        let counts = &self.inner.shared.counts;
        counts.rounds.fetch_add(1, Ordering::Relaxed);
        if let Some(rings) = &self.inner.rings {
            let count = rings.failures() + counts.elsewhere.load(Ordering::Relaxed);
            if count != self.inner.fallbacks.told.load(Ordering::Relaxed) {
                self.inner.fallbacks.tell(count, self.clock().now());
            }
        }
    }

    /// From now on `listener` is called when a ring could not be had or lost, or a read had to be made by a thread instead:
    /// with the reads that are begun next, and at most once a minute. It is called by a thread that reads, which must not be
    /// kept waiting; [`AsyncReads::counts`] says how many there were. Only the first listener counts.
    pub fn on_fallback(&self, listener: impl Fn() + Send + Sync + 'static) {
        let _ = self.inner.fallbacks.listener.set(Box::new(listener));
    }

    /// Whether this is a child of the process that chose: its threads are not here, and its rings are not ours.
    pub(super) fn is_forked(&self) -> bool {
        std::process::id() != self.inner.process
    }

    /// A ring of the calling thread, if reads are by rings and one is to be had.
    pub(super) fn lease(&self) -> Option<Lease> {
        let rings = self.inner.rings.as_ref()?;
        if self.is_forked() {
            None
        } else {
            rings.lease()
        }
    }

    pub(super) fn pool_backend(&self) -> &dyn ReadBackend {
        &*self.inner.pool
    }

    pub(super) fn backend(&self) -> &dyn ReadBackend {
        if self.is_forked() {
            &InPlace
        } else {
            &*self.inner.backend
        }
    }
}

impl Drop for Inner {
    /// In a forked child, the threads to wait for are not there, and what they had locked stays so.
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
