//! Copies of the database while it is written: checkpoints, backups, exports and a secondary.
//!
//! A copy is opened and compared with the expected versions. A key of the thread that made it has
//! exactly its version of that moment, because nobody else writes it. Any other key has a version
//! between those before and after the call. All column families have the same version, as in the
//! batch that wrote it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, TryLockError};

use koeldb::{
    BackupEngine, BackupEngineOptions, CheckpointOptions, ColumnFamily, CreateBackupOptions, Db,
    Env, ErrorKind, ExportOptions, FlushPolicy, ImportColumnFamilyOptions, Options, RestoreOptions,
};
use koeldb_fs::{PosixFileSystem, SystemClock};
use koeldb_testkit::Random;

use crate::Flags;
use crate::expected::Version;
use crate::own::with_own;
use crate::worker::{Life, NamedFamily, newest, number_of};

/// The number of backups that stay.
const BACKUPS_KEPT: usize = 2;

/// The checkpoints, backups, exports and secondary made for comparison, and how to open them.
pub(crate) struct Copies {
    directory: PathBuf,
    options: Options,
    families: Vec<NamedFamily>,
    threads: u64,
    /// One thread makes copies at a time.
    secondary: Mutex<Option<Db>>,
}

impl Copies {
    /// Creates the settings for copies beside the database, opened without injected faults.
    pub(crate) fn new(flags: &Flags, options: &Options, families: &[NamedFamily]) -> Self {
        let mut directory = flags.db.clone().into_os_string();
        directory.push(".copies");
        let mut options = options.clone();
        options.set_env(&env());
        Copies {
            directory: directory.into(),
            options,
            families: families.to_vec(),
            threads: flags.threads,
            secondary: Mutex::default(),
        }
    }

    /// Returns the path of the copy called `name`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Opens the copy at `path` with all the column families that it has.
    fn open(&self, path: &Path, is_read_only: bool) -> koeldb::Result<Db> {
        let mut builder = Db::builder(&self.options);
        let families = with_own(&self.options, path, &self.families, self.threads);
        builder.column_families(families);
        if is_read_only {
            builder.read_only();
        }
        builder.open(path)
    }
}

/// Returns an environment on the real file system, without injected faults.
fn env() -> Env {
    Env::new(Arc::new(PosixFileSystem::new()), Arc::new(SystemClock))
}

/// Removes a directory, if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

impl Life {
    /// Makes a checkpoint, backup, export or secondary and compares it, unless another thread does.
    pub(crate) fn compare_copy(&self, thread: u64, random: &mut Random) -> Result<bool, String> {
        let mut secondary = match self.copies.secondary.try_lock() {
            Ok(secondary) => secondary,
            Err(TryLockError::WouldBlock) => return Ok(true),
            Err(TryLockError::Poisoned(_)) => return Err("a thread panicked".to_owned()),
        };
        match random.below(4) {
            0 => self.checkpoint(thread, random),
            1 => self.backup(thread, random),
            2 => self.export(thread, random),
            _ => self.catch_up(thread, &mut secondary),
        }
    }

    /// Returns `version(number)` for each key number of all threads.
    fn all_versions(&self, version: impl Fn(u64) -> Version) -> Vec<Version> {
        (0..self.flags.threads * self.flags.keys)
            .map(version)
            .collect()
    }

    /// Makes a checkpoint and compares it; `false` if an injected fault requires a restart.
    fn checkpoint(&self, thread: u64, random: &mut Random) -> Result<bool, String> {
        let path = self.copies.path("checkpoint");
        remove(&path)?;
        let mut how = CheckpointOptions::new();
        how.set_link(random.chance(3, 4));
        if random.chance(1, 2) {
            how.set_flush(FlushPolicy::Always);
        }
        let floor = self.all_versions(|number| self.expected.acknowledged(number));
        match self.db.create_checkpoint_opt(&path, &how) {
            Ok(_) => {
                self.compare_opened("the checkpoint", &path, &floor, thread, random.chance(1, 2))?;
                Ok(true)
            }
            Err(error) => self.tolerate(Err(error)),
        }
    }

    /// Makes, verifies and restores a backup, and compares the restored database.
    fn backup(&self, thread: u64, random: &mut Random) -> Result<bool, String> {
        let wrong = |error: koeldb::Error| format!("backups: {error}");
        let mut options = BackupEngineOptions::new();
        options.set_env(&env());
        let engine = BackupEngine::open(self.copies.path("backups"), &options).map_err(wrong)?;
        if let Some((id, error)) = engine.corrupted_backups().first() {
            return Err(format!("backup {id} is damaged: {error}"));
        }
        let floor = self.all_versions(|number| self.expected.acknowledged(number));
        let mut how = CreateBackupOptions::new();
        how.set_flush_before_backup(random.chance(1, 2));
        let id = match engine.create_new_backup_opt(&self.db, &how) {
            Ok(id) => id,
            Err(error) => return self.tolerate(Err(error)),
        };
        engine.verify_backup(id, true).map_err(wrong)?;
        let path = self.copies.path("restored");
        let how = RestoreOptions::new();
        engine.restore(id, &path, &path, &how).map_err(wrong)?;
        engine.purge_old_backups(BACKUPS_KEPT).map_err(wrong)?;
        self.compare_opened("the backup", &path, &floor, thread, random.chance(1, 2))?;
        Ok(true)
    }

    /// Exports a column family, imports it into a fresh database, and compares that.
    fn export(&self, thread: u64, random: &mut Random) -> Result<bool, String> {
        let wrong = |error: koeldb::Error| format!("import: {error}");
        let (exported, imported) = (self.copies.path("exported"), self.copies.path("imported"));
        remove(&exported)?;
        remove(&imported)?;
        let index = usize::try_from(random.below(self.families.len() as u64)).unwrap_or(0);
        let floor = self.all_versions(|number| self.expected.acknowledged(number));
        let mut what = ExportOptions::new();
        what.set_inline_blobs(random.chance(3, 4));
        let export = match self.families[index].export_opt(&exported, &what) {
            Ok(export) => export,
            // Without the option a family with values in blob files is refused by name.
            Err(error) if error.kind() == ErrorKind::NotSupported => return Ok(true),
            Err(error) => return self.tolerate(Err(error)),
        };
        let mut options = Options::new();
        options.create_if_missing(true).set_env(&env());
        let db = Db::open(&options, &imported).map_err(wrong)?;
        let mut how = ImportColumnFamilyOptions::new();
        how.set_move_files(random.chance(1, 2));
        let (_, family_options) = &self.copies.families[index];
        let family = db
            .create_column_family_with_import("imported", family_options, &[export], &how)
            .map_err(wrong)?;
        self.compare_versions("the import", &[family], &floor, thread)?;
        db.close().map_err(wrong)?;
        Ok(true)
    }

    /// Lets the secondary catch up with the primary, and compares it.
    ///
    /// It lacks entries that are in no log and no table.
    fn catch_up(&self, thread: u64, secondary: &mut Option<Db>) -> Result<bool, String> {
        if self.faults.is_some() {
            // A log may end in a record of a write that failed.
            return Ok(true);
        }
        let floor = self.all_versions(|number| self.expected.owed(number));
        let flushed = self.db.flush_wal(false);
        if flushed.is_err() {
            return self.tolerate(flushed);
        }
        let caught_up = match secondary {
            Some(secondary) => secondary.try_catch_up_with_primary().map(|_| ()),
            None => {
                let mut builder = Db::builder(&self.copies.options);
                builder.column_families(self.copies.families.clone());
                builder.secondary(self.copies.path("secondary"));
                builder.open(&self.flags.db).map(|db| *secondary = Some(db))
            }
        };
        match (caught_up, &secondary) {
            (Ok(()), Some(secondary)) => {
                let families = self.in_order(secondary)?;
                self.compare_versions("the secondary", &families, &floor, thread)?;
                Ok(true)
            }
            // The primary removed files too fast.
            (Err(error), _) if error.kind() == ErrorKind::TryAgain => Ok(true),
            (Err(error), _) => Err(format!("the secondary: {error}")),
            (Ok(()), None) => Ok(true),
        }
    }

    /// Returns the column families of a copy, in the order of the stressed database's.
    fn in_order(&self, copy: &Db) -> Result<Vec<ColumnFamily>, String> {
        let family = |family: &ColumnFamily| {
            let found = copy.cf_handle(family.name());
            found.ok_or_else(|| format!("a copy without {:?}", family.name()))
        };
        self.families.iter().map(family).collect()
    }

    /// Opens a copy, compares its entries with the expected versions, and verifies its checksums.
    fn compare_opened(
        &self,
        what: &str,
        path: &Path,
        floor: &[Version],
        thread: u64,
        is_read_only: bool,
    ) -> Result<(), String> {
        let copy = self
            .copies
            .open(path, is_read_only)
            .map_err(|error| format!("{what}: {error}"))?;
        self.compare_versions(what, &self.in_order(&copy)?, floor, thread)?;
        copy.verify_checksums()
            .map_err(|error| format!("{what}: {error}"))?;
        copy.close().map_err(|error| format!("{what}: {error}"))
    }

    /// Checks that each value of a copy has a version between `floor` and the last one begun.
    fn compare_versions(
        &self,
        what: &str,
        families: &[ColumnFamily],
        floor: &[Version],
        thread: u64,
    ) -> Result<(), String> {
        let ceiling = self.all_versions(|number| self.expected.begun(number));
        let mut contents: Vec<BTreeMap<u64, Vec<u8>>> = Vec::new();
        for family in families {
            let mut entries = BTreeMap::new();
            for entry in family.range_opt(.., &newest(family, None)) {
                let (key, value) = entry.map_err(|error| format!("{what}: {error}"))?;
                let number = number_of(&key).filter(|number| *number < floor.len() as u64);
                let number = number.ok_or_else(|| format!("{what} has the key {key:?}"))?;
                entries.insert(number, value.to_vec());
            }
            contents.push(entries);
        }
        for ((number, first), last) in (0..).zip(floor).zip(ceiling) {
            for (family, entries) in families.iter().zip(&contents) {
                let found = entries.get(&number);
                let is_torn = !self.leaves_out_log && found != contents[0].get(&number);
                if is_torn || !first.permits(last, number, found.map(Vec::as_slice)) {
                    return Err(format!(
                        "{what} of thread {thread} has {:?} for key {number} of {:?}{}: {first:?} to {last:?}, {}",
                        found.map(|value| String::from_utf8_lossy(value)),
                        family.name(),
                        if is_torn {
                            ", unlike another family"
                        } else {
                            ""
                        },
                        self.expected.describe(number)
                    ));
                }
            }
        }
        Ok(())
    }
}
