//! Options of the backup engine, of a backup and of a restoration.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::layout::{BackupId, ShareFilesNaming};
use crate::env::Env;

/// A progress callback: bytes done and bytes in all.
pub(super) type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// A predicate that decides by the name of a table whether a backup leaves it out.
pub(super) type Exclude = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Options of a [`BackupEngine`](super::BackupEngine).
#[derive(Clone, Debug)]
pub struct BackupEngineOptions {
    pub(super) env: Env,
    pub(super) share_table_files: bool,
    pub(super) share_files_with_checksum: bool,
    pub(super) share_files_with_checksum_naming: ShareFilesNaming,
    pub(super) backup_log_files: bool,
    pub(super) schema_version: u32,
    pub(super) max_background_operations: usize,
    pub(super) backup_rate_limit: u64,
    pub(super) restore_rate_limit: u64,
    pub(super) allow_database_directory: bool,
}

impl Default for BackupEngineOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl BackupEngineOptions {
    /// Creates RocksDB's defaults, with up to four threads.
    #[must_use]
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism();
        BackupEngineOptions {
            env: Env::default(),
            share_table_files: true,
            share_files_with_checksum: true,
            share_files_with_checksum_naming: ShareFilesNaming::UseDbSessionIdAndFileSize,
            backup_log_files: true,
            schema_version: 1,
            max_background_operations: cores.map_or(1, std::num::NonZero::get).min(4),
            backup_rate_limit: 0,
            restore_rate_limit: 0,
            allow_database_directory: false,
        }
    }

    /// Keeps the backups in the file system of `env`.
    ///
    /// Default: the environment of the process, with the file system of the machine.
    pub fn set_env(&mut self, env: &Env) -> &mut Self {
        self.env = env.clone();
        self
    }

    /// Sets whether new backups may be in the directory of a database, as RocksDB permits.
    ///
    /// Default: off. A directory that has backups already is always permitted.
    pub fn set_allow_database_directory(&mut self, allow: bool) -> &mut Self {
        self.allow_database_directory = allow;
        self
    }

    /// Sets whether backups share tables; on by default. Off copies all tables into every backup.
    pub fn set_share_table_files(&mut self, share: bool) -> &mut Self {
        self.share_table_files = share;
        self
    }

    /// Sets whether shared tables have unique names; on by default.
    ///
    /// Several databases may then use the directory.
    pub fn set_share_files_with_checksum(&mut self, share: bool) -> &mut Self {
        self.share_files_with_checksum = share;
        self
    }

    /// Sets the naming of shared tables.
    ///
    /// Default: `UseDbSessionIdAndFileSize`.
    pub fn set_share_files_with_checksum_naming(&mut self, naming: ShareFilesNaming) -> &mut Self {
        self.share_files_with_checksum_naming = naming;
        self
    }

    /// Sets whether logs are backed up; on by default. Without them, flush before each backup.
    pub fn set_backup_log_files(&mut self, backup: bool) -> &mut Self {
        self.backup_log_files = backup;
        self
    }

    /// Sets the schema version of meta files: 1, the default, or 2, which adds a checksum.
    ///
    /// RocksDB reads version 2 from release 6.19 on.
    pub fn set_schema_version(&mut self, version: u32) -> &mut Self {
        self.schema_version = version.clamp(1, 2);
        self
    }

    /// Sets the number of threads that copy; at least 1.
    ///
    /// Default: the number of processors, at most 4.
    pub fn set_max_background_operations(&mut self, threads: usize) -> &mut Self {
        self.max_background_operations = threads.max(1);
        self
    }

    /// Limits the reads of backups to this many bytes per second; 0, the default, for no limit.
    pub fn set_backup_rate_limit(&mut self, bytes: u64) -> &mut Self {
        self.backup_rate_limit = bytes;
        self
    }

    /// Limits the reads of restorations to this many bytes per second; 0, the default, for no limit.
    pub fn set_restore_rate_limit(&mut self, bytes: u64) -> &mut Self {
        self.restore_rate_limit = bytes;
        self
    }
}

/// Options of one backup.
#[derive(Clone, Default)]
pub struct CreateBackupOptions {
    pub(super) flush_before_backup: bool,
    pub(super) app_metadata: Vec<u8>,
    pub(super) exclude_files: Option<Exclude>,
    pub(super) progress: Option<Progress>,
}

impl CreateBackupOptions {
    /// Creates the defaults: no flush, so that the logs are copied; nothing excluded.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether memtables are flushed first, so that the logs are short; off by default.
    ///
    /// When off, they are flushed only if they have writes with the log disabled, which the logs do
    /// not have. (RocksDB leaves those out.)
    pub fn set_flush_before_backup(&mut self, flush: bool) -> &mut Self {
        self.flush_before_backup = flush;
        self
    }

    /// Stores bytes of the caller with the backup; at most 1 MiB.
    ///
    /// Default: none.
    pub fn set_app_metadata(&mut self, metadata: impl Into<Vec<u8>>) -> &mut Self {
        self.app_metadata = metadata.into();
        self
    }

    /// Leaves out the tables for which `exclude` returns `true`, because they are kept elsewhere.
    ///
    /// It receives the relative path in the directory of backups, and must not call the engine. The
    /// meta file then has schema 2.
    /// A restoration needs the files in one of its alternate directories.
    ///
    /// Default: none.
    pub fn set_exclude_files(
        &mut self,
        exclude: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> &mut Self {
        self.exclude_files = Some(Arc::new(exclude));
        self
    }

    /// Calls `progress` with the bytes done and the bytes in all, from any thread that copies.
    ///
    /// It must not call the engine; a [`BackupStopHandle`](super::BackupStopHandle) may be used.
    ///
    /// Default: none.
    pub fn set_progress(
        &mut self,
        progress: impl Fn(u64, u64) + Send + Sync + 'static,
    ) -> &mut Self {
        self.progress = Some(Arc::new(progress));
        self
    }
}

impl fmt::Debug for CreateBackupOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateBackupOptions")
            .field("flush_before_backup", &self.flush_before_backup)
            .finish_non_exhaustive()
    }
}

/// The choice of the files that a restore keeps in its target directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RestoreMode {
    /// Keeps no file: the database is copied completely.
    #[default]
    PurgeAllFiles,
    /// Keeps tables whose number, size and session id are those of the backup, without reading
    /// them.
    KeepLatestDbSessionIdFiles,
    /// Keeps tables whose checksum is that of the backup.
    VerifyChecksum,
}

/// Options of a restoration.
#[derive(Clone, Default)]
pub struct RestoreOptions {
    pub(super) mode: RestoreMode,
    pub(super) keep_log_files: bool,
    pub(super) alternate_dirs: Vec<PathBuf>,
    pub(super) progress: Option<Progress>,
}

impl RestoreOptions {
    /// Creates the defaults: everything is copied.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the choice of the files of the target directory that are kept.
    ///
    /// Default: `PurgeAllFiles`.
    pub fn set_mode(&mut self, mode: RestoreMode) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Sets whether a restore keeps the logs in the target and moves archived ones back.
    ///
    /// This is for backups without logs.
    ///
    /// Default: `false`.
    pub fn set_keep_log_files(&mut self, keep: bool) -> &mut Self {
        self.keep_log_files = keep;
        self
    }

    /// Adds a directory of backups that is searched for excluded files. By default there is none.
    ///
    /// Default: none.
    pub fn add_alternate_dir(&mut self, directory: impl Into<PathBuf>) -> &mut Self {
        self.alternate_dirs.push(directory.into());
        self
    }

    /// Calls `progress` with the bytes done and the bytes in all, from any thread that copies.
    ///
    /// Default: none.
    pub fn set_progress(
        &mut self,
        progress: impl Fn(u64, u64) + Send + Sync + 'static,
    ) -> &mut Self {
        self.progress = Some(Arc::new(progress));
        self
    }
}

impl fmt::Debug for RestoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestoreOptions")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// The description of a file in a backup (RocksDB: `BackupFileInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupFileInfo {
    /// The path of the file in the directory of backups.
    pub relative_filename: String,
    /// The length of the file in bytes.
    pub size: u64,
    /// The CRC-32C of the file, if the meta file has one.
    pub crc32c: Option<u32>,
}

/// The description of a backup (RocksDB: `BackupInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupInfo {
    /// The id of the backup.
    pub backup_id: BackupId,
    /// The time when the backup was created, in seconds since 1970.
    pub timestamp: u64,
    /// The sequence number of the last write in the backup.
    pub sequence_number: u64,
    /// The total size of the backup's files in bytes, including shared ones.
    pub size: u64,
    /// The number of files of the backup.
    pub number_files: u64,
    /// The caller's bytes that were stored with the backup.
    pub app_metadata: Vec<u8>,
    /// The files of the backup.
    pub files: Vec<BackupFileInfo>,
    /// The paths of the files that were excluded from the backup.
    pub excluded_files: Vec<String>,
}
