//! The replacement of a range of keys by an ingestion: the tables that it drops.

use std::ops::Bound;
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;
use koeldb_base::key::{MAX_SEQNO, RANGE_DELETION_SENTINEL, encode, footer_of, user_key};
use koeldb_base::{Cursor, Error, ErrorKind, KeyOrder, Result, ValueType};
use koeldb_lsm::{FileMeta, Version};
use koeldb_memtable::Memtable;

use super::prepare::TableBounds;
use crate::state::key_bounds::KeyBounds;

/// The relation of a span of keys to a range: apart, inside, or partly inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Apart,
    Inside,
    Partly,
}

/// Compares the span of user keys from `smallest` to `largest` with a range.
///
/// `is_open` says that `largest` itself is not in the span.
fn relation(
    range: &KeyBounds,
    order: &KeyOrder,
    smallest: &[u8],
    largest: &[u8],
    is_open: bool,
) -> Relation {
    let is_at = |bound: &Bound<Vec<u8>>, key: &[u8]| match bound {
        Bound::Included(bound) | Bound::Excluded(bound) => order.compare(bound, key).is_eq(),
        Bound::Unbounded => false,
    };
    let ends_before = range.is_before(order, largest) || is_open && is_at(&range.lower, largest);
    if ends_before || range.is_behind(order, smallest) {
        return Relation::Apart;
    }
    let ends_inside = !range.is_behind(order, largest) || is_open && is_at(&range.upper, largest);
    match ends_inside && !range.is_before(order, smallest) {
        true => Relation::Inside,
        false => Relation::Partly,
    }
}

/// Whether all keys of an external table are in the range.
pub(super) fn contains(range: &KeyBounds, order: &KeyOrder, table: &TableBounds) -> bool {
    let (largest, footer) = footer_of(&table.largest);
    let is_open = footer == RANGE_DELETION_SENTINEL;
    relation(range, order, user_key(&table.smallest), largest, is_open) == Relation::Inside
}

/// Returns the tables, with their levels, that a replacement of the range drops.
///
/// # Errors
/// `Aborted` if a table is partly in the range, or is in it and being compacted.
pub(super) fn dropped_tables(
    version: &Version,
    range: &KeyBounds,
) -> Result<Vec<(usize, FileNumber)>> {
    let refused = |file: &FileMeta, what: &str| {
        let message = format!(
            "table {:06} {what} to replace: compact the range, and repeat the ingestion",
            file.number
        );
        Err(Error::with_kind(ErrorKind::Aborted, message))
    };
    let mut dropped = Vec::new();
    for (level, file) in version.files() {
        let (smallest, largest) = (file.smallest_user_key(), file.largest_user_key());
        let is_open = file.largest_is_exclusive();
        match relation(range, &version.order, smallest, largest, is_open) {
            Relation::Apart => {}
            Relation::Partly => return refused(file, "is partly in the range"),
            Relation::Inside if file.is_being_compacted() => {
                return refused(file, "is being compacted, and in the range");
            }
            Relation::Inside => dropped.push((level, file.number)),
        }
    }
    Ok(dropped)
}

/// Whether a memtable has entries or range tombstones in the range.
pub(super) fn memtable_reaches(
    memtable: &Arc<Memtable>,
    order: &KeyOrder,
    range: &KeyBounds,
) -> Result<bool> {
    let mut cursor = memtable.cursor();
    match &range.lower {
        Bound::Included(key) | Bound::Excluded(key) => {
            cursor.seek(&encode(key, MAX_SEQNO, ValueType::RangeDeletion))?;
        }
        Bound::Unbounded => cursor.seek_to_first()?,
    }
    let tombstones = memtable.tombstones();
    let mut tombstones = tombstones.iter().flat_map(|all| all.tombstones());
    let has_entry = cursor.valid() && !range.is_behind(order, user_key(cursor.key()));
    Ok(has_entry
        || tombstones.any(|tombstone| {
            let (start, end) = (&tombstone.start, &tombstone.end);
            relation(range, order, start, end, true) != Relation::Apart
        }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(lower: Bound<&str>, upper: Bound<&str>) -> KeyBounds {
        let owned = |bound: Bound<&str>| bound.map(|key| key.as_bytes().to_vec());
        KeyBounds {
            lower: owned(lower),
            upper: owned(upper),
        }
    }

    #[test]
    fn bounds_are_compared_with_their_ends() {
        use Bound::{Excluded, Included, Unbounded};
        let half_open = range(Included("d"), Excluded("m"));
        let cases = [
            ("a", "c", false, Relation::Apart),
            ("a", "d", false, Relation::Partly),
            ("a", "d", true, Relation::Apart),
            ("d", "d", false, Relation::Inside),
            ("e", "l", false, Relation::Inside),
            ("e", "m", false, Relation::Partly),
            ("e", "m", true, Relation::Inside),
            ("a", "z", false, Relation::Partly),
            ("m", "z", false, Relation::Apart),
        ];
        for (smallest, largest, is_open, expected) in cases {
            let (smallest_key, largest_key) = (smallest.as_bytes(), largest.as_bytes());
            let order = &KeyOrder::Bytewise;
            let found = relation(&half_open, order, smallest_key, largest_key, is_open);
            assert_eq!(found, expected, "{smallest} to {largest}, {is_open}");
            let all = range(Unbounded, Unbounded);
            let found = relation(&all, order, smallest_key, largest_key, is_open);
            assert_eq!(found, Relation::Inside);
        }
        let closed = range(Included("d"), Included("m"));
        assert_eq!(
            relation(&closed, &KeyOrder::Bytewise, b"m", b"m", false),
            Relation::Inside
        );
    }
}
