//! Queries of the Standard128 Ribbon filter: the stored solution of linear equations over GF(2).
//!
//! Each key has a row of 128 coefficients that begins at a slot chosen by its hash, and an expected
//! result of up to 32 bits. A key may be present if, for each stored column, the parity of
//! (coefficients & solution bits) is the expected result bit. The solution is stored in segments of
//! 16 bytes: bit r of segment i of a block is column i at slot r of that block. The first blocks
//! may have one column fewer than the rest.
//!
//! Formulas: RocksDB `util/ribbon_impl.h`, release 6.15 (`Standard128Ribbon`);
//! `docs/formats/filters.md`.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::coding::to_usize;

/// The number of slots in a block, which is also the number of coefficients in a row.
pub(crate) const BLOCK_SLOTS: u32 = 128;
/// The size of a segment.
pub(crate) const SEGMENT_BYTES: usize = 16;
/// The largest number of columns of a solution.
pub(crate) const COLUMNS_MAX: u32 = 32;

/// The linear equation of one key in the Ribbon system: start slot, coefficients, and result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Equation {
    /// The slot of the first coefficient.
    pub(crate) slot: u32,
    /// The coefficients; bit 0 is always set.
    pub(crate) coefficients: u128,
    /// The expected result, one bit per column.
    pub(crate) result: u32,
}

/// The hash functions of a Ribbon filter, from key hashes to equations, for one seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    raw_seed: u64,
    start_count: u64,
}

impl Hasher {
    /// Creates the hash functions for `seed` and `block_count` blocks of 128 slots, at least one.
    pub(crate) fn new(seed: u8, block_count: u32) -> Self {
        let mut raw = u64::from(seed).wrapping_mul(0xc782_19a2_3eea_dd03);
        raw ^= (raw & 0xf0f0_f0f0_f0f0_f0f0) >> 4;
        Hasher {
            raw_seed: raw & u64::from(u32::MAX),
            start_count: u64::from(block_count)
                .wrapping_mul(u64::from(BLOCK_SLOTS))
                .wrapping_sub(u64::from(BLOCK_SLOTS).wrapping_sub(1)),
        }
    }

    /// Returns the equation of a key, by its XXPH3 hash.
    #[inline]
    pub(crate) fn equation(self, hash: u64) -> Equation {
        let x = (hash ^ self.raw_seed).wrapping_mul(0x6193_d459_236a_3a0d);
        let slot = (u128::from(x).wrapping_mul(u128::from(self.start_count)) >> 64) as u64;
        let a = x.wrapping_mul(0xc28f_8282_2b65_0bed);
        let coefficients = (u128::from(a) << 64) | u128::from(a ^ 0xc367_844a_6e52_731d) | 1;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below 2^24 blocks of 128 slots; the format takes the low 32 bits of the result"
        )]
        let (slot, result) = (slot as u32, a.swap_bytes() as u32);
        Equation {
            slot,
            coefficients,
            result,
        }
    }
}

/// The layout of a Ribbon solution: how many columns (result bits) each block of slots has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// The number of columns of the last blocks.
    pub(crate) upper: u32,
    /// The number of blocks at the beginning that have one column fewer.
    pub(crate) short_blocks: u32,
}

impl Columns {
    /// Creates the layout of `segment_count` 16-byte segments over `block_count` blocks of slots.
    pub(crate) fn new(segment_count: usize, block_count: u32) -> Self {
        let blocks = u64::from(block_count.max(1));
        let segments = segment_count as u64;
        let upper = segments.div_ceil(blocks);
        if upper > u64::from(COLUMNS_MAX) {
            return Columns {
                upper: COLUMNS_MAX,
                short_blocks: 0,
            };
        }
        let short = upper.saturating_mul(blocks).saturating_sub(segments);
        Columns {
            upper: u32::try_from(upper).unwrap_or(COLUMNS_MAX),
            short_blocks: u32::try_from(short).unwrap_or(0),
        }
    }

    /// Returns the first segment of a block of slots, and its number of columns.
    #[inline]
    pub(crate) fn of_block(self, block: u32) -> (usize, u32) {
        let first = u64::from(block)
            .wrapping_mul(u64::from(self.upper))
            .wrapping_sub(u64::from(block.min(self.short_blocks)));
        let columns = self
            .upper
            .wrapping_sub(u32::from(block < self.short_blocks));
        (to_usize(first), columns)
    }
}

/// The parameters of a Ribbon filter, decoded from its metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ribbon {
    hasher: Hasher,
    columns: Columns,
}

impl Ribbon {
    /// Creates the parameters; `None` for fewer than two blocks of slots.
    pub(crate) fn new(seed: u8, block_count: u32, data_bytes: usize) -> Option<Self> {
        let segment_count = data_bytes >> SEGMENT_BYTES.trailing_zeros();
        (block_count >= 2).then(|| Ribbon {
            hasher: Hasher::new(seed, block_count),
            columns: Columns::new(segment_count, block_count),
        })
    }

    /// Returns the first segment that a query for a key hash reads, for prefetching.
    #[inline]
    pub(crate) fn first_segment(self, hash: u64) -> usize {
        let slot = self.hasher.equation(hash).slot;
        self.columns.of_block(slot / BLOCK_SLOTS).0
    }

    /// Whether the filter may contain the key with this hash; true if segments are missing.
    #[inline]
    pub(crate) fn may_contain(self, segments: &[[u8; SEGMENT_BYTES]], hash: u64) -> bool {
        let equation = self.hasher.equation(hash);
        let offset = equation.slot % BLOCK_SLOTS;
        let (first, columns) = self.columns.of_block(equation.slot / BLOCK_SLOTS);
        let columns = columns as usize;
        let Some(block) = segments.get(first..).and_then(|rest| rest.get(..columns)) else {
            return true;
        };
        let low = equation.coefficients << offset;
        if offset == 0 {
            return block.iter().enumerate().all(|(column, segment)| {
                parity(u128::from_le_bytes(*segment) & low) == result_bit(equation.result, column)
            });
        }
        let high = equation.coefficients >> BLOCK_SLOTS.wrapping_sub(offset);
        let next = first.saturating_add(columns);
        let Some(next) = segments.get(next..).and_then(|rest| rest.get(..columns)) else {
            return true;
        };
        block
            .iter()
            .zip(next)
            .enumerate()
            .all(|(column, (segment, next))| {
                let bits =
                    (u128::from_le_bytes(*segment) & low) ^ (u128::from_le_bytes(*next) & high);
                parity(bits) == result_bit(equation.result, column)
            })
    }
}

/// Returns 1 if the number of set bits is odd, otherwise 0.
#[inline]
fn parity(bits: u128) -> u32 {
    bits.count_ones() & 1
}

/// Returns the expected result bit in column `column`.
#[inline]
fn result_bit(result: u32, column: usize) -> u32 {
    (result >> (column & 31)) & 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_spread_with_the_shorter_blocks_first() {
        let columns = Columns::new(17, 4);
        assert_eq!((columns.upper, columns.short_blocks), (5, 3));
        assert_eq!(columns.of_block(0), (0, 4));
        assert_eq!(columns.of_block(2), (8, 4));
        assert_eq!(columns.of_block(3), (12, 5));
        assert_eq!(Columns::new(1000, 4).upper, 32);
        assert_eq!(Columns::new(0, 4).of_block(3), (0, 0));
    }
}
