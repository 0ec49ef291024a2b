//! Tests of the crate through its public API.
#![expect(clippy::unwrap_used, reason = "what fails in a test fails the test")]
#![expect(
    clippy::needless_pass_by_value,
    reason = "errors and kinds are made to be checked"
)]

mod auto_traits;
mod errors;
mod interop;
mod perf;
mod semantics;
mod statistics;
mod surface;
mod timestamps;
mod transactions;
mod ttl;
