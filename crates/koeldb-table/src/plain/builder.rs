//! Writing a plain table: each entry becomes a row and is appended; index and filter follow at the end.
//!
//! What a plain table cannot hold is refused before any of it is written, by [`PlainTableBuilder::check`]: the
//! table up to there is whole and can be finished.

use std::collections::BTreeMap;
use std::sync::Arc;

use koeldb_base::key::{FOOTER_BYTES, ValueType, pack};
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::{Error, InternalKey, KeyOrder, Result, coding};
use koeldb_fs::WritableFile;

use super::bloom::{BloomBuilder, hash};
use super::format::{
    BLOOM_BLOCK, BLOOM_LINES, BLOOM_VERSION, ENCODING, Encoding, FILE_BYTES_MAX, INDEX_BLOCK,
    RowEncoder, RowFormat, legacy_footer,
};
use super::index::IndexBuilder;
use crate::block_based::block_builder::BlockBuilder;
use crate::block_based::format::BlockHandle;
use crate::block_based::metaindex;
use crate::builder::{FinishedTable, TableBuildContext};
use crate::properties::TableProperties;

/// What is kept free for properties, metaindex and footer, user properties excluded.
const TAIL_BYTES: u64 = 16 << 10;

/// How plain tables are written.
#[derive(Clone, Debug, PartialEq)]
pub struct PlainWriteOptions {
    /// How keys are encoded; without a prefix extractor they are always whole.
    pub encoding: Encoding,
    /// The length all user keys have; 0 if it varies.
    pub user_key_bytes: u32,
    /// Bits of the stored filter for each entry; 0 stores none.
    pub bloom_bits_per_key: u32,
    /// Whether the stored filter keeps the bits of a prefix in one cache line.
    pub bloom_lines: bool,
    /// Prefixes for each bucket of the stored index; 0 stores one bucket.
    pub hash_table_ratio: f64,
    /// One entry in so many of the same prefix is listed in the stored index and, in the prefix encoding, has its
    /// key whole; 0 and 1 are all.
    pub index_sparseness: u64,
    /// Store index and filter.
    pub store_index: bool,
}

impl Default for PlainWriteOptions {
    fn default() -> Self {
        PlainWriteOptions {
            encoding: Encoding::Plain,
            user_key_bytes: 0,
            bloom_bits_per_key: 10,
            bloom_lines: false,
            hash_table_ratio: 0.75,
            index_sparseness: 16,
            store_index: false,
        }
    }
}

/// Writes a plain table.
pub struct PlainTableBuilder {
    // Fixed.
    order: KeyOrder,
    options: PlainWriteOptions,
    format: RowFormat,
    prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    // The file, and where it ends.
    file: Box<dyn WritableFile>,
    offset: u64,
    failure: Option<Error>,
    // What the next row depends on.
    rows: RowEncoder,
    row: Vec<u8>,
    last_key: Vec<u8>,
    // For the tail.
    index: Option<IndexBuilder>,
    hashes: Vec<u32>,
    properties: TableProperties,
}

impl std::fmt::Debug for PlainTableBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlainTableBuilder")
            .field("options", &self.options)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl PlainTableBuilder {
    /// Begins a table in an empty file.
    #[must_use]
    pub fn create(
        file: Box<dyn WritableFile>,
        options: &PlainWriteOptions,
        context: &TableBuildContext,
    ) -> Self {
        let format = RowFormat {
            encoding: match context.prefix_extractor {
                Some(_) => options.encoding,
                None => Encoding::Plain,
            },
            user_key_bytes: options.user_key_bytes,
        };
        PlainTableBuilder {
            order: context.order.clone(),
            options: options.clone(),
            format,
            prefix_extractor: context.prefix_extractor.clone(),
            file,
            offset: 0,
            failure: None,
            rows: RowEncoder::new(format, options.index_sparseness),
            row: Vec::new(),
            last_key: Vec::new(),
            index: options
                .store_index
                .then(|| IndexBuilder::new(options.index_sparseness)),
            hashes: Vec::new(),
            properties: initial_properties(options, format, context),
        }
    }

    /// Why the table cannot take an entry; nothing if it can.
    ///
    /// # Errors
    /// `NotSupported` if the key has another length than all must have, has no prefix, or the entry is a range
    /// tombstone or does not fit into the file; `Corruption` if the key is malformed.
    pub fn check(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let key = InternalKey::parse(key)?;
        if key.value_type == ValueType::RangeDeletion {
            return Err(Error::not_supported("Range deletion unsupported"));
        }
        let wanted = self.format.user_key_bytes;
        if wanted != 0 && key.user_key.len() != wanted as usize {
            return Err(Error::not_supported(format!(
                "a key of {} bytes in a plain table for keys of {wanted} bytes (user_key_len)",
                key.user_key.len()
            )));
        }
        if let Some(extractor) = &self.prefix_extractor
            && extractor.prefix(key.user_key).is_none()
        {
            return Err(Error::not_supported(format!(
                "a key of {} bytes, for which {} has no prefix, in a plain table",
                key.user_key.len(),
                extractor.name()
            )));
        }
        // Lengths take at most three times 5 bytes and 2 control bytes.
        let row_bytes = (key.user_key.len() + FOOTER_BYTES + value.len() + 17) as u64;
        if self.estimated_bytes(1) + row_bytes > FILE_BYTES_MAX {
            return Err(Error::not_supported(format!(
                "a plain table that would have more than {FILE_BYTES_MAX} bytes"
            )));
        }
        Ok(())
    }

    /// About the bytes of the file, not fewer, if it ended after so many more entries of a few bytes.
    fn estimated_bytes(&self, more: u64) -> u64 {
        let mut bytes = self.offset + TAIL_BYTES;
        if let Some(index) = &self.index {
            let buckets = self.bucket_count(index).saturating_add(16);
            bytes += index.estimated_bytes(buckets) + 16 * more;
            let bits = (self.properties.entry_count + more)
                .saturating_mul(u64::from(self.options.bloom_bits_per_key));
            bytes += (bits / 8).min(1 << 29) + 128;
        }
        bytes
    }

    fn bucket_count(&self, index: &IndexBuilder) -> u32 {
        match self.prefix_extractor {
            Some(_) => index.bucket_count(self.options.hash_table_ratio),
            None => 1,
        }
    }

    /// Adds an entry behind all others, in internal-key order.
    ///
    /// # Errors
    /// As [`PlainTableBuilder::check`], with nothing written; `Corruption` if the key is not behind the last one;
    /// what the file system fails with.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_failure()?;
        self.check(key, value)?;
        let parsed = InternalKey::parse(key)?;
        if !self.last_key.is_empty() && self.order.compare_internal(&self.last_key, key).is_ge() {
            return Err(Error::corruption(format!(
                "table builder: internal key {key:02x?} added behind {:02x?}",
                self.last_key
            )));
        }
        let user_key = parsed.user_key;
        let prefix = match &self.prefix_extractor {
            Some(extractor) => extractor.prefix(user_key).unwrap_or_default(),
            None => &[],
        };
        self.row.clear();
        let footer = pack(parsed.seqno, parsed.value_type);
        self.rows
            .put(&mut self.row, prefix, user_key, footer, value)?;
        if let Some(index) = &mut self.index {
            let offset = coding::to_u32(coding::to_usize(self.offset), "table")?;
            index.add(prefix, offset, true);
            if self.options.bloom_bits_per_key > 0 {
                let is_keyed = self.prefix_extractor.is_none();
                self.hashes
                    .push(hash(if is_keyed { user_key } else { prefix }));
            }
        }
        let row = std::mem::take(&mut self.row);
        let appended = self.append(&row);
        self.row = row;
        appended?;
        self.count(parsed, key.len(), value.len());
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    fn count(&mut self, key: InternalKey<'_>, key_bytes: usize, value_bytes: usize) {
        let properties = &mut self.properties;
        properties.entry_count += 1;
        properties.raw_key_bytes += key_bytes as u64;
        properties.raw_value_bytes += value_bytes as u64;
        match key.value_type {
            ValueType::Merge => properties.merge_operand_count += 1,
            ValueType::Deletion | ValueType::SingleDeletion => properties.deletion_count += 1,
            _ => {}
        }
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.check_failure()?;
        self.file
            .append(bytes)
            .inspect_err(|error| self.failure = Some(error.clone()))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn check_failure(&self) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// The bytes of the file so far.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.offset
    }

    /// Whether the table should end here, or the file gets too large to be opened: what is left is too little
    /// for many versions of one key.
    #[must_use]
    pub fn is_full(&self) -> bool {
        const SPARE_BYTES: u64 = 256 << 20;
        self.estimated_bytes(0) + SPARE_BYTES > FILE_BYTES_MAX
    }

    /// The entries added so far.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.properties.entry_count
    }

    /// Writes what follows the rows, makes the file durable and closes it.
    ///
    /// # Errors
    /// What the file system fails with; `NotSupported` if the file would be too large to be opened.
    pub fn finish(mut self) -> Result<FinishedTable> {
        self.check_failure()?;
        let tail_start = self.offset;
        self.properties.data_bytes = tail_start;
        let mut meta: BTreeMap<&'static str, BlockHandle> = BTreeMap::new();
        self.write_index(&mut meta)?;
        let properties = names_block(u32::MAX, self.properties.encode())?;
        let handle = self.write_block(&properties)?;
        meta.insert(metaindex::PROPERTIES, handle);
        let entries = meta
            .iter()
            .map(|(name, handle)| (name.as_bytes().to_vec(), handle.to_vec()));
        let block = names_block(1, entries)?;
        let metaindex = self.write_block(&block)?;
        let footer = legacy_footer(metaindex)?;
        if self.offset + footer.len() as u64 > FILE_BYTES_MAX {
            return Err(Error::not_supported(format!(
                "a plain table of more than {FILE_BYTES_MAX} bytes"
            )));
        }
        self.append(&footer)?;
        self.file.sync_data()?;
        self.file.close()?;
        Ok(FinishedTable {
            file_bytes: self.offset,
            tail_bytes: self.offset - tail_start,
            unique_id: self.properties.unique_id().unwrap_or_default(),
            properties: self.properties,
            fallback: None,
        })
    }

    fn write_index(&mut self, meta: &mut BTreeMap<&'static str, BlockHandle>) -> Result<()> {
        let Some(index) = self.index.take() else {
            return Ok(());
        };
        if self.properties.entry_count == 0 {
            return Ok(());
        }
        if self.options.bloom_bits_per_key > 0 {
            // Where the product is 0 modulo 2^32, which is more than fits into a file, nothing is written.
            let bloom = BloomBuilder::new(
                self.properties.entry_count,
                self.options.bloom_bits_per_key,
                self.options.bloom_lines,
            );
            if let Some(mut bloom) = bloom {
                self.hashes.iter().for_each(|&hash| bloom.add(hash));
                let mut lines = Vec::new();
                coding::put_varint32(&mut lines, bloom.lines());
                self.properties.set_user(BLOOM_LINES, lines);
                let bytes = bloom.into_bytes();
                self.properties.filter_bytes = bytes.len() as u64;
                meta.insert(BLOOM_BLOCK, self.write_block(&bytes)?);
            }
        }
        let block = index.finish(self.bucket_count(&index))?;
        self.properties.index_bytes = block.len() as u64;
        meta.insert(INDEX_BLOCK, self.write_block(&block)?);
        Ok(())
    }

    fn write_block(&mut self, block: &[u8]) -> Result<BlockHandle> {
        let handle = BlockHandle {
            offset: self.offset,
            size: block.len() as u64,
        };
        self.append(block)?;
        Ok(handle)
    }
}

/// A block of names and values in ascending order, without a trailer.
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

/// What is known of a table before its first entry.
fn initial_properties(
    options: &PlainWriteOptions,
    format: RowFormat,
    context: &TableBuildContext,
) -> TableProperties {
    let extractor = context.prefix_extractor.as_ref();
    let mut properties = TableProperties {
        original_file_number: context.file_number,
        // COMPAT: of the encoding that was asked for, not of the one used.
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
