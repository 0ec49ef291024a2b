//! The state of an open database that its families share, beside the engine's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use koeldb::ErrorKind;

use crate::calls::is_in_plug_in;

/// The state of an open database that its families share; also its identity.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<State>);

#[derive(Default)]
struct State {
    /// Whether plug-ins are written in Python: the interpreter then runs inside of the engine,
    /// which is never called with the GIL.
    has_plug_ins: AtomicBool,
    /// Held by an atomic update of a database without transactions.
    update: Mutex<()>,
}

impl Shared {
    /// Records that a plug-in is written in Python.
    pub(crate) fn add_plug_in(&self) {
        self.0.has_plug_ins.store(true, Ordering::Relaxed);
    }

    /// Whether both are those of one open database.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether a plug-in is written in Python.
    pub(crate) fn has_plug_ins(&self) -> bool {
        self.0.has_plug_ins.load(Ordering::Relaxed)
    }

    /// Runs an atomic update: in a transaction, or alone where there are none, as in a database
    /// with `ttl`.
    pub(crate) fn update<R>(
        &self,
        mut with: impl FnMut() -> koeldb::Result<R>,
        without: impl FnOnce() -> koeldb::Result<R>,
    ) -> koeldb::Result<R> {
        loop {
            match with() {
                // Each conflict is a write of another thread that is done.
                Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => {}
                Err(error) if error.kind() == ErrorKind::NotSupported => break,
                done => return done,
            }
        }
        // A plug-in may run inside of an update.
        let update = &self.0.update;
        let _alone =
            (!is_in_plug_in()).then(|| update.lock().unwrap_or_else(PoisonError::into_inner));
        without()
    }
}
