//! Manual compactions: a key range of one level or of all, named files, or files to be dropped.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;

use super::fifo;
use super::level_plan::{LevelRequest, Refusal, grandparents};
use super::leveled::{self, LevelTargets};
use super::{
    CompactionInput, CompactionPlan, CompactionReason, PickSettings, any_being_compacted,
    expand_to_clean_cut, is_bottommost,
};
use crate::version::{FileMeta, KeyRange, Version};

/// The level, key range and progress of a manual compaction, for picking its next part.
#[derive(Clone, Copy, Debug)]
pub struct ManualRange<'a> {
    /// The level of the files.
    pub level: usize,
    /// Whether the files are rewritten on their level instead of moving down.
    pub in_place: bool,
    /// The first user key; `None` for no bound.
    pub from: Option<&'a [u8]>,
    /// The last user key; `None` for no bound.
    pub to: Option<&'a [u8]>,
    /// Whether the range ends before `to`.
    pub excludes_to: bool,
    /// The largest internal key of the previous part of this compaction.
    pub after: Option<&'a [u8]>,
    /// The file number below which files are rewritten.
    pub older_than: FileNumber,
}

/// The outcome of picking a manual compaction: a plan, a conflict, or nothing to do.
#[derive(Clone, Debug)]
pub enum ManualPick {
    /// A plan for the next part, and the largest internal key of the part.
    Part(CompactionPlan, Vec<u8>),
    /// A conflicting compaction is running.
    Busy(Refusal),
    /// There is nothing to compact.
    Nothing,
}

/// Picks the next part of a manual compaction of one level's files in a user key range.
///
/// A part has all such files of level 0; of deeper levels, as many as `max_compaction_bytes` allow,
/// together with the files below that they overlap.
#[must_use]
pub fn pick(
    version: &Version,
    settings: &PickSettings,
    targets: &LevelTargets,
    range: &ManualRange<'_>,
) -> ManualPick {
    let level = range.level;
    let output_level = match range.in_place {
        true => level,
        false => output_below(version, targets, level),
    };
    let mut files = version.overlapping(level, range.from, range.to);
    if let Some(to) = range.to.filter(|_| range.excludes_to) {
        let order = &version.order;
        files.retain(|file| {
            order
                .compare_without_timestamps(file.smallest_user_key(), to)
                .is_lt()
        });
    }
    if level > 0 {
        files.retain(|file| {
            let follows = |after| {
                version
                    .order
                    .compare_internal(&file.smallest, after)
                    .is_gt()
            };
            file.number < range.older_than && range.after.is_none_or(follows)
        });
        files.truncate(part_len(
            version,
            settings,
            output_level,
            range.in_place,
            &files,
        ));
    }
    if files.is_empty() {
        return ManualPick::Nothing;
    }
    let request = LevelRequest {
        reason: CompactionReason::ManualCompaction,
        level,
        output_level,
        files: expand_to_clean_cut(version, level, files),
    };
    let mut plan = match request.plan(version, settings, targets) {
        Ok(plan) => plan,
        Err(refusal) => return ManualPick::Busy(refusal),
    };
    if range.in_place {
        plan.trivial_move = false;
    }
    let last = plan.inputs.first().and_then(|input| input.files.last());
    let last = last.map_or(Vec::new(), |file| file.largest.clone());
    ManualPick::Part(plan, last)
}

/// Returns the output level of a manual compaction of `level`: the next one that is not skipped.
///
/// Empty levels above the base level are skipped.
fn output_below(version: &Version, targets: &LevelTargets, level: usize) -> usize {
    let last = version.levels.len().saturating_sub(1);
    (level + 1..last)
        .find(|&below| below >= targets.base_level || !version.levels[below].files.is_empty())
        .unwrap_or(last)
}

/// Returns how many leading `files` one manual compaction may take within the size limit.
///
/// The first file may exceed the limit.
fn part_len(
    version: &Version,
    settings: &PickSettings,
    output_level: usize,
    in_place: bool,
    files: &[Arc<FileMeta>],
) -> usize {
    let mut bytes = 0_u64;
    for (count, file) in files.iter().enumerate() {
        bytes = bytes.saturating_add(file.bytes);
        let below: u64 = match KeyRange::of(&version.order, &files[..=count]) {
            Some(range) if !in_place => {
                let overlapped = range.overlapping(version, output_level);
                overlapped.iter().map(|file| file.bytes).sum()
            }
            _ => 0,
        };
        if count > 0 && bytes.saturating_add(below) > settings.max_compaction_bytes {
            return count;
        }
    }
    files.len()
}

/// Plans the move of all files of `level` to the empty level `to`.
///
/// # Errors
/// The reason why the files cannot be moved there.
pub fn move_level(version: &Version, level: usize, to: usize) -> Result<CompactionPlan, String> {
    if to == 0 || to >= version.levels.len() {
        return Err(format!("level {to} cannot be a target level"));
    }
    let between = match level < to {
        true => level + 1..to + 1,
        false => to..level,
    };
    let mut levels = between.clone();
    if let Some(full) = levels.find(|&level| !version.levels[level].files.is_empty()) {
        return Err(format!(
            "level {level} cannot be moved to level {to}: level {full} has files"
        ));
    }
    let files = version.levels[level].files.clone();
    Ok(CompactionPlan {
        reason: CompactionReason::ManualCompaction,
        inputs: vec![CompactionInput { level, files }],
        output_level: to,
        output_path: 0,
        target_file_bytes: 0,
        max_grandparent_bytes: u64::MAX,
        grandparents: Vec::new(),
        bottommost: false,
        trivial_move: true,
        deletion_only: false,
        next_cursor: None,
        temperature: None,
    })
}

/// Returns the highest empty level to which all files of `level` can be moved up, or `level`.
#[must_use]
pub fn uppermost_fitting_level(version: &Version, targets: &LevelTargets, level: usize) -> usize {
    let bytes = version.levels[level].bytes();
    let fits =
        |&above: &usize| version.levels[above].files.is_empty() && targets.bytes[above] >= bytes;
    (1..level).rev().take_while(fits).last().unwrap_or(level)
}

/// A range of user keys by its bounds.
pub type UserKeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Plans to drop the tables below level 0 inside one of the ranges (`DeleteFilesInRanges`).
///
/// A table stays if it is being compacted, or if it shares a user key with one that stays: newer
/// versions of a key must not go while older ones stay.
#[must_use]
pub fn pick_inside(version: &Version, ranges: &[UserKeyRange<'_>]) -> Option<CompactionPlan> {
    let compare = |a: &[u8], b: &[u8]| version.order.compare_without_timestamps(a, b);
    let is_inside = |file: &FileMeta, (from, to): &UserKeyRange<'_>| {
        let begins = match from {
            Bound::Unbounded => true,
            Bound::Included(from) => compare(file.smallest_user_key(), from).is_ge(),
            Bound::Excluded(from) => compare(file.smallest_user_key(), from).is_gt(),
        };
        let ends = match to {
            Bound::Unbounded => true,
            Bound::Included(to) => compare(file.largest_user_key(), to).is_le(),
            Bound::Excluded(to) => match compare(file.largest_user_key(), to) {
                Ordering::Less => true,
                Ordering::Equal => file.largest_is_exclusive(),
                Ordering::Greater => false,
            },
        };
        begins && ends
    };
    let is_dropped = |file: &Arc<FileMeta>| {
        !file.is_being_compacted() && ranges.iter().any(|range| is_inside(file, range))
    };
    let mut inputs = Vec::new();
    for level in 1..version.levels.len() {
        let mut groups = fifo::leaving(version, level);
        groups.retain(|files| files.iter().all(is_dropped));
        if !groups.is_empty() {
            let files = groups.concat();
            inputs.push(CompactionInput { level, files });
        }
    }
    let first = inputs.first()?.level;
    Some(CompactionPlan {
        reason: CompactionReason::ManualCompaction,
        inputs,
        output_level: first,
        output_path: 0,
        target_file_bytes: 0,
        max_grandparent_bytes: u64::MAX,
        grandparents: Vec::new(),
        bottommost: false,
        trivial_move: false,
        deletion_only: true,
        next_cursor: None,
        temperature: None,
    })
}

/// Picks a compaction of the named tables and all that must join them (`CompactFiles`).
///
/// All overlapping files on the levels from the first named table's to the output join. `None` if a
/// conflicting compaction is running, or the output would be above an input.
#[must_use]
pub fn pick_files(
    version: &Version,
    settings: &PickSettings,
    numbers: &[FileNumber],
    output_level: usize,
) -> Option<CompactionPlan> {
    let mut inputs: Vec<CompactionInput> = Vec::new();
    let mut range: Option<KeyRange> = None;
    for (level, files) in version.levels.iter().enumerate().take(output_level + 1) {
        let named: Vec<Arc<FileMeta>> = files
            .files
            .iter()
            .filter(|file| numbers.contains(&file.number))
            .cloned()
            .collect();
        let mut chosen = match level {
            0 => level0_inputs(&files.files, &named, output_level),
            _ => named,
        };
        if let Some(range) = &range {
            let overlapped = range.overlapping(version, level);
            let missing = overlapped
                .into_iter()
                .filter(|file| !chosen.iter().any(|known| known.number == file.number));
            let missing: Vec<_> = missing.collect();
            chosen.extend(missing);
        }
        if chosen.is_empty() {
            continue;
        }
        if level > 0 {
            chosen.sort_by(|a, b| version.order.compare_internal(&a.smallest, &b.smallest));
            chosen = expand_to_clean_cut(version, level, chosen);
        }
        if level == output_level && level > 0 {
            // The output may have keys between these files and those of the levels above.
            let above = inputs.iter().flat_map(|input| &input.files).cloned();
            let both = KeyRange::of(&version.order, &above.chain(chosen).collect::<Vec<_>>());
            chosen = both.map_or(Vec::new(), |both| {
                expand_to_clean_cut(version, level, both.overlapping(version, level))
            });
        }
        inputs.push(CompactionInput {
            level,
            files: chosen,
        });
        range = KeyRange::of(&version.order, inputs.iter().flat_map(|input| &input.files));
    }
    let range = range?;
    let busy = inputs.iter().any(|input| any_being_compacted(&input.files));
    let is_partial = numbers.iter().any(|number| {
        !inputs
            .iter()
            .flat_map(|input| &input.files)
            .any(|file| file.number == *number)
    });
    let is_claimed = version.running.claims(&version.order, output_level, &range);
    if busy || is_partial || is_claimed {
        return None;
    }
    Some(plan_of(version, settings, inputs, output_level, &range))
}

/// Picks one compaction of all files of a range of user keys on levels 0 to `output_level`.
///
/// It writes each entry once, where compacting one level after the other writes it once a level.
/// Returns `Nothing` if one compaction would save little, because fewer than three levels
/// have files, or many of those above the last one share no keys with it, or the reverse; if files
/// outside of the range would have to join; or if there are more than `max_compaction_bytes`.
#[must_use]
pub fn pick_levels(
    version: &Version,
    settings: &PickSettings,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
    output_level: usize,
) -> ManualPick {
    let levels = (0..=output_level).map(|level| version.overlapping(level, from, to));
    let levels: Vec<_> = levels.filter(|files| !files.is_empty()).collect();
    let [above @ .., last] = &*levels else {
        return ManualPick::Nothing;
    };
    let above: Vec<Arc<FileMeta>> = above.concat();
    let bytes = |files: &[Arc<FileMeta>]| files.iter().map(|file| file.bytes).sum::<u64>();
    // Files that share no keys with any of `others` could stay or move as they are.
    let alone = |files: &[Arc<FileMeta>], others: &[Arc<FileMeta>]| {
        let mut alone = files.to_vec();
        alone.retain(|file| {
            let range = KeyRange::of(&version.order, [file]);
            range.is_some_and(|range| !others.iter().any(|other| range.overlaps(version, other)))
        });
        bytes(&alone)
    };
    if levels.len() < 3
        || bytes(&above) + bytes(last) > settings.max_compaction_bytes
        || alone(&above, last) + alone(last, &above) > bytes(&above) / 2
    {
        return ManualPick::Nothing;
    }
    let numbers = above.iter().chain(last).map(|file| file.number);
    let numbers: Vec<FileNumber> = numbers.collect();
    match pick_files(version, settings, &numbers, output_level) {
        Some(plan) if plan.files().count() == numbers.len() => ManualPick::Part(plan, Vec::new()),
        Some(_) => ManualPick::Nothing,
        None => ManualPick::Busy(Refusal::Running),
    }
}

/// Plans a compaction of exactly the named tables, as picked by the primary of a remote worker.
///
/// # Errors
/// The reason why the tables cannot be compacted into `output_level`.
pub fn plan_files(
    version: &Version,
    settings: &PickSettings,
    numbers: &[FileNumber],
    output_level: usize,
) -> Result<CompactionPlan, String> {
    if output_level >= version.levels.len() {
        return Err(format!("there is no level {output_level}"));
    }
    let named = |file: &&Arc<FileMeta>| numbers.contains(&file.number);
    let above = version.levels.iter().enumerate().take(output_level + 1);
    let inputs: Vec<CompactionInput> = above
        .map(|(level, files)| CompactionInput {
            level,
            files: files.files.iter().filter(named).cloned().collect(),
        })
        .filter(|input| !input.files.is_empty())
        .collect();
    let files = || inputs.iter().flat_map(|input| &input.files);
    let missing = |number: &&FileNumber| !files().any(|file| file.number == **number);
    if let Some(number) = numbers.iter().find(missing) {
        return Err(format!(
            "table {number:06}.sst is not on levels 0 to {output_level}"
        ));
    }
    match KeyRange::of(&version.order, files()) {
        Some(range) => Ok(plan_of(version, settings, inputs, output_level, &range)),
        None => Err("no tables are named".to_owned()),
    }
}

/// Returns the plan that merges `inputs`, which cover the key range, into `output_level`.
fn plan_of(
    version: &Version,
    settings: &PickSettings,
    inputs: Vec<CompactionInput>,
    output_level: usize,
    range: &KeyRange,
) -> CompactionPlan {
    let base_level = leveled::level_targets(version, settings).base_level;
    let older_on_level0 = output_level == 0
        && inputs.iter().map(|input| input.files.len()).sum::<usize>()
            < version.levels[0].files.len();
    CompactionPlan {
        reason: CompactionReason::ManualCompaction,
        output_level,
        output_path: settings.path_of_level(output_level),
        target_file_bytes: match output_level {
            0 => u64::MAX,
            _ => settings.target_file_bytes(output_level, base_level.min(output_level)),
        },
        max_grandparent_bytes: settings.max_compaction_bytes,
        grandparents: grandparents(version, output_level, range),
        bottommost: !older_on_level0 && is_bottommost(version, output_level, range),
        trivial_move: false,
        deletion_only: false,
        inputs,
        next_cursor: None,
        temperature: None,
    }
}

/// Returns the level-0 files to be compacted for the named ones: also those in between or older.
///
/// These are those between them, because a run in the middle must not be left behind; and if the
/// output is deeper also all older ones, because they must not end up above it.
fn level0_inputs(
    files: &[Arc<FileMeta>],
    named: &[Arc<FileMeta>],
    output_level: usize,
) -> Vec<Arc<FileMeta>> {
    let is_named = |file: &Arc<FileMeta>| named.iter().any(|known| known.number == file.number);
    match (
        files.iter().position(is_named),
        files.iter().rposition(is_named),
    ) {
        (Some(newest), Some(_)) if output_level > 0 => files[newest..].to_vec(),
        (Some(newest), Some(oldest)) => files[newest..=oldest].to_vec(),
        _ => Vec::new(),
    }
}
