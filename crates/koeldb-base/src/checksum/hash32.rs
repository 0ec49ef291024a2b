//! LevelDB's 32-bit hash (RocksDB `util/hash.cc`, release 11.9).
//!
//! Formats that use it: data-block hash indexes, plain tables, and filters before format version 5.

const MULTIPLIER: u32 = 0xc6a4_a793;

/// Returns LevelDB's 32-bit hash of `bytes` under `seed` (RocksDB: `Hash`).
///
/// Only the length modulo 2^32 counts.
#[must_use]
pub fn hash32(bytes: &[u8], seed: u32) -> u32 {
    let mut hash = seed ^ low32(bytes.len()).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        hash = hash
            .wrapping_add(u32::from_le_bytes(*word))
            .wrapping_mul(MULTIPLIER);
        hash ^= hash >> 16;
    }
    if !rest.is_empty() {
        for (index, &byte) in rest.iter().enumerate() {
            hash = hash.wrapping_add(sign_extended(byte) << (8 * index));
        }
        hash = hash.wrapping_mul(MULTIPLIER);
        hash ^= hash >> 24;
    }
    hash
}

/// Returns the length modulo 2^32.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the format takes the length modulo 2^32"
)]
fn low32(len: usize) -> u32 {
    len as u32
}

/// Converts one of the last 1 to 3 bytes to a number with sign extension, as `Hash` adds it.
fn sign_extended(byte: u8) -> u32 {
    i32::from(byte.cast_signed()).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_the_format() {
        let vectors: [(&[u8], u32, u32); 7] = [
            (b"", 0x0000_018d, 0xbc9f_1d34),
            (b"a", 0x5c84_73b1, 0x286e_9db0),
            (b"\x80", 0xc5cd_2b7f, 0x91b7_55f4),
            (b"abc", 0x1d9a_a392, 0x855d_012f),
            (b"ab\xff", 0xa82e_a327, 0x0ff1_01a5),
            (b"hello", 0xbe00_6c87, 0xf795_964e),
            (b"key0000000", 0xb1a0_0ecb, 0x9cba_ccbe),
        ];
        for (input, index, bloom) in vectors {
            assert_eq!(hash32(input, 397), index, "{input:?}");
            assert_eq!(hash32(input, 0xbc9f_1d34), bloom, "{input:?}");
        }
    }
}
