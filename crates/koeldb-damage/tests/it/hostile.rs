//! Hostile files: changed structure with recomputed checksums.
//!
//! Results may be wrong; nothing panics, hangs or takes unbounded memory.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koeldb::RecoveryMode;
use koeldb_base::checksum::{crc32c, mask};
use koeldb_damage::bytes_file::{BytesFile, put_file};
use koeldb_damage::reseal::SealedTable;
use koeldb_damage::targets::directory::{options, use_up as use_up_database};
use koeldb_damage::targets::judge;
use koeldb_damage::targets::table::{open, scan, scan_backward, use_up};
use koeldb_damage::{mutate, seeds};
use koeldb_fs::{FileSystem, MemoryFileSystem, Purpose, SurvivalPolicy};
use koeldb_log::{RecordReader, RecoveryMode as LogMode, WalCompression};
use koeldb_table::TableReader;
use koeldb_table::block_based::format::{BlockHandle, Footer};
use koeldb_table::reader::TableReadContext;
use koeldb_testkit::{Floors, Random, Summary};

use crate::watch::watched;

/// Boundary values of a handle in a file of `file_bytes` bytes.
fn hostile_number(random: &mut Random, file_bytes: u64) -> u64 {
    match random.below(7) {
        0 => 0,
        1 => file_bytes,
        2 => file_bytes - 1,
        3 => u64::MAX,
        4 => u64::MAX - random.below(64),
        5 => u64::from(u32::MAX) + random.below(3) - 1,
        _ => random.below(file_bytes),
    }
}

fn hostile_handle(random: &mut Random, was: BlockHandle, file_bytes: u64) -> BlockHandle {
    match random.below(3) {
        0 => BlockHandle {
            offset: hostile_number(random, file_bytes),
            ..was
        },
        1 => BlockHandle {
            size: hostile_number(random, file_bytes),
            ..was
        },
        _ => BlockHandle {
            offset: hostile_number(random, file_bytes),
            size: hostile_number(random, file_bytes),
        },
    }
}

/// A table with a change that no checksum detects.
fn hostile(random: &mut Random, table: &SealedTable) -> Vec<u8> {
    let mut bytes = table.bytes().to_vec();
    let whole = bytes.len() as u64;
    if random.chance(1, 8) {
        let mut footer = Footer { ..*table.footer() };
        match random.below(3) {
            0 => footer.metaindex = hostile_handle(random, footer.metaindex, whole),
            1 => footer.index = hostile_handle(random, footer.index, whole),
            _ => footer.format_version = u32::try_from(random.below(9)).unwrap(),
        }
        table.put_footer(&mut bytes, &footer);
        return bytes;
    }
    for _ in 0..=random.below(3) {
        let count = table.blocks().len() as u64;
        if count == 0 {
            mutate::in_place(random, &mut bytes);
            continue;
        }
        // The last blocks are the structured ones; most blocks are data blocks.
        let index = match random.chance(1, 2) {
            true => count - 1 - random.below(count.min(4)),
            false => random.below(count),
        };
        let block = table.blocks()[usize::try_from(index).unwrap()];
        let start = usize::try_from(block.offset).unwrap();
        let end = start + usize::try_from(block.size).unwrap() + 1;
        // Numbers are at both ends of a block.
        let near = match random.below(3) {
            0 => start..end.min(start + 24),
            1 => end.saturating_sub(24).max(start)..end,
            _ => start..end,
        };
        mutate::in_place(random, &mut bytes[near]);
    }
    table.seal(&mut bytes);
    bytes
}

/// Whether validation of the table finds nothing wrong; then its scans must be consistent.
///
/// They must agree with each other, and with the table's properties.
fn is_consistent_if_examined(table: &Arc<TableReader>, context: &TableReadContext) -> bool {
    if let Err(error) = table.examine(&context.order) {
        judge(&error);
        return false;
    }
    let forward = scan(table).expect("what was examined can be read");
    let backward = scan_backward(table).expect("what was examined can be read");
    assert!(forward == backward, "scans both ways differ");
    let ascends = |pair: &[(Vec<u8>, Vec<u8>)]| {
        let [(a, _), (b, _)] = pair else { return true };
        context.order.compare_internal(a, b).is_lt()
    };
    assert!(forward.windows(2).all(ascends), "the keys do not ascend");
    true
}

#[test]
fn tables_with_valid_checksums_and_hostile_content_do_no_harm() {
    let begun = crate::seconds();
    let context = seeds::read_context();
    let [cases, refused, consistent] = [const { AtomicU64::new(0) }; 3];
    let rounds = Floors::chosen().of(250, 5_500, 50_000);
    crate::two_at_a_time(&seeds::tables(), |number, seed| {
        let table = SealedTable::new(seed.bytes.clone(), &context).unwrap();
        for round in 0..rounds {
            let own = number as u64 * 1_000_000 + round;
            let mut random = Random::new(crate::seed().wrapping_mul(7919) + own);
            let bytes = hostile(&mut random, &table);
            let what = || format!("{}, round {round}", seed.name);
            watched(bytes.len(), &what, || match open(&bytes, &context) {
                Ok(table) => {
                    use_up(&table);
                    let is_consistent = is_consistent_if_examined(&table, &context);
                    consistent.fetch_add(u64::from(is_consistent), Ordering::Relaxed);
                }
                Err(error) => {
                    judge(&error);
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            });
            cases.fetch_add(1, Ordering::Relaxed);
        }
    });
    Summary {
        suite: "hostile-tables",
        seed: crate::seed(),
        figures: vec![
            ("cases", cases.into_inner()),
            ("refused", refused.into_inner()),
            ("consistent", consistent.into_inner()),
        ],
        seconds: crate::seconds() - begun,
        failures: 0,
    }
    .finish("cases", Floors::chosen().of(9_000, 200_000, 1_800_000));
}

/// Changes the checksum block of cuckoo and plain tables, recomputing its own checksum.
#[test]
fn hostile_checksums_are_refused() {
    let context = seeds::read_context();
    let mut refused = 0;
    for seed in seeds::tables() {
        let Some(handle) = open(&seed.bytes, &context)
            .unwrap()
            .metaindex()
            .get("koeldb.checksums")
        else {
            continue;
        };
        let start = usize::try_from(handle.offset).unwrap();
        let end = start + usize::try_from(handle.size).unwrap() - 4;
        for round in 0..400 {
            let mut random = Random::new(round);
            let mut bytes = seed.bytes.clone();
            mutate::in_place(&mut random, &mut bytes[start..end]);
            let own = mask(crc32c(&bytes[start..end]));
            bytes[end..end + 4].copy_from_slice(&own.to_le_bytes());
            if bytes == seed.bytes {
                continue;
            }
            let what = || format!("{}, round {round}", seed.name);
            watched(bytes.len(), &what, || match open(&bytes, &context) {
                // Spans of another length may divide the same data at the same positions.
                Ok(table) => use_up(&table),
                Err(error) => {
                    assert!(error.is_corruption(), "{error}");
                    refused += 1;
                }
            });
        }
    }
    assert!(refused > 1_000, "{refused}");
}

/// The records of a log.
fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let file = BytesFile::new("/000009.log", bytes);
    let mut reader = RecordReader::new(file, 9, LogMode::SkipAnyCorruptedRecords);
    let mut records = Vec::new();
    while let Ok(Some(record)) = reader.next_record() {
        records.push(record.to_vec());
    }
    records
}

#[test]
fn logs_with_valid_checksums_and_hostile_records_do_no_harm() {
    let begun = crate::seconds();
    let (mut cases, mut refused) = (0, 0);
    let rounds = Floors::chosen().of(40, 2_000, 20_000);
    let mut folders: Vec<_> = seeds::golden_files(40 << 10, |name| name.starts_with("MANIFEST-"))
        .into_iter()
        .map(|(path, _)| path.parent().unwrap().to_owned())
        .collect();
    folders.retain(|folder| {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        [
            "deletes-ranges-single",
            "merge-uint64add-wal",
            "block-v6",
            "write-prepared-killed",
        ]
        .contains(&name.as_str())
    });
    for (number, folder) in (0..).zip(&folders) {
        let fs = MemoryFileSystem::new();
        let directory = Path::new("/db");
        fs.create_dir_all(directory).unwrap();
        let mut logs = Vec::new();
        for (path, bytes) in seeds::golden_files(1 << 20, |_| true) {
            if path.parent() != Some(folder) {
                continue;
            }
            let name = path.file_name().unwrap();
            put_file(&fs, &directory.join(name), &bytes).unwrap();
            let text = name.to_string_lossy();
            if text.starts_with("MANIFEST-") || text.ends_with(".log") {
                logs.push((directory.join(name), records(&bytes)));
            }
        }
        for round in 0..rounds {
            let mut random =
                Random::new(crate::seed().wrapping_mul(31) + number * 1_000_000 + round);
            let image = fs.crash_image(SurvivalPolicy::Generous, 0);
            let (path, records) = &logs[usize::try_from(random.below(logs.len() as u64)).unwrap()];
            let mut changed = records.clone();
            if changed.is_empty() {
                continue;
            }
            for _ in 0..=random.below(2) {
                let at = usize::try_from(random.below(changed.len() as u64)).unwrap();
                let other = changed[(at + 1) % changed.len()].clone();
                match random.below(8) {
                    0 => changed.insert(at, other),
                    1 => changed.swap(0, at),
                    _ => mutate::anyhow(&mut random, &mut changed[at], &other),
                }
            }
            put_file(
                &image,
                path,
                &seeds::log(&changed, WalCompression::None).unwrap(),
            )
            .unwrap();
            let what = || format!("{}, round {round}", path.display());
            if round % 3 == 0 {
                watched(1 << 20, &what, || {
                    match koeldb::Db::builder(&options(&image))
                        .untrusted()
                        .open(directory)
                    {
                        Ok(db) => use_up_database(&db),
                        Err(error) => judge(&error),
                    }
                });
            }
            let mode = [
                RecoveryMode::PointInTime,
                RecoveryMode::SkipAnyCorruptedRecords,
                RecoveryMode::TolerateCorruptedTailRecords,
                RecoveryMode::AbsoluteConsistency,
            ];
            watched(1 << 20, &what, || {
                let mut how = options(&image);
                how.set_wal_recovery_mode(mode[usize::try_from(round % 4).unwrap()]);
                let mut families = koeldb::ColumnFamilyOptions::new();
                families.set_merge_operator(koeldb::StringAppend::default());
                let mut builder = koeldb::Db::builder(&how);
                match builder.other_column_families(&families).open(directory) {
                    Ok(db) => {
                        // All checksums match: a log is replayed to its end, or refused.
                        let report = db.recovery_report();
                        for log in &report.logs {
                            let is_whole = log.dropped_bytes == 0 && !log.ignored;
                            assert!(is_whole && log.problem.is_none(), "{}: {report}", what());
                        }
                        use_up_database(&db);
                        for done in [db.put("key", "value"), db.flush(), db.close()] {
                            if let Err(error) = done {
                                judge(&error);
                            }
                        }
                    }
                    Err(error) => {
                        judge(&error);
                        refused += 1;
                    }
                }
            });
            // Nothing outside was changed.
            let outside = image.list(Path::new("/")).unwrap();
            assert!(
                outside.iter().all(|entry| entry.name == "db"),
                "{outside:?}"
            );
            cases += 1;
        }
        assert!(fs.read_all(&logs[0].0, 1 << 20, Purpose::Open).is_ok());
    }
    Summary {
        suite: "hostile-logs",
        seed: crate::seed(),
        figures: vec![("cases", cases), ("refused", refused)],
        seconds: crate::seconds() - begun,
        failures: 0,
    }
    .finish("cases", rounds * 2);
}
