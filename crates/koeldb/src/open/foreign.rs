//! Recognition of other engines' databases, and of backups, at the path of a database.
//!
//! Only opens that find no database look for them, so that the error can say what there is.

use std::path::Path;

use koeldb_base::{Error, Result};
use koeldb_fs::{FileSystem, OpenOptions, Purpose};

/// What a path has instead of a database, and the names of files that show it.
///
/// A directory has all of the names. One name may contain `*`, for any characters.
struct ForeignDirectory {
    what: &'static str,
    names: &'static [&'static str],
    advice: &'static str,
}

/// A file of another engine, and the bytes at an offset that show it.
struct ForeignFile {
    what: &'static str,
    offset: usize,
    magic: &'static [u8],
}

/// The advice for databases of other engines.
const COPY: &str = "open it with that engine, and copy its entries into a new database";

const BACKUPS: ForeignDirectory = ForeignDirectory {
    what: "backups",
    names: &["meta", "private"],
    advice: "restore one into a new directory, with `ldb restore` or a BackupEngine",
};

const ENGINES: &[ForeignDirectory] = &[
    ForeignDirectory {
        what: "a database of LMDB",
        names: &["data.mdb"],
        advice: COPY,
    },
    ForeignDirectory {
        what: "a database of sled",
        names: &["blobs", "conf", "db"],
        advice: COPY,
    },
    ForeignDirectory {
        what: "a database of Pebble",
        names: &["marker.format-version.*"],
        advice: COPY,
    },
    ForeignDirectory {
        what: "a database of Badger",
        names: &["KEYREGISTRY", "MANIFEST"],
        advice: COPY,
    },
    ForeignDirectory {
        what: "a database of WiredTiger",
        names: &["WiredTiger", "WiredTiger.wt"],
        advice: COPY,
    },
];

const FILES: &[ForeignFile] = &[
    ForeignFile {
        what: "a database of SQLite",
        offset: 0,
        magic: b"SQLite format 3\0",
    },
    ForeignFile {
        what: "a database of redb",
        offset: 0,
        magic: b"redb\x1a\x0a\xa9\x0d\x0a",
    },
    ForeignFile {
        what: "a database of LMDB",
        offset: 16,
        magic: &0xbeef_c0de_u32.to_le_bytes(),
    },
    ForeignFile {
        what: "a database of bbolt",
        offset: 16,
        magic: &0xed0c_daed_u32.to_le_bytes(),
    },
];

/// The number of bytes at the start of a file that show what it is.
const HEAD_BYTES: usize = 32;

/// Returns the error for a path with backups or another engine's database; `None` if it has neither.
pub(super) fn refusal(fs: &dyn FileSystem, path: &Path) -> Option<Error> {
    let directories = std::iter::once(&BACKUPS).chain(ENGINES);
    refusal_of(fs, path, directories)
}

/// Returns the error for a path with another engine's database; `None` if it has none.
pub(super) fn refusal_beside_backups(fs: &dyn FileSystem, path: &Path) -> Option<Error> {
    refusal_of(fs, path, ENGINES.iter())
}

fn refusal_of<'a>(
    fs: &dyn FileSystem,
    path: &Path,
    mut known: impl Iterator<Item = &'a ForeignDirectory>,
) -> Option<Error> {
    let (what, advice) = match fs.list(path) {
        Ok(entries) => {
            let has = |pattern: &&str| entries.iter().any(|entry| matches(pattern, &entry.name));
            let found = known.find(|known| known.names.iter().all(has))?;
            (found.what, found.advice)
        }
        Err(_) => {
            let head = head(fs, path).ok()?;
            let has = |known: &&ForeignFile| {
                let rest = head.get(known.offset..).unwrap_or_default();
                rest.starts_with(known.magic)
            };
            (FILES.iter().find(has)?.what, COPY)
        }
    };
    let error = Error::invalid_argument(format!("{}: holds {what}", path.display()));
    Some(error.with_advice(advice))
}

/// Whether `name` is `pattern`, in which one `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((start, end)) => name
            .strip_prefix(start)
            .is_some_and(|rest| rest.ends_with(end)),
    }
}

/// Reads the start of a file.
fn head(fs: &dyn FileSystem, path: &Path) -> Result<Vec<u8>> {
    let options = OpenOptions {
        purpose: Purpose::Open,
        ..OpenOptions::default()
    };
    let mut head = vec![0; HEAD_BYTES];
    let bytes = fs.open(path, &options)?.read_at(0, &mut head)?;
    head.truncate(bytes);
    Ok(head)
}
