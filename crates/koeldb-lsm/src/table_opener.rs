//! The opener of the tables of one column family; an open reader stays with its file's metadata.
//!
//! The read path has no table-cache lookup: [`FileMeta::reader`](crate::FileMeta) is set once, on
//! first use of the file. If two threads open a file concurrently, both succeed and one reader is
//! kept. Only while the number of open tables is bounded ([`OpenTables`]), readers are in slots that
//! are emptied, and their users hold them.

use std::sync::Arc;

use koeldb_base::error::ErrorDetail;
use koeldb_base::error::advice::LOST_FILE;
use koeldb_base::stats::{HistogramKind, Stopwatch, Ticker};
use koeldb_base::{ArcRef, Error, ErrorKind, Fault, KeyOrder, Lookup, Result};
use koeldb_fs::{FileSystem, OpenOptions, Purpose, RandomAccessFile};
use koeldb_table::blob::{BlobFile, BlobFileContext};
use koeldb_table::reader::{TableReadContext, TableReader};
use koeldb_table::source::BlockSource;

use crate::blob_file_meta::BlobFileMeta;
use crate::data_paths::DataPaths;
use crate::file_checksum;
use crate::file_meta::FileMeta;
use crate::open_tables::{OpenTables, ReaderSlot};

/// A reference to an open table: borrowed if its file keeps it open, otherwise counted.
///
/// A counted one keeps a table in use that may be closed afterwards.
pub type TableRef<'f> = ArcRef<'f, TableReader>;

/// Opens the tables of a column family and caches their readers (RocksDB: `TableCache`).
#[derive(Debug)]
pub struct TableOpener {
    fs: Arc<dyn FileSystem>,
    paths: DataPaths,
    open_options: OpenOptions,
    context: TableReadContext,
    /// Whether every table is validated when it is opened.
    examines: bool,
    /// Whether the unique ids of tables are compared with the MANIFEST.
    verifies_unique_ids: bool,
    open_tables: Arc<OpenTables>,
}

impl TableOpener {
    /// Creates an opener for tables in the directories `paths`.
    ///
    /// The per-file fields of `context` are filled in for each file.
    #[must_use]
    pub fn new(
        fs: Arc<dyn FileSystem>,
        paths: DataPaths,
        open_options: OpenOptions,
        context: TableReadContext,
    ) -> Self {
        TableOpener {
            fs,
            paths,
            open_options,
            context,
            examines: false,
            verifies_unique_ids: true,
            open_tables: Arc::default(),
        }
    }

    /// Sets whether every table is checked by [`TableReader::examine`] when it is opened.
    pub fn set_examines(&mut self, on: bool) {
        self.examines = on;
    }

    /// Sets whether to verify the unique ids of tables against the MANIFEST; on by default.
    ///
    /// (RocksDB: `verify_sst_unique_id_in_manifest`.)
    pub fn set_verifies_unique_ids(&mut self, on: bool) {
        self.verifies_unique_ids = on;
    }

    /// Sets the shared limit on the number of open tables; unlimited by default.
    pub fn set_open_tables(&mut self, open_tables: Arc<OpenTables>) {
        self.open_tables = open_tables;
    }

    /// Whether the number of open tables is limited (`max_open_files`).
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.open_tables.is_limited()
    }

    /// The directories of the tables.
    #[must_use]
    pub fn paths(&self) -> &DataPaths {
        &self.paths
    }

    /// The settings with which tables are opened.
    #[must_use]
    pub fn context(&self) -> &TableReadContext {
        &self.context
    }

    /// Estimates the file offset of an internal key in a table (RocksDB: `ApproximateOffsetOf`).
    ///
    /// Only a table with the key between its bounds is opened.
    ///
    /// # Errors
    /// See [`TableOpener::reader`].
    pub fn bytes_before(
        &self,
        order: &KeyOrder,
        file: &FileMeta,
        level: usize,
        key: &[u8],
    ) -> Result<u64> {
        if order.compare_internal(key, &file.smallest).is_le() {
            return Ok(0);
        }
        if order.compare_internal(key, &file.largest).is_gt() {
            return Ok(file.bytes);
        }
        self.reader(file, level)?.approximate_offset(key)
    }

    /// Returns the reader of `file` on `level`; opens the table on first use.
    ///
    /// # Errors
    /// If the file is missing, damaged, or of an incompatible format or comparator; the error names
    /// it.
    #[inline]
    pub fn reader<'f>(&self, file: &'f FileMeta, level: usize) -> Result<TableRef<'f>> {
        match file.reader.get() {
            Some(reader) => Ok(ArcRef::Borrowed(reader)),
            None => self.open(file, level),
        }
    }

    /// Searches the table `file` for the key of a point lookup, opening it if needed.
    ///
    /// # Errors
    /// See [`TableOpener::reader`] and [`TableReader::search`].
    #[inline(always)]
    pub fn search<S: BlockSource>(
        &self,
        file: &FileMeta,
        level: usize,
        lookup: &mut Lookup,
        source: &mut S,
    ) -> Result<(), Fault<S::Suspend>> {
        match file.reader.get() {
            Some(reader) => reader.search(lookup, source),
            None => self.open(file, level)?.search(lookup, source),
        }
    }

    /// Opens a table unless its reader is cached, and caches the reader.
    #[cold]
    fn open<'f>(&self, file: &'f FileMeta, level: usize) -> Result<TableRef<'f>> {
        if !self.open_tables.is_limited() {
            let reader = match file.slot.get().and_then(|slot| slot.take()) {
                Some(reader) => reader,
                None => self.open_table(file, level, None)?,
            };
            return Ok(ArcRef::Borrowed(file.reader.get_or_init(|| reader)));
        }
        let slot = file.slot.get_or_init(Arc::default);
        let (reader, is_opened) = slot.get_or_open(|| self.open_table(file, level, Some(slot)))?;
        if is_opened {
            self.open_tables.add(slot);
        }
        Ok(ArcRef::Counted(reader))
    }

    /// Opens a table file like [`TableOpener::read_table`], and counts it in the statistics.
    fn open_table(
        &self,
        file: &FileMeta,
        level: usize,
        slot: Option<&ReaderSlot>,
    ) -> Result<Arc<TableReader>> {
        let Some(statistics) = &self.context.statistics else {
            return self.read_table(file, level, slot);
        };
        let stopwatch = Stopwatch::start();
        let opened = self.read_table(file, level, slot);
        statistics.add(Ticker::NoFileOpens, 1);
        statistics.add(Ticker::NoFileErrors, u64::from(opened.is_err()));
        stopwatch.record(statistics, HistogramKind::TableOpenIoMicros);
        opened
    }

    /// Opens a table file and creates its reader, without caching it.
    fn read_table(
        &self,
        file: &FileMeta,
        level: usize,
        slot: Option<&ReaderSlot>,
    ) -> Result<Arc<TableReader>> {
        let handle = self.open_file(file)?;
        let mut context = self.context.clone();
        let new_id = slot.zip(context.cache.as_ref());
        context.cache_id = new_id.map(|(slot, cache)| slot.cache_id(|| cache.new_id()));
        context.memory_filter.clone_from(&file.memory_filter);
        context.number = file.number;
        context.expected_bytes = file.bytes;
        context.undated = Some(file.undated);
        context.largest_seqno = Some(file.largest_seqno);
        context.level = u32::try_from(level).ok();
        context.tombstone_bounds = Some((file.smallest.clone(), file.largest.clone()));
        let has_id = self.verifies_unique_ids && file.unique_id != [0; 2];
        context.unique_id = has_id.then_some(file.unique_id);
        let reader = TableReader::open(handle, &context)?;
        if self.examines {
            reader.examine(&context.order)?;
        }
        file.entry_stats.record(reader.properties());
        file.record_references(reader.properties());
        file.tombstones.get_or_init(|| reader.tombstones().cloned());
        Ok(reader)
    }

    /// Whether a table exists and is the one that the MANIFEST records; its reader is not kept.
    ///
    /// `false` if the file is missing, or is damaged where an open reads it.
    ///
    /// # Errors
    /// Those of the system, and of an incompatible table.
    pub fn exists(&self, file: &FileMeta, level: usize) -> Result<bool> {
        match self.open_table(file, level, None) {
            Ok(_) => Ok(true),
            Err(error) if error.is_path_not_found() => Ok(false),
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a blob file exists and is the one that the MANIFEST records; its reader is not kept.
    ///
    /// # Errors
    /// Those of the system, and of an incompatible file.
    pub fn blob_file_exists(&self, file: &BlobFileMeta) -> Result<bool> {
        match self.open_blob_file(file) {
            Ok(_) => Ok(true),
            Err(error) if error.is_path_not_found() => Ok(false),
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Verifies a table against its file checksum in the MANIFEST; `false` if it has none to use.
    ///
    /// That is the case without a checksum or with one of an unknown function.
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

    /// Verifies header, footer and every record of a blob file of the column family.
    ///
    /// `progress` receives the size of each record.
    ///
    /// # Errors
    /// `Corruption` with the file and the offset of the first damage; otherwise if the system fails.
    pub fn verify_blob_file(
        &self,
        file: &BlobFileMeta,
        column_family_id: u32,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let reader = file.reader.get_or_open(|| self.open_blob_file(file))?;
        let recorded = reader.header().column_family_id;
        if recorded != column_family_id {
            return Err(Error::corruption(format!(
                "the blob file names column family {recorded} and is one of {column_family_id}"
            ))
            .in_file(&self.paths.blob(file.number), Some(0), "verify"));
        }
        reader.verify_checksums(progress)
    }

    /// Verifies a blob file against its checksum in the MANIFEST; `false` if it has none.
    ///
    /// # Errors
    /// `Corruption` if they differ; otherwise the errors of the system.
    pub fn compare_blob_file_checksum(
        &self,
        file: &BlobFileMeta,
        progress: &mut dyn FnMut(u64),
    ) -> Result<bool> {
        let options = OpenOptions {
            purpose: Purpose::Read,
            ..self.open_options
        };
        let opened = self.fs.open(&self.paths.blob(file.number), &options)?;
        file_checksum::compare(&*opened, file, progress)
    }

    /// Opens a blob file, without caching it.
    ///
    /// # Errors
    /// If the file is missing, or differs from its record in the MANIFEST.
    pub(crate) fn open_blob_file(&self, file: &BlobFileMeta) -> Result<BlobFile> {
        let path = self.paths.blob(file.number);
        let options = OpenOptions {
            purpose: Purpose::Read,
            ..self.open_options
        };
        let context = BlobFileContext {
            number: file.number,
            count: file.count,
            record_bytes: file.bytes,
            limits: self.context.limits,
        };
        let file = BlobFile::open(self.fs.open(&path, &options)?, &context)?;
        Ok(file.with(
            self.context.statistics.clone(),
            self.context.blob_cache.clone(),
        ))
    }

    /// Inserts all values of a new blob file into the blob cache, if there is one.
    ///
    /// # Errors
    /// If the file cannot be read, or is damaged.
    pub fn prepopulate_blob_cache(&self, file: &BlobFileMeta) -> Result<()> {
        if self.context.blob_cache.is_none() {
            return Ok(());
        }
        file.reader
            .get_or_open(|| self.open_blob_file(file))?
            .fill_cache()
    }

    /// Opens a blob file that is not open yet, so that it stays readable when it is deleted.
    ///
    /// # Errors
    /// If the file is missing, or differs from its record in the MANIFEST.
    pub fn keep_blob_file(&self, file: &BlobFileMeta) -> Result<()> {
        let open = || self.open_blob_file(file);
        file.reader.get_or_open(open).map(drop)
    }

    /// Opens the table file, named `NNNNNN.sst`, or `NNNNNN.ldb` if LevelDB wrote it.
    fn open_file(&self, file: &FileMeta) -> Result<Arc<dyn RandomAccessFile>> {
        let path = self.paths.of_table(file);
        let options = OpenOptions {
            purpose: Purpose::Read,
            temperature: match file.temperature {
                0 => self.open_options.temperature,
                known => known,
            },
            ..self.open_options
        };
        match self.fs.open(&path, &options) {
            Err(error) if error.is_path_not_found() => self
                .fs
                .open(&path.with_extension("ldb"), &options)
                .map_err(|_| {
                    if self.open_tables.is_closed() {
                        let closed = "the database is closed";
                        return Error::with_kind(ErrorKind::ShutdownInProgress, closed);
                    }
                    let mut message = format!(
                        "table {:06}.sst is in the MANIFEST but does not exist",
                        file.number
                    );
                    let mut advice = LOST_FILE;
                    let count = self.paths.count();
                    if usize::from(file.path_id) >= count {
                        let of = match count {
                            1 => "only one is set".to_owned(),
                            count => format!("only {count} are set"),
                        };
                        let id = file.path_id;
                        message += &format!(
                            "; its directory is number {id} of db_paths or cf_paths, counted from 0, and {of}"
                        );
                        advice = "set the db_paths and cf_paths that the database was written with";
                    }
                    Error::corruption(message)
                        .in_file(&path, None, "open")
                        .with_detail(ErrorDetail::PathNotFound)
                        .with_advice(advice)
                }),
            opened => opened,
        }
    }
}
