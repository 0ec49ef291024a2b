//! The entry functions: one for each decoder.
//!
//! A target takes any bytes. It panics if the decoder does, if an error is of a kind that damage
//! must not cause, or if a value changes by encoding and decoding; the caller watches time and
//! memory.

mod blobs;
mod blocks;
pub mod directory;
mod logs;
mod merging;
mod small;
pub mod table;

use koeldb_base::{Error, ErrorKind};

/// A fuzz target: a function that runs a decoder on any bytes, and valid inputs for it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is that of its fuzz target.
    pub name: &'static str,
    /// The function.
    pub run: fn(&[u8]),
    /// Valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 23] = [
    small::CODING,
    small::KEY,
    small::ENTITY,
    small::NAMES,
    small::TOMBSTONES,
    small::OPTIONS,
    logs::BATCH,
    logs::LOG_READER,
    logs::LOG_ROUND_TRIP,
    logs::EDIT,
    logs::MANIFEST,
    blocks::FOOTER,
    blocks::METADATA,
    blocks::BLOCK,
    blocks::INDEX,
    blocks::CODEC,
    blocks::FILTER,
    blobs::BLOB_PARTS,
    blobs::BLOB_FILE,
    table::TABLE,
    table::SEALED_TABLE,
    merging::MERGING,
    directory::DIRECTORY,
];

/// Runs the fuzz target called `name` on `data`.
///
/// # Panics
/// If there is none, or the decoder is wrong.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a known target").run)(data);
}

/// Panics if an error is of a kind that no file content may cause.
pub fn judge(error: &Error) {
    let fair = matches!(
        error.kind(),
        ErrorKind::Corruption
            | ErrorKind::NotSupported
            | ErrorKind::InvalidArgument
            | ErrorKind::MemoryLimit
            | ErrorKind::Incomplete
            | ErrorKind::MergeInProgress
            | ErrorKind::NotFound
            | ErrorKind::IoError
    );
    assert!(fair, "an error of kind {:?}: {error}", error.kind());
}

/// Splits `data` into parts, each after its length in one byte, or in three bytes after a 255.
fn parts(mut data: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while let Some((&short, rest)) = data.split_first() {
        let (len, rest) = match (short, rest) {
            (255, [a, b, c, rest @ ..]) => (u32::from_le_bytes([*a, *b, *c, 0]) as usize, rest),
            _ => (usize::from(short), rest),
        };
        let (part, rest) = rest.split_at(len.min(rest.len()));
        parts.push(part);
        data = rest;
    }
    parts
}

/// Concatenates parts, each after its length: the inverse of `parts`.
///
/// Lengths are cut off at 24 bits, so parts must be shorter than 16 MiB.
fn join<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Vec<u8> {
    let mut data = Vec::new();
    for part in parts {
        let part = part.as_ref();
        let [a, b, c, _] = u32::try_from(part.len()).unwrap_or(0).to_le_bytes();
        match u8::try_from(part.len()) {
            Ok(len) if len < 255 => data.push(len),
            _ => data.extend([255, a, b, c]),
        }
        data.extend_from_slice(part);
    }
    data
}
