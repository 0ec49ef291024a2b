//! Views of keys, values and entries in a range, and their iterators.

use koeldb::{ColumnFamily, ReadOptions};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBytes, PyDict, PySet, PyTuple};

use crate::arguments::{Range, owned};
use crate::calls::{Guarded, detached, detached_value};
use crate::chunk::{Chunk, Reader};
use crate::failure::{Failure, Outcome};
use crate::process::Held;

/// The items of a scan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Keys,
    Values,
    Items,
}

/// A range of a column family, which can be scanned again and again.
pub(crate) struct Scan {
    family: Held<ColumnFamily>,
    /// They may have a snapshot.
    options: Held<ReadOptions>,
    range: Range,
    reverse: bool,
}

impl Scan {
    pub(crate) fn new(
        family: &ColumnFamily,
        options: ReadOptions,
        range: Range,
        reverse: bool,
    ) -> Self {
        Scan {
            family: Held::new(family.clone()),
            options: Held::new(options),
            range,
            reverse,
        }
    }

    /// Begins to read the range.
    pub(crate) fn reader(
        &self,
        py: Python<'_>,
        reverse: bool,
        has_values: bool,
    ) -> Outcome<Held<Reader>> {
        let (family, options) = (self.family.get()?, self.options.get()?);
        detached_value(py, || {
            let mut cursor = family.cursor_opt(options);
            cursor.set_range(self.range.clone());
            let reader = Reader::new(cursor, reverse, has_values);
            Held::new(reader)
        })
    }

    fn entries(&self, py: Python<'_>, what: What, reverse: bool) -> Outcome<Entries> {
        let reader = self.reader(py, reverse, what != What::Keys)?;
        Ok(Entries::new(reader, what))
    }

    pub(crate) fn count(&self, py: Python<'_>) -> Outcome<usize> {
        let mut reader = self.reader(py, false, false)?;
        let reader = reader.get_mut()?;
        detached(py, || reader.count())
    }

    /// Whether a key is in the range, with a value that passes a test.
    fn has(
        &self,
        py: Python<'_>,
        key: &[u8],
        test: impl Fn(&[u8]) -> bool + Sync,
    ) -> Outcome<bool> {
        let (family, options) = (self.family.get()?, self.options.get()?);
        let range = &self.range;
        detached(py, || {
            let mut cursor = family.cursor_opt(options);
            cursor.set_range(range.clone().at(key));
            Ok::<_, koeldb::Error>(
                cursor.seek_to_first()? && cursor.entry().is_some_and(|(_, value)| test(value)),
            )
        })
    }

    /// Counts the items of the range, and those that a set has.
    fn compare(
        &self,
        py: Python<'_>,
        what: What,
        set: &Bound<'_, PySet>,
    ) -> Outcome<(usize, usize)> {
        let (mut count, mut common) = (0, 0);
        for item in Bound::new(py, self.entries(py, what, false)?)?.try_iter()? {
            count += 1;
            common += usize::from(set.contains(item?)?);
        }
        Ok((count, common))
    }

    /// Returns the items of the range that a set has, or has not, as a set.
    fn chosen<'py>(
        &self,
        py: Python<'py>,
        what: What,
        set: &Bound<'py, PySet>,
        has: bool,
    ) -> Outcome<Bound<'py, PySet>> {
        let chosen = PySet::empty(py)?;
        for item in Bound::new(py, self.entries(py, what, false)?)?.try_iter()? {
            let item = item?;
            if set.contains(&item)? == has {
                chosen.add(item)?;
            }
        }
        Ok(chosen)
    }

    /// Whether an item is among those of the range.
    fn any(
        &self,
        py: Python<'_>,
        what: What,
        test: impl Fn(&[u8], &[u8]) -> bool + Sync,
    ) -> Outcome<bool> {
        let mut reader = self.reader(py, false, what != What::Keys)?;
        let reader = reader.get_mut()?;
        let mut found = false;
        detached(py, || -> koeldb::Result<()> {
            while !found && reader.visit(1, |key, value| found = test(key, value))? {}
            Ok(())
        })?;
        Ok(found)
    }
}

/// Defines a view.
macro_rules! view {
    ($name:ident, $what:expr, $text:literal, $documentation:literal, {$($set:tt)*}) => {
        #[doc = $documentation]
        #[pyclass(module = "koeldb", frozen)]
        pub(crate) struct $name(pub(crate) Scan);

        #[pymethods]
        impl $name {
            fn __iter__(&self, py: Python<'_>) -> Outcome<Entries> {
                self.0.entries(py, $what, self.0.reverse)
            }

            fn __reversed__(&self, py: Python<'_>) -> Outcome<Entries> {
                self.0.entries(py, $what, !self.0.reverse)
            }

            fn __len__(&self, py: Python<'_>) -> Outcome<usize> {
                self.0.count(py)
            }

            fn __contains__(&self, py: Python<'_>, item: &Bound<'_, PyAny>) -> Outcome<bool> {
                contains(py, &self.0, $what, item)
            }

            fn __repr__(&self) -> &'static str {
                $text
            }

            $($set)*
        }
    };
}

/// Defines a view with the operations of sets, as those of a dictionary have them.
macro_rules! set {
    ($name:ident, $what:expr, $text:literal, $documentation:literal) => {
        view!($name, $what, $text, $documentation, {
            /// Compares with a set, or a view that is one.
            fn __richcmp__(
                &self,
                py: Python<'_>,
                other: &Bound<'_, PyAny>,
                operation: CompareOp,
            ) -> Outcome<Py<PyAny>> {
                let sets = py.import("collections.abc")?.getattr("Set")?;
                if !other.is_instance(&sets)? {
                    return compared(py, None);
                }
                let other = set_of(other)?;
                let (count, common) = self.0.compare(py, $what, &other)?;
                let (is_part, is_whole) = (common == count, common == other.len());
                let result = match operation {
                    CompareOp::Eq => is_part && is_whole,
                    CompareOp::Ne => !(is_part && is_whole),
                    CompareOp::Le => is_part,
                    CompareOp::Lt => is_part && !is_whole,
                    CompareOp::Ge => is_whole,
                    CompareOp::Gt => is_whole && !is_part,
                };
                compared(py, Some(result))
            }

            fn __and__<'py>(
                &self,
                py: Python<'py>,
                other: &Bound<'py, PyAny>,
            ) -> Outcome<Bound<'py, PySet>> {
                self.0.chosen(py, $what, &set_of(other)?, true)
            }

            fn __rand__<'py>(
                &self,
                py: Python<'py>,
                other: &Bound<'py, PyAny>,
            ) -> Outcome<Bound<'py, PySet>> {
                self.__and__(py, other)
            }

            fn __sub__<'py>(
                &self,
                py: Python<'py>,
                other: &Bound<'py, PyAny>,
            ) -> Outcome<Bound<'py, PySet>> {
                self.0.chosen(py, $what, &set_of(other)?, false)
            }

            fn __rsub__<'py>(
                &self,
                py: Python<'py>,
                other: &Bound<'py, PyAny>,
            ) -> Outcome<Bound<'py, PySet>> {
                let rest = set_of(other)?;
                for item in Bound::new(py, self.0.entries(py, $what, false)?)?.try_iter()? {
                    rest.discard(item?)?;
                }
                Ok(rest)
            }

            fn __or__<'py>(
                &self,
                py: Python<'py>,
                other: &Bound<'py, PyAny>,
            ) -> Outcome<Bound<'py, PySet>> {
                let all = set_of(other)?;
                for item in Bound::new(py, self.0.entries(py, $what, false)?)?.try_iter()? {
                    all.add(item?)?;
                }
                Ok(all)
            }

            fn __ror__<'py>(
                &self,
                py: Python<'py>,
                other: &Bound<'py, PyAny>,
            ) -> Outcome<Bound<'py, PySet>> {
                self.__or__(py, other)
            }

            fn __xor__<'py>(
                &self,
                py: Python<'py>,
                other: &Bound<'py, PyAny>,
            ) -> Outcome<Bound<'py, PySet>> {
                let either = set_of(other)?;
                for item in Bound::new(py, self.0.entries(py, $what, false)?)?.try_iter()? {
                    let item = item?;
                    if !either.discard(&item)? {
                        either.add(item)?;
                    }
                }
                Ok(either)
            }

            fn __rxor__<'py>(
                &self,
                py: Python<'py>,
                other: &Bound<'py, PyAny>,
            ) -> Outcome<Bound<'py, PySet>> {
                self.__xor__(py, other)
            }

            /// Whether the view has no item of an iterable.
            #[pyo3(signature = (other, /))]
            fn isdisjoint(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Outcome<bool> {
                Ok(self.0.compare(py, $what, &set_of(other)?)?.1 == 0)
            }
        });
    };
}

/// Returns the result of a comparison; `None` is one that the other object may know.
fn compared(py: Python<'_>, result: Option<bool>) -> Outcome<Py<PyAny>> {
    Ok(match result {
        Some(result) => result.into_pyobject(py)?.to_owned().into_any().unbind(),
        None => py.NotImplemented(),
    })
}

/// Returns a new set of the items of an iterable.
fn set_of<'py>(items: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PySet>> {
    let set = PySet::empty(items.py())?;
    for item in items.try_iter()? {
        set.add(item?)?;
    }
    Ok(set)
}

/// Compares the entries of a scan with those of another mapping, for `==` and `!=`.
pub(crate) fn compare_mappings<T>(
    slf: &Bound<'_, T>,
    scan: impl FnOnce() -> Outcome<Scan>,
    other: &Bound<'_, PyAny>,
    operation: CompareOp,
) -> Outcome<Py<PyAny>> {
    let is_equal = match operation {
        CompareOp::Eq | CompareOp::Ne if slf.as_any().is(other) => Some(true),
        CompareOp::Eq | CompareOp::Ne => equals(slf.py(), &scan()?, other)?,
        _ => None,
    };
    let result = is_equal.map(|is_equal| is_equal == matches!(operation, CompareOp::Eq));
    compared(slf.py(), result)
}

/// Whether a mapping of Python has the entries of a scan and no others; `None` if it is no mapping.
fn equals(py: Python<'_>, scan: &Scan, other: &Bound<'_, PyAny>) -> Outcome<Option<bool>> {
    let mappings = py.import("collections.abc")?.getattr("Mapping")?;
    if !other.is_instance(&mappings)? {
        return Ok(None);
    }
    let entries = PyDict::new(py);
    for item in other.call_method0("items")?.try_iter()? {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item?.extract()?;
        entries.set_item(key, value)?;
    }
    let mut count = 0;
    for entry in Bound::new(py, scan.entries(py, What::Items, false)?)?.try_iter()? {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry?.extract()?;
        match entries.get_item(key)? {
            Some(other) if other.eq(value)? => count += 1,
            _ => return Ok(Some(false)),
        }
    }
    Ok(Some(count == entries.len()))
}

set!(
    Keys,
    What::Keys,
    "<koeldb.Keys>",
    "The keys in a range, in their order; each iteration sees the database as it is when it begins."
);
view!(
    Values,
    What::Values,
    "<koeldb.Values>",
    "The values of the keys in a range; each iteration sees the database as it is when it begins.",
    {}
);
set!(
    Items,
    What::Items,
    "<koeldb.Items>",
    "Pairs of key and value in a range; each iteration sees the database as it is when it begins."
);

/// Whether a view has an item: by a read of its key, or a scan for a value.
fn contains(py: Python<'_>, scan: &Scan, what: What, item: &Bound<'_, PyAny>) -> Outcome<bool> {
    if what == What::Items {
        let Ok((key, value)) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() else {
            return Ok(false);
        };
        let (key, value) = (owned(&key)?, owned(&value)?);
        return scan.has(py, &key, |other| other == value);
    }
    let item = owned(item)?;
    match what {
        What::Keys => scan.has(py, &item, |_| true),
        _ => scan.any(py, what, move |_, value| value == item),
    }
}

/// An iterator over keys, values or pairs of them.
///
/// It reads ahead without the GIL. It sees the database as it was when it began, and may be
/// used by several threads, each of which gets other entries.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Entries {
    what: What,
    state: Guarded<State>,
}

/// The state of an iteration.
struct State {
    /// `None` at the end.
    reader: Option<Held<Reader>>,
    chunk: Chunk,
    /// An error that comes behind the entries of the chunk.
    failure: Option<Failure>,
}

impl Entries {
    pub(crate) fn new(reader: Held<Reader>, what: What) -> Self {
        Entries {
            what,
            state: Guarded::new(State {
                reader: Some(reader),
                chunk: Chunk::default(),
                failure: None,
            }),
        }
    }
}

/// Returns what Python gets of an entry.
fn item<'py>(py: Python<'py>, what: What, key: &[u8], value: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    Ok(match what {
        What::Keys => PyBytes::new(py, key).into_any(),
        What::Values => PyBytes::new(py, value).into_any(),
        What::Items => {
            PyTuple::new(py, [PyBytes::new(py, key), PyBytes::new(py, value)])?.into_any()
        }
    })
}

#[pymethods]
impl Entries {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Outcome<Option<Bound<'py, PyAny>>> {
        let mut state = self.state.lock(py)?;
        let State {
            reader,
            chunk,
            failure,
        } = &mut *state;
        if let Some((key, value)) = chunk.next() {
            return Ok(Some(item(py, self.what, key, value)?));
        }
        if let Some(error) = failure.take() {
            *reader = None;
            return Err(error);
        }
        let Some(held) = reader else {
            return Ok(None);
        };
        let held = held.get_mut()?;
        *failure = detached(py, || held.fill(chunk)).err();
        match chunk.next() {
            Some((key, value)) => Ok(Some(item(py, self.what, key, value)?)),
            None => {
                *reader = None;
                failure.take().map_or(Ok(None), Err)
            }
        }
    }
}
