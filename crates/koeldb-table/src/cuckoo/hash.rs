//! Hash functions that map a user key to the first slot of each of its windows.
//!
//! ```text
//! raw(i) = Murmur(user key, seed = 816922183 * i mod 2^32)
//! raw(0) = the first 8 bytes of the user key as a little-endian number, if the file says so
//! slot   = raw mod N, or raw AND (N - 1) where N is a power of two
//! ```
//!
//! The Murmur variant depends on the machine RocksDB was compiled for and is not recorded; a reader
//! checks keys of the file against both (`util/murmurhash.cc`, RocksDB 11.9;
//! `docs/formats/cuckoo-table.md`).

/// The difference of the seeds of successive hash functions.
const SEED_STEP: u32 = 816_922_183;

/// The largest number of hash functions of a table.
pub const FUNCTIONS_MAX: u32 = 64;

/// The Murmur hash variant that a RocksDB build used, which depends on the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HashFamily {
    /// `MurmurHash64A`: on x86-64. KoelDB writes this one.
    #[default]
    Murmur64A,
    /// `MurmurHashNeutral2`, 32 bits: on CPUs other than x86-64.
    Neutral2,
}

impl HashFamily {
    /// Hashes a key with the 32-bit seed of a hash function.
    #[inline]
    fn hash(self, key: &[u8], seed: u32) -> u64 {
        match self {
            HashFamily::Murmur64A => murmur64a(key, seed),
            HashFamily::Neutral2 => u64::from(murmur_neutral2(key, seed)),
        }
    }
}

/// The multiplier of `MurmurHash64A`.
const M: u64 = 0xc6a4_a793_5bd1_e995;

/// The shift of `MurmurHash64A`.
const R: u32 = 47;

/// `MurmurHash64A` over little-endian words.
#[inline]
#[must_use]
pub fn murmur64a(key: &[u8], seed: u32) -> u64 {
    let mut hash = u64::from(seed) ^ (key.len() as u64).wrapping_mul(M);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = (hash ^ scrambled(u64::from_le_bytes(*word))).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest
            .iter()
            .rev()
            .fold(0, |tail, &byte| (tail << 8) | u64::from(byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    finished(hash)
}

/// Mixes one 8-byte word, the step of `MurmurHash64A` for each word.
#[inline]
fn scrambled(word: u64) -> u64 {
    let word = word.wrapping_mul(M);
    (word ^ (word >> R)).wrapping_mul(M)
}

/// Applies the final mixing steps of `MurmurHash64A`.
#[inline]
fn finished(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> R)).wrapping_mul(M);
    hash ^ (hash >> R)
}

/// `MurmurHashNeutral2` over little-endian words.
#[must_use]
pub fn murmur_neutral2(key: &[u8], seed: u32) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the definition counts in 32 bits"
    )]
    let mut hash = seed ^ key.len() as u32;
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest
            .iter()
            .rev()
            .fold(0, |tail, &byte| (tail << 8) | u32::from(byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// A fast remainder by a fixed divisor (the table size), without a division instruction.
#[derive(Clone, Copy, Debug)]
struct Remainder {
    divisor: u64,
    /// The reciprocal of the divisor: `(2^64 - 1) / divisor`, rounded down.
    reciprocal: u64,
}

impl Remainder {
    /// Creates the reduction into `divisor` slots, at least one.
    fn new(divisor: u64) -> Self {
        Remainder {
            divisor,
            reciprocal: u64::MAX / divisor,
        }
    }

    /// Returns `raw` modulo the divisor, by multiplication with the reciprocal.
    #[inline]
    fn apply(self, raw: u64) -> u64 {
        // The reciprocal is too small by at most 1, so the quotient is exact or too small by one.
        let quotient = (u128::from(raw) * u128::from(self.reciprocal)) >> 64;
        let quotient = quotient as u64;
        let rest = raw.wrapping_sub(quotient.wrapping_mul(self.divisor));
        // Branch-free, as it is unpredictable: below the divisor the difference wraps and is the
        // larger.
        rest.min(rest.wrapping_sub(self.divisor))
    }
}

/// The hash functions of a cuckoo table with keys of 8 bytes, by `MurmurHash64A`.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordHash {
    identity_first: bool,
    remainder: Remainder,
}

impl WordHash {
    /// Creates the functions into `table_size` slots, at least one.
    pub(super) fn new(identity_first: bool, table_size: u64) -> Self {
        WordHash {
            identity_first,
            remainder: Remainder::new(table_size),
        }
    }

    /// Returns the first slot of the key's cuckoo block, for a key given as little-endian integer.
    #[inline(always)]
    pub(super) fn slot(&self, function: u32, word: u64) -> u64 {
        const LEN: u64 = M.wrapping_mul(size_of::<u64>() as u64);
        let raw = if function == 0 && self.identity_first {
            word
        } else {
            let seed = u64::from(SEED_STEP.wrapping_mul(function));
            finished((seed ^ LEN ^ scrambled(word)).wrapping_mul(M))
        };
        self.remainder.apply(raw)
    }
}

/// The hash functions of one cuckoo table, from user keys to slots.
#[derive(Clone, Copy, Debug)]
pub struct SlotHash {
    family: HashFamily,
    identity_first: bool,
    remainder: Remainder,
}

impl SlotHash {
    /// Creates functions into `table_size` slots, at least one, by remainder or by masking.
    ///
    /// Masking requires `table_size` to be a power of two.
    ///
    /// # Panics
    /// If `table_size` violates this.
    #[must_use]
    pub fn new(
        family: HashFamily,
        identity_first: bool,
        use_module: bool,
        table_size: u64,
    ) -> Self {
        assert!(
            table_size > 0 && (use_module || table_size.is_power_of_two()),
            "hash functions for {table_size} slots"
        );
        SlotHash {
            family,
            identity_first,
            remainder: Remainder::new(table_size),
        }
    }

    /// The first slot of a user key's cuckoo block, by hash function number `function`.
    #[inline]
    #[must_use]
    pub fn slot(&self, function: u32, user_key: &[u8]) -> u64 {
        let raw = if function == 0 && self.identity_first {
            // Tables with identity hash have no keys shorter than 8 bytes.
            user_key
                .first_chunk()
                .map_or(0, |word| u64::from_le_bytes(*word))
        } else {
            self.family.hash(user_key, SEED_STEP.wrapping_mul(function))
        };
        self.remainder.apply(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: u64 = if cfg!(miri) { 10 } else { 200 };

    #[test]
    fn the_hashes_are_those_of_rocksdb() {
        let seeds = [
            0,
            SEED_STEP,
            SEED_STEP.wrapping_mul(2),
            SEED_STEP.wrapping_mul(7),
        ];
        let known: &[(&[u8], [u64; 3], u64)] = &[
            (
                b"",
                [0, 0x765a_0209_bdce_32e7, 0xecb4_0413_7b9c_65ce],
                0xe0a4_24af_30a9_d50d,
            ),
            (
                b"a",
                [
                    0x0717_17d2_d36b_6b11,
                    0x158c_faf9_d798_5c96,
                    0x2ea7_f595_af06_6408,
                ],
                0xe710_485f_538e_0bfa,
            ),
            (
                b"hello",
                [
                    0x1e68_d17c_457b_f117,
                    0x74ec_4f43_d542_7796,
                    0xbcbc_b942_1d4f_87f4,
                ],
                0x96bc_5b96_0ba1_41bc,
            ),
            (
                b"00000000",
                [
                    0x1b32_ec60_7048_25ce,
                    0xe993_509d_0e6f_d0e5,
                    0xa959_4e34_7eb2_b85a,
                ],
                0xd9d7_a998_988a_de29,
            ),
            (
                b"0123456789",
                [
                    0xa824_7417_c790_9865,
                    0x378a_52ca_b97c_0495,
                    0x5e95_0ee7_3823_690d,
                ],
                0x15c0_2683_55ea_ace8,
            ),
        ];
        for (key, [h0, h1, h2], h7) in known {
            let hashes = seeds.map(|seed| murmur64a(key, seed));
            assert_eq!(hashes, [*h0, *h1, *h2, *h7], "{key:?}");
        }
        for (key, h0, h1) in [
            (
                &b"abcdefg"[..],
                0x241a_a52b_0a62_005d,
                0xc4e7_b6aa_add9_16b8,
            ),
            (b"abcdefgh", 0xafdb_0257_ff41_aa98, 0x9318_53cf_7ca9_9351),
            (b"abcdefghi", 0xc9b9_d843_5614_6ac2, 0x8d3c_a257_6eed_6410),
            (
                b"user00000001",
                0x196e_e809_7cf1_3cf5,
                0x86e2_b0fa_e23c_378b,
            ),
            (
                &1_u64.to_le_bytes(),
                0x8fbb_8d81_5c9e_092e,
                0x1caf_37e2_e8c6_6008_u64,
            ),
        ] {
            assert_eq!([murmur64a(key, 0), murmur64a(key, SEED_STEP)], [h0, h1]);
        }
        for (key, h0, h1) in [
            (&b""[..], 0, 0xbef8_b115),
            (b"a", 0x9268_5f5e, 0x6a5f_c1a8),
            (b"hello", 0xe561_29cb, 0x3832_81a5),
            (b"00000000", 0x1a28_903c, 0x7ac9_6422_u32),
        ] {
            let hashes = [0, SEED_STEP].map(|seed| murmur_neutral2(key, seed));
            assert_eq!(hashes, [h0, h1], "{key:?}");
        }
    }

    #[test]
    fn remainders_without_division_are_exact() {
        let mut raw = 0x9e37_79b9_7f4a_7c15_u64;
        for divisor in [
            1,
            2,
            3,
            5,
            7,
            1111,
            4096,
            u64::from(u32::MAX),
            1 << 32,
            (1 << 63) + 1,
            u64::MAX,
        ] {
            let remainder = Remainder::new(divisor);
            for _ in 0..ROUNDS {
                raw = raw
                    .wrapping_mul(0xd129_0d5a_2f1f_6f31)
                    .wrapping_add(0x1405_7b7e_f767_814f);
                for raw in [
                    raw,
                    raw >> 32,
                    divisor - 1,
                    divisor,
                    raw - raw % divisor,
                    u64::MAX,
                    0,
                ] {
                    assert_eq!(remainder.apply(raw), raw % divisor, "{raw} mod {divisor}");
                }
            }
        }
    }

    #[test]
    fn keys_of_8_bytes_have_the_same_slots_as_numbers() {
        for identity_first in [false, true] {
            for table_size in [1, 1000, 1 << 20] {
                let hash = SlotHash::new(HashFamily::Murmur64A, identity_first, true, table_size);
                let words = WordHash::new(identity_first, table_size);
                for number in 0..ROUNDS {
                    let word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    for function in [0, 1, 2, 63] {
                        let slot = hash.slot(function, &word.to_le_bytes());
                        assert_eq!(words.slot(function, word), slot);
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_function_may_be_the_key_itself() {
        let hash = SlotHash::new(HashFamily::Murmur64A, true, true, 1000);
        assert_eq!(hash.slot(0, &123_456_u64.to_le_bytes()), 456);
        assert_ne!(hash.slot(1, &123_456_u64.to_le_bytes()), 456);
    }
}
