//! The Bloom filter of format versions before 5, read and written for tables of those versions.
//!
//! ```text
//! h = Hash32(key, 0xbc9f1d34);  line = h mod number of lines;  delta = h rotated right by 17
//! probe i: bit (h + i * delta) mod line bits of the line
//! ```
//!
//! Algorithm: RocksDB `util/bloom_impl.h` (`LegacyLocalityBloom`).
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::checksum::hash32;
use koeldb_base::coding::to_usize;

use super::METADATA_BYTES;

/// The seed of the key hash.
const SEED: u32 = 0xbc9f_1d34;
/// The size of a cache line in written filters; read ones may have any power of two.
const LINE_BYTES_WRITTEN: u32 = 64;

/// Returns the 32-bit hash of a key or prefix in this filter format (RocksDB: `BloomHash`).
#[inline]
pub(crate) fn hash(key: &[u8]) -> u32 {
    hash32(key, SEED)
}

/// The layout of a legacy Bloom filter (`format_version` below 5), from its metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LegacyBloom {
    probes: u32,
    line_count: u32,
    line_bytes_log2: u32,
}

impl LegacyBloom {
    /// Creates the layout; `None` unless lines have a power-of-two size and fill the data exactly.
    pub(crate) fn new(probes: u8, line_count: u32, data_bytes: usize) -> Option<Self> {
        let line_bytes = data_bytes.checked_div(line_count as usize)?;
        let exact = line_bytes.checked_mul(line_count as usize) == Some(data_bytes);
        // A line of 2^29 bytes or more would have bits beyond 32 bits of hash.
        (exact && line_bytes.is_power_of_two() && line_bytes < 1 << 29).then_some(LegacyBloom {
            probes: u32::from(probes),
            line_count,
            line_bytes_log2: line_bytes.trailing_zeros(),
        })
    }

    /// Whether the filter's data may contain a key with this hash.
    pub(crate) fn may_contain(self, data: &[u8], mut hash: u32) -> bool {
        let mask = (8_u32 << self.line_bytes_log2).wrapping_sub(1);
        let start = self.line_start(hash);
        let delta = hash.rotate_right(17);
        for _ in 0..self.probes {
            let bit = hash & mask;
            let byte = data.get(start.saturating_add(to_usize(u64::from(bit >> 3))));
            if byte.is_some_and(|byte| byte & (1 << (bit & 7)) == 0) {
                return false;
            }
            hash = hash.wrapping_add(delta);
        }
        true
    }

    /// Sets the bits of a hash, by double hashing within its cache line.
    fn add(self, data: &mut [u8], mut hash: u32) {
        let mask = (8_u32 << self.line_bytes_log2).wrapping_sub(1);
        let start = self.line_start(hash);
        let delta = hash.rotate_right(17);
        for _ in 0..self.probes {
            let bit = hash & mask;
            if let Some(byte) = data.get_mut(start.saturating_add(to_usize(u64::from(bit >> 3)))) {
                *byte |= 1 << (bit & 7);
            }
            hash = hash.wrapping_add(delta);
        }
    }

    /// Returns the offset of the cache line of a hash.
    fn line_start(self, hash: u32) -> usize {
        let line = u64::from(hash.checked_rem(self.line_count).unwrap_or(0));
        to_usize(line << self.line_bytes_log2)
    }
}

/// Returns the size of a filter for `key_count` keys, without metadata.
pub(crate) fn data_bytes(key_count: usize, bits_per_key: u32) -> u64 {
    u64::from(line_count(key_count, bits_per_key)).saturating_mul(u64::from(LINE_BYTES_WRITTEN))
}

/// Returns the number of cache lines of a filter for `key_count` keys, which is odd.
fn line_count(key_count: usize, bits_per_key: u32) -> u32 {
    const BITS_MAX: u64 = 0xffff_0000;
    let bits = (key_count as u64)
        .saturating_mul(u64::from(bits_per_key))
        .min(BITS_MAX);
    let lines = bits.div_ceil(u64::from(LINE_BYTES_WRITTEN) << 3);
    // An odd number lets more bits of the hash choose the line.
    u32::try_from(lines | 1).unwrap_or(u32::MAX)
}

/// Builds a legacy Bloom filter of key hashes, including metadata.
pub(crate) fn build(hashes: &[u64], bits_per_key: u32) -> Vec<u8> {
    let lines = line_count(hashes.len(), bits_per_key);
    let data_bytes = to_usize(data_bytes(hashes.len(), bits_per_key));
    // 69 % of the bits per key, as RocksDB rounds them; bits are at most 100.
    let probes = (bits_per_key.saturating_mul(69) / 100).clamp(1, 30);
    let probes = u8::try_from(probes).unwrap_or(30);
    let mut filter = Vec::with_capacity(data_bytes.saturating_add(METADATA_BYTES));
    filter.resize(data_bytes, 0);
    if let Some(layout) = LegacyBloom::new(probes, lines, data_bytes) {
        for &hash in hashes {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a hash of 32 bits, widened"
            )]
            layout.add(&mut filter, hash as u32);
        }
    }
    filter.push(probes);
    filter.extend_from_slice(&lines.to_le_bytes());
    filter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_probes_are_rocksdbs() {
        let hashes: Vec<u64> = (0..1000_u32)
            .map(|n| u64::from(hash(&n.to_le_bytes())))
            .collect();
        let filter = build(&hashes, 10);
        // 10 000 bits are 20 lines, made odd.
        assert_eq!(filter.len(), 21 * 64 + 5);
        assert_eq!(filter[21 * 64..], [6, 21, 0, 0, 0]);
    }

    #[test]
    fn lines_that_do_not_fill_the_data_are_refused() {
        assert!(LegacyBloom::new(6, 2, 128).is_some());
        assert!(LegacyBloom::new(6, 2, 256).is_some(), "lines of 128 bytes");
        assert!(LegacyBloom::new(6, 2, 192).is_none(), "no power of two");
        assert!(LegacyBloom::new(6, 3, 128).is_none());
        assert!(LegacyBloom::new(6, 0, 128).is_none());
    }
}
