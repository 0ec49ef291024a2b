//! The class `Batch`: writes that take effect together or not at all.

use koeldb::{ColumnFamily, WriteBatch, WriteOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arguments::bytes;
use crate::calls::{Guarded, detached};
use crate::failure::{Failure, Outcome};
use crate::family::Family;
use crate::process::Held;
use crate::settings::write_options;
use crate::shared::Shared;
use crate::tables::columns_of;

/// Writes to any column families of a database, which take effect together: all or none.
///
/// `write` does them, as does the end of a `with` block; an exception in the block discards them.
/// A write is to the default column family, or to the argument `family`. `Batch()` belongs to no
/// database: `Db.write` does its writes.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Batch {
    /// `None` for a batch that `Db.write` gets.
    db: Option<Held<koeldb::Db>>,
    sync: bool,
    disable_wal: bool,
    writes: Guarded<Writes>,
}

/// The writes of a batch.
struct Writes {
    batch: WriteBatch,
    /// The shared state of the database's families; `None` until a write names a family.
    shared: Option<Shared>,
}

impl Batch {
    pub(crate) fn new(db: koeldb::Db, shared: Shared, sync: bool, disable_wal: bool) -> Self {
        Batch {
            db: Some(Held::new(db)),
            sync,
            disable_wal,
            writes: Guarded::new(Writes {
                batch: WriteBatch::new(),
                shared: Some(shared),
            }),
        }
    }

    /// Adds a write to a column family, by default the database's default one.
    fn add(
        &self,
        py: Python<'_>,
        family: Option<&Bound<'_, Family>>,
        write: impl FnOnce(&mut WriteBatch, Option<&ColumnFamily>) -> koeldb::Result<()>,
    ) -> Outcome<()> {
        let mut writes = self.writes.lock(py)?;
        let Some(family) = family.map(Bound::get) else {
            return Ok(write(&mut writes.batch, None)?);
        };
        let shared = writes.shared.get_or_insert_with(|| family.shared().clone());
        let family = family.handle_of(shared)?;
        Ok(write(&mut writes.batch, Some(family))?)
    }

    /// Discards the writes.
    fn empty(&self, writes: &mut Writes) {
        writes.batch.clear();
        if self.db.is_none() {
            writes.shared = None;
        }
    }

    /// Does the writes in a database, all or none; the batch is empty then.
    pub(crate) fn write_to(
        &self,
        py: Python<'_>,
        db: &koeldb::Db,
        shared: &Shared,
        options: &WriteOptions,
    ) -> Outcome<()> {
        let mut writes = self.writes.lock(py)?;
        if writes.shared.as_ref().is_some_and(|own| !own.is(shared)) {
            let text = "the batch has writes to column families of another database";
            return Err(koeldb::Error::invalid_argument(text).into());
        }
        let batch = &writes.batch;
        detached(py, || db.write_opt(batch, options))?;
        self.empty(&mut writes);
        Ok(())
    }
}

#[pymethods]
impl Batch {
    /// Makes a batch that belongs to no database: `Db.write` writes it.
    #[new]
    fn alone() -> Self {
        Batch {
            db: None,
            sync: false,
            disable_wal: false,
            writes: Guarded::new(Writes {
                batch: WriteBatch::new(),
                shared: None,
            }),
        }
    }

    /// Sets the columns of a key, pairs of name and value or a mapping.
    #[pyo3(signature = (key, columns, *, family = None))]
    fn put_entity(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        columns: &Bound<'_, PyAny>,
        family: Option<&Bound<'_, Family>>,
    ) -> Outcome<()> {
        let columns = columns_of(columns)?;
        let key = bytes(key)?;
        self.add(py, family, |batch, family| {
            match family {
                Some(family) => batch.put_entity_cf(family, key.as_ref(), &columns)?,
                None => batch.put_entity(key.as_ref(), &columns)?,
            };
            Ok(())
        })
    }

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
        self.add(py, family, |batch, family| {
            match family {
                Some(family) => batch.put_cf(family, key.as_ref(), value.as_ref()),
                None => batch.put(key.as_ref(), value.as_ref()),
            };
            Ok(())
        })
    }

    /// Removes a key, which need not exist.
    #[pyo3(signature = (key, *, family = None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        family: Option<&Bound<'_, Family>>,
    ) -> Outcome<()> {
        let key = bytes(key)?;
        self.add(py, family, |batch, family| {
            match family {
                Some(family) => batch.delete_cf(family, key.as_ref()),
                None => batch.delete(key.as_ref()),
            };
            Ok(())
        })
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
        self.add(py, family, |batch, family| {
            match family {
                Some(family) => batch.merge_cf(family, key.as_ref(), operand.as_ref()),
                None => batch.merge(key.as_ref(), operand.as_ref()),
            };
            Ok(())
        })
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
        self.add(py, family, |batch, family| {
            match family {
                Some(family) => batch.delete_range_cf(family, start.as_ref(), stop.as_ref()),
                None => batch.delete_range(start.as_ref(), stop.as_ref()),
            };
            Ok(())
        })
    }

    /// Discards the writes.
    fn clear(&self, py: Python<'_>) -> Outcome<()> {
        self.empty(&mut *self.writes.lock(py)?);
        Ok(())
    }

    /// Does the writes, all or none, and empties the batch. After an error the batch still has
    /// them.
    fn write(&self, py: Python<'_>) -> Outcome<()> {
        let Some(db) = &self.db else {
            return Err(Failure::Python(PyValueError::new_err(
                "the batch belongs to no database: use Db.write(batch)",
            )));
        };
        let db = db.get()?;
        let options = write_options(self.sync, self.disable_wal);
        let mut writes = self.writes.lock(py)?;
        let batch = &writes.batch;
        detached(py, || db.write_opt(batch, &options))?;
        self.empty(&mut writes);
        Ok(())
    }

    /// The size of the encoded batch in bytes.
    #[getter]
    fn size(&self, py: Python<'_>) -> Outcome<usize> {
        Ok(self.writes.lock(py)?.batch.size_in_bytes())
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
        Ok(self.writes.lock(py)?.batch.len())
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
