//! The flush job, which writes memtables to one table of level 0.

use koeldb_base::merge_operator::Merger;
use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::timestamp::MIN_TIMESTAMP;
use koeldb_base::{Blocking, Cursor, Error, KeyOrder, Result};
use koeldb_table::TableProperties;

use super::compaction_cursor::{CompactionCursor, CompactionRules, DropCounts};
use super::entry_hash::EntryHash;
use super::output::{Fallback, OutputSpec, TableOutputs};
use super::snapshots::LiveSnapshots;
use super::undating::Undating;
use crate::cursor::MergingCursor;
use crate::version::{BlobFileMeta, FileMeta};

/// The output table and the entry counts of a finished flush.
#[derive(Debug)]
pub struct FlushResult {
    /// The new table; `None` if no entry remained.
    pub file: Option<FileMeta>,
    /// The new blob files, to which the table refers.
    pub blob_files: Vec<BlobFileMeta>,
    /// The properties of the table.
    pub properties: Option<TableProperties>,
    /// The hash of the entries of the table, if it was requested.
    pub entry_hash: EntryHash,
    /// The reason that the table is block-based instead of in the requested format, if so.
    pub fallback: Option<Fallback>,
    /// The number of entries dropped, by reason.
    pub drops: DropCounts,
    /// The number of failed merges, whose operands are in the table.
    pub merge_failures: u64,
    /// The uncompressed size of all keys and values written.
    pub raw_bytes: u64,
}

/// A flush job: the memtables and settings with which one level-0 table is written.
pub struct FlushJob<'a, C> {
    /// The order of user keys.
    pub order: KeyOrder,
    /// Cursors over the memtables.
    pub memtables: Vec<C>,
    /// The range tombstones of the memtables.
    pub tombstones: Option<FragmentedTombstones>,
    /// The live snapshots.
    pub snapshots: LiveSnapshots,
    /// The merge operator.
    pub merger: Merger<'a>,
    /// The number of entries of the memtables, without range tombstones, to be verified.
    pub entry_count: Option<u64>,
    /// The settings of the output table.
    pub output: OutputSpec<'a>,
}

impl<C: Cursor<Suspend = Blocking>> FlushJob<'_, C> {
    /// Merges the memtables and writes their entries to a table of level 0.
    ///
    /// # Errors
    /// The errors of the file system, and `Corruption` if the number of
    /// entries differs from [`FlushJob::entry_count`]; no files are left then.
    pub fn run(mut self) -> Result<FlushResult> {
        let memtables = std::mem::take(&mut self.memtables);
        let input = MergingCursor::new(self.order.clone(), memtables);
        if self.output.context.undated {
            let tombstones = self.tombstones.take();
            self.tombstones = tombstones.map(|all| all.all_at(&MIN_TIMESTAMP));
            let input = Undating::new(input, self.order.clone());
            return self.write(input);
        }
        self.write(input)
    }

    /// Writes the entries of `input` to a table of level 0.
    fn write(self, input: impl Cursor<Suspend = Blocking>) -> Result<FlushResult> {
        let rules = CompactionRules {
            order: self.order,
            snapshots: self.snapshots,
            tombstones: self.tombstones,
            bottommost: false,
            history_low: self.output.history_low,
            start_level: 0,
            merger: self.merger,
            filter: None,
            exists_below: Box::new(|_| true),
        };
        let mut entries = CompactionCursor::new(input, rules)?;
        let mut outputs = TableOutputs::new(self.output);
        entries.write_to(&mut outputs, &[])?;
        let read = entries.entries_read();
        if let Some(expected) = self.entry_count
            && expected != read
        {
            return Err(Error::corruption(format!(
                "flush read {read} entries, but the memtables have {expected}"
            )));
        }
        let mut output = outputs.finish(entries.tombstones())?;
        Ok(FlushResult {
            file: output.files.pop(),
            blob_files: output.blob_files,
            properties: output.properties.pop(),
            entry_hash: output.entry_hashes.pop().unwrap_or_default(),
            fallback: output.fallbacks.pop(),
            drops: entries.drops(),
            merge_failures: entries.merge_failures(),
            raw_bytes: output.raw_bytes,
        })
    }
}
