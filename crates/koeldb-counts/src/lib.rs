//! The standard library with counted locks, atomics, reference counts and allocations.
//!
//! With `--cfg koeldb_counts` every crate of the engine declares this crate under the name `std`. All its
//! code is counted then, and code that is added later as well, without an import of its own. Without
//! that, the crate is empty and nothing depends on it, so that an ordinary build stays the same to the
//! instruction. Custom reference counts that convert to trait objects need unstable features of the
//! language, so `.ci/counts` sets `RUSTC_BOOTSTRAP`.
//!
//! - `record`: the events of a thread, and threads that wait. Nothing is recorded outside
//!   `record::during`.
//! - `sync`, `thread`, `hint`: the counted parts of the standard library. Locks hand out the
//!   guards of the standard library, so a lock is counted with its unlock.
//! - `allocator`: the global allocator.
//!
//! Other crates (`bytes`) and the inside of the standard library (channels) are not counted.

#![cfg_attr(
    koeldb_counts,
    feature(clone_to_uninit, coerce_unsized, dispatch_from_dyn, unsize),
    allow(
        internal_features,
        reason = "stable in practice: smart pointers of other crates use them"
    )
)]

#[cfg(koeldb_counts)]
mod allocator;
#[cfg(koeldb_counts)]
pub mod hint;
#[cfg(koeldb_counts)]
pub mod record;
#[cfg(koeldb_counts)]
pub mod sync;
#[cfg(koeldb_counts)]
pub mod thread;

#[cfg(koeldb_counts)]
pub use ::std::*;
