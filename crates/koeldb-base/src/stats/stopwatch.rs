//! The time of one operation, for statistics.

use std::time::{Duration, Instant};

use super::names::HistogramKind;
use super::statistics::Statistics;

/// A running measurement of time (RocksDB: `StopWatch`).
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts a measurement.
    #[expect(
        clippy::disallowed_methods,
        reason = "the times are only reported, and no behaviour depends on them"
    )]
    #[must_use]
    pub fn start() -> Self {
        Stopwatch(Instant::now())
    }

    /// Starts a measurement if there are statistics.
    #[inline]
    #[must_use]
    pub fn start_for(statistics: Option<&Statistics>) -> Option<Self> {
        statistics.map(|_| Stopwatch::start())
    }

    /// The time since the start.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Records the time since the start, in microseconds, in a histogram.
    pub fn record(self, statistics: &Statistics, kind: HistogramKind) {
        statistics.record_micros(kind, self.elapsed());
    }
}
