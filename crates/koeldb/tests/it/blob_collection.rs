//! Collection of blob files by dead bytes: what is recorded as garbage, and the space that is left.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use koeldb::fs::{FileSystem, MemoryFileSystem};
use koeldb::statistics::{Statistics, Ticker};
use koeldb::{
    BlobCollection, BlobGarbageCollectionPolicy, BottommostLevelCompaction, CompactRangeOptions,
    ConfigOptions, Db, Env, IteratorMode, Options, StringAppend,
};
use koeldb_testkit::{Floors, Random};

use crate::prelude::creating;
use crate::scratch::ScratchDir;
use crate::wait::until;

/// A blob file as the property `koeldb.blob.files` has it.
#[derive(Debug)]
struct Listed {
    records: u64,
    bytes: u64,
    garbage: [u64; 2],
    references: [u64; 2],
    is_exact: bool,
}

fn listed(db: &Db) -> Vec<Listed> {
    let text = db.property_value("koeldb.blob.files").unwrap().unwrap();
    let of_line = |line: &str| {
        let digits = |word: &str| word.trim_matches(':').parse::<u64>().ok();
        let numbers: Vec<u64> = line.split(' ').filter_map(digits).collect();
        Listed {
            records: numbers[1],
            bytes: numbers[2],
            garbage: [numbers[3], numbers[4]],
            references: [numbers[5], numbers[6]],
            is_exact: line.ends_with(", exact"),
        }
    };
    text.lines().map(of_line).collect()
}

/// Fails unless the garbage of each blob file is exactly what no table refers to.
fn assert_exact(db: &Db, what: &str) {
    for file in listed(db) {
        assert!(file.is_exact, "{what}: {file:?}");
        let live = [file.records - file.garbage[0], file.bytes - file.garbage[1]];
        assert_eq!(file.references, live, "{what}: {file:?}");
        assert!(live[0] > 0, "{what}: {file:?}");
    }
}

/// Settings of collection, and of what makes compactions.
const SETTINGS: [&str; 8] = [
    "min_blob_size=0;blob_file_size=1000;",
    "min_blob_size=20;blob_file_size=3000;blob_collection_target=1.1;blob_collection_share=0.1;",
    "min_blob_size=10;blob_file_size=100000;enable_blob_garbage_collection=false;",
    "min_blob_size=5;blob_file_size=500;blob_compression_type=kSnappyCompression;blob_file_starting_level=1;blob_collection=kAge;",
    "min_blob_size=1;blob_file_size=2000;compaction_style=kCompactionStyleUniversal;blob_collection=kDeadBytes;",
    "min_blob_size=0;blob_file_size=2000;blob_garbage_collection_age_cutoff=0.8;blob_garbage_collection_force_threshold=0;",
    "min_blob_size=0;blob_file_size=4000;compaction_style=kCompactionStyleFIFO;compaction_options_fifo={max_table_files_size=6000;};",
    "min_blob_size=30;blob_file_size=800;blob_collection=kDeadBytes;blob_garbage_collection_age_cutoff=1.0;blob_collection_target=1.05;",
];

fn options(settings: &str) -> Options {
    let mut options = creating();
    options.set_merge_operator(StringAppend::default());
    let text = format!(
        "block_based_table_factory={{block_size=200;}};enable_blob_files=true;enable_blob_garbage_collection=true;level0_file_num_compaction_trigger=2;\
         target_file_size_base=2000;max_bytes_for_level_base=8000;{settings}"
    );
    options.apply_str(&text, &ConfigOptions::new()).unwrap();
    options
}

#[test]
fn garbage_is_exactly_what_no_table_refers_to() {
    for seed in 0..Floors::chosen().of(1, 3, 40) {
        for (number, settings) in (0..).zip(SETTINGS) {
            history(seed * 100 + number, settings);
        }
    }
}

/// Runs random writes and compactions, with other settings after every open.
fn history(seed: u64, settings: &str) {
    let dir = ScratchDir::new();
    let mut random = Random::new(seed);
    let is_fifo = settings.contains("FIFO");
    let what = |step: u64| format!("seed {seed}, {settings}, step {step}");
    let mut options = options(settings);
    let mut db = Db::open(&options, dir.path()).unwrap();
    let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for step in 0..400 {
        let key = format!("{:03}", random.below(120));
        match random.below(40) {
            0 => db.flush().unwrap(),
            1 => {
                let mut compaction = CompactRangeOptions::new();
                if random.chance(1, 2) {
                    let policy = BlobGarbageCollectionPolicy::Force;
                    compaction.set_blob_garbage_collection_policy(policy);
                }
                db.compact_all(&compaction).unwrap();
            }
            2 => {
                let snapshot = db.snapshot();
                db.put(&key, "held").unwrap();
                model.insert(key, b"held".to_vec());
                db.flush().unwrap();
                drop(snapshot);
            }
            3 => {
                let end = format!("{key}~");
                db.delete_range(&key, &end).unwrap();
                model.remove(&key);
            }
            4 if !is_fifo => {
                db.flush().unwrap();
                db.wait_for_compact(None).unwrap();
                drop(db);
                options.set_max_open_files(random.chance(1, 2).then_some(20));
                let on = random.chance(3, 4);
                options.set_enable_blob_files(on);
                db = Db::open(&options, dir.path()).unwrap();
            }
            5 => {
                db.flush().unwrap();
                db.wait_for_compact(None).unwrap();
                assert_exact(&db, &what(step));
            }
            6..=11 => {
                db.delete(&key).unwrap();
                model.remove(&key);
            }
            12..=15 => {
                db.merge(&key, "operand").unwrap();
                let value = model.entry(key).or_default();
                if !value.is_empty() {
                    value.push(b',');
                }
                value.extend_from_slice(b"operand");
            }
            _ => {
                let length = random.below(200);
                let value: Vec<u8> = (0..length).map(|_| byte(&mut random)).collect();
                let value = [format!("{step}").into_bytes(), value].concat();
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
    }
    db.flush().unwrap();
    db.wait_for_compact(None).unwrap();
    assert_exact(&db, &what(400));
    if !is_fifo {
        let found = db.iterator(IteratorMode::Start).map(Result::unwrap);
        let found: Vec<_> = found.map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        let expected = model.into_iter().map(|(k, v)| (k.into_bytes(), v));
        assert!(found.into_iter().eq(expected), "{}", what(400));
    }
}

fn byte(random: &mut Random) -> u8 {
    random.draw().to_le_bytes()[0]
}

fn value(key: u64, round: u64) -> Vec<u8> {
    let mut random = Random::new(key << 32 | round);
    (0..400).map(|_| byte(&mut random)).collect()
}

#[test]
fn tables_that_are_removed_unread_leave_garbage() {
    let dir = ScratchDir::new();
    let mut options = options("min_blob_size=10;");
    options.set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    let fill = |keys: std::ops::Range<u64>| {
        for key in keys {
            db.put(format!("{key:03}"), value(key, 0)).unwrap();
        }
    };
    // One blob file of two tables.
    fill(0..400);
    db.flush().unwrap();
    let mut compaction = CompactRangeOptions::new();
    compaction.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
    db.compact_all(&compaction).unwrap();
    assert_eq!(dir.all("blob").len(), 1);
    let tables = dir.all("sst").len();
    assert!(tables > 2, "{tables}");
    db.default_cf().delete_files_in_range("000".."200").unwrap();
    assert_exact(&db, "after a removal");
    let garbage = listed(&db)[0].garbage[0];
    assert!((50..200).contains(&garbage), "{garbage}");
    // Nothing is left of it.
    db.default_cf().delete_files_in_range("".."~").unwrap();
    assert_eq!(listed(&db).len(), 0);
    // A thread that has just ended a job may still hold an older version.
    until("the blob file is removed", || dir.all("blob").is_empty());
}

#[test]
fn a_default_that_was_changed_for_rocksdbs_rule_keeps_that_rule() {
    let default = Options::new();
    assert_eq!(default.get_blob_collection(), BlobCollection::Default);
    let mut preset = Options::new();
    preset.separate_values(0);
    assert!(preset.get_enable_blob_files() && preset.get_enable_blob_gc());
    assert_eq!(preset.get_min_blob_size(), 4096);
    assert_eq!(preset.separate_values(100).get_min_blob_size(), 100);
    let dir = ScratchDir::new();
    let by_age = options("min_blob_size=10;blob_garbage_collection_age_cutoff=0.26;");
    let db = Db::open(&by_age, dir.path()).unwrap();
    for round in 0..6 {
        for key in 0..100 {
            db.put(format!("{:03}", key * (round % 2 + 1)), value(key, round))
                .unwrap();
        }
        db.flush().unwrap();
    }
    db.wait_for_compact(None).unwrap();
    assert_exact(&db, "by age");
}

/// How keys are drawn by a load.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Any key, all alike.
    Uniform,
    /// Few keys most of the time.
    Skewed,
    /// New keys, while the oldest are deleted.
    Queue,
    /// Two of three operations delete.
    Deletes,
}

/// The bytes of the blob files, for each byte of what the database has in them.
fn amplification(fs: &MemoryFileSystem, db: &Db) -> f64 {
    let files = fs.list("/db".as_ref()).unwrap();
    let blobs = files.iter().filter(|file| file.name.ends_with(".blob"));
    let on_disk: u64 = blobs
        .map(|file| fs.metadata(&Path::new("/db").join(&file.name)).unwrap().len)
        .sum();
    let live: u64 = (db.iterator(IteratorMode::Start).map(Result::unwrap))
        .map(|(key, value)| 32 + key.len() as u64 + value.len() as u64)
        .sum();
    on_disk as f64 / live as f64
}

#[test]
fn the_space_stays_near_the_target() {
    for load in [Load::Uniform, Load::Skewed, Load::Queue, Load::Deletes] {
        let fs = Arc::new(MemoryFileSystem::new());
        let statistics = Statistics::new();
        let env = Env::new(fs.clone(), Arc::new(koeldb::fs::ManualClock::new()));
        let mut options = options("min_blob_size=100;blob_file_size=40000;");
        options
            .set_env(&env)
            .set_target_file_size_base(8 << 10)
            .set_max_bytes_for_level_base(16 << 10)
            .set_statistics(statistics.clone());
        let db = Db::open(&options, "/db").unwrap();
        let (keys, mut random) = (1500, Random::new(7));
        for key in 0..keys {
            db.put(format!("{key:06}"), value(key, 0)).unwrap();
        }
        let (mut written, mut worst, mut worst_known) = (0, 0.0_f64, 0.0_f64);
        for round in 1..=60 {
            for step in 0..150 {
                let at = round * 150 + step;
                let (key, is_put) = match load {
                    Load::Uniform => (random.below(keys), true),
                    Load::Skewed => {
                        let most = random.below(keys) + 1;
                        (random.below(random.clone().below(most) + 1), true)
                    }
                    Load::Queue => {
                        db.delete(format!("{:06}", at - 150)).unwrap();
                        (keys + at - 150, true)
                    }
                    Load::Deletes => (random.below(keys), random.chance(1, 3)),
                };
                let name = format!("{key:06}");
                if is_put {
                    db.put(name, value(key, at)).unwrap();
                    written += 440;
                } else {
                    db.delete(name).unwrap();
                }
            }
            db.flush().unwrap();
            db.wait_for_compact(None).unwrap();
            if round > 20 {
                worst = worst.max(amplification(&fs, &db));
                let known = db.property_value("koeldb.blob.space.amplification");
                worst_known = worst_known.max(known.unwrap().unwrap().parse().unwrap());
            }
        }
        assert_exact(&db, &format!("{load:?}"));
        let moved = statistics.ticker(Ticker::BlobDbGcBytesRelocated);
        let by_records = listed(&db);
        let recorded: u64 = by_records.iter().map(|file| file.bytes).sum();
        let figures = format!(
            "{load:?}: at most {worst:.2}, known {worst_known:.2}, moved {moved} of {written}, {recorded} in {} files",
            by_records.len()
        );
        assert!(statistics.ticker(Ticker::BlobDbGcNumKeysRelocated) > 0);
        let files_written = statistics.ticker(Ticker::BlobDbBlobFileSynced);
        let bytes_written = statistics.ticker(Ticker::BlobDbBlobFileBytesWritten);
        assert!(bytes_written / files_written > 62 && bytes_written >= moved);
        assert!(worst_known <= 1.3 * 1.1, "{figures}");
        assert!(worst <= 1.3 * 1.25 * 1.1, "{figures}");
        assert!(moved <= written * 3, "{figures}");
    }
}
