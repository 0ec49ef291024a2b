//! Memtables become one table of level 0.

use std::sync::atomic::AtomicBool;

use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::{Blocking, Cursor, KeyOrder, Result, SeqNo};

use super::compaction_cursor::{CompactionCursor, CompactionRules, DropCounts};
use super::output::{Fallback, OutputSpec, TableOutputs};
use crate::cursor::MergingCursor;
use crate::version::FileMeta;
use koeldb_base::merge_operator::MergeOperator;

/// What a flush made.
#[derive(Debug)]
pub struct FlushResult {
    /// The new table; `None` if nothing was left to write.
    pub file: Option<FileMeta>,
    /// Why it is not of the format asked for, if it is not.
    pub fallback: Option<Fallback>,
    /// Entries dropped.
    pub drops: DropCounts,
    /// Bytes of all keys and values written, uncompressed.
    pub raw_bytes: u64,
}

/// One flush.
pub struct FlushJob<'a, C> {
    /// The order of user keys.
    pub order: KeyOrder,
    /// Cursors over the memtables.
    pub memtables: Vec<C>,
    /// Their range tombstones.
    pub tombstones: Option<FragmentedTombstones>,
    /// The live snapshots, ascending.
    pub snapshots: Vec<SeqNo>,
    /// Combines operands.
    pub merge_operator: Option<&'a dyn MergeOperator>,
    /// Where the table goes.
    pub output: OutputSpec<'a>,
}

impl<C: Cursor<Suspend = Blocking>> FlushJob<'_, C> {
    /// Writes the table.
    ///
    /// # Errors
    /// What the file system or a merge operator fails with; nothing is left behind then.
    pub fn run(self) -> Result<FlushResult> {
        let input = MergingCursor::new(self.order.clone(), self.memtables);
        let rules = CompactionRules {
            order: self.order,
            snapshots: self.snapshots,
            tombstones: self.tombstones,
            bottommost: false,
            output_level: 0,
            merge_operator: self.merge_operator,
            filter: None,
            exists_below: Box::new(|_| true),
        };
        let mut entries = CompactionCursor::new(input, rules)?;
        let mut outputs = TableOutputs::new(self.output);
        entries.write_to(&mut outputs, &AtomicBool::new(false))?;
        let mut output = outputs.finish(entries.tombstones())?;
        Ok(FlushResult {
            file: output.files.pop(),
            fallback: output.fallbacks.pop(),
            drops: entries.drops(),
            raw_bytes: output.raw_bytes,
        })
    }
}
