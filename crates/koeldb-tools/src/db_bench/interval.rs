//! Samples of a running benchmark: a thread counts the operations of each interval.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use koeldb_fs::clock::{Clock, SystemClock};

use super::plan::{Failure, Outcome};

/// A thread that passes the operations counted in each time interval to a callback until stopped.
pub(crate) struct Sampler<T> {
    shared: Arc<Shared>,
    thread: JoinHandle<std::io::Result<T>>,
}

/// The stop signal between a [`Sampler`] and its thread.
#[derive(Debug, Default)]
struct Shared {
    stopped: Mutex<bool>,
    stop: Condvar,
}

impl<T: Send + 'static> Sampler<T> {
    /// Starts the thread, which passes state, time and operation count of intervals to `sample`.
    ///
    /// After each `interval`, `sample` receives `state`, the time since the start and the operations
    /// that were added to `ops` in the interval. A failure of it ends the thread.
    pub(crate) fn start(
        ops: Arc<AtomicU64>,
        interval: Duration,
        mut state: T,
        mut sample: impl FnMut(&mut T, Duration, u64) -> std::io::Result<()> + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let thread = std::thread::spawn(move || {
            let start = SystemClock.now();
            let mut before = 0;
            while of_thread.wait(interval) {
                let now = ops.load(Ordering::Relaxed);
                let elapsed = SystemClock.now().saturating_sub(start);
                sample(&mut state, elapsed, now - before)?;
                before = now;
            }
            Ok(state)
        });
        Sampler { shared, thread }
    }

    /// Stops the thread and returns the callback's state; the unfinished interval is dropped.
    pub(crate) fn stop(self) -> Outcome<T> {
        let stopped = self.shared.stopped.lock();
        *stopped.unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.stop.notify_all();
        match self.thread.join() {
            Ok(sampled) => {
                sampled.map_err(|error| Failure::of("Can't write to report file", &error))
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Shared {
    /// Waits for the end of an interval; returns `false` if the thread is to stop.
    fn wait(&self, interval: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .stop
            .wait_timeout_while(stopped, interval, |stopped| !*stopped);
        let (stopped, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !*stopped
    }
}
