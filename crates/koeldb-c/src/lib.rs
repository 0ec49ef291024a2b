//! The functions of RocksDB's `rocksdb/c.h` on KoelDB, for every language that calls C.
//!
//! `abi/functions.tsv` lists all functions of RocksDB 11.9 with their implementations. The build
//! script generates the exported functions from it, which convert between C and Rust. The modules
//! have the functions that they call. Whatever a database does is left to the engine.
//!
//! | `does` | implementation |
//! |---|---|
//! | `safe PATH` | a function of converted arguments: `&T` for objects, `&[u8]` for pointer and length, `bool` |
//! | `raw PATH` | an unsafe function of the C arguments: arrays, callbacks, out-parameters of objects |
//! | `create`, `destroy` | `Default`, `Drop` |
//! | `option NAME` | an option of the engine by its name, set or returned |
//! | `accepted` | a setter without effect on answers and durability |
//! | `refused WHY` | fails with `Not implemented`, or does nothing and returns zero |
//!
//! The column `tier` is the use of a function among bindings of other languages, from all of six
//! (T0) to none (T5).
//!
//! | module | its functions |
//! |---|---|
//! | `boundary`, `handle`, `memory`, `text` | errors and panics; objects; bytes and texts that cross the boundary |
//! | `data` | databases, column families, reads, writes, batches, iterators, maintenance |
//! | `settings` | options, and the objects that they refer to: caches, environments, limiters |
//! | `plugins` | objects with callbacks: comparators, merge operators, filters, listeners, services |
//! | `transactions` | transactions and indexed batches |
//! | `copies` | checkpoints, backups, exports, external tables, lists of files |
//!
//! The library starts no threads. Callbacks run in the calling thread or in threads of the engine,
//! none of which holds a lock of the engine then.
//!
//! # Safety
//! A caller keeps the rules of `rocksdb/c.h`, which unsafe functions call *the rules of C*:
//!
//! - A pointer to an object is null, or comes from a function that returns its type. It is not used
//!   after its `destroy`, nor after it was given away.
//! - Arrays and bytes have the length that is passed with them, and texts end with a zero. They do
//!   not change during the call. Out-parameters are null or may be written.
//! - One thread at a time uses an iterator, a batch, a transaction or an object that is being
//!   configured.
//! - Callbacks accept the state that was passed with them, from any thread.
//!
//! In `SAFETY:` comments, the caller is that of C, through the generated functions.

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
