//! On-disk structures of tables: footer, block handle, block trailer, and a block's packed footer.
//!
//! ```text
//! block:   stored bytes | u8 compression | fixed32 checksum
//! handle:  varint64 offset | varint64 size, without the 5 bytes of the trailer
//! footer:  u8 checksum kind | 40 bytes "part 2" | fixed32 format version | fixed64 magic number
//!   part 2, versions 1 to 5:  metaindex handle | index handle | zeros
//!   part 2, from version 6:   3e 00 7a 00 | fixed32 footer checksum
//!                             | fixed32 base context checksum | fixed32 metaindex size | 24 zeros
//! legacy footer (version 0): 40 bytes "part 2" | fixed64 magic number
//! ```
//!
//! From version 6 on every checksum is offset by a number derived from the footer's base and the
//! block's offset, so that a misplaced block is detected (`table/format.cc`, RocksDB 11.9;
//! `docs/formats/block-based-table.md`).
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::checksum::{ChecksumKind, block_checksum, context_modifier, whole_checksum};
use koeldb_base::coding;
use koeldb_base::{Error, Result};

/// The size of a block trailer: compression type and checksum.
pub const BLOCK_TRAILER_BYTES: usize = 5;

/// The size of a footer of format version 1 and later.
pub const FOOTER_BYTES: usize = 53;

/// The size of a footer of format version 0.
pub const LEGACY_FOOTER_BYTES: usize = 48;

/// The newest format version read and written.
pub const FORMAT_VERSION_MAX: u32 = 7;

/// The oldest format version of a block-based table.
pub const FORMAT_VERSION_MIN: u32 = 2;

/// The first format version with context checksums.
pub const CONTEXT_CHECKSUM_VERSION: u32 = 6;

/// The size of the magic number, which ends every footer of either layout.
const MAGIC_BYTES: usize = 8;
/// The size of the part of a footer between the checksum type and the format version.
const PART2_BYTES: usize = 40;
/// The bytes that begin part 2 of a footer from format version 6 on.
const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0x00, 0x7a, 0x00];

/// The kinds of table files, distinguished by the magic number at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// The block-based table.
    BlockBased,
    /// The plain table.
    Plain,
    /// The cuckoo table.
    Cuckoo,
    /// The cuckoo table with versions, an extension of this engine.
    CuckooVersions,
}

impl TableKind {
    /// The magic number of a footer with a `format_version` of 1 or more.
    #[must_use]
    pub const fn magic(self) -> u64 {
        match self {
            TableKind::BlockBased => 0x88e2_41b7_85f4_cff7,
            TableKind::Plain => 0x8242_2296_63bf_9564,
            TableKind::Cuckoo => 0x9267_89d0_c5f1_7873,
            // "koelcuck"
            TableKind::CuckooVersions => 0x6b63_7563_6c65_6f6b,
        }
    }

    /// The magic number of a footer with `format_version` 0; `None` for kinds without one.
    #[must_use]
    pub const fn legacy_magic(self) -> Option<u64> {
        match self {
            TableKind::BlockBased => Some(0xdb47_7524_8b80_fb57),
            TableKind::Plain => Some(0x4f34_18eb_7a8f_13b8),
            TableKind::Cuckoo | TableKind::CuckooVersions => None,
        }
    }

    /// Returns the table kind of a magic number, and whether it is that of `format_version` 0.
    #[must_use]
    pub fn from_magic(magic: u64) -> Option<(Self, bool)> {
        [
            TableKind::BlockBased,
            TableKind::Plain,
            TableKind::Cuckoo,
            TableKind::CuckooVersions,
        ]
        .into_iter()
        .find_map(|kind| {
            if magic == kind.magic() {
                Some((kind, false))
            } else if kind.legacy_magic() == Some(magic) {
                Some((kind, true))
            } else {
                None
            }
        })
    }
}

/// The index types, as recorded in the property `rocksdb.block.based.table.index.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum IndexType {
    /// One index block.
    #[default]
    BinarySearch,
    /// One index block with a hash from key prefixes to its entries.
    HashSearch,
    /// Index blocks under a top-level index.
    TwoLevel,
    /// One index block whose entries carry the first key of their data block.
    BinarySearchWithFirstKey,
}

impl IndexType {
    /// The number of the index type in the table properties.
    #[must_use]
    pub const fn to_number(self) -> u32 {
        match self {
            IndexType::BinarySearch => 0,
            IndexType::HashSearch => 1,
            IndexType::TwoLevel => 2,
            IndexType::BinarySearchWithFirstKey => 3,
        }
    }

    /// Returns the index type with this number in the table properties; `None` if it is unknown.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => IndexType::BinarySearch,
            1 => IndexType::HashSearch,
            2 => IndexType::TwoLevel,
            3 => IndexType::BinarySearchWithFirstKey,
            _ => return None,
        })
    }
}

/// The location of a block: its offset and its stored size without the trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct BlockHandle {
    /// The offset in the file.
    pub offset: u64,
    /// The stored size, excluding the trailer.
    pub size: u64,
}

impl BlockHandle {
    /// The handle of no block.
    pub const NULL: BlockHandle = BlockHandle { offset: 0, size: 0 };

    /// Whether this is the null handle, with offset and size 0.
    #[must_use]
    pub fn is_null(self) -> bool {
        self == Self::NULL
    }

    /// Appends the encoded handle.
    pub fn encode_into(self, out: &mut Vec<u8>) {
        coding::put_varint64(out, self.offset);
        coding::put_varint64(out, self.size);
    }

    /// The encoded handle.
    #[must_use]
    pub fn to_vec(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_into(&mut out);
        out
    }

    /// Decodes a handle and removes it from the front of `input`.
    ///
    /// # Errors
    /// `Corruption` if a number is malformed or truncated.
    pub fn take(input: &mut &[u8]) -> Result<Self> {
        let bad = |_| Error::corruption("bad block handle");
        let offset = coding::take_varint64(input).map_err(bad)?;
        let size = coding::take_varint64(input).map_err(bad)?;
        Ok(BlockHandle { offset, size })
    }

    /// Returns the offset after the block's trailer; `Corruption` if it is beyond `limit`.
    ///
    /// # Errors
    /// `Corruption` if the block ends after `limit`.
    #[inline]
    pub fn end_within(self, limit: u64) -> Result<u64> {
        self.offset
            .checked_add(self.size)
            .and_then(|end| end.checked_add(BLOCK_TRAILER_BYTES as u64))
            .filter(|&end| end <= limit)
            .ok_or_else(|| self.outside(limit))
    }

    /// Creates the `Corruption` error of a block that ends after `limit`.
    #[cold]
    fn outside(self, limit: u64) -> Error {
        Error::corruption(format!(
            "bad block handle: block of {} bytes at {} exceeds the end of the blocks at {limit}",
            self.size, self.offset
        ))
    }
}

/// The parameters of a table's block checksums: the checksum type, and the base of the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumContext {
    /// The checksum type.
    pub kind: ChecksumKind,
    /// The base context checksum; 0 before format version 6.
    pub base: u32,
}

impl ChecksumContext {
    /// Computes the checksum in the trailer of a block at `offset`, with its context modifier.
    #[inline]
    #[must_use]
    pub fn block(self, offset: u64, stored: &[u8], compression: u8) -> u32 {
        block_checksum(self.kind, stored, compression)
            .wrapping_add(context_modifier(self.base, offset))
    }

    /// Encodes the trailer (compression type, checksum) of a block at `offset`.
    #[must_use]
    pub fn trailer(self, offset: u64, stored: &[u8], compression: u8) -> [u8; BLOCK_TRAILER_BYTES] {
        let [a, b, c, d] = self.block(offset, stored, compression).to_le_bytes();
        [compression, a, b, c, d]
    }
}

/// The footer of a table file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The kind of table.
    pub kind: TableKind,
    /// The format version.
    pub format_version: u32,
    /// The checksum parameters.
    pub checksum: ChecksumContext,
    /// The metaindex block.
    pub metaindex: BlockHandle,
    /// The index block: null for other kinds of table, and from version 6 on, where the metaindex
    /// has it.
    pub index: BlockHandle,
}

impl Footer {
    /// Encodes the footer to be written at `offset`, the length of the file so far.
    ///
    /// # Errors
    /// `InvalidArgument` if the handles do not fit the layout: from version 6 on the metaindex
    /// block must end where the footer begins, and there is no index handle.
    pub fn encode(&self, offset: u64) -> Result<[u8; FOOTER_BYTES]> {
        let mut out = self.encode_unchecked(offset)?;
        if self.format_version >= CONTEXT_CHECKSUM_VERSION {
            let checksum = self.own_checksum(&out, offset);
            if let Some(place) = out.get_mut(5..9) {
                place.copy_from_slice(&checksum.to_le_bytes());
            }
        }
        Ok(out)
    }

    /// Encodes the footer at `offset`, with zeros in place of its own checksum.
    fn encode_unchecked(&self, offset: u64) -> Result<[u8; FOOTER_BYTES]> {
        let mut part2 = Vec::with_capacity(PART2_BYTES);
        if self.format_version >= CONTEXT_CHECKSUM_VERSION {
            let size = u32::try_from(self.metaindex.size).ok().filter(|_| {
                self.metaindex
                    .end_within(offset)
                    .is_ok_and(|end| end == offset)
                    && self.index.is_null()
            });
            let size = size.ok_or_else(|| {
                Error::invalid_argument(format!("the metaindex block must end at {offset}"))
            })?;
            part2.extend_from_slice(&EXTENDED_MAGIC);
            coding::put_fixed32(&mut part2, 0);
            coding::put_fixed32(&mut part2, self.checksum.base);
            coding::put_fixed32(&mut part2, size);
        } else {
            self.metaindex.encode_into(&mut part2);
            self.index.encode_into(&mut part2);
        }
        part2.resize(PART2_BYTES, 0);
        let mut bytes = Vec::with_capacity(FOOTER_BYTES);
        bytes.push(self.checksum.kind.to_byte());
        bytes.extend_from_slice(&part2);
        coding::put_fixed32(&mut bytes, self.format_version);
        coding::put_fixed64(&mut bytes, self.kind.magic());
        bytes
            .try_into()
            .map_err(|_| Error::invalid_argument("the handles do not fit the footer"))
    }

    /// Computes the footer's own checksum (`format_version` 6) over `bytes`, where it must be zero.
    fn own_checksum(&self, bytes: &[u8; FOOTER_BYTES], offset: u64) -> u32 {
        whole_checksum(self.checksum.kind, bytes)
            .wrapping_add(context_modifier(self.checksum.base, offset))
    }

    /// The size of this footer in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        if self.format_version == 0 {
            LEGACY_FOOTER_BYTES
        } else {
            FOOTER_BYTES
        }
    }

    /// Decodes the footer of a file of `file_bytes` bytes from its last bytes.
    ///
    /// These are all of them, or at least [`FOOTER_BYTES`].
    ///
    /// # Errors
    /// `Corruption` for a short file, an unknown magic number, checksum or version, or a mismatch;
    /// `NotSupported` for a block-based table of version 0.
    pub fn decode(tail: &[u8], file_bytes: u64) -> Result<Self> {
        let too_short = || {
            Error::corruption(format!(
                "file is too short ({file_bytes} bytes) to be an sstable"
            ))
        };
        if tail.len() < LEGACY_FOOTER_BYTES {
            return Err(too_short());
        }
        let magic_at = tail.len().checked_sub(MAGIC_BYTES).ok_or_else(too_short)?;
        let magic = coding::fixed64_at(tail, magic_at).ok_or_else(too_short)?;
        let Some((kind, legacy)) = TableKind::from_magic(magic) else {
            return Err(Error::corruption(format!(
                "Bad table magic number: expected {:#x}, found {magic:#x}",
                TableKind::BlockBased.magic()
            )));
        };
        if legacy {
            let start = tail
                .len()
                .checked_sub(LEGACY_FOOTER_BYTES)
                .ok_or_else(too_short)?;
            return Self::decode_legacy(kind, tail.get(start..).unwrap_or_default());
        }
        let bytes: &[u8; FOOTER_BYTES] = tail.last_chunk().ok_or_else(too_short)?;
        let offset = file_bytes
            .checked_sub(FOOTER_BYTES as u64)
            .ok_or_else(too_short)?;
        Self::decode_current(kind, bytes, offset)
    }

    /// Decodes a footer of `format_version` 0, which has two handles and implies CRC-32C.
    fn decode_legacy(kind: TableKind, mut input: &[u8]) -> Result<Self> {
        if kind == TableKind::BlockBased {
            return Err(Error::not_supported(
                "block-based tables of format_version 0, which LevelDB writes, are not supported",
            )
            .with_advice(
                "copy the entries into a new database with the program that wrote the table",
            ));
        }
        Ok(Footer {
            kind,
            format_version: 0,
            checksum: ChecksumContext {
                kind: ChecksumKind::Crc32c,
                base: 0,
            },
            metaindex: BlockHandle::take(&mut input)?,
            index: BlockHandle::take(&mut input)?,
        })
    }

    /// Decodes a footer of `format_version` 1 or more, which lies at file offset `offset`.
    fn decode_current(kind: TableKind, bytes: &[u8; FOOTER_BYTES], offset: u64) -> Result<Self> {
        let mut input = bytes.as_slice();
        let checksum_byte = coding::take_u8(&mut input)?;
        let checksum_kind = ChecksumKind::from_byte(checksum_byte).ok_or_else(|| {
            Error::corruption(format!(
                "Corrupt or unsupported checksum type: {checksum_byte}"
            ))
        })?;
        let mut part2 = coding::take_bytes(&mut input, PART2_BYTES)?;
        let format_version = coding::take_fixed32(&mut input)?;
        let supported = match kind {
            TableKind::BlockBased => FORMAT_VERSION_MIN..=FORMAT_VERSION_MAX,
            TableKind::Plain => 0..=1,
            TableKind::Cuckoo | TableKind::CuckooVersions => 1..=1,
        };
        let mut footer = Footer {
            kind,
            format_version,
            checksum: ChecksumContext {
                kind: checksum_kind,
                base: 0,
            },
            metaindex: BlockHandle::NULL,
            index: BlockHandle::NULL,
        };
        if !supported.contains(&format_version) {
            // A footer whose checksum holds was written with this version.
            let newest = *supported.end();
            let is_newer = format_version > newest.max(CONTEXT_CHECKSUM_VERSION);
            return Err(
                if is_newer && footer.take_extended(part2, bytes, offset).is_ok() {
                    Error::not_supported(format!(
                        "format_version {format_version} is newer than {newest}, the newest that this \
                         release reads"
                    ))
                    .with_advice("read the table with the release that wrote it, or a newer one")
                } else {
                    Error::corruption(format!(
                        "Corrupt or unsupported format_version: {format_version}"
                    ))
                },
            );
        }
        if format_version < CONTEXT_CHECKSUM_VERSION {
            footer.metaindex = BlockHandle::take(&mut part2)?;
            footer.index = BlockHandle::take(&mut part2)?;
        } else {
            footer.take_extended(part2, bytes, offset)?;
        }
        Ok(footer)
    }

    /// Decodes part 2 of a footer of `format_version` 6 or more, and verifies the checksum.
    fn take_extended(
        &mut self,
        mut part2: &[u8],
        bytes: &[u8; FOOTER_BYTES],
        offset: u64,
    ) -> Result<()> {
        let extended = coding::take_bytes(&mut part2, EXTENDED_MAGIC.len())?;
        if extended != EXTENDED_MAGIC {
            return Err(Error::corruption(format!(
                "Bad extended magic number: {extended:02x?}"
            )));
        }
        let stored = coding::take_fixed32(&mut part2)?;
        self.checksum.base = coding::take_fixed32(&mut part2)?;
        let size = u64::from(coding::take_fixed32(&mut part2)?);
        coding::take_bytes(&mut part2, 16)?;
        let features = coding::take_fixed64(&mut part2)?;
        if self.checksum.kind != ChecksumKind::None {
            let mut cleared = *bytes;
            if let Some(place) = cleared.get_mut(5..9) {
                place.fill(0);
            }
            let computed = self.own_checksum(&cleared, offset);
            if computed != stored {
                return Err(Error::corruption(format!(
                    "Footer at {offset} checksum mismatch: stored = {stored}, computed = {computed}"
                )));
            }
        }
        if features != 0 {
            return Err(Error::not_supported(
                "File uses a future feature not supported in this version",
            ));
        }
        let start = size
            .checked_add(BLOCK_TRAILER_BYTES as u64)
            .and_then(|back| offset.checked_sub(back))
            .ok_or_else(|| {
                Error::corruption(format!(
                    "metaindex of {size} bytes does not fit before the footer at {offset}"
                ))
            })?;
        self.metaindex = BlockHandle {
            offset: start,
            size,
        };
        Ok(())
    }
}

/// The last 4 bytes of a block with entries: feature flags and the number of restart points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PackedFooter {
    /// The number of restart points, below 2^28.
    pub restart_count: u32,
    /// Whether the block has a hash index from user keys to restart points.
    pub hash_index: bool,
    /// Whether the keys of an index block are uniformly distributed.
    pub uniform: bool,
    /// Whether keys and values are in separate sections.
    pub separated: bool,
}

impl PackedFooter {
    /// The largest number of restart points.
    pub const RESTART_COUNT_MAX: u32 = (1 << 28) - 1;
    /// The flag of a data block with a hash index.
    const HASH_INDEX: u32 = 1 << 31;
    /// The unused flag.
    const RESERVED: u32 = 1 << 30;
    /// The flag of an index block with uniformly distributed keys.
    const UNIFORM: u32 = 1 << 29;
    /// The flag of a block with keys and values in separate sections.
    const SEPARATED: u32 = 1 << 28;

    /// Encodes the flags and the restart count, at most [`PackedFooter::RESTART_COUNT_MAX`].
    #[must_use]
    pub fn encode(self) -> u32 {
        debug_assert!(self.restart_count <= Self::RESTART_COUNT_MAX);
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        (self.restart_count & Self::RESTART_COUNT_MAX)
            | flag(self.hash_index, Self::HASH_INDEX)
            | flag(self.uniform, Self::UNIFORM)
            | flag(self.separated, Self::SEPARATED)
    }

    /// Decodes the last 4 bytes of a block; `Corruption` if an unknown flag is set.
    ///
    /// # Errors
    /// `Corruption` if the reserved bit is set.
    pub fn decode(word: u32) -> Result<Self> {
        if word & Self::RESERVED != 0 {
            return Err(Error::corruption(
                "Unrecognized feature in block footer (reserved bits set)",
            ));
        }
        Ok(PackedFooter {
            restart_count: word & Self::RESTART_COUNT_MAX,
            hash_index: word & Self::HASH_INDEX != 0,
            uniform: word & Self::UNIFORM != 0,
            separated: word & Self::SEPARATED != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text
            .bytes()
            .filter_map(|byte| char::from(byte).to_digit(16))
            .map(|digit| u8::try_from(digit).unwrap())
            .collect();
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    }

    #[test]
    fn a_footer_of_rocksdb_decodes_and_is_encoded_again() {
        let bytes = hex(&format!(
            "04 3e007a00 d9802ded eeb20b0b 36000000 {} 07000000 f7cff485b741e288",
            "00".repeat(24)
        ));
        let footer = Footer::decode(&bytes, 1307).unwrap();
        assert_eq!(footer.kind, TableKind::BlockBased);
        assert_eq!(footer.format_version, 7);
        assert_eq!(footer.checksum.base, 0x0b0b_b2ee);
        assert_eq!(
            footer.metaindex,
            BlockHandle {
                offset: 1195,
                size: 54
            }
        );
        assert_eq!(footer.encode(1254).unwrap().as_slice(), bytes);
        for at in 0..bytes.len() {
            // Only the checksum covers the 16 reserved bytes.
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            assert!(Footer::decode(&damaged, 1307).is_err(), "byte {at}");
        }
        assert!(
            Footer::decode(&bytes, 1308).is_err(),
            "context of the offset"
        );
    }

    #[test]
    fn old_footers_hold_two_handles() {
        let footer = Footer {
            kind: TableKind::BlockBased,
            format_version: 5,
            checksum: ChecksumContext {
                kind: ChecksumKind::Crc32c,
                base: 0,
            },
            metaindex: BlockHandle {
                offset: 1 << 40,
                size: 300,
            },
            index: BlockHandle {
                offset: 77,
                size: 1,
            },
        };
        let bytes = footer.encode(1 << 41).unwrap();
        assert_eq!(Footer::decode(&bytes, 1 << 41).unwrap(), footer);
        assert!(Footer::decode(&bytes[1..], 52).is_err());
        let mut future = bytes;
        future[41] = 8;
        let error = Footer::decode(&future, 1 << 41).unwrap_err();
        assert_eq!(error.message(), "Corrupt or unsupported format_version: 8");
    }

    #[test]
    fn a_footer_of_a_newer_format_is_not_supported_if_its_checksum_holds_and_damaged_if_not() {
        for kind in [
            ChecksumKind::Crc32c,
            ChecksumKind::XxHash64,
            ChecksumKind::Xxh3,
        ] {
            let footer = Footer {
                kind: TableKind::BlockBased,
                format_version: 8,
                checksum: ChecksumContext { kind, base: 77 },
                metaindex: BlockHandle {
                    offset: (1 << 20) - 305,
                    size: 300,
                },
                index: BlockHandle::NULL,
            };
            let bytes = footer.encode(1 << 20).unwrap();
            let file_bytes = (1 << 20) + FOOTER_BYTES as u64;
            let error = Footer::decode(&bytes, file_bytes).unwrap_err();
            assert_eq!(
                error.kind(),
                koeldb_base::ErrorKind::NotSupported,
                "{error}"
            );
            assert!(
                error.message().contains("format_version 8 is newer than 7"),
                "{error}"
            );
            for at in 1..41 {
                let mut damaged = bytes;
                damaged[at] ^= 1;
                assert!(
                    Footer::decode(&damaged, file_bytes)
                        .unwrap_err()
                        .is_corruption(),
                    "{at}"
                );
            }
        }
    }

    #[test]
    fn a_footer_with_an_unknown_feature_is_not_supported_if_its_checksum_holds() {
        let footer = Footer {
            kind: TableKind::BlockBased,
            format_version: 7,
            checksum: ChecksumContext {
                kind: ChecksumKind::Xxh3,
                base: 77,
            },
            metaindex: BlockHandle {
                offset: 100,
                size: 300,
            },
            index: BlockHandle::NULL,
        };
        let mut bytes = footer.encode(405).unwrap();
        let file_bytes = 405 + FOOTER_BYTES as u64;
        bytes[33] = 1;
        assert!(
            Footer::decode(&bytes, file_bytes)
                .unwrap_err()
                .is_corruption()
        );
        bytes[5..9].fill(0);
        let checksum = footer.own_checksum(&bytes, 405);
        bytes[5..9].copy_from_slice(&checksum.to_le_bytes());
        let error = Footer::decode(&bytes, file_bytes).unwrap_err();
        assert_eq!(
            error.kind(),
            koeldb_base::ErrorKind::NotSupported,
            "{error}"
        );
    }

    #[test]
    fn the_first_block_of_the_worked_example_has_its_trailer() {
        let block = hex(
            "000a026b300101000000000000763001090231010200000000000076310109023201030000000000007632
             0000000001000000",
        );
        let context = ChecksumContext {
            kind: ChecksumKind::Xxh3,
            base: 0x0b0b_b2ee,
        };
        assert_eq!(block.len(), 51);
        assert_eq!(context.trailer(0, &block, 0).as_slice(), hex("00 bf6ad3a8"));
    }

    #[test]
    fn packed_footers_keep_their_flags() {
        let packed = PackedFooter {
            restart_count: 5,
            hash_index: true,
            uniform: false,
            separated: true,
        };
        assert_eq!(packed.encode(), 0x9000_0005);
        assert_eq!(PackedFooter::decode(0x9000_0005).unwrap(), packed);
        assert!(PackedFooter::decode(0x4000_0001).is_err());
    }
}
