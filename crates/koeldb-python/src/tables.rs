//! The class `SstFileWriter`: tables that are built outside of a database.

use std::path::PathBuf;

use koeldb::ColumnFamilyOptions;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::stable;
use crate::calls::{Guarded, detached};
use crate::failure::{Failure, Outcome};
use crate::process::{self, Held};
use crate::settings::Given;
use crate::setup::Settings;
use crate::shared::Shared;

/// A writer of a table file, from keys in their order, which `Db.ingest` adds to a database.
///
/// The file must not exist. The options are those of the column family for which the table is. A
/// `with` block finishes it, or removes the file after an exception.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct SstFileWriter {
    /// `None` once it is finished, and after a call that did not return, as when a comparator
    /// fails.
    writer: Guarded<Option<Held<koeldb::SstFileWriter>>>,
}

/// The error of a writer that is finished.
fn finished() -> Failure {
    Failure::Python(PyValueError::new_err("the table is finished already"))
}

impl SstFileWriter {
    /// Runs a call without the GIL.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut koeldb::SstFileWriter) -> koeldb::Result<R> + Send,
    ) -> Outcome<R> {
        let mut held = self.writer.lock(py)?;
        let (writer, mut has_returned) = (held.as_mut().ok_or_else(finished)?.get_mut()?, false);
        let result = detached(py, || {
            let result = call(writer);
            has_returned = true;
            result
        });
        if !has_returned {
            *held = None;
        }
        result
    }

    /// Completes the file of a writer.
    fn complete(py: Python<'_>, writer: Held<koeldb::SstFileWriter>) -> Outcome<u64> {
        let writer = writer.take()?;
        Ok(detached(py, || writer.finish())?.file_size)
    }
}

#[pymethods]
impl SstFileWriter {
    #[new]
    #[pyo3(signature = (path, settings = None, **options))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        settings: Option<&Bound<'_, Settings>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> Outcome<Self> {
        process::check()?;
        let mut own =
            ColumnFamilyOptions::from(&Settings::or_default(settings, &Shared::default())?);
        Given::new(options)?.change_family(py, &mut own)?;
        let writer = detached(py, || {
            koeldb::SstFileWriter::create(&own, path).map(Held::new)
        })?;
        Ok(SstFileWriter {
            writer: Guarded::new(Some(writer)),
        })
    }

    /// Adds the value of a key, which is behind all before.
    fn put(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Outcome<()> {
        let (key, value) = (stable(key)?, stable(value)?);
        self.run(py, |writer| writer.put(&key, &value))
    }

    /// Adds the columns of a key, which is behind all before: pairs of name and value.
    fn put_entity(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        columns: &Bound<'_, PyAny>,
    ) -> Outcome<()> {
        let (key, columns) = (stable(key)?, columns_of(columns)?);
        self.run(py, |writer| writer.put_entity(&key, &columns))
    }

    /// Adds an operand of the merge operator.
    fn merge(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        operand: &Bound<'_, PyAny>,
    ) -> Outcome<()> {
        let (key, operand) = (stable(key)?, stable(operand)?);
        self.run(py, |writer| writer.merge(&key, &operand))
    }

    /// Adds the removal of a key.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Outcome<()> {
        let key = stable(key)?;
        self.run(py, |writer| writer.delete(&key))
    }

    /// Adds the removal of all keys from `start` to `stop`, which is excluded.
    fn delete_range(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyAny>,
        stop: &Bound<'_, PyAny>,
    ) -> Outcome<()> {
        let (start, stop) = (stable(start)?, stable(stop)?);
        self.run(py, |writer| writer.delete_range(&start, &stop))
    }

    /// The bytes of the file so far, without the block that is being filled.
    #[getter]
    fn file_size(&self, py: Python<'_>) -> Outcome<u64> {
        let mut writer = self.writer.lock(py)?;
        Ok(writer.as_mut().ok_or_else(finished)?.get_mut()?.file_size())
    }

    /// Completes the file and makes it durable; returns its length in bytes.
    fn finish(&self, py: Python<'_>) -> Outcome<u64> {
        let writer = self.writer.lock(py)?.take();
        Self::complete(py, writer.ok_or_else(finished)?)
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> Outcome<()> {
        self.put(py, key, value)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Outcome<()> {
        self.delete(py, key)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind, _error, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> Outcome<()> {
        let writer = self.writer.lock(py)?.take();
        // A block may finish it.
        if let (true, Some(writer)) = (kind.is_none(), writer) {
            Self::complete(py, writer)?;
        }
        Ok(())
    }
}

/// Returns the names and values of columns: pairs, or a mapping.
pub(crate) fn columns_of(columns: &Bound<'_, PyAny>) -> Outcome<Vec<(Vec<u8>, Vec<u8>)>> {
    let columns = match columns.getattr("items") {
        Ok(items) => items.call0()?,
        Err(_) => columns.clone(),
    };
    let mut out = Vec::new();
    for column in columns.try_iter()? {
        let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = column?.extract()?;
        out.push((stable(&name)?.into_owned(), stable(&value)?.into_owned()));
    }
    Ok(out)
}
