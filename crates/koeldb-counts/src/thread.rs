//! `std::thread`, with counted parks, wakes and yields.

use ::std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use ::std::io;
use ::std::num::NonZero;
use ::std::ops::Deref;
use ::std::time::Duration;

pub use ::std::thread::*;

use crate::record::{self, Event, Site};

/// The number of processors that a counted build finds, so that its counts are the same on all
/// machines.
const PROCESSORS: NonZero<usize> = NonZero::new(16).unwrap();

/// A handle of a thread that records its clones, drops and wakes.
#[derive(Debug)]
pub struct Thread(::std::thread::Thread);

/// Returns a made-up address for the state of a thread: the standard library does not tell its own.
fn address(thread: &::std::thread::Thread) -> usize {
    let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(thread.id());
    // Odd, as no object with a count is.
    usize::try_from(hash | 1).unwrap_or(usize::MAX)
}

impl Thread {
    /// Wakes the thread, and records it.
    #[track_caller]
    pub fn unpark(&self) {
        record::add_call(Event::Wake);
        record::add_call(Event::Rmw(address(&self.0)));
        self.0.unpark();
    }
}

impl Clone for Thread {
    #[track_caller]
    fn clone(&self) -> Self {
        record::add_call(Event::Rmw(address(&self.0)));
        Thread(self.0.clone())
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        record::add(Event::Rmw(address(&self.0)), Site::Drop("Thread"));
    }
}

impl Deref for Thread {
    type Target = ::std::thread::Thread;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Returns a handle of this thread.
#[must_use]
#[track_caller]
pub fn current() -> Thread {
    let thread = ::std::thread::current();
    record::add_call(Event::Rmw(address(&thread)));
    Thread(thread)
}

/// Records a park, with two read-modify-writes of this thread's state.
#[track_caller]
fn add_park() {
    let address = address(&::std::thread::current());
    record::add_call(Event::Park);
    record::add_call(Event::Rmw(address));
    record::add_call(Event::Rmw(address));
}

/// Parks this thread, and records it.
#[track_caller]
pub fn park() {
    add_park();
    record::wait(::std::thread::park);
}

/// Parks this thread for `time` at most, and records it.
#[track_caller]
pub fn park_timeout(time: Duration) {
    add_park();
    record::wait(|| ::std::thread::park_timeout(time));
}

/// Yields to other threads, and records it.
#[track_caller]
pub fn yield_now() {
    record::add_call(Event::Yield);
    ::std::thread::yield_now();
}

/// Returns 16 on all machines, so that the recorded counts do not depend on the machine.
///
/// # Errors
/// None.
pub fn available_parallelism() -> io::Result<NonZero<usize>> {
    Ok(PROCESSORS)
}
