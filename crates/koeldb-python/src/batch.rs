//! The class `Batch`: writes that take effect together or not at all.

use koeldb::{ColumnFamily, WriteBatch};
use pyo3::prelude::*;

use crate::arguments::bytes;
use crate::calls::{Guard, Guarded, detached};
use crate::failure::Outcome;
use crate::family::{Family, Plugins};
use crate::process::Held;
use crate::settings::write_options;

/// Writes to any column families of a database, which take effect together: all or none.
///
/// `write` does them, as does the end of a `with` block; an exception in the block discards them.
/// A write is to the default column family, or to the argument `family`.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Batch {
    db: Held<koeldb::Db>,
    sync: bool,
    disable_wal: bool,
    batch: Guarded<WriteBatch>,
    plugins: Plugins,
}

impl Batch {
    pub(crate) fn new(db: koeldb::Db, plugins: Plugins, sync: bool, disable_wal: bool) -> Self {
        Batch {
            db: Held::new(db),
            sync,
            disable_wal,
            batch: Guarded::new(WriteBatch::new()),
            plugins,
        }
    }

    fn lock(&self, py: Python<'_>) -> Outcome<Guard<'_, WriteBatch>> {
        self.batch.lock(py)
    }

    /// Returns the column family of a write.
    fn family<'a>(&'a self, family: Option<&'a Bound<'_, Family>>) -> Outcome<&'a ColumnFamily> {
        match family {
            Some(family) => family.get().handle_of(&self.plugins),
            None => Ok(self.db.get()?.default_cf()),
        }
    }
}

#[pymethods]
impl Batch {
    /// Sets the value of a key.
    #[pyo3(signature = (key, value, *, family = None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        family: Option<&Bound<'_, Family>>,
    ) -> Outcome<()> {
        let (key, value) = (bytes(key)?, bytes(value)?);
        self.lock(py)?
            .put_cf(self.family(family)?, key.as_ref(), value.as_ref());
        Ok(())
    }

    /// Removes a key.
    #[pyo3(signature = (key, *, family = None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        family: Option<&Bound<'_, Family>>,
    ) -> Outcome<()> {
        let key = bytes(key)?;
        self.lock(py)?.delete_cf(self.family(family)?, key.as_ref());
        Ok(())
    }

    /// Records an operand of the merge operator for a key.
    #[pyo3(signature = (key, operand, *, family = None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        operand: &Bound<'_, PyAny>,
        family: Option<&Bound<'_, Family>>,
    ) -> Outcome<()> {
        let (key, operand) = (bytes(key)?, bytes(operand)?);
        self.lock(py)?
            .merge_cf(self.family(family)?, key.as_ref(), operand.as_ref());
        Ok(())
    }

    /// Removes all keys from `start` to `stop`, which is excluded.
    #[pyo3(signature = (start, stop, *, family = None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyAny>,
        stop: &Bound<'_, PyAny>,
        family: Option<&Bound<'_, Family>>,
    ) -> Outcome<()> {
        let (start, stop) = (bytes(start)?, bytes(stop)?);
        self.lock(py)?
            .delete_range_cf(self.family(family)?, start.as_ref(), stop.as_ref());
        Ok(())
    }

    /// Discards the writes.
    fn clear(&self, py: Python<'_>) -> Outcome<()> {
        self.lock(py)?.clear();
        Ok(())
    }

    /// Does the writes, all or none, and empties the batch. After an error the batch has them still.
    fn write(&self, py: Python<'_>) -> Outcome<()> {
        let db = self.db.get()?;
        let mut batch = self.lock(py)?;
        let options = write_options(self.sync, self.disable_wal);
        let writes = &*batch;
        detached(py, || db.write_opt(writes, &options))?;
        batch.clear();
        Ok(())
    }

    /// The size of the encoded batch in bytes.
    #[getter]
    fn size(&self, py: Python<'_>) -> Outcome<usize> {
        Ok(self.lock(py)?.size_in_bytes())
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> Outcome<()> {
        self.put(py, key, value, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Outcome<()> {
        self.delete(py, key, None)
    }

    /// The number of writes.
    fn __len__(&self, py: Python<'_>) -> Outcome<usize> {
        Ok(self.lock(py)?.len())
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
    ) -> Outcome<bool> {
        if kind.is_none() {
            self.write(py)?;
        } else {
            self.clear(py)?;
        }
        Ok(false)
    }
}
