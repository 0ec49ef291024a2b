//! The files of a running database: tables with their metadata, logs, and a list for backup tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{Result, SeqNo};
use koeldb_fs::Purpose;
use koeldb_lsm::FileMeta;
use koeldb_lsm::version::BlobFileMeta;

use crate::api::column_family::ColumnFamily;
use crate::api::db::Db;
use crate::commit::protocol::CommitPipeline;
use crate::copies::capture::{Capture, FlushPolicy};
use crate::copies::checkpoint::write_manifest;
use crate::copies::updates::logs;
use crate::state::column_family_data::ColumnFamilyData;

/// A live table file of a database (RocksDB: `LiveFileMetaData`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LiveFile {
    /// The name of the column family.
    pub column_family: String,
    /// The name of the table in the directory, with a leading slash.
    pub name: String,
    /// The directory of the file.
    pub directory: PathBuf,
    /// The number in the name of the table.
    pub number: FileNumber,
    /// The level of the table.
    pub level: usize,
    /// The length of the table in bytes.
    pub bytes: u64,
    /// The first user key.
    pub smallest_key: Vec<u8>,
    /// The last user key.
    pub largest_key: Vec<u8>,
    /// The smallest sequence number.
    pub smallest_seqno: SeqNo,
    /// The largest sequence number.
    pub largest_seqno: SeqNo,
    /// The number of entries in the table; 0 if the table cannot be opened.
    pub entries: u64,
    /// The number of deletions in the table; 0 if the table cannot be opened.
    pub deletions: u64,
    /// The age of the table among those of level 0: larger is newer.
    pub epoch: u64,
    /// The oldest blob file to which the table refers; 0 for none.
    pub oldest_blob_file: FileNumber,
    /// The time when the table was created, in seconds since 1970; 0 unknown.
    pub creation_time: u64,
    /// The time when the oldest ancestor of the table was created, in seconds since 1970; 0
    /// unknown.
    pub oldest_ancestor_time: u64,
    /// The checksum of the whole file; empty for none.
    pub file_checksum: Vec<u8>,
    /// The name of the function of the whole-file checksum; empty for none.
    pub file_checksum_func_name: String,
    /// The recorded temperature byte.
    pub temperature: u8,
    /// Whether a running compaction reads the table.
    pub being_compacted: bool,
    /// Whether the table is marked for compaction.
    pub marked_for_compaction: bool,
}

/// A live blob file of a column family (RocksDB: `BlobMetaData`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveBlobFile {
    /// The name of the column family.
    pub column_family: String,
    /// The name of the file, with a leading slash as in RocksDB.
    pub name: String,
    /// The directory of the file.
    pub directory: PathBuf,
    /// The number in the name of the file.
    pub number: FileNumber,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The number of values in the file.
    pub total_count: u64,
    /// The size of the records of all values, in bytes.
    pub total_bytes: u64,
    /// The number of values to which no table refers.
    pub garbage_count: u64,
    /// The size of the records of those values, in bytes.
    pub garbage_bytes: u64,
    /// The checksum of the whole file in the MANIFEST; empty for none.
    pub file_checksum: Vec<u8>,
    /// The name of the function of the whole-file checksum; empty for none.
    pub file_checksum_func_name: String,
}

/// A live or archived write-ahead log of a database (RocksDB: `LogFile`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogFile {
    /// The number in the name of the log.
    pub number: FileNumber,
    /// The path of the log.
    pub path: PathBuf,
    /// The length of the log in bytes, with buffered records.
    pub bytes: u64,
    /// Whether the log is obsolete and kept in the archive.
    pub is_archived: bool,
    /// Whether the log is still being written.
    pub is_open: bool,
}

/// The kinds of files in a [`LiveStorage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageFileKind {
    /// A table.
    Table,
    /// A blob file.
    Blob,
    /// A write-ahead log.
    Wal,
    /// MANIFEST.
    Manifest,
    /// CURRENT.
    Current,
    /// OPTIONS.
    Options,
}

/// A file of a [`LiveStorage`] (RocksDB: `LiveFileStorageInfo`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StorageFile {
    /// The name of the file in the copy.
    pub relative_name: String,
    /// The path of the file to copy; `None` if its bytes are in `contents`.
    pub path: Option<PathBuf>,
    /// The number of bytes to copy; the file may be longer.
    pub bytes: u64,
    /// The kind of the file.
    pub kind: StorageFileKind,
    /// Whether the bytes of the file never change, so that it can be linked.
    pub is_constant: bool,
    /// The contents of a file that is not in the directory, such as CURRENT.
    pub contents: Option<Vec<u8>>,
    /// The checksum of the whole file in the MANIFEST; empty for none.
    pub file_checksum: Vec<u8>,
    /// The name of the function of the whole-file checksum; empty for none.
    pub file_checksum_func_name: String,
}

/// The files that make a copy of a database at one instant, for other backup tools.
///
/// The files stay in place while it lives.
#[derive(Debug)]
#[non_exhaustive]
pub struct LiveStorage {
    /// The sequence number of the last write in the files.
    pub sequence_number: SeqNo,
    /// The files of the database.
    pub files: Vec<StorageFile>,
    _capture: CaptureGuard,
}

/// A capture that is kept only because it prevents the deletion of its files.
struct CaptureGuard(#[expect(dead_code, reason = "it holds deletions")] Capture);

impl std::fmt::Debug for CaptureGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CaptureGuard")
    }
}

impl Db {
    /// Returns the tables of all column families. Tables that were not read yet are opened.
    #[must_use]
    pub fn live_files(&self) -> Vec<LiveFile> {
        let families = self.inner().families.all();
        let of_family = |family: &Arc<ColumnFamilyData>| live_files_of(family);
        families.iter().flat_map(of_family).collect()
    }

    /// Returns the blob files of all column families.
    #[must_use]
    pub fn live_blob_files(&self) -> Vec<LiveBlobFile> {
        let families = self.inner().families.all();
        let of_family = |family: &Arc<ColumnFamilyData>| live_blob_files_of(family);
        families.iter().flat_map(of_family).collect()
    }

    /// Returns the archived and live logs, by number (RocksDB: `GetSortedWalFiles`).
    ///
    /// # Errors
    /// `ShutdownInProgress`; errors of the file system.
    pub fn log_files(&self) -> Result<Vec<LogFile>> {
        self.inner().health.check_open()?;
        log_files(&self.inner().commit)
    }

    /// Reads the sequence number of the first batch of a log; `None` if it has none.
    ///
    /// # Errors
    /// `NotFound` if the log was removed meanwhile; `Corruption`; errors of the file system.
    pub fn first_seqno_of_log(&self, log: &LogFile) -> Result<Option<SeqNo>> {
        self.inner().health.check_open()?;
        logs::first_seqno(&self.inner().context, log.number)
    }

    /// Captures the files for another backup tool (RocksDB: `GetLiveFilesStorageInfo`).
    ///
    /// # Errors
    /// See [`Db::flush`]; errors of the file system.
    pub fn live_storage(&self, flush: FlushPolicy) -> Result<LiveStorage> {
        live_storage(&self.inner().commit, flush)
    }
}

impl ColumnFamily {
    /// Returns the tables of the column family. Tables that were not read yet are opened.
    #[must_use]
    pub fn live_files(&self) -> Vec<LiveFile> {
        live_files_of(self.data())
    }

    /// Returns the blob files of the column family.
    #[must_use]
    pub fn live_blob_files(&self) -> Vec<LiveBlobFile> {
        live_blob_files_of(self.data())
    }
}

/// Returns the live blob files of a column family, by number.
fn live_blob_files_of(family: &ColumnFamilyData) -> Vec<LiveBlobFile> {
    let version = family.version();
    let live = |file: &BlobFileMeta| {
        let (file_checksum, file_checksum_func_name) =
            checksum(&file.checksum, &file.checksum_name);
        let path = family.tables.paths().blob(file.number);
        LiveBlobFile {
            column_family: family.name.to_string(),
            name: format!("/{:06}.blob", file.number),
            directory: path.parent().map(Path::to_owned).unwrap_or_default(),
            number: file.number,
            bytes: file.file_bytes(),
            total_count: file.count,
            total_bytes: file.bytes,
            garbage_count: file.garbage_count,
            garbage_bytes: file.garbage_bytes,
            file_checksum,
            file_checksum_func_name,
        }
    };
    version.blob_files.values().map(live).collect()
}

/// Returns the live tables of a column family.
fn live_files_of(family: &ColumnFamilyData) -> Vec<LiveFile> {
    let version = family.version();
    let files = version.files();
    files
        .map(|(level, file)| {
            // A table that cannot be opened is listed without its numbers of entries.
            let _ = family.tables.reader(file, level);
            live_file(family, level, file)
        })
        .collect()
}

/// Returns the archived and live logs.
fn log_files(commit: &CommitPipeline) -> Result<Vec<LogFile>> {
    let mut logs = Vec::new();
    let archive = koeldb_log::wal::archive_directory(&commit.context.wal_dir);
    if commit.context.fs.exists(&archive)? {
        for entry in commit.context.fs.list(&archive)? {
            if let Some(FileKind::Wal(number)) = file_name::parse(&entry.name) {
                let path = archive.join(&entry.name);
                logs.push(LogFile {
                    number,
                    bytes: commit.context.fs.metadata(&path)?.len,
                    path,
                    is_archived: true,
                    is_open: false,
                });
            }
        }
    }
    logs.sort_by_key(|log| log.number);
    let (open, closed) = {
        let leadership = commit.queue.lead();
        let wal = leadership.commit.wal.as_ref();
        let open = wal.map(|wal| (wal.number, wal.writer.len()));
        (open, commit.wals.closed())
    };
    let live = |&(number, bytes): &(FileNumber, u64)| LogFile {
        number,
        path: file_name::wal(&commit.context.wal_dir, number),
        bytes,
        is_archived: false,
        is_open: open.is_some_and(|(open, _)| open == number),
    };
    let mut current: Vec<LogFile> = closed.iter().chain(&open).map(live).collect();
    current.sort_by_key(|log| log.number);
    logs.extend(current);
    Ok(logs)
}

/// Captures the files of the database for a copy by another tool.
fn live_storage(commit: &CommitPipeline, flush: FlushPolicy) -> Result<LiveStorage> {
    let capture = commit.capture(flush)?;
    let mut files = Vec::new();
    let captured = capture.tables(&commit.context)?.into_iter();
    for file in captured.chain(capture.other_files(&commit.context)?) {
        let kind = match file_name::parse(&file.name) {
            Some(FileKind::Wal(_)) => StorageFileKind::Wal,
            Some(FileKind::Options(_)) => StorageFileKind::Options,
            Some(FileKind::Blob(_)) => StorageFileKind::Blob,
            _ => StorageFileKind::Table,
        };
        let (sum, function) = match (&file.table, &file.blob) {
            (Some(table), _) => checksum(&table.meta.checksum, &table.meta.checksum_name),
            (None, Some(blob)) => checksum(&blob.checksum, &blob.checksum_name),
            (None, None) => Default::default(),
        };
        files.push(StorageFile {
            relative_name: file.name,
            path: Some(file.source),
            bytes: file.bytes,
            kind,
            is_constant: file.is_constant,
            contents: None,
            file_checksum: sum,
            file_checksum_func_name: function,
        });
    }
    files.extend(manifest_and_current(&capture)?);
    Ok(LiveStorage {
        sequence_number: capture.seqno,
        files,
        _capture: CaptureGuard(capture),
    })
}

/// Returns the MANIFEST and CURRENT files of a capture, with their contents in memory.
fn manifest_and_current(capture: &Capture) -> Result<Vec<StorageFile>> {
    let memory = koeldb_fs::MemoryFileSystem::new();
    let root = Path::new("/");
    write_manifest(&memory, root, capture)?;
    let read =
        |path: &Path| koeldb_fs::FileSystem::read_all(&memory, path, u64::MAX, Purpose::Checkpoint);
    let file = |path: PathBuf, kind| -> Result<StorageFile> {
        let contents = read(&path)?;
        let name = path.file_name().unwrap_or_default();
        Ok(StorageFile {
            relative_name: name.to_string_lossy().into_owned(),
            path: None,
            bytes: contents.len() as u64,
            kind,
            is_constant: false,
            contents: Some(contents),
            file_checksum: Vec::new(),
            file_checksum_func_name: String::new(),
        })
    };
    let manifest = file_name::manifest(root, capture.manifest_number);
    Ok(vec![
        file(manifest, StorageFileKind::Manifest)?,
        file(file_name::current(root), StorageFileKind::Current)?,
    ])
}

/// Returns a checksum of a whole file and the name of its function, as their public forms.
fn checksum(sum: &[u8], function: &[u8]) -> (Vec<u8>, String) {
    let function = String::from_utf8_lossy(function).into_owned();
    (sum.to_vec(), function)
}

/// Returns the description of a live table.
fn live_file(family: &ColumnFamilyData, level: usize, file: &FileMeta) -> LiveFile {
    let (file_checksum, file_checksum_func_name) = checksum(&file.checksum, &file.checksum_name);
    LiveFile {
        column_family: family.name.to_string(),
        name: format!("/{:06}.sst", file.number),
        directory: family.tables.paths().directory(file.path_id).to_owned(),
        number: file.number,
        level,
        bytes: file.bytes,
        smallest_key: file.smallest_user_key().to_vec(),
        largest_key: file.largest_user_key().to_vec(),
        smallest_seqno: file.smallest_seqno,
        largest_seqno: file.largest_seqno,
        entries: file.entry_stats.entries.load(Ordering::Relaxed),
        deletions: file.entry_stats.deletions.load(Ordering::Relaxed),
        epoch: file.epoch,
        oldest_blob_file: file.oldest_blob_file,
        creation_time: file.creation_time,
        oldest_ancestor_time: file.ancestor_time(),
        file_checksum,
        file_checksum_func_name,
        temperature: file.temperature,
        being_compacted: file.is_being_compacted(),
        marked_for_compaction: file.marked_for_compaction,
    }
}
