//! The functions of RocksDB's `rocksdb/c.h` on KoelDB, for every language that calls C.
//!
//! `abi/functions.tsv` lists all functions of RocksDB 11.9 and what each does here. The build script
//! generates the exported functions from it, which convert between C and Rust; the modules have what
//! they call, in safe Rust with the types of the engine:
//!
//! | `does` | what it is |
//! |---|---|
//! | `safe PATH` | a function of converted arguments: `&T` for objects, `&[u8]` for pointer and length, `bool` |
//! | `raw PATH` | an unsafe function of the C arguments: arrays, callbacks, out-parameters of objects |
//! | `create`, `destroy` | `Default`, `Drop` |
//! | `option NAME` | an option of the engine by its name, set or returned |
//! | `accepted` | a setter without effect on answers and durability |
//! | `refused WHY` | fails with `Not implemented`, or does nothing and returns zero |
//! | `inert WHY` | returns an object whose uses fail |
//!
//! # Safety
//! A caller keeps the rules of `rocksdb/c.h`: pointers come from the function of their type and are
//! not used after their `destroy`; lengths are those of the bytes; one thread at a time uses an
//! iterator, a batch, a transaction or an object that is being configured. Modules that convert
//! pointers rely on that, and say where.

#[cfg(panic = "abort")]
compile_error!("panics must unwind, to become errors of C");

mod boundary;
mod copies;
mod data;
mod handle;
mod memory;
mod plugins;
mod settings;
mod text;
mod transactions;

#[expect(
    unsafe_code,
    unused_variables,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "generated; the module's rules are those of the crate"
)]
mod functions {
    include!(concat!(env!("OUT_DIR"), "/functions.rs"));
}

/// Returns the release of this library, such as `0.1.0` (`koeldb_version`).
fn version() -> &'static std::ffi::CStr {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    std::ffi::CStr::from_bytes_with_nul(VERSION.as_bytes()).unwrap_or_default()
}
