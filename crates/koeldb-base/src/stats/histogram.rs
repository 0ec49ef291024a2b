//! Histograms over buckets whose limits grow by half, rounded down to two digits.
//!
//! Limits and interpolation follow RocksDB `monitoring/histogram.cc`, release 11.9.

/// The number of buckets of a histogram.
pub const BUCKET_COUNT: usize = 109;

/// The largest value of each bucket: 1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110, 170, …
pub const BUCKET_LIMITS: [u64; BUCKET_COUNT] = limits();

/// The first bucket for values of each bit length, indexed by that length.
const FIRST_OF_BITS: [usize; 65] = first_of_bits();

/// Computes the upper limits of the buckets, as RocksDB's `HistogramBucketMapper`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the limits are whole numbers rounded down, by definition"
)]
const fn limits() -> [u64; BUCKET_COUNT] {
    let mut limits = [0; BUCKET_COUNT];
    limits[0] = 1;
    limits[1] = 2;
    let mut exact = 2.0_f64;
    let mut i = 2;
    while i < BUCKET_COUNT {
        exact *= 1.5;
        let mut digits = exact as u64;
        let mut scale = 1;
        while digits / 10 > 10 {
            digits /= 10;
            scale *= 10;
        }
        limits[i] = digits * scale;
        i += 1;
    }
    limits
}

/// Computes, for each bit length, the first bucket that may hold a value of that length.
const fn first_of_bits() -> [usize; 65] {
    let mut first = [0; 65];
    let mut bits = 1;
    while bits <= 64 {
        let smallest = 1_u64 << (bits - 1);
        let mut bucket = first[bits - 1];
        while bucket < BUCKET_COUNT - 1 && BUCKET_LIMITS[bucket] < smallest {
            bucket += 1;
        }
        first[bits] = bucket;
        bits += 1;
    }
    first
}

/// The bucket of `value`; the last bucket also holds values beyond its limit.
#[inline]
#[must_use]
pub fn bucket_of(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    let mut bucket = FIRST_OF_BITS[bits as usize];
    while bucket < BUCKET_COUNT - 1 && BUCKET_LIMITS[bucket] < value {
        bucket += 1;
    }
    bucket
}

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

    /// The value at or below which `percent` of all values lie, interpolated within its bucket; 0
    /// if empty.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an interpolation")]
    pub fn percentile(&self, percent: f64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let threshold = self.count as f64 * (percent / 100.0);
        let mut below = 0_u64;
        for (bucket, &held) in self.buckets.iter().enumerate() {
            let up_to = below + held;
            if up_to as f64 >= threshold {
                let left = lower_limit(bucket) as f64;
                let right = BUCKET_LIMITS[bucket] as f64;
                let share = if held == 0 {
                    0.0
                } else {
                    (threshold - below as f64) / held as f64
                };
                let value = left + (right - left) * share;
                return value.max(self.min as f64).min(self.max as f64);
            }
            below = up_to;
        }
        self.max as f64
    }

    /// The non-empty buckets: lower limit (exclusive, except the first bucket's 0), upper limit,
    /// count.
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

/// The upper limit of the preceding bucket; 0 for the first bucket.
#[must_use]
pub fn lower_limit(bucket: usize) -> u64 {
    bucket
        .checked_sub(1)
        .map_or(0, |previous| BUCKET_LIMITS[previous])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_grow_by_half_with_two_digits() {
        assert_eq!(
            BUCKET_LIMITS[..14],
            [1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110, 170, 250]
        );
        assert!(BUCKET_LIMITS.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(
            2.0 * 1.5_f64.powi(108) > u64::MAX as f64,
            "no bucket is missing"
        );
    }

    proptest! {
        #[test]
        fn values_fall_into_the_first_bucket_that_holds_them(value: u64, shift in 0..64_u32) {
            let value = value >> shift;
            let expected = BUCKET_LIMITS.partition_point(|&limit| limit < value).min(BUCKET_COUNT - 1);
            prop_assert_eq!(bucket_of(value), expected);
        }
    }
}
