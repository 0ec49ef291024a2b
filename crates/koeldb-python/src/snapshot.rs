//! Snapshots: the database as it was at one moment.

use std::sync::{Arc, Mutex, PoisonError};

use koeldb::ReadOptions;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::arguments::Range;
use crate::cursor::Cursor;
use crate::entries::{Items, Keys, Scan, Values, compare_mappings};
use crate::failure::{Outcome, missing};
use crate::family::{Family, answers};
use crate::process::Held;
use crate::reads::Reads;
use crate::settings::scan_options;

/// The database as it was when the snapshot was taken: a mapping that does not change.
///
/// It keeps old versions of entries in the files until it is released: by `release`, by the end of
/// its `with` block, or when the object is dropped. Reads are of the default column family, or of
/// the argument `family`. Reads after the release raise `ValueError`.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Snapshot {
    /// `None` once it is released.
    snapshot: Mutex<Option<Arc<Held<Moment>>>>,
    default: Py<Family>,
}

/// The snapshot, and the options of reads at it.
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

    /// Returns what a read uses; a release in another thread takes effect after the read.
    fn moment(&self) -> Outcome<Arc<Held<Moment>>> {
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        match &*snapshot {
            Some(moment) => Ok(Arc::clone(moment)),
            None => Err(PyValueError::new_err(
                "the snapshot is released: take another by Db.snapshot()",
            )
            .into()),
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

    fn everything(&self) -> Outcome<Scan> {
        self.scan(None, Range::new(None, None, None), false, None)
    }
}

#[pymethods]
impl Snapshot {
    /// Returns a position, which moves in both directions between `start` and `stop`.
    #[pyo3(signature = (start = None, stop = None, *, family = None, **options))]
    fn cursor(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        family: Option<&Bound<'_, Family>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Cursor> {
        let (family, moment) = (self.family(family), self.moment()?);
        family.handle_of(self.default.get().shared())?;
        family.position(py, Some(&moment.get()?.snapshot), start, stop, options)
    }

    /// Returns the value of a key, or `default` if the key does not exist.
    #[pyo3(signature = (key, default = None, *, family = None, **options))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        family: Option<&Bound<'py, Family>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> Outcome<Option<Bound<'py, PyAny>>> {
        let (family, moment) = (self.family(family), self.moment()?);
        let moment = moment.get()?;
        let found = match options {
            None => family.value(py, key, &moment.reads)?,
            Some(_) => {
                let options = scan_options(Some(&moment.snapshot), options)?;
                let reads = Held::new(Reads::new(options));
                family.value(py, key, reads.get()?)?
            }
        };
        Ok(found.map(Bound::into_any).or(default))
    }

    /// Returns the values of keys, in the order of the keys; `None` for those that do not exist.
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

    /// Returns a view of the pairs of key and value in a range; see `Family.items`.
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

    /// Returns a view of the keys in a range; see `Family.items`.
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

    /// Returns a view of the values in a range; see `Family.items`.
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

    /// The sequence number of the last write that the snapshot sees.
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
        let keys = Bound::new(py, Keys(self.everything()?))?;
        Ok(keys.try_iter()?.into_any())
    }

    /// Compares the entries with those of another mapping, by a scan of all.
    fn __richcmp__(
        slf: &Bound<'_, Self>,
        other: &Bound<'_, PyAny>,
        operation: CompareOp,
    ) -> Outcome<Py<PyAny>> {
        compare_mappings(slf, || slf.get().everything(), other, operation)
    }

    /// The number of keys, by a scan of all.
    fn __len__(&self, py: Python<'_>) -> Outcome<usize> {
        self.everything()?.count(py)
    }

    /// Releases the snapshot: compactions may drop the old versions. It may be called again.
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
