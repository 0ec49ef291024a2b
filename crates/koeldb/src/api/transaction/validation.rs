//! The search for writes that conflict with a transaction: the newest sequence number of a key.
//!
//! An entry above a number is in the memtables of a super-version unless a table has numbers above
//! it. The transaction holds a snapshot not above the number: flushes and compactions then keep the
//! number of the newest write since of each key, and ingested tables get a number above it.

use koeldb_base::lookup::Lookup;
use koeldb_base::{Result, SeqNo, Timestamp};
use koeldb_table::source::BlockingSource;

use super::errors;
use crate::options::ValidationTier;
use crate::read::is_written_since;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::context::Context;
use crate::state::super_version::SuperVersion;

/// The result of a search of the memtables for a write of a key after a sequence number.
pub(super) enum Seen {
    /// No entry of the key is above the number.
    Unchanged,
    /// An entry of the key is above the number.
    Changed,
    /// Unknown: tables have entries above the number.
    NeedsTables,
}

/// Searches the memtables of a super version for an entry of `key` above `since`.
fn search_memtables(super_version: &SuperVersion, key: &[u8], since: SeqNo) -> Result<Seen> {
    let mut lookup = Lookup::newest(key);
    for memtable in std::iter::once(&super_version.memtable).chain(&super_version.sealed) {
        memtable.search(&mut lookup)?;
        lookup.checkpoint();
        if lookup.newest_seqno() > since {
            return Ok(Seen::Changed);
        }
        if lookup.is_settled() {
            return Ok(Seen::Unchanged);
        }
    }
    Ok(match super_version.newest_in_tables() > since {
        true => Seen::NeedsTables,
        false => Seen::Unchanged,
    })
}

/// Searches the memtables for a write of `key` after `since`.
pub(super) fn changed_in_memtables(
    family: &ColumnFamilyData,
    key: &[u8],
    since: SeqNo,
) -> Result<Seen> {
    family
        .super_version
        .with(|super_version| search_memtables(super_version, key, since))
}

/// Fails with a conflict if `key` was written after `since`.
pub(super) fn check_unchanged(
    family: &ColumnFamilyData,
    key: &[u8],
    since: SeqNo,
    tier: ValidationTier,
    context: &Context,
) -> Result<()> {
    let is_changed = family.super_version.with(|super_version| {
        Ok(match search_memtables(super_version, key, since)? {
            Seen::Unchanged => false,
            Seen::Changed => true,
            Seen::NeedsTables if tier == ValidationTier::Memtable => {
                return Err(errors::history_too_short());
            }
            Seen::NeedsTables => {
                let mut lookup = Lookup::newest(key);
                let mut source = BlockingSource::default();
                let (version, tables) = (&super_version.version, &super_version.tables);
                version.search(tables, &mut lookup, &mut source, 0..usize::MAX, |_| {})?;
                lookup.newest_seqno() > since
            }
        })
    })?;
    match is_changed {
        true => Err(errors::conflict(key, context)),
        false => Ok(()),
    }
}

/// Fails with a conflict if `key`, which has user-defined timestamps, was written after `since`, or
/// has a version above `time`.
pub(super) fn check_no_version(
    family: &ColumnFamilyData,
    key: &[u8],
    since: SeqNo,
    time: Option<&Timestamp>,
    context: &Context,
) -> Result<()> {
    let is_written = family
        .super_version
        .with(|super_version| is_written_since(super_version, key, since, time))?;
    match is_written {
        true => Err(errors::conflict(key, context)),
        false => Ok(()),
    }
}
