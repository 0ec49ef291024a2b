//! Keys, values and ranges of Python.

use std::borrow::Cow;

use koeldb::{KeyBounds, PrefixRange};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::failure::Outcome;
use crate::view::Buffer;

/// A key or value in the memory of Python, borrowed while this thread holds the GIL.
pub(crate) enum Bytes<'a, 'py> {
    Lent(&'a [u8]),
    Buffer(Buffer<'py>),
}

impl AsRef<[u8]> for Bytes<'_, '_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Bytes::Lent(bytes) => bytes,
            Bytes::Buffer(buffer) => buffer.bytes(),
        }
    }
}

/// Returns the bytes of a key or value, for calls that do not release the GIL.
pub(crate) fn bytes<'a, 'py>(object: &'a Bound<'py, PyAny>) -> Outcome<Bytes<'a, 'py>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Bytes::Lent(bytes.as_bytes()));
    }
    buffer(object).map(Bytes::Buffer)
}

/// A key or value that may be read without the GIL: the bytes of a `bytes` object, which never
/// change, or a copy of another buffer.
pub(crate) fn stable<'a>(object: &'a Bound<'_, PyAny>) -> Outcome<Cow<'a, [u8]>> {
    Ok(match bytes(object)? {
        Bytes::Lent(bytes) => Cow::Borrowed(bytes),
        Bytes::Buffer(buffer) => Cow::Owned(buffer.bytes().to_vec()),
    })
}

/// Returns a copy of a key or value.
pub(crate) fn owned(object: &Bound<'_, PyAny>) -> Outcome<Vec<u8>> {
    stable(object).map(Cow::into_owned)
}

/// Returns the contiguous buffer of an object; a `str` has none.
pub(crate) fn buffer<'py>(object: &Bound<'py, PyAny>) -> Outcome<Buffer<'py>> {
    if object.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(
            "keys and values are bytes: encode the str, for example by key.encode()",
        )
        .into());
    }
    Buffer::new(object)
}

/// The keys from `start` to `stop`, which is excluded, or those with a prefix.
#[derive(Clone)]
pub(crate) enum Range {
    Bounds(KeyBounds),
    Prefix(Vec<u8>),
}

impl Range {
    /// Reads the arguments of a scan.
    pub(crate) fn new(
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> Outcome<Self> {
        let (start, stop) = (start.map(owned).transpose()?, stop.map(owned).transpose()?);
        match prefix.map(owned).transpose()? {
            Some(_) if start.is_some() || stop.is_some() => Err(PyValueError::new_err(
                "a range has a prefix, or a start and a stop, not both",
            )
            .into()),
            Some(prefix) => Ok(Range::Prefix(prefix)),
            None => Ok(Range::Bounds(KeyBounds {
                lower: start.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Included),
                upper: stop.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded),
            })),
        }
    }

    /// Returns the part of the range that has one key, if it has it.
    pub(crate) fn at(self, key: &[u8]) -> One<'_> {
        One { range: self, key }
    }
}

/// The part of a range that has one key.
pub(crate) struct One<'a> {
    range: Range,
    key: &'a [u8],
}

impl koeldb::IterateBounds for One<'_> {
    fn into_bounds(self, order: &koeldb::KeyOrder) -> Option<KeyBounds> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let KeyBounds { lower, upper } = self.range.into_bounds(order)?;
        let is_above = match &lower {
            Included(least) => order.compare(least, self.key).is_le(),
            Excluded(below) => order.compare(below, self.key).is_lt(),
            Unbounded => true,
        };
        let is_below = match &upper {
            Included(most) => order.compare(self.key, most).is_le(),
            Excluded(above) => order.compare(self.key, above).is_lt(),
            Unbounded => true,
        };
        let key = self.key.to_vec();
        Some(KeyBounds {
            lower: Included(key.clone()),
            upper: if is_above && is_below {
                Included(key)
            } else {
                Excluded(key)
            },
        })
    }
}

impl koeldb::IterateBounds for Range {
    fn into_bounds(self, order: &koeldb::KeyOrder) -> Option<KeyBounds> {
        match self {
            Range::Bounds(bounds) => Some(bounds),
            Range::Prefix(prefix) => PrefixRange(prefix).into_bounds(order),
        }
    }
}
