//! A snapshot of a histogram, and its figures.

use crate::buckets::{BUCKET_COUNT, BUCKET_LIMITS, lower_limit, percentile};

/// A snapshot of a histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramData {
    /// The number of recorded values.
    pub count: u64,
    /// The sum of the recorded values.
    pub sum: u64,
    /// The smallest recorded value; 0 if there is none.
    pub min: u64,
    /// The largest recorded value; 0 if there is none.
    pub max: u64,
    pub(super) sum_of_squares: f64,
    pub(super) buckets: [u64; BUCKET_COUNT],
}

impl HistogramData {
    pub(super) const EMPTY: HistogramData = HistogramData {
        count: 0,
        sum: 0,
        min: 0,
        max: 0,
        sum_of_squares: 0.0,
        buckets: [0; BUCKET_COUNT],
    };

    /// The arithmetic mean; 0 if there is no value.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an average")]
    pub fn average(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        self.sum as f64 / self.count as f64
    }

    /// The standard deviation; 0 if there is no value.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an average")]
    pub fn standard_deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let average = self.average();
        let variance = self.sum_of_squares / self.count as f64 - average * average;
        variance.max(0.0).sqrt()
    }

    /// The 50th percentile.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// Returns the value at or below which `percent` of all values lie; 0 if there is no value.
    ///
    /// It is interpolated within its bucket.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        percentile(percent, &self.buckets, self.count, self.min, self.max)
    }

    /// Returns the non-empty buckets: exclusive lower limit, upper limit, count.
    ///
    /// The lower limit of the first bucket, 0, is inclusive.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let held = self.buckets.iter().enumerate();
        held.filter(|&(_, &count)| count > 0)
            .map(|(bucket, &count)| (lower_limit(bucket), BUCKET_LIMITS[bucket], count))
    }

    /// Adds the values of `other` to this histogram.
    pub(super) fn merge(&mut self, other: &HistogramData) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.sum_of_squares += other.sum_of_squares;
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
    }

    /// The values recorded since `earlier`, a snapshot of the same histogram.
    ///
    /// The minimum and maximum are only as precise as their buckets.
    pub(super) fn since(&self, earlier: &HistogramData) -> HistogramData {
        let mut delta = self.clone();
        for (mine, before) in delta.buckets.iter_mut().zip(&earlier.buckets) {
            *mine = mine.saturating_sub(*before);
        }
        delta.count = delta.buckets.iter().sum();
        delta.sum = self.sum.wrapping_sub(earlier.sum);
        delta.sum_of_squares = (self.sum_of_squares - earlier.sum_of_squares).max(0.0);
        let held = |&count: &u64| count > 0;
        match (
            delta.buckets.iter().position(held),
            delta.buckets.iter().rposition(held),
        ) {
            (Some(first), Some(last)) => {
                delta.min = self.min.max(lower_limit(first));
                if last < BUCKET_COUNT - 1 {
                    delta.max = self.max.min(BUCKET_LIMITS[last]);
                }
            }
            _ => return HistogramData::EMPTY,
        }
        delta
    }
}
