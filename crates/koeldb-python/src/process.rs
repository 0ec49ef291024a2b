//! Forks, and the end of the interpreter.
//!
//! A forked child has the memory of its parent, and none of the engine's threads: it may neither
//! use nor close what it inherited. At the end of the interpreter open databases are closed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::JoinHandle;

use koeldb::Db;
use pyo3::prelude::*;

use crate::calls;
use crate::failure::{Failure, Outcome, forked};

/// Whether databases were opened in this process.
static IS_USED: AtomicBool = AtomicBool::new(false);
/// Whether the process was forked from one that had opened databases.
static IS_FORKED: AtomicBool = AtomicBool::new(false);
/// The open databases.
static OPEN: LazyLock<Mutex<HashMap<u64, Db>>> = LazyLock::new(Mutex::default);

/// The threads that drop what plug-ins dropped.
static DROPPING: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

/// Fails in a child of a process that used the library.
pub(crate) fn check() -> Outcome<()> {
    if IS_FORKED.load(Ordering::Relaxed) {
        return Err(forked());
    }
    Ok(())
}

/// Records an open database, and returns its number.
pub(crate) fn opened(db: &Db) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    IS_USED.store(true, Ordering::Relaxed);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.insert(number, db.clone());
    number
}

/// Forgets a database that is closed, or that nobody can close any more.
pub(crate) fn closed(number: u64) -> Option<Db> {
    if IS_FORKED.load(Ordering::Relaxed) {
        return None;
    }
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.remove(&number)
}

/// Called in the child of a fork.
#[pyfunction]
pub(crate) fn after_fork_in_child() {
    if IS_USED.load(Ordering::Relaxed) {
        IS_FORKED.store(true, Ordering::Relaxed);
    }
}

/// Closes all databases; called at the end of the interpreter.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) -> PyResult<()> {
    if IS_FORKED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    let dropping = std::mem::take(&mut *DROPPING.lock().unwrap_or_else(PoisonError::into_inner));
    let closed = py.detach(|| {
        for thread in dropping {
            // A panic in the thread is reported.
            let _reported = thread.join();
        }
        open.into_values()
            .map(|db| db.close())
            .fold(Ok(()), Result::and)
    });
    closed.map_err(|error| Failure::from(error).into())
}

/// An object of the engine that closes or waits when it is dropped: without the GIL, which
/// the engine's threads may need, and not at all in a forked child.
///
/// A plug-in, in which the garbage collector may run, must not wait for its own thread: what it
/// drops is dropped in another one.
pub(crate) struct Held<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Held<T> {
    pub(crate) fn new(value: T) -> Self {
        Held(Some(value))
    }

    /// Returns the object; fails in a forked child.
    pub(crate) fn get(&self) -> Outcome<&T> {
        check()?;
        // It is there until the drop.
        self.0.as_ref().ok_or_else(forked)
    }

    /// Returns the object to change it; fails in a forked child.
    pub(crate) fn get_mut(&mut self) -> Outcome<&mut T> {
        check()?;
        self.0.as_mut().ok_or_else(forked)
    }

    /// Takes the object out; fails in a forked child.
    pub(crate) fn take(mut self) -> Outcome<T> {
        check()?;
        self.0.take().ok_or_else(forked)
    }
}

impl<T: Send + 'static> Drop for Held<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        if IS_FORKED.load(Ordering::Relaxed) {
            std::mem::forget(value);
        } else if calls::is_in_plug_in() {
            let mut dropping = DROPPING.lock().unwrap_or_else(PoisonError::into_inner);
            dropping.retain(|thread| !thread.is_finished());
            dropping.push(std::thread::spawn(|| drop(value)));
        } else {
            Python::attach(|py| py.detach(|| drop(value)));
        }
    }
}
