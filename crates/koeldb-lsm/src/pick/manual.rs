//! Manual compactions: one level of a key range at a time.

use std::sync::Arc;

use koeldb_base::file_name::FileNumber;

use super::fifo;
use super::leveled::{self, LevelTargets};
use super::{
    CompactionInput, CompactionPlan, CompactionReason, KeyRange, PickSettings, any_being_compacted,
    expand_to_clean_cut, is_bottommost,
};
use crate::version::{FileMeta, Version};

/// Picks a compaction of the files of `level` that overlap a closed range of user keys.
///
/// If `output_level` is the level itself, the files are rewritten in place. `None` if there is
/// nothing to do or a conflicting compaction is running.
#[must_use]
pub fn pick(
    version: &Version,
    settings: &PickSettings,
    targets: &LevelTargets,
    level: usize,
    output_level: usize,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
) -> Option<CompactionPlan> {
    let inputs = expand_to_clean_cut(version, level, version.overlapping(level, from, to));
    let mut plan = leveled::plan(
        version,
        settings,
        targets,
        CompactionReason::ManualCompaction,
        level,
        output_level,
        inputs,
    )?;
    if level == output_level {
        plan.trivial_move = false;
    }
    Some(plan)
}

/// Picks a compaction of the tables with these numbers, and all files that must join them.
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
    if busy || is_partial {
        return None;
    }
    let grandparents = match version.levels.get(output_level + 1) {
        Some(_) => range.overlapping(version, output_level + 1),
        None => Vec::new(),
    };
    let base_level = leveled::level_targets(version, settings).base_level;
    let older_on_level0 = output_level == 0
        && inputs.iter().map(|input| input.files.len()).sum::<usize>()
            < version.levels[0].files.len();
    Some(CompactionPlan {
        reason: CompactionReason::ManualCompaction,
        output_level,
        target_file_bytes: match output_level {
            0 => u64::MAX,
            _ => settings.target_file_bytes(output_level, base_level.min(output_level)),
        },
        max_grandparent_bytes: settings.max_compaction_bytes,
        grandparents,
        bottommost: !older_on_level0 && is_bottommost(version, output_level, &range),
        trivial_move: false,
        deletion_only: false,
        inputs,
        next_cursor: None,
    })
}

/// The files of level 0 that join the named ones.
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

/// Plans to drop the tables of a level below 0 whose keys are all in `from..=to`.
///
/// Tables that share a key are dropped together or not at all. Older versions of the keys on deeper
/// levels become visible if they are in a table that reaches beyond the range.
#[must_use]
pub fn pick_dropped(
    version: &Version,
    level: usize,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
) -> Option<CompactionPlan> {
    if level == 0 {
        return None;
    }
    let order = &version.order;
    let is_inside = |file: &Arc<FileMeta>| {
        from.is_none_or(|from| order.compare(from, file.smallest_user_key()).is_le())
            && to.is_none_or(|to| order.compare(file.largest_user_key(), to).is_le())
    };
    let mut groups = fifo::leaving(version, level);
    groups.retain(|files| files.iter().all(is_inside));
    fifo::drop_plan(level, &groups, CompactionReason::ManualCompaction)
}
