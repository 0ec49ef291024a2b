//! Values: slices of a buffer of random bytes with the requested compressibility.
//!
//! The buffer and the order of values depend only on sizes and ratio, not on the seed: every thread
//! of every benchmark writes the same values in the same order, like RocksDB's program.

use super::random::{Mersenne64, ParkMiller};
use koeldb_base::coding::to_usize;

/// The distribution of value sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ValueSizes {
    /// Every value has this many bytes.
    Fixed(u32),
    /// Uniform between the two, inclusive.
    Uniform(u32, u32),
    /// Normal around the middle of the two, which are three standard deviations away; clamped to
    /// them.
    Normal(u32, u32),
}

impl ValueSizes {
    /// Returns the largest size in bytes that the distribution yields.
    fn largest(self) -> u32 {
        match self {
            ValueSizes::Fixed(bytes) => bytes,
            ValueSizes::Uniform(_, max) | ValueSizes::Normal(_, max) => max,
        }
    }
}

/// The shape of generated values: size distribution, compressibility and share of equal values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueShape {
    pub(crate) sizes: ValueSizes,
    /// The share of random bytes in each piece of 100 bytes; the rest repeats them.
    pub(crate) compression_ratio: f64,
    /// The percentage of values that are the first bytes of the buffer.
    pub(crate) same_value_percent: u32,
}

/// A generator of an endless sequence of values, which are slices of one random buffer.
#[derive(Debug)]
pub(crate) struct Values {
    buffer: Vec<u8>,
    next: usize,
    random: ParkMiller,
    shape: ValueShape,
    /// Draws sizes, for which RocksDB uses a random device.
    size_random: Mersenne64,
}

impl Values {
    const BUFFER_BYTES: usize = 1 << 20;
    const PIECE_BYTES: usize = 100;

    /// Creates the generator and fills its random buffer, which takes milliseconds.
    pub(crate) fn new(shape: ValueShape, size_seed: u64) -> Self {
        let mut random = ParkMiller::new(301);
        let wanted = Self::BUFFER_BYTES.max(to_usize(u64::from(shape.sizes.largest())));
        let mut buffer = Vec::with_capacity(wanted + Self::PIECE_BYTES);
        let mut piece = [0; Self::PIECE_BYTES];
        let distinct = distinct_bytes(shape.compression_ratio, Self::PIECE_BYTES);
        while buffer.len() < wanted {
            for byte in &mut piece[..distinct] {
                // RocksDB's program has 127 where `char` is signed.
                *byte = u8::try_from(random.below(127)).unwrap_or(0);
            }
            buffer.extend(piece[..distinct].iter().cycle().take(Self::PIECE_BYTES));
        }
        Values {
            buffer,
            next: 0,
            random,
            shape,
            size_random: Mersenne64::new(size_seed),
        }
    }

    /// Returns the next value, with a size drawn from the distribution.
    #[inline]
    pub(crate) fn take(&mut self) -> &[u8] {
        let bytes = match self.shape.sizes {
            ValueSizes::Fixed(bytes) => bytes,
            _ => self.draw_size(),
        };
        self.take_bytes(to_usize(u64::from(bytes)))
    }

    /// Returns the next value with this size, at most the size of the buffer.
    #[inline]
    pub(crate) fn take_bytes(&mut self, bytes: usize) -> &[u8] {
        let bytes = bytes.min(self.buffer.len());
        if self.random.below(100) < self.shape.same_value_percent {
            return &self.buffer[..bytes];
        }
        if self.next + bytes > self.buffer.len() {
            self.next = 0;
        }
        let start = self.next;
        self.next += bytes;
        &self.buffer[start..self.next]
    }

    /// Draws the size in bytes of the next value.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a size between two bounds that passes through floating point"
    )]
    fn draw_size(&mut self) -> u32 {
        let mut unit = || (self.size_random.draw() >> 11) as f64 / (1u64 << 53) as f64;
        match self.shape.sizes {
            ValueSizes::Fixed(bytes) => bytes,
            ValueSizes::Uniform(min, max) => {
                let count = f64::from(max.saturating_sub(min)) + 1.0;
                min + (unit() * count) as u32
            }
            ValueSizes::Normal(min, max) => {
                // The Box-Muller transform.
                let radius = (-2.0 * (1.0 - unit()).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * unit()).cos();
                let mean = (f64::from(min) + f64::from(max)) / 2.0;
                let deviation = (f64::from(max) - f64::from(min)) / 6.0;
                (mean + normal * deviation).clamp(f64::from(min), f64::from(max)) as u32
            }
        }
    }
}

/// Returns how many bytes of a piece are random, at least one; the rest of the piece repeats them.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of 100, cut to an integer"
)]
fn distinct_bytes(ratio: f64, piece_bytes: usize) -> usize {
    ((piece_bytes as f64 * ratio) as usize).clamp(1, piece_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sizes: ValueSizes) -> ValueShape {
        ValueShape {
            sizes,
            compression_ratio: 0.5,
            same_value_percent: 0,
        }
    }

    #[test]
    fn values_begin_as_rocksdbs_do() {
        let mut values = Values::new(shape(ValueSizes::Fixed(100)), 1);
        let first = values.take().to_vec();
        assert_eq!(
            first[..21],
            [
                0x74, 0x10, 0x1c, 0x3c, 0x4c, 0x48, 0x37, 0x03, 0x55, 0x07, 0x07, 0x1d, 0x6c, 0x72,
                0x27, 0x06, 0x53, 0x2a, 0x38, 0x73, 0x21
            ]
        );
        assert_eq!(first[..50], first[50..]);
        assert_ne!(values.take(), first);
    }

    #[test]
    fn the_buffer_starts_over_where_a_value_does_not_fit() {
        let mut values = Values::new(shape(ValueSizes::Fixed(600_000)), 1);
        let first = values.take().to_vec();
        assert_eq!(values.take(), first);
        let mut values = Values::new(shape(ValueSizes::Fixed(100)), 1);
        let first = values.take().to_vec();
        for _ in 1..10_486 {
            assert_ne!(values.take(), first);
        }
        assert_eq!(values.take(), first);
    }

    #[test]
    fn drawn_sizes_stay_between_their_bounds() {
        for sizes in [ValueSizes::Uniform(10, 20), ValueSizes::Normal(10, 20)] {
            let mut values = Values::new(shape(sizes), 7);
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..1000 {
                let bytes = values.take().len();
                assert!((10..=20).contains(&bytes));
                seen.insert(bytes);
            }
            assert!(seen.len() > 5);
        }
    }

    #[test]
    fn same_values_are_the_head_of_the_buffer() {
        let mut shape = shape(ValueSizes::Fixed(100));
        shape.same_value_percent = 100;
        let mut values = Values::new(shape, 1);
        let first = values.take().to_vec();
        assert_eq!(values.take(), first);
    }
}
