//! Reads of byte ranges of a file, aligned where direct I/O requires it.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::coding::to_usize;
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::RandomAccessFile;

/// The allocation size from which a failure is an error instead of an abort of the process.
const FALLIBLE_BYTES: usize = 1 << 20;

/// Reads `len` bytes at `offset`, aligned where the file requires it.
///
/// # Errors
/// If the system fails, the file ends earlier, or there is no memory.
pub fn read_bytes(file: &dyn RandomAccessFile, offset: u64, len: usize) -> Result<Vec<u8>> {
    let alignment = file.alignment();
    if alignment <= 1 {
        let mut bytes = zeroed(len)?;
        file.read_exact_at(offset, &mut bytes)?;
        return Ok(bytes);
    }
    let step = alignment as u64;
    let skip = offset.checked_rem(step).unwrap_or(0);
    let start = offset.saturating_sub(skip);
    let skip = to_usize(skip);
    let padded = skip.saturating_add(len).next_multiple_of(alignment);
    let mut memory = zeroed(padded.saturating_add(alignment))?;
    let shift = memory.as_ptr().align_offset(alignment);
    let aligned = memory
        .get_mut(shift..shift.saturating_add(padded))
        .ok_or_else(|| {
            Error::invalid_argument("cannot allocate an aligned buffer for a direct read")
        })?;
    let read = file.read_at(start, aligned)?;
    let end = skip.saturating_add(len);
    match aligned.get(skip..end) {
        Some(bytes) if read >= end => Ok(bytes.to_vec()),
        _ => Err(Error::corruption(format!(
            "file is truncated: expected {len} bytes, found {}",
            read.saturating_sub(skip)
        ))
        .in_file(file.path(), Some(offset), "read")),
    }
}

/// Returns a zeroed buffer of `len` bytes; a `MemoryLimit` error if a large one does not fit.
fn zeroed(len: usize) -> Result<Vec<u8>> {
    if len < FALLIBLE_BYTES {
        return Ok(vec![0; len]);
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| {
        Error::with_kind(
            ErrorKind::MemoryLimit,
            format!("cannot allocate {len} bytes for a read"),
        )
    })?;
    bytes.resize(len, 0);
    Ok(bytes)
}
