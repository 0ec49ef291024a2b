//! Keys: their encoding, and the sequence of key numbers of a benchmark.
//!
//! ```text
//! [ prefix number, big-endian, at most 8 bytes | '0' … up to prefix_size ]   with keys_per_prefix
//! [ key number, big-endian, at most 8 bytes    | '0' … up to key_size ]
//! ```

use std::sync::Arc;

use super::random::{Mersenne64, Modulus, shuffle};
use koeldb_base::coding::to_usize;

/// The layout of keys: total length, prefix length and number of keys per prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyLayout {
    pub(crate) key_bytes: usize,
    pub(crate) prefix_bytes: usize,
    /// 0 if keys have no prefix part.
    pub(crate) keys_per_prefix: u64,
}

/// An encoder of key numbers to keys, with a buffer that is reused.
#[derive(Clone, Debug)]
pub(crate) struct KeyBuffer {
    bytes: Vec<u8>,
    layout: KeyLayout,
    /// The number of keys in the key space, which determines the number of prefixes.
    key_count: u64,
    /// The keys of an existing database, if these are to be used.
    existing: Option<Arc<Vec<Box<[u8]>>>>,
}

impl KeyBuffer {
    pub(crate) fn new(
        layout: KeyLayout,
        key_count: u64,
        existing: Option<Arc<Vec<Box<[u8]>>>>,
    ) -> Self {
        KeyBuffer {
            bytes: vec![b'0'; layout.key_bytes],
            layout,
            key_count,
            existing,
        }
    }

    /// Encodes the key with this number and returns it.
    #[inline]
    #[expect(
        clippy::big_endian_bytes,
        reason = "keys are made big-endian so that they sort as numbers"
    )]
    pub(crate) fn key(&mut self, number: u64) -> &[u8] {
        if self.layout.keys_per_prefix == 0
            && self.existing.is_none()
            && let Some(head) = self.bytes.first_chunk_mut()
        {
            *head = number.to_be_bytes();
            return &self.bytes;
        }
        self.key_of_parts(number)
    }

    /// Encodes a key of prefix and number, or copies the existing key with this number.
    fn key_of_parts(&mut self, number: u64) -> &[u8] {
        if let Some(keys) = &self.existing {
            keys[to_usize(number)].as_ref().clone_into(&mut self.bytes);
            return &self.bytes;
        }
        self.bytes.fill(b'0');
        let mut rest = self.bytes.as_mut_slice();
        if let Some(prefix_count) = self.key_count.checked_div(self.layout.keys_per_prefix) {
            let (prefix, suffix) = rest.split_at_mut(self.layout.prefix_bytes.min(rest.len()));
            write_number(prefix, number % prefix_count.max(1));
            rest = suffix;
        }
        write_number(rest, number);
        &self.bytes
    }

    /// Encodes the key of `number` with a prefix that no stored key has: its ninth byte is a `1`.
    pub(crate) fn missing_prefix(&mut self, number: u64) -> &[u8] {
        self.key(number);
        if let Some(byte) = self.bytes.get_mut(8) {
            *byte = b'1';
        }
        &self.bytes
    }

    /// Returns the key that was encoded last.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Writes the low bytes of `number`, big-endian, at the start of `place`.
#[expect(
    clippy::big_endian_bytes,
    reason = "keys are made big-endian so that they sort as numbers"
)]
fn write_number(place: &mut [u8], number: u64) {
    let count = place.len().min(8);
    place[..count].copy_from_slice(&number.to_be_bytes()[8 - count..]);
}

/// The order in which a fill writes the keys: sequential, random or unique random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillOrder {
    /// 0, 1, 2, …
    Sequential,
    /// A random number at each step.
    Random,
    /// A permutation of all numbers.
    UniqueRandom,
}

/// A generator of the key numbers of a fill, in a [`FillOrder`].
#[derive(Debug)]
pub(crate) struct FillNumbers {
    order: FillOrder,
    key_count: u64,
    modulus: Modulus,
    next: u64,
    permutation: Vec<u64>,
}

impl FillNumbers {
    /// Creates a generator; `seed` determines the permutation for unique random order.
    pub(crate) fn new(order: FillOrder, key_count: u64, seed: u64) -> Self {
        let mut permutation = Vec::new();
        if order == FillOrder::UniqueRandom {
            permutation.extend(0..key_count);
            shuffle(&mut permutation, seed);
        }
        FillNumbers {
            order,
            key_count,
            modulus: Modulus::new(key_count),
            next: 0,
            permutation,
        }
    }

    /// Returns the next key number of the fill; draws from `random` for random order.
    #[inline]
    pub(crate) fn take(&mut self, random: &mut Mersenne64) -> u64 {
        match self.order {
            FillOrder::Sequential => {
                let number = self.next;
                self.next += 1;
                number
            }
            FillOrder::Random => self.modulus.remainder(random.draw()),
            FillOrder::UniqueRandom => {
                // After the last key, the sequence starts again.
                let number = self.permutation[to_usize(self.next)];
                self.next = if self.next + 1 == self.key_count {
                    0
                } else {
                    self.next + 1
                };
                number
            }
        }
    }
}

/// A generator of the key numbers of random reads, uniform or skewed (`--read_random_exp_range`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadNumbers {
    key_count: u64,
    modulus: Modulus,
    skew: f64,
}

impl ReadNumbers {
    pub(crate) fn new(key_count: u64, skew: f64) -> Self {
        ReadNumbers {
            key_count,
            modulus: Modulus::new(key_count),
            skew,
        }
    }

    /// Draws the next random key number.
    #[inline]
    pub(crate) fn take(&self, random: &mut Mersenne64) -> u64 {
        let draw = random.draw();
        if self.skew == 0.0 {
            self.modulus.remainder(draw)
        } else {
            self.skewed(draw)
        }
    }

    /// Maps a random number to a key number with an exponentially skewed distribution.
    ///
    /// RocksDB computes in 80-bit floating point where the machine supports it. 64 bits may differ
    /// in the last of many digits, and then select a neighbouring number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a number in 0..key_count that passes through floating point"
    )]
    fn skewed(&self, draw: u64) -> u64 {
        const RANGE: u64 = 1 << 62;
        let order = -((draw % RANGE) as f64 / RANGE as f64) * self.skew;
        let number = (order.exp() * self.key_count as f64) as u64;
        number.wrapping_mul(0x5bd1_e995) % self.key_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(key_bytes: usize, prefix_bytes: usize, keys_per_prefix: u64) -> KeyLayout {
        KeyLayout {
            key_bytes,
            prefix_bytes,
            keys_per_prefix,
        }
    }

    #[test]
    fn a_key_is_its_number_and_zeros() {
        let mut key = KeyBuffer::new(layout(16, 0, 0), 1000, None);
        assert_eq!(key.key(979), b"\0\0\0\0\0\0\x03\xd300000000");
        let mut key = KeyBuffer::new(layout(4, 0, 0), 1000, None);
        assert_eq!(key.key(0x1_0203_0405), b"\x02\x03\x04\x05");
    }

    #[test]
    fn a_prefix_comes_first_and_is_padded() {
        let mut key = KeyBuffer::new(layout(20, 10, 100), 1000, None);
        assert_eq!(key.key(123), b"\0\0\0\0\0\0\0\x0300\0\0\0\0\0\0\0\x7b00");
        let mut key = KeyBuffer::new(layout(8, 4, 100), 1000, None);
        assert_eq!(key.key(11), b"\0\0\0\x01\0\0\0\x0b");
    }

    #[test]
    fn fillrandom_of_1000_with_seed_42_writes_rocksdbs_keys() {
        let mut random = Mersenne64::new(43);
        let mut numbers = FillNumbers::new(FillOrder::Random, 1000, 42);
        let keys: Vec<u64> = (0..8)
            .map(|_| {
                random.draw(); // the choice of database
                numbers.take(&mut random)
            })
            .collect();
        assert_eq!(keys, [979, 713, 226, 214, 14, 510, 438, 275]);
    }

    #[test]
    fn a_unique_fill_takes_each_number_once() {
        let mut random = Mersenne64::new(1);
        let mut numbers = FillNumbers::new(FillOrder::UniqueRandom, 10, 42);
        let keys: Vec<u64> = (0..10).map(|_| numbers.take(&mut random)).collect();
        assert_eq!(keys, [1, 6, 7, 0, 5, 9, 8, 2, 3, 4]);
    }

    #[test]
    fn skewed_reads_prefer_few_keys_and_stay_in_range() {
        let mut random = Mersenne64::new(1);
        let numbers = ReadNumbers::new(1000, 15.0);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let number = numbers.take(&mut random);
            assert!(number < 1000);
            seen.insert(number);
        }
        assert!(seen.len() < 450, "{} distinct keys", seen.len());
    }
}
