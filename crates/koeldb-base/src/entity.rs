//! Wide-column entities: the values of type `16`, which hold named columns.
//!
//! ```text
//! version 1: varint32 1 | varint32 count | count x (length-prefixed name | varint32 value length)
//!            | values
//! version 2: varint32 2 | varint32 count | varint32 bytes of name lengths
//!            | varint32 bytes of value lengths | varint32 bytes of names | count x type
//!            | name lengths | value lengths | names | values
//! ```
//!
//! Names ascend bytewise. The default column has the empty name and therefore comes first. The
//! values end with the entity. A type of version 2 is `01` for a value, and `11` for the index of a
//! value in a blob file. Writes have version 1. The format is RocksDB's
//! (`db/wide/wide_column_serialization.cc`; `docs/formats/keys.md`).
//!
//! References are replaced by their values before columns are shown
//! ([`Merger::whole_entity`](crate::merge_operator::Merger::whole_entity)).

mod columns;

pub use columns::{Columns, ColumnsIter, WideColumns};

use std::ops::Range;

use crate::coding;
use crate::error::{Error, Result};
use crate::key::ValueType;
use crate::pinned::PinnedSlice;

/// The name of the default column, whose value a plain read shows.
pub const DEFAULT_COLUMN: &[u8] = b"";

const VERSION_INLINE: u32 = 1;
const VERSION_REFERENCES: u32 = 2;

/// The type of a column of version 2 whose value is in the entity.
const TYPE_INLINE: u8 = 0x01;
/// The type of a column of version 2 whose value is in a blob file.
const TYPE_BLOB_INDEX: u8 = 0x11;

/// The value of a column as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnValue<'a> {
    /// The value itself.
    Inline(&'a [u8]),
    /// The index of the value in a blob file.
    BlobIndex(&'a [u8]),
}

impl<'a> ColumnValue<'a> {
    /// Returns the value if it is in the entity.
    ///
    /// # Errors
    /// `NotSupported` for a value in a blob file.
    pub fn inline(self) -> Result<&'a [u8]> {
        match self {
            ColumnValue::Inline(value) => Ok(value),
            ColumnValue::BlobIndex(_) => Err(Error::not_supported(
                "the value of a column is in a blob file, which only an open database reads",
            )),
        }
    }

    /// The stored bytes: the value or the index.
    fn bytes(self) -> &'a [u8] {
        match self {
            ColumnValue::Inline(bytes) | ColumnValue::BlobIndex(bytes) => bytes,
        }
    }
}

/// The part of an entity that describes its columns: what is not read yet.
#[derive(Clone, Copy, Debug)]
enum Index<'a> {
    /// Version 1: names and value lengths alternate.
    Pairs(&'a [u8]),
    /// Version 2: each part has its own section.
    Sections {
        types: &'a [u8],
        name_lengths: &'a [u8],
        value_lengths: &'a [u8],
        names: &'a [u8],
    },
}

/// The description of a column: its name, and the length and type of its value.
struct ColumnEntry<'a> {
    name: &'a [u8],
    value_bytes: u32,
    is_blob_index: bool,
}

impl<'a> Index<'a> {
    /// Reads the description of the next column.
    fn take(&mut self) -> Result<ColumnEntry<'a>> {
        match self {
            Index::Pairs(input) => Ok(ColumnEntry {
                name: coding::take_length_prefixed(input)?,
                value_bytes: coding::take_varint32(input)?,
                is_blob_index: false,
            }),
            Index::Sections {
                types,
                name_lengths,
                value_lengths,
                names,
            } => {
                let is_blob_index = match coding::take_u8(types)? {
                    TYPE_INLINE => false,
                    TYPE_BLOB_INDEX => true,
                    other => {
                        return Err(Error::corruption(format!(
                            "wide-column entity has a column of unknown type {other:#04x}"
                        )));
                    }
                };
                let name_bytes = coding::take_varint32(name_lengths)? as usize;
                Ok(ColumnEntry {
                    name: coding::take_bytes(names, name_bytes)?,
                    value_bytes: coding::take_varint32(value_lengths)?,
                    is_blob_index,
                })
            }
        }
    }

    /// The number of bytes of the index that are not read yet.
    fn bytes_left(&self) -> usize {
        match self {
            Index::Pairs(input) => input.len(),
            Index::Sections {
                types,
                name_lengths,
                value_lengths,
                names,
            } => types.len() + name_lengths.len() + value_lengths.len() + names.len(),
        }
    }
}

/// A decoded wide-column entity, whose columns are valid and sorted.
#[derive(Clone, Copy, Debug)]
pub struct Entity<'a> {
    count: u32,
    index: Index<'a>,
    /// The values of all columns.
    values: &'a [u8],
    has_blob_indexes: bool,
}

impl<'a> Entity<'a> {
    /// Decodes a wide-column entity of version 1 or 2, and validates it completely.
    ///
    /// # Errors
    /// `Corruption` if the entity is malformed or of another version.
    pub fn decode(entity: &'a [u8]) -> Result<Self> {
        let mut input = entity;
        let version = coding::take_varint32(&mut input)?;
        let count = coding::take_varint32(&mut input)?;
        let (index, values) = match version {
            VERSION_INLINE => (Index::Pairs(input), None),
            VERSION_REFERENCES => {
                let name_lengths = coding::take_varint32(&mut input)? as usize;
                let value_lengths = coding::take_varint32(&mut input)? as usize;
                let names = coding::take_varint32(&mut input)? as usize;
                let index = Index::Sections {
                    types: coding::take_bytes(&mut input, count as usize)?,
                    name_lengths: coding::take_bytes(&mut input, name_lengths)?,
                    value_lengths: coding::take_bytes(&mut input, value_lengths)?,
                    names: coding::take_bytes(&mut input, names)?,
                };
                (index, Some(input))
            }
            version => {
                return Err(Error::corruption(format!(
                    "wide-column entity has unknown version {version}"
                )));
            }
        };
        let mut rest = index;
        let mut values_bytes = 0_u64;
        let mut has_blob_indexes = false;
        let mut previous: Option<&[u8]> = None;
        for _ in 0..count {
            let entry = rest.take()?;
            if previous.is_some_and(|previous| previous >= entry.name) {
                return Err(Error::corruption(
                    "wide-column entity has columns out of order",
                ));
            }
            previous = Some(entry.name);
            if entry.is_blob_index && entry.value_bytes == 0 {
                return Err(Error::corruption(
                    "wide-column entity has an empty index of a blob",
                ));
            }
            has_blob_indexes |= entry.is_blob_index;
            values_bytes = values_bytes.saturating_add(u64::from(entry.value_bytes));
        }
        let (index, values) = match (index, rest, values) {
            (Index::Pairs(all), Index::Pairs(values), _) => {
                let bytes = all.len().saturating_sub(values.len());
                (Index::Pairs(all.get(..bytes).unwrap_or_default()), values)
            }
            (index, rest, values) => {
                if rest.bytes_left() > 0 {
                    return Err(Error::corruption(
                        "wide-column entity has sections longer than its columns",
                    ));
                }
                (index, values.unwrap_or_default())
            }
        };
        if values_bytes != values.len() as u64 {
            return Err(Error::corruption(format!(
                "wide-column entity declares {values_bytes} bytes of values but has {}",
                values.len()
            )));
        }
        Ok(Entity {
            count,
            index,
            values,
            has_blob_indexes,
        })
    }

    /// The number of columns.
    #[must_use]
    pub fn column_count(&self) -> u32 {
        self.count
    }

    /// Whether the value of a column is in a blob file.
    #[must_use]
    pub fn has_blob_indexes(&self) -> bool {
        self.has_blob_indexes
    }

    /// The columns in ascending order of their names, with their values as stored.
    #[must_use]
    pub fn stored_columns(&self) -> StoredColumns<'a> {
        StoredColumns {
            left: self.count,
            index: self.index,
            values: self.values,
        }
    }

    /// The value of the default column as stored; `None` if the entity has none.
    fn stored_default(&self) -> Option<ColumnValue<'a>> {
        match self.stored_columns().next() {
            Some((DEFAULT_COLUMN, value)) => Some(value),
            _ => None,
        }
    }
}

/// The columns of an [`Entity`]: names in ascending order, and values as stored.
#[derive(Clone, Debug)]
pub struct StoredColumns<'a> {
    left: u32,
    index: Index<'a>,
    values: &'a [u8],
}

impl<'a> Iterator for StoredColumns<'a> {
    type Item = (&'a [u8], ColumnValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        // Neither fails: the entity was validated.
        let entry = self.index.take().ok()?;
        let value = coding::take_bytes(&mut self.values, entry.value_bytes as usize).ok()?;
        let value = match entry.is_blob_index {
            true => ColumnValue::BlobIndex(value),
            false => ColumnValue::Inline(value),
        };
        Some((entry.name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for StoredColumns<'_> {}

/// Encodes columns, in any order, as an entity of version 1.
///
/// # Errors
/// `InvalidArgument` if two columns have the same name, or a name or value has 4 GiB or more.
pub fn encode<N: AsRef<[u8]>, V: AsRef<[u8]>>(columns: &[(N, V)]) -> Result<Vec<u8>> {
    let mut sorted: Vec<(&[u8], &[u8])> = columns
        .iter()
        .map(|(name, value)| (name.as_ref(), value.as_ref()))
        .collect();
    sorted.sort_unstable_by_key(|&(name, _)| name);
    let mut twice = sorted.windows(2).filter_map(|pair| match pair {
        [(first, _), (second, _)] if first == second => Some(*first),
        _ => None,
    });
    if let Some(name) = twice.next() {
        return Err(Error::invalid_argument(format!(
            "the entity has two columns of the name \"{}\": a name may occur once",
            name.escape_ascii()
        )));
    }
    encode_sorted(&sorted)
}

/// Encodes columns, which ascend by name, as an entity of version 1.
fn encode_sorted(columns: &[(&[u8], &[u8])]) -> Result<Vec<u8>> {
    let too_long = |_| Error::invalid_argument("a name or value of a column has 4 GiB or more");
    let count = u32::try_from(columns.len())
        .map_err(|_| Error::invalid_argument("an entity of 4 Gi columns or more"))?;
    let bytes: usize = columns.iter().map(|(n, v)| n.len() + v.len() + 10).sum();
    let mut out = Vec::with_capacity(bytes + 10);
    coding::put_varint32(&mut out, VERSION_INLINE);
    coding::put_varint32(&mut out, count);
    for (name, value) in columns {
        coding::put_varint32(&mut out, u32::try_from(name.len()).map_err(too_long)?);
        out.extend_from_slice(name);
        coding::put_varint32(&mut out, u32::try_from(value.len()).map_err(too_long)?);
    }
    for (_, value) in columns {
        out.extend_from_slice(value);
    }
    // A value of the database has less.
    coding::to_u32(out.len(), "wide-column entity")?;
    Ok(out)
}

/// Encodes columns, which ascend by name, as an entity of version 2, which may have references.
///
/// # Errors
/// `InvalidArgument` if a section would have 4 GiB or more.
pub fn encode_with_references(columns: &[(&[u8], ColumnValue<'_>)]) -> Result<Vec<u8>> {
    let fits = |bytes: usize| {
        u32::try_from(bytes)
            .map_err(|_| Error::invalid_argument("the columns of an entity have 4 GiB or more"))
    };
    let (mut types, mut name_lengths, mut value_lengths) = (Vec::new(), Vec::new(), Vec::new());
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (name, value) in columns {
        types.push(match value {
            ColumnValue::Inline(_) => TYPE_INLINE,
            ColumnValue::BlobIndex(_) => TYPE_BLOB_INDEX,
        });
        coding::put_varint32(&mut name_lengths, fits(name.len())?);
        coding::put_varint32(&mut value_lengths, fits(value.bytes().len())?);
        names.extend_from_slice(name);
        values.extend_from_slice(value.bytes());
    }
    let mut out = Vec::with_capacity(values.len() + names.len() + 8 * columns.len() + 25);
    coding::put_varint32(&mut out, VERSION_REFERENCES);
    for bytes in [&types, &name_lengths, &value_lengths, &names] {
        coding::put_varint32(&mut out, fits(bytes.len())?);
    }
    fits(values.len())?;
    for bytes in [types, name_lengths, value_lengths, names, values] {
        out.extend_from_slice(&bytes);
    }
    Ok(out)
}

/// Whether the value of a column of an entity is in a blob file; `false` for a malformed entity.
#[must_use]
pub fn has_blob_indexes(entity: &[u8]) -> bool {
    Entity::decode(entity).is_ok_and(|entity| entity.has_blob_indexes)
}

/// Whether the value of an entry of this type, or of one of its columns, is in a blob file.
#[must_use]
pub fn refers_to_blobs(value_type: ValueType, value: &[u8]) -> bool {
    match value_type {
        ValueType::BlobIndex => true,
        ValueType::WideColumnEntity => has_blob_indexes(value),
        _ => false,
    }
}

/// Returns the default column of a wide-column entity as stored, with its place in the entity.
///
/// `None` if the entity has no such column.
///
/// # Errors
/// `Corruption` if the entity is malformed.
pub fn stored_default(entity: &[u8]) -> Result<Option<(ColumnValue<'_>, Range<usize>)>> {
    let decoded = Entity::decode(entity)?;
    let Some(value) = decoded.stored_default() else {
        return Ok(None);
    };
    // The default column is the first, and the values are the end of the entity.
    let start = entity.len().saturating_sub(decoded.values.len());
    let end = start.saturating_add(value.bytes().len());
    Ok(Some((value, start..end)))
}

/// Returns a wide-column entity with `value` as default column and the other columns unchanged.
///
/// # Errors
/// `Corruption` if the entity is malformed; `InvalidArgument` if `value` is too long for an entity.
pub fn with_default_column(entity: &[u8], value: &[u8]) -> Result<Vec<u8>> {
    let decoded = Entity::decode(entity)?;
    let mut columns = vec![(DEFAULT_COLUMN, ColumnValue::Inline(value))];
    let others = decoded.stored_columns();
    columns.extend(others.filter(|(name, _)| *name != DEFAULT_COLUMN));
    encode_stored(&columns)
}

/// Returns a wide-column entity of version 1 with the values of all columns, read by `fetch`.
///
/// # Errors
/// `Corruption` if the entity is malformed; those of `fetch`.
pub fn with_values(
    entity: &[u8],
    fetch: &mut dyn FnMut(&[u8]) -> Result<PinnedSlice>,
) -> Result<Vec<u8>> {
    let mut moved = |reference: &[u8]| fetch(reference).map(MovedColumn::Inline);
    with_moved_columns(entity, &mut moved)
}

/// The new place of a column value that is in a blob file.
#[derive(Clone, Debug)]
pub enum MovedColumn {
    /// It stays where it is.
    Kept,
    /// The value itself goes to the entity.
    Inline(PinnedSlice),
    /// The value is in another blob file, with this index.
    BlobIndex(Vec<u8>),
}

/// Returns a wide-column entity whose references are replaced by what `moved` returns for them.
///
/// # Errors
/// `Corruption` if the entity is malformed; those of `moved`.
pub fn with_moved_columns(
    entity: &[u8],
    moved: &mut dyn FnMut(&[u8]) -> Result<MovedColumn>,
) -> Result<Vec<u8>> {
    let decoded = Entity::decode(entity)?;
    let mut new_values = Vec::new();
    for (_, value) in decoded.stored_columns() {
        new_values.push(match value {
            ColumnValue::Inline(_) => MovedColumn::Kept,
            ColumnValue::BlobIndex(reference) => moved(reference)?,
        });
    }
    let columns = decoded.stored_columns().zip(&new_values);
    let columns: Vec<_> = columns
        .map(|((name, old), new)| match new {
            MovedColumn::Kept => (name, old),
            MovedColumn::Inline(value) => (name, ColumnValue::Inline(value)),
            MovedColumn::BlobIndex(index) => (name, ColumnValue::BlobIndex(index)),
        })
        .collect();
    encode_stored(&columns)
}

/// Encodes columns, which ascend by name: as version 1 if all values are in the entity.
fn encode_stored(columns: &[(&[u8], ColumnValue<'_>)]) -> Result<Vec<u8>> {
    let inline: Option<Vec<_>> = columns
        .iter()
        .map(|&(name, value)| match value {
            ColumnValue::Inline(value) => Some((name, value)),
            ColumnValue::BlobIndex(_) => None,
        })
        .collect();
    match inline {
        Some(columns) => encode_sorted(&columns),
        None => encode_with_references(columns),
    }
}

#[cfg(test)]
mod tests;
