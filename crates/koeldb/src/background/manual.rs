//! Manual compactions: a range of keys, level by level, or named files.

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::file_name::FileNumber;
use koeldb_base::{Error, Result};
use koeldb_lsm::pick::{self, CompactionPlan, CompactionReason, leveled, universal};
use koeldb_lsm::{FileMeta, Version};

use super::Background;
use crate::column_family_data::{ColumnFamilyData, ColumnFamilyState};
use crate::options::{
    BottommostLevelCompaction, ColumnFamilyOptions, CompactRangeOptions, CompactionStyle,
};
use crate::read::KeyBounds;
use crate::table_files::pick_settings;
use crate::work_queue::WorkKind;

impl Background {
    /// Compacts `bounds` of `family` level by level, down to the last level in use.
    ///
    /// The caller has flushed the column family.
    pub(crate) fn compact_range(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        bounds: &KeyBounds,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let _foreground = self.slots.enter()?;
        family.manual_compactions.fetch_add(1, Ordering::AcqRel);
        let outcome = self.compact_range_exclusively(family, bounds, options);
        family.manual_compactions.fetch_sub(1, Ordering::AcqRel);
        family.queue(WorkKind::Compaction);
        self.schedule();
        outcome
    }

    /// Drops the tables below level 0 whose keys are all in `bounds`, both ends included.
    pub(crate) fn delete_files_in_range(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        bounds: &KeyBounds,
    ) -> Result<()> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
        let (from, to) = (key_of(&bounds.lower), key_of(&bounds.upper));
        family.manual_compactions.fetch_add(1, Ordering::AcqRel);
        let level_count = family.version().levels.len();
        let dropped = (1..level_count).try_for_each(|level| {
            let drop_level = |version: &Version, _: &pick::PickSettings| {
                pick::manual::pick_dropped(version, level, from, to)
            };
            self.compact_planned(family, drop_level).map(|_| ())
        });
        family.manual_compactions.fetch_sub(1, Ordering::AcqRel);
        self.schedule();
        dropped
    }

    fn compact_range_exclusively(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        bounds: &KeyBounds,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let (from, to) = (key_of(&bounds.lower), key_of(&bounds.upper));
        let family_options = family.options();
        match family_options.compaction_style {
            CompactionStyle::Level | CompactionStyle::None => {
                self.compact_levels(family, &family_options, from, to, options)
            }
            CompactionStyle::Universal => {
                let is_bottommost_forced =
                    options.bottommost_level_compaction != BottommostLevelCompaction::Skip;
                self.compact_planned(family, |version, settings| {
                    let is_done = universal::run_count(version) == 1
                        && version.levels[0].files.is_empty()
                        && !is_bottommost_forced;
                    if is_done {
                        None
                    } else {
                        universal::pick_all(version, settings, CompactionReason::ManualCompaction)
                    }
                })?;
                Ok(())
            }
            CompactionStyle::Fifo => {
                self.compact_planned(family, |version, settings| {
                    pick::fifo::pick(version, settings, self.context.table_files.unix_secs())
                })?;
                Ok(())
            }
        }
    }

    fn compact_levels(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        family_options: &ColumnFamilyOptions,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let (level_count, deepest) = {
            let version = family.version();
            let overlapped = |level: usize| !version.overlapping(level, from, to).is_empty();
            let count = version.levels.len();
            (count, (0..count).rev().find(|&level| overlapped(level)))
        };
        let Some(deepest) = deepest else {
            return Ok(());
        };
        let mut made: Vec<FileNumber> = Vec::new();
        let mut level = 0;
        let settings = pick_settings(family_options);
        while level < deepest.max(1) && level + 1 < level_count {
            let base_level = leveled::level_targets(&family.version(), &settings).base_level;
            let output_level = if level == 0 { base_level } else { level + 1 };
            let files = self.compact_planned(family, |version, settings| {
                let targets = leveled::level_targets(version, settings);
                pick::manual::pick(version, settings, &targets, level, output_level, from, to)
            })?;
            made = files.iter().map(|file| file.number).collect();
            level = output_level;
        }
        let last = family.version().deepest_level();
        let force = match options.bottommost_level_compaction {
            BottommostLevelCompaction::Skip => false,
            BottommostLevelCompaction::IfHaveCompactionFilter => {
                family_options.has_compaction_filter()
            }
            BottommostLevelCompaction::Force | BottommostLevelCompaction::ForceOptimized => true,
        };
        // The last level is rewritten too, unless this compaction has just written all of it.
        let is_fresh = family
            .version()
            .overlapping(last, from, to)
            .iter()
            .all(|file| made.contains(&file.number));
        let spares_fresh = options.bottommost_level_compaction != BottommostLevelCompaction::Force;
        if force && last > 0 && !(is_fresh && spares_fresh) {
            self.compact_planned(family, |version, settings| {
                let targets = leveled::level_targets(version, settings);
                pick::manual::pick(version, settings, &targets, last, last, from, to)
            })?;
        }
        Ok(())
    }

    /// Waits for the running compactions of the column family, then runs the plan of `pick`.
    fn compact_planned(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        pick: impl Fn(&Version, &pick::PickSettings) -> Option<CompactionPlan>,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let settings = pick_settings(&family.options());
        let plan = loop {
            // The check and the pick are one step: files of another compaction would be missing
            // from the plan.
            let picked = family.read(|state| {
                let is_busy = is_busy(state);
                (!is_busy).then(|| {
                    let plan = pick(&state.version, &settings);
                    if let Some(plan) = &plan {
                        plan.mark(true);
                    }
                    plan
                })
            });
            if let Some(picked) = picked {
                break picked;
            }
            self.wait_while(|| Ok(family.read(is_busy)))?;
        };
        let Some(plan) = plan else {
            return Ok(Vec::new());
        };
        let compacted = self.compact(family, plan);
        if let Err(error) = &compacted {
            self.compaction_failed(error.clone());
            self.health.report_failures();
        }
        compacted
    }

    /// Compacts the named tables, and those between them, into `output_level`.
    pub(crate) fn compact_files(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        files: &[PathBuf],
        output_level: usize,
    ) -> Result<Vec<PathBuf>> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
        let numbers = table_numbers(files)?;
        family.manual_compactions.fetch_add(1, Ordering::AcqRel);
        let made = self.compact_numbers(family, &numbers, output_level);
        family.manual_compactions.fetch_sub(1, Ordering::AcqRel);
        family.queue(WorkKind::Compaction);
        self.schedule();
        let path = |file: &Arc<FileMeta>| {
            koeldb_base::file_name::table(self.context.table_files.directory(), file.number)
        };
        Ok(made?.iter().map(path).collect())
    }

    fn compact_numbers(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        numbers: &[FileNumber],
        output_level: usize,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let version = family.version();
        if output_level >= version.levels.len() {
            return Err(Error::invalid_argument(format!(
                "output level {output_level} of column family '{}', which has {} levels",
                family.name,
                version.levels.len()
            )));
        }
        for &number in numbers {
            if !version.files().any(|(_, file)| file.number == number) {
                return Err(Error::invalid_argument(format!(
                    "table {number:06}.sst is not part of column family '{}'",
                    family.name
                )));
            }
        }
        self.compact_planned(family, |version, settings| {
            pick::manual::pick_files(version, settings, numbers, output_level)
        })
    }
}

/// Whether a compaction or an ingestion of the column family is running.
fn is_busy(state: &ColumnFamilyState) -> bool {
    let mut files = state.version.files();
    state.ingestions > 0 || files.any(|(_, file)| file.is_being_compacted())
}

fn key_of(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

fn table_numbers(files: &[PathBuf]) -> Result<Vec<FileNumber>> {
    files
        .iter()
        .map(|path| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            match koeldb_base::file_name::parse(name) {
                Some(koeldb_base::file_name::FileKind::Table(number)) => Ok(number),
                _ => Err(Error::invalid_argument(format!(
                    "{} is not the name of a table",
                    path.display()
                ))),
            }
        })
        .collect()
}
