//! Bugs that were found by reading and by use: each leaves the test that would have found it.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as Memory};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use koeldb::fs::{
    FaultAction, FaultFileSystem, FaultRule, Operation, PosixFileSystem, Purpose, SystemClock,
};
use koeldb::{
    CompactRangeOptions, Comparator, Db, Decision, Env, ErrorDetail, ErrorKind, Event,
    FlushOptions, IteratorMode, Options, Severity, WriteBatch,
};

use crate::scratch::ScratchDir;

/// How long anything may take; what takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn creating() -> Options {
    let mut options = Options::new();
    options
        .create_if_missing(true)
        .create_missing_column_families(true);
    options
}

/// Runs `work` beside the test, and gives its result if it comes in time.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    std::thread::spawn(move || done.send(work()));
    result
        .recv_timeout(LIMIT)
        .unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Waits until `condition` holds.
fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A place where one thread waits until another lets it go on.
struct Gate {
    reached: Mutex<Sender<()>>,
    opened: Mutex<Receiver<()>>,
}

/// The gate, what is told when somebody stands before it, and what opens it.
fn gate() -> (Arc<Gate>, Receiver<()>, Sender<()>) {
    let (reached, stands_there) = channel();
    let (open, opened) = channel();
    let gate = Gate {
        reached: Mutex::new(reached),
        opened: Mutex::new(opened),
    };
    (Arc::new(gate), stands_there, open)
}

impl Gate {
    fn pass(&self) {
        let _ = self.reached.lock().unwrap().send(());
        let _ = self.opened.lock().unwrap().recv_timeout(LIMIT);
    }
}

fn without_waiting() -> FlushOptions {
    let mut options = FlushOptions::new();
    options.set_wait(false);
    options
}

fn value(db: &Db, key: &str) -> Option<String> {
    let value = db.get(key).unwrap()?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

fn table_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(name.trim_start_matches('/'))
}

/// A flush synced the closed logs under the leadership that a stalled writer held, who waited for that flush.
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

/// The log behind one whose first record is damaged was replayed, because no sequence number was expected yet.
#[test]
fn a_log_damaged_from_its_first_record_on_leaves_no_hole() {
    for is_dropped in [false, true] {
        let dir = ScratchDir::new();
        let mut options = creating();
        options.set_avoid_flush_during_shutdown(true);
        let (db, [kept, flushed]) = Db::open_cf(&options, dir.path(), ["kept", "flushed"]).unwrap();
        kept.put("first", "").unwrap();
        flushed.put("key", "").unwrap();
        flushed.flush().unwrap();
        kept.put("second", "").unwrap();
        if is_dropped {
            db.drop_cf(&flushed).unwrap();
        }
        drop((db, kept, flushed));
        let logs = dir.all("log");
        assert_eq!(logs.len(), 2, "{logs:?}");
        let mut bytes = std::fs::read(&logs[0]).unwrap();
        bytes[9] ^= 1;
        std::fs::write(&logs[0], bytes).unwrap();
        if is_dropped {
            let (db, [kept]) = Db::open_cf(&options, dir.path(), ["kept"]).unwrap();
            assert!(kept.get("second").unwrap().is_none());
            assert!(db.recovery_report().logs[1].ignored);
        } else {
            // A table has data from behind the damage: no state without a hole is left.
            let error = Db::open_cf(&options, dir.path(), ["kept", "flushed"]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        }
    }
}

/// `compact_files` moved the newest table of level 0 below older ones, which then hid it.
#[test]
fn compacting_the_newest_table_alone_hides_nothing_of_it() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    for value in ["1", "2", "3"] {
        db.put("key", value).unwrap();
        db.flush().unwrap();
    }
    let files = db.live_files();
    let newest = files.iter().max_by_key(|file| file.largest_seqno).unwrap();
    db.default_cf()
        .compact_files(&[PathBuf::from(&newest.name)], 1)
        .unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("3"));
}

/// A deletion that an annihilated pair hid was dropped, and the value below all of them was back.
#[test]
fn a_deletion_behind_a_pair_that_is_gone_stays() {
    for single_deletions in [1, 3] {
        let dir = ScratchDir::new();
        let mut options = creating();
        options.set_disable_auto_compactions(true);
        let db = Db::open(&options, dir.path()).unwrap();
        db.put("key", "1").unwrap();
        db.flush().unwrap();
        let files: Vec<PathBuf> = (db.live_files().into_iter())
            .map(|file| PathBuf::from(file.name))
            .collect();
        db.default_cf().compact_files(&files, 3).unwrap();
        db.delete("key").unwrap();
        db.put("key", "2").unwrap();
        for _ in 0..single_deletions {
            db.single_delete("key").unwrap();
        }
        db.flush().unwrap();
        assert_eq!(value(&db, "key"), None);
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(value(&db, "key"), None);
        assert_eq!(db.live_files().len(), 0);
    }
}

/// A single deletion that a newer value hid was dropped, that value went with the next single deletion, and the value
/// before all of them was back.
#[test]
fn a_single_deletion_stays_until_it_meets_its_own_value() {
    for is_flushed_between in [false, true] {
        let dir = ScratchDir::new();
        let mut options = creating();
        options.set_disable_auto_compactions(true);
        let db = Db::open(&options, dir.path()).unwrap();
        let compact = |output_level| {
            let files = db.live_files().into_iter();
            let newest = files.filter(|file| file.level == 0);
            let names: Vec<PathBuf> = newest.map(|file| PathBuf::from(file.name)).collect();
            db.default_cf().compact_files(&names, output_level).unwrap();
        };
        db.put("key", "1").unwrap();
        db.flush().unwrap();
        compact(3);
        db.single_delete("key").unwrap();
        db.put("key", "2").unwrap();
        if is_flushed_between {
            db.flush().unwrap();
        }
        db.single_delete("key").unwrap();
        db.flush().unwrap();
        assert_eq!(value(&db, "key"), None);
        compact(1);
        assert_eq!(value(&db, "key"), None);
        assert_eq!(db.iterator(IteratorMode::Start).count(), 0);
        // It goes with the value.
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        assert_eq!(db.live_files().len(), 0);
    }
}

/// A background compaction that panicked ran again, and again, and writes went on.
#[test]
fn a_panic_in_a_background_compaction_stops_writes_and_is_not_repeated() {
    let dir = ScratchDir::new();
    let calls = Arc::new(AtomicU64::new(0));
    let (failed, failures) = channel();
    let failed = Mutex::new(failed);
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let counted = Arc::clone(&calls);
    options.set_compaction_filter("panics", move |_, _, _| {
        counted.fetch_add(1, Memory::SeqCst);
        panic!("the filter panics, as the test wants it")
    });
    options.add_event_listener(move |event: &Event<'_>| {
        if let Event::BackgroundError(error) = event {
            let _ = failed.lock().unwrap().send(error.severity());
        }
    });
    let db = Db::open(&options, dir.path()).unwrap();
    for _ in 0..5 {
        db.put("a", "value").unwrap();
        db.put("b", "value").unwrap();
        db.flush().unwrap();
    }
    db.default_cf()
        .set_options([("disable_auto_compactions", "false")])
        .unwrap();
    assert_eq!(failures.recv_timeout(LIMIT).unwrap(), Severity::Fatal);
    let refusals = in_time("what follows a panic", {
        let db = db.clone();
        move || {
            [
                db.put("c", "value"),
                db.flush(),
                db.compact_all(&CompactRangeOptions::new()),
                db.wait_for_compact(None),
                db.resume(),
            ]
        }
    });
    for refusal in refusals {
        let error = refusal.unwrap_err();
        assert_eq!(error.detail(), Some(ErrorDetail::PluginPanicked), "{error}");
    }
    let errors = db.property_int_value("rocksdb.background-errors");
    assert_eq!(errors.unwrap(), Some(1));
    assert_eq!(value(&db, "a").as_deref(), Some("value"), "reads go on");
    assert!(db.close().is_err());
    assert_eq!(calls.load(Memory::SeqCst), 1);
}

/// The flush of a family dropped meanwhile was a failed change of the MANIFEST, and stopped all writes.
#[test]
fn a_family_dropped_during_its_flush_concerns_that_flush_alone() {
    let dir = ScratchDir::new();
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
    family.put("key", "value").unwrap();
    family.flush_opt(&without_waiting()).unwrap();
    // The table is written; the flush makes the log durable before it records it.
    stands_there.recv_timeout(LIMIT).unwrap();
    db.drop_cf(&family).unwrap();
    open.send(()).unwrap();
    db.wait_for_compact(Some(LIMIT)).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("value"));
    drop(family);
    // The table that the flush was writing is nobody's.
    until("the only table is the other family's", || {
        dir.all("sst").len() == 1
    });
}

/// A flush waited for memtables of a dropped family, which nobody flushes any more.
#[test]
fn waiting_for_the_flush_of_a_family_ends_when_it_is_dropped() {
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
    // The only thread for flushes stands still.
    db.put("key", "value").unwrap();
    db.default_cf().flush_opt(&without_waiting()).unwrap();
    stands_there.recv_timeout(LIMIT).unwrap();
    family.put("key", "value").unwrap();
    let waiting = std::thread::spawn({
        let family = family.clone();
        move || in_time("the flush", move || family.flush())
    });
    until("the family's memtable is sealed", || {
        family
            .property_int_value("rocksdb.num-immutable-mem-table")
            .unwrap()
            == Some(1)
    });
    db.drop_cf(&family).unwrap();
    let error = waiting.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ColumnFamilyDropped, "{error}");
    open.send(()).unwrap();
}

/// A close did not wait for a manual compaction, which went on writing to a directory that somebody else had opened.
#[test]
fn a_close_waits_for_calls_that_change_the_directory() {
    let dir = ScratchDir::new();
    let (gate, stands_there, open) = gate();
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let mut filtering = options.clone();
    filtering.set_compaction_filter("stands still", move |_, key, _| {
        if key == b"b" {
            gate.pass();
        }
        Decision::Keep
    });
    let db = Db::open(&filtering, dir.path()).unwrap();
    for value in ["1", "2", "3"] {
        db.put("a", value).unwrap();
        db.put("b", value).unwrap();
        db.flush().unwrap();
    }
    let compaction = std::thread::spawn({
        let db = db.clone();
        move || db.compact_all(&CompactRangeOptions::new())
    });
    stands_there.recv_timeout(LIMIT).unwrap();
    let (closed, closing) = channel();
    std::thread::spawn({
        let db = db.clone();
        move || closed.send(db.close())
    });
    until("the database is closing", || {
        db.get("a")
            .is_err_and(|error| error.kind() == ErrorKind::ShutdownInProgress)
    });
    assert!(closing.recv_timeout(Duration::from_millis(50)).is_err());
    drop(open);
    closing.recv_timeout(LIMIT).unwrap().unwrap();
    let _ = compaction.join().unwrap();
    let db = Db::open(&options, dir.path()).unwrap();
    assert_eq!(value(&db, "a").as_deref(), Some("3"));
    for file in db.live_files() {
        assert!(table_path(dir.path(), &file.name).exists(), "{}", file.name);
    }
}

/// The inputs of a compaction stayed until the next one, because the plan that named them was still there.
#[test]
fn the_inputs_of_a_compaction_go_when_it_ends() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    for value in ["1", "2", "3"] {
        db.put("key", value).unwrap();
        db.flush().unwrap();
    }
    db.compact_all(&CompactRangeOptions::new()).unwrap();
    assert_eq!(db.live_files().len(), 1);
    assert_eq!(dir.all("sst").len(), 1);
}

/// Bytewise, but for the key `boom` while it is armed.
#[derive(Debug)]
struct Panics {
    is_armed: Arc<AtomicBool>,
}

impl Comparator for Panics {
    fn name(&self) -> &'static str {
        "panics.Comparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let is_armed = self.is_armed.load(Memory::SeqCst);
        assert!(
            !(is_armed && (a == b"boom" || b == b"boom")),
            "the comparator panics, as the test wants it"
        );
        a.cmp(b)
    }
}

/// After a comparator panicked in the middle of a batch, the next write made the first part of it visible.
#[test]
fn a_batch_torn_by_a_panic_is_never_seen() {
    let dir = ScratchDir::new();
    let is_armed = Arc::new(AtomicBool::new(false));
    let mut options = creating();
    options.set_comparator(Panics {
        is_armed: Arc::clone(&is_armed),
    });
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("a", "value").unwrap();
    db.put("b", "value").unwrap();
    is_armed.store(true, Memory::SeqCst);
    let mut batch = WriteBatch::new();
    batch.put("part", "").put("boom", "").put("rest", "");
    let error = db.write(&batch).unwrap_err();
    assert_eq!(error.detail(), Some(ErrorDetail::PluginPanicked), "{error}");
    is_armed.store(false, Memory::SeqCst);
    assert_eq!(db.put("c", "").unwrap_err().severity(), Severity::Fatal);
    assert_eq!(value(&db, "part"), None);
    assert_eq!(value(&db, "rest"), None);
    assert!(db.close().is_err());
    drop(db);
    // The log has the whole batch.
    let db = Db::open(&options, dir.path()).unwrap();
    assert!(value(&db, "part").is_some() && value(&db, "rest").is_some());
}

/// A close after a failure did not make the log durable, although the log was healthy.
#[test]
fn a_close_after_a_failed_compaction_still_keeps_what_is_in_the_log() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options
        .set_manual_wal_flush(true)
        .set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    for value in ["1", "2"] {
        db.put("key", value).unwrap();
        db.flush().unwrap();
    }
    let tables: Vec<PathBuf> = db
        .live_files()
        .iter()
        .map(|file| table_path(dir.path(), &file.name))
        .collect();
    drop(db);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("only in the log", "value").unwrap();
    let mut bytes = std::fs::read(&tables[0]).unwrap();
    for byte in &mut bytes[..20] {
        *byte ^= 0x55;
    }
    std::fs::write(&tables[0], bytes).unwrap();
    let error = db.default_cf().compact_files(&tables, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(
        db.put("key", "3").unwrap_err().severity(),
        Severity::Unrecoverable
    );
    let error = db.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    drop(db);
    let db = Db::open(&options, dir.path()).unwrap();
    assert_eq!(value(&db, "only in the log").as_deref(), Some("value"));
}

#[test]
fn a_database_that_has_to_slow_writes_down_opens() {
    let dir = ScratchDir::new();
    let mut options = creating();
    options.set_disable_auto_compactions(true);
    let db = Db::open(&options, dir.path()).unwrap();
    for value in ["1", "2", "3"] {
        db.put("key", value).unwrap();
        db.flush().unwrap();
    }
    drop(db);
    options
        .set_disable_auto_compactions(false)
        .set_level_zero_file_num_compaction_trigger(2)
        .set_level_zero_slowdown_writes_trigger(2);
    let db = Db::open(&options, dir.path()).unwrap();
    db.put("key", "4").unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("4"));
}

#[test]
fn options_may_be_set_by_many_at_once() {
    let dir = ScratchDir::new();
    let db = Db::open(&creating(), dir.path()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..20 {
                    let bytes = (100_000 + thread * 100 + round).to_string();
                    db.default_cf()
                        .set_options([("write_buffer_size", &bytes)])
                        .unwrap();
                }
            });
        }
    });
}

#[test]
fn a_sync_of_the_log_does_not_vouch_for_logs_that_were_given_up() {
    let memory = koeldb::fs::MemoryFileSystem::new();
    let faults = Arc::new(FaultFileSystem::new(Arc::new(memory.clone()), 1));
    let mut options = creating();
    options
        .set_max_bgerror_resume_count(0)
        .set_env(&Env::new(Arc::clone(&faults) as _, Arc::new(SystemClock)));
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "acknowledged").unwrap();
    let failing = FaultRule::fail(koeldb::fs::Failure::NoSpace).on(&[Operation::Append]);
    faults.add_rule(failing.purpose(Purpose::Wal).nth(1));
    let table = FaultRule::fail(koeldb::fs::Failure::NoSpace).on(&[Operation::Append]);
    faults.add_rule(table.purpose(Purpose::Flush));
    assert!(db.put("key", "failed").is_err());
    assert!(db.resume().is_err(), "its tables cannot be written");
    assert!(db.flush_wal(true).is_err());
    faults.clear_rules();
    db.resume().unwrap();
    db.flush_wal(true).unwrap();
    let left = memory.crash_image(koeldb::fs::SurvivalPolicy::Strict, 0);
    options.set_env(&Env::new(Arc::new(left), Arc::new(SystemClock)));
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(value(&db, "key").as_deref(), Some("acknowledged"));
}
