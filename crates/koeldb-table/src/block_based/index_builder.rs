//! Builds the index: one separator and handle for each data block, in one block or in partitions.
//!
//! Whether index keys are user keys or internal keys is known only after the last block: if two
//! neighbouring blocks share a user key, all keys of the index must carry sequence numbers. The
//! builder therefore keeps the parts of the entries in compact form, and writes the index blocks at
//! the end, in the mode that suffices (`docs/formats/block-based-table.md`, index blocks).

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use koeldb_base::coding::{put_length_prefixed, put_varint64, zigzag};
use koeldb_base::key::user_key;
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::{KeyOrder, Result};

use super::uniformity::Uniformity;
use crate::block_builder::BlockBuilder;
pub use crate::build_context::IndexShortening;
use crate::format::{BLOCK_TRAILER_BYTES, BlockHandle, IndexType};

/// The format of index blocks, including those over filter partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexBlockFormat {
    pub(crate) restart_interval: u32,
    /// Whether values are stored as differences from the preceding entry.
    pub(crate) delta_values: bool,
    /// Whether keys are user keys instead of internal keys.
    pub(crate) user_keys: bool,
}

/// An index block under construction.
#[derive(Debug)]
pub(crate) struct IndexBlockBuilder {
    format: IndexBlockFormat,
    block: BlockBuilder,
    last_key: Vec<u8>,
    last_handle: BlockHandle,
    value: Vec<u8>,
}

impl IndexBlockBuilder {
    /// Creates an empty block.
    pub(crate) fn new(format: IndexBlockFormat) -> Self {
        IndexBlockBuilder {
            format,
            block: BlockBuilder::new(format.restart_interval, true),
            last_key: Vec::new(),
            last_handle: BlockHandle::NULL,
            value: Vec::new(),
        }
    }

    /// Adds an index entry: the separator and handle of a data block, and its first key if stored.
    ///
    /// `separator` is an internal key in either mode; `first_key` is present for the index type
    /// that has it.
    pub(crate) fn add(
        &mut self,
        separator: &[u8],
        handle: BlockHandle,
        first_key: Option<&[u8]>,
    ) -> Result<()> {
        let key = if self.format.user_keys {
            user_key(separator)
        } else {
            separator
        };
        if self.format.delta_values {
            let last = self.last_handle;
            let adjacent = last.offset + last.size + BLOCK_TRAILER_BYTES as u64 == handle.offset;
            self.block
                .add_unsized(&self.last_key, key, !adjacent, |is_delta, out| {
                    if is_delta {
                        let difference = handle.size.wrapping_sub(last.size).cast_signed();
                        put_varint64(out, zigzag(difference));
                    } else {
                        handle.encode_into(out);
                    }
                    if let Some(first_key) = first_key {
                        put_length_prefixed(out, first_key);
                    }
                })?;
        } else {
            self.value.clear();
            handle.encode_into(&mut self.value);
            if let Some(first_key) = first_key {
                put_length_prefixed(&mut self.value, first_key);
            }
            self.block.add(&self.last_key, key, &self.value)?;
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.last_handle = handle;
        Ok(())
    }

    fn estimated_bytes(&self) -> usize {
        self.block.estimated_bytes()
    }

    /// Whether the next entry starts a restart interval.
    fn restart_is_next(&self) -> bool {
        self.block.restart_is_next()
    }

    /// Finishes the index block; `uniform` marks its keys as uniformly distributed.
    pub(crate) fn finish(&mut self, uniform: bool) -> Result<Vec<u8>> {
        self.block.finish(uniform)
    }

    /// Discards the finished block, and begins the next one in the buffer `memory`.
    fn reset(&mut self, memory: Vec<u8>) {
        self.block.reset(memory);
        self.last_handle = BlockHandle::NULL;
    }
}

/// The destination of finished index and filter blocks.
pub(crate) trait IndexBlockSink {
    /// Writes a finished block with its trailer; returns its handle.
    fn write(&mut self, block: &mut Vec<u8>) -> Result<BlockHandle>;
}

/// A builder of a table's index, which keeps all entries in memory until it is finished.
#[derive(Debug)]
pub(crate) struct IndexBuilder {
    order: KeyOrder,
    index_type: IndexType,
    shortening: IndexShortening,
    delta_values: bool,
    restart_interval: u32,
    partition_bytes: usize,
    uniform_cv_threshold: f64,
    /// Concatenated separators, each followed by a first key if the index has first keys.
    keys: Vec<u8>,
    entries: Vec<Entry>,
    handles: Vec<BlockHandle>,
    /// The number of entries up to the end of each partition but the last, if partitions of the
    /// filter end there too.
    coupled_ends: Option<Vec<usize>>,
    /// The estimated size of the current partition, if they are coupled.
    partition_estimate: usize,
    /// Whether separators need sequence numbers, because two neighbouring blocks share a user key.
    needs_seqnos: bool,
    prefixes: Option<PrefixBlocks>,
}

/// The positions of an index entry's separator and first key in [`IndexBuilder::keys`].
#[derive(Clone, Copy, Debug)]
struct Entry {
    separator_end: usize,
    first_key_end: usize,
}

/// The location and sizes of a written index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinishedIndex {
    /// The index block, or the top level.
    pub(crate) handle: BlockHandle,
    /// The size of all index blocks, uncompressed and without trailers.
    pub(crate) raw_bytes: u64,
    /// The number of partitions; 0 if the index is not partitioned.
    pub(crate) partition_count: u64,
    /// The size of a partitioned index's top level, uncompressed and without trailer.
    pub(crate) top_level_raw_bytes: u64,
    /// The number of blocks with uniformly distributed keys.
    pub(crate) uniform_block_count: u64,
}

/// The settings of an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexOptions {
    pub(crate) index_type: IndexType,
    pub(crate) shortening: IndexShortening,
    pub(crate) delta_values: bool,
    pub(crate) user_keys_allowed: bool,
    pub(crate) restart_interval: u32,
    pub(crate) partition_bytes: usize,
    pub(crate) uniform_cv_threshold: f64,
}

/// The assumed size of handle, lengths and restart point of an entry.
const ENTRY_OVERHEAD_BYTES: usize = 24;

impl IndexBuilder {
    /// Creates an empty index; only a hash index (`kHashSearch`) uses the prefix extractor.
    pub(crate) fn new(
        order: KeyOrder,
        options: IndexOptions,
        extractor: Option<Arc<dyn PrefixExtractor>>,
    ) -> Self {
        let hashed = options.index_type == IndexType::HashSearch;
        IndexBuilder {
            order,
            index_type: options.index_type,
            shortening: options.shortening,
            delta_values: options.delta_values,
            // The hash refers to entries by restart point.
            restart_interval: if hashed { 1 } else { options.restart_interval },
            partition_bytes: options.partition_bytes,
            uniform_cv_threshold: options.uniform_cv_threshold,
            keys: Vec::new(),
            entries: Vec::new(),
            handles: Vec::new(),
            coupled_ends: None,
            partition_estimate: 0,
            needs_seqnos: !options.user_keys_allowed,
            prefixes: extractor.filter(|_| hashed).map(PrefixBlocks::new),
        }
    }

    /// Makes index partitions end only at calls of [`IndexBuilder::end_partition`].
    pub(crate) fn couple_partitions(&mut self) {
        self.coupled_ends = Some(Vec::new());
    }

    /// Whether [`IndexBuilder::add_key`] must be called for each key, as for a hash index.
    #[inline]
    pub(crate) fn wants_keys(&self) -> bool {
        self.prefixes.is_some()
    }

    /// Records the prefix of a key of the current data block, for a hash index.
    pub(crate) fn add_key(&mut self, user_key: &[u8]) {
        if let Some(prefixes) = &mut self.prefixes {
            prefixes.add(user_key, self.entries.len());
        }
    }

    /// Adds the index entry of a finished data block: a separator between `last` and `next`.
    pub(crate) fn add_block(&mut self, first: &[u8], last: &[u8], next: Option<&[u8]>) {
        match (next, self.shortening) {
            (Some(next), shortening) => {
                let shares_user_key =
                    self.order.compare(user_key(last), user_key(next)) == Ordering::Equal;
                self.needs_seqnos |= shares_user_key;
                if shortening == IndexShortening::None || shares_user_key {
                    self.keys.extend_from_slice(last);
                } else {
                    let separator = self.order.internal_separator(last, next);
                    self.keys.extend_from_slice(&separator);
                }
            }
            (None, IndexShortening::SeparatorsAndSuccessor) => {
                let successor = self.order.internal_successor(last);
                self.keys.extend_from_slice(&successor);
            }
            (None, _) => self.keys.extend_from_slice(last),
        }
        let separator_end = self.keys.len();
        let begin = self.entries.last().map_or(0, |entry| entry.first_key_end);
        self.partition_estimate += separator_end - begin + ENTRY_OVERHEAD_BYTES;
        if self.index_type == IndexType::BinarySearchWithFirstKey {
            self.keys.extend_from_slice(first);
        }
        self.entries.push(Entry {
            separator_end,
            first_key_end: self.keys.len(),
        });
    }

    /// Ends the current partition if it is full or `wanted` says so; returns its last separator.
    ///
    /// Returns `None` unless partitions are coupled ([`IndexBuilder::couple_partitions`]).
    pub(crate) fn end_partition(&mut self, wanted: bool) -> Option<&[u8]> {
        let ends = self.coupled_ends.as_mut()?;
        if !wanted && self.partition_estimate < self.partition_bytes {
            return None;
        }
        ends.push(self.entries.len());
        self.partition_estimate = 0;
        let (last, before) = self.entries.split_last()?;
        let begin = before.last().map_or(0, |entry| entry.first_key_end);
        self.keys.get(begin..last.separator_end)
    }

    /// Estimates the total size of all index blocks, from above.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        let entries = self.keys.len() + self.entries.len() * ENTRY_OVERHEAD_BYTES;
        let mean = entries / self.entries.len().max(1) + 1;
        let partitions = match self.index_type {
            IndexType::TwoLevel => entries / self.partition_bytes.max(mean) + 1,
            _ => 0,
        };
        (entries + (partitions + 1) * (mean + ENTRY_OVERHEAD_BYTES + BLOCK_TRAILER_BYTES)) as u64
    }

    /// Sets the handle of the oldest added data block that has none yet.
    pub(crate) fn add_handle(&mut self, handle: BlockHandle) {
        self.handles.push(handle);
    }

    /// Returns the format of the index blocks, which is final once all data blocks were added.
    pub(crate) fn block_format(&self) -> IndexBlockFormat {
        IndexBlockFormat {
            restart_interval: self.restart_interval,
            delta_values: self.delta_values,
            user_keys: !self.needs_seqnos,
        }
    }

    /// Builds the two blocks of a hash index (prefixes, metadata); `None` for other index types.
    pub(crate) fn hash_blocks(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.prefixes.take().map(PrefixBlocks::finish)
    }

    /// Writes all index blocks, of one or two levels.
    pub(crate) fn finish(&self, sink: &mut impl IndexBlockSink) -> Result<FinishedIndex> {
        debug_assert_eq!(self.entries.len(), self.handles.len());
        if self.index_type == IndexType::TwoLevel && !self.entries.is_empty() {
            self.finish_partitions(sink)
        } else {
            self.finish_one(sink)
        }
    }

    /// Writes the index as a single block.
    fn finish_one(&self, sink: &mut impl IndexBlockSink) -> Result<FinishedIndex> {
        let mut block = IndexBlockBuilder::new(self.block_format());
        let mut uniformity = Uniformity::new(self.uniform_cv_threshold, self.needs_seqnos);
        for (separator, first_key, handle) in self.parts() {
            if block.restart_is_next() {
                uniformity.add(separator);
            }
            block.add(separator, handle, first_key)?;
        }
        let uniform = uniformity.is_uniform();
        let mut block = block.finish(uniform)?;
        let raw_bytes = block.len() as u64;
        let handle = sink.write(&mut block)?;
        Ok(FinishedIndex {
            handle,
            raw_bytes,
            partition_count: 0,
            top_level_raw_bytes: 0,
            uniform_block_count: u64::from(uniform),
        })
    }

    /// Writes a two-level index: the partitions, then the top-level block that refers to them.
    fn finish_partitions(&self, sink: &mut impl IndexBlockSink) -> Result<FinishedIndex> {
        let mut top = IndexBlockBuilder::new(self.block_format());
        let mut partition = IndexBlockBuilder::new(self.block_format());
        let mut uniformity = Uniformity::new(self.uniform_cv_threshold, self.needs_seqnos);
        let mut finished = FinishedIndex {
            handle: BlockHandle::NULL,
            raw_bytes: 0,
            partition_count: 0,
            top_level_raw_bytes: 0,
            uniform_block_count: 0,
        };
        let mut parts = self.parts().peekable();
        let mut added = 0;
        while let Some((separator, first_key, handle)) = parts.next() {
            if partition.restart_is_next() {
                uniformity.add(separator);
            }
            partition.add(separator, handle, first_key)?;
            added += 1;
            let is_full = match &self.coupled_ends {
                Some(ends) => ends.binary_search(&added).is_ok(),
                None => partition.estimated_bytes() >= self.partition_bytes,
            };
            if parts.peek().is_some() && !is_full {
                continue;
            }
            let uniform = uniformity.is_uniform();
            let mut block = partition.finish(uniform)?;
            finished.raw_bytes += block.len() as u64;
            let handle = sink.write(&mut block)?;
            top.add(separator, handle, None)?;
            finished.partition_count += 1;
            finished.uniform_block_count += u64::from(uniform);
            partition.reset(block);
            uniformity.reset();
        }
        let mut top = top.finish(false)?;
        finished.top_level_raw_bytes = top.len() as u64;
        finished.raw_bytes += finished.top_level_raw_bytes;
        finished.handle = sink.write(&mut top)?;
        Ok(finished)
    }

    /// Iterates over the index entries: separator, first key if stored, and data block handle.
    fn parts(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>, BlockHandle)> {
        let with_first_key = self.index_type == IndexType::BinarySearchWithFirstKey;
        let mut start = 0;
        self.entries
            .iter()
            .zip(&self.handles)
            .map(move |(entry, &handle)| {
                let separator: Range<usize> = start..entry.separator_end;
                start = entry.first_key_end;
                let first_key = &self.keys[entry.separator_end..entry.first_key_end];
                (
                    &self.keys[separator],
                    with_first_key.then_some(first_key),
                    handle,
                )
            })
    }
}

/// A builder of the two prefix blocks of a hash index (`kHashSearch`).
struct PrefixBlocks {
    extractor: Arc<dyn PrefixExtractor>,
    prefixes: Vec<u8>,
    metadata: Vec<u8>,
    /// The prefix of the last key, and the index entries with that prefix.
    current: Option<(Vec<u8>, Range<usize>)>,
}

impl PrefixBlocks {
    fn new(extractor: Arc<dyn PrefixExtractor>) -> Self {
        PrefixBlocks {
            extractor,
            prefixes: Vec::new(),
            metadata: Vec::new(),
            current: None,
        }
    }

    /// Adds the prefix of a key in the data block of index entry `entry`; without prefix, nothing.
    fn add(&mut self, user_key: &[u8], entry: usize) {
        let Some(prefix) = self.extractor.prefix(user_key) else {
            return;
        };
        match &mut self.current {
            Some((current, entries)) if current == prefix => entries.end = entry + 1,
            _ => {
                let next = (prefix.to_vec(), entry..entry + 1);
                if let Some(done) = self.current.replace(next) {
                    self.push(&done.0, &done.1);
                }
            }
        }
    }

    /// Appends a prefix, and its metadata: the prefix length, first index entry, and entry count.
    fn push(&mut self, prefix: &[u8], entries: &Range<usize>) {
        self.prefixes.extend_from_slice(prefix);
        for number in [prefix.len(), entries.start, entries.len()] {
            put_varint64(&mut self.metadata, number as u64);
        }
    }

    /// Returns the contents of the two hash index blocks: the prefixes, and their metadata.
    fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        if let Some((prefix, entries)) = self.current.take() {
            self.push(&prefix, &entries);
        }
        (self.prefixes, self.metadata)
    }
}

impl std::fmt::Debug for PrefixBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrefixBlocks")
            .field("extractor", &self.extractor.name())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
