//! The space of deleted data comes back without further writes.

use koeldb::{CompactionStyle, Compression, Db, Options, UniversalCompactionOptions, WriteBatch};

use crate::storage::{HERE, Storage};

const KEYS: u32 = 3000;
const VALUE_BYTES: usize = 1000;
/// The most that is left of 3 MB: deletions stay while they weigh less than their levels may hold.
const LEFT_MAX: u64 = 1_500_000;

/// Options with small buffers, tables and levels: 3 MB of values fill several levels.
fn options(storage: &Storage) -> Options {
    let mut options = storage.options();
    options
        .set_write_buffer_size(128 << 10)
        .set_target_file_size_base(64 << 10)
        .set_max_bytes_for_level_base(256 << 10)
        .set_compression_type(Compression::None);
    options
}

fn key(number: u32) -> String {
    format!("key{number:06}")
}

/// The bytes of the tables once no job is due.
fn settled_bytes(db: &Db) -> u64 {
    db.wait_for_compact(None).unwrap();
    let bytes = db.property_int_value("rocksdb.live-sst-files-size");
    bytes.unwrap().unwrap()
}

fn fill(db: &Db) {
    for first in (0..KEYS).step_by(100) {
        let mut batch = WriteBatch::new();
        for number in first..first + 100 {
            batch.put(key(number), vec![b'v'; VALUE_BYTES]);
        }
        db.write(&batch).unwrap();
    }
}

/// A database with all values in the bottommost level.
fn filled(options: &Options) -> Db {
    let db = Db::open(options, HERE).unwrap();
    fill(&db);
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    assert!(settled_bytes(&db) > 3_000_000);
    db
}

#[derive(Clone, Copy, Debug)]
enum Deletion {
    OneByOne,
    Single,
    Range,
    Ranges,
}

const DELETIONS: [Deletion; 4] = [
    Deletion::OneByOne,
    Deletion::Single,
    Deletion::Range,
    Deletion::Ranges,
];

fn delete_all(db: &Db, deletion: Deletion) {
    match deletion {
        Deletion::OneByOne => (0..KEYS).for_each(|number| db.delete(key(number)).unwrap()),
        Deletion::Single => (0..KEYS).for_each(|number| db.single_delete(key(number)).unwrap()),
        Deletion::Range => db.delete_range("key", "l").unwrap(),
        Deletion::Ranges => (0..KEYS)
            .step_by(50)
            .for_each(|number| db.delete_range(key(number), key(number + 50)).unwrap()),
    }
    db.flush().unwrap();
}

#[test]
fn deletions_of_every_kind_give_space_back_without_further_writes() {
    for deletion in DELETIONS {
        for dynamic in [true, false] {
            let storage = Storage::new();
            let mut options = options(&storage);
            options.set_level_compaction_dynamic_level_bytes(dynamic);
            let db = filled(&options);
            delete_all(&db, deletion);
            let left = settled_bytes(&db);
            assert!(left < LEFT_MAX, "{deletion:?}, {dynamic}: {left} bytes");
            assert!(db.iterator(koeldb::IteratorMode::Start).next().is_none());
        }
    }
}

#[test]
fn the_weight_of_deletions_outlives_a_reopen() {
    for deletion in DELETIONS {
        let storage = Storage::new();
        let mut waiting = options(&storage);
        waiting.set_disable_auto_compactions(true);
        let db = filled(&waiting);
        delete_all(&db, deletion);
        assert!(settled_bytes(&db) > 3_000_000);
        db.close().unwrap();
        for max_open_files in [None, Some(20)] {
            let mut options = options(&storage);
            options.set_max_open_files(max_open_files);
            let db = Db::open(&options, HERE).unwrap();
            let left = settled_bytes(&db);
            assert!(left < LEFT_MAX, "{deletion:?}: {left} bytes");
            db.close().unwrap();
        }
    }
}

/// Entries that only a snapshot needed are removed after its release.
#[test]
fn space_that_a_snapshot_held_comes_back_after_its_release() {
    for deletion in DELETIONS {
        let storage = Storage::new();
        let db = filled(&options(&storage));
        let snapshot = db.snapshot();
        delete_all(&db, deletion);
        db.compact_range(..).unwrap();
        assert!(settled_bytes(&db) > 3_000_000);
        drop(snapshot);
        let left = settled_bytes(&db);
        assert!(left < LEFT_MAX, "{deletion:?}: {left} bytes");
    }
}

#[test]
fn old_versions_that_a_snapshot_held_go_after_its_release() {
    let storage = Storage::new();
    let db = filled(&options(&storage));
    let snapshot = db.snapshot();
    fill(&db);
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    assert!(settled_bytes(&db) > 6_000_000);
    drop(snapshot);
    let left = settled_bytes(&db);
    assert!(left < 4_000_000, "{left} bytes");
}

/// A database whose keys have four versions each, all newer than an old snapshot. Snapshots need them.
fn versions_above_a_snapshot(options: &Options) -> (Db, Vec<koeldb::Snapshot>) {
    let db = Db::open(options, HERE).unwrap();
    db.put("a", "before all snapshots").unwrap();
    let mut snapshots = vec![db.snapshot()];
    for _ in 0..4 {
        fill(&db);
        snapshots.push(db.snapshot());
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    assert!(settled_bytes(&db) > 12_000_000);
    (db, snapshots)
}

#[test]
fn old_versions_above_the_oldest_snapshot_go_after_the_release_of_all() {
    let storage = Storage::new();
    let (db, snapshots) = versions_above_a_snapshot(&options(&storage));
    drop(snapshots);
    let left = settled_bytes(&db);
    assert!(left < 4_000_000, "{left} bytes");
}

#[test]
fn old_versions_above_the_oldest_snapshot_go_after_a_reopen() {
    let storage = Storage::new();
    let mut waiting = options(&storage);
    waiting.set_disable_auto_compactions(true);
    let (db, snapshots) = versions_above_a_snapshot(&waiting);
    drop(snapshots);
    db.close().unwrap();
    let db = Db::open(&options(&storage), HERE).unwrap();
    let left = settled_bytes(&db);
    assert!(left < 4_000_000, "{left} bytes");
}

#[test]
fn universal_runs_weigh_their_deletions() {
    for deletion in DELETIONS {
        let storage = Storage::new();
        let mut options = options(&storage);
        options
            .set_compaction_style(CompactionStyle::Universal)
            .set_write_buffer_size(64 << 20);
        let mut universal = UniversalCompactionOptions::default();
        universal.set_max_size_amplification_percent(90);
        options.set_universal_compaction_options(&universal);
        let db = filled(&options);
        delete_all(&db, deletion);
        // As in RocksDB, the number of runs decides when sizes are compared.
        for _ in 0..2 {
            db.put("other", "value").unwrap();
            db.flush().unwrap();
        }
        let left = settled_bytes(&db);
        assert!(left < LEFT_MAX, "{deletion:?}: {left} bytes");
    }
}
