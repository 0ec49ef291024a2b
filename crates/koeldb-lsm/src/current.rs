//! CURRENT, which names the live MANIFEST, and IDENTITY, which holds the database's id.
//!
//! Both are replaced atomically ([`koeldb_fs::small_file`]).
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::path::Path;

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{Error, Result};
use koeldb_fs::{FileSystem, Purpose, small_file};

/// The largest size of CURRENT.
const CURRENT_BYTES_MAX: u64 = 64;

/// The largest size of IDENTITY.
const IDENTITY_BYTES_MAX: u64 = 4 << 10;

/// Reads the number of the MANIFEST that CURRENT names.
///
/// # Errors
/// With detail `PathNotFound` if there is no CURRENT, and so no database; `Corruption` if its
/// content is not one line with the name of a MANIFEST.
pub fn read_current(fs: &dyn FileSystem, directory: &Path) -> Result<FileNumber> {
    let path = file_name::current(directory);
    let content = fs.read_all(&path, CURRENT_BYTES_MAX, Purpose::Open)?;
    decode_current(&content).map_err(|error| error.in_file(&path, None, "read"))
}

/// Decodes the content of CURRENT: the name of a MANIFEST and a newline.
fn decode_current(content: &[u8]) -> Result<FileNumber> {
    let Some((b'\n', line)) = content.split_last() else {
        return Err(Error::corruption("CURRENT file does not end with newline"));
    };
    let name = str::from_utf8(line).unwrap_or_default();
    match file_name::parse(name) {
        Some(FileKind::Manifest(number)) => Ok(number),
        _ => Err(Error::corruption(
            "CURRENT file corrupted: it does not name a MANIFEST",
        )),
    }
}

/// Makes CURRENT name MANIFEST `number` by atomic replacement (RocksDB: `SetCurrentFile`).
///
/// After an error it is unknown which one it names.
///
/// # Errors
/// If the system fails.
pub fn write_current(fs: &dyn FileSystem, directory: &Path, number: FileNumber) -> Result<()> {
    let content = format!("MANIFEST-{number:06}\n");
    small_file::write_atomically(
        fs,
        &file_name::temporary(directory, number),
        &file_name::current(directory),
        content.as_bytes(),
        Purpose::Manifest,
    )
}

/// Reads the id of the database in `directory`; `None` if IDENTITY is missing or damaged.
///
/// Damage is no error: opening the database writes the valid id again.
///
/// # Errors
/// If the system fails.
pub fn read_identity(fs: &dyn FileSystem, directory: &Path) -> Result<Option<String>> {
    let path = file_name::identity(directory);
    let content = match fs.read_all(&path, IDENTITY_BYTES_MAX, Purpose::Open) {
        Ok(content) => content,
        Err(error) if error.is_path_not_found() || error.is_corruption() => return Ok(None),
        Err(error) => return Err(error),
    };
    let printable = |text: &String| {
        !text.is_empty() && text.chars().all(|character| character.is_ascii_graphic())
    };
    let text = String::from_utf8(content).ok();
    Ok(text
        .map(|text| text.trim_end().to_owned())
        .filter(printable))
}

/// Writes the database id to the IDENTITY file by atomic replacement.
///
/// # Errors
/// If the system fails.
pub fn write_identity(fs: &dyn FileSystem, directory: &Path, db_id: &str) -> Result<()> {
    small_file::write_atomically(
        fs,
        &file_name::temporary(directory, 0),
        &file_name::identity(directory),
        db_id.as_bytes(),
        Purpose::Manifest,
    )
}

/// Creates a database id from random bytes: an RFC 4122 UUID of version 4.
#[must_use]
pub fn db_id_from(random: u128) -> String {
    let version = (random & !(0xf << 76)) | (4 << 76);
    let bits = (version & !(0b11 << 62)) | (0b10 << 62);
    let hex = format!("{bits:032x}");
    let mut id = String::with_capacity(36);
    for (index, digit) in hex.chars().enumerate() {
        if matches!(index, 8 | 12 | 16 | 20) {
            id.push('-');
        }
        id.push(digit);
    }
    id
}

#[cfg(test)]
mod tests {
    use koeldb_fs::MemoryFileSystem;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else_stays() {
        let fs = MemoryFileSystem::new();
        let directory = Path::new("/db");
        fs.create_dir_all(directory).unwrap();
        assert!(
            read_current(&fs, directory)
                .unwrap_err()
                .is_path_not_found()
        );
        assert_eq!(read_identity(&fs, directory).unwrap(), None);
        for number in [7, 1_234_567] {
            write_current(&fs, directory, number).unwrap();
            assert_eq!(read_current(&fs, directory).unwrap(), number);
        }
        let id = db_id_from(42);
        write_identity(&fs, directory, &id).unwrap();
        assert_eq!(read_identity(&fs, directory).unwrap(), Some(id));
        assert_eq!(fs.list(directory).unwrap().len(), 2);
        for damaged in ["", "\n", "\u{7}bell", &"x".repeat(5000)] {
            write_identity(&fs, directory, damaged).unwrap();
            assert_eq!(read_identity(&fs, directory).unwrap(), None);
        }
        write_identity(&fs, directory, "with newline\n").unwrap();
        assert_eq!(read_identity(&fs, directory).unwrap(), None, "a blank");
        write_identity(&fs, directory, "id\n").unwrap();
        assert_eq!(read_identity(&fs, directory).unwrap(), Some("id".into()));
    }

    #[test]
    fn only_a_whole_line_names_a_manifest() {
        assert_eq!(decode_current(b"MANIFEST-000005\n").unwrap(), 5);
        assert_eq!(decode_current(b"MANIFEST-5\n").unwrap(), 5);
        for (content, message) in [
            (&b""[..], "newline"),
            (b"MANIFEST-000005", "newline"),
            (b"\n", "corrupted"),
            (b"MANIFEST-\n", "corrupted"),
            (b"MANIFEST-000005\n\n", "corrupted"),
            (b"MANIFEST-000005 \n", "corrupted"),
            (b"/MANIFEST-000005\n", "corrupted"),
            (b"000005.log\n", "corrupted"),
            (b"MANIFEST-99999999999999999999\n", "corrupted"),
            (b"\xff\n", "corrupted"),
        ] {
            let error = decode_current(content).unwrap_err();
            assert!(error.is_corruption());
            assert!(error.message().contains(message), "{error}");
        }
    }

    #[test]
    fn ids_are_uuids_of_version_4() {
        assert_eq!(db_id_from(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(
            db_id_from(u128::MAX),
            "ffffffff-ffff-4fff-bfff-ffffffffffff"
        );
    }
}
