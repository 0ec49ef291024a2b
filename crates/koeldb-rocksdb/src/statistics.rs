//! Counters and distributions, with RocksDB's names.

use std::fmt;

pub use crate::histogram::Histogram;
use crate::options::mirrors;
pub use crate::ticker::Ticker;

/// The error for a name that is not known.
#[derive(Clone, Debug)]
pub struct NameParseError;

impl fmt::Display for NameParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unrecognized name")
    }
}

impl std::error::Error for NameParseError {}

/// Declares an enum of names.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $Type:ident { $($Variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Type {$(
            #[doc = concat!("`", $name, "`.")]
            $Variant,
        )*}

        impl $Type {
            /// RocksDB's name.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $($Type::$Variant => $name,)*
                }
            }

            /// All of them.
            pub fn iter() -> std::slice::Iter<'static, $Type> {
                const ALL: &[$Type] = &[$($Type::$Variant,)*];
                ALL.iter()
            }
        }

        impl std::str::FromStr for $Type {
            type Err = $crate::statistics::NameParseError;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let found = Self::iter().find(|known| known.name() == name);
                found.copied().ok_or($crate::statistics::NameParseError)
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use named;

mirrors! {
    /// The statistics that are kept.
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

/// A distribution.
#[derive(Default)]
pub struct HistogramData {
    data: Option<koeldb::statistics::HistogramData>,
}

impl From<koeldb::statistics::HistogramData> for HistogramData {
    fn from(data: koeldb::statistics::HistogramData) -> Self {
        HistogramData { data: Some(data) }
    }
}

/// The nearest floating-point number.
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
    /// Creates an empty distribution.
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
