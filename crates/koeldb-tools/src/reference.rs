//! Writes `docs/tools.md`: the commands and flags of the tools, from their declarations.
//!
//! `REWRITE=1 cargo test -p koeldb-tools --lib reference::` writes the page; without it a difference
//! fails the test.

use std::fmt::Write as _;
use std::path::Path;

use clap::Command;

use crate::{db_bench, ldb, sst_dump};

const INTRODUCTION: &str = "\
# Tools

<!-- Generated: REWRITE=1 cargo test -p koeldb-tools --lib reference:: -->

`ldb` reads, writes and examines databases, `sst_dump` table files, `db_bench` measures. Names and
output are those of RocksDB's tools. `db_stress` (`cargo run --bin db_stress -- --help`, in a checkout)
writes, is killed, and verifies.

";

/// Escapes a text for a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('<', "&lt;")
        .replace('\n', " ")
}

/// Appends a Markdown table row for each flag of a command.
fn write_flags(out: &mut String, command: &Command) {
    let flags = command
        .get_arguments()
        .filter(|flag| flag.get_long().is_some());
    for flag in flags {
        let name = flag.get_long().unwrap_or_default();
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| `--{name}` | {} |", cell(&help));
    }
}

/// Appends the Markdown section of a tool: description, flags and subcommands.
fn write_tool(out: &mut String, command: &Command) {
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let _ = writeln!(
        out,
        "## {}\n\n{about}\n\n| flag | |\n|---|---|",
        command.get_name()
    );
    write_flags(out, command);
    if command.has_subcommands() {
        out.push_str("\n| command | | flags |\n|---|---|---|\n");
    }
    for sub in command.get_subcommands() {
        let flags: Vec<_> = sub
            .get_arguments()
            .filter_map(|flag| flag.get_long())
            .map(|name| format!("`--{name}`"))
            .collect();
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(
            out,
            "| `{}` | {} | {} |",
            sub.get_name(),
            cell(&about),
            flags.join(" ")
        );
    }
    if let Some(after) = command.get_after_help() {
        let _ = writeln!(out, "\n```text\n{after}\n```");
    }
    out.push('\n');
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a page of the documentation")]
fn the_page_of_the_tools_is_that_of_their_declarations() {
    let mut page = INTRODUCTION.to_owned();
    for tool in [ldb::command(), sst_dump::command()] {
        write_tool(&mut page, &tool);
    }
    page.push_str(&db_bench::reference());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "{} is stale; REWRITE=1 cargo test -p koeldb-tools --lib reference:: writes it",
        path.display()
    );
}
