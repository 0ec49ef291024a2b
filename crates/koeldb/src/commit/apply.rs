//! Insertion of the entries of a batch into memtables.

use koeldb_base::error::ErrorDetail;
use koeldb_base::{Error, ErrorKind, Result, SeqNo, ValueType};
use koeldb_memtable::BatchEntry as MemtableEntry;

use super::protocol::ColumnFamilyMemtable;
use crate::batch::{BatchIter, Operation};

/// The maximum number of entries that are inserted into a memtable as one batch.
const BATCH_MAX: usize = 16;

/// Returns the index of the column family with this id, in a list by ascending id.
#[inline]
pub(super) fn position_of(families: &[ColumnFamilyMemtable], id: u32) -> Option<usize> {
    match families.first() {
        Some(first) if first.family.id == id => Some(0),
        _ => families
            .binary_search_by_key(&id, |active| active.family.id)
            .ok(),
    }
}

/// Inserts operations, with sequence numbers from `first` on, into their families' memtables.
///
/// If a column family folds operands, the memtables must have all entries below `first`. Returns
/// whether a memtable has reached its check size. A panic, of a comparator for example, is an error.
pub(super) fn insert(
    families: &[ColumnFamilyMemtable],
    records: &[u8],
    first: SeqNo,
) -> Result<bool> {
    let insert = || insert_all(families, records, first);
    let run = std::panic::AssertUnwindSafe(insert);
    std::panic::catch_unwind(run).unwrap_or_else(|_| {
        Err(
            Error::with_kind(ErrorKind::Aborted, "inserting into a memtable panicked")
                .with_detail(ErrorDetail::PluginPanicked),
        )
    })
}

/// Returns the memtable entry of an operation with sequence number `seqno`.
#[inline]
fn numbered(operation: Operation<'_>, seqno: SeqNo) -> MemtableEntry<'_> {
    MemtableEntry {
        seqno,
        value_type: operation.value_type,
        key: operation.key,
        value: operation.value,
    }
}

/// Invalidates the all-deleted ranges that scans may skip, where the entries put new keys.
#[inline]
fn invalidate_ranges(active: &ColumnFamilyMemtable, entries: &[MemtableEntry<'_>]) {
    if active.watched.is_empty() {
        return;
    }
    for entry in entries {
        if !entry.value_type.is_deletion() && entry.value_type != ValueType::RangeDeletion {
            active.watched.invalidate(&active.family.order, entry.key);
        }
    }
}

/// Inserts the operations of `records`, with sequence numbers from `first` on, into memtables.
///
/// Returns whether a memtable has reached its check size.
fn insert_all(families: &[ColumnFamilyMemtable], records: &[u8], first: SeqNo) -> Result<bool> {
    let mut operations = BatchIter::new(records);
    let mut should_check_switch = false;
    let mut next = operations.next_operation()?;
    let mut seqno = first;
    while let Some(operation) = next {
        next = operations.next_operation()?;
        let entry = numbered(operation, seqno);
        let cf = operation.cf;
        seqno += 1;
        // The column family was dropped after the check of the batch: its entries use up their
        // numbers but are not stored.
        let Some(index) = position_of(families, cf) else {
            continue;
        };
        let active = &families[index];
        if let Some(rule) = active.folding {
            invalidate_ranges(active, &[entry]);
            let folds = entry.value_type == ValueType::Merge;
            let folded = folds.then(|| active.folded(rule, entry.key, entry.value, entry.seqno));
            let (value_type, value) = match folded.as_ref().and_then(Option::as_ref) {
                Some(value) => (ValueType::Value, &value[..]),
                None => (entry.value_type, entry.value),
            };
            active
                .memtable
                .insert(entry.seqno, value_type, entry.key, value)?;
        } else if next.is_some_and(|next| next.cf == cf) {
            // Further entries of the column family are inserted in small batches, to overlap cache
            // misses.
            let mut some = [entry; BATCH_MAX];
            let mut count = 1;
            while let Some(operation) = next.filter(|next| next.cf == cf)
                && count < BATCH_MAX
            {
                some[count] = numbered(operation, seqno);
                count += 1;
                seqno += 1;
                next = operations.next_operation()?;
            }
            invalidate_ranges(active, &some[..count]);
            active.memtable.insert_batch(&some[..count])?;
        } else {
            invalidate_ranges(active, &[entry]);
            active
                .memtable
                .insert(entry.seqno, entry.value_type, entry.key, entry.value)?;
        }
        should_check_switch |= active
            .family
            .should_check_switch(active.memtable.filled_bytes())
            || active.has_many_range_deletions();
    }
    Ok(should_check_switch)
}
