//! Damaged and hostile files: KoelDB's decoders as plain functions of bytes, and inputs for them.
//!
//! For any bytes, a decoder returns a value or an error, soon, and with little memory; and if a
//! value has a canonical form, encoding and decoding it again gives the same value. A
//! [`targets::Target`] asserts that for one decoder. The targets are run by a coverage-guided
//! fuzzer (`fuzz/`), and by the tests of this crate over seeds and mutations of them.
//!
//! - [`targets`]: the entry functions and their list. [`seeds`]: valid inputs, most of them from
//!   files that RocksDB wrote.
//! - [`mutate`]: random changes of bytes, with a preference for boundary values. [`reseal`]:
//!   recomputes checksums, so that damage reaches the decoders behind them.
//! - [`bytes_file`]: in-memory files.
//!
//! The crate starts no threads; any number of threads may call every function.

pub mod bytes_file;
pub mod mutate;
pub mod reseal;
pub mod seeds;
pub mod targets;

pub use bytes_file::BytesFile;
pub use targets::{TARGETS, Target};
