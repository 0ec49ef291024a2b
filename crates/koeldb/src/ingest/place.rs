//! The place of an ingested table: its level, and whether it needs a sequence number.
//!
//! A table goes to the deepest level at which no level down to there has keys in its range. If a
//! level below does, the table is newer than those keys and needs a sequence number of its own.
//! Ranges count, not keys: a table is never placed below keys that it might contain.

use std::cmp::Ordering;

use koeldb_base::KeyOrder;
use koeldb_base::key::{RANGE_DELETION_SENTINEL, footer_of, user_key};
use koeldb_lsm::Version;

use super::prepare::TableBounds;
use crate::options::CompactionStyle;

/// Rules for the level and sequence number of an ingested table, besides the key ranges.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceRules {
    pub(super) style: CompactionStyle,
    /// The first level below 0 that levelled compaction uses.
    pub(super) base_level: usize,
    /// Every table gets a number, because there are snapshots.
    pub(super) always_number: bool,
}

/// The place of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TablePlace {
    pub(super) level: usize,
    pub(super) needs_seqno: bool,
}

/// Places `table` into `version`, where the tables of `placed` will be as well.
pub(super) fn place(
    version: &Version,
    placed: &[(TablePlace, TableBounds)],
    table: &TableBounds,
    rules: PlaceRules,
) -> TablePlace {
    let order = &version.order;
    let is_overlapped = |level: usize| {
        let of_version = |level: usize| {
            version.levels[level]
                .files
                .iter()
                .any(|file| overlaps(order, table, &file.smallest, &file.largest))
        };
        let of_call = placed.iter().any(|(place, other)| {
            place.level == level && overlaps(order, table, &other.smallest, &other.largest)
        });
        of_version(level) || of_call || is_compaction_output(version, level, table)
    };
    let last = version.levels.len() - 1;
    let (mut level, mut is_above_others) = (0, false);
    for candidate in 0..=last {
        let is_unused =
            candidate > 0 && candidate < rules.base_level && rules.style == CompactionStyle::Level;
        if is_overlapped(candidate) {
            is_above_others = true;
            break;
        }
        if !is_unused {
            level = candidate;
        }
    }
    let needs_seqno = is_above_others || rules.always_number;
    // Runs of these styles are ordered by age: the newest one is first.
    let is_ordered_by_age = match rules.style {
        CompactionStyle::Fifo => true,
        CompactionStyle::Universal => needs_seqno,
        CompactionStyle::Level | CompactionStyle::None => false,
    };
    match is_ordered_by_age {
        true => TablePlace {
            level: 0,
            needs_seqno: true,
        },
        false => TablePlace { level, needs_seqno },
    }
}

/// Whether a running compaction may write keys around `table` to `level`.
///
/// Its outputs cover the range of all of its inputs, also where no input has keys.
fn is_compaction_output(version: &Version, level: usize, table: &TableBounds) -> bool {
    let order = &version.order;
    let inputs: Vec<_> = version
        .files()
        .filter(|(from, file)| *from <= level && file.is_being_compacted())
        .map(|(_, file)| file)
        .collect();
    let by = |a: &Vec<u8>, b: &Vec<u8>| order.compare_internal(a, b);
    let smallest = inputs
        .iter()
        .map(|file| &file.smallest)
        .min_by(|a, b| by(a, b));
    let largest = inputs
        .iter()
        .map(|file| &file.largest)
        .max_by(|a, b| by(a, b));
    match (smallest, largest) {
        (Some(smallest), Some(largest)) if level > 0 => overlaps(order, table, smallest, largest),
        _ => false,
    }
}

/// Whether the user keys of `table` overlap those from `smallest` to `largest`.
pub(super) fn overlaps(
    order: &KeyOrder,
    table: &TableBounds,
    smallest: &[u8],
    largest: &[u8],
) -> bool {
    reaches(order, &table.largest, smallest) && reaches(order, largest, &table.smallest)
}

/// Whether a range that ends with `largest` has keys from `smallest` on.
fn reaches(order: &KeyOrder, largest: &[u8], smallest: &[u8]) -> bool {
    match order.compare(user_key(largest), user_key(smallest)) {
        Ordering::Less => false,
        Ordering::Equal => footer_of(largest).1 != RANGE_DELETION_SENTINEL,
        Ordering::Greater => true,
    }
}
