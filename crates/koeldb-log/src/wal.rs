//! The files of the write-ahead log.
//!
//! Each log is `NUMBER.log`; a larger number is newer. Archived logs are in the subdirectory
//! `archive/` and are never replayed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::Result;
use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_fs::small_file::{copy, create_dir_durably, second_name};
use koeldb_fs::{AccessHint, FileSystem, OpenOptions, Purpose, RandomAccessFile, WriteOptions};

use crate::reader::{RecordReader, RecoveryMode};
use crate::writer::{RecordWriter, RecordWriterOptions};

/// Returns the numbers of the WAL files in `directory`, in ascending order.
///
/// # Errors
/// If the directory cannot be listed.
pub fn list(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<FileNumber>> {
    let mut numbers: Vec<FileNumber> = fs
        .list(directory)?
        .iter()
        .filter_map(|entry| match file_name::parse(&entry.name) {
            Some(FileKind::Wal(number)) => Some(number),
            _ => None,
        })
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Opens WAL `number` of `directory` as a record reader for replay.
///
/// # Errors
/// If it cannot be opened.
pub fn open(
    fs: &dyn FileSystem,
    directory: &Path,
    number: FileNumber,
    mode: RecoveryMode,
) -> Result<RecordReader> {
    let file = open_file(fs, directory, number)?;
    Ok(RecordReader::new(file, number, mode))
}

/// Opens the file of WAL `number` of `directory` for sequential reading.
///
/// # Errors
/// If it cannot be opened.
pub fn open_file(
    fs: &dyn FileSystem,
    directory: &Path,
    number: FileNumber,
) -> Result<Arc<dyn RandomAccessFile>> {
    let options = OpenOptions {
        purpose: Purpose::Open,
        hint: AccessHint::Sequential,
        ..OpenOptions::default()
    };
    fs.open(&file_name::wal(directory, number), &options)
}

/// Returns the path of the `archive` directory, whose WAL files are not replayed.
#[must_use]
pub fn archive_directory(directory: &Path) -> PathBuf {
    directory.join("archive")
}

/// Hard-links WAL `number` into the archive directory durably, unless it is there.
///
/// A file system without hard links gets a copy.
///
/// # Errors
/// If the system fails.
pub fn keep_in_archive(fs: &dyn FileSystem, directory: &Path, number: FileNumber) -> Result<()> {
    let archive = archive_directory(directory);
    create_dir_durably(fs, &archive)?;
    let log = file_name::wal(directory, number);
    let (kept, exists) = second_name(fs, &log, &archive)?;
    if !exists && fs.link(&log, &kept).is_err() {
        copy(fs, &log, &kept, Purpose::Wal)?;
    }
    fs.sync_dir(&archive)
}

/// A writer of a WAL file, whose first sync also makes the directory entry durable.
#[derive(Debug)]
pub struct WalWriter {
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    number: FileNumber,
    records: RecordWriter,
    /// Whether the directory entry of the log is durable.
    entry_synced: bool,
    /// The number of bytes known to be durable.
    synced_bytes: u64,
}

impl WalWriter {
    /// Creates log `number` in `directory`.
    ///
    /// # Errors
    /// If it exists or the system fails.
    pub fn create(
        fs: Arc<dyn FileSystem>,
        directory: &Path,
        number: FileNumber,
        file_options: &WriteOptions,
        options: RecordWriterOptions,
    ) -> Result<Self> {
        let file = fs.create(&file_name::wal(directory, number), file_options)?;
        Ok(WalWriter {
            records: RecordWriter::new(file, options)?,
            fs,
            directory: directory.to_owned(),
            number,
            entry_synced: false,
            synced_bytes: 0,
        })
    }

    /// The log number.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// The length of the log so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.records.len()
    }

    /// Whether no record was appended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The number of bytes known to be durable.
    #[must_use]
    pub fn synced_bytes(&self) -> u64 {
        self.synced_bytes
    }

    /// Whether all bytes and the directory entry are durable.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.entry_synced && self.synced_bytes == self.len()
    }

    /// Appends one record whose payload is the concatenation of `parts`.
    ///
    /// # Errors
    /// If the file fails, now or earlier.
    pub fn add_record_of(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.records.add_record_of(parts)
    }

    /// Appends one record.
    ///
    /// # Errors
    /// If the file fails, now or earlier.
    pub fn add_record(&mut self, payload: &[u8]) -> Result<()> {
        self.records.add_record(payload)
    }

    /// Flushes all records from the file buffer to the operating system.
    ///
    /// # Errors
    /// If the file fails, now or earlier.
    pub fn flush(&mut self) -> Result<()> {
        self.records.flush()
    }

    /// Makes all bytes durable; the first call includes the directory entry.
    ///
    /// # Errors
    /// If the file fails, now or earlier; the log must then be abandoned.
    pub fn sync(&mut self) -> Result<()> {
        self.records.sync()?;
        if !self.entry_synced {
            self.fs.sync_dir(&self.directory)?;
            self.entry_synced = true;
        }
        self.synced_bytes = self.len();
        Ok(())
    }

    /// Flushes and closes the file.
    ///
    /// # Errors
    /// If the file fails, now or earlier.
    pub fn close(self) -> Result<()> {
        self.records.close()
    }
}

#[cfg(test)]
mod tests {
    use koeldb_fs::{
        Failure, FaultFileSystem, FaultRule, MemoryFileSystem, Operation, SurvivalPolicy,
    };

    use super::*;

    fn write_log(fs: &Arc<dyn FileSystem>, number: FileNumber) -> WalWriter {
        let options = WriteOptions::new(Purpose::Wal);
        let directory = Path::new("/wals");
        let mut log = WalWriter::create(
            Arc::clone(fs),
            directory,
            number,
            &options,
            RecordWriterOptions::default(),
        )
        .unwrap();
        log.add_record_of(&[b"rec", b"ord"]).unwrap();
        log
    }

    #[test]
    fn logs_are_listed_oldest_first_and_archived_ones_not_at_all() {
        let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
        let directory = Path::new("/wals");
        fs.create_dir_all(directory).unwrap();
        for number in [1_000_000, 7, 12] {
            write_log(&fs, number).close().unwrap();
        }
        let options = WriteOptions::default();
        fs.create(&directory.join("000009.sst"), &options).unwrap();
        let archive = archive_directory(directory);
        for _ in 0..2 {
            keep_in_archive(&*fs, directory, 7).unwrap();
        }
        fs.remove_file(&file_name::wal(directory, 7)).unwrap();
        assert_eq!(list(&*fs, directory).unwrap(), [12, 1_000_000]);
        assert_eq!(list(&*fs, &archive).unwrap(), [7]);
        let mut reader = open(&*fs, directory, 12, RecoveryMode::AbsoluteConsistency).unwrap();
        assert_eq!(reader.next_record().unwrap(), Some(&b"record"[..]));
        assert_eq!(reader.next_record().unwrap(), None);
        // Another log with that number never replaces the archived one.
        write_log(&fs, 7).close().unwrap();
        keep_in_archive(&*fs, directory, 7).unwrap();
        let kept = fs.list(&archive).unwrap();
        assert_eq!(kept.len(), 2, "{kept:?}");
        // Without links there is a copy.
        let faults = FaultFileSystem::new(Arc::clone(&fs), 0);
        faults.add_rule(FaultRule::fail(Failure::PermissionDenied).on(&[Operation::Link]));
        keep_in_archive(&faults, directory, 12).unwrap();
        let read = |path| fs.read_all(path, u64::MAX, Purpose::Open).unwrap();
        assert_eq!(
            read(&file_name::wal(&archive, 12)),
            read(&file_name::wal(directory, 12))
        );
    }

    #[test]
    fn a_sync_makes_the_records_and_the_name_durable() {
        let memory = MemoryFileSystem::new();
        memory.create_dir_all(Path::new("/wals")).unwrap();
        memory.sync_dir(Path::new("/")).unwrap();
        let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
        let mut log = write_log(&fs, 3);
        assert!(!log.is_synced());
        let image = memory.crash_image(SurvivalPolicy::Strict, 0);
        assert!(list(&image, Path::new("/wals")).unwrap().is_empty());
        log.sync().unwrap();
        assert!(log.is_synced());
        assert_eq!(log.synced_bytes(), log.len());
        log.add_record(b"unsynced").unwrap();
        assert!(!log.is_synced());
        let image = memory.crash_image(SurvivalPolicy::Strict, 0);
        let mode = RecoveryMode::AbsoluteConsistency;
        let mut reader = open(&image, Path::new("/wals"), 3, mode).unwrap();
        assert_eq!(reader.next_record().unwrap(), Some(&b"record"[..]));
        assert_eq!(reader.next_record().unwrap(), None);
        assert_eq!(reader.take_problem(), None);
    }
}
