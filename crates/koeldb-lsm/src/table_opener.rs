//! Opens the tables of one column family; an open reader stays with its file's metadata.
//!
//! The read path has no table-cache lookup: [`FileMeta::reader`](crate::FileMeta) is set once, on
//! first use of the file. If two threads open a file concurrently, both succeed and one reader is
//! kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::error::ErrorDetail;
use koeldb_base::{Error, Result, file_name};
use koeldb_fs::{AccessHint, FileSystem, OpenOptions, Purpose, RandomAccessFile};
use koeldb_table::reader::{TableReadContext, TableReader};

use crate::file_checksum;
use crate::version::FileMeta;

/// Opens the tables of a family, with its settings.
#[derive(Debug)]
pub struct TableOpener {
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    open_options: OpenOptions,
    context: TableReadContext,
    /// Whether every table is validated when it is opened.
    examines: bool,
}

impl TableOpener {
    /// Creates an opener for tables in `directory`.
    ///
    /// The per-file fields of `context` are filled in for each file.
    #[must_use]
    pub fn new(
        fs: Arc<dyn FileSystem>,
        directory: &Path,
        open_options: OpenOptions,
        context: TableReadContext,
    ) -> Self {
        TableOpener {
            fs,
            directory: directory.to_owned(),
            open_options,
            context,
            examines: false,
        }
    }

    /// Sets whether every table is validated when it is opened, by [`TableReader::examine`].
    pub fn set_examines(&mut self, on: bool) {
        self.examines = on;
    }

    /// The settings with which tables are opened.
    #[must_use]
    pub fn context(&self) -> &TableReadContext {
        &self.context
    }

    /// The reader of `file` on `level`; opens it on first use.
    ///
    /// # Errors
    /// If the file is missing, damaged, or of an incompatible format or comparator; the error names
    /// it.
    #[inline]
    pub fn reader<'f>(&self, file: &'f FileMeta, level: usize) -> Result<&'f Arc<TableReader>> {
        match file.reader.get() {
            Some(reader) => Ok(reader),
            None => self.open(file, level),
        }
    }

    #[cold]
    fn open<'f>(&self, file: &'f FileMeta, level: usize) -> Result<&'f Arc<TableReader>> {
        let handle = self.open_file(file)?;
        let mut context = self.context.clone();
        context.number = file.number;
        context.expected_bytes = file.bytes;
        context.largest_seqno = Some(file.largest_seqno);
        context.level = u32::try_from(level).ok();
        context.tombstone_bounds = Some((file.smallest.clone(), file.largest.clone()));
        context.unique_id = (file.unique_id != [0; 2]).then_some(file.unique_id);
        let reader = TableReader::open(handle, &context)?;
        if self.examines {
            reader.examine(&context.order)?;
        }
        let properties = reader.properties();
        let stats = &file.entry_stats;
        stats
            .entries
            .store(properties.entry_count, Ordering::Relaxed);
        stats
            .deletions
            .store(properties.deletion_count, Ordering::Relaxed);
        stats
            .key_bytes
            .store(properties.raw_key_bytes, Ordering::Relaxed);
        stats
            .value_bytes
            .store(properties.raw_value_bytes, Ordering::Relaxed);
        Ok(file.reader.get_or_init(|| reader))
    }

    /// Verifies the whole-file checksum in the MANIFEST; `false` if it has none of a known
    /// function.
    ///
    /// `progress` receives the size of each piece.
    ///
    /// # Errors
    /// `Corruption` if they differ; otherwise the errors of the system.
    pub fn compare_file_checksum(
        &self,
        file: &FileMeta,
        progress: &mut dyn FnMut(u64),
    ) -> Result<bool> {
        file_checksum::compare(&*self.open_file(file)?, file, progress)
    }

    /// Opens `NNNNNN.sst`, or the `.ldb` that LevelDB wrote.
    fn open_file(&self, file: &FileMeta) -> Result<Arc<dyn RandomAccessFile>> {
        let path = file_name::table(&self.directory, file.number);
        let options = OpenOptions {
            purpose: Purpose::Read,
            hint: AccessHint::Random,
            ..self.open_options
        };
        match self.fs.open(&path, &options) {
            Err(error) if error.is_path_not_found() => self
                .fs
                .open(&path.with_extension("ldb"), &options)
                .map_err(|_| {
                    Error::corruption(format!(
                        "table {:06}.sst is in the MANIFEST but does not exist",
                        file.number
                    ))
                    .in_file(&path, None, "open")
                    .with_detail(ErrorDetail::PathNotFound)
                }),
            opened => opened,
        }
    }
}
