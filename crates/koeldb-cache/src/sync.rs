//! Synchronization primitives of the cache: the standard library's, or Loom's in models.

#[cfg(not(all(loom, test)))]
pub(crate) use std::{
    hint::spin_loop,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicPtr, AtomicU8, AtomicU64},
    },
    thread::yield_now,
};

#[cfg(all(loom, test))]
pub(crate) use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicPtr, AtomicU8, AtomicU64},
    },
    thread::yield_now,
};

#[cfg(not(all(loom, test)))]
pub(crate) use koeldb_base::sync::{PlainCell as UnsafeCell, thread_number};

/// Returns the number of the current thread, counted from 0 in each Loom model run.
#[cfg(all(loom, test))]
pub(crate) fn thread_number() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};

    loom::lazy_static! {
        static ref NEXT: AtomicUsize = AtomicUsize::new(0);
    }
    loom::thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// Does nothing outside Loom models, where `SeqCst` accesses need no fence between them.
#[cfg(not(all(loom, test)))]
#[inline]
pub(crate) fn fence_in_models() {}

/// Executes a `SeqCst` fence in Loom models, as Loom treats `SeqCst` accesses as acquire-release.
#[cfg(all(loom, test))]
pub(crate) fn fence_in_models() {
    loom::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
