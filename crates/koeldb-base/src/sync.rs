//! The atomics, locks and threads of code that models go through: the standard library's, or Loom's where models are
//! built (`--cfg loom`).
//!
//! A module whose steps are to be interleaved takes its shared state from here, and nothing else in it knows of models.
//! Under `--cfg loom` such code runs inside `explore` alone. Reference counts stay the standard library's.

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

/// Loom's, which takes no `const`.
#[cfg(loom)]
#[macro_export]
#[doc(hidden)]
macro_rules! loom_thread_local {
    (static $name:ident: $type:ty = const { $init:expr };) => {
        $crate::sync::loom::thread_local! {
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

/// The standard cell behind the interface of Loom's, which notices accesses that overlap; in models, too.
#[derive(Debug, Default)]
pub struct PlainCell<T>(std::cell::UnsafeCell<T>);

impl<T> PlainCell<T> {
    /// A cell around `value`.
    pub const fn new(value: T) -> Self {
        PlainCell(std::cell::UnsafeCell::new(value))
    }

    /// Lends the address; whoever writes through it must be alone.
    #[inline]
    pub fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// How often a thread that waits looks again before it sleeps; in models once, which shows what twice would.
pub const SPINS: u32 = if cfg!(loom) { 1 } else { 2_000 };

/// How many threads run at once; two in models, so that there are some that spin and some that do not.
#[must_use]
pub fn cores() -> usize {
    match cfg!(loom) {
        true => 2,
        false => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Locks, also if somebody panicked under the lock: what is guarded is whole between any two steps.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// [`lock`] for what no model interleaves: the standard library's mutex, in models, too.
#[inline]
pub fn lock_plain<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A model has no clock: the time is over whenever another thread has had its turn.
#[cfg(loom)]
pub fn park_timeout(_: std::time::Duration) {
    yield_now();
}

/// Runs `model` under every interleaving of its threads with up to three preemptions, with four under `KOELDB_FLOORS=long`,
/// and says how many there were.
///
/// # Panics
/// If the model panics under one of them, or its threads wait for each other.
#[cfg(loom)]
pub fn explore(name: &str, model: impl Fn() + Send + Sync + 'static) {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64 as Count;

    let is_long = std::env::var("KOELDB_FLOORS").is_ok_and(|floors| floors == "long");
    let runs = Arc::new(Count::new(0));
    let counted = Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(if is_long { 4 } else { 3 });
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
