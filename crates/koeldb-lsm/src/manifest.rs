//! The MANIFEST: the log of all version edits.
//!
//! It begins with a snapshot, which consists of the edits that recreate the state at that time;
//! each later record is one change. Edits that must take effect together form an atomic group of
//! consecutive records. A new MANIFEST is in force once CURRENT names it.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use std::path::Path;
use std::sync::Arc;

use koeldb_base::error::advice::LOST_FILE;
use koeldb_base::file_name::{self, FileNumber};
use koeldb_base::{Error, Result, SeqNo};
use koeldb_fs::{AccessHint, FileSystem, OpenOptions, Purpose, RandomAccessFile, WriteOptions};
use koeldb_log::{Problem, RecordReader, RecordWriter, RecordWriterOptions, RecoveryMode};

use crate::current::write_current;
use crate::version::Version;
use crate::version::edit::{BlobGarbage, ColumnFamilyChange, VersionEdit, WalAddition};

/// A reader of the version edits of a MANIFEST, which returns each atomic group as a whole.
#[derive(Debug)]
pub struct ManifestReader {
    records: RecordReader,
    /// The edits read of an incomplete atomic group.
    group: Vec<VersionEdit>,
}

impl ManifestReader {
    /// Opens MANIFEST `number` of `directory`.
    ///
    /// # Errors
    /// `Corruption` if it does not exist; otherwise if the system fails.
    pub fn open(fs: &dyn FileSystem, directory: &Path, number: FileNumber) -> Result<Self> {
        Self::open_file(fs, &file_name::manifest(directory, number))
    }

    /// Opens the MANIFEST with this path, whatever its name.
    ///
    /// # Errors
    /// See [`ManifestReader::open`].
    pub fn open_file(fs: &dyn FileSystem, path: &Path) -> Result<Self> {
        let file = open(fs, path)?;
        Ok(ManifestReader {
            records: RecordReader::new(file, 0, RecoveryMode::TolerateCorruptedTailRecords),
            group: Vec::new(),
        })
    }

    /// Sets the readahead size of the MANIFEST file; 0 means the default.
    pub fn set_readahead_bytes(&mut self, bytes: usize) {
        self.records.set_readahead_bytes(bytes);
    }

    /// Resumes reading at the end, after another process may have appended edits.
    ///
    /// An incomplete record or group is read on. Returns whether there is more to read.
    ///
    /// # Errors
    /// See [`ManifestReader::open`].
    pub fn resume(
        &mut self,
        fs: &dyn FileSystem,
        directory: &Path,
        number: FileNumber,
    ) -> Result<bool> {
        let file = open(fs, &file_name::manifest(directory, number))?;
        let known = self.records.file().len();
        if file.len() < known {
            let error = Error::corruption(format!("the MANIFEST had {known} bytes before"));
            return Err(error.in_file(file.path(), Some(file.len()), "read"));
        }
        if file.len() == known {
            return Ok(false);
        }
        self.records.resume(file)?;
        Ok(true)
    }

    /// Reads the next edit or atomic group of edits; `None` at the end of the MANIFEST.
    ///
    /// A truncated group at the end has no effect.
    ///
    /// # Errors
    /// `Corruption` for damage other than an incomplete record at the end; otherwise if the system
    /// fails.
    pub fn next_edits(&mut self) -> Result<Option<Vec<VersionEdit>>> {
        loop {
            let Some(record) = self.records.next_record()? else {
                return match self.records.take_problem() {
                    Some(problem) => Err(problem.to_error(&**self.records.file())),
                    None => Ok(None),
                };
            };
            let decoded = VersionEdit::decode(record);
            let edit = decoded.map_err(|error| self.located(error))?;
            let complete = self.collect(edit).map_err(|error| self.located(error))?;
            if complete {
                return Ok(Some(std::mem::take(&mut self.group)));
            }
        }
    }

    /// Adds the MANIFEST path and the offset of the last record to an error.
    pub(crate) fn located(&self, error: Error) -> Error {
        let offset = self.records.last_record().start;
        error.in_file(self.records.file().path(), Some(offset), "read")
    }

    /// Adds an edit to the pending atomic group; returns whether the group is complete.
    fn collect(&mut self, edit: VersionEdit) -> Result<bool> {
        let expected = match self.group.last() {
            Some(last) => last
                .remaining_in_group
                .and_then(|remaining| remaining.checked_sub(1)),
            None => edit.remaining_in_group,
        };
        if edit.remaining_in_group != expected {
            return Err(Error::corruption(format!(
                "corrupted atomic group: an edit announces {:?} more, expected {expected:?}",
                edit.remaining_in_group
            )));
        }
        self.group.push(edit);
        Ok(matches!(expected, None | Some(0)))
    }

    /// The incomplete last record, which was dropped; `None` before the end or without one.
    #[must_use]
    pub fn dropped_tail(&self) -> Option<&Problem> {
        self.records.tolerated_tail()
    }

    /// The edits of an incomplete atomic group at the end, which have no effect.
    #[must_use]
    pub fn dropped_group(&self) -> &[VersionEdit] {
        &self.group
    }
}

/// Opens the file of MANIFEST `number` of `directory`; `Corruption` if it does not exist.
fn open(fs: &dyn FileSystem, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
    let options = OpenOptions {
        purpose: Purpose::Open,
        hint: AccessHint::Sequential,
        ..OpenOptions::default()
    };
    fs.open(path, &options).map_err(|error| {
        if error.is_path_not_found() {
            Error::corruption("CURRENT names a MANIFEST that does not exist")
                .with_advice(LOST_FILE)
                .in_file(path, None, "open")
        } else {
            error
        }
    })
}

/// The state of a database that the edits at the start of a new MANIFEST record.
#[derive(Clone, Debug, Default)]
pub struct ManifestSnapshot {
    /// The id of the database; omitted if absent.
    pub db_id: Option<String>,
    /// The tracked logs.
    pub wals: Vec<WalAddition>,
    /// The number below which no column family needs a log.
    pub min_log_number_to_keep: FileNumber,
    /// The largest id that a family ever had.
    pub max_column_family: u32,
    /// The last sequence number in use.
    pub last_seqno: SeqNo,
    /// All families, by id.
    pub families: Vec<ColumnFamilySnapshot>,
    /// Whether it describes a copy with all tables in the directory of the MANIFEST, wherever the
    /// tables of the database are.
    pub in_one_directory: bool,
}

/// The state of a column family that the edits at the start of a new MANIFEST record.
#[derive(Clone, Debug)]
pub struct ColumnFamilySnapshot {
    /// The id of the column family.
    pub id: u32,
    /// The name of the column family.
    pub name: String,
    /// The log number below which all data of the column family is in its tables.
    pub log_number: FileNumber,
    /// The tables and the key order of the column family.
    pub version: Arc<Version>,
}

impl ManifestSnapshot {
    /// Returns the version edits that recreate this state (RocksDB: `WriteCurrentStateToManifest`).
    ///
    /// They lack the next file number, which every ordinary edit has.
    #[must_use]
    pub fn edits(&self) -> Vec<VersionEdit> {
        let mut edits = Vec::new();
        if let Some(db_id) = &self.db_id {
            edits.push(VersionEdit {
                db_id: Some(db_id.as_bytes().to_vec()),
                ..VersionEdit::default()
            });
        }
        if !self.wals.is_empty() {
            edits.push(VersionEdit {
                wal_additions: self.wals.clone(),
                ..VersionEdit::default()
            });
            if self.min_log_number_to_keep > 0 {
                edits.push(VersionEdit {
                    wal_deletion: Some(self.min_log_number_to_keep),
                    ..VersionEdit::default()
                });
            }
        }
        for family in &self.families {
            edits.push(VersionEdit {
                comparator: Some(family.version.order.name().to_owned()),
                persist_timestamps: Some(family.version.persists_timestamps),
                family_change: (family.id != 0)
                    .then(|| ColumnFamilyChange::Add(family.name.clone())),
                ..VersionEdit::of(family.id)
            });
            edits.push(self.family_files(family));
        }
        edits
    }

    /// Returns the edit that adds the files, compact cursors and log number of a column family.
    fn family_files(&self, family: &ColumnFamilySnapshot) -> VersionEdit {
        let blob_files = family.version.blob_files.values();
        let min_log_number = self.min_log_number_to_keep;
        let compact_cursors = &family.version.compact_cursors;
        VersionEdit {
            compact_cursors: compact_cursors
                .iter()
                .map(|(&level, key)| (level, key.clone()))
                .collect(),
            added_files: family
                .version
                .files()
                .map(
                    |(level, file)| match self.in_one_directory && file.path_id != 0 {
                        true => (level, Arc::new(file.in_first_path())),
                        false => (level, Arc::clone(file)),
                    },
                )
                .collect(),
            added_blob_files: blob_files.clone().cloned().collect(),
            blob_garbage: blob_files
                .filter(|file| file.garbage_count > 0)
                .map(|file| BlobGarbage {
                    number: file.number,
                    count: file.garbage_count,
                    bytes: file.garbage_bytes,
                })
                .collect(),
            log_number: Some(family.log_number),
            full_history_ts_low: family.version.full_history_ts_low.map(|low| low.to_vec()),
            min_log_number_to_keep: (family.id == 0 && min_log_number > 0)
                .then_some(min_log_number),
            last_seqno: Some(self.last_seqno),
            ..VersionEdit::of(family.id)
        }
    }
}

/// The size in bytes of the record in which a MANIFEST records its own size.
const SIZE_RECORD_BYTES: u64 = 15;

/// Creates MANIFEST `number` from a snapshot and further edits, durably; CURRENT stays unchanged.
///
/// Returns its writer, for later edits.
///
/// # Errors
/// If the system fails; the file is then removed again, if possible.
pub fn write(
    fs: &dyn FileSystem,
    directory: &Path,
    number: FileNumber,
    file_options: &WriteOptions,
    snapshot: &ManifestSnapshot,
    edits: &[VersionEdit],
) -> Result<RecordWriter> {
    let path = file_name::manifest(directory, number);
    let written = write_records(fs, &path, file_options, snapshot, edits).and_then(|records| {
        fs.sync_dir(directory)?;
        Ok(records)
    });
    if written.is_err() {
        // The first failure is reported. A remaining file is removed when the database opens.
        let _ = fs.remove_file(&path);
    }
    written
}

/// Creates the MANIFEST at `path` with the snapshot and `edits` as records, and syncs it.
fn write_records(
    fs: &dyn FileSystem,
    path: &Path,
    file_options: &WriteOptions,
    snapshot: &ManifestSnapshot,
    edits: &[VersionEdit],
) -> Result<RecordWriter> {
    let file = fs.create(path, file_options)?;
    let mut records = RecordWriter::new(file, RecordWriterOptions::default())?;
    let mut record = Vec::new();
    for edit in snapshot.edits() {
        append(&mut records, &edit, &mut record)?;
    }
    if !snapshot.families.is_empty() {
        let size = VersionEdit {
            compacted_manifest_bytes: Some(records.len().saturating_add(SIZE_RECORD_BYTES)),
            ..VersionEdit::default()
        };
        append(&mut records, &size, &mut record)?;
    }
    for edit in edits {
        append(&mut records, edit, &mut record)?;
    }
    records.sync()?;
    Ok(records)
}

/// Appends a version edit to a MANIFEST as one record, encoded in the buffer `record`.
pub(crate) fn append(
    records: &mut RecordWriter,
    edit: &VersionEdit,
    record: &mut Vec<u8>,
) -> Result<()> {
    record.clear();
    edit.encode(record);
    records.add_record(record)
}

/// Appends version edits to a MANIFEST; syncs only where an edit starts in a new block.
///
/// No edit begins in a later block than unsynced ones: a crash could lose these and keep it, which
/// recovery cannot tell from damage.
pub(crate) fn append_all(
    records: &mut RecordWriter,
    edits: &[VersionEdit],
    record: &mut Vec<u8>,
) -> Result<()> {
    let mut unsynced_from = records.next_block();
    for edit in edits {
        if records.next_block() > unsynced_from {
            records.sync()?;
            unsynced_from = records.next_block();
        }
        append(records, edit, record)?;
    }
    Ok(())
}

/// Writes a MANIFEST with a repaired state and points CURRENT at it.
///
/// # Errors
/// If the system fails.
pub fn install(
    fs: &dyn FileSystem,
    directory: &Path,
    number: FileNumber,
    next_file_number: FileNumber,
    snapshot: &ManifestSnapshot,
) -> Result<()> {
    let counters = VersionEdit {
        prev_log_number: Some(0),
        next_file_number: Some(next_file_number),
        max_column_family: (snapshot.max_column_family > 0).then_some(snapshot.max_column_family),
        last_seqno: Some(snapshot.last_seqno),
        ..VersionEdit::default()
    };
    let file_options = WriteOptions::new(Purpose::Manifest);
    write(fs, directory, number, &file_options, snapshot, &[counters])?.close()?;
    write_current(fs, directory, number)
}

/// Writes the MANIFEST of a new, empty database, and points CURRENT at it.
///
/// # Errors
/// `Corruption` if the directory holds files of a database that lost its CURRENT; otherwise if the
/// system fails.
pub fn create(fs: &dyn FileSystem, directory: &Path, db_id: Option<&str>) -> Result<()> {
    if let Some(found) = remains(fs, directory)? {
        return Err(lost_current(directory, &found));
    }
    let first = VersionEdit {
        db_id: db_id.map(|id| id.as_bytes().to_vec()),
        log_number: Some(0),
        next_file_number: Some(FIRST_MANIFEST.saturating_add(1)),
        last_seqno: Some(0),
        ..VersionEdit::default()
    };
    // An earlier attempt may have left it: without CURRENT it is not in force.
    match fs.remove_file(&file_name::manifest(directory, FIRST_MANIFEST)) {
        Err(error) if !error.is_path_not_found() => return Err(error),
        _ => {}
    }
    let snapshot = ManifestSnapshot::default();
    let file_options = WriteOptions::new(Purpose::Manifest);
    write(
        fs,
        directory,
        FIRST_MANIFEST,
        &file_options,
        &snapshot,
        &[first],
    )?
    .close()?;
    write_current(fs, directory, FIRST_MANIFEST)
}

const FIRST_MANIFEST: FileNumber = 1;

/// Describes database files found in a directory without CURRENT; `None` if there are none.
///
/// A lone first MANIFEST is none of them: a creation that was interrupted leaves it.
///
/// # Errors
/// If the directory cannot be listed.
pub fn remains(fs: &dyn FileSystem, directory: &Path) -> Result<Option<String>> {
    use file_name::FileKind::{Blob, Manifest, Table, Wal};
    let (mut tables, mut logs, mut blobs) = (0_usize, 0_usize, 0_usize);
    let mut manifest = None;
    for entry in fs.list(directory)? {
        let count = match file_name::parse(&entry.name) {
            Some(Table(_)) => &mut tables,
            Some(Wal(_)) => &mut logs,
            Some(Blob(_)) => &mut blobs,
            Some(Manifest(number)) if number != FIRST_MANIFEST => {
                manifest = manifest.max(Some(entry.name));
                continue;
            }
            _ => continue,
        };
        *count = count.saturating_add(1);
    }
    let counts = [(tables, "table"), (logs, "log"), (blobs, "blob file")];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let found: Vec<String> = counts
        .map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }))
        .chain(manifest)
        .collect();
    Ok((!found.is_empty()).then(|| found.join(", ")))
}

/// Returns the error for a directory with the files `found` of a database but no CURRENT.
#[must_use]
pub fn lost_current(directory: &Path, found: &str) -> Error {
    Error::corruption(format!(
        "CURRENT is missing, but the directory holds {found}"
    ))
    .with_advice("restore a backup, or run `ldb repair`, which writes CURRENT and MANIFEST anew")
    .in_file(directory, None, "open")
}

#[cfg(test)]
mod tests;
