//! The columns of a key as readers see them: those of an entity, or a plain value as default column.

use std::fmt;

use super::{ColumnValue, DEFAULT_COLUMN, Entity, StoredColumns};
use crate::error::Result;
use crate::pinned::PinnedSlice;

/// The columns of a key, borrowed, in ascending order of their names (RocksDB: `WideColumns`).
///
/// A plain value is the default column, which has the empty name.
#[derive(Clone, Copy)]
pub struct Columns<'a>(Source<'a>);

/// The stored form of the columns.
#[derive(Clone, Copy)]
enum Source<'a> {
    Value(&'a [u8]),
    /// An entity without references.
    Entity(Entity<'a>),
}

impl<'a> Columns<'a> {
    /// Returns a plain value as the only column, the default one.
    #[must_use]
    pub fn of_value(value: &'a [u8]) -> Self {
        Columns(Source::Value(value))
    }

    /// Decodes the columns of an entity.
    ///
    /// # Errors
    /// `Corruption` if the entity is malformed; see [`ColumnValue::inline`].
    pub fn of_entity(entity: &'a [u8]) -> Result<Self> {
        let entity = Entity::decode(entity)?;
        if entity.has_blob_indexes() {
            for (_, value) in entity.stored_columns() {
                value.inline()?;
            }
        }
        Ok(Columns(Source::Entity(entity)))
    }

    /// Returns an iterator over the names and values, in ascending order of the names.
    #[must_use]
    pub fn iter(&self) -> ColumnsIter<'a> {
        ColumnsIter(match self.0 {
            Source::Value(value) => Rest::Value(Some(value)),
            Source::Entity(entity) => Rest::Entity(entity.stored_columns()),
        })
    }

    /// Returns the value of the column `name`; `None` if there is no such column.
    #[must_use]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&'a [u8]> {
        let name = name.as_ref();
        let mut columns = self.iter();
        columns.find_map(|(other, value)| (other == name).then_some(value))
    }

    /// Returns the value of the default column, which plain reads show; empty if there is none.
    #[must_use]
    pub fn default_value(&self) -> &'a [u8] {
        self.get(DEFAULT_COLUMN).unwrap_or_default()
    }

    /// The number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.0 {
            Source::Value(_) => 1,
            Source::Entity(entity) => entity.column_count() as usize,
        }
    }

    /// Whether there are no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the columns.
    #[must_use]
    pub fn to_vec(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let owned = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
        self.iter().map(owned).collect()
    }
}

impl<'a> IntoIterator for Columns<'a> {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = ColumnsIter<'a>;

    fn into_iter(self) -> ColumnsIter<'a> {
        self.iter()
    }
}

impl PartialEq for Columns<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Columns<'_> {}

impl fmt::Debug for Columns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |bytes: &[u8]| bytes.escape_ascii().to_string();
        f.debug_map()
            .entries(self.iter().map(|(n, v)| (escaped(n), escaped(v))))
            .finish()
    }
}

/// An iterator over the names and values of [`Columns`].
#[derive(Clone, Debug)]
pub struct ColumnsIter<'a>(Rest<'a>);

/// The columns that are not returned yet.
#[derive(Clone, Debug)]
enum Rest<'a> {
    Value(Option<&'a [u8]>),
    Entity(StoredColumns<'a>),
}

impl<'a> Iterator for ColumnsIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Rest::Value(value) => Some((DEFAULT_COLUMN, value.take()?)),
            Rest::Entity(columns) => match columns.next()? {
                (name, ColumnValue::Inline(value)) => Some((name, value)),
                // Excluded by `Columns::of_entity`.
                (_, ColumnValue::BlobIndex(_)) => None,
            },
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Rest::Value(value) => usize::from(value.is_some()),
            Rest::Entity(columns) => columns.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for ColumnsIter<'_> {}

/// The columns of a key that was read, not copied if long (RocksDB: `PinnableWideColumns`).
///
/// It is cheap to clone and does not depend on the database. A plain value is the default column,
/// which has the empty name.
#[derive(Clone)]
pub struct WideColumns {
    /// A plain value, or an entity without references.
    bytes: PinnedSlice,
    is_entity: bool,
}

impl WideColumns {
    /// Returns a plain value as the only column, the default one.
    #[must_use]
    pub fn from_value(value: PinnedSlice) -> Self {
        WideColumns {
            bytes: value,
            is_entity: false,
        }
    }

    /// Decodes the columns of an entity.
    ///
    /// # Errors
    /// `Corruption` if the entity is malformed; see [`ColumnValue::inline`].
    pub fn from_entity(entity: PinnedSlice) -> Result<Self> {
        Columns::of_entity(&entity)?;
        Ok(WideColumns {
            bytes: entity,
            is_entity: true,
        })
    }

    /// Whether the columns were stored as an entity, not as a plain value.
    #[must_use]
    pub fn is_entity(&self) -> bool {
        self.is_entity
    }

    /// The stored bytes: a plain value or an entity.
    #[must_use]
    pub fn stored(&self) -> &PinnedSlice {
        &self.bytes
    }

    /// Returns the columns, borrowed.
    #[must_use]
    pub fn columns(&self) -> Columns<'_> {
        let value = Columns::of_value(&self.bytes);
        match self.is_entity {
            // It was decoded before.
            true => Columns::of_entity(&self.bytes).unwrap_or(value),
            false => value,
        }
    }

    /// Returns an iterator over the names and values, in ascending order of the names.
    #[must_use]
    pub fn iter(&self) -> ColumnsIter<'_> {
        self.columns().iter()
    }

    /// Returns the value of the column `name`; `None` if there is no such column.
    #[must_use]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        self.columns().get(name)
    }

    /// Returns the value of the default column, which plain reads show; empty if there is none.
    #[must_use]
    pub fn default_value(&self) -> &[u8] {
        self.columns().default_value()
    }

    /// The number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns().len()
    }

    /// Whether there are no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the columns.
    #[must_use]
    pub fn to_vec(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.columns().to_vec()
    }
}

impl<'a> IntoIterator for &'a WideColumns {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = ColumnsIter<'a>;

    fn into_iter(self) -> ColumnsIter<'a> {
        self.iter()
    }
}

impl PartialEq for WideColumns {
    fn eq(&self, other: &Self) -> bool {
        self.columns() == other.columns()
    }
}

impl Eq for WideColumns {}

impl fmt::Debug for WideColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.columns().fmt(f)
    }
}
