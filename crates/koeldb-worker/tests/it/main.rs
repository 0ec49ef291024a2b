//! Remote compaction through a directory.
#![expect(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod memory;
mod processes;
