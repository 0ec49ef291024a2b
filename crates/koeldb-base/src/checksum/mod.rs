//! Checksums of stored bytes, and the hashes that formats prescribe.
//!
//! - Checksums of the blocks, records and footers of tables ([`ChecksumKind`], [`block_checksum`],
//!   [`whole_checksum`], [`context_modifier`]).
//! - [`crc32c()`], [`crc32c_extend`], [`mask`], [`unmask`]: records of the WAL and the MANIFEST.
//! - [`xxph3_64`]: keys in filters. [`hash32`]: keys in hash indexes and legacy filters.
//! - [`entry_checksum`]: keys and values in memory.
//! - [`xxh3_64`], [`xxh3_128`]: the final XXH3, which block checksums and the ids of tables use.
//!
//! Everything here is a pure function and allocates nothing.

mod block;
mod crc;
mod entry;
mod hash32;
mod xxph3;

pub use block::{ChecksumKind, block_checksum, context_modifier, whole_checksum};
pub use crc::{crc32c, crc32c_extend, mask, unmask};
pub use entry::entry_checksum;
pub use hash32::hash32;
pub use xxph3::xxph3_64;

/// Returns the unseeded 64-bit XXH3 of `bytes`, by the final algorithm and not its preview XXPH3.
#[inline]
#[must_use]
pub fn xxh3_64(bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(bytes)
}

/// Returns the 128-bit XXH3 of `bytes` with `seed`, by the final algorithm.
#[inline]
#[must_use]
pub fn xxh3_128(bytes: &[u8], seed: u64) -> u128 {
    twox_hash::XxHash3_128::oneshot_with_seed(seed, bytes)
}
