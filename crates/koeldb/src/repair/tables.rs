//! What a table tells of itself when it is read from end to end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::file_name::FileNumber;
use koeldb_base::key::{MAX_SEQNO, ValueType, encode};
use koeldb_base::{Cursor, Error, InternalKey, KeyOrder, Result};
use koeldb_fs::{FileSystem, OpenOptions, Purpose, RandomAccessFile};
use koeldb_lsm::FileMeta;
use koeldb_table::plain::reader::PlainReadOptions;
use koeldb_table::properties::UNKNOWN_COLUMN_FAMILY_ID;
use koeldb_table::reader::{TableCursorOptions, TableReadContext, TableReader};
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use crate::options::Options;

/// A table that can be read.
#[derive(Debug)]
pub(super) struct FoundTable {
    pub(super) path: PathBuf,
    /// Its family, if it says so.
    pub(super) family: Option<u32>,
    /// The name of its family; empty if it does not say.
    pub(super) family_name: String,
    pub(super) order: KeyOrder,
    pub(super) file: FileMeta,
    pub(super) entries: u64,
    /// It was written outside of a database: its sequence numbers say nothing of what was flushed.
    pub(super) is_external: bool,
}

/// Opens a table in whichever order it was written.
fn open(
    file: &Arc<dyn RandomAccessFile>,
    number: FileNumber,
    options: &Options,
) -> Result<(Arc<TableReader>, KeyOrder)> {
    let open = |order: &KeyOrder| {
        let reader = TableReader::open(
            Arc::clone(file),
            &TableReadContext {
                order: order.clone(),
                prefix_extractor: options.cf.prefix_extractor.clone(),
                plain: PlainReadOptions {
                    full_scan: true,
                    ..PlainReadOptions::default()
                },
                number,
                expected_bytes: file.len(),
                ..TableReadContext::default()
            },
        )?;
        // It does not say in which order it was written.
        if let TableReader::Plain(table) = &*reader {
            table.verify_checksums(&mut |_| ())?;
        }
        Ok(reader)
    };
    let own = &options.cf.comparator;
    let error = match open(own) {
        Ok(reader) => return Ok((reader, own.clone())),
        Err(error) => error,
    };
    // Another family's table may have another order.
    for order in [KeyOrder::Bytewise, KeyOrder::ReverseBytewise] {
        if let Ok(reader) = open(&order) {
            return Ok((reader, order));
        }
    }
    Err(error)
}

/// Reads table `number` whole, and makes its metadata.
pub(super) fn examine(
    fs: &dyn FileSystem,
    path: &Path,
    number: FileNumber,
    options: &Options,
) -> Result<FoundTable> {
    let file = fs.open(
        path,
        &OpenOptions {
            purpose: Purpose::Open,
            ..OpenOptions::default()
        },
    )?;
    let (reader, order) = open(&file, number, options)?;
    let mut bounds = Bounds::new(FileMeta::new(number, file.len(), Vec::new(), Vec::new()));
    let mut cursor = reader.cursor(
        BlockingSource::new(BlockReadOptions::default()),
        &TableCursorOptions::default(),
    );
    cursor.seek_to_first()?;
    while cursor.valid() {
        bounds.take(&order, cursor.key(), cursor.key())?;
        cursor.next()?;
    }
    for tombstone in reader.tombstones().iter().flat_map(|all| all.tombstones()) {
        let first = encode(&tombstone.start, tombstone.seqno, ValueType::RangeDeletion);
        let last = encode(&tombstone.end, MAX_SEQNO, ValueType::RangeDeletion);
        bounds.take(&order, &first, &last)?;
    }
    if bounds.entries == 0 {
        return Err(Error::corruption("the table holds nothing"));
    }
    let properties = reader.properties();
    Ok(FoundTable {
        path: path.to_owned(),
        family: u32::try_from(properties.column_family_id)
            .ok()
            .filter(|&id| u64::from(id) != UNKNOWN_COLUMN_FAMILY_ID),
        family_name: String::from_utf8_lossy(&properties.column_family_name).into_owned(),
        order,
        file: bounds.file,
        entries: bounds.entries,
        is_external: properties.external_version()?.is_some(),
    })
}

/// What the entries read so far lie between.
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

    /// Takes in an entry from `first` to `last`, numbered as `first` is.
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
