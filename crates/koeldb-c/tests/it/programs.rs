//! Programs in C, compiled against the header and linked with the library.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the library that `cargo test` built.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

/// The library that `cargo test` built.
pub(crate) fn library_path() -> PathBuf {
    library().join(format!(
        "lib{}.so",
        env!("CARGO_PKG_NAME").replace('-', "_")
    ))
}

/// Returns whether there is a C compiler; prints a notice if not.
fn has_compiler() -> bool {
    let found = Command::new("cc").arg("--version").output().is_ok();
    if !found {
        println!("notice: programs in C: no C compiler");
    }
    found
}

/// Compiles a program of `tests/c` and runs it in an empty directory.
fn run(name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    run_file(name, &root.join("tests/c").join(name).with_extension("c"));
}

/// Compiles a program and runs it in an empty directory.
pub(crate) fn run_source(name: &str, source: &str) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join(name).with_extension("c");
    std::fs::write(&path, source).unwrap();
    run_file(name, &path);
}

fn run_file(name: &str, source: &Path) {
    if !has_compiler() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let program = scratch.path().join(name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = library();
    let mut compile = Command::new("cc");
    compile
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-I")
        .arg(root.join("include"))
        .arg("-I")
        .arg(root.join("tests/c"))
        .arg(library_path())
        .arg(format!("-Wl,-rpath,{}", library.display()));
    if cfg!(debug_assertions) {
        compile.arg("-DCHECKED_HANDLES");
    }
    assert!(compile.status().unwrap().success());
    // What the program records is the soname.
    std::os::unix::fs::symlink(library_path(), scratch.path().join("libkoeldb.so.0")).unwrap();
    let ran = Command::new(&program)
        .current_dir(scratch.path())
        .env("LD_LIBRARY_PATH", scratch.path())
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{}\n{printed}\n{errors}", ran.status);
}

#[test]
fn keys_and_values() {
    run("keys_and_values");
}

#[test]
fn families_and_batches() {
    run("families_and_batches");
}

#[test]
fn iterators_and_maintenance() {
    run("iterators_and_maintenance");
}

#[test]
fn opening() {
    run("opening");
}

#[test]
fn compact_files() {
    run("compact_files");
}

#[test]
fn settings() {
    run("settings");
}

#[test]
fn settings_read_back() {
    run("settings_read_back");
}

#[test]
fn comparators() {
    run("comparators");
}

#[test]
fn merge_operators() {
    run("merge_operators");
}

#[test]
fn compaction_filters() {
    run("compaction_filters");
}

#[test]
fn prefix_extractors() {
    run("prefix_extractors");
}

#[test]
fn loggers() {
    run("loggers");
}

#[test]
fn listeners() {
    run("listeners");
}

#[test]
fn job_figures() {
    run("job_figures");
}

#[test]
fn calls_of_bindings() {
    run("calls_of_bindings");
}

#[test]
fn remote_compaction() {
    run("remote_compaction");
}

#[test]
fn table_filters() {
    run("table_filters");
}

#[test]
fn backups() {
    run("backups");
}

#[test]
fn table_files() {
    run("table_files");
}

#[test]
fn transactions() {
    run("transactions");
}

#[test]
fn updates() {
    run("updates");
}

#[test]
fn misuse() {
    run("misuse");
}
