//! The recorder of a thread's events, and the count of waiting threads.

use ::std::cell::{Cell, RefCell};
use ::std::fmt;
use ::std::panic::Location;
use ::std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A recorded event of one thread: an atomic operation, a lock, a wait, a wake, an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// An atomic read-modify-write or sequentially consistent store of the object at this address.
    Rmw(usize),
    /// A sequentially consistent fence.
    Fence,
    /// A mutex or a read-write lock was locked; its two read-modify-writes are counted too.
    Lock,
    /// A wait for a mutex or read-write lock that another thread held.
    LockWait,
    /// The thread parked, or waited for a condition variable.
    Park,
    /// Another thread was unparked, or a condition variable was notified.
    Wake,
    /// The thread yielded.
    Yield,
    /// Memory was allocated or reallocated.
    Allocation,
}

/// The origin of an event: a source line, a reference to a type, or the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    /// A call in the source.
    Call(&'static Location<'static>),
    /// A clone of a reference to a value of this type, by the standard library.
    Clone(&'static str),
    /// The drop of a reference to a value of this type.
    Drop(&'static str),
    /// The allocator.
    Allocator,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Call(location) => write!(f, "{}:{}", location.file(), location.line()),
            Site::Clone(type_name) => write!(f, "clone of {type_name}"),
            Site::Drop(type_name) => write!(f, "drop of {type_name}"),
            Site::Allocator => f.write_str("allocator"),
        }
    }
}

/// An event with its origin.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The event.
    pub event: Event,
    /// Its origin.
    pub site: Site,
}

thread_local! {
    static IS_RECORDING: Cell<bool> = const { Cell::new(false) };
    static RECORDS: RefCell<Vec<Record>> = const { RefCell::new(Vec::new()) };
}

/// Whether freed memory is kept, so that no two objects of a run have the same address.
static KEEPS_MEMORY: AtomicBool = AtomicBool::new(false);
/// Whether a thread that spins sleeps instead.
static HOLDS_SPINNERS: AtomicBool = AtomicBool::new(false);
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Calls `run`; returns its result and the events that this thread recorded meanwhile.
pub fn during<R>(run: impl FnOnce() -> R) -> (R, Vec<Record>) {
    IS_RECORDING.set(true);
    let returned = run();
    IS_RECORDING.set(false);
    (returned, RECORDS.take())
}

/// Appends an event to the records of this thread, if it is recording.
pub(crate) fn add(event: Event, site: Site) {
    // Not while a thread ends, and not for the list itself.
    if IS_RECORDING.try_with(|recording| recording.replace(false)) != Ok(true) {
        return;
    }
    RECORDS.with_borrow_mut(|records| records.push(Record { event, site }));
    IS_RECORDING.set(true);
}

/// Adds an event whose origin is the caller's source line.
#[track_caller]
pub(crate) fn add_call(event: Event) {
    add(event, Site::Call(Location::caller()));
}

/// Adds a read-modify-write of `object` whose origin is the caller's source line.
#[track_caller]
pub(crate) fn add_rmw<T: ?Sized>(object: *const T) {
    add_call(Event::Rmw(object.cast::<()>().addr()));
}

/// Adds the read-modify-write of a reference count by the clone of a reference to `value`.
#[track_caller]
pub(crate) fn add_clone<T: ?Sized>(value: *const T) {
    let caller = Location::caller();
    // Sources of the standard library tell nothing about the reference.
    let site = match caller.file().starts_with("/rustc/") {
        true => Site::Clone(::std::any::type_name::<T>()),
        false => Site::Call(caller),
    };
    add(Event::Rmw(value.cast::<()>().addr()), site);
}

/// Makes the allocator keep all memory freed from now on: an address then belongs to one object.
pub fn keep_memory() {
    KEEPS_MEMORY.store(true, Ordering::Relaxed);
}

/// Whether the allocator keeps freed memory ([`keep_memory`]).
pub(crate) fn keeps_memory() -> bool {
    KEEPS_MEMORY.load(Ordering::Relaxed)
}

/// Sets whether a spinning thread sleeps for a moment at each spin.
///
/// It then waits long enough whatever the processors do.
pub fn hold_spinners(holds: bool) {
    HOLDS_SPINNERS.store(holds, Ordering::Relaxed);
}

/// Whether spinning threads sleep at each spin ([`hold_spinners`]).
pub(crate) fn holds_spinners() -> bool {
    HOLDS_SPINNERS.load(Ordering::Relaxed)
}

/// Returns the number of recording threads that wait: parked, for a lock, or as held spinners.
#[must_use]
pub fn waiting() -> usize {
    WAITING.load(Ordering::Relaxed)
}

/// Calls `waits`, and counts this thread as waiting meanwhile if it records events.
pub(crate) fn wait<R>(waits: impl FnOnce() -> R) -> R {
    let counted = usize::from(IS_RECORDING.get());
    WAITING.fetch_add(counted, Ordering::Relaxed);
    let returned = waits();
    WAITING.fetch_sub(counted, Ordering::Relaxed);
    returned
}
