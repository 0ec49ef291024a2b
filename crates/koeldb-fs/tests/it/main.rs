//! Integration tests of the file systems.
#![expect(clippy::unwrap_used, reason = "a failed test is a panic")]

mod behaviour;
mod crash;
mod environment;
mod layers;
#[cfg(unix)]
mod posix;
mod scratch;
