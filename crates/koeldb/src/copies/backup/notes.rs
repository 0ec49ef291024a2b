//! The checksums of blob files that were backed up, so that the next backup need not read them.
//!
//! The name of a shared blob file has its checksum, which a database knows only if the MANIFEST
//! records it. The file `meta/.koeldb-notes` has a line for each blob file of the last backup of each
//! database; RocksDB ignores it:
//!
//! ```text
//! koeldb notes 1
//! <database id> <number> <bytes> <device> <inode> <modified> <crc32c>
//! …
//! crc32c <of all bytes before, decimal>
//! ```
//!
//! A line holds for a file with the same number, length, identity and time of modification. It only
//! finds the name of a file that a valid backup has; what is copied is read. A damaged or missing file
//! costs reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use koeldb_base::Result;
use koeldb_base::checksum::crc32c;
use koeldb_fs::small_file::write_atomically;
use koeldb_fs::{FileSystem, Metadata, Purpose};

use super::engine::BackupEngine;
use super::layout::META;

const NAME: &str = ".koeldb-notes";

const FIRST_LINE: &str = "koeldb notes 1";

/// The maximum size of the notes, in bytes.
const BYTES_MAX: u64 = 64 << 20;

/// A blob file as the notes tell it apart from others: all but the checksum of its line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NotedFile {
    pub(super) db_id: String,
    pub(super) name: String,
    bytes: u64,
    identity: (u64, u64),
    modified_unix_secs: u64,
}

impl NotedFile {
    /// The file `name` of a database, as it is now.
    pub(super) fn new(db_id: &str, name: &str, metadata: &Metadata) -> Self {
        NotedFile {
            db_id: db_id.to_owned(),
            name: name.to_owned(),
            bytes: metadata.len,
            identity: metadata.identity,
            modified_unix_secs: metadata.modified_unix_secs,
        }
    }
}

/// The checksums of blob files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Notes(BTreeMap<NotedFile, u32>);

impl Notes {
    /// The checksum of a file, if it is noted.
    pub(super) fn get(&self, file: &NotedFile) -> Option<u32> {
        self.0.get(file).copied()
    }

    /// Replaces the lines of a database.
    pub(super) fn set(&mut self, db_id: &str, files: impl IntoIterator<Item = (NotedFile, u32)>) {
        self.0.retain(|file, _| file.db_id != db_id);
        self.0.extend(files);
    }

    fn encode(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for (file, sum) in &self.0 {
            let (device, inode) = file.identity;
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{} {} {} {device} {inode} {} {sum}",
                file.db_id, file.name, file.bytes, file.modified_unix_secs
            );
        }
        let sum = crc32c(text.as_bytes());
        let _ = writeln!(text, "crc32c {sum}");
        text
    }

    /// Decodes notes; `None` if they are damaged.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let (body, last) = text.rsplit_once('\n')?;
        let stored: u32 = last.strip_prefix("crc32c ")?.parse().ok()?;
        if stored != crc32c(format!("{body}\n").as_bytes()) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let mut notes = Notes::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let [db_id, name, bytes, device, inode, modified, sum] = words[..] else {
                return None;
            };
            let file = NotedFile {
                db_id: db_id.to_owned(),
                name: name.to_owned(),
                bytes: bytes.parse().ok()?,
                identity: (device.parse().ok()?, inode.parse().ok()?),
                modified_unix_secs: modified.parse().ok()?,
            };
            notes.0.insert(file, sum.parse().ok()?);
        }
        Some(notes)
    }
}

impl BackupEngine {
    fn notes_path(&self) -> PathBuf {
        self.directory.join(META).join(NAME)
    }

    /// Reads the notes; there are none if they are missing or damaged.
    pub(super) fn read_notes(&self) -> Notes {
        let bytes = self
            .fs
            .read_all(&self.notes_path(), BYTES_MAX, Purpose::Backup);
        let notes = bytes.ok().and_then(|bytes| Notes::decode(&bytes));
        notes.unwrap_or_default()
    }

    /// Replaces the notes.
    pub(super) fn write_notes(&self, notes: &Notes) -> Result<()> {
        let path = self.notes_path();
        let temporary = path.with_file_name(format!("{NAME}.tmp"));
        let fs: &dyn FileSystem = &*self.fs;
        write_atomically(
            fs,
            &temporary,
            &path,
            notes.encode().as_bytes(),
            Purpose::Backup,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_and_damage_loses_them() {
        let file = |name: &str| NotedFile {
            db_id: "id".to_owned(),
            name: name.to_owned(),
            bytes: 5,
            identity: (1, 2),
            modified_unix_secs: 3,
        };
        let mut notes = Notes::default();
        notes.set("id", [(file("000001.blob"), 7), (file("000002.blob"), 8)]);
        let text = notes.encode();
        assert_eq!(Notes::decode(text.as_bytes()), Some(notes));
        for at in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 1;
            assert_eq!(Notes::decode(&damaged), None, "{at}");
        }
        let mut notes = Notes::decode(text.as_bytes()).unwrap();
        assert_eq!(notes.get(&file("000002.blob")), Some(8));
        notes.set("id", [(file("000002.blob"), 9)]);
        assert_eq!(notes.get(&file("000001.blob")), None);
        assert_eq!(notes.get(&file("000002.blob")), Some(9));
    }
}
