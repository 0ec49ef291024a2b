//! Tests of the crate through its public API.

mod errors;
mod interop;
mod semantics;
mod surface;
