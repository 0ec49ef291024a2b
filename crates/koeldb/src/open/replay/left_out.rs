//! Entries of undecided transactions that are in tables (WritePrepared, WriteUnprepared).
//!
//! Under these policies of RocksDB a transaction writes its entries before it is committed; readers
//! skip them. Here a transaction takes effect at its commit, so a recovery leaves its entries out:
//! the replay does not insert them, and tables that have some are written again without them. The
//! database is then as if the transaction had not written yet, and the undecided transaction is one
//! of the policy write-committed. RocksDB's flushes and compactions keep such entries with their
//! sequence numbers, and what they hide, except merge operands, which they may apply.

use std::collections::BTreeMap;
use std::sync::Arc;

use koeldb_base::{KeyOrder, Result, SeqNo, ValueType};
use koeldb_lsm::FileMeta;
use koeldb_lsm::version::VersionSet;

use super::Replay;
use crate::batch::BatchIter;
use crate::state::column_family_data::ColumnFamilyData;
use crate::state::table_files::{Entries, TableFiles};

/// The entries to leave out, by column family.
pub(crate) type LeftOut = BTreeMap<u32, Entries>;

/// A table that was written again without some entries.
pub(crate) struct RewrittenTable {
    pub(crate) family: u32,
    pub(crate) level: usize,
    pub(crate) old: Arc<FileMeta>,
    /// The table that replaces it; `None` if no entry remains.
    pub(crate) new: Option<Arc<FileMeta>>,
}

impl Replay<'_> {
    /// Whether the entries of all undecided transactions can be left out.
    ///
    /// Not merge operands that may be in a table, where RocksDB may have applied them, nor keys
    /// that are equal without having the same bytes, nor range deletions.
    pub(super) fn can_leave_out(&self, versions: &VersionSet) -> Result<bool> {
        for batch in self.sections.applied().flat_map(|section| &section.batches) {
            let mut operations = BatchIter::new(&batch.records);
            while let Some(operation) = operations.next_operation()? {
                let Some(family) = versions.family(operation.cf) else {
                    continue;
                };
                let is_plain = matches!(
                    family.current().order,
                    KeyOrder::Bytewise | KeyOrder::ReverseBytewise
                );
                let is_removable = match operation.value_type {
                    ValueType::Merge => batch.log >= family.log_number(),
                    ValueType::RangeDeletion => false,
                    _ => true,
                };
                if !is_plain || !is_removable {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns the entries of undecided transactions that may be in tables.
    pub(super) fn left_out_of_tables(&self, versions: &VersionSet) -> Result<LeftOut> {
        let mut left_out = LeftOut::new();
        for batch in self.sections.applied().flat_map(|section| &section.batches) {
            let mut operations = BatchIter::new(&batch.records);
            let mut numbers = batch.numbers.iter();
            while let Some(operation) = operations.next_operation()? {
                let Some(&number) = numbers.next() else {
                    break;
                };
                let family = versions.family(operation.cf);
                if family.is_some_and(|family| batch.log < family.log_number()) {
                    let entries = left_out.entry(operation.cf).or_default();
                    entries.insert((operation.key.to_vec(), number));
                }
            }
        }
        Ok(left_out)
    }
}

/// Writes the tables again that have some of the entries, without these.
///
/// The new tables are not part of a version yet. After an error none are left.
pub(crate) fn rewrite(
    families: &BTreeMap<u32, Arc<ColumnFamilyData>>,
    table_files: &TableFiles,
    left_out: &LeftOut,
) -> Result<Vec<RewrittenTable>> {
    let mut rewritten = Vec::new();
    for (id, entries) in left_out {
        let Some(family) = families.get(id) else {
            continue;
        };
        let version = family.version();
        let order = &family.order;
        for (level, file) in version.files() {
            let may_have = |(key, seqno): &(Vec<u8>, SeqNo)| {
                (file.smallest_seqno..=file.largest_seqno).contains(seqno)
                    && order.compare(file.smallest_user_key(), key).is_le()
                    && order.compare(key, file.largest_user_key()).is_le()
            };
            if !entries.iter().any(may_have) {
                continue;
            }
            match table_files.write_without(family, (level, file), entries) {
                Ok(Some(new)) => rewritten.push(RewrittenTable {
                    family: *id,
                    level,
                    old: Arc::clone(file),
                    new,
                }),
                Ok(None) => {}
                Err(error) => {
                    discard(&rewritten, families, table_files);
                    return Err(error);
                }
            }
        }
    }
    Ok(rewritten)
}

/// Removes the new tables; what remains of them is removed by the next open.
pub(super) fn discard(
    rewritten: &[RewrittenTable],
    families: &BTreeMap<u32, Arc<ColumnFamilyData>>,
    table_files: &TableFiles,
) {
    for RewrittenTable { family, new, .. } in rewritten {
        if let (Some(family), Some(table)) = (families.get(family), new) {
            table_files.remove(family, table);
        }
    }
}
