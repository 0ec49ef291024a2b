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

/// The standard cell behind the interface of Loom's, which notices accesses that overlap.
#[cfg(not(all(loom, test)))]
#[derive(Default)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(all(loom, test)))]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Lends the address; whoever writes through it must be alone.
    #[inline]
    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

#[cfg(not(all(loom, test)))]
pub(crate) use std::thread::yield_now;

#[cfg(all(loom, test))]
pub(crate) use loom::thread::yield_now;

#[cfg(not(all(loom, test)))]
pub(crate) use foldhash::quality::RandomState as KeyHasher;

/// A model runs again and again, and must do the same.
#[cfg(all(loom, test))]
pub(crate) use foldhash::quality::FixedState as KeyHasher;
