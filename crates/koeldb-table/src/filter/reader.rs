//! Queries of stored filters.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::checksum::xxph3_64;
use koeldb_base::coding::fixed32_at;

use super::METADATA_BYTES;
use super::bloom::{Line, line_may_contain, line_of, lines_may_contain};
use super::legacy_bloom::{self, LegacyBloom};
use super::ribbon::{Ribbon, SEGMENT_BYTES};

/// A reader that queries the filter in a filter block, over owned or borrowed bytes.
///
/// Created once when the block is loaded; queries allocate nothing.
#[derive(Clone, Debug)]
pub struct FilterReader<B> {
    bytes: B,
    shape: Shape,
}

/// The filter format and its parameters, decoded from the metadata.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// A filter that denies every key.
    Never,
    /// A filter that admits every key.
    Always,
    FastLocalBloom {
        probes: u32,
    },
    Ribbon(Ribbon),
    LegacyBloom(LegacyBloom),
}

impl<B: AsRef<[u8]>> FilterReader<B> {
    /// Creates a reader for a whole filter block without its trailer; any bytes are accepted.
    pub fn new(bytes: B) -> Self {
        let shape = Shape::parse(bytes.as_ref());
        FilterReader { bytes, shape }
    }

    /// The stored bytes.
    pub fn bytes(&self) -> &B {
        &self.bytes
    }

    /// Whether this is a legacy Bloom filter, with 32-bit key hashes.
    ///
    /// [`FilterReader::may_contain_hash`] is then inconclusive; [`FilterReader::may_contain`]
    /// works.
    #[inline]
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        matches!(self.shape, Shape::LegacyBloom(_))
    }

    /// Whether the filter may contain a key or prefix.
    #[must_use]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        match self.shape {
            Shape::LegacyBloom(bloom) => {
                bloom.may_contain(data(self.bytes.as_ref()), legacy_bloom::hash(key))
            }
            _ => self.may_contain_hash(xxph3_64(key)),
        }
    }

    /// Whether the filter may contain the key or prefix whose XXPH3 hash is `hash`.
    #[inline]
    #[must_use]
    pub fn may_contain_hash(&self, hash: u64) -> bool {
        let data = data(self.bytes.as_ref());
        match self.shape {
            Shape::FastLocalBloom { probes } => {
                let lines: &[Line] = data.as_chunks().0;
                line_of(lines, hash).is_none_or(|line| line_may_contain(line, hash, probes))
            }
            Shape::Ribbon(ribbon) => ribbon.may_contain(data.as_chunks().0, hash),
            Shape::Never => false,
            Shape::Always | Shape::LegacyBloom(_) => true,
        }
    }

    /// Whether the filter may contain the key with this hash, as its `FilterBuilder` computed it.
    pub(crate) fn admits_entry(&self, hash: u64) -> bool {
        match self.shape {
            Shape::LegacyBloom(bloom) => {
                let hash = u32::try_from(hash).unwrap_or(u32::MAX);
                bloom.may_contain(data(self.bytes.as_ref()), hash)
            }
            _ => self.may_contain_hash(hash),
        }
    }

    /// Queries the filter for many XXPH3 hashes; writes a result for each into `found`.
    ///
    /// # Panics
    /// If `found` is not as long as `hashes`.
    pub fn may_contain_hashes(&self, hashes: &[u64], found: &mut [bool]) {
        assert_eq!(hashes.len(), found.len(), "an answer for each hash");
        let data = data(self.bytes.as_ref());
        match self.shape {
            Shape::FastLocalBloom { probes } => {
                lines_may_contain(data.as_chunks().0, probes, hashes, found);
            }
            Shape::Ribbon(ribbon) => {
                let segments: &[[u8; SEGMENT_BYTES]] = data.as_chunks().0;
                let touched = hashes.iter().fold(0, |touched, &hash| {
                    let segment = segments.get(ribbon.first_segment(hash));
                    touched ^ segment.map_or(0, |segment| segment[0])
                });
                std::hint::black_box(touched);
                for (&hash, found) in hashes.iter().zip(found) {
                    *found = ribbon.may_contain(segments, hash);
                }
            }
            Shape::Never => found.fill(false),
            Shape::Always | Shape::LegacyBloom(_) => found.fill(true),
        }
    }
}

impl Shape {
    /// Decodes the filter format from the metadata; an unknown format admits every key.
    fn parse(bytes: &[u8]) -> Self {
        let Some((data, &[m0, m1, m2, m3, m4])) = bytes.split_last_chunk::<METADATA_BYTES>() else {
            return Shape::Never;
        };
        if data.is_empty() {
            return Shape::Never;
        }
        match m0 {
            0xff => match (m1, m2 >> 5, m2 & 0x1f, [m3, m4]) {
                (0, 0, probes @ 1..=30, [0, 0]) if data.as_chunks::<64>().1.is_empty() => {
                    Shape::FastLocalBloom {
                        probes: u32::from(probes),
                    }
                }
                _ => Shape::Always,
            },
            0xfe => {
                let block_count = u32::from_le_bytes([m2, m3, m4, 0]);
                Ribbon::new(m1, block_count, data.len()).map_or(Shape::Always, Shape::Ribbon)
            }
            1..=127 => {
                let line_count = fixed32_at(&[m1, m2, m3, m4], 0).unwrap_or(0);
                LegacyBloom::new(m0, line_count, data.len())
                    .map_or(Shape::Always, Shape::LegacyBloom)
            }
            _ => Shape::Always,
        }
    }
}

/// Returns the filter's data, the bytes before the metadata.
#[inline]
fn data(bytes: &[u8]) -> &[u8] {
    bytes
        .split_last_chunk::<METADATA_BYTES>()
        .map_or(&[], |(data, _)| data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::builder::FilterBuilder;
    use crate::filter::policy::FilterPolicy;
    use proptest::prelude::*;

    fn filter_of(policy: FilterPolicy, format_version: u32, keys: &[Vec<u8>]) -> Vec<u8> {
        let algorithm = policy.algorithm(format_version, None).unwrap();
        let mut builder = FilterBuilder::new(algorithm);
        for key in keys {
            builder.add(key);
        }
        builder.finish().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn keys_that_were_added_are_found(
            keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..2000),
            bits in 1.0..24.0_f64,
            kind in 0..3,
        ) {
            let (policy, version) = match kind {
                0 => (FilterPolicy::bloom(bits), 6),
                1 => (FilterPolicy::ribbon(bits, -1), 5),
                _ => (FilterPolicy::bloom(bits), 4),
            };
            let filter = filter_of(policy, version, &keys);
            let reader = FilterReader::new(&filter);
            let hashes: Vec<u64> = keys.iter().map(|key| xxph3_64(key)).collect();
            let mut found = vec![false; keys.len()];
            reader.may_contain_hashes(&hashes, &mut found);
            prop_assert!(found.iter().all(|&found| found));
            for (key, hash) in keys.iter().zip(hashes) {
                prop_assert!(reader.may_contain(key));
                prop_assert!(reader.may_contain_hash(hash));
            }
        }

        #[test]
        fn any_bytes_are_a_filter_that_answers_alike_alone_and_in_batches(
            mut bytes: Vec<u8>,
            kind in prop::sample::select(vec![None, Some(0xff_u8), Some(0xfe), Some(6)]),
            hashes in prop::collection::vec(any::<u64>(), 0..40),
        ) {
            let marker = bytes.len().checked_sub(METADATA_BYTES);
            if let (Some(marker), Some(kind)) = (marker, kind) {
                bytes[marker] = kind;
            }
            let reader = FilterReader::new(&bytes);
            let mut found = vec![false; hashes.len()];
            reader.may_contain_hashes(&hashes, &mut found);
            for (hash, found) in hashes.iter().zip(found) {
                prop_assert_eq!(reader.may_contain_hash(*hash), found);
            }
            let _ = reader.may_contain(b"key");
        }
    }

    #[test]
    fn what_is_not_understood_says_yes_and_what_is_empty_says_no() {
        let says = |bytes: &[u8]| FilterReader::new(bytes).may_contain(b"key");
        assert!(!says(b""));
        assert!(!says(&[0; 5]));
        assert!(says(&[0; 6]), "RocksDB's filter that is always true");
        let mut bloom = [0_u8; 69];
        bloom[64..].copy_from_slice(&[0xff, 0, 6, 0, 0]);
        assert!(!says(&bloom), "no bit is set");
        for metadata in [
            [0xff, 1, 6, 0, 0],
            [0xff, 0, 0, 0, 0],
            [0xff, 0, 31, 0, 0],
            [0xff, 0, 0x26, 0, 0],
            [0xff, 0, 6, 1, 0],
            [0xfe, 0, 1, 0, 0],
            [0xfd, 0, 6, 0, 0],
            [6, 3, 0, 0, 0],
        ] {
            bloom[64..].copy_from_slice(&metadata);
            assert!(says(&bloom), "{metadata:?}");
        }
        assert!(says(&[0, 0xff, 0, 6, 0, 0]), "not a whole line");
    }

    #[test]
    #[ignore = "a measurement"]
    fn probe_speed() {
        use koeldb_fs::{Clock, SystemClock};

        for (name, policy, key_count) in [
            ("bloom", FilterPolicy::bloom(10.0), 10_000_u64),
            ("bloom", FilterPolicy::bloom(10.0), 20_000_000),
            ("ribbon", FilterPolicy::ribbon(10.0, -1), 10_000),
            ("ribbon", FilterPolicy::ribbon(10.0, -1), 20_000_000),
        ] {
            let mut builder = FilterBuilder::new(policy.algorithm(6, None).unwrap());
            for key in 0..key_count {
                builder.add(&key.to_le_bytes());
            }
            let filter = builder.finish().unwrap();
            let reader = FilterReader::new(&filter);
            for (keys, first) in [("present", 0), ("absent", key_count)] {
                let hashes: Vec<u64> = (0..1_000_000_u64)
                    .map(|n| first + n * 7919 % key_count)
                    .map(|key| xxph3_64(&key.to_le_bytes()))
                    .collect();
                let mut found = [false; 32];
                let (alone, batched) = (0..7)
                    .map(|_| {
                        let start = SystemClock.now();
                        let alone = hashes
                            .iter()
                            .filter(|&&h| reader.may_contain_hash(h))
                            .count();
                        let middle = SystemClock.now();
                        let mut batched = 0;
                        for hashes in hashes.chunks(32) {
                            let found = &mut found[..hashes.len()];
                            reader.may_contain_hashes(hashes, found);
                            batched += found.iter().filter(|&&found| found).count();
                        }
                        assert_eq!(alone, batched);
                        (middle - start, SystemClock.now() - middle)
                    })
                    .reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)))
                    .unwrap();
                println!(
                    "{name} of {key_count} keys, {keys}: {} ps alone, {} ps in batches of 32",
                    alone.as_nanos() / 1000,
                    batched.as_nanos() / 1000
                );
            }
        }
    }
}
