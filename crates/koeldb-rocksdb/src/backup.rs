//! Backups.

use std::path::{Path, PathBuf};

use koeldb::CreateBackupOptions;

use crate::db::DBInner;
use crate::{DBCommon, Env, Error, ThreadMode};

/// Information about one backup: id, time, size and number of files.
pub struct BackupEngineInfo {
    /// Seconds since 1970.
    pub timestamp: i64,
    /// The number of the backup.
    pub backup_id: u32,
    /// The bytes of its files.
    pub size: u64,
    /// The number of its files.
    pub num_files: u32,
}

/// An engine that creates and restores backups in a backup directory.
pub struct BackupEngine {
    inner: koeldb::BackupEngine,
}

/// Options of a [`BackupEngine`].
pub struct BackupEngineOptions {
    path: PathBuf,
    inner: koeldb::BackupEngineOptions,
    sync: bool,
}

/// Options of restoring a backup.
#[derive(Default)]
pub struct RestoreOptions {
    inner: koeldb::RestoreOptions,
}

impl BackupEngine {
    /// Opens the backup directory of `opts`, and creates it if it does not exist.
    #[cfg(not(before_0_20))]
    pub fn open(opts: &BackupEngineOptions, env: &Env) -> Result<Self, Error> {
        let mut options = opts.inner.clone();
        options.set_env(&env.inner);
        let inner = koeldb::BackupEngine::open(&opts.path, &options)?;
        Ok(BackupEngine { inner })
    }

    /// Opens a backup directory, and creates it if it does not exist.
    #[cfg(before_0_20)]
    pub fn open<P: AsRef<Path>>(opts: &BackupEngineOptions, path: P) -> Result<Self, Error> {
        let inner = koeldb::BackupEngine::open(path, &opts.inner)?;
        Ok(BackupEngine { inner })
    }

    /// Creates a backup of `db`; unflushed entries are backed up as WAL files.
    ///
    /// If there are entries that were written without WAL, memtables are flushed first.
    pub fn create_new_backup<T: ThreadMode, D: DBInner>(
        &mut self,
        db: &DBCommon<T, D>,
    ) -> Result<(), Error> {
        self.create_new_backup_flush(db, false)
    }

    /// Creates a backup of `db`, after a flush if `flush_before_backup`.
    pub fn create_new_backup_flush<T: ThreadMode, D: DBInner>(
        &mut self,
        db: &DBCommon<T, D>,
        flush_before_backup: bool,
    ) -> Result<(), Error> {
        let mut options = CreateBackupOptions::new();
        options.set_flush_before_backup(flush_before_backup);
        self.inner.create_new_backup_opt(db.db(), &options)?;
        Ok(())
    }

    /// Deletes all but the newest `num_backups_to_keep` backups.
    pub fn purge_old_backups(&mut self, num_backups_to_keep: usize) -> Result<(), Error> {
        Ok(self.inner.purge_old_backups(num_backups_to_keep)?)
    }

    /// Restores the newest backup to `db_dir` and `wal_dir`.
    pub fn restore_from_latest_backup<D: AsRef<Path>, W: AsRef<Path>>(
        &mut self,
        db_dir: D,
        wal_dir: W,
        opts: &RestoreOptions,
    ) -> Result<(), Error> {
        let backups = self.inner.backups();
        let latest = backups.iter().map(|backup| backup.backup_id).max();
        let latest = latest.ok_or_else(|| Error::new("NotFound: no backup"))?;
        self.restore_from_backup(db_dir, wal_dir, opts, latest)
    }

    /// Restores the backup `backup_id` to `db_dir` and `wal_dir`.
    pub fn restore_from_backup<D: AsRef<Path>, W: AsRef<Path>>(
        &mut self,
        db_dir: D,
        wal_dir: W,
        opts: &RestoreOptions,
        backup_id: u32,
    ) -> Result<(), Error> {
        self.inner
            .restore(backup_id, db_dir, wal_dir, &opts.inner)?;
        Ok(())
    }

    /// Checks that the files of the backup `backup_id` exist and have the recorded sizes.
    pub fn verify_backup(&self, backup_id: u32) -> Result<(), Error> {
        Ok(self.inner.verify_backup(backup_id, false)?)
    }

    /// Returns information about each backup, oldest first.
    pub fn get_backup_info(&self) -> Vec<BackupEngineInfo> {
        let convert = |backup: koeldb::BackupInfo| BackupEngineInfo {
            timestamp: i64::try_from(backup.timestamp).unwrap_or(i64::MAX),
            backup_id: backup.backup_id,
            size: backup.size,
            num_files: u32::try_from(backup.number_files).unwrap_or(u32::MAX),
        };
        self.inner.backups().into_iter().map(convert).collect()
    }
}

#[cfg(before_0_20)]
impl Default for BackupEngineOptions {
    fn default() -> Self {
        BackupEngineOptions {
            path: PathBuf::new(),
            inner: koeldb::BackupEngineOptions::new(),
            sync: true,
        }
    }
}

impl BackupEngineOptions {
    /// Creates default options for the backup directory `backup_dir`.
    pub fn new<P: AsRef<Path>>(backup_dir: P) -> Result<Self, Error> {
        Ok(BackupEngineOptions {
            path: backup_dir.as_ref().to_path_buf(),
            inner: koeldb::BackupEngineOptions::new(),
            sync: true,
        })
    }

    /// Sets the number of files that are copied concurrently (`max_background_operations`).
    pub fn set_max_background_operations(&mut self, max_background_operations: i32) {
        let count = usize::try_from(max_background_operations).unwrap_or(1);
        self.inner.set_max_background_operations(count.max(1));
    }

    /// Has no effect (`sync`): files of backups are always synced.
    pub fn set_sync(&mut self, sync: bool) {
        self.sync = sync;
    }

    /// Returns the value passed to `set_sync`.
    pub fn get_sync(&mut self) -> bool {
        self.sync
    }
}

impl RestoreOptions {
    /// Sets whether a restore keeps the WAL files in the target directory (`keep_log_files`).
    pub fn set_keep_log_files(&mut self, keep_log_files: bool) {
        self.inner.set_keep_log_files(keep_log_files);
    }
}
