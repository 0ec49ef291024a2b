//! Cuts of a database with `atomic_flush`: sequence numbers up to which all families are flushed.
//!
//! The leader of the write queue seals the memtables of all column families with data at one
//! sequence number, as one *cut*. A flush takes everything that is sealed, of all families, and
//! installs the tables by one change of the MANIFEST. It must never take a part of a cut, so the
//! leader holds the lock of the cuts while it seals.
//!
//! One flush runs at a time. It takes the cuts that were made since the last one began, each
//! family's memtables into one table, so cuts are installed in their order. (RocksDB flushes cuts
//! concurrently and installs them in order.)
//!
//! The lock is taken before that of a column family's state, never after.

use std::sync::{Mutex, MutexGuard};

use koeldb_base::sync::lock_plain as lock;

/// The lock that keeps cuts whole, with the flush that runs.
#[derive(Debug, Default)]
pub(crate) struct Cuts(Mutex<CutState>);

/// The state of the cuts: whether a flush of some is running.
#[derive(Debug, Default)]
pub(crate) struct CutState {
    pub(crate) is_flushing: bool,
}

impl Cuts {
    /// Begins a cut, or a look at all sealed memtables, until the guard is dropped.
    pub(crate) fn begin(&self) -> MutexGuard<'_, CutState> {
        lock(&self.0)
    }

    /// Whether a flush of all column families is running.
    pub(crate) fn is_flushing(&self) -> bool {
        self.begin().is_flushing
    }

    /// Marks the running flush as ended.
    pub(crate) fn end_flush(&self) {
        self.begin().is_flushing = false;
    }
}
