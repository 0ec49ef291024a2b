//! The counters of one thread.
//!
//! Invariant: only the owning thread stores. Any thread loads.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::histogram::HistogramData;
use super::names::{HistogramKind, Ticker};
use crate::buckets::{BUCKET_COUNT, bucket_of};

/// One thread's counters for one [`Statistics`](super::Statistics), on cache lines of their own.
#[repr(align(128))]
pub(super) struct Slot {
    tickers: [AtomicU64; Ticker::COUNT],
    /// The thread's histograms, each created by its first value: a thread uses few kinds.
    histograms: [OnceLock<Box<Cells>>; HistogramKind::COUNT],
    /// Whether a reset has retired the slot: the owning thread then creates a new one.
    retired: AtomicBool,
}

/// One thread's part of a histogram.
struct Cells {
    buckets: [AtomicU64; BUCKET_COUNT],
    sum: AtomicU64,
    /// The sum of squares as the bits of a float, because it overflows integers.
    sum_of_squares: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

impl Slot {
    pub(super) fn new() -> Self {
        Slot {
            tickers: [const { AtomicU64::new(0) }; Ticker::COUNT],
            histograms: [const { OnceLock::new() }; HistogramKind::COUNT],
            retired: AtomicBool::new(false),
        }
    }

    /// Adds `count` to this thread's part of a ticker.
    #[inline]
    pub(super) fn add(&self, ticker: Ticker, count: u64) {
        add(&self.tickers[ticker.index()], count);
    }

    /// Records a value in a histogram, which the first value allocates.
    #[inline]
    pub(super) fn record(&self, kind: HistogramKind, value: u64) {
        self.histograms[kind.index()]
            .get_or_init(|| Box::new(Cells::new()))
            .record(value);
    }

    /// Whether a reset has retired the slot, so that its thread needs a new one.
    #[inline]
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Marks the slot as retired by a reset; its thread then creates a new one.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Returns this thread's part of a ticker.
    pub(super) fn ticker(&self, ticker: Ticker) -> u64 {
        self.tickers[ticker.index()].load(Ordering::Relaxed)
    }

    /// Adds this thread's part of a histogram to `total`.
    pub(super) fn merge_into(&self, kind: HistogramKind, total: &mut HistogramData) {
        if let Some(cells) = self.histograms[kind.index()].get() {
            total.merge(&cells.load());
        }
    }
}

impl Cells {
    fn new() -> Self {
        Cells {
            buckets: [const { AtomicU64::new(0) }; BUCKET_COUNT],
            sum: AtomicU64::new(0),
            sum_of_squares: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        }
    }

    /// Records a value; only the thread that owns the slot calls this.
    #[expect(clippy::cast_precision_loss, reason = "for a standard deviation")]
    fn record(&self, value: u64) {
        if value < self.min.load(Ordering::Relaxed) {
            self.min.store(value, Ordering::Relaxed);
        }
        if value > self.max.load(Ordering::Relaxed) {
            self.max.store(value, Ordering::Relaxed);
        }
        add(&self.sum, value);
        let squares = f64::from_bits(self.sum_of_squares.load(Ordering::Relaxed));
        let square = value as f64 * value as f64;
        self.sum_of_squares
            .store((squares + square).to_bits(), Ordering::Relaxed);
        add(&self.buckets[bucket_of(value)], 1);
    }

    /// Loads the histogram; concurrent records may be included in part.
    fn load(&self) -> HistogramData {
        let buckets = std::array::from_fn(|i| self.buckets[i].load(Ordering::Relaxed));
        HistogramData {
            count: buckets.iter().sum(),
            sum: self.sum.load(Ordering::Relaxed),
            min: self.min.load(Ordering::Relaxed),
            max: self.max.load(Ordering::Relaxed),
            sum_of_squares: f64::from_bits(self.sum_of_squares.load(Ordering::Relaxed)),
            buckets,
        }
    }
}

/// Adds to a cell that no other thread stores to.
#[inline]
fn add(cell: &AtomicU64, count: u64) {
    let value = cell.load(Ordering::Relaxed);
    cell.store(value.wrapping_add(count), Ordering::Relaxed);
}
