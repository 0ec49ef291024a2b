//! Holds: guards that keep obsolete files in place while somebody copies or reads them by name.
//!
//! Every removal of obsolete files asks [`Holds::begin_removal`] first; a hold that is taken during
//! a removal waits for its end.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use koeldb_base::Result;
use koeldb_base::sabotage::{Sabotage, is_on};
use koeldb_base::sync::lock_plain as lock;

use crate::db::Db;
use crate::inner::DbInner;

#[derive(Debug, Default)]
struct State {
    holds: usize,
    removals: usize,
}

/// The number of holds and of running removals.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    state: Mutex<State>,
    no_removal: Condvar,
}

impl Holds {
    /// Prevents removals from now on, and waits for running ones.
    fn hold(&self) {
        let mut state = lock(&self.state);
        state.holds += 1;
        while state.removals > 0 {
            state = self
                .no_removal
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends a hold; returns whether it was the last one.
    fn release(&self) -> bool {
        let mut state = lock(&self.state);
        state.holds -= 1;
        state.holds == 0
    }

    /// Begins a removal, unless there is a hold.
    pub(crate) fn begin_removal(&self) -> Option<Removal<'_>> {
        let mut state = lock(&self.state);
        if state.holds > 0 && !is_on(Sabotage::HoldIgnored) {
            return None;
        }
        state.removals += 1;
        Some(Removal(self))
    }

    /// The number of holds.
    pub(crate) fn count(&self) -> usize {
        lock(&self.state).holds
    }
}

/// A running removal.
pub(crate) struct Removal<'h>(&'h Holds);

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).removals -= 1;
        self.0.no_removal.notify_all();
    }
}

/// Keeps obsolete files of a database in place while it lives.
///
/// Guards nest. When the last one is dropped, the obsolete files are removed. A guard does not keep
/// the database open.
#[must_use = "files are removed again when the guard is dropped"]
pub struct DeletionGuard {
    inner: Arc<DbInner>,
}

impl DeletionGuard {
    pub(crate) fn new(inner: &Arc<DbInner>) -> Self {
        inner.purge.holds.hold();
        DeletionGuard {
            inner: Arc::clone(inner),
        }
    }
}

impl Drop for DeletionGuard {
    fn drop(&mut self) {
        let is_last = self.inner.purge.holds.release();
        if !is_last || self.inner.context.is_forked() {
            return;
        }
        // A closed database leaves its obsolete files to the next open.
        if let Ok(_foreground) = self.inner.background.enter() {
            self.inner.remove_obsolete_files();
        }
    }
}

impl fmt::Debug for DeletionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeletionGuard({:?})", self.inner.context.path)
    }
}

impl Db {
    /// Disables the removal of obsolete files until the guard, and every other one, is dropped.
    ///
    /// Flushes and compactions continue, so that the directory grows meanwhile.
    ///
    /// # Errors
    /// `ShutdownInProgress` if the database is closed.
    pub fn disable_file_deletions(&self) -> Result<DeletionGuard> {
        self.inner().check_open()?;
        Ok(DeletionGuard::new(self.inner()))
    }
}
