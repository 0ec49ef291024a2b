//! Opens a plain table: footer, rows, index and filter.
//!
//! RocksDB's format has no checksums; tables written by KoelDB have their own. In others redundant
//! information is compared: the end of the rows, their number, and the total length of keys and
//! values.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::sync::{Arc, OnceLock};

use koeldb_base::coding::{self, to_usize};
use koeldb_base::prefix::PrefixExtractor;
use koeldb_base::{Error, Result};
use koeldb_fs::RandomAccessFile;

use super::bloom::{BloomBuilder, PlainBloom, hash};
use super::format::{
    BLOOM_BLOCK, BLOOM_LINES, ENCODING, Encoding, FILE_BYTES_MAX, INDEX_BLOCK, RowFormat,
};
use super::hash_slots::{HashSlots, RowIndex};
use super::index::{IndexBuilder, PlainIndex};
use super::marks::Marks;
use super::reader::{PlainReadOptions, PlainTableReader};
use crate::block::{Block, BlockBytes};
use crate::file_read::read_bytes;
use crate::format::{BlockHandle, Footer};
use crate::metaindex::{self, Metaindex, named_entries};
use crate::properties::TableProperties;
use crate::read_context::TableReadContext;
use crate::span_checksums::SpanChecksums;

/// The largest metaindex or properties block accepted.
const METADATA_BYTES_MAX: u64 = 256 << 20;

impl PlainTableReader {
    /// Opens a table whose footer was decoded.
    ///
    /// # Errors
    /// `Corruption` if the file is damaged or not the expected one; `InvalidArgument` if it was
    /// written in another order or with another prefix extractor; `NotSupported` if it is too
    /// large.
    pub(crate) fn open(
        file: Arc<dyn RandomAccessFile>,
        footer: &Footer,
        context: &TableReadContext,
    ) -> Result<Self> {
        let path = file.path().to_owned();
        let opening = Opening {
            blocks_end: file.len().saturating_sub(footer.bytes() as u64),
            file,
            context,
        };
        opening
            .finish(footer)
            .map_err(|error| error.in_file(&path, None, "open"))
    }
}

/// The state of opening a plain table, after its footer was read.
struct Opening<'c> {
    file: Arc<dyn RandomAccessFile>,
    /// The offset of the footer.
    blocks_end: u64,
    context: &'c TableReadContext,
}

impl Opening<'_> {
    /// Reads the metadata and the rows, verifies checksums, and creates the reader.
    fn finish(self, footer: &Footer) -> Result<PlainTableReader> {
        let file_bytes = self.file.len();
        if file_bytes > FILE_BYTES_MAX {
            return Err(Error::not_supported(format!(
                "File size {file_bytes} exceeds PlainTableReader max file size {FILE_BYTES_MAX}"
            )));
        }
        let options = &self.context.plain;
        let metaindex = Metaindex::parse(&self.entries(footer.metaindex)?)?;
        let handle = metaindex
            .get(metaindex::PROPERTIES)
            .ok_or_else(|| Error::corruption("the table has no properties block"))?;
        let entries = named_entries(&self.entries(handle)?)?;
        let properties =
            TableProperties::decode(entries.iter().map(|(name, value)| (&name[..], &value[..])))?;
        self.check(&properties)?;
        let prefix_extractor = self.prefix_extractor(&properties)?;
        let format = row_format(&properties)?;
        let data = self.rows(&properties, &metaindex, footer.metaindex)?;
        let checksums = SpanChecksums::read(&*self.file, &metaindex, &properties, self.blocks_end)?;
        if let Some(checksums) = &checksums {
            checksums.verify_rest(&*self.file)?;
            // A mapped file is not read entirely now: `verify_checksums` does that.
            if self.file.mapped().is_none() {
                checksums.verify_data(|start, len| piece(&data, start, len))?;
            }
        }
        let mut reader = PlainTableReader {
            order: self.context.order.clone(),
            prefix_extractor,
            format,
            data,
            checksums,
            index: None,
            bloom: None,
            marks: OnceLock::new(),
            metaindex,
            properties,
            file: Arc::clone(&self.file),
        };
        if options.full_scan {
            return Ok(reader);
        }
        let hashes = reader.order.equal_keys_have_equal_bytes();
        match reader.metaindex.get(INDEX_BLOCK) {
            Some(handle) => {
                let rows_end = reader.rows().end();
                let index = PlainIndex::parse(self.bytes(handle)?, rows_end)?;
                reader.index = Some(RowIndex::Stored(index));
                reader.bloom = self.stored_bloom(&reader.metaindex, &reader.properties)?;
            }
            None => reader.make_index(options)?,
        }
        reader.bloom = reader.bloom.filter(|_| hashes);
        Ok(reader)
    }

    /// Checks that the table fits its reader: comparator, external file version and unique ID.
    fn check(&self, properties: &TableProperties) -> Result<()> {
        let name = String::from_utf8_lossy(&properties.comparator_name);
        let order = &self.context.order;
        if !name.is_empty() && name != order.name() {
            return Err(Error::invalid_argument(format!(
                "the table was written with comparator {name}, but opened with {}",
                order.name()
            )));
        }
        if properties
            .external_version()?
            .is_some_and(|version| version != 1)
        {
            return Err(Error::not_supported(
                "plain tables with a global sequence number are not supported",
            ));
        }
        self.context.check_unique_id(properties)
    }

    /// Returns the prefix extractor of index and filter; `None` for whole keys or scans without it.
    fn prefix_extractor(
        &self,
        properties: &TableProperties,
    ) -> Result<Option<Arc<dyn PrefixExtractor>>> {
        let given = self.context.prefix_extractor.clone();
        let written = properties.prefix_extractor_name.as_slice();
        match (written, given) {
            // Built with whole keys, like a stored index.
            (b"nullptr", _) => Ok(None),
            // Old releases do not record it.
            (b"", given) => Ok(given),
            (written, Some(given)) if written == given.name().as_bytes() => Ok(Some(given)),
            _ if self.context.plain.full_scan => Ok(None),
            (_, None) => Err(Error::invalid_argument(
                "Prefix extractor is missing when opening a PlainTable built using a prefix extractor",
            )),
            (written, Some(given)) => Err(Error::invalid_argument(format!(
                "Prefix extractor given doesn't match the one used to build PlainTable: {}, and {}",
                given.name(),
                written.escape_ascii()
            ))),
        }
    }

    /// Returns the encoded rows: all of the file before the first metadata block.
    fn rows(
        &self,
        properties: &TableProperties,
        metaindex: &Metaindex,
        metaindex_handle: BlockHandle,
    ) -> Result<BlockBytes> {
        let first_block = metaindex
            .iter()
            .map(|(_, handle)| handle.offset)
            .fold(metaindex_handle.offset, u64::min);
        if properties.data_bytes != first_block {
            return Err(Error::corruption(format!(
                "rows end at {}, but the blocks after them begin at {first_block}",
                properties.data_bytes
            )));
        }
        self.bytes(BlockHandle {
            offset: 0,
            size: properties.data_bytes,
        })
    }

    /// Returns the stored Bloom filter; `None` if the table has none.
    fn stored_bloom(
        &self,
        metaindex: &Metaindex,
        properties: &TableProperties,
    ) -> Result<Option<PlainBloom>> {
        let Some(handle) = metaindex.get(BLOOM_BLOCK).filter(|handle| handle.size > 0) else {
            return Ok(None);
        };
        let lines = match properties.user(BLOOM_LINES) {
            Some(mut value) => coding::take_varint32(&mut value)?,
            None => 0,
        };
        PlainBloom::stored(self.bytes(handle)?, lines).map(Some)
    }

    /// Reads a metadata block of names and values, such as the properties.
    fn entries(&self, handle: BlockHandle) -> Result<Block> {
        if handle.size > METADATA_BYTES_MAX {
            return Err(Error::corruption(format!(
                "a block of {} bytes of metadata",
                handle.size
            )));
        }
        Block::parse(self.bytes(handle)?)
    }

    /// Returns the bytes of a block, which has no trailer, mapped or copied.
    fn bytes(&self, handle: BlockHandle) -> Result<BlockBytes> {
        let end = handle.offset.checked_add(handle.size);
        let len = u32::try_from(handle.size).ok();
        let (Some(_), Some(len)) = (end.filter(|&end| end <= self.blocks_end), len) else {
            return Err(Error::corruption(format!(
                "bad block handle: block of {} bytes at {} exceeds the end of the blocks at {}",
                handle.size, handle.offset, self.blocks_end
            )));
        };
        match self.file.mapped() {
            Some(mapped) => Ok(BlockBytes::mapped(Arc::clone(mapped), handle.offset, len)),
            None => {
                let bytes = read_bytes(&*self.file, handle.offset, to_usize(handle.size))?;
                Ok(BlockBytes::from(bytes))
            }
        }
    }
}

/// Returns `len` bytes of the rows from offset `start`; empty if out of range.
fn piece(rows: &BlockBytes, start: u64, len: usize) -> &[u8] {
    let start = to_usize(start);
    let range = start..start.saturating_add(len);
    rows.as_slice().get(range).unwrap_or_default()
}

/// Decodes key encoding and fixed key length from the table properties.
fn row_format(properties: &TableProperties) -> Result<RowFormat> {
    let malformed = || Error::corruption("plain table has an unknown encoding");
    let encoding = match properties.user(ENCODING) {
        Some(value) => coding::fixed32_at(value, 0)
            .and_then(Encoding::from_number)
            .ok_or_else(malformed)?,
        None => Encoding::Plain,
    };
    let user_key_bytes = u32::try_from(properties.fixed_key_bytes)
        .ok()
        .filter(|&bytes| u64::from(bytes) <= properties.data_bytes || properties.data_bytes == 0)
        .ok_or_else(|| {
            Error::corruption(format!(
                "keys of {} bytes do not fit {} bytes of rows",
                properties.fixed_key_bytes, properties.data_bytes
            ))
        })?;
    Ok(RowFormat {
        encoding,
        user_key_bytes,
    })
}

impl PlainTableReader {
    /// Builds the hash index, or marks and filter, from all rows of a table without a stored index.
    ///
    /// An index of prefixes needs no filter.
    fn make_index(&mut self, options: &PlainReadOptions) -> Result<()> {
        let mut scratch = Vec::new();
        if let Some(extractor) = self.prefix_extractor.clone() {
            let mut builder = IndexBuilder::new(options.index_sparseness);
            self.survey(|mark, row| {
                // A key without a prefix is found without the index.
                if let Some(prefix) = extractor.prefix(row.user_key(&mut scratch)) {
                    builder.add(prefix, mark.at, row.is_full);
                }
            })?;
            let (records, prefixes) = (builder.records(), builder.prefix_count());
            let slots = HashSlots::build(records, prefixes, options.hash_table_ratio)?;
            self.index = Some(RowIndex::Made(slots));
            return Ok(());
        }
        // A row takes at least two bytes; the property must not size an allocation unchecked.
        let rows_max = (self.data.len() as u64).div_ceil(2);
        let count = self.properties.entry_count.min(rows_max);
        let mut bloom = BloomBuilder::new(count, options.bloom_bits_per_key, true);
        let mut marks = Marks::default();
        self.survey(|mark, row| {
            if let Some(bloom) = &mut bloom {
                bloom.add(hash(row.user_key(&mut scratch)));
            }
            marks.add(mark);
        })?;
        marks.finish(self.rows(), &self.order)?;
        self.marks = OnceLock::from(marks);
        self.index = Some(RowIndex::Marks);
        self.bloom = bloom.map(BloomBuilder::finish);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use koeldb_base::ErrorKind;

    use super::*;
    use crate::TableReader;
    use crate::plain::format::legacy_footer;

    /// A file of zeros that ends in a footer.
    #[derive(Debug)]
    struct Zeros(u64);

    impl RandomAccessFile for Zeros {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
            let footer = legacy_footer(BlockHandle { offset: 9, size: 9 })?;
            let footer_at = self.0.saturating_sub(footer.len() as u64);
            for (at, byte) in (offset..self.0).zip(buffer.iter_mut()) {
                *byte = match at.checked_sub(footer_at) {
                    Some(at) => footer[to_usize(at)],
                    None => 0,
                };
            }
            Ok(buffer.len())
        }

        fn path(&self) -> &Path {
            Path::new("/zeros.sst")
        }

        fn len(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn a_file_of_2_gib_is_refused() {
        let open = |bytes| {
            let context = TableReadContext::default();
            TableReader::open(Arc::new(Zeros(bytes)), &context).unwrap_err()
        };
        let error = open(FILE_BYTES_MAX + 1);
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        assert_eq!(
            error.message(),
            "File size 2147483648 exceeds PlainTableReader max file size 2147483647"
        );
        assert!(open(FILE_BYTES_MAX).is_corruption());
    }
}
