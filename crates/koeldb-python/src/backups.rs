//! The class `Backups`.

use std::path::PathBuf;

use koeldb::{BackupEngine, BackupEngineOptions, CreateBackupOptions, RestoreOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::calls::{detached, detached_value};
use crate::database::Db;
use crate::failure::Outcome;
use crate::process::{self, Held};

/// A directory of backups, which share the files that they have in common.
///
/// The directory is created if it is missing, unless `read_only` is given. Calls that name a backup
/// raise `NotFound` if there is none of the number.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Backups {
    engine: Held<BackupEngine>,
}

#[pymethods]
impl Backups {
    #[new]
    #[pyo3(signature = (path, *, read_only = false))]
    fn new(py: Python<'_>, path: PathBuf, read_only: bool) -> Outcome<Self> {
        process::check()?;
        let options = BackupEngineOptions::new();
        let engine = detached(py, || {
            if read_only {
                BackupEngine::open_read_only(path, &options)
            } else {
                BackupEngine::open(path, &options)
            }
        })?;
        Ok(Backups {
            engine: Held::new(engine),
        })
    }

    /// Makes a backup of an open database, and returns its number.
    ///
    /// With `flush` the memtables are flushed first, and the backup needs no write-ahead log.
    /// `metadata` are bytes that are stored with it, and returned by `list`.
    #[pyo3(signature = (db, *, flush = false, metadata = None))]
    fn create(
        &self,
        py: Python<'_>,
        db: &Bound<'_, Db>,
        flush: bool,
        metadata: Option<Vec<u8>>,
    ) -> Outcome<u32> {
        let (engine, db) = (self.engine.get()?, db.get().db()?);
        let mut options = CreateBackupOptions::new();
        options.set_flush_before_backup(flush);
        if let Some(metadata) = metadata {
            options.set_app_metadata(metadata);
        }
        detached(py, || engine.create_new_backup_opt(db, &options))
    }

    /// Returns the backups, the oldest first: dictionaries of `id`, `timestamp` in seconds since
    /// 1970, `sequence_number`, `size` in bytes, `files` and `metadata`.
    fn list<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let engine = self.engine.get()?;
        // It waits for a backup that another thread makes.
        for backup in detached_value(py, || engine.backups())? {
            let entry = PyDict::new(py);
            entry.set_item("id", backup.backup_id)?;
            entry.set_item("timestamp", backup.timestamp)?;
            entry.set_item("sequence_number", backup.sequence_number)?;
            entry.set_item("size", backup.size)?;
            entry.set_item("files", backup.number_files)?;
            entry.set_item("metadata", PyBytes::new(py, &backup.app_metadata))?;
            list.append(entry)?;
        }
        Ok(list)
    }

    /// Restores the backup `id`, or the newest, into the directory `path`, and replaces a database
    /// there.
    #[pyo3(signature = (path, id = None))]
    fn restore(&self, py: Python<'_>, path: PathBuf, id: Option<u32>) -> Outcome<()> {
        let engine = self.engine.get()?;
        detached(py, || match id {
            Some(id) => engine.restore(id, &path, &path, &RestoreOptions::new()),
            None => engine.restore_latest(&path),
        })?;
        Ok(())
    }

    /// Verifies that the files of a backup are there, and with `checksums` their bytes.
    #[pyo3(signature = (id, *, checksums = true))]
    fn verify(&self, py: Python<'_>, id: u32, checksums: bool) -> Outcome<()> {
        let engine = self.engine.get()?;
        detached(py, || engine.verify_backup(id, checksums))
    }

    /// Removes a backup.
    fn delete(&self, py: Python<'_>, id: u32) -> Outcome<()> {
        let engine = self.engine.get()?;
        detached(py, || engine.delete_backup(id))
    }

    /// Removes all backups but the newest `keep`.
    fn purge(&self, py: Python<'_>, keep: usize) -> Outcome<()> {
        let engine = self.engine.get()?;
        detached(py, || engine.purge_old_backups(keep))
    }

    fn __repr__(&self) -> Outcome<String> {
        Ok(format!("<koeldb.Backups {:?}>", self.engine.get()?.path()))
    }
}
