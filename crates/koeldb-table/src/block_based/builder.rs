//! Builds a block-based table from entries.
//!
//! ```text
//! add → data block → (buffered for a dictionary) → compress, checksum, append
//!     ↘ filter     ↘ separator to the index      ↘ handle to the index
//! finish → filter → index → dictionary → range tombstones → properties → metaindex → footer
//! ```
//!
//! Invariants: `last_key` is the last key added; the index has a separator for every completed
//! block and a handle for every written one; only data blocks are written before `finish`.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use koeldb_base::checksum::xxph3_64;
use koeldb_base::codec::{Compression, CompressionOptions, Compressor};
use koeldb_base::key::{FOOTER_BYTES, ValueType, pack, user_key};
use koeldb_base::range_del::{FragmentedTombstones, RangeTombstone};
use koeldb_base::timestamp::{self, Timestamp};
use koeldb_base::{Error, InternalKey, KeyOrder, Result};
use koeldb_fs::WritableFile;

use super::block_writer::{BlockSink, BlockWriter};
use super::compression_samples::CompressionSamples;
use super::dictionary::BufferedBlocks;
use super::filter_builder::TableFilterBuilder;
use super::index_builder::IndexBuilder;
pub use super::write_options::BlockBasedWriteOptions;
use super::write_options::BlockLimit;
use crate::block_builder::BlockBuilder;
use crate::build_context::{FinishedTable, TableBuildContext};
use crate::format::{
    BLOCK_TRAILER_BYTES, BlockHandle, CONTEXT_CHECKSUM_VERSION, ChecksumContext, Footer, TableKind,
};
use crate::memory_filter::MemoryFilterBuilder;
use crate::metaindex;
use crate::properties::{TableProperties, names};

/// The size of the largest page to which `block_align` aligns.
const PAGE_BYTES: usize = 4096;
/// The first format version that records codecs by number.
const COMPRESSION_LIST_VERSION: u32 = 7;

/// A builder of block-based tables.
#[derive(Debug)]
pub struct BlockBasedTableBuilder {
    // Fixed settings.
    order: KeyOrder,
    format: BlockBasedWriteOptions,
    limit: BlockLimit,
    compression: Compression,
    compression_options: CompressionOptions,
    // The current block.
    block: BlockBuilder,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    // State accumulated from preceding blocks.
    index: IndexBuilder,
    filter: Option<TableFilterBuilder>,
    memory_filter: Option<MemoryFilterBuilder>,
    buffered: Option<BufferedBlocks>,
    dictionary: Vec<u8>,
    compressor: Option<Compressor>,
    samples: Option<CompressionSamples>,
    codec_used: bool,
    writer: BlockWriter,
    // For the blocks after the data.
    tombstones: Vec<RangeTombstone>,
    seqnos: Option<(u64, u64)>,
    /// The smallest and largest timestamp, if keys have timestamps.
    timestamps: Option<(Timestamp, Timestamp)>,
    has_timestamps: bool,
    properties: TableProperties,
}

impl BlockBasedTableBuilder {
    /// Begins a block-based table in an empty file.
    ///
    /// # Errors
    /// `InvalidArgument` if settings contradict each other; `NotSupported` if this build lacks the
    /// codec.
    pub fn create(file: Box<dyn WritableFile>, context: &TableBuildContext) -> Result<Self> {
        let format = &context.format;
        format.check(context)?;
        let mut block = BlockBuilder::new(format.block_restart_interval, format.share_key_prefixes);
        // Keys that are equal in a custom order may have different bytes, and so different hashes.
        if format.data_block_hash_index && !matches!(context.order, KeyOrder::Custom(_)) {
            block = block.with_hash_index(format.data_block_hash_utilization);
        }
        if format.separate_values {
            block = block.with_separate_values();
        }
        let compressor = match context.compression {
            Compression::None => None,
            codec => Some(Compressor::new(codec, &context.compression_options, None)?),
        };
        let checksum = ChecksumContext {
            kind: format.checksum,
            base: base_checksum(context),
        };
        let mut index = format.index_builder(context);
        let filter = format.filter_builder(context);
        let keeps_filter =
            context.keeps_filter && filter.is_none() && context.order.equal_keys_have_equal_bytes();
        if filter.as_ref().is_some_and(TableFilterBuilder::is_coupled) {
            index.couple_partitions();
        }
        Ok(BlockBasedTableBuilder {
            order: context.order.clone(),
            format: format.clone(),
            limit: BlockLimit::new(format),
            compression: context.compression,
            compression_options: context.compression_options.clone(),
            block,
            first_key: Vec::new(),
            last_key: Vec::new(),
            index,
            filter,
            memory_filter: keeps_filter
                .then(|| MemoryFilterBuilder::new().verifying(format.verify_filters)),
            buffered: BufferedBlocks::new(
                context.compression,
                &context.compression_options,
                context.target_file_bytes,
            ),
            dictionary: Vec::new(),
            compressor,
            samples: CompressionSamples::new(format.compression_sample_period),
            codec_used: false,
            writer: BlockWriter::new(file, checksum, format.verify_compression)
                .within_super_blocks(format.super_block_bytes, format.super_block_padding_max)
                .counted(context.block_counts()),
            tombstones: Vec::new(),
            seqnos: None,
            timestamps: None,
            has_timestamps: context.order.has_timestamps(),
            properties: initial_properties(context),
        })
    }

    /// Appends an entry; entries must come in internal-key order.
    ///
    /// # Errors
    /// See [`crate::builder::TableBuilder::add`].
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let parsed = InternalKey::parse(key)?;
        if !self.last_key.is_empty()
            && self.order.compare_internal(&self.last_key, key) != Ordering::Less
        {
            return Err(out_of_order(&self.last_key, key));
        }
        self.count(parsed, key.len(), value.len())?;
        if !self.block.is_empty() && self.limit.is_reached(&self.block, key, value) {
            self.cut_block(Some(key))?;
        }
        // After the cut: a partition of the filter may end with that of the index.
        if self.has_timestamps {
            self.add_timestamp(parsed.user_key);
        }
        if let Some(filter) = &mut self.filter {
            let order = &self.order;
            let (key, last) = (parsed.user_key, user_key(&self.last_key));
            filter.add(order.strip(key), order.strip(last));
        }
        if let Some(filter) = &mut self.memory_filter {
            filter.add(parsed.user_key);
        }
        if self.block.is_empty() {
            self.first_key.clear();
            self.first_key.extend_from_slice(key);
        }
        if self.index.wants_keys() {
            self.index.add_key(parsed.user_key);
        }
        self.block.add(&self.last_key, key, value)?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// Extends the range of timestamps by that of a user key.
    fn add_timestamp(&mut self, user_key: &[u8]) {
        let (_, time) = timestamp::split(user_key);
        let order = &self.order;
        let (least, most) = self.timestamps.get_or_insert((time, time));
        if order.compare_timestamps(&time, least).is_lt() {
            *least = time;
        }
        if order.compare_timestamps(&time, most).is_gt() {
            *most = time;
        }
    }

    /// Counts a point entry in the table properties and in the range of sequence numbers.
    #[inline]
    fn count(&mut self, key: InternalKey<'_>, key_bytes: usize, value_bytes: usize) -> Result<()> {
        let properties = &mut self.properties;
        match key.value_type {
            ValueType::RangeDeletion => return Err(misplaced_tombstone()),
            ValueType::Merge => properties.merge_operand_count += 1,
            kind => properties.deletion_count += u64::from(kind.is_deletion()),
        }
        properties.entry_count += 1;
        properties.raw_key_bytes += key_bytes as u64;
        properties.raw_value_bytes += value_bytes as u64;
        let (smallest, largest) = self.seqnos.unwrap_or((key.seqno, key.seqno));
        self.seqnos = Some((smallest.min(key.seqno), largest.max(key.seqno)));
        Ok(())
    }

    /// Marks the last entry, in the properties, as an older version of the user key before it.
    #[inline]
    pub fn count_older_version(&mut self) {
        self.properties.older_version_count += 1;
    }

    /// Records a property that is known only after some or all entries.
    pub fn set_property(&mut self, name: &str, value: Vec<u8>) {
        self.properties.set_user(name, value);
    }

    /// Records that keys are stored without the timestamps that the order `comparator` has.
    pub(crate) fn set_undated(&mut self, comparator: &str) {
        self.properties.comparator_name = comparator.as_bytes().to_vec();
        self.properties.user_timestamps_persisted = 0;
    }

    /// Adds a range tombstone for the range deletion block, in any order.
    pub fn add_tombstone(&mut self, tombstone: &RangeTombstone) {
        self.tombstones.push(tombstone.clone());
    }

    /// The size of the file so far.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.writer.offset() + self.buffered.as_ref().map_or(0, BufferedBlocks::bytes)
    }

    /// An upper estimate of the final size of the file, if no entry follows.
    #[must_use]
    pub fn estimated_file_bytes(&self) -> u64 {
        /// The bytes of the properties, which are few and have long names, and of the footer.
        const PROPERTIES_BYTES: u64 = 3 << 10;
        let filter = self.filter.as_ref();
        let tombstones = self.tombstones.iter();
        self.file_bytes()
            + self.block.estimated_bytes() as u64
            + self.index.estimated_bytes()
            + filter.map_or(0, TableFilterBuilder::estimated_bytes)
            + self.dictionary.len() as u64
            + tombstones
                .map(|tombstone| (tombstone.start.len() + tombstone.end.len() + 32) as u64)
                .sum::<u64>()
            + PROPERTIES_BYTES
    }

    /// The number of entries so far, including tombstones.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.properties.entry_count + self.tombstones.len() as u64
    }

    /// Ends the current data block before the key `next`, or at the end of the table (`None`).
    ///
    /// A failure is final: index and file are then inconsistent.
    fn cut_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        self.cut_and_write(next)
            .inspect_err(|error| self.writer.give_up(error))
    }

    /// Ends the data block before key `next`; writes it, or buffers it for dictionary compression.
    fn cut_and_write(&mut self, next: Option<&[u8]>) -> Result<()> {
        self.index.add_block(&self.first_key, &self.last_key, next);
        if let Some(filter) = &mut self.filter
            && let Some(next) = next
            && let Some(separator) = self.index.end_partition(filter.wants_cut())
        {
            filter.cut_with_index(separator, user_key(next), user_key(&self.last_key));
        }
        self.properties.data_block_count += 1;
        let mut block = self.block.finish(false)?;
        let Some(buffered) = &mut self.buffered else {
            self.write_data_block(&mut block)?;
            self.block.reset(block);
            return Ok(());
        };
        buffered.push(block);
        self.block.reset(Vec::new());
        if buffered.is_full() {
            self.release_held()?;
        }
        Ok(())
    }

    /// Writes a finished data block, compressed if that pays off, and adds its handle to the index.
    fn write_data_block(&mut self, block: &mut Vec<u8>) -> Result<()> {
        if let Some(samples) = &mut self.samples {
            samples.add(block);
        }
        self.properties.uncompressed_data_bytes += block.len() as u64;
        let handle = match &mut self.compressor {
            None => {
                self.properties.compression_bypassed_count += 1;
                self.writer.write_raw(block)?
            }
            Some(compressor) => {
                let options = &self.compression_options;
                let (handle, codec) = self.writer.write_compressed(block, compressor, options)?;
                if codec == Compression::None {
                    self.properties.compression_rejected_count += 1;
                } else {
                    self.codec_used = true;
                }
                handle
            }
        };
        self.index.add_handle(handle);
        if self.format.block_align {
            self.writer
                .pad_to(self.format.block_bytes.min(PAGE_BYTES) as u64)?;
        }
        Ok(())
    }

    /// Builds the compression dictionary from the buffered data blocks, and writes these blocks.
    fn release_held(&mut self) -> Result<()> {
        let Some(buffered) = self.buffered.take() else {
            return Ok(());
        };
        self.dictionary = buffered.dictionary(self.compression, &self.compression_options);
        if !self.dictionary.is_empty() {
            self.compressor = Some(Compressor::new(
                self.compression,
                &self.compression_options,
                Some(&self.dictionary),
            )?);
            self.writer.set_dictionary(&self.dictionary);
        }
        for mut block in buffered.into_blocks() {
            self.write_data_block(&mut block)?;
        }
        Ok(())
    }

    /// Writes the remaining sections, makes the file durable and closes it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn finish(mut self) -> Result<FinishedTable> {
        self.writer.check()?;
        if !self.block.is_empty() {
            self.cut_block(None)?;
        }
        self.release_held()?;
        if let Some(samples) = &self.samples {
            samples.record(&mut self.properties);
        }
        self.writer.end_super_blocks();
        let tail_start = self.writer.offset();
        self.properties.data_bytes = tail_start;
        self.properties.tail_start_offset = tail_start;

        let mut meta: BTreeMap<&'static str, BlockHandle> = BTreeMap::new();
        self.write_filter(&mut meta)?;
        let index = self.write_index(&mut meta)?;
        if !self.dictionary.is_empty() {
            let handle = self.writer.write_raw(&mut self.dictionary)?;
            meta.insert(metaindex::COMPRESSION_DICTIONARY, handle);
        }
        self.write_tombstones(&mut meta)?;
        self.write_properties(&mut meta)?;
        let metaindex = self.write_metaindex(&meta)?;
        let footer = Footer {
            kind: TableKind::BlockBased,
            format_version: self.format.format_version,
            checksum: self.writer.checksum(),
            metaindex,
            index: if self.index_is_in_metaindex() {
                BlockHandle::NULL
            } else {
                index
            },
        };
        self.writer.append(&footer.encode(self.writer.offset())?)?;
        let memory_filter = match self.memory_filter.take() {
            Some(filter) => filter.finish()?,
            None => None,
        };
        let file_bytes = self.writer.finish()?;
        Ok(FinishedTable {
            file_bytes,
            tail_bytes: file_bytes - tail_start,
            unique_id: self.properties.unique_id().unwrap_or_default(),
            properties: self.properties,
            fallback: None,
            memory_filter,
        })
    }

    /// Whether the metaindex refers to the index block (`format_version` 6), instead of the footer.
    fn index_is_in_metaindex(&self) -> bool {
        self.format.format_version >= CONTEXT_CHECKSUM_VERSION
    }

    /// Writes the filter, if there is one, and adds its handle to the metaindex entries `meta`.
    fn write_filter(&mut self, meta: &mut BTreeMap<&'static str, BlockHandle>) -> Result<()> {
        let Some(mut filter) = self.filter.take() else {
            return Ok(());
        };
        let mut sink = BlockSink {
            writer: &mut self.writer,
            compressor: None,
            options: &self.compression_options,
            compressed: false,
        };
        self.properties.filter_entry_count = filter.entry_count();
        let format = self.index.block_format();
        if let Some(written) = filter.finish(user_key(&self.last_key), format, &mut sink)? {
            let name = if written.partitioned {
                metaindex::PARTITIONED_FILTER
            } else {
                metaindex::FULL_FILTER
            };
            meta.insert(name, written.handle);
            self.properties.filter_bytes = written.bytes;
        }
        Ok(())
    }

    /// Writes the index, and for a hash index its prefix blocks; returns the index handle.
    fn write_index(
        &mut self,
        meta: &mut BTreeMap<&'static str, BlockHandle>,
    ) -> Result<BlockHandle> {
        // The dictionary applies to data blocks only.
        let mut compressor = match (self.format.compress_index, self.dictionary.is_empty()) {
            (false, _) => None,
            (true, true) => self.compressor.take(),
            (true, false) => Some(Compressor::new(
                self.compression,
                &self.compression_options,
                None,
            )?),
        };
        self.writer.set_dictionary(&[]);
        let hash_blocks = self.index.hash_blocks();
        let mut sink = BlockSink {
            writer: &mut self.writer,
            compressor: compressor.as_mut(),
            options: &self.compression_options,
            compressed: false,
        };
        if let Some((mut prefixes, mut metadata)) = hash_blocks {
            use super::index_builder::IndexBlockSink as _;
            meta.insert(metaindex::HASH_INDEX_PREFIXES, sink.write(&mut prefixes)?);
            meta.insert(metaindex::HASH_INDEX_METADATA, sink.write(&mut metadata)?);
        }
        let index = self.index.finish(&mut sink)?;
        self.codec_used |= sink.compressed;
        if self.index_is_in_metaindex() {
            meta.insert(metaindex::INDEX, index.handle);
        }
        let properties = &mut self.properties;
        let format = self.index.block_format();
        // COMPAT: RocksDB counts one trailer, regardless of the number of blocks.
        properties.index_bytes = index.raw_bytes + BLOCK_TRAILER_BYTES as u64;
        properties.index_partitions = index.partition_count;
        properties.top_level_index_bytes = index.top_level_raw_bytes;
        properties.uniform_block_count = index.uniform_block_count;
        properties.index_key_is_user_key = u64::from(format.user_keys);
        properties.index_value_is_delta_encoded = u64::from(format.delta_values);
        properties.index_block_restart_interval = u64::from(format.restart_interval);
        Ok(index.handle)
    }

    /// Writes the range deletion block of the fragmented tombstones (`rocksdb.range_del`), if any.
    fn write_tombstones(&mut self, meta: &mut BTreeMap<&'static str, BlockHandle>) -> Result<()> {
        let tombstones = std::mem::take(&mut self.tombstones);
        let fragments = FragmentedTombstones::new(&self.order, &tombstones);
        if fragments.is_empty() {
            return Ok(());
        }
        let mut block = BlockBuilder::new(1, true);
        let mut key = Vec::new();
        for tombstone in fragments.tombstones() {
            key.clear();
            key.extend_from_slice(&tombstone.start);
            let footer = pack(tombstone.seqno, ValueType::RangeDeletion);
            key.extend_from_slice(&footer.to_le_bytes());
            block.add(&[], &key, &tombstone.end)?;
            if self.has_timestamps {
                self.add_timestamp(&tombstone.start);
            }
            let properties = &mut self.properties;
            properties.entry_count += 1;
            properties.deletion_count += 1;
            properties.range_deletion_count += 1;
            properties.raw_key_bytes += (tombstone.start.len() + FOOTER_BYTES) as u64;
            properties.raw_value_bytes += tombstone.end.len() as u64;
            let seqno = tombstone.seqno;
            let (smallest, largest) = self.seqnos.unwrap_or((seqno, seqno));
            self.seqnos = Some((smallest.min(seqno), largest.max(seqno)));
        }
        let handle = self.writer.write_raw(&mut block.finish(false)?)?;
        meta.insert(metaindex::RANGE_DELETIONS, handle);
        Ok(())
    }

    /// Writes the properties block (`rocksdb.properties`).
    fn write_properties(&mut self, meta: &mut BTreeMap<&'static str, BlockHandle>) -> Result<()> {
        let properties = &mut self.properties;
        if let Some((least, most)) = self.timestamps {
            properties.set_user(names::TIMESTAMP_MIN, least);
            properties.set_user(names::TIMESTAMP_MAX, most);
        }
        properties.smallest_seqno = self.seqnos.map(|(smallest, _)| smallest);
        properties.largest_seqno = self.seqnos.map(|(_, largest)| largest);
        properties.compression_name = compression_property(
            self.format.format_version,
            self.compression,
            self.codec_used,
        )
        .into_bytes();
        let mut block = BlockBuilder::new(u32::MAX, true);
        let mut previous = Vec::new();
        for (name, value) in self.properties.encode() {
            block.add(&previous, &name, &value)?;
            previous = name;
        }
        let handle = self.writer.write_raw(&mut block.finish(false)?)?;
        meta.insert(metaindex::PROPERTIES, handle);
        Ok(())
    }

    /// Writes the metaindex block: the block handles in `meta` by name.
    fn write_metaindex(
        &mut self,
        meta: &BTreeMap<&'static str, BlockHandle>,
    ) -> Result<BlockHandle> {
        let mut block = BlockBuilder::new(1, true);
        for (name, handle) in meta {
            block.add(&[], name.as_bytes(), &handle.to_vec())?;
        }
        self.writer.write_raw(&mut block.finish(false)?)
    }
}

/// Creates the table properties that are known before the first entry is added.
fn initial_properties(context: &TableBuildContext) -> TableProperties {
    let format = &context.format;
    let text = |text: Option<&str>| text.unwrap_or("nullptr").as_bytes().to_vec();
    let mut properties = TableProperties {
        original_file_number: context.file_number,
        format_version: u64::from(format.format_version),
        column_family_id: context.column_family_id,
        column_family_name: context.column_family_name.clone().into_bytes(),
        creation_time: context.oldest_ancestor_time,
        oldest_key_time: context.oldest_key_time,
        newest_key_time: context.newest_key_time,
        file_creation_time: context.file_creation_time,
        data_block_restart_interval: u64::from(format.block_restart_interval.max(1)),
        separate_key_value_in_data_block: u64::from(format.separate_values),
        db_id: context.db_id.clone().into_bytes(),
        session_id: context.session_id.clone().into_bytes(),
        host_id: context.host_id.clone().into_bytes(),
        filter_policy_name: format.filter.name().as_bytes().to_vec(),
        comparator_name: context.order.name().as_bytes().to_vec(),
        merge_operator_name: text(context.merge_operator_name.as_deref()),
        prefix_extractor_name: text(context.prefix_extractor.as_ref().map(|e| e.name())),
        property_collector_names: context.property_collector_names.clone().into_bytes(),
        compression_options: options_property(context).into_bytes(),
        user_collected: context.user_properties.clone(),
        ..TableProperties::default()
    };
    properties.set_user(
        names::INDEX_TYPE,
        format.index_type.to_number().to_le_bytes(),
    );
    properties.set_user_flag(names::WHOLE_KEY_FILTERING, format.whole_key_filtering);
    properties.set_user_flag(names::PREFIX_FILTERING, context.prefix_extractor.is_some());
    properties.set_user_flag(
        names::DECOUPLED_PARTITIONED_FILTERS,
        !format.couple_filter_partitions,
    );
    properties
}

/// The value of the property `rocksdb.compression`: a codec name, or the numbers of codecs in use.
fn compression_property(format_version: u32, configured: Compression, used: bool) -> String {
    match (format_version >= COMPRESSION_LIST_VERSION, configured) {
        (false, codec) => codec.name().to_owned(),
        (true, Compression::None) => ";;".to_owned(),
        (true, codec) if used => format!("BuiltinV2;{:02X};", codec.to_byte()),
        (true, _) => "BuiltinV2;;".to_owned(),
    }
}

/// Returns the value of the property `rocksdb.compression_options`.
fn options_property(context: &TableBuildContext) -> String {
    let options = &context.compression_options;
    format!(
        "window_bits={}; level={}; strategy={}; max_dict_bytes={}; zstd_max_train_bytes={}; \
         enabled=0; max_dict_buffer_bytes={}; use_zstd_dict_trainer={}; \
         max_compressed_bytes_per_kb={}; checksum={}; _type={}; ",
        options.window_bits,
        options.level,
        options.strategy,
        options.max_dict_bytes,
        options.zstd_max_train_bytes,
        options.max_dict_buffer_bytes,
        u8::from(options.use_zstd_dict_trainer),
        options.max_compressed_bytes_per_kb,
        u8::from(options.checksum),
        context.compression.to_byte(),
    )
}

/// Computes the base for context checksums (`format_version` 6), distinct for each file.
///
/// It is never 0 from format version 6 on, and 0 before.
fn base_checksum(context: &TableBuildContext) -> u32 {
    if context.format.format_version < CONTEXT_CHECKSUM_VERSION {
        return 0;
    }
    let mut identity = context.file_number.to_le_bytes().to_vec();
    identity.extend_from_slice(&context.file_creation_time.to_le_bytes());
    identity.extend_from_slice(context.session_id.as_bytes());
    identity.extend_from_slice(context.db_id.as_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "half of a hash")]
    let base = xxph3_64(&identity) as u32;
    base.max(1)
}

/// Creates the error of a key that is not larger than the last one.
#[cold]
fn out_of_order(last: &[u8], key: &[u8]) -> Error {
    Error::corruption(format!(
        "table builder: keys out of order: internal key {key:02x?} added after {last:02x?}"
    ))
}

/// Creates the error of a range tombstone among the point entries.
#[cold]
fn misplaced_tombstone() -> Error {
    Error::invalid_argument("table builder: range tombstone added as a point entry")
}

#[cfg(test)]
mod tests;
