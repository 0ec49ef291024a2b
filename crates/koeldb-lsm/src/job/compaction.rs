//! The compaction job, which rewrites tables of some levels into tables of one level.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use koeldb_base::merge_operator::MergeOperator;
use koeldb_base::range_del::{FragmentedTombstones, union_of};
use koeldb_base::{Blocking, Cursor, Error, Fault, KeyOrder, PinnedSlice, Result, SeqNo};
use koeldb_table::reader::{TableCursor, TableCursorOptions};
use koeldb_table::source::BlockingSource;

use super::compaction_cursor::{CompactionCursor, CompactionRules, DropCounts};
use super::filter::CompactionFilter;
use super::output::{OutputSpec, Outputs, TableOutputs};
use crate::cursor::{LevelCursor, MergingCursor};
use crate::pick::CompactionPlan;
use crate::table_opener::TableOpener;
use crate::version::{Level, Version};

/// A compaction to be run.
pub struct CompactionJob<'a> {
    /// The compaction plan.
    pub plan: &'a CompactionPlan,
    /// The version the plan was made from.
    pub version: &'a Arc<Version>,
    /// Opens the inputs.
    pub tables: &'a Arc<TableOpener>,
    /// The block source for reading inputs.
    pub source: BlockingSource,
    /// The live snapshots, ascending; read after the plan was made.
    pub snapshots: Vec<SeqNo>,
    /// The merge operator.
    pub merge_operator: Option<&'a dyn MergeOperator>,
    /// The compaction filter.
    pub filter: Option<Box<dyn CompactionFilter>>,
    /// The settings of the output tables.
    pub output: OutputSpec<'a>,
    /// Set to cancel the job.
    pub cancelled: &'a AtomicBool,
    /// Whether to compare the number of entries read with the properties of the inputs.
    pub verify_record_count: bool,
}

/// The result of a compaction.
#[derive(Debug)]
pub struct CompactionResult {
    /// The new tables, not yet part of any version.
    pub output: Outputs,
    /// The number of entries read.
    pub entries_read: u64,
    /// The number of entries dropped, by reason.
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

/// Tells whether a user key may exist on a level below the output; queried with ascending keys.
struct LevelsBelow<'v> {
    order: &'v KeyOrder,
    levels: Vec<(&'v Level, usize)>,
}

impl LevelsBelow<'_> {
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
    /// The errors of reading, merging or writing, `Corruption` if inputs contradict their
    /// properties, `Aborted` if it was cancelled; no files are left then.
    pub fn run(mut self) -> Result<CompactionResult> {
        let order = self.version.order.clone();
        let inputs = self.open_inputs()?;
        let tombstones = self.collect_tombstones(&order)?;
        self.inherit_times();
        let expected = self.expected_records();
        let output_level = self.plan.output_level;
        let mut below = LevelsBelow {
            order: &self.version.order,
            levels: self
                .version
                .levels
                .iter()
                .skip(output_level + 1)
                .map(|level| (level, 0))
                .collect(),
        };
        // On level 0 there may be older files beside the inputs.
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
                "compaction read {read} entries, but the properties of its inputs state {expected}"
            )));
        }
        let output = outputs.finish(entries.tombstones())?;
        Ok(CompactionResult {
            output,
            entries_read: entries.entries_read(),
            drops: entries.drops(),
        })
    }

    /// Gives the outputs the ages of their entries: otherwise rewritten entries would never expire.
    ///
    /// A time after that of the clock counts as now. The inputs must be open.
    fn inherit_times(&mut self) {
        let files = || self.plan.files().map(|(_, file)| file);
        let is_known = |time: &u64| *time > 0;
        let now = self.output.context.file_creation_time;
        let ancestors = files().map(|file| file.ancestor_time()).filter(is_known);
        let oldest_ancestor = ancestors.fold(now, u64::min);
        // One unknown makes these unknown.
        let oldest_key = files().map(|file| file.oldest_key_time()).min();
        let newest_keys: Vec<u64> = files().map(|file| file.newest_key_time()).collect();
        let newest_key = match newest_keys.iter().all(is_known) {
            true => newest_keys.into_iter().max(),
            false => None,
        };
        let context = &mut self.output.context;
        context.oldest_ancestor_time = oldest_ancestor;
        context.oldest_key_time = oldest_key.unwrap_or(0).min(now);
        context.newest_key_time = newest_key.unwrap_or(0).min(now);
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
            // A tree of only the inputs, for a level cursor.
            let mut levels = vec![Level::default(); input.level + 1];
            levels[input.level].files.clone_from(&input.files);
            let alone = Arc::new(Version::new(self.version.order.clone(), levels));
            cursors.push(InputCursor::Level(LevelCursor::new(
                alone,
                input.level,
                Arc::clone(self.tables),
                self.source.clone(),
                options.clone(),
            )));
        }
        Ok(cursors)
    }

    fn collect_tombstones(&self, order: &KeyOrder) -> Result<Option<FragmentedTombstones>> {
        let mut lists = Vec::new();
        for (level, file) in self.plan.files() {
            lists.extend(self.tables.reader(file, level)?.tombstones().cloned());
        }
        Ok(union_of(order, &lists))
    }

    /// The number of records by the inputs' properties; `None` if a table is too old to have exact
    /// counts.
    fn expected_records(&self) -> Option<u64> {
        let mut expected = 0;
        for (level, file) in self.plan.files() {
            let reader = self.tables.reader(file, level).ok()?;
            let properties = reader.properties();
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
