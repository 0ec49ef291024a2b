//! The class `Transaction`: reads and writes that take effect together, or fail after a conflict.

use koeldb::{ColumnFamily, ReadOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::{owned, stable};
use crate::calls::{Guarded, detached, detached_value};
use crate::chunk::Reader;
use crate::entries::{Entries, What};
use crate::failure::{Failure, Outcome, missing};
use crate::family::Family;
use crate::process::Held;
use crate::settings::optional;
use crate::shared::Shared;

/// Reads and writes that take effect together, or fail after a conflict with others.
///
/// A `with` block commits at its end, and rolls back after an exception. In a database without
/// `locks`, the commit detects conflicts and raises `Busy` or `TryAgain`. With `locks`, a write or
/// read for update locks its key and waits for other transactions; it raises `TimedOut` if a lock
/// is not free in time. `koeldb.transact` repeats a function after a
/// conflict. Reads and writes are of the default column family, or of the argument `family`. Calls
/// after the commit or rollback raise `ValueError`.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Transaction {
    db: Held<koeldb::Db>,
    /// `None` after a commit or rollback.
    transaction: Guarded<Option<Held<koeldb::Transaction>>>,
    shared: Shared,
}

impl Transaction {
    pub(crate) fn new(db: koeldb::Db, shared: Shared, transaction: koeldb::Transaction) -> Self {
        Transaction {
            db: Held::new(db),
            transaction: Guarded::new(Some(Held::new(transaction))),
            shared,
        }
    }

    /// Runs a call of the engine without the GIL.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        family: Option<&Bound<'_, Family>>,
        call: impl FnOnce(&mut koeldb::Transaction, &ColumnFamily) -> koeldb::Result<R> + Send,
    ) -> Outcome<R> {
        let family = match family {
            Some(family) => family.get().handle_of(&self.shared)?,
            None => self.db.get()?.default_cf(),
        };
        let mut transaction = self.transaction.lock(py)?;
        let transaction = transaction.as_mut().ok_or_else(over)?.get_mut()?;
        detached(py, || call(transaction, family))
    }

    fn take(&self, py: Python<'_>) -> Outcome<Held<koeldb::Transaction>> {
        let mut transaction = self.transaction.lock(py)?;
        transaction.take().ok_or_else(over)
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        key: &[u8],
        family: Option<&Bound<'py, Family>>,
    ) -> Outcome<Option<Bound<'py, PyBytes>>> {
        let found = self.run(py, family, |transaction, family| {
            transaction.get_cf(family, key)
        })?;
        Ok(optional(py, found.as_deref()))
    }
}

/// Returns the error of a transaction that is committed or rolled back.
fn over() -> Failure {
    Failure::Python(PyValueError::new_err(
        "the transaction is committed or rolled back: begin another by Db.transaction()",
    ))
}

#[pymethods]
impl Transaction {
    /// Returns the value of a key as the transaction sees it, or `default`.
    #[pyo3(signature = (key, default = None, *, family = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        family: Option<&Bound<'py, Family>>,
    ) -> Outcome<Option<Bound<'py, PyAny>>> {
        let found = self.read(py, &stable(key)?, family)?;
        Ok(found.map(Bound::into_any).or(default))
    }

    /// Returns the value of a key, or `default`. A write of the key by others before the commit is
    /// a conflict.
    #[pyo3(signature = (key, default = None, *, family = None))]
    fn get_for_update<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        family: Option<&Bound<'py, Family>>,
    ) -> Outcome<Option<Bound<'py, PyAny>>> {
        let name = stable(key)?;
        let name = name.as_ref();
        let found = self.run(py, family, |transaction, family| {
            transaction.get_for_update_cf(family, name)
        })?;
        Ok(optional(py, found.as_deref())
            .map(Bound::into_any)
            .or(default))
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
        let (key, value) = (stable(key)?, stable(value)?);
        let (key, value) = (key.as_ref(), value.as_ref());
        self.run(py, family, |transaction, family| {
            transaction.put_cf(family, key, value)
        })
    }

    /// Removes a key.
    #[pyo3(signature = (key, *, family = None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        family: Option<&Bound<'_, Family>>,
    ) -> Outcome<()> {
        let key = stable(key)?;
        let key = key.as_ref();
        self.run(py, family, |transaction, family| {
            transaction.delete_cf(family, key)
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
        let (key, operand) = (stable(key)?, stable(operand)?);
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.run(py, family, |transaction, family| {
            transaction.merge_cf(family, key, operand)
        })
    }

    /// Iterates over pairs of key and value as the transaction sees them, from `start` to `stop`,
    /// which is excluded.
    #[pyo3(signature = (start = None, stop = None, *, reverse = false, family = None))]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        family: Option<&Bound<'_, Family>>,
    ) -> Outcome<Entries> {
        let mut options = ReadOptions::new();
        if let Some(start) = start {
            options.set_iterate_lower_bound(owned(start)?);
        }
        if let Some(stop) = stop {
            options.set_iterate_upper_bound(owned(stop)?);
        }
        let reader = self.run(py, family, |transaction, family| {
            let cursor = transaction.cursor_opt(family, &options);
            Ok(Held::new(Reader::new(cursor, reverse, true)))
        })?;
        Ok(Entries::new(reader, What::Items))
    }

    /// Marks a point to which `rollback_to_save_point` returns.
    fn set_save_point(&self, py: Python<'_>) -> Outcome<()> {
        self.run(py, None, |transaction, _| {
            transaction.set_save_point();
            Ok(())
        })
    }

    /// Undoes all writes since the last save point, and removes it; raises `NotFound` without one.
    fn rollback_to_save_point(&self, py: Python<'_>) -> Outcome<()> {
        self.run(py, None, |transaction, _| {
            transaction.rollback_to_save_point()
        })
    }

    /// Commits, and returns the sequence number of the last write.
    fn commit(&self, py: Python<'_>) -> Outcome<u64> {
        let transaction = self.take(py)?.take()?;
        detached(py, || transaction.commit())
    }

    /// Discards all writes.
    fn rollback(&self, py: Python<'_>) -> Outcome<()> {
        let transaction = self.take(py)?.take()?;
        detached_value(py, || {
            transaction.rollback();
        })
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Outcome<Bound<'py, PyBytes>> {
        self.read(py, &stable(key)?, None)?
            .ok_or_else(|| missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Outcome<bool> {
        Ok(self.read(py, &stable(key)?, None)?.is_some())
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
        let is_over = self.transaction.lock(py)?.is_none();
        if is_over {
            // The block committed or rolled back.
        } else if kind.is_none() {
            self.commit(py)?;
        } else {
            self.rollback(py)?;
        }
        Ok(false)
    }
}
