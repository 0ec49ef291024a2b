//! The book: its commands work, its links lead somewhere, and its summary names every chapter.
//!
//! Its programs are documentation examples of `koeldb`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Scratch, succeed};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Appends the Markdown files of a directory and its subdirectories.
fn pages_in(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of pages") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages_in(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            out.push(path);
        }
    }
    out.sort();
}

fn chapters() -> Vec<PathBuf> {
    let mut chapters = Vec::new();
    pages_in(&repository().join("docs/book/src"), &mut chapters);
    chapters
}

/// The code blocks of a language: the line of each and its contents.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<(usize, Vec<&'t str>)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let contents: Vec<_> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != "```")
            .collect();
        if info == language {
            blocks.push((number + 1, contents));
        }
    }
    blocks
}

/// Returns a directory with the tools under their names, for `PATH`.
fn tools() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_ldb"));
    path.parent().expect("the directory of binaries").to_owned()
}

#[test]
fn every_command_of_the_book_works() {
    let mut count = 0;
    for chapter in chapters() {
        let text = fs::read_to_string(&chapter).expect("a chapter");
        for (line, commands) in blocks(&text, "sh") {
            count += 1;
            let scratch = Scratch::new();
            let (db, out) = (scratch.file("db"), scratch.file("out"));
            fs::create_dir(&out).expect("a new directory");
            let fill = [
                "--create_if_missing",
                "batchput",
                "koel",
                "Eudynamys",
                "kite",
                "Milvus",
            ];
            succeed("ldb", &[&[scratch.db().as_str()][..], &fill].concat());
            let path = std::env::var("PATH").unwrap_or_default();
            let output = Command::new("sh")
                .args(["-e", "-c", &commands.join("\n")])
                .env("PATH", format!("{}:{path}", tools().display()))
                .env("DB", &db)
                .env("OUT", &out)
                .current_dir(&out)
                .output()
                .expect("a shell");
            let place = format!("{}:{line}", chapter.display());
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{place}: {commands:#?}\n{err}");
        }
    }
    assert!(count >= 10, "{count} blocks of commands");
}

/// The targets of the links and pictures of a page, outside of code.
fn links(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        if in_code {
            continue;
        }
        let include = line
            .strip_prefix("{{#include ")
            .and_then(|rest| rest.strip_suffix("}}"));
        targets.extend(include.map(str::to_owned));
        // Code spans may look like links.
        let prose: String = line.split('`').step_by(2).collect();
        for rest in prose.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                targets.push(target.to_owned());
            }
        }
    }
    targets
}

#[test]
fn links_lead_to_files_that_exist() {
    let mut pages: Vec<_> = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
        .iter()
        .map(|name| repository().join(name))
        .collect();
    pages_in(&repository().join("docs"), &mut pages);
    let mut broken = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for target in links(&text) {
            let file = target.split('#').next().unwrap_or_default();
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            let directory = page.parent().expect("a directory");
            if !is_elsewhere && !file.is_empty() && !directory.join(file).exists() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_summary_names_every_chapter() {
    let directory = repository().join("docs/book/src");
    let summary = fs::read_to_string(directory.join("SUMMARY.md")).expect("a summary");
    let named = links(&summary);
    for chapter in chapters() {
        let name = chapter.strip_prefix(&directory).expect("below the book");
        let name = name.display().to_string();
        assert!(name == "SUMMARY.md" || named.contains(&name), "{name}");
    }
}
