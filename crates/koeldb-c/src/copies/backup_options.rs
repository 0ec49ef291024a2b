//! Options of backup engines, backups and restorations.

#![expect(unsafe_code, reason = "calls functions of the caller with its state")]

use std::ffi::{CStr, c_void};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb::{Env, RateLimiter, RestoreMode, ShareFilesNaming};

use crate::boundary::Failure;
use crate::copies::fields::plain_options;
use crate::functions::callbacks;
use crate::handle::{self, Handle};
use crate::memory::path;
use crate::text::Text;

/// RocksDB's `kUseDbSessionId | kFlagIncludeFileSize`.
const SESSION_ID_AND_SIZE: i32 = 2 | i32::MIN;

/// RocksDB's `kPurgeAllFiles`.
const PURGE_ALL_FILES: i32 = 0xffff;

plain_options! {
    /// The plain values among the options of a backup engine.
    ///
    /// Without effect are `sync`, as backups are durable in any case; `io_buffer_size`;
    /// `current_temperatures_override_manifest`; and `max_valid_backups_to_open`, which RocksDB
    /// ignores in engines that write.
    EngineValues {
        share_table_files: bool = true, set_share_table_files;
        sync: bool = true, set_sync;
        destroy_old_data: bool = false, set_destroy_old_data;
        backup_log_files: bool = true, set_backup_log_files;
        io_buffer_size: u64 = 0, set_io_buffer_size;
        backup_rate_limit: u64 = 0, set_backup_rate_limit;
        restore_rate_limit: u64 = 0, set_restore_rate_limit;
        share_files_with_checksum: bool = true, set_share_files_with_checksum;
        max_background_operations: i32 = 1, set_max_background_operations;
        callback_trigger_interval_size: u64 = 4 << 20, set_callback_trigger_interval_size;
        max_valid_backups_to_open: i32 = i32::MAX, set_max_valid_backups_to_open;
        naming: i32 = SESSION_ID_AND_SIZE, set_naming;
        schema_version: i32 = 1, set_schema_version;
        current_temperatures_override_manifest: bool = false,
            set_current_temperatures_override_manifest;
    }
}

/// Options of a backup engine (`rocksdb_backup_engine_options_t`).
#[derive(Clone, Default)]
pub(crate) struct BackupEngineOptions {
    directory: Text,
    pub(crate) env: Option<Env>,
    /// The limiters, whose rates an engine takes when it is opened.
    limiters: Limiters,
    values: EngineValues,
}

/// The rate limiters of backups and restorations.
#[derive(Clone, Default)]
struct Limiters {
    backup: Option<RateLimiter>,
    restore: Option<RateLimiter>,
}

/// Limits backups to the rate of a limiter; null changes nothing.
pub(crate) fn set_backup_rate_limiter(
    options: &mut BackupEngineOptions,
    limiter: Option<&RateLimiter>,
) {
    if let Some(limiter) = limiter {
        options.limiters.backup = Some(limiter.clone());
    }
}

/// Limits restorations to the rate of a limiter; null changes nothing.
pub(crate) fn set_restore_rate_limiter(
    options: &mut BackupEngineOptions,
    limiter: Option<&RateLimiter>,
) {
    if let Some(limiter) = limiter {
        options.limiters.restore = Some(limiter.clone());
    }
}

impl Deref for BackupEngineOptions {
    type Target = EngineValues;

    fn deref(&self) -> &EngineValues {
        &self.values
    }
}

impl DerefMut for BackupEngineOptions {
    fn deref_mut(&mut self) -> &mut EngineValues {
        &mut self.values
    }
}

impl BackupEngineOptions {
    /// Creates the defaults, with the directory of the backups.
    pub(crate) fn new(directory: &CStr) -> Self {
        BackupEngineOptions {
            directory: directory.into(),
            ..Self::default()
        }
    }

    pub(crate) fn set_directory(&mut self, directory: &CStr) {
        self.directory = directory.into();
    }

    pub(crate) fn directory(&self) -> &[u8] {
        self.directory.bytes()
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        path(self.directory.get())
    }

    /// Returns the engine's options.
    pub(crate) fn engine(&self) -> Result<koeldb::BackupEngineOptions, Failure> {
        let values = &self.values;
        let naming = match values.naming {
            1 => ShareFilesNaming::LegacyCrc32cAndFileSize,
            2 => ShareFilesNaming::UseDbSessionId,
            SESSION_ID_AND_SIZE => ShareFilesNaming::UseDbSessionIdAndFileSize,
            other => {
                return Err(Failure::unserved(format!(
                    "share_files_with_checksum_naming {other:#x}"
                )));
            }
        };
        let schema = match values.schema_version {
            1 => 1,
            2 => 2,
            other => return Err(Failure::unserved(format!("schema_version {other}"))),
        };
        let rate = |limiter: &Option<RateLimiter>, number| {
            limiter
                .as_ref()
                .map_or(number, RateLimiter::bytes_per_second)
        };
        let mut options = koeldb::BackupEngineOptions::new();
        options.set_allow_database_directory(true);
        options
            .set_share_table_files(values.share_table_files)
            .set_share_files_with_checksum(values.share_files_with_checksum)
            .set_share_files_with_checksum_naming(naming)
            .set_backup_log_files(values.backup_log_files)
            .set_schema_version(schema)
            .set_max_background_operations(
                usize::try_from(values.max_background_operations).unwrap_or(1),
            )
            .set_backup_rate_limit(rate(&self.limiters.backup, values.backup_rate_limit))
            .set_restore_rate_limit(rate(&self.limiters.restore, values.restore_rate_limit));
        Ok(options)
    }
}

plain_options! {
    /// The plain values among the options of a backup.
    ///
    /// The priorities of threads have no effect, nor `atomic_flush`: a backup has the state of all
    /// column families at one sequence number.
    CreateValues {
        decrease_background_thread_cpu_priority: bool = false,
            set_decrease_background_thread_cpu_priority;
        background_thread_cpu_priority: i32 = 2, set_background_thread_cpu_priority;
        flush_before_backup: bool = false, set_flush_before_backup;
        atomic_flush: bool = false, set_atomic_flush;
    }
}

/// A function of the caller and its state.
#[derive(Clone, Copy)]
struct Callback<F> {
    function: F,
    state: *mut c_void,
}

// SAFETY: the caller promises that the threads of a backup may call the function with the state.
unsafe impl<F: Send> Send for Callback<F> {}
// SAFETY: as above.
unsafe impl<F: Sync> Sync for Callback<F> {}

type ProgressFn = unsafe extern "C" fn(*mut c_void);
type ExcludeFn = unsafe extern "C" fn(*mut c_void, *const std::ffi::c_char, usize) -> u8;

impl Callback<ProgressFn> {
    fn call(&self) {
        // SAFETY: the caller promises that the function takes this state.
        unsafe { (self.function)(self.state) };
    }
}

impl Callback<ExcludeFn> {
    fn call(&self, name: &str) -> bool {
        // SAFETY: the caller promises that the function takes this state; the name is borrowed.
        let excluded = unsafe { (self.function)(self.state, name.as_ptr().cast(), name.len()) };
        excluded != 0
    }
}

/// Options of a backup (`rocksdb_create_backup_options_t`).
#[derive(Clone, Default)]
pub(crate) struct CreateBackupOptions {
    values: CreateValues,
    progress: Option<Callback<ProgressFn>>,
    exclude: Option<Callback<ExcludeFn>>,
}

/// Sets the function that is called while files are copied; null for none.
///
/// # Safety
/// The object is null or of its type. While backups run, the function may be called with the state.
pub(crate) unsafe fn set_progress(
    options: *mut Handle<CreateBackupOptions>,
    state: *mut c_void,
    callback: callbacks::rocksdb_create_backup_options_progress_cb,
) {
    // SAFETY: promised by the caller.
    if let Ok(options) = unsafe { handle::exclusive(options, "options") } {
        options.progress = callback.map(|function| Callback { function, state });
    }
}

/// Sets the function that decides which shared files a backup leaves out; null for none.
///
/// # Safety
/// See [`set_progress`].
pub(crate) unsafe fn set_exclude(
    options: *mut Handle<CreateBackupOptions>,
    state: *mut c_void,
    callback: callbacks::rocksdb_create_backup_options_exclude_files_cb,
) {
    // SAFETY: promised by the caller.
    if let Ok(options) = unsafe { handle::exclusive(options, "options") } {
        options.exclude = callback.map(|function| Callback { function, state });
    }
}

impl Deref for CreateBackupOptions {
    type Target = CreateValues;

    fn deref(&self) -> &CreateValues {
        &self.values
    }
}

impl DerefMut for CreateBackupOptions {
    fn deref_mut(&mut self) -> &mut CreateValues {
        &mut self.values
    }
}

impl CreateBackupOptions {
    /// Returns whether files may be left out.
    pub(crate) fn excludes(&self) -> bool {
        self.exclude.is_some()
    }

    /// Returns the engine's options; progress is reported each `interval` bytes at most.
    pub(crate) fn engine(&self, interval: u64) -> koeldb::CreateBackupOptions {
        let mut options = koeldb::CreateBackupOptions::new();
        options.set_flush_before_backup(self.values.flush_before_backup());
        if let Some(progress) = self.progress {
            let interval = interval.max(1);
            let reported = AtomicU64::new(0);
            options.set_progress(move |done, _| {
                let intervals = done / interval;
                if reported.fetch_max(intervals, Ordering::Relaxed) < intervals {
                    progress.call();
                }
            });
        }
        if let Some(exclude) = self.exclude {
            options.set_exclude_files(move |name| exclude.call(name));
        }
        options
    }
}

plain_options! {
    /// Options of a restoration (`rocksdb_restore_options_t`).
    RestoreOptions {
        keep_log_files: bool = false, set_keep_log_files_to;
        mode: i32 = PURGE_ALL_FILES, set_mode;
    }
}

impl RestoreOptions {
    /// Sets whether logs in the target are kept; C declares a number.
    pub(crate) fn set_keep_log_files(&mut self, value: i32) {
        self.set_keep_log_files_to(value != 0);
    }

    /// Returns the engine's options.
    pub(crate) fn engine(&self) -> Result<koeldb::RestoreOptions, Failure> {
        let mode = match self.mode {
            1 => RestoreMode::KeepLatestDbSessionIdFiles,
            2 => RestoreMode::VerifyChecksum,
            PURGE_ALL_FILES => RestoreMode::PurgeAllFiles,
            other => return Err(Failure::argument(format!("restore mode {other}"))),
        };
        let mut options = koeldb::RestoreOptions::new();
        options
            .set_mode(mode)
            .set_keep_log_files(self.keep_log_files);
        Ok(options)
    }
}
