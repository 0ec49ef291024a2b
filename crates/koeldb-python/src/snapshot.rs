//! Snapshots: the database as it was at one moment.

use std::sync::{Arc, Mutex, PoisonError};

use koeldb::ReadOptions;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::arguments::Range;
use crate::entries::{Items, Keys, Scan, Values, compared, equals};
use crate::failure::{Outcome, missing};
use crate::family::{Family, Reads, answers};
use crate::process::Held;

/// The database as it was when the snapshot was taken: a mapping that does not change.
///
/// It keeps old versions of entries in the files until it is dropped. Reads have the default column
/// family, or the argument `family`.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Snapshot {
    /// `None` once it is released.
    snapshot: Mutex<Option<Arc<Held<Moment>>>>,
    default: Py<Family>,
}

/// What is read at a snapshot.
struct Moment {
    snapshot: koeldb::Snapshot,
    reads: Reads,
}

impl Snapshot {
    pub(crate) fn new(snapshot: koeldb::Snapshot, default: Py<Family>) -> Self {
        let moment = Moment {
            reads: Reads::new(ReadOptions::at(&snapshot)),
            snapshot,
        };
        Snapshot {
            snapshot: Mutex::new(Some(Arc::new(Held::new(moment)))),
            default,
        }
    }

    /// Returns what is read, which a release in another thread leaves until the end of the read.
    fn moment(&self) -> Outcome<Arc<Held<Moment>>> {
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        match &*snapshot {
            Some(moment) => Ok(Arc::clone(moment)),
            None => Err(PyValueError::new_err("the snapshot is released").into()),
        }
    }

    fn family<'a>(&'a self, family: Option<&'a Bound<'_, Family>>) -> &'a Family {
        family.map_or(self.default.get(), |family| family.get())
    }

    fn scan(
        &self,
        family: Option<&Bound<'_, Family>>,
        range: Outcome<Range>,
        reverse: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Scan> {
        self.family(family).scan(
            Some(&self.moment()?.get()?.snapshot),
            range,
            reverse,
            options,
        )
    }
}

#[pymethods]
impl Snapshot {
    /// Returns the value of a key, or `default`.
    #[pyo3(signature = (key, default = None, *, family = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        family: Option<&Bound<'py, Family>>,
    ) -> Outcome<Option<Bound<'py, PyAny>>> {
        let found = self
            .family(family)
            .value(py, key, &self.moment()?.get()?.reads)?;
        Ok(found.map(Bound::into_any).or(default))
    }

    /// Returns the values of keys in their order, `None` for those that do not exist.
    #[pyo3(signature = (keys, *, family = None))]
    fn multi_get<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        family: Option<&Bound<'py, Family>>,
    ) -> Outcome<Bound<'py, PyList>> {
        answers(
            py,
            self.family(family),
            keys,
            &self.moment()?.get()?.reads.anywhere,
        )
    }

    /// Iterates over keys and values from `start` to `stop`, excluded, or with a prefix.
    #[pyo3(signature = (start = None, stop = None, *, prefix = None, reverse = false, family = None, **options))]
    fn items(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        family: Option<&Bound<'_, Family>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Items> {
        self.scan(family, Range::new(start, stop, prefix), reverse, options)
            .map(Items)
    }

    /// Iterates over keys; see `items`.
    #[pyo3(signature = (start = None, stop = None, *, prefix = None, reverse = false, family = None, **options))]
    fn keys(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        family: Option<&Bound<'_, Family>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Keys> {
        self.scan(family, Range::new(start, stop, prefix), reverse, options)
            .map(Keys)
    }

    /// Iterates over values; see `items`.
    #[pyo3(signature = (start = None, stop = None, *, prefix = None, reverse = false, family = None, **options))]
    fn values(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        family: Option<&Bound<'_, Family>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Values> {
        self.scan(family, Range::new(start, stop, prefix), reverse, options)
            .map(Values)
    }

    /// The number of the last write that the snapshot sees.
    #[getter]
    fn sequence_number(&self) -> Outcome<u64> {
        Ok(self.moment()?.get()?.snapshot.sequence_number())
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Outcome<Bound<'py, PyBytes>> {
        let found = self
            .default
            .get()
            .value(py, key, &self.moment()?.get()?.reads)?;
        found.ok_or_else(|| missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Outcome<bool> {
        self.default
            .get()
            .contains(py, key, &self.moment()?.get()?.reads)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyAny>> {
        let keys = self.scan(None, Range::new(None, None, None), false, None)?;
        Ok(Bound::new(py, Keys(keys))?.try_iter()?.into_any())
    }

    /// Compares the entries with those of another mapping, by a scan of all.
    fn __richcmp__(
        slf: &Bound<'_, Self>,
        other: &Bound<'_, PyAny>,
        operation: CompareOp,
    ) -> Outcome<Py<PyAny>> {
        let is_equal = match operation {
            CompareOp::Eq | CompareOp::Ne if slf.is(other) => Some(true),
            CompareOp::Eq | CompareOp::Ne => {
                let everything = Range::new(None, None, None);
                let scan = slf.get().scan(None, everything, false, None)?;
                equals(slf.py(), &scan, other)?
            }
            _ => None,
        };
        let result = is_equal.map(|is_equal| is_equal == matches!(operation, CompareOp::Eq));
        compared(slf.py(), result)
    }

    fn __len__(&self, py: Python<'_>) -> Outcome<usize> {
        self.scan(None, Range::new(None, None, None), false, None)?
            .count(py)
    }

    /// Releases the snapshot: it keeps nothing any more.
    fn release(&self) {
        let released = self
            .snapshot
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(released);
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, _arguments: &Bound<'_, PyAny>) {
        self.release();
    }
}
