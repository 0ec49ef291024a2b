//! The cache-local Bloom filter of format version 5 and later: all probes of a key fall into one
//! 64-byte line.
//!
//! ```text
//! h = XXPH3(key);  lo, hi = its halves
//! line = (lo * number of lines) >> 32
//! probe i: bit (hi * 0x9e3779b9^i mod 2^32) >> 23 of the line
//! ```
//!
//! Algorithm: RocksDB `util/bloom_impl.h`, release 6.6 (`FastLocalBloom`).
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use super::METADATA_BYTES;

/// The size of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// A cache line of a filter.
pub(crate) type Line = [u8; LINE_BYTES];

/// The multiplier that derives the next probe of a key from the last.
const GOLDEN_RATIO: u32 = 0x9e37_79b9;
/// The largest data size of a filter, a multiple of a line.
const DATA_BYTES_MAX: u64 = 0xffff_ffc0;
/// The number of hashes whose lines are touched before they are probed, to overlap cache misses.
const BATCH: usize = 16;

/// Returns the cache line of a Bloom filter for a key hash; `None` if the filter has no lines.
#[inline]
pub(crate) fn line_of(lines: &[Line], hash: u64) -> Option<&Line> {
    lines.get(line_index(lines.len(), hash))
}

/// Returns the index of the cache line for a key hash.
#[inline]
fn line_index(line_count: usize, hash: u64) -> usize {
    let low = hash & u64::from(u32::MAX);
    koeldb_base::coding::to_usize(low.wrapping_mul(line_count as u64) >> 32)
}

/// Whether all bits of a key hash are set in its cache line.
///
/// No branch depends on the bits: a lookup of an absent key would mispredict it about once, which
/// costs more than the probes it saves.
#[inline]
pub(crate) fn line_may_contain(line: &Line, hash: u64, probes: u32) -> bool {
    let mut x = upper_half(hash);
    let mut all = 1_u8;
    for _ in 0..probes {
        let bit = x >> 23;
        // `x >> 26` is below 64, so the compiler removes the check.
        all &= line.get((bit >> 3) as usize).copied().unwrap_or(0) >> (bit & 7);
        x = x.wrapping_mul(GOLDEN_RATIO);
    }
    all != 0
}

/// Queries a Bloom filter for many key hashes; writes a result for each into `found`.
pub(crate) fn lines_may_contain(lines: &[Line], probes: u32, hashes: &[u64], found: &mut [bool]) {
    for (hashes, found) in hashes.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
        let mut touched = 0_u8;
        for &hash in hashes {
            touched ^= line_of(lines, hash).map_or(0, |line| line[0]);
        }
        std::hint::black_box(touched);
        for (&hash, found) in hashes.iter().zip(found) {
            *found = line_of(lines, hash).is_none_or(|line| line_may_contain(line, hash, probes));
        }
    }
}

/// Returns the half of a key hash that selects bits within a cache line.
#[inline]
fn upper_half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Returns the number of probes (bits set) per key, for `millibits` thousandths of a bit per key.
pub(crate) fn probes_for(millibits: u32) -> u32 {
    const LIMITS: [(u32, u32); 12] = [
        (2080, 1),
        (3580, 2),
        (5100, 3),
        (6640, 4),
        (8300, 5),
        (10_070, 6),
        (11_720, 7),
        (14_001, 8),
        (16_050, 9),
        (18_300, 10),
        (22_001, 11),
        (25_501, 12),
    ];
    match LIMITS.iter().find(|&&(limit, _)| millibits <= limit) {
        Some(&(_, probes)) => probes,
        None if millibits > 50_000 => 24,
        None => (millibits.saturating_sub(1) / 2000).saturating_sub(1),
    }
}

/// Returns the size of a Bloom filter for `key_count` keys without metadata, in whole cache lines.
pub(crate) fn data_bytes(key_count: usize, millibits: u32) -> u64 {
    let bits = (key_count as u64).saturating_mul(u64::from(millibits));
    bits.div_ceil(8000)
        .min(DATA_BYTES_MAX)
        .next_multiple_of(LINE_BYTES as u64)
}

/// Builds a cache-local Bloom filter (`FastLocalBloom`) of key hashes, including metadata.
pub(crate) fn build(hashes: &[u64], millibits: u32) -> Vec<u8> {
    let data_bytes = koeldb_base::coding::to_usize(data_bytes(hashes.len(), millibits));
    let probes = probes_for(millibits);
    let mut filter = Vec::with_capacity(data_bytes.saturating_add(METADATA_BYTES));
    filter.resize(data_bytes, 0);
    add_all(filter.as_chunks_mut().0, hashes, probes);
    // At most 24 probes; bits 5 to 7 stay 0 for lines of 64 bytes.
    filter.extend_from_slice(&[0xff, 0, (probes & 0x1f) as u8, 0, 0]);
    filter
}

/// Sets the bits of all key hashes, overlapping the memory accesses of a batch of them.
fn add_all(lines: &mut [Line], hashes: &[u64], probes: u32) {
    for hashes in hashes.chunks(BATCH) {
        let mut touched = 0_u8;
        for &hash in hashes {
            touched ^= line_of(lines, hash).map_or(0, |line| line[0]);
        }
        std::hint::black_box(touched);
        for &hash in hashes {
            let index = line_index(lines.len(), hash);
            let Some(line) = lines.get_mut(index) else {
                continue;
            };
            let mut x = upper_half(hash);
            for _ in 0..probes {
                let bit = x >> 23;
                if let Some(byte) = line.get_mut((bit >> 3) as usize) {
                    *byte |= 1 << (bit & 7);
                }
                x = x.wrapping_mul(GOLDEN_RATIO);
            }
        }
    }
}

/// Estimates the false positive rate of a Bloom filter with cache lines of 512 bits.
///
/// It is the mean over lines one standard deviation fuller and emptier than the average (RocksDB's
/// estimate, which sizes Ribbon filters).
pub(crate) fn cache_local_false_positive_rate(bits_per_key: f64, probes: u32) -> f64 {
    const LINE_BITS: f64 = 512.0;
    if bits_per_key <= 0.0 {
        return 1.0;
    }
    let keys_per_line = LINE_BITS / bits_per_key;
    let deviation = keys_per_line.sqrt();
    let rate = |keys: f64| {
        let probes = f64::from(probes);
        (1.0 - (-probes * keys / LINE_BITS).exp()).powf(probes)
    };
    f64::midpoint(
        rate(keys_per_line + deviation),
        rate(keys_per_line - deviation),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use koeldb_base::checksum::{hash32, xxph3_64};

    #[test]
    fn the_bits_are_rocksdbs() {
        let hashes: Vec<u64> = (0..2087_u32).map(|n| xxph3_64(&n.to_le_bytes())).collect();
        let filter = build(&hashes, 10_000);
        assert_eq!(filter.len(), 2624 + METADATA_BYTES);
        assert_eq!(hash32(&filter, 0xbc9f_1d34), 2_498_541_272);
    }

    #[test]
    fn probe_counts_follow_the_table() {
        for (millibits, probes) in [
            (1000, 1),
            (2081, 2),
            (10_000, 6),
            (15_500, 9),
            (28_000, 12),
            (28_001, 13),
            (50_000, 23),
            (50_001, 24),
        ] {
            assert_eq!(probes_for(millibits), probes, "{millibits}");
        }
    }
}
