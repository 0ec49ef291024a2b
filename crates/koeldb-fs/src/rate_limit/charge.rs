//! A use of a rate limiter at one priority, with its statistics, and a file that is charged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koeldb_base::Result;
use koeldb_base::stats::{HistogramKind, Statistics, Ticker};

use super::{IoKind, IoPriority, RateLimiter};
use crate::file::WritableFile;

/// The number of bytes of a file that are charged together.
const PIECE_BYTES: u64 = 64 << 10;

/// A rate limiter with the priority, kind and statistics of the requests charged to it.
#[derive(Clone, Debug)]
pub struct IoCharge {
    limiter: RateLimiter,
    priority: IoPriority,
    kind: IoKind,
    /// A flag: while it is set, requests have the priority `User`.
    urgent: Option<Arc<AtomicBool>>,
    statistics: Option<Statistics>,
}

impl IoCharge {
    /// Creates the charge of requests of this kind; `None` if the limiter does not limit them.
    #[must_use]
    pub fn new(
        limiter: &RateLimiter,
        priority: IoPriority,
        kind: IoKind,
        statistics: Option<&Statistics>,
    ) -> Option<Self> {
        limiter.limits(kind).then(|| IoCharge {
            limiter: limiter.clone(),
            priority,
            kind,
            urgent: None,
            statistics: statistics.cloned(),
        })
    }

    /// Raises the requests to the priority `User` while `urgent` is set.
    #[must_use]
    pub fn raised_by(mut self, urgent: &Arc<AtomicBool>) -> Self {
        self.urgent = Some(Arc::clone(urgent));
        self
    }

    /// Requests `bytes` from the rate limiter, waits for the grant, and records the statistics.
    pub fn pay(&self, bytes: u64) {
        let is_urgent = |urgent: &Arc<AtomicBool>| urgent.load(Ordering::Relaxed);
        let priority = match self.urgent.as_ref().is_some_and(is_urgent) {
            true => IoPriority::User,
            false => self.priority,
        };
        let waited = self.limiter.request_counted(bytes, priority, self.kind);
        let Some(statistics) = &self.statistics else {
            return;
        };
        let [of_bytes, requests, delayed, wait] = match self.kind {
            IoKind::Read => [
                Ticker::RateLimiterBytesRead,
                Ticker::RateLimiterRequestsRead,
                Ticker::RateLimiterDelayedRequestsRead,
                Ticker::RateLimiterTotalWaitMicrosRead,
            ],
            IoKind::Write => [
                Ticker::RateLimiterBytesWrite,
                Ticker::RateLimiterRequestsWrite,
                Ticker::RateLimiterDelayedRequestsWrite,
                Ticker::RateLimiterTotalWaitMicrosWrite,
            ],
        };
        statistics.add_all(&[(of_bytes, bytes), (requests, 1)]);
        if waited.time.is_zero() {
            return;
        }
        let micros = u64::try_from(waited.time.as_micros()).unwrap_or(u64::MAX);
        statistics.add_all(&[
            (delayed, 1),
            (wait, micros),
            (Ticker::NumberRateLimiterDrains, waited.drains),
        ]);
        let histogram = match self.kind {
            IoKind::Read => HistogramKind::RateLimiterWaitMicrosRead,
            IoKind::Write => HistogramKind::RateLimiterWaitMicrosWrite,
        };
        statistics.record(histogram, micros);
    }
}

/// A file that requests its appended bytes from a rate limiter: every 64 KiB, and at flush or sync.
#[derive(Debug)]
pub struct LimitedFile {
    file: Box<dyn WritableFile>,
    charge: Arc<IoCharge>,
    /// The bytes that are not charged yet.
    owed: u64,
}

impl LimitedFile {
    /// Wraps `file`, whose appended bytes are charged to `charge`.
    #[must_use]
    pub fn new(file: Box<dyn WritableFile>, charge: Arc<IoCharge>) -> Self {
        LimitedFile {
            file,
            charge,
            owed: 0,
        }
    }

    /// Requests the appended bytes that were not charged yet from the rate limiter.
    fn pay(&mut self) {
        let owed = std::mem::take(&mut self.owed);
        if owed > 0 {
            self.charge.pay(owed);
        }
    }
}

impl WritableFile for LimitedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.owed += bytes.len() as u64;
        if self.owed >= PIECE_BYTES {
            self.pay();
        }
        self.file.append(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.pay();
        self.file.flush()
    }

    fn sync_data(&mut self) -> Result<()> {
        self.pay();
        self.file.sync_data()
    }

    fn sync_all(&mut self) -> Result<()> {
        self.pay();
        self.file.sync_all()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.pay();
        self.file.close()
    }
}
