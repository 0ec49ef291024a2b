//! Wide-column entities: the values of type `16`, which hold named columns.
//!
//! ```text
//! varint32 1 | varint32 count | count x (length-prefixed name | varint32 value length) | values
//! ```
//!
//! Names ascend bytewise. The default column has the empty name and therefore comes first. The
//! format is RocksDB's (`db/wide/wide_column_serialization.cc`; `docs/formats/keys.md`).

use crate::coding;
use crate::error::{Error, Result};
use crate::pinned::PinnedSlice;

const VERSION: u32 = 1;

/// A decoded wide-column entity: its default column's length, and its other columns as stored.
struct Entity<'a> {
    count: u32,
    /// Whether the first column is the default column.
    has_default: bool,
    default_len: usize,
    /// The names and value lengths of the other columns, as stored.
    other_columns: &'a [u8],
    /// The values of all columns.
    values: &'a [u8],
}

impl<'a> Entity<'a> {
    /// Decodes a wide-column entity into its default column and its other columns.
    ///
    /// # Errors
    /// `Corruption` if the entity is malformed; `NotSupported` for versions that refer to blobs.
    fn decode(entity: &'a [u8]) -> Result<Self> {
        let mut input = entity;
        match coding::take_varint32(&mut input)? {
            VERSION => {}
            version => {
                return Err(Error::not_supported(format!(
                    "wide-column entity has unknown version {version}"
                )));
            }
        }
        let count = coding::take_varint32(&mut input)?;
        let mut other_columns = input;
        let mut default_len = None;
        let mut values_len = 0_u64;
        let mut previous: Option<&[u8]> = None;
        for _ in 0..count {
            let name = coding::take_length_prefixed(&mut input)?;
            let len = coding::take_varint32(&mut input)?;
            if previous.is_some_and(|previous| previous >= name) {
                return Err(Error::corruption(
                    "wide-column entity has columns out of order",
                ));
            }
            previous = Some(name);
            if name.is_empty() {
                default_len = Some(len as usize);
                other_columns = input;
            }
            values_len += u64::from(len);
        }
        if values_len != input.len() as u64 {
            return Err(Error::corruption(format!(
                "wide-column entity declares {values_len} bytes of values but has {}",
                input.len()
            )));
        }
        Ok(Entity {
            count,
            has_default: default_len.is_some(),
            default_len: default_len.unwrap_or(0),
            other_columns: &other_columns[..other_columns.len() - input.len()],
            values: input,
        })
    }
}

/// Returns the value of the default column of a wide-column entity; empty if it has none.
///
/// # Errors
/// `Corruption` if the entity is malformed; `NotSupported` for versions that refer to blobs.
pub fn default_column(entity: &PinnedSlice) -> Result<PinnedSlice> {
    let decoded = Entity::decode(entity)?;
    let start = entity.len() - decoded.values.len();
    Ok(entity.subslice(start..start + decoded.default_len))
}

/// Returns a wide-column entity with `value` as default column and the other columns unchanged.
///
/// # Errors
/// See [`default_column`]; `NotSupported` if `value` is too long for an entity.
pub fn with_default_column(entity: &[u8], value: &[u8]) -> Result<Vec<u8>> {
    let decoded = Entity::decode(entity)?;
    let value_len = u32::try_from(value.len())
        .map_err(|_| Error::not_supported("a column of 4 GiB or more"))?;
    // The count and the new column take a few bytes more than before.
    let mut out = Vec::with_capacity(entity.len() + value.len() + 16);
    coding::put_varint32(&mut out, VERSION);
    coding::put_varint32(&mut out, decoded.count + u32::from(!decoded.has_default));
    coding::put_varint32(&mut out, 0);
    coding::put_varint32(&mut out, value_len);
    out.extend_from_slice(decoded.other_columns);
    out.extend_from_slice(value);
    out.extend_from_slice(&decoded.values[decoded.default_len..]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(bytes: &[u8]) -> PinnedSlice {
        PinnedSlice::copy_of(bytes)
    }

    #[test]
    fn the_default_column_is_found_in_an_entity() {
        let whole = entity(b"\x01\x02\x00\x02\x01a\x03vvxyz");
        assert_eq!(&default_column(&whole).unwrap()[..], b"vv");
        let without = entity(b"\x01\x01\x01a\x03xyz");
        assert_eq!(&default_column(&without).unwrap()[..], b"");
        assert!(default_column(&entity(b"\x01\x01\x00\x09vv")).is_err());
        assert!(default_column(&entity(b"\x01\x02\x01b\x00\x01a\x00")).is_err());
    }

    #[test]
    fn a_new_default_column_leaves_the_others_alone() {
        let with = b"\x01\x03\x00\x02\x01a\x03\x01b\x01vvxyz!";
        let changed = with_default_column(with, b"longer").unwrap();
        assert_eq!(changed, b"\x01\x03\x00\x06\x01a\x03\x01b\x01longerxyz!");
        let without = b"\x01\x01\x01a\x03xyz";
        let added = with_default_column(without, b"new").unwrap();
        assert_eq!(added, b"\x01\x02\x00\x03\x01a\x03newxyz");
        assert_eq!(
            with_default_column(b"\x01\x00", b"").unwrap(),
            b"\x01\x01\x00\x00"
        );
    }
}
