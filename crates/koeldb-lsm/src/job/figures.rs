//! The figures of a merge, or of a part of it: what it read, dropped and wrote.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::merge_operator::{FetchBlob, FetchOptions};
use koeldb_base::{PinnedSlice, Result};
use koeldb_table::blob::BlobReference;

use super::compaction_cursor::DropCounts;
use super::output::Outputs;

/// The figures of a merge, or of a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeFigures {
    /// The number of entries read.
    pub entries_read: u64,
    /// The sizes and types of the entries read; zero unless requested.
    pub input: InputFigures,
    /// The number of entries dropped, by reason.
    pub drops: DropCounts,
    /// Single deletions that did not meet one value.
    pub single_deletions: SingleDeletionCounts,
    /// The number of failed merges, whose operands are in the tables.
    pub merge_failures: u64,
    /// The number of values read from blob files.
    pub blobs_read: u64,
    /// The size of the records of these values.
    pub blob_bytes_read: u64,
    /// The tables and blob files written.
    pub output: OutputFigures,
}

impl AddAssign for MergeFigures {
    /// Adds the figures of the next part by key.
    fn add_assign(&mut self, other: Self) {
        self.entries_read += other.entries_read;
        self.input += other.input;
        self.drops += other.drops;
        self.single_deletions += other.single_deletions;
        self.merge_failures += other.merge_failures;
        self.blobs_read += other.blobs_read;
        self.blob_bytes_read += other.blob_bytes_read;
        self.output += other.output;
    }
}

/// The sizes and types of entries that a merge read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputFigures {
    /// The size of the internal keys.
    pub key_bytes: u64,
    /// The size of the values, as they are in the tables.
    pub value_bytes: u64,
    /// The number of deletions, without range tombstones.
    pub deletions: u64,
}

impl AddAssign for InputFigures {
    fn add_assign(&mut self, other: Self) {
        self.key_bytes += other.key_bytes;
        self.value_bytes += other.value_bytes;
        self.deletions += other.deletions;
    }
}

/// The numbers of single deletions that did not meet one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SingleDeletionCounts {
    /// Single deletions that were dropped without a value.
    pub unmatched: u64,
    /// Single deletions that met another deletion or a merge operand.
    pub mismatched: u64,
}

impl AddAssign for SingleDeletionCounts {
    fn add_assign(&mut self, other: Self) {
        self.unmatched += other.unmatched;
        self.mismatched += other.mismatched;
    }
}

/// The tables and blob files that a merge wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputFigures {
    /// The number of tables.
    pub tables: usize,
    /// The size of the tables.
    pub table_bytes: u64,
    /// The number of entries in the tables, with range tombstones.
    pub entries: u64,
    /// The number of range tombstones that no table has any more.
    pub obsolete_tombstones: u64,
    /// The number of blob files.
    pub blob_files: usize,
    /// The size of the records in the blob files.
    pub blob_bytes: u64,
    /// The smallest and the largest user key in the tables; `None` without tables.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
}

impl OutputFigures {
    /// Returns the figures of tables in key order.
    #[must_use]
    pub fn of(outputs: &Outputs) -> Self {
        let (files, blob_files) = (&outputs.files, &outputs.blob_files);
        let bounds = files.first().zip(files.last());
        OutputFigures {
            tables: files.len(),
            table_bytes: files.iter().map(|file| file.bytes).sum(),
            entries: (outputs.properties.iter())
                .map(|properties| properties.entry_count)
                .sum(),
            obsolete_tombstones: outputs.obsolete_tombstones,
            blob_files: blob_files.len(),
            blob_bytes: blob_files.iter().map(|file| file.bytes).sum(),
            keys: bounds.map(|(first, last)| {
                let (smallest, largest) = (first.smallest_user_key(), last.largest_user_key());
                (smallest.to_vec(), largest.to_vec())
            }),
        }
    }
}

impl AddAssign for OutputFigures {
    fn add_assign(&mut self, other: Self) {
        self.tables += other.tables;
        self.table_bytes += other.table_bytes;
        self.entries += other.entries;
        self.obsolete_tombstones += other.obsolete_tombstones;
        self.blob_files += other.blob_files;
        self.blob_bytes += other.blob_bytes;
        self.keys = match (self.keys.take(), other.keys) {
            (Some((smallest, _)), Some((_, largest))) => Some((smallest, largest)),
            (keys, None) | (None, keys) => keys,
        };
    }
}

/// A source of values in blob files that counts what one part of a merge reads.
pub(crate) struct BlobMeter<'b> {
    source: &'b dyn FetchBlob,
    count: AtomicU64,
    bytes: AtomicU64,
}

impl<'b> BlobMeter<'b> {
    /// Wraps a source of values in blob files.
    pub(crate) fn new(source: &'b dyn FetchBlob) -> Self {
        BlobMeter {
            source,
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// The number of values that were read, and the size of their records.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (of(&self.count), of(&self.bytes))
    }

    fn count(&self, user_key: &[u8], reference: &[u8]) {
        if let Ok(reference) = BlobReference::decode(reference) {
            let bytes = reference.record_bytes(user_key.len());
            self.count.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl FetchBlob for BlobMeter<'_> {
    fn fetch(&self, user_key: &[u8], reference: &[u8]) -> Result<PinnedSlice> {
        let value = self.source.fetch(user_key, reference)?;
        self.count(user_key, reference);
        Ok(value)
    }

    fn fetch_with(
        &self,
        user_key: &[u8],
        reference: &[u8],
        options: FetchOptions,
    ) -> Result<PinnedSlice> {
        let value = self.source.fetch_with(user_key, reference, options)?;
        self.count(user_key, reference);
        Ok(value)
    }
}
