//! Counters and distributions, with RocksDB's names.

pub use crate::histogram::Histogram;
use crate::mirrors::mirrors;
pub use crate::names::NameParseError;
pub use crate::ticker::Ticker;

mirrors! {
    /// The level of detail of the statistics (`StatsLevel`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(i32)]
    pub enum StatsLevel = koeldb::statistics::StatsLevel {
        /// None.
        DisableAll = 0,
        /// No distributions and no times.
        ExceptHistogramOrTimers = 2,
        /// No times.
        ExceptTimers,
        /// No times of locks and compression.
        ExceptDetailedTimers,
        /// No times of locks.
        ExceptTimeForMutex,
        /// All.
        All,
    }
}

/// The summary of a histogram: median, percentiles, average and counts.
#[derive(Default)]
pub struct HistogramData {
    data: Option<koeldb::statistics::HistogramData>,
}

impl From<koeldb::statistics::HistogramData> for HistogramData {
    fn from(data: koeldb::statistics::HistogramData) -> Self {
        HistogramData { data: Some(data) }
    }
}

/// Converts an integer to the nearest floating-point number.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn float(number: u64) -> f64 {
    number as f64
}

/// Declares figures of a distribution; 0 if it is empty.
macro_rules! figures {
    ($(#[doc = $doc:literal] $figure:ident: $type:ty = |$data:ident| $value:expr;)*) => {$(
        #[doc = $doc]
        #[must_use]
        pub fn $figure(&self) -> $type {
            self.data.as_ref().map_or(<$type>::default(), |$data| $value)
        }
    )*};
}

impl HistogramData {
    /// Creates the summary of an empty histogram.
    #[must_use]
    pub fn new() -> HistogramData {
        HistogramData::default()
    }

    figures! {
        /// The median.
        median: f64 = |data| data.median();
        /// The arithmetic mean.
        average: f64 = |data| data.average();
        /// The 95th percentile.
        p95: f64 = |data| data.percentile(95.0);
        /// The 99th percentile.
        p99: f64 = |data| data.percentile(99.0);
        /// The largest value.
        max: f64 = |data| float(data.max);
        /// The smallest value.
        min: f64 = |data| float(data.min);
        /// The standard deviation.
        std_dev: f64 = |data| data.standard_deviation();
        /// The sum of the values.
        sum: u64 = |data| data.sum;
        /// The number of values.
        count: u64 = |data| data.count;
    }
}
