//! Options of flushes, manual compactions, waits, sizes and reads of the log.

#![expect(
    unsafe_code,
    reason = "bytes of the caller, and enumerations that are no flags"
)]

use std::ffi::c_char;
use std::time::Duration;

use koeldb::{BlobGarbageCollectionPolicy, BottommostLevelCompaction, CompactRangeOptions};

use crate::boundary::Failure;
use crate::data::timestamps;
use crate::handle::{self, Handle};
use crate::memory;

/// Setters and getters of fields.
macro_rules! fields {
    ($($type:ty { $($field:ident: $value:ty, $set:ident, $get:ident;)* })*) => {$($(
        #[doc = concat!("Sets `", stringify!($field), "`.")]
        pub(crate) fn $set(options: &mut $type, value: $value) {
            options.$field = value;
        }

        #[doc = concat!("Returns `", stringify!($field), "`.")]
        pub(crate) fn $get(options: &$type) -> $value {
            options.$field
        }
    )*)*};
}

/// Setters and getters that are methods of the engine's type.
macro_rules! methods {
    ($type:ty, $options:ident => $engine:expr;
        $($set:ident = $engine_set:ident, $get:ident = $engine_get:ident: $value:ty;)*
    ) => {$(
        #[doc = concat!("Sets the option by `", stringify!($engine_set), "`.")]
        pub(crate) fn $set($options: &mut $type, value: $value) {
            $engine.$engine_set(value);
        }

        #[doc = concat!("Returns the option from `", stringify!($engine_get), "`.")]
        pub(crate) fn $get($options: &$type) -> $value {
            $engine.$engine_get()
        }
    )*};
}

/// The options of a manual compaction (`rocksdb_compactoptions_t`).
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeOptions {
    inner: CompactRangeOptions,
    /// The error of a value that a setter could not refuse.
    failure: Option<String>,
}

impl RangeOptions {
    /// Returns the engine's options, or the error of a setter.
    pub(crate) fn checked(&self) -> Result<&CompactRangeOptions, Failure> {
        match &self.failure {
            None => Ok(&self.inner),
            Some(text) => Err(Failure::Text(text.clone())),
        }
    }
}

/// The options of a flush (`rocksdb_flushoptions_t`).
#[derive(Clone, Debug, Default)]
pub(crate) struct FlushOptions {
    inner: koeldb::FlushOptions,
    force_atomic_flush: bool,
    listener_wait: bool,
}

impl FlushOptions {
    /// Returns the engine's options, or the error of an option that it does not serve.
    pub(crate) fn checked(&self) -> Result<&koeldb::FlushOptions, Failure> {
        match self.force_atomic_flush {
            false => Ok(&self.inner),
            true => Err(Failure::unserved("FlushOptions::force_atomic_flush")),
        }
    }

    /// Waits for all background work, if the options demand a wait for listeners of the flush.
    ///
    /// Listeners are called before the job of a flush ends. The engine has no wait for a single
    /// job.
    pub(crate) fn finish(&self, db: &koeldb::Db) -> koeldb::Result<()> {
        match self.listener_wait && self.inner.get_wait() {
            true => db.wait_for_compact(None),
            false => Ok(()),
        }
    }
}

/// The options of a wait for background work (`rocksdb_wait_for_compact_options_t`).
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitOptions {
    pub(crate) abort_on_pause: bool,
    pub(crate) flush: bool,
    pub(crate) close_db: bool,
    pub(crate) wait_for_purge: bool,
    timeout: u64,
}

impl WaitOptions {
    /// Returns the time limit; `None` waits for ever.
    pub(crate) fn limit(&self) -> Option<Duration> {
        Some(Duration::from_micros(self.timeout)).filter(|limit| !limit.is_zero())
    }
}

/// The options of a flush of the log (`rocksdb_flushwaloptions_t`).
#[derive(Clone, Debug)]
pub(crate) struct LogFlushOptions {
    pub(crate) sync: bool,
    /// Kept without effect: it would only limit the rate of the write.
    rate_limiter_priority: i32,
}

impl Default for LogFlushOptions {
    fn default() -> Self {
        LogFlushOptions {
            sync: false,
            // `Env::IO_TOTAL`, no rate limiter.
            rate_limiter_priority: 4,
        }
    }
}

/// The options of sizes (`rocksdb_size_approximation_options_t`).
#[derive(Clone, Debug)]
pub(crate) struct SizeOptions {
    pub(crate) include_memtables: bool,
    pub(crate) include_files: bool,
    pub(crate) include_blob_files: bool,
    /// Kept without effect: estimates are always as exact as possible.
    files_size_error_margin: f64,
}

impl Default for SizeOptions {
    fn default() -> Self {
        Self::FILES
    }
}

impl SizeOptions {
    /// The tables only.
    pub(crate) const FILES: SizeOptions = SizeOptions {
        include_memtables: false,
        include_files: true,
        include_blob_files: false,
        files_size_error_margin: -1.0,
    };

    /// Returns the options that flags of RocksDB mean.
    pub(crate) fn of_flags(flags: u8) -> Self {
        SizeOptions {
            include_memtables: flags & 1 != 0,
            include_files: flags & 2 != 0,
            include_blob_files: flags & 4 != 0,
            ..Self::FILES
        }
    }

    /// Fails if there is nothing to estimate.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.include_memtables || self.include_files || self.include_blob_files {
            true => Ok(()),
            false => Err(Failure::argument("sizes of nothing")),
        }
    }
}

/// The options of a read of the log (`rocksdb_wal_readoptions_t`).
#[derive(Clone, Debug)]
pub(crate) struct LogReadOptions {
    /// Kept without effect: checksums are always verified.
    verify_checksums: bool,
}

impl Default for LogReadOptions {
    fn default() -> Self {
        LogReadOptions {
            verify_checksums: true,
        }
    }
}

fields! {
    FlushOptions {
        force_atomic_flush: bool, set_flush_atomic, get_flush_atomic;
        listener_wait: bool, set_flush_listener_wait, get_flush_listener_wait;
    }
    WaitOptions {
        abort_on_pause: bool, set_wait_abort_on_pause, get_wait_abort_on_pause;
        flush: bool, set_wait_flush, get_wait_flush;
        close_db: bool, set_wait_close_db, get_wait_close_db;
        wait_for_purge: bool, set_wait_for_purge, get_wait_for_purge;
        timeout: u64, set_wait_timeout, get_wait_timeout;
    }
    LogFlushOptions {
        sync: bool, set_log_sync, get_log_sync;
        rate_limiter_priority: i32, set_log_priority, get_log_priority;
    }
    SizeOptions {
        include_memtables: bool, set_size_memtables, get_size_memtables;
        include_files: bool, set_size_files, get_size_files;
        include_blob_files: bool, set_size_blob_files, get_size_blob_files;
        files_size_error_margin: f64, set_size_margin, get_size_margin;
    }
    LogReadOptions {
        verify_checksums: bool, set_read_verify_checksums, get_read_verify_checksums;
    }
}

methods! {
    FlushOptions, options => options.inner;
    set_flush_wait = set_wait, get_flush_wait = get_wait: bool;
    set_flush_allow_write_stall = set_allow_write_stall,
        get_flush_allow_write_stall = get_allow_write_stall: bool;
}

methods! {
    RangeOptions, options => options.inner;
    set_range_exclusive = set_exclusive_manual_compaction,
        get_range_exclusive = get_exclusive_manual_compaction: bool;
    set_range_change_level = set_change_level, get_range_change_level = get_change_level: bool;
    set_range_allow_write_stall = set_allow_write_stall,
        get_range_allow_write_stall = get_allow_write_stall: bool;
}

/// Converts a number. A negative one becomes the largest, which the engine refuses.
fn unsigned(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Converts a number to the type of C; -1 if it is too large.
fn signed(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(-1)
}

/// Sets the level of the result; negative: the lowest possible.
pub(crate) fn set_range_target_level(options: &mut RangeOptions, level: i32) {
    options.inner.set_target_level(u32::try_from(level).ok());
}

/// Returns the level of the result; -1: the lowest possible.
pub(crate) fn get_range_target_level(options: &RangeOptions) -> i32 {
    options.inner.get_target_level().map_or(-1, signed)
}

/// Sets the directory of the result.
pub(crate) fn set_range_target_path_id(options: &mut RangeOptions, path_id: i32) {
    options.inner.set_target_path_id(unsigned(path_id));
}

/// Returns the directory of the result.
pub(crate) fn get_range_target_path_id(options: &RangeOptions) -> i32 {
    signed(options.inner.get_target_path_id())
}

/// Sets the number of threads; 0: the option of the database.
pub(crate) fn set_range_max_subcompactions(options: &mut RangeOptions, threads: i32) {
    options
        .inner
        .set_max_subcompactions(u32::try_from(threads).unwrap_or(0));
}

/// Returns the number of threads.
pub(crate) fn get_range_max_subcompactions(options: &RangeOptions) -> i32 {
    signed(options.inner.get_max_subcompactions())
}

/// The values of `BottommostLevelCompaction` by the numbers of C.
const BOTTOMMOST: [BottommostLevelCompaction; 4] = [
    BottommostLevelCompaction::Skip,
    BottommostLevelCompaction::IfHaveCompactionFilter,
    BottommostLevelCompaction::Force,
    BottommostLevelCompaction::ForceOptimized,
];

/// Sets whether the last level is rewritten; ignores numbers that mean nothing.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn set_range_bottommost(options: *mut Handle<RangeOptions>, value: u8) {
    // SAFETY: promised by the caller.
    let options = unsafe { handle::exclusive(options, "compactoptions") };
    let value = BOTTOMMOST.get(usize::from(value));
    if let (Ok(options), Some(value)) = (options, value) {
        options.inner.set_bottommost_level_compaction(*value);
    }
}

/// Returns the number of C of an element of a list.
fn index_of<T: PartialEq>(all: &[T], value: &T) -> u8 {
    let index = all.iter().position(|other| other == value);
    index
        .and_then(|index| u8::try_from(index).ok())
        .unwrap_or(0)
}

/// Returns whether the last level is rewritten.
pub(crate) fn get_range_bottommost(options: &RangeOptions) -> u8 {
    index_of(
        &BOTTOMMOST,
        &options.inner.get_bottommost_level_compaction(),
    )
}

/// The values of `BlobGarbageCollectionPolicy` by the numbers of C.
const BLOB_POLICIES: [BlobGarbageCollectionPolicy; 3] = [
    BlobGarbageCollectionPolicy::Force,
    BlobGarbageCollectionPolicy::Disable,
    BlobGarbageCollectionPolicy::UseDefault,
];

/// Sets whether values move out of old blob files; ignores numbers that mean nothing.
pub(crate) fn set_range_blob_policy(options: &mut RangeOptions, value: i32) {
    let policy = usize::try_from(value).ok();
    if let Some(policy) = policy.and_then(|index| BLOB_POLICIES.get(index)) {
        options.inner.set_blob_garbage_collection_policy(*policy);
    }
}

/// Returns whether values move out of old blob files.
pub(crate) fn get_range_blob_policy(options: &RangeOptions) -> i32 {
    i32::from(index_of(
        &BLOB_POLICIES,
        &options.inner.get_blob_garbage_collection_policy(),
    ))
}

/// Sets the share of blob files that are old; negative: the option of the column family.
pub(crate) fn set_range_blob_cutoff(options: &mut RangeOptions, share: f64) {
    let share = Some(share).filter(|share| *share >= 0.0);
    options.inner.set_blob_garbage_collection_age_cutoff(share);
}

/// Returns the share of blob files that are old.
pub(crate) fn get_range_blob_cutoff(options: &RangeOptions) -> f64 {
    let share = options.inner.get_blob_garbage_collection_age_cutoff();
    share.unwrap_or(-1.0)
}

/// Sets the timestamp below which history may be dropped; null: none.
///
/// # Safety
/// The rules of C.
pub(crate) unsafe fn set_range_history(
    options: *mut Handle<RangeOptions>,
    timestamp: *mut c_char,
    length: usize,
) {
    // SAFETY: promised by the caller.
    let Ok(options) = (unsafe { handle::exclusive(options, "compactoptions") }) else {
        return;
    };
    // SAFETY: promised by the caller.
    let timestamp = unsafe { memory::optional_bytes(timestamp, length) };
    let timestamp = timestamp.and_then(|bytes| bytes.map(timestamps::of).transpose());
    options.failure = timestamp.as_ref().err().map(Failure::text);
    options
        .inner
        .set_full_history_ts_low(timestamp.ok().flatten());
}
