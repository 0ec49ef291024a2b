//! Checksums (placeholder).

/// XXPH3 of `bytes`, unseeded.
#[must_use]
pub fn xxph3_64(bytes: &[u8]) -> u64 {
    bytes.len() as u64
}
