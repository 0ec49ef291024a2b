//! Atomic flushes: column families without a log are flushed together, or none of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use koeldb::fs::{Failure, FaultRule, FileSystem, MemoryFileSystem, Purpose, SurvivalPolicy};
use koeldb::{
    CheckpointOptions, ColumnFamily, ColumnFamilyOptions, Db, ErrorKind, Event, FlushOptions,
    Options, SstFileWriter, WriteBatch, WriteOptions,
};

use crate::expected::Expected;
use crate::prelude::{creating, in_memory};
use crate::rocksdb::Java;
use crate::scratch::ScratchDir;
use crate::storage::{HERE, Storage, over};
use crate::wait::until;

fn unlogged() -> WriteOptions {
    let mut options = WriteOptions::new();
    options.disable_wal(true);
    options
}

fn atomic(mut options: Options) -> Options {
    options
        .create_missing_column_families(true)
        .set_atomic_flush(true);
    options
}

/// Writes `value` under `key` to all families by one batch without the log.
fn put_all(db: &Db, families: &[&ColumnFamily], key: &str, value: &str) {
    let mut batch = WriteBatch::new();
    for family in families {
        batch.put_cf(family, key, value);
    }
    db.write_opt(&batch, &unlogged()).unwrap();
}

/// The numbers of tables of column families.
fn table_counts(families: &[&ColumnFamily]) -> Vec<u64> {
    let count = |family: &&ColumnFamily| {
        (0..7)
            .map(|level| {
                let name = format!("rocksdb.num-files-at-level{level}");
                let count = family.property_value(&name).unwrap().unwrap();
                count.parse::<u64>().unwrap()
            })
            .sum()
    };
    families.iter().map(count).collect()
}

fn get(family: &ColumnFamily, key: &str) -> Option<Vec<u8>> {
    family.get(key).unwrap().map(|value| value.to_vec())
}

#[test]
fn a_full_memtable_is_flushed_with_those_of_all_families() {
    let mut options = atomic(in_memory());
    options
        .set_write_buffer_size(64 << 10)
        .set_min_write_buffer_number_to_merge(2)
        .set_max_write_buffer_number(4);
    let (db, [a, b]) = Db::open_cf(&options, "/db", ["a", "b"]).unwrap();
    let families = [db.default_cf(), &a, &b];
    a.put_opt("small", "1", &unlogged()).unwrap();
    // The default family stays empty, so it has no part in the cut.
    for number in 0..40 {
        b.put_opt(format!("{number}"), [7; 4000], &unlogged())
            .unwrap();
        until("the flush", || {
            b.property_int_value("rocksdb.num-immutable-mem-table")
                .unwrap()
                == Some(0)
        });
    }
    let counts = table_counts(&families);
    assert_eq!(counts[0], 0);
    assert_eq!(counts[1], 1, "a was not full");
    assert!(counts[2] >= 2, "{counts:?}");
}

#[test]
fn named_families_alone_are_flushed_on_request() {
    let options = atomic(in_memory());
    let (db, [a, b]) = Db::open_cf(&options, "/db", ["a", "b"]).unwrap();
    let families = [db.default_cf(), &a, &b];
    put_all(&db, &families, "key", "1");
    db.flush_cfs([&a, &b, &a], &FlushOptions::new()).unwrap();
    assert_eq!(table_counts(&families), [0, 1, 1]);
    put_all(&db, &families, "key", "2");
    b.flush().unwrap();
    assert_eq!(table_counts(&families), [0, 1, 2]);
    db.flush().unwrap();
    assert_eq!(table_counts(&families), [1, 2, 2]);
}

#[test]
fn other_operations_flush_all_families_first() {
    let dir = ScratchDir::new();
    let options = atomic(creating());
    let (db, [a, b]) = Db::open_cf(&options, dir.join("db"), ["a", "b"]).unwrap();
    let families = [db.default_cf(), &a, &b];
    put_all(&db, &families, "key", "1");
    a.compact_range(..).unwrap();
    assert_eq!(table_counts(&families), [1, 1, 1], "a compaction");

    put_all(&db, &families, "key", "2");
    let path = dir.join("file");
    let mut writer = SstFileWriter::create(&ColumnFamilyOptions::new(), &path).unwrap();
    writer.put("key", "3").unwrap();
    writer.finish().unwrap();
    a.ingest_external_file(&[&path]).unwrap();
    assert_eq!(table_counts(&families), [2, 3, 2], "an ingestion");
    assert_eq!(get(&a, "key").unwrap(), b"3");

    put_all(&db, &families, "key", "4");
    let mut checkpoint = CheckpointOptions::new();
    checkpoint.set_log_size_for_flush(0);
    db.create_checkpoint_opt(dir.join("copy"), &checkpoint)
        .unwrap();
    assert_eq!(table_counts(&families), [3, 4, 3], "a checkpoint");
    let (copy, [copied, _]) = Db::open_cf(&options, dir.join("copy"), ["a", "b"]).unwrap();
    assert_eq!(get(&copied, "key").unwrap(), b"4");
    assert_eq!(get(copy.default_cf(), "key").unwrap(), b"4");
}

#[test]
fn a_close_flushes_all_families_as_one_and_an_empty_one_is_left_out() {
    let storage = Storage::new();
    let options = atomic(storage.options());
    let (db, [a, b]) = Db::open_cf(&options, HERE, ["a", "b"]).unwrap();
    put_all(&db, &[db.default_cf(), &b], "key", "1");
    db.close().unwrap();
    drop((db, a, b));
    let (db, [a, b]) = Db::open_cf(&options, HERE, ["a", "b"]).unwrap();
    assert_eq!(get(db.default_cf(), "key").unwrap(), b"1");
    assert_eq!(get(&a, "key"), None);
    assert_eq!(get(&b, "key").unwrap(), b"1");
}

/// The tables of a flush that fails at any of its files are not installed, and a retry is whole.
#[test]
fn nothing_of_a_failed_flush_is_installed() {
    for (nth, purpose) in [
        (1, Purpose::Flush),
        (2, Purpose::Flush),
        (3, Purpose::Flush),
        (1, Purpose::Manifest),
    ] {
        let storage = Storage::new();
        let mut options = atomic(storage.options());
        // One that succeeds before the flush has returned would be its success.
        options.set_max_bgerror_resume_count(0);
        let (db, [a, b]) = Db::open_cf(&options, HERE, ["a", "b"]).unwrap();
        let families = [db.default_cf(), &a, &b];
        put_all(&db, &families, "key", "1");
        let rule = FaultRule::fail(Failure::Device)
            .on_syncs()
            .purpose(purpose)
            .nth(nth);
        storage.faults.add_rule(rule);
        let error = db.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IoError, "{purpose:?}: {error}");
        let image = storage.memory.crash_image(SurvivalPolicy::Generous, 1);
        let copy = over(Arc::new(image));
        let (db2, [a2, b2]) = Db::open_cf(&atomic(copy), HERE, ["a", "b"]).unwrap();
        let found = [db2.default_cf(), &a2, &b2].map(|family| get(family, "key"));
        assert!(
            found.iter().all(|value| *value == found[0]),
            "{purpose:?} {nth}: {found:?}"
        );
        if purpose == Purpose::Flush {
            assert_eq!(found[0], None, "{nth}");
        }
        storage.faults.clear_rules();
        db.resume().unwrap();
        db.put_opt("more", "1", &unlogged()).unwrap();
        db.close().unwrap();
        drop((db, a, b));
        let (db, [a, b]) = Db::open_cf(&options, HERE, ["a", "b"]).unwrap();
        for family in [db.default_cf(), &a, &b] {
            assert_eq!(get(family, "key").unwrap(), b"1", "{purpose:?} {nth}");
        }
    }
}

#[test]
fn a_family_dropped_during_the_flush_is_left_out() {
    let storage = Storage::new();
    let mut options = atomic(storage.options());
    let dropping: Arc<Mutex<Option<(Db, ColumnFamily)>>> = Arc::default();
    let handles = Arc::clone(&dropping);
    options.add_event_listener(move |event: &Event<'_>| {
        if let Event::FlushBegin(info) = event
            && info.column_family == "b"
            && let Some((db, family)) = handles.lock().unwrap().take()
        {
            db.drop_cf(&family).unwrap();
        }
    });
    let (db, [a, b]) = Db::open_cf(&options, HERE, ["a", "b"]).unwrap();
    put_all(&db, &[db.default_cf(), &a, &b], "key", "1");
    *dropping.lock().unwrap() = Some((db.clone(), b.clone()));
    db.flush().unwrap();
    assert_eq!(table_counts(&[db.default_cf(), &a]), [1, 1]);
    assert_eq!(get(&b, "key").unwrap(), b"1", "its handle reads on");
    db.close().unwrap();
    drop((db, a, b));
    dropping.lock().unwrap().take();
    let (_db, [a]) = Db::open_cf(&options, HERE, ["a"]).unwrap();
    assert_eq!(get(&a, "key").unwrap(), b"1");
}

/// Writers over several families, flushes by size, by request and of single families, in threads.
#[test]
fn concurrent_flushes_lose_nothing_and_end() {
    let mut options = atomic(in_memory());
    options
        .set_write_buffer_size(64 << 10)
        .set_max_background_jobs(6);
    let (db, [a, b]) = Db::open_cf(&options, "/db", ["a", "b"]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3_u32 {
            let (db, a, b) = (&db, &a, &b);
            scope.spawn(move || {
                for number in 0..60_u32 {
                    let mut batch = WriteBatch::new();
                    for family in [db.default_cf(), a, b] {
                        batch.put_cf(family, format!("{thread} {number}"), [1; 1500]);
                    }
                    db.write_opt(&batch, &unlogged()).unwrap();
                    match number % 20 {
                        5 => db.flush().unwrap(),
                        10 => a.flush().unwrap(),
                        15 => db.flush_cfs([b, a], &FlushOptions::new()).unwrap(),
                        _ => {}
                    }
                }
            });
        }
    });
    db.close().unwrap();
    drop((db, a, b));
    let (db, [a, b]) = Db::open_cf(&options, "/db", ["a", "b"]).unwrap();
    for family in [db.default_cf(), &a, &b] {
        assert_eq!(family.range(..).count(), 180);
    }
}

#[test]
fn pipelined_writes_are_refused_with_it() {
    let mut options = atomic(in_memory());
    options.set_enable_pipelined_write(true);
    let error = Db::open(&options, "/db").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("atomic_flush"), "{error}");
}

/// RocksDB reads the groups of our MANIFESTs, and we flush what it left behind.
#[test]
fn rocksdb_reads_what_was_flushed_together() {
    let Some(java) = Java::find() else { return };
    let dir = ScratchDir::new();
    let options = atomic(creating());
    let path = dir.join("db");
    for round in 0..3_u32 {
        let (db, [a, b]) = Db::open_cf(&options, &path, ["a", "b"]).unwrap();
        for number in 0..5 {
            let key = format!("{round} {number}");
            put_all(&db, &[db.default_cf(), &a, &b], &key, "value");
        }
        db.flush().unwrap();
        put_all(&db, &[db.default_cf(), &b], &format!("{round}"), "end");
        db.close().unwrap();
        drop((db, a, b));
        let mut expected = Expected::default();
        let (db, [_, _]) = Db::open_cf(&options, &path, ["a", "b"]).unwrap();
        for family in db.cf_handles() {
            let entries: BTreeMap<_, _> = family
                .range(..)
                .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
                .collect::<Result<_, _>>()
                .unwrap();
            *expected.family(family.name()) = entries;
        }
        db.close().unwrap();
        drop(db);
        assert_eq!(expected.family("a").len(), 5 * (round as usize + 1));
        assert_eq!(expected.family("b").len(), 6 * (round as usize + 1));
        assert_eq!(java.check(&path, &[]).found, expected, "round {round}");
    }
}

#[test]
fn a_read_only_open_takes_the_option() {
    let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
    let options = atomic(over(fs));
    Db::open(&options, HERE).unwrap().close().unwrap();
    Db::builder(&options).read_only().open(HERE).unwrap();
}
