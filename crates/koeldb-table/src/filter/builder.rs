//! Collects the hashes of a filter's keys and prefixes, and builds the filter from them.

use koeldb_base::checksum::xxph3_64;
use koeldb_base::{Error, Result};

use super::policy::FilterAlgorithm;
use super::reader::FilterReader;
use super::{METADATA_BYTES, bloom, legacy_bloom, ribbon_builder};

/// A builder of one full filter or filter partition, which collects key hashes.
#[derive(Debug)]
pub(crate) struct FilterBuilder {
    algorithm: FilterAlgorithm,
    hashes: Vec<u64>,
    last_prefix: Option<u64>,
    /// The exclusive or of all hashes, as they were added.
    parity: u64,
    /// Whether each filter is verified (`detect_filter_construct_corruption`).
    verifies: bool,
}

impl FilterBuilder {
    pub(crate) fn new(algorithm: FilterAlgorithm) -> Self {
        FilterBuilder {
            algorithm,
            hashes: Vec::new(),
            last_prefix: None,
            parity: 0,
            verifies: false,
        }
    }

    /// The size of a filter with the keys and prefixes added so far.
    pub(crate) fn filter_bytes(&self) -> u64 {
        self.algorithm.filter_bytes(self.hashes.len())
    }

    /// Enables verification of each finished filter (`detect_filter_construct_corruption`).
    pub(crate) fn verifying(self, verifies: bool) -> Self {
        FilterBuilder { verifies, ..self }
    }

    /// Adds a key hash, and updates the parity that detects memory errors.
    #[inline]
    fn push(&mut self, hash: u64) {
        self.parity ^= hash;
        self.hashes.push(hash);
    }

    /// Adds a key or prefix, unless it equals the last one added.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8]) {
        let hash = self.hash(key);
        if self.hashes.last() != Some(&hash) {
            self.push(hash);
        }
    }

    /// Adds a key and its prefix, without consecutive duplicates of either.
    #[inline]
    pub(crate) fn add_with_prefix(&mut self, key: &[u8], prefix: &[u8]) {
        let key = self.hash(key);
        let prefix = self.hash(prefix);
        let last_key = self.hashes.last().copied();
        let last_prefix = self.last_prefix.replace(prefix);
        if Some(prefix) != last_prefix && prefix != key && Some(prefix) != last_key {
            self.push(prefix);
        }
        // In reverse order a key may equal the prefix of the preceding keys.
        if Some(key) != last_key && Some(key) != last_prefix {
            self.push(key);
        }
    }

    /// Hashes a key or prefix with the hash function of the filter's format.
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

    /// Builds the filter from the keys and prefixes so far, and starts a new one.
    ///
    /// Without entries it is empty, which denies every key.
    ///
    /// # Errors
    /// `Corruption` if verification finds that the entries were changed in memory, or that the
    /// filter denies one of them.
    pub(crate) fn finish(&mut self) -> Result<Vec<u8>> {
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
        let verified = match self.verifies {
            true => self.verify(&filter),
            false => Ok(()),
        };
        self.hashes.clear();
        self.parity = 0;
        verified.map(|()| filter)
    }

    /// Checks that the hashes did not change in memory, and that `filter` admits all of them.
    fn verify(&self, filter: &[u8]) -> Result<()> {
        let parity = self.hashes.iter().fold(0, |parity, hash| parity ^ hash);
        let filter = FilterReader::new(filter);
        let is_whole = self.hashes.iter().all(|&hash| filter.admits_entry(hash));
        if parity == self.parity && is_whole {
            return Ok(());
        }
        Err(Error::corruption(
            "a filter was changed in memory while it was built",
        ))
    }
}

impl FilterAlgorithm {
    /// Returns the size of a filter of `entry_count` keys and prefixes.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterPolicy;

    #[test]
    fn verification_detects_changes_of_entries_and_of_the_filter() {
        for (policy, version) in [
            (FilterPolicy::Bloom { millibits: 10_000 }, 6),
            (FilterPolicy::Bloom { millibits: 10_000 }, 4),
        ] {
            let built = |verifies| {
                let algorithm = policy.algorithm(version, None).unwrap();
                let mut builder = FilterBuilder::new(algorithm).verifying(verifies);
                for key in 0..100_u32 {
                    builder.add(&key.to_le_bytes());
                }
                builder
            };
            let good = built(true).finish().unwrap();
            let mut damaged = built(true);
            damaged.hashes[40] ^= 1 << 20;
            assert!(damaged.finish().unwrap_err().is_corruption());
            assert!(damaged.finish().unwrap().is_empty());
            let mut unnoticed = built(false);
            unnoticed.hashes[40] ^= 1 << 20;
            assert_eq!(unnoticed.finish().unwrap().len(), good.len());
            let builder = built(true);
            builder.verify(&good).unwrap();
            let mut denying = good.clone();
            denying[..64].fill(0);
            assert!(builder.verify(&denying).unwrap_err().is_corruption());
        }
    }
}
