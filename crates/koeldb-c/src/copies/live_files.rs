//! Lists of the live tables of a database, and lists that the caller makes for an import.

use std::ffi::CStr;

use koeldb::{Db, ExportedFile};

use crate::text::Text;

/// The length of the sequence number and type behind the user key in an internal key.
const FOOTER_BYTES: usize = 8;

/// The description of a table (`rocksdb_livefile_t`).
#[derive(Clone, Default)]
pub(crate) struct LiveFile {
    family: Text,
    /// The name with a leading slash.
    name: Text,
    directory: Text,
    level: i32,
    size: usize,
    smallest_key: Vec<u8>,
    largest_key: Vec<u8>,
    smallest_seqno: u64,
    largest_seqno: u64,
    entries: u64,
    deletions: u64,
    /// The smallest and largest internal keys; empty if only the table has them.
    internal_bounds: (Vec<u8>, Vec<u8>),
    /// The age among the tables of level 0; 0 unknown.
    epoch: u64,
}

fn nearest(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

fn level(level: usize) -> i32 {
    i32::try_from(level).unwrap_or(i32::MAX)
}

impl LiveFile {
    fn of(file: koeldb::LiveFile) -> Self {
        LiveFile {
            family: Text::new(file.column_family),
            name: Text::new(file.name),
            directory: Text::of_path(&file.directory),
            level: level(file.level),
            size: nearest(file.bytes),
            smallest_key: file.smallest_key,
            largest_key: file.largest_key,
            smallest_seqno: file.smallest_seqno,
            largest_seqno: file.largest_seqno,
            entries: file.entries,
            deletions: file.deletions,
            internal_bounds: Default::default(),
            epoch: file.epoch,
        }
    }

    /// Returns the description of an exported table, which is of no column family any more.
    ///
    /// As in RocksDB, it does not tell the numbers of entries and deletions.
    pub(crate) fn of_export(file: ExportedFile) -> Self {
        let bare = |name: &str| name.trim_start_matches('/').to_owned();
        let name = bare(&file.name);
        let user_key = |key: &[u8]| key[..key.len().saturating_sub(FOOTER_BYTES)].to_vec();
        LiveFile {
            family: Text::default(),
            name: Text::new(format!("/{name}")),
            directory: Text::of_path(&file.directory),
            level: level(file.level),
            size: nearest(file.bytes),
            smallest_key: user_key(&file.smallest),
            largest_key: user_key(&file.largest),
            smallest_seqno: file.smallest_seqno,
            largest_seqno: file.largest_seqno,
            entries: 0,
            deletions: 0,
            internal_bounds: (file.smallest, file.largest),
            epoch: file.epoch,
        }
    }

    /// Returns the description for an import; `None` for a level below 0.
    pub(crate) fn to_export(&self) -> Option<ExportedFile> {
        let mut file = ExportedFile::new(
            crate::memory::path(self.directory.get()),
            self.name.to_text(),
            usize::try_from(self.level).ok()?,
            self.smallest_seqno..=self.largest_seqno,
        );
        file.bytes = self.size as u64;
        (file.smallest, file.largest) = self.internal_bounds.clone();
        file.epoch = self.epoch;
        Some(file)
    }

    pub(crate) fn set_column_family_name(&mut self, name: &CStr) {
        self.family = name.into();
    }

    pub(crate) fn set_level(&mut self, level: i32) {
        self.level = level;
    }

    pub(crate) fn set_name(&mut self, name: &CStr) {
        self.name = name.into();
    }

    pub(crate) fn set_directory(&mut self, directory: &CStr) {
        self.directory = directory.into();
    }

    pub(crate) fn set_size(&mut self, size: usize) {
        self.size = size;
    }

    /// Sets the smallest user key. The bounds that an import uses are then those of the table.
    pub(crate) fn set_smallest_key(&mut self, key: &[u8]) {
        self.smallest_key = key.to_vec();
    }

    /// Sets the largest user key.
    pub(crate) fn set_largest_key(&mut self, key: &[u8]) {
        self.largest_key = key.to_vec();
    }

    pub(crate) fn set_smallest_seqno(&mut self, seqno: u64) {
        self.smallest_seqno = seqno;
    }

    pub(crate) fn set_largest_seqno(&mut self, seqno: u64) {
        self.largest_seqno = seqno;
    }

    pub(crate) fn set_num_entries(&mut self, entries: u64) {
        self.entries = entries;
    }

    pub(crate) fn set_num_deletions(&mut self, deletions: u64) {
        self.deletions = deletions;
    }
}

/// A list of tables (`rocksdb_livefiles_t`).
#[derive(Clone, Default)]
pub(crate) struct LiveFiles(pub(crate) Vec<LiveFile>);

/// Returns the tables of all column families.
pub(crate) fn of(db: &Db) -> LiveFiles {
    LiveFiles(db.live_files().into_iter().map(LiveFile::of).collect())
}

impl LiveFiles {
    /// Returns the table at `index`, which the caller must not choose outside of the list.
    fn at(&self, index: i32) -> &LiveFile {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        self.0.get(index).expect("the index is that of a file")
    }

    pub(crate) fn add(&mut self, file: LiveFile) {
        self.0.push(file);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn column_family_name(&self, index: i32) -> &CStr {
        self.at(index).family.get()
    }

    pub(crate) fn name(&self, index: i32) -> &CStr {
        self.at(index).name.get()
    }

    pub(crate) fn directory(&self, index: i32) -> &CStr {
        self.at(index).directory.get()
    }

    pub(crate) fn level(&self, index: i32) -> i32 {
        self.at(index).level
    }

    pub(crate) fn size(&self, index: i32) -> usize {
        self.at(index).size
    }

    pub(crate) fn smallest_key(&self, index: i32) -> &[u8] {
        &self.at(index).smallest_key
    }

    pub(crate) fn largest_key(&self, index: i32) -> &[u8] {
        &self.at(index).largest_key
    }

    pub(crate) fn smallest_seqno(&self, index: i32) -> u64 {
        self.at(index).smallest_seqno
    }

    pub(crate) fn largest_seqno(&self, index: i32) -> u64 {
        self.at(index).largest_seqno
    }

    pub(crate) fn entries(&self, index: i32) -> u64 {
        self.at(index).entries
    }

    pub(crate) fn deletions(&self, index: i32) -> u64 {
        self.at(index).deletions
    }
}
