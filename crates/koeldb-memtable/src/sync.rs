//! Synchronization primitives and hash seeds: the standard library's, or Loom's in models.

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

// The models of other crates use arenas outside Loom.
#[cfg(not(all(loom, test)))]
pub(crate) use koeldb_base::sync::PlainCell as UnsafeCell;

#[cfg(not(all(loom, test)))]
pub(crate) use std::thread::yield_now;

#[cfg(all(loom, test))]
pub(crate) use loom::thread::yield_now;
