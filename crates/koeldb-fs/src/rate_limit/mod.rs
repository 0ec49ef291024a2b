//! A limiter of the bytes per second of background jobs, and of reads and writes that ask for it.
//!
//! [`RateLimiter`] is a token bucket with queues by priority, which any number of databases share.
//! Tokens accrue continuously, up to those of one refill period, so that waits are spread over the
//! period instead of ending together (RocksDB: `util/rate_limiter.cc`, which refills at its end).
//! [`IoCharge`] is a use of a limiter at one priority, and [`LimitedFile`] a file whose appended
//! bytes are charged.
//!
//! One of the waiting threads sleeps until the next tokens accrue, and hands them out; the others
//! park. No lock of an engine may be held by a caller.

mod bucket;
mod charge;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use koeldb_base::sync::lock_plain as lock;

use crate::clock::{Clock, SystemClock};
use bucket::Bucket;
pub use charge::{IoCharge, LimitedFile};

/// The priority of a request to a [`RateLimiter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoPriority {
    /// The priority of compactions.
    Low,
    /// A priority between compactions and flushes, which the engine does not use.
    Mid,
    /// The priority of flushes.
    High,
    /// The priority served before all others. Flushes and compactions have it while writes are
    /// stalled.
    User,
}

impl IoPriority {
    /// The number of priorities.
    pub(crate) const COUNT: usize = 4;
    /// All priorities, lowest first.
    pub const ALL: [IoPriority; Self::COUNT] = [
        IoPriority::Low,
        IoPriority::Mid,
        IoPriority::High,
        IoPriority::User,
    ];
}

/// Whether bytes are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoKind {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// The requests that a [`RateLimiter`] limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RateLimiterMode {
    /// Reads.
    Reads,
    /// Writes.
    #[default]
    Writes,
    /// Reads and writes, which share the rate.
    All,
}

/// A limiter of bytes per second; clones are handles to the same limiter.
///
/// With [`Options::set_rate_limiter`](https://docs.rs/koeldb) it limits flushes (`High`) and
/// compactions (`Low`) of all databases that share it. Reads and log writes are charged only with
/// `rate_limiter_priority` in their options.
///
/// ```
/// use std::time::Duration;
/// use koeldb_fs::rate_limit::RateLimiter;
///
/// let limiter = RateLimiter::builder(20 << 20)
///     .refill_period(Duration::from_millis(50))
///     .auto_tuned(true)
///     .build();
/// limiter.set_bytes_per_second(40 << 20);
/// ```
#[derive(Clone)]
pub struct RateLimiter {
    shared: Arc<Shared>,
}

/// The state shared by the clones of a limiter.
struct Shared {
    clock: Arc<dyn Clock>,
    mode: RateLimiterMode,
    bucket: Mutex<Bucket>,
    /// The signal for granted requests, and for the end of the sleep of the thread that waits for
    /// tokens.
    granted: Condvar,
}

/// The time that a request waited, and the drained refill periods that it reports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waited {
    pub(crate) time: Duration,
    /// The number of periods in which requests had to wait and which no other request has reported.
    pub(crate) drains: u64,
}

/// The settings of a new [`RateLimiter`].
#[derive(Clone)]
pub struct RateLimiterBuilder {
    bytes_per_second: u64,
    refill_period: Duration,
    fairness: u32,
    mode: RateLimiterMode,
    auto_tuned: bool,
    single_burst_bytes: u64,
    clock: Arc<dyn Clock>,
}

impl RateLimiterBuilder {
    /// Sets the refill period, whose tokens may accumulate. At least 1 ms; default: 100 ms.
    ///
    /// A longer period permits longer bursts.
    #[must_use]
    pub fn refill_period(mut self, period: Duration) -> Self {
        self.refill_period = period.max(Duration::from_millis(1));
        self
    }

    /// Sets how often lower priorities go before higher ones: one time in `fairness`.
    ///
    /// So they never starve. 1 to 100; default: 10. `User` is always served first.
    #[must_use]
    pub fn fairness(mut self, fairness: u32) -> Self {
        self.fairness = fairness.clamp(1, 100);
        self
    }

    /// Sets which requests are limited; default: writes.
    #[must_use]
    pub fn mode(mut self, mode: RateLimiterMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets whether the rate adapts to the demand, from a twentieth up to all of the given rate.
    ///
    /// It starts at half of the given rate. Every 100 periods it grows by 5 % if requests had to
    /// wait in more than 90 % of the periods, and falls by 5 % if in less than half of them.
    #[must_use]
    pub fn auto_tuned(mut self, on: bool) -> Self {
        self.auto_tuned = on;
        self
    }

    /// Sets the bytes of the largest undivided request; 0, the default, is those of one period.
    #[must_use]
    pub fn single_burst_bytes(mut self, bytes: u64) -> Self {
        self.single_burst_bytes = bytes;
        self
    }

    /// Sets the clock that time is measured with; default: that of the machine.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Creates the limiter.
    #[must_use]
    pub fn build(self) -> RateLimiter {
        let bucket = Bucket::new(&self, self.clock.now());
        RateLimiter {
            shared: Arc::new(Shared {
                clock: self.clock,
                mode: self.mode,
                bucket: Mutex::new(bucket),
                granted: Condvar::new(),
            }),
        }
    }
}

impl RateLimiter {
    /// Creates a limiter of writes with this rate in bytes per second, at least 1.
    ///
    /// It has default settings.
    #[must_use]
    pub fn new(bytes_per_second: u64) -> Self {
        Self::builder(bytes_per_second).build()
    }

    /// Creates the settings of a limiter with this rate in bytes per second, at least 1.
    #[must_use]
    pub fn builder(bytes_per_second: u64) -> RateLimiterBuilder {
        RateLimiterBuilder {
            bytes_per_second: bytes_per_second.max(1),
            refill_period: Duration::from_millis(100),
            fairness: 10,
            mode: RateLimiterMode::default(),
            auto_tuned: false,
            single_burst_bytes: 0,
            clock: Arc::new(SystemClock),
        }
    }

    /// Locks the token bucket.
    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        lock(&self.shared.bucket)
    }

    /// The current rate in bytes per second.
    #[must_use]
    pub fn bytes_per_second(&self) -> u64 {
        self.bucket().rate()
    }

    /// Changes the rate in bytes per second, at least 1; also the maximum of an auto-tuned limiter.
    ///
    /// Waiting requests get tokens at the new rate, at the latest after the sleep of one period.
    pub fn set_bytes_per_second(&self, bytes: u64) {
        let now = self.shared.clock.now();
        self.bucket().set_rate(bytes.max(1), now);
    }

    /// The bytes of the largest request that is not divided.
    #[must_use]
    pub fn single_burst_bytes(&self) -> u64 {
        self.bucket().burst_bytes()
    }

    /// Changes the bytes of the largest request that is not divided; 0: those of one period.
    pub fn set_single_burst_bytes(&self, bytes: u64) {
        self.bucket().set_burst_bytes(bytes);
    }

    /// The requests that are limited.
    #[must_use]
    pub fn mode(&self) -> RateLimiterMode {
        self.shared.mode
    }

    /// Whether requests of this kind are limited.
    #[must_use]
    pub fn limits(&self, kind: IoKind) -> bool {
        match self.shared.mode {
            RateLimiterMode::Reads => kind == IoKind::Read,
            RateLimiterMode::Writes => kind == IoKind::Write,
            RateLimiterMode::All => true,
        }
    }

    /// The bytes granted so far, of one priority or of all.
    #[must_use]
    pub fn total_bytes_through(&self, priority: impl Into<Option<IoPriority>>) -> u64 {
        self.bucket().total(priority.into(), |of| of.bytes)
    }

    /// The number of requests so far, of one priority or of all.
    #[must_use]
    pub fn total_requests(&self, priority: impl Into<Option<IoPriority>>) -> u64 {
        self.bucket().total(priority.into(), |of| of.requests)
    }

    /// The number of requests that wait, of one priority or of all.
    #[must_use]
    pub fn pending_requests(&self, priority: impl Into<Option<IoPriority>>) -> u64 {
        self.bucket().pending(priority.into())
    }

    /// Requests `bytes` from the limiter, waits until they are granted, and returns the wait.
    ///
    /// It returns immediately if requests of this kind are not limited. The caller should hold no
    /// lock that others need.
    pub fn request(&self, bytes: u64, priority: IoPriority, kind: IoKind) -> Duration {
        self.request_counted(bytes, priority, kind).time
    }

    /// Requests `bytes` in pieces of at most one burst, and returns the time waited.
    pub(crate) fn request_counted(&self, bytes: u64, priority: IoPriority, kind: IoKind) -> Waited {
        let mut waited = Waited::default();
        let mut left = if self.limits(kind) { bytes } else { 0 };
        while left > 0 {
            let mut bucket = self.bucket();
            let piece = left.min(bucket.burst_bytes());
            left -= piece;
            let now = self.shared.clock.now();
            if bucket.grant(now) {
                self.shared.granted.notify_all();
            }
            if let Some(id) = bucket.request(piece, priority, now) {
                let more = self.wait(bucket, priority, id);
                waited.time += more.time;
                waited.drains += more.drains;
            }
        }
        waited
    }

    /// Waits until a queued request is granted.
    #[cold]
    fn wait<'a>(
        &'a self,
        mut bucket: MutexGuard<'a, Bucket>,
        priority: IoPriority,
        id: u64,
    ) -> Waited {
        let clock = &*self.shared.clock;
        let begun = clock.now();
        loop {
            if bucket.grant(clock.now()) {
                self.shared.granted.notify_all();
            }
            if !bucket.is_queued(priority, id) {
                // Another waiting thread takes over the sleep.
                self.shared.granted.notify_all();
                return Waited {
                    time: clock.now().saturating_sub(begun),
                    drains: bucket.take_drains(),
                };
            }
            if bucket.is_timed {
                let woken = self.shared.granted.wait(bucket);
                bucket = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            bucket.is_timed = true;
            let pause = bucket.until_next_grant();
            drop(bucket);
            clock.sleep(pause);
            bucket = self.bucket();
            bucket.is_timed = false;
        }
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter")
            .field("bytes_per_second", &self.bytes_per_second())
            .field("mode", &self.shared.mode)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
