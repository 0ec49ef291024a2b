//! Damaged and hostile files: KoelDB's decoders as plain functions from bytes to nothing, and the bytes to feed them.
//!
//! Whatever the bytes are, a decoder returns a value or an error, soon, and with little memory; and where a value has
//! a canonical form, encoding it again gives a value that is the same. A [`targets::Target`] asserts that of one decoder. The
//! targets are run by a coverage-guided fuzzer (`fuzz/`), and by the tests of this crate over seeds and mutations of
//! them.
//!
//! - [`targets`]: the entry functions and their list. [`seeds`]: valid inputs, most of them from files that RocksDB wrote.
//! - [`mutate`]: bytes changed at random, with a liking for what numbers break at. [`reseal`]: checksums made to match
//!   again, so that damage reaches what lies behind them.
//! - [`bytes_file`]: files whose bytes are at hand.
//!
//! Nothing here has threads of its own; every function may be called by any number of threads.

pub mod bytes_file;
pub mod mutate;
pub mod reseal;
pub mod seeds;
pub mod targets;

pub use bytes_file::BytesFile;
pub use targets::{TARGETS, Target};
