//! Repair: a new MANIFEST from the tables and logs that can be read, when the old one is gone or damaged.
//!
//! Every readable table becomes a table of level 0 of the family its properties name; logs are left for the next open
//! to replay. What cannot be used moves to the directory `lost`; nothing is deleted, and the result is durable before
//! the old MANIFEST is set aside. Repair can be interrupted and run again.

use std::path::Path;
use std::sync::Arc;

use koeldb_base::file_name::{self, FileKind, FileNumber};
use koeldb_base::key::{MAX_SEQNO, ValueType, encode};
use koeldb_base::{Cursor, Error, InternalKey, KeyOrder, Result};
use koeldb_fs::{FileSystem, OpenOptions, Purpose};
use koeldb_lsm::manifest::{self, FamilySnapshot, ManifestSnapshot};
use koeldb_lsm::{FileMeta, Level, Version};
use koeldb_table::reader::{TableCursorOptions, TableReadContext, TableReader};
use koeldb_table::source::{BlockReadOptions, BlockingSource};

use crate::options::Options;

/// What a repair used and set aside.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Tables that are part of the database again.
    pub tables: Vec<FileNumber>,
    /// Entries in them.
    pub entries: u64,
    /// Files that were moved to `lost`, and why.
    pub lost: Vec<(String, String)>,
    /// Families found, by name.
    pub families: Vec<String>,
}

struct Found {
    family_name: String,
    order: KeyOrder,
    file: FileMeta,
    entries: u64,
}

/// Repairs the database at `path`.
pub(crate) fn repair(options: &Options, path: &Path) -> Result<RepairReport> {
    let fs = Arc::clone(&options.plugins.env.fs);
    let _lock = fs.lock(&file_name::lock(path))?;
    let mut report = RepairReport::default();
    let mut found = Vec::new();
    let mut manifests = Vec::new();
    for entry in fs.list(path)? {
        match file_name::parse(&entry.name) {
            Some(FileKind::Table(number)) => {
                match examine(&*fs, path, &entry.name, number, options) {
                    Ok(table) => found.push(table),
                    Err(error) => set_aside(&*fs, path, &entry.name, &error, &mut report)?,
                }
            }
            Some(FileKind::Manifest(_)) => manifests.push(entry.name),
            _ => {}
        }
    }
    // Newer tables have larger sequence numbers: in that order they get their places on level 0.
    found.sort_by_key(|table| (table.file.largest_seqno, table.file.number));
    let current = file_name::current(path);
    if fs.exists(&current)? {
        let kept = lost_directory(&*fs, path)?;
        fs.rename(&current, &kept.join("CURRENT"))?;
    }
    for name in manifests {
        let kept = lost_directory(&*fs, path)?;
        fs.rename(&path.join(&name), &kept.join(&name))?;
        report
            .lost
            .push((name, "replaced by the repaired MANIFEST".to_owned()));
    }
    fs.sync_dir(path)?;
    rebuild(&fs, path, options, found, &mut report)?;
    Ok(report)
}

fn rebuild(
    fs: &Arc<dyn FileSystem>,
    path: &Path,
    options: &Options,
    found: Vec<Found>,
    report: &mut RepairReport,
) -> Result<()> {
    let mut largest_number = 0;
    for entry in fs.list(path)? {
        let number = file_name::parse(&entry.name).and_then(FileKind::number);
        largest_number = largest_number.max(number.unwrap_or(0));
    }
    let level_count = usize::try_from(options.cf.num_levels).unwrap_or(7);
    let mut families: Vec<(String, KeyOrder, Vec<Arc<FileMeta>>)> = vec![(
        "default".to_owned(),
        options.cf.comparator.clone(),
        Vec::new(),
    )];
    let mut snapshot = ManifestSnapshot::default();
    for (table, epoch) in found.into_iter().zip(1..) {
        let mut file = table.file;
        file.epoch = epoch;
        snapshot.last_seqno = snapshot.last_seqno.max(file.largest_seqno);
        report.tables.push(file.number);
        report.entries += table.entries;
        let file = Arc::new(file);
        match families
            .iter_mut()
            .find(|(name, _, _)| *name == table.family_name)
        {
            Some((_, _, files)) => files.push(file),
            None => families.push((table.family_name, table.order, vec![file])),
        }
    }
    for ((name, order, mut files), id) in families.into_iter().zip(0..) {
        // Level 0 lists the newest first.
        files.reverse();
        let mut levels = vec![Level::default(); level_count.max(1)];
        levels[0].files = files;
        snapshot.max_column_family = id;
        report.families.push(name.clone());
        snapshot.families.push(FamilySnapshot {
            id,
            name,
            log_number: 0,
            version: Arc::new(Version::new(order, levels)),
        });
    }
    let number = largest_number + 1;
    manifest::install(&**fs, path, number, number + 1, &snapshot)
}

fn lost_directory(fs: &dyn FileSystem, path: &Path) -> Result<std::path::PathBuf> {
    let lost = path.join("lost");
    fs.create_dir_all(&lost)?;
    Ok(lost)
}

fn set_aside(
    fs: &dyn FileSystem,
    path: &Path,
    name: &str,
    error: &Error,
    report: &mut RepairReport,
) -> Result<()> {
    let lost = lost_directory(fs, path)?;
    fs.rename(&path.join(name), &lost.join(name))?;
    report.lost.push((name.to_owned(), error.to_string()));
    Ok(())
}

/// Reads a table whole, and makes its metadata.
fn examine(
    fs: &dyn FileSystem,
    path: &Path,
    name: &str,
    number: FileNumber,
    options: &Options,
) -> Result<Found> {
    let file = fs.open(
        &path.join(name),
        &OpenOptions {
            purpose: Purpose::Open,
            ..OpenOptions::default()
        },
    )?;
    let bytes = file.len();
    let mut context = TableReadContext {
        order: options.cf.comparator.clone(),
        prefix_extractor: options.cf.prefix_extractor.clone(),
        number,
        expected_bytes: bytes,
        ..TableReadContext::default()
    };
    let reader = match TableReader::open(Arc::clone(&file), &context) {
        Ok(reader) => reader,
        Err(error) => {
            // Another family's table may have another order.
            let orders = [
                "leveldb.BytewiseComparator",
                "rocksdb.ReverseBytewiseComparator",
            ];
            let opened = orders.iter().find_map(|name| {
                context.order = KeyOrder::from_name(name)?;
                TableReader::open(Arc::clone(&file), &context).ok()
            });
            opened.ok_or(error)?
        }
    };
    let order = context.order.clone();
    let mut cursor = reader.cursor(
        BlockingSource::new(BlockReadOptions::default()),
        &TableCursorOptions::default(),
    );
    let mut meta = FileMeta::new(number, bytes, Vec::new(), Vec::new());
    let (mut seqno_min, mut seqno_max, mut entries) = (MAX_SEQNO, 0, 0_u64);
    cursor.seek_to_first()?;
    while cursor.valid() {
        let key = InternalKey::parse(cursor.key())?;
        seqno_min = seqno_min.min(key.seqno);
        seqno_max = seqno_max.max(key.seqno);
        if entries == 0 {
            meta.smallest = cursor.key().to_vec();
        }
        meta.largest.clear();
        meta.largest.extend_from_slice(cursor.key());
        entries += 1;
        cursor.next()?;
    }
    if let Some(tombstones) = reader.tombstones() {
        for tombstone in tombstones.tombstones() {
            seqno_min = seqno_min.min(tombstone.seqno);
            seqno_max = seqno_max.max(tombstone.seqno);
            let first = encode(&tombstone.start, tombstone.seqno, ValueType::RangeDeletion);
            let last = encode(&tombstone.end, MAX_SEQNO, ValueType::RangeDeletion);
            if meta.smallest.is_empty() || order.compare_internal(&first, &meta.smallest).is_lt() {
                meta.smallest = first;
            }
            if meta.largest.is_empty() || order.compare_internal(&last, &meta.largest).is_gt() {
                meta.largest = last;
            }
            entries += 1;
        }
    }
    if entries == 0 {
        return Err(Error::corruption("the table holds nothing"));
    }
    meta.smallest_seqno = seqno_min;
    meta.largest_seqno = seqno_max;
    let properties = reader.properties();
    let family_name = String::from_utf8_lossy(&properties.column_family_name).into_owned();
    Ok(Found {
        family_name: if family_name.is_empty() {
            "default".to_owned()
        } else {
            family_name
        },
        order,
        file: meta,
        entries,
    })
}
