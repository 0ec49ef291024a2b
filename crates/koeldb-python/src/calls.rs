//! Calls of the engine: without the GIL, and what plug-ins in Python may do inside of them.
//!
//! A plug-in runs inside a call, in the thread of the caller or of the engine. It must not wait for
//! that thread: [`Guarded`] refuses a second use by one thread, and [`outside`] refuses calls that
//! wait for the engine's threads. A plug-in's exception is the call's own, or its cause.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::failure::{Failure, Outcome};
use crate::process;

thread_local! {
    /// The number of plug-ins that run in this thread, one inside another. Its address is the
    /// thread's own.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The last exception of a plug-in in this thread.
    static FAILURE: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Whether a plug-in in Python runs in this thread.
pub(crate) fn is_in_plug_in() -> bool {
    DEPTH.with(Cell::get) > 0
}

/// Fails inside a plug-in, whose thread `call` would wait for.
pub(crate) fn outside(call: &str) -> Outcome<()> {
    if is_in_plug_in() {
        let text = format!("{call} cannot be called by a merge operator or comparator");
        return Err(PyRuntimeError::new_err(text).into());
    }
    Ok(())
}

/// Whether the last exception of a plug-in in this thread is no error, such as `KeyboardInterrupt`.
pub(crate) fn is_interrupted() -> bool {
    let is_other = |error: &PyErr| Python::attach(|py| !error.is_instance_of::<PyException>(py));
    FAILURE.with(|failure| failure.borrow().as_ref().is_some_and(is_other))
}

/// Runs a plug-in with the GIL; keeps its exception for the call around it.
///
/// # Errors
/// The exception's text.
pub(crate) fn plug_in<R>(run: impl FnOnce(Python<'_>) -> PyResult<R>) -> Result<R, String> {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let result = Python::attach(run).map_err(|error| {
        let text = error.to_string();
        FAILURE.with(|failure| failure.replace(Some(error)));
        text
    });
    DEPTH.with(|depth| depth.set(depth.get() - 1));
    result
}

/// Runs a call of the engine without the GIL.
///
/// # Errors
/// The error of the call, whose cause is the exception of a plug-in, or the exception itself if the
/// call did not return. One that is no error, such as `KeyboardInterrupt`, is raised after the call
/// whatever it returns.
pub(crate) fn detached<R: Send, E: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<R, E> + Send,
) -> Outcome<R>
where
    Failure: From<E>,
{
    FAILURE.with(|failure| failure.replace(None));
    let returned = catch_unwind(AssertUnwindSafe(|| py.detach(call)));
    let failure = || FAILURE.with(|failure| failure.replace(None));
    match returned {
        Ok(Ok(result)) => match failure() {
            Some(error) if !error.is_instance_of::<PyException>(py) => Err(error.into()),
            _ => Ok(result),
        },
        Ok(Err(error)) => {
            let Some(cause) = failure() else {
                return Err(error.into());
            };
            if !cause.is_instance_of::<PyException>(py) {
                return Err(cause.into());
            }
            let error = PyErr::from(Failure::from(error));
            error.set_cause(py, Some(cause));
            Err(error.into())
        }
        Err(panic) => match failure() {
            Some(error) => Err(error.into()),
            None => resume_unwind(panic),
        },
    }
}

/// Runs a call of the engine that cannot fail; see [`detached`].
///
/// # Errors
/// The exception of a plug-in.
pub(crate) fn detached_value<R: Send>(
    py: Python<'_>,
    call: impl FnOnce() -> R + Send,
) -> Outcome<R> {
    detached(py, || Ok::<_, Infallible>(call()))
}

/// A value that one thread uses at a time, which may release the GIL meanwhile.
#[derive(Default)]
pub(crate) struct Guarded<T> {
    value: Mutex<T>,
    /// The thread that uses it; 0 is none.
    user: AtomicUsize,
}

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Guarded {
            value: Mutex::new(value),
            user: AtomicUsize::new(0),
        }
    }

    /// Waits until no other thread uses the value, without the GIL.
    ///
    /// # Errors
    /// In a forked child, where the user may not exist; if this thread uses it already, in a call
    /// that called Python; after a panic of a user.
    pub(crate) fn lock(&self, py: Python<'_>) -> Outcome<Guard<'_, T>> {
        process::check()?;
        let thread = DEPTH.with(|depth| std::ptr::from_ref(depth).addr());
        if self.user.load(Ordering::Relaxed) == thread {
            let text = "the object is in use by a call of this thread, which has called this one";
            return Err(PyRuntimeError::new_err(text).into());
        }
        let panicked = |_| PyRuntimeError::new_err("an earlier call on the object panicked");
        let value = self.value.lock_py_attached(py).map_err(panicked)?;
        self.user.store(thread, Ordering::Relaxed);
        let user = &self.user;
        Ok(Guard { value, user })
    }
}

/// The right to use a value.
pub(crate) struct Guard<'a, T> {
    value: MutexGuard<'a, T>,
    user: &'a AtomicUsize,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.user.store(0, Ordering::Relaxed);
    }
}
