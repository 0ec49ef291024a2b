//! Compactions that depend on age: of old files, and of files with entries that a snapshot needed.
//!
//! Leveled style only. In this order: bottommost files with entries that no snapshot needs any more
//! are rewritten; files with data older than `ttl` go down a level, until the last; files older than
//! `periodic_compaction_seconds` are rewritten where they are, in a daily window also those that
//! reach that age before the next window. The age of data is that of its oldest
//! ancestor file, which moves and rewrites preserve. A file from the future counts as new.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::SeqNo;
use koeldb_base::key::MAX_SEQNO;

use super::level_plan::LevelRequest;
use super::leveled::{self, LevelTargets};
use super::offpeak::OffpeakWindow;
use super::{CompactionPlan, CompactionReason, PickSettings, expand_to_clean_cut, is_bottommost};
use crate::version::{FileMeta, KeyRange, Version};

/// The age limits by which leveled compaction picks files, in seconds; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgeLimits {
    /// The age of data at which its file is compacted to a lower level (`ttl`).
    pub ttl_secs: u64,
    /// The age of a file at which it is rewritten (`periodic_compaction_seconds`).
    pub periodic_secs: u64,
    /// The age of a bottommost file from which it may be rewritten after a snapshot's release.
    pub bottommost_delay_secs: u64,
}

/// The current time, oldest snapshot and off-peak window by which age-based picks are decided.
#[derive(Clone, Copy, Debug)]
pub struct PickMoment {
    /// The Unix time in seconds.
    pub unix_secs: u64,
    /// The oldest live snapshot, or the largest sequence number.
    pub oldest_snapshot: SeqNo,
    /// The window in which files are rewritten before they reach the periodic age limit.
    pub offpeak: Option<OffpeakWindow>,
}

impl PickMoment {
    /// Returns a moment at a Unix time, without snapshots and off-peak window.
    #[must_use]
    pub fn at(unix_secs: u64) -> Self {
        PickMoment {
            unix_secs,
            oldest_snapshot: MAX_SEQNO,
            offpeak: None,
        }
    }
}

/// The next time and snapshot release at which an age-based compaction becomes due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upcoming {
    /// The first Unix time, in seconds, at which a file becomes due.
    pub unix_secs: Option<u64>,
    /// The sequence number below which all snapshots must be released for a file to become due.
    pub released_below: Option<SeqNo>,
}

/// Returns the first second at which data from `time` is older than `limit`; `None` if one is 0.
fn expiry(time: u64, limit: u64) -> Option<u64> {
    (limit > 0 && time > 0).then(|| time.saturating_add(limit).saturating_add(1))
}

/// Returns the creation time of a file in Unix seconds, or its ancestor time if unknown.
fn created(file: &FileMeta) -> u64 {
    match file.creation_time {
        0 => file.ancestor_time(),
        time => time,
    }
}

/// Returns the Unix time at which `ttl` requires a file of `level` to be compacted down.
fn ttl_expiry(version: &Version, limits: &AgeLimits, level: usize, file: &FileMeta) -> Option<u64> {
    match level + 1 < version.levels.len() {
        true => expiry(file.ancestor_time(), limits.ttl_secs),
        false => None,
    }
}

/// Returns the Unix time at which a file is due for periodic compaction; `None` for never.
fn periodic_expiry(limits: &AgeLimits, moment: PickMoment, file: &FileMeta) -> Option<u64> {
    let expiry = expiry(created(file), limits.periodic_secs)?;
    Some(match moment.offpeak {
        Some(window) => window.due(expiry, created(file), moment.unix_secs),
        None => expiry,
    })
}

/// Whether a bottommost file has deletions or old versions that a rewrite could drop.
///
/// It can once no snapshot needs them (RocksDB: bottommost files marked for compaction).
///
/// The writer of a file counts its old versions. If another engine wrote it: a compaction into the
/// bottommost level sets the sequence numbers of entries that every snapshot sees to 0, so a file
/// with numbers other than that 0 was written while a snapshot needed more than one version of a
/// key. A file without either that was only moved there may have larger numbers, and is left alone.
/// (RocksDB rewrites it; 11.9.)
fn holds_hidden_entries(version: &Version, level: usize, file: &Arc<FileMeta>) -> bool {
    let stats = &file.entry_stats;
    let is_any = |counter: &AtomicU64| counter.load(Ordering::Relaxed) > 0;
    level > 0
        && file.largest_seqno > 0
        && (file.smallest_seqno == 0 || is_any(&stats.deletions) || is_any(&stats.older_versions))
        && !stats.is_settled.load(Ordering::Relaxed)
        && is_history_settled(version, file)
        && KeyRange::of(&version.order, [file])
            .is_some_and(|range| is_bottommost(version, level, &range))
}

/// Whether a rewrite of a file can drop old versions: all its user-defined timestamps are before the
/// low mark, or there are none.
///
/// A table whose range of timestamps the MANIFEST lacks counts as settled, as in RocksDB: its
/// rewrite records the range.
fn is_history_settled(version: &Version, file: &FileMeta) -> bool {
    let order = &version.order;
    if !order.has_timestamps() {
        return true;
    }
    match (file.newest_timestamp(), &version.full_history_ts_low) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(newest), Some(low)) => order.compare_timestamps(&newest, low).is_lt(),
    }
}

/// Picks a compaction that an age limit or a released snapshot requires, if one is due.
#[must_use]
pub fn pick(
    version: &Version,
    settings: &PickSettings,
    limits: &AgeLimits,
    moment: PickMoment,
) -> Option<CompactionPlan> {
    let targets = leveled::level_targets(version, settings);
    let find = |reason, is_due: &dyn Fn(usize, &Arc<FileMeta>) -> bool| {
        let mut files = version
            .files()
            .filter(|(_, file)| !file.is_being_compacted());
        files.find_map(|(level, file)| {
            let plan = |moves_down| {
                plan(
                    version,
                    settings,
                    &targets,
                    reason,
                    (level, file),
                    moves_down,
                )
            };
            is_due(level, file).then(|| plan(reason == CompactionReason::Ttl))?
        })
    };
    let is_past = |time: Option<u64>| time.is_some_and(|time| time <= moment.unix_secs);
    let held = |level: usize, file: &Arc<FileMeta>| {
        file.largest_seqno <= moment.oldest_snapshot
            && is_past(Some(
                created(file).saturating_add(limits.bottommost_delay_secs),
            ))
            && holds_hidden_entries(version, level, file)
    };
    find(CompactionReason::BottommostFiles, &held)
        .filter(|plan| plan.bottommost)
        .or_else(|| {
            find(CompactionReason::Ttl, &|level, file| {
                is_past(ttl_expiry(version, limits, level, file))
            })
        })
        .or_else(|| {
            find(CompactionReason::PeriodicCompaction, &|_, file| {
                is_past(periodic_expiry(limits, moment, file))
            })
        })
}

/// Plans the compaction of a file to a lower level, or in place below level 0.
pub(super) fn plan(
    version: &Version,
    settings: &PickSettings,
    targets: &LevelTargets,
    reason: CompactionReason,
    (level, file): (usize, &Arc<FileMeta>),
    moves_down: bool,
) -> Option<CompactionPlan> {
    let output_level = match level {
        0 => targets.base_level,
        level if moves_down => targets.base_level.max(level + 1),
        level => level,
    };
    let inputs = expand_to_clean_cut(version, level, vec![Arc::clone(file)]);
    let request = LevelRequest {
        reason,
        level,
        output_level,
        files: inputs,
    };
    let mut plan = request.plan(version, settings, targets).ok()?;
    // A file that is rewritten in place must not stay as it is.
    plan.trivial_move &= moves_down;
    Some(plan)
}

/// Returns the next time and snapshot release at which an age-based compaction becomes due.
#[must_use]
pub fn upcoming(version: &Version, limits: &AgeLimits, moment: PickMoment) -> Upcoming {
    let mut upcoming = Upcoming::default();
    let mut at = |time: Option<u64>| {
        if let Some(time) = time.filter(|&time| time > moment.unix_secs) {
            let first = upcoming
                .unix_secs
                .map_or(time, |first: u64| first.min(time));
            upcoming.unix_secs = Some(first);
        }
    };
    let mut released_below = None;
    for (level, file) in version.files() {
        at(ttl_expiry(version, limits, level, file));
        at(periodic_expiry(limits, moment, file));
        if !holds_hidden_entries(version, level, file) {
            continue;
        }
        match file.largest_seqno <= moment.oldest_snapshot {
            true => at(Some(
                created(file).saturating_add(limits.bottommost_delay_secs),
            )),
            false => {
                let seqno = file.largest_seqno;
                released_below =
                    Some(released_below.map_or(seqno, |first: SeqNo| first.min(seqno)));
            }
        }
    }
    upcoming.released_below = released_below;
    upcoming
}
