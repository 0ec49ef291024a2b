//! The atomics, locks and reference counts that models replace: the standard library's, or Loom's when the models are built.

#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64};

#[cfg(all(loom, test))]
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64};
