//! One state of one column family's tree: the tables on each level.
//!
//! A [`Version`] never changes; an edit produces the next one, and readers keep the one they began
//! with. Level 0 holds runs that may overlap, newest first; every deeper level is one run of
//! disjoint tables in key order. The open reader of a table is stored in its [`FileMeta`], so that
//! a read needs no table-cache lookup.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use koeldb_base::file_name::FileNumber;
use koeldb_base::merge_operator::{BlobCacheUse, FetchBlob, FetchOptions};
use koeldb_base::range_del::RunTombstones;
use koeldb_base::{Error, ErrorKind, KeyOrder, PinnedSlice, Result, Timestamp};
use koeldb_table::blob::{BlobBytes, BlobFile, BlobKey, BlobReadahead, BlobReference, WantedBlobs};
use koeldb_table::cuckoo::level::CuckooLevel;

use super::running::RunningCompactions;
use crate::blob_file_meta::BlobFileMeta;
use crate::blob_space::BlobSpace;
use crate::file_meta::FileMeta;
use crate::table_opener::TableOpener;

/// The tables of one level.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// Level 0: newest first. Deeper levels: in key order, disjoint.
    pub files: Vec<Arc<FileMeta>>,
}

impl Level {
    /// The total bytes of all table files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The compensated bytes of all files: their sizes plus the data that their deletions free.
    #[must_use]
    pub fn compensated_bytes(&self) -> u64 {
        let files = self.files.iter();
        files.fold(0, |bytes, file| {
            bytes.saturating_add(file.compensated_bytes())
        })
    }

    /// Returns the index of the first file whose largest key is at or after `target`.
    ///
    /// The files of the level must be disjoint. `target` is an internal key. Returns the number of
    /// files if there is none.
    #[inline]
    #[must_use]
    pub fn find(&self, order: &KeyOrder, target: &[u8]) -> usize {
        self.files
            .partition_point(|file| order.compare_internal(&file.largest, target) == Ordering::Less)
    }
}

/// An immutable state of a column family's LSM tree: its tables on each level.
#[derive(Debug)]
pub struct Version {
    /// The order of user keys.
    pub order: KeyOrder,
    /// All levels, as many as configured.
    pub levels: Vec<Level>,
    /// The blob files that tables may refer to.
    pub blob_files: BTreeMap<FileNumber, BlobFileMeta>,
    /// The keys at which the next round-robin compaction of a level begins, by level.
    pub compact_cursors: BTreeMap<usize, Vec<u8>>,
    /// Whether tables may be ingested below all others (`cf_allow_ingest_behind`).
    ///
    /// Compactions then keep tombstones and sequence numbers, and those of universal style leave
    /// the last level alone.
    pub ingests_behind: bool,
    /// The timestamp below which history may be collapsed; `None` if all history is kept.
    ///
    /// Reads at older timestamps fail. It only rises. (RocksDB: `full_history_ts_low`.)
    pub full_history_ts_low: Option<Timestamp>,
    /// Whether new tables have the timestamps of their keys (`persist_user_defined_timestamps`).
    pub persists_timestamps: bool,
    /// The output ranges of running compactions, shared by the versions of a column family.
    pub running: Arc<RunningCompactions>,
    /// The range tombstones of the runs that have any, collected on first use.
    pub(crate) tombstones: OnceLock<Vec<(usize, RunTombstones)>>,
    /// The references of all tables to blob files, summed up on first use.
    pub(crate) blob_space: OnceLock<Arc<BlobSpace>>,
    /// All tables as a cuckoo level, determined on first use.
    pub(crate) cuckoo: OnceLock<Option<CuckooLevel>>,
}

impl Version {
    /// Creates a version without files, with `level_count` levels.
    #[must_use]
    pub fn empty(order: KeyOrder, level_count: usize) -> Self {
        Self::new(order, vec![Level::default(); level_count])
    }

    /// Creates a version with the tables of `levels`.
    #[must_use]
    pub fn new(order: KeyOrder, levels: Vec<Level>) -> Self {
        Version {
            order,
            levels,
            blob_files: BTreeMap::new(),
            compact_cursors: BTreeMap::new(),
            ingests_behind: false,
            full_history_ts_low: None,
            persists_timestamps: true,
            running: Arc::default(),
            tombstones: OnceLock::new(),
            blob_space: OnceLock::new(),
            cuckoo: OnceLock::new(),
        }
    }

    /// The timestamp below which flushes and compactions keep one version of a key.
    ///
    /// In tables without timestamps all versions count as of timestamp 0, and none is history.
    #[must_use]
    pub fn history_low(&self) -> Option<Timestamp> {
        let least = || 1_u64.to_le_bytes();
        match self.persists_timestamps || !self.order.has_timestamps() {
            true => self.full_history_ts_low,
            false => Some(self.full_history_ts_low.unwrap_or_else(least)),
        }
    }

    /// The low mark of history that a flush of entries of timestamps up to `newest` has to record.
    ///
    /// It is above the timestamps that the table leaves out; `None` if the present one is already.
    /// (RocksDB: `FlushJob::MaybeIncreaseFullHistoryTsLowToAboveCutoffUDT`.)
    #[must_use]
    pub fn raised_by_flush(&self, newest: Option<Timestamp>) -> Option<Vec<u8>> {
        let newest = u64::from_le_bytes(newest?);
        let known = self.full_history_ts_low.map(u64::from_le_bytes);
        let is_covered = known.is_some_and(|low| newest < low);
        (!is_covered).then(|| newest.saturating_add(1).to_le_bytes().to_vec())
    }

    /// Reads the value of `user_key` to which an entry of type `BlobIndex` refers.
    ///
    /// # Errors
    /// `Corruption` if the reference or the record is damaged or of another key, or the version does not have the blob
    /// file; otherwise if the system fails.
    pub fn blob_value(
        &self,
        tables: &TableOpener,
        user_key: &[u8],
        reference: &[u8],
        how: BlobRead<'_>,
    ) -> Result<PinnedSlice> {
        let reference = BlobReference::decode(reference)?;
        let file = self.blob_file(&reference)?;
        let key = BlobKey::new(&self.order, user_key, how.lacks_timestamps);
        let reader = match how.options.cache {
            // A file that was never read has no value in the cache, and opening it reads.
            BlobCacheUse::Only if file.reader.get().is_none() => {
                return Err(Error::with_kind(
                    ErrorKind::Incomplete,
                    "the value is in a blob file, and the read tier excludes I/O",
                ));
            }
            _ => file.reader.get_or_open(|| tables.open_blob_file(file))?,
        };
        reader.get(&reference, &key, how.options, how.bytes)
    }

    /// Adds a value that a batch wants to `wanted`, and returns its stored size.
    ///
    /// A reference that cannot be read adds nothing: [`Version::blob_value`] reports why.
    pub fn want_blob(
        &self,
        tables: &TableOpener,
        user_key: &[u8],
        reference: &[u8],
        how: BlobRead<'_>,
        wanted: &mut WantedBlobs,
    ) -> u64 {
        let Ok(reference) = BlobReference::decode(reference) else {
            return 0;
        };
        let reader = |file| -> Result<&BlobFile> {
            let file: &BlobFileMeta = file;
            file.reader.get_or_open(|| tables.open_blob_file(file))
        };
        if let Ok(reader) = self.blob_file(&reference).and_then(reader) {
            let key = BlobKey::new(&self.order, user_key, how.lacks_timestamps);
            let key_bytes = key.record_key_bytes();
            wanted.add(reader, &reference, key_bytes, how.options.verifies);
        }
        reference.bytes
    }

    /// Returns the blob file to which a reference refers.
    fn blob_file(&self, reference: &BlobReference) -> Result<&BlobFileMeta> {
        if reference.file == 0 {
            return Err(Error::corruption(
                "an entry refers to its own table, which has no embedded blobs",
            ));
        }
        self.blob_files.get(&reference.file).ok_or_else(|| {
            Error::corruption(format!(
                "an entry refers to blob file {:06}, which the database does not have",
                reference.file
            ))
        })
    }

    /// All tables of the version with their levels.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, files)| files.files.iter().map(move |file| (level, file)))
    }

    /// The files of `level` that overlap the user keys `from..=to`; `None` means unbounded.
    ///
    /// Timestamps do not matter: a range has all versions of its keys.
    #[must_use]
    pub fn overlapping(
        &self,
        level: usize,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Vec<Arc<FileMeta>> {
        self.levels[level]
            .files
            .iter()
            .filter(|file| self.overlaps(file, from, to))
            .cloned()
            .collect()
    }

    /// Whether `file` overlaps the user keys `from..=to`; `None` means unbounded.
    ///
    /// Timestamps do not matter.
    #[must_use]
    pub fn overlaps(&self, file: &FileMeta, from: Option<&[u8]>, to: Option<&[u8]>) -> bool {
        let compare = |a, b| self.order.compare_without_timestamps(a, b);
        let behind_from = from.is_none_or(|from| match compare(file.largest_user_key(), from) {
            Ordering::Less => false,
            Ordering::Equal => !file.largest_is_exclusive(),
            Ordering::Greater => true,
        });
        behind_from
            && to.is_none_or(|to| compare(file.smallest_user_key(), to) != Ordering::Greater)
    }

    /// The total bytes of all table files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.levels.iter().map(Level::bytes).sum()
    }

    /// Computes the compensated sizes of new files, which include the data their deletions free.
    ///
    /// (RocksDB: `ComputeCompensatedSizes`; 11.9.)
    ///
    /// A file keeps its weight, because its deletions do not depend on later versions.
    /// Pickers call this before they compare sizes.
    pub fn compensate(&self) {
        let is_new = |file: &FileMeta| {
            file.compensated.load(Relaxed) == 0 && file.entry_stats.entries.load(Relaxed) > 0
        };
        if !self.files().any(|(_, file)| is_new(file)) {
            return;
        }
        let value_bytes = self.stored_value_bytes();
        // Without values in open tables the weight is not known yet.
        if value_bytes > 0 {
            for (_, file) in self.files().filter(|(_, file)| is_new(file)) {
                file.compensate(value_bytes);
            }
        }
    }

    /// Estimates the average size of a value as stored in tables; 0 if no known table has values.
    fn stored_value_bytes(&self) -> u64 {
        let (mut values, mut value_bytes, mut raw_bytes, mut bytes) = (0, 0, 0, 0_u128);
        for (_, file) in self.files() {
            let stats = &file.entry_stats;
            let of = |counter: &AtomicU64| u128::from(counter.load(Relaxed));
            if of(&stats.entries) > 0 {
                values += of(&stats.entries).saturating_sub(of(&stats.deletions));
                value_bytes += of(&stats.value_bytes);
                raw_bytes += of(&stats.key_bytes) + of(&stats.value_bytes);
                bytes += u128::from(file.bytes);
            }
        }
        if values == 0 || raw_bytes == 0 {
            return 0;
        }
        u64::try_from(value_bytes / values * bytes / raw_bytes).unwrap_or(u64::MAX)
    }

    /// The deepest level with files; 0 for an empty tree.
    #[must_use]
    pub fn deepest_level(&self) -> usize {
        self.levels
            .iter()
            .rposition(|level| !level.files.is_empty())
            .unwrap_or(0)
    }
}

/// How a value in a blob file is read.
#[derive(Clone, Copy, Debug)]
pub struct BlobRead<'a> {
    /// The options of the read.
    pub options: FetchOptions,
    /// Whether keys are given without the timestamps of the column family.
    pub lacks_timestamps: bool,
    /// Where the bytes come from.
    pub bytes: BlobBytes<'a>,
}

/// The values in the blob files of a version, for a scan or a job that reads many of them.
#[derive(Debug)]
pub struct VersionBlobs<'v> {
    version: &'v Version,
    tables: &'v TableOpener,
    options: FetchOptions,
    lacks_timestamps: bool,
    ahead: BlobReadahead,
}

impl<'v> VersionBlobs<'v> {
    /// Creates the source of a job, which reads windows of at most `readahead_bytes` bytes; 0 for
    /// none.
    ///
    /// It leaves the blob cache alone: what a job copies comes from the files.
    #[must_use]
    pub fn new(
        version: &'v Version,
        tables: &'v TableOpener,
        verifies: bool,
        readahead_bytes: u64,
    ) -> Self {
        VersionBlobs {
            version,
            tables,
            options: FetchOptions {
                verifies,
                cache: BlobCacheUse::Bypass,
            },
            lacks_timestamps: false,
            ahead: BlobReadahead::new(readahead_bytes),
        }
    }

    /// Sets the use of the blob cache.
    #[must_use]
    pub fn with_cache(mut self, cache: BlobCacheUse) -> Self {
        self.options.cache = cache;
        self
    }

    /// Takes keys without the timestamps of the column family.
    #[must_use]
    pub fn without_timestamps(mut self) -> Self {
        self.lacks_timestamps = true;
        self
    }
}

impl FetchBlob for VersionBlobs<'_> {
    fn fetch(&self, user_key: &[u8], reference: &[u8]) -> Result<PinnedSlice> {
        let how = BlobRead {
            options: self.options,
            lacks_timestamps: self.lacks_timestamps,
            bytes: BlobBytes::Ahead(&self.ahead),
        };
        self.version
            .blob_value(self.tables, user_key, reference, how)
    }
}
