//! The backup engine: the backups of a directory, and their removal.
//!
//! A meta file names the files of a backup, and its presence makes the backup valid: it appears
//! after all of them are durable (BK1), and it is removed, durably, before any of them (BK6).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use koeldb_base::sync::lock_plain as lock;
use koeldb_base::{Error, ErrorKind, Result, file_name};
use koeldb_fs::small_file::create_dir_durably;
use koeldb_fs::{EntryKind, FileLock, FileSystem, Purpose};

use super::layout::{BackupId, BackupPath, META, PRIVATE, SHARED, SHARED_CHECKSUM, parse_id};
use super::meta::{BackupMeta, META_BYTES_MAX};
use super::options::{BackupEngineOptions, BackupFileInfo, BackupInfo};
use crate::background::transfer::{Pace, Transfer};

/// The name of the file that locks the directory against other engines. RocksDB ignores it.
const LOCK: &str = ".koeldb-lock";

/// The advice for a damaged file of a backup.
const DAMAGED: &str = "delete the backups with this file, and create a new one";

/// A valid backup: the content of its meta file and the lengths of its files.
#[derive(Clone, Debug)]
pub(super) struct Backup {
    pub(super) meta: BackupMeta,
    /// The lengths of the backup's files, in their order.
    pub(super) bytes: Vec<u64>,
}

/// The valid and the corrupt backups in the engine's directory, by id.
#[derive(Default)]
pub(super) struct Backups {
    pub(super) valid: BTreeMap<BackupId, Backup>,
    pub(super) corrupt: BTreeMap<BackupId, Error>,
}

impl Backups {
    /// Returns the largest id of a backup, valid or corrupt; 0 if there is none.
    fn last_id(&self) -> BackupId {
        let valid = self.valid.keys().next_back().copied();
        let corrupt = self.corrupt.keys().next_back().copied();
        valid.max(corrupt).unwrap_or(0)
    }

    /// Returns the length and checksum of a shared file, if a valid backup lists it.
    pub(super) fn shared(&self, path: &BackupPath) -> Option<(u64, Option<u32>)> {
        self.valid.values().rev().find_map(|backup| {
            let files = backup.meta.files.iter().zip(&backup.bytes);
            let mut files = files.filter(|(file, _)| &file.path == path);
            files.next().map(|(file, &bytes)| (bytes, file.crc32c))
        })
    }

    /// Returns the paths of the shared files that valid backups name.
    fn shared_paths(&self) -> BTreeSet<&str> {
        let files = self.valid.values().flat_map(|backup| &backup.meta.files);
        let shared = files.filter(|file| file.path.is_shared());
        shared.map(|file| file.path.as_str()).collect()
    }
}

/// An engine that creates, verifies, restores and removes backups in a directory, as RocksDB does.
///
/// Backups share the tables they have in common. One engine may write to a directory at a time, and
/// any number may read it. RocksDB's engine reads and writes the same directories.
///
/// # Examples
///
/// ```
/// use koeldb::{BackupEngine, BackupEngineOptions, Db, Options};
///
/// # fn main() -> koeldb::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("koeldb-backup-{}", std::process::id()));
/// let db = Db::open(Options::new().create_if_missing(true), dir.join("db"))?;
/// db.put("koel", "Eudynamys")?;
/// let backups = BackupEngine::open(dir.join("backups"), &BackupEngineOptions::new())?;
/// let id = backups.create_new_backup(&db)?;
/// backups.verify_backup(id, true)?;
/// backups.restore_latest(dir.join("restored"))?;
/// # drop(db);
/// let db = Db::open(&Options::new(), dir.join("restored"))?;
/// assert_eq!(db.get("koel")?.as_deref(), Some(&b"Eudynamys"[..]));
/// # drop(db);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok(())
/// # }
/// ```
pub struct BackupEngine {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) directory: PathBuf,
    pub(super) options: BackupEngineOptions,
    pub(super) backups: Mutex<Backups>,
    stop: Arc<AtomicBool>,
    /// The number of running operations that a stop cancels.
    running: Mutex<usize>,
    /// The lock of the directory; `None` if the engine only reads.
    lock: Option<Box<dyn FileLock>>,
}

/// A guard of a running engine operation; the first one clears an earlier stop request.
pub(super) struct Operation<'e>(&'e BackupEngine);

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        *lock(&self.0.running) -= 1;
    }
}

/// A handle that cancels the running operations of a [`BackupEngine`].
#[derive(Clone, Debug)]
pub struct BackupStopHandle(Arc<AtomicBool>);

impl BackupStopHandle {
    /// Cancels the running operations, which fail with `Incomplete`; the engine stays usable.
    ///
    /// An operation that begins before all of them have ended fails as well.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl BackupEngine {
    /// Opens the directory of backups at `path` for writing, and creates it if it is missing.
    ///
    /// # Errors
    /// `IoError` with detail `LockHeld` if another engine writes there; `InvalidArgument` for the
    /// directory of a database without backups; errors of the file system.
    /// Damaged backups are no error: see [`BackupEngine::corrupted_backups`].
    pub fn open(path: impl AsRef<Path>, options: &BackupEngineOptions) -> Result<Self> {
        let fs = &options.env.fs;
        let path = fs.absolute(path.as_ref())?;
        if !options.allow_database_directory {
            refuse_database(&**fs, &path)?;
        }
        for part in [SHARED, SHARED_CHECKSUM, PRIVATE, META] {
            create_dir_durably(&**fs, &path.join(part))?;
        }
        let lock = fs.lock(&path.join(META).join(LOCK))?;
        Self::read(&path, options, Some(lock))
    }

    /// Opens the directory of backups at `path` for reading.
    ///
    /// # Errors
    /// If it does not exist; errors of the file system.
    pub fn open_read_only(path: impl AsRef<Path>, options: &BackupEngineOptions) -> Result<Self> {
        let fs = &options.env.fs;
        let path = fs.absolute(path.as_ref())?;
        if !options.allow_database_directory {
            refuse_database(&**fs, &path)?;
        }
        Self::read(&path, options, None)
    }

    /// Creates an engine for the directory at `path`, and reads the meta files of all its backups.
    fn read(
        path: &Path,
        options: &BackupEngineOptions,
        lock: Option<Box<dyn FileLock>>,
    ) -> Result<Self> {
        let engine = BackupEngine {
            fs: Arc::clone(&options.env.fs),
            directory: path.to_owned(),
            options: options.clone(),
            backups: Mutex::default(),
            stop: Arc::default(),
            running: Mutex::default(),
            lock,
        };
        let mut backups = Backups::default();
        let entries =
            engine
                .fs
                .list(&path.join(META))
                .map_err(|error| match error.is_path_not_found() {
                    true => error
                        .with_advice("check the path: a directory without `meta` has no backups"),
                    false => error,
                });
        for entry in entries? {
            let Some(id) = parse_id(&entry.name) else {
                continue;
            };
            match engine.read_backup(id) {
                Ok(backup) => {
                    backups.valid.insert(id, backup);
                }
                Err(error) if error.kind() == ErrorKind::IoError && !error.is_path_not_found() => {
                    return Err(error);
                }
                Err(error) => {
                    backups.corrupt.insert(id, error);
                }
            }
        }
        *lock_backups(&engine) = backups;
        Ok(engine)
    }

    /// Reads the meta file of a backup, and checks that the files of the backup exist.
    fn read_backup(&self, id: BackupId) -> Result<Backup> {
        let path = self.meta_path(id);
        let bytes = self.fs.read_all(&path, META_BYTES_MAX, Purpose::Backup)?;
        let meta = BackupMeta::decode(&bytes, id);
        let meta = meta.map_err(|error| error.in_file(&path, None, "read"))?;
        let mut lengths = Vec::new();
        for file in &meta.files {
            let at = file.path.in_directory(&self.directory);
            let found = self.fs.metadata(&at)?.len;
            if file.bytes.is_some_and(|expected| expected != found) {
                return Err(Error::corruption(format!(
                    "the file has {found} bytes, and {} are recorded",
                    file.bytes.unwrap_or(0)
                ))
                .with_advice(DAMAGED)
                .in_file(&at, None, "stat"));
            }
            lengths.push(found);
        }
        Ok(Backup {
            meta,
            bytes: lengths,
        })
    }

    /// Returns the path of the meta file, `meta/ID`.
    pub(super) fn meta_path(&self, id: BackupId) -> PathBuf {
        self.directory.join(META).join(id.to_string())
    }

    /// Returns the directory of the unshared files, `private/ID`.
    pub(super) fn private_path(&self, id: BackupId) -> PathBuf {
        self.directory.join(PRIVATE).join(id.to_string())
    }

    /// Fails with `NotSupported` if the engine was opened read-only.
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.lock.is_none() {
            return Err(Error::not_supported(
                "the backup engine was opened read-only",
            ));
        }
        Ok(())
    }

    /// The id of the next backup.
    pub(super) fn next_id(&self, backups: &Backups) -> Result<BackupId> {
        let next = backups.last_id().checked_add(1);
        next.ok_or_else(|| Error::invalid_argument("no backup id is left"))
    }

    /// The directory of the engine, as an absolute path in the real file system.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// The readable backups, oldest first.
    #[must_use]
    pub fn backups(&self) -> Vec<BackupInfo> {
        let backups = lock_backups(self);
        let infos = backups.valid.iter();
        infos.map(|(&id, backup)| info(id, backup)).collect()
    }

    /// The damaged backups, with the reason of each.
    #[must_use]
    pub fn corrupted_backups(&self) -> Vec<(BackupId, Error)> {
        let backups = lock_backups(self);
        let corrupt = backups.corrupt.iter();
        corrupt.map(|(&id, error)| (id, error.clone())).collect()
    }

    /// Returns a handle that cancels the running operations from another thread.
    #[must_use]
    pub fn stop_handle(&self) -> BackupStopHandle {
        BackupStopHandle(Arc::clone(&self.stop))
    }

    /// Verifies the lengths of the files of a backup and, if `checksums`, their bytes.
    ///
    /// # Errors
    /// `NotFound` for an unknown id; `Corruption` with the first damaged file; errors of the file
    /// system.
    pub fn verify_backup(&self, id: BackupId, checksums: bool) -> Result<()> {
        let backup = self.backup(id)?;
        let _operation = self.begin_operation();
        let pace = Pace::new(&self.options.env.clock, self.options.backup_rate_limit);
        let transfer = self.transfer(&pace, &|_| ());
        let mut buffer = Vec::new();
        for (file, &bytes) in backup.meta.files.iter().zip(&backup.bytes) {
            let path = file.path.in_directory(&self.directory);
            let found = self.fs.metadata(&path)?.len;
            if found != bytes {
                return Err(Error::corruption(format!(
                    "the file has {found} bytes where {bytes} are expected"
                ))
                .with_advice(DAMAGED)
                .in_file(&path, None, "verify"));
            }
            let Some(expected) = file.crc32c.filter(|_| checksums) else {
                continue;
            };
            let computed = transfer.read(&path, bytes, &mut buffer, &mut |_| Ok(()))?;
            if computed != expected {
                return Err(checksum_mismatch(expected, computed, &path));
            }
        }
        Ok(())
    }

    /// Begins an operation that a [`BackupStopHandle`] cancels.
    pub(super) fn begin_operation(&self) -> Operation<'_> {
        let mut running = lock(&self.running);
        if *running == 0 {
            self.stop.store(false, Ordering::Release);
        }
        *running += 1;
        Operation(self)
    }

    /// Returns the backup with this id; fails if it is corrupt or does not exist.
    pub(super) fn backup(&self, id: BackupId) -> Result<Backup> {
        let backups = lock_backups(self);
        if let Some(error) = backups.corrupt.get(&id) {
            return Err(error.clone().context(format!("backup {id}")));
        }
        backups.valid.get(&id).cloned().ok_or_else(|| {
            Error::with_kind(ErrorKind::NotFound, format!("there is no backup {id}"))
        })
    }

    /// Returns the parameters of file copies within the file system of the engine.
    pub(super) fn transfer<'t>(
        &'t self,
        pace: &'t Pace,
        progress: &'t (dyn Fn(u64) + Sync),
    ) -> Transfer<'t> {
        Transfer {
            from: &*self.fs,
            to: &*self.fs,
            purpose: Purpose::Backup,
            pace,
            threads: self.options.max_background_operations,
            must_link: false,
            stop: Some(&self.stop),
            progress,
        }
    }

    /// Removes a backup, and the files that no other backup needs.
    ///
    /// # Errors
    /// `NotFound` for an unknown id; errors of the file system. What an error leaves behind is
    /// removed by [`BackupEngine::garbage_collect`].
    pub fn delete_backup(&self, id: BackupId) -> Result<()> {
        self.check_writable()?;
        let mut backups = lock_backups(self);
        self.delete(&mut backups, id)?;
        self.collect(&backups, false)
    }

    /// Removes all but the newest `keep` backups.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn purge_old_backups(&self, keep: usize) -> Result<()> {
        self.check_writable()?;
        let mut backups = lock_backups(self);
        let surplus = backups.valid.len().saturating_sub(keep);
        let old: Vec<BackupId> = backups.valid.keys().take(surplus).copied().collect();
        for id in old {
            self.delete(&mut backups, id)?;
        }
        self.collect(&backups, false)
    }

    /// Removes the files left by interrupted backups and removals.
    ///
    /// Shared files are kept while any backup is damaged, because it may need them.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn garbage_collect(&self) -> Result<()> {
        self.check_writable()?;
        self.collect(&lock_backups(self), false)
    }

    /// Removes unneeded files, also shared ones that only damaged backups may need.
    ///
    /// It removes all that [`BackupEngine::garbage_collect`] does, and shared files that only
    /// damaged backups may need.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn garbage_collect_force(&self) -> Result<()> {
        self.check_writable()?;
        self.collect(&lock_backups(self), true)
    }

    /// Removes the meta file of a backup; [`BackupEngine::collect`] makes that durable.
    fn delete(&self, backups: &mut Backups, id: BackupId) -> Result<()> {
        if !backups.valid.contains_key(&id) && !backups.corrupt.contains_key(&id) {
            let text = format!("there is no backup {id}");
            return Err(Error::with_kind(ErrorKind::NotFound, text));
        }
        self.fs.remove_file(&self.meta_path(id))?;
        backups.valid.remove(&id);
        backups.corrupt.remove(&id);
        Ok(())
    }

    /// Makes removals of meta files durable, and then deletes the files that no backup needs.
    ///
    /// These are temporary files, unneeded shared files, and private files of unknown backups.
    fn collect(&self, backups: &Backups, force: bool) -> Result<()> {
        self.fs.sync_dir(&self.directory.join(META))?;
        let is_temporary = |name: &str| name.starts_with('.') && name.ends_with(".tmp");
        self.remove_files(&self.directory.join(META), is_temporary)?;
        let needed = backups.shared_paths();
        let keeps_unknown = !force && !backups.corrupt.is_empty();
        for shared in [SHARED, SHARED_CHECKSUM] {
            let directory = self.directory.join(shared);
            if !self.fs.exists(&directory)? {
                continue;
            }
            self.remove_files(&directory, |name| {
                let path = format!("{shared}/{name}");
                is_temporary(name) || !keeps_unknown && !needed.contains(&*path)
            })?;
        }
        for entry in self.fs.list(&self.directory.join(PRIVATE))? {
            let is_known = parse_id(&entry.name).is_none_or(|id| {
                backups.valid.contains_key(&id) || backups.corrupt.contains_key(&id)
            });
            if entry.kind == EntryKind::Directory && !is_known {
                let directory = self.directory.join(PRIVATE).join(&entry.name);
                self.remove_files(&directory, |_| true)?;
                self.fs.remove_dir(&directory)?;
            }
        }
        Ok(())
    }

    /// Removes the files of a directory for whose names `is_garbage` holds.
    pub(super) fn remove_files(
        &self,
        directory: &Path,
        is_garbage: impl Fn(&str) -> bool,
    ) -> Result<()> {
        for entry in self.fs.list(directory)? {
            if entry.kind == EntryKind::File && is_garbage(&entry.name) {
                self.fs.remove_file(&directory.join(&entry.name))?;
            }
        }
        Ok(())
    }
}

/// Fails for the directory of a database, unless it has backups as well.
fn refuse_database(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    if fs.exists(&path.join(META))? || !fs.exists(&file_name::current(path))? {
        return Ok(());
    }
    let error = Error::invalid_argument(format!("{}: holds a database", path.display()));
    Err(error.with_advice("give the directory of the backups, or an empty one for new backups"))
}

pub(super) fn lock_backups(engine: &BackupEngine) -> std::sync::MutexGuard<'_, Backups> {
    lock(&engine.backups)
}

/// Returns the error of a file whose crc32c is not the recorded one.
pub(super) fn checksum_mismatch(expected: u32, computed: u32, path: &Path) -> Error {
    Error::corruption(format!(
        "file checksum mismatch: recorded = {expected}, computed = {computed}"
    ))
    .with_detail(koeldb_base::error::ErrorDetail::ChecksumMismatch)
    .with_advice(DAMAGED)
    .in_file(path, None, "verify")
}

/// Returns the public description of a backup.
pub(super) fn info(id: BackupId, backup: &Backup) -> BackupInfo {
    let meta = &backup.meta;
    let files = meta.files.iter().zip(&backup.bytes);
    BackupInfo {
        backup_id: id,
        timestamp: meta.unix_secs,
        sequence_number: meta.seqno,
        size: backup.bytes.iter().sum(),
        number_files: meta.files.len() as u64,
        app_metadata: meta.app_metadata.clone(),
        files: files
            .map(|(file, &size)| BackupFileInfo {
                relative_filename: file.path.to_string(),
                size,
                crc32c: file.crc32c,
            })
            .collect(),
        excluded_files: meta.excluded.iter().map(ToString::to_string).collect(),
    }
}

impl fmt::Debug for BackupEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackupEngine({:?})", self.directory)
    }
}
