//! Counts intact records after damage, to distinguish a torn end from damage in the middle.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::Result;
use koeldb_base::file_name::FileNumber;
use koeldb_fs::RandomAccessFile;

use crate::format::{BLOCK_BYTES, Header, low_half};
use crate::tear::Tail;

/// Counts the intact physical records of a log after the damage at `offset`.
///
/// The record at `offset` counts if it was complete before it was damaged.
///
/// After a record with a damaged length the others of its block are not found, so there may be
/// more.
///
/// # Errors
/// If the file cannot be read.
pub fn intact_records_after(
    file: &dyn RandomAccessFile,
    log_number: FileNumber,
    offset: u64,
) -> Result<u64> {
    let log_number = low_half(log_number);
    let step = BLOCK_BYTES as u64;
    let mut block = vec![0; BLOCK_BYTES];
    let mut start = offset.saturating_sub(offset.checked_rem(step).unwrap_or(0));
    let mut count = 0_u64;
    while start < file.len() {
        let len = file.read_at(start, &mut block)?;
        let block = block.get(..len).unwrap_or_default();
        let mut at = 0_usize;
        while let Some(header) = block.get(at..).and_then(Header::decode) {
            let end = at.saturating_add(header.record_bytes());
            let record = block.get(at..end);
            let is_damaged = !record.is_some_and(|record| header.verifies(record));
            let is_there = start.saturating_add(at as u64) == offset;
            if is_there
                && is_damaged
                && (Tail {
                    bytes: block,
                    start: at,
                })
                .was_whole()
            {
                count = count.saturating_add(1);
            }
            let Some(record) = record else {
                break;
            };
            let is_behind = start.saturating_add(at as u64) > offset;
            let is_ours = header.log_number.is_none_or(|number| number == log_number);
            let is_record = header.type_byte != 0;
            if is_behind && is_ours && is_record && header.verifies(record) {
                count = count.saturating_add(1);
            }
            at = end;
        }
        start = start.saturating_add(step);
    }
    Ok(count)
}
