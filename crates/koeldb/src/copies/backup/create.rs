//! The creation of a backup: its files, which of them are copied, and the order of syncs.
//!
//! Data files are synced, then the directories that name them, then the meta file, which gets its
//! name last (BK1; RocksDB syncs the directories after that).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb_base::stats::Ticker;
use koeldb_base::{Error, Result};
use koeldb_fs::Purpose;
use koeldb_fs::small_file::write_atomically;
use koeldb_lsm::file_checksum;

use super::engine::{Backup, BackupEngine, Backups, lock_backups};
use super::layout::{
    BackupId, BackupPath, META, PRIVATE, SHARED, SHARED_CHECKSUM, ShareFilesNaming,
};
use super::meta::{APP_METADATA_BYTES_MAX, BackupMeta, MetaFile};
use super::notes::{NotedFile, Notes};
use super::options::CreateBackupOptions;
use crate::api::db::Db;
use crate::background::transfer::{Pace, Transfer, TransferFile};
use crate::copies::capture::{Capture, CapturedFile, CapturedTable, FlushPolicy};
use crate::copies::checkpoint::write_manifest;
use crate::state::column_family_set::ColumnFamilySet;

/// A file to add to a backup: its path in the backup, its source, and its checksum if known.
struct Item {
    path: BackupPath,
    source: PathBuf,
    bytes: u64,
    /// The checksum of the file, if it is known before the copy.
    crc32c: Option<u32>,
    is_copied: bool,
    /// The key of the file in the notes, if it is a blob file.
    noted: Option<NotedFile>,
}

impl BackupEngine {
    /// Creates a backup of `db` without a flush: data in memtables is in the logs of the backup.
    ///
    /// # Errors
    /// See [`BackupEngine::create_new_backup_opt`].
    pub fn create_new_backup(&self, db: &Db) -> Result<BackupId> {
        self.create_new_backup_opt(db, &CreateBackupOptions::new())
    }

    /// Creates a backup of `db`; blocks writers for a moment at most.
    ///
    /// # Errors
    /// `Corruption` if a table does not have the checksum that the MANIFEST records, or a shared
    /// file of its name has another length or checksum; `Incomplete` if it was stopped; errors of the file
    /// systems. There is no new backup then, and the next call reuses its number.
    pub fn create_new_backup_opt(
        &self,
        db: &Db,
        options: &CreateBackupOptions,
    ) -> Result<BackupId> {
        self.check_writable()?;
        if options.app_metadata.len() > APP_METADATA_BYTES_MAX {
            return Err(Error::invalid_argument(format!(
                "application metadata of {} bytes, at most {APP_METADATA_BYTES_MAX}",
                options.app_metadata.len()
            )));
        }
        let mut backups = lock_backups(self);
        let _operation = self.begin_operation();
        let id = self.next_id(&backups)?;
        let backup = self.create(&backups, id, db, options)?;
        backups.valid.insert(id, backup);
        Ok(id)
    }

    /// Creates backup `id`: captures the database, copies its files and writes the meta file.
    fn create(
        &self,
        backups: &Backups,
        id: BackupId,
        db: &Db,
        options: &CreateBackupOptions,
    ) -> Result<Backup> {
        let flush = match options.flush_before_backup {
            true => FlushPolicy::Always,
            // Only if there are writes without the log, which no copied log would have.
            false => FlushPolicy::LogsOver(u64::MAX),
        };
        let capture = db.inner().commit.capture(flush)?;
        let private = self.private_path(id);
        // An interrupted backup may have left files under this number.
        self.fs.create_dir_all(&private)?;
        self.remove_files(&private, |_| true)?;
        let (mut items, excluded) = self.items(backups, id, db, &capture, options)?;
        self.copy(db, &mut items, options)?;
        write_manifest(&*self.fs, &private, &capture)?;
        let manifest = format!("MANIFEST-{:06}", capture.manifest_number);
        for name in [&*manifest, "CURRENT"] {
            items.push(self.made_file(id, name)?);
        }
        self.sync_directories(id)?;
        let noted: Vec<(NotedFile, u32)> = items
            .iter()
            .filter_map(|item| item.noted.clone().zip(item.crc32c))
            .collect();
        let backup = self.write_meta(id, db, &capture, items, excluded, options)?;
        if !noted.is_empty() {
            let mut notes = self.read_notes();
            notes.set(db.identity(), noted);
            // The backup is made; without notes the next one reads more.
            let _ = self.write_notes(&notes);
        }
        Ok(backup)
    }

    /// Lists the files for the new backup, and the backup paths of those it excludes.
    fn items(
        &self,
        backups: &Backups,
        id: BackupId,
        db: &Db,
        capture: &Capture,
        options: &CreateBackupOptions,
    ) -> Result<(Vec<Item>, Vec<BackupPath>)> {
        let (mut items, mut excluded) = (Vec::new(), Vec::new());
        for file in capture.tables(&db.inner().context)? {
            let item = self.table_item(backups, id, db, file)?;
            match &options.exclude_files {
                Some(exclude) if exclude(item.path.as_str()) => excluded.push(item.path),
                _ => items.push(item),
            }
        }
        let notes = self.read_notes();
        for file in capture.other_files(&db.inner().context)? {
            if file.blob.is_some() {
                let item = self.blob_item(backups, id, db, file, &notes)?;
                match &options.exclude_files {
                    Some(exclude) if exclude(item.path.as_str()) => excluded.push(item.path),
                    _ => items.push(item),
                }
                continue;
            }
            let is_log = file.name.ends_with(".log");
            if !is_log || self.options.backup_log_files {
                items.push(Item {
                    path: BackupPath::private(id, &file.name),
                    source: file.source,
                    bytes: file.bytes,
                    crc32c: None,
                    is_copied: true,
                    noted: None,
                });
            }
        }
        Ok((items, excluded))
    }

    /// Returns the backup item of a table: its path in the backup directory and its checksum.
    fn table_item(
        &self,
        backups: &Backups,
        id: BackupId,
        db: &Db,
        file: CapturedFile,
    ) -> Result<Item> {
        let table = file.table.as_ref();
        let recorded = table.and_then(|table| file_checksum::recorded(&*table.meta));
        let path = match (self.options.share_table_files, &file.table) {
            (true, Some(table)) if self.options.share_files_with_checksum => {
                self.checksum_path(db, &file, table, recorded)?
            }
            (true, _) => BackupPath::shared(&file.name),
            (false, _) => BackupPath::private(id, &file.name),
        };
        let mut item = Item {
            path,
            source: file.source,
            bytes: file.bytes,
            crc32c: recorded,
            is_copied: true,
            noted: None,
        };
        self.reuse(backups, db, &mut item)?;
        Ok(item)
    }

    /// Returns the backup item of a blob file, which is shared under its checksum and its length.
    ///
    /// A checksum that is neither recorded nor noted is that of a read of the file, as in RocksDB.
    fn blob_item(
        &self,
        backups: &Backups,
        id: BackupId,
        db: &Db,
        file: CapturedFile,
        notes: &Notes,
    ) -> Result<Item> {
        let recorded = file.blob.as_ref().and_then(file_checksum::recorded);
        let metadata = db.inner().context.fs.metadata(&file.source)?;
        let noted = NotedFile::new(db.identity(), &file.name, &metadata);
        let is_named_by_checksum =
            self.options.share_table_files && self.options.share_files_with_checksum;
        let mut crc32c = recorded;
        let path = if is_named_by_checksum {
            // A note finds the file of a valid backup, and nothing else.
            let in_backup = notes.get(&noted).filter(|&sum| {
                let path = BackupPath::by_checksum(&file.name, sum, file.bytes);
                recorded.is_none() && backups.shared(&path).is_some()
            });
            let sum = match crc32c.or(in_backup) {
                Some(sum) => sum,
                None => self.read_checksum(db, &file.source, file.bytes)?,
            };
            crc32c = Some(sum);
            BackupPath::by_checksum(&file.name, sum, file.bytes)
        } else if self.options.share_table_files {
            BackupPath::shared(&file.name)
        } else {
            BackupPath::private(id, &file.name)
        };
        let mut item = Item {
            path,
            source: file.source,
            bytes: file.bytes,
            crc32c,
            is_copied: true,
            noted: is_named_by_checksum.then_some(noted),
        };
        self.reuse(backups, db, &mut item)?;
        Ok(item)
    }

    /// The path of a table in the directory `shared_checksum`.
    fn checksum_path(
        &self,
        db: &Db,
        file: &CapturedFile,
        table: &CapturedTable,
        recorded: Option<u32>,
    ) -> Result<BackupPath> {
        let session_id = match self.options.share_files_with_checksum_naming {
            ShareFilesNaming::LegacyCrc32cAndFileSize => String::new(),
            _ => session_id_of(&db.inner().families, table)?,
        };
        if session_id.is_empty() {
            let crc32c = match recorded {
                Some(recorded) => recorded,
                None => self.read_checksum(db, &file.source, file.bytes)?,
            };
            return Ok(BackupPath::by_checksum(&file.name, crc32c, file.bytes));
        }
        let has_size = self.options.share_files_with_checksum_naming
            == ShareFilesNaming::UseDbSessionIdAndFileSize;
        let bytes = has_size.then_some(file.bytes);
        Ok(BackupPath::by_session(&file.name, &session_id, bytes))
    }

    /// Reads a file of the database at the backup rate; returns its crc32c.
    fn read_checksum(&self, db: &Db, source: &Path, bytes: u64) -> Result<u32> {
        let pace = Pace::new(&self.options.env.clock, self.options.backup_rate_limit);
        let transfer = Transfer {
            from: &*db.inner().context.fs,
            ..self.transfer(&pace, &|_| ())
        };
        transfer.read(source, bytes, &mut Vec::new(), &mut |_| Ok(()))
    }

    /// Skips the copy of a shared file that a backup has; removes one that no backup names (BK2).
    ///
    /// A name in `shared` says nothing of the content: the table is read if its checksum is not
    /// recorded.
    fn reuse(&self, backups: &Backups, db: &Db, item: &mut Item) -> Result<()> {
        let path = item.path.in_directory(&self.directory);
        if !item.path.is_shared() || !self.fs.exists(&path)? {
            return Ok(());
        }
        let Some((bytes, crc32c)) = backups.shared(&item.path) else {
            if !backups.corrupt.is_empty() && self.fs.metadata(&path)?.len != item.bytes {
                // A damaged backup may need it.
                return Err(other_length(item, self.fs.metadata(&path)?.len));
            }
            return self.fs.remove_file(&path);
        };
        if bytes != item.bytes {
            return Err(other_length(item, bytes));
        }
        if let Some(shared) = crc32c {
            if item.crc32c.is_none() && item.path.is_shared_by_number() {
                item.crc32c = Some(self.read_checksum(db, &item.source, item.bytes)?);
            }
            if item.crc32c.is_some_and(|own| own != shared) {
                return Err(other_checksum(item, shared));
            }
            item.crc32c = Some(shared);
        }
        item.is_copied = false;
        Ok(())
    }

    /// Copies those items that the backup lacks; shared files get their names at the end.
    fn copy(&self, db: &Db, items: &mut [Item], options: &CreateBackupOptions) -> Result<()> {
        // Two column families never share a table, but two copies must not share a name.
        let mut targets = BTreeSet::new();
        let mut transfers = Vec::new();
        let mut copied = Vec::new();
        for item in items.iter_mut().filter(|item| item.is_copied) {
            if !targets.insert(item.path.clone()) {
                return Err(Error::corruption(format!(
                    "two tables of the database would be {} in the backup",
                    item.path
                )));
            }
            let target = match item.path.is_shared() {
                true => item.path.temporary(&self.directory),
                false => item.path.in_directory(&self.directory),
            };
            if item.path.is_shared() && self.fs.exists(&target)? {
                self.fs.remove_file(&target)?;
            }
            transfers.push(TransferFile {
                source: item.source.clone(),
                target,
                bytes: item.bytes,
                may_link: false,
                expected_crc32c: item.crc32c,
            });
            copied.push(item);
        }
        let total = transfers.iter().map(|file| file.bytes).sum();
        let done = AtomicU64::new(0);
        let progress = |bytes| {
            let sum = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            if let Some(progress) = &options.progress {
                progress(sum, total);
            }
        };
        let pace = Pace::new(&self.options.env.clock, self.options.backup_rate_limit);
        let outcomes = Transfer {
            from: &*db.inner().context.fs,
            ..self.transfer(&pace, &progress)
        }
        .run(&transfers);
        let context = &db.inner().context;
        let bytes = done.into_inner();
        context.count(Ticker::BackupReadBytes, bytes);
        context.count(Ticker::BackupWriteBytes, bytes);
        let outcomes = outcomes?;
        for ((item, file), outcome) in copied.into_iter().zip(&transfers).zip(outcomes) {
            item.crc32c = outcome.crc32c;
            if item.path.is_shared() {
                self.fs
                    .rename(&file.target, &item.path.in_directory(&self.directory))?;
            }
        }
        Ok(())
    }

    /// Returns the item of a small file that was written directly into the private directory.
    fn made_file(&self, id: BackupId, name: &str) -> Result<Item> {
        let path = BackupPath::private(id, name);
        let source = path.in_directory(&self.directory);
        let bytes = self.fs.metadata(&source)?.len;
        let pace = Pace::new(&self.options.env.clock, 0);
        let transfer = self.transfer(&pace, &|_| ());
        let crc32c = transfer.read(&source, bytes, &mut Vec::new(), &mut |_| Ok(()))?;
        Ok(Item {
            path,
            source,
            bytes,
            crc32c: Some(crc32c),
            is_copied: false,
            noted: None,
        })
    }

    /// Syncs the directories of the backup's files.
    fn sync_directories(&self, id: BackupId) -> Result<()> {
        for shared in [SHARED, SHARED_CHECKSUM] {
            self.fs.sync_dir(&self.directory.join(shared))?;
        }
        self.fs.sync_dir(&self.private_path(id))?;
        self.fs.sync_dir(&self.directory.join(PRIVATE))
    }

    /// Writes the meta file, which makes the backup exist.
    fn write_meta(
        &self,
        id: BackupId,
        db: &Db,
        capture: &Capture,
        items: Vec<Item>,
        excluded: Vec<BackupPath>,
        options: &CreateBackupOptions,
    ) -> Result<Backup> {
        let schema = match excluded.is_empty() {
            true => self.options.schema_version,
            false => 2,
        };
        let bytes = items.iter().map(|item| item.bytes).collect();
        let files = items.into_iter().map(|item| MetaFile {
            path: item.path,
            crc32c: item.crc32c,
            bytes: Some(item.bytes).filter(|_| schema >= 2),
        });
        let meta = BackupMeta {
            unix_secs: db.inner().context.clock.unix_micros() / 1_000_000,
            seqno: capture.seqno,
            app_metadata: options.app_metadata.clone(),
            files: files.collect(),
            excluded,
        };
        let meta_dir = self.directory.join(META);
        write_atomically(
            &*self.fs,
            &meta_dir.join(format!(".{id}.tmp")),
            &self.meta_path(id),
            meta.encode(schema).as_bytes(),
            Purpose::Backup,
        )?;
        Ok(Backup { meta, bytes })
    }
}

/// Returns the error of a shared file whose size differs from the database's.
fn other_length(item: &Item, bytes: u64) -> Error {
    Error::corruption(format!(
        "the backup directory has {} with {bytes} bytes, and the database with {}: verify its \
         backups, and collect garbage",
        item.path, item.bytes
    ))
}

/// Returns the error of a shared file whose checksum differs from the database's.
fn other_checksum(item: &Item, crc32c: u32) -> Error {
    Error::corruption(format!(
        "the backup directory has {} with checksum {crc32c}, and the database with {}: if another \
         database, or this one before a restoration, was backed up there, use another directory, \
         or names with checksums (set_share_files_with_checksum)",
        item.path,
        item.crc32c.unwrap_or(0)
    ))
}

/// The session id in the properties of a table; empty if it has none.
fn session_id_of(families: &ColumnFamilySet, table: &CapturedTable) -> Result<String> {
    let families = families.all();
    // Tables of a family dropped meanwhile are named by their checksums.
    let Some(family) = families.iter().find(|family| family.id == table.family) else {
        return Ok(String::new());
    };
    let reader = family.tables.reader(&table.meta, table.level)?;
    let id = &reader.properties().session_id;
    Ok(String::from_utf8_lossy(id).into_owned())
}
