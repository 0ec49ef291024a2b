//! Counters and distributions, under RocksDB's names.
//!
//! A [`Statistics`] is a handle that databases, tables and caches add to: [`Ticker`]s are sums,
//! [`HistogramKind`]s are distributions over RocksDB's buckets, so that percentiles agree with it.
//!
//! Each thread writes to memory of its own, padded to cache lines, by plain loads and stores; nobody else
//! writes there, so counting costs no read-modify-write and moves no line between cores. Whoever asks for
//! totals adds up the threads; a thread that ends leaves its sums behind. Totals are exact once the threads
//! that counted have been joined, and up to date within an instant otherwise.

mod histogram;
mod names;
mod slot;
mod statistics;

pub use histogram::HistogramData;
pub use names::{HistogramKind, Ticker};
pub use statistics::{Statistics, StatisticsSnapshot};
