//! The programs of `docs/other-languages.md` are those of the examples, and print the same.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::library_path;

const EXPECTED: &str = "koel: Eudynamys\nani = Crotophaga\nkoel = Eudynamys\n";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn the_page_has_the_examples() {
    let page = std::fs::read_to_string(root().join("docs/other-languages.md")).unwrap();
    for name in [
        "koeldb-c/examples/birds.c",
        "koeldb-c/examples/go/main.go",
        "koeldb-rocksdb/examples/birds.rs",
    ] {
        let text = std::fs::read_to_string(root().join("crates").join(name)).unwrap();
        assert!(page.contains(&text), "{name}");
    }
}

/// A prefix with the library and its description, as `install` makes it.
fn installed() -> tempfile::TempDir {
    let prefix = tempfile::tempdir().unwrap();
    let path = |name: &str| prefix.path().join(name);
    for name in ["libkoeldb.so", "libkoeldb.so.0"] {
        std::os::unix::fs::symlink(library_path(), path(name)).unwrap();
    }
    let include = root().join("crates/koeldb-c/include");
    let description = format!(
        "Name: koeldb\nDescription: test\nVersion: 0\nCflags: -I{}\nLibs: -L{} -lkoeldb\n",
        include.display(),
        prefix.path().display()
    );
    std::fs::write(path("koeldb.pc"), description).unwrap();
    prefix
}

/// Runs a program on the shared directory of the programs, and compares what it prints.
fn prints_the_birds(program: &Path, prefix: &Path) {
    let ran = Command::new(program)
        .arg(prefix.join("birds.db"))
        .env("LD_LIBRARY_PATH", prefix)
        .output()
        .unwrap();
    let (printed, errors) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success(), "{}: {errors}", program.display());
    assert_eq!(printed, EXPECTED, "{}", program.display());
}

fn build(command: &mut Command, program: PathBuf) -> PathBuf {
    let built = command.output().unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    program
}

/// Returns whether a program can be run; prints a notice if not.
fn has(program: &str, argument: &str) -> bool {
    let found = Command::new(program).arg(argument).output().is_ok();
    if !found {
        println!("notice: the same program in several languages: no {program}");
    }
    found
}

#[test]
fn all_languages_share_a_directory() {
    let prefix = installed();
    let prefix = prefix.path();
    let examples = root().join("crates/koeldb-c/examples");
    if has("cc", "--version") {
        let program = prefix.join("c");
        let mut command = Command::new("cc");
        command
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&program)
            .arg(examples.join("birds.c"))
            .arg("-I")
            .arg(root().join("crates/koeldb-c/include"))
            .arg("-L")
            .arg(prefix)
            .arg("-lkoeldb");
        prints_the_birds(&build(&mut command, program), prefix);
    }
    if has("go", "version") && has("pkg-config", "--version") && has("cc", "--version") {
        let program = prefix.join("go");
        let mut command = Command::new("go");
        command
            .args(["build", "-o"])
            .arg(&program)
            .current_dir(examples.join("go"))
            .env("PKG_CONFIG_PATH", prefix)
            // Go keeps what it built by these flags, not by those of the description.
            .env("CGO_LDFLAGS", format!("-L{}", prefix.display()))
            .env("GOFLAGS", "-mod=mod")
            .env("CGO_ENABLED", "1");
        prints_the_birds(&build(&mut command, program), prefix);
    }
}
