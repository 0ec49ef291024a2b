//! Writes that may not wait as long as a stall lasts.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use koeldb::fs::{
    Failure, FaultAction, FaultFileSystem, FaultRule, FileSystem, Operation, PosixFileSystem,
    Purpose, SystemClock,
};
use koeldb::statistics::{Statistics, Ticker};
use koeldb::{
    ColumnFamilyOptions, Db, Env, ErrorKind, Options, SstFileWriter, WriteBatch, WriteOptions,
    WriteOutcome,
};

use crate::gate::without_flushes;
use crate::prelude::{LIMIT, creating, in_time, value, with_three_tables};
use crate::scratch::ScratchDir;
use crate::storage::{HERE, Storage};
use crate::wait::until;

/// A database with stopped writes, in which no flush ends before the sender is dropped.
fn stopped(dir: &ScratchDir) -> (Db, Sender<()>) {
    stopped_on(Arc::new(PosixFileSystem::new()), dir.path())
}

fn stopped_on(fs: Arc<dyn FileSystem>, path: &Path) -> (Db, Sender<()>) {
    let (env, open) = without_flushes(fs);
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_write_buffer_size(64 << 10)
        .set_max_bgerror_resume_count(0)
        .set_env(&env);
    let db = Db::open(&options, path).unwrap();
    let mut index = 0_u32;
    while db.property_int_value("rocksdb.is-write-stopped").unwrap() != Some(1) {
        let written = db.put_opt(format!("filling {index}"), [7; 1000], &impatient());
        assert!(index < 1000, "writes are never stopped");
        index += 1;
        if let Err(error) = written {
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        }
    }
    (db, open)
}

fn impatient() -> WriteOptions {
    let mut options = WriteOptions::new();
    options.set_stall_timeout(Duration::from_millis(30));
    options
}

fn without_waiting() -> WriteOptions {
    let mut options = WriteOptions::new();
    options.set_no_slowdown(true);
    options
}

#[test]
fn a_failure_is_reported_also_while_writes_are_stopped() {
    let storage = Storage::new();
    let fs: Arc<dyn FileSystem> = Arc::clone(&storage.faults) as _;
    let (db, open) = stopped_on(fs, HERE.as_ref());
    storage
        .faults
        .add_rule(FaultRule::fail(Failure::Device).purpose(Purpose::Flush));
    drop(open);
    until("a failure", || {
        db.property_int_value("rocksdb.background-errors").unwrap() != Some(0)
    });
    let stopped = db.property_int_value("rocksdb.is-write-stopped").unwrap();
    assert_eq!(stopped, Some(1));
    for is_low in [false, true] {
        let mut options = without_waiting();
        options.set_low_pri(is_low);
        let error = db.put_opt("key", "value", &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IoError, "{error}");
        assert_eq!(error.write_outcome(), Some(WriteOutcome::NotApplied));
    }
    storage.faults.clear_rules();
    db.resume().unwrap();
    db.put_opt("key", "value", &without_waiting()).unwrap();
}

#[test]
fn a_write_gives_up_when_a_stop_lasts_longer_than_it_waits() {
    let dir = ScratchDir::new();
    let (db, open) = stopped(&dir);
    for (options, kind) in [
        (impatient(), ErrorKind::TimedOut),
        (without_waiting(), ErrorKind::Incomplete),
    ] {
        let error = db.put_opt("given up", "value", &options).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.write_outcome(), Some(WriteOutcome::NotApplied));
    }
    let has_warning = || {
        let log = std::fs::read_to_string(dir.join("LOG")).unwrap();
        log.contains("[WARN] [default] Stopping writes because we have 2 immutable memtables")
    };
    until("a warning", has_warning);
    drop(open);
    // It continues as soon as the flush does.
    db.put("patient", "value").unwrap();
    db.put_opt("soon", "value", &impatient()).unwrap();
    assert!(!db.contains_key("given up").unwrap());
    drop(db);
    let db = Db::open(&Options::new(), dir.path()).unwrap();
    assert!(!db.contains_key("given up").unwrap());
    assert!(db.contains_key("soon").unwrap());
}

#[test]
fn a_write_behind_others_that_wait_for_ever_gives_up_too() {
    let dir = ScratchDir::new();
    let (db, open) = stopped(&dir);
    // One of these is the leader, and waits for the flush while holding leadership.
    let patient: Vec<_> = (0..3)
        .map(|index| {
            let db = db.clone();
            std::thread::spawn(move || db.put(format!("patient {index}"), "value"))
        })
        .collect();
    for round in 0..3 {
        let impatient: Vec<_> = (0..4)
            .map(|index| {
                let db = db.clone();
                std::thread::spawn(move || {
                    let options = match index % 2 {
                        0 => impatient(),
                        _ => without_waiting(),
                    };
                    db.put_opt(format!("given up {round} {index}"), "value", &options)
                })
            })
            .collect();
        for (index, write) in impatient.into_iter().enumerate() {
            let error = write.join().unwrap().unwrap_err();
            let kind = match index % 2 {
                0 => ErrorKind::TimedOut,
                _ => ErrorKind::Incomplete,
            };
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.write_outcome(), Some(WriteOutcome::NotApplied));
        }
    }
    assert!(patient.iter().all(|write| !write.is_finished()));
    drop(open);
    for write in patient {
        write.join().unwrap().unwrap();
    }
    assert!(db.prefix("given up").next().is_none());
    assert_eq!(db.prefix("patient").count(), 3);
}

/// A database whose compactions do not end before the sender is dropped.
fn without_compactions(dir: &ScratchDir) -> (Db, Sender<()>) {
    let (open, opened) = channel::<()>();
    let opened = Mutex::new(opened);
    let faults = FaultFileSystem::new(Arc::new(PosixFileSystem::new()), 1);
    let stand_still = FaultAction::Call(Arc::new(move |_| {
        let _ = opened.lock().unwrap().recv_timeout(LIMIT);
    }));
    faults.add_rule(
        FaultRule::new(stand_still)
            .on(&[Operation::SyncData, Operation::SyncAll])
            .purpose(Purpose::Compaction),
    );
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .set_level_zero_file_num_compaction_trigger(2)
        .set_env(&Env::new(Arc::new(faults), Arc::new(SystemClock)));
    (Db::open(&options, dir.path()).unwrap(), open)
}

#[test]
fn a_family_with_debt_stops_only_the_writes_to_it() {
    let dir = ScratchDir::new();
    let (db, open) = without_compactions(&dir);
    let mut options = ColumnFamilyOptions::new();
    options.set_level_zero_file_num_compaction_trigger(2);
    let debt = db.create_cf("debt", &options).unwrap();
    for index in 0..5 {
        debt.put("filling", format!("{index}")).unwrap();
        debt.flush().unwrap();
    }
    let stops = [
        "level0_slowdown_writes_trigger",
        "level0_stop_writes_trigger",
    ];
    // A compaction of some of the tables may have begun, and does not end.
    debt.set_options(stops.map(|name| (name, "5"))).unwrap();
    let stopped = db.property_int_value("rocksdb.is-write-stopped").unwrap();
    assert_eq!(stopped, Some(1));
    let patient = {
        let debt = debt.clone();
        std::thread::spawn(move || debt.put("patient", "value"))
    };
    // Leaders and followers.
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let db = &db;
            scope.spawn(move || {
                for index in 0..100 {
                    let key = format!("{thread} {index}");
                    db.put_opt(key, "value", &without_waiting()).unwrap();
                }
            });
        }
    });
    assert_eq!(db.range(..).count(), 300);
    let mut both = WriteBatch::new();
    both.put("both", "value");
    both.put_cf(&debt, "both", "value");
    for (options, kind) in [
        (impatient(), ErrorKind::TimedOut),
        (without_waiting(), ErrorKind::Incomplete),
    ] {
        let error = db.write_opt(&both, &options).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.write_outcome(), Some(WriteOutcome::NotApplied));
    }
    assert!(!patient.is_finished());
    assert!(!db.contains_key("both").unwrap());
    drop(open);
    patient.join().unwrap().unwrap();
    db.write(&both).unwrap();
    assert!(debt.contains_key("both").unwrap());
}

#[test]
fn an_ingestion_behind_a_stopped_write_lets_compactions_go_on() {
    let dir = ScratchDir::new();
    let (db, open) = without_compactions(&dir);
    let flush = |value: &str| {
        db.put("a", value).unwrap();
        db.flush().unwrap();
    };
    flush("1");
    flush("2");
    let begun = Instant::now();
    while db
        .property_int_value("rocksdb.num-running-compactions")
        .unwrap()
        != Some(1)
    {
        assert!(begun.elapsed() < LIMIT, "no compaction");
        std::thread::sleep(Duration::from_millis(1));
    }
    // Writes stay stopped after this compaction, and only another one helps them.
    for value in ["3", "4", "5"] {
        flush(value);
    }
    let family = db.default_cf();
    let stops = [
        "level0_slowdown_writes_trigger",
        "level0_stop_writes_trigger",
    ];
    family.set_options(stops.map(|name| (name, "3"))).unwrap();
    let stopped = db.property_int_value("rocksdb.is-write-stopped").unwrap();
    assert_eq!(stopped, Some(1));
    let path = dir.path().join("table");
    let mut table = SstFileWriter::create(&family.options(), &path).unwrap();
    table.put("b", "ingested").unwrap();
    table.finish().unwrap();
    let patient = {
        let db = db.clone();
        std::thread::spawn(move || db.put("c", "written"))
    };
    std::thread::sleep(Duration::from_millis(100));
    assert!(!patient.is_finished());
    let ingestion = {
        let db = db.clone();
        std::thread::spawn(move || db.ingest_external_file(&[path]))
    };
    std::thread::sleep(Duration::from_millis(100));
    drop(open);
    let begun = Instant::now();
    while !(patient.is_finished() && ingestion.is_finished()) {
        assert!(begun.elapsed() < LIMIT, "they wait for each other");
        std::thread::sleep(Duration::from_millis(5));
    }
    patient.join().unwrap().unwrap();
    ingestion.join().unwrap().unwrap();
    for (key, value) in [("a", "5"), ("b", "ingested"), ("c", "written")] {
        let found = db.get(key).unwrap();
        assert_eq!(found.as_deref(), Some(value.as_bytes()));
    }
}

#[test]
fn writes_keep_the_pace_of_compactions_without_a_stall() {
    let dir = ScratchDir::new();
    let (open, opened) = channel::<()>();
    let opened = Mutex::new(opened);
    let faults = FaultFileSystem::new(Arc::new(PosixFileSystem::new()), 1);
    let faults = Arc::new(faults);
    let mut options = Options::new();
    let statistics = Statistics::new();
    options
        .create_if_missing(true)
        .set_level_zero_file_num_compaction_trigger(2)
        .set_delayed_write_rate(1)
        .set_statistics(statistics.clone())
        .set_env(&Env::new(Arc::clone(&faults) as _, Arc::new(SystemClock)));
    let db = Db::open(&options, dir.path()).unwrap();
    let add_run = || {
        db.put("key", [7; 1000]).unwrap();
        db.flush().unwrap();
    };
    // A compaction shows how fast runs are taken: some kilobytes in a millisecond or more.
    add_run();
    add_run();
    db.wait_for_compact(None).unwrap();
    // The next one does not end, and runs gather until compactions lag.
    let stand_still = FaultAction::Call(Arc::new(move |_| {
        let _ = opened.lock().unwrap().recv_timeout(LIMIT);
    }));
    faults.add_rule(
        FaultRule::new(stand_still)
            .on(&[Operation::SyncData, Operation::SyncAll])
            .purpose(Purpose::Compaction),
    );
    for _ in 0..6 {
        add_run();
    }
    let property = |name: &str| db.property_int_value(name).unwrap();
    let stalled = || statistics.ticker(Ticker::StallMicros);
    let before = stalled();
    db.put_opt("unpaced", vec![7; 1 << 20], &without_waiting())
        .unwrap();
    assert_eq!(stalled(), before);
    for _ in 0..2 {
        db.put("paced", vec![7; 1 << 20]).unwrap();
    }
    assert!(stalled() > before, "the writes did not wait");
    assert_eq!(property("rocksdb.is-write-stopped"), Some(0));
    assert_eq!(property("rocksdb.actual-delayed-write-rate"), Some(0));
    drop(open);
}

/// A flush synced closed logs under the leadership of a stalled writer that waited for the flush.
#[test]
fn a_stalled_writer_never_waits_for_a_flush_that_waits_for_it() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options.set_write_buffer_size(64 << 10);
    let (db, [other]) = Db::open_cf(&options, dir.path(), ["other"]).unwrap();
    other.put("key", "value").unwrap();
    in_time("writing", move || {
        for index in 0..3_000_u32 {
            db.put(index.to_le_bytes(), [7; 1000]).unwrap();
        }
    });
}

#[test]
fn a_database_that_has_to_slow_writes_down_opens() {
    let dir = ScratchDir::new();
    let mut options = creating();
    let db = with_three_tables(&mut options, &dir);
    drop(db);
    options
        .set_disable_auto_compactions(false)
        .set_level_zero_file_num_compaction_trigger(2)
        .set_level_zero_slowdown_writes_trigger(2);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key", "4").unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("4"));
}
