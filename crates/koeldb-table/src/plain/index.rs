//! The index of plain tables: a hash from prefixes to rows, or the sorted rows of one bucket.
//!
//! ```text
//! varint32 buckets | varint32 prefixes | fixed32 bucket [buckets] | lists
//! bucket:  7fffffff        no row
//!          0xxxxxxx        the offset of one row
//!          80000000 | x    where in the lists the bucket's list begins
//! list:    varint32 rows | fixed32 offset [rows], ascending
//! ```
//!
//! Of each prefix the first row is listed and then one of every few. The bucket of a prefix is its
//! hash modulo the number of buckets; without a prefix extractor there is one bucket and one
//! prefix, the empty one. Lists are in bucket order and fill the block
//! (`table/plain/plain_table_index.cc`, RocksDB 11.9; `docs/formats/plain-table.md`).
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::coding;
use koeldb_base::{Error, Result};

use super::bloom::hash;
use crate::block::{BlockBytes, prefetch};

/// The value of an empty bucket.
pub(super) const NO_ROW: u32 = 0x7fff_ffff;
/// The flag of a bucket with several rows.
pub(super) const LIST: u32 = 0x8000_0000;
/// The size of an encoded offset.
pub(super) const WORD: usize = 4;

/// The stored hash index of a plain table, from prefixes to rows.
#[derive(Debug)]
pub(crate) struct PlainIndex {
    bytes: BlockBytes,
    bucket_count: u32,
    buckets_at: usize,
    lists_at: usize,
}

/// The result of an index lookup: no row, one row, or a list of rows for a prefix hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed<'i> {
    /// No row has the hash.
    None,
    /// The rows with the hash begin at this offset.
    Row(u32),
    /// The rows of this and other prefixes begin at these offsets.
    Rows(&'i [[u8; WORD]]),
}

impl PlainIndex {
    /// Decodes and validates a stored index over rows that end at offset `rows_end`.
    ///
    /// # Errors
    /// `Corruption` if it is inconsistent.
    pub(crate) fn parse(bytes: BlockBytes, rows_end: u32) -> Result<Self> {
        let index = Self::parse_header(bytes)?;
        index.check(rows_end)?;
        Ok(index)
    }

    /// Decodes the bucket and prefix counts of a stored index, and locates buckets and lists.
    fn parse_header(bytes: BlockBytes) -> Result<Self> {
        let mut input = bytes.as_slice();
        let whole = input.len();
        let unread = |_| Error::corruption("Couldn't read the index size!");
        let bucket_count = coding::take_varint32(&mut input).map_err(unread)?;
        let _prefix_count = coding::take_varint32(&mut input).map_err(unread)?;
        let buckets_at = whole.saturating_sub(input.len());
        let buckets_bytes = (bucket_count as usize).saturating_mul(WORD);
        if bucket_count == 0 || buckets_bytes > input.len() {
            return Err(Error::corruption(format!(
                "index of {bucket_count} buckets in {} bytes",
                input.len()
            )));
        }
        Ok(PlainIndex {
            bucket_count,
            buckets_at,
            lists_at: buckets_at.saturating_add(buckets_bytes),
            bytes,
        })
    }

    /// Checks that all buckets refer to rows before `rows_end`, and lists follow each other.
    fn check(&self, rows_end: u32) -> Result<()> {
        let bad = |bucket: u32, what: &str| {
            Err(Error::corruption(format!(
                "bucket {bucket} of the index {what}"
            )))
        };
        let mut list_at = 0_usize;
        for bucket in 0..self.bucket_count {
            match self.bucket(bucket)? {
                Listed::None => {}
                Listed::Row(offset) if offset < rows_end => {}
                Listed::Row(_) => return bad(bucket, "refers to a row after the last one"),
                Listed::Rows(rows) => {
                    let value = self.value(bucket)? & !LIST;
                    if value as usize != list_at || rows.len() < 2 {
                        return bad(bucket, "has a list at a wrong offset");
                    }
                    let count_bytes = coding::varint_len(rows.len() as u64);
                    let list_bytes = count_bytes.saturating_add(rows.as_flattened().len());
                    list_at = list_at.saturating_add(list_bytes);
                    let mut least = 0;
                    for row in rows {
                        let offset = u32::from_le_bytes(*row);
                        if offset < least || offset >= rows_end {
                            return bad(bucket, "lists rows out of order");
                        }
                        least = offset.saturating_add(1);
                    }
                }
            }
        }
        if self.lists_at.saturating_add(list_at) != self.bytes.len() {
            return Err(Error::corruption("index has bytes after its lists"));
        }
        Ok(())
    }

    /// Returns a bucket's stored value: a row offset, or with the highest bit set that of a list.
    fn value(&self, bucket: u32) -> Result<u32> {
        let at = (bucket as usize).saturating_mul(WORD);
        coding::fixed32_at(self.bytes.as_slice(), self.buckets_at.saturating_add(at))
            .ok_or_else(outside)
    }

    /// Prefetches the first memory that [`PlainIndex::find`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        let bucket = hash.checked_rem(self.bucket_count).unwrap_or(0) as usize;
        let at = self.buckets_at.saturating_add(bucket.saturating_mul(WORD));
        prefetch(self.bytes.as_slice(), at);
    }

    /// Finds the rows listed for the prefix with this hash.
    #[inline]
    pub(crate) fn find(&self, hash: u32) -> Result<Listed<'_>> {
        self.bucket(hash.checked_rem(self.bucket_count).unwrap_or(0))
    }

    /// Decodes a bucket: no row, one row, or a list of row offsets.
    #[inline]
    fn bucket(&self, bucket: u32) -> Result<Listed<'_>> {
        let value = self.value(bucket)?;
        if value & LIST == 0 {
            return Ok(if value == NO_ROW {
                Listed::None
            } else {
                Listed::Row(value)
            });
        }
        let at = self.lists_at.saturating_add((value & !LIST) as usize);
        let list = self.bytes.as_slice().get(at..).unwrap_or_default();
        let (count, len) = coding::decode_varint32(list).ok_or_else(outside)?;
        let (words, _) = list.get(len..).unwrap_or_default().as_chunks::<WORD>();
        words
            .get(..count as usize)
            .map(Listed::Rows)
            .ok_or_else(outside)
    }

    /// The heap memory of the index.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.heap_bytes()
    }
}

/// Creates the `Corruption` error of an index that refers beyond its end.
#[cold]
fn outside() -> Error {
    Error::corruption("index refers to a list beyond its end")
}

/// A builder of a plain table's hash index, which gets all rows in order.
#[derive(Debug)]
pub(crate) struct IndexBuilder {
    /// The number of rows of one prefix from one record to the next; 0 and 1 are equivalent.
    sparseness: u64,
    records: Vec<Record>,
    prefix_count: u32,
    last_prefix: Vec<u8>,
    last_hash: u32,
    /// The number of rows of the last prefix.
    rows_of_prefix: u64,
    is_due: bool,
}

/// A row to be listed in the index: the hash of its prefix, and its offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) hash: u32,
    pub(super) offset: u32,
}

impl IndexBuilder {
    /// Creates an empty builder that lists one in `sparseness` rows of a prefix; 0 means 1.
    pub(crate) fn new(sparseness: u64) -> Self {
        IndexBuilder {
            sparseness: sparseness.max(1),
            records: Vec::new(),
            prefix_count: 0,
            last_prefix: Vec::new(),
            last_hash: 0,
            rows_of_prefix: 0,
            is_due: false,
        }
    }

    /// Adds the next row, at `offset`; returns the hash of its prefix if that is a new one.
    ///
    /// A row that cannot be decoded by itself is not listed; the next one that can is listed
    /// instead.
    #[inline]
    pub(crate) fn add(&mut self, prefix: &[u8], offset: u32, is_readable: bool) -> Option<u32> {
        let is_new = self.prefix_count == 0 || self.last_prefix != prefix;
        if is_new {
            self.prefix_count = self.prefix_count.saturating_add(1);
            self.rows_of_prefix = 0;
            self.last_prefix.clear();
            self.last_prefix.extend_from_slice(prefix);
            self.last_hash = hash(prefix);
            self.is_due = true;
        }
        if self.is_due && is_readable {
            self.records.push(Record {
                hash: self.last_hash,
                offset,
            });
            self.is_due = false;
        }
        self.rows_of_prefix = self.rows_of_prefix.saturating_add(1);
        if self.rows_of_prefix.checked_rem(self.sparseness) == Some(0) {
            self.is_due = true;
        }
        is_new.then_some(self.last_hash)
    }

    /// The rows that the index will list.
    pub(super) fn records(&self) -> &[Record] {
        &self.records
    }

    /// The number of prefixes added.
    pub(crate) fn prefix_count(&self) -> u32 {
        self.prefix_count
    }

    /// Returns the number of buckets for the prefixes so far, at load factor `ratio`.
    ///
    /// A ratio of 0 or less means one bucket.
    pub(crate) fn bucket_count(&self, ratio: f64) -> u32 {
        if ratio <= 0.0 {
            return 1;
        }
        let per_prefix = 1.0 / ratio;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number that is not negative, cut to 32 bits where it has more"
        )]
        let count = (f64::from(self.prefix_count) * per_prefix) as u32;
        count.saturating_add(1)
    }

    /// Returns an upper bound of the size of the encoded index.
    pub(crate) fn estimated_bytes(&self, bucket_count: u32) -> u64 {
        // Two numbers; an offset for each bucket; a list has at least two rows, and its length
        // takes 5 bytes.
        let rows = (self.records.len() as u64).saturating_mul(WORD as u64);
        let lengths = (self.records.len() as u64 / 2)
            .min(u64::from(bucket_count))
            .saturating_mul(5);
        u64::from(bucket_count)
            .saturating_mul(WORD as u64)
            .saturating_add(rows)
            .saturating_add(lengths)
            .saturating_add(10)
    }

    /// Encodes the index block with `bucket_count` buckets.
    ///
    /// # Errors
    /// `NotSupported` if its lists have 2 GiB or more.
    pub(crate) fn finish(&self, bucket_count: u32) -> Result<Vec<u8>> {
        let bucket_count = bucket_count.max(1);
        let bucket_of =
            |record: &Record| record.hash.checked_rem(bucket_count).unwrap_or(0) as usize;
        let mut counts = vec![0_u32; bucket_count as usize];
        for record in &self.records {
            if let Some(count) = counts.get_mut(bucket_of(record)) {
                *count = count.saturating_add(1);
            }
        }
        let mut block = Vec::new();
        coding::put_varint32(&mut block, bucket_count);
        coding::put_varint32(&mut block, self.prefix_count);
        let buckets_at = block.len();
        let lists_at = buckets_at.saturating_add(counts.len().saturating_mul(WORD));
        let mut lists_bytes = 0_u64;
        // Each count becomes the position of the bucket's next offset in the block.
        let mut places = Vec::with_capacity(counts.len());
        for (bucket, &count) in counts.iter().enumerate() {
            let (value, place) = match count {
                0 => (NO_ROW, 0),
                1 => (
                    0,
                    buckets_at.saturating_add(bucket.saturating_mul(WORD)) as u64,
                ),
                _ => {
                    let list_at = u32::try_from(lists_bytes)
                        .ok()
                        .filter(|at| at & LIST == 0)
                        .ok_or_else(too_large)?;
                    lists_bytes =
                        lists_bytes.saturating_add(coding::varint_len(u64::from(count)) as u64);
                    let place = (lists_at as u64).saturating_add(lists_bytes);
                    lists_bytes = lists_bytes.saturating_add(u64::from(count).saturating_mul(4));
                    (list_at | LIST, place)
                }
            };
            coding::put_fixed32(&mut block, value);
            places.push(u32::try_from(place).map_err(|_| too_large())?);
        }
        block.resize(lists_at.saturating_add(coding::to_usize(lists_bytes)), 0);
        let mut length = Vec::new();
        for (&count, &place) in counts.iter().zip(&places) {
            if count > 1 {
                length.clear();
                coding::put_varint32(&mut length, count);
                let end = place as usize;
                let start = end.saturating_sub(length.len());
                if let Some(bytes) = block.get_mut(start..end) {
                    bytes.copy_from_slice(&length);
                }
            }
        }
        for record in &self.records {
            let Some(place) = places.get_mut(bucket_of(record)) else {
                continue;
            };
            let at = *place as usize;
            if let Some(bytes) = block.get_mut(at..at.saturating_add(WORD)) {
                bytes.copy_from_slice(&record.offset.to_le_bytes());
            }
            *place = place.saturating_add(4);
        }
        Ok(block)
    }
}

/// Creates the `NotSupported` error of an index with too many listed rows.
#[cold]
fn too_large() -> Error {
    Error::not_supported("plain table index with 2 GiB of lists")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    fn build(rows: &[(Vec<u8>, u32)], sparseness: u64, buckets: u32) -> Vec<u8> {
        let mut builder = IndexBuilder::new(sparseness);
        for (prefix, offset) in rows {
            builder.add(prefix, *offset, true);
        }
        let estimated = builder.estimated_bytes(buckets);
        let block = builder.finish(buckets).unwrap();
        assert!(block.len() as u64 <= estimated);
        block
    }

    #[test]
    fn an_index_of_one_bucket_lists_every_few_rows() {
        let rows: Vec<_> = (0..7).map(|row| (Vec::new(), 10 * row)).collect();
        let block = build(&rows, 3, 1);
        let expected = [
            &[1, 1][..],
            &[0, 0, 0, 0x80],
            &[3],
            &[0, 0, 0, 0],
            &[30, 0, 0, 0],
            &[60, 0, 0, 0],
        ];
        assert_eq!(block, expected.concat());
        let single = build(&rows[..2], 3, 1);
        assert_eq!(single, [1, 1, 0, 0, 0, 0]);
        assert_eq!(
            build(&[], 3, 2),
            [2, 0, 255, 255, 255, 127, 255, 255, 255, 127]
        );
    }

    #[test]
    fn every_damaged_byte_of_an_index_is_an_error_or_names_other_rows() {
        let rows: Vec<_> = (0..20_u32)
            .map(|row| (vec![b'a', (row / 2).to_le_bytes()[0]], row))
            .collect();
        let block = build(&rows, 1, 7);
        for at in 0..block.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = block.clone();
                damaged[at] ^= flip;
                if let Ok(index) = PlainIndex::parse(damaged.into(), 20) {
                    for hash in 0..7 {
                        index.find(hash).unwrap();
                    }
                }
            }
        }
        assert!(PlainIndex::parse(block.clone().into(), 20).is_ok());
        assert!(PlainIndex::parse(block.clone().into(), 19).is_err());
        for len in 0..block.len() {
            assert!(PlainIndex::parse(block[..len].to_vec().into(), 20).is_err());
        }
    }

    proptest! {
        #[test]
        fn every_prefix_is_found_with_its_rows(
            prefixes in prop::collection::btree_map(prop::collection::vec(any::<u8>(), 0..3), 1_usize..9, 0..60),
            sparseness in 0_u64..4,
            ratio in prop::sample::select(vec![0.0, 0.3, 0.75, 2.0]),
        ) {
            let mut offset = 0;
            let mut builder = IndexBuilder::new(sparseness);
            let mut expected: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for (prefix, &count) in &prefixes {
                for row in 0..count {
                    builder.add(prefix, offset, true);
                    if (row as u64).is_multiple_of(sparseness.max(1)) {
                        expected.entry(hash(prefix)).or_default().push(offset);
                    }
                    offset = offset.saturating_add(3);
                }
            }
            let buckets = builder.bucket_count(ratio);
            prop_assert_eq!(builder.prefix_count() as usize, prefixes.len());
            let index = PlainIndex::parse(builder.finish(buckets).unwrap().into(), offset).unwrap();
            for (hash, offsets) in expected {
                match index.find(hash).unwrap() {
                    Listed::None => prop_assert!(false, "a prefix without a row"),
                    Listed::Row(offset) => prop_assert_eq!(&offsets, &[offset]),
                    Listed::Rows(rows) => {
                        let listed: Vec<u32> = rows.iter().map(|row| u32::from_le_bytes(*row)).collect();
                        prop_assert!(offsets.iter().all(|offset| listed.contains(offset)));
                    }
                }
            }
        }
    }
}
