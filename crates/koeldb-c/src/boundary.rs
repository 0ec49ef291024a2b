//! The boundary between C and Rust: errors, panics and null pointers.
//!
//! With an `errptr`, a failure replaces the text it points to; on success it stays untouched.
//! Without one, a null pointer or a panic ends the process with a line that names the function.

#![expect(unsafe_code, reason = "writes through the caller's errptr")]

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use crate::memory;

/// The error of a call.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The engine's error.
    Engine(koeldb::Error),
    /// An error of this library, in the format of RocksDB's statuses.
    Text(String),
}

impl From<koeldb::Error> for Failure {
    fn from(error: koeldb::Error) -> Self {
        Failure::Engine(error)
    }
}

impl Failure {
    /// Creates the error of the argument `name`, which is null and must not be.
    #[cold]
    #[inline(never)]
    pub(crate) fn null(name: &str) -> Self {
        Failure::argument(format!("{name} is null"))
    }

    /// Creates the error of an argument that is not permitted.
    pub(crate) fn argument(text: impl std::fmt::Display) -> Self {
        Failure::Text(format!("Invalid argument: {text}"))
    }

    /// Creates the error of a request that this library does not serve.
    pub(crate) fn unserved(text: impl std::fmt::Display) -> Self {
        Failure::Text(format!("Not implemented: {text}"))
    }

    /// Returns the text, in the format of RocksDB's statuses.
    pub(crate) fn text(&self) -> String {
        match self {
            Failure::Engine(error) => error.status_text(),
            Failure::Text(text) => text.clone(),
        }
    }
}

/// A type of returned values.
pub(crate) trait Empty {
    /// Returns the value of a failed call: zero, false or null.
    fn empty() -> Self;
}

macro_rules! empty {
    ($($type:ty = $value:expr),*) => {$(
        impl Empty for $type {
            fn empty() -> Self {
                $value
            }
        }
    )*};
}

empty!(
    () = (),
    bool = false,
    u8 = 0,
    u32 = 0,
    i32 = 0,
    u64 = 0,
    i64 = 0,
    usize = 0,
    f64 = 0.0
);

impl<T> Empty for *mut T {
    fn empty() -> Self {
        std::ptr::null_mut()
    }
}

impl<T> Empty for *const T {
    fn empty() -> Self {
        std::ptr::null()
    }
}

impl Empty for memory::Slice {
    fn empty() -> Self {
        memory::Slice::from(&[][..])
    }
}

/// Runs the body of the function `name`, and reports its failure or panic to C.
///
/// Each exported function consists of one call of it. It is inlined to keep arguments in registers.
///
/// # Safety
/// `errptr` is null, or points to null or to a text from the C heap.
#[inline(always)]
pub(crate) unsafe fn call<R: Empty>(
    name: &str,
    errptr: *mut *mut c_char,
    body: impl FnOnce() -> Result<R, Failure>,
) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(returned)) => return returned,
        // SAFETY: promised by the caller.
        Ok(Err(failure)) => unsafe { fail(name, errptr, Ok(&failure)) },
        // SAFETY: promised by the caller.
        Err(panic) => unsafe { fail(name, errptr, Err(&*panic)) },
    }
    R::empty()
}

/// Reports a failure or a panic to C.
///
/// # Safety
/// As [`call`].
#[cold]
#[inline(never)]
unsafe fn fail(
    name: &str,
    errptr: *mut *mut c_char,
    failure: Result<&Failure, &(dyn std::any::Any + Send)>,
) {
    let failure = match failure {
        Ok(failure) => failure.text(),
        Err(panic) => format!("Corruption: internal error in {name}: {}", message(panic)),
    };
    if errptr.is_null() {
        abort(name, &failure);
    }
    // SAFETY: `errptr` is not null, and the caller promises the rest.
    unsafe { set_error(errptr, &failure) };
}

/// Replaces the text behind `errptr`.
///
/// # Safety
/// `errptr` points to null or to a text from the C heap.
pub(crate) unsafe fn set_error(errptr: *mut *mut c_char, text: &str) {
    // SAFETY: the caller promises that it points to a pointer.
    let previous = unsafe { errptr.replace(memory::give_text(text)) };
    // SAFETY: the caller promises that it is null or from the C heap.
    unsafe { libc::free(previous.cast()) };
}

/// Returns an argument, or ends the process by a panic: for functions that cannot fail.
pub(crate) fn needed<T>(argument: Result<T, Failure>) -> T {
    argument.unwrap_or_else(|failure| panic!("{}", failure.text()))
}

/// Returns the message of a panic.
fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    let borrowed = || panic.downcast_ref::<&str>().copied();
    owned.or_else(borrowed).unwrap_or("a panic")
}

/// Ends the process with a line on the standard error stream.
#[cold]
fn abort(name: &str, failure: &str) -> ! {
    eprintln!("koeldb: {name}: {failure}");
    std::process::abort()
}

/// Whether refused functions end the process: `KOELDB_C_STRICT=1`.
static IS_STRICT: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("KOELDB_C_STRICT").is_some_and(|value| value == "1"));

/// Returns the result of a function that is not served: an error or, if it cannot fail, nothing.
pub(crate) fn refused<R: Empty>(name: &str, why: &str, can_fail: bool) -> Result<R, Failure> {
    if *IS_STRICT {
        abort(name, &format!("Not implemented: {why}"));
    }
    match can_fail {
        true => Err(Failure::unserved(format!("{name}: {why}"))),
        false => Ok(R::empty()),
    }
}
