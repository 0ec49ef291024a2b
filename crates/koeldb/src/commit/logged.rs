//! Inserts what a log holds into memtables.

use std::sync::Arc;

use koeldb_base::{Error, ErrorKind, Result, SeqNo};
use koeldb_memtable::Memtable;

use super::two_phase::Numbering;
use crate::batch::{BatchIter, Record};

/// Returns the error for a record whose checksum matches, but whose content cannot be replayed.
///
/// It is not damage, which a recovery mode might drop: its writer acknowledged it.
pub(crate) fn refused_though_intact(error: Error) -> Error {
    if !error.is_corruption() {
        return error;
    }
    Error::not_supported(format!(
        "{}: the checksum of the record matches, so no recovery mode drops it; open the database with \
         the release that wrote it, or move this log and the later ones away to open it without them",
        error.message()
    ))
}

/// Inserts the operations of a log into memtables.
///
/// `memtable_of` returns the memtable for an operation, by its column family and sequence number, or
/// `None` if it is not needed.
pub(crate) fn insert_operations<'r>(
    records: &'r [u8],
    numbering: &mut Numbering<'r>,
    mut memtable_of: impl FnMut(u32, SeqNo) -> Option<Arc<Memtable>>,
) -> Result<()> {
    let mut rest = BatchIter::new(records);
    while !rest.records().is_empty() {
        let operation = match rest.decode()? {
            Record::Operation(operation) => operation,
            Record::Noop => {
                numbering.end_batch();
                continue;
            }
            Record::LogData(_) => continue,
        };
        let mut seqno = numbering.number(&operation);
        let Some(memtable) = memtable_of(operation.cf, seqno) else {
            continue;
        };
        while let Err(error) =
            memtable.insert(seqno, operation.value_type, operation.key, operation.value)
        {
            seqno = match (error.kind(), numbering.number_again()) {
                (ErrorKind::TryAgain, Some(next)) => next,
                (ErrorKind::TryAgain, None) => {
                    return Err(refused_though_intact(Error::corruption(format!(
                        "a second entry of a key with sequence number {seqno}"
                    ))));
                }
                _ => return Err(error),
            };
        }
    }
    Ok(())
}
