//! Collects the hashes of a filter's keys and prefixes, and builds the filter from them.

use koeldb_base::checksum::xxph3_64;

use super::policy::FilterAlgorithm;
use super::{METADATA_BYTES, bloom, legacy_bloom, ribbon_builder};

/// A builder of one filter.
#[derive(Debug)]
pub(crate) struct FilterBuilder {
    algorithm: FilterAlgorithm,
    hashes: Vec<u64>,
    last_prefix: Option<u64>,
}

impl FilterBuilder {
    pub(crate) fn new(algorithm: FilterAlgorithm) -> Self {
        FilterBuilder {
            algorithm,
            hashes: Vec::new(),
            last_prefix: None,
        }
    }

    /// Adds a key or prefix, unless it equals the last one added.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8]) {
        let hash = self.hash(key);
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Adds a key and its prefix. Consecutive equal prefixes are stored once, even with keys in
    /// between.
    #[inline]
    pub(crate) fn add_with_prefix(&mut self, key: &[u8], prefix: &[u8]) {
        let key = self.hash(key);
        let prefix = self.hash(prefix);
        let last_key = self.hashes.last().copied();
        let last_prefix = self.last_prefix.replace(prefix);
        if Some(prefix) != last_prefix && prefix != key && Some(prefix) != last_key {
            self.hashes.push(prefix);
        }
        // In reverse order a key may equal the prefix of the preceding keys.
        if Some(key) != last_key && Some(key) != last_prefix {
            self.hashes.push(key);
        }
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        match self.algorithm {
            FilterAlgorithm::LegacyBloom { .. } => u64::from(legacy_bloom::hash(key)),
            _ => xxph3_64(key),
        }
    }

    /// The number of keys and prefixes so far.
    pub(crate) fn entry_count(&self) -> usize {
        self.hashes.len()
    }

    /// Builds the filter of the entries so far, and starts a new filter.
    ///
    /// Without entries it is empty, which denies every key.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.last_prefix = None;
        let filter = match self.algorithm {
            _ if self.hashes.is_empty() => Vec::new(),
            FilterAlgorithm::FastLocalBloom { millibits } => bloom::build(&self.hashes, millibits),
            FilterAlgorithm::LegacyBloom { bits_per_key } => {
                legacy_bloom::build(&self.hashes, bits_per_key)
            }
            FilterAlgorithm::Ribbon {
                millibits,
                one_in_false_positives,
            } => ribbon_builder::build(&self.hashes, millibits, one_in_false_positives),
        };
        self.hashes.clear();
        filter
    }
}

impl FilterAlgorithm {
    /// The size of a filter of `entry_count` entries.
    pub(crate) fn filter_bytes(self, entry_count: usize) -> u64 {
        if entry_count == 0 {
            return 0;
        }
        match self {
            FilterAlgorithm::FastLocalBloom { millibits } => {
                bloom::data_bytes(entry_count, millibits) + METADATA_BYTES as u64
            }
            FilterAlgorithm::LegacyBloom { bits_per_key } => {
                legacy_bloom::data_bytes(entry_count, bits_per_key) + METADATA_BYTES as u64
            }
            FilterAlgorithm::Ribbon {
                millibits,
                one_in_false_positives,
            } => ribbon_builder::bytes(entry_count, millibits, one_in_false_positives),
        }
    }
}
