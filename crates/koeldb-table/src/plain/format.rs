//! The on-disk format of a plain table: contiguous rows, and the names of the sections after them.
//!
//! ```text
//! row:   key | varint32 value length | value
//! key:   plain    [varint32 user key length] | user key | tail    no length if the table fixes it
//!        prefix   full                            full key | tail
//!               | [prefix length] suffix length   rest of the key | tail
//! tail:  ff                                      sequence number 0, a value
//!      | fixed64 (sequence number << 8 | type)   anything else; the type is never ff
//!
//! lengths of the prefix encoding:   u8  kind << 6 | n       kind 0 full, 1 prefix, 2 suffix
//!                                   n = 3f: 3f + the varint32 that follows
//! ```
//!
//! In the prefix encoding a key is stored whole at the start of each prefix and again at intervals;
//! the key after it declares how many of its first bytes are the prefix, and that key and all up to
//! the next whole key store only the rest. A row can therefore be decoded if its key is stored
//! whole, or with the `Base` of the row (`table/plain/plain_table_key_coding.cc`, RocksDB 11.9;
//! `docs/formats/plain-table.md`).
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::cmp::Ordering;

use koeldb_base::coding;
use koeldb_base::key::{FOOTER_BYTES, ValueType, pack};
use koeldb_base::{Error, KeyOrder, Lookup, PinnedSlice, Result};

use crate::block::ValueRange;
pub use crate::build_context::Encoding;
use crate::format::{BlockHandle, LEGACY_FOOTER_BYTES, TableKind};

/// The largest file: offsets have 31 bits.
pub const FILE_BYTES_MAX: u64 = (1 << 31) - 1;

/// The name of the index block in the metaindex.
pub const INDEX_BLOCK: &str = "PlainTableIndexBlock";
/// The name of the Bloom filter block in the metaindex.
pub const BLOOM_BLOCK: &str = "kBloomBlock";

/// The property with the encoding: fixed32.
pub const ENCODING: &str = "rocksdb.plain.table.encoding.type";
/// The property with the version of the Bloom filter beside a stored index: `1`.
pub const BLOOM_VERSION: &str = "rocksdb.plain.table.bloom.version";
/// The property with the number of cache lines of a stored filter, 0 without lines: varint32.
pub const BLOOM_LINES: &str = "rocksdb.plain.table.bloom.numblocks";

/// The abbreviated tail of a row: a value with sequence number 0.
const SHORT_TAIL: u8 = 0xff;
/// The footer that the abbreviated tail stands for.
const SHORT_FOOTER: u64 = pack(0, ValueType::Value);

/// The kind of a length in the prefix encoding: of a whole key.
const KIND_FULL: u8 = 0;
/// The kind of a length in the prefix encoding: of the prefix shared with the last whole key.
const KIND_PREFIX: u8 = 1;
/// The kind of a length in the prefix encoding: of the rest of a key after that prefix.
const KIND_SUFFIX: u8 = 2;
/// The position of the kind in the first byte of a length.
const KIND_SHIFT: u32 = 6;
/// The bits of a first byte for the length; all set mean that a varint32 with the excess follows.
const INLINE_LENGTH_MAX: u8 = 0x3f;

const VARINT32_BYTES_MAX: usize = 5;

/// Error messages for rows that are truncated or too long.
const NO_KEY_LENGTH: &str = "Unexpected EOF when reading size of the key";
const LONG_KEY: &str = "key exceeds the end of the rows";
const NO_KEY_END: &str = "a key without its end";
const NO_VALUE_LENGTH: &str = "Unexpected EOF when reading the next value's size.";
const LONG_VALUE: &str = "value exceeds the end of the rows";

impl Encoding {
    /// The number of the encoding in the table properties.
    #[must_use]
    pub const fn to_number(self) -> u32 {
        match self {
            Encoding::Plain => 0,
            Encoding::Prefix => 1,
        }
    }

    /// Returns the encoding with this number in the table properties; `None` if it is unknown.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Encoding::Plain),
            1 => Some(Encoding::Prefix),
            _ => None,
        }
    }
}

/// The row format of a plain table: key encoding, and the fixed key length if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RowFormat {
    /// The key encoding.
    pub encoding: Encoding,
    /// The length of all user keys in the plain encoding; 0 if it varies.
    pub user_key_bytes: u32,
}

/// The state for decoding the next row of the prefix encoding: the last whole key and its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// The start of the last whole key.
    key_at: u32,
    key_len: u32,
    /// The length of the prefix of the following rows; [`Base::UNKNOWN`] until a row declares it.
    prefix_len: u32,
}

impl Base {
    const UNKNOWN: u32 = u32::MAX;

    /// The decoding state before a row with a whole key: without information.
    pub(crate) const NONE: Base = Base {
        key_at: 0,
        key_len: 0,
        prefix_len: Self::UNKNOWN,
    };
}

/// A decoded row of a plain table, which borrows the table's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'d> {
    /// The beginning of the user key, if it is not stored whole here.
    prefix: &'d [u8],
    /// The part of the user key after `prefix`.
    rest: &'d [u8],
    /// The position of `rest`.
    rest_at: u32,
    /// Sequence number and type.
    pub(crate) footer: u64,
    /// Whether the footer is stored after the user key in full form.
    has_footer: bool,
    pub(crate) value: &'d [u8],
    value_at: u32,
    /// The start of the row.
    pub(crate) at: u32,
    /// The start of the next row.
    pub(crate) next: u32,
    /// Whether the key is stored whole.
    pub(crate) is_full: bool,
}

impl<'d> Row<'d> {
    /// Offers the row to a lookup of its key, unless it is not visible; returns whether it is done.
    ///
    /// `pin` creates the value.
    #[inline]
    pub(crate) fn offer_to(
        &self,
        lookup: &mut Lookup,
        pin: impl FnOnce(ValueRange) -> PinnedSlice,
    ) -> Result<bool> {
        let [type_byte, ..] = self.footer.to_le_bytes();
        let seqno = self.footer >> 8;
        if seqno > lookup.snapshot() {
            return Ok(false);
        }
        let value_type = ValueType::from_byte(type_byte)
            .ok_or_else(|| Error::corruption("a row of unknown type"))?;
        lookup.offer(seqno, value_type, || pin(self.value_range()))
    }

    /// Returns the user key, assembled in `scratch` if it is not stored whole.
    #[inline]
    pub(crate) fn user_key<'s>(&self, scratch: &'s mut Vec<u8>) -> &'s [u8]
    where
        'd: 's,
    {
        if self.prefix.is_empty() {
            return self.rest;
        }
        scratch.clear();
        scratch.extend_from_slice(self.prefix);
        scratch.extend_from_slice(self.rest);
        scratch
    }

    /// Returns offset and length of the internal key; `None` if it is not stored contiguously.
    #[inline]
    pub(crate) fn stored_key(&self) -> Option<(u32, u32)> {
        let whole = self.has_footer && self.prefix.is_empty();
        let len = u32::try_from(self.key_len()).ok()?;
        whole.then_some((self.rest_at, len))
    }

    /// Writes the internal key into `out`.
    pub(crate) fn key_into(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.prefix);
        out.extend_from_slice(self.rest);
        out.extend_from_slice(&self.footer.to_le_bytes());
    }

    /// The position of the value.
    #[inline]
    pub(crate) fn value_range(&self) -> ValueRange {
        ValueRange {
            start: self.value_at,
            len: u32::try_from(self.value.len()).unwrap_or(0),
        }
    }

    /// The length of the internal key.
    pub(crate) fn key_len(&self) -> usize {
        self.prefix
            .len()
            .saturating_add(self.rest.len())
            .saturating_add(FOOTER_BYTES)
    }

    /// Compares the row's user key with `user_key`.
    #[inline]
    pub(crate) fn compare_user(&self, order: &KeyOrder, user_key: &[u8]) -> Ordering {
        if self.prefix.is_empty() {
            return order.compare(self.rest, user_key);
        }
        match order {
            KeyOrder::Bytewise => match user_key.split_at_checked(self.prefix.len()) {
                Some((prefix, rest)) => self.prefix.cmp(prefix).then_with(|| self.rest.cmp(rest)),
                // The shorter one cannot be equal, and sorts before keys that it is a prefix of.
                None => self.prefix.cmp(user_key),
            },
            KeyOrder::ReverseBytewise => self.compare_user(&KeyOrder::Bytewise, user_key).reverse(),
            KeyOrder::Uint64 | KeyOrder::Custom(_) => {
                order.compare(self.user_key(&mut Vec::new()), user_key)
            }
        }
    }

    /// Compares the row's internal key with that of `user_key` and `footer`.
    #[inline]
    pub(crate) fn compare(&self, order: &KeyOrder, user_key: &[u8], footer: u64) -> Ordering {
        self.compare_user(order, user_key)
            .then_with(|| footer.cmp(&self.footer))
    }
}

/// The reason that the row at an offset cannot be decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BadRow {
    what: &'static str,
    /// The position at which the row would begin.
    at: u32,
    /// The type of the entry, if it is unknown.
    entry_type: Option<u8>,
    /// The offset up to which the row extends beyond the available bytes; `None` if more would not
    /// help.
    pub(crate) cut_off_before: Option<u64>,
}

impl BadRow {
    /// Converts the reason to a `Corruption` error; row offsets are relative to `start`.
    #[cold]
    pub(crate) fn behind(self, start: u64) -> Error {
        let at = start.saturating_add(u64::from(self.at));
        let what = self.what;
        Error::corruption(match self.entry_type {
            Some(byte) => format!("{what}: entry of type {byte:#04x} (row at {at})"),
            None => format!("{what} (row at {at})"),
        })
    }
}

impl From<BadRow> for Error {
    fn from(bad: BadRow) -> Self {
        bad.behind(0)
    }
}

/// The encoded rows of a plain table, or a consecutive part of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'d> {
    /// All rows, or some consecutive ones; at most [`FILE_BYTES_MAX`] bytes.
    pub(crate) data: &'d [u8],
    pub(crate) format: RowFormat,
}

impl<'d> Rows<'d> {
    /// The offset after the last row.
    #[inline]
    pub(crate) fn end(&self) -> u32 {
        u32::try_from(self.data.len()).unwrap_or(u32::MAX)
    }

    /// Decodes the row at offset `at`, and updates the state `base` from before to after the row.
    #[inline]
    pub(crate) fn row(&self, at: u32, base: &mut Base) -> Result<Row<'d>, BadRow> {
        let mut input = self.data.get(at as usize..).unwrap_or_default();
        match self.format.encoding {
            Encoding::Plain => {
                let len = match self.format.user_key_bytes {
                    0 => self.take_varint32(&mut input, NO_KEY_LENGTH, at)?,
                    fixed => fixed,
                };
                self.rest(at, input, &[], len, true)
            }
            Encoding::Prefix => self.prefix_row(at, input, base),
        }
    }

    /// Decodes a row with prefix encoding (`kPrefix`) at offset `at`, and updates `base`.
    fn prefix_row(&self, at: u32, mut input: &'d [u8], base: &mut Base) -> Result<Row<'d>, BadRow> {
        let (mut kind, mut len) = self.take_length(&mut input, at)?;
        if kind == KIND_PREFIX {
            if len > base.key_len {
                return Err(bad("prefix is longer than the previous key", at));
            }
            base.prefix_len = len;
            (kind, len) = self.take_length(&mut input, at)?;
            if kind != KIND_SUFFIX {
                return Err(bad("prefix without a suffix", at));
            }
        }
        match kind {
            KIND_FULL => {
                let row = self.rest(at, input, &[], len, true)?;
                *base = Base {
                    key_at: row.rest_at,
                    key_len: len,
                    prefix_len: Base::UNKNOWN,
                };
                Ok(row)
            }
            KIND_SUFFIX if base.prefix_len != Base::UNKNOWN => {
                let start = base.key_at as usize;
                let end = start.saturating_add(base.prefix_len as usize);
                let prefix = self.data.get(start..end).unwrap_or_default();
                self.rest(at, input, prefix, len, false)
            }
            KIND_SUFFIX => Err(bad("suffix without a preceding prefix", at)),
            _ => Err(bad("Un-identified size flag.", at)),
        }
    }

    /// Decodes the rest of the row at `at`: `len` bytes of the user key, its footer, and the value.
    #[inline]
    fn rest(
        &self,
        at: u32,
        mut input: &'d [u8],
        prefix: &'d [u8],
        len: u32,
        is_full: bool,
    ) -> Result<Row<'d>, BadRow> {
        let rest_at = self.offset(input);
        let (rest, behind) = input
            .split_at_checked(len as usize)
            .ok_or_else(|| self.cut_off(LONG_KEY, at, input, u64::from(len)))?;
        let (&first, short_rest) = behind
            .split_first()
            .ok_or_else(|| self.cut_off(NO_KEY_END, at, behind, 1))?;
        let has_footer = first != SHORT_TAIL;
        let footer = if has_footer {
            let (footer, behind) = behind
                .split_first_chunk::<FOOTER_BYTES>()
                .ok_or_else(|| self.cut_off(NO_KEY_END, at, behind, FOOTER_BYTES as u64))?;
            input = behind;
            if !is_point(first) {
                return Err(BadRow {
                    entry_type: Some(first),
                    ..bad("Corrupted key found during next key read", at)
                });
            }
            u64::from_le_bytes(*footer)
        } else {
            input = short_rest;
            SHORT_FOOTER
        };
        let value_len = self.take_varint32(&mut input, NO_VALUE_LENGTH, at)?;
        let value_at = self.offset(input);
        let (value, behind) = input
            .split_at_checked(value_len as usize)
            .ok_or_else(|| self.cut_off(LONG_VALUE, at, input, u64::from(value_len)))?;
        Ok(Row {
            prefix,
            rest,
            rest_at,
            footer,
            has_footer,
            value,
            value_at,
            at,
            next: self.offset(behind),
            is_full,
        })
    }

    /// Decodes a key length of the prefix encoding, with its kind: whole key, prefix or suffix.
    #[inline]
    fn take_length(&self, input: &mut &[u8], at: u32) -> Result<(u8, u32), BadRow> {
        let byte = coding::take_u8(input).map_err(|_| self.cut_off(NO_KEY_LENGTH, at, input, 1))?;
        let kind = byte >> KIND_SHIFT;
        let inline = byte & INLINE_LENGTH_MAX;
        if inline < INLINE_LENGTH_MAX {
            return Ok((kind, u32::from(inline)));
        }
        let more = self.take_varint32(input, NO_KEY_LENGTH, at)?;
        let len = more
            .checked_add(u32::from(INLINE_LENGTH_MAX))
            .ok_or_else(|| bad("a key of 4 GiB", at))?;
        Ok((kind, len))
    }

    /// Decodes a varint32 from the front of `input`; `what` describes a malformed one in the error.
    #[inline]
    fn take_varint32(&self, input: &mut &[u8], what: &'static str, at: u32) -> Result<u32, BadRow> {
        coding::take_varint32(input).map_err(|_| match input.len() {
            len @ ..VARINT32_BYTES_MAX => {
                self.cut_off(what, at, input, (len as u64).saturating_add(1))
            }
            _ => bad(what, at),
        })
    }

    /// Creates the error of a row at `at` of which at least `len` bytes from `rest` on are missing.
    #[cold]
    fn cut_off(&self, what: &'static str, at: u32, rest: &[u8], len: u64) -> BadRow {
        let end = u64::from(self.offset(rest)).saturating_add(len);
        BadRow {
            cut_off_before: Some(end),
            ..bad(what, at)
        }
    }

    /// Returns the offset of `rest`, which must be a tail of the rows.
    #[inline]
    fn offset(&self, rest: &[u8]) -> u32 {
        let offset = self.data.len().saturating_sub(rest.len());
        u32::try_from(offset).unwrap_or(u32::MAX)
    }
}

/// Whether a type byte is valid for a row: every known type except range deletion.
#[inline]
fn is_point(type_byte: u8) -> bool {
    ValueType::from_byte(type_byte).is_some_and(|kind| kind != ValueType::RangeDeletion)
}

/// Creates the reason for a malformed row at offset `at`.
#[cold]
pub(crate) fn bad(what: &'static str, at: u32) -> BadRow {
    BadRow {
        what,
        at,
        entry_type: None,
        cut_off_before: None,
    }
}

/// Encodes the footer of version 0, the only one RocksDB writes for plain tables.
///
/// # Errors
/// `InvalidArgument` if the handle takes too many bytes, which no file's does.
pub(crate) fn legacy_footer(metaindex: BlockHandle) -> Result<Vec<u8>> {
    let magic = TableKind::Plain.legacy_magic().unwrap_or_default();
    let mut footer = metaindex.to_vec();
    BlockHandle::NULL.encode_into(&mut footer);
    let padded = LEGACY_FOOTER_BYTES.saturating_sub(size_of_val(&magic));
    if footer.len() > padded {
        return Err(Error::invalid_argument("the handles do not fit the footer"));
    }
    footer.resize(padded, 0);
    coding::put_fixed64(&mut footer, magic);
    Ok(footer)
}

/// Appends a key length of the prefix encoding, with its kind: whole key, prefix or suffix.
fn put_length(out: &mut Vec<u8>, kind: u8, len: u32) {
    match u8::try_from(len) {
        Ok(len) if len < INLINE_LENGTH_MAX => out.push(kind << KIND_SHIFT | len),
        _ => {
            out.push(kind << KIND_SHIFT | INLINE_LENGTH_MAX);
            coding::put_varint32(out, len.saturating_sub(u32::from(INLINE_LENGTH_MAX)));
        }
    }
}

/// Appends the rest of a row: the key bytes `rest`, sequence number and type, and the value.
fn put_rest(out: &mut Vec<u8>, rest: &[u8], footer: u64, value: &[u8]) -> Result<()> {
    out.extend_from_slice(rest);
    if footer == SHORT_FOOTER {
        out.push(SHORT_TAIL);
    } else {
        out.extend_from_slice(&footer.to_le_bytes());
    }
    coding::put_varint32(out, coding::to_u32(value.len(), "value")?);
    out.extend_from_slice(value);
    Ok(())
}

/// An encoder of plain table rows, which keeps the state of the preceding rows.
#[derive(Debug)]
pub(crate) struct RowEncoder {
    format: RowFormat,
    /// The number of keys of a prefix after which a key is stored whole; at least 1.
    whole_interval: u64,
    /// The number of rows since the last whole key, including it; 0 before the first row.
    since_whole: u64,
    last_prefix: Vec<u8>,
}

impl RowEncoder {
    /// Creates an encoder that stores one in `index_sparseness` keys of a prefix whole; 0 means 1.
    pub(crate) fn new(format: RowFormat, index_sparseness: u64) -> Self {
        RowEncoder {
            format,
            whole_interval: index_sparseness.max(1),
            since_whole: 0,
            last_prefix: Vec::new(),
        }
    }

    /// Appends an encoded row to `out`; `prefix`, the key's prefix, matters to the prefix encoding.
    ///
    /// # Errors
    /// `InvalidArgument` if key or value have 4 GiB or more.
    pub(crate) fn put(
        &mut self,
        out: &mut Vec<u8>,
        prefix: &[u8],
        user_key: &[u8],
        footer: u64,
        value: &[u8],
    ) -> Result<()> {
        let user_len = coding::to_u32(user_key.len(), "key")?;
        match self.format.encoding {
            Encoding::Plain => {
                if self.format.user_key_bytes == 0 {
                    coding::put_varint32(out, user_len);
                }
                put_rest(out, user_key, footer, value)
            }
            Encoding::Prefix => {
                let is_due = self
                    .since_whole
                    .checked_rem(self.whole_interval)
                    .unwrap_or(0)
                    == 0;
                if is_due || prefix != self.last_prefix {
                    self.since_whole = 1;
                    self.last_prefix.clear();
                    self.last_prefix.extend_from_slice(prefix);
                    put_length(out, KIND_FULL, user_len);
                    return put_rest(out, user_key, footer, value);
                }
                self.since_whole = self.since_whole.saturating_add(1);
                let prefix_len = coding::to_u32(prefix.len(), "key")?;
                if self.since_whole == 2 {
                    put_length(out, KIND_PREFIX, prefix_len);
                }
                put_length(out, KIND_SUFFIX, user_len.saturating_sub(prefix_len));
                let rest = user_key.get(prefix.len()..).unwrap_or_default();
                put_rest(out, rest, footer, value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koeldb_base::key::encode;
    use proptest::prelude::*;

    fn rows(data: &[u8], encoding: Encoding) -> Rows<'_> {
        Rows {
            data,
            format: RowFormat {
                encoding,
                user_key_bytes: 0,
            },
        }
    }

    fn decode(rows: Rows<'_>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let (mut at, mut base, mut entries) = (0, Base::NONE, Vec::new());
        while at < rows.end() {
            let row = rows.row(at, &mut base)?;
            let mut key = Vec::new();
            row.key_into(&mut key);
            assert_eq!(row.key_len(), key.len());
            assert!(row.next > at, "no progress");
            entries.push((key, row.value.to_vec()));
            at = row.next;
        }
        Ok(entries)
    }

    #[test]
    fn prefixes_are_written_as_rocksdb_writes_them() {
        let format = RowFormat {
            encoding: Encoding::Prefix,
            user_key_bytes: 0,
        };
        let mut encoder = RowEncoder::new(format, 16);
        let mut out = Vec::new();
        for (key, value) in [
            ("p00000000", "v0"),
            ("p00000030", "v30"),
            ("p00000060", "v60"),
        ] {
            let key = key.as_bytes();
            encoder
                .put(&mut out, &key[..3], key, SHORT_FOOTER, value.as_bytes())
                .unwrap();
        }
        let expected = b"\x09p00000000\xff\x02v0\x43\x86000030\xff\x03v30\x86000060\xff\x03v60";
        assert_eq!(out, expected);
        let entries = decode(rows(&out, Encoding::Prefix)).unwrap();
        assert_eq!(entries[2].0, encode(b"p00000060", 0, ValueType::Value));
    }

    #[test]
    fn rows_that_need_what_is_not_there_are_refused() {
        for damaged in [
            &b"\x86000030\xff\x03v30"[..],
            b"\x43\x86000030\xff\x03v30",
            b"\x09p00000000\xff\x02v0\x86000030\xff\x03v30",
            b"\x09p00000000\xff\x02v0\x4a\x80\xff\x03v30",
            b"\x09p00000000\xff\x02v0\x43\x43\x86000030\xff\x03v30",
            b"\xc9p00000000\xff\x02v0",
            b"\x01p\x0f\0\0\0\0\0\0\0\0",
            b"\x3f\xff\xff\xff\xff\x0f",
        ] {
            assert!(
                decode(rows(damaged, Encoding::Prefix)).is_err(),
                "{damaged:?}"
            );
        }
    }

    fn entries() -> impl Strategy<Value = Vec<(Vec<u8>, u64, Vec<u8>)>> {
        let key = prop::collection::vec(b'a'..=b'c', 2..90);
        let footer = (0_u64..3, any::<bool>()).prop_map(|(seqno, is_value)| {
            let kind = if is_value {
                ValueType::Value
            } else {
                ValueType::Deletion
            };
            pack(seqno, kind)
        });
        let value = prop::collection::vec(any::<u8>(), 0..200);
        prop::collection::vec((key, footer, value), 0..40)
    }

    proptest! {
        #[test]
        fn rows_round_trip(entries in entries(), prefix_len in 0_usize..3, interval in 0_u64..5) {
            for encoding in [Encoding::Plain, Encoding::Prefix] {
                let format = RowFormat { encoding, user_key_bytes: 0 };
                let mut encoder = RowEncoder::new(format, interval);
                let mut out = Vec::new();
                for (key, footer, value) in &entries {
                    encoder.put(&mut out, &key[..prefix_len], key, *footer, value).unwrap();
                }
                let expected: Vec<_> = entries.iter().map(|(key, footer, value)| {
                    ([key, &footer.to_le_bytes()[..]].concat(), value.clone())
                }).collect();
                prop_assert_eq!(decode(rows(&out, encoding)).unwrap(), expected);
            }
        }

        #[test]
        fn any_bytes_are_rows_or_an_error(bytes: Vec<u8>, fixed in 0_u32..4) {
            for encoding in [Encoding::Plain, Encoding::Prefix] {
                let format = RowFormat { encoding, user_key_bytes: fixed };
                let _ = decode(Rows { data: &bytes, format });
            }
        }

        #[test]
        fn a_row_compares_as_its_key(
            full in prop::collection::vec(b'a'..=b'c', 0..6),
            rest in prop::collection::vec(b'a'..=b'c', 0..4),
            other in prop::collection::vec(b'a'..=b'c', 0..8),
            prefix_len in 0_usize..6,
        ) {
            let prefix_len = prefix_len.min(full.len());
            let mut out = Vec::new();
            put_length(&mut out, KIND_FULL, u32::try_from(full.len()).unwrap());
            put_rest(&mut out, &full, SHORT_FOOTER, b"").unwrap();
            let second = u32::try_from(out.len()).unwrap();
            put_length(&mut out, KIND_PREFIX, u32::try_from(prefix_len).unwrap());
            put_length(&mut out, KIND_SUFFIX, u32::try_from(rest.len()).unwrap());
            put_rest(&mut out, &rest, SHORT_FOOTER, b"").unwrap();
            let rows = rows(&out, Encoding::Prefix);
            let mut base = Base::NONE;
            rows.row(0, &mut base).unwrap();
            let row = rows.row(second, &mut base).unwrap();
            let key = [&full[..prefix_len], &rest].concat();
            for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise] {
                prop_assert_eq!(row.compare_user(&order, &other), order.compare(&key, &other));
            }
        }
    }
}
