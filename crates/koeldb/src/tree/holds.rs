//! Guards that keep obsolete files in place while a caller copies or reads them by name.
//!
//! Every removal of obsolete files asks [`Holds::begin_removal`] first; a hold that is taken during
//! a removal waits for its end.

use std::sync::{Condvar, Mutex, PoisonError};

use koeldb_base::sync::lock_plain as lock;

/// The number of active holds and of file removals in progress.
#[derive(Debug, Default)]
struct State {
    holds: usize,
    removals: usize,
}

/// The counter of holds that forbid file deletions (RocksDB: `DisableFileDeletions`).
#[derive(Debug, Default)]
pub(crate) struct Holds {
    state: Mutex<State>,
    no_removal: Condvar,
}

impl Holds {
    /// Forbids file deletions until a matching `release`, and waits for running ones.
    pub(crate) fn hold(&self) {
        let mut state = lock(&self.state);
        state.holds += 1;
        while state.removals > 0 {
            state = self
                .no_removal
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends one hold; returns whether it was the last, so that file deletions are allowed again.
    pub(crate) fn release(&self) -> bool {
        let mut state = lock(&self.state);
        state.holds -= 1;
        state.holds == 0
    }

    /// Begins a deletion of obsolete files; `None` while a hold forbids it.
    pub(crate) fn begin_removal(&self) -> Option<Removal<'_>> {
        let mut state = lock(&self.state);
        if state.holds > 0 {
            return None;
        }
        state.removals += 1;
        Some(Removal(self))
    }

    /// Returns the number of active holds.
    pub(crate) fn count(&self) -> usize {
        lock(&self.state).holds
    }
}

/// A guard of a running deletion of obsolete files, which ends when it is dropped.
pub(crate) struct Removal<'h>(&'h Holds);

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).removals -= 1;
        self.0.no_removal.notify_all();
    }
}
