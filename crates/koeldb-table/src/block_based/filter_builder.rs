//! Builds the filter of a table over keys and prefixes, as one block or in partitions.
//!
//! Partitions are cut by the number of entries, independently of those of the index ("decoupled",
//! RocksDB 10.6). The key of a partition is its last user key, as an internal key after all entries
//! of that user key, so that lookups of any of them find the partition. If prefixes are filtered,
//! the prefixes on both sides of a cut go into both partitions, for seeks that start near it.
//!
//! Coupled partitions end with those of the index, at its next block once they are full; their keys
//! are the separators there.

use std::sync::Arc;

use koeldb_base::coding::to_usize;
use koeldb_base::key::FOOTER_BYTES;
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::{Error, Result};

use super::index_builder::{IndexBlockBuilder, IndexBlockFormat, IndexBlockSink};
use crate::filter::builder::FilterBuilder;
use crate::filter::policy::FilterAlgorithm;
use crate::format::BlockHandle;

/// A builder of a table's full or partitioned filter.
pub(crate) struct TableFilterBuilder {
    whole_keys: bool,
    extractor: Option<Arc<dyn PrefixExtractor>>,
    current: FilterBuilder,
    partitions: Option<Partitions>,
    entry_count: u64,
    /// The first failure of the verification of a partition.
    failure: Option<Error>,
}

/// The finished partitions of a partitioned filter under construction.
#[derive(Debug)]
struct Partitions {
    /// The number of entries at which a partition is full.
    entries_max: usize,
    /// Whether only [`TableFilterBuilder::cut_with_index`] ends a partition.
    is_coupled: bool,
    /// The index key and the bytes of each finished partition.
    done: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The location and size of a written filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinishedFilter {
    /// The filter block, or the index over its partitions.
    pub(crate) handle: BlockHandle,
    pub(crate) partitioned: bool,
    /// The size of all blocks without trailers.
    pub(crate) bytes: u64,
}

impl TableFilterBuilder {
    /// Creates a filter builder for whole keys, prefixes, or both.
    ///
    /// With `partition_bytes`, it is partitioned into pieces of about that size.
    pub(crate) fn new(
        algorithm: FilterAlgorithm,
        whole_keys: bool,
        extractor: Option<Arc<dyn PrefixExtractor>>,
        partition_bytes: Option<u64>,
    ) -> Self {
        TableFilterBuilder {
            whole_keys,
            extractor,
            current: FilterBuilder::new(algorithm),
            partitions: partition_bytes.map(|bytes| Partitions {
                entries_max: algorithm.entries_within(bytes),
                is_coupled: false,
                done: Vec::new(),
            }),
            entry_count: 0,
            failure: None,
        }
    }

    /// Sets whether filter partitions end with index partitions (`!decouple_partitioned_filters`).
    pub(crate) fn coupled(mut self, is_coupled: bool) -> Self {
        if let Some(partitions) = &mut self.partitions {
            partitions.is_coupled = is_coupled;
        }
        self
    }

    /// Whether filter partitions end only where index partitions end.
    pub(crate) fn is_coupled(&self) -> bool {
        let partitions = self.partitions.as_ref();
        partitions.is_some_and(|partitions| partitions.is_coupled)
    }

    /// Whether the current filter partition is full, so that the index partition should end too.
    pub(crate) fn wants_cut(&self) -> bool {
        let full = |partitions: &Partitions| self.current.entry_count() >= partitions.entries_max;
        self.partitions.as_ref().is_some_and(full)
    }

    /// Ends the filter partition together with an index partition, at its last key `separator`.
    pub(crate) fn cut_with_index(&mut self, separator: &[u8], next: &[u8], previous: &[u8]) {
        self.cut(next, previous, separator.to_vec());
    }

    /// Estimates the size of the filter if no key follows.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        let done = self
            .partitions
            .iter()
            .flat_map(|partitions| &partitions.done);
        self.current.filter_bytes()
            + done
                .map(|(key, filter)| (filter.len() + key.len() + 32) as u64)
                .sum::<u64>()
    }

    /// Enables verification of each finished filter against the keys added to it.
    pub(crate) fn verifying(self, verifies: bool) -> Self {
        TableFilterBuilder {
            current: self.current.verifying(verifies),
            ..self
        }
    }

    /// Adds a user key, or its prefix, or both; `previous` is the user key before it.
    #[inline]
    pub(crate) fn add(&mut self, user_key: &[u8], previous: &[u8]) {
        if let Some(partitions) = &self.partitions
            && !partitions.is_coupled
            && self.current.entry_count() >= partitions.entries_max
        {
            self.cut(user_key, previous, last_version_of(previous));
        }
        let Some(extractor) = &self.extractor else {
            if self.whole_keys {
                self.current.add(user_key);
            }
            return;
        };
        match (extractor.prefix(user_key), self.whole_keys) {
            (Some(prefix), true) => self.current.add_with_prefix(user_key, prefix),
            (Some(prefix), false) => self.current.add(prefix),
            (None, true) => self.current.add(user_key),
            (None, false) => {}
        }
    }

    /// Finishes a partition between the user keys `previous` and `next`; `key` is its index key.
    fn cut(&mut self, next: &[u8], previous: &[u8], key: Vec<u8>) {
        let extractor = self.extractor.clone();
        let prefix_of = |key| extractor.as_ref().and_then(|e| e.prefix(key));
        if let Some(prefix) = prefix_of(next) {
            self.current.add(prefix);
        }
        self.finish_partition(key);
        if let Some(prefix) = prefix_of(previous) {
            self.current.add(prefix);
        }
    }

    /// Finishes a partition whose index key is the internal key `key`.
    fn finish_partition(&mut self, key: Vec<u8>) {
        self.entry_count += self.current.entry_count() as u64;
        let filter = self.current.finish().unwrap_or_else(|error| {
            self.failure = Some(error);
            Vec::new()
        });
        if let Some(partitions) = &mut self.partitions {
            partitions.done.push((key, filter));
        }
    }

    /// The number of keys and prefixes added.
    pub(crate) fn entry_count(&self) -> u64 {
        self.entry_count + self.current.entry_count() as u64
    }

    /// Writes the filter of the table, full or partitioned; `None` if no key was added.
    ///
    /// `last_user_key` is the last key; `format` is that of the table's index.
    pub(crate) fn finish(
        &mut self,
        last_user_key: &[u8],
        format: IndexBlockFormat,
        sink: &mut impl IndexBlockSink,
    ) -> Result<Option<FinishedFilter>> {
        if self.entry_count() == 0 {
            return Ok(None);
        }
        if self.partitions.is_none() {
            let handle = sink.write(&mut self.current.finish()?)?;
            return Ok(Some(FinishedFilter {
                handle,
                partitioned: false,
                bytes: handle.size,
            }));
        }
        self.finish_partition(last_version_of(last_user_key));
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let mut bytes = 0;
        let mut index = IndexBlockBuilder::new(format);
        for (key, filter) in self.partitions.iter_mut().flat_map(|p| &mut p.done) {
            let handle = sink.write(filter)?;
            bytes += handle.size;
            index.add(key, handle, None)?;
        }
        let handle = sink.write(&mut index.finish(false)?)?;
        Ok(Some(FinishedFilter {
            handle,
            partitioned: true,
            bytes: bytes + handle.size,
        }))
    }
}

/// Returns the internal key that sorts after all versions of a user key (sequence number 0).
fn last_version_of(user_key: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(user_key.len() + FOOTER_BYTES);
    key.extend_from_slice(user_key);
    key.extend_from_slice(&[0; FOOTER_BYTES]);
    key
}

impl FilterAlgorithm {
    /// Returns the largest number of keys, at least 1, whose filter fits into `bytes` bytes.
    fn entries_within(self, bytes: u64) -> usize {
        // Every algorithm takes at least half a bit per entry.
        let (mut low, mut high) = (1, to_usize(bytes).saturating_mul(16).max(1));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.filter_bytes(middle) <= bytes {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }
}

impl std::fmt::Debug for TableFilterBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableFilterBuilder")
            .field("whole_keys", &self.whole_keys)
            .field("prefixes", &self.extractor.as_ref().map(|e| e.name()))
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{FilterPolicy, FilterReader};
    use koeldb_base::KeyOrder;
    use koeldb_base::key::{MAX_SEQNO, ValueType, encode, user_key};
    use koeldb_base::prefix::FixedPrefix;
    use proptest::prelude::*;

    fn partitions_of(
        policy: FilterPolicy,
        keys: &[Vec<u8>],
        prefix_len: Option<usize>,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let extractor = prefix_len.map(|len| Arc::new(FixedPrefix::new(len)) as _);
        let algorithm = policy.algorithm(6, None).unwrap();
        let mut builder = TableFilterBuilder::new(algorithm, true, extractor, Some(100));
        let mut previous: &[u8] = &[];
        for key in keys {
            builder.add(key, previous);
            previous = key;
        }
        builder.finish_partition(last_version_of(previous));
        builder.partitions.unwrap().done
    }

    /// The filter that a reader queries for an internal key, with index keys of either mode.
    fn partition_for<'p>(
        partitions: &'p [(Vec<u8>, Vec<u8>)],
        target: &[u8],
        user_keys: bool,
    ) -> FilterReader<&'p [u8]> {
        let order = KeyOrder::Bytewise;
        let found = partitions.iter().find(|(key, _)| {
            if user_keys {
                user_key(key) >= user_key(target)
            } else {
                order.compare_internal(key, target).is_ge()
            }
        });
        FilterReader::new(&found.or(partitions.last()).unwrap().1[..])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_key_is_in_the_partition_it_is_looked_up_in(
            mut keys in prop::collection::vec(prop::collection::vec(0..4_u8, 0..8), 1..600),
            seqno in 0..=MAX_SEQNO,
            user_keys: bool,
            ribbon: bool,
            prefix_len in prop::option::of(1..4_usize),
        ) {
            keys.sort();
            let policy = if ribbon { FilterPolicy::ribbon(10.0, -1) } else { FilterPolicy::bloom(10.0) };
            let partitions = partitions_of(policy, &keys, prefix_len);
            prop_assert!(keys.len() < 600 || partitions.len() > 1);
            for key in &keys {
                let target = encode(key, seqno, ValueType::FOR_SEEK);
                let filter = partition_for(&partitions, &target, user_keys);
                prop_assert!(filter.may_contain(key));
                if let Some(prefix) = prefix_len.and_then(|len| key.get(..len)) {
                    prop_assert!(filter.may_contain(prefix));
                }
            }
        }
    }

    #[test]
    fn partitions_hold_what_fits_in_their_bytes() {
        for policy in [FilterPolicy::bloom(10.0), FilterPolicy::ribbon(10.0, -1)] {
            let algorithm = policy.algorithm(6, None).unwrap();
            for bytes in [0, 64, 600, 3700] {
                let entries = algorithm.entries_within(bytes);
                assert!(entries >= 1);
                assert!(algorithm.filter_bytes(entries) <= bytes || entries == 1);
                assert!(algorithm.filter_bytes(entries + 1) > bytes);
            }
        }
    }

    #[test]
    fn a_table_without_filterable_keys_has_no_filter() {
        struct Nowhere;
        impl IndexBlockSink for Nowhere {
            fn write(&mut self, _: &mut Vec<u8>) -> Result<BlockHandle> {
                unreachable!("nothing to write")
            }
        }
        let algorithm = FilterPolicy::bloom(10.0).algorithm(6, None).unwrap();
        let extractor: Arc<dyn PrefixExtractor> = Arc::new(FixedPrefix::new(5));
        let mut builder = TableFilterBuilder::new(algorithm, false, Some(extractor), None);
        builder.add(b"abc", b"");
        let format = IndexBlockFormat {
            restart_interval: 1,
            delta_values: true,
            user_keys: true,
        };
        assert!(
            builder
                .finish(b"abc", format, &mut Nowhere)
                .unwrap()
                .is_none()
        );
    }
}
