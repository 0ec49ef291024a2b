//! The state of callbacks, and macros for the functions that take over objects.
//!
//! A caller of C promises that callbacks and their state may be used by any thread, several at a
//! time, and that the state is valid until its destructor is called.

#![expect(unsafe_code, reason = "calls functions of the caller with its state")]

use std::ffi::{c_char, c_void};

use crate::memory;

/// The function that destroys a state.
pub(crate) type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;

/// The function that returns the name of an object.
pub(crate) type Name = Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>;

/// The state that C passes to its callbacks; dropping it calls its destructor.
pub(crate) struct State {
    pointer: *mut c_void,
    destructor: Destructor,
}

// SAFETY: the caller promises that any thread may use and destroy the state.
unsafe impl Send for State {}
// SAFETY: the caller promises that several threads may use the state at a time.
unsafe impl Sync for State {}

impl State {
    pub(crate) fn new(pointer: *mut c_void, destructor: Destructor) -> Self {
        State {
            pointer,
            destructor,
        }
    }

    /// Returns the pointer, for a callback.
    pub(crate) fn get(&self) -> *mut c_void {
        self.pointer
    }

    /// Returns a copy of the name; empty without a function for it.
    pub(crate) fn name(&self, name: Name) -> String {
        let Some(name) = name else {
            return String::new();
        };
        // SAFETY: the function takes this state, as the caller promises.
        let name = unsafe { name(self.pointer) };
        // SAFETY: it returns null or a text, which is copied before anything else happens.
        let name = unsafe { memory::optional_text(name) };
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: nobody has the state any more; this is the only call.
            unsafe { destructor(self.pointer) };
        }
    }
}

/// Defines an unsafe function that gives an object of options, or null, to them.
macro_rules! given {
    ($(#[$doc:meta])* $name:ident($Target:ty, $Given:ty) = |$target:ident, $given:ident| $body:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// The pointers are objects of these types; the second is not used again.
        pub(crate) unsafe fn $name(
            target: *mut crate::handle::Handle<$Target>,
            given: *mut crate::handle::Handle<$Given>,
        ) {
            // SAFETY: promised by the caller.
            let $target = crate::boundary::needed(unsafe { crate::handle::exclusive(target, "options") });
            // SAFETY: promised by the caller.
            let $given = unsafe { crate::handle::take_optional(given) };
            $body
        }
    };
}

pub(super) use given;
