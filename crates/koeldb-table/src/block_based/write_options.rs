//! Checks of a table builder's settings, and values derived from them.

use koeldb_base::codec::Compression;
use koeldb_base::coding::to_usize;
use koeldb_base::{Error, Result};

use super::filter_builder::TableFilterBuilder;
use super::index_builder::{IndexBuilder, IndexOptions};
use crate::block_builder::BlockBuilder;
pub use crate::build_context::BlockBasedWriteOptions;
use crate::build_context::{TableBuildContext, TableReason};
use crate::format::{BLOCK_TRAILER_BYTES, FORMAT_VERSION_MAX, FORMAT_VERSION_MIN, IndexType};

impl BlockBasedWriteOptions {
    /// Checks that the options are valid and consistent; otherwise returns `InvalidArgument`.
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
        if self.index_type == IndexType::HashSearch && context.order.has_timestamps() {
            return Err(Error::not_supported(
                "index_type=kHashSearch is not supported with user-defined timestamps",
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
        // A partition is found by a key with a timestamp, which a look-up in the filter has not.
        let partitioned = self.partition_filters
            && self.index_type == IndexType::TwoLevel
            && !context.order.has_timestamps();
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

/// The size limit at which a data block under construction is cut.
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
    /// Derives the limit from block size, deviation, alignment and `block_per_entry`.
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

    /// Whether the block must be cut before an entry with `key` and `value`.
    #[inline]
    pub(super) fn is_reached(self, block: &BlockBuilder, key: &[u8], value: &[u8]) -> bool {
        let bytes = block.estimated_bytes();
        bytes >= self.bytes
            || key.len() + value.len() >= OWN_BLOCK_BYTES
            || (bytes > self.early_bytes
                && block.estimated_bytes_with(key, value) + self.trailer_bytes > self.bytes)
    }
}
