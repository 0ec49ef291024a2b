//! The references of the tables of a version to each blob file, by the lists that they record.
//!
//! A table written here lists its references ([`koeldb_table::blob::references`]). Tables of RocksDB
//! do not, and are *opaque*: while a version has one, only the garbage in the MANIFEST is known.
//! Otherwise the references of all tables are what is live, and every other record is garbage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;
use koeldb_table::TableProperties;
use koeldb_table::blob::references::{self, FileReferences};
use koeldb_table::properties::names;

use crate::file_meta::FileMeta;
use crate::version::{BlobGarbage, Version};

/// The references of a table to blob files, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableReferences {
    /// All of them, by ascending file number.
    Exact(Box<[FileReferences]>),
    /// The table does not list them.
    Opaque,
    /// The list of the table is damaged or contradicts the MANIFEST, so that it is as good as none;
    /// with the reason.
    Damaged(String),
}

/// The references of a table at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References<'f> {
    /// All of them, by ascending file number.
    Exact(&'f [FileReferences]),
    /// They cannot be known without reading the table.
    Opaque,
    /// The table was not opened yet.
    Unknown,
}

impl FileMeta {
    /// Returns the references of the table to blob files.
    #[must_use]
    pub fn references(&self) -> References<'_> {
        match self.blob_references.get() {
            Some(TableReferences::Exact(list)) => References::Exact(list),
            Some(TableReferences::Opaque | TableReferences::Damaged(_)) => References::Opaque,
            None if self.oldest_blob_file == 0 => References::Exact(&[]),
            None => References::Unknown,
        }
    }

    /// Records the references that the properties of the table list.
    pub(crate) fn record_references(&self, properties: &TableProperties) {
        let known = || match properties.user(names::BLOB_REFERENCES) {
            None if self.oldest_blob_file == 0 => TableReferences::Exact(Box::default()),
            None => TableReferences::Opaque,
            Some(bytes) => match references::decode(bytes) {
                Ok(list) => {
                    let oldest = list.first().map_or(0, |first| first.file);
                    match oldest == self.oldest_blob_file {
                        true => TableReferences::Exact(list.into()),
                        false => TableReferences::Damaged(format!(
                            "the oldest file that it lists is {oldest:06}, and {:06} in the MANIFEST",
                            self.oldest_blob_file
                        )),
                    }
                }
                Err(error) => TableReferences::Damaged(error.to_string()),
            },
        };
        self.blob_references.get_or_init(known);
    }
}

/// The use of a blob file by the tables of a version. Sizes are those of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobFileUse {
    /// The size of all records.
    pub bytes: u64,
    /// The size of the records that are garbage by the MANIFEST.
    pub garbage_bytes: u64,
    /// The number of references that tables list.
    pub listed: u64,
    /// The size of the records to which these refer.
    pub listed_bytes: u64,
    /// The number of tables that list references.
    pub tables: u64,
    /// The size of these tables.
    pub table_bytes: u64,
}

impl BlobFileUse {
    /// The size of the records that are not garbage by the MANIFEST.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.garbage_bytes)
    }

    /// The share of garbage, from 0 to 1.
    #[must_use]
    pub fn garbage_share(&self) -> f64 {
        match self.bytes {
            0 => 1.0,
            bytes => self.garbage_bytes as f64 / bytes as f64,
        }
    }
}

/// The use of all blob files by the tables of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobSpace {
    /// The use of each blob file of the version.
    pub files: BTreeMap<FileNumber, BlobFileUse>,
    /// The number of tables whose references are not listed, or contradict the version.
    pub opaque_tables: usize,
    /// The number of tables that were not opened yet.
    pub unknown_tables: usize,
    /// Whether tables list more references to a file than it has records that are not garbage.
    pub is_contradictory: bool,
}

impl BlobSpace {
    /// Sums up the references of all tables of `version`.
    fn of(version: &Version) -> Self {
        let mut space = BlobSpace::default();
        for (&number, file) in &version.blob_files {
            let of_file = BlobFileUse {
                bytes: file.bytes,
                garbage_bytes: file.garbage_bytes,
                ..BlobFileUse::default()
            };
            space.files.insert(number, of_file);
        }
        for (_, table) in version.files() {
            match table.references() {
                References::Exact(list) => {
                    let is_known = |one: &FileReferences| space.files.contains_key(&one.file);
                    if !list.iter().all(is_known) {
                        space.opaque_tables += 1;
                        continue;
                    }
                    for one in list {
                        let of_file = space.files.entry(one.file).or_default();
                        of_file.listed = of_file.listed.saturating_add(one.count);
                        of_file.listed_bytes = of_file.listed_bytes.saturating_add(one.bytes);
                        of_file.tables += 1;
                        of_file.table_bytes = of_file.table_bytes.saturating_add(table.bytes);
                    }
                }
                References::Opaque => space.opaque_tables += 1,
                References::Unknown => space.unknown_tables += 1,
            }
        }
        space.is_contradictory = space.files.iter().any(|(number, of_file)| {
            version.blob_files.get(number).is_none_or(|file| {
                of_file.listed > file.count.saturating_sub(file.garbage_count)
                    || of_file.listed_bytes > of_file.live_bytes()
            })
        });
        space
    }

    /// Whether the references of all tables are known, and agree with the MANIFEST.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.opaque_tables + self.unknown_tables == 0 && !self.is_contradictory
    }

    /// The size of all records of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = self.files.values().map(|file| file.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// The size of all records that are not garbage by the MANIFEST.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        let bytes = self.files.values().map(BlobFileUse::live_bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// The size of all records for each byte of those that are not garbage; 0 without any.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        match self.live_bytes() {
            0 => 0.0,
            live => self.bytes() as f64 / live as f64,
        }
    }
}

impl Version {
    /// Returns what the tables refer to in each blob file.
    #[must_use]
    pub fn blob_space(&self) -> Arc<BlobSpace> {
        if let Some(known) = self.blob_space.get() {
            return Arc::clone(known);
        }
        let space = Arc::new(BlobSpace::of(self));
        // A table that is opened later may add to it.
        if space.unknown_tables == 0 {
            let _ = self.blob_space.set(Arc::clone(&space));
        }
        space
    }

    /// Returns the garbage that the MANIFEST does not have yet; nothing unless the references of all
    /// tables are known.
    ///
    /// Jobs that run meanwhile add what they make of the references that are left.
    #[must_use]
    pub fn unrecorded_garbage(&self) -> Vec<BlobGarbage> {
        let space = self.blob_space();
        if !space.is_exact() {
            return Vec::new();
        }
        let missing = self.blob_files.iter().filter_map(|(number, file)| {
            let of_file = space.files.get(number)?;
            let live = file.count.checked_sub(file.garbage_count)?;
            let garbage = BlobGarbage {
                number: *number,
                count: live.checked_sub(of_file.listed)?,
                bytes: of_file.live_bytes().checked_sub(of_file.listed_bytes)?,
            };
            (garbage.count > 0).then_some(garbage)
        });
        missing.collect()
    }

    /// Returns the garbage that results if tables are replaced by others, without a job that counts
    /// the references: those that the tables list.
    ///
    /// Tables whose references are not known make no garbage. What contradicts the version is left
    /// out.
    #[must_use]
    pub fn garbage_of_replaced<'f>(
        &self,
        removed: impl IntoIterator<Item = &'f Arc<FileMeta>>,
        added: impl IntoIterator<Item = &'f Arc<FileMeta>>,
    ) -> Vec<BlobGarbage> {
        if self.blob_files.is_empty() {
            return Vec::new();
        }
        let mut gone: BTreeMap<FileNumber, (u64, u64)> = BTreeMap::new();
        let mut numbers = BTreeSet::new();
        for table in removed {
            numbers.insert(table.number);
            if let References::Exact(list) = table.references() {
                for one in list {
                    let (count, bytes) = gone.entry(one.file).or_default();
                    *count = count.saturating_add(one.count);
                    *bytes = bytes.saturating_add(one.bytes);
                }
            }
        }
        for table in added {
            let References::Exact(list) = table.references() else {
                return Vec::new();
            };
            for one in list {
                if let Some((count, bytes)) = gone.get_mut(&one.file) {
                    *count = count.saturating_sub(one.count);
                    *bytes = bytes.saturating_sub(one.bytes);
                }
            }
        }
        let is_linked = |number: FileNumber| {
            let mut tables = self.files();
            tables.any(|(_, table)| {
                table.oldest_blob_file == number && !numbers.contains(&table.number)
            })
        };
        let garbage = gone.into_iter().filter_map(|(number, (count, bytes))| {
            let file = self.blob_files.get(&number)?;
            let left = file
                .count
                .checked_sub(file.garbage_count)?
                .checked_sub(count)?;
            file.bytes
                .checked_sub(file.garbage_bytes)?
                .checked_sub(bytes)?;
            let is_possible = left > 0 || !is_linked(number);
            (count > 0 && is_possible).then_some(BlobGarbage {
                number,
                count,
                bytes,
            })
        });
        garbage.collect()
    }
}

#[cfg(test)]
mod tests;
