//! Expected versions of all keys, in a file that outlives the process.
//!
//! Each key has numbered versions. The file records the last one begun, the last one acknowledged,
//! and the last one guaranteed to persist, because it was logged or a later flush succeeded. After
//! the end of a process, the database must have the guaranteed version or a later one. Each number
//! is handed to the operating system before or after the call that it concerns, in one write of
//! eight bytes, so a kill cannot tear it.
//!
//! ```text
//! slot of a key: owed, acknowledged, begun, the last acknowledged deletion,
//!                the last begun without log, the one in its thread's column family
//!                (8 bytes each, little-endian)
//! version: counter << 1 | 1 if the key is deleted; 0 if it was never written
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const OWED: usize = 0;
const ACKNOWLEDGED: usize = 1;
const BEGUN: usize = 2;
const DELETED: usize = 3;
const UNLOGGED: usize = 4;
const IMPORTED: usize = 5;
const NUMBERS: usize = 6;
const SLOT_BYTES: u64 = 8 * NUMBERS as u64;

/// A version of a key's value: a counter and a deletion bit, from which the value is derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u64);

impl Version {
    /// The key was never written.
    pub(crate) const NONE: Version = Version(0);

    /// Returns whether the key is deleted, or was never written, at this version.
    pub(crate) fn is_deleted(self) -> bool {
        self.0 == 0 || self.0 & 1 == 1
    }

    /// Returns the next version, which is a deletion if `deletes`.
    pub(crate) fn next(self, deletes: bool) -> Version {
        Version(((self.0 >> 1) + 1) << 1 | u64::from(deletes))
    }

    /// Returns whether `value` is that of this version or of a later one up to `last`.
    pub(crate) fn permits(self, last: Version, key: u64, value: Option<&[u8]>) -> bool {
        let Some(value) = value else {
            return self != last || self.is_deleted();
        };
        Version::named_by(value).is_some_and(|version| {
            (self.counter()..=last.counter()).contains(&version.counter())
                && version.value(key).as_deref() == Some(value)
        })
    }

    /// Returns the version counter, without the deletion bit.
    fn counter(self) -> u64 {
        self.0 >> 1
    }

    /// Parses the version that a value contains; `None` if it contains none.
    fn named_by(value: &[u8]) -> Option<Version> {
        let number = value.split(|byte| *byte == b':').nth(1)?;
        Some(Version(std::str::from_utf8(number).ok()?.parse().ok()?))
    }

    /// Returns the value that the key has at this version; `None` if it is deleted.
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

/// The expected versions of all keys, in memory and in a file that outlives the process.
pub(crate) struct Expected {
    file: File,
    slots: Vec<[AtomicU64; NUMBERS]>,
}

impl Expected {
    /// Opens or creates the file of expected versions and reads it.
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
            let mut numbers = [0; NUMBERS];
            for (at, number) in (0..).zip(&mut numbers) {
                file.read_exact_at(&mut slot, key * SLOT_BYTES + at * 8)?;
                *number = u64::from_le_bytes(slot);
            }
            slots.push(numbers.map(AtomicU64::new));
        }
        Ok(Expected { file, slots })
    }

    /// Returns field `which` in the slot of a key.
    fn number(&self, key: u64, which: usize) -> &AtomicU64 {
        &self.slots[koeldb_base::coding::to_usize(key)][which]
    }

    /// Returns field `which` in the slot of a key, as a version.
    fn version(&self, key: u64, which: usize) -> Version {
        Version(self.number(key, which).load(Ordering::Relaxed))
    }

    /// Returns the last version whose write succeeded, which the open database must show.
    pub(crate) fn acknowledged(&self, key: u64) -> Version {
        self.version(key, ACKNOWLEDGED)
    }

    /// Returns the last version whose write was begun.
    pub(crate) fn begun(&self, key: u64) -> Version {
        self.version(key, BEGUN)
    }

    /// Returns the last version that must survive a crash.
    pub(crate) fn owed(&self, key: u64) -> Version {
        self.version(key, OWED)
    }

    /// Returns the version with which the key was imported into its thread's own column family.
    pub(crate) fn imported(&self, key: u64) -> Version {
        self.version(key, IMPORTED)
    }

    /// Records that the thread's own column family gets the key's acknowledged version.
    pub(crate) fn import(&self, key: u64) -> std::io::Result<()> {
        self.set(key, IMPORTED, self.acknowledged(key))
    }

    /// Returns whether the last acknowledged write of the key was without WAL.
    pub(crate) fn is_unlogged(&self, key: u64) -> bool {
        let version = self.acknowledged(key);
        version != Version::NONE && self.version(key, UNLOGGED).counter() >= version.counter()
    }

    /// Formats the recorded versions of a key, for error messages.
    pub(crate) fn describe(&self, key: u64) -> String {
        let [owed, acknowledged, begun, deleted, unlogged, _] =
            std::array::from_fn(|which| self.version(key, which));
        format!(
            "owed {owed:?}, acknowledged {acknowledged:?}, begun {begun:?}, last deletion {deleted:?}, last without log {unlogged:?}"
        )
    }

    /// Returns the version that `value` shows after a crash; `None` if the key may not have it.
    pub(crate) fn identify(&self, key: u64, value: Option<&[u8]>) -> Option<Version> {
        let (owed, begun) = (self.version(key, OWED), self.begun(key));
        let Some(value) = value else {
            let candidates = [begun, self.version(key, DELETED), owed].into_iter();
            return candidates
                .filter(|version| version.is_deleted() && version.counter() >= owed.counter())
                .max_by_key(|version| version.counter());
        };
        let version = Version::named_by(value)?;
        let is_possible = (owed.counter()..=begun.counter()).contains(&version.counter());
        (is_possible && version.value(key).as_deref() == Some(value)).then_some(version)
    }

    /// Returns whether unlogged writes may have left column families with different versions.
    ///
    /// Of the unlogged writes, each column family has those that it flushed.
    pub(crate) fn may_differ(&self, key: u64) -> bool {
        self.version(key, UNLOGGED).counter() > self.version(key, OWED).counter()
    }

    /// Stores a version field in memory and then in the file, in one write of eight bytes.
    fn set(&self, key: u64, which: usize, version: Version) -> std::io::Result<()> {
        self.number(key, which).store(version.0, Ordering::Relaxed);
        let offset = key * SLOT_BYTES + (which as u64) * 8;
        self.file.write_all_at(&version.0.to_le_bytes(), offset)
    }

    /// Records that a write of `version` begins.
    pub(crate) fn begin(&self, key: u64, version: Version, is_logged: bool) -> std::io::Result<()> {
        // An unacknowledged deletion before a kill may have taken effect.
        let before = self.begun(key);
        if before.is_deleted() {
            self.set(key, DELETED, before)?;
        }
        self.set(key, BEGUN, version)?;
        match is_logged {
            true => Ok(()),
            false => self.set(key, UNLOGGED, version),
        }
    }

    /// Records that the begun write of the key had no effect.
    pub(crate) fn take_back(&self, key: u64) -> std::io::Result<()> {
        let version = self.acknowledged(key);
        self.set(key, BEGUN, version)?;
        self.forget_after(key, version)
    }

    /// Resets recorded deletions and unlogged writes after `version`; the numbers will be reused.
    fn forget_after(&self, key: u64, version: Version) -> std::io::Result<()> {
        for which in [DELETED, UNLOGGED] {
            if self.version(key, which).counter() > version.counter() {
                self.set(key, which, version)?;
            }
        }
        Ok(())
    }

    /// Records that the begun write succeeded; if it was logged, its version must survive a crash.
    pub(crate) fn acknowledge(&self, key: u64, is_logged: bool) -> std::io::Result<()> {
        let version = self.begun(key);
        self.set(key, ACKNOWLEDGED, version)?;
        if version.is_deleted() {
            self.set(key, DELETED, version)?;
        }
        match is_logged {
            true => self.set(key, OWED, version),
            false => Ok(()),
        }
    }

    /// Records that a flush succeeded, so that `version` must survive a crash.
    pub(crate) fn flushed(&self, key: u64, version: Version) -> std::io::Result<()> {
        match self.version(key, OWED).counter() < version.counter() {
            true => self.set(key, OWED, version),
            false => Ok(()),
        }
    }

    /// Records `version`, found after a restart, as begun, acknowledged and surviving.
    pub(crate) fn settle(&self, key: u64, version: Version) -> std::io::Result<()> {
        for which in [OWED, ACKNOWLEDGED, BEGUN] {
            self.set(key, which, version)?;
        }
        self.forget_after(key, version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates expected versions in a file that is removed with them.
    #[expect(
        clippy::disallowed_methods,
        reason = "the file of a test, beside any database"
    )]
    fn expected(name: &str) -> Expected {
        let path = std::env::temp_dir().join(format!("koeldb-{name}-{}", std::process::id()));
        let expected = Expected::open(&path, 1).unwrap();
        std::fs::remove_file(path).unwrap();
        expected
    }

    #[test]
    fn a_deletion_that_failed_hides_no_older_one_that_may_be_found() {
        let expected = expected("failed");
        let mut version = Version::NONE;
        let mut versions = Vec::new();
        for (deletes, is_logged) in [(false, true), (true, false), (false, false)] {
            version = version.next(deletes);
            expected.begin(0, version, is_logged).unwrap();
            expected.acknowledge(0, is_logged).unwrap();
            versions.push(version);
        }
        let failed = version.next(true);
        expected.begin(0, failed, false).unwrap();
        assert_eq!(expected.identify(0, None), Some(failed));
        expected.take_back(0).unwrap();
        // Nothing after the first version was logged: a kill may leave any of them.
        for version in versions {
            let value = version.value(0);
            assert_eq!(expected.identify(0, value.as_deref()), Some(version));
        }
    }

    #[test]
    fn a_deletion_that_a_kill_left_unacknowledged_may_be_found_behind_the_next_version() {
        let expected = expected("unacknowledged");
        let put = Version::NONE.next(false);
        expected.begin(0, put, true).unwrap();
        expected.acknowledge(0, true).unwrap();
        let deleted = put.next(true);
        expected.begin(0, deleted, false).unwrap();
        expected.begin(0, deleted.next(false), true).unwrap();
        assert_eq!(expected.identify(0, None), Some(deleted));
    }

    #[test]
    fn a_copy_has_a_version_between_two_moments() {
        let put = Version::NONE.next(false);
        let deleted = put.next(true);
        let later = deleted.next(false);
        let value = |version: Version| version.value(7);
        assert!(put.permits(put, 7, value(put).as_deref()));
        assert!(!put.permits(put, 7, None));
        assert!(!put.permits(put, 7, value(later).as_deref()));
        assert!(put.permits(later, 7, None));
        assert!(deleted.permits(later, 7, value(later).as_deref()));
        assert!(!deleted.permits(later, 7, value(put).as_deref()));
        assert!(!put.permits(later, 8, value(put).as_deref()));
    }

    #[test]
    fn what_is_not_there_is_lost_once_it_was_logged() {
        let expected = expected("lost");
        let deleted = Version::NONE.next(false).next(true);
        expected.begin(0, deleted, false).unwrap();
        expected.acknowledge(0, false).unwrap();
        expected.begin(0, deleted.next(false), true).unwrap();
        assert_eq!(expected.identify(0, None), Some(deleted));
        expected.acknowledge(0, true).unwrap();
        assert_eq!(expected.identify(0, None), None);
    }
}
