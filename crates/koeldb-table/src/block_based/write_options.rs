//! The settings of a table builder, and values derived from them.

use koeldb_base::checksum::ChecksumKind;
use koeldb_base::codec::Compression;
use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Result};

use super::filter_builder::TableFilterBuilder;
use super::index_builder::{IndexBuilder, IndexOptions, IndexShortening};
use crate::block::builder::BlockBuilder;
use crate::builder::{TableBuildContext, TableReason};
use crate::filter::FilterPolicy;
use crate::format::{BLOCK_TRAILER_BYTES, FORMAT_VERSION_MAX, FORMAT_VERSION_MIN, IndexType};

/// The block-based format settings that a builder reads.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockBasedWriteOptions {
    /// The format version: 2 to 7. RocksDB 7.8 reads up to 5.
    pub format_version: u32,
    /// The checksum type of blocks.
    pub checksum: ChecksumKind,
    /// The raw size at which a data block is cut (`block_size`).
    pub block_bytes: usize,
    /// The percentage of a block that may stay empty if the next entry would not fit; 0 fills it
    /// (`block_size_deviation`).
    pub block_deviation_percent: u32,
    /// The number of entries between restart points in data blocks.
    pub block_restart_interval: u32,
    /// Whether data blocks are aligned to their size (at most 4 KiB). Requires no compression.
    pub block_align: bool,
    /// The power of two whose multiples, as file offsets, data blocks should not cross; 0 for none
    /// (`super_block_alignment_size`).
    pub super_block_bytes: u64,
    /// The exclusive limit of the padding before a data block for that, in bytes; 0 for no padding
    /// (`super_block_alignment_size / super_block_alignment_space_overhead_ratio`).
    pub super_block_padding_max: u64,
    /// The number of data blocks of which one is compressed by other codecs, for an estimate; 0 for
    /// no estimate (`sample_for_compression`).
    pub compression_sample_period: u64,
    /// Whether keys in data blocks omit the prefix shared with the preceding key
    /// (`use_delta_encoding`).
    pub share_key_prefixes: bool,
    /// Whether data blocks store values separately from keys (`separate_key_value_in_data_block`).
    ///
    /// RocksDB before 11.0 does not read them.
    pub separate_values: bool,
    /// Whether data blocks have a hash index from user keys to restart points.
    pub data_block_hash_index: bool,
    /// The load factor of the hash index of data blocks (`data_block_hash_table_util_ratio`).
    pub data_block_hash_utilization: f64,
    /// The type of the index.
    pub index_type: IndexType,
    /// The degree to which index keys are shortened.
    pub index_shortening: IndexShortening,
    /// The number of entries between restart points in index blocks.
    pub index_block_restart_interval: u32,
    /// Whether index blocks are compressed like data blocks (`enable_index_compression`).
    pub compress_index: bool,
    /// The raw size at which an index or filter partition is cut (`metadata_block_size`).
    pub metadata_block_bytes: u64,
    /// The largest coefficient of variation at which index blocks are marked as uniform.
    ///
    /// It is that of the gaps between restart keys. A negative value marks none; RocksDB before
    /// 11.1 does not read marked blocks.
    pub uniform_cv_threshold: f64,
    /// The kind and size of the filter.
    pub filter: FilterPolicy,
    /// Whether the filter contains whole keys.
    pub whole_key_filtering: bool,
    /// Whether the filter is partitioned; requires a two-level index.
    pub partition_filters: bool,
    /// Whether filter partitions end where index partitions do (`!decouple_partitioned_filters`).
    pub couple_filter_partitions: bool,
    /// Whether each entry has a data block of its own (`FlushBlockEveryKeyPolicy`).
    pub block_per_entry: bool,
    /// Whether each compressed block is decompressed and compared.
    pub verify_compression: bool,
    /// Whether each filter is compared with its keys (`detect_filter_construct_corruption`).
    pub verify_filters: bool,
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
            super_block_bytes: 0,
            super_block_padding_max: 0,
            compression_sample_period: 0,
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
            couple_filter_partitions: false,
            block_per_entry: false,
            verify_compression: false,
            verify_filters: false,
        }
    }
}

impl BlockBasedWriteOptions {
    /// Checks that the options are consistent and can be written.
    pub(super) fn check(&self, context: &TableBuildContext) -> Result<()> {
        if !(FORMAT_VERSION_MIN..=FORMAT_VERSION_MAX).contains(&self.format_version) {
            return Err(Error::invalid_argument(format!(
                "format_version={} cannot be written: use {FORMAT_VERSION_MIN} to {FORMAT_VERSION_MAX}",
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

    /// Whether the index values are delta-encoded handles, since `format_version` 4.
    fn delta_index_values(&self) -> bool {
        self.format_version >= 4 && !self.block_align
    }

    /// Creates the index builder that these options demand.
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

    /// Creates the filter builder that these options demand; `None` for no filter.
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
        let builder = TableFilterBuilder::new(
            algorithm,
            self.whole_key_filtering,
            context.prefix_extractor.clone(),
            partitioned.then_some(partition_bytes),
        );
        Some(
            builder
                .coupled(self.couple_filter_partitions)
                .verifying(self.verify_filters),
        )
    }
}

/// The condition under which a data block is full.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockLimit {
    bytes: usize,
    /// The size from which a block is cut early if the next entry would overflow it.
    early_bytes: usize,
    /// The bytes that alignment adds to every block.
    trailer_bytes: usize,
}

/// The entry size from which an entry has a block of its own: with others it could exceed 4 GiB.
const OWN_BLOCK_BYTES: usize = 1 << 30;

impl BlockLimit {
    /// Derives the condition from block size, deviation, alignment and `block_per_entry`.
    pub(super) fn new(options: &BlockBasedWriteOptions) -> Self {
        let short = 100 - options.block_deviation_percent.min(100) as usize;
        let early_bytes = match options.block_deviation_percent {
            0 => usize::MAX,
            _ => options.block_bytes.saturating_mul(short).div_ceil(100),
        };
        BlockLimit {
            bytes: match options.block_per_entry {
                true => 0,
                false => options.block_bytes,
            },
            early_bytes,
            trailer_bytes: if options.block_align {
                BLOCK_TRAILER_BYTES
            } else {
                0
            },
        }
    }

    /// Whether to cut the block before an entry.
    #[inline]
    pub(super) fn is_reached(self, block: &BlockBuilder, key: &[u8], value: &[u8]) -> bool {
        let bytes = block.estimated_bytes();
        bytes >= self.bytes
            || key.len() + value.len() >= OWN_BLOCK_BYTES
            || (bytes > self.early_bytes
                && block.estimated_bytes_with(key, value) + self.trailer_bytes > self.bytes)
    }
}
