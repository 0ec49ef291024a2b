//! Merge operators and comparators in Python.
//!
//! The engine calls them in its own threads, which take the GIL for it: they are slower than
//! built-in ones, and a program that uses them must not hold the GIL while it waits for the
//! engine, which no function of this module does.

use std::cmp::Ordering;
use std::panic::resume_unwind;

use koeldb::{BoxError, MergeOperands};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::calls::{is_interrupted, plug_in};

/// A merge operator: `MergeOperator(name, merge, partial=None)`.
///
/// `merge(key, existing, operands)` returns the new value; `existing` is `None` if the key has
/// none, and `operands` is a list, the oldest first. `partial(key, operands)` returns one operand
/// that stands for all, or `None`. The name is recorded in the tables and the OPTIONS file. An
/// exception fails the read, and is the `__cause__` of its error.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct MergeOperator {
    name: String,
    merge: Py<PyAny>,
    partial: Option<Py<PyAny>>,
}

impl MergeOperator {
    fn copy(&self, py: Python<'_>) -> Self {
        MergeOperator {
            name: self.name.clone(),
            merge: self.merge.clone_ref(py),
            partial: self.partial.as_ref().map(|partial| partial.clone_ref(py)),
        }
    }

    /// Returns the engine's operator.
    pub(crate) fn operator(&self, py: Python<'_>) -> impl koeldb::MergeOperator + use<> {
        Operator(self.copy(py))
    }
}

/// Checks that a plug-in can be called.
fn callable(object: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    if object.is_callable() {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!("{name} must be callable")))
}

#[pymethods]
impl MergeOperator {
    #[new]
    #[pyo3(signature = (name, merge, partial = None))]
    fn new(
        name: String,
        merge: Bound<'_, PyAny>,
        partial: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        callable(&merge, "merge")?;
        if let Some(partial) = &partial {
            callable(partial, "partial")?;
        }
        Ok(MergeOperator {
            name,
            merge: merge.unbind(),
            partial: partial.map(Bound::unbind),
        })
    }

    /// The name, which the database records.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __repr__(&self) -> String {
        format!("MergeOperator({:?})", self.name)
    }
}

/// The engine's view of a merge operator.
struct Operator(MergeOperator);

/// Returns the operands as a list of Python.
fn list<'py>(py: Python<'py>, operands: MergeOperands<'_>) -> PyResult<Bound<'py, PyList>> {
    PyList::new(
        py,
        operands
            .into_iter()
            .map(|operand| PyBytes::new(py, operand)),
    )
}

impl koeldb::MergeOperator for Operator {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        let merged = plug_in(|py| -> PyResult<()> {
            let existing = existing.map(|value| PyBytes::new(py, value));
            let arguments = (PyBytes::new(py, key), existing, list(py, operands)?);
            let merged = self.0.merge.bind(py).call1(arguments)?;
            result.extend_from_slice(merged.cast::<PyBytes>()?.as_bytes());
            Ok(())
        });
        merged.map_err(BoxError::from)
    }

    fn partial_merge(
        &self,
        key: &[u8],
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        let Some(partial) = &self.0.partial else {
            return Ok(false);
        };
        let merged = plug_in(|py| -> PyResult<bool> {
            let arguments = (PyBytes::new(py, key), list(py, operands)?);
            let merged = partial.bind(py).call1(arguments)?;
            if merged.is_none() {
                return Ok(false);
            }
            result.extend_from_slice(merged.cast::<PyBytes>()?.as_bytes());
            Ok(true)
        });
        merged.map_err(BoxError::from)
    }
}

/// A comparator: `Comparator(name, compare)`.
///
/// `compare(a, b)` returns a negative number, zero or a positive one. It must be a total order that
/// never changes; the name is recorded in the database. With `equal_keys_have_equal_bytes`, the
/// default, keys are equal only if their bytes are, which filters need.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Comparator {
    name: String,
    compare: Py<PyAny>,
    equal_keys_have_equal_bytes: bool,
}

impl Comparator {
    /// Returns the engine's comparator.
    pub(crate) fn comparator(&self, py: Python<'_>) -> impl koeldb::Comparator + use<> {
        Order(Comparator {
            name: self.name.clone(),
            compare: self.compare.clone_ref(py),
            equal_keys_have_equal_bytes: self.equal_keys_have_equal_bytes,
        })
    }
}

#[pymethods]
impl Comparator {
    #[new]
    #[pyo3(signature = (name, compare, *, equal_keys_have_equal_bytes = true))]
    fn new(
        name: String,
        compare: Bound<'_, PyAny>,
        equal_keys_have_equal_bytes: bool,
    ) -> PyResult<Self> {
        callable(&compare, "compare")?;
        Ok(Comparator {
            name,
            compare: compare.unbind(),
            equal_keys_have_equal_bytes,
        })
    }

    /// The name, which the database records.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __repr__(&self) -> String {
        format!("Comparator({:?})", self.name)
    }
}

/// The engine's view of a comparator.
struct Order(Comparator);

impl koeldb::Comparator for Order {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let compare = || {
            plug_in(|py| -> PyResult<Ordering> {
                let arguments = (PyBytes::new(py, a), PyBytes::new(py, b));
                let compared = self.0.compare.bind(py).call1(arguments)?;
                Ok(compared.extract::<i64>()?.cmp(&0))
            })
        };
        // Without an order a write stops all others: an interrupt waits for the end of the call.
        let ordering = compare().or_else(|error| match is_interrupted() {
            true => compare(),
            false => Err(error),
        });
        // The call, or the engine's thread, catches it: there is no order without an answer.
        ordering.unwrap_or_else(|error| {
            resume_unwind(Box::new(format!(
                "the comparator {} failed: {error}",
                self.0.name
            )))
        })
    }

    fn equal_keys_have_equal_bytes(&self) -> bool {
        self.0.equal_keys_have_equal_bytes
    }
}
