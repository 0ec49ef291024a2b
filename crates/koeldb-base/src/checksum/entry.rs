//! The checksum of an entry in memory, which protects it between two steps of a write or read.

use super::xxh3_64;

/// Returns the checksum that protects an entry in memory: of key, value, and `tag` for the rest.
///
/// Two entries that differ in one of the three have different checksums. The function is not part
/// of any format.
#[must_use]
pub fn entry_checksum(key: &[u8], value: &[u8], tag: u64) -> u64 {
    // Odd factors and distinct rotations: equal keys and values do not cancel each other out.
    let key = xxh3_64(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let value = xxh3_64(value).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    let tag = tag.wrapping_mul(0x1656_67b1_9e37_79f9);
    let mixed = key ^ value.rotate_left(23) ^ tag.rotate_left(43);
    // Every byte of the result depends on all of `mixed`, so that any prefix of it is a checksum.
    let folded = (mixed ^ (mixed >> 29)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    folded ^ (folded >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_any_part_changes_every_prefix_of_the_checksum() {
        let base = entry_checksum(b"key", b"value", 7);
        let others = [
            entry_checksum(b"kez", b"value", 7),
            entry_checksum(b"key", b"valuf", 7),
            entry_checksum(b"key", b"value", 6),
            entry_checksum(b"keyv", b"alue", 7),
            entry_checksum(b"value", b"key", 7),
        ];
        for other in others {
            assert_ne!(base.to_le_bytes()[..4], other.to_le_bytes()[..4]);
        }
    }
}
