//! The settings of a table being written, and what follows from them.

use koeldb_base::checksum::ChecksumKind;
use koeldb_base::codec::Compression;
use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Result};

use super::block_builder::BlockBuilder;
use super::filter_builder::TableFilterBuilder;
use super::format::{BLOCK_TRAILER_BYTES, FORMAT_VERSION_MAX, FORMAT_VERSION_MIN, IndexType};
use super::index_builder::{IndexBuilder, IndexOptions, IndexShortening};
use crate::builder::{TableBuildContext, TableReason};
use crate::filter::FilterPolicy;

/// The settings of the block-based format that a writer reads.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockBasedWriteOptions {
    /// The version of the format: 2 to 7. 5 is the newest that RocksDB 7.8 reads.
    pub format_version: u32,
    /// The checksum of blocks.
    pub checksum: ChecksumKind,
    /// The raw bytes of a data block at which it is cut.
    pub block_bytes: usize,
    /// A block is cut early if it is at most this many percent short and the next entry would not fit; 0 never
    /// cuts early.
    pub block_deviation_percent: u32,
    /// Entries between restart points in data blocks.
    pub block_restart_interval: u32,
    /// Whether data blocks begin at multiples of their size (at most 4 KiB). Needs no compression.
    pub block_align: bool,
    /// Whether keys in data blocks leave out what they share with the key before.
    pub share_key_prefixes: bool,
    /// Whether data blocks keep their values apart from their keys. RocksDB before 11.0 does not read them.
    pub separate_values: bool,
    /// Whether data blocks carry a hash from user keys to restart points.
    pub data_block_hash_index: bool,
    /// The share of buckets in use in that hash.
    pub data_block_hash_utilization: f64,
    /// The kind of index.
    pub index_type: IndexType,
    /// How far index keys are shortened.
    pub index_shortening: IndexShortening,
    /// Entries between restart points in index blocks.
    pub index_block_restart_interval: u32,
    /// Whether index blocks are compressed like data blocks.
    pub compress_index: bool,
    /// The raw bytes of an index or filter partition at which it is cut.
    pub metadata_block_bytes: u64,
    /// Index blocks whose restart keys vary less than this in their gaps are marked as uniform; negative
    /// marks none, and RocksDB before 11.1 reads no others.
    pub uniform_cv_threshold: f64,
    /// The filter.
    pub filter: FilterPolicy,
    /// Whether the filter holds whole keys.
    pub whole_key_filtering: bool,
    /// Whether the filter is cut into partitions; takes a two-level index.
    pub partition_filters: bool,
}

impl Default for BlockBasedWriteOptions {
    fn default() -> Self {
        BlockBasedWriteOptions {
            format_version: 6,
            checksum: ChecksumKind::Xxh3,
            block_bytes: 4096,
            block_deviation_percent: 10,
            block_restart_interval: 16,
            block_align: false,
            share_key_prefixes: true,
            separate_values: false,
            data_block_hash_index: false,
            data_block_hash_utilization: 0.75,
            index_type: IndexType::BinarySearch,
            index_shortening: IndexShortening::Separators,
            index_block_restart_interval: 1,
            compress_index: true,
            metadata_block_bytes: 4096,
            uniform_cv_threshold: -1.0,
            filter: FilterPolicy::None,
            whole_key_filtering: true,
            partition_filters: false,
        }
    }
}

impl BlockBasedWriteOptions {
    pub(super) fn check(&self, context: &TableBuildContext) -> Result<()> {
        if !(FORMAT_VERSION_MIN..=FORMAT_VERSION_MAX).contains(&self.format_version) {
            return Err(Error::invalid_argument(format!(
                "format_version {}: {FORMAT_VERSION_MIN} to {FORMAT_VERSION_MAX} are written",
                self.format_version
            )));
        }
        if self.block_align && context.compression != Compression::None {
            return Err(Error::invalid_argument(
                "Enable block_align, but compression enabled",
            ));
        }
        if self.block_align && !self.block_bytes.is_power_of_two() {
            return Err(Error::invalid_argument(format!(
                "block_align needs a block_size that is a power of two, not {}",
                self.block_bytes
            )));
        }
        if self.index_type == IndexType::HashSearch && context.prefix_extractor.is_none() {
            return Err(Error::invalid_argument(
                "Hash index is specified for block-based table, but prefix_extractor is not given",
            ));
        }
        Ok(())
    }

    fn delta_index_values(&self) -> bool {
        self.format_version >= 4 && !self.block_align
    }

    pub(super) fn index_builder(&self, context: &TableBuildContext) -> IndexBuilder {
        let options = IndexOptions {
            index_type: self.index_type,
            shortening: self.index_shortening,
            delta_values: self.delta_index_values(),
            user_keys_allowed: self.format_version >= 3,
            restart_interval: self.index_block_restart_interval,
            partition_bytes: to_usize(self.metadata_block_bytes),
            uniform_cv_threshold: self.uniform_cv_threshold,
        };
        IndexBuilder::new(
            context.order.clone(),
            options,
            context.prefix_extractor.clone(),
        )
    }

    pub(super) fn filter_builder(&self, context: &TableBuildContext) -> Option<TableFilterBuilder> {
        let level = match context.reason {
            TableReason::Flush => Some(-1),
            TableReason::Other => None,
            TableReason::Compaction | TableReason::Recovery => {
                context.level.and_then(|level| i32::try_from(level).ok())
            }
        };
        let algorithm = self.filter.algorithm(self.format_version, level)?;
        let partitioned = self.partition_filters && self.index_type == IndexType::TwoLevel;
        let deviation = u64::from(self.block_deviation_percent.min(100));
        let partition_bytes = self
            .metadata_block_bytes
            .saturating_mul(100 - deviation)
            .div_ceil(100);
        Some(TableFilterBuilder::new(
            algorithm,
            self.whole_key_filtering,
            context.prefix_extractor.clone(),
            partitioned.then_some(partition_bytes),
        ))
    }
}

/// When a data block is full.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockLimit {
    bytes: usize,
    /// From here on a block is cut early if the next entry would overflow it.
    early_bytes: usize,
    /// What alignment adds to every block.
    trailer_bytes: usize,
}

impl BlockLimit {
    pub(super) fn new(options: &BlockBasedWriteOptions) -> Self {
        let short = 100 - options.block_deviation_percent.min(100) as usize;
        let early_bytes = match options.block_deviation_percent {
            0 => usize::MAX,
            _ => options.block_bytes.saturating_mul(short).div_ceil(100),
        };
        BlockLimit {
            bytes: options.block_bytes,
            early_bytes,
            trailer_bytes: if options.block_align {
                BLOCK_TRAILER_BYTES
            } else {
                0
            },
        }
    }

    /// Whether the block is to be cut before an entry.
    #[inline]
    pub(super) fn is_reached(self, block: &BlockBuilder, key: &[u8], value: &[u8]) -> bool {
        let bytes = block.estimated_bytes();
        bytes >= self.bytes
            || (bytes > self.early_bytes
                && block.estimated_bytes_with(key, value) + self.trailer_bytes > self.bytes)
    }
}
