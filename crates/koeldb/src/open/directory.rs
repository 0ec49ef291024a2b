//! The directory of a database: creation, locking, identity, and removal of obsolete files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{Error, Result};
use koeldb_fs::directory_lock::lock_directory;
use koeldb_fs::small_file::{create_dir_durably, parent};
use koeldb_fs::{EntryKind, FileLock, FileSystem, Purpose, WriteOptions};
use koeldb_lsm::current::{db_id_from, read_identity, write_identity};
use koeldb_lsm::manifest;
use koeldb_lsm::version::VersionSet;

use super::{Opening, foreign, random};
use crate::env::sst_file_manager::ObsoleteFile;
use crate::options::{DbPath, wal_dir};
use crate::report::RecoveryReport;
use crate::wal::archive::{self, ArchiveLimits};

/// The advice for a path without a database.
const CREATE: &str = "check the path, or set create_if_missing to create a database there";

impl Opening {
    /// Creates the directories of the database, its logs and its tables if needed; locks the first.
    pub(super) fn prepare_directory(&self) -> Result<Box<dyn FileLock>> {
        let exists = self.has_database()?;
        if !exists {
            self.check_may_create()?;
        }
        let tables = self.table_directories();
        for directory in [&self.path, &self.wal_dir].into_iter().chain(&tables) {
            create_dir_durably(&*self.fs, directory)?;
            if !exists {
                // An earlier attempt may have created it and failed before its name was durable.
                sync_where_permitted(&*self.fs, parent(directory))?;
            }
        }
        lock_directory(&*self.fs, &self.path)
    }

    /// Checks that a database may be created in the directory, which has no CURRENT.
    ///
    /// Fails if there are foreign files, or files from which a lost database can be rebuilt. Writes
    /// nothing.
    fn check_may_create(&self) -> Result<()> {
        let path = self.path.display();
        let may_create = self.db.create_if_missing;
        let is_beside_files = may_create && self.options.plugins.creates_beside_files;
        let refused = if !self.fs.exists(&self.path)? {
            (!may_create).then(|| {
                Error::invalid_argument(format!(
                    "{path}: does not exist (create_if_missing is false)"
                ))
                .with_advice(CREATE)
            })
        } else if let Some(refusal) = self.foreign_directory(is_beside_files) {
            Some(refusal)
        } else if let Some(found) = manifest::remains(&*self.fs, &self.path)? {
            Some(manifest::lost_current(&self.path, &found))
        } else if !may_create {
            let error = Error::invalid_argument(format!(
                "{path}: holds no database: CURRENT is missing (create_if_missing is false)"
            ));
            Some(error.with_advice(CREATE))
        } else if is_beside_files {
            None
        } else {
            self.foreign_entries()?.map(|found| {
                Error::invalid_argument(format!(
                    "{path}: a database is created only in an empty directory, and this one holds \
                     {found}"
                ))
                .with_advice("choose another directory, or move the files away")
            })
        };
        match refused {
            // Another open may have created the database meanwhile, which then holds the lock.
            Some(error) if !self.fs.exists(&file_name::current(&self.path))? => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the error for another engine's database, and for backups unless they are permitted.
    fn foreign_directory(&self, permits_backups: bool) -> Option<Error> {
        match permits_backups {
            true => foreign::refusal_beside_backups(&*self.fs, &self.path),
            false => foreign::refusal(&*self.fs, &self.path),
        }
    }

    /// Describes the files of the directory that are no database files; `None` if there are none.
    ///
    /// Hidden ones do not count, nor those that an interrupted creation, a destroyed database or a
    /// new file system leaves.
    fn foreign_entries(&self) -> Result<Option<String>> {
        let info_log = self.info_log_path(&self.path);
        let tables = self.table_directories();
        let info_log_name = info_log.file_name().and_then(|name| name.to_str());
        let is_known = |name: &str| {
            let path = self.path.join(name);
            file_name::parse(name).is_some()
                || file_name::is_trash(name)
                || name.starts_with('.')
                || matches!(name, "archive" | "lost" | "lost+found")
                || info_log_name.is_some_and(|known| name.starts_with(known))
                || self.wal_dir.starts_with(&path)
                || tables.iter().any(|directory| directory.starts_with(&path))
                || info_log.starts_with(&path)
        };
        let entries = self.fs.list(&self.path)?.into_iter();
        let mut names: Vec<String> = entries
            .map(|entry| entry.name)
            .filter(|name| !is_known(name))
            .collect();
        names.sort_unstable();
        Ok(names.first().map(|first| match names.len() - 1 {
            0 => format!("{first:?}"),
            others => format!("{first:?} and {others} more"),
        }))
    }

    /// Checks that the database exists, or creates its first MANIFEST; returns the id in IDENTITY.
    pub(super) fn create_or_check(&self) -> Result<Option<String>> {
        let exists = self.has_database()?;
        if exists && self.db.error_if_exists {
            return Err(Error::invalid_argument(format!(
                "{}: exists (error_if_exists is true)",
                self.path.display()
            ))
            .with_advice("choose another path, or set error_if_exists to false"));
        }
        if exists {
            return read_identity(&*self.fs, &self.path);
        }
        if self.read_only {
            return Err(self.no_database());
        }
        // They would be replayed into the new database. Those in its own directory are refused below.
        if self.wal_dir != self.path
            && let Some(log) = koeldb_log::wal::list(&*self.fs, &self.wal_dir)?.first()
        {
            return Err(
                Error::corruption(format!("a new database finds {log:06}.log"))
                    .with_advice(
                        "choose another wal_dir, or repair or restore the database of the log",
                    )
                    .in_file(&self.wal_dir, None, "create a database"),
            );
        }
        // The first open would remove them: the MANIFEST of a new database does not know them.
        for directory in self.table_directories() {
            if let Some(table) = self.first_table(&directory)? {
                return Err(Error::corruption(format!("a new database finds {table}"))
                .with_advice("choose other db_paths and cf_paths, or remove the table, or repair or restore its database")
                .in_file(&directory, None, "create a database"));
            }
        }
        let identity = db_id_from(random());
        VersionSet::create(&*self.fs, &self.path, Some(&identity))?;
        if self.db.write_identity_file {
            write_identity(&*self.fs, &self.path, &identity)?;
        }
        Ok(Some(identity))
    }

    /// Returns the error of a read-only or secondary open of a directory without a database.
    pub(super) fn no_database(&self) -> Error {
        if let Some(refusal) = foreign::refusal(&*self.fs, &self.path) {
            return refusal;
        }
        if let Ok(Some(found)) = manifest::remains(&*self.fs, &self.path) {
            return manifest::lost_current(&self.path, &found);
        }
        Error::invalid_argument(format!(
            "{}: there is no database to open read-only (CURRENT is missing)",
            self.path.display()
        ))
        .with_advice("check the path, or open it for writing with create_if_missing")
    }

    /// Returns the name of a table or blob file in a directory; `None` if it has none.
    pub(super) fn first_table(&self, directory: &Path) -> Result<Option<String>> {
        let mut entries = self.fs.list(directory)?.into_iter();
        let is_data = |kind| matches!(kind, FileKind::Table(_) | FileKind::Blob(_));
        let table = entries.find(|entry| file_name::parse(&entry.name).is_some_and(is_data));
        Ok(table.map(|entry| entry.name))
    }

    /// Checks that the file system supports direct writes if the options require these for tables.
    pub(super) fn check_direct_writes(&self) -> Result<()> {
        if self.read_only || !self.db.use_direct_io_for_flush_and_compaction {
            return Ok(());
        }
        let path = file_name::temporary(&self.path, 0);
        // A crash during an earlier check left the file.
        if self.fs.exists(&path)? {
            self.fs.remove_file(&path)?;
        }
        let options = WriteOptions {
            direct: true,
            ..WriteOptions::new(Purpose::Open)
        };
        let created = self.fs.create(&path, &options);
        let closed = created.and_then(|file| file.close());
        let _ = self.fs.remove_file(&path);
        closed.map_err(|error| {
            error.context("the file system refuses use_direct_io_for_flush_and_compaction=true")
        })
    }

    /// Checks that the WAL files are in the `wal_dir` of the options, not in another directory.
    pub(super) fn check_logs(&self, versions: &VersionSet) -> Result<()> {
        let oldest = versions.families().map(|family| family.log_number()).min();
        let wal_dir = &self.options.db.wal_dir;
        wal_dir::check_logs(&*self.fs, &self.path, wal_dir, oldest.unwrap_or(0))
    }

    /// Determines the DB id: from the MANIFEST, else from `recorded` (IDENTITY), else a new one.
    pub(super) fn resolve_identity(
        &self,
        versions: &mut VersionSet,
        recorded: Option<&str>,
    ) -> Result<String> {
        let identity = versions
            .db_id()
            .map(str::to_owned)
            .or_else(|| recorded.map(str::to_owned))
            .unwrap_or_else(|| db_id_from(random()));
        if versions.db_id() != Some(&identity) {
            versions.set_db_id(identity.clone());
        }
        if !self.read_only && self.db.write_identity_file && recorded != Some(&identity) {
            write_identity(&*self.fs, &self.path, &identity)?;
        }
        Ok(identity)
    }

    /// Checks that all database files are regular files, not links or devices (untrusted opens).
    pub(super) fn check_kinds(&self) -> Result<()> {
        let others = self.other_directories();
        for directory in std::iter::once(&self.path).chain(&others) {
            for entry in self.fs.list(directory)? {
                let is_ours = file_name::parse(&entry.name).is_some();
                if is_ours && entry.kind != EntryKind::File {
                    let error = Error::corruption("not a regular file");
                    return Err(error.in_file(&directory.join(&entry.name), None, "open"));
                }
            }
        }
        Ok(())
    }

    /// Returns the directories with database files besides `path`: those of logs and tables.
    pub(super) fn other_directories(&self) -> Vec<PathBuf> {
        let mut directories = self.table_directories();
        // A reader creates none.
        directories.retain(|directory| self.fs.exists(directory).unwrap_or(true));
        if self.wal_dir != self.path && !directories.contains(&self.wal_dir) {
            directories.push(self.wal_dir.clone());
        }
        directories
    }

    /// Returns the directories of `db_paths` and of the `cf_paths` of all families, except `path`.
    ///
    /// Each is listed once, as an absolute path.
    pub(super) fn table_directories(&self) -> Vec<PathBuf> {
        let families = self.families.iter().map(|(_, options)| options);
        let families = families.chain(&self.others);
        let paths = families.map(|options| options.get_cf_paths());
        let paths = paths.chain([&*self.db.db_paths.0]).flatten();
        let mut directories: Vec<PathBuf> = Vec::new();
        for DbPath { path, .. } in paths {
            let directory = self.fs.absolute(path).unwrap_or_else(|_| path.clone());
            if directory != self.path && !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        directories
    }

    /// Removes files that the recovered state does not need, logs included; returns their names.
    ///
    /// A separate directory for logs may contain files of others: only logs are removed there; and
    /// only tables in a separate directory for tables.
    pub(super) fn remove_orphans(
        &self,
        versions: &mut VersionSet,
        recovered: &RecoveryReport,
    ) -> Vec<String> {
        let mut removed = self.remove_orphan_files(versions);
        removed.extend(self.remove_orphan_tables(versions));
        removed.extend(self.remove_obsolete_logs(versions.min_log_number_to_keep(), recovered));
        removed
    }

    /// Removes obsolete files, except logs, from the database directory; returns their names.
    fn remove_orphan_files(&self, versions: &mut VersionSet) -> Vec<String> {
        let live = versions.live_files();
        let manifest = versions.manifest_number();
        let entries = self.fs.list(&self.path).unwrap_or_default();
        let mut options: Vec<FileNumber> = entries
            .iter()
            .filter_map(|entry| match file_name::parse(&entry.name) {
                Some(FileKind::Options(number)) => Some(number),
                _ => None,
            })
            .collect();
        options.sort_unstable();
        let oldest_options = options.iter().rev().nth(1).copied().unwrap_or(0);
        let is_orphan = |kind: FileKind| match kind {
            FileKind::Table(number) => !live.tables.contains(&number),
            FileKind::Blob(number) => !live.blob_files.contains(&number),
            FileKind::Manifest(number) => number < manifest,
            FileKind::Temporary(_) => true,
            FileKind::Options(number) => number < oldest_options,
            // The MANIFEST that is in force has it.
            FileKind::Identity => !self.db.write_identity_file,
            _ => false,
        };
        let mut removed = Vec::new();
        for entry in entries {
            let goes = match file_name::parse(&entry.name) {
                Some(kind) => is_orphan(kind),
                None => {
                    let path = self.path.join(&entry.name);
                    file_name::is_trash(&entry.name) && !self.adopt_trash(&path)
                }
            };
            if goes && self.fs.remove_file(&self.path.join(&entry.name)).is_ok() {
                removed.push(entry.name);
            }
        }
        removed
    }

    /// Removes the tables and blob files that no version has, and trash, from their separate
    /// directories.
    fn remove_orphan_tables(&self, versions: &mut VersionSet) -> Vec<String> {
        let live = versions.live_files();
        let mut removed = Vec::new();
        for directory in self.table_directories() {
            for entry in self.fs.list(&directory).unwrap_or_default() {
                let path = directory.join(&entry.name);
                let goes = match file_name::parse(&entry.name) {
                    Some(FileKind::Table(number)) => !live.tables.contains(&number),
                    Some(FileKind::Blob(number)) => !live.blob_files.contains(&number),
                    Some(_) => false,
                    None => file_name::is_trash(&entry.name) && !self.adopt_trash(&path),
                };
                if goes && self.fs.remove_file(&path).is_ok() {
                    removed.push(entry.name);
                }
            }
        }
        removed
    }

    /// Removes or archives the logs before `min_log`, and the trash of a separate log directory.
    ///
    /// Logs are archived if the options say so and recovery has just replayed all of them.
    fn remove_obsolete_logs(&self, min_log: FileNumber, recovered: &RecoveryReport) -> Vec<String> {
        let is_obsolete = |kind: FileKind| matches!(kind, FileKind::Wal(log) if log < min_log);
        let archive_limits = ArchiveLimits::of(&self.db);
        let named = match archive_limits {
            // Of a log that cannot be read, nothing is known.
            Some(_) => archive::predecessors(&*self.fs, &self.wal_dir).unwrap_or_default(),
            None => BTreeSet::new(),
        };
        let is_archived = |name: &str| match file_name::parse(name) {
            Some(FileKind::Wal(number)) if archive_limits.is_some() => {
                let mut replayed = recovered.logs.iter();
                let is_whole = replayed.any(|log| log.number == number) || named.contains(&number);
                !recovered.dropped_anything() && is_whole
            }
            _ => false,
        };
        let mut removed = Vec::new();
        for entry in self.fs.list(&self.wal_dir).unwrap_or_default() {
            let number = match file_name::parse(&entry.name) {
                None if file_name::is_trash(&entry.name) && self.wal_dir != self.path => 0,
                Some(kind) if is_obsolete(kind) => kind.number().unwrap_or(0),
                _ => continue,
            };
            let is_kept =
                is_archived(&entry.name) && archive::keep(&*self.fs, &self.wal_dir, number).is_ok();
            if !is_kept && self.fs.remove_file(&self.wal_dir.join(&entry.name)).is_ok() {
                removed.push(entry.name);
            }
        }
        if let Some(limits) = archive_limits {
            let now = self.env.clock.unix_micros() / 1_000_000;
            // A log that stays is removed later.
            let _ = archive::purge(&*self.fs, &self.wal_dir, limits, now, FileNumber::MAX);
        }
        removed
    }

    /// Passes a leftover trash file to the `SstFileManager` to delete it; `false` without one.
    fn adopt_trash(&self, path: &Path) -> bool {
        let (Some(manager), Ok(file)) = (
            &self.options.plugins.sst_file_manager,
            self.fs.metadata(path),
        ) else {
            return false;
        };
        manager.adopt_trash(ObsoleteFile {
            env: &self.env,
            path,
            bytes: file.len,
            // Readers in this process may have mapped it before the database was closed.
            may_be_mapped: true,
            statistics: self.db.statistics.as_ref(),
        });
        true
    }
}

/// Syncs a directory; does nothing if this user lacks the permission to open it.
fn sync_where_permitted(fs: &dyn FileSystem, directory: &Path) -> Result<()> {
    fs.sync_dir(directory).or_else(|error| {
        let code = error.raw_os_error().unwrap_or(0);
        match std::io::Error::from_raw_os_error(code).kind() {
            std::io::ErrorKind::PermissionDenied => Ok(()),
            _ => Err(error),
        }
    })
}
