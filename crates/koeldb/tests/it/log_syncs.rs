//! `flush_wal(true)` beside writers: they go on while the device syncs, and nothing is lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use koeldb::fs::{
    Clock, Failure, FaultAction, FaultRule, FileSystem, MemoryFileSystem, Operation, Purpose,
    SurvivalPolicy, SystemClock, TraceDetail, TraceFileSystem,
};
use koeldb::{Db, WriteOptions};

use crate::prelude::LIMIT;
use crate::storage::{HERE, Storage, over};

fn log_syncs(action: FaultAction) -> FaultRule {
    FaultRule::new(action)
        .on(&[Operation::SyncData, Operation::SyncAll])
        .purpose(Purpose::Wal)
}

/// Runs `during` in another thread in the middle of the next sync of the log, and waits for it.
fn during_a_sync(storage: &Storage, during: impl Fn() + Clone + Send + Sync + 'static) {
    let call = move |_: &_| {
        let (done, is_done) = mpsc::channel();
        let during = during.clone();
        std::thread::spawn(move || {
            during();
            let _ = done.send(());
        });
        is_done
            .recv_timeout(LIMIT)
            .expect("writers wait for the sync");
    };
    storage
        .faults
        .add_rule(log_syncs(FaultAction::Call(Arc::new(call))).nth(1));
}

fn assert_left(storage: &Storage, keys: &[&str]) {
    let left = storage.memory.crash_image(SurvivalPolicy::Strict, 0);
    let db = Db::open(&over(Arc::new(left)), HERE).unwrap();
    for key in keys {
        assert!(db.contains_key(key).unwrap(), "{key} was synced");
    }
}

#[test]
fn writers_go_on_while_the_device_syncs() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    db.put("before", "value").unwrap();
    let writer = db.clone();
    during_a_sync(&storage, move || writer.put("during", "value").unwrap());
    db.flush_wal(true).unwrap();
    assert!(db.contains_key("during").unwrap());
    assert_left(&storage, &["before"]);
    db.flush_wal(true).unwrap();
    assert_left(&storage, &["before", "during"]);
}

#[test]
fn a_log_may_end_and_be_removed_while_it_is_synced() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    db.put("before", "value").unwrap();
    let writer = db.clone();
    during_a_sync(&storage, move || {
        writer.flush().unwrap();
        writer.put("during", "value").unwrap();
    });
    db.flush_wal(true).unwrap();
    assert_left(&storage, &["before"]);
    db.flush_wal(true).unwrap();
    assert_left(&storage, &["before", "during"]);
}

#[test]
fn one_sync_serves_all_calls_that_wait_for_it() {
    let storage = Storage::new();
    let db = Db::open(&storage.options(), HERE).unwrap();
    db.put("before", "value").unwrap();
    let syncs = Arc::new(AtomicUsize::new(0));
    let (counted, begun) = (Arc::clone(&syncs), Arc::new(AtomicUsize::new(0)));
    let calls = Arc::clone(&begun);
    storage
        .faults
        .add_rule(log_syncs(FaultAction::Call(Arc::new(move |_| {
            if counted.fetch_add(1, Ordering::SeqCst) == 0 {
                while calls.load(Ordering::SeqCst) < 9 {
                    std::thread::yield_now();
                }
                SystemClock.sleep(Duration::from_millis(50));
            }
        }))));
    std::thread::scope(|scope| {
        for _ in 0..9 {
            scope.spawn(|| {
                db.put("key", "value").unwrap();
                begun.fetch_add(1, Ordering::SeqCst);
                db.flush_wal(true).unwrap();
            });
        }
    });
    // The first call, and a second one for the writes that came during it.
    assert!(syncs.load(Ordering::SeqCst) <= 4, "{syncs:?} syncs");
    assert_left(&storage, &["before", "key"]);
}

#[test]
fn a_failed_sync_beside_writers_stops_them_and_is_not_repeated() {
    let storage = Storage::new();
    let mut options = storage.options();
    options.set_max_bgerror_resume_count(0);
    let db = Db::open(&options, HERE).unwrap();
    db.put("before", "value").unwrap();
    db.flush_wal(true).unwrap();
    db.put("lost", "value").unwrap();
    let failing = FaultRule::fail(Failure::Device)
        .on(&[Operation::SyncData])
        .purpose(Purpose::Wal);
    storage.faults.add_rule(failing.nth(1));
    db.flush_wal(true).unwrap_err();
    db.flush_wal(true).unwrap_err();
    let mut synced = WriteOptions::new();
    synced.set_sync(true);
    db.put_opt("refused", "value", &synced).unwrap_err();
    assert_left(&storage, &["before"]);
    db.resume().unwrap();
    db.put_opt("after", "value", &synced).unwrap();
    assert_left(&storage, &["before", "lost", "after"]);
}

#[test]
fn a_close_syncs_only_what_was_logged_and_not_synced() {
    let memory = MemoryFileSystem::new();
    let trace = Arc::new(TraceFileSystem::new(
        Arc::new(memory.clone()),
        TraceDetail::Events,
    ));
    let mut options = over(Arc::clone(&trace) as Arc<dyn FileSystem>);
    // A compaction beside the close would sync the MANIFEST.
    options.set_disable_auto_compactions(true);
    let mut synced = WriteOptions::new();
    synced.set_sync(true);
    type Writes<'a> = &'a dyn Fn(&Db);
    let cases: [(Writes<'_>, usize); 6] = [
        (&|_| (), 0),
        (&|db| db.put("a", "value").unwrap(), 1),
        (&|db| db.put_opt("b", "value", &synced).unwrap(), 0),
        (
            &|db| {
                db.put("c", "value").unwrap();
                db.flush_wal(true).unwrap();
            },
            0,
        ),
        (
            &|db| {
                db.put("d", "value").unwrap();
                db.flush().unwrap();
            },
            0,
        ),
        (
            &|db| {
                for n in 0..100 {
                    db.put(format!("e{n}"), "value").unwrap();
                }
            },
            1,
        ),
    ];
    let mut keys = 0;
    for (number, (writes, expected)) in cases.iter().enumerate() {
        let db = Db::open(&options, HERE).unwrap();
        assert_eq!(db.range(..).count(), keys, "case {number}");
        writes(&db);
        keys = db.range(..).count();
        let _ = trace.take_events();
        drop(db);
        let events = trace.take_events();
        let syncs: Vec<_> = events
            .iter()
            .filter(|event| {
                let operation = event.operation;
                matches!(
                    operation,
                    Operation::SyncData | Operation::SyncAll | Operation::SyncDir
                )
            })
            .collect();
        assert_eq!(syncs.len(), *expected, "case {number}: {syncs:?}");
        let left = memory.crash_image(SurvivalPolicy::Strict, 0);
        let db = Db::open(&over(Arc::new(left)), HERE).unwrap();
        assert_eq!(db.range(..).count(), keys, "case {number}");
    }
}
