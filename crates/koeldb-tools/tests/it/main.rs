//! Runs the tools as processes and checks exit status, standard output and written files.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at what the tools leave on disk"
)]

mod book;
mod db_bench;
mod judge;
mod ldb;
mod packages;
mod remote;
mod sst_dump;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a tool and returns whether it succeeded, its standard output and its standard error.
fn run(tool: &str, words: &[&str]) -> (bool, String, String) {
    let path = match tool {
        "db_bench" => env!("CARGO_BIN_EXE_db_bench"),
        "ldb" => env!("CARGO_BIN_EXE_ldb"),
        _ => env!("CARGO_BIN_EXE_sst_dump"),
    };
    let output = Command::new(path)
        .args(words)
        .output()
        .expect("the tool starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.success(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Returns the standard output of a tool that must succeed.
fn succeed(tool: &str, words: &[&str]) -> String {
    let (success, out, err) = run(tool, words);
    assert!(success, "{tool} {words:?}: {err}");
    out
}

/// Returns the standard error of a tool that must fail.
fn fail(tool: &str, words: &[&str]) -> String {
    let (success, _, err) = run(tool, words);
    assert!(!success, "{tool} {words:?} succeeded");
    err
}

/// A directory that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("koeldb-tools-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a new directory");
        Scratch(path)
    }

    /// Returns `--db=` and a directory inside.
    fn db(&self) -> String {
        format!("--db={}", self.0.join("db").display())
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Leftovers are in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The databases written by RocksDB.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden")
}
