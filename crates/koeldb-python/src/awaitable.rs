//! Futures of the engine for asyncio: polled by the event loop, woken by the engine's reads.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::calls::{Guarded, detached_value};
use crate::failure::Failure;
use crate::process::Held;

/// Makes the result of a future an object of Python.
pub(crate) type Answer = Box<dyn FnOnce(Python<'_>) -> Result<Py<PyAny>, Failure> + Send>;
type Pending = Pin<Box<dyn Future<Output = koeldb::Result<Answer>> + Send>>;

/// The result of a call that waits without blocking: `await` it, once, in a task of asyncio.
///
/// Nothing happens before. A value in memory is there without a wait.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Awaitable(Guarded<State>);

struct State {
    /// `None` once it has a result.
    future: Option<Held<Pending>>,
    /// The future of asyncio for which a task waits.
    waiting: Option<Py<PyAny>>,
}

impl Awaitable {
    pub(crate) fn new(
        future: impl Future<Output = koeldb::Result<Answer>> + Send + 'static,
    ) -> Self {
        let future: Pending = Box::pin(future);
        Awaitable(Guarded::new(State {
            future: Some(Held::new(future)),
            waiting: None,
        }))
    }
}

/// The waker of a task: it completes the asyncio future that the task awaits.
#[derive(Default)]
struct Wakeup(Mutex<Signal>);

#[derive(Default)]
enum Signal {
    /// The engine is not ready, and the task does not wait yet.
    #[default]
    Idle,
    /// The engine was ready before the task waited.
    Woken,
    /// The task waits: its event loop and the future.
    Waiting(Py<PyAny>, Py<PyAny>),
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        let signal = {
            let mut signal = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *signal, Signal::Woken)
        };
        let Signal::Waiting(event_loop, future) = signal else {
            return;
        };
        // The interpreter may have ended, or the loop may be closed: then nobody waits.
        Python::try_attach(|py| {
            let woken = resolve(py).and_then(|resolve| {
                event_loop.call_method1(py, "call_soon_threadsafe", (resolve, future))
            });
            drop(woken);
        });
    }
}

/// Returns the function that sets the result of a future which nobody has cancelled.
fn resolve(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static RESOLVE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let resolve = RESOLVE.get_or_try_init(py, || -> PyResult<Py<PyAny>> {
        Ok(py.import("koeldb._wake")?.getattr("resolve")?.unbind())
    })?;
    Ok(resolve.clone_ref(py))
}

#[pymethods]
impl Awaitable {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Polls the future: raises `StopIteration` with the result, or returns what the task waits
    /// for.
    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut state = self.0.lock(py).map_err(PyErr::from)?;
        let once = || PyRuntimeError::new_err("an awaitable of koeldb is awaited once");
        if let Some(waiting) = &state.waiting
            && !waiting.call_method0(py, "done")?.is_truthy(py)?
        {
            // Another task would wait for ever: one is woken.
            return Err(once());
        }
        loop {
            let pending = state.future.as_mut().ok_or_else(once)?;
            let pending = pending.get_mut().map_err(PyErr::from)?;
            let wakeup = Arc::new(Wakeup::default());
            let waker = Waker::from(Arc::clone(&wakeup));
            let polled = detached_value(py, || {
                pending.as_mut().poll(&mut Context::from_waker(&waker))
            });
            let result = match polled {
                Ok(Poll::Pending) => None,
                Ok(Poll::Ready(result)) => Some(result.map_err(Failure::from)),
                // An exception of a plug-in, which ended the poll or came with its result.
                Err(failure) => Some(Err(failure)),
            };
            if let Some(result) = result {
                state.future = None;
                let value = result.and_then(|answer| answer(py))?;
                return Err(PyStopIteration::new_err((value,)));
            }
            let event_loop = py.import("asyncio")?.call_method0("get_running_loop")?;
            let waiting = event_loop.call_method0("create_future")?;
            let yielded = waiting.try_iter()?.next().transpose()?;
            let mut signal = wakeup.0.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*signal, Signal::Woken) {
                // It was ready while the future was made: poll again.
                continue;
            }
            state.waiting = Some(waiting.clone().unbind());
            *signal = Signal::Waiting(event_loop.unbind(), waiting.unbind());
            return yielded
                .map(Bound::unbind)
                .ok_or_else(|| PyRuntimeError::new_err("asyncio's future did not wait"));
        }
    }
}
