//! A hash of the entries of a table in their order.

use koeldb_base::checksum::xxh3_128;

/// A running hash of the keys and values of a table in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryHash(u64);

impl EntryHash {
    /// Adds the next entry to the hash.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        for bytes in [key, value] {
            let hash = xxh3_128(bytes, self.0 ^ bytes.len() as u64);
            #[expect(clippy::cast_possible_truncation, reason = "the low half is the hash")]
            {
                self.0 = hash as u64;
            }
        }
    }
}
