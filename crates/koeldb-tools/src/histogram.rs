//! RocksDB's histogram: 109 buckets that grow by half, and its text format.

use std::fmt;

use koeldb_base::buckets::{BUCKET_COUNT, BUCKET_LIMITS, bucket_of, lower_limit, percentile};

/// A histogram of values, in RocksDB's buckets.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: [u64; BUCKET_COUNT],
    count: u64,
    sum: u64,
    sum_of_squares: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: [0; BUCKET_COUNT],
            count: 0,
            sum: 0,
            sum_of_squares: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Histogram {
    pub(crate) fn record(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.sum_of_squares = self
            .sum_of_squares
            .wrapping_add(u128::from(value) * u128::from(value));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.wrapping_add(other.sum_of_squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns the smallest value; 0 without values.
    fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// Returns the mean of the values; 0 without values.
    #[expect(clippy::cast_precision_loss, reason = "a mean is an approximation")]
    fn average(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// Returns the population standard deviation of the values; 0 without values.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a deviation is an approximation"
    )]
    fn standard_deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let (count, sum) = (self.count as f64, self.sum as f64);
        let variance = (self.sum_of_squares as f64 * count - sum * sum) / (count * count);
        variance.max(0.0).sqrt()
    }

    /// Returns the value below which `percent` of the values are, interpolated within its bucket.
    fn percentile(&self, percent: f64) -> f64 {
        percentile(percent, &self.counts, self.count, self.min(), self.max)
    }
}

impl fmt::Display for Histogram {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "shares of a count, and bars of at most twenty marks"
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Count: {} Average: {:.4}  StdDev: {:.2}",
            self.count,
            self.average(),
            self.standard_deviation()
        )?;
        writeln!(
            f,
            "Min: {}  Median: {:.4}  Max: {}",
            self.min(),
            self.percentile(50.0),
            self.max
        )?;
        writeln!(
            f,
            "Percentiles: P50: {:.2} P75: {:.2} P99: {:.2} P99.9: {:.2} P99.99: {:.2}",
            self.percentile(50.0),
            self.percentile(75.0),
            self.percentile(99.0),
            self.percentile(99.9),
            self.percentile(99.99)
        )?;
        writeln!(f, "{}", "-".repeat(54))?;
        let mut through = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            if count == 0 {
                continue;
            }
            through += count;
            let percent = 100.0 * count as f64 / self.count as f64;
            let cumulative = 100.0 * through as f64 / self.count as f64;
            let open = if bucket == 0 { '[' } else { '(' };
            let marks = "#".repeat((percent / 5.0 + 0.5) as usize);
            writeln!(
                f,
                "{open} {:>7}, {:>7} ] {count:>8} {percent:7.3}% {cumulative:7.3}% {marks}",
                lower_limit(bucket),
                BUCKET_LIMITS[bucket],
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_rocksdb() {
        assert_eq!(BUCKET_LIMITS.len(), 109);
        assert_eq!(
            BUCKET_LIMITS[..25],
            [
                1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110, 170, 250, 380, 580, 870, 1300, 1900,
                2900, 4400, 6600, 9900, 14000, 22000
            ]
        );
        assert_eq!(BUCKET_LIMITS[108], 13_000_000_000_000_000_000);
    }

    #[test]
    fn text_is_that_of_rocksdb() {
        let mut histogram = Histogram::default();
        for (value, count) in [
            (0, 780),
            (1, 1),
            (2, 204),
            (3, 10),
            (4, 1),
            (5, 2),
            (8, 1),
            (2324, 1),
        ] {
            (0..count).for_each(|_| histogram.record(value));
        }
        let text = histogram.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "Min: 0  Median: 0.6402  Max: 2324");
        assert_eq!(
            lines[2],
            "Percentiles: P50: 0.64 P75: 0.96 P99: 2.50 P99.9: 1900.00 P99.99: 2324.00"
        );
        assert_eq!(lines[3].len(), 54);
        assert_eq!(
            lines[4],
            "[       0,       1 ]      781  78.100%  78.100% ################"
        );
        assert_eq!(
            lines[5],
            "(       1,       2 ]      204  20.400%  98.500% ####"
        );
        assert_eq!(lines[6], "(       2,       3 ]       10   1.000%  99.500% ");
        assert_eq!(
            lines[10],
            "(    1900,    2900 ]        1   0.100% 100.000% "
        );
        assert_eq!(lines.len(), 11);
    }

    #[test]
    fn merging_adds_and_an_empty_histogram_is_harmless() {
        let mut all = Histogram::default();
        assert_eq!(all.percentile(50.0), 0.0);
        let mut one = Histogram::default();
        one.record(3);
        one.record(5);
        all.merge(&one);
        all.merge(&one);
        assert_eq!((all.count, all.min(), all.max), (4, 3, 5));
        assert_eq!(all.average(), 4.0);
        assert_eq!(all.standard_deviation(), 1.0);
    }

    #[test]
    fn huge_values_land_in_the_last_bucket() {
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX);
        assert_eq!(histogram.max, u64::MAX);
    }
}
