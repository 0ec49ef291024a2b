//! Tests of the C library: its header, its symbols, and programs in C.
#![expect(clippy::unwrap_used, reason = "what fails in a test fails the test")]
#![expect(
    clippy::disallowed_methods,
    reason = "headers and what compilers read are plain files"
)]

#[path = "../../build/abi.rs"]
#[expect(dead_code, reason = "the build script reads more")]
mod abi;
mod header;
mod languages;
mod misuse;
mod programs;
mod symbols;
