//! Opens a block-based table, from the last bytes of its file.
//!
//! ```text
//! footer -> metaindex -> properties -> how to read -> dictionary, range tombstones, index, filter
//! ```
//!
//! The end of the file is read in one piece, because all of these are usually there. Every claim of
//! an untrusted file is checked here or where it is used; opening takes no more memory than the
//! blocks it reads.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::ops::Range;
use std::sync::Arc;

use koeldb_base::codec::{Compression, Decompressor};
use koeldb_base::coding::to_usize;
use koeldb_base::key::{InternalKey, MAX_SEQNO};
use koeldb_base::range_del::{FragmentedTombstones, RangeTombstone};
use koeldb_base::timestamp::{MIN_TIMESTAMP, is_name_with_timestamps};
use koeldb_base::{Error, KeyOrder, Result, SeqNo, ValueType};
use koeldb_cache::Priority;
use koeldb_fs::RandomAccessFile;

use super::reader::{BlockBasedReader, FilterPart, MetaBlock};
use crate::block::index::{IndexDecoding, IndexFormat, IndexPreparation, IndexSearch};
use crate::block::{Block, BlockCursor, KeyFormat};
use crate::format::{BlockHandle, Footer, IndexType, TableKind};
use crate::metaindex::{self, Metaindex, named_entries};
use crate::properties::{TableProperties, names};
use crate::read_context::TableReadContext;
use crate::source::{BlockKind, CachedBlock, TableFile};

/// An open block-based table, still without its range tombstones.
pub(crate) struct Opened {
    /// The table, in the order of its stored keys.
    pub(crate) reader: BlockBasedReader,
    /// The range tombstones, in the order of the context.
    pub(crate) tombstones: Option<Arc<FragmentedTombstones>>,
    /// Whether the stored keys lack the timestamps of that order.
    pub(crate) is_undated: bool,
}

impl Opened {
    /// Returns the reader with its range tombstones, of a table whose keys are stored as they are.
    pub(crate) fn with_tombstones(self) -> BlockBasedReader {
        debug_assert!(!self.is_undated);
        BlockBasedReader {
            tombstones: self.tombstones,
            ..self.reader
        }
    }
}

/// The state of opening a block-based table, after its footer and the last bytes were read.
struct Opening<'c> {
    context: &'c TableReadContext,
    /// The order of the stored keys.
    order: KeyOrder,
    file: TableFile,
    /// The last bytes of the file, from `tail_offset` on.
    tail: Vec<u8>,
    tail_offset: u64,
}

impl BlockBasedReader {
    /// Opens a table whose footer was decoded from `tail`, the last bytes of the file.
    ///
    /// # Errors
    /// `Corruption` if the file is damaged or not the expected one; `InvalidArgument` if it was
    /// written in another order; `NotSupported` if it needs features not built in.
    pub(crate) fn open(
        file: Arc<dyn RandomAccessFile>,
        footer: Footer,
        tail: Vec<u8>,
        context: &TableReadContext,
    ) -> Result<Opened> {
        let path = file.path().to_owned();
        let opened = Opening::new(file, footer, tail, context).finish(footer);
        opened.map_err(|error| error.in_file(&path, None, "open"))
    }
}

impl<'c> Opening<'c> {
    /// Prepares to open a table whose footer was decoded from `tail`.
    fn new(
        file: Arc<dyn RandomAccessFile>,
        footer: Footer,
        tail: Vec<u8>,
        context: &'c TableReadContext,
    ) -> Self {
        let bytes = file.len();
        let blocks_end = bytes.saturating_sub(footer.bytes() as u64);
        let options = &context.block_based;
        Opening {
            context,
            order: context.order.clone(),
            tail_offset: bytes.saturating_sub(tail.len() as u64),
            tail,
            file: TableFile {
                metadata_priority: if options.high_priority_metadata {
                    Priority::High
                } else {
                    Priority::Low
                },
                ..TableFile::new(file, blocks_end, footer.checksum, context)
            },
        }
    }

    /// Reads all metadata blocks, from the metaindex to index and filter, and creates the reader.
    fn finish(mut self, footer: Footer) -> Result<Opened> {
        debug_assert_eq!(footer.kind, TableKind::BlockBased);
        let block = self.read(footer.metaindex, BlockKind::Metaindex)?;
        let metaindex = Metaindex::parse(block.entries()?)?;
        let properties = self.read_properties(&metaindex)?;
        let is_undated = self.is_undated(&properties)?;
        self.check_properties(&footer, &properties, is_undated)?;
        if is_undated {
            self.order = self.order.without_timestamps();
        }
        let global_seqno = global_seqno(&properties, self.context.largest_seqno)?;
        let index_type = properties.index_type()?;
        self.read_dictionary(&metaindex)?;
        let tombstones = self.read_tombstones(&metaindex, global_seqno, is_undated)?;

        let order = self.order.clone();
        let data_keys = KeyFormat {
            order: order.clone(),
            user_keys: false,
            global_seqno,
            guess_in_data: self.context.block_based.index_search == IndexSearch::Interpolation,
        };
        let index_format = IndexFormat {
            keys: KeyFormat {
                user_keys: properties.index_key_is_user_key != 0,
                ..data_keys.clone()
            },
            delta_values: properties.index_value_is_delta_encoded != 0,
            first_keys: index_type == IndexType::BinarySearchWithFirstKey,
            search: self.context.block_based.index_search,
        };
        let decoding = self.context.block_based.index_decoding;
        let preparation = |decode| IndexPreparation {
            format: index_format.clone(),
            decode,
        };
        self.file.index_preparation = Some(preparation(decoding == IndexDecoding::Always))
            .filter(IndexPreparation::is_needed);
        let mut index = self.read_index(&footer, &metaindex, index_type)?;
        if decoding != IndexDecoding::Never {
            index.prepare(&preparation(true));
        }
        let filter = self.read_filter(&metaindex, &properties, &index_format)?;
        let pins_partitions = self.context.block_based.pin_partitions;
        let mut reader = BlockBasedReader {
            order,
            data_keys,
            partitioned_index: index_type == IndexType::TwoLevel,
            index_format,
            index,
            filter,
            tombstones: None,
            metaindex,
            footer,
            properties,
            file: Arc::new(self.file),
            pinned_partitions: Vec::new(),
        };
        if pins_partitions.applies(self.context.level) {
            reader.pin_partitions()?;
        }
        Ok(Opened {
            reader,
            tombstones,
            is_undated,
        })
    }

    /// Whether the keys are stored without the timestamps that the order of the context has.
    ///
    /// Once timestamps are switched on, older tables are as well, by their record in the MANIFEST.
    fn is_undated(&self, properties: &TableProperties) -> Result<bool> {
        let is_recorded = properties.user_timestamps_persisted == 0;
        match self.context.undated {
            Some(false) if is_recorded && self.order.has_timestamps() => Err(
                Error::invalid_argument("the table was written without the timestamps of its keys"),
            ),
            Some(true)
                if !is_recorded && properties.comparator_name == self.order.name().as_bytes() =>
            {
                Err(Error::invalid_argument(
                    "the table was written with the timestamps of its keys",
                ))
            }
            known => Ok(self.order.has_timestamps() && known.unwrap_or(is_recorded)),
        }
    }

    /// Reads a metadata block, from the prefetched `tail` if it contains the block.
    fn read(&self, handle: BlockHandle, kind: BlockKind) -> Result<CachedBlock> {
        match self.stored(handle)? {
            Some(stored) => self.file.decode(handle, kind, stored, true),
            None => self.file.read(handle, kind, true),
        }
    }

    /// Returns the stored bytes of a block with its trailer, if the prefetched tail contains them.
    ///
    /// A mapped file is better read in place.
    fn stored(&self, handle: BlockHandle) -> Result<Option<&[u8]>> {
        let end = handle.end_within(self.file.blocks_end)?;
        if self.file.file.mapped().is_some() {
            return Ok(None);
        }
        let Some(from) = handle.offset.checked_sub(self.tail_offset) else {
            return Ok(None);
        };
        let to = end.saturating_sub(self.tail_offset);
        Ok(self.tail.get(to_usize(from)..to_usize(to)))
    }

    /// Reads and decodes the properties block.
    fn read_properties(&self, metaindex: &Metaindex) -> Result<TableProperties> {
        let handle = metaindex
            .get(metaindex::PROPERTIES)
            .ok_or_else(|| Error::corruption("the table has no properties block"))?;
        let block = match self.read(handle, BlockKind::Properties) {
            Ok(block) => block,
            Err(error) if error.is_corruption() => {
                self.read_overwritten_properties(handle).ok_or(error)?
            }
            Err(error) => return Err(error),
        };
        let entries = named_entries(block.entries()?)?;
        let entries = entries.iter().map(|(name, value)| (&name[..], &value[..]));
        let mut properties = TableProperties::decode(entries)?;
        if properties.user(names::GLOBAL_SEQNO).is_some()
            && let Some(range) = global_seqno_range(&block)
        {
            properties.global_seqno_offset = handle.offset.saturating_add(range.start as u64);
        }
        Ok(properties)
    }

    /// Reads a properties block whose checksum fails because ingestion overwrote its global seqno.
    ///
    /// The checksum was computed with zeros in its place.
    fn read_overwritten_properties(&self, handle: BlockHandle) -> Option<CachedBlock> {
        let end = handle.end_within(self.file.blocks_end).ok()?;
        let len = end.saturating_sub(handle.offset);
        let mut stored = self.file.read_bytes(handle.offset, len).ok()?;
        let block = self
            .file
            .decode(handle, BlockKind::Properties, &stored, false)
            .ok()?;
        let place = stored.get_mut(global_seqno_range(&block)?)?;
        if place.len() != size_of::<u64>() {
            return None;
        }
        place.fill(0);
        let zeroed = self
            .file
            .decode(handle, BlockKind::Properties, &stored, true);
        zeroed.is_ok().then_some(block)
    }

    /// Checks that the table fits its reader: comparator, index search, codecs and unique ID.
    fn check_properties(
        &self,
        footer: &Footer,
        properties: &TableProperties,
        is_undated: bool,
    ) -> Result<()> {
        let name = String::from_utf8_lossy(&properties.comparator_name);
        let order = &self.context.order;
        // The keys of an undated table do not tell whether timestamps were on when it was written.
        let fits_otherwise = match order.has_timestamps() {
            true => is_undated && is_name_with_timestamps(order.name(), &name),
            false => {
                properties.user_timestamps_persisted == 0
                    && is_name_with_timestamps(&name, order.name())
            }
        };
        if !name.is_empty() && name != order.name() && !fits_otherwise {
            return Err(Error::invalid_argument(format!(
                "the table was written with comparator {name}, but opened with {}",
                order.name()
            )));
        }
        if self.context.block_based.index_search == IndexSearch::Interpolation
            && !matches!(order, KeyOrder::Bytewise | KeyOrder::ReverseBytewise)
        {
            return Err(Error::invalid_argument(
                "Interpolation search requires BytewiseComparator or ReverseBytewiseComparator",
            ));
        }
        if properties.udi_is_primary_index == 1 {
            return Err(Error::not_supported(
                "the table needs a user-defined index, which is not supported",
            ));
        }
        check_compression_name(footer.format_version, &properties.compression_name)?;
        self.context.check_unique_id(properties)
    }

    /// Reads the compression dictionary of the data blocks, if there is one.
    fn read_dictionary(&mut self, metaindex: &Metaindex) -> Result<()> {
        let Some(handle) = metaindex.get(metaindex::COMPRESSION_DICTIONARY) else {
            return Ok(());
        };
        if handle.size > self.context.limits.dictionary_bytes {
            return Err(Error::corruption(format!(
                "a dictionary of {} bytes",
                handle.size
            )));
        }
        let block = self.read(handle, BlockKind::Dictionary)?;
        let dictionary = Arc::from(block.bytes().as_slice());
        self.file.data_decompressor = Decompressor::new(Some(dictionary));
        Ok(())
    }

    /// Reads the range tombstones, fragmented and clipped to the file's bounds; `None` without any.
    fn read_tombstones(
        &self,
        metaindex: &Metaindex,
        global_seqno: Option<SeqNo>,
        is_undated: bool,
    ) -> Result<Option<Arc<FragmentedTombstones>>> {
        let Some(handle) = metaindex.get(metaindex::RANGE_DELETIONS) else {
            return Ok(None);
        };
        let block = self.read(handle, BlockKind::RangeDeletions)?;
        let mut tombstones = parse_tombstones(block.entries()?, &self.order, global_seqno)?;
        if is_undated {
            for tombstone in &mut tombstones {
                tombstone.start.extend_from_slice(&MIN_TIMESTAMP);
                tombstone.end.extend_from_slice(&MIN_TIMESTAMP);
            }
        }
        let order = &self.context.order;
        let mut fragmented = FragmentedTombstones::new(order, &tombstones);
        if let Some((smallest, largest)) = &self.context.tombstone_bounds {
            fragmented = fragmented.clipped_to_file(smallest, largest);
        }
        Ok((!fragmented.is_empty()).then(|| Arc::new(fragmented)))
    }

    /// Reads the index block, or the top level of a two-level index.
    fn read_index(
        &self,
        footer: &Footer,
        metaindex: &Metaindex,
        index_type: IndexType,
    ) -> Result<MetaBlock> {
        let handle = if footer.index.is_null() {
            metaindex
                .get(metaindex::INDEX)
                .ok_or_else(|| Error::corruption("the table has no index block"))?
        } else {
            footer.index
        };
        self.read_metadata(handle, BlockKind::Index, index_type == IndexType::TwoLevel)
    }

    /// Reads the filter, or the top level of a partitioned one; `None` if none is usable.
    fn read_filter(
        &self,
        metaindex: &Metaindex,
        properties: &TableProperties,
        index_format: &IndexFormat,
    ) -> Result<Option<FilterPart>> {
        // Filters know bytes. Those of keys with timestamps have the keys without them, which
        // partitions cannot be found by.
        let order = &self.order;
        let is_usable = match order.has_timestamps() {
            true => {
                let keys = order.without_timestamps();
                let is_whole = metaindex.get(metaindex::FULL_FILTER).is_some();
                keys.permits_hashes() && is_whole
            }
            false => order.permits_hashes(),
        };
        if !is_usable {
            return Ok(None);
        }
        let (block, partitions) = if let Some(handle) = metaindex.get(metaindex::FULL_FILTER) {
            (self.read_metadata(handle, BlockKind::Filter, false)?, None)
        } else if let Some(handle) = metaindex.get(metaindex::PARTITIONED_FILTER) {
            (
                self.read_metadata(handle, BlockKind::FilterIndex, true)?,
                Some(IndexFormat {
                    first_keys: false,
                    ..index_format.clone()
                }),
            )
        } else {
            return Ok(self
                .context
                .memory_filter
                .as_ref()
                .map(FilterPart::in_memory));
        };
        let prefix_extractor = self.context.prefix_extractor.clone().filter(|extractor| {
            properties.prefix_extractor_name == extractor.name().as_bytes()
                && properties.user_flag(names::PREFIX_FILTERING) != Some(false)
        });
        Ok(Some(FilterPart {
            block,
            partitions,
            whole_keys: properties.user_flag(names::WHOLE_KEY_FILTERING) != Some(false),
            prefix_extractor,
        }))
    }

    /// Reads an index or filter block; pins it or leaves it to the block cache, as configured.
    fn read_metadata(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        top_level: bool,
    ) -> Result<MetaBlock> {
        let options = &self.context.block_based;
        let pin = !options.cache_index_and_filter_blocks
            || self.file.cache.is_none()
            || match top_level {
                true => options.pin_top_level.applies(self.context.level),
                false => options.pin_unpartitioned.applies(self.context.level),
            };
        let block = Arc::new(self.read(handle, kind)?);
        if !pin {
            self.file.publish(handle, kind, &block);
        }
        Ok(MetaBlock {
            handle,
            kind,
            pinned: pin.then_some(block),
        })
    }
}

/// Returns the place of the global sequence number in a properties block; `None` without one.
fn global_seqno_range(block: &CachedBlock) -> Option<Range<usize>> {
    let entries = block.entries().ok()?;
    let mut cursor = BlockCursor::new(entries.clone(), entries.layout(), KeyFormat::names());
    cursor.seek_to_first().ok()?;
    while cursor.valid() && cursor.key() != names::GLOBAL_SEQNO.as_bytes() {
        cursor.advance().ok()?;
    }
    let value = cursor.valid().then(|| cursor.value_range())?;
    let start = value.start as usize;
    Some(start..start.saturating_add(value.len as usize))
}

/// Returns the global sequence number of an ingested file; `None` for other files.
///
/// Stored ones are zero, so zero means none.
fn global_seqno(
    properties: &TableProperties,
    largest_seqno: Option<SeqNo>,
) -> Result<Option<SeqNo>> {
    let recorded = properties.recorded_global_seqno()?;
    match properties.external_version()? {
        None | Some(1) if recorded.is_some() => {
            return Err(Error::corruption(
                "unexpected global sequence number: the table is not an external file",
            ));
        }
        None | Some(1) => return Ok(None),
        Some(2) => {}
        Some(version) => {
            return Err(Error::corruption(format!(
                "external table has unknown version {version}"
            )));
        }
    }
    let mut seqno = recorded.unwrap_or(0);
    if let Some(largest) = largest_seqno.filter(|&largest| largest < MAX_SEQNO) {
        if seqno == 0 {
            seqno = largest;
        } else if seqno != largest {
            return Err(Error::corruption(format!(
                "external table has the global sequence number {seqno}, but {largest} is recorded"
            )));
        }
    }
    if seqno > MAX_SEQNO {
        return Err(Error::corruption(format!(
            "global sequence number {seqno} is too large"
        )));
    }
    Ok(Some(seqno).filter(|&seqno| seqno != 0))
}

/// Decodes the entries of the range deletion block.
fn parse_tombstones(
    block: &Block,
    order: &KeyOrder,
    global_seqno: Option<SeqNo>,
) -> Result<Vec<RangeTombstone>> {
    let format = KeyFormat {
        order: order.clone(),
        user_keys: false,
        global_seqno,
        guess_in_data: false,
    };
    let mut cursor = BlockCursor::new(block.clone(), block.layout(), format);
    let mut tombstones = Vec::new();
    cursor.seek_to_first()?;
    while cursor.valid() {
        let key = InternalKey::parse(cursor.key())?;
        if key.value_type != ValueType::RangeDeletion {
            return Err(Error::corruption(format!(
                "entry of type {:?} in the range tombstone block",
                key.value_type
            )));
        }
        if order.compare(key.user_key, cursor.value()).is_gt() {
            return Err(Error::corruption("range tombstone ends before it begins"));
        }
        tombstones.push(RangeTombstone {
            start: key.user_key.to_vec(),
            end: cursor.value().to_vec(),
            seqno: key.seqno,
        });
        cursor.advance()?;
    }
    Ok(tombstones)
}

/// Checks that all codecs in the property `rocksdb.compression` are known.
///
/// Before version 7 the property is one codec's name, from then on a compression manager's name and
/// the codecs' numbers: `BuiltinV2;0107;`.
fn check_compression_name(format_version: u32, name: &[u8]) -> Result<()> {
    if name.is_empty() {
        return Ok(());
    }
    let unknown = || {
        Error::corruption(format!(
            "Unrecognized compression_name: {}",
            name.escape_ascii()
        ))
    };
    let text = str::from_utf8(name).map_err(|_| unknown())?;
    if format_version < 7 {
        return match Compression::from_name(text) {
            Some(_) => Ok(()),
            None => Err(unknown()),
        };
    }
    let mut parts = text.split(';');
    let (Some(manager), Some(codecs)) = (parts.next(), parts.next()) else {
        return Err(unknown());
    };
    if !matches!(manager, "" | "BuiltinV2") {
        return Err(Error::not_supported(format!(
            "compression manager {manager}"
        )));
    }
    let (pairs, rest) = codecs.as_bytes().as_chunks::<2>();
    let known = pairs.iter().all(|pair| {
        str::from_utf8(pair)
            .ok()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .and_then(Compression::from_byte)
            .is_some_and(|codec| codec != Compression::None)
    });
    if known && rest.is_empty() {
        Ok(())
    } else {
        Err(unknown())
    }
}
