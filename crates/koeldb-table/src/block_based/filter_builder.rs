//! Writing the filter of a table: which keys and prefixes go in, in one block or in partitions.
//!
//! Partitions are cut by the number of entries, apart from those of the index ("decoupled", RocksDB 10.6). The
//! key of a partition is its last user key, as an internal key behind all of that user key's entries, so that
//! look-ups of any of them find the partition. Where prefixes are filtered, the prefixes on both sides of a cut
//! go into both partitions, for seeks that start near it.

use std::sync::Arc;

use koeldb_base::Result;
use koeldb_base::coding::to_usize;
use koeldb_base::key::FOOTER_BYTES;
use koeldb_base::prefix::PrefixExtractor;

use super::format::{BLOCK_TRAILER_BYTES, BlockHandle};
use super::index_builder::{IndexBlockBuilder, IndexBlockFormat, IndexBlockSink};
use crate::filter::builder::FilterBuilder;
use crate::filter::policy::FilterAlgorithm;

/// The filter of a table under construction.
pub(crate) struct TableFilterBuilder {
    whole_keys: bool,
    extractor: Option<Arc<dyn PrefixExtractor>>,
    current: FilterBuilder,
    partitions: Option<Partitions>,
    entry_count: u64,
}

#[derive(Debug)]
struct Partitions {
    /// Entries at which a partition is full.
    entries_max: usize,
    /// The internal key and the bytes of each finished partition.
    done: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What a filter consists of once it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinishedFilter {
    /// The filter block, or the index over its partitions.
    pub(crate) handle: BlockHandle,
    pub(crate) partitioned: bool,
    /// All blocks with their trailers.
    pub(crate) bytes: u64,
}

impl TableFilterBuilder {
    /// A filter over whole keys, prefixes, or both; in partitions of about `partition_bytes` if given.
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
                done: Vec::new(),
            }),
            entry_count: 0,
        }
    }

    /// Adds a user key behind `previous`, the one before it (anything for the first).
    #[inline]
    pub(crate) fn add(&mut self, user_key: &[u8], previous: &[u8]) {
        if let Some(partitions) = &self.partitions
            && self.current.entry_count() >= partitions.entries_max
        {
            self.cut(user_key, previous);
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

    /// Ends a partition between two keys.
    fn cut(&mut self, next: &[u8], previous: &[u8]) {
        let extractor = self.extractor.clone();
        let prefix_of = |key| extractor.as_ref().and_then(|e| e.prefix(key));
        if let Some(prefix) = prefix_of(next) {
            self.current.add(prefix);
        }
        self.finish_partition(previous);
        if let Some(prefix) = prefix_of(previous) {
            self.current.add(prefix);
        }
    }

    fn finish_partition(&mut self, last_user_key: &[u8]) {
        self.entry_count += self.current.entry_count() as u64;
        let filter = self.current.finish();
        if let Some(partitions) = &mut self.partitions {
            let mut key = Vec::with_capacity(last_user_key.len() + FOOTER_BYTES);
            key.extend_from_slice(last_user_key);
            key.extend_from_slice(&[0; FOOTER_BYTES]);
            partitions.done.push((key, filter));
        }
    }

    /// The keys and prefixes added.
    pub(crate) fn entry_count(&self) -> u64 {
        self.entry_count + self.current.entry_count() as u64
    }

    /// Writes the filter, if any key was added. `last_user_key` is the last one; `format` is that of the index.
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
            let handle = sink.write(&mut self.current.finish())?;
            return Ok(Some(FinishedFilter {
                handle,
                partitioned: false,
                bytes: handle.size + BLOCK_TRAILER_BYTES as u64,
            }));
        }
        self.finish_partition(last_user_key);
        let mut bytes = 0;
        let mut index = IndexBlockBuilder::new(format);
        for (key, filter) in self.partitions.iter_mut().flat_map(|p| &mut p.done) {
            let handle = sink.write(filter)?;
            bytes += handle.size + BLOCK_TRAILER_BYTES as u64;
            index.add(key, handle, None)?;
        }
        let handle = sink.write(&mut index.finish(false)?)?;
        Ok(Some(FinishedFilter {
            handle,
            partitioned: true,
            bytes: bytes + handle.size + BLOCK_TRAILER_BYTES as u64,
        }))
    }
}

impl FilterAlgorithm {
    /// The most entries, at least one, whose filter takes no more than `bytes`.
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
