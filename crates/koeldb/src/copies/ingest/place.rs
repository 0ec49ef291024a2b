//! The placement of an ingested table: its level, and whether it needs a sequence number.
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

/// Rules for the placement of an ingested table, besides key ranges.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceRules {
    pub(super) style: CompactionStyle,
    /// The first level below 0 that levelled compaction uses.
    pub(super) base_level: usize,
    /// Whether every table gets a sequence number, because there are snapshots.
    pub(super) always_number: bool,
    /// Whether the ingestion drops all tables that overlap the new ones.
    pub(super) replaces: bool,
}

/// The level of a table, and whether it gets a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TablePlace {
    pub(super) level: usize,
    pub(super) needs_seqno: bool,
    /// Whether a level below has tables or compactions with keys in its range.
    pub(super) is_above_others: bool,
}

/// Chooses the level for `table` in `version`, to which the tables of `placed` are added, too.
pub(super) fn place(
    version: &Version,
    placed: &[(TablePlace, TableBounds)],
    table: &TableBounds,
    rules: PlaceRules,
) -> TablePlace {
    let order = &version.order;
    let is_overlapped = |level: usize| {
        let of_version = |level: usize| {
            let mut files = version.levels[level].files.iter();
            !rules.replaces
                && files.any(|file| overlaps(order, table, &file.smallest, &file.largest))
        };
        let of_call = placed.iter().any(|(place, other)| {
            place.level == level && overlaps(order, table, &other.smallest, &other.largest)
        });
        let of_compaction = || {
            version
                .running
                .claims_between(order, level, &table.smallest, &table.largest)
        };
        of_version(level) || of_call || of_compaction()
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
    // Keys with timestamps that are in the range of a file are refused (`check_place`).
    let needs_seqno = is_above_others && !order.has_timestamps() || rules.always_number;
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
            is_above_others,
        },
        false => TablePlace {
            level,
            needs_seqno,
            is_above_others,
        },
    }
}

/// Returns the place of `table` below all data: the last level, without a sequence number.
///
/// # Errors
/// The reason why it does not fit there.
pub(super) fn behind(
    version: &Version,
    placed: &[(TablePlace, TableBounds)],
    table: &TableBounds,
) -> Result<TablePlace, &'static str> {
    let order = &version.order;
    let (last, above) = match &*version.levels {
        [above @ .., last] => (last, above),
        [] => return Err("ingest_behind: there is no level"),
    };
    let of_call = |(_, other): &(TablePlace, TableBounds)| {
        overlaps(order, table, &other.smallest, &other.largest)
    };
    if placed.iter().any(of_call) {
        return Err("files whose ranges overlap cannot be ingested with ingest_behind");
    }
    let level = above.len();
    let mut files = last.files.iter();
    let is_overlapped = files.any(|file| overlaps(order, table, &file.smallest, &file.largest));
    let is_claimed =
        (version.running).claims_between(order, level, &table.smallest, &table.largest);
    if is_overlapped || is_claimed {
        return Err("ingest_behind: the file overlaps the tables of the last level");
    }
    let mut files = above.iter().flat_map(|level| &level.files);
    if files.any(|file| file.smallest_seqno == 0) {
        return Err(
            "ingest_behind: tables above the last level have sequence number 0, written without \
             cf_allow_ingest_behind or ingested",
        );
    }
    Ok(TablePlace {
        level,
        needs_seqno: false,
        is_above_others: false,
    })
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

/// Whether a key range that ends with bound `largest` reaches the user key of `smallest`.
fn reaches(order: &KeyOrder, largest: &[u8], smallest: &[u8]) -> bool {
    match order.compare_without_timestamps(user_key(largest), user_key(smallest)) {
        Ordering::Less => false,
        Ordering::Equal => footer_of(largest).1 != RANGE_DELETION_SENTINEL,
        Ordering::Greater => true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use koeldb_base::ValueType;
    use koeldb_base::key::encode;
    use koeldb_lsm::pick::manual::move_level;
    use koeldb_lsm::version::{FileMeta, Level};

    use super::*;

    fn bound(key: &str) -> Vec<u8> {
        encode(key.as_bytes(), 1, ValueType::Value)
    }

    #[test]
    fn a_table_stays_above_a_level_that_moves_up() {
        let mut levels = vec![Level::default(); 7];
        let file = |number, from, to| Arc::new(FileMeta::new(number, 1, bound(from), bound(to)));
        levels[6].files = vec![file(1, "a", "c"), file(2, "x", "z")];
        let version = Version::new(KeyOrder::Bytewise, levels);
        let table = |from, to| TableBounds {
            smallest: bound(from),
            largest: bound(to),
        };
        let rules = PlaceRules {
            style: CompactionStyle::Level,
            base_level: 1,
            always_number: false,
            replaces: false,
        };
        let level_of = |table: &TableBounds| place(&version, &[], table, rules).level;
        assert_eq!(level_of(&table("b", "d")), 5);
        assert_eq!(level_of(&table("m", "n")), 6);
        let plan = move_level(&version, 6, 3).unwrap();
        plan.begin(&version);
        assert_eq!(level_of(&table("b", "d")), 2);
        assert_eq!(level_of(&table("m", "n")), 2);
        plan.end(&version);
        assert_eq!(level_of(&table("b", "d")), 5);
    }
}
