//! Builds Standard128 Ribbon filters: incremental Gaussian elimination into a band, then back
//! substitution.
//!
//! The equations are added one by one; each is reduced by the existing rows until its first
//! coefficient falls into an empty slot. If an equation reduces to a contradiction, all is repeated
//! with the next seed. Small filters, for which a Bloom filter takes fewer bytes, and sets that no
//! seed solves become Bloom filters.
//!
//! Sizes: RocksDB `util/ribbon_config.cc` (failure chance 1 in 20) and `util/ribbon_impl.h`.

use super::ribbon::{BLOCK_SLOTS, COLUMNS_MAX, Columns, Hasher, SEGMENT_BYTES};
use super::{METADATA_BYTES, bloom};

/// The number of keys above which a Bloom filter is built instead.
const KEYS_MAX: usize = 950_000_000;
/// The number of slots below which a Ribbon filter may be larger than a Bloom filter.
const SMALL_SLOTS: u32 = 1024;

/// The number of keys that 2^8, 2^9 … 2^17 slots hold with a failure probability of 1 in 20.
const KEYS_BY_POWER: [f64; 10] = [
    248.851, 499.532, 1001.26, 2003.97, 4005.59, 8000.39, 15966.6, 31828.1, 63447.3, 126_506.0,
];
/// The base-2 logarithm of the slots of the first element of [`KEYS_BY_POWER`].
const FIRST_POWER: u32 = 8;
/// The base-2 logarithm of the slots of the last element of [`KEYS_BY_POWER`].
const LAST_POWER: u32 = 17;
/// The increase of the ratio of slots to keys for each doubling of a large number of slots.
const OVERHEAD_PER_POWER: f64 = 0.0038;

/// Builds a Ribbon filter of key hashes, or a Bloom filter if no size or no seed is suitable.
///
/// A small filter is a Bloom filter if that is smaller. The result includes the metadata.
pub(crate) fn build(hashes: &[u64], millibits: u32, one_in_false_positives: f64) -> Vec<u8> {
    if hashes.is_empty() {
        return Vec::new();
    }
    let Some(size) = Size::for_keys(hashes, millibits, one_in_false_positives) else {
        return bloom::build(hashes, millibits);
    };
    // The first hash serves as a random seed, so that filters of related tables err on different
    // keys.
    let first_seed = hashes[0].to_le_bytes()[0];
    let mut band = Band::new(size.block_count);
    for attempt in 0..=u8::MAX {
        let seed = first_seed.wrapping_add(attempt);
        if band.solve(Hasher::new(seed, size.block_count), hashes) {
            return band.into_filter(seed, size);
        }
    }
    bloom::build(hashes, millibits)
}

/// Estimates the size of the filter for `key_count` keys, including metadata.
pub(crate) fn bytes(key_count: usize, millibits: u32, one_in_false_positives: f64) -> u64 {
    let bloom = bloom::data_bytes(key_count, millibits);
    let data = match Size::unrounded(key_count, one_in_false_positives, 0) {
        Some(size) if size.slots() >= SMALL_SLOTS => size.data_bytes() as u64,
        Some(size) => bloom.min(size.data_bytes() as u64),
        None => bloom,
    };
    data + METADATA_BYTES as u64
}

/// The size of a Ribbon filter: its number of blocks of slots, and of 16-byte segments.
#[derive(Clone, Copy, Debug)]
struct Size {
    block_count: u32,
    segment_count: usize,
}

impl Size {
    /// Computes the Ribbon filter's size for these keys; `None` if they get a Bloom filter.
    fn for_keys(hashes: &[u64], millibits: u32, one_in_false_positives: f64) -> Option<Self> {
        let rounding = (hashes.first()? >> 32) as u32;
        let size = Self::unrounded(hashes.len(), one_in_false_positives, rounding)?;
        let bloom = bloom::data_bytes(hashes.len(), millibits);
        (size.slots() >= SMALL_SLOTS || size.data_bytes() as u64 <= bloom).then_some(size)
    }

    /// Computes the Ribbon filter's size for `key_count` keys; `None` for none or too many.
    fn unrounded(key_count: usize, one_in_false_positives: f64, rounding: u32) -> Option<Self> {
        if key_count == 0 || key_count > KEYS_MAX {
            return None;
        }
        let keys = u32::try_from(key_count).ok()?;
        let block_count = slots_for(keys).div_ceil(BLOCK_SLOTS).max(2);
        Some(Size {
            block_count,
            segment_count: segments_for(block_count, one_in_false_positives, rounding),
        })
    }

    /// Returns the number of slots.
    fn slots(self) -> u32 {
        self.block_count * BLOCK_SLOTS
    }

    /// Returns the number of bytes of the filter without metadata.
    fn data_bytes(self) -> usize {
        self.segment_count * SEGMENT_BYTES
    }
}

/// Returns the number of keys that fit 2^`power` slots; 0 if the filter would be too small.
fn keys_for_power(power: u32) -> f64 {
    if power < FIRST_POWER {
        return 0.0;
    }
    match KEYS_BY_POWER.get((power - FIRST_POWER) as usize) {
        Some(&keys) => keys,
        None => {
            let last = 2_f64.powi(LAST_POWER.cast_signed()) / KEYS_BY_POWER[9];
            let overhead = last + OVERHEAD_PER_POWER * f64::from(power - LAST_POWER);
            2_f64.powi(power.cast_signed()) / overhead
        }
    }
}

/// Returns the number of slots that a Ribbon filter needs for `keys` keys.
fn slots_for(keys: u32) -> u32 {
    let keys = f64::from(keys);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a logarithm of a 32-bit number of at least 1"
    )]
    let mut power = (keys.log2() + 0.5) as u32;
    if keys_for_power(power) == 0.0 {
        return 2 * BLOCK_SLOTS;
    }
    if keys < keys_for_power(power) {
        power -= 1;
    }
    let (lower, upper) = (keys_for_power(power), keys_for_power(power + 1));
    let above = (keys - lower) / (upper - lower);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most twice 2^30 slots; rounded up"
    )]
    let slots = (2_f64.powi(power.cast_signed()) * (1.0 + above) + 0.999_999_999) as u32;
    slots
}

/// Returns the number of segments for the wanted false positive rate.
///
/// All blocks get the columns for the next worse power of two, and as many blocks as needed get one
/// more. `rounding` is random and decides about the fraction of a block.
fn segments_for(block_count: u32, one_in_false_positives: f64, rounding: u32) -> usize {
    let blocks = block_count as usize;
    if one_in_false_positives.is_nan() || one_in_false_positives <= 1.0 {
        return 1;
    }
    if one_in_false_positives > f64::from(u32::MAX) {
        return blocks * COLUMNS_MAX as usize;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1 and 2^32"
    )]
    let lower_columns = (one_in_false_positives as u32).ilog2();
    let lower_rate = 0.5_f64.powi(lower_columns.cast_signed());
    let upper_rate = lower_rate / 2.0;
    let short_part = (1.0 / one_in_false_positives - upper_rate) / (lower_rate - upper_rate);
    let bias = (f64::from(rounding) + 0.5) / 2_f64.powi(32);
    let starts = f64::from(block_count * BLOCK_SLOTS - BLOCK_SLOTS + 1);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of the blocks"
    )]
    let short_blocks = ((short_part * starts + bias) / f64::from(BLOCK_SLOTS)) as usize;
    blocks * lower_columns as usize + blocks.saturating_sub(short_blocks)
}

/// The banded matrix of key equations during Gaussian elimination (RocksDB: `StandardBanding`).
struct Band {
    coefficients: Vec<u128>,
    results: Vec<u32>,
}

impl Band {
    /// Creates an empty matrix for `block_count` blocks of slots.
    fn new(block_count: u32) -> Self {
        let slots = (block_count * BLOCK_SLOTS) as usize;
        Band {
            coefficients: vec![0; slots],
            results: vec![0; slots],
        }
    }

    /// Adds the equations of all key hashes; returns false if they are inconsistent.
    fn solve(&mut self, hasher: Hasher, hashes: &[u64]) -> bool {
        self.coefficients.fill(0);
        self.results.fill(0);
        hashes.iter().all(|&hash| {
            let equation = hasher.equation(hash);
            self.add(
                equation.slot as usize,
                equation.coefficients,
                equation.result,
            )
        })
    }

    /// Adds one equation by Gaussian elimination; returns false if it contradicts the others.
    fn add(&mut self, mut slot: usize, mut coefficients: u128, mut result: u32) -> bool {
        loop {
            let row = &mut self.coefficients[slot];
            if *row == 0 {
                *row = coefficients;
                self.results[slot] = result;
                return true;
            }
            coefficients ^= *row;
            result ^= self.results[slot];
            if coefficients == 0 {
                // A repeated equation is no contradiction.
                return result == 0;
            }
            let skip = coefficients.trailing_zeros();
            slot += skip as usize;
            coefficients >>= skip;
        }
    }

    /// Solves the equations by back substitution, and encodes the filter with its metadata.
    fn into_filter(self, seed: u8, size: Size) -> Vec<u8> {
        let columns = Columns::new(size.segment_count, size.block_count);
        let mut filter = vec![0; size.data_bytes()];
        // Column i of the solution at the last 128 solved slots; bit 0 is the newest.
        let mut state = [0_u128; COLUMNS_MAX as usize];
        for block in (0..size.block_count).rev() {
            let (first, column_count) = columns.of_block(block);
            let state = &mut state[..column_count as usize];
            let start = (block * BLOCK_SLOTS) as usize;
            for slot in (start..start + BLOCK_SLOTS as usize).rev() {
                let (row, result) = (self.coefficients[slot], self.results[slot]);
                for (column, bits) in state.iter_mut().enumerate() {
                    let known = *bits << 1;
                    let parity = (known & row).count_ones() ^ (result >> column);
                    *bits = known | u128::from(parity & 1);
                }
            }
            for (column, bits) in state.iter().enumerate() {
                let at = (first + column) * SEGMENT_BYTES;
                filter[at..at + SEGMENT_BYTES].copy_from_slice(&bits.to_le_bytes());
            }
        }
        let [b0, b1, b2, _] = size.block_count.to_le_bytes();
        filter.extend_from_slice(&[0xfe, seed, b0, b1, b2]);
        filter
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterReader;
    use crate::filter::policy::{FilterAlgorithm, FilterPolicy};
    use koeldb_base::checksum::xxph3_64;

    fn ribbon_of(key_count: u32) -> Vec<u8> {
        let hashes: Vec<u64> = (0..key_count).map(|n| xxph3_64(&n.to_le_bytes())).collect();
        let Some(FilterAlgorithm::Ribbon {
            millibits,
            one_in_false_positives,
        }) = FilterPolicy::ribbon(10.0, -1).algorithm(6, None)
        else {
            unreachable!("a ribbon policy")
        };
        build(&hashes, millibits, one_in_false_positives)
    }

    #[test]
    fn every_key_is_found_and_few_others_are() {
        for key_count in [1, 10, 200, 700, 1000, 5000, 40_000] {
            let filter = ribbon_of(key_count);
            let reader = FilterReader::new(filter.as_slice());
            for key in 0..key_count {
                assert!(
                    reader.may_contain(&key.to_le_bytes()),
                    "{key} of {key_count}"
                );
            }
            let wrong = (0..10_000_u32)
                .filter(|n| reader.may_contain(&(n + 1_000_000).to_le_bytes()))
                .count();
            assert!(
                wrong < 200,
                "{wrong} of 10 000 absent keys, {key_count} keys"
            );
        }
    }

    #[test]
    fn large_sets_get_a_ribbon_smaller_than_bloom() {
        let filter = ribbon_of(20_000);
        assert_eq!(filter[filter.len() - 5], 0xfe);
        assert!(filter.len() < 20_000 * 10 / 8 * 3 / 4, "{}", filter.len());
        let filter = ribbon_of(20);
        assert_eq!(filter[filter.len() - 5], 0xff, "small ones fall back");
    }
}
