//! Objects that C holds by a pointer.
//!
//! Each begins with the name of its type. Debug builds check it: a pointer to an object of another
//! type, or to a destroyed one, ends the process.

#![expect(unsafe_code, reason = "the pointers are the caller's")]

use std::alloc::Layout;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::boundary::Failure;

/// An object of C.
#[repr(C)]
pub(crate) struct Handle<T> {
    type_name: &'static str,
    value: T,
}

/// A type without objects, for C types that this library does not serve.
pub(crate) struct Missing(());

const DESTROYED: &str = "an object that was destroyed";

/// The memory of objects that a debug build destroyed, oldest first, to recognize pointers to them.
static DESTROYED_OBJECTS: Mutex<VecDeque<Destroyed>> = Mutex::new(VecDeque::new());

/// The largest number of destroyed objects whose memory is kept.
const DESTROYED_COUNT_MAX: usize = 4096;

/// The memory of an object that was destroyed.
struct Destroyed {
    pointer: *mut u8,
    layout: Layout,
}

// SAFETY: the entry owns the memory.
unsafe impl Send for Destroyed {}

impl Drop for Destroyed {
    fn drop(&mut self) {
        // SAFETY: the memory is that of a box, whose value was moved out.
        unsafe { std::alloc::dealloc(self.pointer, self.layout) };
    }
}

/// Moves the object out of a handle. Debug builds keep the memory for a while.
///
/// # Safety
/// The pointer is from [`give`], and is not used again.
unsafe fn unbox<T>(pointer: *mut Handle<T>) -> T {
    if !cfg!(debug_assertions) {
        // SAFETY: promised by the caller.
        return unsafe { Box::from_raw(pointer) }.value;
    }
    // SAFETY: promised by the caller.
    let handle = unsafe { &mut *pointer };
    handle.check();
    handle.type_name = DESTROYED;
    // SAFETY: the value is moved out once: a second time fails the check.
    let value = unsafe { (&raw const handle.value).read() };
    let mut destroyed = DESTROYED_OBJECTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    destroyed.push_back(Destroyed {
        pointer: pointer.cast(),
        layout: Layout::new::<Handle<T>>(),
    });
    if destroyed.len() > DESTROYED_COUNT_MAX {
        destroyed.pop_front();
    }
    value
}

impl<T> Handle<T> {
    #[inline]
    pub(crate) fn new(value: T) -> Self {
        Handle {
            type_name: std::any::type_name::<T>(),
            value,
        }
    }

    #[inline]
    fn check(&self) {
        debug_assert_eq!(self.type_name, std::any::type_name::<T>(), "wrong handle");
    }

    /// Returns the object.
    #[inline]
    pub(crate) fn get(&self) -> &T {
        self.check();
        &self.value
    }
}

/// A result that becomes an object of C: a type of `abi/types.tsv`, or an `Option` of one.
pub(crate) trait Given {
    /// The type of the object.
    type Value;

    /// Returns the object; `None` for a null pointer.
    fn given(self) -> Option<Self::Value>;
}

impl<T> Given for Option<T> {
    type Value = T;

    fn given(self) -> Option<T> {
        self
    }
}

/// Gives an object to C; null for `None`.
#[inline]
pub(crate) fn give<G: Given>(given: G) -> *mut Handle<G::Value> {
    let boxed = |value| Box::into_raw(Box::new(Handle::new(value)));
    given.given().map_or(std::ptr::null_mut(), boxed)
}

/// Returns the object behind a pointer.
///
/// # Safety
/// The pointer is null or that of an object of this type, which outlives the call and that nobody
/// changes meanwhile.
#[inline]
pub(crate) unsafe fn shared<'a, T>(
    pointer: *const Handle<T>,
    name: &str,
) -> Result<&'a T, Failure> {
    // SAFETY: promised by the caller.
    let handle = unsafe { pointer.as_ref() };
    let handle = handle.ok_or_else(|| Failure::null(name))?;
    Ok(handle.get())
}

/// Returns the object behind a pointer, to change it.
///
/// # Safety
/// As [`shared`], and nobody else uses the object meanwhile.
#[inline]
pub(crate) unsafe fn exclusive<'a, T>(
    pointer: *mut Handle<T>,
    name: &str,
) -> Result<&'a mut T, Failure> {
    // SAFETY: promised by the caller.
    let handle = unsafe { pointer.as_mut() };
    let handle = handle.ok_or_else(|| Failure::null(name))?;
    handle.check();
    Ok(&mut handle.value)
}

/// Returns the object behind a pointer; `None` if it is null.
///
/// # Safety
/// As [`shared`].
#[inline]
pub(crate) unsafe fn optional<'a, T>(pointer: *const Handle<T>) -> Option<&'a T> {
    // SAFETY: promised by the caller.
    unsafe { pointer.as_ref() }.map(Handle::get)
}

/// Takes an object back from C.
///
/// # Safety
/// The pointer is null or from [`give`], and is not used again.
pub(crate) unsafe fn take<T>(pointer: *mut Handle<T>, name: &str) -> Result<T, Failure> {
    // SAFETY: promised by the caller.
    let taken = unsafe { take_optional(pointer) };
    taken.ok_or_else(|| Failure::null(name))
}

/// Takes an object back from C; `None` if the pointer is null.
///
/// # Safety
/// As [`take`].
pub(crate) unsafe fn take_optional<T>(pointer: *mut Handle<T>) -> Option<T> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: it is not null, and the caller promises the rest.
    Some(unsafe { unbox(pointer) })
}

/// Destroys an object; null is permitted.
///
/// # Safety
/// As [`take`].
pub(crate) unsafe fn destroy<T>(pointer: *const Handle<T>) {
    let pointer = pointer.cast_mut();
    if pointer.is_null() {
        return;
    }
    match cfg!(debug_assertions) {
        // SAFETY: it is not null, and the caller promises the rest.
        true => drop(unsafe { unbox(pointer) }),
        // SAFETY: it is not null, and the caller promises the rest.
        false => drop(unsafe { Box::from_raw(pointer) }),
    }
}
