//! What of a log is intact behind damage: whether a reader stopped at a torn end or in the middle.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::Result;
use koeldb_base::file_name::FileNumber;
use koeldb_fs::RandomAccessFile;

use crate::format::{BLOCK_BYTES, Header};

/// The physical records of log `log_number` that begin behind `offset` and whose checksums match. Behind a record whose
/// length is damaged those of its block are not found, so there may be more.
///
/// # Errors
/// If the file cannot be read.
pub fn intact_behind(
    file: &dyn RandomAccessFile,
    log_number: FileNumber,
    offset: u64,
) -> Result<u64> {
    let [a, b, c, d, ..] = log_number.to_le_bytes();
    let log_number = u32::from_le_bytes([a, b, c, d]);
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
            let Some(record) = block.get(at..end) else {
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
