//! Options of an ingestion.

use std::path::PathBuf;

use koeldb_base::{Error, Result};

use crate::api::column_family::ColumnFamily;
use crate::state::key_bounds::{IterateBounds, KeyBounds};

/// Options of an ingestion. The defaults are RocksDB's.
#[derive(Clone, Debug)]
pub struct IngestExternalFileOptions {
    pub(super) move_files: bool,
    pub(super) link_files: bool,
    pub(super) failed_move_fall_back_to_copy: bool,
    pub(super) snapshot_consistency: bool,
    pub(super) allow_global_seqno: bool,
    pub(super) allow_blocking_flush: bool,
    pub(super) verify_checksums_before_ingest: bool,
    pub(super) fail_if_not_bottommost_level: bool,
    pub(super) ingest_behind: bool,
    pub(super) file_opening_threads: usize,
}

impl Default for IngestExternalFileOptions {
    fn default() -> Self {
        Self::new()
    }
}

macro_rules! switches {
    ($($(#[doc = $doc:literal])+ $field:ident, $setter:ident;)*) => {$(
        $(#[doc = $doc])+
        pub fn $setter(&mut self, on: bool) -> &mut Self {
            self.$field = on;
            self
        }
    )*};
}

impl IngestExternalFileOptions {
    /// Creates the defaults: copies, consistent with snapshots.
    #[must_use]
    pub fn new() -> Self {
        IngestExternalFileOptions {
            move_files: false,
            link_files: false,
            failed_move_fall_back_to_copy: true,
            snapshot_consistency: true,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            verify_checksums_before_ingest: false,
            fail_if_not_bottommost_level: false,
            ingest_behind: false,
            file_opening_threads: 4,
        }
    }

    switches! {
        /// Sets whether the files are linked instead of copied, and the originals removed after the
        /// commit; off by default.
        move_files, set_move_files;
        /// Sets whether the files are linked instead of copied, and the originals kept, which must
        /// not change; off by default.
        link_files, set_link_files;
        /// Sets whether a file that cannot be linked is copied; on by default. If off, the
        /// ingestion of such a file fails.
        failed_move_fall_back_to_copy, set_failed_move_fall_back_to_copy;
        /// Sets whether the files are hidden from snapshots that exist; on by default. If off, a
        /// transaction that has read or locked a key of the files may commit without a conflict.
        snapshot_consistency, set_snapshot_consistency;
        /// Sets whether files get a sequence number if they need one; on by default. If off, the
        /// ingestion of such a file fails.
        allow_global_seqno, set_allow_global_seqno;
        /// Sets whether memtables that overlap a file are flushed; on by default. If off, the
        /// ingestion of such a file fails.
        allow_blocking_flush, set_allow_blocking_flush;
        /// Sets whether the files, once in the directory of the database, are read and the checksum
        /// of every block and the order of the keys verified, before anything is changed; off by default.
        verify_checksums_before_ingest, set_verify_checksums_before_ingest;
        /// Sets whether the ingestion fails if a file would get a level above the last one; off by
        /// default.
        fail_if_not_bottommost_level, set_fail_if_not_bottommost_level;
        /// Sets whether the files are ingested below all data of the column family, on its last
        /// level: a key that the family has, or deleted, keeps its state. Snapshots see the entries
        /// of the files, which have sequence number 0.
        ///
        /// The family must have `cf_allow_ingest_behind`, before its first write. Off by default.
        ingest_behind, set_ingest_behind;
    }

    /// Sets the number of threads that copy files; at least 1.
    ///
    /// Default: `4`.
    pub fn set_file_opening_threads(&mut self, threads: usize) -> &mut Self {
        self.file_opening_threads = threads.max(1);
        self
    }
}

/// The files that an ingestion adds to one column family.
#[derive(Clone, Debug)]
pub struct IngestExternalFileArg {
    pub(super) family: ColumnFamily,
    pub(super) files: Vec<PathBuf>,
    pub(super) crc32c: Option<Vec<u32>>,
    pub(super) replaced: Option<KeyBounds>,
}

impl IngestExternalFileArg {
    /// Creates the list of files for `family`. Where files overlap, entries of later ones win.
    pub fn new<P: Into<PathBuf>>(
        family: &ColumnFamily,
        files: impl IntoIterator<Item = P>,
    ) -> Self {
        IngestExternalFileArg {
            family: family.clone(),
            files: files.into_iter().map(Into::into).collect(),
            crc32c: None,
            replaced: None,
        }
    }

    /// Sets the expected CRC-32C of each file, in the order of the files.
    pub fn set_files_crc32c(&mut self, checksums: impl Into<Vec<u32>>) -> &mut Self {
        self.crc32c = Some(checksums.into());
        self
    }

    /// Sets the range whose entries the files replace, atomically with the ingestion.
    ///
    /// `..` replaces the whole column family.
    ///
    /// Tables are dropped, not read: the ingestion fails with `Aborted` if a table is only partly in
    /// the range, or is being compacted. All keys of the files must be in the range. Snapshots do
    /// not keep the replaced entries, so
    /// [`set_snapshot_consistency`](IngestExternalFileOptions::set_snapshot_consistency) must be off.
    ///
    /// # Errors
    /// `NotSupported` for a prefix, if the comparator does not keep keys with one prefix together.
    pub fn set_atomic_replace_range(&mut self, range: impl IterateBounds) -> Result<&mut Self> {
        let family = self.family.data();
        let bounds = range.into_bounds(&family.user_order).ok_or_else(|| {
            Error::not_supported("this comparator does not keep keys with one prefix together")
        })?;
        self.replaced = Some(match family.has_timestamps {
            true => bounds.with_timestamps(),
            false => bounds,
        });
        Ok(self)
    }
}
