//! XXPH3, the preview version of XXH3 that filters use as their key hash.
//!
//! RocksDB froze it before XXH3 was final; results differ from the final function at every length
//! (RocksDB `util/xxph3.h`, release 11.9; `docs/formats/filters.md`). Filters hash unseeded, so the
//! seed is omitted. It runs for every key written and every filter query: lengths up to 16 take a
//! handful of instructions, and nothing allocates.

const P32_1: u64 = 0x9e37_79b1;
const P32_2: u64 = 0x85eb_ca77;
const P32_3: u64 = 0xc2b2_ae3d;
const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

const STRIPE_BYTES: usize = 64;
const STRIPES_PER_BLOCK: usize = 16;
const BLOCK_BYTES: usize = STRIPE_BYTES * STRIPES_PER_BLOCK;

#[rustfmt::skip]
static SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

/// Returns the unseeded 64-bit XXPH3 of `bytes`, the preview of XXH3 with which filters hash keys.
#[inline]
#[must_use]
pub fn xxph3_64(bytes: &[u8]) -> u64 {
    match bytes.len() {
        0 => fold(secret(0), P2),
        1..=3 => hash_1_to_3(bytes),
        4..=8 => hash_4_to_8(bytes),
        9..=16 => hash_9_to_16(bytes),
        17..=128 => hash_17_to_128(bytes),
        129..=240 => hash_129_to_240(bytes),
        _ => hash_long(bytes),
    }
}

/// Hashes an input of 1 to 3 bytes.
#[inline]
fn hash_1_to_3(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let combined = u64::from(bytes[0])
        | u64::from(bytes[len / 2]) << 8
        | u64::from(bytes[len - 1]) << 16
        | (len as u64) << 24;
    avalanche((combined ^ (secret(0) & 0xffff_ffff)).wrapping_mul(P1))
}

/// Hashes an input of 4 to 8 bytes.
#[inline]
fn hash_4_to_8(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let keyed = (word32(bytes, 0) | word32(bytes, len - 4) << 32) ^ secret(0);
    let mixed = (len as u64).wrapping_add((keyed ^ (keyed >> 51)).wrapping_mul(P32_1));
    avalanche((mixed ^ (mixed >> 47)).wrapping_mul(P2))
}

/// Hashes an input of 9 to 16 bytes.
#[inline]
fn hash_9_to_16(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let low = word(bytes, 0) ^ secret(0);
    let high = word(bytes, len - 8) ^ secret(8);
    let sum = (len as u64).wrapping_add(low).wrapping_add(high);
    avalanche(sum.wrapping_add(fold(low, high)))
}

/// Hashes an input of 17 to 128 bytes.
fn hash_17_to_128(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let mut sum = (len as u64).wrapping_mul(P1);
    let mut add = |at, key| sum = sum.wrapping_add(mix(bytes, at, key));
    if len > 32 {
        if len > 64 {
            if len > 96 {
                add(48, 96);
                add(len - 64, 112);
            }
            add(32, 64);
            add(len - 48, 80);
        }
        add(16, 32);
        add(len - 32, 48);
    }
    add(0, 0);
    add(len - 16, 16);
    avalanche(sum)
}

/// Hashes an input of 129 to 240 bytes.
fn hash_129_to_240(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let first = (0..8).fold((len as u64).wrapping_mul(P1), |sum, i| {
        sum.wrapping_add(mix(bytes, 16 * i, 16 * i))
    });
    let rest = (8..len / 16).fold(avalanche(first), |sum, i| {
        sum.wrapping_add(mix(bytes, 16 * i, 16 * (i - 8) + 3))
    });
    avalanche(rest.wrapping_add(mix(bytes, len - 16, 119)))
}

/// Hashes an input of more than 240 bytes, in stripes over eight lanes.
#[cold]
fn hash_long(bytes: &[u8]) -> u64 {
    let mut lanes = [P32_3, P1, P2, P3, P4, P32_2, P5, P32_1];
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    for block in blocks {
        accumulate_stripes(&mut lanes, block);
        for (i, lane) in lanes.iter_mut().enumerate() {
            *lane = (*lane ^ (*lane >> 47) ^ secret(128 + 8 * i)).wrapping_mul(P32_1);
        }
    }
    accumulate_stripes(&mut lanes, rest);
    if let Some(last) = bytes.last_chunk()
        && !bytes.len().is_multiple_of(STRIPE_BYTES)
    {
        accumulate(&mut lanes, last, 121);
    }
    let start = (bytes.len() as u64).wrapping_mul(P1);
    let (pairs, _) = lanes.as_chunks::<2>();
    avalanche(pairs.iter().enumerate().fold(start, |sum, (j, pair)| {
        let key = 11 + 16 * j;
        sum.wrapping_add(fold(pair[0] ^ secret(key), pair[1] ^ secret(key + 8)))
    }))
}

/// Accumulates the stripes of `bytes`, at most one block; the secret advances 8 bytes per stripe.
fn accumulate_stripes(lanes: &mut [u64; 8], bytes: &[u8]) {
    let (stripes, _) = bytes.as_chunks::<STRIPE_BYTES>();
    for (j, stripe) in stripes.iter().enumerate() {
        accumulate(lanes, stripe, 8 * j);
    }
}

/// Accumulates a stripe into the lanes, keyed by the secret from offset `key` on.
#[inline]
fn accumulate(lanes: &mut [u64; 8], stripe: &[u8; STRIPE_BYTES], key: usize) {
    for (i, lane) in lanes.iter_mut().enumerate() {
        let value = word(stripe, 8 * i);
        let keyed = value ^ secret(key + 8 * i);
        let product = (keyed & 0xffff_ffff).wrapping_mul(keyed >> 32);
        *lane = lane.wrapping_add(value).wrapping_add(product);
    }
}

/// Mixes the 16 bytes at `at` with 16 bytes of the secret and folds their 128-bit product.
#[inline]
fn mix(bytes: &[u8], at: usize, key: usize) -> u64 {
    fold(
        word(bytes, at) ^ secret(key),
        word(bytes, at + 8) ^ secret(key + 8),
    )
}

/// Multiplies two numbers and XORs the halves of the 128-bit product.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "takes the product apart")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Mixes the final bits of a hash, as `XXH3_avalanche`.
#[inline]
fn avalanche(mut hash: u64) -> u64 {
    hash ^= hash >> 37;
    hash = hash.wrapping_mul(P3);
    hash ^ hash >> 32
}

/// Returns the 64-bit little-endian word of the secret at offset `at`.
#[inline]
fn secret(at: usize) -> u64 {
    word(&SECRET, at)
}

/// Returns the 64-bit little-endian word at offset `at`.
#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Returns the 32-bit little-endian word at offset `at`, zero-extended.
#[inline]
fn word32(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u64::from(u32::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::xxh3_64;

    #[test]
    fn vectors_of_the_format() {
        let vectors: [(Vec<u8>, u64, u64); 14] = [
            (b"".to_vec(), 0x5342_c301_0fe1_dd04, 0x2d06_8005_38d3_94c2),
            (b"a".to_vec(), 0x88d8_68bf_6076_81c7, 0xe6c6_32b6_1e96_4e1f),
            (
                b"abc".to_vec(),
                0xd39e_eb71_bb53_42e8,
                0x78af_5f94_892f_3950,
            ),
            (
                b"hello".to_vec(),
                0xa0bb_c238_c976_57b5,
                0x9555_e855_5c62_dcfd,
            ),
            (
                b"key0000000".to_vec(),
                0xf4b0_94c5_b07a_fa7b,
                0x740e_8b67_59e2_6e9b,
            ),
            (
                b"0123456789abcdef".to_vec(),
                0x402c_83c1_955d_056d,
                0x6443_9946_d8fa_212d,
            ),
            (
                b"0123456789abcdefg".to_vec(),
                0x1de5_bab5_896c_d852,
                0xd2e6_3ed5_466f_5c32,
            ),
            (vec![b'x'; 64], 0x6109_7236_eb6d_d984, 0x269c_b9f6_acf8_1244),
            (
                vec![b'x'; 128],
                0x8da4_2503_37ca_8697,
                0x4ca3_7e83_f6cd_dd17,
            ),
            (
                vec![b'x'; 129],
                0x47a8_8963_4586_ea83,
                0xe4f9_7421_08fe_27dc,
            ),
            (
                vec![b'x'; 240],
                0x4796_d5f2_e54c_1b92,
                0x3e16_ca8a_0c6c_cb68,
            ),
            (
                vec![b'x'; 241],
                0x9f0e_6f7c_bbce_9b3d,
                0x14da_9e5c_301a_6a1d,
            ),
            (
                vec![b'x'; 1024],
                0x5696_c5fe_02cd_179a,
                0xfc56_a7ce_85b3_164a,
            ),
            (
                vec![b'x'; 1025],
                0x0aa1_daba_f7cb_9d81,
                0x9cd2_e05a_61b8_a761,
            ),
        ];
        for (input, preview, last) in vectors {
            assert_eq!(xxph3_64(&input), preview, "{} bytes", input.len());
            assert_eq!(xxh3_64(&input), last, "{} bytes", input.len());
        }
    }

    #[test]
    fn every_length_hashes_without_panic() {
        let bytes: Vec<u8> = (0..2200_u32).map(|i| (i * 7 % 251) as u8).collect();
        let mut seen = std::collections::HashSet::new();
        for len in 0..bytes.len() {
            assert!(seen.insert(xxph3_64(&bytes[..len])));
        }
    }
}
