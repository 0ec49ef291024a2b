//! Universal compaction: merges sorted runs, ordered by age, by their sizes and number.
//!
//! It rewrites less than leveled compaction and takes more space (RocksDB:
//! `db/compaction/compaction_picker_universal.cc`). A run is one file of level 0, or a whole deeper
//! level. Three rules are tried in turn: total size relative to the oldest run (size
//! amplification), runs of similar size (size ratio), and the number of runs.

use std::sync::Arc;

use super::{CompactionInput, CompactionPlan, CompactionReason, PickSettings, is_bottommost};
use crate::version::{FileMeta, KeyRange, Version};

/// The settings of universal compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniversalSettings {
    /// The percentage by which a run may exceed the total of the newer ones and still be included.
    pub size_ratio: u32,
    /// The smallest number of runs merged in one compaction.
    pub min_merge_width: usize,
    /// The largest number of runs merged in one compaction.
    pub max_merge_width: usize,
    /// The limit of the total size of newer runs, as a percentage of the oldest run's size.
    pub max_size_amplification_percent: u32,
    /// Whether a run is compared with the newest one instead of with the total.
    pub stop_on_similar_size: bool,
    /// Whether single runs without overlap are moved without being rewritten.
    pub allow_trivial_move: bool,
    /// The number of runs above which the newest ones are merged regardless of their sizes.
    pub run_limit: RunLimit,
    /// The largest number of runs that does not stop writes.
    ///
    /// More of them are merged in any case, even if that takes fewer or more runs than the widths
    /// allow.
    pub run_limit_max: usize,
}

/// The limit on sorted runs, above which the newest are merged (`max_read_amp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunLimit {
    /// `level0_file_num_compaction_trigger`.
    Trigger,
    /// This number.
    Fixed(usize),
    /// The number of runs up to the largest one, if each is as large as the size ratio permits and
    /// the first has these bytes.
    BySizes {
        /// The bytes of the first run: the size of a memtable.
        first_run_bytes: u64,
    },
}

impl Default for UniversalSettings {
    fn default() -> Self {
        UniversalSettings {
            size_ratio: 1,
            min_merge_width: 2,
            max_merge_width: usize::MAX,
            max_size_amplification_percent: 200,
            stop_on_similar_size: false,
            allow_trivial_move: false,
            run_limit: RunLimit::Trigger,
            run_limit_max: usize::MAX,
        }
    }
}

/// A sorted run of universal compaction: a file of level 0, or all files of a deeper level.
#[derive(Debug)]
struct Run {
    level: usize,
    files: Vec<Arc<FileMeta>>,
    bytes: u64,
    /// The bytes with the weight of the deletions.
    compensated_bytes: u64,
    being_compacted: bool,
}

/// Returns the sorted runs of a version, newest first.
fn runs(version: &Version) -> Vec<Run> {
    version.compensate();
    let run = |level: usize, files: Vec<Arc<FileMeta>>| Run {
        level,
        bytes: files.iter().map(|file| file.bytes).sum(),
        compensated_bytes: (files.iter()).fold(0, |bytes, file| {
            bytes.saturating_add(file.compensated_bytes())
        }),
        being_compacted: files.iter().any(|file| file.is_being_compacted()),
        files,
    };
    let mut runs: Vec<Run> = version.levels[0]
        .files
        .iter()
        .map(|file| run(0, vec![Arc::clone(file)]))
        .collect();
    let deeper = version.levels.iter().enumerate().skip(1);
    for (level, files) in deeper.take(last_level(version)) {
        if !files.files.is_empty() {
            runs.push(run(level, files.files.clone()));
        }
    }
    runs
}

/// Returns the last level that compactions use; one for tables ingested behind is left out.
fn last_level(version: &Version) -> usize {
    let last = version.levels.len() - 1;
    match version.ingests_behind {
        true => last.saturating_sub(1),
        false => last,
    }
}

/// The number of sorted runs of a version: level-0 files and deeper levels with files.
#[must_use]
pub fn run_count(version: &Version) -> usize {
    version.levels[0].files.len()
        + version
            .levels
            .iter()
            .skip(1)
            .take(last_level(version))
            .filter(|level| !level.files.is_empty())
            .count()
}

/// Picks the most urgent universal compaction; `None` if none is due or possible now.
#[must_use]
pub fn pick(version: &Version, settings: &PickSettings) -> Option<CompactionPlan> {
    let runs = runs(version);
    let trigger = settings.level0_file_num_compaction_trigger;
    if runs.len() < trigger {
        return None;
    }
    pick_by_amplification(version, settings, &runs)
        .or_else(|| {
            let universal = &settings.universal;
            let found = similar_runs(
                &runs,
                universal,
                Some(universal.size_ratio),
                widths(universal),
            )?;
            plan(
                version,
                settings,
                &runs,
                found,
                CompactionReason::UniversalSizeRatio,
            )
        })
        .or_else(|| {
            // Runs that are being compacted will be fewer soon: only the idle ones count.
            let idle = runs.iter().filter(|run| !run.being_compacted).count();
            let excess = idle.checked_sub(run_limit(&runs, settings))?;
            if excess == 0 {
                return None;
            }
            let universal = &settings.universal;
            let (narrowest, widest) = widths(universal);
            let allowed = match idle > universal.run_limit_max {
                true => (2, widest.min(narrowest.max(excess + 1)).max(2)),
                false => (narrowest, widest.min(excess + 1)),
            };
            let found = similar_runs(&runs, universal, None, allowed)?;
            plan(
                version,
                settings,
                &runs,
                found,
                CompactionReason::UniversalSortedRunNum,
            )
        })
}

/// Returns the smallest and largest number of sorted runs that one compaction may merge.
fn widths(universal: &UniversalSettings) -> (usize, usize) {
    (universal.min_merge_width.max(2), universal.max_merge_width)
}

/// Returns the number of sorted runs above which the newest are merged regardless of their sizes.
fn run_limit(runs: &[Run], settings: &PickSettings) -> usize {
    let universal = &settings.universal;
    let limit = match universal.run_limit {
        RunLimit::Trigger => settings.level0_file_num_compaction_trigger,
        RunLimit::Fixed(limit) => limit,
        RunLimit::BySizes { first_run_bytes } => {
            let largest = runs.iter().map(|run| run.bytes).max().unwrap_or(0);
            let percent = 100 + u128::from(universal.size_ratio);
            let (mut limit, mut run, mut total) = (1, u128::from(first_run_bytes.max(1)), 0);
            while run < u128::from(largest) {
                total += run;
                run = (total * percent / 100).max(run + 1);
                limit += 1;
            }
            limit
        }
    };
    limit.min(universal.run_limit_max)
}

/// Whether the outputs of `plan` stay uncompressed, as newest data (`compression_size_percent`).
///
/// `compressed_percent` is the share of the tree's bytes, oldest first, that is compressed. Only
/// merges by size ratio and run count leave older runs.
#[must_use]
pub fn stays_uncompressed(
    version: &Version,
    plan: &CompactionPlan,
    compressed_percent: u32,
) -> bool {
    let leaves_older = matches!(
        plan.reason,
        CompactionReason::UniversalSizeRatio | CompactionReason::UniversalSortedRunNum
    );
    let runs = runs(version);
    let is_chosen = |run: &Run| {
        plan.files()
            .any(|(_, file)| run.files.iter().any(|other| Arc::ptr_eq(file, other)))
    };
    let Some(last) = runs.iter().rposition(is_chosen).filter(|_| leaves_older) else {
        return false;
    };
    let bytes = |runs: &[Run]| runs.iter().map(|run| u128::from(run.bytes)).sum::<u128>();
    let older = &runs[last + 1..];
    !older.is_empty() && bytes(older) * 100 >= bytes(&runs) * u128::from(compressed_percent)
}

/// Picks a merge into the oldest run if size amplification reaches its limit.
///
/// That is the size of the newer runs relative to the oldest one.
fn pick_by_amplification(
    version: &Version,
    settings: &PickSettings,
    runs: &[Run],
) -> Option<CompactionPlan> {
    let (oldest, newer) = runs.split_last()?;
    if oldest.being_compacted || newer.is_empty() {
        return None;
    }
    let start = newer
        .iter()
        .rposition(|run| run.being_compacted)
        .map_or(0, |index| index + 1);
    let newer_bytes = (newer[start..].iter()).fold(0, |bytes: u64, run| {
        bytes.saturating_add(run.compensated_bytes)
    });
    let limit = u64::from(settings.universal.max_size_amplification_percent);
    if start >= newer.len() || newer_bytes.saturating_mul(100) < limit.saturating_mul(oldest.bytes)
    {
        return None;
    }
    plan(
        version,
        settings,
        runs,
        start..runs.len(),
        CompactionReason::UniversalSizeAmplification,
    )
}

/// Finds the first adjacent runs, newest first, that are idle, similar in size and enough to merge.
///
/// The last parameter limits their number. A run is similar if it does not exceed the newer ones by
/// more than `size_ratio` percent; without a ratio, all runs are.
fn similar_runs(
    runs: &[Run],
    universal: &UniversalSettings,
    size_ratio: Option<u32>,
    (narrowest, widest): (usize, usize),
) -> Option<std::ops::Range<usize>> {
    let is_like = |first: u64, second: u64| {
        let percent = |ratio| 100 + u64::from(ratio);
        size_ratio.is_none_or(|ratio| first.saturating_mul(percent(ratio)) / 100 >= second)
    };
    let mut start = 0;
    while start < runs.len() {
        if runs[start].being_compacted {
            start += 1;
            continue;
        }
        let mut candidate = runs[start].compensated_bytes;
        let mut end = start + 1;
        while end < runs.len() && end - start < widest && !runs[end].being_compacted {
            if !is_like(candidate, runs[end].bytes) {
                break;
            }
            if universal.stop_on_similar_size {
                if !is_like(runs[end].bytes, candidate) {
                    break;
                }
                candidate = runs[end].compensated_bytes;
            } else {
                candidate = candidate.saturating_add(runs[end].compensated_bytes);
            }
            end += 1;
        }
        if end - start >= narrowest {
            return Some(start..end);
        }
        start += 1;
    }
    None
}

/// Plans the merge of the `chosen` consecutive runs into the level above the next older run.
fn plan(
    version: &Version,
    settings: &PickSettings,
    runs: &[Run],
    chosen: std::ops::Range<usize>,
    reason: CompactionReason,
) -> Option<CompactionPlan> {
    let output_level = match runs.get(chosen.end) {
        None => last_level(version),
        Some(next) => next.level.saturating_sub(1),
    };
    // The size of all runs that are as new as the chosen ones or newer, as they fill up the
    // directories before; RocksDB has it so for these two reasons.
    let counted = match reason {
        CompactionReason::UniversalSizeRatio | CompactionReason::UniversalSortedRunNum => {
            &runs[..chosen.end]
        }
        _ => &runs[chosen.clone()],
    };
    let path = settings.path_of_run(counted.iter().map(|run| run.bytes).sum());
    merge(
        version,
        settings,
        &runs[chosen],
        (output_level, path),
        reason,
    )
}

/// Plans a merge of all runs into the last level, as in a manual compaction of the whole range.
#[must_use]
pub fn pick_all(
    version: &Version,
    settings: &PickSettings,
    reason: CompactionReason,
) -> Option<CompactionPlan> {
    let runs = runs(version);
    if runs.is_empty() || runs.iter().any(|run| run.being_compacted) {
        return None;
    }
    let path = settings.path_of_run(runs.iter().map(|run| run.bytes).sum());
    merge(
        version,
        settings,
        &runs,
        (last_level(version), path),
        reason,
    )
}

/// Plans a merge of `runs` into a level and directory; `None` if a running compaction writes there.
fn merge(
    version: &Version,
    settings: &PickSettings,
    runs: &[Run],
    (output_level, output_path): (usize, u8),
    reason: CompactionReason,
) -> Option<CompactionPlan> {
    let mut inputs: Vec<CompactionInput> = Vec::new();
    for run in runs {
        match inputs.last_mut() {
            Some(input) if input.level == run.level => {
                input.files.extend(run.files.iter().cloned())
            }
            _ => inputs.push(CompactionInput {
                level: run.level,
                files: run.files.clone(),
            }),
        }
    }
    let range = KeyRange::of(&version.order, inputs.iter().flat_map(|input| &input.files))?;
    if version.running.claims(&version.order, output_level, &range) {
        return None;
    }
    let oldest_chosen = runs.last()?.files.last()?.number;
    let older_in_level0 = output_level == 0
        && version.levels[0]
            .files
            .last()
            .is_some_and(|oldest| oldest.number != oldest_chosen);
    let bottommost = !older_in_level0 && is_bottommost(version, output_level, &range);
    let trivial_move = settings.universal.allow_trivial_move
        && runs.len() == 1
        && runs[0].level != output_level
        && settings.fit_partitions(&runs[0].files)
        && reason != CompactionReason::ManualCompaction;
    Some(CompactionPlan {
        reason,
        inputs,
        output_level,
        output_path,
        target_file_bytes: if output_level == 0 {
            u64::MAX
        } else {
            settings.target_file_size_base
        },
        max_grandparent_bytes: u64::MAX,
        grandparents: Vec::new(),
        bottommost,
        trivial_move,
        deletion_only: false,
        next_cursor: None,
        temperature: None,
    })
}
