//! Tables of some levels become tables of one level.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use koeldb_base::merge_operator::MergeOperator;
use koeldb_base::range_del::FragmentedTombstones;
use koeldb_base::{Blocking, Cursor, Error, Fault, KeyOrder, PinnedSlice, Result, SeqNo};
use koeldb_table::reader::{TableCursor, TableCursorOptions};
use koeldb_table::source::BlockingSource;

use super::compaction_cursor::{CompactionCursor, CompactionRules, DropCounts};
use super::filter::CompactionFilter;
use super::output::{OutputSpec, Outputs, TableOutputs};
use crate::cursor::{LevelCursor, MergingCursor};
use crate::pick::CompactionPlan;
use crate::table_cache::TableCache;
use crate::version::{Level, Version};

/// One compaction.
pub struct CompactionJob<'a> {
    /// What to compact.
    pub plan: &'a CompactionPlan,
    /// The version the plan was made from.
    pub version: &'a Arc<Version>,
    /// Opens the inputs.
    pub tables: &'a Arc<TableCache>,
    /// How blocks of inputs are read.
    pub source: BlockingSource,
    /// The live snapshots, ascending; read after the plan was made.
    pub snapshots: Vec<SeqNo>,
    /// Combines operands.
    pub merge_operator: Option<&'a dyn MergeOperator>,
    /// Asked about values.
    pub filter: Option<Box<dyn CompactionFilter>>,
    /// Where the tables go.
    pub output: OutputSpec<'a>,
    /// Set to give the job up.
    pub cancelled: &'a AtomicBool,
    /// Compare the number of entries read with what the properties of the inputs say.
    pub verify_record_count: bool,
}

/// What a compaction made.
#[derive(Debug)]
pub struct CompactionResult {
    /// The new tables, not yet part of any version.
    pub output: Outputs,
    /// Entries read.
    pub entries_read: u64,
    /// Entries dropped.
    pub drops: DropCounts,
}

enum InputCursor {
    Table(TableCursor<BlockingSource>),
    Level(LevelCursor<BlockingSource>),
}

macro_rules! either {
    ($self:expr, $cursor:ident => $call:expr) => {
        match $self {
            InputCursor::Table($cursor) => $call,
            InputCursor::Level($cursor) => $call,
        }
    };
}

impl Cursor for InputCursor {
    type Suspend = Blocking;

    fn valid(&self) -> bool {
        either!(self, cursor => cursor.valid())
    }

    fn seek_to_first(&mut self) -> Result<(), Fault<Blocking>> {
        either!(self, cursor => cursor.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<(), Fault<Blocking>> {
        either!(self, cursor => cursor.seek_to_last())
    }

    fn seek(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        either!(self, cursor => cursor.seek(target))
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<(), Fault<Blocking>> {
        either!(self, cursor => cursor.seek_for_prev(target))
    }

    fn next(&mut self) -> Result<(), Fault<Blocking>> {
        either!(self, cursor => cursor.next())
    }

    fn prev(&mut self) -> Result<(), Fault<Blocking>> {
        either!(self, cursor => cursor.prev())
    }

    fn key(&self) -> &[u8] {
        either!(self, cursor => cursor.key())
    }

    fn value(&self) -> &[u8] {
        either!(self, cursor => cursor.value())
    }

    fn pinned_value(&self) -> PinnedSlice {
        either!(self, cursor => cursor.pinned_value())
    }
}

/// Whether a user key may exist on a level below the output; asked with ascending keys.
struct Below<'v> {
    order: &'v KeyOrder,
    levels: Vec<(&'v Level, usize)>,
}

impl Below<'_> {
    fn may_hold(&mut self, user_key: &[u8]) -> bool {
        for (level, at) in &mut self.levels {
            while let Some(file) = level.files.get(*at) {
                if self
                    .order
                    .compare(user_key, file.largest_user_key())
                    .is_le()
                {
                    if self
                        .order
                        .compare(user_key, file.smallest_user_key())
                        .is_ge()
                    {
                        return true;
                    }
                    break;
                }
                *at += 1;
            }
        }
        false
    }
}

impl CompactionJob<'_> {
    /// Runs the compaction.
    ///
    /// # Errors
    /// What reading, merging or writing fails with, `Corruption` if inputs do not hold what they say, `Aborted` if
    /// it was cancelled; nothing is left behind then.
    pub fn run(self) -> Result<CompactionResult> {
        let order = self.version.order.clone();
        let inputs = self.open_inputs()?;
        let tombstones = self.collect_tombstones(&order)?;
        let expected = self.expected_records();
        let output_level = self.plan.output_level;
        let mut below = Below {
            order: &self.version.order,
            levels: self
                .version
                .levels
                .iter()
                .skip(output_level + 1)
                .map(|level| (level, 0))
                .collect(),
        };
        // On level 0 older files may lie beside the inputs.
        let is_on_level0 = output_level == 0;
        let bottommost = self.plan.bottommost;
        let rules = CompactionRules {
            order: order.clone(),
            snapshots: self.snapshots,
            tombstones,
            bottommost,
            output_level: u32::try_from(output_level).unwrap_or(u32::MAX),
            merge_operator: self.merge_operator,
            filter: self.filter,
            exists_below: Box::new(move |user_key| {
                (is_on_level0 && !bottommost) || below.may_hold(user_key)
            }),
        };
        let mut entries = CompactionCursor::new(MergingCursor::new(order, inputs), rules)?;
        let mut outputs = TableOutputs::new(self.output);
        entries.write_to(&mut outputs, self.cancelled)?;
        let read = entries.entries_read();
        if let Some(expected) = expected
            && self.verify_record_count
            && expected != read
        {
            return Err(Error::corruption(format!(
                "compaction read {read} entries where the properties of its inputs promise {expected}"
            )));
        }
        let output = outputs.finish(entries.tombstones())?;
        Ok(CompactionResult {
            output,
            entries_read: entries.entries_read(),
            drops: entries.drops(),
        })
    }

    fn open_inputs(&self) -> Result<Vec<InputCursor>> {
        let options = TableCursorOptions::default();
        let mut cursors = Vec::new();
        for input in &self.plan.inputs {
            if input.level == 0 {
                for file in &input.files {
                    let reader = self.tables.reader(file, 0)?;
                    cursors.push(InputCursor::Table(
                        reader.cursor(self.source.clone(), &options),
                    ));
                }
                continue;
            }
            // A tree of the inputs alone, so that a level cursor walks them.
            let mut levels = vec![Level::default(); input.level + 1];
            levels[input.level].files.clone_from(&input.files);
            let alone = Arc::new(Version::new(self.version.order.clone(), levels));
            cursors.push(InputCursor::Level(LevelCursor::new(
                alone,
                input.level,
                Arc::clone(self.tables),
                self.source.clone(),
                options,
            )));
        }
        Ok(cursors)
    }

    fn collect_tombstones(&self, order: &KeyOrder) -> Result<Option<FragmentedTombstones>> {
        let mut all = Vec::new();
        for (level, file) in self.plan.files() {
            if let Some(tombstones) = self.tables.reader(file, level)?.tombstones() {
                all.extend(tombstones.tombstones());
            }
        }
        Ok((!all.is_empty()).then(|| FragmentedTombstones::new(order, all)))
    }

    /// The records that the inputs' properties promise; `None` where a table is too old to promise exactly.
    fn expected_records(&self) -> Option<u64> {
        let mut expected = 0;
        for (_, file) in self.plan.files() {
            let properties = file.reader.get()?.properties();
            if properties.format_version < 5 {
                return None;
            }
            expected += properties
                .entry_count
                .checked_sub(properties.range_deletion_count)?;
        }
        Some(expected)
    }
}
