//! Integration tests of memtables.
#![expect(clippy::unwrap_used, reason = "a failed test may panic anywhere")]

mod memory;
mod model;
mod stress;
