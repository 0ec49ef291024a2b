//! The table property with the number and size of the references to each blob file.
//!
//! ```text
//! varint32 1 (version), varint64 number of blob files
//! for each file, ascending: varint64 number minus that before, varint64 references, varint64 bytes
//! fixed32 masked CRC-32C of all that
//! ```
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use koeldb_base::checksum::{crc32c, mask};
use koeldb_base::coding::{
    put_fixed32, put_varint32, put_varint64, take_fixed32, take_varint32, take_varint64,
};
use koeldb_base::file_name::FileNumber;
use koeldb_base::{Error, Result};

/// The version of the encoding.
const VERSION: u32 = 1;

/// The largest number of blob files in the property; a table that refers to more has none.
pub const FILES_MAX: usize = 1 << 16;

/// The references of a table, or of several, to one blob file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileReferences {
    /// The number of the blob file.
    pub file: FileNumber,
    /// The number of references.
    pub count: u64,
    /// The size of the records to which they refer.
    pub bytes: u64,
}

/// Encodes the references of a table, in ascending order of the files; `None` for too many files.
#[must_use]
pub fn encode(references: &[FileReferences]) -> Option<Vec<u8>> {
    if references.len() > FILES_MAX {
        return None;
    }
    let mut out = Vec::new();
    put_varint32(&mut out, VERSION);
    put_varint64(&mut out, references.len() as u64);
    let mut before = 0;
    for one in references {
        put_varint64(&mut out, one.file.saturating_sub(before));
        put_varint64(&mut out, one.count);
        put_varint64(&mut out, one.bytes);
        before = one.file;
    }
    let sum = mask(crc32c(&out));
    put_fixed32(&mut out, sum);
    Some(out)
}

/// Decodes the references of a table.
///
/// # Errors
/// `Corruption` if they are malformed, or no reference or no byte is in a file that is listed.
pub fn decode(bytes: &[u8]) -> Result<Vec<FileReferences>> {
    let damaged = |what: &str| Error::corruption(format!("references to blob files: {what}"));
    let body_bytes = bytes.len().checked_sub(4);
    let split = body_bytes.and_then(|at| bytes.split_at_checked(at));
    let (mut body, mut sum) = split.ok_or_else(|| damaged("too short"))?;
    if take_fixed32(&mut sum)? != mask(crc32c(body)) {
        return Err(damaged("the checksum does not match"));
    }
    let input = &mut body;
    let version = take_varint32(input)?;
    if version != VERSION {
        return Err(damaged(&format!("version {version} is not known")));
    }
    let count = take_varint64(input)?;
    if count > FILES_MAX as u64 {
        return Err(damaged(&format!("{count} files, at most {FILES_MAX}")));
    }
    let mut references: Vec<FileReferences> = Vec::new();
    for _ in 0..count {
        let before = references.last().map_or(0, |last| last.file);
        let file = before.checked_add(take_varint64(input)?);
        let file = file.filter(|&file| file > before);
        let (count, bytes) = (take_varint64(input)?, take_varint64(input)?);
        match file {
            Some(file) if count > 0 && bytes > 0 => {
                references.push(FileReferences { file, count, bytes });
            }
            _ => return Err(damaged("files without a number or without references")),
        }
    }
    match input.is_empty() {
        true => Ok(references),
        false => Err(damaged("bytes behind the end")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<FileReferences> {
        let of = |file, count, bytes| FileReferences { file, count, bytes };
        vec![
            of(7, 1, 40),
            of(300, 2, 5000),
            of(1 << 40, 1 << 33, 1 << 60),
        ]
    }

    #[test]
    fn references_are_read_as_they_were_written() {
        for references in [Vec::new(), some()] {
            let bytes = encode(&references).unwrap();
            assert_eq!(decode(&bytes).unwrap(), references);
        }
    }

    #[test]
    fn any_change_is_an_error() {
        let bytes = encode(&some()).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            decode(&changed).unwrap_err();
            decode(&bytes[..at]).unwrap_err();
        }
    }

    #[test]
    fn malformed_lists_with_a_right_checksum_are_errors() {
        let with = |numbers: &[u64]| {
            let mut out = Vec::new();
            numbers.iter().for_each(|&n| put_varint64(&mut out, n));
            let sum = mask(crc32c(&out));
            put_fixed32(&mut out, sum);
            decode(&out)
        };
        with(&[1, 1, 5, 1, 40]).unwrap();
        with(&[2, 1, 5, 1, 40]).unwrap_err();
        with(&[1, 2, 5, 1, 40]).unwrap_err();
        with(&[1, 1, 0, 1, 40]).unwrap_err();
        with(&[1, 1, 5, 0, 40]).unwrap_err();
        with(&[1, 1, 5, 1, 40, 9]).unwrap_err();
        with(&[1, 2, 5, 1, 40, u64::MAX, 1, 40]).unwrap_err();
        with(&[1, 1 << 30]).unwrap_err();
    }

    #[test]
    fn a_table_with_references_to_very_many_files_has_no_property() {
        let of = |file| FileReferences {
            file,
            count: 1,
            bytes: 33,
        };
        let many: Vec<_> = (1..=FILES_MAX as u64 + 1).map(of).collect();
        assert!(encode(&many).is_none());
        assert!(encode(&many[1..]).is_some());
    }
}
