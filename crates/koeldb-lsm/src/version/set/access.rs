//! Access to counters, families, versions and live files of a version set.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};

use koeldb_base::SeqNo;
use koeldb_base::file_name::FileNumber;
use koeldb_log::RecordWriter;

use super::VersionSet;
use crate::version::column_family::{ColumnFamilyVersions, FileNumbers};
use crate::version::version::Version;

/// The numbers of the files that any version in use refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveFiles {
    /// The numbers of live tables.
    pub tables: HashSet<FileNumber>,
    /// The numbers of live blob files.
    pub blob_files: HashSet<FileNumber>,
}

impl LiveFiles {
    /// Adds the numbers of all tables and blob files of a version.
    fn add(&mut self, version: &Version) {
        self.tables
            .extend(version.files().map(|(_, file)| file.number));
        self.blob_files.extend(version.blob_files.keys());
    }
}

impl VersionSet {
    /// The file number allocator.
    #[must_use]
    pub fn file_numbers(&self) -> &FileNumbers {
        &self.numbers
    }

    /// The database id; `None` if the MANIFEST has none and none was set.
    #[must_use]
    pub fn db_id(&self) -> Option<&str> {
        self.db_id.as_deref()
    }

    /// Sets the database id, which the next new MANIFEST records.
    pub fn set_db_id(&mut self, db_id: impl Into<String>) {
        self.db_id = Some(db_id.into());
    }

    /// The open column families, in the order of their ids.
    pub fn families(&self) -> impl Iterator<Item = &ColumnFamilyVersions> {
        self.families.values()
    }

    /// Returns the open column family with this id.
    #[must_use]
    pub fn family(&self, id: u32) -> Option<&ColumnFamilyVersions> {
        self.families.get(&id)
    }

    /// Returns the open column family with this name.
    #[must_use]
    pub fn family_named(&self, name: &str) -> Option<&ColumnFamilyVersions> {
        self.families.values().find(|family| family.name == name)
    }

    /// The last sequence number, as recovered or raised since.
    #[must_use]
    pub fn last_seqno(&self) -> SeqNo {
        self.last_seqno
    }

    /// Raises the last sequence number, which the next edit records, to at least `seqno`.
    pub fn raise_last_seqno(&mut self, seqno: SeqNo) {
        self.last_seqno = self.last_seqno.max(seqno);
    }

    /// The recorded WAL number below which no column family needs a WAL.
    ///
    /// Only this number decides which logs may be removed.
    #[must_use]
    pub fn min_log_number_to_keep(&self) -> FileNumber {
        self.min_log_number_to_keep
    }

    /// The largest column family id that was ever used.
    #[must_use]
    pub fn max_column_family(&self) -> u32 {
        self.max_column_family
    }

    /// The WALs tracked in the MANIFEST, each with its synced size if known.
    #[must_use]
    pub fn tracked_wals(&self) -> &BTreeMap<FileNumber, Option<u64>> {
        &self.wals
    }

    /// The number of the MANIFEST that CURRENT names, unless a failed switch left that uncertain.
    #[must_use]
    pub fn manifest_number(&self) -> FileNumber {
        self.manifest_number
    }

    /// The length of the current MANIFEST; 0 if the next edit begins a new one.
    #[must_use]
    pub fn manifest_bytes(&self) -> u64 {
        self.manifest.as_ref().map_or(0, RecordWriter::len)
    }

    /// The smallest number of a MANIFEST that CURRENT may name; files with lower ones are obsolete.
    #[must_use]
    pub fn oldest_manifest(&self) -> FileNumber {
        self.manifest_number
    }

    /// Whether a failed MANIFEST write left it unknown which state is on disk.
    ///
    /// Files must not be deleted then.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        !self.uncertain.is_empty()
    }

    /// The versions of all column families that are current or being read.
    pub fn live_versions(&self) -> impl Iterator<Item = Arc<Version>> {
        self.versions.iter().filter_map(Weak::upgrade)
    }

    /// Returns the files of all versions in use, and of failed edits that may be on disk.
    pub fn live_files(&mut self) -> LiveFiles {
        let mut live = LiveFiles::default();
        self.versions.retain(|version| match version.upgrade() {
            Some(version) => {
                live.add(&version);
                true
            }
            None => false,
        });
        for version in &self.uncertain {
            live.add(version);
        }
        live
    }
}
