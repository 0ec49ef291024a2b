//! Reads table files outside of a database, in any format, entry by entry.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::{Cursor, InternalKey, KeyOrder, Result, SeqNo, ValueType};
use koeldb_fs::{FileSystem, OpenOptions, Purpose};
use koeldb_table::plain::reader::PlainReadOptions;
use koeldb_table::reader::{TableCursor, TableCursorOptions, TableReadContext, TableReader};
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use crate::env::Env;
use crate::options::ColumnFamilyOptions;
use crate::report::SstFileProperties;

/// The kind of an entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SstEntryKind {
    /// A value.
    Value,
    /// A merge operand.
    Merge,
    /// A deletion.
    Deletion,
    /// A single deletion.
    SingleDeletion,
    /// A wide-column entity.
    Entity,
    /// Any other kind.
    Other,
}

/// An entry of a table file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SstEntry {
    /// The user key.
    pub key: Vec<u8>,
    /// The sequence number.
    pub seqno: SeqNo,
    /// The kind of the entry.
    pub kind: SstEntryKind,
    /// The value or operand.
    pub value: Vec<u8>,
}

/// A range tombstone of a table file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SstRangeTombstone {
    /// The first deleted key.
    pub start: Vec<u8>,
    /// The first key that is not deleted.
    pub end: Vec<u8>,
    /// The sequence number.
    pub seqno: SeqNo,
}

/// An open table file outside of a database. Source: RocksDB's `SstFileReader`.
pub struct SstFileReader {
    path: PathBuf,
    reader: Arc<TableReader>,
}

impl SstFileReader {
    /// Opens the table at `path`, which was written with the comparator of `options`.
    ///
    /// # Errors
    /// `Corruption` for a damaged file; `InvalidArgument` if it has another comparator; errors of
    /// the file system.
    pub fn open(options: &ColumnFamilyOptions, path: impl AsRef<Path>) -> Result<Self> {
        Self::open_in(options, path, &Env::default())
    }

    /// Like [`SstFileReader::open`], in the file system of `env`.
    ///
    /// # Errors
    /// See [`SstFileReader::open`].
    pub fn open_in(
        options: &ColumnFamilyOptions,
        path: impl AsRef<Path>,
        env: &Env,
    ) -> Result<Self> {
        let path = env.fs.absolute(path.as_ref())?;
        let context = TableReadContext {
            order: options.comparator.clone(),
            prefix_extractor: options.prefix_extractor.clone(),
            ..TableReadContext::default()
        };
        Ok(SstFileReader {
            reader: open_table(&*env.fs, &path, context)?,
            path,
        })
    }

    /// The properties of the table.
    ///
    /// # Errors
    /// `Corruption` if a property is malformed.
    pub fn properties(&self) -> Result<SstFileProperties> {
        SstFileProperties::of(self.reader.properties())
    }

    /// Verifies the checksum of every block.
    ///
    /// # Errors
    /// `Corruption` with the offset of the first damaged block.
    pub fn verify_checksums(&self) -> Result<()> {
        self.reader.verify_checksums(&mut |_| ())
    }

    /// Returns all point entries in order, hidden and deleted ones included.
    ///
    /// # Errors
    /// If the first block cannot be read.
    pub fn entries(&self) -> Result<SstEntries> {
        let mut cursor = point_cursor(&self.reader);
        cursor.seek_to_first()?;
        Ok(SstEntries {
            cursor,
            is_failed: false,
        })
    }

    /// Returns the range tombstones, fragmented so that they do not overlap.
    #[must_use]
    pub fn range_tombstones(&self) -> Vec<SstRangeTombstone> {
        let tombstones = self.reader.tombstones().into_iter();
        let tombstones = tombstones.flat_map(|all| all.tombstones());
        let copied = tombstones.map(|tombstone| SstRangeTombstone {
            start: tombstone.start.to_vec(),
            end: tombstone.end.to_vec(),
            seqno: tombstone.seqno,
        });
        copied.collect()
    }
}

impl fmt::Debug for SstFileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SstFileReader({:?})", self.path)
    }
}

/// An iterator over the point entries of a table, which ends after an error.
pub struct SstEntries {
    cursor: TableCursor<'static, BlockingSource>,
    is_failed: bool,
}

impl SstEntries {
    /// Returns the current entry and moves to the next one.
    fn take(&mut self) -> Result<SstEntry> {
        let key = InternalKey::parse(self.cursor.key())?;
        let entry = SstEntry {
            key: key.user_key.to_vec(),
            seqno: key.seqno,
            kind: kind_of(key.value_type),
            value: self.cursor.value().to_vec(),
        };
        self.cursor.next()?;
        Ok(entry)
    }
}

impl Iterator for SstEntries {
    type Item = Result<SstEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_failed || !self.cursor.valid() {
            return None;
        }
        let entry = self.take();
        self.is_failed = entry.is_err();
        Some(entry)
    }
}

impl fmt::Debug for SstEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SstEntries")
    }
}

/// Returns the kind of an entry by the value type of its internal key.
fn kind_of(value_type: ValueType) -> SstEntryKind {
    match value_type {
        ValueType::Value => SstEntryKind::Value,
        ValueType::Merge => SstEntryKind::Merge,
        ValueType::Deletion => SstEntryKind::Deletion,
        ValueType::SingleDeletion => SstEntryKind::SingleDeletion,
        ValueType::WideColumnEntity => SstEntryKind::Entity,
        _ => SstEntryKind::Other,
    }
}

/// Opens the table at `path` for one sequential pass.
pub(crate) fn open_table(
    fs: &dyn FileSystem,
    path: &Path,
    context: TableReadContext,
) -> Result<Arc<TableReader>> {
    let options = OpenOptions {
        purpose: Purpose::Ingest,
        ..OpenOptions::default()
    };
    let file = fs.open(path, &options)?;
    let context = TableReadContext {
        plain: PlainReadOptions {
            full_scan: true,
            ..context.plain.clone()
        },
        expected_bytes: file.len(),
        ..context
    };
    TableReader::open(file, &context)
}

/// A cursor over the point entries of a table.
pub(crate) fn point_cursor(reader: &Arc<TableReader>) -> TableCursor<'static, BlockingSource> {
    let source = BlockingSource::new(BlockReadOptions::default());
    reader.cursor(source, &TableCursorOptions::default())
}

/// The session id of the table at `path`; empty if it has none.
pub(crate) fn session_id(fs: &dyn FileSystem, path: &Path) -> Result<String> {
    let open = |order| {
        let context = TableReadContext {
            order,
            ..TableReadContext::default()
        };
        open_table(fs, path, context)
    };
    let reader = open(KeyOrder::Bytewise).or_else(|_| open(KeyOrder::ReverseBytewise))?;
    let id = &reader.properties().session_id;
    Ok(String::from_utf8_lossy(id).into_owned())
}
