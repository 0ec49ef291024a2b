//! Restoring a backup into the directory of a database.
//!
//! CURRENT is removed first and put back last, each durably: a cut at any point leaves a directory
//! that refuses to open, or the restored database (BK8). Files with unknown names are left alone
//! (RocksDB removes every child of the directories).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::file_name::{self, FileKind};
use koeldb_base::{Error, ErrorKind, Result};
use koeldb_fs::directory_lock::lock_directory;
use koeldb_fs::small_file::{create_dir_durably, write_atomically};
use koeldb_fs::{EntryKind, FileSystem, Purpose};
use koeldb_log::wal::archive_directory;

use super::engine::{Backup, BackupEngine, checksum_mismatch, lock_backups};
use super::layout::{BackupId, BackupPath, SHARED_CHECKSUM};
use super::options::{RestoreMode, RestoreOptions};
use crate::background::transfer::{Pace, Transfer, TransferFile};

/// The maximum size of CURRENT in a backup, in bytes.
const CURRENT_BYTES_MAX: u64 = 64;

/// A summary of a restoration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The id of the backup.
    pub backup_id: BackupId,
    /// The number of copied files.
    pub copied_files: u64,
    /// The bytes copied.
    pub copied_bytes: u64,
    /// The number of files of the target directory that were kept.
    pub kept_files: u64,
    /// The names in the target that belong to no database, and were not touched.
    pub unknown_names: Vec<String>,
}

/// A file to restore, and the path from which it is copied.
struct Source {
    name: String,
    path: PathBuf,
    relative: BackupPath,
    bytes: u64,
    crc32c: Option<u32>,
}

/// The directories of a restoration.
struct Target<'t> {
    fs: &'t dyn FileSystem,
    db_dir: &'t Path,
    wal_dir: &'t Path,
}

impl Target<'_> {
    /// Returns the path of a file in the restored database; logs go to the log directory.
    fn path_of(&self, name: &str) -> PathBuf {
        match file_name::parse(name) {
            Some(FileKind::Wal(_)) => self.wal_dir.join(name),
            _ => self.db_dir.join(name),
        }
    }

    /// Syncs the directories of the restored database.
    fn sync(&self) -> Result<()> {
        self.fs.sync_dir(self.db_dir)?;
        if self.wal_dir != self.db_dir {
            self.fs.sync_dir(self.wal_dir)?;
        }
        Ok(())
    }
}

impl BackupEngine {
    /// Restores the newest backup into `db_dir`, where logs go as well.
    ///
    /// # Errors
    /// See [`BackupEngine::restore`]; `NotFound` if there is no backup.
    pub fn restore_latest(&self, db_dir: impl AsRef<Path>) -> Result<RestoreReport> {
        let latest = lock_backups(self).valid.keys().next_back().copied();
        let latest = latest.ok_or_else(|| {
            Error::with_kind(ErrorKind::NotFound, "there is no backup to restore")
        })?;
        let db_dir = db_dir.as_ref();
        self.restore(latest, db_dir, db_dir, &RestoreOptions::new())
    }

    /// Restores backup `id` into `db_dir`, and its logs into `wal_dir`.
    ///
    /// The database there, if any, is replaced; it must not be open.
    ///
    /// # Errors
    /// `NotFound` for an unknown id, or with the name of an excluded file that no alternate
    /// directory has: nothing has changed then. `Corruption` if a file does not have its checksum;
    /// `Incomplete` if it was stopped; errors of the file system: the directory then has no CURRENT
    /// and is to be restored again.
    pub fn restore(
        &self,
        id: BackupId,
        db_dir: impl AsRef<Path>,
        wal_dir: impl AsRef<Path>,
        options: &RestoreOptions,
    ) -> Result<RestoreReport> {
        let backup = self.backup(id)?;
        let _operation = self.begin_operation();
        let sources = self.sources(&backup, options)?;
        let current = self.read_current(&backup)?;
        let target = Target {
            fs: &*self.fs,
            db_dir: db_dir.as_ref(),
            wal_dir: wal_dir.as_ref(),
        };
        create_dir_durably(target.fs, target.db_dir)?;
        create_dir_durably(target.fs, target.wal_dir)?;
        let _lock = lock_directory(target.fs, target.db_dir)?;
        let mut report = RestoreReport {
            backup_id: id,
            ..RestoreReport::default()
        };
        let kept = self.kept(&target, &sources, options)?;
        report.kept_files = kept.len() as u64;
        remove_current(&target)?;
        clear(&target, &kept, options, &mut report)?;
        self.copy_back(&target, &sources, &kept, options, &mut report)?;
        target.sync()?;
        write_atomically(
            target.fs,
            &file_name::temporary(target.db_dir, 0),
            &file_name::current(target.db_dir),
            &current,
            Purpose::Backup,
        )?;
        Ok(report)
    }

    /// Lists the files to restore, except CURRENT; finds excluded ones in alternate directories.
    fn sources(&self, backup: &Backup, options: &RestoreOptions) -> Result<Vec<Source>> {
        let mut sources = Vec::new();
        for (file, &bytes) in backup.meta.files.iter().zip(&backup.bytes) {
            let name = file.path.database_name();
            if name != "CURRENT" {
                sources.push(Source {
                    name,
                    path: file.path.in_directory(&self.directory),
                    relative: file.path.clone(),
                    bytes,
                    crc32c: file.crc32c,
                });
            }
        }
        for excluded in &backup.meta.excluded {
            let mut found = None;
            for directory in &options.alternate_dirs {
                let path = excluded.in_directory(directory);
                if self.fs.exists(&path)? {
                    found = Some(path);
                    break;
                }
            }
            let path = found.ok_or_else(|| {
                Error::with_kind(
                    ErrorKind::NotFound,
                    format!("no alternate directory has {excluded}, which the backup leaves out"),
                )
            })?;
            sources.push(Source {
                name: excluded.database_name(),
                bytes: self.fs.metadata(&path)?.len,
                path,
                relative: excluded.clone(),
                crc32c: None,
            });
        }
        Ok(sources)
    }

    /// Reads CURRENT from a backup and verifies its checksum.
    fn read_current(&self, backup: &Backup) -> Result<Vec<u8>> {
        let mut files = backup.meta.files.iter();
        let file = files.find(|file| file.path.kind() == Some(FileKind::Current));
        let file = file.ok_or_else(|| Error::corruption("the backup has no CURRENT"))?;
        let path = file.path.in_directory(&self.directory);
        let bytes = self
            .fs
            .read_all(&path, CURRENT_BYTES_MAX, Purpose::Backup)?;
        let computed = koeldb_base::checksum::crc32c(&bytes);
        match file.crc32c {
            Some(expected) if expected != computed => {
                Err(checksum_mismatch(expected, computed, &path))
            }
            _ => Ok(bytes),
        }
    }

    /// Returns the files in the target that match those of the backup and need no copy, by name.
    fn kept<'s>(
        &self,
        target: &Target<'_>,
        sources: &'s [Source],
        options: &RestoreOptions,
    ) -> Result<BTreeMap<&'s str, &'s Source>> {
        let mut kept = BTreeMap::new();
        if options.mode == RestoreMode::PurgeAllFiles {
            return Ok(kept);
        }
        let pace = Pace::new(&self.options.env.clock, self.options.restore_rate_limit);
        let transfer = self.transfer(&pace, &|_| ());
        let mut buffer = Vec::new();
        for source in sources {
            let path = target.db_dir.join(&source.name);
            let kind = file_name::parse(&source.name);
            if !matches!(kind, Some(FileKind::Table(_) | FileKind::Blob(_)))
                || !target.fs.exists(&path)?
                || target.fs.metadata(&path)?.len != source.bytes
            {
                continue;
            }
            let is_same = match options.mode {
                RestoreMode::PurgeAllFiles => false,
                RestoreMode::VerifyChecksum => match source.crc32c {
                    Some(expected) => {
                        let bytes = source.bytes;
                        transfer.read(&path, bytes, &mut buffer, &mut |_| Ok(()))? == expected
                    }
                    None => false,
                },
                RestoreMode::KeepLatestDbSessionIdFiles => has_session(target.fs, &path, source)?,
            };
            if is_same {
                kept.insert(&*source.name, source);
            }
        }
        Ok(kept)
    }

    /// Copies the files of a backup that are not kept into the restored database.
    fn copy_back(
        &self,
        target: &Target<'_>,
        sources: &[Source],
        kept: &BTreeMap<&str, &Source>,
        options: &RestoreOptions,
        report: &mut RestoreReport,
    ) -> Result<()> {
        let copied = sources
            .iter()
            .filter(|source| !kept.contains_key(&*source.name));
        let transfers: Vec<TransferFile> = copied
            .map(|source| TransferFile {
                source: source.path.clone(),
                target: target.path_of(&source.name),
                bytes: source.bytes,
                may_link: false,
                expected_crc32c: source.crc32c,
            })
            .collect();
        report.copied_files = transfers.len() as u64;
        report.copied_bytes = transfers.iter().map(|file| file.bytes).sum();
        let (done, total) = (AtomicU64::new(0), report.copied_bytes);
        let progress = |bytes| {
            let sum = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            if let Some(progress) = &options.progress {
                progress(sum, total);
            }
        };
        let pace = Pace::new(&self.options.env.clock, self.options.restore_rate_limit);
        let transfer: Transfer<'_> = self.transfer(&pace, &progress);
        transfer.run(&transfers).map(|_| ())
    }
}

/// Removes CURRENT, durably.
fn remove_current(target: &Target<'_>) -> Result<()> {
    let current = file_name::current(target.db_dir);
    if target.fs.exists(&current)? {
        target.fs.remove_file(&current)?;
        target.fs.sync_dir(target.db_dir)?;
    }
    Ok(())
}

/// Deletes the database files in the target directories, except those to keep.
fn clear(
    target: &Target<'_>,
    kept: &BTreeMap<&str, &Source>,
    options: &RestoreOptions,
    report: &mut RestoreReport,
) -> Result<()> {
    let archive = archive_directory(target.wal_dir);
    if options.keep_log_files {
        bring_back_logs(target, &archive)?;
    }
    let mut directories = vec![target.db_dir];
    if target.wal_dir != target.db_dir {
        directories.push(target.wal_dir);
    }
    if target.fs.exists(&archive)? {
        directories.push(&archive);
    }
    for directory in directories {
        for entry in target.fs.list(directory)? {
            let kind = file_name::parse(&entry.name).filter(|_| entry.kind == EntryKind::File);
            let is_kept = match kind {
                Some(FileKind::Lock | FileKind::InfoLog) => true,
                Some(FileKind::Wal(_)) => options.keep_log_files,
                Some(FileKind::Table(_) | FileKind::Blob(_)) => {
                    directory == target.db_dir && kept.contains_key(&*entry.name)
                }
                Some(_) => false,
                None => {
                    if entry.name != "archive" {
                        report.unknown_names.push(entry.name.clone());
                    }
                    true
                }
            };
            if !is_kept {
                target.fs.remove_file(&directory.join(&entry.name))?;
            }
        }
    }
    Ok(())
}

/// Moves archived logs back into the WAL directory, where an open replays them.
fn bring_back_logs(target: &Target<'_>, archive: &Path) -> Result<()> {
    if !target.fs.exists(archive)? {
        return Ok(());
    }
    for entry in target.fs.list(archive)? {
        let log = target.wal_dir.join(&entry.name);
        if matches!(file_name::parse(&entry.name), Some(FileKind::Wal(_)))
            && !target.fs.exists(&log)?
        {
            target.fs.rename(&archive.join(&entry.name), &log)?;
        }
    }
    Ok(())
}

/// Whether the table at `path` has the session id in the name of the backup's file.
fn has_session(fs: &dyn FileSystem, path: &Path, source: &Source) -> Result<bool> {
    if !source.relative.as_str().starts_with(SHARED_CHECKSUM) {
        return Ok(false);
    }
    // A table that cannot be read is replaced.
    let Ok(session_id) = crate::copies::sst_file_reader::session_id(fs, path) else {
        return Ok(false);
    };
    let named = |bytes| BackupPath::by_session(&source.name, &session_id, bytes);
    Ok(!session_id.is_empty()
        && (source.relative == named(Some(source.bytes)) || source.relative == named(None)))
}
