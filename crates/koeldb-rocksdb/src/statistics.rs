//! Counters and distributions, with RocksDB's names.

use std::fmt;

pub use crate::histogram::Histogram;
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

/// The statistics that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum StatsLevel {
    /// None.
    DisableAll = 0,
    /// No distributions and no times.
    ExceptHistogramOrTimers = 2,
    /// No times.
    ExceptTimers,
    /// No times of locks and codecs.
    ExceptDetailedTimers,
    /// No times of locks.
    ExceptTimeForMutex,
    /// All.
    All,
}

impl From<StatsLevel> for koeldb::statistics::StatsLevel {
    fn from(level: StatsLevel) -> Self {
        use koeldb::statistics::StatsLevel as Level;
        match level {
            StatsLevel::DisableAll => Level::DisableAll,
            StatsLevel::ExceptHistogramOrTimers => Level::ExceptHistogramOrTimers,
            StatsLevel::ExceptTimers => Level::ExceptTimers,
            StatsLevel::ExceptDetailedTimers => Level::ExceptDetailedTimers,
            StatsLevel::ExceptTimeForMutex => Level::ExceptTimeForMutex,
            StatsLevel::All => Level::All,
        }
    }
}

/// A distribution.
pub struct HistogramData {
    data: Option<koeldb::statistics::HistogramData>,
}

impl From<koeldb::statistics::HistogramData> for HistogramData {
    fn from(data: koeldb::statistics::HistogramData) -> Self {
        HistogramData { data: Some(data) }
    }
}

impl Default for HistogramData {
    fn default() -> Self {
        Self::new()
    }
}

/// The nearest floating-point number.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn float(number: u64) -> f64 {
    number as f64
}

/// Declares figures of a distribution; 0 if it is empty.
macro_rules! figures {
    ($(#[doc = $doc:literal] $figure:ident = |$data:ident| $value:expr;)*) => {$(
        #[doc = $doc]
        #[must_use]
        pub fn $figure(&self) -> f64 {
            self.data.as_ref().map_or(0.0, |$data| $value)
        }
    )*};
}

impl HistogramData {
    /// Creates an empty distribution.
    #[must_use]
    pub fn new() -> HistogramData {
        HistogramData { data: None }
    }

    figures! {
        /// The median.
        median = |data| data.median();
        /// The arithmetic mean.
        average = |data| data.average();
        /// The 95th percentile.
        p95 = |data| data.percentile(95.0);
        /// The 99th percentile.
        p99 = |data| data.percentile(99.0);
        /// The largest value.
        max = |data| float(data.max);
        /// The smallest value.
        min = |data| float(data.min);
        /// The standard deviation.
        std_dev = |data| data.standard_deviation();
    }

    /// The sum of the values.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.data.as_ref().map_or(0, |data| data.sum)
    }

    /// The number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.data.as_ref().map_or(0, |data| data.count)
    }
}
