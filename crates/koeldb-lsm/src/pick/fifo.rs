//! FIFO compaction: drops the oldest tables when the total size or their age exceeds a limit.
//!
//! For caches and logs whose loss of old data is intended.

use std::sync::Arc;

use super::{
    CompactionInput, CompactionPlan, CompactionReason, PickSettings, any_being_compacted,
    is_bottommost,
};
use crate::version::{FileMeta, KeyRange, Version};

/// The settings of FIFO compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FifoSettings {
    /// The total size of tables above which the oldest are dropped.
    pub max_table_files_size: u64,
    /// The age in seconds at which a table is dropped; 0 for never.
    pub ttl_secs: u64,
    /// Whether to merge small files of level 0.
    pub allow_compaction: bool,
    /// Ages in seconds, ascending, with the temperature byte of tables of at least that age.
    pub temperature_ages: Vec<(u64, u8)>,
}

impl Default for FifoSettings {
    fn default() -> Self {
        FifoSettings {
            max_table_files_size: 1 << 30,
            ttl_secs: 0,
            allow_compaction: false,
            temperature_ages: Vec::new(),
        }
    }
}

/// Picks the most urgent FIFO compaction; `None` if none is due at `unix_secs` or possible now.
///
/// Tables are dropped oldest first. A tree of another compaction style has tables on deeper levels:
/// those of the deepest level are the oldest, and level 0 loses none before they are dropped.
#[must_use]
pub fn pick(version: &Version, settings: &PickSettings, unix_secs: u64) -> Option<CompactionPlan> {
    let deepest = version.deepest_level();
    let is_busy = |level: usize| any_being_compacted(&version.levels[level].files);
    if is_busy(0) || is_busy(deepest) {
        return None;
    }
    by_age(version, deepest, settings, unix_secs)
        .or_else(|| by_size(version, deepest, settings))
        .or_else(|| join_small(version, settings))
        .or_else(|| by_temperature(version, settings, unix_secs))
}

/// Returns the tables of `level` in the order of dropping, in groups that must go together.
///
/// On level 0, the order is oldest first. On deeper levels, where ages are unknown, the order is by
/// key, and a group has all versions of a key.
pub(super) fn leaving(version: &Version, level: usize) -> Vec<&[Arc<FileMeta>]> {
    let files = &version.levels[level].files;
    if level == 0 {
        return files.chunks(1).rev().collect();
    }
    let share_key = |a: &Arc<FileMeta>, b: &Arc<FileMeta>| {
        let order = &version.order;
        let touches = order.compare_without_timestamps(a.largest_user_key(), b.smallest_user_key());
        touches.is_eq() && !a.largest_is_exclusive()
    };
    files.chunk_by(share_key).collect()
}

/// Picks the files to drop because their newest key is older than the TTL.
fn by_age(
    version: &Version,
    level: usize,
    settings: &PickSettings,
    unix_secs: u64,
) -> Option<CompactionPlan> {
    let ttl = settings.fifo.ttl_secs;
    if ttl == 0 {
        return None;
    }
    let is_expired = |file: &Arc<FileMeta>| {
        let written = file.newest_key_time();
        written > 0 && written.saturating_add(ttl) < unix_secs
    };
    let are_expired = |files: &&[Arc<FileMeta>]| files.iter().all(is_expired);
    let leaving = leaving(version, level).into_iter();
    let expired: Vec<&[Arc<FileMeta>]> = match level {
        0 => leaving.take_while(are_expired).collect(),
        _ => leaving.filter(are_expired).collect(),
    };
    drop_plan(level, &expired, CompactionReason::FifoTtl)
}

/// Picks the oldest table to rewrite because its age demands another temperature.
fn by_temperature(
    version: &Version,
    settings: &PickSettings,
    unix_secs: u64,
) -> Option<CompactionPlan> {
    let ages = &settings.fifo.temperature_ages;
    if ages.is_empty() || version.deepest_level() > 0 {
        return None;
    }
    let wanted = |file: &FileMeta| {
        let written = file.newest_key_time();
        let reached = ages
            .iter()
            .rev()
            .find(|(age, _)| written > 0 && written.saturating_add(*age) <= unix_secs);
        reached.map(|&(_, temperature)| temperature)
    };
    let files = &version.levels[0].files;
    let (at, temperature) = files.iter().enumerate().rev().find_map(|(at, file)| {
        let temperature = wanted(file).filter(|&wanted| wanted != file.temperature)?;
        Some((at, temperature))
    })?;
    let is_oldest = at + 1 == files.len();
    let reason = CompactionReason::ChangeTemperature;
    let mut plan =
        CompactionPlan::within_level0(reason, vec![Arc::clone(files.get(at)?)], is_oldest);
    plan.temperature = Some(temperature);
    Some(plan)
}

/// Returns the first time after `unix_secs` at which a table's age requires a FIFO compaction.
///
/// That is when it exceeds the TTL or reaches the age of another temperature.
#[must_use]
pub fn next_expiry(version: &Version, settings: &PickSettings, unix_secs: u64) -> Option<u64> {
    let ttl = settings.fifo.ttl_secs;
    let written = version.files().map(|(_, file)| file.newest_key_time());
    let ages = settings.fifo.temperature_ages.iter().map(|&(age, _)| age);
    let waits: Vec<u64> = ages
        .chain((ttl > 0).then(|| ttl.saturating_add(1)))
        .collect();
    let expiries = written
        .filter(|&written| written > 0)
        .flat_map(|written| waits.iter().map(move |&wait| written.saturating_add(wait)));
    expiries.filter(|&expiry| expiry > unix_secs).min()
}

/// Picks the oldest files to drop until the tree is within `max_table_files_size`.
fn by_size(version: &Version, level: usize, settings: &PickSettings) -> Option<CompactionPlan> {
    let mut bytes = version.bytes();
    let mut dropped = Vec::new();
    for files in leaving(version, level) {
        if bytes <= settings.fifo.max_table_files_size {
            break;
        }
        let freed: u64 = files.iter().map(|file| file.bytes).sum();
        bytes = bytes.saturating_sub(freed);
        dropped.push(files);
    }
    drop_plan(level, &dropped, CompactionReason::FifoMaxSize)
}

/// Returns the plan to drop tables of `level`, given in drop order; `None` for no tables.
fn drop_plan(
    level: usize,
    dropped: &[&[Arc<FileMeta>]],
    reason: CompactionReason,
) -> Option<CompactionPlan> {
    if dropped.is_empty() {
        return None;
    }
    let mut files = dropped.concat();
    if level == 0 {
        files.reverse();
    }
    Some(CompactionPlan {
        reason,
        inputs: vec![CompactionInput { level, files }],
        output_level: level,
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

/// Picks the newest small files of level 0 to merge them into one, if there are enough.
fn join_small(version: &Version, settings: &PickSettings) -> Option<CompactionPlan> {
    let files = &version.levels[0].files;
    let trigger = settings.level0_file_num_compaction_trigger.max(2);
    if !settings.fifo.allow_compaction || files.len() < trigger {
        return None;
    }
    let small: Vec<Arc<FileMeta>> = files
        .iter()
        .take_while(|file| file.bytes < settings.max_compaction_bytes / trigger as u64)
        .cloned()
        .collect();
    if small.len() < trigger {
        return None;
    }
    let range = KeyRange::of(&version.order, &small)?;
    let is_oldest = small.len() == files.len();
    let nothing_below = is_bottommost(version, 0, &range);
    let reason = CompactionReason::FifoReduceNumFiles;
    Some(CompactionPlan::within_level0(
        reason,
        small,
        is_oldest && nothing_below,
    ))
}
