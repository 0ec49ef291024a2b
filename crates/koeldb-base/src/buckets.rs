//! Histogram buckets whose limits grow by half, rounded down to two digits.
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

/// Returns the index of the bucket for `value`; the last one also holds values beyond its limit.
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

/// Returns a percentile of `count` values in `buckets`, interpolated as in RocksDB's histograms.
///
/// It is the value at or below which `percent` of the values lie, interpolated within its bucket
/// and limited to the smallest and the largest value; 0 if there is no value.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "an interpolation")]
pub fn percentile(
    percent: f64,
    buckets: &[u64; BUCKET_COUNT],
    count: u64,
    min: u64,
    max: u64,
) -> f64 {
    if count == 0 {
        return 0.0;
    }
    let threshold = count as f64 * (percent / 100.0);
    let mut below = 0_u64;
    for (bucket, &held) in buckets.iter().enumerate() {
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
            return value.max(min as f64).min(max as f64);
        }
        below = up_to;
    }
    max as f64
}

/// Returns the lower limit of a bucket: the upper limit of the preceding one; 0 for the first.
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
