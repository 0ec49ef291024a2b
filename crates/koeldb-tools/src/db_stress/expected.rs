//! What was asked of the database and what it answered, in a file that outlives the process.
//!
//! Each key has two numbers: the version that was acknowledged last, and the one that was begun last. They differ while an
//! operation is under way, and after one whose outcome nobody knows: then the key may have either. A number reaches the
//! operating system before, or after, the call it is about, in one write of eight bytes: a kill tears nothing.
//!
//! ```text
//! slot of a key: acknowledged (8 bytes, little-endian), begun (8 bytes)
//! version: counter << 1 | 1 if the key is deleted; 0 if it was never written
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const SLOT_BYTES: u64 = 16;

/// The version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u64);

impl Version {
    /// Never written.
    pub(crate) const NONE: Version = Version(0);

    pub(crate) fn is_deleted(self) -> bool {
        self.0 == 0 || self.0 & 1 == 1
    }

    /// What follows it.
    pub(crate) fn next(self, deletes: bool) -> Version {
        Version(((self.0 >> 1) + 1) << 1 | u64::from(deletes))
    }

    /// The value that the key has at this version.
    pub(crate) fn value(self, key: u64) -> Option<Vec<u8>> {
        if self.is_deleted() {
            return None;
        }
        let mut random = koeldb_testkit::Random::new(key ^ self.0 << 20);
        let mut value = format!("{key}:{}:", self.0).into_bytes();
        for _ in 0..random.below(40) {
            value.extend_from_slice(&random.draw().to_le_bytes());
        }
        Some(value)
    }
}

/// The versions of all keys.
pub(crate) struct Expected {
    file: File,
    slots: Vec<[AtomicU64; 2]>,
}

impl Expected {
    /// Opens the file, or makes it.
    pub(crate) fn open(path: &Path, key_count: u64) -> std::io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        if file.metadata()?.len() == 0 {
            file.set_len(key_count * SLOT_BYTES)?;
        }
        let mut slots = Vec::new();
        for key in 0..key_count {
            let mut slot = [0; 8];
            let mut numbers = [0; 2];
            for (at, number) in (0..).zip(&mut numbers) {
                file.read_exact_at(&mut slot, key * SLOT_BYTES + at * 8)?;
                *number = u64::from_le_bytes(slot);
            }
            slots.push(numbers.map(AtomicU64::new));
        }
        Ok(Expected { file, slots })
    }

    fn slot(&self, key: u64) -> &[AtomicU64; 2] {
        &self.slots[koeldb_base::coding::to_usize(key)]
    }

    /// What the key has, and what it may have instead.
    pub(crate) fn versions(&self, key: u64) -> (Version, Version) {
        let [acknowledged, begun] = self.slot(key);
        (
            Version(acknowledged.load(Ordering::Relaxed)),
            Version(begun.load(Ordering::Relaxed)),
        )
    }

    fn set(&self, key: u64, at: usize, version: Version) -> std::io::Result<()> {
        self.slot(key)[at].store(version.0, Ordering::Relaxed);
        let offset = key * SLOT_BYTES + (at as u64) * 8;
        self.file.write_all_at(&version.0.to_le_bytes(), offset)
    }

    /// The key is about to get a version.
    pub(crate) fn begin(&self, key: u64, version: Version) -> std::io::Result<()> {
        self.set(key, 1, version)
    }

    /// It has it.
    pub(crate) fn acknowledge(&self, key: u64, version: Version) -> std::io::Result<()> {
        self.set(key, 0, version)
    }

    /// It was found to have this version, whatever was begun.
    pub(crate) fn settle(&self, key: u64, version: Version) -> std::io::Result<()> {
        self.set(key, 0, version)?;
        self.set(key, 1, version)
    }
}
