//! Memtables become one table of level 0.

use std::sync::atomic::AtomicBool;

use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::{Blocking, Cursor, KeyOrder, Result, SeqNo};

use super::compaction_cursor::{CompactionCursor, CompactionRules, DropCounts};
use super::output::{OutputSpec, TableOutputs};
use crate::cursor::MergingCursor;
use crate::version::FileMeta;
use koeldb_base::merge_operator::MergeOperator;

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
    /// Writes the table; `None` if nothing is left to write. Also says what was dropped.
    ///
    /// # Errors
    /// What the file system or a merge operator fails with; nothing is left behind then.
    pub fn run(self) -> Result<(Option<FileMeta>, DropCounts)> {
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
        let mut files = outputs.finish(entries.tombstones())?;
        Ok((files.pop(), entries.drops()))
    }
}
