//! Fixed-width integers, varints and length-prefixed slices, as all files of the engine use them.
//!
//! Everything is little-endian. Varints are LEB128: seven bits per byte, least significant group
//! first, bit 7 set if more follow; at most 5 bytes for 32 bits and 10 for 64. Over-long encodings
//! are read, never written; bits beyond the type are corruption (`docs/formats/README.md`).
//!
//! `take_*` functions consume from the front of a slice; they never read past it.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use crate::error::{Error, Result};

// Miri runs the decoder tests as on a 32-bit machine: they pass on no number that does not fit.
const _: () = assert!(
    usize::BITS == 64 || cfg!(miri),
    "KoelDB supports 64-bit targets only"
);

/// Converts a 64-bit number to an index in memory; lossless, as only 64-bit targets are supported.
#[inline]
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "usize has 64 bits, asserted above"
)]
pub const fn to_usize(value: u64) -> usize {
    value as usize
}

/// Converts a length to the 32-bit number that formats store; the error names `what`.
///
/// # Errors
/// `InvalidArgument` if `len` does not fit.
#[inline]
pub fn to_u32(len: usize, what: &str) -> Result<u32> {
    u32::try_from(len).map_err(|_| too_large(len, what))
}

/// Returns the `InvalidArgument` error of `what`, whose length does not fit into 32 bits.
#[cold]
fn too_large(len: usize, what: &str) -> Error {
    Error::invalid_argument(format!(
        "{what} is too large: {len} bytes, at most {}",
        u32::MAX
    ))
}

/// Appends a 16-bit little-endian number.
pub fn put_fixed16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a 32-bit little-endian number.
pub fn put_fixed32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a 64-bit little-endian number.
pub fn put_fixed64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a varint of up to 32 bits.
#[inline]
pub fn put_varint32(out: &mut Vec<u8>, value: u32) {
    put_varint64(out, u64::from(value));
}

/// Appends a varint of up to 64 bits.
#[inline]
pub fn put_varint64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// The number of bytes of `value` as a varint.
#[must_use]
pub fn varint_len(value: u64) -> usize {
    let bits = 64_u32.saturating_sub((value | 1).leading_zeros());
    bits.div_ceil(7) as usize
}

/// Appends the length as a varint, then the bytes.
///
/// # Panics
/// If the slice is longer than 4 GiB; callers check lengths where data enters the engine.
pub fn put_length_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    assert!(
        bytes.len() <= u32::MAX as usize,
        "length-prefixed slice over 4 GiB"
    );
    put_varint64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Maps a signed number to an unsigned one by zigzag encoding: small magnitudes stay small.
#[must_use]
#[expect(clippy::cast_sign_loss, reason = "the bits are the format")]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[must_use]
#[expect(clippy::cast_possible_wrap, reason = "the bits are the format")]
pub fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ ((value & 1) as i64).wrapping_neg()
}

/// Decodes a varint of up to 32 bits into its value and length; `None` if malformed or truncated.
#[inline]
#[must_use]
pub fn decode_varint32(bytes: &[u8]) -> Option<(u32, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((u32::from(first), 1));
    }
    let (value, len) = decode_varint_slow(bytes, 5)?;
    Some((u32::try_from(value).ok()?, len))
}

/// Decodes a varint of up to 64 bits into its value and length; `None` if malformed or truncated.
#[inline]
#[must_use]
pub fn decode_varint64(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((u64::from(first), 1));
    }
    decode_varint_slow(bytes, 10)
}

/// Decodes a varint of at most `max` bytes; returns the value and the bytes used.
fn decode_varint_slow(bytes: &[u8], max: usize) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    let mut shift = 0_u32;
    for (index, &byte) in bytes.iter().enumerate().take(max) {
        let group = u64::from(byte & 0x7f);
        let placed = group << shift;
        if placed >> shift != group {
            return None;
        }
        value |= placed;
        if byte < 0x80 {
            return Some((value, index.saturating_add(1)));
        }
        shift = shift.saturating_add(7);
    }
    None
}

/// Reads the 16-bit number at `offset` of `bytes`; `None` if it is out of bounds.
#[inline]
#[must_use]
pub fn fixed16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// Reads the 32-bit number at `offset` of `bytes`; `None` if it is out of bounds.
#[inline]
#[must_use]
pub fn fixed32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// Reads the 64-bit number at `offset` of `bytes`; `None` if it is out of bounds.
#[inline]
#[must_use]
pub fn fixed64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// Takes `count` bytes off the front of `input`; `Corruption` if it is shorter.
///
/// # Errors
/// `Corruption` if fewer bytes remain; nothing is consumed then.
#[inline]
pub fn take_bytes<'a>(input: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    match input.split_at_checked(count) {
        Some((taken, rest)) => {
            *input = rest;
            Ok(taken)
        }
        None => Err(too_short(count, input.len())),
    }
}

/// Returns the `Corruption` error of an input of `found` bytes where `count` were expected.
#[cold]
fn too_short(count: usize, found: usize) -> Error {
    Error::corruption(format!("expected {count} bytes, found {found}"))
}

/// Takes one byte off the front of `input`.
///
/// # Errors
/// `Corruption` if no byte remains.
#[inline]
pub fn take_u8(input: &mut &[u8]) -> Result<u8> {
    let (&first, rest) = input
        .split_first()
        .ok_or_else(|| Error::corruption("expected a byte, found the end"))?;
    *input = rest;
    Ok(first)
}

/// Decodes a 32-bit number at the front of `input` and advances `input` past it.
///
/// # Errors
/// `Corruption` if fewer than 4 bytes remain.
pub fn take_fixed32(input: &mut &[u8]) -> Result<u32> {
    let value = fixed32_at(input, 0).ok_or_else(|| truncated("fixed32"))?;
    take_bytes(input, 4)?;
    Ok(value)
}

/// Decodes a 64-bit number at the front of `input` and advances `input` past it.
///
/// # Errors
/// `Corruption` if fewer than 8 bytes remain.
pub fn take_fixed64(input: &mut &[u8]) -> Result<u64> {
    let value = fixed64_at(input, 0).ok_or_else(|| truncated("fixed64"))?;
    take_bytes(input, 8)?;
    Ok(value)
}

/// Decodes a varint of up to 32 bits at the front of `input` and advances `input` past it.
///
/// # Errors
/// `Corruption` if it is truncated, longer than 5 bytes, or exceeds 32 bits.
#[inline]
pub fn take_varint32(input: &mut &[u8]) -> Result<u32> {
    let (value, len) = decode_varint32(input).ok_or_else(|| truncated("varint32"))?;
    take_bytes(input, len)?;
    Ok(value)
}

/// Decodes a varint of up to 64 bits at the front of `input` and advances `input` past it.
///
/// # Errors
/// `Corruption` if it is truncated, longer than 10 bytes, or exceeds 64 bits.
pub fn take_varint64(input: &mut &[u8]) -> Result<u64> {
    let (value, len) = decode_varint64(input).ok_or_else(|| truncated("varint64"))?;
    take_bytes(input, len)?;
    Ok(value)
}

/// Takes a length-prefixed slice off the front of `input`: a varint length and as many bytes.
///
/// # Errors
/// `Corruption` if the length is malformed or exceeds the remaining bytes.
#[inline]
pub fn take_length_prefixed<'a>(input: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = take_varint32(input)?;
    take_bytes(input, len as usize)
}

/// Returns the `Corruption` error of a malformed or truncated field, which `what` names.
#[cold]
fn truncated(what: &str) -> Error {
    Error::corruption(format!("malformed or truncated {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_round_trip_at_their_shortest(value: u64) {
            let mut out = Vec::new();
            put_varint64(&mut out, value);
            prop_assert_eq!(out.len(), varint_len(value));
            prop_assert_eq!(decode_varint64(&out), Some((value, out.len())));
            let narrow = decode_varint32(&out);
            prop_assert_eq!(narrow.map(|(v, _)| u64::from(v)), u32::try_from(value).ok().map(u64::from));
            prop_assert_eq!(unzigzag(zigzag(value.cast_signed())), value.cast_signed());
        }

        #[test]
        fn any_bytes_decode_to_a_value_or_an_error(bytes: Vec<u8>) {
            let mut input = bytes.as_slice();
            while !input.is_empty() {
                let before = input.len();
                if take_length_prefixed(&mut input).is_err() && take_u8(&mut input).is_err() {
                    break;
                }
                prop_assert!(input.len() < before);
            }
        }
    }

    #[test]
    fn bits_beyond_the_type_are_refused() {
        assert_eq!(
            decode_varint32(&[0xff, 0xff, 0xff, 0xff, 0x0f]),
            Some((u32::MAX, 5))
        );
        assert_eq!(decode_varint32(&[0xff, 0xff, 0xff, 0xff, 0x1f]), None);
        assert_eq!(decode_varint64(&[0xff; 10]), None);
        assert_eq!(
            decode_varint64(&[0x80, 0x00]),
            Some((0, 2)),
            "over-long forms are read"
        );
    }
}
