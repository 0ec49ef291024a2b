//! Uniformity check of index keys: marks blocks where interpolation is faster than binary search.
//!
//! The rule is RocksDB 11.1's (`docs/formats/block-based-table.md`, the uniformity scan).

use koeldb_base::key::{FOOTER_BYTES, user_key};

use crate::block_builder::common_prefix_len;

/// A test whether the restart keys of an index block are uniformly distributed.
#[derive(Debug)]
pub(super) struct Uniformity {
    threshold: f64,
    internal_keys: bool,
    /// The concatenated restart keys.
    keys: Vec<u8>,
    /// The end offset of each restart key in `keys`.
    ends: Vec<usize>,
}

impl Uniformity {
    /// Creates the test with a `uniform_cv_threshold`; with a negative one no block is uniform.
    pub(super) fn new(threshold: f64, internal_keys: bool) -> Self {
        Uniformity {
            threshold,
            internal_keys,
            keys: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Adds the separator of an index entry at a restart point.
    pub(super) fn add(&mut self, separator: &[u8]) {
        if self.threshold >= 0.0 {
            let key = if self.internal_keys {
                separator
            } else {
                user_key(separator)
            };
            self.keys.extend_from_slice(key);
            self.ends.push(self.keys.len());
        }
    }

    /// Whether the coefficient of variation of the gaps between keys is below the threshold.
    ///
    /// Keys are read as numbers after their common prefix.
    pub(super) fn is_uniform(&self) -> bool {
        if self.threshold < 0.0 || self.ends.len() < 3 {
            return false;
        }
        let mut start = 0;
        let keys: Vec<&[u8]> = self
            .ends
            .iter()
            .map(|&end| &self.keys[std::mem::replace(&mut start, end)..end])
            .collect();
        let footer_bytes = if self.internal_keys { FOOTER_BYTES } else { 0 };
        if keys.iter().any(|key| key.len() < footer_bytes) {
            return false;
        }
        let prefix = common_prefix_len(keys[0], keys[keys.len() - 1]);
        let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
        for pair in keys.windows(2) {
            let number = |key: &[u8]| number_behind(&key[..key.len() - footer_bytes], prefix);
            #[expect(clippy::cast_precision_loss, reason = "a statistic")]
            let gap = number(pair[1]).wrapping_sub(number(pair[0])) as f64;
            count += 1.0;
            let difference = gap - mean;
            mean += difference / count;
            squares += difference * (gap - mean);
        }
        mean > 0.0 && (squares / count).sqrt() / mean < self.threshold
    }

    /// Discards the keys of the finished index block.
    pub(super) fn reset(&mut self) {
        self.keys.clear();
        self.ends.clear();
    }
}

/// Returns the 8 bytes of `key` after `prefix` bytes as a big-endian number, padded with zeros.
fn number_behind(key: &[u8], prefix: usize) -> u64 {
    let rest = &key[prefix.min(key.len())..];
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().rev().zip(rest) {
        *to = *from;
    }
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use koeldb_base::ValueType;
    use koeldb_base::key::encode;

    #[test]
    fn evenly_spread_keys_are_uniform() {
        let is_uniform = |threshold: f64, internal: bool, keys: &[u32]| {
            let mut uniformity = Uniformity::new(threshold, internal);
            for key in keys {
                let separator = encode(format!("key{key:08}").as_bytes(), 1, ValueType::Value);
                uniformity.add(&separator);
            }
            uniformity.is_uniform()
        };
        let even: Vec<u32> = (0..8).map(|n| 10_000_000 + n * 1_000_000).collect();
        for internal in [false, true] {
            assert!(is_uniform(0.5, internal, &even));
            assert!(!is_uniform(-1.0, internal, &even), "off");
            assert!(!is_uniform(0.5, internal, &even[..2]), "too few");
            let skewed = [1, 2, 3, 4, 5, 6, 7, 90_000_000];
            assert!(!is_uniform(0.5, internal, &skewed));
        }
    }
}
