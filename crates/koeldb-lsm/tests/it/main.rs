//! Text scripts for the pure parts of the tree: pickers, compaction cursor, output
//! cutting, version search, edits.
//!
//! A script in `tests/data` is a sequence of cases: a command with arguments, its input, `----`,
//! and the expected output. `REWRITE=1 cargo test -p koeldb-lsm --test it` writes the actual output
//! into the scripts, for review in the diff; `RUN=leveled.txt` runs one file.
#![expect(
    clippy::unwrap_used,
    reason = "a script that cannot be read fails the test"
)]

mod compact;
mod cut;
mod edit;
mod entries;
mod flush;
mod overlapping_plans;
mod parse;
mod pick;
mod scale;
mod search;
mod tables;
