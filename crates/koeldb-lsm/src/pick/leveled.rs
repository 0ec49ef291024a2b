//! Leveled compaction: each level below 0 is one run, about ten times as large as the one above.
//!
//! A level's score is its size over its target (for level 0, its file count over the trigger too).
//! The size includes the bytes below it that the level's deletions are estimated to free, so that
//! small deletions are compacted down too (RocksDB's compensated file size).
//! The level with the highest score of at least 1 provides a file, with one exception (below). The
//! file is compacted with all it overlaps in the level below. With dynamic level sizes the targets are derived from the last
//! level's actual size upwards, and data skips the empty levels above the base level (RocksDB:
//! `db/version_set.cc`, `CalculateBaseBytes`; 11.9).
//!
//! A base level beyond its target goes before level 0 until that is half-way to a slowdown of writes,
//! or has three times the files that trigger a compaction: each compaction of level 0 rewrites the
//! whole base level. Source: none; measured with `benchmarks/steady-state`.
//!
//! While level 0 cannot be compacted into the base level, because its older files or that level are
//! being compacted, its newest files are merged among themselves if they become many (RocksDB:
//! `db/compaction/compaction_picker.cc`, `PickCostBasedIntraL0Compaction`; 11.9): reads visit every
//! file of level 0, and writes stall on their number. The merged file is large, so level 0 is due
//! by its bytes as well as by its file count.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering as Memory;

use super::level_plan::{LevelRequest, Refusal};
use super::{
    CompactionPlan, CompactionReason, FileOrder, PickSettings, any_being_compacted,
    expand_to_clean_cut,
};
use crate::version::{FileMeta, KeyRange, Level, Version};

/// The number of files above the compaction trigger from which an intra-L0 compaction is picked.
const LEVEL0_EXCESS: usize = 2;
/// The number of files of a level that are tried as the start of a compaction.
const CANDIDATES_MAX: usize = 50;
/// The smallest number of files of an intra-L0 compaction.
const LEVEL0_MERGED_MIN: usize = 4;

/// The target sizes of all levels, and the base level.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelTargets {
    /// The output level of level-0 compactions.
    pub base_level: usize,
    /// Target bytes by level; `u64::MAX` for unused levels. Index 0 has no meaning.
    pub bytes: Vec<u64>,
}

/// Returns a size multiplied by `factor`, saturating.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "level targets are estimates"
)]
pub(super) fn scaled(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor) as u64
}

/// Returns the factor from the target size of `level` to that of the next deeper one.
fn factor_below(settings: &PickSettings, level: usize) -> f64 {
    let additional = level
        .checked_sub(1)
        .and_then(|index| {
            settings
                .max_bytes_for_level_multiplier_additional
                .get(index)
        })
        .map_or(1.0, |&factor| f64::from(factor));
    settings.max_bytes_for_level_multiplier * additional
}

/// Computes the base level and level targets of a version (RocksDB: `CalculateBaseBytes`).
#[must_use]
pub fn level_targets(version: &Version, settings: &PickSettings) -> LevelTargets {
    let count = version.levels.len();
    let base = settings.max_bytes_for_level_base.max(1);
    let mut bytes = vec![u64::MAX; count];
    if !settings.level_compaction_dynamic_level_bytes {
        let mut target = base;
        for (level, slot) in bytes.iter_mut().enumerate().skip(1) {
            if level > 1 {
                target = scaled(target, factor_below(settings, level - 1));
            }
            *slot = target;
        }
        return LevelTargets {
            base_level: 1.min(count - 1),
            bytes,
        };
    }
    let first_used = (1..count).find(|&level| !version.levels[level].files.is_empty());
    let Some(first_used) = first_used else {
        let last = count - 1;
        bytes[last] = base;
        return LevelTargets {
            base_level: last,
            bytes,
        };
    };
    let multiplier = settings.max_bytes_for_level_multiplier.max(1.0);
    let largest = (1..count)
        .map(|level| version.levels[level].bytes())
        .max()
        .unwrap_or(0);
    let base_min = scaled(base, 1.0 / multiplier);
    let mut size = largest;
    for _ in first_used..count - 1 {
        size = scaled(size, 1.0 / multiplier);
    }
    let mut base_level = first_used;
    let base_size = if size <= base_min {
        base_min + 1
    } else {
        while base_level > 1 && size > base {
            base_level -= 1;
            size = scaled(size, 1.0 / multiplier);
        }
        size.min(base).max(1)
    };
    let mut target = base_size;
    for (level, slot) in bytes.iter_mut().enumerate().skip(base_level) {
        if level > base_level {
            target = scaled(target, multiplier);
        }
        *slot = target.max(base);
    }
    LevelTargets { base_level, bytes }
}

#[expect(clippy::cast_precision_loss, reason = "scores are estimates")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Computes the compaction score of each level: 1 and above is due. The last level's is 0.
#[must_use]
pub fn scores(version: &Version, settings: &PickSettings, targets: &LevelTargets) -> Vec<f64> {
    version.compensate();
    let count = version.levels.len();
    let idle = |level: usize| -> (u64, u64) {
        version.levels[level]
            .files
            .iter()
            .filter(|file| !file.is_being_compacted())
            .fold((0, 0), |(files, bytes), file| {
                (
                    files + 1,
                    u64::saturating_add(bytes, file.compensated_bytes()),
                )
            })
    };
    let mut scores = vec![0.0; count];
    let (files, bytes) = idle(0);
    let by_count = ratio(files, settings.level0_file_num_compaction_trigger as u64);
    // Not relative to the base level's target alone: a base level that has grown too large would
    // never be picked. (RocksDB instead weighs the bytes on their way down against the base level's
    // score, which favours level 0 more often.)
    let base_bytes = match settings.level_compaction_dynamic_level_bytes {
        true => version
            .levels
            .get(targets.base_level)
            .map_or(0, Level::compensated_bytes),
        false => 0,
    };
    let by_size = ratio(bytes, settings.max_bytes_for_level_base.max(base_bytes));
    scores[0] = by_count.max(by_size);
    if bytes >= settings.max_bytes_for_level_base {
        scores[0] = scores[0].max(1.0);
    }
    let last = count.saturating_sub(1);
    for (level, score) in scores.iter_mut().enumerate().take(last).skip(1) {
        let (_, bytes) = idle(level);
        *score = if level >= targets.base_level {
            ratio(bytes, targets.bytes[level])
        } else if bytes > 0 {
            // Data above the base level, left there by another configuration, moves down
            // immediately.
            1.0 + ratio(bytes, settings.max_bytes_for_level_base)
        } else {
            0.0
        };
    }
    scores
}

/// Estimates the bytes that compactions must rewrite to bring every level within its target.
///
/// Writes are slowed down by it.
#[must_use]
pub fn pending_compaction_bytes(
    version: &Version,
    settings: &PickSettings,
    targets: &LevelTargets,
) -> u64 {
    let mut pending = 0_u64;
    let mut carried = 0_u64;
    let level0 = &version.levels[0];
    if level0.files.len() >= settings.level0_file_num_compaction_trigger
        || level0.bytes() >= settings.max_bytes_for_level_base
    {
        carried = level0.bytes();
        pending = carried;
    }
    for level in targets.base_level..version.levels.len().saturating_sub(1) {
        let bytes = version.levels[level].bytes() + carried;
        if level == targets.base_level && carried > 0 {
            pending = pending.saturating_add(version.levels[level].bytes());
        }
        carried = bytes.saturating_sub(targets.bytes[level]);
        if carried > 0 {
            let below = version.levels[level + 1].bytes();
            let fan_out = ratio(below, bytes);
            pending = pending.saturating_add(scaled(carried, fan_out + 1.0));
        }
    }
    pending
}

/// Picks the most urgent leveled compaction; `None` if none is due or possible now.
#[must_use]
pub fn pick(version: &Version, settings: &PickSettings) -> Option<CompactionPlan> {
    pick_or_refuse(version, settings).ok()
}

/// Picks the most urgent leveled compaction, or returns why each due level cannot be compacted.
///
/// # Errors
/// The levels that are due and cannot be compacted, the most urgent one first, each with the reason.
pub fn pick_or_refuse(
    version: &Version,
    settings: &PickSettings,
) -> Result<CompactionPlan, Vec<(usize, Refusal)>> {
    let targets = level_targets(version, settings);
    let scores = scores(version, settings, &targets);
    let mut due: Vec<usize> = (0..scores.len())
        .filter(|&level| scores[level] >= 1.0)
        .collect();
    let base_level = targets.base_level;
    let urgency = |level: usize| match level {
        // Directly behind the base level.
        0 if scores[base_level] >= 1.0 && level0_yields(version, settings) => {
            scores[0].min(scores[base_level].next_down())
        }
        level => scores[level],
    };
    due.sort_by(|&a, &b| urgency(b).total_cmp(&urgency(a)));
    let mut refusals = Vec::new();
    for level in due {
        let level0_waits = refusals.iter().any(|&(level, _)| level == 0);
        let picked = if level == 0 {
            pick_level0(version, settings, &targets)
                .or_else(|refusal| pick_within_level0(version, settings).ok_or(refusal))
        } else if level0_waits && level == targets.base_level {
            Err(Refusal::Level0First)
        } else {
            pick_from_level(version, settings, &targets, level)
        };
        match picked {
            Ok(plan) => return Ok(plan),
            Err(refusal) => refusals.push((level, refusal)),
        }
    }
    pick_marked_file(version, settings, &targets).ok_or(refusals)
}

/// Whether level 0 has so few files that an oversized base level is compacted before it.
fn level0_yields(version: &Version, settings: &PickSettings) -> bool {
    let trigger = settings.level0_file_num_compaction_trigger;
    let half_way = trigger + settings.level0_slowdown.saturating_sub(trigger) / 2;
    version.levels[0].files.len() < half_way.min(trigger.saturating_mul(3))
}

/// Marks all files of level 0 for compaction in an idle database, to speed up reads.
///
/// Each sorted run costs reads time.
///
/// Returns `false` if that would leave as many runs, or rewrite more than four times as many bytes
/// below as level 0 has: a database that is flushed in each of its pauses would write too much.
pub fn suggest_level0(version: &Version, settings: &PickSettings) -> bool {
    const BELOW_PER_BYTE_MAX: u64 = 4;
    let files = &version.levels[0].files;
    let Some(range) = KeyRange::of(&version.order, files) else {
        return false;
    };
    let below = range.overlapping(version, level_targets(version, settings).base_level);
    let bytes = |files: &[Arc<FileMeta>]| files.iter().map(|file| file.bytes).sum::<u64>();
    let bytes_max = bytes(files).saturating_mul(BELOW_PER_BYTE_MAX);
    if files.len() + usize::from(!below.is_empty()) < 2 || bytes(&below) > bytes_max {
        return false;
    }
    for file in files {
        file.leaves_level0.store(true, Memory::Relaxed);
    }
    true
}

/// Picks a file that is marked for compaction, when no level is due.
///
/// It moves down. On the deepest level it stays as it is: what marks it may be what no compaction can
/// drop, such as a tombstone that a snapshot needs, and its rewriting would not end.
/// (RocksDB: `ComputeFilesMarkedForCompaction`.)
fn pick_marked_file(
    version: &Version,
    settings: &PickSettings,
    targets: &LevelTargets,
) -> Option<CompactionPlan> {
    let deepest = version.deepest_level();
    version.files().find_map(|(level, file)| {
        let moves_down = level < deepest && file.suggested.load(Memory::Relaxed)
            || level == 0 && file.leaves_level0.load(Memory::Relaxed)
            || (level < deepest || level == 0) && file.marked_for_compaction;
        if !moves_down || file.is_being_compacted() {
            return None;
        }
        let output_level = match level {
            0 => targets.base_level,
            level => targets.base_level.max(level + 1),
        };
        let request = LevelRequest {
            reason: CompactionReason::FilesMarkedForCompaction,
            level,
            output_level,
            files: expand_to_clean_cut(version, level, vec![Arc::clone(file)]),
        };
        let mut plan = request.plan(version, settings, targets).ok()?;
        // Its tombstones go when it is rewritten, and it will not be picked there.
        plan.trivial_move &= !file.marked_for_compaction || output_level < deepest;
        Some(plan)
    })
}

/// Picks a compaction of level 0 into the base level, beginning with the oldest file.
fn pick_level0(
    version: &Version,
    settings: &PickSettings,
    targets: &LevelTargets,
) -> Result<CompactionPlan, Refusal> {
    let files = &version.levels[0].files;
    Refusal::if_busy(0, files)?;
    let oldest = files.last().cloned().into_iter().collect();
    let request = LevelRequest {
        reason: CompactionReason::LevelL0FilesNum,
        level: 0,
        output_level: targets.base_level,
        files: expand_to_clean_cut(version, 0, oldest),
    };
    request.plan(version, settings, targets)
}

/// Picks an intra-L0 compaction of the newest files while bytes per removed file do not rise.
fn pick_within_level0(version: &Version, settings: &PickSettings) -> Option<CompactionPlan> {
    let files = &version.levels[0].files;
    if files.len() < settings.level0_file_num_compaction_trigger + LEVEL0_EXCESS {
        return None;
    }
    // If the oldest file is idle and another is not, level 0 waits for such a merge. If more of
    // them started in the meantime, it might wait forever.
    let oldest_is_idle = !files.last()?.is_being_compacted();
    if oldest_is_idle && any_being_compacted(files) {
        return None;
    }
    let bytes_max = settings.max_compaction_bytes.min(settings.table_bytes_max);
    let mut bytes = 0_u64;
    let mut work = u64::MAX;
    let mut merged = Vec::new();
    for file in files {
        bytes = bytes.saturating_add(file.bytes);
        let work_with = match merged.len() as u64 {
            0 => u64::MAX,
            rid_of => bytes / rid_of,
        };
        let is_too_much = bytes > bytes_max;
        if file.is_being_compacted() || work_with > work || is_too_much {
            break;
        }
        work = work_with;
        merged.push(Arc::clone(file));
    }
    let reason = CompactionReason::LevelL0FilesNum;
    (merged.len() >= LEVEL0_MERGED_MIN).then(|| CompactionPlan {
        output_path: settings.path_of_level(0),
        ..CompactionPlan::within_level0(reason, merged, false)
    })
}

/// Picks a compaction of a level below 0: the first file by priority that can be compacted.
fn pick_from_level(
    version: &Version,
    settings: &PickSettings,
    targets: &LevelTargets,
    level: usize,
) -> Result<CompactionPlan, Refusal> {
    let output_level = if level < targets.base_level {
        targets.base_level
    } else {
        level + 1
    };
    let files = by_priority(version, settings.file_order, level, output_level);
    let mut candidates = files
        .into_iter()
        .filter(|file| !file.is_being_compacted())
        .take(CANDIDATES_MAX);
    let mut refusal = None;
    let found = candidates.find_map(|file| {
        let request = LevelRequest {
            reason: CompactionReason::LevelMaxLevelSize,
            level,
            output_level,
            files: expand_to_clean_cut(version, level, vec![Arc::clone(file)]),
        };
        match request.plan(version, settings, targets) {
            Ok(plan) => Some(plan),
            Err(refused) => {
                refusal.get_or_insert(refused);
                None
            }
        }
    });
    let mut plan = found.ok_or(refusal.unwrap_or(Refusal::NoFiles))?;
    if settings.file_order == FileOrder::RoundRobin {
        plan.next_cursor = next_cursor(version, level, &plan);
    }
    Ok(plan)
}

/// Returns the files of a level in the order of compaction priority (`compaction_pri`).
fn by_priority(
    version: &Version,
    order: FileOrder,
    level: usize,
    output_level: usize,
) -> Vec<&Arc<FileMeta>> {
    let mut files: Vec<&Arc<FileMeta>> = version.levels[level].files.iter().collect();
    match order {
        FileOrder::MinOverlappingRatio => files.sort_by_cached_key(|file| {
            (overlap_per_mille(version, output_level, file), file.number)
        }),
        FileOrder::CompensatedSize => {
            files.sort_by_cached_key(|file| (Reverse(file.compensated_bytes()), file.number));
        }
        FileOrder::OldestLargestSeqno => {
            files.sort_by_key(|file| (file.largest_seqno, file.number));
        }
        FileOrder::OldestSmallestSeqno => {
            files.sort_by_key(|file| (file.smallest_seqno, file.number));
        }
        FileOrder::RoundRobin => {
            if let Some(cursor) = version.compact_cursors.get(&level) {
                let order = &version.order;
                let first = files
                    .partition_point(|file| order.compare_internal(&file.smallest, cursor).is_lt());
                let first = first % files.len().max(1);
                files.rotate_left(first);
            }
        }
    }
    files
}

/// Returns the level and next compact cursor of a round-robin compaction.
///
/// The cursor is the smallest key of the next file, or of the first file after the last.
fn next_cursor(version: &Version, level: usize, plan: &CompactionPlan) -> Option<(usize, Vec<u8>)> {
    let files = &version.levels[level].files;
    let last = plan.inputs.first()?.files.last()?;
    let after = files.iter().position(|file| file.number == last.number)? + 1;
    let next = files.get(after).or(files.first())?;
    Some((level, next.smallest.clone()))
}

/// Returns the bytes of the level below that a file overlaps, per thousand bytes of its own.
///
/// The file's own bytes include the weight of its deletions.
fn overlap_per_mille(version: &Version, below: usize, file: &Arc<FileMeta>) -> u64 {
    let files = &version.levels[below].files;
    let order = &version.order;
    let first = files.partition_point(|f| {
        order
            .compare_without_timestamps(f.largest_user_key(), file.smallest_user_key())
            .is_lt()
    });
    let overlapped: u64 = files[first..]
        .iter()
        .take_while(|f| {
            order
                .compare_without_timestamps(f.smallest_user_key(), file.largest_user_key())
                .is_le()
        })
        .map(|f| f.bytes)
        .sum();
    overlapped.saturating_mul(1000) / file.compensated_bytes().max(1)
}

#[cfg(test)]
mod tests;
