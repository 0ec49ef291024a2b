//! Validation of an untrusted table as a whole.
//!
//! A decoder refuses dangerous input, and trusts the rest: that keys ascend, that an index leads to
//! blocks in order, that counts are right. A table that violates this gives contradictory answers.
//! This module checks it once for the whole table.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;
use std::sync::Arc;

use koeldb_base::checksum::crc32c;
use koeldb_base::key::{MAX_SEQNO, user_key};
use koeldb_base::{Cursor, Error, InternalKey, KeyOrder, Result, ValueType};

use crate::block::{BlockCursor, KeyFormat};
use crate::block_based::reader::BlockBasedReader;
use crate::format::BlockHandle;
use crate::properties::TableProperties;
use crate::read_context::TableCursorOptions;
use crate::reader::TableReader;
use crate::source::{BlockKind, BlockReadOptions, BlockingSource};

/// The state of a validating pass over a table's entries, forward or backward.
struct Examination<'o> {
    order: &'o KeyOrder,
    /// The expected order of a key relative to the next one.
    ascends: Ordering,
    /// The last internal key seen.
    last: Option<Vec<u8>>,
    /// The sum of the checksums of all entries, independent of their order.
    digest: u64,
    entries: u64,
    deletions: u64,
    operands: u64,
}

impl TableReader {
    /// Validates all of an untrusted table, including everything that readers do not check.
    ///
    /// Its keys ascend in `order`, its blocks are contiguous, its index leads to them in order, and
    /// its properties match its content.
    ///
    /// # Errors
    /// `Corruption` if something does not hold; otherwise the errors of the system.
    pub fn examine(self: &Arc<Self>, order: &KeyOrder) -> Result<()> {
        let mut forward = Examination::new(order, Ordering::Less);
        match &**self {
            TableReader::BlockBased(reader) => {
                let path = reader.file().file.path();
                let examined = forward.blocks(reader);
                examined.map_err(|error| error.in_file(path, None, "examine"))?;
            }
            _ => {
                let mut cursor = self.cursor(past_the_cache(), &TableCursorOptions::default());
                cursor.seek_to_first()?;
                while cursor.valid() {
                    forward.entry(cursor.key(), cursor.value())?;
                    cursor.next()?;
                }
                count("entries", forward.entries, self.properties().entry_count)?;
            }
        }
        let mut backward = Examination::new(order, Ordering::Greater);
        let mut cursor = self.cursor(past_the_cache(), &TableCursorOptions::default());
        cursor.seek_to_last()?;
        while cursor.valid() {
            backward.entry(cursor.key(), cursor.value())?;
            cursor.prev()?;
        }
        if (backward.entries, backward.digest) == (forward.entries, forward.digest) {
            return Ok(());
        }
        Err(Error::corruption(
            "the table yields other entries backwards than forwards",
        ))
    }
}

/// Creates a block source that does not fill the block cache.
fn past_the_cache() -> BlockingSource {
    BlockingSource::new(BlockReadOptions {
        fill_cache: false,
        ..BlockReadOptions::default()
    })
}

impl<'o> Examination<'o> {
    /// Starts a pass in which consecutive keys compare as `ascends`.
    fn new(order: &'o KeyOrder, ascends: Ordering) -> Self {
        Examination {
            order,
            ascends,
            last: None,
            digest: 0,
            entries: 0,
            deletions: 0,
            operands: 0,
        }
    }

    /// Checks the type and order of the next entry, and counts it.
    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let parsed = InternalKey::parse(key)?;
        if parsed.seqno > MAX_SEQNO || parsed.value_type == ValueType::RangeDeletion {
            return Err(Error::corruption(format!(
                "entry {} has a type that is invalid in a table",
                self.entries
            )));
        }
        let is_behind = |last: &Vec<u8>| self.order.compare_internal(last, key) == self.ascends;
        if !self.last.as_ref().is_none_or(is_behind) {
            return Err(Error::corruption(format!(
                "keys out of order at entry {}",
                self.entries
            )));
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        self.entries = self.entries.saturating_add(1);
        let digest = u64::from(crc32c(key)) << 32 ^ u64::from(crc32c(value));
        self.digest = self.digest.wrapping_add(digest);
        let (deletion, operand) = (
            parsed.value_type.is_deletion(),
            parsed.value_type == ValueType::Merge,
        );
        self.deletions = self.deletions.saturating_add(u64::from(deletion));
        self.operands = self.operands.saturating_add(u64::from(operand));
        Ok(())
    }

    /// Reads all data blocks in index order, checking entries, handles, separators and counts.
    fn blocks(&mut self, reader: &BlockBasedReader) -> Result<()> {
        let index = &reader.index_format().keys;
        let data = KeyFormat {
            user_keys: false,
            ..index.clone()
        };
        let (mut end, mut blocks, mut last_separator) = (0, 0_u64, None::<Vec<u8>>);
        let order = self.order;
        reader.for_each_data_block(|separator, handle| {
            if handle.offset < end {
                return Err(Error::corruption(format!(
                    "the index refers to a block at {} after one that ends at {end}",
                    handle.offset
                )));
            }
            end = handle.end_within(reader.file().blocks_end)?;
            blocks = blocks.saturating_add(1);
            let separator = match index.user_keys {
                true => separator,
                false => user_key(separator),
            };
            self.block(reader, handle, &data, last_separator.as_deref())?;
            let reaches = |last: &Vec<u8>| order.compare(user_key(last), separator).is_le();
            if !self.last.as_ref().is_none_or(reaches) {
                return Err(misplaced(handle));
            }
            last_separator = Some(separator.to_vec());
            Ok(())
        })?;
        self.compare_counts(reader.properties(), blocks)
    }

    /// Reads a data block and checks its entries; none may precede the separator `after`.
    fn block(
        &mut self,
        reader: &BlockBasedReader,
        handle: BlockHandle,
        format: &KeyFormat,
        after: Option<&[u8]>,
    ) -> Result<()> {
        let block = reader.file().read(handle, BlockKind::Data, true)?;
        let entries = block.entries()?;
        let mut cursor = BlockCursor::new(entries.clone(), entries.layout(), format.clone());
        cursor.seek_to_first()?;
        let mut is_first = true;
        while cursor.valid() {
            self.entry(cursor.key(), cursor.value())?;
            let is_before = |after| self.order.compare(user_key(cursor.key()), after).is_lt();
            if is_first && after.is_some_and(is_before) {
                return Err(misplaced(handle));
            }
            is_first = false;
            cursor.advance()?;
        }
        Ok(())
    }

    /// Checks that the counted entries and blocks match the table properties.
    fn compare_counts(&self, properties: &TableProperties, blocks: u64) -> Result<()> {
        let ranges = properties.range_deletion_count;
        let with_ranges = |count: u64| count.saturating_add(ranges);
        count("entries", with_ranges(self.entries), properties.entry_count)?;
        count(
            "deletions",
            with_ranges(self.deletions),
            properties.deletion_count,
        )?;
        count(
            "merge operands",
            self.operands,
            properties.merge_operand_count,
        )?;
        match properties.data_block_count {
            // COMPAT: when RocksDB buffers blocks for a dictionary, it does not count the blocks.
            0 => Ok(()),
            recorded => count("data blocks", blocks, recorded),
        }
    }
}

/// Returns a `Corruption` error unless the count `found` equals the recorded one.
fn count(what: &str, found: u64, recorded: u64) -> Result<()> {
    if found == recorded {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "found {found} {what}, but {recorded} are recorded"
    )))
}

/// Creates the error of an index entry whose separator does not bound the keys of its block.
#[cold]
fn misplaced(handle: BlockHandle) -> Error {
    Error::corruption(format!(
        "the index refers to the block at {} for keys that are not in it",
        handle.offset
    ))
}
