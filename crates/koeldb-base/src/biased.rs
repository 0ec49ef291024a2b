//! A cell biased towards one thread: its owner enters without an atomic read-modify-write.
//!
//! A locked instruction waits for all preceding loads. A read that begins with one cannot overlap
//! the read before it, and a lookup that misses the CPU caches then pays its full latency. Here the
//! owner stores a flag, checks whether a revoker has announced itself, and uses the value. A
//! revoker announces itself, makes every thread of the process execute a memory barrier
//! (`membarrier`, Linux 4.14), and then takes the value if the owner is not using it. The rare side
//! thus pays for the expensive half of the usual pair of barriers (Dekker's algorithm with
//! asymmetric barriers, as in userspace RCU). Where the system has no such call, the owner executes
//! a fence.
//!
//! Invariants, with `busy` stored by the owner alone and `wanted` by revokers alone:
//!
//! - The owner touches the value only between storing `busy` and clearing it, having seen `wanted`
//!   clear after a barrier that follows the store.
//! - A revoker touches the value only after it stored `wanted`, executed a barrier on all threads
//!   and saw `busy` clear; and only until it clears `wanted`. So if the owner missed `wanted`, the
//!   revoker sees `busy`.
//! - There is one owner. The owner and each revoker hold their ends exclusively: entering borrows
//!   the end mutably.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::compiler_fence;

use crate::sync::{AtomicBool, Ordering, UnsafeCell, fence};

/// Registers the process for `membarrier`, once; returns whether the system has this call.
///
/// In a process that already has several threads, Linux waits for all processors here, for some ten
/// milliseconds. Call it where that does not matter, when a database is opened, for example.
#[cfg(all(target_os = "linux", not(any(miri, loom))))]
pub fn register() -> bool {
    use std::sync::OnceLock;

    use rustix::thread::{MembarrierCommand, membarrier};

    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
}

/// Returns false: the system has no `membarrier` to register for.
#[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
pub fn register() -> bool {
    false
}

/// Executes a full barrier on all running threads (`membarrier`); returns whether that succeeded.
#[cfg(all(target_os = "linux", not(any(miri, loom))))]
fn all_threads_pass_a_barrier() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};

    membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

/// Returns false: this system has no barrier for all threads.
#[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
fn all_threads_pass_a_barrier() -> bool {
    false
}

/// The value of a biased cell, and the flags by which its owner and its revoker exclude each other.
struct Shared<T> {
    /// Whether the owner is using the value. Only the owner stores it.
    busy: AtomicBool,
    /// Whether a revoker is using the value, or has announced itself.
    wanted: AtomicBool,
    /// Whether revokers execute a barrier on all threads, so that the owner needs none.
    asymmetric: bool,
    value: UnsafeCell<Option<T>>,
}

#[expect(unsafe_code, reason = "a cell with a protocol of its own")]
// SAFETY: the owner or a revoker accesses the value, never both concurrently (the module's
// invariants), and the value moves between threads in between, which `T: Send` allows.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Executes the owner's barrier: a compiler fence if revokers use `membarrier`, else a fence.
    #[inline]
    fn light_barrier(&self) {
        if self.asymmetric {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }
}

/// The owning end of a biased cell, which accesses the value without atomic read-modify-writes.
///
/// One thread at a time holds it.
pub struct Owner<T> {
    shared: Arc<Shared<T>>,
}

/// The revoking end of a biased cell, which takes the value while the owner is not using it.
///
/// It is for threads that rarely need the value.
pub struct Revoker<T> {
    shared: Arc<Shared<T>>,
}

/// Creates an empty biased cell and returns its owning end and its revoking end.
#[must_use]
pub fn biased<T>() -> (Owner<T>, Revoker<T>) {
    let shared = Arc::new(Shared {
        busy: AtomicBool::new(false),
        wanted: AtomicBool::new(false),
        asymmetric: register(),
        value: UnsafeCell::new(None),
    });
    let owner = Owner {
        shared: Arc::clone(&shared),
    };
    (owner, Revoker { shared })
}

impl<T> Owner<T> {
    /// Whether the revokers' end was dropped.
    #[must_use]
    pub fn is_orphaned(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    /// Gives the owner exclusive access to the value; `None` while a revoker is using it.
    ///
    /// A revoker may leave the value with an owner that it turned away; the owner then still has
    /// its value.
    #[inline]
    #[must_use]
    pub fn enter(&mut self) -> Option<Guard<'_, T>> {
        let shared = &*self.shared;
        shared.busy.store(true, Ordering::Relaxed);
        shared.light_barrier();
        // Acquires what the last revoker stored.
        if shared.wanted.load(Ordering::Acquire) {
            shared.busy.store(false, Ordering::Release);
            return None;
        }
        Some(Guard {
            owner: self,
            _value: PhantomData,
        })
    }
}

/// A guard for the owner's exclusive access to the value; dropping it admits revokers again.
pub struct Guard<'o, T> {
    owner: &'o mut Owner<T>,
    /// A marker that makes the guard `Sync` only if the value is: sharing it shares the value.
    _value: PhantomData<&'o mut Option<T>>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = Option<T>;

    #[inline]
    #[expect(unsafe_code, reason = "a cell with a protocol of its own")]
    fn deref(&self) -> &Option<T> {
        self.owner.shared.value.with_mut(|value| {
            // SAFETY: `Owner::enter` created this guard, which borrows the only owner, and no
            // revoker enters before the guard is dropped.
            unsafe { &*value }
        })
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    #[expect(unsafe_code, reason = "a cell with a protocol of its own")]
    fn deref_mut(&mut self) -> &mut Option<T> {
        self.owner.shared.value.with_mut(|value| {
            // SAFETY: as in `deref`; the reference borrows the only `Guard`.
            unsafe { &mut *value }
        })
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let shared = &*self.owner.shared;
        shared.busy.store(false, Ordering::Release);
        // The owner's next loads are not older than the stores of a revoker that still saw it
        // inside.
        shared.light_barrier();
    }
}

/// Takes the values of all cells whose owners are not using them.
///
/// After an owner that is inside leaves, it sees everything that was done before this call.
#[must_use]
pub fn revoke_idle<T>(revokers: &mut [Revoker<T>]) -> Vec<T> {
    for revoker in revokers.iter() {
        revoker.shared.wanted.store(true, Ordering::Relaxed);
    }
    let is_asymmetric = revokers.iter().any(|revoker| revoker.shared.asymmetric);
    fence(Ordering::SeqCst);
    let passed = !is_asymmetric || revokers.is_empty() || all_threads_pass_a_barrier();
    let mut taken = Vec::new();
    for revoker in revokers.iter_mut() {
        // Without a barrier the owner's state is unknown: it keeps its value until it returns.
        if passed && !revoker.shared.busy.load(Ordering::Acquire) {
            taken.extend(revoker.take());
        }
        revoker.shared.wanted.store(false, Ordering::Release);
    }
    taken
}

impl<T> Revoker<T> {
    /// Whether the owner's end was dropped.
    #[must_use]
    pub fn is_orphaned(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    /// Takes the value; only [`revoke_idle`] may call this, once it has seen the owner outside.
    #[expect(unsafe_code, reason = "a cell with a protocol of its own")]
    fn take(&mut self) -> Option<T> {
        self.shared.value.with_mut(|value| {
            // SAFETY: `wanted` is stored and `busy` was seen clear after a barrier on all threads,
            // so the owner stays outside; this end is borrowed exclusively, so no other revoker is
            // inside.
            unsafe { &mut *value }.take()
        })
    }
}

impl<T> fmt::Debug for Owner<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Revoker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Revoker").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Guard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn takers_find_what_the_owner_left_and_nothing_while_it_is_inside() {
        let (mut owner, revoker) = biased();
        let mut revokers = [revoker];
        let mut inside = owner.enter().unwrap();
        assert!(inside.is_none());
        *inside = Some(1);
        assert!(revoke_idle(&mut revokers).is_empty());
        drop(inside);
        assert_eq!(*owner.enter().unwrap(), Some(1));
        assert_eq!(revoke_idle(&mut revokers), [1]);
        assert_eq!(*owner.enter().unwrap(), None);
        assert!(!revokers[0].is_orphaned());
        drop(owner);
        assert!(revokers[0].is_orphaned());
    }

    /// Owners store numbers and count them as they remove them; revokers take them. Each is counted
    /// once.
    #[test]
    fn nothing_is_taken_twice_or_from_under_an_owner() {
        const ROUNDS: u64 = if cfg!(miri) { 200 } else { 100_000 };
        let counted = AtomicU64::new(0);
        let (owners, mut revokers): (Vec<_>, Vec<_>) = (0..2).map(|_| biased::<Box<u64>>()).unzip();
        std::thread::scope(|scope| {
            for mut owner in owners {
                let counted = &counted;
                scope.spawn(move || {
                    for number in 0..ROUNDS {
                        let mut number = Some(Box::new(number));
                        while number.is_some() {
                            let Some(mut inside) = owner.enter() else {
                                std::thread::yield_now();
                                continue;
                            };
                            if let Some(last) = inside.take() {
                                counted.fetch_add(*last, Ordering::Relaxed);
                            }
                            *inside = number.take();
                            assert!(inside.is_some());
                        }
                    }
                });
            }
            while !revokers.iter().all(Revoker::is_orphaned) {
                for number in revoke_idle(&mut revokers) {
                    counted.fetch_add(*number, Ordering::Relaxed);
                }
                std::thread::yield_now();
            }
        });
        for number in revoke_idle(&mut revokers) {
            counted.fetch_add(*number, Ordering::Relaxed);
        }
        assert_eq!(counted.into_inner(), ROUNDS * (ROUNDS - 1));
    }

    /// After an owner that a revoker found inside leaves, it sees what the revoker announced.
    #[test]
    fn an_owner_that_was_passed_over_knows_afterwards() {
        const ROUNDS: u64 = if cfg!(miri) { 200 } else { 50_000 };
        let announced = AtomicU64::new(0);
        let (mut owner, revoker) = biased::<u64>();
        let mut revokers = [revoker];
        std::thread::scope(|scope| {
            let announced = &announced;
            scope.spawn(move || {
                let mut number = 0;
                while number < ROUNDS {
                    if let Some(mut inside) = owner.enter() {
                        number = announced.load(Ordering::Acquire);
                        *inside = Some(number);
                    }
                    let newer = announced.load(Ordering::Relaxed);
                    // The owner itself reverts what was announced while it was inside.
                    if newer != number
                        && let Some(mut inside) = owner.enter()
                    {
                        *inside = None;
                    }
                }
            });
            for number in 1..=ROUNDS {
                announced.store(number, Ordering::SeqCst);
                for left in revoke_idle(&mut revokers) {
                    assert!(left <= number);
                }
            }
        });
        assert!(
            revoke_idle(&mut revokers)
                .iter()
                .all(|&left| left == ROUNDS)
        );
    }
}
