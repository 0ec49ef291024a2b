//! Atomics, locks and threads for code with Loom models: the standard library's, or Loom's under
//! `--cfg loom`.
//!
//! A module that a model interleaves takes its shared state from here, and contains no other code
//! for models. Under `--cfg loom` such code runs only inside `explore`. Reference counts remain the
//! standard library's.
//!
//! Under `--cfg koeldb_counts` the standard library of this crate, and of those above it, is
//! `koeldb_counts`: it counts the use of everything that is exported here, of reference counts and
//! of allocations.

pub use std::sync::atomic::Ordering;

#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{Thread, current, park, park_timeout, yield_now},
    thread_local,
};

#[cfg(loom)]
pub use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{Thread, current, park, spawn, yield_now},
};

#[cfg(loom)]
#[doc(hidden)]
pub use loom;

/// Loom's `thread_local!`, which does not accept `const`.
#[cfg(loom)]
#[macro_export]
#[doc(hidden)]
macro_rules! loom_thread_local {
    ($(#[$attribute:meta])* static $name:ident: $type:ty = const { $init:expr };) => {
        $crate::sync::loom::thread_local! {
            $(#[$attribute])*
            static $name: $type = $init;
        }
    };
}

#[cfg(loom)]
pub use crate::loom_thread_local as thread_local;

#[cfg(loom)]
pub use loom::cell::UnsafeCell;

#[cfg(not(loom))]
pub use PlainCell as UnsafeCell;

/// An `UnsafeCell` of `std` with the interface of Loom's; models do not check its accesses.
#[derive(Debug, Default)]
pub struct PlainCell<T>(std::cell::UnsafeCell<T>);

impl<T> PlainCell<T> {
    /// Creates a cell around `value`.
    pub const fn new(value: T) -> Self {
        PlainCell(std::cell::UnsafeCell::new(value))
    }

    /// Passes the address of the value to `access`, which may only read.
    #[inline]
    pub fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
        access(self.0.get())
    }

    /// Passes the address of the value to `access`; a caller that writes needs exclusive access.
    #[inline]
    pub fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// Spin iterations before a waiting thread parks; one in models, as more add no behaviour.
pub const SPINS: u32 = if cfg!(loom) { 1 } else { 2_000 };

/// The number of hardware threads; two in Loom models, so that some threads spin and some do not.
#[must_use]
pub fn cores() -> usize {
    // Cached: the standard library reads several files to answer.
    static CORES: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    match cfg!(loom) {
        true => 2,
        false => *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// A value on cache lines of its own (two, because lines are fetched in pairs).
///
/// Threads that write it then do not slow down those that use its neighbours.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The number of stripes into which state that all threads use is split; a power of two.
///
/// Two for each core, so that two running threads rarely meet in one; two in models.
#[must_use]
pub fn stripe_count() -> usize {
    match cfg!(loom) {
        true => 2,
        false => (2 * cores()).next_power_of_two().clamp(8, STRIPES_MAX),
    }
}

/// The largest [`stripe_count`].
pub const STRIPES_MAX: usize = if cfg!(loom) { 2 } else { 32 };

/// Returns a small number, unique to this thread, by which threads spread over stripes.
#[inline]
pub fn thread_number() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    std::thread_local! {
        static NUMBER: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
    }
    NUMBER.with(|number| {
        if number.get() == usize::MAX {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

/// Locks a mutex, ignoring poisoning: the guarded state is consistent between any two steps.
#[inline]
#[cfg_attr(koeldb_counts, track_caller)]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks a mutex of `std`, which no Loom model interleaves; ignores poisoning.
#[inline]
#[cfg_attr(koeldb_counts, track_caller)]
pub fn lock_plain<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Yields once in place of parking with a timeout, because a Loom model has no clock.
#[cfg(loom)]
pub fn park_timeout(_: std::time::Duration) {
    yield_now();
}

/// Runs a Loom model under every interleaving of its threads with up to three preemptions.
///
/// `KOELDB_FLOORS=long` allows four. Prints the number of interleavings.
///
/// # Panics
/// If the model panics under one of them, or its threads deadlock.
#[cfg(loom)]
pub fn explore(name: &str, model: impl Fn() + Send + Sync + 'static) {
    explore_up_to(name, 3, model);
}

/// Runs a large Loom model with up to two preemptions; otherwise as [`explore`].
///
/// `KOELDB_FLOORS=long` allows three.
///
/// # Panics
/// See [`explore`].
#[cfg(loom)]
pub fn explore_large(name: &str, model: impl Fn() + Send + Sync + 'static) {
    explore_up_to(name, 2, model);
}

/// Runs a Loom model with up to `preemptions` preemptions, and one more under `KOELDB_FLOORS=long`.
#[cfg(loom)]
fn explore_up_to(name: &str, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64 as Count;

    let is_long = std::env::var("KOELDB_FLOORS").is_ok_and(|floors| floors == "long");
    let runs = Arc::new(Count::new(0));
    let counted = Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions + usize::from(is_long));
    builder.max_branches = 10_000;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!(
        "summary model {name}: {} interleavings",
        runs.load(Ordering::Relaxed)
    );
}
