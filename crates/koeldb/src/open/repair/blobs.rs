//! Blob files: their records, the references of tables to them, and copies of files that lack their
//! end.
//!
//! A file with header and footer is kept as it is. One that was cut short gets a copy with the records
//! in front of the cut and a footer; the original is kept in `lost`. References to values that are
//! nowhere are reported and kept: the file that they name is as long as they say, with zeros in that
//! place, so that reads fail, and compactions can count the references.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::codec::Compression;
use koeldb_base::coding::to_usize;
use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::{Error, Limits, Result};
use koeldb_fs::{FileSystem, Purpose, WriteOptions};
use koeldb_lsm::manifest::{ColumnFamilySnapshot, ManifestSnapshot};
use koeldb_lsm::version::BlobFileMeta;
use koeldb_lsm::{DataPaths, FileMeta, Version};
use koeldb_table::blob::format::{BlobFooter, BlobHeader, FOOTER_BYTES, HEADER_BYTES};
use koeldb_table::blob::{
    BlobFile, BlobFileContext, BlobKey, BlobRecords, BlobReference, read_ends,
};
use koeldb_table::file_read::read_bytes;

use super::lost::LostFiles;
use super::{LostValue, RepairReport, kinds, names_of_ours, tables};
use crate::options::Options;

/// The size of one read or write of a copy.
const PIECE_BYTES: u64 = 1 << 20;

/// The largest number of zeros that are written in place of values that are nowhere.
const PADDING_BYTES_MAX: u64 = 64 << 30;

/// A value in a blob file that was read.
struct FoundValue {
    offset: u64,
    bytes: u64,
    /// Whether it has the checksum of its record.
    is_intact: bool,
}

/// A blob file that was read completely.
struct FoundBlobFile {
    path: PathBuf,
    header: BlobHeader,
    /// The length of the file.
    bytes: u64,
    /// The number of records in the footer; `None` if there is no footer.
    count: Option<u64>,
    /// The values of all records in order.
    values: Vec<FoundValue>,
    /// The offset behind the last record that could be read.
    end: u64,
}

impl FoundBlobFile {
    /// Whether the file counts a record for a reference, and whether that is intact.
    fn has(
        &self,
        fs: &dyn FileSystem,
        key: &BlobKey<'_>,
        reference: &BlobReference,
    ) -> Result<(bool, bool)> {
        let at = |value: &FoundValue| value.offset.cmp(&reference.offset);
        if let Ok(index) = self.values.binary_search_by(at) {
            let value = self.values.get(index);
            let value = value.filter(|value| value.bytes == reference.bytes);
            let is_same_codec = reference.compression == self.header.compression;
            let is_intact = value.is_some_and(|value| value.is_intact);
            return Ok((value.is_some(), is_same_codec && is_intact));
        }
        // The records behind one whose header is damaged were not found, but are counted.
        let Some(count) = self.count.filter(|_| reference.offset > self.end) else {
            return Ok((false, false));
        };
        let context = BlobFileContext {
            number: reference.file,
            count,
            record_bytes: self.bytes.saturating_sub(HEADER_BYTES + FOOTER_BYTES),
            limits: Limits::default(),
        };
        let file = BlobFile::open(tables::open_file(fs, &self.path)?, &context)?;
        if file.checked_range(reference, key, true).is_err() {
            return Ok((false, false));
        }
        match file.value(reference, key, true) {
            Ok(_) => Ok((true, true)),
            Err(error) if error.is_corruption() => Ok((true, false)),
            Err(error) => Err(error),
        }
    }
}

/// The references of the tables of a column family to a blob file.
struct Uses {
    count: u64,
    /// The size of the records.
    bytes: u64,
    /// The largest offset behind a value.
    end: u64,
    compression: Compression,
    /// The number of references for which the file has no record.
    dangling: u64,
}

/// The blob files of a database that is repaired.
pub(super) struct FoundBlobFiles<'a> {
    fs: &'a dyn FileSystem,
    paths: &'a DataPaths,
    files: BTreeMap<FileNumber, FoundBlobFile>,
}

impl<'a> FoundBlobFiles<'a> {
    /// Reads all blob files; moves those without a header to `lost`.
    ///
    /// # Errors
    /// `NotSupported` for files of the older `BlobDB`; `InvalidArgument` if one is in another directory
    /// than the first of `paths`; otherwise if the system fails.
    pub(super) fn read(
        fs: &'a dyn FileSystem,
        path: &Path,
        paths: &'a DataPaths,
        lost: &mut LostFiles<'_>,
    ) -> Result<Self> {
        let mut found = FoundBlobFiles {
            fs,
            paths,
            files: BTreeMap::new(),
        };
        let mut seen = BTreeSet::new();
        let own = paths.blob(0);
        let first = own.parent().unwrap_or(path);
        for directory in std::iter::once(path).chain(paths.directories()) {
            for kind in kinds(&names_of_ours(fs, directory)?) {
                let FileKind::Blob(number) = kind else {
                    continue;
                };
                let file = file_name::blob(directory, number);
                if fs.absolute(directory)? != fs.absolute(first)? {
                    return Err(Error::invalid_argument(format!(
                        "blob files are in the first directory of db_paths, {}",
                        first.display()
                    ))
                    .in_file(&file, None, "repair"));
                }
                // The directory of the database may be one of those.
                if !seen.insert(number) {
                    continue;
                }
                match found.examine(&file) {
                    Ok(examined) => drop(found.files.insert(number, examined)),
                    Err(error) if error.is_corruption() => {
                        lost.set_aside(&file, error.without_advice())?;
                    }
                    Err(error) => return Err(error.in_file(&file, None, "repair")),
                }
            }
        }
        Ok(found)
    }

    /// Reads a blob file completely.
    fn examine(&self, path: &Path) -> Result<FoundBlobFile> {
        let file = tables::open_file(self.fs, path)?;
        let bytes = file.len();
        let (header, footer) = read_ends(&*file)?;
        let count = match footer {
            Ok(footer) => Some(footer.count),
            Err(error) if error.is_corruption() => None,
            Err(error) => return Err(error),
        };
        let values_end = match count {
            Some(_) => bytes.saturating_sub(FOOTER_BYTES),
            None => bytes,
        };
        let mut records = BlobRecords::new(file, values_end, Limits::default());
        let mut values = Vec::new();
        loop {
            match records.next_record() {
                Ok(Some(record)) => values.push(FoundValue {
                    offset: record.offset,
                    bytes: record.stored.len() as u64,
                    is_intact: record.is_intact,
                }),
                Ok(None) => break,
                Err(error) if error.is_corruption() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(FoundBlobFile {
            path: path.to_owned(),
            header,
            bytes,
            count,
            values,
            end: records.offset(),
        })
    }

    /// Adds the blob files to which tables refer to the snapshot, and moves the others to `lost`.
    ///
    /// The files are durable then, except for names that [`LostFiles::make_durable`] changes.
    pub(super) fn describe(
        mut self,
        snapshot: &mut ManifestSnapshot,
        options: &Options,
        lost: &mut LostFiles<'_>,
        report: &mut RepairReport,
    ) -> Result<()> {
        for family in &mut snapshot.families {
            let uses = self.uses_of(family, options, report)?;
            if uses.is_empty() {
                continue;
            }
            let old = &family.version;
            let mut version = Version::new(old.order.clone(), old.levels.clone());
            for (number, uses) in uses {
                let file = self.files.remove(&number);
                let meta = self.keep(number, file.as_ref(), &uses, family.id, lost)?;
                version.blob_files.insert(number, meta);
                report.blob_files.push(number);
            }
            family.version = Arc::new(version);
        }
        for file in self.files.values() {
            lost.set_aside(&file.path, "no table refers to it")?;
        }
        Ok(())
    }

    /// Returns the references of the tables of a column family, by blob file.
    fn uses_of(
        &self,
        family: &ColumnFamilySnapshot,
        options: &Options,
        report: &mut RepairReport,
    ) -> Result<BTreeMap<FileNumber, Uses>> {
        let mut all: BTreeMap<FileNumber, Uses> = BTreeMap::new();
        let refers = |file: &&Arc<FileMeta>| file.oldest_blob_file != 0;
        let order = &family.version.order;
        let tables = family.version.files().map(|(_, file)| file);
        for table in tables.filter(refers) {
            let path = self.paths.of_table(table);
            tables::each_reference(self.fs, &path, table, options, |key, reference| {
                let (has_record, is_intact) = match self.files.get(&reference.file) {
                    Some(file) => file.has(self.fs, &BlobKey::of_entry(order, key), &reference)?,
                    None => (false, false),
                };
                let uses = all.entry(reference.file).or_insert(Uses {
                    count: 0,
                    bytes: 0,
                    end: HEADER_BYTES,
                    compression: reference.compression,
                    dangling: 0,
                });
                uses.count += 1;
                uses.bytes = uses.bytes.saturating_add(reference.record_bytes(key.len()));
                uses.end = uses
                    .end
                    .max(reference.offset.saturating_add(reference.bytes));
                uses.dangling += u64::from(!has_record);
                if !is_intact {
                    report.lost_values.push(LostValue {
                        column_family: family.name.clone(),
                        key: key.to_vec(),
                        table: table.number,
                        blob_file: reference.file,
                        offset: reference.offset,
                        bytes: reference.bytes,
                    });
                }
                Ok(())
            })?;
        }
        Ok(all)
    }

    /// Makes a blob file that has room for all references to it, and returns its metadata.
    fn keep(
        &self,
        number: FileNumber,
        found: Option<&FoundBlobFile>,
        uses: &Uses,
        family: u32,
        lost: &mut LostFiles<'_>,
    ) -> Result<BlobFileMeta> {
        let path = self.paths.blob(number);
        let (records, end) = match found {
            Some(file) => (
                file.count.unwrap_or(file.values.len() as u64),
                match file.count {
                    Some(_) => file.bytes.saturating_sub(FOOTER_BYTES),
                    None => file.end,
                },
            ),
            None => (0, HEADER_BYTES),
        };
        let count = records.saturating_add(uses.dangling).max(uses.count);
        let needed = uses.end.max(HEADER_BYTES.saturating_add(uses.bytes));
        let new_end = end.max(needed);
        let is_whole = found.is_some_and(|file| file.count == Some(count) && new_end == end);
        if is_whole {
            super::make_durable(self.fs, &path)?;
        } else {
            if new_end.saturating_sub(end) > PADDING_BYTES_MAX {
                return Err(Error::corruption(format!(
                    "a table refers to offset {new_end} of the blob file"
                ))
                .in_file(&path, None, "repair"));
            }
            let header = match found {
                Some(file) => file.header,
                None => BlobHeader {
                    column_family_id: family,
                    compression: uses.compression,
                },
            };
            let copy = file_name::temporary(path.parent().unwrap_or(Path::new("")), number);
            let source = found.map(|file| (&*file.path, end));
            self.write_copy(&copy, source, header, new_end, count)?;
            let why = match found {
                Some(file) if file.count.is_none() => format!(
                    "it has no footer: the first {} records are in the database",
                    file.values.len()
                ),
                _ => "tables refer to more values than it has".to_owned(),
            };
            lost.replace(&path, copy, why, found.is_some())?;
        }
        let bytes = new_end.saturating_sub(HEADER_BYTES);
        Ok(BlobFileMeta {
            number,
            count,
            bytes,
            checksum_name: Vec::new(),
            checksum: Vec::new(),
            garbage_count: count.saturating_sub(uses.count),
            garbage_bytes: bytes.saturating_sub(uses.bytes),
            reader: Default::default(),
        })
    }

    /// Writes a copy of the records in front of an offset, zeros up to `end`, and a footer.
    fn write_copy(
        &self,
        copy: &Path,
        source: Option<(&Path, u64)>,
        header: BlobHeader,
        end: u64,
        count: u64,
    ) -> Result<()> {
        match self.fs.remove_file(copy) {
            Err(error) if !error.is_path_not_found() => return Err(error),
            _ => {}
        }
        let mut file = self.fs.create(copy, &WriteOptions::new(Purpose::Other))?;
        file.append(&header.encode())?;
        let mut at = HEADER_BYTES;
        if let Some((path, source_end)) = source {
            let source = tables::open_file(self.fs, path)?;
            while at < source_end {
                let part = PIECE_BYTES.min(source_end - at);
                file.append(&read_bytes(&*source, at, to_usize(part))?)?;
                at += part;
            }
        }
        let zeros = vec![0; to_usize(PIECE_BYTES)];
        while at < end {
            let part = PIECE_BYTES.min(end - at);
            file.append(zeros.get(..to_usize(part)).unwrap_or_default())?;
            at += part;
        }
        file.append(&BlobFooter { count }.encode())?;
        file.sync_all()?;
        file.close()
    }
}
