//! Synchronization primitives of the cache: the standard library's, or Loom's in models.

#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64};

#[cfg(all(loom, test))]
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64};
