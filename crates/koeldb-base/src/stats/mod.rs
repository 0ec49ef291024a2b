//! Tickers and histograms, under RocksDB's names.
//!
//! A [`Statistics`] is a handle that databases, tables and caches add to: [`Ticker`]s are sums,
//! [`HistogramKind`]s are distributions over RocksDB's buckets, so that percentiles agree with it.
//!
//! Each thread writes to its own memory, padded to cache lines, with plain loads and stores. No
//! other thread writes there, so counting costs no read-modify-write and moves no line between
//! cores. A reader sums over all threads; a thread that ends leaves its sums behind. Totals are
//! exact once the counting threads have been joined, and otherwise lag only by the propagation of a
//! store.

mod histogram;
mod level;
mod names;
mod slot;
mod statistics;
mod stopwatch;

pub use crate::buckets::{BUCKET_COUNT, BUCKET_LIMITS, bucket_of, lower_limit};
pub use histogram::HistogramData;
pub use level::StatsLevel;
pub use names::{HistogramKind, Ticker};
pub use statistics::{Statistics, StatisticsSnapshot};
pub use stopwatch::Stopwatch;
