//! The atomics, locks and seeds that models replace: the standard library's, or Loom's when the models are built.

#[cfg(not(all(loom, test)))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize},
};

#[cfg(all(loom, test))]
pub(crate) use loom::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize},
};

#[cfg(all(loom, test))]
pub(crate) use loom::cell::UnsafeCell;

// The models of other crates use arenas outside of Loom.
#[cfg(not(all(loom, test)))]
pub(crate) use koeldb_base::sync::PlainCell as UnsafeCell;

#[cfg(not(all(loom, test)))]
pub(crate) use std::thread::yield_now;

#[cfg(all(loom, test))]
pub(crate) use loom::thread::yield_now;

#[cfg(not(all(loom, test)))]
pub(crate) use foldhash::quality::RandomState as KeyHasher;

/// A model runs again and again, and must do the same.
#[cfg(all(loom, test))]
pub(crate) use foldhash::quality::FixedState as KeyHasher;
