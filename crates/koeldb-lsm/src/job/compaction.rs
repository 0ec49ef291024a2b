//! The compaction job, which rewrites tables of some levels into tables of one level.
//!
//! A job may be divided into parts by key range, which run concurrently. They share the plan, the
//! open inputs and the snapshots; each has its own cursors, filter and output tables. The outputs of
//! all parts are one result: if a part fails, the others end early and all outputs are removed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use koeldb_base::merge_operator::Merger;
use koeldb_base::range_del::{FragmentedTombstones, union_of};
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Blocking, Cursor, Error, ErrorKind, Fault, KeyOrder, PinnedSlice, Result};
use koeldb_table::reader::{Anchor, TableCursor, TableCursorOptions};
use koeldb_table::source::BlockingSource;

use super::blob_flow::{BlobFlow, CountingCursor};
use super::compaction_cursor::{CompactionCursor, CompactionRules};
use super::figures::{BlobMeter, MergeFigures, OutputFigures};
use super::filter::CompactionFilter;
use super::output::{OutputSpec, Outputs, TableOutputs};
use super::part::{self, PartCursor, PartRange};
use super::snapshots::LiveSnapshots;
use crate::cursor::{LevelCursor, MergingCursor};
use crate::pick::CompactionPlan;
use crate::table_opener::TableOpener;
use crate::version::{Level, Version};

/// A function that creates the compaction filter of one part.
pub type NewFilter<'a> = dyn Fn() -> Option<Box<dyn CompactionFilter>> + Sync + 'a;

/// A function that runs the part of a compaction with a number, and returns its figures.
pub type RunPart<'a> = dyn Fn(usize) -> Result<MergeFigures> + Sync + 'a;

/// A function that calls another one with every number below a count, possibly in several threads.
pub type RunParts<'a> = dyn Fn(usize, &RunPart<'_>) + Sync + 'a;

/// A compaction job: the plan, inputs and settings with which tables are merged and rewritten.
pub struct CompactionJob<'a> {
    /// The compaction plan.
    pub plan: &'a CompactionPlan,
    /// The version the plan was made from.
    pub version: &'a Arc<Version>,
    /// The user keys that the job covers. The entries of a part of the keys are not counted against
    /// the properties of the inputs, and such a job is not divided.
    pub range: PartRange,
    /// The opener of the input tables.
    pub tables: &'a Arc<TableOpener>,
    /// The block source for reading inputs.
    pub source: BlockingSource,
    /// The live snapshots, read after the plan was made.
    pub snapshots: LiveSnapshots,
    /// The merge operator.
    pub merger: Merger<'a>,
    /// The function that creates the compaction filters.
    pub new_filter: &'a NewFilter<'a>,
    /// The settings of the output tables.
    pub output: OutputSpec<'a>,
    /// The flags that cancel the job: one that is set is enough.
    pub cancelled: &'a [&'a AtomicBool],
    /// The largest number of parts that the work is divided into.
    pub parts_max: usize,
    /// The function that runs the parts.
    pub run_parts: &'a RunParts<'a>,
    /// Whether to compare the number of entries read with the properties of the inputs.
    pub verify_record_count: bool,
    /// Whether to count sizes and types of the entries read.
    pub counts_input: bool,
}

/// The output tables and the figures of a finished compaction.
#[derive(Debug)]
pub struct CompactionResult {
    /// The new tables, not yet part of any version.
    pub output: Outputs,
    /// The entries read and dropped, and the files written.
    pub figures: MergeFigures,
    /// The number of parts that ran concurrently.
    pub parts: usize,
}

/// A finished subcompaction whose tables are not installed; dropping it removes their files.
struct Finished<'a> {
    outputs: TableOutputs<'a>,
    figures: MergeFigures,
    /// The references to blob files that were read.
    references: BlobFlow,
}

/// The error or panic that ended a subcompaction.
enum Problem {
    Error(Error),
    Panic(Box<dyn Any + Send>),
}

/// A cursor over a compaction input: a table of level 0, or the files of a deeper level.
enum InputCursor {
    Table(TableCursor<'static, BlockingSource>),
    Level(LevelCursor<'static, BlockingSource>),
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

/// The levels below the output level, to check whether a user key may exist in them.
///
/// Keys are checked in ascending order. (RocksDB: `KeyNotExistsBeyondOutputLevel`.)
struct LevelsBelow<'v> {
    order: &'v KeyOrder,
    levels: Vec<(&'v Level, usize)>,
}

impl LevelsBelow<'_> {
    /// Whether a file of a level below the output has `user_key` within its bounds.
    ///
    /// It may have any version of the key: timestamps do not matter.
    fn may_hold(&mut self, user_key: &[u8]) -> bool {
        for (level, at) in &mut self.levels {
            while let Some(file) = level.files.get(*at) {
                let compare = |bound| self.order.compare_without_timestamps(user_key, bound);
                if compare(file.largest_user_key()).is_le() {
                    if compare(file.smallest_user_key()).is_ge() {
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
    /// Runs the compaction, divided into subcompactions, and returns the tables written.
    ///
    /// # Errors
    /// The errors of reading, merging or writing, `Corruption` if inputs contradict their
    /// properties, `Aborted` if it was cancelled; no files are left then.
    pub fn run(mut self) -> Result<CompactionResult> {
        self.open_readers()?;
        let tombstones = self.collect_tombstones(&self.version.order)?;
        self.inherit_times();
        let is_whole = self.range.is_unbounded();
        let ranges = match is_whole {
            true => part::ranges(self.borders()?),
            false => vec![self.range.clone()],
        };
        let failed = AtomicBool::new(false);
        let cancelled: Vec<&AtomicBool> = self.cancelled.iter().copied().chain([&failed]).collect();
        let blobs = self.merger.blobs();
        let meters: Vec<Option<BlobMeter<'_>>> =
            ranges.iter().map(|_| blobs.map(BlobMeter::new)).collect();
        let done: Mutex<Vec<Option<Finished<'_>>>> =
            Mutex::new(ranges.iter().map(|_| None).collect());
        let problem: Mutex<Option<Problem>> = Mutex::default();
        let is_unclipped = is_whole && ranges.len() == 1;
        (self.run_parts)(ranges.len(), &|number| {
            let range = &ranges[number];
            let of_part = |all: &FragmentedTombstones| match is_unclipped {
                true => all.clone(),
                false => all.clipped(range.from.as_deref(), range.to.as_deref()),
            };
            let tombstones = tombstones.as_ref().map(of_part);
            let meter = meters[number].as_ref();
            let run = || self.run_part(range.clone(), tombstones, &cancelled, meter);
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(finished)) => {
                    let figures = finished.figures.clone();
                    lock(&done)[number] = Some(finished);
                    Ok(figures)
                }
                Ok(Err(error)) => {
                    // The first failure is reported; it cancels the other parts.
                    lock(&problem).get_or_insert_with(|| Problem::Error(error.clone()));
                    failed.store(true, Ordering::Relaxed);
                    Err(error)
                }
                Err(panic) => {
                    *lock(&problem) = Some(Problem::Panic(panic));
                    failed.store(true, Ordering::Relaxed);
                    let message = "a part of the compaction panicked";
                    Err(Error::with_kind(ErrorKind::Aborted, message))
                }
            }
        });
        match lock(&problem).take() {
            Some(Problem::Error(error)) => return Err(error),
            Some(Problem::Panic(panic)) => {
                drop(done);
                resume_unwind(panic)
            }
            None => {}
        }
        let done = done.into_inner().unwrap_or_default();
        let finished: Vec<Finished<'_>> = done.into_iter().flatten().collect();
        assert_eq!(finished.len(), ranges.len(), "every part has run");
        if is_whole {
            let read = finished.iter().map(|part| part.figures.entries_read).sum();
            self.check_record_count(read)?;
        }
        let mut result = CompactionResult {
            output: Outputs::default(),
            figures: MergeFigures::default(),
            parts: finished.len(),
        };
        let mut outputs = Vec::with_capacity(finished.len());
        let mut references = BlobFlow::default();
        for part in finished {
            result.figures += part.figures;
            references.extend(part.references);
            outputs.push(part.outputs);
        }
        // Before the directory is synced: an error removes the tables.
        let written = TableOutputs::references(&outputs);
        let garbage = references.garbage(&written, self.version)?;
        result.output = TableOutputs::finish_all(outputs)?;
        result.output.blob_garbage = garbage;
        Ok(result)
    }

    /// Runs one subcompaction: merges the inputs within `range` and writes their tables.
    fn run_part<'p>(
        &'p self,
        range: PartRange,
        tombstones: Option<FragmentedTombstones>,
        cancelled: &[&AtomicBool],
        meter: Option<&'p BlobMeter<'p>>,
    ) -> Result<Finished<'p>> {
        let order = self.version.order.clone();
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
        let bottommost = self.plan.bottommost;
        // On level 0 there may be older files beside the inputs, and files may be ingested below.
        let is_anything_possible =
            self.version.ingests_behind || (output_level == 0 && !bottommost);
        let rules = CompactionRules {
            order: order.clone(),
            snapshots: self.snapshots.clone(),
            tombstones,
            bottommost,
            history_low: self.output.history_low,
            start_level: u32::try_from(self.plan.start_level()).unwrap_or(u32::MAX),
            merger: match meter {
                Some(meter) => self.merger.with_blobs(meter),
                None => self.merger,
            },
            filter: (self.new_filter)(),
            exists_below: Box::new(move |user_key| {
                is_anything_possible || below.may_hold(user_key)
            }),
        };
        let merged = MergingCursor::new(order.clone(), self.open_inputs()?);
        let input = PartCursor::new(merged, order, range);
        let input = CountingCursor::new(input, self.counts_input);
        let mut entries = CompactionCursor::new(input, rules)?;
        let mut output: OutputSpec<'p> = self.output.clone();
        if let Some(meter) = meter
            && output.blobs.source.is_some()
        {
            output.blobs.source = Some(meter);
        }
        let mut outputs = TableOutputs::new(output);
        entries.write_to(&mut outputs, cancelled)?;
        outputs.end(entries.tombstones())?;
        let (blobs_read, blob_bytes_read) = meter.map(BlobMeter::figures).unwrap_or_default();
        let (entries_read, drops) = (entries.entries_read(), entries.drops());
        let single_deletions = entries.single_deletions();
        let merge_failures = entries.merge_failures();
        let input = entries.into_input();
        Ok(Finished {
            figures: MergeFigures {
                entries_read,
                input: input.figures.unwrap_or_default(),
                drops,
                single_deletions,
                merge_failures,
                blobs_read,
                blob_bytes_read,
                output: OutputFigures::of(outputs.finished()),
            },
            outputs,
            references: input.read,
        })
    }

    /// Fails if `verify_record_count` is on and the inputs' properties state another entry count.
    fn check_record_count(&self, read: u64) -> Result<()> {
        match input_entry_count(self.plan, self.tables) {
            Some(expected) if self.verify_record_count && expected != read => {
                Err(Error::corruption(format!(
                    "compaction read {read} entries, but the properties of its inputs state \
                     {expected}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the user keys at which the compaction is divided into subcompactions.
    fn borders(&self) -> Result<Vec<Vec<u8>>> {
        if self.parts_max < 2 {
            return Ok(Vec::new());
        }
        let mut anchors = Vec::new();
        for (level, file) in self.plan.files() {
            let of_table = self
                .tables
                .reader(file, level)?
                .anchors(part::ANCHORS_MAX)?;
            if of_table.is_empty() {
                anchors.push(Anchor {
                    user_key: file.largest_user_key().to_vec(),
                    bytes: file.bytes,
                });
            }
            anchors.extend(of_table);
        }
        let order = &self.version.order;
        let min = self.output.target_file_bytes;
        Ok(part::borders(order, anchors, self.parts_max, min))
    }

    /// Sets the creation and entry times of the outputs to those of the inputs.
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

    /// Opens all input tables, so that their readers are cached.
    fn open_readers(&self) -> Result<()> {
        for (level, file) in self.plan.files() {
            self.tables.reader(file, level)?;
        }
        Ok(())
    }

    /// Creates a cursor for each file of level 0 and for each deeper input level.
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

    /// Returns the union of the range tombstones of all inputs; `None` if there are none.
    fn collect_tombstones(&self, order: &KeyOrder) -> Result<Option<FragmentedTombstones>> {
        let mut lists = Vec::new();
        for (level, file) in self.plan.files() {
            lists.extend(self.tables.reader(file, level)?.tombstones().cloned());
        }
        Ok(union_of(order, &lists))
    }
}

/// Returns the number of point entries in all inputs; `None` if a table lacks exact counts.
pub fn input_entry_count(plan: &CompactionPlan, tables: &TableOpener) -> Option<u64> {
    let mut expected = 0;
    for (level, file) in plan.files() {
        let reader = tables.reader(file, level).ok()?;
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
