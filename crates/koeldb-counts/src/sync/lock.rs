//! Counted locks with the guards of the standard library.

use ::std::ops::{Deref, DerefMut};
use ::std::sync::{
    self, LockResult, MutexGuard, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult,
    WaitTimeoutResult,
};
use ::std::time::Duration;

use crate::record::{self, Event};

/// Records a lock of an object, and the read-modify-writes of the lock and the unlock.
#[track_caller]
fn add_lock<T: ?Sized>(object: *const T) {
    record::add_call(Event::Lock);
    record::add_rmw(object);
    record::add_rmw(object);
}

/// Returns the guard of `attempt`, or that of `wait` if the lock is held; records lock and wait.
#[track_caller]
fn lock_or_wait<T: ?Sized, G>(
    object: *const T,
    attempt: TryLockResult<G>,
    wait: impl FnOnce() -> LockResult<G>,
) -> LockResult<G> {
    add_lock(object);
    match attempt {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
        Err(TryLockError::WouldBlock) => {
            record::add_call(Event::LockWait);
            record::wait(wait)
        }
    }
}

/// Returns the guard of `attempt`; records the lock, or a failure as one read-modify-write.
#[track_caller]
fn try_lock<T: ?Sized, G>(object: *const T, attempt: TryLockResult<G>) -> TryLockResult<G> {
    match attempt {
        Err(TryLockError::WouldBlock) => record::add_rmw(object),
        _ => add_lock(object),
    }
    attempt
}

/// Declares a counted lock that dereferences to the standard library's.
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub struct $name<T: ?Sized>(sync::$name<T>);

        /// The methods of the standard library.
        #[allow(missing_docs, clippy::missing_errors_doc, reason = "the standard library's")]
        impl<T> $name<T> {
            pub const fn new(value: T) -> Self {
                $name(sync::$name::new(value))
            }

            pub fn into_inner(self) -> LockResult<T> {
                self.0.into_inner()
            }
        }

        impl<T: ?Sized> Deref for $name<T> {
            type Target = sync::$name<T>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl<T: ?Sized> DerefMut for $name<T> {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }
    };
}

counted!(
    /// A counted mutex.
    Mutex
);
counted!(
    /// A counted read-write lock.
    RwLock
);

/// The methods of the standard library.
#[allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "the standard library's"
)]
impl<T: ?Sized> Mutex<T> {
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        lock_or_wait(self, self.0.try_lock(), || self.0.lock())
    }

    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        try_lock(self, self.0.try_lock())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}

/// The methods of the standard library.
#[allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "the standard library's"
)]
impl<T: ?Sized> RwLock<T> {
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        lock_or_wait(self, self.0.try_read(), || self.0.read())
    }

    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        lock_or_wait(self, self.0.try_write(), || self.0.write())
    }

    #[track_caller]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        try_lock(self, self.0.try_read())
    }

    #[track_caller]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        try_lock(self, self.0.try_write())
    }
}

/// A condition variable that records its waits and wakes.
///
/// A wait also unlocks and locks the mutex, and is counted as two read-modify-writes of the
/// variable.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

/// The methods of the standard library.
#[allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "the standard library's"
)]
impl Condvar {
    #[must_use]
    pub const fn new() -> Self {
        Condvar(sync::Condvar::new())
    }

    /// Records a park, and two read-modify-writes of the variable for the mutex's unlock and lock.
    #[track_caller]
    fn add_wait(&self) {
        record::add_call(Event::Park);
        record::add_rmw(self);
        record::add_rmw(self);
    }

    /// Records a wake, and one read-modify-write of the variable.
    #[track_caller]
    fn add_wake(&self) {
        record::add_call(Event::Wake);
        record::add_rmw(self);
    }

    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.add_wait();
        record::wait(|| self.0.wait(guard))
    }

    #[track_caller]
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.add_wait();
        record::wait(|| self.0.wait_timeout(guard, time))
    }

    /// Waits up to `time` while `condition` holds; records one wait however often the thread wakes.
    #[track_caller]
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.add_wait();
        record::wait(|| self.0.wait_timeout_while(guard, time, condition))
    }

    #[track_caller]
    pub fn notify_one(&self) {
        self.add_wake();
        self.0.notify_one();
    }

    #[track_caller]
    pub fn notify_all(&self) {
        self.add_wake();
        self.0.notify_all();
    }
}
