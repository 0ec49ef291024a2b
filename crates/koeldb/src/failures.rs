//! The error that stops writes, until a resume has repaired what it left.
//!
//! # Invariants
//! - **F1** Writes are refused exactly while an error is stored: both change under one lock.
//! - **F2** A resume takes back only what it knew of when it began: an error that came later stays stored, or is stored
//!   anew.

use koeldb_base::sync::{AtomicBool, Mutex, Ordering, lock};
use koeldb_base::{Error, Result};

#[derive(Default)]
struct Stored {
    /// The first of those that are worst.
    first: Option<Error>,
    /// How many there ever were.
    count: u64,
    /// Those that listeners have not been told of: they run where no lock is held.
    unreported: Vec<Error>,
}

/// The errors that stop writes. Any number of threads may store one.
#[derive(Default)]
pub(crate) struct Failures {
    /// Whether one is stored, for writers to look at.
    is_any: AtomicBool,
    stored: Mutex<Stored>,
}

impl Failures {
    /// Whether writes are refused.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// The error that stopped writes, if one did.
    pub(crate) fn first(&self) -> Option<Error> {
        lock(&self.stored).first.clone()
    }

    /// How many errors there ever were.
    pub(crate) fn count(&self) -> u64 {
        lock(&self.stored).count
    }

    /// Stores an error, unless one that is as bad is stored.
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

    /// What listeners are to be told of.
    pub(crate) fn take_unreported(&self) -> Vec<Error> {
        std::mem::take(&mut lock(&self.stored).unreported)
    }

    /// Takes writes again; the error that is stored if there were more than `count`.
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
