//! Checksums of table blocks (`docs/formats/block-based-table.md`, block trailer and checksums).
//!
//! A block is followed by its compression type byte and a checksum over both.
//! [`ChecksumKind::Xxh3`] mixes that last byte in by multiplication; the other kinds hash it with
//! the rest. From format version 6 on, [`context_modifier`] adds a value that depends on the file
//! and the offset, so that a block read from the wrong place fails verification.

use std::hash::Hasher as _;

use super::{crc32c, crc32c_extend, mask, xxh3_64};

/// The checksum type of a table file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChecksumKind {
    /// No checksum: always 0.
    None,
    /// Masked CRC-32C.
    Crc32c,
    /// XXH32.
    XxHash32,
    /// The low half of XXH64.
    XxHash64,
    /// The low half of the final XXH3. The default.
    #[default]
    Xxh3,
}

impl ChecksumKind {
    /// All kinds, in the order of their bytes.
    pub const ALL: [ChecksumKind; 5] = [
        ChecksumKind::None,
        ChecksumKind::Crc32c,
        ChecksumKind::XxHash32,
        ChecksumKind::XxHash64,
        ChecksumKind::Xxh3,
    ];

    /// Decodes the checksum type byte of a table footer; `None` if it is unknown.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// Returns the checksum type byte for a table footer.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        match self {
            ChecksumKind::None => 0,
            ChecksumKind::Crc32c => 1,
            ChecksumKind::XxHash32 => 2,
            ChecksumKind::XxHash64 => 3,
            ChecksumKind::Xxh3 => 4,
        }
    }

    /// Returns the name of the checksum type in OPTIONS files, such as `kXXH3`.
    #[must_use]
    pub fn option_name(self) -> &'static str {
        match self {
            ChecksumKind::None => "kNoChecksum",
            ChecksumKind::Crc32c => "kCRC32c",
            ChecksumKind::XxHash32 => "kxxHash",
            ChecksumKind::XxHash64 => "kxxHash64",
            ChecksumKind::Xxh3 => "kXXH3",
        }
    }

    /// Returns the checksum type with this name in OPTIONS files; `None` if it is unknown.
    #[must_use]
    pub fn from_option_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.option_name() == name)
    }
}

/// The checksum of `data` followed by `last_byte`: a block and its compression type byte.
#[inline]
#[must_use]
pub fn block_checksum(kind: ChecksumKind, data: &[u8], last_byte: u8) -> u32 {
    match kind {
        ChecksumKind::None => 0,
        ChecksumKind::Crc32c => mask(crc32c_extend(crc32c(data), &[last_byte])),
        ChecksumKind::XxHash32 => {
            let mut hasher = twox_hash::XxHash32::with_seed(0);
            hasher.write(data);
            hasher.write(&[last_byte]);
            hasher.finish_32()
        }
        ChecksumKind::XxHash64 => {
            let mut hasher = twox_hash::XxHash64::with_seed(0);
            hasher.write(data);
            hasher.write(&[last_byte]);
            low32(hasher.finish())
        }
        ChecksumKind::Xxh3 => low32(xxh3_64(data)) ^ u32::from(last_byte).wrapping_mul(0x6b90_83d9),
    }
}

/// Returns the checksum of a block whose compression type byte is the last byte of `bytes`.
///
/// For a block with the first byte of its trailer in one buffer, or a footer.
#[inline]
#[must_use]
pub fn whole_checksum(kind: ChecksumKind, bytes: &[u8]) -> u32 {
    match kind {
        ChecksumKind::None => 0,
        ChecksumKind::Crc32c => mask(crc32c(bytes)),
        ChecksumKind::XxHash32 => twox_hash::XxHash32::oneshot(0, bytes),
        ChecksumKind::XxHash64 => low32(twox_hash::XxHash64::oneshot(0, bytes)),
        ChecksumKind::Xxh3 => match bytes.split_last() {
            Some((&last, data)) => block_checksum(kind, data, last),
            None => 0,
        },
    }
}

/// Returns the context summand of a block's checksum (RocksDB: `ChecksumModifierForContext`).
///
/// It is added to the checksum of the block at `offset`, and derived from the `base` in the footer.
///
/// It is 0 for files before format version 6, whose base is 0.
#[inline]
#[must_use]
pub fn context_modifier(base: u32, offset: u64) -> u32 {
    if base == 0 {
        return 0;
    }
    base ^ low32(offset).wrapping_add(low32(offset >> 32))
}

/// Returns the low 32 bits of `value`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the formats store the low half"
)]
fn low32(value: u64) -> u32 {
    value as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn vectors_of_the_format() {
        let vectors = [
            (
                ChecksumKind::Crc32c,
                [0x838f_a897, 0xcb5d_ff03, 0x4925_8fd2],
            ),
            (
                ChecksumKind::XxHash32,
                [0x76c3_f8e8, 0x60b8_4af6, 0xcf65_b03e],
            ),
            (
                ChecksumKind::XxHash64,
                [0x2fec_4e26, 0xe498_51e1, 0xdb05_2768],
            ),
            (ChecksumKind::Xxh3, [0x5c62_dcfd, 0xac91_4612, 0x38d3_94c2]),
            (ChecksumKind::None, [0, 0, 0]),
        ];
        for (kind, [hello0, hello7, empty0]) in vectors {
            assert_eq!(block_checksum(kind, b"hello", 0), hello0, "{kind:?}");
            assert_eq!(block_checksum(kind, b"hello", 7), hello7, "{kind:?}");
            assert_eq!(block_checksum(kind, b"", 0), empty0, "{kind:?}");
        }
        assert_eq!(whole_checksum(ChecksumKind::Xxh3, b""), 0);
    }

    #[test]
    fn context_depends_on_file_and_offset() {
        let base = 0x6cdd_e177;
        assert_eq!(context_modifier(base, 0), 0x6cdd_e177);
        assert_eq!(context_modifier(base, 0x1234_5678), 0x7ee9_b70f);
        assert_eq!(context_modifier(base, 0x2_0000_0005), 0x6cdd_e170);
        assert_eq!(context_modifier(0, 0x2_0000_0005), 0);
    }

    #[test]
    fn bytes_and_names_round_trip() {
        for kind in ChecksumKind::ALL {
            assert_eq!(ChecksumKind::from_byte(kind.to_byte()), Some(kind));
            assert_eq!(
                ChecksumKind::from_option_name(kind.option_name()),
                Some(kind)
            );
        }
        assert_eq!(ChecksumKind::from_byte(5), None);
    }

    proptest! {
        #[test]
        fn split_and_whole_agree(data: Vec<u8>, last: u8) {
            let whole = [data.as_slice(), &[last]].concat();
            for kind in ChecksumKind::ALL {
                prop_assert_eq!(block_checksum(kind, &data, last), whole_checksum(kind, &whole));
            }
        }
    }
}
