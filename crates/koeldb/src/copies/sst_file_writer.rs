//! Writes table files outside of a database, which RocksDB can ingest (`table/sst_file_writer.cc`).
//!
//! All entries have sequence number 0; a database that ingests the file gives them one. Two
//! properties mark the file as external: `rocksdb.external_sst_file.version` and
//! `rocksdb.external_sst_file.global_seqno`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::key::{FOOTER_BYTES, encode_into};
use koeldb_base::range_del::RangeTombstone;
use koeldb_base::timestamp::{MIN_TIMESTAMP, Timestamp, join};
use koeldb_base::{Error, KeyOrder, Result, ValueType};
use koeldb_fs::small_file::parent;
use koeldb_fs::{FileSystem, Purpose, WriteOptions};
use koeldb_table::builder::{TableBuildContext, TableBuilder};
use koeldb_table::properties::names;

use crate::api::column_family::ColumnFamily;
use crate::commit::protocol::check_entry;
use crate::env::Env;
use crate::open::new_session_id;
use crate::options::sanitize::{check, sanitize_family};
use crate::options::{ColumnFamilyOptions, DbOptions};

/// The version of external files in current releases.
///
/// Entries take the sequence number that the MANIFEST records for the file.
const EXTERNAL_VERSION: u32 = 2;

/// Options of an [`SstFileWriter`].
#[derive(Clone, Debug, Default)]
pub struct SstFileWriterOptions {
    env: Env,
    family: Option<(u32, String)>,
    sync_dir: bool,
}

impl SstFileWriterOptions {
    /// Creates the default: files of the operating system, no column family, no directory sync.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the file in the file system of `env`.
    ///
    /// Default: the environment of the process, with the file system of the machine.
    pub fn set_env(&mut self, env: &Env) -> &mut Self {
        self.env = env.clone();
        self
    }

    /// Records the column family of the file, the only one into which a database ingests it.
    ///
    /// Default: none, so that any column family may ingest it.
    pub fn set_column_family(&mut self, family: &ColumnFamily) -> &mut Self {
        self.family = Some((family.id(), family.name().to_owned()));
        self
    }

    /// Makes the directory entry of the file durable when the file is finished.
    ///
    /// Off by default: a caller that writes many files can sync their directory once.
    pub fn set_sync_dir(&mut self, sync_dir: bool) -> &mut Self {
        self.sync_dir = sync_dir;
        self
    }
}

/// A finished external table file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExternalSstFileInfo {
    /// The path of the file, as given.
    pub path: PathBuf,
    /// The first point key; `None` if there is none.
    pub smallest_key: Option<Vec<u8>>,
    /// The last point key; `None` if there is none.
    pub largest_key: Option<Vec<u8>>,
    /// The start of the first range tombstone; `None` if there is none.
    pub smallest_range_del_key: Option<Vec<u8>>,
    /// The largest end of a range tombstone, which is excluded; `None` if there is none.
    pub largest_range_del_key: Option<Vec<u8>>,
    /// The length of the file in bytes.
    pub file_size: u64,
    /// The number of point entries.
    pub num_entries: u64,
    /// The number of range tombstones.
    pub num_range_del_entries: u64,
}

/// A writer of one table file outside of a database, with keys in strictly ascending order.
///
/// Range deletions are in any order.
///
/// A writer that is dropped unfinished, or that failed, removes its file. Source: RocksDB's
/// `SstFileWriter`.
///
/// # Examples
///
/// ```
/// use koeldb::{ColumnFamilyOptions, SstFileWriter};
///
/// # fn main() -> koeldb::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("koeldb-sst-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// let path = dir.join("birds.sst");
/// let mut writer = SstFileWriter::create(&ColumnFamilyOptions::new(), &path)?;
/// writer.put("finch", "Fringilla")?;
/// writer.put("koel", "Eudynamys")?;
/// let file = writer.finish()?;
/// assert_eq!(file.num_entries, 2);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok(())
/// # }
/// ```
pub struct SstFileWriter {
    fs: Arc<dyn FileSystem>,
    order: KeyOrder,
    /// Whether the table has no timestamps, so that all must be the smallest.
    undated: bool,
    sync_dir: bool,
    /// The table builder; `None` once the file is finished or an entry was partially written.
    builder: Option<TableBuilder>,
    /// The last internal key added.
    key: Vec<u8>,
    info: ExternalSstFileInfo,
    /// Whether the file is finished and belongs to the caller; otherwise the drop removes it.
    is_finished: bool,
}

impl SstFileWriter {
    /// Creates the file at `path`, which must not exist.
    ///
    /// The table has the comparator, table format, codec, prefix extractor and merge operator of
    /// `options`. The codec is the bottommost one if it is set, otherwise that of the last level.
    ///
    /// # Errors
    /// `InvalidArgument` if options are invalid; errors of the file system.
    pub fn create(options: &ColumnFamilyOptions, path: impl AsRef<Path>) -> Result<Self> {
        Self::create_opt(options, path, &SstFileWriterOptions::new())
    }

    /// Like [`SstFileWriter::create`], with settings of the writer.
    ///
    /// # Errors
    /// See [`SstFileWriter::create`].
    pub fn create_opt(
        options: &ColumnFamilyOptions,
        path: impl AsRef<Path>,
        how: &SstFileWriterOptions,
    ) -> Result<Self> {
        let path = how.env.fs.absolute(path.as_ref())?;
        let db = DbOptions {
            // The writer has no memtable, and its file may be for any database.
            allow_concurrent_memtable_write: false,
            ..DbOptions::default()
        };
        let mut family = options.clone();
        check(&db, [("*", &family)])?;
        sanitize_family(&mut family, &db, false);
        let fs = Arc::clone(&how.env.fs);
        let file = fs.create(&path, &WriteOptions::new(Purpose::Other))?;
        let context = build_context(&family, how);
        let builder = TableBuilder::create(file, &context).inspect_err(|_| {
            // The error explains the missing table; the file is empty.
            let _ = fs.remove_file(&path);
        })?;
        Ok(SstFileWriter {
            fs,
            undated: family.has_undated_tables(),
            order: family.comparator,
            sync_dir: how.sync_dir,
            builder: Some(builder),
            key: Vec::new(),
            is_finished: false,
            info: ExternalSstFileInfo {
                path,
                smallest_key: None,
                largest_key: None,
                smallest_range_del_key: None,
                largest_range_del_key: None,
                file_size: 0,
                num_entries: 0,
                num_range_del_entries: 0,
            },
        })
    }

    /// Adds a value.
    ///
    /// # Errors
    /// `InvalidArgument` if `key` is not after the last key, or is too long; the writer stays
    /// usable. After another error every call fails.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(ValueType::Value, key.as_ref(), value.as_ref())
    }

    /// Adds a wide-column entity: `columns` are names and values, in any order.
    ///
    /// # Errors
    /// See [`SstFileWriter::put`]; `InvalidArgument` if two columns have the same name.
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        key: impl AsRef<[u8]>,
        columns: &[(N, V)],
    ) -> Result<()> {
        let entity = koeldb_base::entity::encode(columns)?;
        self.add(ValueType::WideColumnEntity, key.as_ref(), &entity)
    }

    /// Adds a value at a user-defined timestamp.
    ///
    /// The comparator must have timestamps; the versions of a key are added newest first.
    ///
    /// # Errors
    /// See [`SstFileWriter::put`]; `InvalidArgument` if keys have no timestamps.
    pub fn put_with_ts(
        &mut self,
        key: impl AsRef<[u8]>,
        timestamp: Timestamp,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.check_timestamp(&timestamp)?;
        let key = join(key.as_ref(), &timestamp);
        self.append(ValueType::Value, &key, value.as_ref())
    }

    /// Adds a deletion at a user-defined timestamp.
    ///
    /// # Errors
    /// See [`SstFileWriter::put_with_ts`].
    pub fn delete_with_ts(&mut self, key: impl AsRef<[u8]>, timestamp: Timestamp) -> Result<()> {
        self.check_timestamp(&timestamp)?;
        let key = join(key.as_ref(), &timestamp);
        self.append(ValueType::DeletionWithTimestamp, &key, &[])
    }

    /// Deletes the keys in the range `start..end` at a user-defined timestamp.
    ///
    /// # Errors
    /// See [`SstFileWriter::delete_range`]; `InvalidArgument` if keys have no timestamps.
    pub fn delete_range_with_ts(
        &mut self,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        timestamp: Timestamp,
    ) -> Result<()> {
        self.check_timestamp(&timestamp)?;
        let (start, end) = (
            join(start.as_ref(), &timestamp),
            join(end.as_ref(), &timestamp),
        );
        self.append_range(&start, &end)
    }

    /// Fails with `InvalidArgument` if keys have no timestamps, or may not have this one.
    fn check_timestamp(&self, timestamp: &Timestamp) -> Result<()> {
        self.check_timestamps(true)?;
        match self.undated && *timestamp != MIN_TIMESTAMP {
            true => Err(Error::invalid_argument(format!(
                "{}: with persist_user_defined_timestamps=false all timestamps must be 0",
                self.info.path.display()
            ))),
            false => Ok(()),
        }
    }

    /// Fails with `InvalidArgument` if keys have timestamps and the call has none, or conversely.
    fn check_timestamps(&self, has_timestamp: bool) -> Result<()> {
        let name = self.order.name();
        match (self.order.has_timestamps(), has_timestamp) {
            (true, false) => Err(Error::invalid_argument(format!(
                "{}: keys of comparator {name} have user-defined timestamps: add them with \
                 put_with_ts",
                self.info.path.display()
            ))),
            (false, true) => Err(Error::invalid_argument(format!(
                "{}: keys of comparator {name} have no user-defined timestamps",
                self.info.path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Adds a merge operand.
    ///
    /// # Errors
    /// See [`SstFileWriter::put`].
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.add(ValueType::Merge, key.as_ref(), operand.as_ref())
    }

    /// Adds a deletion, which hides older values in the database that ingests the file.
    ///
    /// # Errors
    /// See [`SstFileWriter::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(ValueType::Deletion, key.as_ref(), &[])
    }

    /// Deletes the keys in the range `start..end`; nothing if the two are equal.
    ///
    /// The deletion hides older entries of the database that ingests the file, and none of the file
    /// itself.
    ///
    /// # Errors
    /// `InvalidArgument` if `start` is after `end`.
    pub fn delete_range(&mut self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.check_timestamps(false)?;
        self.append_range(start.as_ref(), end.as_ref())
    }

    /// Adds a range deletion, whose keys have their timestamps.
    fn append_range(&mut self, start: &[u8], end: &[u8]) -> Result<()> {
        check_entry(&self.order, start, end)?;
        match self.order.compare_without_timestamps(start, end) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => return Ok(()),
            std::cmp::Ordering::Greater => {
                return Err(Error::invalid_argument(format!(
                    "{}: a range deletion ends before it starts",
                    self.info.path.display()
                )));
            }
        }
        let builder = self.builder.as_mut().ok_or_else(unusable)?;
        builder.add_tombstone(&RangeTombstone {
            start: start.to_vec(),
            end: end.to_vec(),
            seqno: 0,
        });
        let smallest = &mut self.info.smallest_range_del_key;
        if !matches!(smallest, Some(known) if self.order.compare(known, start).is_le()) {
            *smallest = Some(start.to_vec());
        }
        let largest = &mut self.info.largest_range_del_key;
        if !matches!(largest, Some(known) if self.order.compare(known, end).is_ge()) {
            *largest = Some(end.to_vec());
        }
        self.info.num_range_del_entries += 1;
        Ok(())
    }

    /// Adds an entry without a timestamp.
    fn add(&mut self, value_type: ValueType, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_timestamps(false)?;
        self.append(value_type, key, value)
    }

    /// Adds an entry with sequence number 0; keys must ascend strictly.
    fn append(&mut self, value_type: ValueType, key: &[u8], value: &[u8]) -> Result<()> {
        check_entry(&self.order, key, value)?;
        let last = self.info.num_entries.checked_sub(1);
        if last.is_some() && self.order.compare(self.last_key(), key).is_ge() {
            return Err(Error::invalid_argument(format!(
                "{}: keys must be added in strictly ascending order",
                self.info.path.display()
            )));
        }
        encode_into(&mut self.key, key, 0, value_type);
        let builder = self.builder.as_mut().ok_or_else(unusable)?;
        if let Err(error) = builder.add(&self.key, value) {
            self.builder = None;
            return Err(error);
        }
        if last.is_none() {
            self.info.smallest_key = Some(key.to_vec());
        }
        self.info.num_entries += 1;
        Ok(())
    }

    /// Returns the user key of the last entry.
    fn last_key(&self) -> &[u8] {
        &self.key[..self.key.len().saturating_sub(FOOTER_BYTES)]
    }

    /// The length of the file so far in bytes, without the buffered current block.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.builder.as_ref().map_or(0, TableBuilder::file_bytes)
    }

    /// Completes the file and makes it durable.
    ///
    /// The caller must sync its directory entry, unless [`SstFileWriterOptions::set_sync_dir`] is
    /// set.
    ///
    /// # Errors
    /// `InvalidArgument` if nothing was added; errors of the file system. The file is then removed.
    pub fn finish(mut self) -> Result<ExternalSstFileInfo> {
        let builder = self.builder.take().ok_or_else(unusable)?;
        if self.info.num_entries == 0 && self.info.num_range_del_entries == 0 {
            return Err(Error::invalid_argument(format!(
                "{}: cannot create a table file without entries",
                self.info.path.display()
            )));
        }
        let table = builder.finish()?;
        if self.sync_dir {
            self.fs.sync_dir(parent(&self.info.path))?;
        }
        let mut info = self.info.clone();
        info.file_size = table.file_bytes;
        if info.num_entries > 0 {
            info.largest_key = Some(self.last_key().to_vec());
        }
        self.is_finished = true;
        Ok(info)
    }
}

/// Returns the table builder options of an external table: no level, no times, its own session.
fn build_context(options: &ColumnFamilyOptions, how: &SstFileWriterOptions) -> TableBuildContext {
    let (compression, compression_options) = options.compression_at(u32::MAX, 0, true);
    let mut user_properties = BTreeMap::new();
    user_properties.insert(
        names::EXTERNAL_VERSION.into(),
        EXTERNAL_VERSION.to_le_bytes().to_vec(),
    );
    user_properties.insert(names::GLOBAL_SEQNO.into(), 0_u64.to_le_bytes().to_vec());
    let mut context = TableBuildContext {
        order: options.comparator.clone(),
        undated: options.has_undated_tables(),
        write_as: options.write_format(),
        format: options.block_based_write_options(true),
        compression,
        compression_options,
        prefix_extractor: options.prefix_extractor.clone(),
        merge_operator_name: options
            .merge_operator
            .as_ref()
            .map(|operator| operator.name().to_owned()),
        db_id: "SST Writer".to_owned(),
        session_id: new_session_id(),
        file_number: 1,
        user_properties,
        ..TableBuildContext::default()
    };
    if let Some((id, name)) = &how.family {
        context.column_family_id = u64::from(*id);
        context.column_family_name.clone_from(name);
    }
    context
}

/// Returns the error of a call to a writer after an earlier call has failed.
#[cold]
fn unusable() -> Error {
    Error::invalid_argument("this table file writer has failed before")
}

impl Drop for SstFileWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            self.builder = None;
            // A file that cannot be removed is incomplete and cannot be opened.
            let _ = self.fs.remove_file(&self.info.path);
        }
    }
}

impl fmt::Debug for SstFileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SstFileWriter")
            .field("path", &self.info.path)
            .field("entries", &self.info.num_entries)
            .finish_non_exhaustive()
    }
}
