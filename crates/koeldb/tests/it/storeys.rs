//! The folders of the crate's sources are storeys: an import goes down, or stays within its folder.
//!
//! Unit tests and links of the documentation may name anything.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The folders of `src`, top to bottom.
const STOREYS: &[&str] = &[
    "copies",
    "open",
    "api",
    "read",
    "engine",
    "commit",
    "background",
    "tree",
    "wal",
    "state",
    "options",
    "env",
    "report",
    "batch",
];

/// The files of `src` that belong to no storey: the root, and the book's programs.
const ROOTS: &[&str] = &["lib.rs", "book.rs"];

fn source() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
}

/// Returns the code of a file, without comments, and without the unit tests at its end.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_of_tests = |line: &str| line.starts_with("#[cfg(") && line.contains("test");
    let end = (0..lines.len()).find(|&at| {
        let item = lines[at..].iter().find(|line| !line.starts_with('#'));
        is_of_tests(lines[at]) && item.is_some_and(|item| item.starts_with("mod "))
    });
    let lines = lines[..end.unwrap_or(lines.len())].iter();
    let lines = lines.map(|line| line.trim());
    let lines = lines.filter(|line| !line.starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the leading identifier of a text.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Returns the storey of each name that the root of the crate exports.
fn exports() -> BTreeMap<String, String> {
    let root = code(&source().join("lib.rs"));
    let mut exports = BTreeMap::new();
    for statement in root.split("pub use ").skip(1) {
        let statement = statement.split(';').next().unwrap();
        let Some((path, names)) = statement.rsplit_once("::") else {
            continue;
        };
        for name in names.split(|c: char| !c.is_alphanumeric() && c != '_') {
            exports.insert(name.to_owned(), identifier(path).to_owned());
        }
    }
    exports
}

/// Appends each name that follows `crate::` in the files below `folder`, with its file.
fn imports(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if matches!(&*name, "tests" | "tests.rs" | "models" | "models.rs") {
            continue;
        }
        if path.is_dir() {
            imports(&path, found);
            continue;
        }
        let code = code(&path);
        for rest in code.split("crate::").skip(1) {
            let names = match rest.strip_prefix('{') {
                Some(group) => group.split(';').next().unwrap().split(',').collect(),
                None => vec![rest],
            };
            let names = names.iter().map(|name| identifier(name.trim()));
            let named = names.map(|name| (name.to_owned(), path.display().to_string()));
            found.extend(named);
        }
    }
}

#[test]
fn imports_go_down() {
    let floor = |name: &str| STOREYS.iter().position(|&storey| storey == name);
    let exports = exports();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (own, folder) in STOREYS.iter().enumerate() {
        let mut found = Vec::new();
        imports(&source().join(folder), &mut found);
        count += found.len();
        for (name, file) in found {
            let storey = exports.get(&name).map_or(&*name, |storey| storey);
            if floor(storey).is_some_and(|floor| floor < own) {
                wrong.push(format!("{file} names crate::{name} of {storey}"));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 500, "the imports were read: {count}");
}

#[test]
fn every_source_belongs_to_a_storey() {
    for entry in fs::read_dir(source()).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let is_known = STOREYS.contains(&&*name) || ROOTS.contains(&&*name);
        assert!(is_known, "src/{name} is in no storey; see `STOREYS`");
    }
}
