//! Manual compactions: a range of keys, or named files.

use std::cell::{Cell, RefCell};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koeldb_base::file_name::FileNumber;
use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_lsm::pick::manual::{ManualPick, ManualRange};
use koeldb_lsm::pick::{
    self, CompactionPlan, CompactionReason, PickSettings, Refusal, leveled, universal,
};
use koeldb_lsm::{FileMeta, Version};

use super::compaction::CompactionRequest;
use super::{Background, is_given_up};
use crate::options::pick_settings;
use crate::options::{
    BottommostLevelCompaction, CancelToken, ColumnFamilyOptions, CompactRangeOptions,
    CompactionOptions, CompactionStyle,
};
use crate::report::listener::CompactionJobInfo;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::key_bounds::KeyBounds;
use crate::state::work_queue::WorkKind;

/// A running manual compaction: its column family, settings and exclusiveness.
struct Manual<'a> {
    family: &'a Arc<ColumnFamilyData>,
    request: CompactionRequest<'a>,
    /// Whether no automatic compaction may run concurrently.
    is_exclusive: bool,
    /// The index of the directory of the output; `None` for the one that fits.
    path_id: Option<u8>,
}

impl Manual<'_> {
    /// Returns the settings of the compaction pickers, with the chosen directory.
    fn pick_settings(&self, options: &ColumnFamilyOptions) -> PickSettings {
        let mut settings = pick_settings(options);
        settings.paths.chosen = self.path_id;
        settings
    }
}

/// The number of running manual compactions, and whether manual compactions are disabled.
#[derive(Debug, Default)]
pub(super) struct ManualState {
    /// The number of calls of `disable_manual_compaction`, less those of `enable_manual_compaction`.
    disabled: Mutex<i64>,
    /// Whether manual compactions are disabled; ends the running ones.
    is_disabled: AtomicBool,
    running: AtomicU32,
}

/// A guard that counts a manual compaction while it runs.
struct Running<'a>(&'a Background);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.manual.running.fetch_sub(1, Ordering::AcqRel);
        self.0.slots.notify();
    }
}

impl Background {
    /// Cancels running manual compactions, waits until they have ended, and refuses new ones.
    pub(crate) fn disable_manual_compaction(&self) {
        {
            let mut disabled = lock(&self.manual.disabled);
            *disabled += 1;
            let is_disabled = *disabled > 0;
            self.manual.is_disabled.store(is_disabled, Ordering::SeqCst);
            if !is_disabled {
                return;
            }
        }
        self.slots.notify();
        while self.manual.running.load(Ordering::SeqCst) > 0 {
            let running = self.slots.running();
            drop(self.slots.wait(running, Duration::from_millis(10)));
        }
    }

    /// Reverts one call of [`Background::disable_manual_compaction`], an earlier or the next one.
    pub(crate) fn enable_manual_compaction(&self) {
        let mut disabled = lock(&self.manual.disabled);
        *disabled -= 1;
        self.manual
            .is_disabled
            .store(*disabled > 0, Ordering::SeqCst);
    }

    /// Whether a manual compaction runs.
    pub(super) fn is_manual_running(&self) -> bool {
        self.manual.running.load(Ordering::SeqCst) > 0
    }

    /// Registers a running manual compaction; `Incomplete` while manual compactions are disabled.
    ///
    /// It waits while background work is paused.
    fn begin_manual(&self) -> Result<Running<'_>> {
        {
            let _running = self.slots.wait_for_continue();
            self.manual.running.fetch_add(1, Ordering::SeqCst);
        }
        let running = Running(self);
        match self.manual.is_disabled.load(Ordering::SeqCst) {
            true => Err(canceled()),
            false => Ok(running),
        }
    }

    /// Compacts `bounds` of `family` down to the last level in use.
    ///
    /// The caller has flushed the column family.
    pub(crate) fn compact_range(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        bounds: &KeyBounds,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let _foreground = self.slots.enter()?;
        let _running = self.begin_manual()?;
        let flags = self.cancel_flags(options.canceled.as_ref());
        let manual = Manual {
            family,
            request: CompactionRequest {
                canceled: &flags,
                max_subcompactions: options.max_subcompactions,
                blob_policy: options.blob_garbage_collection_policy,
                blob_age_cutoff: options.blob_garbage_collection_age_cutoff,
                ..CompactionRequest::default()
            },
            is_exclusive: options.exclusive_manual_compaction,
            path_id: Some(path_id_of(
                family,
                "target_path_id",
                options.target_path_id,
            )?),
        };
        let hold = manual.is_exclusive.then(|| family.hold_compactions());
        let outcome = self.compact_bounds(&manual, bounds, options);
        drop(hold);
        self.schedule();
        outcome
    }

    /// Returns the flags that cancel a manual compaction: the global one and that of its token.
    fn cancel_flags<'a>(&'a self, token: Option<&'a CancelToken>) -> Vec<&'a AtomicBool> {
        let own = [&self.manual.is_disabled];
        own.into_iter()
            .chain(token.map(CancelToken::flag))
            .collect()
    }

    /// Compacts the tables that overlap `bounds`, as the compaction style requires.
    fn compact_bounds(
        self: &Arc<Self>,
        manual: &Manual<'_>,
        bounds: &KeyBounds,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        let (from, to) = (key_of(&bounds.lower), key_of(&bounds.upper));
        match manual.family.options().compaction_style {
            CompactionStyle::Level | CompactionStyle::None => {
                let level = self.compact_levels(manual, from, to, options)?;
                match (options.change_level, level) {
                    (true, Some(level)) => self.change_level(manual, level, options.target_level),
                    _ => Ok(()),
                }
            }
            CompactionStyle::Universal => {
                let is_bottommost_forced =
                    options.bottommost_level_compaction != BottommostLevelCompaction::Skip;
                self.compact_planned(manual, |version, options| {
                    let is_done = universal::run_count(version) == 1
                        && version.levels[0].files.is_empty()
                        && !is_bottommost_forced;
                    let (settings, reason) = (
                        manual.pick_settings(options),
                        CompactionReason::ManualCompaction,
                    );
                    match is_done {
                        true => None,
                        false => universal::pick_all(version, &settings, reason),
                    }
                })?;
                Ok(())
            }
            CompactionStyle::Fifo => {
                self.compact_planned(manual, |version, options| {
                    let now = self.context.table_files.unix_secs();
                    pick::fifo::pick(version, &pick_settings(options), now)
                })?;
                Ok(())
            }
        }
    }

    /// Compacts a key range of a leveled family, in one compaction of all levels or level by level.
    ///
    /// Returns the last level with files in the range.
    fn compact_levels(
        self: &Arc<Self>,
        manual: &Manual<'_>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<Option<usize>> {
        let first_number = self.context.table_files.numbers.peek();
        let deepest = |family: &ColumnFamilyData| {
            let version = family.version();
            let mut levels = (0..version.levels.len()).rev();
            levels.find(|&level| !version.overlapping(level, from, to).is_empty())
        };
        let Some(last) = deepest(manual.family) else {
            return Ok(None);
        };
        let range = |level: usize| ManualRange {
            level,
            in_place: false,
            from,
            to,
            excludes_to: false,
            after: None,
            older_than: FileNumber::MAX,
        };
        // Every value must pass the filter on each level.
        if !manual.family.options().has_compaction_filter() {
            self.compact_at_once(manual, from, to, last)?;
        }
        let level_count = manual.family.version().levels.len();
        for level in (0..last.max(1)).take_while(|level| level + 1 < level_count) {
            self.compact_level(manual, &range(level))?;
        }
        let is_forced = match options.bottommost_level_compaction {
            BottommostLevelCompaction::Skip => false,
            BottommostLevelCompaction::IfHaveCompactionFilter => {
                manual.family.options().has_compaction_filter()
            }
            BottommostLevelCompaction::Force | BottommostLevelCompaction::ForceOptimized => true,
        };
        let last = deepest(manual.family);
        if let Some(last) = last.filter(|&last| is_forced && last > 0) {
            // Of the last level, only what this compaction has not just written.
            let older_than = match options.bottommost_level_compaction {
                BottommostLevelCompaction::Force => FileNumber::MAX,
                _ => first_number,
            };
            let range = ManualRange {
                in_place: true,
                older_than,
                ..range(last)
            };
            self.compact_level(manual, &range)?;
        }
        Ok(last)
    }

    /// Compacts the files of a range on levels 0 to `last` in one job, if that saves writing.
    fn compact_at_once(
        self: &Arc<Self>,
        manual: &Manual<'_>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        last: usize,
    ) -> Result<()> {
        let picked = self.wait_for_pick(manual, |version, options| {
            pick::manual::pick_levels(version, &manual.pick_settings(options), from, to, last)
        })?;
        match picked {
            Some((plan, _)) => self.run_manual(manual, plan).map(drop),
            None => Ok(()),
        }
    }

    /// Compacts tables that reach outside of `from..to` to the last level, to purge deleted keys.
    ///
    /// Those of the last level are rewritten there. Deleted keys outside of the range then have no
    /// trace in a table, unless a snapshot needs them. The caller has flushed the column family. No
    /// automatic compaction runs concurrently.
    pub(crate) fn compact_outside(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        from: &[u8],
        to: &[u8],
    ) -> Result<()> {
        let _foreground = self.slots.enter()?;
        let _running = self.begin_manual()?;
        let flags = self.cancel_flags(None);
        let manual = Manual {
            family,
            request: CompactionRequest {
                canceled: &flags,
                ..CompactionRequest::default()
            },
            is_exclusive: true,
            path_id: None,
        };
        let hold = family.hold_compactions();
        let outcome = match family.options().compaction_style {
            CompactionStyle::Level | CompactionStyle::None => {
                self.compact_levels_outside(&manual, from, to)
            }
            CompactionStyle::Universal => {
                let planned = self.compact_planned(&manual, |version, options| {
                    let settings = pick_settings(options);
                    let reason = CompactionReason::ManualCompaction;
                    reaches_outside(version, from, to)
                        .then(|| universal::pick_all(version, &settings, reason))
                        .flatten()
                });
                planned.map(drop)
            }
            // It has no compaction that rewrites one table.
            CompactionStyle::Fifo => Ok(()),
        };
        drop(hold);
        self.schedule();
        outcome
    }

    /// Compacts the keys outside of `from..to`, level by level.
    fn compact_levels_outside(
        self: &Arc<Self>,
        manual: &Manual<'_>,
        from: &[u8],
        to: &[u8],
    ) -> Result<()> {
        let compact = |level: usize, in_place: bool| {
            let range = ManualRange {
                level,
                in_place,
                from: None,
                to: Some(from),
                excludes_to: true,
                after: None,
                older_than: FileNumber::MAX,
            };
            self.compact_level(manual, &range)?;
            let behind = ManualRange {
                from: Some(to),
                to: None,
                ..range
            };
            self.compact_level(manual, &behind)
        };
        // A range tombstone goes only if no deeper level has keys of the range of its table.
        let version = manual.family.version();
        let last = version.deepest_level();
        for level in (0..last.max(1)).take_while(|level| level + 1 < version.levels.len()) {
            compact(level, false)?;
        }
        match manual.family.version().deepest_level() {
            0 => Ok(()),
            last => compact(last, true),
        }
    }

    /// Compacts the files of one level that overlap a range, in successive partial compactions.
    fn compact_level(self: &Arc<Self>, manual: &Manual<'_>, range: &ManualRange<'_>) -> Result<()> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let part = ManualRange {
                after: after.as_deref(),
                ..*range
            };
            let picked = self.wait_for_pick(manual, |version, options| {
                let settings = manual.pick_settings(options);
                let targets = leveled::level_targets(version, &settings);
                pick::manual::pick(version, &settings, &targets, &part)
            })?;
            let Some((mut plan, last)) = picked else {
                return Ok(());
            };
            // Every value must pass the filter, with the level that it is moved from.
            plan.trivial_move &= !manual.family.options().has_compaction_filter();
            self.run_manual(manual, plan)?;
            if range.level == 0 {
                return Ok(());
            }
            after = Some(last);
        }
    }

    /// Moves all files of `level` to another level, without rewriting them.
    fn change_level(
        self: &Arc<Self>,
        manual: &Manual<'_>,
        level: usize,
        target: Option<u32>,
    ) -> Result<()> {
        let refusal = RefCell::new(None);
        let picked = self.wait_for_pick(manual, |version, options| {
            if pick::is_compacting(version) {
                return ManualPick::Busy(Refusal::Running);
            }
            let targets = leveled::level_targets(version, &pick_settings(options));
            let to = match target {
                Some(to) => to as usize,
                None => pick::manual::uppermost_fitting_level(version, &targets, level),
            };
            if level == 0 || to == level || version.levels[level].files.is_empty() {
                return ManualPick::Nothing;
            }
            match pick::manual::move_level(version, level, to) {
                Ok(plan) => ManualPick::Part(plan, Vec::new()),
                Err(reason) => {
                    *refusal.borrow_mut() = Some(reason);
                    ManualPick::Nothing
                }
            }
        })?;
        if let Some(reason) = refusal.take() {
            return Err(Error::invalid_argument(reason));
        }
        match picked {
            Some((plan, _)) => self.run_manual(manual, plan).map(drop),
            None => Ok(()),
        }
    }

    /// Picks the next part of a manual compaction, after conflicting compactions have ended.
    ///
    /// While it waits, no automatic compaction of the column family begins.
    fn wait_for_pick(
        self: &Arc<Self>,
        manual: &Manual<'_>,
        pick: impl Fn(&Version, &ColumnFamilyOptions) -> ManualPick,
    ) -> Result<Option<(CompactionPlan, Vec<u8>)>> {
        let mut hold = None;
        loop {
            if manual.request.is_canceled() {
                return Err(canceled());
            }
            self.health.check_writable()?;
            let part_end = RefCell::new(Vec::new());
            let is_done = Cell::new(false);
            let waits_for = RefCell::new(None);
            let plan = manual.family.pick_marked(|version, options| {
                let found = match manual.is_exclusive && pick::is_compacting(version) {
                    true => ManualPick::Busy(Refusal::Running),
                    false => pick(version, options),
                };
                match found {
                    ManualPick::Part(plan, last) => {
                        *part_end.borrow_mut() = last;
                        return Some(plan);
                    }
                    ManualPick::Nothing => is_done.set(true),
                    ManualPick::Busy(refusal) => *waits_for.borrow_mut() = Some(refusal),
                }
                None
            });
            match plan {
                Some(plan) => return Ok(Some((plan, part_end.take()))),
                None if is_done.get() => return Ok(None),
                // Another compaction is in the way, or an ingestion, perhaps since the pick.
                None => {}
            }
            if hold.is_none() {
                hold = Some(manual.family.hold_compactions());
                if let Some(refusal) = waits_for.take() {
                    let name = &manual.family.name;
                    let log = &self.context.info_log;
                    log.info(format_args!("[{name}] manual compaction waits: {refusal}"));
                }
            }
            self.schedule();
            let running = self.slots.running();
            drop(self.slots.wait(running, Duration::from_millis(50)));
        }
    }

    /// Runs the plan of a manual compaction, whose inputs are marked, and handles its failure.
    fn run_manual(
        self: &Arc<Self>,
        manual: &Manual<'_>,
        plan: CompactionPlan,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let compacted = self.compact(manual.family, plan, manual.request);
        // Automatic compactions that it was in the way of.
        self.schedule();
        match compacted {
            Err(error) if is_given_up(&error) && manual.request.is_canceled() => Err(canceled()),
            Err(error) => {
                self.compaction_failed(error.clone());
                self.health.report_failures();
                Err(error)
            }
            Ok(files) => Ok(files),
        }
    }

    /// Waits for running compactions of the family to end, then runs the plan that `pick` returns.
    fn compact_planned(
        self: &Arc<Self>,
        manual: &Manual<'_>,
        pick: impl Fn(&Version, &ColumnFamilyOptions) -> Option<CompactionPlan>,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let picked = self.wait_for_pick(manual, |version, options| {
            match pick::is_compacting(version) {
                true => ManualPick::Busy(Refusal::Running),
                false => match pick(version, options) {
                    Some(plan) => ManualPick::Part(plan, Vec::new()),
                    None => ManualPick::Nothing,
                },
            }
        })?;
        match picked {
            Some((plan, _)) => self.run_manual(manual, plan),
            None => Ok(Vec::new()),
        }
    }

    /// Drops the tables below level 0 that are wholly inside one of `ranges`.
    pub(crate) fn delete_files_in_ranges(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        ranges: &[KeyBounds],
    ) -> Result<()> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
        let manual = Manual {
            family,
            request: CompactionRequest::default(),
            is_exclusive: false,
            path_id: None,
        };
        let ranges: Vec<_> = ranges
            .iter()
            .map(|range| (slice_of(&range.lower), slice_of(&range.upper)))
            .collect();
        let picked = self.wait_for_pick(&manual, |version, _| {
            match pick::manual::pick_inside(version, &ranges) {
                Some(plan) => ManualPick::Part(plan, Vec::new()),
                None => ManualPick::Nothing,
            }
        });
        let dropped = match picked {
            Ok(Some((plan, _))) => self.run_manual(&manual, plan).map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        // Automatic compactions that waited meanwhile.
        self.schedule();
        dropped
    }

    /// Marks the tables of `bounds` above the last level for compaction.
    pub(crate) fn suggest_compact_range(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        bounds: &KeyBounds,
    ) -> Result<()> {
        self.health.check_writable()?;
        let (from, to) = (key_of(&bounds.lower), key_of(&bounds.upper));
        let version = family.version();
        for level in 0..version.deepest_level() {
            for file in version.overlapping(level, from, to) {
                file.suggested.store(true, Ordering::Relaxed);
            }
        }
        family.queue(WorkKind::Compaction);
        self.schedule();
        Ok(())
    }

    /// Compacts the named tables, and those between them, into `output_level`.
    ///
    /// `report` receives a copy of the description that listeners get at the end.
    pub(crate) fn compact_files(
        self: &Arc<Self>,
        family: &Arc<ColumnFamilyData>,
        files: &[PathBuf],
        output_level: usize,
        options: &CompactionOptions,
        report: Option<&Mutex<Option<CompactionJobInfo>>>,
    ) -> Result<Vec<PathBuf>> {
        self.health.check_writable()?;
        let _foreground = self.slots.enter()?;
        let _running = self.begin_manual()?;
        let numbers = table_numbers(files)?;
        let path_id = match (options.output_path_id, family.tables.paths().count()) {
            (Some(path_id), _) => path_id_of(family, "output_path_id", path_id)?,
            (None, 1) => 0,
            (None, count) => {
                return Err(Error::not_supported(format!(
                    "the tables of column family '{}' are in {count} directories: set output_path_id, \
                     as a compaction of named tables does not choose one",
                    family.name
                )));
            }
        };
        let flags = self.cancel_flags(options.canceled.as_ref());
        let manual = Manual {
            family,
            request: CompactionRequest {
                canceled: &flags,
                max_subcompactions: options.max_subcompactions,
                compression: options.compression,
                target_file_bytes: options.output_file_size_limit,
                report,
                ..CompactionRequest::default()
            },
            is_exclusive: false,
            path_id: Some(path_id),
        };
        let hold = family.hold_compactions();
        let made = self.compact_numbers(&manual, &numbers, output_level);
        drop(hold);
        self.schedule();
        let path = |file: &Arc<FileMeta>| family.tables.paths().of_table(file);
        Ok(made?.iter().map(path).collect())
    }

    /// Compacts the tables with these file numbers into `output_level`; returns the output tables.
    fn compact_numbers(
        self: &Arc<Self>,
        manual: &Manual<'_>,
        numbers: &[FileNumber],
        output_level: usize,
    ) -> Result<Vec<Arc<FileMeta>>> {
        let family = manual.family;
        let version = family.version();
        if output_level >= version.levels.len() {
            return Err(Error::invalid_argument(format!(
                "output level {output_level} does not exist in column family '{}', which has {} levels",
                family.name,
                version.levels.len()
            )));
        }
        if version.ingests_behind && output_level + 1 == version.levels.len() {
            return Err(Error::invalid_argument(format!(
                "output level {output_level} is kept for files that are ingested behind \
                 (cf_allow_ingest_behind of column family '{}')",
                family.name
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
        self.compact_planned(manual, |version, options| {
            pick::manual::pick_files(
                version,
                &manual.pick_settings(options),
                numbers,
                output_level,
            )
        })
    }
}

/// Returns the index `path_id` of a directory of the family's tables, the value of `option`.
///
/// # Errors
/// `InvalidArgument` if there is no such directory.
fn path_id_of(family: &ColumnFamilyData, option: &str, path_id: u32) -> Result<u8> {
    let count = family.tables.paths().count();
    let valid = u8::try_from(path_id)
        .ok()
        .filter(|&id| usize::from(id) < count);
    valid.ok_or_else(|| {
        Error::invalid_argument(format!(
            "{option}={path_id}: the tables of column family '{}' are in {count} directories, counted from 0",
            family.name
        ))
    })
}

/// Whether a table of `version` reaches outside of `from..to`.
fn reaches_outside(version: &Version, from: &[u8], to: &[u8]) -> bool {
    let order = &version.order;
    version.files().any(|(_, file)| {
        order.compare(file.smallest_user_key(), from).is_lt()
            || version.overlaps(file, Some(to), None)
    })
}

/// Returns the `Incomplete` error of a cancelled manual compaction.
fn canceled() -> Error {
    Error::with_kind(
        ErrorKind::Incomplete,
        "the manual compaction was cancelled, or manual compactions are disabled",
    )
}

/// Converts a bound with an owned key to one with a borrowed key.
fn slice_of(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// Returns the key of a bound; `None` if it is unbounded.
fn key_of(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

/// Parses the numbers of table files from their paths.
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

#[cfg(test)]
mod tests;
