//! The book and the README: their commands work, their links lead somewhere, and the summary names
//! every page.
//!
//! Their programs are documentation examples of `koeldb`.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::{Scratch, succeed};

pub(super) fn repository() -> PathBuf {
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
    pages_in(&repository().join("docs/book"), &mut chapters);
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

/// Runs commands as a reader would: with the tools in `PATH`, a database in `$DB`, and `$OUT` and
/// the working directory for what they write.
fn run_commands(place: &str, commands: &str) {
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
        .args(["-e", "-c", commands])
        .env("PATH", format!("{}:{path}", tools().display()))
        .env("DB", &db)
        .env("OUT", &out)
        .env("TEST_TMPDIR", scratch.file("bench"))
        .env("REPOSITORY", repository())
        .current_dir(&out)
        .output()
        .expect("a shell");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{place}: {commands}\n{err}");
}

#[test]
fn every_command_of_the_book_works() {
    let mut count = 0;
    for chapter in chapters() {
        let text = fs::read_to_string(&chapter).expect("a chapter");
        for (line, commands) in blocks(&text, "sh") {
            count += 1;
            let place = format!("{}:{line}", chapter.display());
            run_commands(&place, &commands.join("\n"));
        }
    }
    assert!(count >= 10, "{count} blocks of commands");
}

/// Adapts a command of the README to a test: the built tools instead of a build of them, fewer
/// keys, and for cargo's own commands one that resolves the same packages and features.
fn cheaper(command: &str) -> String {
    const BENCH: &str = "cargo run --release --bin db_bench -- ";
    if let Some(flags) = command.strip_prefix(BENCH) {
        return format!("db_bench {}", flags.replace("--num=2000000", "--num=2000"));
    }
    if let Some(flags) = command.strip_prefix("cargo build ") {
        return format!(
            "cd $REPOSITORY && cargo tree --offline --quiet -e normal {flags} >$OUT/tree"
        );
    }
    let path = "--path $REPOSITORY/crates/koeldb";
    match command {
        "cargo add koeldb" => {
            format!("cargo init --quiet --name first && cargo add --offline --quiet koeldb {path}")
        }
        // `.ci/wheel` does it.
        "pip install koeldb" => "true".to_owned(),
        // This test is part of it.
        "cargo test --workspace" => "true".to_owned(),
        other => panic!("say how to test the README's command: {other}"),
    }
}

#[test]
fn every_command_of_the_readme_works() {
    let text = fs::read_to_string(repository().join("README.md")).expect("the README");
    let found = blocks(&text, "sh");
    assert!(found.len() >= 4, "{} blocks of commands", found.len());
    for (line, commands) in found {
        let joined = commands.join("\n").replace("\\\n", "");
        for command in joined.lines() {
            run_commands(&format!("README.md:{line}"), &cheaper(command));
        }
    }
}

/// The targets of the links and pictures of a page, outside of code.
pub(super) fn links(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        if in_code {
            continue;
        }
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

/// The anchors of a page's headings.
fn anchors(text: &str) -> Vec<String> {
    let mut in_code = false;
    let is_heading = |line: &&str| {
        in_code ^= line.starts_with("```");
        !in_code && line.starts_with('#')
    };
    text.lines()
        .filter(is_heading)
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
            title.chars().filter(kept).collect::<String>()
        })
        .map(|title| title.replace(' ', "-"))
        .collect()
}

/// A path without `..`, as a link has it.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if normalized.file_name().is_some() => {
                normalized.pop();
            }
            part => normalized.push(part),
        }
    }
    normalized
}

/// Why a relative link of a page leads nowhere; `root` is what contains the page where it is read.
fn problem(page: &Path, text: &str, target: &str, root: &Path) -> Option<&'static str> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => page.to_owned(),
        file => normalized(&page.parent().expect("a directory").join(file)),
    };
    if !path.starts_with(root) {
        return Some("leads out of the book");
    }
    if !path.exists() {
        return Some("does not exist");
    }
    let other = match file {
        "" => text.to_owned(),
        _ if anchor.is_empty() => return None,
        _ => fs::read_to_string(&path).expect("a page"),
    };
    let exists = anchor.is_empty() || anchors(&other).iter().any(|a| a == anchor);
    (!exists).then_some("has no such heading")
}

#[test]
fn relative_links_lead_to_files_and_headings_that_exist() {
    let repository = normalized(&repository().canonicalize().expect("the repository"));
    let rendered = repository.join("docs");
    let mut pages: Vec<_> = [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
    ]
    .iter()
    .map(|name| repository.join(name))
    .collect();
    pages_in(&rendered, &mut pages);
    let (mut broken, mut count) = (Vec::new(), 0);
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        // `mdbook` renders only what is below `docs`.
        let root = if page.starts_with(&rendered) {
            &rendered
        } else {
            &repository
        };
        for target in links(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            count += 1;
            if let Some(problem) = problem(&page, &text, &target, root) {
                broken.push(format!("{}: {target} {problem}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(count >= 50, "{count} links");
}

#[test]
fn the_summary_names_every_page() {
    let directory = repository().join("docs");
    let summary = fs::read_to_string(directory.join("SUMMARY.md")).expect("a summary");
    let named = links(&summary);
    let mut pages = Vec::new();
    pages_in(&directory, &mut pages);
    for page in pages {
        let name = page.strip_prefix(&directory).expect("below the book");
        let name = name.display().to_string();
        assert!(name == "SUMMARY.md" || named.contains(&name), "{name}");
    }
}
