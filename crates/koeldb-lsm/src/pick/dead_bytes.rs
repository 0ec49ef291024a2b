//! Collection of blob files by their dead bytes: which files are emptied, and by which compactions.
//!
//! A compaction that runs for another reason moves values out of files with much garbage. If all
//! files have more bytes than `target` for each live one, the files with the most garbage are
//! emptied: those that suffice to come below the target again. Leveled compaction then rewrites the
//! tables that refer to the best of them, where they are, and moves the values of all of them.
//!
//! A value that was overwritten or deleted is known to be dead only when a compaction meets both
//! entries. Until then it is *hidden* by a table above the last level. If so many may be hidden that
//! the space would be far above the target without them, tables with many references go down.
//!
//! All this is a function of the version, so that a restart goes on where it was.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::file_name::FileNumber;

use super::level_plan::LevelRequest;
use super::leveled::{self, LevelTargets};
use super::{CompactionPlan, CompactionReason, PickSettings, aged, expand_to_clean_cut};
use crate::blob_space::{BlobFileUse, BlobSpace, References};
use crate::version::{FileMeta, Version};

/// The share of the target at which a collection that began ends.
const ENOUGH: f64 = 0.95;

/// The bytes that a compaction moves from files of which none is emptied, for each byte of its
/// tables.
const MOVED_PER_TABLE_BYTE: u64 = 2;

/// The factor by which the space may be above the target because of values that are hidden.
const HIDDEN_MORE: f64 = 1.25;

/// The hidden bytes for each byte of tables that is read to find them.
const HIDDEN_PER_TABLE_BYTE: u64 = 2;

/// The part of a blob file that is worth a file of its own.
const WORTH_A_FILE: u64 = 8;

/// When blob files are emptied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeadBytesRule {
    /// The bytes of blob files for each live byte above which files are emptied, above 1.
    pub target: f64,
    /// The share of garbage from which on any compaction moves values out of a file.
    pub share: f64,
    /// The size at which a blob file ends.
    pub blob_file_bytes: u64,
}

impl DeadBytesRule {
    /// Whether files are to be emptied; once that has begun, it goes on until a little below the
    /// target.
    ///
    /// Garbage of less than an eighth of a blob file is left alone.
    #[must_use]
    pub fn is_due(&self, version: &Version, has_begun: bool) -> bool {
        if version.blob_files.is_empty() {
            return false;
        }
        let space = version.blob_space();
        let (bytes, live) = (space.bytes(), space.live_bytes());
        let limit = match has_begun {
            true => self.target * ENOUGH,
            false => self.target,
        };
        bytes.saturating_sub(live) >= self.worth_a_file() && bytes as f64 > limit * live as f64
    }

    /// Whether the space is far above the target: more than twice.
    #[must_use]
    pub fn is_urgent(&self, version: &Version) -> bool {
        let space = version.blob_space();
        space.bytes() as f64 > 2.0 * self.target * space.live_bytes() as f64
    }

    /// The smallest number of bytes that are worth a file of their own.
    fn worth_a_file(&self) -> u64 {
        (self.blob_file_bytes / WORTH_A_FILE).max(1)
    }

    /// Returns the files to be emptied, the best first: as many as are needed to come below the
    /// target.
    #[must_use]
    pub fn emptied(&self, space: &BlobSpace) -> Vec<FileNumber> {
        let with_garbage = space
            .files
            .iter()
            .filter(|(_, file)| file.garbage_bytes > 0);
        let mut files: Vec<(FileNumber, &BlobFileUse)> =
            with_garbage.map(|(&number, file)| (number, file)).collect();
        files.sort_by(|(a, a_use), (b, b_use)| {
            let shares = b_use.garbage_share().total_cmp(&a_use.garbage_share());
            shares.then(a.cmp(b))
        });
        let enough = self.target * ENOUGH * space.live_bytes() as f64;
        let mut bytes = space.bytes();
        let mut chosen = Vec::new();
        for (number, file) in files {
            if bytes as f64 <= enough {
                break;
            }
            bytes = bytes.saturating_sub(file.garbage_bytes);
            chosen.push((score(file), number));
        }
        chosen.sort_by(|(a, a_number), (b, b_number)| b.total_cmp(a).then(a_number.cmp(b_number)));
        chosen.into_iter().map(|(_, number)| number).collect()
    }
}

/// The garbage that is freed for each byte that is read and written to empty a file.
fn score(file: &BlobFileUse) -> f64 {
    let cost = (file.live_bytes() as f64 + file.table_bytes as f64) * 2.0;
    file.garbage_bytes as f64 / cost.max(1.0)
}

/// Whether a table may refer to one of the files; an opaque one is known by its oldest only.
fn refers_to(table: &FileMeta, is_one: impl Fn(FileNumber) -> bool) -> bool {
    match table.references() {
        References::Exact(list) => list.iter().any(|one| is_one(one.file)),
        References::Opaque | References::Unknown => is_one(table.oldest_blob_file),
    }
}

/// Returns the bytes that are read to rewrite a table and move its values out of `emptied`.
fn bytes_moved(table: &FileMeta, emptied: &BTreeSet<FileNumber>) -> u64 {
    let moved = match table.references() {
        References::Exact(list) => {
            let moved = list.iter().filter(|one| emptied.contains(&one.file));
            moved.fold(0, |bytes: u64, one| bytes.saturating_add(one.bytes))
        }
        References::Opaque | References::Unknown => 0,
    };
    table.bytes.saturating_add(moved)
}

/// Picks a compaction that empties blob files, if [`DeadBytesRule::is_due`].
///
/// Tables of level 0 go down a level, and only if no others are left.
#[must_use]
pub fn pick(
    version: &Version,
    settings: &PickSettings,
    rule: DeadBytesRule,
    has_begun: bool,
) -> Option<CompactionPlan> {
    if !rule.is_due(version, has_begun) {
        return pick_hidden(version, settings, rule);
    }
    let emptied = rule.emptied(&version.blob_space());
    let all: BTreeSet<FileNumber> = emptied.iter().copied().collect();
    let targets = leveled::level_targets(version, settings);
    let in_place = emptied.iter().find_map(|&number| {
        let levels = version.levels.iter().enumerate().skip(1);
        levels.rev().find_map(|(level, files)| {
            let at = |table: &Arc<FileMeta>| {
                !table.is_being_compacted() && refers_to(table, |file| file == number)
            };
            let mut from = 0;
            while let Some(found) = files.files.get(from..)?.iter().position(at) {
                let run = from + found;
                let plan = plan(version, settings, &targets, rule, level, run, &all);
                if plan.is_some() {
                    return plan;
                }
                from = run + 1;
            }
            None
        })
    });
    let from_level0 = || {
        let reason = CompactionReason::ForcedBlobGc;
        let mut tables = version.levels.first()?.files.iter().filter(|table| {
            !table.is_being_compacted() && refers_to(table, |file| all.contains(&file))
        });
        tables.find_map(|table| aged::plan(version, settings, &targets, reason, (0, table), true))
    };
    in_place
        .or_else(from_level0)
        .or_else(|| pick_hidden(version, settings, rule))
}

/// A table above the last level, and the values in blob files that its entries may hide.
struct HidingTable<'v> {
    level: usize,
    table: &'v Arc<FileMeta>,
    /// The size of the hidden records.
    bytes: u64,
    /// The bytes of the table and of those of the last level that share keys with it.
    cost: u64,
}

/// Returns the tables above the last level that may hide values.
///
/// Each of their references and deletions may hide one value, of the average size.
fn hiding_tables<'v>(version: &'v Version, space: &BlobSpace) -> Vec<HidingTable<'v>> {
    let last = version.deepest_level();
    let (count, bytes) = space.files.values().fold((0_u64, 0_u64), |sum, file| {
        (
            sum.0.saturating_add(file.listed),
            sum.1.saturating_add(file.listed_bytes),
        )
    });
    let average = bytes.checked_div(count).unwrap_or(0);
    let below = &version.levels[last];
    let order = &version.order;
    let mut hiding = Vec::new();
    for (level, table) in version.files().filter(|(level, _)| *level < last) {
        let first = below.find(order, &table.smallest);
        let shared = below.files.get(first..).unwrap_or_default().iter();
        let shared = shared.take_while(|file| {
            order
                .compare_internal(&file.smallest, &table.largest)
                .is_le()
        });
        let cost = shared.fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
        if cost == 0 {
            continue;
        }
        let listed = match table.references() {
            References::Exact(list) => list.iter().map(|one| one.bytes).sum(),
            References::Opaque | References::Unknown => 0_u64,
        };
        let deletions = table.entry_stats.deletions.load(Ordering::Relaxed);
        let bytes = listed.saturating_add(deletions.saturating_mul(average));
        if bytes > 0 {
            hiding.push(HidingTable {
                level,
                table,
                bytes,
                cost: cost.saturating_add(table.bytes),
            });
        }
    }
    hiding
}

/// Returns the size of the records that entries above the last level may hide.
#[must_use]
pub fn hidden_bytes(version: &Version) -> u64 {
    let space = version.blob_space();
    let hiding = hiding_tables(version, &space);
    hiding
        .iter()
        .fold(0, |bytes, table| bytes.saturating_add(table.bytes))
}

/// Picks a compaction that moves a table with many references down a level, if so many values may
/// be hidden that the space is far above the target.
///
/// Only where it is cheap: the values are larger than the tables that are read.
fn pick_hidden(
    version: &Version,
    settings: &PickSettings,
    rule: DeadBytesRule,
) -> Option<CompactionPlan> {
    if version.blob_files.is_empty() {
        return None;
    }
    let space = version.blob_space();
    let mut hiding = hiding_tables(version, &space);
    let hidden = hiding
        .iter()
        .fold(0, |bytes: u64, table| bytes.saturating_add(table.bytes));
    let live = space.live_bytes().saturating_sub(hidden);
    let dead = space.bytes().saturating_sub(live);
    let limit = rule.target * HIDDEN_MORE * live as f64;
    if dead < rule.worth_a_file() || space.bytes() as f64 <= limit {
        return None;
    }
    hiding.retain(|hiding| {
        !hiding.table.is_being_compacted()
            && hiding.bytes >= hiding.cost.saturating_mul(HIDDEN_PER_TABLE_BYTE)
    });
    // A lower level first, so that what comes from above finds room.
    hiding.sort_by(|a, b| {
        let gain = |hiding: &HidingTable<'_>| hiding.bytes as f64 / hiding.cost as f64;
        b.level
            .cmp(&a.level)
            .then(gain(b).total_cmp(&gain(a)))
            .then(a.table.number.cmp(&b.table.number))
    });
    let targets = leveled::level_targets(version, settings);
    let reason = CompactionReason::ForcedBlobGc;
    hiding.iter().find_map(|hiding| {
        let from = (hiding.level, hiding.table);
        aged::plan(version, settings, &targets, reason, from, true)
    })
}

/// Plans to rewrite a table of `level`, and those behind it that refer to files to be emptied, for
/// about one blob file.
fn plan(
    version: &Version,
    settings: &PickSettings,
    targets: &LevelTargets,
    rule: DeadBytesRule,
    level: usize,
    first: usize,
    emptied: &BTreeSet<FileNumber>,
) -> Option<CompactionPlan> {
    let files = version.levels.get(level)?.files.get(first..)?;
    let limit = rule.blob_file_bytes.min(settings.max_compaction_bytes);
    let mut bytes = 0_u64;
    let run = files.iter().take_while(|table| {
        let is_first = bytes == 0;
        bytes = bytes.saturating_add(bytes_moved(table, emptied)).max(1);
        let is_near = !table.is_being_compacted()
            && bytes <= limit
            && refers_to(table, |file| emptied.contains(&file));
        is_first || is_near
    });
    let request = LevelRequest {
        reason: CompactionReason::ForcedBlobGc,
        level,
        output_level: level,
        files: expand_to_clean_cut(version, level, run.cloned().collect()),
    };
    let mut plan = request.plan(version, settings, targets).ok()?;
    plan.trivial_move = false;
    Some(plan)
}

/// Returns the files out of which a compaction moves values.
///
/// `has_begun` is as in [`DeadBytesRule::is_due`]. `is_bounded` limits what is moved out of files
/// that are not to be emptied to twice the size of the tables. Less than an eighth of a blob file is
/// moved only by a compaction for that reason, or if the old file is as small.
#[must_use]
pub fn victims(
    version: &Version,
    rule: DeadBytesRule,
    plan: &CompactionPlan,
    has_begun: bool,
    is_bounded: bool,
) -> BTreeSet<FileNumber> {
    if version.blob_files.is_empty() {
        return BTreeSet::new();
    }
    let space = version.blob_space();
    let is_forced = plan.reason == CompactionReason::ForcedBlobGc;
    let mut victims = BTreeSet::new();
    if is_forced || rule.is_due(version, has_begun) {
        victims.extend(rule.emptied(&space));
    }
    if is_forced && !is_bounded {
        return victims;
    }
    // The size of the inputs' references to a file; of an opaque table, of all live records.
    let moved = |number: FileNumber, file: &BlobFileUse| {
        let mut bytes = 0_u64;
        for (_, table) in plan.files() {
            bytes = bytes.saturating_add(match table.references() {
                References::Exact(list) => {
                    let found = list.binary_search_by_key(&number, |one| one.file);
                    found.map_or(0, |at| list[at].bytes)
                }
                References::Opaque | References::Unknown
                    if table.oldest_blob_file != 0 && table.oldest_blob_file <= number =>
                {
                    file.live_bytes()
                }
                References::Opaque | References::Unknown => 0,
            });
        }
        bytes.min(file.live_bytes())
    };
    let mut others: Vec<(f64, FileNumber, &BlobFileUse)> = (space.files.iter())
        .filter(|(number, file)| {
            file.garbage_bytes > 0
                && file.garbage_share() >= rule.share
                && !victims.contains(number)
        })
        .map(|(&number, file)| (file.garbage_share(), number, file))
        .collect();
    others.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let budget = match is_bounded {
        true => plan.input_bytes().saturating_mul(MOVED_PER_TABLE_BYTE),
        false => u64::MAX,
    };
    let mut total = 0_u64;
    for (_, number, file) in others {
        if total >= budget {
            break;
        }
        total = total.saturating_add(moved(number, file));
        victims.insert(number);
    }
    if is_forced {
        return victims;
    }
    let of_all = victims.iter().filter_map(|number| {
        let file = space.files.get(number)?;
        Some(moved(*number, file))
    });
    if of_all.fold(0, u64::saturating_add) < rule.worth_a_file() {
        let is_small = |number: &FileNumber| {
            let file = space.files.get(number);
            file.is_some_and(|file| file.bytes < rule.worth_a_file())
        };
        victims.retain(is_small);
    }
    victims
}

#[cfg(test)]
mod tests;
