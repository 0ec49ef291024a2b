//! The boundary between C and Rust: errors, panics and null pointers.
//!
//! With an `errptr`, a failure replaces the text it points to; on success it stays untouched. Without
//! one, a null pointer or a panic ends the process with a line that names the function.

#![expect(unsafe_code, reason = "writes through the caller's errptr")]

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use crate::memory;

/// Why a call fails.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The engine's error.
    Engine(koeldb::Error),
    /// An error of this library, as RocksDB would print it.
    Text(String),
}

impl From<koeldb::Error> for Failure {
    fn from(error: koeldb::Error) -> Self {
        Failure::Engine(error)
    }
}

impl Failure {
    /// The pointer `name` is null, and must not be.
    #[cold]
    #[inline(never)]
    pub(crate) fn null(name: &str) -> Self {
        Failure::argument(format!("{name} is null"))
    }

    /// An argument that the caller must not pass.
    pub(crate) fn argument(text: impl std::fmt::Display) -> Self {
        Failure::Text(format!("Invalid argument: {text}"))
    }

    /// A request that this library does not serve.
    pub(crate) fn unserved(text: impl std::fmt::Display) -> Self {
        Failure::Text(format!("Not implemented: {text}"))
    }

    /// The text of the failure as RocksDB prints a status.
    pub(crate) fn text(&self) -> String {
        match self {
            Failure::Engine(error) => error.status_text(),
            Failure::Text(text) => text.clone(),
        }
    }
}

/// What a failed call returns.
pub(crate) trait Empty {
    /// Zero, false or null.
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

/// Runs the body of the function `name`, and hands its failure or panic to C.
///
/// Each exported function is one call of it: inlined, arguments stay in registers.
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

/// Hands a failure or a panic to C.
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

/// Returns what a panic said.
fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    let borrowed = || panic.downcast_ref::<&str>().copied();
    owned.or_else(borrowed).unwrap_or("a panic")
}

/// Ends the process: the function has no other way to fail.
#[cold]
fn abort(name: &str, failure: &str) -> ! {
    eprintln!("koeldb: {name}: {failure}");
    std::process::abort()
}

/// Whether functions that are not served end the process: `KOELDB_C_STRICT=1`.
static IS_STRICT: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("KOELDB_C_STRICT").is_some_and(|value| value == "1"));

/// The error of a function that this library does not serve.
pub(crate) fn unserved(name: &str, why: &str) -> Failure {
    let why = if why.is_empty() {
        String::new()
    } else {
        format!(": {why}")
    };
    let text = format!("{name}{why}");
    if *IS_STRICT {
        abort(name, &format!("Not implemented{why}"));
    }
    Failure::unserved(text)
}

/// The result of a function that is not served: an error, or nothing where it cannot fail.
pub(crate) fn refused<R: Empty>(name: &str, why: &str, can_fail: bool) -> Result<R, Failure> {
    let failure = unserved(name, why);
    match can_fail {
        true => Err(failure),
        false => Ok(R::empty()),
    }
}
