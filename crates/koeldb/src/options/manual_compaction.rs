//! Options of the compactions that a caller requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koeldb_base::Timestamp;
use koeldb_base::codec::Compression;

use super::accessors::accessors;
use super::{BlobGarbageCollectionPolicy, BottommostLevelCompaction};

/// A token that cancels the compactions whose options hold a clone of it.
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    flag: Arc<AtomicBool>,
}

impl CancelToken {
    /// Creates a token that cancels nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the compactions early, with `Incomplete`; completed parts stay.
    pub fn cancel(&self) {
        self.flag.store(true, Ordering::Release);
    }

    /// Whether [`CancelToken::cancel`] was called.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Returns the flag that [`CancelToken::cancel`] sets.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.flag
    }
}

/// Options of a manual compaction of a key range.
#[derive(Clone, Debug)]
pub struct CompactRangeOptions {
    pub(crate) exclusive_manual_compaction: bool,
    pub(crate) change_level: bool,
    pub(crate) target_level: Option<u32>,
    pub(crate) bottommost_level_compaction: BottommostLevelCompaction,
    pub(crate) allow_write_stall: bool,
    pub(crate) max_subcompactions: u32,
    pub(crate) target_path_id: u32,
    pub(crate) full_history_ts_low: Option<Timestamp>,
    pub(crate) canceled: Option<CancelToken>,
    pub(crate) blob_garbage_collection_policy: BlobGarbageCollectionPolicy,
    pub(crate) blob_garbage_collection_age_cutoff: Option<f64>,
}

impl Default for CompactRangeOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl CompactRangeOptions {
    /// Creates the defaults: not exclusive, the last level rewritten only for a compaction filter.
    #[must_use]
    pub const fn new() -> Self {
        CompactRangeOptions {
            exclusive_manual_compaction: false,
            change_level: false,
            target_level: None,
            bottommost_level_compaction: BottommostLevelCompaction::IfHaveCompactionFilter,
            allow_write_stall: false,
            max_subcompactions: 0,
            target_path_id: 0,
            full_history_ts_low: None,
            canceled: None,
            blob_garbage_collection_policy: BlobGarbageCollectionPolicy::UseDefault,
            blob_garbage_collection_age_cutoff: None,
        }
    }

    /// Sets the share of the oldest blob files that the compaction empties, from 0 to 1.
    ///
    /// `None` is the option of the column family. Other values are limited to that range.
    ///
    /// Default: the column family's.
    pub fn set_blob_garbage_collection_age_cutoff(
        &mut self,
        share: impl Into<Option<f64>>,
    ) -> &mut Self {
        self.blob_garbage_collection_age_cutoff = share.into();
        self
    }

    /// The option `blob_garbage_collection_age_cutoff`.
    #[must_use]
    pub const fn get_blob_garbage_collection_age_cutoff(&self) -> Option<f64> {
        self.blob_garbage_collection_age_cutoff
    }

    /// Sets the user-defined timestamp to which the compaction raises that below which history may
    /// be collapsed; `None` (the default) leaves it.
    ///
    /// See [`ColumnFamily::increase_full_history_ts_low`](crate::ColumnFamily::increase_full_history_ts_low).
    /// The compaction must be of all keys.
    pub fn set_full_history_ts_low(
        &mut self,
        timestamp: impl Into<Option<Timestamp>>,
    ) -> &mut Self {
        self.full_history_ts_low = timestamp.into();
        self
    }

    /// The option `full_history_ts_low`.
    #[must_use]
    pub const fn get_full_history_ts_low(&self) -> Option<Timestamp> {
        self.full_history_ts_low
    }

    /// Sets the level to which `change_level` moves the result; `None` for the lowest that fits.
    ///
    /// Level 0 cannot be the target.
    ///
    /// Default: none.
    pub fn set_target_level(&mut self, level: impl Into<Option<u32>>) -> &mut Self {
        self.target_level = level.into();
        self
    }

    /// The option `target_level`.
    #[must_use]
    pub const fn get_target_level(&self) -> Option<u32> {
        self.target_level
    }

    /// Ends the compaction early when `token` is cancelled.
    ///
    /// Default: none.
    pub fn set_canceled(&mut self, token: &CancelToken) -> &mut Self {
        self.canceled = Some(token.clone());
        self
    }

    /// The option `canceled`.
    #[must_use]
    pub const fn get_canceled(&self) -> Option<&CancelToken> {
        self.canceled.as_ref()
    }

    accessors! {
        /// Sets whether automatic compactions of the column family wait while this compaction runs.
        ///
        /// Default: `false`.
        exclusive_manual_compaction: bool, set_exclusive_manual_compaction, get_exclusive_manual_compaction;
        /// Sets whether all files of the last compacted level are moved to the target level (leveled
        /// style).
        ///
        /// Levels between them must be empty.
        ///
        /// Default: `false`.
        change_level: bool, set_change_level, get_change_level;
        /// Sets whether, and when, the last level is rewritten.
        ///
        /// Default: [`BottommostLevelCompaction::IfHaveCompactionFilter`].
        bottommost_level_compaction: BottommostLevelCompaction, set_bottommost_level_compaction,
            get_bottommost_level_compaction;
        /// Sets whether the memtable is first flushed even if that stalls writers, as for
        /// [`FlushOptions`](super::FlushOptions).
        ///
        /// Default: `false`.
        allow_write_stall: bool, set_allow_write_stall, get_allow_write_stall;
        /// Sets the number of threads that share the work; 0 for that of the database options.
        ///
        /// Default: `0`.
        max_subcompactions: u32, set_max_subcompactions, get_max_subcompactions;
        /// Sets the directory of the new tables, an index into `cf_paths` or else `db_paths`.
        ///
        /// One that does not exist fails the call with `InvalidArgument`.
        ///
        /// Default: `0`.
        target_path_id: u32, set_target_path_id, get_target_path_id;
        /// Sets whether values in old blob files are moved to new ones, so that the old ones become
        /// obsolete.
        ///
        /// Default: [`BlobGarbageCollectionPolicy::UseDefault`].
        blob_garbage_collection_policy: BlobGarbageCollectionPolicy,
            set_blob_garbage_collection_policy, get_blob_garbage_collection_policy;
    }
}

/// Options of a manual compaction of named files.
#[derive(Clone, Debug, Default)]
pub struct CompactionOptions {
    pub(crate) compression: Option<Compression>,
    pub(crate) output_file_size_limit: Option<u64>,
    pub(crate) output_path_id: Option<u32>,
    pub(crate) max_subcompactions: u32,
    pub(crate) canceled: Option<CancelToken>,
}

impl CompactionOptions {
    /// Creates the defaults: the codec and the table size of the output level.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the codec of the output; `None` for that of the output level.
    ///
    /// Default: not set.
    pub fn set_compression(&mut self, compression: impl Into<Option<Compression>>) -> &mut Self {
        self.compression = compression.into();
        self
    }

    /// The option `compression`.
    #[must_use]
    pub fn get_compression(&self) -> Option<Compression> {
        self.compression
    }

    /// Sets the size in bytes at which an output table is cut; `None` for that of the output level.
    ///
    /// Without effect on level 0, whose runs are one table each.
    ///
    /// Default: none.
    pub fn set_output_file_size_limit(&mut self, bytes: impl Into<Option<u64>>) -> &mut Self {
        self.output_file_size_limit = bytes.into();
        self
    }

    /// The option `output_file_size_limit`.
    #[must_use]
    pub fn get_output_file_size_limit(&self) -> Option<u64> {
        self.output_file_size_limit
    }

    /// Sets the directory of the new tables, an index into `cf_paths` or else `db_paths`.
    ///
    /// It must be set if there are several: none is chosen by the sizes of the tables.
    ///
    /// Default: none.
    pub fn set_output_path_id(&mut self, path_id: impl Into<Option<u32>>) -> &mut Self {
        self.output_path_id = path_id.into();
        self
    }

    /// The option `output_path_id`.
    #[must_use]
    pub fn get_output_path_id(&self) -> Option<u32> {
        self.output_path_id
    }

    /// Ends the compaction early when `token` is cancelled.
    ///
    /// Default: none.
    pub fn set_canceled(&mut self, token: &CancelToken) -> &mut Self {
        self.canceled = Some(token.clone());
        self
    }

    /// The option `canceled`.
    #[must_use]
    pub const fn get_canceled(&self) -> Option<&CancelToken> {
        self.canceled.as_ref()
    }

    accessors! {
        /// Sets the number of threads that share the work; 0 for that of the database options.
        ///
        /// Default: `0`.
        max_subcompactions: u32, set_max_subcompactions, get_max_subcompactions;
    }
}
