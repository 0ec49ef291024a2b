//! Tests of KoelDB with crashes, storage failures, killed processes and concurrent processes.
//!
//! - [`sweep`]: runs scripts on a file system in memory; before every operation that changes it the
//!   power is cut, and the result is recovered and checked.
//! - [`threads`]: the same with several concurrent writers.
//! - [`faults`]: runs scripts on storage that fails at each operation in turn.
//! - [`sequences`]: all short sequences of operations, with crashes at their syncs.
//! - [`space`]: a disk that fills up.
//! - [`simulation`]: the whole database in one thread, determined by a seed.
//! - [`interleavings`]: calls between the steps of background jobs and of other calls, by a seed.
//! - [`kill`]: a process under load is killed repeatedly. [`neighbours`]: two processes in one
//!   directory.
//! - [`transactions`]: prepared transactions, with the power cut at every operation.
//! - [`atomic`]: column families without a log that are flushed together, in the same way.
//! - [`pairs`]: calls that change two directories, cut off at each operation; [`exports`] and
//!   [`feeds`]: exports and imports, and a replica that follows the change feed, in the same way.
//!
//! `KOELDB_FLOORS=gate` and `long` do more (`koeldb_testkit::floors`); `KOELDB_SEED` and
//! `KOELDB_SCRIPT` repeat a printed failure.
#![expect(
    clippy::disallowed_methods,
    reason = "directories are prepared and removed without the code under test"
)]
#![expect(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod atomic;
mod check;
mod exports;
mod faults;
mod feeds;
mod interleavings;
mod kill;
mod neighbours;
mod pairs;
mod paths;
mod script;
mod scripts;
mod sequences;
mod session;
mod simulation;
mod space;
mod sweep;
mod threads;
mod transactions;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// The seed of this run.
fn seed() -> u64 {
    match std::env::var("KOELDB_SEED") {
        Ok(text) => text.parse().expect("KOELDB_SEED is a number"),
        Err(_) => 1,
    }
}

/// Seconds on the monotonic clock.
fn seconds() -> f64 {
    use koeldb::fs::Clock;
    koeldb::fs::SystemClock.now().as_secs_f64()
}

/// A directory that goes away with the value.
struct ScratchDir {
    path: PathBuf,
}

impl ScratchDir {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("koeldb-crash-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        ScratchDir { path }
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
