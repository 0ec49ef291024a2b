//! Examines a table by reading it completely.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::entity::{ColumnValue, Entity, refers_to_blobs};
use koeldb_base::file_name::FileNumber;
use koeldb_base::key::{MAX_SEQNO, ValueType, encode};
use koeldb_base::timestamp::{
    BytewiseComparatorWithU64Ts, ReverseBytewiseComparatorWithU64Ts, is_name_with_timestamps,
};
use koeldb_base::{Cursor, Error, InternalKey, KeyOrder, Result, SeqNo};
use koeldb_fs::{FileSystem, OpenOptions, Purpose, RandomAccessFile};
use koeldb_lsm::FileMeta;
use koeldb_table::blob::BlobReference;
use koeldb_table::plain::reader::PlainReadOptions;
use koeldb_table::properties::UNKNOWN_COLUMN_FAMILY_ID;
use koeldb_table::reader::{TableCursorOptions, TableReadContext, TableReader};
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use crate::options::Options;

/// A table that the repair has read completely, with its metadata and column family.
#[derive(Debug)]
pub(super) struct FoundTable {
    pub(super) path: PathBuf,
    /// The id of the table's column family, if recorded.
    pub(super) family: Option<u32>,
    /// The name of the table's column family; empty if not recorded.
    pub(super) family_name: String,
    pub(super) order: KeyOrder,
    pub(super) file: FileMeta,
    pub(super) entries: u64,
    /// The sequence number up to which all entries of the column family were in tables when this
    /// one was written, if recorded.
    pub(super) flushed: Option<SeqNo>,
    /// Whether a MANIFEST records the table.
    pub(super) is_recorded: bool,
    /// The newest blob file to which the table refers; 0 for none.
    pub(super) newest_blob_file: FileNumber,
}

impl FoundTable {
    /// Returns the metadata of the table in a column family of this order; `None` if it cannot be in
    /// one.
    ///
    /// The orders may differ in timestamps, if the table has none. `persists_timestamps` says whether
    /// tables of the column family have them.
    fn file_in(&self, order: &KeyOrder, persists_timestamps: bool) -> Option<FileMeta> {
        let (own, other) = (self.order.name(), order.name());
        if own == other {
            Some(self.file.with_epoch(self.file.epoch))
        } else if is_name_with_timestamps(other, own) && !persists_timestamps {
            Some(self.file.as_undated())
        } else if is_name_with_timestamps(own, other) && self.file.undated {
            Some(self.file.without_timestamps())
        } else {
            None
        }
    }

    /// Whether the table can be in a column family of this order.
    pub(super) fn fits(&self, order: &KeyOrder, persists_timestamps: bool) -> bool {
        self.file_in(order, persists_timestamps).is_some()
    }

    /// Takes the table for one of a column family of this order, which it fits.
    pub(super) fn adapt_to(&mut self, order: &KeyOrder, persists_timestamps: bool) {
        if self.order.name() != order.name()
            && let Some(file) = self.file_in(order, persists_timestamps)
        {
            self.file = file;
            self.order = order.clone();
        }
    }
}

/// Opens a table with the comparator of the options or, if that fails, a built-in one.
fn open(
    file: &Arc<dyn RandomAccessFile>,
    number: FileNumber,
    recorded: Option<&FileMeta>,
    options: &Options,
) -> Result<(Arc<TableReader>, KeyOrder)> {
    let open = |order: &KeyOrder| open_in(file, number, recorded, (order, None), options);
    let own = &options.cf.comparator;
    let error = match open(own) {
        Ok(reader) => return Ok((reader, own.clone())),
        Err(error) => error,
    };
    // A table of another column family may have another order, and so may one from before timestamps
    // were switched on.
    let built_in = [
        KeyOrder::Bytewise,
        KeyOrder::ReverseBytewise,
        KeyOrder::new(BytewiseComparatorWithU64Ts),
        KeyOrder::new(ReverseBytewiseComparatorWithU64Ts),
    ];
    for order in built_in {
        if let Ok(reader) = open(&order) {
            return Ok((reader, order));
        }
    }
    Err(error)
}

/// Opens a table in an order, and as one without the timestamps of that order if so recorded.
fn open_in(
    file: &Arc<dyn RandomAccessFile>,
    number: FileNumber,
    recorded: Option<&FileMeta>,
    (order, undated): (&KeyOrder, Option<bool>),
    options: &Options,
) -> Result<Arc<TableReader>> {
    let reader = TableReader::open(
        Arc::clone(file),
        &TableReadContext {
            order: order.clone(),
            undated,
            prefix_extractor: options.cf.prefix_extractor.clone(),
            plain: PlainReadOptions {
                full_scan: true,
                ..PlainReadOptions::default()
            },
            number,
            expected_bytes: file.len(),
            largest_seqno: recorded.map(|file| file.largest_seqno),
            tombstone_bounds: recorded.map(|file| (file.smallest.clone(), file.largest.clone())),
            ..TableReadContext::default()
        },
    )?;
    // The table does not record its comparator.
    if let TableReader::Plain(table) = &*reader {
        table.whole()?.verify_checksums(&mut |_| ())?;
    }
    Ok(reader)
}

/// Opens a file for reading.
pub(super) fn open_file(fs: &dyn FileSystem, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
    let options = OpenOptions {
        purpose: Purpose::Open,
        ..OpenOptions::default()
    };
    fs.open(path, &options)
}

/// Opens a table again that was examined before, with its MANIFEST metadata if there is any.
pub(super) fn reopen(
    fs: &dyn FileSystem,
    table: &FoundTable,
    options: &Options,
) -> Result<Arc<TableReader>> {
    let file = open_file(fs, &table.path)?;
    let recorded = table.is_recorded.then_some(&table.file);
    let keys = (&table.order, Some(table.file.undated));
    open_in(&file, table.file.number, recorded, keys, options)
}

/// Calls `take` with the sequence number of each entry and range tombstone of a table.
pub(super) fn each_seqno(
    fs: &dyn FileSystem,
    table: &FoundTable,
    options: &Options,
    mut take: impl FnMut(SeqNo),
) -> Result<()> {
    let reader = reopen(fs, table, options)?;
    let mut cursor = reader.cursor(
        BlockingSource::new(BlockReadOptions::default()),
        &TableCursorOptions::default(),
    );
    cursor.seek_to_first()?;
    while cursor.valid() {
        take(InternalKey::parse(cursor.key())?.seqno);
        cursor.next()?;
    }
    for tombstone in reader.tombstones().iter().flat_map(|all| all.tombstones()) {
        take(tombstone.seqno);
    }
    Ok(())
}

/// Returns the DB id in a table's properties, if the table was written under this file number.
pub(super) fn identity(
    fs: &dyn FileSystem,
    path: &Path,
    number: FileNumber,
    options: &Options,
) -> Option<String> {
    let file = open_file(fs, path).ok()?;
    let (reader, _) = open(&file, number, None, options).ok()?;
    let properties = reader.properties();
    let is_own = properties.original_file_number == number && !properties.db_id.is_empty();
    let id = || String::from_utf8(properties.db_id.clone()).ok();
    is_own.then(id).flatten()
}

/// Reads table `number` completely, and derives its file metadata from its entries.
pub(super) fn examine(
    fs: &dyn FileSystem,
    path: &Path,
    (db_id, number): (&str, FileNumber),
    options: &Options,
) -> Result<FoundTable> {
    let file = open_file(fs, path)?;
    let (reader, order) = open(&file, number, None, options)?;
    let mut bounds = Bounds::new(FileMeta::new(number, file.len(), Vec::new(), Vec::new()));
    let mut cursor = reader.cursor(
        BlockingSource::new(BlockReadOptions::default()),
        &TableCursorOptions::default(),
    );
    cursor.seek_to_first()?;
    let (mut oldest, mut newest) = (0, 0);
    while cursor.valid() {
        references_of(cursor.key(), cursor.value(), |_, reference| {
            if oldest == 0 || reference.file < oldest {
                oldest = reference.file;
            }
            newest = reference.file.max(newest);
            Ok(())
        })?;
        bounds.take(&order, cursor.key(), cursor.key())?;
        cursor.next()?;
    }
    bounds.file.oldest_blob_file = oldest;
    for tombstone in reader.tombstones().iter().flat_map(|all| all.tombstones()) {
        let first = encode(&tombstone.start, tombstone.seqno, ValueType::RangeDeletion);
        let end = order.before_versions(&tombstone.end);
        let last = encode(&end, MAX_SEQNO, ValueType::RangeDeletion);
        bounds.take(&order, &first, &last)?;
    }
    if bounds.entries == 0 {
        return Err(Error::corruption("the table has no entries"));
    }
    let properties = reader.properties();
    bounds.file.oldest_ancestor_time = properties.creation_time;
    bounds.file.creation_time = properties.file_creation_time;
    bounds.file.record_timestamps(properties);
    bounds.file.undated = matches!(*reader, TableReader::Undated(_));
    Ok(FoundTable {
        path: path.to_owned(),
        family: u32::try_from(properties.column_family_id)
            .ok()
            .filter(|&id| u64::from(id) != UNKNOWN_COLUMN_FAMILY_ID),
        family_name: String::from_utf8_lossy(&properties.column_family_name).into_owned(),
        order,
        file: bounds.file,
        entries: bounds.entries,
        flushed: properties.recorded_flushed_seqno(db_id, number),
        is_recorded: false,
        newest_blob_file: newest,
    })
}

/// Calls `take` with the user key and each reference to a blob file of an entry.
fn references_of(
    key: &[u8],
    value: &[u8],
    mut take: impl FnMut(&[u8], BlobReference) -> Result<()>,
) -> Result<()> {
    let key = InternalKey::parse(key)?;
    if !refers_to_blobs(key.value_type, value) {
        return Ok(());
    }
    if key.value_type == ValueType::BlobIndex {
        return take(key.user_key, BlobReference::decode(value)?);
    }
    for (_, column) in Entity::decode(value)?.stored_columns() {
        if let ColumnValue::BlobIndex(reference) = column {
            take(key.user_key, BlobReference::decode(reference)?)?;
        }
    }
    Ok(())
}

/// Calls `take` with the user key and each reference to a blob file of all entries of a table.
pub(super) fn each_reference(
    fs: &dyn FileSystem,
    path: &Path,
    table: &FileMeta,
    options: &Options,
    mut take: impl FnMut(&[u8], BlobReference) -> Result<()>,
) -> Result<()> {
    let file = open_file(fs, path)?;
    let (reader, _) = open(&file, table.number, Some(table), options)?;
    let mut cursor = reader.cursor(
        BlockingSource::new(BlockReadOptions::default()),
        &TableCursorOptions::default(),
    );
    cursor.seek_to_first()?;
    while cursor.valid() {
        references_of(cursor.key(), cursor.value(), &mut take)?;
        cursor.next()?;
    }
    Ok(())
}

/// The accumulated key and sequence number bounds of the table entries read so far.
struct Bounds {
    file: FileMeta,
    entries: u64,
}

impl Bounds {
    fn new(mut file: FileMeta) -> Self {
        file.smallest_seqno = MAX_SEQNO;
        file.largest_seqno = 0;
        Bounds { file, entries: 0 }
    }

    /// Extends the bounds by an entry or range tombstone from `first` to `last`.
    fn take(&mut self, order: &KeyOrder, first: &[u8], last: &[u8]) -> Result<()> {
        let seqno = InternalKey::parse(first)?.seqno;
        let file = &mut self.file;
        file.smallest_seqno = file.smallest_seqno.min(seqno);
        file.largest_seqno = file.largest_seqno.max(seqno);
        if self.entries == 0 || order.compare_internal(first, &file.smallest).is_lt() {
            file.smallest.clear();
            file.smallest.extend_from_slice(first);
        }
        if self.entries == 0 || order.compare_internal(last, &file.largest).is_gt() {
            file.largest.clear();
            file.largest.extend_from_slice(last);
        }
        self.entries += 1;
        Ok(())
    }
}
