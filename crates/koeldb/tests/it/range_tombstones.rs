//! Scans over range tombstones: their answers in every shape of the tree, and their cost.

use std::collections::BTreeMap;

use koeldb::statistics::{Statistics, Ticker};
use koeldb::{Db, Options, ReadOptions, Snapshot, SstFileWriter};
use koeldb_testkit::{Floors, Random, random::mix};

use crate::scratch::ScratchDir;

const KEYS: u64 = 1500;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u64) -> Vec<u8> {
    format!("{number:05}").into_bytes()
}

/// Two keys with a narrow or a wide range between them.
fn range(random: &mut Random) -> (u64, u64) {
    let from = random.below(KEYS);
    let width = [3, 30, 400, KEYS][random.index(4)];
    (from, from + 1 + random.below(width))
}

/// The options of small tables, which range tombstones cross, of a few shapes.
fn options(random: &mut Random) -> Options {
    let mut options = Options::new();
    let mut table = koeldb::BlockBasedOptions::default();
    table.set_block_size(256);
    options
        .create_if_missing(true)
        .set_write_buffer_size(1 << 20)
        .set_target_file_size_base(2 << 10)
        .set_max_bytes_for_level_base(16 << 10)
        .set_max_subcompactions(1 + u32::try_from(random.below(3)).unwrap())
        .set_level_zero_file_num_compaction_trigger(3)
        .set_disable_auto_compactions(random.chance(1, 3))
        .set_block_based_table_factory(&table);
    if random.chance(1, 4) {
        options.set_compaction_style(koeldb::CompactionStyle::Universal);
    }
    options
}

/// Compares scans in both directions, and random movements, with the model.
fn check(db: &Db, random: &mut Random, snapshot: Option<&Snapshot>, model: &Model) {
    let mut read = snapshot.map_or_else(ReadOptions::new, ReadOptions::at);
    read.set_async_io(random.chance(1, 2));
    let entries: Vec<_> = model.iter().collect();
    let mut cursor = db.cursor_opt(&read);
    let mut is_there = cursor.seek_to_first().unwrap();
    for (key, value) in &entries {
        assert!(is_there, "{}", key.escape_ascii());
        assert_eq!(cursor.entry(), Some((&key[..], &value[..])));
        is_there = cursor.next().unwrap();
    }
    assert!(!is_there);
    is_there = cursor.seek_to_last().unwrap();
    for (key, value) in entries.iter().rev() {
        assert!(is_there, "{}", key.escape_ascii());
        assert_eq!(cursor.entry(), Some((&key[..], &value[..])));
        is_there = cursor.prev().unwrap();
    }
    assert!(!is_there);
    for _ in 0..20 {
        let target = key(random.below(KEYS + 10));
        let mut at = entries.partition_point(|(key, _)| **key < target);
        let mut is_there = match random.chance(1, 2) {
            true => cursor.seek(&target).unwrap(),
            false => {
                let exact = entries.get(at).is_some_and(|(key, _)| **key == target);
                at = (at + usize::from(exact)).wrapping_sub(1);
                cursor.seek_for_prev(&target).unwrap()
            }
        };
        for _ in 0..random.below(12) {
            assert_eq!(is_there, at < entries.len(), "{}", target.escape_ascii());
            if !is_there {
                break;
            }
            assert_eq!(
                cursor.entry(),
                Some((&entries[at].0[..], &entries[at].1[..]))
            );
            is_there = match random.chance(1, 2) {
                true => {
                    at += 1;
                    cursor.next().unwrap()
                }
                false => {
                    at = at.wrapping_sub(1);
                    cursor.prev().unwrap()
                }
            };
        }
        let found = db.get_opt(&target, &read).unwrap();
        assert_eq!(found.as_deref(), model.get(&target).map(Vec::as_slice));
    }
    let targets: Vec<_> = (0..40).map(|_| key(random.below(KEYS + 10))).collect();
    let found = db.multi_get_opt(&targets, &read);
    for (target, found) in targets.iter().zip(&found) {
        let found = found.as_ref().unwrap();
        assert_eq!(found.as_deref(), model.get(target).map(Vec::as_slice));
    }
}

fn delete(model: &mut Model, (from, to): (u64, u64)) {
    let (from, to) = (key(from), key(to));
    model.retain(|key, _| *key < from || *key >= to);
}

fn run(seed: u64, steps: u64) {
    let mut random = Random::new(mix(seed));
    let dir = ScratchDir::new();
    let path = dir.path().join("db");
    let mut options = options(&mut random);
    options.set_merge_operator(koeldb::StringAppend::default());
    let mut db = Db::open(&options, &path).unwrap();
    let mut model = Model::new();
    let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
    for step in 0..steps {
        match random.below(20) {
            0..6 => {
                let (from, to) = range(&mut random);
                for number in from..to.min(from + 200) {
                    let value = format!("{step} of {number}").into_bytes();
                    db.put(key(number), &value).unwrap();
                    model.insert(key(number), value);
                }
            }
            6..11 => {
                let deleted = range(&mut random);
                if random.chance(1, 4) {
                    for number in deleted.0..deleted.1 {
                        db.delete(key(number)).unwrap();
                    }
                } else {
                    db.delete_range(key(deleted.0), key(deleted.1)).unwrap();
                }
                delete(&mut model, deleted);
            }
            11 => {
                let number = random.below(KEYS);
                db.merge(key(number), b"m").unwrap();
                let value = model.entry(key(number)).or_default();
                match value.is_empty() {
                    true => value.push(b'm'),
                    false => value.extend_from_slice(b",m"),
                }
            }
            12..15 => db.flush().unwrap(),
            15 => {
                let (from, to) = range(&mut random);
                db.compact_range(key(from)..key(to)).unwrap();
            }
            16 => {
                // The entries and tombstones of a file with one sequence number.
                let file = dir.path().join(format!("{step}.sst"));
                let mut writer = SstFileWriter::create(options.cf_options(), &file).unwrap();
                let (from, to) = range(&mut random);
                let deleted = range(&mut random);
                writer.delete_range(key(deleted.0), key(deleted.1)).unwrap();
                delete(&mut model, deleted);
                for number in (from..to).step_by(7) {
                    let value = format!("file {step}").into_bytes();
                    writer.put(key(number), &value).unwrap();
                    model.insert(key(number), value);
                }
                writer.finish().unwrap();
                db.ingest_external_file(&[&file]).unwrap();
            }
            17 if snapshots.len() < 4 => snapshots.push((db.snapshot(), model.clone())),
            17 => drop(snapshots.remove(random.index(snapshots.len()))),
            18 if random.chance(1, 3) => {
                snapshots.clear();
                db.close().unwrap();
                db = Db::open(&options, &path).unwrap();
            }
            _ => {
                check(&db, &mut random, None, &model);
                for (snapshot, then) in &snapshots {
                    check(&db, &mut random, Some(snapshot), then);
                }
            }
        }
    }
    check(&db, &mut random, None, &model);
}

#[test]
fn scans_show_what_no_tombstone_hides_in_every_shape_of_the_tree() {
    let (seeds, steps) = Floors::chosen().of((4, 200), (60, 400), (2000, 1000));
    for seed in 0..seeds {
        println!("seed {seed}");
        run(seed, steps);
    }
}

/// A database with many tables, whose statistics count accesses to blocks.
fn filled(dir: &ScratchDir) -> (Db, Statistics) {
    let statistics = Statistics::new();
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_target_file_size_base(16 << 10)
        .set_compression_type(koeldb::Compression::None)
        .set_statistics(statistics.clone());
    let db = Db::open(&options, dir.path()).unwrap();
    // Two overlapping tables, which are merged and not moved.
    for first in 0..2 {
        for number in (first..40_000).step_by(2) {
            db.put(key(number), [7; 100]).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range(..).unwrap();
    assert!(db.live_files().len() > 200);
    (db, statistics)
}

fn count(db: &Db, forward: bool) -> usize {
    let mut cursor = db.cursor();
    let mut count = 0;
    let mut is_there = match forward {
        true => cursor.seek_to_first().unwrap(),
        false => cursor.seek_to_last().unwrap(),
    };
    while is_there {
        count += 1;
        is_there = match forward {
            true => cursor.next().unwrap(),
            false => cursor.prev().unwrap(),
        };
    }
    count
}

#[test]
fn a_scan_reads_no_blocks_in_the_middle_of_a_wide_tombstone() {
    let dir = ScratchDir::new();
    let (db, statistics) = filled(&dir);
    db.delete_range(key(100), key(39_900)).unwrap();
    for is_flushed in [false, true] {
        if is_flushed {
            db.flush().unwrap();
        }
        for forward in [true, false] {
            let accesses = || {
                let hits = statistics.ticker(Ticker::BlockCacheDataHit);
                hits + statistics.ticker(Ticker::BlockCacheDataMiss)
            };
            let before = accesses();
            assert_eq!(count(&db, forward), 200);
            let accessed = accesses() - before;
            assert!(accessed < 40, "{accessed} blocks, {is_flushed}, {forward}");
        }
    }
}

/// A point read went on in the runs below a range tombstone that covers its key.
#[test]
fn a_point_read_reads_no_blocks_below_a_tombstone_over_its_key() {
    let dir = ScratchDir::new();
    let (db, statistics) = filled(&dir);
    db.delete_range(key(100), key(39_900)).unwrap();
    let keys: Vec<_> = (100..39_900).step_by(97).map(key).collect();
    for is_flushed in [false, true] {
        if is_flushed {
            db.flush().unwrap();
        }
        let accesses = || {
            let hits = statistics.ticker(Ticker::BlockCacheDataHit);
            hits + statistics.ticker(Ticker::BlockCacheDataMiss)
        };
        let before = accesses();
        for key in &keys {
            assert_eq!(db.get(key).unwrap(), None);
        }
        for async_io in [false, true] {
            for by_level in [false, true] {
                let mut read = ReadOptions::new();
                read.set_async_io(async_io)
                    .set_optimize_multiget_for_io(!by_level);
                for found in db.multi_get_opt(&keys, &read).iter() {
                    assert_eq!(found.as_ref().unwrap().as_deref(), None);
                }
            }
        }
        assert_eq!(accesses() - before, 0, "flushed: {is_flushed}");
        assert!(db.get(key(99)).unwrap().is_some());
        assert!(db.get(key(39_900)).unwrap().is_some());
    }
}

/// A search for the newest entry of a key missed the table that begins with it behind a table that
/// a range tombstone ends there, and an optimistic transaction overwrote a later value.
#[test]
fn a_conflict_at_the_border_of_two_tables_under_a_tombstone_is_found() {
    let mut table = koeldb::BlockBasedOptions::default();
    table.set_block_size(256);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_disable_auto_compactions(true)
        .set_block_based_table_factory(&table)
        .set_compression_type(koeldb::Compression::None)
        .set_target_file_size_base(1 << 10)
        .set_env(&koeldb::Env::mem_env());
    let db = Db::open(&options, "/db").unwrap();
    db.put(key(0), "old").unwrap();
    let mut earlier: Vec<_> = (0..40).map(|_| db.transaction()).collect();
    for transaction in &mut earlier {
        transaction.set_snapshot();
    }
    db.delete_range(key(0), key(2000)).unwrap();
    for half in 0..2 {
        for number in (half..1000).step_by(2) {
            db.put(key(number), [7; 40]).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range(..).unwrap();
    let files = db.live_files();
    assert!(files.len() > 10);
    for (mut transaction, file) in earlier.into_iter().zip(&files) {
        let smallest = file.smallest_key.clone();
        transaction.put(&smallest, "lost").unwrap();
        let error = transaction.commit().unwrap_err();
        assert_eq!(error.kind(), koeldb::ErrorKind::Busy, "{error}");
    }
}

/// A skip over a wide tombstone went to its end, beyond the bounds of the scan.
#[test]
fn a_bounded_scan_in_a_wide_tombstone_reads_no_block_outside_its_bounds() {
    let dir = ScratchDir::new();
    let (db, _) = filled(&dir);
    // Caches the blocks of the range.
    assert_eq!(db.range(key(150)..key(260)).count(), 110);
    db.delete_range(key(100), key(39_900)).unwrap();
    db.put(key(205), "later").unwrap();
    let mut read = ReadOptions::new();
    read.set_iterate_lower_bound(key(190))
        .set_iterate_upper_bound(key(220));
    read.set_read_tier(koeldb::ReadTier::BlockCache);
    let mut cursor = db.cursor_opt(&read);
    assert!(cursor.seek_to_first().unwrap());
    assert_eq!(cursor.key(), Some(&key(205)[..]));
    assert!(!cursor.next().unwrap());
    assert!(cursor.seek_to_last().unwrap());
    assert!(!cursor.prev().unwrap());
}
