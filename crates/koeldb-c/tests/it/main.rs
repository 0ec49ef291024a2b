//! Tests of the C library: its header, its symbols, and programs in C.

#[path = "../../build/abi.rs"]
#[expect(dead_code, reason = "the build script reads more")]
mod abi;
mod header;
mod languages;
mod programs;
mod symbols;
