//! Backup engines.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koeldb::{BackupInfo, Db, Env};

use crate::boundary::Failure;
use crate::copies::backup_options::{BackupEngineOptions, CreateBackupOptions, RestoreOptions};
use crate::memory::{Out, path};
use crate::settings::options::Options;

/// A backup engine (`rocksdb_backup_engine_t`).
pub(crate) struct BackupEngine {
    engine: koeldb::BackupEngine,
    /// Whether backups are stopped for good.
    is_stopped: AtomicBool,
    /// The bytes between two calls of a progress function.
    interval: u64,
    schema_version: i32,
}

/// Opens the backups in a directory, in the environment of `options`.
pub(crate) fn open(options: &Options, directory: &CStr) -> Result<BackupEngine, Failure> {
    let env = options.checked()?.get_env();
    open_in(&BackupEngineOptions::new(directory), Some(env))
}

/// Opens the backups of a directory. `env` is the environment of the databases.
pub(crate) fn open_with(
    options: &BackupEngineOptions,
    env: Option<&Env>,
) -> Result<BackupEngine, Failure> {
    match (&options.env, env) {
        (Some(own), Some(env)) if !Arc::ptr_eq(own.file_system(), env.file_system()) => Err(
            Failure::unserved("backups in another environment than databases"),
        ),
        (Some(own), None) => open_in(options, Some(own)),
        _ => open_in(options, env),
    }
}

/// Sets the environment of the backups; null for that of the databases.
pub(crate) fn set_env(options: &mut BackupEngineOptions, env: Option<&Env>) {
    options.env = env.cloned();
}

/// Opens the backups of a directory in an environment.
fn open_in(options: &BackupEngineOptions, env: Option<&Env>) -> Result<BackupEngine, Failure> {
    let mut engine_options = options.engine()?;
    if let Some(env) = env {
        engine_options.set_env(env);
    }
    let engine = koeldb::BackupEngine::open(options.path(), &engine_options)?;
    if options.destroy_old_data() {
        let damaged = engine.corrupted_backups();
        for (id, _) in damaged {
            engine.delete_backup(id)?;
        }
        engine.purge_old_backups(0)?;
        engine.garbage_collect_force()?;
    }
    Ok(BackupEngine {
        engine,
        is_stopped: AtomicBool::new(false),
        interval: options.callback_trigger_interval_size(),
        schema_version: options.schema_version(),
    })
}

/// Creates a backup.
pub(crate) fn create(engine: &BackupEngine, db: &Db) -> Result<(), Failure> {
    create_flush(engine, db, false)
}

/// Creates a backup, after a flush if `flush` says so.
pub(crate) fn create_flush(engine: &BackupEngine, db: &Db, flush: bool) -> Result<(), Failure> {
    let mut options = CreateBackupOptions::default();
    options.set_flush_before_backup(flush);
    create_with_options(engine, db, Some(&options), None)
}

/// Creates a backup, and writes its number into `id`.
pub(crate) fn create_with_options(
    engine: &BackupEngine,
    db: &Db,
    options: Option<&CreateBackupOptions>,
    id: Out<'_, u32>,
) -> Result<(), Failure> {
    create_with_metadata(engine, db, options, None, id)
}

/// Creates a backup with bytes of the application.
pub(crate) fn create_with_metadata(
    engine: &BackupEngine,
    db: &Db,
    options: Option<&CreateBackupOptions>,
    metadata: Option<&[u8]>,
    id: Out<'_, u32>,
) -> Result<(), Failure> {
    engine.check_running()?;
    let default = CreateBackupOptions::default();
    let options = options.unwrap_or(&default);
    if options.excludes() && engine.schema_version < 2 {
        return Err(Failure::argument(
            "exclude_files_callback needs schema_version 2",
        ));
    }
    let mut engine_options = options.engine(engine.interval);
    engine_options.set_app_metadata(metadata.unwrap_or_default());
    let created = engine.engine.create_new_backup_opt(db, &engine_options)?;
    if let Some(id) = id {
        id.write(created);
    }
    Ok(())
}

/// Restores a backup.
pub(crate) fn restore(
    engine: &BackupEngine,
    db_directory: &CStr,
    wal_directory: &CStr,
    options: &RestoreOptions,
    id: u32,
) -> Result<(), Failure> {
    engine.check_running()?;
    let options = options.engine()?;
    let (db, wal) = (path(db_directory), path(wal_directory));
    engine.engine.restore(id, db, wal, &options)?;
    Ok(())
}

/// Restores the newest backup.
pub(crate) fn restore_latest(
    engine: &BackupEngine,
    db_directory: &CStr,
    wal_directory: &CStr,
    options: &RestoreOptions,
) -> Result<(), Failure> {
    let latest = engine
        .engine
        .backups()
        .last()
        .map(|backup| backup.backup_id);
    let latest = latest.ok_or_else(|| Failure::Text("NotFound: there is no backup".to_owned()))?;
    restore(engine, db_directory, wal_directory, options, latest)
}

impl BackupEngine {
    /// Fails if the engine was stopped, which is for good.
    fn check_running(&self) -> Result<(), Failure> {
        match self.is_stopped.load(Ordering::Acquire) {
            true => Err(Failure::Text(
                "Result incomplete: the backup engine was stopped".to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// Stops the running backup, and refuses further ones.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.engine.stop_handle().stop();
    }

    pub(crate) fn purge(&self, keep: u32) -> koeldb::Result<()> {
        self.engine.purge_old_backups(keep as usize)
    }

    /// Checks that the files of a backup are there, with the lengths they must have.
    pub(crate) fn verify(&self, id: u32) -> koeldb::Result<()> {
        self.engine.verify_backup(id, false)
    }

    /// Returns the list of the backups that can be restored, oldest first.
    pub(crate) fn info(&self) -> BackupInfos {
        BackupInfos(self.engine.backups())
    }
}

/// A list of backups (`rocksdb_backup_engine_info_t`).
pub(crate) struct BackupInfos(Vec<BackupInfo>);

impl BackupInfos {
    /// Returns the backup at `index`, which the caller must not choose outside of the list.
    fn at(&self, index: i32) -> &BackupInfo {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        self.0.get(index).expect("the index is that of a backup")
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the time of the backup in seconds since 1970.
    pub(crate) fn timestamp(&self, index: i32) -> u64 {
        self.at(index).timestamp
    }

    pub(crate) fn id(&self, index: i32) -> u32 {
        self.at(index).backup_id
    }

    pub(crate) fn size(&self, index: i32) -> u64 {
        self.at(index).size
    }

    pub(crate) fn number_files(&self, index: i32) -> u64 {
        self.at(index).number_files
    }

    pub(crate) fn app_metadata(&self, index: i32) -> &[u8] {
        &self.at(index).app_metadata
    }
}
