//! Checks of exports before an import: whether the description matches the tables.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use koeldb_base::entity::refers_to_blobs;
use koeldb_base::file_name::{self, FileKind};
use koeldb_base::key::{InternalKey, MAX_SEQNO, encode, user_key};
use koeldb_base::{Cursor, Error, KeyOrder, Result, Timestamp, ValueType};
use koeldb_fs::FileSystem;
use koeldb_table::reader::{TableReadContext, TableReader};

use super::{ExportedColumnFamily, ExportedFile};
use crate::copies::sst_file_reader::{open_table, point_cursor};
use crate::options::ColumnFamilyOptions;

/// A file to import, with the path of its table; its size and its bounds are known.
pub(super) struct ImportFile {
    pub(super) source: PathBuf,
    pub(super) file: ExportedFile,
    /// The smallest and the largest user-defined timestamp of the table, if keys have them.
    pub(super) timestamps: Option<(Timestamp, Timestamp)>,
}

/// Validates exports before an import changes anything; returns their files, oldest first.
pub(super) fn check_exports(
    fs: &dyn FileSystem,
    options: &ColumnFamilyOptions,
    exports: &[ExportedColumnFamily],
) -> Result<Vec<ImportFile>> {
    let order = &options.comparator;
    let mut files: Vec<ImportFile> = Vec::new();
    let mut ranges: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for export in exports {
        if export.comparator != order.name() {
            return Err(Error::invalid_argument(format!(
                "the export has comparator {}, and the column family {}",
                export.comparator,
                order.name()
            )));
        }
        let mut checked = Vec::new();
        for file in &export.files {
            let source = fs.absolute(&file.path())?;
            let (file, timestamps) = check_file(fs, options, file, &source)
                .map_err(|error| error.in_file(&source, None, "import"))?;
            checked.push(ImportFile {
                source,
                file,
                timestamps,
            });
        }
        check_levels(order, &checked)?;
        if let Some(range) = range_of(order, &checked) {
            let is_apart = |other: &(Vec<u8>, Vec<u8>)| {
                order.compare_without_timestamps(&other.1, &range.0).is_lt()
                    || order.compare_without_timestamps(&range.1, &other.0).is_lt()
            };
            if !ranges.iter().all(is_apart) {
                let directory = export.files.first().map(|file| &*file.directory);
                return Err(Error::invalid_argument(format!(
                    "the keys of {} overlap those of another export",
                    directory.unwrap_or(Path::new("")).display()
                )));
            }
            ranges.push(range);
        }
        files.extend(checked);
    }
    if files.is_empty() {
        return Err(Error::invalid_argument("there is no table to import"));
    }
    let has_epochs = files.iter().all(|file| file.file.epoch > 0);
    files.sort_by_key(|ImportFile { file, .. }| match has_epochs {
        true => (file.epoch, file.largest_seqno),
        false => (file.largest_seqno, file.smallest_seqno),
    });
    Ok(files)
}

/// Returns the smallest and the largest user key of an export; `None` if it has no files.
fn range_of(order: &KeyOrder, export: &[ImportFile]) -> Option<(Vec<u8>, Vec<u8>)> {
    let by = |a: &&[u8], b: &&[u8]| order.compare(a, b);
    let smallest = export.iter().map(|it| user_key(&it.file.smallest));
    let largest = export.iter().map(|it| user_key(&it.file.largest));
    let (smallest, largest) = (smallest.min_by(by)?, largest.max_by(by)?);
    Some((smallest.to_vec(), largest.to_vec()))
}

/// Checks that the tables of each level below 0 do not overlap.
fn check_levels(order: &KeyOrder, export: &[ImportFile]) -> Result<()> {
    let files = export.iter().map(|it| &it.file);
    let mut files: Vec<&ExportedFile> = files.filter(|file| file.level > 0).collect();
    files.sort_by(|a, b| {
        let by_key = || order.compare_internal(&a.smallest, &b.smallest);
        a.level.cmp(&b.level).then_with(by_key)
    });
    for pair in files.windows(2) {
        let [a, b] = pair else { continue };
        if a.level == b.level && order.compare_internal(&a.largest, &b.smallest).is_ge() {
            return Err(Error::corruption(format!(
                "the keys of {} and {} overlap on level {}",
                a.name, b.name, a.level
            ))
            .in_file(&b.directory, None, "import"));
        }
    }
    Ok(())
}

/// Verifies the recorded key bounds and largest sequence number of a table by its entries.
fn check_entries(reader: &Arc<TableReader>, order: &KeyOrder, file: &ExportedFile) -> Result<()> {
    let refused = |text: String| Err(Error::corruption(text));
    let tombstones = reader.tombstones();
    let tombstones = tombstones.iter().flat_map(|all| all.tombstones());
    let mut largest_seqno = tombstones.map(|tombstone| tombstone.seqno).max();
    let mut cursor = point_cursor(reader);
    cursor.seek_to_first()?;
    while cursor.valid() {
        let key = cursor.key();
        // Tombstones may reach beyond the bounds, which cut them.
        if order.compare_internal(key, &file.smallest).is_lt()
            || order.compare_internal(key, &file.largest).is_gt()
        {
            return refused("the table has entries outside of its bounds".to_owned());
        }
        let key = InternalKey::parse(key)?;
        if refers_to_blobs(key.value_type, cursor.value()) {
            return Err(Error::not_supported(
                "the table refers to blob files, which an export does not have",
            ));
        }
        largest_seqno = largest_seqno.max(Some(key.seqno));
        cursor.next()?;
    }
    if largest_seqno != Some(file.largest_seqno) {
        return refused(format!(
            "the largest sequence number of the table is {}, not {}",
            largest_seqno.unwrap_or(0),
            file.largest_seqno
        ));
    }
    Ok(())
}

/// Checks one file of an export against its description: name, size, bounds and entries.
///
/// Returns the description with the size and the bounds, which it may lack, and the range of
/// user-defined timestamps.
fn check_file(
    fs: &dyn FileSystem,
    options: &ColumnFamilyOptions,
    file: &ExportedFile,
    source: &Path,
) -> Result<(ExportedFile, Option<(Timestamp, Timestamp)>)> {
    let refused = |text: String| Err(Error::corruption(text));
    if !matches!(file_name::parse(file.bare_name()), Some(FileKind::Table(_))) {
        return refused(format!("{:?} is not the name of a table", file.name));
    }
    let order = &options.comparator;
    let mut file = file.clone();
    let has_bounds = !(file.smallest.is_empty() && file.largest.is_empty());
    if has_bounds {
        InternalKey::check_bound(&file.smallest)?;
        InternalKey::check_bound(&file.largest)?;
    }
    let is_reversed = || {
        order
            .compare_internal(&file.smallest, &file.largest)
            .is_gt()
    };
    if has_bounds && is_reversed()
        || file.smallest_seqno > file.largest_seqno
        || file.largest_seqno > MAX_SEQNO
    {
        return refused("bounds in the wrong order".to_owned());
    }
    let levels = usize::try_from(options.num_levels).unwrap_or(7);
    if file.level >= levels {
        return Err(Error::invalid_argument(format!(
            "the table is on level {}, and the column family has {levels} levels",
            file.level
        )));
    }
    let found = fs.metadata(source)?.len;
    if file.bytes != 0 && found != file.bytes {
        return refused(format!("the table has {found} bytes, not {}", file.bytes));
    }
    file.bytes = found;
    let context = TableReadContext {
        order: order.clone(),
        undated: Some(options.has_undated_tables()),
        largest_seqno: Some(file.largest_seqno),
        ..TableReadContext::default()
    };
    let reader = open_table(fs, source, context)?;
    if !has_bounds {
        set_bounds(&reader, order, &mut file)?;
    }
    check_entries(&reader, order, &file)?;
    Ok((file, reader.properties().timestamps()))
}

/// Sets the bounds of a table to those of its entries and range tombstones.
fn set_bounds(reader: &Arc<TableReader>, order: &KeyOrder, file: &mut ExportedFile) -> Result<()> {
    let mut extend = |first: &[u8], last: &[u8]| {
        let (smallest, largest) = (&mut file.smallest, &mut file.largest);
        if smallest.is_empty() || order.compare_internal(first, smallest).is_lt() {
            *smallest = first.to_vec();
        }
        if largest.is_empty() || order.compare_internal(last, largest).is_gt() {
            *largest = last.to_vec();
        }
    };
    let mut cursor = point_cursor(reader);
    cursor.seek_to_first()?;
    while cursor.valid() {
        InternalKey::parse(cursor.key())?;
        extend(cursor.key(), cursor.key());
        cursor.next()?;
    }
    let tombstones = reader.tombstones();
    for tombstone in tombstones.iter().flat_map(|all| all.tombstones()) {
        let first = encode(&tombstone.start, tombstone.seqno, ValueType::RangeDeletion);
        let end = order.before_versions(&tombstone.end);
        let last = encode(&end, MAX_SEQNO, ValueType::RangeDeletion);
        extend(&first, &last);
    }
    match file.smallest.is_empty() {
        true => Err(Error::invalid_argument("the table has no entries")),
        false => Ok(()),
    }
}
