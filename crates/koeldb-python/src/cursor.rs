//! The class `Cursor`: a position among the entries of a column family.

use koeldb::{Columns, DbCursor};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::arguments::stable;
use crate::calls::{Guarded, detached};
use crate::failure::{Failure, Outcome};
use crate::process::Held;
use crate::settings::optional;

/// Bytes of an answer of `read`, approximately.
const BYTES_MAX: usize = 1 << 20;

/// A position in a column family, or between its entries: it moves in both directions.
///
/// It sees the database as it was when it was made. The moves return whether there is an entry.
/// After an error there is no position, and `next`, `prev` and `read` raise it again until a seek.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Cursor(Guarded<State>);

/// The state of a cursor.
struct State {
    /// `None` after a call that did not return, as when a comparator fails.
    cursor: Option<Held<DbCursor>>,
    /// An error of `read` that comes behind the entries which it has returned.
    failure: Option<Failure>,
}

/// A key, and its value or its columns.
type Entry = (Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>);

/// Returns columns as a list of pairs.
pub(crate) fn pairs<'py, 'a>(
    py: Python<'py>,
    columns: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) -> Outcome<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (name, value) in columns {
        let (name, value) = (PyBytes::new(py, name), PyBytes::new(py, value));
        list.append(PyTuple::new(py, [name, value])?)?;
    }
    Ok(list)
}

/// Returns a copy of columns.
fn copied(columns: Columns<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let copy = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
    columns.iter().map(copy).collect()
}

/// Reads entries from the position on, until there are `limit` or their bytes are enough.
fn collect(
    cursor: &mut DbCursor,
    limit: usize,
    reverse: bool,
    columns: bool,
    entries: &mut Vec<Entry>,
) -> koeldb::Result<()> {
    let mut bytes = 0;
    while entries.len() < limit && bytes < BYTES_MAX {
        let (Some(key), Some(value)) = (cursor.key(), cursor.value()) else {
            // There is no position at the end, and after an error.
            return cursor.status();
        };
        let value = match cursor.columns() {
            Some(found) if columns => copied(found),
            _ => vec![(Vec::new(), value.to_vec())],
        };
        bytes += key.len() + value.iter().map(|(n, v)| n.len() + v.len()).sum::<usize>();
        entries.push((key.to_vec(), value));
        if reverse {
            cursor.prev()?;
        } else {
            cursor.next()?;
        }
    }
    Ok(())
}

impl State {
    /// Returns the cursor; fails in a forked child and after a call that did not return.
    fn get(&mut self) -> Outcome<&mut DbCursor> {
        let text = "an earlier call on the cursor was interrupted: make another one";
        let cursor = self.cursor.as_mut();
        cursor
            .ok_or_else(|| PyRuntimeError::new_err(text))?
            .get_mut()
    }

    /// Runs a call without the GIL.
    fn run<R: Send>(
        &mut self,
        py: Python<'_>,
        call: impl FnOnce(&mut DbCursor) -> koeldb::Result<R> + Send,
    ) -> Outcome<R> {
        let (cursor, mut has_returned) = (self.get()?, false);
        let result = detached(py, || {
            let result = call(cursor);
            has_returned = true;
            result
        });
        if !has_returned {
            self.cursor = None;
        }
        result
    }
}

impl Cursor {
    pub(crate) fn new(cursor: Held<DbCursor>) -> Self {
        Cursor(Guarded::new(State {
            cursor: Some(cursor),
            failure: None,
        }))
    }

    /// Moves to a position that does not depend on the current one.
    fn seek_by(
        &self,
        py: Python<'_>,
        seek: impl FnOnce(&mut DbCursor) -> koeldb::Result<bool> + Send,
    ) -> Outcome<bool> {
        let mut state = self.0.lock(py)?;
        state.failure = None;
        state.run(py, seek)
    }

    /// Moves from the current position.
    fn step_by(
        &self,
        py: Python<'_>,
        step: impl FnOnce(&mut DbCursor) -> koeldb::Result<bool> + Send,
    ) -> Outcome<bool> {
        let mut state = self.0.lock(py)?;
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        state.run(py, |cursor| match cursor.valid() {
            true => step(cursor),
            false => cursor.status().map(|()| false),
        })
    }

    /// Reads the current entry with the GIL: nothing of it waits.
    fn look<R>(&self, py: Python<'_>, look: impl FnOnce(&DbCursor) -> R) -> Outcome<R> {
        Ok(look(self.0.lock(py)?.get()?))
    }
}

#[pymethods]
impl Cursor {
    /// Moves to the first entry.
    fn seek_to_first(&self, py: Python<'_>) -> Outcome<bool> {
        self.seek_by(py, DbCursor::seek_to_first)
    }

    /// Moves to the last entry.
    fn seek_to_last(&self, py: Python<'_>) -> Outcome<bool> {
        self.seek_by(py, DbCursor::seek_to_last)
    }

    /// Moves to the first entry whose key is not before `key`.
    fn seek(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Outcome<bool> {
        let key = stable(key)?;
        self.seek_by(py, |cursor| cursor.seek(&key))
    }

    /// Moves to the last entry whose key is not behind `key`.
    fn seek_for_prev(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Outcome<bool> {
        let key = stable(key)?;
        self.seek_by(py, |cursor| cursor.seek_for_prev(&key))
    }

    /// Moves to the next entry; without a position it stays so.
    fn next(&self, py: Python<'_>) -> Outcome<bool> {
        self.step_by(py, DbCursor::next)
    }

    /// Moves to the entry before; without a position it stays so.
    fn prev(&self, py: Python<'_>) -> Outcome<bool> {
        self.step_by(py, DbCursor::prev)
    }

    /// Whether there is an entry at the position.
    #[getter]
    fn valid(&self, py: Python<'_>) -> Outcome<bool> {
        self.look(py, DbCursor::valid)
    }

    /// The key at the position, or `None`.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Outcome<Option<Bound<'py, PyBytes>>> {
        self.look(py, |cursor| optional(py, cursor.key()))
    }

    /// The value at the position, or `None`.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Outcome<Option<Bound<'py, PyBytes>>> {
        self.look(py, |cursor| optional(py, cursor.value()))
    }

    /// The columns at the position as pairs of name and value, or `None`. Those of a plain value
    /// are one of the empty name.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> Outcome<Option<Bound<'py, PyList>>> {
        self.look(py, |cursor| {
            let columns = cursor.columns();
            columns.map(|columns| pairs(py, columns)).transpose()
        })?
    }

    /// Returns the entries from the position on, at most `limit`, and moves behind them.
    ///
    /// They are pairs of key and value, or with `columns` of key and columns.
    #[pyo3(signature = (limit, *, reverse = false, columns = false))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        limit: usize,
        reverse: bool,
        columns: bool,
    ) -> Outcome<Bound<'py, PyList>> {
        let mut state = self.0.lock(py)?;
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        let mut entries = Vec::new();
        let read = |cursor: &mut DbCursor| collect(cursor, limit, reverse, columns, &mut entries);
        if let Err(failure) = state.run(py, read) {
            if entries.is_empty() {
                return Err(failure);
            }
            state.failure = Some(failure);
        }
        drop(state);
        let list = PyList::empty(py);
        for (key, value) in &entries {
            let value = match &value[..] {
                [(_, value)] if !columns => PyBytes::new(py, value).into_any(),
                columns => pairs(py, columns.iter().map(|(n, v)| (&**n, &**v)))?.into_any(),
            };
            list.append(PyTuple::new(py, [PyBytes::new(py, key).into_any(), value])?)?;
        }
        Ok(list)
    }

    /// Raises the error of the last move, if it failed.
    fn check(&self, py: Python<'_>) -> Outcome<()> {
        let mut state = self.0.lock(py)?;
        match state.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(state.get()?.status()?),
        }
    }
}
