//! Checksums of entries in a memtable (`memtable_protection_bytes_per_key`).
//!
//! A protected memtable stores the first bytes of an entry's checksum behind its value, as if they
//! were the end of the value. Searches and cursors compare them with the entry before they lend it.
//! Damage to the lengths within an entry is outside of this check: the checksum is found through
//! them. Range tombstones have no checksum.

use koeldb_base::checksum::entry_checksum;
use koeldb_base::{Error, Result};

/// Returns `value` followed by the first `bytes` bytes of the checksum of its entry.
pub(crate) fn protect(user_key: &[u8], footer: u64, value: &[u8], bytes: usize) -> Vec<u8> {
    let checksum = entry_checksum(user_key, value, footer).to_le_bytes();
    let mut stored = Vec::with_capacity(value.len() + bytes);
    stored.extend_from_slice(value);
    stored.extend_from_slice(&checksum[..bytes.min(checksum.len())]);
    stored
}

/// Verifies an entry against its stored checksum, which may be truncated.
///
/// # Errors
/// `Corruption` if they differ.
#[cold]
pub(crate) fn verify(user_key: &[u8], footer: u64, value: &[u8], stored: &[u8]) -> Result<()> {
    let checksum = entry_checksum(user_key, value, footer).to_le_bytes();
    if checksum.starts_with(stored) {
        return Ok(());
    }
    Err(Error::corruption(
        "an entry of a memtable was changed in memory: it differs from its checksum",
    ))
}
