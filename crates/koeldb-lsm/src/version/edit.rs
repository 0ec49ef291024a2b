//! Version edits: changes of the tree, as recorded in the MANIFEST. Their bytes are in [`format`].

mod format;

use std::sync::Arc;

use koeldb_base::SeqNo;
use koeldb_base::file_name::FileNumber;

use crate::blob_file_meta::BlobFileMeta;
use crate::file_meta::FileMeta;

/// The largest valid level.
pub const LEVEL_MAX: usize = 255;

/// The largest valid file number.
pub const FILE_NUMBER_MAX: FileNumber = (1 << 62) - 1;

/// The longest name of a column family, in bytes.
pub const FAMILY_NAME_BYTES_MAX: usize = 64 << 10;

/// The creation or drop of a column family in a version edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnFamilyChange {
    /// Creates the edit's family with this name.
    Add(String),
    /// Drops the edit's family.
    Drop,
}

/// A version edit field that adds a WAL to the tracked ones, or records its synced size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalAddition {
    /// The number of the log.
    pub number: FileNumber,
    /// The bytes known to be durable, once it was synced.
    pub synced_bytes: Option<u64>,
}

/// A version edit field with the number and size of blobs of a file that became garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobGarbage {
    /// The number of the blob file.
    pub number: FileNumber,
    /// The number of additional garbage blobs.
    pub count: u64,
    /// The size of these blobs.
    pub bytes: u64,
}

/// A MANIFEST record: a change of a column family's files or of the state of the database.
#[derive(Clone, Debug, Default)]
pub struct VersionEdit {
    /// The family of the edit; 0 also for edits of the database.
    pub family: u32,
    /// The id of the database.
    pub db_id: Option<Vec<u8>>,
    /// The name of the family's comparator.
    pub comparator: Option<String>,
    /// The log number below which all data of the family is in its tables.
    pub log_number: Option<FileNumber>,
    /// The number of the previous log: a field from LevelDB, always 0 in current files.
    pub prev_log_number: Option<FileNumber>,
    /// The next file number to allocate.
    pub next_file_number: Option<FileNumber>,
    /// The largest id that a family ever had.
    pub max_column_family: Option<u32>,
    /// The number below which no family needs a log.
    pub min_log_number_to_keep: Option<FileNumber>,
    /// The last sequence number in use.
    pub last_seqno: Option<SeqNo>,
    /// The start of the next compaction of a level, as internal keys. Written by RocksDB; unused
    /// here.
    pub compact_cursors: Vec<(usize, Vec<u8>)>,
    /// Removed tables, with their levels.
    pub deleted_files: Vec<(usize, FileNumber)>,
    /// Added tables, with their levels.
    pub added_files: Vec<(usize, Arc<FileMeta>)>,
    /// Added blob files.
    pub added_blob_files: Vec<BlobFileMeta>,
    /// Blobs that became garbage.
    pub blob_garbage: Vec<BlobGarbage>,
    /// Logs that the MANIFEST tracks from now on.
    pub wal_additions: Vec<WalAddition>,
    /// The number below which tracked logs are obsolete.
    pub wal_deletion: Option<FileNumber>,
    /// The creation or drop of the family.
    pub family_change: Option<ColumnFamilyChange>,
    /// The number of following edits in the same atomic group.
    pub remaining_in_group: Option<u32>,
    /// The timestamp below which history may be collapsed.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Whether timestamps in keys are persisted in tables.
    pub persist_timestamps: Option<bool>,
    /// The approximate length of the MANIFEST when it was last rewritten.
    pub compacted_manifest_bytes: Option<u64>,
}

impl VersionEdit {
    /// Creates an edit of the column family with id `family`, without changes.
    #[must_use]
    pub fn of(family: u32) -> Self {
        VersionEdit {
            family,
            ..VersionEdit::default()
        }
    }

    /// Gives the bounds of added undated tables timestamps, in a column family whose keys have them.
    ///
    /// With `all`, these are all added tables, whatever the edit records of them.
    pub fn date_bounds(&mut self, all: bool) {
        for (_, file) in &mut self.added_files {
            if all || file.is_recorded_undated() {
                *file = Arc::new(file.as_undated());
            }
        }
    }

    /// Whether a new version results: the edit changes files or the low mark of timestamps.
    #[must_use]
    pub fn changes_version(&self) -> bool {
        self.changes_files() || self.full_history_ts_low.is_some()
    }

    /// Whether the edit adds or removes tables or blob files, or adds blob garbage.
    #[must_use]
    pub fn changes_files(&self) -> bool {
        !(self.deleted_files.is_empty()
            && self.added_files.is_empty()
            && self.added_blob_files.is_empty()
            && self.blob_garbage.is_empty())
    }
}
