//! Findings about tables, levels, logs and the directory.

use std::path::Path;

use koeldb_base::file_name::{self, FileKind};
use koeldb_fs::FileSystem;
use koeldb_fs::posix::PosixFileSystem;
use koeldb_table::reader::TableReader;

use super::super::tree::Tree;
use super::super::{Outcome, wal};
use super::Report;
use crate::progress;

/// The share of deletions from which a table is reported, and the least number of entries.
const DELETIONS_SHARE: f64 = 0.5;
const DELETIONS_ENTRIES_MIN: u64 = 1000;

/// The tables of level 0 from which reads suffer: RocksDB's default of the slowdown trigger.
const LEVEL0_TABLES: usize = 20;

/// The bytes below which amplification and small tables do not matter.
const SMALL_BYTES: u64 = 64 << 20;

const DAMAGED: &str = "Restore the table from a backup. Without one, `ldb repair` keeps what is readable, and the rest is lost.";

const DAMAGED_BLOBS: &str = "Restore the file from a backup. Without one, `ldb repair` keeps the values that are readable, and lists the others.";

/// The share of garbage in blob files from which it is reported.
const GARBAGE_SHARE: f64 = 0.5;

/// Checks the table files of a column family, and the shape of its levels.
pub(super) fn examine_tables(tree: &Tree, verify: bool, report: &mut Report) {
    let family = &tree.name;
    let fs = PosixFileSystem::new();
    let bar = progress::bytes("doctor");
    bar.set_length(tree.version.bytes());
    for (level, file) in tree.version.files() {
        report.tables += 1;
        report.table_bytes += file.bytes;
        let name = format!(
            "{:06}.sst (column family \"{family}\", level {level})",
            file.number
        );
        let paths = tree.tables.paths();
        if usize::from(file.path_id) >= paths.count() {
            report.error(
                "consistency",
                format!(
                    "{name} is in directory number {} of db_paths, counted from 0",
                    file.path_id
                ),
                "It was not examined: give the directories with --db_paths.",
            );
            continue;
        }
        match fs.metadata(&paths.of_table(file)) {
            Err(error) => {
                report.error(
                    "consistency",
                    format!("{name} is missing: {}", error.without_advice()),
                    DAMAGED,
                );
                continue;
            }
            Ok(metadata) if metadata.len != file.bytes => {
                let message = format!(
                    "{name} has {} bytes where {} are recorded",
                    metadata.len, file.bytes
                );
                report.error("consistency", message, DAMAGED);
            }
            Ok(_) => {}
        }
        match tree.tables.reader(file, level) {
            Ok(table) => examine_table(&table, &name, verify, report),
            Err(error) => {
                let message = format!("{name}: {}", error.without_advice());
                report.error("table", message, DAMAGED);
            }
        }
        bar.inc(file.bytes);
    }
    bar.finish_and_clear();
    examine_levels(tree, report);
}

/// Checks the blob files of a column family: that they exist and are whole.
pub(super) fn examine_blob_files(tree: &Tree, verify: bool, report: &mut Report) {
    let fs = PosixFileSystem::new();
    for file in tree.version.blob_files.values() {
        let (number, family) = (file.number, &tree.name);
        let name = format!("{number:06}.blob (column family \"{family}\")");
        report.blob_files += 1;
        report.blob_bytes += file.file_bytes();
        match fs.metadata(&tree.tables.paths().blob(number)) {
            Err(error) => {
                let message = format!("{name} is missing: {}", error.without_advice());
                report.error("consistency", message, DAMAGED_BLOBS);
                continue;
            }
            Ok(metadata) if metadata.len != file.file_bytes() => {
                let message = format!(
                    "{name} has {} bytes where {} are recorded",
                    metadata.len,
                    file.file_bytes()
                );
                report.error("consistency", message, DAMAGED_BLOBS);
                continue;
            }
            Ok(_) => {}
        }
        let examined = match verify {
            true => tree.tables.verify_blob_file(file, tree.id, &mut |_| ()),
            false => tree.tables.keep_blob_file(file),
        };
        if let Err(error) = examined {
            let message = format!("{name}: {}", error.without_advice());
            report.error("checksum", message, DAMAGED_BLOBS);
        }
    }
    let files = tree.version.blob_files.values();
    let (total, garbage) = files.fold((0, 0), |(total, garbage), file| {
        (total + file.bytes, garbage + file.garbage_bytes)
    });
    if garbage > SMALL_BYTES && ratio(garbage, total) > GARBAGE_SHARE {
        report.warning(
            "space",
            format!(
                "column family \"{}\": {garbage} of {total} bytes in blob files are garbage",
                tree.name
            ),
            "Set enable_blob_garbage_collection, and compact the family (`ldb compact`).",
        );
    }
}

/// Checks the entries and properties of one table file.
fn examine_table(table: &TableReader, name: &str, verify: bool, report: &mut Report) {
    if verify && let Err(error) = table.verify_checksums(&mut |_| ()) {
        let message = format!("{name}: {}", error.without_advice());
        report.error("checksum", message, DAMAGED);
    }
    let properties = table.properties();
    report.entries += properties.entry_count;
    let share = ratio(properties.deletion_count, properties.entry_count);
    if share > DELETIONS_SHARE && properties.entry_count >= DELETIONS_ENTRIES_MIN {
        report.warning(
            "tombstones",
            format!("{name}: {:.0} % of its {} entries are deletions", share * 100.0, properties.entry_count),
            "Scans read them all. Compact the range (`ldb compact --from --to`), and use delete_range for ranges.",
        );
    }
}

/// Checks the sizes and file counts of the levels of a column family.
fn examine_levels(tree: &Tree, report: &mut Report) {
    let family = &tree.name;
    let levels = &tree.version.levels;
    for (number, level) in levels.iter().enumerate().skip(1) {
        for pair in level.files.windows(2) {
            if tree
                .order
                .compare_internal(&pair[0].largest, &pair[1].smallest)
                .is_ge()
            {
                report.error(
                    "overlap",
                    format!(
                        "column family \"{family}\", level {number}: {:06}.sst and {:06}.sst overlap",
                        pair[0].number, pair[1].number
                    ),
                    "Reads may miss keys. Restore a backup, or run `ldb repair`, which merges overlapping tables.",
                );
            }
        }
    }
    let newest = levels.first().map_or(0, |level| level.files.len());
    if newest >= LEVEL0_TABLES {
        report.warning(
            "level0",
            format!("column family \"{family}\": level 0 has {newest} tables, all of which a read may visit"),
            "Compactions do not keep up: raise max_background_jobs or max_subcompactions, or run `ldb compact`.",
        );
    }
    let total = tree.version.bytes();
    let deepest = levels[tree.version.deepest_level()].bytes();
    let amplification = ratio(total, deepest);
    if amplification > 2.0 && total > SMALL_BYTES {
        report.warning(
            "space",
            format!("column family \"{family}\": {total} bytes of tables over {deepest} in the deepest level, a space amplification of {amplification:.1}"),
            "Up to this factor of the space may be old versions. Compact the family (`ldb compact`), or use level_compaction_dynamic_level_bytes.",
        );
    }
    let tables = tree.version.files().count();
    if tables >= 1000 && ratio(total, tables as u64) < 4_000_000.0 {
        report.note(
            "tables",
            format!(
                "column family \"{family}\": {tables} tables of {} bytes on average",
                total / tables as u64
            ),
            "Many small tables cost memory and descriptors: raise target_file_size_base.",
        );
    }
}

/// Reads all WAL files of the directory `logs` that the next open replays, and reports damaged records.
pub(super) fn examine_logs(logs: &Path, trees: &[Tree], report: &mut Report) -> Outcome {
    let fs = PosixFileSystem::new();
    let oldest = trees.iter().map(|tree| tree.log_number).min().unwrap_or(0);
    let mut bytes = 0;
    let numbers = koeldb_log::wal::list(&fs, logs)?;
    let newest = numbers.last().copied();
    for number in numbers.into_iter().filter(|number| *number >= oldest) {
        report.logs += 1;
        let path = file_name::wal(logs, number);
        bytes += fs.metadata(&path)?.len;
        let mut records = wal::open(&path)?;
        while records.next_record()?.is_some() {}
        while let Some(problem) = records.take_problem() {
            let message = problem.to_error(&**records.file()).to_string();
            if newest == Some(number) {
                report.note(
                    "log",
                    format!("{message} in the newest log"),
                    "A crash leaves a torn tail, which the next open drops. If there was none, the log is damaged: see wal_recovery_mode.",
                );
            } else {
                report.error(
                    "log",
                    message,
                    "The next open obeys wal_recovery_mode: by default it stops before the damage and keeps the rest in archive/.",
                );
            }
        }
    }
    if bytes > 4 << 30 {
        report.warning(
            "log",
            format!(
                "{} logs have {bytes} bytes, which the next open replays",
                report.logs
            ),
            "A column family that is rarely written pins them: set max_total_wal_size.",
        );
    }
    Ok(())
}

/// Reports table and blob files in the directory that belong to no column family.
pub(super) fn examine_directory(directory: &Path, trees: &[Tree], report: &mut Report) -> Outcome {
    let is_live_table = |number: u64| {
        let mut files = trees.iter().flat_map(|tree| tree.version.files());
        files.any(|(_, file)| file.number == number)
    };
    let is_live_blob_file = |number: u64| {
        let mut trees = trees.iter();
        trees.any(|tree| tree.version.blob_files.contains_key(&number))
    };
    let (mut tables, mut blob_files) = (0_u64, 0_u64);
    for entry in PosixFileSystem::new().list(directory)? {
        match file_name::parse(&entry.name) {
            Some(FileKind::Table(number)) => tables += u64::from(!is_live_table(number)),
            Some(FileKind::Blob(number)) => blob_files += u64::from(!is_live_blob_file(number)),
            _ => {}
        }
    }
    for (unknown, what) in [(tables, "tables"), (blob_files, "blob files")] {
        if unknown > 0 {
            report.note(
                "files",
                format!("{unknown} {what} in the directory belong to no column family"),
                "They are of a running job or an interrupted one; the next open removes them.",
            );
        }
    }
    Ok(())
}

/// Returns `number / of` for display; 0 if `of` is 0.
fn ratio(number: u64, of: u64) -> f64 {
    if of == 0 {
        return 0.0;
    }
    number as f64 / of as f64
}
