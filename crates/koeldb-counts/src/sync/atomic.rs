//! Counted atomics: each dereferences to the standard library's for loads and plain access.

use ::std::fmt;
use ::std::ops::{Deref, DerefMut};
use ::std::sync::atomic;

pub use ::std::sync::atomic::*;

use crate::record::{self, Event};

/// Declares a counted atomic with its read-modify-writes.
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident $(<$parameter:ident>)?, $value:ty, $($method:ident),*) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name $(<$parameter>)? (atomic::$name $(<$parameter>)?);

        /// The methods of the standard library.
        #[allow(missing_docs, clippy::missing_errors_doc, reason = "the standard library's")]
        impl $(<$parameter>)? $name $(<$parameter>)? {
            #[must_use]
            pub const fn new(value: $value) -> Self {
                $name(atomic::$name::new(value))
            }

            #[must_use]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            /// Stores a value; records a `SeqCst` store, which is a locked exchange on x86-64.
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                if order == Ordering::SeqCst {
                    record::add_rmw(self);
                }
                self.0.store(value, order);
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                record::add_rmw(self);
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Exchanges like `compare_exchange`, which is strong, so that no failure is spurious.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut found = self.0.load(fetch);
                while let Some(new) = update(found) {
                    match self.compare_exchange(found, new, set, fetch) {
                        Ok(before) => return Ok(before),
                        Err(now) => found = now,
                    }
                }
                Err(found)
            }

            $(
                #[track_caller]
                pub fn $method(&self, value: $value, order: Ordering) -> $value {
                    record::add_rmw(self);
                    self.0.$method(value, order)
                }
            )*
        }

        impl $(<$parameter>)? Deref for $name $(<$parameter>)? {
            type Target = atomic::$name $(<$parameter>)?;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl $(<$parameter>)? DerefMut for $name $(<$parameter>)? {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }

        impl $(<$parameter>)? From<$value> for $name $(<$parameter>)? {
            fn from(value: $value) -> Self {
                $name::new(value)
            }
        }

        impl $(<$parameter>)? Default for $name $(<$parameter>)? {
            fn default() -> Self {
                $name(atomic::$name::default())
            }
        }

        impl $(<$parameter>)? fmt::Debug for $name $(<$parameter>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! counted_integers {
    ($($name:ident $value:ty),*) => {
        $(
            counted!(
                /// A counted atomic integer.
                $name, $value, swap, fetch_add, fetch_sub, fetch_and, fetch_nand, fetch_or,
                fetch_xor, fetch_max, fetch_min
            );
        )*
    };
}

counted_integers!(
    AtomicU8 u8, AtomicU16 u16, AtomicU32 u32, AtomicU64 u64, AtomicUsize usize,
    AtomicI8 i8, AtomicI16 i16, AtomicI32 i32, AtomicI64 i64, AtomicIsize isize
);
counted!(
    /// A counted atomic flag.
    AtomicBool, bool, swap, fetch_and, fetch_nand, fetch_or, fetch_xor
);
counted!(
    /// A counted atomic pointer.
    AtomicPtr<T>, *mut T, swap
);

/// Executes a fence, and records it if it is sequentially consistent.
#[track_caller]
pub fn fence(order: Ordering) {
    if order == Ordering::SeqCst {
        record::add_call(Event::Fence);
    }
    atomic::fence(order);
}
