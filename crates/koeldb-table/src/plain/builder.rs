//! Builds a plain table, or a block-based table as fallback.
//!
//! Rows are buffered until the end (`crate::fallback`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use koeldb_base::key::{FOOTER_BYTES, ValueType, pack};
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::range_del::RangeTombstone;
use koeldb_base::{Error, InternalKey, KeyOrder, Result, coding};
use koeldb_fs::WritableFile;

use super::bloom::{BloomBuilder, hash};
use super::format::{
    BLOOM_BLOCK, BLOOM_LINES, BLOOM_VERSION, Base, ENCODING, Encoding, FILE_BYTES_MAX, INDEX_BLOCK,
    RowEncoder, RowFormat, Rows, legacy_footer,
};
use super::index::IndexBuilder;
use crate::block_builder::BlockBuilder;
pub use crate::build_context::PlainWriteOptions;
use crate::build_context::{FinishedTable, TableBuildContext};
use crate::fallback::{BufferedEntries, BuildState, failed};
use crate::format::BlockHandle;
use crate::metaindex;
use crate::properties::TableProperties;
use crate::span_checksums::{self, SpanSums};

/// The space reserved for properties, metaindex and footer.
const TAIL_BYTES: u64 = 64 << 10;

/// The number of bytes that are written to the file together.
const PIECE_BYTES: usize = 1 << 20;

/// The reason that entries do not fit a plain table.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FallbackReason {
    KeyBytes { expected: u32, found: usize },
    NoPrefix { extractor: String, found: usize },
    RangeDeletion,
    TooLarge,
    Order(String),
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FallbackReason::KeyBytes { expected, found } => write!(
                f,
                "all keys must have {expected} bytes (user_key_len), but there is one of {found}"
            ),
            FallbackReason::NoPrefix { extractor, found } => {
                write!(
                    f,
                    "prefix extractor {extractor} has no prefix for a key of {found} bytes"
                )
            }
            FallbackReason::RangeDeletion => write!(f, "range deletions cannot be stored"),
            FallbackReason::TooLarge => {
                write!(f, "the file would have more than {FILE_BYTES_MAX} bytes")
            }
            FallbackReason::Order(name) => {
                write!(f, "the comparator {name} may treat different keys as equal")
            }
        }
    }
}

/// A builder of plain tables, which buffers all rows until it is finished.
#[derive(Debug)]
pub struct PlainTableBuilder {
    context: Box<TableBuildContext>,
    options: PlainWriteOptions,
    state: BuildState<Collected>,
    tombstones: Vec<RangeTombstone>,
}

impl PlainTableBuilder {
    /// Begins a table in an empty file.
    #[must_use]
    pub fn create(
        file: Box<dyn WritableFile>,
        options: &PlainWriteOptions,
        context: &TableBuildContext,
    ) -> Self {
        PlainTableBuilder {
            context: Box::new(context.clone()),
            options: options.clone(),
            state: BuildState::Collecting {
                file,
                buffered: Box::new(Collected::new(options, context)),
            },
            tombstones: Vec::new(),
        }
    }

    /// Appends an entry in key order; falls back to a block-based table if it does not fit.
    ///
    /// # Errors
    /// `Corruption` if the key is malformed or not after the last one; `InvalidArgument` if key or
    /// value have 4 GiB or more; the errors of the file system.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match &mut self.state {
            BuildState::FellBack { builder, .. } => builder.add(key, value),
            BuildState::Failed => Err(failed()),
            BuildState::Collecting {
                buffered: table, ..
            } => {
                let order = &self.context.order;
                if let Err(reason) = table.add(order, &self.options, key, value)? {
                    self.fall_back(reason)?;
                    return self.add(key, value);
                }
                Ok(())
            }
        }
    }

    /// Falls back to a block-based table, which first gets the buffered entries.
    fn fall_back(&mut self, why: FallbackReason) -> Result<()> {
        self.state.fall_back(why, &self.context)
    }

    /// Records a property that is known only after some or all entries.
    pub fn set_property(&mut self, name: &str, value: Vec<u8>) {
        match &mut self.state {
            BuildState::FellBack { builder, .. } => builder.set_property(name, value),
            BuildState::Collecting { buffered, .. } => {
                buffered.properties.set_user(name, value.clone());
                self.context.user_properties.insert(name.into(), value);
            }
            BuildState::Failed => {}
        }
    }

    /// Adds a range tombstone, which makes the table block-based when it is finished.
    pub fn add_tombstone(&mut self, tombstone: &RangeTombstone) {
        self.tombstones.push(tombstone.clone());
    }

    /// The size of the file so far, which is that of all rows.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        match &self.state {
            BuildState::Collecting {
                buffered: table, ..
            } => table.rows.len() as u64,
            BuildState::FellBack { builder, .. } => builder.file_bytes(),
            BuildState::Failed => 0,
        }
    }

    /// The number of entries so far, including tombstones.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.state.entry_count() + self.tombstones.len() as u64
    }

    /// Writes rows, index, filter and metadata, or falls back; syncs and closes the file.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn finish(mut self) -> Result<FinishedTable> {
        if !self.tombstones.is_empty() {
            self.fall_back(FallbackReason::RangeDeletion)?;
        }
        let mut tail = Vec::new();
        if let BuildState::Collecting {
            buffered: table, ..
        } = &mut self.state
        {
            tail = table.tail(&self.options)?;
            if (table.rows.len() + tail.len()) as u64 > table.file_bytes_max {
                self.fall_back(FallbackReason::TooLarge)?;
            }
        }
        match self.state {
            BuildState::Collecting {
                mut file,
                buffered: table,
            } => {
                for piece in table
                    .rows
                    .chunks(PIECE_BYTES)
                    .chain(tail.chunks(PIECE_BYTES))
                {
                    file.append(piece)?;
                }
                file.sync_data()?;
                file.close()?;
                Ok(FinishedTable {
                    file_bytes: (table.rows.len() + tail.len()) as u64,
                    tail_bytes: tail.len() as u64,
                    unique_id: table.properties.unique_id().unwrap_or_default(),
                    properties: table.properties,
                    fallback: None,
                    memory_filter: None,
                })
            }
            state => state.finish_instead("plain", &self.tombstones),
        }
    }
}

/// The buffered rows of a plain table, and the data for its index, filter and properties.
struct Collected {
    format: RowFormat,
    prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    encoder: RowEncoder,
    rows: Vec<u8>,
    last_key: Vec<u8>,
    index: Option<IndexBuilder>,
    /// The hashes for the stored filter.
    hashes: Vec<u32>,
    properties: TableProperties,
    /// The largest size of the file.
    file_bytes_max: u64,
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collected")
            .field("format", &self.format)
            .field("row_bytes", &self.rows.len())
            .finish_non_exhaustive()
    }
}

impl BufferedEntries for Collected {
    type FallbackReason = FallbackReason;

    fn replay(
        &self,
        _order: &KeyOrder,
        mut take: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let rows = Rows {
            data: &self.rows,
            format: self.format,
        };
        let (mut at, mut base, mut key) = (0, Base::NONE, Vec::new());
        while at < rows.end() {
            let row = rows.row(at, &mut base)?;
            row.key_into(&mut key);
            take(&key, row.value)?;
            at = row.next;
        }
        Ok(())
    }

    fn entry_count(&self) -> u64 {
        self.properties.entry_count
    }
}

impl Collected {
    /// Creates an empty buffer for a table with these options.
    fn new(options: &PlainWriteOptions, context: &TableBuildContext) -> Self {
        let format = RowFormat {
            encoding: match context.prefix_extractor {
                Some(_) => options.encoding,
                None => Encoding::Plain,
            },
            user_key_bytes: options.user_key_bytes,
        };
        Collected {
            format,
            prefix_extractor: context.prefix_extractor.clone(),
            encoder: RowEncoder::new(format, options.index_sparseness),
            rows: Vec::new(),
            last_key: Vec::new(),
            index: options
                .store_index
                .then(|| IndexBuilder::new(options.index_sparseness)),
            hashes: Vec::new(),
            properties: initial_properties(options, format, context),
            file_bytes_max: FILE_BYTES_MAX,
        }
    }

    /// Adds an entry as a row; returns the reason for falling back if it does not fit.
    fn add(
        &mut self,
        order: &KeyOrder,
        options: &PlainWriteOptions,
        key: &[u8],
        value: &[u8],
    ) -> Result<Result<(), FallbackReason>> {
        let parsed = InternalKey::parse(key)?;
        if parsed.value_type == ValueType::RangeDeletion {
            return Err(Error::invalid_argument(
                "table builder: range tombstone added as a point entry",
            ));
        }
        if !self.last_key.is_empty() && order.compare_internal(&self.last_key, key).is_ge() {
            return Err(Error::corruption(format!(
                "table builder: keys out of order: internal key {key:02x?} added after {:02x?}",
                self.last_key
            )));
        }
        if !order.equal_keys_have_equal_bytes() {
            return Ok(Err(FallbackReason::Order(order.name().to_owned())));
        }
        let prefix = match self.admit(options, parsed.user_key, value) {
            Ok(prefix) => prefix,
            Err(reason) => return Ok(Err(reason)),
        };
        let offset = self.rows.len();
        let footer = pack(parsed.seqno, parsed.value_type);
        self.encoder
            .put(&mut self.rows, prefix, parsed.user_key, footer, value)?;
        if let Some(index) = &mut self.index {
            index.add(prefix, coding::to_u32(offset, "table")?, true);
            if options.bloom_bits_per_key > 0 {
                let filtered = match self.prefix_extractor {
                    Some(_) => prefix,
                    None => parsed.user_key,
                };
                self.hashes.push(hash(filtered));
            }
        }
        self.count(parsed.value_type, key.len(), value.len());
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(Ok(()))
    }

    /// Checks that an entry fits, and returns its key's prefix, empty without a prefix extractor.
    ///
    /// Otherwise returns the reason for falling back.
    fn admit<'k>(
        &self,
        options: &PlainWriteOptions,
        user_key: &'k [u8],
        value: &[u8],
    ) -> Result<&'k [u8], FallbackReason> {
        let (expected, found) = (self.format.user_key_bytes, user_key.len());
        if expected != 0 && found != expected as usize {
            return Err(FallbackReason::KeyBytes { expected, found });
        }
        // Two control bytes, three lengths and the footer are the most that a row has beside key
        // and value.
        let row_bytes = (found + value.len() + FOOTER_BYTES + 17) as u64;
        if self.estimated_bytes(options) + row_bytes > self.file_bytes_max {
            return Err(FallbackReason::TooLarge);
        }
        match &self.prefix_extractor {
            None => Ok(&[]),
            Some(extractor) => extractor
                .prefix(user_key)
                .ok_or_else(|| FallbackReason::NoPrefix {
                    extractor: extractor.name().to_owned(),
                    found,
                }),
        }
    }

    /// An upper bound of the file size with one more row, excluding that row's own size.
    fn estimated_bytes(&self, options: &PlainWriteOptions) -> u64 {
        let row_bytes = self.rows.len() as u64;
        let mut bytes = row_bytes + span_checksums::block_bytes(row_bytes) + TAIL_BYTES;
        if let Some(index) = &self.index {
            bytes += index.estimated_bytes(self.bucket_count(index, options));
            let filter_bits = self.properties.entry_count * u64::from(options.bloom_bits_per_key);
            bytes += filter_bits / 8;
        }
        bytes
    }

    /// Returns the number of buckets of the hash index; 1 without a prefix extractor (total order).
    fn bucket_count(&self, index: &IndexBuilder, options: &PlainWriteOptions) -> u32 {
        match self.prefix_extractor {
            Some(_) => index.bucket_count(options.hash_table_ratio),
            None => 1,
        }
    }

    /// Counts an entry in the table properties.
    fn count(&mut self, value_type: ValueType, key_bytes: usize, value_bytes: usize) {
        let properties = &mut self.properties;
        properties.entry_count += 1;
        properties.raw_key_bytes += key_bytes as u64;
        properties.raw_value_bytes += value_bytes as u64;
        match value_type {
            ValueType::Merge => properties.merge_operand_count += 1,
            ValueType::Deletion | ValueType::SingleDeletion => properties.deletion_count += 1,
            _ => {}
        }
    }

    /// Encodes the sections after the rows: filter, index, properties, metaindex and footer.
    fn tail(&mut self, options: &PlainWriteOptions) -> Result<Vec<u8>> {
        let start = self.rows.len() as u64;
        let mut tail = Vec::new();
        let put = |tail: &mut Vec<u8>, block: &[u8]| {
            let handle = BlockHandle {
                offset: start + tail.len() as u64,
                size: block.len() as u64,
            };
            tail.extend_from_slice(block);
            handle
        };
        let mut meta: BTreeMap<&'static str, BlockHandle> = BTreeMap::new();
        if self.properties.entry_count > 0 {
            if let Some(bloom) = self.bloom(options) {
                let mut lines = Vec::new();
                coding::put_varint32(&mut lines, bloom.lines());
                self.properties.set_user(BLOOM_LINES, lines);
                let block = bloom.into_bytes();
                self.properties.filter_bytes = block.len() as u64;
                meta.insert(BLOOM_BLOCK, put(&mut tail, &block));
            }
            if let Some(index) = &self.index {
                let block = index.finish(self.bucket_count(index, options))?;
                self.properties.index_bytes = block.len() as u64;
                meta.insert(INDEX_BLOCK, put(&mut tail, &block));
            }
        }
        self.properties.data_bytes = start;
        let sums = options.checksums.then(|| {
            let mut sums = SpanSums::default();
            sums.add(&self.rows);
            sums
        });
        if sums.is_some() {
            self.properties
                .set_user(span_checksums::NAME, span_checksums::VERSION);
        }
        let properties = names_block(u32::MAX, self.properties.encode())?;
        meta.insert(metaindex::PROPERTIES, put(&mut tail, &properties));
        span_checksums::complete_tail(&mut tail, start, sums, |checksums, offset| {
            meta.extend(checksums.map(|handle| (span_checksums::NAME, handle)));
            let entries = meta
                .iter()
                .map(|(name, handle)| (name.as_bytes().to_vec(), handle.to_vec()));
            let mut end = names_block(1, entries)?;
            let size = end.len() as u64;
            end.extend_from_slice(&legacy_footer(BlockHandle { offset, size })?);
            Ok(end)
        })?;
        Ok(tail)
    }

    /// Builds the Bloom filter to store; `None` if none is wanted, or its size is 0 modulo 2^32.
    fn bloom(&self, options: &PlainWriteOptions) -> Option<BloomBuilder> {
        self.index.as_ref()?;
        let count = self.properties.entry_count;
        let mut bloom = BloomBuilder::new(count, options.bloom_bits_per_key, options.bloom_lines)?;
        self.hashes.iter().for_each(|&hash| bloom.add(hash));
        Some(bloom)
    }
}

/// Encodes a metadata block of names and values in ascending order, without a trailer.
fn names_block(
    restart_interval: u32,
    entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>,
) -> Result<Vec<u8>> {
    let mut block = BlockBuilder::new(restart_interval, true);
    let mut previous = Vec::new();
    for (name, value) in entries {
        block.add(&previous, &name, &value)?;
        previous = name;
    }
    block.finish(false)
}

/// Creates the table properties that are known before the first entry is added.
fn initial_properties(
    options: &PlainWriteOptions,
    format: RowFormat,
    context: &TableBuildContext,
) -> TableProperties {
    let extractor = context.prefix_extractor.as_ref();
    let mut properties = TableProperties {
        original_file_number: context.file_number,
        // COMPAT: records the requested encoding instead of the one used.
        format_version: u64::from(options.encoding.to_number()),
        fixed_key_bytes: u64::from(format.user_key_bytes),
        data_block_count: 1,
        column_family_id: context.column_family_id,
        column_family_name: context.column_family_name.clone().into_bytes(),
        db_id: context.db_id.clone().into_bytes(),
        session_id: context.session_id.clone().into_bytes(),
        host_id: context.host_id.clone().into_bytes(),
        prefix_extractor_name: extractor
            .map_or("nullptr", |extractor| extractor.name())
            .as_bytes()
            .to_vec(),
        user_collected: context.user_properties.clone(),
        ..TableProperties::default()
    };
    properties.set_user(ENCODING, format.encoding.to_number().to_le_bytes());
    if options.store_index {
        properties.set_user(BLOOM_VERSION, *b"1");
    }
    properties
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use koeldb_base::key::encode;
    use koeldb_base::prefix::FixedPrefix;
    use koeldb_fs::{FileSystem, MemoryFileSystem, Purpose, WriteOptions};

    use super::*;

    /// Writes `count` entries into a file of limited size.
    fn fill(count: u64, file_bytes_max: u64, options: &PlainWriteOptions) -> FinishedTable {
        let fs = MemoryFileSystem::new();
        let path = Path::new("/table.sst");
        let file = fs.create(path, &WriteOptions::new(Purpose::Flush)).unwrap();
        let context = TableBuildContext {
            prefix_extractor: Some(Arc::new(FixedPrefix::new(8))),
            ..TableBuildContext::default()
        };
        let mut builder = PlainTableBuilder::create(file, options, &context);
        if let BuildState::Collecting {
            buffered: table, ..
        } = &mut builder.state
        {
            table.file_bytes_max = file_bytes_max;
        }
        for number in 0..count {
            let key = encode(format!("{number:08}").as_bytes(), 1, ValueType::Value);
            builder.add(&key, &[7; 100]).unwrap();
        }
        let finished = builder.finish().unwrap();
        assert_eq!(finished.properties.entry_count, count);
        assert_eq!(fs.metadata(path).unwrap().len, finished.file_bytes);
        finished
    }

    #[test]
    fn no_file_is_larger_than_can_be_opened() {
        let why = format!("no plain table: the file would have more than {FILE_BYTES_MAX} bytes");
        for store_index in [false, true] {
            let options = PlainWriteOptions {
                store_index,
                ..PlainWriteOptions::default()
            };
            let file_bytes_max = 200_000;
            let (mut plain, mut fallen) = (0, 0);
            for count in (600..1800).step_by(50) {
                let finished = fill(count, file_bytes_max, &options);
                match finished.fallback {
                    None => {
                        assert!(finished.file_bytes <= file_bytes_max);
                        assert_eq!(fallen, 0, "{count} entries fit in, fewer do not");
                        plain += 1;
                    }
                    Some(reason) => {
                        assert_eq!(reason, why);
                        fallen += 1;
                    }
                }
            }
            assert!(plain > 3 && fallen > 3, "{plain} plain, {fallen} not");
        }
        // An index of too many buckets is detected only when it is known.
        let options = PlainWriteOptions {
            store_index: true,
            hash_table_ratio: 0.001,
            ..PlainWriteOptions::default()
        };
        assert_eq!(fill(100, 200_000, &options).fallback, Some(why));
    }
}
