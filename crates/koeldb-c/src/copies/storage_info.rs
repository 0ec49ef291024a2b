//! The files that make a copy of a database, for other backup tools.

use std::collections::HashMap;
use std::ffi::CStr;
use std::path::Path;

use koeldb::{Db, LiveStorage, StorageFile, StorageFileKind};

use crate::copies::checkpoint::flush_from;
use crate::copies::fields::plain_options;
use crate::text::Text;

/// The name of the checksum function of a file without a checksum, as in RocksDB.
const UNKNOWN_CHECKSUM: &str = "Unknown";

plain_options! {
    /// Options of a list of files (`rocksdb_livefiles_storage_info_options_t`).
    ///
    /// `atomic_flush` has no effect: the files have the state at one sequence number in any case.
    StorageOptions {
        include_checksum_info: bool = false, set_include_checksum_info;
        wal_size_for_flush: u64 = 0, set_wal_size_for_flush;
        atomic_flush: bool = false, set_atomic_flush;
    }
}

/// A file of the list.
struct File {
    name: Text,
    directory: Text,
    number: u64,
    kind: i32,
    size: u64,
    temperature: i32,
    checksum: Text,
    checksum_function: Text,
    contents: Vec<u8>,
    trim_to_size: bool,
}

/// A list of files (`rocksdb_livefiles_storage_info_t`). The files stay in place while it lives.
pub(crate) struct StorageInfo {
    files: Vec<File>,
    _storage: LiveStorage,
}

/// Returns the files that make a copy of the database.
pub(crate) fn of(db: &Db, options: Option<&StorageOptions>) -> koeldb::Result<StorageInfo> {
    let default = StorageOptions::default();
    let options = options.unwrap_or(&default);
    let mut temperatures = temperatures(db);
    let mut storage = db.live_storage(flush_from(options.wal_size_for_flush()))?;
    // A flush of the capture may have written further tables.
    temperatures.extend(self::temperatures(db));
    let files = std::mem::take(&mut storage.files);
    let with_checksums = options.include_checksum_info();
    let convert = |file| File::new(file, db, &temperatures, with_checksums);
    Ok(StorageInfo {
        files: files.into_iter().map(convert).collect(),
        _storage: storage,
    })
}

/// Returns the recorded temperatures of the live tables.
fn temperatures(db: &Db) -> HashMap<u64, u8> {
    let files = db.live_files();
    files
        .iter()
        .map(|file| (file.number, file.temperature))
        .collect()
}

/// Returns RocksDB's number of a kind of file.
fn kind_number(kind: StorageFileKind) -> i32 {
    match kind {
        StorageFileKind::Wal => 0,
        StorageFileKind::Manifest => 3,
        StorageFileKind::Current => 4,
        StorageFileKind::Options => 9,
        StorageFileKind::Blob => 10,
        // Tables, and what a later release of the engine may add.
        _ => 2,
    }
}

/// Returns the number in the name of a file; 0 for none.
fn number(name: &str) -> u64 {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().unwrap_or(0)
}

impl File {
    fn new(
        file: StorageFile,
        db: &Db,
        temperatures: &HashMap<u64, u8>,
        with_checksums: bool,
    ) -> Self {
        let number = number(&file.relative_name);
        let directory = file.path.as_deref().and_then(Path::parent);
        let (checksum, function) = match (with_checksums, file.file_checksum_func_name.as_str()) {
            (false, _) => (Vec::new(), ""),
            (true, "") => (Vec::new(), UNKNOWN_CHECKSUM),
            (true, function) => (file.file_checksum, function),
        };
        let temperature = match file.kind {
            StorageFileKind::Table => temperatures.get(&number).copied().unwrap_or(0),
            _ => 0,
        };
        File {
            directory: Text::of_path(directory.unwrap_or_else(|| db.path())),
            number,
            kind: kind_number(file.kind),
            size: file.bytes,
            temperature: i32::from(temperature),
            checksum: Text::new(checksum),
            checksum_function: Text::new(function),
            trim_to_size: !file.is_constant && file.contents.is_none(),
            contents: file.contents.unwrap_or_default(),
            name: Text::new(file.relative_name),
        }
    }
}

impl StorageInfo {
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn relative_filename(&self, index: usize) -> &CStr {
        self.files[index].name.get()
    }

    pub(crate) fn directory(&self, index: usize) -> &CStr {
        self.files[index].directory.get()
    }

    pub(crate) fn file_number(&self, index: usize) -> u64 {
        self.files[index].number
    }

    pub(crate) fn file_type(&self, index: usize) -> i32 {
        self.files[index].kind
    }

    pub(crate) fn size(&self, index: usize) -> u64 {
        self.files[index].size
    }

    pub(crate) fn temperature(&self, index: usize) -> i32 {
        self.files[index].temperature
    }

    /// Returns the checksum, which may have zeros before its end.
    pub(crate) fn file_checksum(&self, index: usize) -> &CStr {
        self.files[index].checksum.get()
    }

    pub(crate) fn file_checksum_func_name(&self, index: usize) -> &CStr {
        self.files[index].checksum_function.get()
    }

    /// Returns the contents of a file that is not in the directory; empty for others.
    pub(crate) fn replacement_contents(&self, index: usize) -> &[u8] {
        &self.files[index].contents
    }

    /// Returns whether the file may grow, so that only `size` bytes belong to the copy.
    pub(crate) fn trim_to_size(&self, index: usize) -> bool {
        self.files[index].trim_to_size
    }
}
