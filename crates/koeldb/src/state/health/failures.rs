//! The error that stops writes until a resume.
//!
//! # Invariants
//! - **F1** Writes are refused exactly while an error is stored: both change under one lock.
//! - **F2** A resume clears only errors from before its start: a later error stays stored, or is
//!   stored again.

use koeldb_base::sync::{AtomicBool, Mutex, Ordering, lock};
use koeldb_base::{Error, Result};

/// The stored background errors, guarded by a mutex.
#[derive(Default)]
struct Stored {
    /// The first stored error of the highest severity.
    first: Option<Error>,
    /// The number of errors stored so far.
    count: u64,
    /// Errors not yet reported to listeners, which run while no lock is held.
    unreported: Vec<Error>,
}

/// The background errors that stop writes. Any number of threads may store one.
#[derive(Default)]
pub(crate) struct Failures {
    /// Whether an error is stored, for checks by writers without a lock.
    is_any: AtomicBool,
    stored: Mutex<Stored>,
}

impl Failures {
    /// Whether a background error is stored, so that writes are refused.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Returns the stored error, which stopped writes; `None` if there is none.
    pub(crate) fn first(&self) -> Option<Error> {
        lock(&self.stored).first.clone()
    }

    /// The number of errors stored so far.
    pub(crate) fn count(&self) -> u64 {
        lock(&self.stored).count
    }

    /// Counts an error and keeps it for reports; replaces the stored error if that is less severe.
    pub(crate) fn store(&self, error: &Error) {
        let mut stored = lock(&self.stored);
        let is_worse = stored
            .first
            .as_ref()
            .is_none_or(|first| first.severity() < error.severity());
        if is_worse {
            stored.first = Some(error.clone());
        }
        stored.count += 1;
        stored.unreported.push(error.clone());
        self.is_any.store(true, Ordering::Release);
    }

    /// Removes and returns the errors that are not yet reported to listeners.
    pub(crate) fn take_unreported(&self) -> Vec<Error> {
        std::mem::take(&mut lock(&self.stored).unreported)
    }

    /// Clears the stored error; fails with that error if more than `count` errors were stored.
    pub(crate) fn clear(&self, count: u64) -> Result<()> {
        let mut stored = lock(&self.stored);
        if stored.count != count
            && let Some(newer) = &stored.first
        {
            return Err(newer.clone());
        }
        stored.first = None;
        self.is_any.store(false, Ordering::Release);
        Ok(())
    }
}

#[cfg(all(test, loom))]
mod models;
