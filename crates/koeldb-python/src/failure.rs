//! Exceptions: `koeldb.Error` and a subclass for each kind, which Python defines.

use koeldb::{Error, ErrorKind};
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The result of a call that may raise an exception.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// Why a call fails: an error of the engine, or an exception.
pub(crate) enum Failure {
    Engine(Error),
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

impl From<std::convert::Infallible> for Failure {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Engine(error) => Python::attach(|py| exception(py, &error)),
            Failure::Python(error) => error,
        }
    }
}

/// Returns the class of exceptions of a kind.
fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Corruption => "Corruption",
        ErrorKind::NotSupported => "NotSupported",
        ErrorKind::InvalidArgument => "InvalidArgument",
        ErrorKind::IoError => "IoError",
        ErrorKind::MergeInProgress => "MergeInProgress",
        ErrorKind::Incomplete => "Incomplete",
        ErrorKind::ShutdownInProgress => "Closed",
        ErrorKind::TimedOut => "TimedOut",
        ErrorKind::Aborted => "Aborted",
        ErrorKind::Busy => "Busy",
        ErrorKind::Expired => "Expired",
        ErrorKind::TryAgain => "TryAgain",
        ErrorKind::ColumnFamilyDropped => "FamilyDropped",
        ErrorKind::MemoryLimit => "MemoryLimit",
        ErrorKind::NotFound => "NotFound",
        _ => "Error",
    }
}

/// Returns the exception of an error.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let raise = || -> PyResult<PyErr> {
        let classes =
            CLASSES.get_or_try_init(py, || py.import("koeldb.errors").map(Bound::unbind))?;
        let class = classes.bind(py).getattr(class(error.kind()))?;
        let file = error.file();
        let path = file.map(|file| file.path.clone());
        let offset = file.and_then(|file| file.offset);
        let retryable = error.is_retryable();
        let outcome = error.write_outcome().map(|outcome| format!("{outcome:?}"));
        let arguments = (
            error.to_string(),
            path,
            offset,
            error.advice(),
            retryable,
            outcome,
            error.raw_os_error(),
        );
        Ok(PyErr::from_value(class.call1(arguments)?))
    };
    raise().unwrap_or_else(|error| error)
}

/// Returns the `KeyError` of a key that does not exist.
pub(crate) fn missing(key: &Bound<'_, PyAny>) -> Failure {
    Failure::Python(PyKeyError::new_err(key.clone().unbind()))
}

/// Returns the error of a process that was forked while it used the library.
pub(crate) fn forked() -> Failure {
    Failure::Python(PyRuntimeError::new_err(
        "this process was forked while koeldb was in use, and has none of its threads: open databases in the \
         child alone, or start it by multiprocessing's method \"spawn\"",
    ))
}
