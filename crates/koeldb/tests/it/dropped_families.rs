//! Dropped column families: calls for them, and calls for all families beside the drop of one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use koeldb::fs::{
    FaultAction, FaultFileSystem, FaultRule, Operation, PosixFileSystem, Purpose, SystemClock,
};
use koeldb::{
    CheckpointOptions, ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions,
    CompactRangeOptions, Db, Decision, Env, ErrorKind, Event, FlushOptions, FlushPolicy,
    IteratorMode, Result, ReverseBytewiseComparator,
};

use crate::gate::gate;
use crate::prelude::{LIMIT, creating, value};
use crate::scratch::ScratchDir;
use crate::wait::until;

/// Compacts a column family, drops it meanwhile, and returns the outcome of the call.
fn dropped_during<R: Send>(compact: impl FnOnce(&Db, &ColumnFamily) -> R + Send) -> R {
    let dir = ScratchDir::new();
    let (gate, stands_there, open) = gate();
    let mut options = creating();
    options
        .set_disable_auto_compactions(true)
        .set_compaction_filter("stands still", move |_, key, _| {
            if key == b"b" {
                gate.pass();
            }
            Decision::Keep
        });
    let (db, [family]) = Db::open_cf(&options, dir.path(), ["short-lived"]).unwrap();
    for value in ["1", "2"] {
        for key in ["a", "b"] {
            family.put(key, value).unwrap();
        }
        family.flush().unwrap();
    }
    let outcome = std::thread::scope(|scope| {
        let compaction = scope.spawn(|| compact(&db, &family));
        stands_there.recv_timeout(LIMIT).unwrap();
        db.drop_cf(&family).unwrap();
        drop(open);
        compaction.join().unwrap()
    });
    // Nothing is stopped.
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(family.get("a").unwrap().as_deref(), Some(&b"2"[..]));
    outcome
}

#[test]
fn a_compaction_of_all_families_ignores_the_drop_of_one() {
    dropped_during(|db, _| db.compact_all(&CompactRangeOptions::new())).unwrap();
}

#[test]
fn a_compaction_of_a_family_fails_as_its_writes_do_when_it_is_dropped() {
    let error = dropped_during(|_, family| family.compact_range(..)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped, "{error}");
}

/// Drops a column family while `flush` waits for its memtable, which no thread flushes; returns the
/// outcome of the call.
fn dropped_before_its_flush(
    flush: impl FnOnce(&Db, &ColumnFamily) -> Result<()> + Send + 'static,
) -> Result<()> {
    let dir = ScratchDir::new();
    let (gate, stands_there, open) = gate();
    let mut options = creating();
    options.set_max_background_jobs(1);
    options.add_event_listener(move |event: &Event<'_>| {
        if matches!(event, Event::FlushCompleted(_)) {
            gate.pass();
        }
    });
    let (db, [family]) = Db::open_cf(&options, dir.path(), ["short-lived"]).unwrap();
    // The only thread for flushes is blocked.
    db.put("key", "value").unwrap();
    let mut without_waiting = FlushOptions::new();
    without_waiting.set_wait(false);
    db.default_cf().flush_opt(&without_waiting).unwrap();
    stands_there.recv_timeout(LIMIT).unwrap();
    family.put("key", "value").unwrap();
    let (ended, outcome) = channel();
    std::thread::spawn({
        let (db, family) = (db.clone(), family.clone());
        move || ended.send(flush(&db, &family))
    });
    until("the family's memtable is sealed", || {
        let sealed = family.property_int_value("rocksdb.num-immutable-mem-table");
        sealed.unwrap() == Some(1)
    });
    db.drop_cf(&family).unwrap();
    let outcome = outcome.recv_timeout(LIMIT).expect("the flush ends");
    drop(open);
    outcome
}

#[test]
fn waiting_for_the_flush_of_a_family_ends_when_it_is_dropped() {
    let error = dropped_before_its_flush(|_, family| family.flush()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped, "{error}");
}

#[test]
fn a_flush_of_all_families_ignores_the_drop_of_one() {
    dropped_before_its_flush(|db, _| db.flush()).unwrap();
}

#[test]
fn a_checkpoint_ignores_the_drop_of_a_family() {
    let copies = ScratchDir::new();
    let copy = copies.path().join("copy");
    dropped_before_its_flush(move |db, _| {
        let mut how = CheckpointOptions::new();
        how.set_flush(FlushPolicy::Always);
        db.create_checkpoint_opt(copy, &how).map(drop)
    })
    .unwrap();
}

#[test]
fn the_compaction_of_a_dropped_family_ends_before_its_inputs_do() {
    const KEYS: u64 = 1000;
    for is_manual in [false, true] {
        let dir = ScratchDir::new();
        let (gate, stands_there, open) = gate();
        let seen = Arc::new(AtomicU64::new(0));
        let mut options = creating();
        let count = Arc::clone(&seen);
        options
            .set_disable_auto_compactions(true)
            .set_level_zero_file_num_compaction_trigger(2)
            .set_compaction_filter("stands still", move |_, _, _| {
                if count.fetch_add(1, Ordering::Relaxed) == 0 {
                    gate.pass();
                }
                Decision::Keep
            });
        let (db, [family]) = Db::open_cf(&options, dir.path(), ["short-lived"]).unwrap();
        for _ in 0..2 {
            for key in 0..KEYS {
                family.put(key.to_le_bytes(), "value").unwrap();
            }
            family.flush().unwrap();
        }
        let tables = dir.all("sst");
        std::thread::scope(|scope| {
            let compaction = scope.spawn(|| match is_manual {
                true => family.compact_range(..).map_err(|error| error.kind()),
                false => {
                    let automatic = [("disable_auto_compactions", "false")];
                    family.set_options(automatic).unwrap();
                    Err(ErrorKind::ColumnFamilyDropped)
                }
            });
            stands_there.recv_timeout(LIMIT).unwrap();
            db.drop_cf(&family).unwrap();
            drop(open);
            let outcome = compaction.join().unwrap();
            assert_eq!(outcome, Err(ErrorKind::ColumnFamilyDropped));
        });
        db.wait_for_compact(Some(LIMIT)).unwrap();
        assert_eq!(seen.load(Ordering::Relaxed), 1, "manual: {is_manual}");
        assert_eq!(dir.all("sst"), tables, "a handle reads them");
        db.put("key", "value").unwrap();
    }
}

#[test]
fn a_flush_and_a_compaction_of_dropped_families_alone_fail() {
    let dir = ScratchDir::new();
    let (db, [flushed, unflushed]) =
        Db::open_cf(&creating(), dir.path(), ["flushed", "unflushed"]).unwrap();
    flushed.put("key", "value").unwrap();
    flushed.flush().unwrap();
    unflushed.put("key", "value").unwrap();
    db.drop_cfs([&flushed, &unflushed]).unwrap();
    let how = FlushOptions::new();
    for outcome in [
        flushed.flush(),
        unflushed.flush(),
        db.flush_cfs([&flushed, &unflushed], &how),
        flushed.compact_range(..),
        unflushed.compact_range(..),
        db.drop_cf(&flushed),
    ] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped, "{error}");
    }
    db.put("key", "value").unwrap();
    db.flush_cfs([&flushed, db.default_cf(), &unflushed], &how)
        .unwrap();
    db.flush_cfs([], &how).unwrap();
    assert_eq!(db.live_files().len(), 1);
    for family in [&flushed, &unflushed] {
        assert_eq!(family.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn a_database_drops_no_family_of_another_one() {
    let dirs = [ScratchDir::new(), ScratchDir::new()];
    let open = |dir: &ScratchDir| Db::open_cf(&creating(), dir.path(), ["family"]).unwrap();
    let [(db, [own]), (other_db, [other])] = [open(&dirs[0]), open(&dirs[1])];
    assert_eq!(own.id(), other.id());
    for outcome in [db.drop_cf(&other), db.drop_cfs([&own, &other])] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    for (db, family) in [(&db, &own), (&other_db, &other)] {
        family.put("key", "value").unwrap();
        db.flush().unwrap();
        assert!(!family.is_dropped() && db.cf_handle("family").is_some());
    }
}

fn without_waiting() -> FlushOptions {
    let mut options = FlushOptions::new();
    options.set_wait(false);
    options
}

/// A database with a column family; a flush stands still before it syncs the log.
fn with_standing_flush(dir: &ScratchDir) -> (Db, ColumnFamily, Receiver<()>, Sender<()>) {
    let (gate, stands_there, open) = gate();
    let faults = FaultFileSystem::new(Arc::new(PosixFileSystem::new()), 1);
    let rule = FaultRule::new(FaultAction::Call(Arc::new(move |_| gate.pass())));
    faults.add_rule(
        rule.on(&[Operation::SyncData, Operation::SyncAll])
            .purpose(Purpose::Wal)
            .nth(1),
    );
    let env = Env::new(Arc::new(faults), Arc::new(SystemClock));
    let (db, [family]) =
        Db::open_cf(creating().set_env(&env), dir.path(), ["short-lived"]).unwrap();
    (db, family, stands_there, open)
}

/// The flush of a column family that was dropped meanwhile stopped all writes.
///
/// It counted as a failed change of the MANIFEST.
#[test]
fn a_family_dropped_during_its_flush_concerns_that_flush_alone() {
    let dir = ScratchDir::new();
    let (db, family, stands_there, open) = with_standing_flush(&dir);
    family.put("key", "value").unwrap();
    family.flush_opt(&without_waiting()).unwrap();
    // The table is written; the flush syncs the log before it is recorded.
    stands_there.recv_timeout(LIMIT).unwrap();
    db.drop_cf(&family).unwrap();
    open.send(()).unwrap();
    db.wait_for_compact(Some(LIMIT)).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("value"));
    drop(family);
    // The table of the flush is not part of the tree.
    until("the only table is the other family's", || {
        dir.all("sst").len() == 1
    });
}

/// A flush of a dropped column family dropped its memtables too, and its handles read less.
#[test]
fn a_family_dropped_during_its_flush_stays_readable_through_its_handles() {
    let dir = ScratchDir::new();
    let (db, family, stands_there, open) = with_standing_flush(&dir);
    family.put("key", "value").unwrap();
    let snapshot = db.snapshot();
    family.flush_opt(&without_waiting()).unwrap();
    // The table is written; the flush syncs the log before it is recorded.
    stands_there.recv_timeout(LIMIT).unwrap();
    db.drop_cf(&family).unwrap();
    assert_eq!(family.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    open.send(()).unwrap();
    db.wait_for_compact(Some(LIMIT)).unwrap();
    assert_eq!(family.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    let seen = snapshot.get_cf(&family, "key").unwrap();
    assert_eq!(seen.as_deref(), Some(&b"value"[..]));
}

/// Comparators were checked during the replay of edits, also for dropped column families.
#[test]
fn the_name_of_a_dropped_family_may_be_used_with_another_comparator() {
    let dir = ScratchDir::new();
    let mut reversed = ColumnFamilyOptions::new();
    reversed.set_comparator(ReverseBytewiseComparator);
    let db = Db::open(&creating(), dir.path()).unwrap();
    let first = db.create_cf("again", &ColumnFamilyOptions::new()).unwrap();
    first.put("a", "first").unwrap();
    first.put("b", "first").unwrap();
    first.flush().unwrap();
    db.drop_cf(&first).unwrap();
    let second = db.create_cf("again", &reversed).unwrap();
    second.put("a", "second").unwrap();
    second.put("b", "second").unwrap();
    second.flush().unwrap();
    db.close().unwrap();
    drop((first, second, db));
    let mut builder = Db::builder(&creating());
    builder.column_family(ColumnFamilyDescriptor::new("again", reversed));
    let db = builder.open(dir.path()).unwrap();
    let family = db.cf_handle("again").unwrap();
    let keys = family.iterator(IteratorMode::Start);
    let keys: Vec<_> = keys.map(|entry| entry.unwrap().0.to_vec()).collect();
    assert_eq!(keys, [b"b", b"a"]);
}
