//! The Bloom filter of plain tables: over the prefixes of keys, or over whole keys without an
//! extractor.
//!
//! ```text
//! h = Hash32(prefix or key, 397);  delta = h rotated right by 17;  6 probes
//!
//! without lines:  probe i: bit (h + i * delta) mod bits
//! with lines:     line = (h rotated right by 11) mod lines
//!                 a probe: bit h mod line bits of the line;
//!                 then h is rotated right by log2(line bits), + delta
//! ```
//!
//! The stored filter consists only of bits; a property has the number of lines. A filter that is
//! built when a table is opened always has lines: six probes then cost one cache miss (RocksDB
//! `util/bloom_impl.h`, `table/plain/plain_table_bloom.h`).
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::checksum::hash32;
use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Result};

use crate::block::{BlockBytes, prefetch};

/// The seed of the hash of a prefix or key.
const SEED: u32 = 397;
/// The number of bits set for each entry.
const PROBES: u32 = 6;
/// The number of bits of a written cache line, that of most machines.
const LINE_BITS: u32 = 512;
/// The largest number of lines, which is odd and whose bits have 32-bit numbers.
const LINES_MAX: u32 = u32::MAX / LINE_BITS;
/// The largest line accepted: files from machines with longer cache lines are read too.
const LINE_BITS_MAX: u32 = 4096;

/// Returns the hash of a prefix or key, for the Bloom filter and the index of a plain table.
#[inline]
pub(crate) fn hash(bytes: &[u8]) -> u32 {
    hash32(bytes, SEED)
}

/// Where the bits of a hash are in a Bloom filter: anywhere, or within one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Scattered { bits: u32 },
    Lines { count: u32, bits_log2: u32 },
}

impl Layout {
    /// Calls `probe` with each bit position of a hash until it returns false; then returns false.
    #[inline]
    fn all(self, mut hash: u32, mut probe: impl FnMut(u64) -> bool) -> bool {
        let delta = hash.rotate_right(17);
        match self {
            Layout::Scattered { bits } => {
                for _ in 0..PROBES {
                    if !probe(u64::from(hash.checked_rem(bits).unwrap_or(0))) {
                        return false;
                    }
                    hash = hash.wrapping_add(delta);
                }
            }
            Layout::Lines { bits_log2, .. } => {
                let start = self.line_start(hash);
                let mask = (1_u32 << bits_log2).wrapping_sub(1);
                for _ in 0..PROBES {
                    if !probe(start | u64::from(hash & mask)) {
                        return false;
                    }
                    hash = hash.rotate_right(bits_log2).wrapping_add(delta);
                }
            }
        }
        true
    }

    /// Returns the first bit of a hash's cache line; 0 if bits are scattered.
    #[inline]
    fn line_start(self, hash: u32) -> u64 {
        match self {
            Layout::Scattered { .. } => 0,
            Layout::Lines { count, bits_log2 } => {
                let line = hash.rotate_right(11).checked_rem(count).unwrap_or(0);
                u64::from(line) << bits_log2
            }
        }
    }
}

/// A plain table's Bloom filter, of prefixes or keys, for queries.
#[derive(Debug)]
pub(crate) struct PlainBloom {
    bytes: BlockBytes,
    layout: Layout,
}

impl PlainBloom {
    /// Creates the filter stored in a file, with `lines` cache lines; 0 for scattered bits.
    ///
    /// # Errors
    /// `Corruption` if size and lines are inconsistent.
    pub(crate) fn stored(bytes: BlockBytes, lines: u32) -> Result<Self> {
        let mismatch = || {
            Error::corruption(format!(
                "a Bloom filter of {} bytes with {lines} lines",
                bytes.len()
            ))
        };
        let bits = bytes.len().saturating_mul(8);
        let bits = u32::try_from(bits).map_err(|_| mismatch())?;
        let layout = match bits.checked_div(lines) {
            None => Layout::Scattered { bits },
            Some(line_bits)
                if line_bits.is_power_of_two()
                    && (8..=LINE_BITS_MAX).contains(&line_bits)
                    && line_bits.checked_mul(lines) == Some(bits) =>
            {
                Layout::Lines {
                    count: lines,
                    bits_log2: line_bits.trailing_zeros(),
                }
            }
            Some(_) => return Err(mismatch()),
        };
        if bits == 0 {
            return Err(mismatch());
        }
        Ok(PlainBloom { bytes, layout })
    }

    /// Whether the filter may contain the prefix or key with this hash.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u32) -> bool {
        let bytes = self.bytes.as_slice();
        self.layout.all(hash, |bit| {
            let byte = bytes.get(to_usize(bit >> 3));
            byte.is_none_or(|byte| byte & (1 << (bit & 7)) != 0)
        })
    }

    /// Prefetches the first memory that [`PlainBloom::may_contain`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        let bit = match self.layout {
            Layout::Scattered { bits } => u64::from(hash.checked_rem(bits).unwrap_or(0)),
            Layout::Lines { .. } => self.layout.line_start(hash),
        };
        prefetch(self.bytes.as_slice(), to_usize(bit >> 3));
    }

    /// The heap memory of the filter.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.heap_bytes()
    }
}

/// A builder of a plain table's Bloom filter.
#[derive(Debug)]
pub(crate) struct BloomBuilder {
    bytes: Vec<u8>,
    layout: Layout,
}

impl BloomBuilder {
    /// Creates a filter for `count` keys or prefixes, scattered or in cache lines (`with_lines`).
    ///
    /// Returns `None` if it has no bits.
    pub(crate) fn new(count: u64, bits_per_key: u32, with_lines: bool) -> Option<Self> {
        // COMPAT: RocksDB computes the size modulo 2^32.
        #[expect(clippy::cast_possible_truncation, reason = "that is the format")]
        let wanted = (count as u32).wrapping_mul(bits_per_key);
        if wanted == 0 {
            return None;
        }
        let layout = if with_lines {
            // An odd number lets more bits of the hash choose the line.
            let count = wanted.div_ceil(LINE_BITS) | 1;
            Layout::Lines {
                count: count.min(LINES_MAX),
                bits_log2: LINE_BITS.trailing_zeros(),
            }
        } else {
            // Rounded up to whole bytes.
            let bits = wanted.checked_next_multiple_of(8);
            Layout::Scattered {
                bits: bits.unwrap_or(u32::MAX - 7),
            }
        };
        let bytes = match layout {
            Layout::Scattered { bits } => bits >> 3,
            Layout::Lines { count, bits_log2 } => (count << bits_log2) >> 3,
        };
        Some(BloomBuilder {
            bytes: vec![0; bytes as usize],
            layout,
        })
    }

    /// Adds the hash of a prefix or key.
    pub(crate) fn add(&mut self, hash: u32) {
        let bytes = &mut self.bytes;
        self.layout.all(hash, |bit| {
            if let Some(byte) = bytes.get_mut(to_usize(bit >> 3)) {
                *byte |= 1 << (bit & 7);
            }
            true
        });
    }

    /// The number of cache lines; 0 if bits are scattered.
    pub(crate) fn lines(&self) -> u32 {
        match self.layout {
            Layout::Scattered { .. } => 0,
            Layout::Lines { count, .. } => count,
        }
    }

    /// Returns the bytes of the filter, for storing it in the file.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Finishes the filter for queries.
    pub(crate) fn finish(self) -> PlainBloom {
        PlainBloom {
            bytes: BlockBytes::from(self.bytes),
            layout: self.layout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(with_lines: bool) -> BloomBuilder {
        let mut builder = BloomBuilder::new(1000, 10, with_lines).unwrap();
        for number in 0..1000_u32 {
            builder.add(hash(&number.to_le_bytes()));
        }
        builder
    }

    #[test]
    fn what_was_added_is_found_and_little_else() {
        for with_lines in [false, true] {
            let filter = filled(with_lines).finish();
            let admitted = |range: std::ops::Range<u32>| {
                range
                    .filter(|number| filter.may_contain(hash(&number.to_le_bytes())))
                    .count()
            };
            assert_eq!(admitted(0..1000), 1000);
            let strangers = if cfg!(miri) { 200 } else { 10_000 };
            let few = admitted(1000..1000 + strangers);
            assert!(few < strangers as usize * 3 / 100, "{few} of {strangers}");
        }
    }

    #[test]
    fn a_stored_filter_is_what_was_built() {
        for with_lines in [false, true] {
            let builder = filled(with_lines);
            let (lines, layout) = (builder.lines(), builder.layout);
            let bytes = builder.into_bytes();
            assert_eq!(bytes.len(), if with_lines { 21 * 64 } else { 1250 });
            let stored = PlainBloom::stored(BlockBytes::from(bytes), lines).unwrap();
            assert_eq!(stored.layout, layout);
        }
    }

    #[test]
    fn sizes_that_do_not_go_together_are_refused() {
        let stored = |bytes: usize, lines| PlainBloom::stored(vec![0; bytes].into(), lines);
        assert!(stored(128, 1).is_ok(), "a line of 128 bytes");
        for (bytes, lines) in [(0, 0), (0, 1), (64, 2_000), (64, 3), (2048, 1), (96, 1)] {
            assert!(
                stored(bytes, lines).is_err(),
                "{bytes} bytes, {lines} lines"
            );
        }
    }

    #[test]
    fn nothing_is_no_filter() {
        assert!(BloomBuilder::new(0, 10, true).is_none());
        assert!(BloomBuilder::new(10, 0, false).is_none());
    }
}
