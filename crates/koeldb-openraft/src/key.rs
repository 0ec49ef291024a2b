//! Keys of the log database.
//!
//! ```text
//! default family   group (8 bytes) | index (8 bytes)   an entry
//! family "meta"    group (8 bytes) | name (1 byte)     vote 'v', purged 'p', committed 'c'
//!                  "node"                              number of the node (8 bytes, little-endian)
//! ```
//!
//! Numbers are big-endian, so that the order of keys is that of groups and indices.
#![expect(
    clippy::big_endian_bytes,
    reason = "the order of keys is the order of numbers"
)]

use koeldb::{Error, Result};

/// The key of the number of the node to which the logs belong, in the `meta` column family.
pub(crate) const NODE: &[u8] = b"node";

/// The kinds of Raft metadata that the `meta` column family stores for each group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meta {
    Vote,
    Purged,
    Committed,
}

/// Returns the key of a Raft log entry: group and index, both big-endian.
pub(crate) fn entry(group: u64, index: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&group.to_be_bytes());
    key[8..].copy_from_slice(&index.to_be_bytes());
    key
}

/// Returns an exclusive upper bound of the entries up to `index`: the key that directly follows it.
pub(crate) fn behind(group: u64, index: u64) -> [u8; 17] {
    let mut key = [0; 17];
    key[..16].copy_from_slice(&entry(group, index));
    key
}

/// Parses the log index from the key of an entry; `Corruption` if the key has another length.
pub(crate) fn index(key: &[u8]) -> Result<u64> {
    match key.get(8..).map(<[u8; 8]>::try_from) {
        Some(Ok(bytes)) => Ok(u64::from_be_bytes(bytes)),
        _ => Err(Error::corruption(format!(
            "a key of {} bytes in a Raft log",
            key.len()
        ))),
    }
}

/// Returns the key of a group's vote, purged position or committed position in `meta`.
pub(crate) fn meta(group: u64, meta: Meta) -> [u8; 9] {
    let mut key = [0; 9];
    key[..8].copy_from_slice(&group.to_be_bytes());
    key[8] = match meta {
        Meta::Vote => b'v',
        Meta::Purged => b'p',
        Meta::Committed => b'c',
    };
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_ascend_with_group_and_index() {
        let keys = [(0, 0), (0, 255), (0, 256), (0, u64::MAX), (1, 0), (256, 3)];
        let keys = keys.map(|(group, index)| entry(group, index));
        assert!(keys.is_sorted());
        assert!(behind(0, u64::MAX)[..] > keys[3][..] && behind(0, u64::MAX)[..] < keys[4][..]);
        assert_eq!(index(&entry(7, 12)).unwrap(), 12);
        assert!(index(b"short").unwrap_err().is_corruption());
    }
}
