//! Manual compactions of ranges.
//!
//! Both ends of a range belong to it; a null end has no bound. Most functions cannot return errors,
//! which are in LOG.

use std::ops::Bound;

use koeldb::{ColumnFamily, CompactRangeOptions, Db};

use crate::boundary::Failure;
use crate::data::call_options::RangeOptions;

/// Returns the range of two keys that belong to it.
pub(crate) fn range<'a>(
    start: Option<&'a [u8]>,
    limit: Option<&'a [u8]>,
) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let bound = |key: Option<&'a [u8]>| key.map_or(Bound::Unbounded, Bound::Included);
    (bound(start), bound(limit))
}

/// Compacts a range of the default column family.
pub(crate) fn compact_range(db: &Db, start: Option<&[u8]>, limit: Option<&[u8]>) {
    compact_range_cf(db, db.default_cf(), start, limit);
}

/// Compacts a range of a column family.
pub(crate) fn compact_range_cf(
    _: &Db,
    family: &ColumnFamily,
    start: Option<&[u8]>,
    limit: Option<&[u8]>,
) {
    let _ = family.compact_range_opt(range(start, limit), &CompactRangeOptions::new());
}

/// Compacts a range of the default column family, with options.
pub(crate) fn compact_range_opt(
    db: &Db,
    options: &RangeOptions,
    start: Option<&[u8]>,
    limit: Option<&[u8]>,
) {
    compact_range_cf_opt(db, db.default_cf(), options, start, limit);
}

/// Compacts a range of a column family, with options.
pub(crate) fn compact_range_cf_opt(
    _: &Db,
    family: &ColumnFamily,
    options: &RangeOptions,
    start: Option<&[u8]>,
    limit: Option<&[u8]>,
) {
    if let Ok(options) = options.checked() {
        let _ = family.compact_range_opt(range(start, limit), options);
    }
}

/// Marks the tables of a range of the default column family for compaction.
pub(crate) fn suggest(db: &Db, start: Option<&[u8]>, limit: Option<&[u8]>) -> Result<(), Failure> {
    suggest_cf(db, db.default_cf(), start, limit)
}

/// Marks the tables of a range of a column family for compaction.
pub(crate) fn suggest_cf(
    _: &Db,
    family: &ColumnFamily,
    start: Option<&[u8]>,
    limit: Option<&[u8]>,
) -> Result<(), Failure> {
    Ok(family.suggest_compact_range(range(start, limit))?)
}

/// Drops the tables that lie in a range of the default column family.
pub(crate) fn delete_files(
    db: &Db,
    start: Option<&[u8]>,
    limit: Option<&[u8]>,
) -> Result<(), Failure> {
    delete_files_cf(db, db.default_cf(), start, limit)
}

/// Drops the tables that lie in a range of a column family.
pub(crate) fn delete_files_cf(
    _: &Db,
    family: &ColumnFamily,
    start: Option<&[u8]>,
    limit: Option<&[u8]>,
) -> Result<(), Failure> {
    Ok(family.delete_files_in_range(range(start, limit))?)
}
